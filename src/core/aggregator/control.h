/* SPDX-License-Identifier: Apache-2.0 */
/* control.h - the aggregator's control messages, group tests and health checks. */
#ifndef FAN_AGGREGATOR_CONTROL_H
#define FAN_AGGREGATOR_CONTROL_H

#include "aggregator_priv.h"

/* End a job and tell its members. */
void fan_control_fail(struct fan_aggregator *ag, struct fan_job *j,
		      const struct fan_job_fault *fault, struct fan_out *out);

/* Control messages. */
enum fan_verdict fan_control_recv(struct fan_aggregator *ag, uint64_t now_ns, const fan_peer *from,
				  const struct fan_frag *f, struct fan_out *out);

/* Fill in what every answer to an ECHO says; all else of it is zero. */
void fan_control_prepare_echo(struct fan_aggregator *ag);

/* The job may begin: its parent, if there is one, permitting. */
void fan_control_all_ready(struct fan_aggregator *ag, struct fan_job *j, bool multicast,
			   struct fan_out *out);

/* The parent's word has come, or there is no parent. */
void fan_control_become_ready(struct fan_aggregator *ag, struct fan_job *j, struct fan_out *out);

/* Nobody is in the job any more. */
void fan_control_remove(struct fan_aggregator *ag, struct fan_job *j);

/* A member missed a multicast result: turn the group off if many do.  Called for each
 * replay and, with rank FAN_RANK_NONE, for each result. */
void fan_control_group_health(struct fan_aggregator *ag, struct fan_job *j, uint16_t rank);

#endif
