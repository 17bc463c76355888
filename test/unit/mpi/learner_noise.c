/* SPDX-License-Identifier: Apache-2.0 */
/* Which way calls go where times are restless: how often the slower one is taken, and what a
 * program loses by it.  Times are drawn, those of one call as all ranks agree on them. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdlib.h>

#include "mpi/learner.h"

#define BYTES	    8
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
static bool call(struct program *p)
{
	struct fan_learner_step step;
	fan_learner_next(&p->learner, FAN_LEARNER_ALLREDUCE, BYTES, &step);
	double took = draw(p, step.fanin);
	p->mpi_calls += !step.fanin;
	p->fanin_calls += step.fanin;
	if (step.time_s)
		*step.time_s += took;
	if (step.trial)
		step.class->times.trial_s += took;
	if (step.agree)
		fan_learner_decide(&p->learner, FAN_LEARNER_ALLREDUCE, BYTES, &step.class->times);
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
			call(p);
		taken += fan_learner_peek(&p->learner, FAN_LEARNER_ALLREDUCE, BYTES);
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
