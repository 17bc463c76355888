/* SPDX-License-Identifier: Apache-2.0 */
/* trainer_compute.c - a trainer's iterations: layers forwards, then backwards. */
#include "trainer_priv.h"

/* May the step begin?  Forward steps wait for the last iteration's gradients. */
static bool may_begin(const struct fan_trainer *t)
{
	const struct fan_job_config *c = t->shared->cfg;
	if (t->step >= c->model.layers || t->iteration == 0)
		return true;
	if (c->overlap && t->step < c->first)
		return true;
	uint64_t before = (uint64_t)(t->iteration - 1) * c->buckets;
	uint64_t need = c->overlap ? fan_job_bucket_of(c, t->step) + UINT64_C(1) : c->buckets;
	return c->buckets == 0 ||
	       (t->bucket_done >= before + need && fan_tensor_has(t, before + need));
}

static uint64_t step_ns(const struct fan_trainer *t)
{
	const struct fan_job_config *c = t->shared->cfg;
	uint32_t layers = c->model.layers, step = t->step;
	uint64_t ns = step < layers ? c->model.layer[step].forward_ns
				    : c->model.layer[2 * layers - 1 - step].backward_ns;
	return fan_job_jittered(c, t->rank, t->iteration, ns);
}

static void end_step(struct fan_trainer *t)
{
	const struct fan_job_config *c = t->shared->cfg;
	uint32_t layers = c->model.layers;
	uint64_t now_ns = t->shared->sim->now_ns;
	t->working = false;
	uint32_t in_iteration = (uint32_t)(t->bucket_ready - (uint64_t)t->iteration * c->buckets);
	bool full = t->step >= layers && in_iteration < c->buckets &&
		    c->bucket[in_iteration].low == 2 * layers - 1 - t->step;
	if (full) {
		t->bucket_ready++;
		if (t->comm_since_ns == FAN_SIM_NEVER)
			t->comm_since_ns = now_ns;
	}
	if (++t->step < 2 * layers)
		return;
	t->step = 0;
	t->iteration++;
}

void fan_trainer_note_wait(struct fan_trainer *t, bool waits)
{
	uint64_t now_ns = t->shared->sim->now_ns;
	if (waits && t->wait_since_ns == FAN_SIM_NEVER)
		t->wait_since_ns = now_ns;
	if (waits || t->wait_since_ns == FAN_SIM_NEVER)
		return;
	t->times.wait_ns += now_ns - t->wait_since_ns;
	t->wait_since_ns = FAN_SIM_NEVER;
}

bool fan_trainer_compute(struct fan_trainer *t)
{
	const struct fan_job_config *c = t->shared->cfg;
	uint64_t now_ns = t->shared->sim->now_ns;
	bool any = false;
	while (t->iteration < c->iterations) {
		if (!t->working) {
			bool may = may_begin(t);
			fan_trainer_note_wait(t, !may);
			if (!may)
				return any;
			t->working = true;
			t->until_ns = fan_job_work_until(c, t->rank, now_ns, step_ns(t));
		}
		if (t->until_ns > now_ns)
			return any;
		end_step(t);
		any = true;
	}
	return any;
}
