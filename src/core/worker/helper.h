/* SPDX-License-Identifier: Apache-2.0 */
/* helper.h - the helper: a worker that keeps sums for slow ranks, in a helper_cache.h. */
#ifndef FAN_WORKER_HELPER_H
#define FAN_WORKER_HELPER_H

#include "worker_priv.h"

/* Handle a DATA, PARTIAL, PROBE or FLUSH for the helper. */
enum fan_verdict fan_helper_recv(struct fan_worker *w, uint64_t now_ns, const struct fan_frag *f);

/* Is there something of others to send; and send it.  True if `out` ran full. */
bool fan_helper_is_due(const struct fan_worker *w);
bool fan_helper_send(struct fan_worker *w, struct fan_out *out);

#endif
