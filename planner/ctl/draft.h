/* SPDX-License-Identifier: Apache-2.0 */
/* draft.h - a plan for some of the controller's jobs on what is up, and what would be installed
 * for it.  Nothing of the controller changes by it. */
#ifndef FAN_CTL_DRAFT_H
#define FAN_CTL_DRAFT_H

#include "ctl_priv.h"
#include "plan/eval.h"

struct ctl_draft {
	struct fan_ctl *c;
	const bool *wanted; /* by job */
	bool all_up;	    /* as if all nodes and links were there, and nobody used them */
	struct fan_topo t;
	uint32_t *map;	  /* the topology's nodes to ours */
	uint32_t *job_of; /* the topology's jobs to ours */
	struct fan_plan p;
	struct fan_eval e;
	struct fan_install in;
	struct fan_why why;
};

/* Plan the `wanted` jobs on what is up.  FAN_OK; or an error, with `d->why`.  It is to be freed in
 * any case. */
int ctl_draft_make(struct ctl_draft *d, struct fan_ctl *c, const bool *wanted);

/* Make a draft of `plan`, as fan_report_json writes it, which must fit; `all_up`: fit it to a
 * network without failures and other traffic. */
int ctl_draft_read(struct ctl_draft *d, struct fan_ctl *c, const bool *wanted, bool all_up,
		   const json_t *plan);
void ctl_draft_free(struct ctl_draft *d);

/* Are the parts of its topology's job `jt` those that its workers have? */
bool ctl_draft_fits_parts(const struct ctl_draft *d, uint32_t jt);

/* Are they as many as workers have from an earlier controller? */
bool ctl_draft_restores(const struct ctl_draft *d, uint32_t jt);

/* Append a job's trees to those of a plan, numbered on. */
void ctl_add_trees(json_t *trees, json_t *assignments, const struct ctl_job *j);

#endif
