/* SPDX-License-Identifier: Apache-2.0 */
#include "unit/unit.h"

#include "core/sum/round_add.h"

#define RANKS  3
#define RANKS5 5 /* where there are sums of several */

static _Alignas(64) uint8_t memory[1 << 16];
static struct fan_pool pool;
static struct fan_round_outcome r;

static int open_pool(void **state __attribute__((unused)))
{
	struct fan_slots s;
	memset(memory, 0xee, sizeof memory);
	fan_slots_init(&s, memory, 8, 64);
	fan_slots_lend(&s, &pool, 0, 4, 1);
	return 0;
}

static struct fan_frag part(uint16_t rank, unsigned op, unsigned flags, const float *x,
			    unsigned count)
{
	return (struct fan_frag){
		.flags = (uint16_t)flags,
		.sender = rank,
		.count = (uint16_t)count,
		.type = FAN_TYPE_DATA,
		.dtype = FAN_FLOAT32,
		.op = (uint8_t)op,
		.payload = (const uint8_t *)x,
		.payload_bytes = x ? count * sizeof *x : 0,
	};
}

/* Let `f` be added in a job of `ranks`. */
static enum fan_verdict give(const struct fan_frag *f, uint16_t ranks)
{
	struct fan_contribution p;
	assert_int_equal(fan_contribution_get(&p, f, ranks), -1);
	r.round = fan_pool_round(&pool, f->frag);
	return fan_round_add(&pool, ranks, &p, &r);
}

static enum fan_verdict add(uint16_t rank, unsigned op, unsigned flags, const float *x)
{
	struct fan_frag f = part(rank, op, flags, x, 2);
	return give(&f, RANKS);
}

static float result(unsigned i)
{
	float v;
	memcpy(&v, fan_pool_acc(&pool, r.round) + i * sizeof v, sizeof v);
	return v;
}

TEST_WITH(round__broadcast_takes_the_root_alone, open_pool, NULL)
{
	const float x[2] = {5, 6};
	assert_int_equal(add(2, FAN_BCAST, FAN_F_EMPTY, NULL), FAN_WAIT);
	assert_true(r.opened);
	assert_int_equal(add(1, FAN_BCAST, FAN_F_ROOT, x), FAN_WAIT);
	assert_false(r.opened);
	assert_int_equal(add(0, FAN_BCAST, FAN_F_EMPTY, NULL), FAN_DONE);
	assert_true(result(0) == 5 && result(1) == 6);
	assert_int_equal(r.round->root, 1);
}

TEST_WITH(round__two_roots, open_pool, NULL)
{
	const float x[2] = {5, 6};
	assert_int_equal(add(1, FAN_BCAST, FAN_F_ROOT, x), FAN_WAIT);
	assert_int_equal(add(2, FAN_BCAST, FAN_F_ROOT, x), FAN_FAIL);
	assert_int_equal(r.other, 1);
}

TEST_WITH(round__no_root, open_pool, NULL)
{
	const float x[2] = {5, 6};
	assert_int_equal(add(1, FAN_SUM, FAN_F_REDUCE, x), FAN_WAIT);
	assert_int_equal(add(2, FAN_SUM, FAN_F_REDUCE, x), FAN_WAIT);
	assert_int_equal(add(0, FAN_SUM, FAN_F_REDUCE, x), FAN_FAIL);
}

TEST_WITH(round__average, open_pool, NULL)
{
	const float a[2] = {1, 2}, b[2] = {4, 5}, c[2] = {7, 20};
	add(0, FAN_AVG, 0, a);
	add(1, FAN_AVG, 0, b);
	assert_int_equal(add(2, FAN_AVG, 0, c), FAN_DONE);
	assert_true(result(0) == 4 && result(1) == 9);
}

TEST_WITH(round__barrier, open_pool, NULL)
{
	for (uint16_t rank = 0; rank < RANKS; rank++) {
		struct fan_frag f = part(rank, FAN_BARRIER, 0, NULL, 0);
		assert_int_equal(give(&f, RANKS), rank + 1 < RANKS ? FAN_WAIT : FAN_DONE);
	}
}

/* Each thing that ranks can disagree about, and who is named. */
TEST_WITH(round__disagreement, open_pool, NULL)
{
	const float x[4] = {1, 2, 3, 4};
	for (unsigned i = 0; i < 6; i++) {
		open_pool(NULL);
		struct fan_frag f = part(1, FAN_SUM, FAN_F_FIRST, x, 2),
				g = part(0, FAN_SUM, FAN_F_FIRST, x, 2);
		switch (i) {
		case 0: g.count = 3; break;
		case 1: g.dtype = FAN_INT32; break;
		case 2: g.op = FAN_MAX; break;
		case 3: g.flags |= FAN_F_LAST; break;
		case 4: g.flags |= FAN_F_REDUCE; break;
		default: g.exponent = 1; break;
		}
		assert_int_equal(give(&f, RANKS), FAN_WAIT);
		assert_int_equal(give(&g, RANKS), FAN_FAIL);
		assert_int_equal(r.other, 1);
		assert_int_equal(r.other_desc, fan_desc_of(&f));
		assert_int_equal(r.desc, fan_desc_of(&g));
	}
}

/* Of a job of RANKS5: the sum `value` of `ranks`. */
static struct fan_frag sum_of(uint64_t number, uint64_t ranks, float value)
{
	static uint8_t body[FAN_BITMAP_MAX + sizeof value];
	struct fan_frag f = part(0, FAN_SUM, FAN_F_FIRST | FAN_F_LAST, NULL, 1);
	uint64_t set[FAN_RANK_WORDS] = {ranks};
	f.type = FAN_TYPE_PARTIAL;
	f.frag = number;
	memcpy(body + FAN_BITMAP_MAX, &value, sizeof value);
	fan_partial_put(&f, set, RANKS5, FAN_RANK_NONE, body + FAN_BITMAP_MAX, sizeof value);
	return f;
}

static enum fan_verdict add_sum(uint64_t number, uint64_t ranks, float value)
{
	struct fan_frag f = sum_of(number, ranks, value);
	return give(&f, RANKS5);
}

static enum fan_verdict add_one(uint64_t number, uint16_t rank, float value)
{
	struct fan_frag f = part(rank, FAN_SUM, FAN_F_FIRST | FAN_F_LAST, &value, 1);
	f.frag = number;
	return give(&f, RANKS5);
}

TEST_WITH(round__disjoint_sums_add_up, open_pool, NULL)
{
	assert_int_equal(add_sum(0, 0x3, 30), FAN_WAIT);
	assert_true(r.opened);
	assert_int_equal(r.round->first, 0);
	assert_int_equal(r.round->seen_count, 2);
	assert_int_equal(add_one(0, 4, 5), FAN_WAIT);
	assert_false(r.opened);
	assert_int_equal(add_sum(0, 0xc, 700), FAN_DONE);
	assert_true(result(0) == 735);
}

TEST_WITH(round__an_overlap_asks_for_the_rest, open_pool, NULL)
{
	assert_int_equal(add_one(0, 1, 10), FAN_WAIT);
	assert_int_equal(add_sum(0, 0x7, 999), FAN_ASK);
	assert_int_equal(r.missing[0], 0x5); /* rank 1's contribution is not counted twice */
	assert_true(result(0) == 10);
	assert_int_equal(add_one(0, 0, 1), FAN_WAIT);
	assert_int_equal(add_one(0, 2, 100), FAN_WAIT);
	assert_int_equal(add_sum(0, 0x18, 2000), FAN_DONE);
	assert_true(result(0) == 2111);
}

/* One rank's own contribution is answered with the result; a sum, whoever sent it, is not. */
TEST_WITH(round__what_is_in_is_dropped, open_pool, NULL)
{
	assert_int_equal(add_sum(0, 0x7, 1), FAN_WAIT);
	assert_int_equal(add_sum(0, 0x3, 1), FAN_DROP);
	assert_int_equal(r.drop, FAN_DROP_DUPLICATE);
	assert_int_equal(add_one(0, 2, 1), FAN_DROP);
	assert_int_equal(r.drop, FAN_DROP_DUPLICATE);
	assert_int_equal(add_sum(0, 0x18, 1), FAN_DONE);
	assert_int_equal(add_sum(0, 0x1f, 1), FAN_DROP);
	assert_int_equal(r.drop, FAN_DROP_DUPLICATE);
	assert_int_equal(add_sum(0, 0x4, 1), FAN_DROP);
	assert_int_equal(add_one(0, 2, 1), FAN_REPLAY);
	assert_true(result(0) == 2);
}

TEST_WITH(round__sums_take_turns_as_well, open_pool, NULL)
{
	assert_int_equal(add_sum(4, 0x3, 1), FAN_DROP);
	assert_int_equal(r.drop, FAN_DROP_AHEAD);
	assert_int_equal(add_sum(0, 0x1f, 1), FAN_DONE);
	assert_int_equal(add_sum(4, 0x1f, 1), FAN_DONE);
	assert_int_equal(add_sum(8, 0x3, 1), FAN_WAIT);
	assert_int_equal(add_sum(0, 0x3, 1), FAN_DROP);
	assert_int_equal(r.drop, FAN_DROP_STALE);
}

TEST_WITH(round__sums_that_disagree, open_pool, NULL)
{
	assert_int_equal(add_one(0, 3, 1), FAN_WAIT);
	struct fan_frag f = sum_of(0, 0x6, 1);
	f.op = FAN_MAX;
	assert_int_equal(give(&f, RANKS5), FAN_FAIL);
	assert_int_equal(r.other, 3);
	assert_int_equal(r.other_desc, r.round->desc);
	assert_int_equal(FAN_DESC_OP(r.desc), FAN_MAX);
}

TEST_WITH(round__what_was_met_is_sticky, open_pool, NULL)
{
	struct fan_frag f = sum_of(0, 0x6, 1);
	f.flags |= FAN_F_COLLISION;
	f.place = 7;
	assert_int_equal(give(&f, RANKS5), FAN_WAIT);
	assert_int_equal(add_sum(0, 0x19, 1), FAN_DONE);
	assert_int_equal(r.round->met, FAN_F_COLLISION);
	assert_int_equal(r.round->place, 7);
}

static enum fan_verdict probe(uint16_t rank, uint64_t frag)
{
	struct fan_frag f = {.frag = frag, .sender = rank, .type = FAN_TYPE_PROBE};
	return fan_round_probe(&pool, &f, &r);
}

TEST_WITH(round__probes, open_pool, NULL)
{
	const float x[2] = {1, 2};
	assert_int_equal(probe(0, 0), FAN_ASK); /* nobody's contribution is in */
	assert_int_equal(pool.rounds[0].state, FAN_ROUND_FREE);
	add(1, FAN_SUM, 0, x);
	assert_int_equal(probe(0, 0), FAN_ASK);
	assert_int_equal(probe(1, 0), FAN_EARLY);
	assert_int_equal(probe(1, 4), FAN_DROP);
	assert_int_equal(r.drop, FAN_DROP_AHEAD);
	add(0, FAN_SUM, 0, x);
	add(2, FAN_SUM, 0, x);
	assert_int_equal(probe(0, 0), FAN_REPLAY);
	assert_int_equal(probe(0, 4), FAN_ASK); /* may begin now */
}

/* Whatever arrives: what was added is in the sum once, and rounds only move on. */
TEST_WITH(round__random, open_pool, NULL)
{
	struct fan_rng rng = test_rng();
	uint64_t done[RANKS][4]; /* next fragment of each rank in each slot */
	unsigned rounds = 0;
	for (unsigned k = 0; k < RANKS * 4; k++)
		done[k / 4][k % 4] = k % 4;
	for (unsigned n = 0; n < 100000; n++) {
		uint16_t rank = (uint16_t)fan_rng_below(&rng, RANKS);
		uint64_t *next = &done[rank][fan_rng_below(&rng, 4)];
		uint64_t frag = *next;
		if (fan_rng_below(&rng, 3) == 0) /* an old one, or one too early */
			frag += 4 * fan_rng_below(&rng, 5) - 4 * fan_rng_below(&rng, 5);
		float x[2] = {(float)frag, 1};
		struct fan_frag f = part(rank, FAN_SUM, 0, x, 2);
		f.frag = frag;
		enum fan_verdict v = give(&f, RANKS);
		assert_int_not_equal(v, FAN_FAIL);
		if (v == FAN_DONE || v == FAN_REPLAY) {
			assert_true(result(0) == (float)frag * RANKS && result(1) == RANKS);
			assert_int_equal(r.round->frag, frag);
		}
		rounds += v == FAN_DONE;
		/* a rank goes on once it has the result */
		if (v == FAN_DONE || (v == FAN_REPLAY && frag == *next))
			*next = frag + 4;
	}
	assert_true(rounds > 1000);
}

UNIT_MAIN
