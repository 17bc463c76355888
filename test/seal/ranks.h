/* SPDX-License-Identifier: Apache-2.0 */
/* ranks.h - ranks in virtual time, sealed or not, and sums of theirs: of net.h, which
 * carries what they send. */
#ifndef TEST_SEAL_RANKS_H
#define TEST_SEAL_RANKS_H

#include "core/worker/worker.h"
#include "seal/rank.h"
#include "unit/unit.h"

#ifndef RANK_ELEMS /* of a sum */
#define RANK_ELEMS 2000
#endif

struct seal_rank {
	struct fan_worker *w; /* NULL: none */
	struct fan_seal_rank seal;
	bool sealed;
	unsigned at; /* station that it joins at: net.h */
	void *mem;
	float in[RANK_ELEMS], out[RANK_ELEMS];
	uint64_t op;
};

static inline void seal_rank_stop(struct seal_rank *k)
{
	if (k->sealed)
		fan_seal_rank_free(&k->seal);
	free(k->mem);
	memset(k, 0, sizeof *k);
}

/* Begin a life; `tenant` is the name whose key it has, NULL: none. */
static inline void seal_rank_start(struct seal_rank *k, const struct fan_worker_config *cfg,
				   uint64_t now_ns, const struct fan_cipher *c,
				   const uint8_t fabric[FAN_KEY_BYTES], const char *tenant)
{
	uint8_t key[FAN_KEY_BYTES];
	seal_rank_stop(k);
	k->mem = aligned_alloc(64, (fan_worker_bytes(cfg) + 63) / 64 * 64);
	k->w = fan_worker_init(k->mem, cfg, now_ns);
	k->sealed = tenant != NULL;
	if (!tenant)
		return;
	fan_tenant_key(c, key, fabric, tenant, strlen(tenant));
	fan_seal_rank_init(&k->seal, c, key);
}

/* Are the first `ranks` in that phase? */
static inline bool seal_ranks_are(const struct seal_rank *k, unsigned ranks,
				  enum fan_worker_phase phase)
{
	for (unsigned r = 0; r < ranks; r++)
		if (!k[r].w || fan_worker_phase(k[r].w) != phase)
			return false;
	return true;
}

static inline float seal_rank_element(unsigned r, unsigned i, unsigned seed)
{
	return (float)((i * (r + 1) + seed) % 1000);
}

/* Start an all-reduce of small integers on the first `ranks`, with `seed` in them. */
static inline void seal_ranks_begin_sum(struct seal_rank *k, unsigned ranks, unsigned seed,
					uint64_t now_ns)
{
	for (unsigned r = 0; r < ranks; r++, k++) {
		struct fan_op op = {.op = FAN_SUM,
				    .dtype = FAN_FLOAT32,
				    .wire = FAN_FLOAT32,
				    .count = RANK_ELEMS,
				    .in = k->in,
				    .out = k->out};
		for (unsigned i = 0; i < RANK_ELEMS; i++)
			k->in[i] = seal_rank_element(r, i, seed);
		memset(k->out, 0, sizeof k->out);
		assert_int_equal(fan_worker_start(k->w, now_ns, &op, &k->op), FAN_OK);
	}
}

static inline bool seal_ranks_have_sum(const struct seal_rank *k, unsigned ranks)
{
	for (unsigned r = 0; r < ranks; r++)
		if (fan_worker_test(k[r].w, k[r].op) != FAN_OK)
			return false;
	return true;
}

/* Every element is right. */
static inline void seal_ranks_check_sum(const struct seal_rank *k, unsigned ranks, unsigned seed)
{
	assert_true(seal_ranks_have_sum(k, ranks));
	for (unsigned i = 0; i < RANK_ELEMS; i++) {
		float want = 0;
		for (unsigned r = 0; r < ranks; r++)
			want += seal_rank_element(r, i, seed);
		for (unsigned r = 0; r < ranks; r++)
			assert_true(k[r].out[i] == want);
	}
}

#endif
