/* SPDX-License-Identifier: Apache-2.0 */
#include "learner.h"

#include <assert.h>

#define WARM	   2	      /* untimed steps: one with fanin, one with the MPI */
#define LOOK_STEPS (WARM + 2) /* after them each of the two has been timed once */
#define PAIR_STEPS (2 * FAN_LEARNER_BLOCK)

unsigned fan_learner_class(size_t bytes)
{
	if (bytes < 2)
		return 0;
	unsigned n = 64 - (unsigned)__builtin_clzll((unsigned long long)bytes - 1);
	return n < FAN_LEARNER_CLASSES ? n : FAN_LEARNER_CLASSES - 1;
}

static bool is_short(unsigned class)
{
	return class <= FAN_LEARNER_SHORT;
}

double fan_learner_margin(unsigned class)
{
	return is_short(class) ? FAN_LEARNER_SHORT_MARGIN : FAN_LEARNER_MARGIN;
}

/* The steps of a trial. */
static unsigned steps_of(unsigned class)
{
	return is_short(class) ? LOOK_STEPS + FAN_LEARNER_PAIRS * PAIR_STEPS
			       : WARM + 2 * FAN_LEARNER_TIMES;
}

/* Single calls, in turn. */
static void step_alone(struct fan_learner_class *c, unsigned number, struct fan_learner_step *step)
{
	step->first = true;
	step->fanin = number % 2 == 0;
	step->agree = number + 1 == LOOK_STEPS;
	if (number >= WARM)
		step->time_s =
			(step->fanin ? c->times.fanin_s : c->times.mpi_s) + (number - WARM) / 2;
}

/* Blocks: one of fanin, two of the MPI, two of fanin and so on, so that a drift of the machine's
 * speed affects both alike. */
static void step_in_block(struct fan_learner_class *c, unsigned number,
			  struct fan_learner_step *step)
{
	assert(number < FAN_LEARNER_STEPS_MAX);
	unsigned block = number / FAN_LEARNER_BLOCK, call = number % FAN_LEARNER_BLOCK;
	step->first = call == 0;
	step->fanin = (block + 1) / 2 % 2 == 0;
	step->agree = (number + 1) % PAIR_STEPS == 0;
	if (call >= FAN_LEARNER_BLOCK_WARM)
		step->time_s = (step->fanin ? c->times.fanin_s : c->times.mpi_s) + 1 + block / 2;
}

void fan_learner_next(struct fan_learner *l, enum fan_learner_kind kind, size_t bytes,
		      struct fan_learner_step *step)
{
	assert(kind < FAN_LEARNER_KINDS);
	unsigned n = fan_learner_class(bytes);
	struct fan_learner_class *c = &l->of[kind][n];
	*step = (struct fan_learner_step){.class = c, .fanin = c->fanin};
	if (c->rest) {
		c->rest--;
		return;
	}
	if (!c->step)
		c->times = (struct fan_learner_times){0};
	unsigned number = c->step++;
	step->trial = true;
	if (is_short(n) && number >= LOOK_STEPS)
		step_in_block(c, number - LOOK_STEPS, step);
	else
		step_alone(c, number, step);
	step->agree |= number + 1 == steps_of(n);
}

uint64_t *fan_learner_rest(struct fan_learner *l, enum fan_learner_kind kind, size_t bytes)
{
	assert(kind < FAN_LEARNER_KINDS);
	struct fan_learner_class *c = &l->of[kind][fan_learner_class(bytes)];
	return c->fanin || !c->rest ? NULL : &c->rest;
}

bool fan_learner_peek(const struct fan_learner *l, enum fan_learner_kind kind, size_t bytes)
{
	assert(kind < FAN_LEARNER_KINDS);
	unsigned n = fan_learner_class(bytes);
	while (n && !l->of[kind][n].known)
		n--;
	return l->of[kind][n].fanin;
}

void fan_learner_tell(struct fan_learner *l, enum fan_learner_kind kind, unsigned class, bool fanin)
{
	assert(kind < FAN_LEARNER_KINDS && class < FAN_LEARNER_CLASSES);
	l->of[kind][class].known = true;
	l->of[kind][class].fanin = fanin;
}

bool fan_learner_knows(const struct fan_learner *l, enum fan_learner_kind kind, size_t bytes)
{
	return l->of[kind][fan_learner_class(bytes)].known;
}

static double median(const double *times)
{
	double sorted[FAN_LEARNER_TIMES] = {0};
	for (unsigned i = 0; i < FAN_LEARNER_TIMES; i++) {
		unsigned k = i;
		for (; k && sorted[k - 1] > times[i]; k--)
			sorted[k] = sorted[k - 1];
		sorted[k] = times[i];
	}
	return sorted[FAN_LEARNER_TIMES / 2];
}

/* What the times so far say: seconds a call with fanin and with the MPI, and whether fanin is
 * taken. */
struct verdict {
	double mpi_s, fanin_s;
	bool is_over, fanin;
};

static struct verdict judge_blocks(const struct fan_learner_times *times, unsigned pairs,
				   double margin)
{
	assert(pairs > 0 && pairs <= FAN_LEARNER_PAIRS);
	struct verdict v = {0};
	unsigned losses = 0;
	for (unsigned i = 1; i <= pairs; i++) {
		v.mpi_s += times->mpi_s[i];
		v.fanin_s += times->fanin_s[i];
		losses += times->fanin_s[i] >= margin * times->mpi_s[i];
	}
	v.is_over = pairs == FAN_LEARNER_PAIRS || losses > FAN_LEARNER_LOSSES;
	v.fanin = losses <= FAN_LEARNER_LOSSES && v.fanin_s < margin * v.mpi_s;
	const double calls = pairs * (FAN_LEARNER_BLOCK - FAN_LEARNER_BLOCK_WARM);
	v.mpi_s /= calls;
	v.fanin_s /= calls;
	return v;
}

static struct verdict judge(const struct fan_learner_class *c, unsigned class,
			    const struct fan_learner_times *times)
{
	const double margin = fan_learner_margin(class);
	if (c->step == LOOK_STEPS)
		return (struct verdict){.mpi_s = times->mpi_s[0],
					.fanin_s = times->fanin_s[0],
					.is_over = times->fanin_s[0] >
						   FAN_LEARNER_HOPELESS * times->mpi_s[0]};
	if (is_short(class))
		return judge_blocks(times, (c->step - LOOK_STEPS) / PAIR_STEPS, margin);
	struct verdict v = {
		.mpi_s = median(times->mpi_s), .fanin_s = median(times->fanin_s), .is_over = true};
	v.fanin = v.fanin_s < margin * v.mpi_s;
	return v;
}

/* Calls until the next trial, so that the time which this one wasted stays a small share.  Each
 * trial that confirms a verdict at least doubles the distance; a new verdict for fanin is tried
 * again soon, because a wrong one is expensive.  The waste of a short trial may hide in its noise,
 * and a trial disturbs calls of other kinds: where fanin was slower, its calls stay a small share,
 * too. */
static uint64_t pause_after(const struct fan_learner_class *c, unsigned class, double trial_s,
			    const struct verdict *v, bool same)
{
	if (c->fanin && !same)
		return is_short(class) ? FAN_LEARNER_PROBATION : FAN_LEARNER_REST_MIN;
	const double best_s = v->fanin ? v->fanin_s : v->mpi_s;
	double wasted_s = trial_s - c->step * best_s;
	double calls = best_s > 0 ? wasted_s / (FAN_LEARNER_SHARE * best_s) : FAN_LEARNER_REST_MAX;
	if (v->fanin_s >= v->mpi_s && calls < c->step / FAN_LEARNER_LOST_SHARE)
		calls = c->step / FAN_LEARNER_LOST_SHARE;
	if (same && calls < 2.0 * (double)c->pause)
		calls = 2.0 * (double)c->pause;
	if (!(calls > FAN_LEARNER_REST_MIN))
		return FAN_LEARNER_REST_MIN;
	return calls < FAN_LEARNER_REST_MAX ? (uint64_t)calls : FAN_LEARNER_REST_MAX;
}

/* Below, latency decides: where fanin loses with large messages, small ones need no trial. */
static void spare_smaller(struct fan_learner *l, enum fan_learner_kind kind, unsigned n)
{
	while (n-- > 0) {
		struct fan_learner_class *c = &l->of[kind][n];
		if (c->known || c->step)
			continue;
		c->known = true;
		c->rest = c->pause = FAN_LEARNER_REST_MAX;
	}
}

void fan_learner_decide(struct fan_learner *l, enum fan_learner_kind kind, size_t bytes,
			const struct fan_learner_times *times)
{
	assert(kind < FAN_LEARNER_KINDS);
	unsigned n = fan_learner_class(bytes);
	struct fan_learner_class *c = &l->of[kind][n];
	struct verdict v = judge(c, n, times);
	if (!v.is_over)
		return;
	bool same = c->known && c->fanin == v.fanin;
	c->known = true;
	c->fanin = v.fanin;
	if (!v.fanin && times->unsettled > 0 && v.fanin_s < FAN_LEARNER_HOPE * v.mpi_s &&
	    c->practices < FAN_LEARNER_PRACTICES) {
		c->practices++;
		c->fanin = true;
		c->rest = FAN_LEARNER_PRACTICE;
		c->step = 0;
		return;
	}
	c->rest = c->pause = pause_after(c, n, times->trial_s, &v, same);
	c->step = 0;
	if (v.fanin_s > FAN_LEARNER_HOPELESS * v.mpi_s)
		spare_smaller(l, kind, n);
}
