/* SPDX-License-Identifier: Apache-2.0 */
/* lagrange.h - the relaxed program by prices instead of a simplex. */
#ifndef FAN_PLAN_LAGRANGE_H
#define FAN_PLAN_LAGRANGE_H

#include "relax.h"

/* Solve `r` to within half a percent, or as near as FAN_LAGRANGE_ROUNDS allow; `split` as it was
 * opened with.  Leaves volumes in r->lp.x as the simplex does, the rate that they reach in
 * r->gbps, and the least bound that prices gave in r->bound.
 * FAN_E_NOMEM */
int fan_lagrange(struct fan_relax *r, const double *split);

#endif
