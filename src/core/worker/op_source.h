/* SPDX-License-Identifier: Apache-2.0 */
/* op_source.h - the operations of a rank as source of its fragments and destination of results. */
#ifndef FAN_WORKER_OP_SOURCE_H
#define FAN_WORKER_OP_SOURCE_H

#include "source.h"

struct fan_stream_op;

extern const struct fan_source fan_op_source;

/* The operation that was opened last, which is still in flight. */
const struct fan_stream_op *fan_op_source_last(const struct fan_worker *w);

/* Is this rank the root of the operation that the slot is at? */
bool fan_op_source_is_root(struct fan_worker *w, struct fan_wslot *s);

/* Add the time since the last turn to `*spent`, busy or idle time, of which priorities are made. */
void fan_op_source_turn(struct fan_worker *w, uint64_t now_ns, uint64_t *spent);

#endif
