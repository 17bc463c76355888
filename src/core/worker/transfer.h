/* SPDX-License-Identifier: Apache-2.0 */
/* transfer.h - a worker's fragments in flight: what is sent, and what a result tells. */
#ifndef FAN_WORKER_TRANSFER_H
#define FAN_WORKER_TRANSFER_H

#include "worker_priv.h"

/* Handle a RESULT, or a NEED, for this worker's job. */
enum fan_verdict fan_transfer_result(struct fan_worker *w, uint64_t now_ns,
				     const struct fan_frag *f);

/* Handle a RESULT that was sent to another rank. */
enum fan_verdict fan_transfer_supply(struct fan_worker *w, uint64_t now_ns, struct fan_frag *f);

enum fan_verdict fan_transfer_need(struct fan_worker *w, uint64_t now_ns, const struct fan_frag *f);

/* Write all that the window allows.  True if `out` ran full. */
bool fan_transfer_send(struct fan_worker *w, uint64_t now_ns, struct fan_out *out);

/* The window has been opened: fragments of operations that were started before may be sent. */
void fan_transfer_begin(struct fan_worker *w);

/* The round of `frag` is ready to be sent. */
void fan_transfer_offered(struct fan_worker *w, uint64_t frag);

/* Operation number w->next_op - 1 has just been opened: its first fragments may be sent. */
void fan_transfer_opened(struct fan_worker *w);

#endif
