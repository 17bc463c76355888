/* SPDX-License-Identifier: Apache-2.0 */
#include "unit/unit.h"

#include "core/sum/slot.h"
#include "core/worker/worker_priv.h"

#define WINDOW 2

static _Alignas(64) uint8_t memory[1 << 14];
static struct fan_slots slots;
static struct fan_pool pool;
static struct fan_worker uplink;

static int open_pool(void **state __attribute__((unused)))
{
	fan_slots_init(&slots, memory, 4, 64);
	fan_slots_lend(&slots, &pool, 0, WINDOW, 1);
	memset(&uplink, 0, sizeof uplink);
	uplink.cfg.relayed = &pool;
	return 0;
}

/* Let the round of fragment `n` hold `v`, a sum of one int32 or what else `op` says. */
static struct fan_round *hold(uint64_t n, uint8_t op, uint16_t flags, uint16_t root, int32_t v)
{
	const struct fan_frag f = {.frag = n,
				   .op = op,
				   .dtype = FAN_INT32,
				   .count = 1,
				   .exponent = 3,
				   .flags = (uint16_t)(FAN_F_FIRST | flags)};
	struct fan_round *r = fan_pool_round(&pool, n);
	*r = (struct fan_round){.frag = n,
				.desc = fan_desc_of(&f),
				.root = root,
				.exponent = 3,
				.priority = 9,
				.state = FAN_ROUND_AWAITING};
	memcpy(fan_pool_acc(&pool, r), &v, sizeof v);
	return r;
}

static bool has(uint64_t frag)
{
	struct fan_wslot s = {.frag = frag};
	return fan_tree_source.has(&uplink, &s) == FAN_SOURCE_READY;
}

static void fill(struct fan_frag *f)
{
	struct fan_wslot s = {.frag = f->frag};
	assert_true(fan_tree_source.fill(&uplink, &s, f, NULL));
}

static int take(const struct fan_frag *f)
{
	struct fan_wslot s = {.frag = f->frag};
	bool freed = false;
	int why = fan_tree_source.take(&uplink, 0, &s, f, &freed);
	assert_false(freed);
	return why;
}

TEST_WITH(tree_source__only_what_is_held, open_pool, NULL)
{
	assert_false(has(0));
	struct fan_round *r = hold(1, FAN_SUM, 0, FAN_RANK_NONE, 5);
	assert_true(has(1));
	assert_false(has(1 + 2 * WINDOW)); /* the same round, another fragment */
	r->state = FAN_ROUND_OPEN;
	assert_false(has(1));
}

TEST_WITH(tree_source__contribution_and_result, open_pool, NULL)
{
	int32_t v;
	struct fan_round *r = hold(2, FAN_SUM, FAN_F_LAST, FAN_RANK_NONE, 41);
	struct fan_frag f = {.frag = 2};
	fill(&f);
	assert_int_equal(f.flags, FAN_F_FIRST | FAN_F_LAST);
	assert_int_equal(f.exponent, 3);
	assert_int_equal(f.priority, 9);
	assert_int_equal(f.payload_bytes, 4);
	memcpy(&v, f.payload, 4);
	assert_int_equal(v, 41);
	int32_t result = 100;
	f.payload = (const uint8_t *)&result;
	f.count = 2;
	assert_int_equal(take(&f), FAN_DROP_MISMATCH);
	assert_int_equal(r->state, FAN_ROUND_AWAITING);
	f.count = 1;
	assert_int_equal(take(&f), FAN_SOURCE_TAKEN);
	assert_int_equal(r->state, FAN_ROUND_DONE);
	memcpy(&v, fan_pool_acc(&pool, r), 4);
	assert_int_equal(v, 100);
	assert_int_equal(take(&f), FAN_DROP_MISMATCH); /* nothing is held */
}

/* Fixed mode: the result's exponent must be the one that was agreed. */
TEST_WITH(tree_source__exponents, open_pool, NULL)
{
	struct fan_round *r = hold(3, FAN_SUM, 0, FAN_RANK_NONE, 1);
	struct fan_frag f = {.frag = 3, .dtype = FAN_FIXED32, .count = 1, .flags = FAN_F_FIRST};
	r->desc = fan_desc_of(&f);
	f.exponent = 4;
	assert_int_equal(take(&f), FAN_DROP_MISMATCH);
	f.exponent = 3;
	assert_int_equal(take(&f), FAN_SOURCE_TAKEN);
}

/* The root of a broadcast is here, or the contribution is empty; that of a reduce gets the
 * payload, the others none. */
TEST_WITH(tree_source__roots, open_pool, NULL)
{
	struct fan_frag f = {.frag = 0};
	hold(0, FAN_BCAST, 0, FAN_RANK_NONE, 1);
	fill(&f);
	assert_true(f.flags & FAN_F_EMPTY && !(f.flags & FAN_F_ROOT) && f.payload_bytes == 0);
	hold(0, FAN_BCAST, 0, 3, 1);
	f = (struct fan_frag){.frag = 0};
	fill(&f);
	assert_true(f.flags & FAN_F_ROOT && f.payload_bytes == 4);
	hold(0, FAN_SUM, FAN_F_REDUCE, 3, 1);
	f = (struct fan_frag){.frag = 0};
	fill(&f);
	f.flags |= FAN_F_EMPTY;
	assert_int_equal(take(&f), FAN_DROP_DUPLICATE);
	f.flags &= (uint16_t)~FAN_F_EMPTY;
	assert_int_equal(take(&f), FAN_SOURCE_TAKEN);
	hold(0, FAN_SUM, FAN_F_REDUCE, FAN_RANK_NONE, 1);
	assert_int_equal(take(&f), FAN_DROP_MISMATCH);
	f.flags |= FAN_F_EMPTY;
	f.payload_bytes = 0;
	assert_int_equal(take(&f), FAN_SOURCE_TAKEN);
}

UNIT_MAIN
