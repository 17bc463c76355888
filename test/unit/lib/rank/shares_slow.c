/* SPDX-License-Identifier: Apache-2.0 */
/* What the shares and the fragments in flight are where a link is slow, from measured figures. */
#include "unit/unit.h"

#include <string.h>

#include "core/base/limits.h"
#include "lib/rank/share_meter.h"
#include "lib/rank/shares.h"

#define HOSTS  4
#define USUAL  4120000 /* of a tensor */
#define ROUNDS 10      /* until equal links' shares stay, at most */

/* Four hosts of which host 1 has a quarter of the rate (bench/placement's row, in microseconds):
 * contributions of that host are what every round trip waits for. */
static const uint32_t before_us[HOSTS] = {6000, 6000, 7900, 8400};
static const uint32_t slow_us[HOSTS] = {15390, 36003, 22591, 30096};

static void settle(struct fan_split_learner *l)
{
	const bool is_host[HOSTS] = {true, true, true, true};
	fan_split_learner_init(l, HOSTS, is_host, NULL);
	for (int i = 0; i < ROUNDS && l->phase != FAN_SPLIT_SETTLED; i++)
		fan_split_learn(l, before_us, USUAL);
	assert_int_equal(l->phase, FAN_SPLIT_SETTLED);
	for (unsigned k = 0; k < HOSTS; k++)
		assert_int_equal(l->share[k], FAN_SPLIT_WHOLE / HOSTS);
}

static void measure(struct fan_split_learner *l, const uint32_t *rtt_us, uint64_t cost)
{
	for (int i = 0; i < FAN_SPLIT_WORSE; i++)
		if (fan_split_learn(l, rtt_us, cost) || l->phase != FAN_SPLIT_SETTLED)
			return;
	fail_msg("nobody has noticed");
}

static void split_slow__a_host_whose_link_drops_sums_nothing_at_once(void **state)
{
	struct fan_split_learner l;
	(void)state;
	settle(&l);
	measure(&l, slow_us, 4 * USUAL);
	assert_int_equal(l.share[1], 0);
	for (unsigned k = 0; k < HOSTS; k++)
		assert_true(k == 1 || l.share[k] >= FAN_SPLIT_WHOLE / HOSTS);
}

/* Then round trips have to be twice as long as others'. */
static void split_slow__a_host_keeps_its_share_where_tensors_take_a_little_longer(void **state)
{
	struct fan_split_learner l;
	(void)state;
	settle(&l);
	measure(&l, slow_us, 2 * USUAL);
	assert_int_equal(l.share[1], FAN_SPLIT_WHOLE / HOSTS);
}

static void split_slow__which_host_it_is_must_be_clear(void **state)
{
	const uint32_t all_us[HOSTS] = {15390, 33000, 22591, 30096};
	struct fan_split_learner l;
	(void)state;
	settle(&l);
	measure(&l, all_us, 4 * USUAL);
	assert_int_equal(l.share[1], FAN_SPLIT_WHOLE / HOSTS);
}

static void split_slow__a_slow_link_has_no_longer_queue_for_more_connections(void **state)
{
	(void)state;
	assert_true(fan_share_meter_counted(0, 3) == 3);
	assert_true(fan_share_meter_counted(0, 5) == 5); /* four hosts, one spare: as without it */
	assert_true(fan_share_meter_counted(0, 8) == FAN_SHARE_METER_COUNTED);
	assert_true(fan_share_meter_counted(FAN_IN_STEP_FRAGS * 6, 8) == 6);
	assert_true(fan_share_meter_counted(FAN_IN_STEP_FRAGS * 60, 8) == 8);
}

static void split_slow__parts_may_be_further_apart_only_on_a_fast_link(void **state)
{
	const double slow = FAN_IN_STEP_FRAGS * HOSTS;
	const double all = 1e9 / 8 / FAN_PAYLOAD_1500 * FAN_SHARE_METER_FILL_MS / 1e3;
	const double gigabit = all * HOSTS / (2 * (HOSTS - 1)); /* results of hosts that sum */
	(void)state;
	assert_true(fan_share_meter_step(HOSTS, 0, false) == slow);
	assert_true(fan_share_meter_step(HOSTS, gigabit, false) == slow);
	assert_true(fan_share_meter_step(HOSTS, 2 * FAN_SHARE_METER_FAST, false) == 4 * slow);
	assert_true(fan_share_meter_step(HOSTS, gigabit, true) == FAN_SHARE_METER_SET_STEP * HOSTS);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(split_slow__a_host_whose_link_drops_sums_nothing_at_once),
		cmocka_unit_test(
			split_slow__a_host_keeps_its_share_where_tensors_take_a_little_longer),
		cmocka_unit_test(split_slow__which_host_it_is_must_be_clear),
		cmocka_unit_test(split_slow__a_slow_link_has_no_longer_queue_for_more_connections),
		cmocka_unit_test(split_slow__parts_may_be_further_apart_only_on_a_fast_link),
	};
	return cmocka_run_group_tests_name("split_slow", tests, NULL, NULL);
}
