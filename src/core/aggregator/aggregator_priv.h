/* SPDX-License-Identifier: Apache-2.0 */
/* aggregator_priv.h - what aggregator.c (data path) and control.c (membership) share. */
#ifndef FAN_AGGREGATOR_AGGREGATOR_PRIV_H
#define FAN_AGGREGATOR_AGGREGATOR_PRIV_H

#include "aggregator.h"
#include "core/sum/round_add.h"
#include "core/worker/worker.h"
#include "member.h"

struct fan_aggregator {
	struct fan_aggregator_config cfg;
	struct fan_jobs jobs;
	uint64_t now_ns;      /* of the call that is being handled */
	uint64_t deadline_ns; /* when tick has something to do */
	enum fan_drop last_drop;
	struct fan_aggregator_stats stats;
	uint8_t echoed[FAN_ECHO_MAX]; /* body of every answer to an ECHO, cut to its length */
	uint8_t *uplinks;	      /* one for each job, of uplink_bytes */
	size_t uplink_bytes;
	uint64_t lives;			   /* of uplinks begun so far */
	uint32_t event_first, event_count; /* ring of FAN_EVENTS_MAX */
	struct fan_event events[FAN_EVENTS_MAX];
};

/* Count a drop and say so. */
enum fan_verdict fan_aggregator_drop(struct fan_aggregator *ag, unsigned why);

/* Note an event about `j`; the fields beyond are the caller's.  Never NULL. */
struct fan_event *fan_aggregator_note(struct fan_aggregator *ag, enum fan_event_kind kind,
				      const struct fan_job *j, uint16_t rank);

/* The item of header `h` that has just been written goes to all on the newest route: those on the
 * one before get it, too. */
void fan_aggregator_also(const struct fan_job *j, const struct fan_frag *h, struct fan_out *out);

/* The result of `round` goes to all members. */
void fan_aggregator_result(struct fan_aggregator *ag, struct fan_job *j, struct fan_round *round,
			   struct fan_out *out);

#endif
