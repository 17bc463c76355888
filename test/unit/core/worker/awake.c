/* SPDX-License-Identifier: Apache-2.0 */
/* A worker whose machine was suspended. */
#include "unit/core/worker_rig.h"

/* The machine was suspended: the switch could not be heard, nor results come.  Silence after that
 * is as long as ever. */
static void awake__silence_counts_while_awake(void **state)
{
	(void)state;
	struct fan_op op = {.op = FAN_BARRIER, .dtype = FAN_UINT8, .wire = FAN_UINT8};
	uint64_t id;
	rig_ready();
	assert_int_equal(fan_worker_start(rig.w, rig.now_ns, &op, &id), FAN_OK);
	rig_pass(600 * FAN_MS);
	rig.now_ns += 12000 * FAN_MS; /* stall_ms is 2000 */
	rig_tick();
	assert_int_equal(fan_worker_phase(rig.w), FAN_W_READY);
	rig_pass(250 * FAN_MS);
	assert_int_equal(fan_worker_phase(rig.w), FAN_W_READY);
	rig_pass(300 * FAN_MS);
	assert_int_equal(fan_worker_fault(rig.w)->err, FAN_E_UNREACHABLE);
}

/* The same while ranks are waited for. */
static void awake__ranks_are_waited_for_while_awake(void **state)
{
	(void)state;
	rig_tick();
	rig_welcome(rig.cfg.nonce, 4);
	rig_state(FAN_JOB_FORMING, 0, 4);
	rig_pass(rig.cfg.join_ms * FAN_MS / 2);
	rig.now_ns += 2 * rig.cfg.join_ms * FAN_MS;
	rig_tick();
	assert_true(fan_worker_phase(rig.w) <= FAN_W_FORMING);
	rig_pass(rig.cfg.join_ms * FAN_MS);
	assert_int_equal(fan_worker_fault(rig.w)->err, FAN_E_TIMEOUT);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		RIG_TEST(awake__silence_counts_while_awake),
		RIG_TEST(awake__ranks_are_waited_for_while_awake),
	};
	return RUN(tests);
}
