/* SPDX-License-Identifier: Apache-2.0 */
/* priority.h - how urgent a fragment is where slots go to the higher priority.
 *
 * The function is the caller's choice.  The default follows ESA (arXiv 2201.06398): high
 * for jobs that have little left to send, that wait for the network more than they
 * compute, and for the first layers, which the next iteration needs first. */
#ifndef FAN_WORKER_PRIORITY_H
#define FAN_WORKER_PRIORITY_H

#include <stdint.h>

/* What a worker knows when it sends a fragment. */
struct fan_priority_view {
	uint64_t left_frags; /* of the operations in flight, this fragment included */
	uint64_t sent_frags; /* in the job's life: the service it has got */
	uint64_t busy_ns;    /* with operations in flight, of late */
	uint64_t idle_ns;    /* without */
	uint32_t layer;	     /* of the operation, 1 the first; 0: not known */
};

/* 0 lowest, 255 highest.  `arg` is the caller's. */
typedef uint8_t (*fan_priority_fn)(const void *arg, const struct fan_priority_view *v);

/* (busy / idle) / (left x layer), as a logarithm in 1 .. 255; a doubling is 8.  With
 * nothing known of the time without operations, busy / idle counts as 1. */
uint8_t fan_priority_default(const void *arg, const struct fan_priority_view *v);

#endif
