/* SPDX-License-Identifier: Apache-2.0 */
/* run_ahead.h - a plug of the switch: what it does for jobs whose ranks run ahead of each other, as
 * SA-ATP has it (core/helper).  A job that does not knows nothing else of it. */
#ifndef FAN_SWITCH_RUN_AHEAD_H
#define FAN_SWITCH_RUN_AHEAD_H

#include "core/wire/ctlmsg.h"

struct fan_switch;
struct fan_switch_job;
struct fan_child;

struct fan_run_ahead_calls {
	size_t job_bytes;   /* of the state of a job; all 0 when the job begins */
	size_t child_bytes; /* of the state of a child */

	/* Note the flags of the last BEAT of child `c` of the job: its ranks may run ahead, and
	 * this one may be a helper. */
	void (*beat)(struct fan_switch *sw, struct fan_switch_job *j, const struct fan_child *c);

	/* Child `c` of the job has left; and: the job is over. */
	void (*left)(struct fan_switch_job *j, const struct fan_child *c);
	void (*end)(struct fan_switch *sw, struct fan_switch_job *j);

	/* Child `now` is the rank that child `before` was, counted from 1; 0: that nobody was. */
	void (*take)(struct fan_switch *sw, uint16_t before, uint16_t now);

	/* By rank of the job: its deferred contributions that were given to helper `rank`; NULL:
	 * that rank is not below. */
	const uint32_t *(*row)(const struct fan_switch *sw, const struct fan_switch_job *j,
			       uint16_t rank);

	/* Does the job run ahead?  Then: how rank `rank` stands, and how far it is behind the
	 * furthest. */
	bool (*standing)(const struct fan_switch *sw, const struct fan_switch_job *j, uint16_t rank,
			 struct fan_standing *s, uint64_t *behind);

	/* Fill in the statistics of ranks from m->first on, if the job does. */
	void (*rank_stats)(const struct fan_switch *sw, const struct fan_switch_job *j,
			   struct fan_rank_stats *m);
};

/* Defined by core/helper/policy_sa_atp.c. */
extern const struct fan_run_ahead_calls fan_run_ahead;

#endif
