/* SPDX-License-Identifier: Apache-2.0 */
/* round.h - from volumes to whole flows: each worker picks one place at random. */
#ifndef FAN_PLAN_ROUND_H
#define FAN_PLAN_ROUND_H

#include "core/base/rng.h"
#include "plan.h"
#include "relax.h"

/* One rounding: for every server each worker picks a switch, or the server, with the
 * probability that its volume has there, and a route of that place likewise; sums pick
 * their routes.  Shares are those of `split` (by job and server, r->servers apart); trees
 * are fitted.
 * FAN_E_NOMEM: `*p` is empty. */
int fan_round(struct fan_plan *p, const struct fan_relax *r, const double *split,
	      struct fan_rng *rng);

/* The best of `times` roundings, as fan_eval has it.  `improve`, unless NULL, may change each
 * before it is judged.  FAN_E_STALLED: none was feasible at all. */
int fan_round_best(struct fan_plan *p, const struct fan_relax *r, const double *split,
		   struct fan_rng *rng, uint32_t times,
		   int (*improve)(const struct fan_topo *t, struct fan_plan *p));

#endif
