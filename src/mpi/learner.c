/* SPDX-License-Identifier: Apache-2.0 */
#include "learner.h"

#define WARM	  2	     /* steps that are not timed: one by fanin, one by the MPI */
#define LOOK_STEP (WARM + 1) /* each way has been timed once */

unsigned fan_learner_class(size_t bytes)
{
	if (bytes < 2)
		return 0;
	unsigned n = 64 - (unsigned)__builtin_clzll((unsigned long long)bytes - 1);
	return n < FAN_LEARNER_CLASSES ? n : FAN_LEARNER_CLASSES - 1;
}

static unsigned times_of(unsigned class)
{
	return class <= FAN_LEARNER_SHORT ? FAN_LEARNER_TIMES_MAX : FAN_LEARNER_TIMES;
}

double fan_learner_margin(unsigned class)
{
	return class <= FAN_LEARNER_SHORT ? FAN_LEARNER_SHORT_MARGIN : FAN_LEARNER_MARGIN;
}

/* Of a trial. */
static unsigned last_step(unsigned class)
{
	return WARM + 2 * times_of(class) - 1;
}

void fan_learner_next(struct fan_learner *l, enum fan_learner_kind kind, size_t bytes,
		      struct fan_learner_step *step)
{
	unsigned n = fan_learner_class(bytes);
	struct fan_learner_class *c = &l->of[kind][n];
	*step = (struct fan_learner_step){.class = c, .fanin = c->fanin};
	if (c->rest) {
		c->rest--;
		return;
	}
	if (!c->step)
		c->times.trial_s = 0;
	unsigned number = c->step++;
	step->trial = true;
	step->fanin = number % 2 == 0;
	step->agree = number == LOOK_STEP || number == last_step(n);
	if (number >= WARM) {
		double *times = step->fanin ? c->times.fanin_s : c->times.mpi_s;
		step->time_s = &times[(number - WARM) / 2];
	}
}

uint64_t *fan_learner_rest(struct fan_learner *l, enum fan_learner_kind kind, size_t bytes)
{
	struct fan_learner_class *c = &l->of[kind][fan_learner_class(bytes)];
	return c->fanin || !c->rest ? NULL : &c->rest;
}

bool fan_learner_peek(const struct fan_learner *l, enum fan_learner_kind kind, size_t bytes)
{
	unsigned n = fan_learner_class(bytes);
	while (n && !l->of[kind][n].known)
		n--;
	return l->of[kind][n].fanin;
}

void fan_learner_tell(struct fan_learner *l, enum fan_learner_kind kind, unsigned class, bool fanin)
{
	l->of[kind][class].known = true;
	l->of[kind][class].fanin = fanin;
}

bool fan_learner_knows(const struct fan_learner *l, enum fan_learner_kind kind, size_t bytes)
{
	return l->of[kind][fan_learner_class(bytes)].known;
}

/* Of an odd number of times. */
static double median(const double *times, unsigned count)
{
	double sorted[FAN_LEARNER_TIMES_MAX] = {0};
	for (unsigned i = 0; i < count; i++) {
		unsigned k = i;
		for (; k && sorted[k - 1] > times[i]; k--)
			sorted[k] = sorted[k - 1];
		sorted[k] = times[i];
	}
	return sorted[count / 2];
}

/* Calls until the next trial, so that what this one wasted is a small share of them.  A verdict
 * that stays the same is asked for half as often; one for fanin is asked for again soon, because a
 * wrong one would be expensive. */
static uint64_t pause_after(const struct fan_learner_class *c, double trial_s, double best_s,
			    bool same)
{
	if (c->fanin && !same)
		return FAN_LEARNER_REST_MIN;
	double wasted_s = trial_s - c->step * best_s;
	double calls = best_s > 0 ? wasted_s / (FAN_LEARNER_SHARE * best_s) : FAN_LEARNER_REST_MAX;
	if (same && calls < 2.0 * (double)c->pause)
		calls = 2.0 * (double)c->pause;
	if (!(calls > FAN_LEARNER_REST_MIN))
		return FAN_LEARNER_REST_MIN;
	return calls < FAN_LEARNER_REST_MAX ? (uint64_t)calls : FAN_LEARNER_REST_MAX;
}

/* Latency decides below: what large messages cannot win, small ones need not try. */
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
	unsigned n = fan_learner_class(bytes);
	struct fan_learner_class *c = &l->of[kind][n];
	bool whole = c->step > last_step(n);
	unsigned count = whole ? times_of(n) : 1;
	double mpi_s = median(times->mpi_s, count);
	double fanin_s = median(times->fanin_s, count);
	if (!whole && fanin_s <= FAN_LEARNER_HOPELESS * mpi_s)
		return;
	bool faster = fanin_s < fan_learner_margin(n) * mpi_s;
	bool same = c->known && c->fanin == faster;
	c->known = true;
	c->fanin = faster;
	if (!faster && times->unsettled > 0 && fanin_s < FAN_LEARNER_HOPE * mpi_s &&
	    c->practices < FAN_LEARNER_PRACTICES) {
		c->practices++;
		c->fanin = true;
		c->rest = FAN_LEARNER_PRACTICE;
		c->step = 0;
		return;
	}
	c->rest = c->pause = pause_after(c, times->trial_s, faster ? fanin_s : mpi_s, same);
	c->step = 0;
	if (fanin_s > FAN_LEARNER_HOPELESS * mpi_s)
		spare_smaller(l, kind, n);
}
