/* SPDX-License-Identifier: Apache-2.0 */
/* rendezvous.h - how the ranks of a job find each other: the meeting point of a job without a named
 * switch: at rank 0, which starts one, at an address and port that follow from the launcher's
 * variables.
 *
 * torchrun's MASTER_ADDR and MASTER_PORT name a TCP port of rank 0's host; UDP has a port
 * space of its own, so the switch takes the same number.  Slurm and Open MPI name no port:
 * it follows from the job's id. */
#ifndef FAN_LIB_BASE_RENDEZVOUS_H
#define FAN_LIB_BASE_RENDEZVOUS_H

#include <assert.h>
#include <fanin.h>
#include <stdbool.h>
#include <stddef.h>

#include "config.h"
#include "core/base/limits.h"
#include "core/base/out.h"
#include "plan_msg.h"

#define FAN_RENDEZVOUS_PORT  20000 /* first port that a job's id may give */
#define FAN_RENDEZVOUS_PORTS 10000 /* number of such ports, below Linux's ephemeral ones */

struct fan_rendezvous {
	char addr[FAN_CONFIG_SWITCH_MAX + 1]; /* "HOST:PORT", "[V6]:PORT" */
	bool one_host;			      /* every rank is on rank 0's host */
};

/* Read the environment.  FAN_OK; or FAN_E_CONFIG, and `why`, `bytes` bytes, names the variable and
 * what was expected. */
int fan_rendezvous_find(struct fan_rendezvous *r, char *why, size_t bytes);

/* Name the variables in which the first launcher that has set both passes this process its rank and
 * the number of ranks.  False: none has. */
bool fan_rendezvous_ranks(const char **rank, const char **ranks);

/* Write a name for the launcher's job, unique on its switch, to `job`, FAN_NAME_MAX + 1 bytes;
 * `inside`: the switch is inside rank 0, the others may know that host by other names.  Unchanged
 * if the launcher gives no job id. */
void fan_rendezvous_job(char *job, bool inside);

/* The id of this launch of the program for a job of `ranks` ranks (less than 0: not known): a
 * hash of `run`, unless that is "", or of the id that the launcher gives it, if it has started as
 * many. Ranks that meet at this host's loopback address have the host in it.  0: nothing
 * distinguishes launches apart.  Odd: no other launch has it. */
uint64_t fan_rendezvous_launch(const char *run, int ranks);

/* Write `job` and `suffix` to `name`, FAN_NAME_MAX + 1 bytes.  If they do not fit, a hash of `job`
 * replaces its end. */
void fan_rendezvous_derive(char *name, const char *job, const char *suffix);

/* ---- which ranks are on which hosts, as they exchange it (comm/meeting.h) ---- */

#define FAN_MEETING_HOSTS_MAX FAN_PARTS_MAX /* hosts with an aggregator; others have none */
#define FAN_MEETING_WHY_BYTES 80
#define FAN_MEETING_RAILS_MAX 3 /* networks of a host beside that by which ranks meet */

/* Processes with one kernel and network namespace, and the same `user`, have equal host ids. */
struct fan_host_id {
	uint64_t word[2];
};

/* This process's. */
struct fan_host_id fan_host_id_read(uint64_t user);

/* `h` with `bytes` bytes at `data` behind it: FNV-1a, which begins with FAN_HASH_START. */
#define FAN_HASH_START UINT64_C(0xcbf29ce484222325)
uint64_t fan_hash(uint64_t h, const void *data, size_t bytes);

/* Its aggregator by another network of it. */
struct fan_meeting_rail {
	fan_peer at;
	uint32_t mbps; /* rate of its link there; 0: not known */
};

/* A host, by its lowest rank. */
struct fan_meeting_host {
	uint16_t first; /* its lowest rank */
	uint16_t ranks;
	uint16_t misses; /* ranks that do not reach its aggregator, so that it sums nothing */
	uint32_t mbps;	 /* rate of its link; 0: not known (rails.h) */
	uint64_t nonce;	 /* of the job's life there, from that rank */
	/* embedded in that rank; port 0: it could not start one, or some ranks do not reach it */
	fan_peer aggregator;
	struct fan_meeting_rail rail[FAN_MEETING_RAILS_MAX];
};

struct fan_meeting {
	unsigned hosts; /* at most FAN_MEETING_HOSTS_MAX, in the order of their first ranks */
	struct fan_meeting_host host[FAN_MEETING_HOSTS_MAX];
	uint16_t host_of[FAN_RANKS_MAX]; /* of each rank; FAN_MEETING_HOSTS_MAX: a further one */
	unsigned rails; /* of each host's `rail`: by which all ranks reach all aggregators */
	bool further;	/* the first rank of each host knows further addresses of switches */
	bool sums;	/* hosts have aggregators, unless they could start none */
	unsigned may_share, ask_to_share;	/* ranks that may share memory; that ask for it */
	unsigned cannot_share;			/* of these: no rank does, then */
	char cannot_why[FAN_MEETING_WHY_BYTES]; /* of this rank; "": it could */
};

/* Fill in s->idle_hosts and the fields about the first of them. */
static inline void fan_meeting_count_idle(const struct fan_meeting *m, struct fanin_stats *s)
{
	assert(m->hosts <= FAN_MEETING_HOSTS_MAX);
	for (unsigned h = 0; h < m->hosts && m->sums; h++) {
		const struct fan_meeting_host *host = &m->host[h];
		if (!host->aggregator.port && !s->idle_hosts++) {
			s->idle_rank = host->first;
			s->idle_misses = host->misses;
		}
	}
}

/* ---- addresses that a rank is given ---- */

/* FAN_OK; or FAN_E_CONFIG, and `why`, `bytes` bytes, names which of the switches, the server and
 * the controller is no address, or too many or twice there. */
int fan_switch_list_check(const struct fan_config *c, char *why, size_t bytes);

/* The addresses of `text`, "HOST:PORT", at most `max`; of several, that at which all ranks should
 * join comes first, the lowest that answers.  A name that is not known, as a pod's before it
 * starts, is asked for again until the time to join is over; cfg->waiting is called.  FAN_OK; or
 * FAN_E_CONFIG, and `why`, `bytes` bytes, has the cause. */
int fan_resolve_all(fan_peer *to, unsigned max, unsigned *count, const char *text,
		    const struct fan_config *cfg, char *why, size_t bytes);

#endif
