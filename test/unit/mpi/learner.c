/* SPDX-License-Identifier: Apache-2.0 */
/* Which way calls go. */
#include "unit/unit.h"

#include "mpi/learner.h"

#define BYTES	    4096
#define LARGE	    (1 << 20)
#define LARGE_TRIAL (2 + 2 * FAN_LEARNER_TIMES)
#define TRIAL	    FAN_LEARNER_STEPS_MAX	    /* calls of one with so few bytes... */
#define LOST	    (4 + 2 * 2 * FAN_LEARNER_BLOCK) /* ...in which fanin does not win two pairs */

static struct fan_learner *learner;

static int setup(void **state)
{
	(void)state;
	learner = calloc(1, sizeof *learner);
	return learner ? 0 : -1;
}

static int teardown(void **state)
{
	(void)state;
	free(learner);
	return 0;
}

/* One call, where either way takes so long: true if it went to fanin. */
static bool call(size_t bytes, double mpi_s, double fanin_s, double unsettled)
{
	struct fan_learner_step step;
	fan_learner_next(learner, FAN_LEARNER_ALLREDUCE, bytes, &step);
	double took_s = step.fanin ? fanin_s : mpi_s;
	if (step.time_s)
		*step.time_s += took_s;
	if (step.trial)
		step.class->times.trial_s += took_s;
	if (step.agree) {
		struct fan_learner_times all = step.class->times;
		all.unsettled = unsettled;
		fan_learner_decide(learner, FAN_LEARNER_ALLREDUCE, bytes, &all);
	}
	return step.fanin;
}

/* Of `calls` calls, those that went to fanin. */
static unsigned by_fanin(unsigned calls, double mpi_s, double fanin_s)
{
	unsigned n = 0;
	for (unsigned i = 0; i < calls; i++)
		n += call(BYTES, mpi_s, fanin_s, 0);
	return n;
}

static void learner__takes_the_faster_way(void **state)
{
	(void)state;
	assert_int_equal(by_fanin(TRIAL, 2e-3, 1e-3), TRIAL / 2);
	assert_int_equal(by_fanin(FAN_LEARNER_PROBATION, 2e-3, 1e-3), FAN_LEARNER_PROBATION);
	assert_int_equal(by_fanin(TRIAL, 2e-3, 1e-3), TRIAL / 2);
	assert_int_equal(by_fanin(FAN_LEARNER_REST_MIN, 2e-3, 1e-3), FAN_LEARNER_REST_MIN);
	assert_true(fan_learner_peek(learner, FAN_LEARNER_ALLREDUCE, BYTES));
	assert_true(fan_learner_peek(learner, FAN_LEARNER_ALLREDUCE, 16 * BYTES));
	assert_false(fan_learner_peek(learner, FAN_LEARNER_ALLREDUCE, BYTES / 16));
	assert_false(fan_learner_peek(learner, FAN_LEARNER_REDUCE, BYTES));
}

static void learner__leaves_the_mpi_what_is_as_fast(void **state)
{
	(void)state;
	assert_int_equal(by_fanin(LOST, 1e-3, 0.92e-3), LOST / 2);
	assert_int_equal(by_fanin(FAN_LEARNER_REST_MIN, 1e-3, 0.92e-3), 0);
	for (unsigned i = 0; i < LARGE_TRIAL; i++)
		call(LARGE, 1e-3, 0.98e-3, 0);
	assert_false(call(LARGE, 1e-3, 0.98e-3, 0));
}

/* Long calls are not as restless as short ones, for which so little is not enough. */
static void learner__takes_a_little_where_calls_are_long(void **state)
{
	(void)state;
	for (unsigned i = 0; i < LARGE_TRIAL; i++)
		call(LARGE, 1e-3, 0.92e-3, 0);
	assert_true(call(LARGE, 1e-3, 0.92e-3, 0));
}

/* One untimed call and one timed are enough. */
static void learner__gives_up_what_is_hopeless(void **state)
{
	(void)state;
	assert_int_equal(by_fanin(4, 1e-3, 9e-3), 2);
	assert_int_equal(by_fanin(FAN_LEARNER_REST_MIN, 1e-3, 9e-3), 0);
	assert_false(call(BYTES / 2, 1e-3, 1e-6, 0)); /* what is smaller is not tried */
	assert_true(call(BYTES * 2, 1e-3, 1e-6, 0));
}

static void learner__trials_cost_a_small_share(void **state)
{
	(void)state;
	const double mpi_s = 1e-3, fanin_s = 5e-3;
	unsigned calls = 200000, n = by_fanin(calls, mpi_s, fanin_s);
	assert_true(n > 4); /* it looks again... */
	assert_true(n * (fanin_s - mpi_s) < FAN_LEARNER_SHARE * calls * mpi_s); /* ...but rarely */
}

/* Though such a trial wastes nothing: its calls are not as the others. */
static void learner__what_lost_rests_longer_than_it_took(void **state)
{
	(void)state;
	assert_int_equal(by_fanin(LOST, 1e-3, 1e-3), LOST / 2);
	assert_int_equal(by_fanin((unsigned)(LOST / FAN_LEARNER_LOST_SHARE), 1e-3, 1e-3), 0);
	assert_int_equal(by_fanin(LOST, 1e-3, 1e-3), LOST / 2);
}

/* Fewer pairs than it takes, but faster in sum: nothing is lost by another trial. */
static void learner__what_nearly_won_is_tried_again_soon(void **state)
{
	(void)state;
	assert_int_equal(by_fanin(LOST, 1e-3, 0.95e-3), LOST / 2);
	by_fanin(FAN_LEARNER_REST_MIN, 1e-3, 0.95e-3);
	assert_true(call(BYTES, 1e-3, 0.95e-3, 0));
}

static void learner__follows_a_change(void **state)
{
	(void)state;
	by_fanin(TRIAL, 2e-3, 1e-3);
	unsigned n = 0;
	while (n < 10000 && by_fanin(1, 2e-3, 4e-3))
		n++;
	assert_true(n < 2000);
	by_fanin(TRIAL, 2e-3, 4e-3);
	assert_int_equal(by_fanin(100, 2e-3, 4e-3), 0);
}

/* Slow calls of the MPI in three blocks of eight, as on a machine with other work, do not make
 * fanin faster, and not in sum either. */
static void learner__a_few_slow_calls_do_not_count(void **state)
{
	(void)state;
	for (unsigned i = 0; i < TRIAL; i++)
		call(BYTES, i < 4 + 5 * FAN_LEARNER_BLOCK ? 99e-3 : 1e-3, 1.5e-3, 0);
	assert_int_equal(by_fanin(FAN_LEARNER_PROBATION, 1e-3, 1.5e-3), 0);
}

/* Seven pairs won do not help if the eighth costs more than they gain. */
static void learner__rare_slow_calls_count(void **state)
{
	(void)state;
	for (unsigned i = 0; i < TRIAL; i++)
		call(BYTES, 1e-3, i < TRIAL - FAN_LEARNER_BLOCK ? 0.8e-3 : 9e-3, 0);
	assert_int_equal(by_fanin(FAN_LEARNER_PROBATION, 1e-3, 0.8e-3), 0);
}

/* What gets slower and slower is no merit of who comes first. */
static void learner__drifts_favour_nobody(void **state)
{
	(void)state;
	for (unsigned i = 0; i < TRIAL; i++)
		call(BYTES, 1e-3 * (1 + i / 16.0), 1e-3 * (1 + i / 16.0), 0);
	assert_int_equal(by_fanin(FAN_LEARNER_PROBATION, 1e-3, 1e-3), 0);
}

/* Ranks begin a block together, and nothing is between its calls. */
static void learner__begins_blocks_together(void **state)
{
	(void)state;
	struct fan_learner_step step;
	unsigned begun = 0;
	for (unsigned i = 0; i < TRIAL; i++) {
		fan_learner_next(learner, FAN_LEARNER_ALLREDUCE, BYTES, &step);
		begun += step.first;
	}
	assert_int_equal(begun, 4 + 2 * FAN_LEARNER_PAIRS);
}

/* A verdict for fanin that was wrong is looked at again soon. */
static void learner__a_wrong_verdict_is_short(void **state)
{
	(void)state;
	by_fanin(TRIAL, 1, 1e-3);
	assert_int_equal(by_fanin(FAN_LEARNER_PROBATION, 1e-3, 9e-3), FAN_LEARNER_PROBATION);
	by_fanin(4, 1e-3, 9e-3);
	assert_int_equal(by_fanin(FAN_LEARNER_REST_MIN, 1e-3, 9e-3), 0);
}

static void learner__rests_as_next_says(void **state)
{
	(void)state;
	assert_null(fan_learner_rest(learner, FAN_LEARNER_ALLREDUCE, BYTES));
	by_fanin(4, 1e-3, 9e-3);
	unsigned n = 0;
	for (uint64_t *rest; (rest = fan_learner_rest(learner, FAN_LEARNER_ALLREDUCE, BYTES)); n++)
		--*rest;
	assert_true(n >= FAN_LEARNER_REST_MIN);
	assert_true(call(BYTES, 1e-3, 9e-3, 0)); /* the next trial begins */
}

/* Shares that are still learnt get practice, a few times. */
static void learner__practises_while_shares_are_learnt(void **state)
{
	(void)state;
	unsigned n = 0, once = LOST + FAN_LEARNER_PRACTICE;
	for (unsigned i = 0; i < once; i++)
		n += call(BYTES, 1e-3, 1.2e-3, 1);
	assert_int_equal(n, LOST / 2 + FAN_LEARNER_PRACTICE);
	for (unsigned i = 0; i < TRIAL; i++)
		call(BYTES, 1e-3, 0.8e-3, 0);
	assert_true(call(BYTES, 1e-3, 0.8e-3, 0));
}

static void learner__practice_ends(void **state)
{
	(void)state;
	unsigned n = 0;
	for (unsigned i = 0; i < 1000; i++)
		n += call(BYTES, 1e-3, 1.2e-3, 1);
	assert_true(n <= FAN_LEARNER_PRACTICES * FAN_LEARNER_PRACTICE +
				 LOST / 2 * (FAN_LEARNER_PRACTICES + 4));
}

static void learner__any_size(void **state)
{
	(void)state;
	const size_t sizes[] = {0, 1, 8, 9, SIZE_MAX / 2, SIZE_MAX};
	struct fan_learner_step step, same;
	for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
		fan_learner_next(learner, FAN_LEARNER_BARRIER, sizes[i], &step);
	fan_learner_next(learner, FAN_LEARNER_BCAST, 1025, &step);
	fan_learner_next(learner, FAN_LEARNER_BCAST, 2048, &same);
	assert_ptr_equal(step.class, same.class);
	fan_learner_next(learner, FAN_LEARNER_BCAST, 1024, &same);
	assert_ptr_not_equal(step.class, same.class);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

/* ---- Where times are restless: how often the slower one is taken, and what a
 * program loses by it.  Times are drawn, those of one call as all ranks agree on them. ---- */

#define SMALL	    8
#define PROGRAMS    400
#define FIRST_CALLS 300 /* by then the first trial has ended */
#define CALLS	    2000
#define FEW_CALLS   600

/* How long calls take: fanin's `ratio` times as long as the MPI's, in the mean. */
struct world {
	double ratio;
	double rare, slow;   /* that part of the calls takes `slow` times as long */
	double change, pace; /* that part of the calls begins or ends a time in which the machine is
			      * `pace` times slower */
	double own_change;   /* the same of each way by itself */
	unsigned start;	     /* so many calls of the MPI, at first, take... */
	double start_slow;   /* ...so many times as long */
	double after_other;  /* a call of the MPI after one of fanin does */
};

struct program {
	const struct world *world;
	struct fan_learner learner;
	uint64_t random;
	unsigned mpi_calls, fanin_calls;
	bool slow_all, slow_way[2], last;
};

static double uniform(struct program *p)
{
	uint64_t x = p->random += UINT64_C(0x9e3779b97f4a7c15); /* splitmix64 */
	x = (x ^ x >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
	x = (x ^ x >> 27) * UINT64_C(0x94d049bb133111eb);
	return (double)((x ^ x >> 31) >> 11) * 0x1p-53;
}

static double draw(struct program *p, bool fanin)
{
	const struct world *w = p->world;
	double time = (fanin ? w->ratio : 1) * (0.6 + 0.8 * uniform(p));
	if (uniform(p) < w->rare)
		time *= 1 + (w->slow - 1) * uniform(p);
	p->slow_all ^= uniform(p) < w->change;
	for (int i = 0; i < 2; i++)
		p->slow_way[i] ^= uniform(p) < w->own_change;
	if (p->slow_all || p->slow_way[fanin])
		time *= w->pace;
	if (!fanin && p->mpi_calls < w->start)
		time *= w->start_slow;
	if (!fanin && p->last && w->after_other > 0)
		time *= w->after_other;
	p->last = fanin;
	return time;
}

/* True: it went to fanin. */
static bool noise_call(struct program *p)
{
	struct fan_learner_step step;
	fan_learner_next(&p->learner, FAN_LEARNER_ALLREDUCE, SMALL, &step);
	double took = draw(p, step.fanin);
	p->mpi_calls += !step.fanin;
	p->fanin_calls += step.fanin;
	if (step.time_s)
		*step.time_s += took;
	if (step.trial)
		step.class->times.trial_s += took;
	if (step.agree)
		fan_learner_decide(&p->learner, FAN_LEARNER_ALLREDUCE, SMALL, &step.class->times);
	return step.fanin;
}

/* Of PROGRAMS programs, the part that has fanin after `calls` calls, and of all their calls those
 * that fanin got. */
static double taking(const struct world *w, unsigned calls, double *share)
{
	unsigned taken = 0, by_fanin = 0;
	for (unsigned i = 0; i < PROGRAMS; i++) {
		struct program *p = calloc(1, sizeof *p);
		assert_non_null(p);
		p->world = w;
		p->random = i * UINT64_C(0x51ed2701a3c5e9b7);
		for (unsigned n = 0; n < calls; n++)
			noise_call(p);
		taken += fan_learner_peek(&p->learner, FAN_LEARNER_ALLREDUCE, SMALL);
		by_fanin += p->fanin_calls;
		free(p);
	}
	*share = by_fanin / ((double)PROGRAMS * calls);
	return taken / (double)PROGRAMS;
}

/* Of the MPI's time, what a program loses in the mean that makes so many calls. */
static double loss(const struct world *w, unsigned calls)
{
	double share;
	taking(w, calls, &share);
	return share * (w->ratio - 1);
}

/* fanin is slower, and few programs take it. */
static void expect_left(const struct world *w, double wrong_max, double loss_max)
{
	double share, wrong = taking(w, FIRST_CALLS, &share);
	double lost = loss(w, CALLS), lost_few = loss(w, FEW_CALLS);
	print_message("wrong %.4f, lost %.4f of %u calls, %.4f of %u\n", wrong, lost, CALLS,
		      lost_few, FEW_CALLS);
	assert_true(wrong <= wrong_max);
	assert_true(lost <= loss_max);
}

/* fanin is faster, and most programs take it in the end. */
static void expect_taken(const struct world *w, double found_min)
{
	double share, found = taking(w, CALLS, &share);
	print_message("found %.4f, share of calls %.4f\n", found, share);
	assert_true(found >= found_min);
}

static void noise__as_fast(void **state)
{
	(void)state;
	expect_left(&(struct world){.ratio = 1.0, .rare = 0.3, .slow = 10}, 0.02, 0.01);
}

static void noise__a_little_slower(void **state)
{
	(void)state;
	expect_left(&(struct world){.ratio = 1.15, .rare = 0.3, .slow = 10}, 0.01, 0.01);
}

static void noise__much_slower(void **state)
{
	(void)state;
	expect_left(&(struct world){.ratio = 1.6, .rare = 0.3, .slow = 10}, 0.005, 0.01);
}

/* The machine keeps to one pace for a while, for both. */
static void noise__paces(void **state)
{
	(void)state;
	expect_left(&(struct world){.ratio = 1.15, .change = 0.02, .pace = 12}, 0.01, 0.01);
}

/* Each way has paces of its own. */
static void noise__own_paces(void **state)
{
	(void)state;
	expect_left(&(struct world){.ratio = 1.15, .own_change = 0.03, .pace = 8}, 0.02, 0.01);
}

/* The MPI's first calls open its connections. */
static void noise__slow_start(void **state)
{
	(void)state;
	expect_left(&(struct world){.ratio = 1.3, .start = 40, .start_slow = 5}, 0.005, 0.02);
}

/* Trials in turns would see what programs do not have. */
static void noise__slow_after_the_other(void **state)
{
	(void)state;
	expect_left(&(struct world){.ratio = 1.5, .after_other = 3}, 0.005, 0.01);
}

static void noise__gains_are_found(void **state)
{
	(void)state;
	expect_taken(&(struct world){.ratio = 0.5}, 0.99);
	expect_taken(&(struct world){.ratio = 0.5, .rare = 0.1, .slow = 5}, 0.95);
	expect_taken(&(struct world){.ratio = 0.6, .rare = 0.1, .slow = 5}, 0.8);
	expect_taken(&(struct world){.ratio = 0.4, .change = 0.02, .pace = 12}, 0.8);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(learner__takes_the_faster_way),
		TEST(learner__leaves_the_mpi_what_is_as_fast),
		TEST(learner__takes_a_little_where_calls_are_long),
		TEST(learner__gives_up_what_is_hopeless),
		TEST(learner__trials_cost_a_small_share),
		TEST(learner__what_lost_rests_longer_than_it_took),
		TEST(learner__what_nearly_won_is_tried_again_soon),
		TEST(learner__follows_a_change),
		TEST(learner__a_few_slow_calls_do_not_count),
		TEST(learner__rare_slow_calls_count),
		TEST(learner__drifts_favour_nobody),
		TEST(learner__begins_blocks_together),
		TEST(learner__a_wrong_verdict_is_short),
		TEST(learner__rests_as_next_says),
		TEST(learner__practises_while_shares_are_learnt),
		TEST(learner__practice_ends),
		TEST(learner__any_size),
		cmocka_unit_test(noise__as_fast),
		cmocka_unit_test(noise__a_little_slower),
		cmocka_unit_test(noise__much_slower),
		cmocka_unit_test(noise__paces),
		cmocka_unit_test(noise__own_paces),
		cmocka_unit_test(noise__slow_start),
		cmocka_unit_test(noise__slow_after_the_other),
		cmocka_unit_test(noise__gains_are_found),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
