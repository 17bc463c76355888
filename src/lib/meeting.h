/* SPDX-License-Identifier: Apache-2.0 */
/* meeting.h - how the ranks of a job that names no switch learn each other's hosts.
 *
 * They meet at the switch inside rank 0 (rendezvous.h) in a job of its own, whose only operations
 * are two small all-reduces: each rank adds its record to a vector that is zero elsewhere, so the
 * sum is everybody's records.  First the hosts; then the port of the aggregator that the first
 * rank of each host has started.  No message but those of any job is needed, and a rank that is
 * missing or dies is noticed as in any job. */
#ifndef FAN_LIB_MEETING_H
#define FAN_LIB_MEETING_H

#include "config.h"
#include "core/base/out.h"
#include "embedded_switch.h"
#include "plan_msg.h"

#define FAN_MEETING_HOSTS_MAX FAN_PARTS_MAX /* with an aggregator; further hosts have none */
#define FAN_MEETING_RECORD    8		    /* 32-bit words a rank: host id, address */

/* What the meeting's job has behind the name of the job. */
#define FAN_MEETING_SUFFIX "#meet"

/* Host ids are equal on processes that have the same kernel, network namespace and user. */
struct fan_host_id {
	uint64_t word[2];
};

/* A host, by its lowest rank. */
struct fan_meeting_host {
	uint16_t first; /* that rank */
	uint16_t ranks;
	fan_peer aggregator; /* inside that rank; port 0: it could not start one */
};

struct fan_meeting {
	unsigned hosts; /* FAN_MEETING_HOSTS_MAX at most, in the order of their first ranks */
	struct fan_meeting_host host[FAN_MEETING_HOSTS_MAX];
};

/* Meet at `at`, the switch inside rank 0, which is the aggregator of the first host.  With more
 * than one host, start another in `*own` if this is the first rank of its host; rank 0 passes
 * its own.  Blocks for about cfg->timeout_ms at most.
 *
 * FAN_OK; or an error of fanin_comm_create, and `why`, `bytes` bytes. */
int fan_meeting_hold(struct fan_meeting *m, const struct fan_config *cfg, const fan_peer *at,
		     struct fan_embedded_switch **own, char *why, size_t bytes);

/* Sort the records of `ranks` ranks, FAN_MEETING_RECORD words each, into hosts. */
void fan_meeting_sort(struct fan_meeting *m, const int32_t *records, unsigned ranks);

/* The record of this process: its host, and its address on the way to `at`. */
void fan_meeting_record(int32_t record[FAN_MEETING_RECORD], const fan_peer *at);

#endif
