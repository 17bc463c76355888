/* SPDX-License-Identifier: Apache-2.0 */
/* series.h - some figures over time, in bounded memory for runs of any length.
 *
 * Samples are taken at a fixed interval; when there are FAN_SERIES_MAX, each two become
 * one and the interval doubles. */
#ifndef FAN_SIM_SERIES_H
#define FAN_SIM_SERIES_H

#include <stdbool.h>
#include <stdint.h>

#define FAN_SERIES_MAX 512

/* Slots in use, and what has been counted until now. */
enum fan_series_figure {
	FAN_SERIES_USED,    /* slots that sum something */
	FAN_SERIES_LENT,    /* that jobs hold */
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
	/* Sums over the samples that one stands for, `weight` of them, and the last ones. */
	uint64_t sum[FAN_SERIES_MAX][FAN_SERIES_FIGURES];
	uint64_t last[FAN_SERIES_MAX][FAN_SERIES_FIGURES];
	uint32_t weight[FAN_SERIES_MAX];
};

void fan_series_init(struct fan_series *s, uint64_t start_ns, uint64_t interval_ns);

/* Add a sample, which is due at s->next_ns. */
void fan_series_add(struct fan_series *s, const uint64_t *figure);

#endif
