/* SPDX-License-Identifier: Apache-2.0 */
/* policy_server.h - completing what shared switches could not (ATP, NSDI'21, section 3).
 *
 * A home's rounds take partial sums beside contributions: a partial is added if none of
 * its ranks is in yet.  One that overlaps is dropped, since what is twice in it cannot
 * be taken out again; the ranks that are only in it are asked for their parts.  Whoever
 * is asked sends to the home alone, so that asking always ends. */
#ifndef FAN_POLICY_SERVER_H
#define FAN_POLICY_SERVER_H

#include "partial.h"
#include "policy_switchml.h"

/* Take `f`, the parts `p` of a job of `ranks`.
 *
 * FAN_WAIT, FAN_DONE: added.  FAN_ASK: not added; the ranks in `ask` are missing still.
 * FAN_DROP: DUPLICATE (all were in, or the round is done), STALE, AHEAD.
 * FAN_FAIL: the ranks disagree, as in fan_switchml_data. */
enum fan_verdict fan_server_partial(const struct fan_pool *pool, uint16_t ranks,
				    const struct fan_frag *f, const struct fan_partial *p,
				    struct fan_switchml *r, uint64_t *ask);

#endif
