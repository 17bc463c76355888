/* SPDX-License-Identifier: Apache-2.0 */
/* aggregator_priv.h - the state of an aggregator, for aggregator.c (data path) and control.c
 * (membership). */
#ifndef FAN_AGGREGATOR_AGGREGATOR_PRIV_H
#define FAN_AGGREGATOR_AGGREGATOR_PRIV_H

#include "aggregator.h"
#include "challenge.h"
#include "claim.h"
#include "core/sum/round_add.h"
#include "core/worker/worker.h"
#include "member.h"

struct fan_aggregator {
	struct fan_aggregator_config cfg;
	struct fan_jobs jobs;
	uint64_t now_ns;      /* time of the current call */
	uint64_t deadline_ns; /* of the next tick */
	struct fan_proofs proofs;
	struct fan_strangers strangers;
	struct fan_contested contested[FAN_CONTESTED_MAX];
	uint64_t contested_ns; /* until then some are */
	enum fan_drop last_drop;
	bool drains; /* whose jobs are awaited: */
	struct fan_drain drain;
	uint64_t stop_ns; /* being stopped: its jobs fail then; 0: it is not */
	struct fan_aggregator_stats stats;
	uint8_t echoed[FAN_ECHO_MAX]; /* body of every answer to an ECHO, cut to its length */
	uint16_t behind_loses;	      /* as that answer has it */
	uint8_t *uplinks;	      /* uplink_bytes for each job */
	size_t uplink_bytes;
	uint64_t lives;			   /* uplinks begun so far */
	uint32_t event_first, event_count; /* ring of FAN_EVENTS_MAX */
	struct fan_event events[FAN_EVENTS_MAX];
};

/* Count a drop.  Returns FAN_DROP. */
enum fan_verdict fan_aggregator_drop(struct fan_aggregator *ag, unsigned why);

/* Append an event of `j`; the caller fills in the other fields.  Never NULL. */
struct fan_event *fan_aggregator_note(struct fan_aggregator *ag, enum fan_event_kind kind,
				      const struct fan_job *j, uint16_t rank);

/* The item of header `h` that was just written goes to all members on the newest route: send it to
 * those on the previous route as well. */
void fan_aggregator_also(const struct fan_job *j, const struct fan_frag *h, struct fan_out *out);

#endif
