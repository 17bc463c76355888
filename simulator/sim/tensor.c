/* SPDX-License-Identifier: Apache-2.0 */
#include "tensor.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "core/worker/in_step.h"
#include "trainer.h"

static struct fan_trainer *trainer(const struct fan_tensor *n, uint32_t part, uint32_t rank)
{
	assert(part < n->parts);
	return &n->part[part]->first[rank];
}

/* Fragments without a result in all iterations, including those not yet started. */
static double left_of(const struct fan_trainer *t)
{
	uint64_t later = (t->left_elems - t->in_flight) / t->shared->frag_elems;
	return (double)(later + (t->core ? fan_worker_left(t->core) : 0));
}

bool fan_tensor_init(struct fan_tensor *n, struct fan_trainer_shared **part, uint32_t parts)
{
	assert(parts > 0);
	double all = 0;
	memset(n, 0, sizeof *n);
	n->parts = parts;
	n->ranks = part[0]->cfg->ranks;
	n->step = calloc((size_t)n->ranks * parts, sizeof *n->step);
	n->allowed = calloc((size_t)n->ranks * parts, sizeof *n->allowed);
	n->ends = calloc(n->ranks, sizeof *n->ends);
	if (!n->step || !n->allowed || !n->ends) {
		fan_tensor_free(n);
		return false;
	}
	for (uint32_t k = 0; k < parts; k++) {
		n->part[k] = part[k];
		part[k]->tensor = n;
		part[k]->number = k;
		all += (double)fan_model_numel(&part[k]->cfg->model);
	}
	for (uint32_t r = 0; r < n->ranks; r++)
		for (uint32_t k = 0; k < parts; k++)
			n->step[r * parts + k] = (struct fan_in_step_part){
				.share = (double)fan_model_numel(&part[k]->cfg->model) / all,
				.left = left_of(trainer(n, k, r)),
				.window = part[k]->cfg->window,
			};
	return true;
}

void fan_tensor_free(struct fan_tensor *n)
{
	free(n->step);
	free(n->allowed);
	free(n->ends);
	memset(n, 0, sizeof *n);
}

/* May the rest of this rank's iteration be in flight? */
static bool iteration_ends(const struct fan_tensor *n, uint32_t rank)
{
	for (uint32_t k = 0; k < n->parts; k++) {
		const struct fan_trainer *t = trainer(n, k, rank);
		if (t->bucket_at < t->bucket_ready ||
		    (t->core && fan_worker_left(t->core) > n->allowed[rank * n->parts + k]))
			return false;
	}
	return true;
}

static void wake(struct fan_trainer *t)
{
	struct fan_sim *s = t->shared->sim;
	t->deadline_ns = s->now_ns;
	fan_sim_wake(s, t->actor);
}

static void choose_timeouts(const struct fan_tensor *n, struct fan_trainer *t)
{
	const bool ends = iteration_ends(n, t->rank);
	if (ends == n->ends[t->rank])
		return;
	n->ends[t->rank] = ends;
	for (uint32_t k = 0; k < n->parts; k++) {
		struct fan_trainer *other = trainer(n, k, t->rank);
		if (!other->core)
			continue;
		fan_worker_least_timeout(other->core, fan_in_step_rto_ms(ends));
		if (other != t)
			wake(other);
	}
}

void fan_tensor_keep_in_step(struct fan_trainer *t)
{
	const struct fan_tensor *n = t->shared->tensor;
	if (!n)
		return;
	const size_t row = (size_t)t->rank * n->parts;
	struct fan_in_step_part *step = n->step + row, *own = &step[t->shared->number];
	double left = left_of(t);
	bool same = left == own->left && n->allowed[row + t->shared->number];
	if (same)
		return;
	own->left = left;
	own->window = fan_worker_stats(t->core)->window;
	fan_in_step_bound(step, n->parts, FAN_IN_STEP_FRAGS * (double)n->parts);
	for (uint32_t k = 0; k < n->parts; k++) {
		struct fan_trainer *other = trainer(n, k, t->rank);
		uint32_t before = n->allowed[row + k];
		if (before == step[k].allow || !other->core)
			continue;
		n->allowed[row + k] = step[k].allow;
		fan_worker_allow(other->core, step[k].allow);
		if (other != t && step[k].allow > before &&
		    fan_worker_deadline(other->core) <= t->shared->sim->now_ns)
			wake(other);
	}
	choose_timeouts(n, t);
}

bool fan_tensor_has(const struct fan_trainer *t, uint64_t buckets)
{
	const struct fan_tensor *n = t->shared->tensor;
	for (uint32_t k = 0; n && k < n->parts; k++)
		if (trainer(n, k, t->rank)->bucket_done < buckets)
			return false;
	return true;
}

void fan_tensor_tell(const struct fan_trainer *t)
{
	const struct fan_tensor *n = t->shared->tensor;
	for (uint32_t k = 0; n && k < n->parts; k++) {
		struct fan_trainer *other = trainer(n, k, t->rank);
		if (other != t && other->core)
			wake(other);
	}
}
