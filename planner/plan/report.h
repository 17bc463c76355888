/* SPDX-License-Identifier: Apache-2.0 */
/* report.h - a plan as JSON, and from JSON. */
#ifndef FAN_PLAN_REPORT_H
#define FAN_PLAN_REPORT_H

#include <jansson.h>
#include <stdbool.h>

#include "eval.h"
#include "plan.h"

/* ---- report.c ---- */

/* A plan as JSON: what a controller installs, and what people ask about it.
 *
 *     {"algorithm", "seed", "feasible_gbps", "bound_gbps", "gap", "proven",
 *      "binding", "jobs": [{"name", "gbps", "servers": [{"name", "share"}]}],
 *      "trees": [{"tree", "job", "server", "share",
 *                 "sums": [{"switch", "fan_in", "route": [NODE]}]}],
 *      "assignments": [{"job", "tree", "worker", "server", "share", "at", "route": [NODE]}],
 *      "loads": {"links": [{"from", "to", "gbps", "background_gbps", "capacity_gbps"}],
 *                "switches": [{"name", ...}], "servers": [{"name", ...}]}}
 *
 * "share" is the part of the job's model that a tree carries; "at" the switch that sums a
 * worker's part of it, or the server.  "proven": `exact` made it, and no plan with as many trees on
 * each server gives more.  Loads leave out what is idle. */

struct fan_plan_about {
	const char *algorithm;
	uint64_t seed;
	double bound_gbps; /* no plan gives more; 0: not known */
	bool proven;	   /* nothing with as many trees on each server gives more */
};

/* A new reference, or NULL without memory. */
json_t *fan_report_json(const struct fan_topo *t, const struct fan_plan *p,
			const struct fan_eval *e, const struct fan_plan_about *r);

/* The part of `bound` that is not reached; 0 if there is no bound. */
double fan_report_gap(double gbps, double bound_gbps);

/* ---- plan_json.c ---- */

/* A plan from the JSON that report.h describes. */

/* Read "trees" and "assignments"; the rest follows from them.  Strict: all that is named is in
 * the topology, and every worker has a flow; what more must hold, fan_eval says.
 * `lenient`, for a plan that was made before something changed: trees of jobs and servers that
 * are gone are left out, and a flow whose worker's place, route or switch is gone has
 * `to` == FAN_NODE_NONE; see fan_replan.
 *
 * FAN_E_CONFIG  with JSON path and cause
 * FAN_E_NOMEM
 * On error `*p` is empty. */
int fan_plan_from_json(struct fan_plan *p, const struct fan_topo *t, const json_t *root,
		       bool lenient, struct fan_why *why);

#endif
