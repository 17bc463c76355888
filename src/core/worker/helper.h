/* SPDX-License-Identifier: Apache-2.0 */
/* helper.h - a worker that keeps sums for slow ranks: helper_cache.h. */
#ifndef FAN_WORKER_HELPER_H
#define FAN_WORKER_HELPER_H

#include "worker_priv.h"

/* A DATA, PROBE or FLUSH for the helper: something to keep for others, or about that. */
enum fan_verdict fan_helper_recv(struct fan_worker *w, uint64_t now_ns, const struct fan_frag *f);

/* Is there something of others to send?  Send it; true if `out` ran full. */
bool fan_helper_is_due(const struct fan_worker *w);
bool fan_helper_send(struct fan_worker *w, struct fan_out *out);

#endif
