/* SPDX-License-Identifier: Apache-2.0 */
/* flow.h - a scenario by flows in place of packets, for networks of thousands of hosts.
 *
 * A job reduces bucket after bucket, at one rate on all links that its gradients pass: sums are
 * passed on as they come.  Rates are max-min fair: those of all jobs grow together until a link is
 * full or a window is what holds them back, and what is left goes to the others.  A bucket takes
 * its bytes by the rate, and the latency of the longest path there and back.  Nothing is lost, and
 * slots suffice. */
#ifndef FAN_SIM_FLOW_H
#define FAN_SIM_FLOW_H

#include <jansson.h>

#include "scenario.h"

/* Does the scenario ask for nothing that flows do not have?  0, or -1 with r->why. */
int fan_flow_check(const struct fan_scenario *s, struct fan_reader *r);

/* What came of it, by the keys of fan_experiment_result; NULL: out of memory. */
json_t *fan_flow_run(const struct fan_scenario *s);

#endif
