/* SPDX-License-Identifier: Apache-2.0 */
/* control.h - an aggregator's control messages, group tests and health checks. */
#ifndef FAN_AGGREGATOR_CONTROL_H
#define FAN_AGGREGATOR_CONTROL_H

#include "aggregator_priv.h"

/* Fail a job, and send its members the cause. */
void fan_control_fail(struct fan_aggregator *ag, struct fan_job *j,
		      const struct fan_job_fault *fault, struct fan_out *out);

/* Handle a control message. */
enum fan_verdict fan_control_recv(struct fan_aggregator *ag, uint64_t now_ns, const fan_peer *from,
				  const struct fan_frag *f, struct fan_out *out);

/* The job is ready at the parent, or there is no parent. */
void fan_control_become_ready(struct fan_aggregator *ag, struct fan_job *j);

/* A member that comes by another path, with `join`, learns why its job has ended. */
void fan_control_send_failed(const struct fan_job *j, const fan_peer *to,
			     const struct fan_frag *join, struct fan_out *out);

/* Remove a job without members. */
void fan_control_remove(struct fan_aggregator *ag, struct fan_job *j);

#endif
