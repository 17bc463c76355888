/* SPDX-License-Identifier: Apache-2.0 */
/* draft.h - a plan for some of the controller's jobs on the nodes that are up, and its
 * installation.  Making one does not change the controller. */
#ifndef FAN_CTL_DRAFT_H
#define FAN_CTL_DRAFT_H

#include "ctl_priv.h"
#include "plan/eval.h"

struct ctl_draft {
	struct fan_ctl *c;
	const bool *wanted; /* by job */
	bool all_up;	    /* plan as if all nodes and links were up and unloaded */
	struct fan_topo t;
	uint32_t *map;	  /* the controller's node by node of `t` */
	uint32_t *job_of; /* the controller's job by job of `t` */
	struct fan_plan p;
	struct fan_eval e;
	struct fan_install in;
	struct fan_why why;
};

/* Plan the `wanted` jobs on what is up.  Returns FAN_OK, or an error with `d->why`.  The caller
 * frees the draft in both cases. */
int ctl_draft_make(struct ctl_draft *d, struct fan_ctl *c, const bool *wanted);

/* Make a draft of `plan`, which is in the format of fan_report_json and must fit the network;
 * `all_up`: the network without failures and other traffic. */
int ctl_draft_read(struct ctl_draft *d, struct fan_ctl *c, const bool *wanted, bool all_up,
		   const json_t *plan);
void ctl_draft_free(struct ctl_draft *d);

/* Are the parts of job `jt` of `t` those that its workers have? */
bool ctl_draft_fits_parts(const struct ctl_draft *d, uint32_t jt);

/* Has job `jt` of `t` as many parts as its workers have from an earlier controller? */
bool ctl_draft_restores(const struct ctl_draft *d, uint32_t jt);

/* Append a job's trees to those of a plan, with the next numbers. */
void ctl_add_trees(json_t *trees, json_t *assignments, const struct ctl_job *j);

#endif
