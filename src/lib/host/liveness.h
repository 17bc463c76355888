/* SPDX-License-Identifier: Apache-2.0 */
/* liveness.h - which ranks of a host have ended, told by the kernel.
 *
 * Each rank holds a lock (fcntl) on one byte of the memory that they share, the one of its number.
 * The kernel takes it away when the process ends, however it does; a stopped one keeps it.  It
 * works between containers, whose process ids are not each other's, and a child of fork() does not
 * inherit it.  But the ranks of one process have all of its locks in common, and lose them with the
 * first that closes the memory: of those nothing is said, nor of ranks without a lock.  Then only
 * beats tell. */
#ifndef FAN_LIB_HOST_LIVENESS_H
#define FAN_LIB_HOST_LIVENESS_H

#include "segment.h"

/* Hold the lock of number `me`, by the descriptor of `s`, until that is closed. */
void fan_host_hold(struct fan_host_segment *s, int fd, unsigned me);

/* Number `i` has the segment: fan_host_hold was called for it. */
bool fan_host_is_known(const struct fan_host_segment *s, unsigned i);

/* Number `me` lives; it says so to whoever has asked. */
void fan_host_beat(struct fan_host_segment *s, unsigned me);

/* One of those in `missing` still joins its column.  If that fails it tells why. */
bool fan_host_one_joins(const struct fan_host_segment *s, const bool *missing);

/* Number `i` held its lock, and has ended.  If it left before, it has told so by its beat first. */
bool fan_host_has_ended(const struct fan_host_segment *s, int fd, unsigned i);

/* The last word of a rank, as another one has heard it; all zero at first. */
struct fan_host_last_word {
	uint64_t beats; /* as in the segment */
	/* When that was seen first, by the other one's clock, less the time that it slept since; 0:
	 * not all have been given the memory. */
	uint64_t at_ns;
};

/* Hear number `i`.  The rank that hears has just slept for `late_ns`, in which it heard nobody. */
void fan_host_receive(struct fan_host_last_word *h, const struct fan_host_segment *s, unsigned i,
		      uint64_t late_ns, uint64_t now_ns);

#endif
