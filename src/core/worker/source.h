/* SPDX-License-Identifier: Apache-2.0 */
/* source.h - where a worker's fragments come from, and where their results go: a rank's operations
 * (op_source.h), or the rounds of an aggregator with a parent (tree_source.h). */
#ifndef FAN_WORKER_SOURCE_H
#define FAN_WORKER_SOURCE_H

#include "core/recovery/window.h"
#include "core/wire/wire.h"

struct fan_out;
struct fan_worker;

enum fan_source_has {
	FAN_SOURCE_NONE,    /* there is no such fragment yet */
	FAN_SOURCE_BLOCKED, /* there is; but it waits for the result of another one */
	FAN_SOURCE_READY,
};

#define FAN_SOURCE_TAKEN (-1)

struct fan_source {
	enum fan_source_has (*has)(struct fan_worker *w, struct fan_wslot *s);

	/* Fill in the contribution of the slot, beyond its job and number.  False: `out` is full.
	 */
	bool (*fill)(struct fan_worker *w, struct fan_wslot *s, struct fan_frag *f,
		     struct fan_out *out);

	/* Take the result of what the slot has sent: FAN_SOURCE_TAKEN, or why `f` is not that one,
	 * enum fan_drop.  `*freed`: slots that were blocked may go now. */
	int (*take)(struct fan_worker *w, uint64_t now_ns, struct fan_wslot *s,
		    const struct fan_frag *f, bool *freed);
};

#endif
