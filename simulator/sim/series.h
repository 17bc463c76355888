/* SPDX-License-Identifier: Apache-2.0 */
/* series.h - some figures over time, in bounded memory for runs of any length.
 *
 * Samples are taken at a fixed interval; when there are FAN_SERIES_MAX of them, each pair becomes
 * one and the interval doubles. */
#ifndef FAN_SIM_SERIES_H
#define FAN_SIM_SERIES_H

#include <stdbool.h>
#include <stdint.h>

#define FAN_SERIES_MAX 512

/* The first two are present values, the others counts since the start. */
enum fan_series_figure {
	FAN_SERIES_USED,    /* slots that hold a sum */
	FAN_SERIES_LENT,    /* slots that jobs hold */
	FAN_SERIES_OFFERED, /* contributions that arrived */
	FAN_SERIES_ADDED,   /* contributions that were added */
	FAN_SERIES_RESULTS, /* fragments finished */
	FAN_SERIES_COLLISIONS,
	FAN_SERIES_PREEMPTIONS,
	FAN_SERIES_EVICTIONS,
	FAN_SERIES_FLUSHES,
	FAN_SERIES_RX_BYTES,
	FAN_SERIES_FIGURES
};

struct fan_series {
	uint64_t start_ns, interval_ns, next_ns;
	uint32_t count;
	/* Sums over the `weight` samples that an entry stands for, and the last of these. */
	uint64_t sum[FAN_SERIES_MAX][FAN_SERIES_FIGURES];
	uint64_t last[FAN_SERIES_MAX][FAN_SERIES_FIGURES];
	uint32_t weight[FAN_SERIES_MAX];
};

void fan_series_init(struct fan_series *s, uint64_t start_ns, uint64_t interval_ns);

/* Add a sample, that of s->next_ns. */
void fan_series_add(struct fan_series *s, const uint64_t *figure);

#endif
