/* SPDX-License-Identifier: Apache-2.0 */
/* Slots as the switch uses them: rounds, versions, replays. */
#include "unit/core/aggregator_rig.h"

static void slot__memory_is_laid_out_without_overlap(void **state)
{
	(void)state;
	static _Alignas(64) uint8_t mem[1 << 16];
	struct fan_slots s;
	assert_true(fan_slots_bytes(16, 100) <= sizeof mem);
	fan_slots_init(&s, mem, 16, 100);
	assert_int_equal(s.unit_bytes, 128);
	struct fan_pool a, b;
	fan_slots_lend(&s, &a, 0, 4, 2);
	fan_slots_lend(&s, &b, 8, 8, 1);
	const uint8_t *low = fan_pool_acc(&a, a.rounds), *high = mem;
	for (unsigned i = 0; i < 8; i++) {
		assert_ptr_equal(fan_pool_acc(&a, a.rounds + i), low + i * 256);
		high = fan_pool_acc(&a, a.rounds + i) + 256;
	}
	assert_true((const uint8_t *)(b.rounds + 16) <= low && a.rounds + 8 <= b.rounds);
	assert_true(high <= fan_pool_acc(&b, b.rounds));
	assert_true(fan_pool_acc(&b, b.rounds + 15) + 128 <= mem + fan_slots_bytes(16, 100));
}

static void slot__versions_alternate(void **state)
{
	(void)state;
	struct fan_round rounds[6];
	struct fan_pool p = {.rounds = rounds, .window = 3};
	for (uint64_t n = 0; n < 30; n++) {
		assert_ptr_equal(fan_pool_round(&p, n), rounds + n % 3 * 2 + n / 3 % 2);
		assert_ptr_equal(fan_pool_shadow(&p, n), fan_pool_round(&p, n + 3));
		assert_ptr_equal(fan_pool_round(&p, n), fan_pool_round(&p, n + 6));
	}
}

static void slot__result_goes_to_all(void **state)
{
	(void)state;
	rig_form("a", 3, 0);
	assert_int_equal(rig_add(0, 0, 1), FAN_WAIT);
	assert_int_equal(rig_add(2, 0, 4), FAN_WAIT);
	assert_int_equal(rig.gots, 0);
	assert_int_equal(rig_add(1, 0, 2), FAN_DONE);
	assert_int_equal(rig_value(0), 7);
	assert_int_equal(rig.got[0].dest, FAN_TO_GROUP);
}

static void slot__duplicate_while_open(void **state)
{
	(void)state;
	rig_form("a", 2, 0);
	assert_int_equal(rig_add(0, 0, 1), FAN_WAIT);
	assert_int_equal(rig_add(0, 0, 100), FAN_DROP);
	assert_int_equal(fan_aggregator_last_drop(rig.ag), FAN_DROP_DUPLICATE);
	assert_int_equal(rig_add(1, 0, 2), FAN_DONE);
	assert_int_equal(rig_value(0), 3);
}

static void slot__duplicate_after_done(void **state)
{
	(void)state;
	rig_form("a", 2, 0);
	rig_add(0, 0, 1);
	rig_add(1, 0, 2);
	assert_int_equal(rig_add(0, 0, 100), FAN_REPLAY);
	assert_int_equal(rig_value(0), 3);
	assert_int_equal(rig.got[0].dest, FAN_TO_PEER);
	fan_peer to = rig_peer(0);
	assert_true(fan_peer_equal(&rig.got[0].peer, &to));
	assert_true(rig.got[0].f.flags & FAN_F_REPLAY);
}

/* The last round's result stays while the next one is summed. */
static void slot__replay_from_the_shadow(void **state)
{
	(void)state;
	rig_form("a", 2, 0);
	rig_add(0, 1, 1);
	rig_add(1, 1, 2);
	assert_int_equal(rig_add(0, 1u + rig.window, 10), FAN_WAIT);
	assert_int_equal(rig_probe(1, 1), FAN_REPLAY);
	assert_int_equal(rig_value(0), 3);
	assert_int_equal(rig_add(1, 1u + rig.window, 20), FAN_DONE);
	assert_int_equal(rig_value(0), 30);
	assert_int_equal(rig_probe(0, 1), FAN_REPLAY); /* still */
	assert_int_equal(rig_value(0), 3);
}

static void slot__stale_after_two_rounds(void **state)
{
	(void)state;
	rig_form("a", 2, 0);
	for (uint64_t n = 0; n < 3u * rig.window; n += rig.window) {
		rig_add(0, n, 1);
		rig_add(1, n, 2);
	}
	assert_int_equal(rig_add(0, 0, 100), FAN_DROP);
	assert_int_equal(fan_aggregator_last_drop(rig.ag), FAN_DROP_STALE);
	assert_int_equal(rig_probe(0, 0), FAN_DROP);
	assert_int_equal(rig_drops(FAN_DROP_STALE), 2);
	assert_int_equal(rig_probe(0, 2u * rig.window), FAN_REPLAY);
	assert_int_equal(rig_value(0), 3);
}

/* Nobody begins a round before the one before it is done. */
static void slot__ahead(void **state)
{
	(void)state;
	rig_form("a", 2, 0);
	assert_int_equal(rig_add(0, rig.window, 1), FAN_DROP);
	assert_int_equal(fan_aggregator_last_drop(rig.ag), FAN_DROP_AHEAD);
	rig_add(0, 0, 1);
	assert_int_equal(rig_add(1, rig.window, 1), FAN_DROP); /* one contribution is missing */
	rig_add(1, 0, 1);
	assert_int_equal(rig_add(1, 2u * rig.window, 1), FAN_DROP); /* one round too far */
	assert_int_equal(rig_add(1, rig.window, 1), FAN_WAIT);
	assert_int_equal(rig_add(0, UINT64_MAX, 1), FAN_DROP);
	assert_int_equal(rig_drops(FAN_DROP_AHEAD), 4);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(slot__memory_is_laid_out_without_overlap),
		cmocka_unit_test(slot__versions_alternate),
		RIG_TEST(slot__result_goes_to_all),
		RIG_TEST(slot__duplicate_while_open),
		RIG_TEST(slot__duplicate_after_done),
		RIG_TEST(slot__replay_from_the_shadow),
		RIG_TEST(slot__stale_after_two_rounds),
		RIG_TEST(slot__ahead),
	};
	return RUN(tests);
}
