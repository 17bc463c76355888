/* SPDX-License-Identifier: Apache-2.0 */
/* wait.h - the bells of a segment, and how the thread that does a rank's work waits for its own: by
 * yields of its core where those help the ranks that it waits for, otherwise asleep. */
#ifndef FAN_LIB_HOST_WAIT_H
#define FAN_LIB_HOST_WAIT_H

#include "segment.h"

/* Ring a bell of number `i`, or of all but `me`, from any thread. */
void fan_host_ring(struct fan_host_segment *s, unsigned i, enum fan_host_bell_name bell);
void fan_host_ring_others(struct fan_host_segment *s, unsigned me, enum fan_host_bell_name bell);

/* How often this rank's bell has rung; sleep until it has more often than `heard`, `ms` at most. */
uint32_t fan_host_received(const struct fan_host_board *l, enum fan_host_bell_name bell);
void fan_host_sleep(struct fan_host_board *l, enum fan_host_bell_name bell, uint32_t heard, int ms);

/* All zero at first. */
struct fan_host_wait {
	unsigned sleeps;      /* waits to come that do without yields */
	unsigned sleeps_next; /* after the last yields that did not help */
};

/* Until FAN_HOST_WORK of `l` has rung, which it had `heard` times, for `ms` at most. */
void fan_host_wait(struct fan_host_wait *w, struct fan_host_board *l, uint32_t heard, int ms);

/* How long: from `now_ns` until `until_ns`, which is later, but for `look_ms` at most. */
int fan_host_wait_ms(int look_ms, uint64_t now_ns, uint64_t until_ns);

#endif
