/* SPDX-License-Identifier: Apache-2.0 */
/* algorithm_either.c - the better of two plans: nobody sums, or switches do while they can.
 *
 * An example of a planner's algorithm: doc/extend.md.  It leaves a whole plan, or an error and an
 * empty one. */
#include "algorithm.h"
#include "core/base/err.h"
#include "eval.h"

int fan_either(const struct fan_topo *t, const struct fan_plan_options *o, struct fan_plan *p,
	       struct fan_planned *how)
{
	struct fan_plan other;
	int err = fan_geryon(t, o, p, how);

	if (err)
		return err;
	err = fan_atp(t, o, &other, how);
	if (!err && fan_eval_gbps(t, &other) > fan_eval_gbps(t, p)) {
		fan_plan_free(p);
		fan_plan_move(p, &other);
	}
	if (!err)
		fan_plan_free(&other);
	return FAN_OK; /* without the other plan the first one will do */
}
