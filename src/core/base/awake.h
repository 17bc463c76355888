/* SPDX-License-Identifier: Apache-2.0 */
/* awake.h - time that passed while the process did not run.
 *
 * A machine that is suspended, or a process that is stopped, finds all of its timers in the past
 * when it continues, and would take every peer for silent.  Silence counts only while the listener
 * is awake: the lateness of a timer is added to the times of peers' last packets. */
#ifndef FAN_BASE_AWAKE_H
#define FAN_BASE_AWAKE_H

#include <stdint.h>

/* By how much a timer that was due at `due_ns` is late. */
static inline uint64_t fan_awake_late_ns(uint64_t due_ns, uint64_t now_ns)
{
	return now_ns > due_ns ? now_ns - due_ns : 0;
}

/* `then_ns`, in the past, as if the last `late_ns` had not been. */
static inline uint64_t fan_awake_shift(uint64_t then_ns, uint64_t late_ns, uint64_t now_ns)
{
	return then_ns + late_ns < now_ns ? then_ns + late_ns : now_ns;
}

#endif
