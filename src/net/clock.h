/* SPDX-License-Identifier: Apache-2.0 */
/* clock.h - the real clock and real randomness, for callers of the core. */
#ifndef FAN_CLOCK_H
#define FAN_CLOCK_H

#include <stdbool.h>
#include <stdint.h>

/* CLOCK_MONOTONIC in nanoseconds. */
uint64_t fan_clock_ns(void);

/* A random number that is not 0, from the kernel: others cannot guess it.  0: the kernel gives
 * none; the caller must then do without what needs a secret. */
uint64_t fan_clock_nonce(void);

/* Milliseconds from now until `deadline_ns` for epoll: rounded up, at least 0; -1 for
 * UINT64_MAX; at most `cap_ms` unless that is negative. */
int fan_clock_timeout_ms(uint64_t deadline_ns, int cap_ms);

#endif
