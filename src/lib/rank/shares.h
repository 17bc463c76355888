/* SPDX-License-Identifier: Apache-2.0 */
/* shares.h - the share of each tensor that each part of a job sums, and how shares are learnt.
 *
 * Few links report their rate.  An aggregator whose link is the narrowest for its share has
 * the longest queue, and so the longest round trips; shares move away from it, in steps that get
 * smaller each time the direction changes.  When no share moves any more they stay, until tensors
 * take longer than they did.
 *
 * Pure, and in whole numbers only: all ranks compute the same shares from the same measurements,
 * whatever their processors. */
#ifndef FAN_LIB_RANK_SHARES_H
#define FAN_LIB_RANK_SHARES_H

#include <stdbool.h>
#include <stdint.h>

#include "lib/base/plan_msg.h"

#define FAN_SPLIT_WHOLE	     65536u /* sum of all shares */
#define FAN_SPLIT_ROUNDS_MAX 24	    /* measurements, until the shares stay */
#define FAN_SPLIT_WORSE                                                                            \
	3 /* slow measurements in a row, until shares are learnt anew                              \
	   * for the first time */

struct fan_split {
	unsigned parts;
	/* of each part, in 1 / FAN_CUT_WHOLE of a tensor; the last one is FAN_CUT_WHOLE */
	uint64_t begin[FAN_PARTS_MAX + 1];
};

/* Shares and those before them: an operation keeps the ones it was started with. */
struct fan_split_history {
	struct fan_split now, before;
	uint64_t from, before_from; /* the numbers of the first operations that they cut */
};

/* Operations from `number` on are cut by `now`, to which the caller sets the new shares. */
void fan_split_history_turn(struct fan_split_history *h, uint64_t number);

/* The shares of operation `number`; NULL: they are older than the kept ones. */
const struct fan_split *fan_split_history_at(const struct fan_split_history *h, uint64_t number);

/* The elements of a part, in one tensor; none: the part has no operation for it. */
struct fan_split_range {
	uint64_t first, end;
	bool takes_part;
};

/* Divide evenly. */
void fan_split_even(struct fan_split *s, unsigned parts);

/* The range of part `part` in operation `number` of the communicator, `count` elements, of which
 * `per_frag` fill a fragment.  Ranges begin at multiples of `per_frag`, and small tensors, without
 * a fragment for each part, go to some parts in turn. */
struct fan_split_range fan_split_range(const struct fan_split *s, uint64_t number, uint64_t count,
				       uint32_t per_frag, unsigned part);

enum fan_split_phase {
	FAN_SPLIT_CHECKS,     /* whether shares by rates are no worse than those of equal links */
	FAN_SPLIT_TRIES,      /* less on hosts, as long as that is better */
	FAN_SPLIT_MOVES,      /* by round trips */
	FAN_SPLIT_GIVES,      /* a little to parts without a share */
	FAN_SPLIT_SETTLED,    /* the shares stay */
	FAN_SPLIT_LOOKS_BACK, /* the shares before another network was noticed */
};

struct fan_split_learner {
	unsigned parts;
	bool is_host[FAN_PARTS_MAX];
	uint32_t share[FAN_PARTS_MAX];	/* in 1 / FAN_SPLIT_WHOLE */
	uint32_t step[FAN_PARTS_MAX];	/* of its next move, in 1 / 1024 of the share */
	int8_t towards[FAN_PARTS_MAX];	/* its last move: 1, -1 */
	uint32_t best[FAN_PARTS_MAX];	/* the last shares that were for the better */
	uint64_t best_cost;		/* least cost of `best`; 0: none */
	uint64_t cost;			/* of the best shares, as measured last */
	uint32_t start[FAN_PARTS_MAX];	/* the shares from which moves began */
	uint64_t start_cost;		/* cost of `start` */
	uint64_t usual_cost;		/* once the shares stay: what is usual */
	unsigned rounds;		/* measurements since learning began */
	unsigned tries;			/* in this phase, of less on hosts */
	bool gave;			/* since then, to parts without a share */
	unsigned worse;			/* slow measurements in a row */
	unsigned patience;		/* after so many slow ones in a row, learn again */
	uint32_t former[FAN_PARTS_MAX]; /* the first shares, or those before another network was
					   noticed */
	bool has_former;		/* and they were not found to be the better ones since */
	unsigned stayed;		/* measurements since the shares stay, or looked back */
	unsigned look_back;		/* after so many, `former` is tried again */
	enum fan_split_phase phase;
};

/* Begin with the shares that are best where all links are equal: `is_host` of the parts are summed
 * by hosts with ranks, the others on links of their own.  Where `mbps` (NULL: nobody knows) has a
 * rate of each host's link, and not the same one, begin with the shares that are best with these;
 * the others' links, whose rates are unknown, count as a host's narrowest. */
void fan_split_learner_init(struct fan_split_learner *l, unsigned parts, const bool *is_host,
			    const uint32_t *mbps);

/* Begin with shares by the rates of the links to the parts, `all_mbps` together, which stand side
 * by side: networks that all hosts have (net/rails.h). */
void fan_split_learner_weigh(struct fan_split_learner *l, const uint32_t *mbps, uint64_t all_mbps);

/* Learn from a measurement with the present shares: round trips by part, 0 where there were none,
 * and the time that a tensor has taken, by its size, in any unit.  True: the shares have changed.
 */
bool fan_split_learn(struct fan_split_learner *l, const uint32_t *rtt_us, uint64_t cost);

/* The cuts that follow from the shares. */
void fan_split_from_shares(struct fan_split *s, const struct fan_split_learner *l);

#endif
