/* SPDX-License-Identifier: Apache-2.0 */
/* awake.h - time that passed while nobody looked.
 *
 * A machine that is suspended, or a process that is stopped, finds all of its timers in the past
 * when it goes on, and would take everybody for silent.  Silence counts only while the one who
 * listens is awake: what a timer is late by is added to the times of last words. */
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
