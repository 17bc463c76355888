/* SPDX-License-Identifier: Apache-2.0 */
/* observer.h - looks at ranks that run ahead of each other: how far each is behind the
 * furthest of its job, and who keeps sums for whom. */
#ifndef FAN_SIM_OBSERVER_H
#define FAN_SIM_OBSERVER_H

#include "world.h"

struct fan_experiment;

struct fan_observer {
	struct fan_experiment *experiment;
	uint64_t next_ns, interval_ns;
	uint32_t actor;
};

/* After the last job; does nothing if none has "ahead".  False: out of memory. */
bool fan_observer_begin(struct fan_observer *o, struct fan_experiment *e, uint64_t interval_ns);

#endif
