/* SPDX-License-Identifier: Apache-2.0 */
#include "core/recovery/seq_gap.h"

#include "unit/unit.h"

/* Numbers in order, from the next one on; what is to be asked for after the last. */
static uint64_t in_order(struct fan_seq_gap *g, unsigned count)
{
	uint64_t missing = 0;
	for (unsigned i = 0; i < count; i++)
		missing = fan_seq_gap_note(g, 1, false);
	return missing;
}

static void seq_gap__nothing_is_missing(void **state)
{
	(void)state;
	struct fan_seq_gap g;
	fan_seq_gap_init(&g, UINT16_MAX, true);
	for (unsigned i = 0; i < 70000; i++)
		assert_int_equal(fan_seq_gap_note(&g, 1, false), 0);
	assert_int_equal(g.last, (uint16_t)(UINT16_MAX + 70000));
}

/* Asked for when three later ones have come, and when 48 have. */
static void seq_gap__is_asked_for_twice(void **state)
{
	(void)state;
	struct fan_seq_gap g;
	fan_seq_gap_init(&g, 10, true);
	assert_int_equal(fan_seq_gap_note(&g, 2, false), 0); /* 12: 11 may still come */
	assert_int_equal(in_order(&g, 1), 0);
	assert_int_equal(in_order(&g, 1), 1 << 3); /* 14 - 3 */
	assert_int_equal(g.last, 14);
	for (unsigned i = FAN_GAP_RESULTS + 1; i < FAN_GAP_AGAIN; i++)
		assert_int_equal(in_order(&g, 1), 0);
	assert_true(in_order(&g, 1) == UINT64_C(1) << FAN_GAP_AGAIN);
	for (unsigned i = 0; i < 100; i++)
		assert_int_equal(in_order(&g, 1), 0);
}

/* Whoever has better paths to ask again is told once. */
static void seq_gap__once(void **state)
{
	(void)state;
	struct fan_seq_gap g;
	fan_seq_gap_init(&g, 10, false);
	fan_seq_gap_note(&g, 2, false);
	assert_int_equal(in_order(&g, 2), 1 << 3);
	for (unsigned i = 0; i < 100; i++)
		assert_int_equal(in_order(&g, 1), 0);
}

/* What was sent again has come: no second question, and no reason to wait longer. */
static void seq_gap__answered(void **state)
{
	(void)state;
	struct fan_seq_gap g;
	fan_seq_gap_init(&g, 10, true);
	fan_seq_gap_note(&g, 2, false);
	assert_int_equal(in_order(&g, 2), 1 << 3);
	assert_int_equal(fan_seq_gap_note(&g, -3, true), 0);
	for (unsigned i = 0; i < 100; i++)
		assert_int_equal(in_order(&g, 1), 0);
	assert_int_equal(g.few, FAN_GAP_RESULTS);
}

/* Some of a run that is lost show at once, the last of them later. */
static void seq_gap__a_run(void **state)
{
	(void)state;
	struct fan_seq_gap g;
	fan_seq_gap_init(&g, 10, true);
	assert_int_equal(fan_seq_gap_note(&g, 6, false), 7 << 3); /* 16: 11, 12 and 13 */
	assert_int_equal(in_order(&g, 1), 1 << 3);
	assert_int_equal(in_order(&g, 1), 1 << 3);
	assert_int_equal(in_order(&g, 1), 0);
}

/* Longer than is kept track of. */
static void seq_gap__a_long_run(void **state)
{
	(void)state;
	struct fan_seq_gap g;
	fan_seq_gap_init(&g, 10, true);
	assert_true(fan_seq_gap_note(&g, 63, false) == UINT64_MAX << FAN_GAP_RESULTS << 1 >> 1);
	fan_seq_gap_init(&g, 10, true);
	assert_true(fan_seq_gap_note(&g, 5000, false) == UINT64_MAX << FAN_GAP_RESULTS);
	assert_int_equal(g.last, 5010);
	assert_int_equal(fan_seq_gap_note(&g, -64, false), 0);
	assert_int_equal(fan_seq_gap_note(&g, -63, false), 0);
	assert_int_equal(fan_seq_gap_note(&g, -32768, false), 0);
	assert_int_equal(g.last, 5010);
}

/* One that comes after it was asked for had been overtaken: it takes more from now on. */
static void seq_gap__learns_what_order_is_worth(void **state)
{
	(void)state;
	struct fan_seq_gap g;
	fan_seq_gap_init(&g, 0, true);
	fan_seq_gap_note(&g, 3, false);
	assert_int_equal(fan_seq_gap_note(&g, -2, false), 0); /* 1, in time */
	assert_int_equal(g.few, FAN_GAP_RESULTS);
	assert_int_equal(in_order(&g, 2), 1 << 3); /* 2 */
	assert_int_equal(fan_seq_gap_note(&g, -3, false), 0);
	assert_int_equal(g.few, 2 * FAN_GAP_RESULTS);
	assert_int_equal(fan_seq_gap_note(&g, -3, false), 0); /* a duplicate tells nothing */
	assert_int_equal(g.few, 2 * FAN_GAP_RESULTS);
	fan_seq_gap_note(&g, 2, false);
	assert_int_equal(in_order(&g, 4), 0);
	assert_int_equal(in_order(&g, 1), 1 << 6);
	for (unsigned i = 0; i < 20; i++) {
		fan_seq_gap_note(&g, 2, false);
		in_order(&g, 60);
		fan_seq_gap_note(&g, -61, false);
	}
	assert_int_equal(g.few, FAN_GAP_AGAIN);
	fan_seq_gap_note(&g, 2, false);
	assert_int_equal(in_order(&g, FAN_GAP_AGAIN - 2), 0);
	assert_true(in_order(&g, 1) == UINT64_C(1) << FAN_GAP_AGAIN);
	assert_int_equal(in_order(&g, 60), 0);
}

/* As a neighbour's numbers come: many may be lost, and a stream may have begun elsewhere. */
static void seq_gap__of_a_neighbour(void **state)
{
	(void)state;
	struct fan_seq_gap g;
	fan_seq_gap_init(&g, 0, true);
	assert_int_equal(fan_seq_gap_heard(&g, 1), 0);
	assert_int_equal(fan_seq_gap_heard(&g, 5), 1 << 3); /* 2; 3 and 4 may still come */
	assert_true(fan_seq_gap_heard(&g, 5 + 2 * FAN_SEQ_GAP_BITS + 1) == UINT64_MAX << 3);
	assert_int_equal(g.last, 5 + 2 * FAN_SEQ_GAP_BITS + 1); /* too many */
	uint64_t missing = fan_seq_gap_heard(&g, 5 + 2 * FAN_SEQ_GAP_BITS + 5);
	assert_int_equal(missing & 0xff, 1 << 3 | 1 << 5 | 1 << 6);
	fan_seq_gap_resume(&g);
	assert_int_equal(fan_seq_gap_heard(&g, 60000), 0); /* far behind, as 16 bits go */
	assert_int_equal(g.last, 60000);
	assert_int_equal(fan_seq_gap_heard(&g, 60004), 1 << 3);
	assert_int_equal(fan_seq_gap_heard(&g, 60004 - FAN_GAP_BEGUN + 1), 0); /* long under way */
	assert_int_equal(g.last, 60004);
	assert_int_equal(fan_seq_gap_heard(&g, 60004 - FAN_GAP_BEGUN),
			 0); /* its sender began anew */
	assert_int_equal(g.last, 60004 - FAN_GAP_BEGUN);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(seq_gap__nothing_is_missing),
		cmocka_unit_test(seq_gap__is_asked_for_twice),
		cmocka_unit_test(seq_gap__once),
		cmocka_unit_test(seq_gap__answered),
		cmocka_unit_test(seq_gap__a_run),
		cmocka_unit_test(seq_gap__a_long_run),
		cmocka_unit_test(seq_gap__learns_what_order_is_worth),
		cmocka_unit_test(seq_gap__of_a_neighbour),
	};
	return RUN(tests);
}
