/* SPDX-License-Identifier: Apache-2.0 */
/* round.h - from volumes to whole flows: each worker picks one place at random. */
#ifndef FAN_PLAN_ROUND_H
#define FAN_PLAN_ROUND_H

#include "algorithm.h"
#include "core/base/rng.h"
#include "relax.h"

/* One rounding: for every server each worker picks a switch, or the server, with the
 * probability that its volume has there, and a route of that place likewise; sums pick
 * their routes.  Shares are those of `split` (by job and server, r->servers apart); trees
 * are fitted.
 * FAN_E_NOMEM: `*p` is empty. */
int fan_round(struct fan_plan *p, const struct fan_relax *r, const double *split,
	      struct fan_rng *rng);

/* Without chance, by conditional expectations.  At first all loads are those of the volumes: what a
 * rounding expects.  Then one worker after the other goes to that of its places where the sum
 * of (expected load / capacity)^16 becomes least.  As fan_round. */
int fan_round_expect(struct fan_plan *p, const struct fan_relax *r, const double *split);

/* By o->rounding: o->roundings drawings, of which the best is kept or all become columns, or the
 * one without chance.  Rates of the drawings, before anything improves them, go into `how`.
 * FAN_E_STALLED: none was feasible at all. */
int fan_round_all(struct fan_plan *p, const struct fan_relax *r, const double *split,
		  struct fan_rng *rng, const struct fan_plan_options *o, struct fan_planned *how);

#endif
