/* SPDX-License-Identifier: Apache-2.0 */
/* plan.h - what the files of fanin-planner share: a request for plans. */
#ifndef FAN_CMD_PLAN_H
#define FAN_CMD_PLAN_H

#include <jansson.h>

#include "plan/algorithm.h"
#include "plan/install.h"

struct plan_request {
	const json_t *root;
	const struct fan_algorithm *algorithm; /* of "options" */
	struct fan_plan_options options;
	struct fan_install_options install;
	struct fan_topo t;
	struct fan_plan p; /* of the request, or being made */
	struct fan_why why;
	bool is_of_plan; /* `why` is about a plan in the request, not the topology */
};

/* Make a plan with each of "algorithms", and the installation of the last: an answer, as
 * plan_serve.c has it.  NULL: an error, in `*err` or `r->why`. */
json_t *plan_by_all(struct plan_request *r, int *err);

/* Answer requests, a line each, from standard input to standard output until its end.  Returns the
 * exit status. */
int plan_serve(void);

#endif
