/* SPDX-License-Identifier: Apache-2.0 */
#include "shares.h"

#include <assert.h>
#include <string.h>

#define STEP_WHOLE   1024u
#define STEP_FIRST   512u
#define STEP_KNOWN   128u  /* the first one where it is known which link has changed, and how */
#define STEP_MAX     1024u /* a share doubles, or halves */
#define STEP_MIN     24u   /* of a move that is worth it */
#define ALIKE	     3u /* round trips 1 / ALIKE above the others' mean are long, and short below */
#define SMALL	     8u /* a share below 1 / SMALL of an even one is none */
#define BETTER	     32u /* a cost within 1 / BETTER of the best one is as good */
#define GAIN	     64u /* a try must be better by 1 / GAIN */
#define WORSE	     8u	 /* a cost higher by more than 1 / WORSE tells of another network */
#define MUCH_WORSE   2u	 /* a cost higher by more than 1 / MUCH_WORSE counts twice */
#define NARROW	     12u /* the narrowest link's round trips, in sixths of any other's */
#define NARROW_LATE  7u	 /* NARROW where tensors take twice as long */
#define PATIENCE_MAX 12u
#define BACK	     16u   /* measurements until former shares are tried again */
#define BACK_MAX     1024u /* each time four times as many, up to this */
#define TRY_NONE     2u	   /* the number of the try in which hosts sum nothing */

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

/* Make shares of any sum be the whole, without those that are too small to count. */
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
 * makes one of them a store without a base, by which the function seems to have no effect
 * (doc/testing.md). */
static void begin_moves(struct fan_split_learner *l, uint32_t step)
{
	for (unsigned k = 0; k < l->parts; k++)
		l->step[k] = step;
	memset(l->towards, 0, sizeof l->towards);
}

static void begin(struct fan_split_learner *l, uint32_t step)
{
	begin_moves(l, step);
	l->best_cost = l->usual_cost = 0;
	l->rounds = l->worse = l->tries = 0;
	l->phase = FAN_SPLIT_TRIES;
	l->gave = false;
}

/* Of FAN_SPLIT_WHOLE, what each of n hosts sums where all links are equal: with k < n other parts
 * (n - k) / (n n + k n - 2 k), as then all links carry the same. */
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

/* What part `k` sums of a tensor in `time`, in 1 / FAN_SPLIT_WHOLE of what the widest link needs
 * for one tensor: a host beside what it sends and gets for itself, and that once for each other
 * host. */
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

/* Keep the shares that give way, as what slows tensors down may pass; or those that are kept
 * already and were not tried yet once others have come to stay. */
static void keep_former(struct fan_split_learner *l)
{
	if (!l->has_former || l->look_back > BACK)
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
	begin(l, STEP_FIRST);
	if (!mbps || !read_rates(&rates, l, mbps))
		return;
	set_by_rates(l, &rates, mbps);
	l->phase = FAN_SPLIT_CHECKS;
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
	if (towards == l->towards[k])
		l->step[k] = l->step[k] * 3 / 2 < STEP_MAX ? l->step[k] * 3 / 2 : STEP_MAX;
	else if (l->towards[k])
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

/* All queues may be alike although hosts should sum less: what they sum crosses their links more
 * often than what others sum.  Let them have half as much, to see whether that is better; if so,
 * nothing; if that is too little, half again.  False: there are no hosts with shares, or no
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

/* A little to each part without a share, which no round trip tells about.  False: there is none. */
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
	begin(l, slow >= 0 ? STEP_KNOWN : STEP_FIRST);
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
	l->worse += is_much_worse(cost, usual) ? 2 : 1;
	if (l->worse < l->patience)
		return;
	l->patience = 2 * l->patience < PATIENCE_MAX ? 2 * l->patience : PATIENCE_MAX;
	begin_again(l, rtt_us, cost, usual);
}

/* Try the former shares.  False: there are none, or these are they. */
static bool try_former(struct fan_split_learner *l, enum fan_split_phase phase)
{
	l->has_former = l->has_former && memcmp(l->former, l->best, sizeof l->best) != 0;
	if (l->has_former) {
		memcpy(l->share, l->former, sizeof l->share);
		l->phase = phase;
	}
	return l->has_former;
}

/* While shares stay: the network may be the former one again. */
static void look_back(struct fan_split_learner *l)
{
	if (!l->has_former || ++l->stayed < l->look_back)
		return;
	l->stayed = 0;
	l->look_back = 4 * l->look_back < BACK_MAX ? 4 * l->look_back : BACK_MAX;
	l->best_cost = l->usual_cost;
	(void)try_former(l, FAN_SPLIT_LOOKS_BACK);
}

/* Once the shares stay. */
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

/* From the best shares. */
static void start_moves(struct fan_split_learner *l)
{
	memcpy(l->start, l->best, sizeof l->start);
	l->start_cost = l->cost;
	l->phase = FAN_SPLIT_MOVES;
}

/* Go on with the best shares. */
static void enter(struct fan_split_learner *l, enum fan_split_phase next)
{
	memcpy(l->share, l->best, sizeof l->share);
	l->usual_cost = l->best_cost;
	l->phase = next;
	if (next == FAN_SPLIT_MOVES)
		start_moves(l);
}

/* Tries, while each is for the better; then `next`. */
static void go_on_trying(struct fan_split_learner *l, bool good, enum fan_split_phase next)
{
	memcpy(l->share, l->best, sizeof l->share);
	if ((good || l->tries == TRY_NONE) && try_less_on_hosts(l))
		return;
	enter(l, next);
}

static void try_last(struct fan_split_learner *l)
{
	l->phase = FAN_SPLIT_TRIES_LAST;
	l->tries = 0;
	if (!try_less_on_hosts(l))
		enter(l, FAN_SPLIT_SETTLED);
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

/* Parts that lost their share by moves, or never had one, get one once more, as the network may be
 * another one by now. */
static void give_once(struct fan_split_learner *l)
{
	if (!l->gave && give(l)) {
		l->gave = true;
		l->phase = FAN_SPLIT_GIVES;
		return;
	}
	try_last(l);
}

/* The moves have come to an end. */
static void end_moves(struct fan_split_learner *l)
{
	take_all_back(l); /* at first: to the former ones */
	if (l->patience == FAN_SPLIT_WORSE || !try_former(l, FAN_SPLIT_RETURNS))
		give_once(l);
}

/* The former shares were tried; `best` are they if that was for the better. */
static void end_return(struct fan_split_learner *l, bool good)
{
	bool learns = l->phase == FAN_SPLIT_RETURNS;
	l->has_former = !good;
	enter(l, FAN_SPLIT_SETTLED);
	if (learns)
		give_once(l);
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

/* Keep what was given where it is for the better, and move on from there. */
static void end_giving(struct fan_split_learner *l, bool good, const uint32_t *rtt_us)
{
	memcpy(l->share, l->best, sizeof l->share);
	if (!good) {
		try_last(l);
		return;
	}
	begin_moves(l, STEP_FIRST);
	l->rounds = FAN_SPLIT_ROUNDS_MAX / 2;
	start_moves(l);
	go_on_moving(l, good, rtt_us);
}

/* A card may tell another rate than its link has.  So the shares of equal links are tried once, and
 * the better ones are what learning begins with. */
static void check(struct fan_split_learner *l)
{
	if (l->rounds == 1) {
		set_equal_links(l);
		return;
	}
	l->phase = FAN_SPLIT_TRIES;
	go_on_trying(l, true, FAN_SPLIT_MOVES);
}

/* A measurement while shares are learnt. */
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
	case FAN_SPLIT_TRIES: go_on_trying(l, good, FAN_SPLIT_MOVES); break;
	case FAN_SPLIT_MOVES: go_on_moving(l, good, rtt_us); break;
	case FAN_SPLIT_RETURNS:
	case FAN_SPLIT_LOOKS_BACK: end_return(l, good); break;
	case FAN_SPLIT_GIVES: end_giving(l, good, rtt_us); break;
	case FAN_SPLIT_TRIES_LAST: go_on_trying(l, good, FAN_SPLIT_SETTLED); break;
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
