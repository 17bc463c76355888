/* SPDX-License-Identifier: Apache-2.0 */
/* plan_json.h - a plan from the JSON that report.h describes. */
#ifndef FAN_PLAN_PLAN_JSON_H
#define FAN_PLAN_PLAN_JSON_H

#include <jansson.h>
#include <stdbool.h>

#include "plan.h"

/* Read "trees" and "assignments"; the rest follows from them.  Strict: all that is named is in
 * the topology, and every worker has a flow; what more must hold, fan_eval says.
 * `lenient`, for a plan that was made before something changed: trees of jobs and servers that
 * are gone are left out, and a flow whose worker's place, route or switch is gone has
 * `to` == FAN_NODE_NONE; see replan.h.
 *
 * FAN_E_CONFIG  with JSON path and cause
 * FAN_E_NOMEM
 * On error `*p` is empty. */
int fan_plan_from_json(struct fan_plan *p, const struct fan_topo *t, const json_t *root,
		       bool lenient, struct fan_why *why);

#endif
