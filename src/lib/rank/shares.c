/* SPDX-License-Identifier: Apache-2.0 */
#include "shares.h"

#include <assert.h>
#include <string.h>

/* The rules by which shares are learnt: what for, what sets the threshold, the threshold.  B is a
 * row of bench/placement, A a figure of doc/adr/0022, C the case of test/unit/lib/rank that fails
 * without the rule. */

/* Round trips that differ by less than a third move nothing.  A: 16.8 ms beside 0.5. */
#define ALIKE 3u
/* The first move, half of a share; half of that each time that the direction changes; and the least
 * one, 2 %.  C: split__a_slow_spare_gets_little. */
#define STEP_WHOLE 1024u
#define STEP_FIRST 512u
#define STEP_MIN   24u
/* A move may cost 3 %, and all of them together have to gain it.  A: DDP's steps took 4 % longer;
 * C: split__equal_links_keep_them_whatever_round_trips_say. */
#define BETTER 32u
/* A try has to gain 1.6 %.  C: split__a_wide_box_gets_everything_soon. */
#define GAIN 64u
/* The try that leaves hosts nothing is the second.  B: 1.77 with a box of eight links; C: the case
 * of GAIN. */
#define TRY_NONE 2u
/* Less than 12 % of an even share is none; twice that is given to parts without one.
 * C: split__a_link_that_becomes_slow_at_first. */
#define SMALL 8u
/* Tensors that take 12 % longer FAN_SPLIT_WORSE times in a row show another network; each time that
 * they did, twice as many are asked for, up to PATIENCE_MAX.  C: split__a_load_that_comes_and_goes.
 */
#define WORSE	     8u
#define PATIENCE_MAX 12u
/* While shares are learnt, 50 % with the same shares.
 * C: split__a_link_that_becomes_slow_among_misleading_ones. */
#define MUCH_WORSE 2u
/* Round trips twice as long as any other's name the slow link; where tensors take twice as long, a
 * sixth longer do.  In sixths.  B: 0.997 of the best time after a host's link drops, 1.12 without;
 * C: split__a_link_that_becomes_slow_loses_what_it_should_at_once, split_slow__*. */
#define NARROW	    12u
#define NARROW_LATE 7u
/* Former shares are tried again after 16, 64, ... measurements.  A: four hosts stayed at 1.11 of
 * the best time; C: split__what_passes_leaves_the_shares_as_they_were. */
#define BACK	 16u
#define BACK_MAX 1024u

/* ---- cuts ---- */

void fan_split_even(struct fan_split *s, unsigned parts)
{
	assert(parts <= FAN_PARTS_MAX);
	s->parts = parts;
	for (unsigned k = 0; k <= parts; k++)
		s->begin[k] = parts ? FAN_CUT_WHOLE * k / parts : 0;
}

/* floor(count * at / FAN_CUT_WHOLE) without a product that overflows. */
static uint64_t cut_at(uint64_t count, uint64_t at)
{
	return (count >> 32) * at + ((count & UINT32_MAX) * at >> 32);
}

static unsigned in_use(const struct fan_split *s)
{
	unsigned n = 0;
	for (unsigned k = 0; k < s->parts; k++)
		n += s->begin[k + 1] > s->begin[k];
	return n;
}

/* The place of `part` among those in use, when operation `number` begins with another one than
 * the operation before. */
static unsigned turn_of(const struct fan_split *s, uint64_t number, unsigned part, unsigned used)
{
	unsigned before = 0;
	assert(used > 0);
	for (unsigned k = 0; k < part; k++)
		before += s->begin[k + 1] > s->begin[k];
	return (before + used - (unsigned)(number % used)) % used;
}

void fan_split_history_turn(struct fan_split_history *h, uint64_t number)
{
	assert(number >= h->from);
	h->before = h->now;
	h->before_from = h->from;
	h->from = number;
}

const struct fan_split *fan_split_history_at(const struct fan_split_history *h, uint64_t number)
{
	if (number >= h->from)
		return &h->now;
	return number >= h->before_from ? &h->before : NULL;
}

struct fan_split_range fan_split_range(const struct fan_split *s, uint64_t number, uint64_t count,
				       uint32_t per_frag, unsigned part)
{
	assert(part < s->parts && per_frag);
	struct fan_split_range r = {0, 0, false};
	uint64_t frags = count / per_frag + (count % per_frag != 0);
	unsigned used = in_use(s);
	if (s->begin[part] == s->begin[part + 1])
		return r;
	if (frags <= used) {
		unsigned turn = turn_of(s, number, part, used);
		r.takes_part = turn < frags || !turn; /* the first one also without elements */
		r.first = turn < frags ? turn : frags;
		r.end = turn < frags ? turn + 1u : frags;
	} else {
		r.first = cut_at(frags, s->begin[part]);
		r.end = cut_at(frags, s->begin[part + 1]);
		r.takes_part = r.first < r.end;
	}
	r.first = r.first < frags ? r.first * per_frag : count;
	r.end = r.end < frags ? r.end * per_frag : count;
	return r;
}

void fan_split_from_shares(struct fan_split *s, const struct fan_split_learner *l)
{
	uint64_t at = 0;
	s->parts = l->parts;
	for (unsigned k = 0; k < l->parts; k++) {
		s->begin[k] = at * (FAN_CUT_WHOLE / FAN_SPLIT_WHOLE);
		at += l->share[k];
	}
	assert(at == FAN_SPLIT_WHOLE);
	s->begin[l->parts] = FAN_CUT_WHOLE;
}

/* ---- learning ---- */

/* Make shares of any sum be the whole, without shares that are too small to count. */
static void normalise(struct fan_split_learner *l)
{
	uint64_t sum = 0, kept = 0;
	uint32_t given = 0;
	unsigned largest = 0;
	for (unsigned k = 0; k < l->parts; k++)
		sum += l->share[k];
	for (unsigned k = 0; k < l->parts; k++) {
		if ((uint64_t)l->share[k] * l->parts * SMALL < sum)
			l->share[k] = 0;
		kept += l->share[k];
		if (l->share[k] > l->share[largest])
			largest = k;
	}
	assert(kept > 0); /* the largest is no less than an even one */
	for (unsigned k = 0; k < l->parts; k++) {
		l->share[k] = (uint32_t)((uint64_t)l->share[k] * FAN_SPLIT_WHOLE / kept);
		given += l->share[k];
	}
	l->share[largest] += FAN_SPLIT_WHOLE - given;
}

/* Both stores in one loop are right as well, but gcc 12.2 drops the calls then at -O1 alone: ivopts
 * makes one of them a store without a base, by which the function seems to have no effect.  -O0,
 * -O2, -O3 and -fno-ivopts are right. */
static void begin_moves(struct fan_split_learner *l)
{
	for (unsigned k = 0; k < l->parts; k++)
		l->step[k] = STEP_FIRST;
	memset(l->towards, 0, sizeof l->towards);
}

static void begin(struct fan_split_learner *l)
{
	begin_moves(l);
	l->best_cost = l->usual_cost = 0;
	l->rounds = l->worse = l->tries = 0;
	l->phase = FAN_SPLIT_TRIES;
	l->gave = false;
}

/* Return the part of FAN_SPLIT_WHOLE that each of n hosts sums where all links are equal: with k <
 * n other parts (n - k) / (n n + k n - 2 k), as then all links carry the same. */
static uint64_t share_of_host(uint64_t n, uint64_t k)
{
	if (!n || k >= n)
		return 0;
	return FAN_SPLIT_WHOLE * (n - k) / (n * n + k * (n - 2));
}

static void set_equal_links(struct fan_split_learner *l)
{
	uint64_t hosts = 0;
	for (unsigned k = 0; k < l->parts; k++)
		hosts += l->is_host[k] ? 1 : 0;
	uint64_t others = l->parts - hosts, of_host = share_of_host(hosts, others);
	uint64_t of_other = others ? (FAN_SPLIT_WHOLE - hosts * of_host) / others : 0;
	for (unsigned k = 0; k < l->parts; k++)
		l->share[k] = (uint32_t)(l->is_host[k] ? of_host : of_other);
	normalise(l);
}

/* Links of known rates. */
struct rates {
	uint64_t hosts;
	uint64_t most, least; /* of a host's link */
};

/* False: nobody knows all hosts' rates, or they are alike.  With two hosts each link carries the
 * same whatever the shares. */
static bool read_rates(struct rates *r, const struct fan_split_learner *l, const uint32_t *mbps)
{
	*r = (struct rates){.least = UINT32_MAX};
	for (unsigned k = 0; k < l->parts; k++) {
		if (!l->is_host[k])
			continue;
		r->hosts++;
		r->most = mbps[k] > r->most ? mbps[k] : r->most;
		r->least = mbps[k] < r->least ? mbps[k] : r->least;
	}
	return r->hosts > 2 && r->least > 0 && r->least < r->most;
}

/* Return how much part `k` sums of a tensor in `time`, in 1 / FAN_SPLIT_WHOLE of the widest
 * link's time for one tensor: a host beside its own traffic, and that once for each other host. */
static uint64_t sums_in(const struct fan_split_learner *l, const struct rates *r,
			const uint32_t *mbps, unsigned k, uint64_t time)
{
	if (!l->is_host[k])
		return time * r->least / r->most / r->hosts;
	uint64_t tensors = time * mbps[k] / r->most;
	return tensors > FAN_SPLIT_WHOLE ? (tensors - FAN_SPLIT_WHOLE) / (r->hosts - 2) : 0;
}

static uint64_t all_sum_in(const struct fan_split_learner *l, const struct rates *r,
			   const uint32_t *mbps, uint64_t time)
{
	uint64_t sum = 0;
	for (unsigned k = 0; k < l->parts; k++)
		sum += sums_in(l, r, mbps, k, time);
	return sum;
}

/* The shares with which all links that matter are busy for the same time.  No host is done sooner
 * than its own contributions and results take. */
static void set_by_rates(struct fan_split_learner *l, const struct rates *r, const uint32_t *mbps)
{
	uint64_t low = FAN_SPLIT_WHOLE * r->most / r->least, high = 2 * low;
	while (low < high) {
		uint64_t time = low + (high - low) / 2;
		if (all_sum_in(l, r, mbps, time) >= FAN_SPLIT_WHOLE)
			high = time;
		else
			low = time + 1;
	}
	uint64_t sum = all_sum_in(l, r, mbps, low);
	assert(sum >= FAN_SPLIT_WHOLE); /* the hosts alone have summed that in `high` */
	for (unsigned k = 0; k < l->parts; k++)
		l->share[k] = (uint32_t)(sums_in(l, r, mbps, k, low) * FAN_SPLIT_WHOLE / sum);
	normalise(l);
}

/* Keep the shares that give way, as what slows tensors down may pass. */
static void keep_former(struct fan_split_learner *l)
{
	memcpy(l->former, l->share, sizeof l->former);
	l->has_former = true;
	l->look_back = BACK, l->stayed = 0;
}

void fan_split_learner_init(struct fan_split_learner *l, unsigned parts, const bool *is_host,
			    const uint32_t *mbps)
{
	struct rates rates;
	memset(l, 0, sizeof *l);
	assert(parts > 0 && parts <= FAN_PARTS_MAX);
	l->parts = parts;
	memcpy(l->is_host, is_host, parts * sizeof *is_host);
	l->patience = FAN_SPLIT_WORSE;
	set_equal_links(l);
	keep_former(l);
	begin(l);
	if (!mbps || !read_rates(&rates, l, mbps))
		return;
	set_by_rates(l, &rates, mbps);
	l->phase = FAN_SPLIT_CHECKS;
}

void fan_split_learner_weigh(struct fan_split_learner *l, const uint32_t *mbps, uint64_t all_mbps)
{
	for (unsigned k = 0; k < l->parts; k++)
		l->share[k] = (uint32_t)(FAN_SPLIT_WHOLE * (uint64_t)mbps[k] / all_mbps);
	normalise(l);
}

/* The mean of the other parts' round trips, by share; 0: no other part has any. */
static uint64_t mean_of_others(const struct fan_split_learner *l, const uint32_t *rtt_us,
			       unsigned part)
{
	uint64_t sum = 0, shares = 0;
	for (unsigned k = 0; k < l->parts; k++)
		if (k != part && rtt_us[k]) {
			sum += (uint64_t)l->best[k] * rtt_us[k];
			shares += l->best[k];
		}
	return shares ? sum / shares : 0;
}

/* Move one share up or down.  True: by a step that is worth it. */
static bool move(struct fan_split_learner *l, unsigned k, int towards)
{
	if (l->towards[k] && towards != l->towards[k])
		l->step[k] /= 2;
	l->towards[k] = (int8_t)towards;
	uint64_t more = STEP_WHOLE + l->step[k];
	l->share[k] = (uint32_t)(towards > 0 ? l->share[k] * more / STEP_WHOLE
					     : l->share[k] * (uint64_t)STEP_WHOLE / more);
	return l->step[k] >= STEP_MIN;
}

static bool move_all(struct fan_split_learner *l, const uint32_t *rtt_us)
{
	bool any = false;
	for (unsigned k = 0; k < l->parts; k++) {
		uint64_t others = mean_of_others(l, rtt_us, k);
		if (!l->share[k] || !rtt_us[k] || !others)
			continue;
		if (rtt_us[k] > others + others / ALIKE)
			any |= move(l, k, -1);
		else if (rtt_us[k] + rtt_us[k] / ALIKE < others)
			any |= move(l, k, 1);
	}
	return any;
}

/* The moves were none for the better: take them back, and make smaller ones.  False: no smaller one
 * is worth it. */
static bool take_back(struct fan_split_learner *l)
{
	bool any = false;
	memcpy(l->share, l->best, sizeof l->share);
	for (unsigned k = 0; k < l->parts; k++) {
		l->step[k] /= 2;
		l->towards[k] = 0;
		any |= l->step[k] >= STEP_MIN;
	}
	return any;
}

/* All queues may be alike although hosts should sum less: their sums cross their links more often
 * than others'.  Try half as much on hosts; if that is better, nothing; if that is too little, half
 * again.  False: there are no hosts with shares, or no
 * others. */
static bool try_less_on_hosts(struct fan_split_learner *l)
{
	uint64_t hosts = 0;
	for (unsigned k = 0; k < l->parts; k++)
		hosts += l->is_host[k] ? l->share[k] : 0;
	if (!hosts || hosts == FAN_SPLIT_WHOLE)
		return false;
	l->tries++;
	for (unsigned k = 0; k < l->parts; k++)
		if (l->is_host[k])
			l->share[k] = l->tries == TRY_NONE ? 0 : l->share[k] / 2;
	normalise(l);
	return true;
}

/* Give a little to each part without a share, which has no round trip.  False: there is none. */
static bool give(struct fan_split_learner *l)
{
	bool any = false;
	for (unsigned k = 0; k < l->parts; k++)
		if (!l->share[k]) {
			l->share[k] = 2 * FAN_SPLIT_WHOLE / (l->parts * SMALL) + 1;
			any = true;
		}
	normalise(l);
	return any;
}

/* The part whose round trips are more than `by` / 6 as long as those of any other; -1: there is
 * none. */
static int narrowest(const struct fan_split_learner *l, const uint32_t *rtt_us, unsigned by)
{
	unsigned at = 0;
	for (unsigned k = 1; k < l->parts; k++)
		if (rtt_us[k] > rtt_us[at])
			at = k;
	for (unsigned k = 0; k < l->parts; k++)
		if (k != at && (uint64_t)rtt_us[k] * by >= (uint64_t)rtt_us[at] * 6)
			return -1;
	return (int)at;
}

/* Other rates than before, as tensors with these shares take `cost` instead of `usual`: learn
 * again, also about parts without a share.  A link that is the narrowest by far has become so, and
 * its part can have as much less as tensors take longer.  Where these take twice as long, all round
 * trips are of what waits for that link, and its own are longer by less. */
static void begin_again(struct fan_split_learner *l, const uint32_t *rtt_us, uint64_t cost,
			uint64_t usual)
{
	int slow = narrowest(l, rtt_us, cost > 2 * usual ? NARROW_LATE : NARROW);
	keep_former(l);
	if (slow >= 0)
		l->share[slow] = (uint32_t)(l->share[slow] * usual / cost);
	bool any = give(l);
	if (slow >= 0 && l->is_host[slow] && l->share[slow] < FAN_SPLIT_WHOLE)
		l->share[slow] = 0; /* what its ranks send and get takes longer than that already */
	normalise(l);
	begin(l);
	l->gave = any;
}

static bool is_much_worse(uint64_t cost, uint64_t usual)
{
	return cost > usual + usual / MUCH_WORSE;
}

/* A link that is slower from now on shows in several measurements, here one more.  Each time that
 * this was seen before, more are asked for, so that loads that come and go do not move shares to
 * and fro. */
static void note_worse(struct fan_split_learner *l, const uint32_t *rtt_us, uint64_t cost,
		       uint64_t usual)
{
	l->worse++;
	if (l->worse < l->patience)
		return;
	l->patience = 2 * l->patience < PATIENCE_MAX ? 2 * l->patience : PATIENCE_MAX;
	begin_again(l, rtt_us, cost, usual);
}

/* While shares stay: the network may be the former one again. */
static void look_back(struct fan_split_learner *l)
{
	if (!l->has_former || ++l->stayed < l->look_back)
		return;
	l->stayed = 0;
	l->look_back = 4 * l->look_back < BACK_MAX ? 4 * l->look_back : BACK_MAX;
	l->best_cost = l->usual_cost;
	l->has_former = memcmp(l->former, l->best, sizeof l->best) != 0;
	if (!l->has_former)
		return;
	memcpy(l->share, l->former, sizeof l->share);
	l->phase = FAN_SPLIT_LOOKS_BACK;
}

static void watch(struct fan_split_learner *l, const uint32_t *rtt_us, uint64_t cost)
{
	uint64_t usual = l->usual_cost;
	if (cost <= usual + usual / WORSE) {
		l->usual_cost = (usual * 7 + cost) / 8;
		l->worse = 0;
		look_back(l);
	} else {
		note_worse(l, rtt_us, cost, usual);
	}
}

static void start_moves(struct fan_split_learner *l)
{
	memcpy(l->start, l->best, sizeof l->start);
	l->start_cost = l->cost;
	l->phase = FAN_SPLIT_MOVES;
}

static void settle(struct fan_split_learner *l)
{
	memcpy(l->share, l->best, sizeof l->share);
	l->usual_cost = l->best_cost;
	l->phase = FAN_SPLIT_SETTLED;
}

/* Tries, while each is for the better; then moves. */
static void go_on_trying(struct fan_split_learner *l, bool good)
{
	memcpy(l->share, l->best, sizeof l->share);
	if ((good || l->tries == TRY_NONE) && try_less_on_hosts(l))
		return;
	memcpy(l->share, l->best, sizeof l->share);
	start_moves(l);
}

/* Each move may be a little for the worse, since costs differ by chance.  All of them together have
 * to be a gain. */
static void take_all_back(struct fan_split_learner *l)
{
	if (l->cost <= l->start_cost - l->start_cost / BETTER)
		return;
	memcpy(l->best, l->start, sizeof l->best);
	l->best_cost = l->cost = l->start_cost;
	memcpy(l->share, l->best, sizeof l->share);
}

/* The moves have come to an end.  Parts that lost their share by them, or never had one, get a
 * little once more, as the network may be another one by now. */
static void end_moves(struct fan_split_learner *l)
{
	take_all_back(l); /* at first: to the former ones */
	if (!l->gave && give(l)) {
		l->gave = true;
		l->phase = FAN_SPLIT_GIVES;
		return;
	}
	settle(l);
}

static void go_on_moving(struct fan_split_learner *l, bool good, const uint32_t *rtt_us)
{
	bool moved = good ? move_all(l, rtt_us) : take_back(l);
	normalise(l);
	const bool late = l->rounds >= FAN_SPLIT_ROUNDS_MAX;
	if (moved && late)
		memcpy(l->share, l->best, sizeof l->share);
	if (!moved || late)
		end_moves(l);
}

/* A card may report another rate than its link has.  So the shares of equal links are tried once,
 * and the better ones are what learning begins with. */
static void check(struct fan_split_learner *l)
{
	if (l->rounds == 1) {
		set_equal_links(l);
		return;
	}
	l->phase = FAN_SPLIT_TRIES;
	go_on_trying(l, true);
}

static void learn(struct fan_split_learner *l, const uint32_t *rtt_us, uint64_t cost)
{
	bool tried = l->phase != FAN_SPLIT_MOVES;
	bool again = !l->best_cost || !memcmp(l->best, l->share, sizeof l->best);
	bool good = again || cost <= (tried ? l->best_cost - l->best_cost / GAIN
					    : l->best_cost + l->best_cost / BETTER);
	if (again && l->best_cost && is_much_worse(cost, l->best_cost)) {
		note_worse(l, rtt_us, cost, l->best_cost); /* the same shares in another network */
		return;
	}
	if (good) {
		l->best_cost = again || cost < l->best_cost ? cost : l->best_cost;
		l->cost = cost;
		l->worse = again ? 0 : l->worse;
		memcpy(l->best, l->share, sizeof l->best);
	}
	if (l->phase == FAN_SPLIT_MOVES && !memcmp(l->start, l->share, sizeof l->start))
		l->start_cost = cost;
	l->rounds++;
	switch (l->phase) {
	case FAN_SPLIT_CHECKS: check(l); break;
	case FAN_SPLIT_TRIES: go_on_trying(l, good); break;
	case FAN_SPLIT_MOVES: go_on_moving(l, good, rtt_us); break;
	case FAN_SPLIT_LOOKS_BACK:
		l->has_former = !good;
		settle(l);
		break;
	case FAN_SPLIT_GIVES: settle(l); break;
	case FAN_SPLIT_SETTLED: break;
	}
}

bool fan_split_learn(struct fan_split_learner *l, const uint32_t *rtt_us, uint64_t cost)
{
	uint32_t before[FAN_PARTS_MAX];
	assert(cost > 0);
	memcpy(before, l->share, sizeof before);
	if (l->phase == FAN_SPLIT_SETTLED)
		watch(l, rtt_us, cost);
	else
		learn(l, rtt_us, cost);
	return memcmp(before, l->share, sizeof before);
}
