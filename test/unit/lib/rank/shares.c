/* SPDX-License-Identifier: Apache-2.0 */
/* Shares of parts: cuts that are the whole, and shares that a modelled network teaches. */
#include "unit/unit.h"

#include <string.h>

#include "lib/comm/comm.h"
#include "lib/rank/shares.h"
#include "lib/rank/thread.h"

#define ROUNDS	  20000
#define HOSTS_MAX 16

/* ---- cuts ---- */

static void random_split(struct fan_rng *rng, struct fan_split *s)
{
	s->parts = 1 + (unsigned)fan_rng_below(rng, 8);
	s->begin[0] = 0;
	for (unsigned k = 1; k < s->parts; k++) {
		uint64_t left = FAN_CUT_WHOLE - s->begin[k - 1];
		s->begin[k] = s->begin[k - 1] +
			      (fan_rng_below(rng, 3) ? fan_rng_below(rng, left + 1) : 0);
	}
	s->begin[s->parts] = FAN_CUT_WHOLE;
}

static void check_ranges(const struct fan_split *s, uint64_t number, uint64_t count,
			 uint32_t per_frag)
{
	uint64_t frags = count / per_frag + (count % per_frag != 0), sum = 0;
	unsigned taking = 0;
	for (unsigned k = 0; k < s->parts; k++) {
		struct fan_split_range r = fan_split_range(s, number, count, per_frag, k);
		assert_true(r.first <= r.end && r.end <= count);
		assert_true(r.first % per_frag == 0 || r.first == count);
		assert_true(r.takes_part || r.first == r.end);
		assert_false(r.takes_part && s->begin[k] == s->begin[k + 1]);
		for (unsigned other = 0; other < k; other++) {
			struct fan_split_range o =
				fan_split_range(s, number, count, per_frag, other);
			assert_true(o.end <= r.first || r.end <= o.first);
		}
		sum += r.end - r.first;
		taking += r.takes_part;
	}
	assert_true(sum == count);
	assert_true(taking >= 1 && (taking <= frags || !frags));
}

TEST(split__every_element_has_one_part)
{
	struct fan_rng rng = test_rng();
	struct fan_split s;
	for (int i = 0; i < ROUNDS; i++) {
		random_split(&rng, &s);
		uint64_t count = fan_rng_below(&rng, UINT64_C(1) << fan_rng_below(&rng, 50));
		check_ranges(&s, fan_rng_next(&rng), count,
			     1 + (uint32_t)fan_rng_below(&rng, 2000));
	}
}

TEST(split__small_tensors_go_to_parts_in_turn)
{
	struct fan_split s;
	fan_split_even(&s, 3);
	for (uint64_t number = 0; number < 9; number++)
		for (unsigned k = 0; k < 3; k++) {
			struct fan_split_range one = fan_split_range(&s, number, 5, 352, k);
			struct fan_split_range none = fan_split_range(&s, number, 0, 352, k);
			assert_int_equal(one.takes_part, k == number % 3);
			assert_int_equal(none.takes_part, k == number % 3);
		}
}

/* Networks: hosts with a link each, and other parts with one; rates in tensors a second. */

struct net {
	unsigned hosts, others;
	bool misleads;	    /* round trips have a bias for each part, and much noise */
	bool beside_others; /* half of what is sent is of columns that keep the first shares */
	double delay;	    /* by which the next tensor takes longer, as while ranks begin */
	double host[HOSTS_MAX], other[HOSTS_MAX];
};

static double load_of(const struct net *n, const struct fan_split_learner *l, unsigned k)
{
	double share = (double)l->share[k] / FAN_SPLIT_WHOLE;
	if (k < n->others)
		return n->hosts * share / n->other[k];
	return (1 + (n->hosts - 2) * share) / n->host[k - n->others];
}

/* Seconds of a tensor: those of the busiest link. */
static double time_of(const struct net *n, const struct fan_split_learner *l)
{
	double most = 0;
	for (unsigned k = 0; k < l->parts; k++)
		most = load_of(n, l, k) > most ? load_of(n, l, k) : most;
	return most;
}

/* The least time that any shares have, by bisection: a host takes (t r - 1) / (n - 2) at most. */
static double best_time(const struct net *n)
{
	double low = 0, high = 1000;
	for (unsigned h = 0; h < n->hosts; h++)
		low = 1 / n->host[h] > low ? 1 / n->host[h] : low;
	while (high - low > 1e-6) {
		double t = (low + high) / 2, sum = 0;
		for (unsigned k = 0; k < n->others; k++)
			sum += t * n->other[k] / n->hosts;
		for (unsigned h = 0; h < n->hosts; h++)
			sum += (t * n->host[h] - 1) / (n->hosts - 2);
		*(sum < 1 ? &low : &high) = t;
	}
	return high;
}

/* A queue stands before each link that is nearly the busiest; a contribution waits there, and its
 * result before the links of the ranks. */
static void round_trips(const struct net *n, const struct fan_split_learner *l, struct fan_rng *rng,
			uint32_t *rtt_us)
{
	double t = time_of(n, l), ranks = 0;
	for (unsigned k = n->others; k < l->parts; k++)
		ranks += load_of(n, l, k) > 0.97 * t ? 8000.0 / n->hosts : 0;
	for (unsigned k = 0; k < l->parts; k++) {
		double queue = load_of(n, l, k) > 0.97 * t ? 8000 : 0;
		double noise = n->misleads ? (0.6 + 0.25 * (k * 7 % 5)) *
						     (0.7 + (double)fan_rng_below(rng, 600) / 1000)
					   : 0.95 + (double)fan_rng_below(rng, 100) / 1000;
		rtt_us[k] = l->share[k] ? (uint32_t)((400 + queue + ranks) * noise) : 0;
	}
}

/* One operation.  True: the shares have moved. */
static bool learn(const struct net *n, struct fan_split_learner *l, struct fan_rng *rng)
{
	uint32_t rtt_us[FAN_PARTS_MAX], sum = 0;
	double noise = 1 + (double)fan_rng_below(rng, 40) / 1000;
	double time = n->beside_others ? (time_of(n, l) + best_time(n)) / 2 : time_of(n, l);
	time += n->delay;
	round_trips(n, l, rng, rtt_us);
	bool moved = fan_split_learn(l, rtt_us, (uint64_t)(time * noise * 1e6));
	for (unsigned k = 0; k < l->parts; k++)
		sum += l->share[k];
	assert_int_equal(sum, FAN_SPLIT_WHOLE);
	return moved;
}

static struct net equal_links(unsigned hosts, unsigned others, double rate)
{
	struct net n = {.hosts = hosts, .others = others};
	for (unsigned i = 0; i < hosts; i++)
		n.host[i] = 1;
	for (unsigned i = 0; i < others; i++)
		n.other[i] = rate;
	return n;
}

/* Hosts have told the rates of their links; NULL: none has. */
static void begin_told(struct fan_split_learner *l, const struct net *n, const uint32_t *mbps)
{
	bool is_host[FAN_PARTS_MAX];
	uint32_t told[FAN_PARTS_MAX];
	for (unsigned k = 0; k < n->others + n->hosts; k++) {
		is_host[k] = k >= n->others;
		told[k] = mbps && is_host[k] ? mbps[k - n->others] : 0;
	}
	fan_split_learner_init(l, n->others + n->hosts, is_host, told);
}

#define begin(l, n) begin_told(l, n, NULL)

/* A try of former shares, which may be under way at any time, is over. */
static void end_try(const struct net *n, struct fan_split_learner *l, struct fan_rng *rng)
{
	if (l->phase == FAN_SPLIT_LOOKS_BACK)
		learn(n, l, rng);
}

/* After 20 operations: at most `worse` times the best time, but for a try or two, and from 30 on
 * the shares stay, but for tries of those before another network was noticed. */
static void settles(struct fan_split_learner *l, const struct net *n, double worse)
{
	struct fan_rng rng = test_rng();
	unsigned slow = 0, moved = 0;
	for (int i = 0; i < 20; i++)
		learn(n, l, &rng);
	for (int i = 0; i < 10; i++) {
		slow += time_of(n, l) > worse * best_time(n);
		learn(n, l, &rng);
	}
	end_try(n, l, &rng);
	if (slow > 2 || time_of(n, l) > worse * best_time(n))
		fail_msg("%u hosts, %u others: %.3f of the best time, %u slow ones", n->hosts,
			 n->others, time_of(n, l) / best_time(n), slow);
	bool looks_back = l->has_former;
	for (int i = 0; i < 200; i++)
		moved += learn(n, l, &rng);
	end_try(n, l, &rng);
	assert_true(moved <= (looks_back ? 8 : 0));
	assert_true(time_of(n, l) <= worse * best_time(n));
}

TEST(split__equal_links_keep_the_first_shares)
{
	for (unsigned hosts = 3; hosts <= 8; hosts++)
		for (unsigned others = 0; others <= hosts; others++) {
			struct net n = equal_links(hosts, others, 1);
			struct fan_split_learner l;
			begin(&l, &n);
			assert_true(time_of(&n, &l) <= 1.001 * best_time(&n));
			settles(&l, &n, 1.05);
		}
}

/* Round trips that say otherwise move no shares where no time is gained: a column's own shares
 * count for little beside those of others. */
TEST(split__equal_links_keep_them_whatever_round_trips_say)
{
	unsigned moved = 0, all = 0;
	for (unsigned hosts = 4; hosts <= 8; hosts++)
		for (uint64_t seed = 1; seed <= 100; seed++, all++) {
			struct net n = equal_links(hosts, 0, 1);
			struct fan_split_learner l;
			struct fan_rng rng = fan_rng_stream(seed, hosts);
			n.misleads = n.beside_others = true;
			begin(&l, &n);
			for (int i = 0; i < 40; i++) {
				n.delay = i ? 0 : 4 * best_time(&n);
				learn(&n, &l, &rng);
			}
			moved += time_of(&n, &l) > 1.01 * best_time(&n);
		}
	if (moved * 50 > all)
		fail_msg("moved in %u of %u networks", moved, all);
}

TEST(split__a_wide_box_gets_everything)
{
	struct net n = equal_links(8, 1, 8);
	struct fan_split_learner l;
	begin(&l, &n);
	settles(&l, &n, 1.001);
	assert_int_equal(l.share[0], FAN_SPLIT_WHOLE);
}

TEST(split__a_slow_spare_gets_little)
{
	for (double rate = 0.1; rate < 3; rate *= 1.5) {
		struct net n = equal_links(4, 2, 1);
		struct fan_split_learner l;
		n.other[1] = rate;
		begin(&l, &n);
		settles(&l, &n, 1.1);
	}
}

TEST(split__a_slow_host_sums_nothing)
{
	struct net n = equal_links(4, 0, 1);
	struct fan_split_learner l;
	n.host[2] = 0.25;
	begin(&l, &n);
	settles(&l, &n, 1.1);
	assert_int_equal(l.share[2], 0);
}

TEST(split__a_link_that_becomes_slow_is_noticed)
{
	struct net n = equal_links(4, 1, 1);
	struct fan_split_learner l;
	begin(&l, &n);
	settles(&l, &n, 1.05);
	n.other[0] = 0.25;
	settles(&l, &n, 1.1);
	n.other[0] = 4; /* and one that becomes wide is, once the others show it */
	n.host[1] = 0.5;
	settles(&l, &n, 1.1);
}

/* A host without a processor for a while looks as one whose link is narrow, and its link is as wide
 * as before once it is over, however long it took and whenever it came. */
TEST(split__what_passes_leaves_the_shares_as_they_were)
{
	unsigned worse = 0, all = 0;
	for (unsigned hosts = 4; hosts <= 8; hosts += 2)
		for (unsigned others = 0; others <= 2; others++)
			for (int before = 0; before < 30; before++)
				for (int slow = 1; slow <= 24; slow += 1 + slow / 4, all++) {
					struct net n = equal_links(hosts, others, 1);
					struct fan_rng rng =
						fan_rng_stream((uint64_t)before, (uint64_t)slow);
					struct fan_split_learner l;
					begin(&l, &n);
					for (int i = 0; i < before; i++)
						learn(&n, &l, &rng);
					n.host[hosts - 1] = 0.25;
					for (int i = 0; i < slow; i++)
						learn(&n, &l, &rng);
					n.host[hosts - 1] = 1;
					for (int i = 0; i < 100; i++)
						learn(&n, &l, &rng);
					end_try(&n, &l, &rng);
					worse += time_of(&n, &l) > 1.03 * best_time(&n);
				}
	if (worse * 50 > all)
		fail_msg("worse in %u of %u", worse, all);
}

/* A host whose processor is away for a quarter of the time, now and then: shares that followed it
 * each time would make tensors take 1.14 times as long as the best shares do. */
TEST(split__a_load_that_comes_and_goes)
{
	struct fan_rng rng = test_rng();
	double time = 0, best = 0;
	for (unsigned others = 0; others <= 4; others += 2)
		for (unsigned run = 0; run < 40; run++) {
			struct net n = equal_links(run % 2 ? 4 : 8, others, 1);
			struct fan_split_learner l;
			begin(&l, &n);
			for (int i = 0; i < 30; i++)
				learn(&n, &l, &rng);
			for (int i = 0; i < 400; i++) {
				n.host[0] = i % 20 < 5 ? 0.5 : 1;
				learn(&n, &l, &rng);
				time += time_of(&n, &l);
				best += best_time(&n);
			}
		}
	if (time > 1.13 * best)
		fail_msg("%.3f of the best time", time / best);
}

/* Round trips tell which link it is, and times how much slower it has become. */
TEST(split__a_link_that_becomes_slow_loses_what_it_should_at_once)
{
	for (unsigned others = 1; others <= 4; others++) {
		struct net n = equal_links(4, others, 1);
		struct fan_rng rng = test_rng();
		struct fan_split_learner l;
		begin(&l, &n);
		while (l.phase != FAN_SPLIT_SETTLED)
			learn(&n, &l, &rng);
		n.other[0] = 0.25;
		while (l.phase == FAN_SPLIT_SETTLED)
			learn(&n, &l, &rng);
		assert_true(time_of(&n, &l) <= 1.3 * best_time(&n));
	}
}

/* Also while shares are still learnt, or have only just come to stay; hosts, which had none, have
 * to get some. */
TEST(split__a_link_that_becomes_slow_at_first)
{
	for (int before = 0; before < 24; before++) {
		struct net n = equal_links(4, 4, 1);
		struct fan_rng rng = test_rng();
		struct fan_split_learner l;
		begin(&l, &n);
		for (int i = 0; i < before; i++)
			learn(&n, &l, &rng);
		n.other[3] = 0.25;
		settles(&l, &n, 1.1);
	}
}

/* Where shares move to and fro all the time for no reason, that the network has changed is told
 * from what the same shares cost. */
TEST(split__a_link_that_becomes_slow_among_misleading_ones)
{
	for (int before = 0; before < 24; before++) {
		struct net n = equal_links(4, 4, 1);
		struct fan_rng rng = test_rng();
		struct fan_split_learner l;
		n.misleads = true;
		begin(&l, &n);
		for (int i = 0; i < before; i++)
			learn(&n, &l, &rng);
		n.other[3] = 0.25;
		for (int i = 0; i < 40; i++)
			learn(&n, &l, &rng);
		end_try(&n, &l, &rng);
		assert_int_equal(l.phase, FAN_SPLIT_SETTLED);
		assert_true(time_of(&n, &l) <= 1.2 * best_time(&n));
	}
}

/* What cards tell. */
static void draw_cards(struct fan_rng *rng, uint32_t *mbps, unsigned hosts)
{
	static const uint32_t cards[] = {100, 1000, 2500, 10000, 25000, 100000, 400000};
	while (hosts--)
		mbps[hosts] = cards[fan_rng_below(rng, sizeof cards / sizeof cards[0])];
}

/* Where rates are what cards tell, the first shares are the best. */
TEST(split__told_rates_give_the_best_first_shares)
{
	struct fan_rng rng = test_rng();
	for (unsigned i = 0; i < 500; i++) {
		unsigned hosts = 3 + i % 14;
		uint32_t mbps[HOSTS_MAX];
		struct net n = equal_links(hosts, i % 3, 1);
		struct fan_split_learner l;
		draw_cards(&rng, mbps, hosts);
		n.other[0] = n.other[1] = 400; /* or as the narrowest host */
		for (unsigned h = 0; h < hosts; h++)
			if ((n.host[h] = mbps[h] / 1000.0) < n.other[0])
				n.other[0] = n.other[1] = n.host[h];
		begin_told(&l, &n, mbps);
		assert_true(time_of(&n, &l) <= 1.08 * best_time(&n)); /* small ones are none */
	}
}

/* Where they are not, one measurement later they are those of equal links, or better ones. */
TEST(split__wrong_rates_last_for_one_measurement)
{
	struct fan_rng rng = test_rng();
	uint32_t mbps[HOSTS_MAX];
	for (unsigned i = 0; i < 500; i++) {
		const unsigned hosts = 3 + i % 14;
		struct net n = equal_links(hosts, i % 3, 1);
		struct fan_split_learner l, equal;
		draw_cards(&rng, mbps, hosts);
		begin(&equal, &n);
		begin_told(&l, &n, mbps);
		learn(&n, &l, &rng);
		learn(&n, &l, &rng);
		memcpy(l.share, l.best, sizeof l.share); /* a try may be under way */
		assert_true(time_of(&n, &l) <= 1.03 * time_of(&n, &equal));
		settles(&l, &n, 1.05);
	}
}

TEST(split__rates_that_are_alike_or_unknown_change_nothing)
{
	const uint32_t told[2][4] = {{9, 9, 9, 9}, {9, 0, 8, 9}};
	struct net n = equal_links(4, 1, 1);
	struct fan_split_learner l, equal;
	begin(&equal, &n);
	for (unsigned i = 0; i < 2; i++) {
		begin_told(&l, &n, told[i]);
		assert_memory_equal(&l, &equal, sizeof l);
	}
}

/* A box that was wide has everything, or nearly; when its link becomes narrow, hosts have to sum
 * again, whenever that is. */
TEST(split__a_box_that_becomes_narrow)
{
	for (int before = 0; before < 24; before++) {
		struct net n = equal_links(4, 1, 4);
		struct fan_rng rng = test_rng();
		struct fan_split_learner l;
		begin(&l, &n);
		for (int i = 0; i < before; i++)
			learn(&n, &l, &rng);
		n.other[0] = 1;
		settles(&l, &n, 1.1);
	}
}

/* The part on the root's host has all of it, whatever its share, and the others nothing. */
TEST(split__an_operation_of_a_set_is_not_cut)
{
	struct fan_split s;
	struct fanin_op op = {
		.kind = FAN_OP_MEMBER, .op = {.count = 1000}, .is_whole = true, .home = 2};
	fan_split_even(&s, 4);
	for (unsigned k = 0; k < 4; k++) {
		struct fan_split_range r = fan_share_meter_range(&s, &op, 10, k);
		assert_int_equal(r.takes_part, k == 2);
		assert_true(k != 2 || (r.first == 0 && r.end == 1000));
	}
	op.is_whole = false;
	for (unsigned k = 0; k < 4; k++) {
		struct fan_split_range r = fan_share_meter_range(&s, &op, 10, k);
		assert_true(r.takes_part && r.end - r.first == 250);
	}
}

/* Hosts that should sum nothing do so after two tries. */
TEST(split__a_wide_box_gets_everything_soon)
{
	for (unsigned hosts = 3; hosts <= 16; hosts++) {
		struct net n = equal_links(hosts, 1, hosts);
		struct fan_rng rng = test_rng();
		struct fan_split_learner l;
		begin(&l, &n);
		for (int i = 0; i < 2; i++)
			learn(&n, &l, &rng);
		assert_int_equal(l.share[0], FAN_SPLIT_WHOLE);
	}
}

/* An operation that is under way keeps the shares that it was started with. */
TEST(split__an_operation_keeps_its_shares)
{
	struct fan_split_history h = {.from = 0};
	fan_split_even(&h.now, 2);
	fan_split_even(&h.before, 2);
	fan_split_history_turn(&h, 7);
	fan_split_even(&h.now, 3);
	assert_int_equal(fan_split_history_at(&h, 6)->parts, 2);
	assert_int_equal(fan_split_history_at(&h, 7)->parts, 3);
	fan_split_history_turn(&h, 9);
	fan_split_even(&h.now, 4);
	assert_null(fan_split_history_at(&h, 6));
	assert_int_equal(fan_split_history_at(&h, 7)->parts, 3);
	assert_int_equal(fan_split_history_at(&h, 8)->parts, 3);
	assert_int_equal(fan_split_history_at(&h, 9)->parts, 4);
}

TEST(shares__of_rails_by_their_rates)
{
	static const bool is_host[4] = {true, true, true, true};
	struct fan_split_learner l;
	fan_split_learner_init(&l, 4, is_host, NULL);
	fan_split_learner_weigh(&l, (uint32_t[]){1000, 1000, 3000, 3000}, 8000);
	for (unsigned k = 0; k < 4; k++)
		assert_int_equal(l.share[k], FAN_SPLIT_WHOLE * (k < 2 ? 1 : 3) / 8);
	fan_split_learner_weigh(&l, (uint32_t[]){100, 100, 25000, 25000}, 50200);
	for (unsigned k = 0; k < 4; k++)
		assert_int_equal(l.share[k], k < 2 ? 0 : FAN_SPLIT_WHOLE / 2);
}

UNIT_MAIN
