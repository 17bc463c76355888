/* SPDX-License-Identifier: Apache-2.0 */
/* priority.h - the priority of a fragment, for slot policies that use it.
 *
 * The caller may choose the function.  The default follows ESA (arXiv 2201.06398): high
 * for jobs that have little left to send, that wait for the network more than they
 * compute, and for the first layers, which the next iteration needs first. */
#ifndef FAN_WORKER_PRIORITY_H
#define FAN_WORKER_PRIORITY_H

#include <stdint.h>

/* State of a worker when it sends a fragment. */
struct fan_priority_view {
	uint64_t left_frags; /* of the operations in flight, this fragment included */
	uint64_t sent_frags; /* in the job's life: its share of service */
	uint64_t busy_ns;    /* recent time with operations in flight */
	uint64_t idle_ns;    /* recent time without */
	uint32_t layer;	     /* of the operation, 1 the first; 0: not known */
};

/* 0 lowest, 255 highest.  `arg` is the caller's. */
typedef uint8_t (*fan_priority_fn)(const void *arg, const struct fan_priority_view *v);

/* (busy / idle) / (left x layer), as a logarithm in 1 .. 255; a doubling is 8.  Before any idle
 * time, busy / idle counts as 1. */
uint8_t fan_priority_default(const void *arg, const struct fan_priority_view *v);

#endif
