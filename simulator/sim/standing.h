/* SPDX-License-Identifier: Apache-2.0 */
/* standing.h - how the ranks of a job that run ahead of each other have stood: how far each was
 * behind and what it kept, over time in bounded memory, and who kept parts for whom. */
#ifndef FAN_SIM_STANDING_H
#define FAN_SIM_STANDING_H

#include "core/switch/switch.h"

#define FAN_STANDING_MAX 128 /* samples: when there are more, each two become one */

/* Of one rank at one time; of a sample, sums over what it stands for. */
struct fan_standing_at {
	uint64_t behind; /* fragments behind the furthest */
	uint64_t kept;	 /* sums in its cache */
};

/* What a switch has counted: as in struct fan_switch_rank, by rank. */
struct fan_standing_loans {
	uint32_t *lent, *deferred;
	uint32_t *kept; /* by who keeps, and for whom: rank x ranks + rank */
};

struct fan_standings {
	uint32_t ranks;
	/* Sample i is of the time from start_ns + i x interval_ns on. */
	uint64_t start_ns, interval_ns;
	uint32_t count;
	uint32_t weight[FAN_STANDING_MAX]; /* looks in each; 0: there was nothing to see */
	struct fan_standing_at *sum;	/* by rank and sample: rank x FAN_STANDING_MAX + sample */
	struct fan_standing_loans now;	/* of the switch's present life */
	struct fan_standing_loans past; /* of all its lives before */
	uint64_t life[2];		/* which one `now` is of */
};

/* False: out of memory. */
bool fan_standings_init(struct fan_standings *s, uint32_t ranks, uint64_t interval_ns);
void fan_standings_free(struct fan_standings *s);

/* All ranks stand as `at` says, s->ranks of them.  Time does not run back. */
void fan_standings_look(struct fan_standings *s, uint64_t now_ns, const struct fan_standing_at *at);

/* What follows is of life `life` of who counts: with a new one all counts begin at 0. */
void fan_standings_life(struct fan_standings *s, const uint64_t life[2]);

/* That one has counted so much for `rank` until now. */
void fan_standings_count(struct fan_standings *s, uint16_t rank, const struct fan_switch_rank *r);

/* Over all lives. */
uint32_t fan_standings_lent(const struct fan_standings *s, uint32_t rank);
uint32_t fan_standings_deferred(const struct fan_standings *s, uint32_t rank);
uint32_t fan_standings_kept(const struct fan_standings *s, uint32_t helper, uint32_t helped);

#endif
