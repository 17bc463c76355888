/* SPDX-License-Identifier: Apache-2.0 */
/* forming.c - what a worker believes while its job forms. */
#include "unit/core/worker_rig.h"

static enum fan_verdict forged_state(unsigned state, int err, uint64_t nonce, bool by_group)
{
	uint8_t body[FAN_CTL_BYTES_MAX];
	const struct fan_state m = {.state = (uint8_t)state, .err = (int8_t)err, .ranks = 3};
	return rig_packet(FAN_TYPE_STATE, nonce, body, fan_state_put(body, &m), by_group);
}

/* Who has joined as a rank that has not come may know the epoch, but no nonce: what it says while
 * the job forms draws a BEAT. */
static void worker__forming_heeds_answers_alone(void **state)
{
	(void)state;
	rig_tick();
	assert_int_equal(rig_welcome(rig.cfg.nonce, 4), FAN_CTL);
	assert_int_equal(rig_tick(), 1);
	for (unsigned n = 0; n < 100; n++) {
		assert_int_equal(forged_state(FAN_JOB_READY, 0, 0, n % 2), FAN_CTL);
		forged_state(FAN_JOB_FAILED, FAN_E_RANK_LOST, 0, n % 2);
		assert_int_equal(fan_worker_phase(rig.w), FAN_W_FORMING);
		const unsigned sent = rig_tick();
		assert_int_equal(sent, n == 0);
		assert_true(!sent || rig.got[0].type == FAN_TYPE_BEAT);
	}
	assert_int_equal(forged_state(FAN_JOB_READY, 0, rig.cfg.nonce, false), FAN_CTL);
	assert_int_equal(fan_worker_phase(rig.w), FAN_W_READY);
}

/* Its place, or its key, is somebody else's: it asks for it again. */
static void worker__forming_joins_again(void **state)
{
	(void)state;
	rig_tick();
	for (unsigned life = 0; life < 3; life++) {
		assert_int_equal(rig_welcome(rig.cfg.nonce, 4), FAN_CTL);
		for (unsigned n = 0; n < FAN_BEAT_TRIES; n++) {
			assert_int_equal(rig_tick(), 1);
			assert_int_equal(rig.got[0].type, FAN_TYPE_BEAT);
			rig.now_ns += FAN_JOIN_RETRY_NS;
		}
		assert_int_equal(rig_tick(), 1);
		assert_int_equal(rig.got[0].type, FAN_TYPE_JOIN);
		assert_int_equal(rig.got[0].nonce, rig.cfg.nonce);
	}
}

/* Whoever has its nonce alone may say that its path ends; on another path it does not. */
static void worker__path_ends(void **state)
{
	(void)state;
	rig_tick();
	assert_int_equal(rig_welcome(rig.cfg.nonce, 4), FAN_CTL);
	assert_int_equal(forged_state(FAN_JOB_AWAY, 0, 0, false), FAN_DROP);
	assert_int_equal(forged_state(FAN_JOB_AWAY, 0, 99, false), FAN_DROP);
	assert_false(fan_worker_path_ends(rig.w));
	assert_int_equal(forged_state(FAN_JOB_AWAY, 0, rig.cfg.nonce, false), FAN_CTL);
	assert_true(fan_worker_path_ends(rig.w));
	assert_int_equal(fan_worker_phase(rig.w), FAN_W_FORMING);
	fan_worker_reroute(rig.w, rig.now_ns, 0);
	assert_false(fan_worker_path_ends(rig.w));
	assert_int_equal(forged_state(FAN_JOB_AWAY, 0, rig.cfg.nonce, false), FAN_CTL);
	assert_false(fan_worker_path_ends(rig.w));
	fan_worker_lose_path(rig.w);
	assert_int_equal(fan_worker_phase(rig.w), FAN_W_FAILED);
	assert_int_equal(fan_worker_fault(rig.w)->err, FAN_E_STOPPED);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		RIG_TEST(worker__forming_heeds_answers_alone),
		RIG_TEST(worker__forming_joins_again),
		RIG_TEST(worker__path_ends),
	};
	return RUN(tests);
}
