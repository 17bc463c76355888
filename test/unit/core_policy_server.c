/* SPDX-License-Identifier: Apache-2.0 */
#include "core/policy_server.h"
#include "core/slot.h"
#include "unit.h"

#define RANKS  5
#define WINDOW 2

static _Alignas(64) uint8_t memory[1 << 14];
static struct fan_slots slots;
static struct fan_pool pool;
static uint64_t asked[FAN_RANK_WORDS];
static struct fan_switchml r;

static int open_pool(void **state)
{
	(void)state;
	memset(memory, 0xee, sizeof memory);
	memset(asked, 0, sizeof asked);
	fan_slots_init(&slots, memory, 4, 64);
	fan_slots_lend(&slots, &pool, 0, WINDOW, 1);
	return 0;
}

static struct fan_frag frag_of(uint64_t number)
{
	return (struct fan_frag){.frag = number,
				 .type = FAN_TYPE_DATA,
				 .dtype = FAN_INT32,
				 .count = 1,
				 .flags = FAN_F_FIRST | FAN_F_LAST};
}

static enum fan_verdict partial(uint64_t number, uint64_t ranks, int32_t value)
{
	struct fan_frag f = frag_of(number);
	struct fan_partial p = {.ranks = {ranks},
				.root = FAN_RANK_NONE,
				.elements = (const uint8_t *)&value,
				.bytes = sizeof value};
	p.first = fan_ranks_first(p.ranks);
	f.flags |= FAN_F_PARTIAL;
	return fan_server_partial(&pool, RANKS, &f, &p, &r, asked);
}

static enum fan_verdict single(uint64_t number, uint16_t rank, int32_t value)
{
	struct fan_frag f = frag_of(number);
	f.sender = rank;
	f.payload = (const uint8_t *)&value;
	f.payload_bytes = sizeof value;
	return fan_switchml_data(&pool, RANKS, &f, &r);
}

static int32_t sum_of(uint64_t number)
{
	int32_t v;
	memcpy(&v, fan_pool_acc(&pool, fan_pool_round(&pool, number)), sizeof v);
	return v;
}

static void server__disjoint_parts_add_up(void **state)
{
	(void)state;
	assert_int_equal(partial(0, 0x3, 30), FAN_WAIT);
	assert_true(r.opened);
	assert_int_equal(single(0, 4, 5), FAN_WAIT);
	assert_false(r.opened);
	assert_int_equal(partial(0, 0xc, 700), FAN_DONE);
	assert_int_equal(sum_of(0), 735);
}

static void server__overlap_asks_for_the_rest(void **state)
{
	(void)state;
	assert_int_equal(single(0, 1, 10), FAN_WAIT);
	assert_int_equal(partial(0, 0x7, 999), FAN_ASK);
	assert_int_equal(asked[0], 0x5); /* rank 1's part is not counted twice */
	assert_int_equal(sum_of(0), 10);
	assert_int_equal(single(0, 0, 1), FAN_WAIT);
	assert_int_equal(single(0, 2, 100), FAN_WAIT);
	assert_int_equal(partial(0, 0x18, 2000), FAN_DONE);
	assert_int_equal(sum_of(0), 2111);
}

static void server__what_is_in_is_dropped(void **state)
{
	(void)state;
	assert_int_equal(partial(0, 0x7, 1), FAN_WAIT);
	assert_int_equal(partial(0, 0x3, 1), FAN_DROP);
	assert_int_equal(r.drop, FAN_DROP_DUPLICATE);
	assert_int_equal(partial(0, 0x18, 1), FAN_DONE);
	assert_int_equal(partial(0, 0x1f, 1), FAN_DROP);
	assert_int_equal(r.drop, FAN_DROP_DUPLICATE);
	assert_int_equal(sum_of(0), 2);
}

static void server__turns_as_for_contributions(void **state)
{
	(void)state;
	assert_int_equal(partial(WINDOW, 0x3, 1), FAN_DROP);
	assert_int_equal(r.drop, FAN_DROP_AHEAD);
	assert_int_equal(partial(0, 0x1f, 1), FAN_DONE);
	assert_int_equal(partial(WINDOW, 0x1f, 1), FAN_DONE);
	assert_int_equal(partial(2 * WINDOW, 0x3, 1), FAN_WAIT);
	assert_int_equal(partial(0, 0x3, 1), FAN_DROP);
	assert_int_equal(r.drop, FAN_DROP_STALE);
}

static void server__ranks_that_disagree(void **state)
{
	(void)state;
	assert_int_equal(single(0, 3, 1), FAN_WAIT);
	struct fan_frag f = frag_of(0);
	struct fan_partial p = {.ranks = {0x6}, .first = 1, .root = FAN_RANK_NONE};
	f.op = FAN_MAX;
	assert_int_equal(fan_server_partial(&pool, RANKS, &f, &p, &r, asked), FAN_FAIL);
	assert_int_equal(r.other, 3);
}

static void server__way_is_sticky(void **state)
{
	(void)state;
	struct fan_frag f = frag_of(0);
	int32_t value = 1;
	struct fan_partial p = {.ranks = {0x6},
				.first = 1,
				.root = FAN_RANK_NONE,
				.elements = (const uint8_t *)&value,
				.bytes = 4};
	f.flags |= FAN_F_COLLISION | 7 << FAN_PROPOSAL_SHIFT;
	assert_int_equal(fan_server_partial(&pool, RANKS, &f, &p, &r, asked), FAN_WAIT);
	assert_int_equal(partial(0, 0x19, 1), FAN_DONE);
	assert_int_equal(r.round->way, FAN_F_COLLISION | 7 << FAN_PROPOSAL_SHIFT);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup(server__disjoint_parts_add_up, open_pool),
		cmocka_unit_test_setup(server__overlap_asks_for_the_rest, open_pool),
		cmocka_unit_test_setup(server__what_is_in_is_dropped, open_pool),
		cmocka_unit_test_setup(server__turns_as_for_contributions, open_pool),
		cmocka_unit_test_setup(server__ranks_that_disagree, open_pool),
		cmocka_unit_test_setup(server__way_is_sticky, open_pool),
	};
	return RUN(tests);
}
