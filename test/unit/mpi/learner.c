/* SPDX-License-Identifier: Apache-2.0 */
/* Which way calls go. */
#include "unit/unit.h"

#include "mpi/learner.h"

#define BYTES (1 << 20)
#define TRIAL FAN_LEARNER_STEPS

static struct fan_learner *learner;

static int setup(void **state __attribute__((unused)))
{
	learner = calloc(1, sizeof *learner);
	return learner ? 0 : -1;
}

static int teardown(void **state __attribute__((unused)))
{
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

TEST_WITH(learner__takes_the_faster_way, setup, teardown)
{
	assert_int_equal(by_fanin(TRIAL, 2e-3, 1e-3), TRIAL / 2);
	assert_int_equal(by_fanin(FAN_LEARNER_REST_MIN, 2e-3, 1e-3), FAN_LEARNER_REST_MIN);
	assert_int_equal(by_fanin(TRIAL, 2e-3, 1e-3), TRIAL / 2);
	assert_true(fan_learner_peek(learner, FAN_LEARNER_ALLREDUCE, BYTES));
	assert_true(fan_learner_peek(learner, FAN_LEARNER_ALLREDUCE, 16 * BYTES));
	assert_false(fan_learner_peek(learner, FAN_LEARNER_ALLREDUCE, BYTES / 16));
	assert_false(fan_learner_peek(learner, FAN_LEARNER_REDUCE, BYTES));
}

TEST_WITH(learner__leaves_the_mpi_what_is_as_fast, setup, teardown)
{
	assert_int_equal(by_fanin(TRIAL, 1e-3, 0.98e-3), TRIAL / 2);
	assert_int_equal(by_fanin(FAN_LEARNER_REST_MIN, 1e-3, 0.98e-3), 0);
}

/* One untimed call and one timed are enough. */
TEST_WITH(learner__gives_up_what_is_hopeless, setup, teardown)
{
	assert_int_equal(by_fanin(4, 1e-3, 9e-3), 2);
	assert_int_equal(by_fanin(FAN_LEARNER_REST_MIN, 1e-3, 9e-3), 0);
	assert_true(call(BYTES / 2, 1e-3, 1e-6, 0)); /* other sizes are tried */
}

TEST_WITH(learner__trials_cost_a_small_share, setup, teardown)
{
	const double mpi_s = 1e-3, fanin_s = 5e-3;
	unsigned calls = 200000, n = by_fanin(calls, mpi_s, fanin_s);
	assert_true(n > 4); /* it looks again... */
	assert_true(n * (fanin_s - mpi_s) < FAN_LEARNER_SHARE * calls * mpi_s); /* ...but rarely */
}

TEST_WITH(learner__follows_a_change, setup, teardown)
{
	by_fanin(TRIAL, 2e-3, 1e-3);
	unsigned n = 0;
	while (n < 10000 && by_fanin(1, 2e-3, 4e-3))
		n++;
	assert_true(n < 2 * FAN_LEARNER_REST_MIN);
	by_fanin(TRIAL, 2e-3, 4e-3);
	assert_int_equal(by_fanin(100, 2e-3, 4e-3), 0);
}

/* One of three, of either, as on a machine with other work. */
TEST_WITH(learner__a_slow_call_does_not_count, setup, teardown)
{
	for (unsigned i = 0; i < TRIAL; i++)
		call(BYTES, i == 5 ? 99e-3 : 1e-3, 1.2e-3, 0);
	assert_false(call(BYTES, 1e-3, 1.2e-3, 0));
	for (unsigned i = 0; i < TRIAL; i++)
		call(4 * BYTES, 1e-3, i == 6 ? 99e-3 : 0.8e-3, 0);
	assert_true(call(4 * BYTES, 1e-3, 0.8e-3, 0));
}

TEST_WITH(learner__rests_as_next_says, setup, teardown)
{
	assert_null(fan_learner_rest(learner, FAN_LEARNER_ALLREDUCE, BYTES));
	by_fanin(4, 1e-3, 9e-3);
	unsigned n = 0;
	for (uint64_t *rest; (rest = fan_learner_rest(learner, FAN_LEARNER_ALLREDUCE, BYTES)); n++)
		--*rest;
	assert_true(n >= FAN_LEARNER_REST_MIN);
	assert_true(call(BYTES, 1e-3, 9e-3, 0)); /* the next trial begins */
}

/* Shares that are still learnt get practice, a few times. */
TEST_WITH(learner__practises_while_shares_are_learnt, setup, teardown)
{
	unsigned n = 0, once = TRIAL + FAN_LEARNER_PRACTICE;
	for (unsigned i = 0; i < once; i++)
		n += call(BYTES, 1e-3, 1.2e-3, 1);
	assert_int_equal(n, TRIAL / 2 + FAN_LEARNER_PRACTICE);
	for (unsigned i = 0; i < TRIAL; i++)
		call(BYTES, 1e-3, 0.8e-3, 0);
	assert_true(call(BYTES, 1e-3, 0.8e-3, 0));
}

TEST_WITH(learner__practice_ends, setup, teardown)
{
	unsigned n = 0;
	for (unsigned i = 0; i < 1000; i++)
		n += call(BYTES, 1e-3, 1.2e-3, 1);
	assert_true(n <= FAN_LEARNER_PRACTICES * FAN_LEARNER_PRACTICE +
				 TRIAL / 2 * (FAN_LEARNER_PRACTICES + 3));
}

TEST_WITH(learner__nothing_is_practised_that_is_hopeless, setup, teardown)
{
	assert_int_equal(by_fanin(4, 1e-3, 9e-3), 2);
	assert_false(call(BYTES, 1e-3, 9e-3, 1));
	for (unsigned i = 0; i < 4; i++)
		call(2 * BYTES, 1e-3, 9e-3, 1);
	assert_false(call(2 * BYTES, 1e-3, 9e-3, 1));
}

TEST_WITH(learner__any_size, setup, teardown)
{
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

UNIT_MAIN
