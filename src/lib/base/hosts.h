/* SPDX-License-Identifier: Apache-2.0 */
/* hosts.h - which ranks of a job are on which hosts, as they have told each other (comm/meeting.h).
 */
#ifndef FAN_LIB_BASE_HOSTS_H
#define FAN_LIB_BASE_HOSTS_H

#include <assert.h>
#include <fanin.h>
#include <stdbool.h>

#include "core/base/limits.h"
#include "plan_msg.h"

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

/* Fill in s->idle_hosts and what is told about the first of them. */
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

#endif
