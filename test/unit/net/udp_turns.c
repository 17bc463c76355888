/* SPDX-License-Identifier: Apache-2.0 */
/* Datagrams to several receivers, in turn: which leave by one call, and in which order. */
#include "udp_rig.h"

/* Who sends, and two who hear it. */
static void open_three(struct fan_udp *a, struct fan_udp *b, bool plain)
{
	open_at(a, "127.0.0.1:0", plain);
	open_at(&b[0], "127.0.0.1:0", plain);
	open_at(&b[1], "127.0.0.1:0", plain);
}

static void run__two_receivers_in_turn(void **state)
{
	(void)state;
	struct fan_udp a, b[2];
	struct fan_out out;

	open_three(&a, b, false);
	start(&out);
	for (unsigned i = 0; i < 40; i++)
		add(&out, FAN_TO_PEER, PAYLOAD)->peer = fan_udp_local(&b[i / 10 % 2]);
	fan_udp_send(&a, &out, false);
	for (unsigned r = 0; r < 2; r++) {
		drain(&b[r], 20);
		assert_int_equal(got.count, 20);
		for (unsigned i = 0; i < 20; i++) {
			assert_int_equal(got.number[i], i / 10 * 20 + r * 10 + i % 10);
			assert_true(got.whole[i]);
		}
		fan_udp_close(&b[r]);
	}
	fan_udp_close(&a);
}

/* As results of a reduce: each fragment has one without elements for the group, and the root's. */
static void between_others(bool plain)
{
	struct fan_udp a, b[2];
	fan_peer peers[1];
	struct fan_out out;

	open_three(&a, b, plain);
	peers[0] = fan_udp_local(&b[0]);
	const struct fan_group g = {.peers = peers, .ranks = 1};
	start(&out);
	for (unsigned i = 0; i < 60; i++)
		if (i % 2)
			add(&out, FAN_TO_PEER, PAYLOAD)->peer = fan_udp_local(&b[1]);
		else
			add(&out, FAN_TO_GROUP, 0)->group = &g;
	fan_udp_send(&a, &out, false);
	for (unsigned r = 0; r < 2; r++) {
		drain(&b[r], 30);
		assert_int_equal(got.count, 30);
		for (unsigned i = 0; i < 30; i++) {
			assert_int_equal(got.number[i], 2 * i + r);
			assert_int_equal(got.bytes[i], FAN_HEAD_BYTES + (r ? PAYLOAD : 0));
			assert_true(got.whole[i]);
		}
		fan_udp_close(&b[r]);
	}
	assert_int_equal(a.datagrams_out, 60);
	assert_int_equal(a.sends, 2);
	fan_udp_close(&a);
}

static void run__passes_over_others(void **state)
{
	(void)state;
	between_others(false);
	between_others(true);
}

/* What is larger than a run's items does not overtake them. */
static void run__keeps_the_order_of_sizes(void **state)
{
	(void)state;
	struct fan_udp a, b[2];
	struct fan_out out;

	open_three(&a, b, false);
	start(&out);
	for (unsigned i = 0; i < 60; i++)
		add(&out, FAN_TO_PEER, i / 2 % 3 ? PAYLOAD : 0)->peer = fan_udp_local(&b[i % 2]);
	fan_udp_send(&a, &out, false);
	for (unsigned r = 0; r < 2; r++) {
		drain(&b[r], 30);
		assert_int_equal(got.count, 30);
		for (unsigned i = 0; i < 30; i++)
			assert_int_equal(got.number[i], 2 * i + r);
		fan_udp_close(&b[r]);
	}
	fan_udp_close(&a);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(run__two_receivers_in_turn),
		cmocka_unit_test(run__passes_over_others),
		cmocka_unit_test(run__keeps_the_order_of_sizes),
	};
	return cmocka_run_group_tests_name("net_udp_turns", tests, NULL, NULL);
}
