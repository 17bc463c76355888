/* SPDX-License-Identifier: Apache-2.0 */
#include "learner.h"

#include <assert.h>

#define WARM 2		/* untimed steps: one with fanin, one with the MPI */
#define LOOK (WARM + 2) /* after them each of the two has been timed once */

/* Return the class, below FAN_LEARNER_CLASSES. */
static unsigned class_of(size_t bytes)
{
	if (bytes < 2)
		return 0;
	unsigned n = 64 - (unsigned)__builtin_clzll((unsigned long long)bytes - 1);
	return n < FAN_LEARNER_CLASSES ? n : FAN_LEARNER_CLASSES - 1;
}

void fan_learner_next(struct fan_learner *l, enum fan_learner_kind kind, size_t bytes,
		      struct fan_learner_step *step)
{
	assert(kind < FAN_LEARNER_KINDS);
	struct fan_learner_class *c = &l->of[kind][class_of(bytes)];
	*step = (struct fan_learner_step){.class = c, .fanin = c->fanin};
	if (c->rest) {
		c->rest--;
		return;
	}
	if (!c->step)
		c->times = (struct fan_learner_times){0};
	unsigned number = c->step++;
	assert(number < FAN_LEARNER_STEPS);
	step->trial = true;
	step->fanin = number % 2 == 0;
	step->agree = c->step == LOOK || c->step == FAN_LEARNER_STEPS;
	if (number >= WARM)
		step->time_s =
			(step->fanin ? c->times.fanin_s : c->times.mpi_s) + (number - WARM) / 2;
}

uint64_t *fan_learner_rest(struct fan_learner *l, enum fan_learner_kind kind, size_t bytes)
{
	assert(kind < FAN_LEARNER_KINDS);
	struct fan_learner_class *c = &l->of[kind][class_of(bytes)];
	return c->fanin || !c->rest ? NULL : &c->rest;
}

bool fan_learner_peek(const struct fan_learner *l, enum fan_learner_kind kind, size_t bytes)
{
	assert(kind < FAN_LEARNER_KINDS);
	unsigned n = class_of(bytes);
	while (n && !l->of[kind][n].known)
		n--;
	return l->of[kind][n].fanin;
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

/* Calls until the next trial, so that the time which this one wasted stays a small share.  Each
 * trial that confirms a verdict at least doubles the distance; a new verdict for fanin is tried
 * again soon, because a wrong one is expensive. */
static uint64_t pause_after(const struct fan_learner_class *c, double trial_s, double best_s,
			    bool same)
{
	if (c->fanin && !same)
		return FAN_LEARNER_REST_MIN;
	double calls = best_s > 0 ? (trial_s - c->step * best_s) / (FAN_LEARNER_SHARE * best_s)
				  : FAN_LEARNER_REST_MAX;
	if (same && calls < 2.0 * (double)c->pause)
		calls = 2.0 * (double)c->pause;
	if (!(calls > FAN_LEARNER_REST_MIN))
		return FAN_LEARNER_REST_MIN;
	return calls < FAN_LEARNER_REST_MAX ? (uint64_t)calls : FAN_LEARNER_REST_MAX;
}

void fan_learner_decide(struct fan_learner *l, enum fan_learner_kind kind, size_t bytes,
			const struct fan_learner_times *times)
{
	assert(kind < FAN_LEARNER_KINDS);
	struct fan_learner_class *c = &l->of[kind][class_of(bytes)];
	const bool whole = c->step == FAN_LEARNER_STEPS;
	const double mpi_s = whole ? median(times->mpi_s) : times->mpi_s[0];
	const double fanin_s = whole ? median(times->fanin_s) : times->fanin_s[0];
	const bool hopeless = fanin_s > FAN_LEARNER_HOPELESS * mpi_s;
	if (!whole && !hopeless)
		return;
	const bool fanin = fanin_s < FAN_LEARNER_MARGIN * mpi_s;
	const bool same = c->known && c->fanin == fanin;
	c->known = true;
	c->fanin = fanin;
	if (!fanin && !hopeless && times->unsettled > 0 && c->practices < FAN_LEARNER_PRACTICES) {
		c->practices++;
		c->fanin = true;
		c->rest = FAN_LEARNER_PRACTICE;
	} else {
		c->rest = c->pause = pause_after(c, times->trial_s, fanin ? fanin_s : mpi_s, same);
	}
	c->step = 0;
}
