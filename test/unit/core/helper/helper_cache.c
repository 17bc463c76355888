/* SPDX-License-Identifier: Apache-2.0 */
#include "unit/unit.h"

#include "core/helper/helper_cache.h"

#define RANKS 3

static _Alignas(64) uint8_t memory[1 << 16];
static struct fan_helper_cache cache;
static enum fan_drop why;

static void begin(uint32_t frags)
{
	assert_in_range(fan_helper_cache_bytes(frags, 64), 1, sizeof memory);
	memset(memory, 0xee, sizeof memory);
	fan_helper_cache_init(&cache, memory, frags, 64);
}

static int open_cache(void **state __attribute__((unused)))
{
	begin(4);
	return 0;
}

static enum fan_verdict add(uint16_t rank, uint64_t frag, int32_t value, uint16_t flags)
{
	struct fan_contribution p;
	const struct fan_frag f = {
		.frag = frag,
		.job = 0x100,
		.epoch = 9,
		.sender = rank,
		.flags = (uint16_t)(FAN_F_FIRST | FAN_F_LAST | flags),
		.count = 1,
		.type = FAN_TYPE_DATA,
		.dtype = FAN_INT32,
		.op = FAN_SUM,
		.payload = (const uint8_t *)&value,
		.payload_bytes = sizeof value,
	};
	assert_int_equal(fan_contribution_get(&p, &f, RANKS), -1);
	return fan_helper_cache_add(&cache, 1, &p, RANKS, &why);
}

/* The next that is due is the sum of `ranks`, for fragment `frag`; its flags. */
static uint16_t takes(uint64_t frag, uint64_t ranks, int32_t sum)
{
	struct fan_out_item it;
	struct fan_contribution p;
	struct fan_frag f;
	uint8_t packet[256];
	assert_true(fan_helper_cache_next(&cache, 2, &it));
	fan_out_item_copy(&it, packet);
	assert_int_equal(fan_wire_get(&f, packet, fan_out_item_bytes(&it)), -1);
	assert_int_equal(fan_contribution_get(&p, &f, RANKS), -1);
	assert_int_equal(f.frag, frag);
	assert_int_equal(f.type, FAN_TYPE_PARTIAL);
	assert_int_equal(f.helper, FAN_TAG(2));
	assert_int_equal(p.ranks[0], ranks);
	assert_int_equal(fan_get32(p.elements), sum);
	return f.flags;
}

TEST_WITH(helper_cache__completes_what_it_keeps, open_cache, NULL)
{
	assert_int_equal(add(0, 7, 1, 0), FAN_WAIT);
	assert_int_equal(add(1, 7, 2, FAN_F_ECN), FAN_WAIT);
	assert_false(fan_helper_cache_is_due(&cache));
	assert_true(fan_helper_cache_holds(&cache, 7, 1));
	assert_false(fan_helper_cache_holds(&cache, 7, 2));
	assert_int_equal(add(2, 7, 4, 0), FAN_DONE);
	assert_true(takes(7, 7, 7) & FAN_F_ECN);
	assert_false(fan_helper_cache_is_due(&cache));
	assert_int_equal(cache.stats.done, 1);
	fan_helper_cache_flush(&cache, 7); /* it was lost, and somebody asks */
	takes(7, 7, 7);
	assert_int_equal(cache.stats.done, 1);
	fan_helper_cache_forget(&cache, 7);
	fan_helper_cache_flush(&cache, 7);
	assert_false(fan_helper_cache_is_due(&cache));
}

/* Nothing is counted twice, whatever comes twice. */
TEST_WITH(helper_cache__duplicates, open_cache, NULL)
{
	add(0, 7, 1, 0);
	assert_int_equal(add(0, 7, 1, 0), FAN_DROP);
	assert_int_equal(why, FAN_DROP_DUPLICATE);
	fan_helper_cache_flush(&cache, 7);
	takes(7, 1, 1);
	assert_int_equal(add(0, 7, 1, 0), FAN_DROP); /* it has been here */
	assert_int_equal(add(1, 7, 2, 0), FAN_WAIT);
	assert_int_equal(add(2, 7, 4, 0), FAN_DONE); /* the rest is all there is to come */
	takes(7, 6, 6);
	assert_int_equal(cache.stats.early, 1);
	assert_int_equal(cache.stats.done, 1);
}

TEST_WITH(helper_cache__what_disagrees_sends_the_sum, open_cache, NULL)
{
	add(0, 7, 1, 0);
	assert_int_equal(add(1, 7, 2, FAN_F_REDUCE), FAN_DROP);
	assert_int_equal(why, FAN_DROP_MISMATCH);
	takes(7, 1, 1);
}

/* Never more than M, and what finds no room is passed on and says so. */
TEST_WITH(helper_cache__is_bounded, open_cache, NULL)
{
	for (uint64_t n = 0; n < 3; n++) {
		assert_false(fan_helper_cache_is_full(&cache));
		assert_int_equal(add(0, n, 1, 0), FAN_WAIT);
	}
	assert_true(fan_helper_cache_is_full(&cache));
	assert_int_equal(add(0, 3, 1, 0), FAN_PASS);
	assert_int_equal(add(0, 4, 1, 0), FAN_DROP);
	assert_int_equal(why, FAN_DROP_FULL);
	assert_true(takes(3, 1, 1) & FAN_F_FULL);
	assert_int_equal(cache.stats.over, 1);
	assert_int_equal(add(0, 5, 1, 0), FAN_PASS); /* in place of 3, which has been sent */
	assert_int_equal(add(1, 0, 1, 0), FAN_WAIT);
	assert_int_equal(add(2, 0, 1, 0), FAN_DONE);
	assert_true(takes(5, 1, 1) & FAN_F_FULL);
	assert_false(takes(0, 7, 3) & FAN_F_FULL);
	assert_int_equal(add(0, 6, 1, 0), FAN_WAIT); /* there is room again */
	assert_int_equal(cache.stats.peak, 4);
	assert_int_equal(cache.stats.open, 3);
}

/* However often somebody asks, a sum is due once. */
/* While there is room, who was in a sum that has gone is known. */
TEST_WITH(helper_cache__remembers_while_there_is_room, open_cache, NULL)
{
	assert_int_equal(add(0, 7, 1, 0), FAN_WAIT);
	fan_helper_cache_flush(&cache, 7);
	takes(7, 1, 1);
	assert_int_equal(add(0, 8, 1, 0), FAN_WAIT);
	assert_int_equal(add(0, 7, 1, 0), FAN_DROP);
	assert_int_equal(why, FAN_DROP_DUPLICATE);
	assert_int_equal(add(1, 7, 2, 0), FAN_WAIT);
}

TEST_WITH(helper_cache__is_due_once, open_cache, NULL)
{
	add(0, 7, 1, 0);
	for (unsigned n = 0; n < 10; n++)
		fan_helper_cache_flush(&cache, 7);
	fan_helper_cache_audit(&cache);
	takes(7, 1, 1);
	assert_false(fan_helper_cache_is_due(&cache));
	fan_helper_cache_audit(&cache);
}

TEST_WITH(helper_cache__of_one_and_of_none, open_cache, NULL)
{
	begin(1);
	assert_int_equal(add(0, 1, 1, 0), FAN_WAIT);
	assert_int_equal(add(0, 2, 1, 0), FAN_DROP);
	add(1, 1, 1, 0);
	assert_int_equal(add(2, 1, 1, 0), FAN_DONE);
	takes(1, 7, 3);
	assert_int_equal(add(0, 2, 1, 0), FAN_WAIT);
	assert_int_equal(fan_helper_cache_bytes(0, 64), 0);
	fan_helper_cache_init(&cache, memory, 0, 64);
	assert_int_equal(add(0, 2, 1, 0), FAN_DROP);
	fan_helper_cache_flush(&cache, 2);
	fan_helper_cache_forget(&cache, 2);
	assert_false(fan_helper_cache_is_due(&cache));
}

/* Many fragments, in and out in every order: the sums stay right. */
TEST_WITH(helper_cache__many, open_cache, NULL)
{
	begin(32);
	uint64_t done = 0, x = 1;
	static uint8_t in[200];
	memset(in, 0, sizeof in);
	for (unsigned n = 0; n < 20000; n++) {
		x = x * UINT64_C(6364136223846793005) + 1;
		uint64_t frag = (x >> 33) % 200;
		uint16_t rank = (uint16_t)((x >> 50) % RANKS);
		if (in[frag] >> rank & 1)
			continue;
		enum fan_verdict v = add(rank, frag, (int32_t)frag << rank, 0);
		if (v == FAN_DROP)
			continue;
		in[frag] |= (uint8_t)(1u << rank);
		struct fan_out_item it;
		while (fan_helper_cache_next(&cache, 0, &it)) {
			uint64_t sent = fan_get64(it.head + 16), ranks = fan_get64(it.payload);
			assert_int_equal(fan_get32(it.payload + 8), sent * ranks);
			if (in[sent] == 7) {
				fan_helper_cache_forget(&cache, sent);
				in[sent] = 0;
				done++;
			}
		}
		assert_true(cache.stats.open <= 32);
	}
	assert_true(done > 1000);
}

UNIT_MAIN
