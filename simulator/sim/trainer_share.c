/* SPDX-License-Identifier: Apache-2.0 */
#include <assert.h>
#include <stdlib.h>

#include "core/worker/stream.h"
#include "trainer_priv.h"

#define OP_FRAGS 64u /* fragments of one operation, at least */
#define VALUES	 1024u

static uint32_t frag_elems(const struct fan_job_config *c)
{
	const struct fan_op op = {.dtype = FAN_FLOAT32,
				  .wire = (enum fan_dtype)c->wire,
				  .mode = (enum fan_mode)c->mode};
	return fan_stream_per_frag(&op, c->payload_bytes, false);
}

static float value(uint64_t i)
{
	return (float)(int)(fan_rng_mix(i) % VALUES) - (float)(VALUES / 2);
}

static bool make_expect(struct fan_trainer_shared *sh, size_t elems)
{
	assert(!sh->expect);
	sh->expect = calloc(elems, sizeof *sh->expect);
	if (!sh->expect)
		return false;
	for (size_t i = 0; i < elems; i++) {
		sh->expect[i] = 0;
		for (uint32_t r = 0; r < sh->cfg->ranks; r++)
			sh->expect[i] += sh->input[i + r * FAN_TRAINER_RANK_SHIFT];
	}
	return true;
}

bool fan_trainer_share(struct fan_trainer_shared *sh, struct fan_job_config *cfg,
		       struct fan_sim *sim, bool by_ring)
{
	memset(sh, 0, sizeof *sh);
	sh->cfg = cfg;
	sh->sim = sim;
	sh->by_ring = by_ring;
	sh->begin_ns = cfg->arrival_ns;
	if (by_ring)
		return true;
	uint32_t window = cfg->ahead ? cfg->ahead : cfg->window;
	uint32_t frags = window / 8u < OP_FRAGS ? OP_FRAGS : window / 8u;
	if (cfg->mode == FAN_FIXED) /* a whole group: exponents travel once for each */
		frags = cfg->payload_bytes / 2u;
	sh->frag_elems = frag_elems(cfg);
	sh->tile = frags * sh->frag_elems;
	sh->ahead = (uint64_t)2 * window * sh->frag_elems;
	size_t places = sh->tile + FAN_TILE_SHIFTS * FAN_TRAINER_OP_SHIFT;
	size_t elems = places + (size_t)cfg->ranks * FAN_TRAINER_RANK_SHIFT;
	sh->input_bytes = elems * sizeof *sh->input;
	sh->input = aligned_alloc(FAN_TRAINER_ALIGN, fan_trainer_rounded(sh->input_bytes));
	sh->sink =
		aligned_alloc(FAN_TRAINER_ALIGN, fan_trainer_rounded(sh->tile * sizeof *sh->sink));
	sh->item = malloc(FAN_TRAINER_ITEMS * sizeof *sh->item);
	sh->scratch_bytes = FAN_TRAINER_ITEMS * (size_t)(cfg->payload_bytes + FAN_TRAINER_ALIGN);
	sh->scratch = aligned_alloc(FAN_TRAINER_ALIGN, fan_trainer_rounded(sh->scratch_bytes));
	if (!sh->input || !sh->sink || !sh->item || !sh->scratch)
		return false;
	for (size_t i = 0; i < elems; i++)
		sh->input[i] = value(i);
	return !cfg->verify || make_expect(sh, places);
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
