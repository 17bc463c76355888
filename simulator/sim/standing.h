/* SPDX-License-Identifier: Apache-2.0 */
/* standing.h - how the ranks of a job stand when they run ahead of each other: each rank's lag and
 * what it keeps, over time in bounded memory, and who keeps contributions for whom. */
#ifndef FAN_SIM_STANDING_H
#define FAN_SIM_STANDING_H

#include "core/switch/switch.h"

#define FAN_STANDING_MAX 128 /* samples: when there are more, each pair becomes one */

/* Of one rank at one time; in a sample, the sums over its looks. */
struct fan_standing_at {
	uint64_t behind; /* its lag, in fragments */
	uint64_t kept;	 /* sums in its helper cache */
};

/* What a switch has counted, as in struct fan_switch_rank, by rank. */
struct fan_standing_loans {
	uint32_t *lent, *deferred;
	uint32_t *kept; /* by helper and helped rank: helper x ranks + helped */
};

struct fan_standings {
	uint32_t ranks;
	/* Sample i covers the time from start_ns + i x interval_ns on. */
	uint64_t start_ns, interval_ns;
	uint32_t count;
	uint32_t weight[FAN_STANDING_MAX]; /* looks in each; 0: none */
	struct fan_standing_at *sum;	/* by rank and sample: rank x FAN_STANDING_MAX + sample */
	struct fan_standing_loans now;	/* in the switch's present life */
	struct fan_standing_loans past; /* in all its lives before */
	uint64_t life[2];		/* the life that `now` belongs to */
};

/* False: out of memory. */
bool fan_standings_init(struct fan_standings *s, uint32_t ranks, uint64_t interval_ns);
void fan_standings_free(struct fan_standings *s);

/* Record that the s->ranks ranks stand as `at` says.  Time does not run backwards. */
void fan_standings_look(struct fan_standings *s, uint64_t now_ns, const struct fan_standing_at *at);

/* Further counts are those of life `life` of a switch: in a new one all counts begin at 0. */
void fan_standings_life(struct fan_standings *s, const uint64_t life[2]);

/* The switch has counted `r` for `rank` in this life until now. */
void fan_standings_count(struct fan_standings *s, uint16_t rank, const struct fan_switch_rank *r);

/* Counts over all lives. */
uint32_t fan_standings_lent(const struct fan_standings *s, uint32_t rank);
uint32_t fan_standings_deferred(const struct fan_standings *s, uint32_t rank);
uint32_t fan_standings_kept(const struct fan_standings *s, uint32_t helper, uint32_t helped);

#endif
