/* SPDX-License-Identifier: Apache-2.0 */
/* trainer_compute.c - a trainer's iterations, and the tables that a job's trainers share. */
#include <assert.h>
#include <stdlib.h>

#include "core/worker/stream.h"
#include "trainer.h"

#define OP_FRAGS  64u /* the fewest fragments of a full operation */
#define OP_GROUPS 4u  /* of fragments, in fixed mode: an operation's first exponents take an RTT */
#define LEAST	  33  /* magnitudes of levels */
#define MOST	  63

/* ---- iterations: layers forwards, then backwards ---- */

/* Can the step begin?  Forward steps wait for the gradients of the last iteration. */
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

/* ---- tables ---- */

static uint32_t frag_elems(const struct fan_job_config *c)
{
	const struct fan_op op = {.dtype = FAN_FLOAT32,
				  .wire = (enum fan_dtype)c->wire,
				  .mode = (enum fan_mode)c->mode};
	return fan_stream_per_frag(&op, c->payload_bytes, c->wire == FAN_BLOCK8 ? 4 : 1);
}

/* Half types and BLOCK8 are rounded by each worker, and by each aggregator when the contributions
 * of all ranks below it are in (doc/protocol/base.md, 6.7).  So these sums are exact: with S =
 * FAN_TRAINER_RANK_SHIFT, the inputs of n ranks at neighbouring places, level(i + S) - level(i)
 * each, add up to level(i + nS) - level(i).  Levels change their sign every S.  Magnitudes of
 * inputs are 66 to 126, those of sums at most 126: whole numbers that float16 has up to 2048,
 * bfloat16 up to 256, and BLOCK8 where none in the block is beyond 127.
 *
 * A contribution that is lost or added twice is seen: it changes a sum by at least 66, to at most
 * 252, which half types have.  BLOCK8 rounds only beside what is beyond 127; that is wrong, and
 * stays beyond 127 at every aggregator above that rounds it. */
static int level(uint64_t i)
{
	int magnitude = LEAST + (int)(fan_rng_mix(i) % (MOST - LEAST + 1));
	return i / FAN_TRAINER_RANK_SHIFT % 2 ? -magnitude : magnitude;
}

/* Set `sum` to the sums of `ranks` ranks at the first places. */
static void add_up(float *sum, size_t count, uint64_t ranks)
{
	for (size_t i = 0; i < count; i++)
		sum[i] = (float)(level(i + ranks * FAN_TRAINER_RANK_SHIFT) - level(i));
}

bool fan_trainer_share(struct fan_trainer_shared *sh, struct fan_job_config *cfg,
		       struct fan_sim *sim, bool by_ring)
{
	memset(sh, 0, sizeof *sh);
	sh->cfg = cfg;
	sh->sim = sim;
	sh->by_ring = by_ring;
	sh->begin_ns = cfg->arrival_ns;
	sim->elements |= cfg->verify || cfg->mode == FAN_FIXED; /* exponents are agreed */
	if (by_ring)
		return true;
	uint32_t window = cfg->ahead ? cfg->ahead : cfg->window;
	uint32_t frags = window / 8u < OP_FRAGS ? OP_FRAGS : window / 8u;
	if (cfg->mode == FAN_FIXED) /* whole groups: exponents travel once for each */
		frags = OP_GROUPS * cfg->payload_bytes / 2u;
	sh->frag_elems = frag_elems(cfg);
	sh->tile = frags * sh->frag_elems;
	/* the next operation is there before the window has room for it */
	sh->ahead = (uint64_t)2 * window * sh->frag_elems + sh->tile;
	size_t places = sh->tile + FAN_TILE_SHIFTS * FAN_TRAINER_OP_SHIFT;
	size_t elems = places + (size_t)cfg->ranks * FAN_TRAINER_RANK_SHIFT;
	sh->input_bytes = elems * sizeof *sh->input;
	sh->input = aligned_alloc(FAN_ALIGN, fan_align_up(sh->input_bytes));
	sh->sink = aligned_alloc(FAN_ALIGN, fan_align_up(sh->tile * sizeof *sh->sink));
	sh->item = malloc(FAN_TRAINER_ITEMS * sizeof *sh->item);
	sh->scratch_bytes = FAN_TRAINER_ITEMS * (size_t)(cfg->payload_bytes + FAN_ALIGN);
	sh->scratch = aligned_alloc(FAN_ALIGN, fan_align_up(sh->scratch_bytes));
	if (!sh->input || !sh->sink || !sh->item || !sh->scratch)
		return false;
	add_up(sh->input, elems, 1);
	if (cfg->verify && (sh->expect = malloc(places * sizeof *sh->expect)))
		add_up(sh->expect, places, cfg->ranks);
	return !cfg->verify || sh->expect;
}

void fan_trainer_unshare(struct fan_trainer_shared *sh)
{
	free(sh->input);
	free(sh->expect);
	free(sh->sink);
	free(sh->room);
	free(sh->item);
	free(sh->scratch);
	memset(sh, 0, sizeof *sh);
}
