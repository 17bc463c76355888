/* SPDX-License-Identifier: Apache-2.0 */
/* transfer.h - a worker's fragments: out of the tensor, and back into it. */
#ifndef FAN_WORKER_TRANSFER_H
#define FAN_WORKER_TRANSFER_H

#include "worker_priv.h"

/* A RESULT, or a NEED, that is for this worker's job. */
enum fan_verdict fan_transfer_result(struct fan_worker *w, uint64_t now_ns,
				     const struct fan_frag *f);

enum fan_verdict fan_transfer_need(struct fan_worker *w, uint64_t now_ns, const struct fan_frag *f);

/* Write what the window allows; true if `out` ran full. */
bool fan_transfer_send(struct fan_worker *w, uint64_t now_ns, struct fan_out *out);

/* The time since the last turn was spent as `spent` says: busy or idle. */
void fan_transfer_turn(struct fan_worker *w, uint64_t now_ns, uint64_t *spent);

/* The window is open: fragments of operations that were started before may go. */
void fan_transfer_begin(struct fan_worker *w);

/* The round of `frag` has something to send. */
void fan_transfer_offered(struct fan_worker *w, uint64_t frag);

/* Operation number w->next_op - 1 has just been opened: its first fragments may go. */
void fan_transfer_opened(struct fan_worker *w);

#endif
