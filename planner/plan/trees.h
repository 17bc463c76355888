/* SPDX-License-Identifier: Apache-2.0 */
/* trees.h - as many trees as it takes: the model is split not over servers alone, but over
 * trees on each of them, so that no fragment is summed by switches that are scarce while
 * others idle.
 *
 * Column generation: a program chooses shares for the trees there are; its prices tell
 * which links, switches and servers are scarce; the cheapest tree at these prices
 * joins them, until none is cheaper than those in use.  The cheapest tree is a facility
 * location problem: which switches to open (each costs a flow to the server), and which
 * worker goes where; solved by adding and dropping. */
#ifndef FAN_PLAN_TREES_H
#define FAN_PLAN_TREES_H

#include "cands.h"
#include "plan.h"

/* Add trees to `*p`, which may have some, and set all shares; those that are added are fitted.
 * Stops at `enough_gbps`, when nothing gets better, after so many rounds, or at the bounds of
 * sizes.h.
 *
 * FAN_E_NOMEM, or as fan_lp_solve; `*p` is whole then. */
int fan_trees_grow(const struct fan_cands *c, struct fan_plan *p, double enough_gbps,
		   uint32_t rounds);

/* Grow trees from nothing and to the end, for `exact`: no plan of trees over these candidates,
 * however many, has a higher rate than `*bound`, as the papers count; 0: that is not known, since
 * there are too many sets of switches, or results count.  Then at most `trees` stay on each server.
 * FAN_E_NOMEM, or as fan_lp_solve; `*p` is whole then. */
int fan_trees_exact(const struct fan_cands *c, struct fan_plan *p, uint32_t trees, double *bound);

#endif
