/* SPDX-License-Identifier: Apache-2.0 */
/* plan_json.h - plans to and from JSON. */
#ifndef FAN_PLAN_PLAN_JSON_H
#define FAN_PLAN_PLAN_JSON_H

#include <jansson.h>
#include <stdbool.h>

#include "eval.h"
#include "plan.h"

/* A plan as JSON: what a controller installs, and what people want to know of it.
 *
 *     {"algorithm", "seed", "feasible_gbps", "gradients_gbps", "with_results_gbps", "bound_gbps",
 *      "gap", "proven", "binding", "jobs": [{"name", "gbps", "servers": [{"name", "share"}]}],
 *      "trees": [{"tree", "job", "server", "share",
 *                 "sums": [{"switch", "fan_in", "route": [NODE]}]}],
 *      "assignments": [{"job", "tree", "worker", "server", "share", "at", "route": [NODE]}],
 *      "loads": {"links": [{"from", "to", "gbps", "background_gbps", "capacity_gbps"}],
 *                "switches": [{"name", ...}], "servers": [], "workers": []}}
 *
 * "share" is the part of the job's model that a tree carries; "at" is the switch that sums a
 * worker's part of it, or the server.  "proven": `exact` made it, and no plan with as many trees on
 * each server has a higher rate.  "feasible_gbps" is the one of the two rates behind it that the
 * topology's `results` asks for, as in fan_eval.  "loads" leaves out what is idle. */

struct fan_plan_about {
	const char *algorithm;
	uint64_t seed;
	double bound_gbps; /* no plan has a higher rate; 0: unknown */
	bool proven;	   /* no plan with as many trees on each server has a higher rate */
};

/* The plan as JSON: a new reference, or NULL if memory is exhausted. */
json_t *fan_report_json(const struct fan_topo *t, const struct fan_plan *p,
			const struct fan_eval *e, const struct fan_plan_about *r);

/* Read a plan from "trees" and "assignments" of that JSON; the rest follows from them.  All nodes
 * and jobs must be in the topology, and every worker must have a flow; fan_eval checks the rest.
 * `lenient`, for a plan from before a change: trees of jobs and servers that are gone are left out,
 * and a flow whose worker's place, route or switch is gone has `to` == FAN_NODE_NONE; see
 * fan_replan.
 *
 * FAN_E_CONFIG  `why` has JSON path and cause
 * FAN_E_NOMEM
 * On error `*p` is empty. */
int fan_plan_from_json(struct fan_plan *p, const struct fan_topo *t, const json_t *root,
		       bool lenient, struct fan_why *why);

#endif
