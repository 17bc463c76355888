/* SPDX-License-Identifier: Apache-2.0 */
/* doctor.h - what the files of `fanin doctor` share: findings and measurements.
 *
 *     doctor.c           flags, the order of the checks; python/fanin/operate/forecast prints
 *     doctor_finding.c   findings, and what is measured, as lines of JSON
 *     doctor_local.c     this machine: cores, clock, buffers, offloads, memory
 *     doctor_path.c      the path to the switch: answer, version, loss, bursts, shards
 *     doctor_mtu.c       the packet sizes that pass to the switch and back
 *     doctor_sum.c       a job of two ranks that tries sums and multicast
 *     doctor_echo.c      trains and streams of ECHOs
 *     doctor_group.c     the doctors of all ranks of a job meet
 *     doctor_links.c     the rates of streams between hosts, and to switches
 *     doctor_job.c       the job of all ranks: who sums, and how long all-reduces take
 *     doctor_judge.c     the judgement of figures; no I/O
 *     info.c             `fanin info`: what can be told without sending anything
 *     info_judge.c       of that: what would sum */
#ifndef FAN_CMD_DOCTOR_DOCTOR_H
#define FAN_CMD_DOCTOR_DOCTOR_H

#include <jansson.h>

#include "cmd/args.h"
#include "core/wire/ctlmsg.h"
#include "doctor_judge.h"
#include "lib/base/config.h"
#include "lib/comm/meeting.h"
#include "net/udp.h"

#define DOCTOR_FINDINGS_MAX  64
#define DOCTOR_ADDRESS_BYTES 80
#define DOCTOR_DEVICE_BYTES  16
#define DOCTOR_SWITCHES_MAX  FAN_SHARDS_MAX

struct doctor_args {
	char sw[ARGS_TEXT_BYTES];   /* empty: FANIN_SWITCH, [worker] or none */
	char json[ARGS_TEXT_BYTES]; /* empty: none */
	int mtu;		    /* 0: the worker's */
	int count;		    /* ECHOs of a train */
	int timeout_s;		    /* of the whole run, once all ranks have met */
	uint64_t bytes;		    /* of the tensor of the forecast */
	bool no_join, settings;
};

/* The doctors of all ranks of a job, which meet as its ranks do.  All take the same steps; what one
 * measures, all learn by an all-reduce. */
struct doctor_group {
	bool wanted; /* the environment has this rank and the number of ranks */
	bool met;    /* all ranks have met, and none is lost */
	bool first;  /* this is the first rank of its host */
	unsigned host;
	struct fan_meeting meeting;
	struct fanin_comm *comm; /* NULL: none */
	struct fan_embedded_switch *sw;
};

struct doctor {
	struct doctor_args args;
	struct fan_config cfg; /* as a worker that starts here reads it */
	struct doctor_finding finding[DOCTOR_FINDINGS_MAX];
	unsigned count, sent;
	uint64_t deadline_ns; /* of the whole run */

	/* The switch; from `who` on only if it answers: no_path is NULL. */
	bool resolved; /* `sw` and `at` hold its address */
	bool lossy;
	const char *no_path; /* why no packet is sent to the switch; NULL: packets are sent */
	fan_peer sw;
	char at[DOCTOR_ADDRESS_BYTES];
	char device[DOCTOR_DEVICE_BYTES]; /* interface towards the switch; empty: not known */
	struct fan_echoed who;
	uint64_t rto_ns; /* time to wait for an answer */
	int mtu;	 /* largest that works for workers; 0: none */
	int path_mtu;	 /* of the largest packet tried that passes; 0: none */
	uint64_t rtt_ns; /* median of small packets; 0: not known */

	/* From the doctors of other ranks. */
	struct doctor_group group;
	fan_peer named[DOCTOR_SWITCHES_MAX];
	unsigned named_count;
	bool inside;		/* `sw` is embedded in another rank */
	struct fanin_comm *job; /* job of all ranks; NULL: not open */
};

/* Add a finding of status `s` with its text.  Never NULL. */
struct doctor_finding *doctor_find(struct doctor *d, const char *name, enum doctor_status s,
				   const char *format, ...) __attribute__((format(printf, 4, 5)));

/* Add a remedy, with its command. */
void doctor_advise(struct doctor_finding *f, const char *format, ...)
	__attribute__((format(printf, 2, 3)));

/* Add a figure for JSON; takes the reference. */
void doctor_value(struct doctor_finding *f, const char *key, json_t *value);

/* Print the line {KIND: value}; takes the reference. */
void doctor_line(const char *kind, json_t *value);

/* Print the findings that are new. */
void doctor_flush(struct doctor *d);

/* The checks.  Each adds one finding or a few; those of the path add skips if the switch cannot be
 * asked. */
void doctor_check_cores(struct doctor *d);
void doctor_check_clock(struct doctor *d);
void doctor_check_buffers(struct doctor *d);
void doctor_check_offload(struct doctor *d);
void doctor_check_memory(struct doctor *d);
void doctor_check_library(struct doctor *d);

void doctor_check_switch(struct doctor *d);
void doctor_check_version(struct doctor *d);
void doctor_check_rtt(struct doctor *d);
void doctor_check_mtu(struct doctor *d);
void doctor_check_redirects(struct doctor *d); /* a finding only if something is wrong */
void doctor_check_fragments(struct doctor *d);
void doctor_check_burst(struct doctor *d);
void doctor_check_shards(struct doctor *d);

void doctor_check_sum(struct doctor *d);

/* Print what all ranks measure together: without other ranks nothing but, of links, the rates to
 * named switches. */
void doctor_measure_links(struct doctor *d);
void doctor_measure_summing(struct doctor *d);
void doctor_measure_allreduce(struct doctor *d);

/* Write the switch's address without its port to `host`, DOCTOR_ADDRESS_BYTES. */
const char *doctor_host(const struct doctor *d, char *host, size_t bytes);

/* True if the switch cannot be asked; adds a skip for the check `name`. */
bool doctor_skips(struct doctor *d, const char *name);

/* A number below /proc/sys/net, such as "core/rmem_max"; -1: it cannot be read. */
long doctor_sysctl(const char *name);

/* ---- doctor_group.c ---- */

/* Do the configuration and the options say that there are other ranks? */
void doctor_group_init(struct doctor *d);

/* Wait for the other ranks.  Adds one finding, or none if there are no others. */
void doctor_group_meet(struct doctor *d);

/* Print whether they have met, and are still together. */
void doctor_group_line(const struct doctor *d);

/* All-reduce the words in place, by sum.  False: a rank is lost, which is a finding. */
bool doctor_group_add(struct doctor *d, int32_t *words, unsigned count);

/* Wait for all ranks, then leave. */
void doctor_group_leave(struct doctor *d);

#endif
