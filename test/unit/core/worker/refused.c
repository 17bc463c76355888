/* SPDX-License-Identifier: Apache-2.0 */
/* Workers whose job forms, or never does. */
#include "unit/unit.h"

#include "unit/core/worker_rig.h"

/* ---- refused ---- */

/* What switches drop for want of a slot, and say so. */

#define WINDOW 16u

static int32_t in[16 * 2 * WINDOW], out[16 * 2 * WINDOW];

/* A worker with a window of 16 that has sent all of it, and has as much again to send. */
static void begin(void)
{
	rig_window(WINDOW);
	rig_ready_flags(WINDOW, 0);
	struct fan_op op = rig_int_sum(in, out, 16 * 2 * WINDOW);
	rig_start(&op);
	assert_int_equal(rig_tick(), WINDOW);
}

static enum fan_verdict collides(uint64_t frag)
{
	struct fan_frag need = rig_frag(FAN_TYPE_NEED, frag);
	need.flags = FAN_F_COLLISION;
	need.to = FAN_TAG(1);
	return rig_recv(&need, false);
}

static void marked_result(uint64_t frag, uint16_t mark)
{
	struct fan_frag f = rig_frag(FAN_TYPE_RESULT, frag);
	f.flags = mark | (frag ? 0 : FAN_F_FIRST);
	f.dtype = FAN_INT32;
	f.count = 16;
	f.payload = (const uint8_t *)in;
	f.payload_bytes = RIG_PAYLOAD;
	assert_int_equal(rig_recv(&f, false), FAN_DONE);
}

static void result(uint64_t frag)
{
	marked_result(frag, 0);
}

static uint32_t cwnd(void)
{
	return fan_worker_stats(rig.w)->cwnd;
}

/* The window is halved once for all that was out, and each result makes it larger. */
TEST_WITH(refused__halves_once_a_window, rig_open, rig_close)
{
	begin();
	for (uint64_t n = 10; n < 16; n++)
		assert_int_equal(collides(n), FAN_ASK);
	assert_int_equal(collides(12), FAN_DROP); /* is not out */
	assert_int_equal(cwnd(), 8);
	assert_int_equal(fan_worker_stats(rig.w)->collisions, 6);
	assert_int_equal(rig_tick(), 0); /* ten are out */
	for (uint64_t n = 0; n < 4; n++)
		result(n);
	assert_int_equal(cwnd(), 12);
	assert_int_equal(rig_tick(), 6); /* the lowest of what waits */
	for (unsigned i = 0; i < 6; i++) {
		assert_int_equal(rig.got[i].frag, 10 + i);
		assert_int_equal(rig.got[i].type, FAN_TYPE_DATA);
		assert_false(rig.got[i].flags & FAN_F_DIRECT);
	}
	assert_int_equal(collides(5), FAN_ASK); /* of the window before */
	assert_int_equal(cwnd(), 12);
	assert_int_equal(collides(10), FAN_ASK);
	assert_int_equal(cwnd(), 6);
	assert_int_equal(fan_worker_stats(rig.w)->probes, 0);
	assert_int_equal(fan_worker_stats(rig.w)->resent, 6);
}

/* The lowest goes again at once, whatever the window; after so many times past all slots. */
TEST_WITH(refused__too_often, rig_open, rig_close)
{
	begin();
	for (unsigned tries = 1; tries <= FAN_REFUSALS_MAX; tries++) {
		assert_int_equal(collides(0), FAN_ASK);
		assert_int_equal(rig_tick(), 1);
		assert_int_equal(rig.got[0].frag, 0);
		assert_false(rig.got[0].flags & FAN_F_DIRECT);
	}
	assert_int_equal(collides(0), FAN_ASK);
	assert_int_equal(rig_tick(), 1);
	assert_int_equal(rig.got[0].frag, 0);
	assert_true(rig.got[0].flags & FAN_F_DIRECT);
	assert_int_equal(cwnd(), 2);
}

/* What the aggregator has asked for goes past all slots: a refusal of what was sent before is old.
 */
TEST_WITH(refused__after_a_need, rig_open, rig_close)
{
	begin();
	struct fan_frag need = rig_frag(FAN_TYPE_NEED, 3);
	need.to = FAN_TAG(1);
	assert_int_equal(rig_recv(&need, false), FAN_ASK);
	assert_int_equal(collides(3), FAN_DROP);
	assert_int_equal(rig_tick(), 1);
	assert_true(rig.got[0].flags & FAN_F_DIRECT);
	assert_int_equal(collides(3), FAN_DROP);
	assert_int_equal(rig_tick(), 0);
}

/* Who runs ahead sends in order, and obeys it as any NEED. */
TEST_WITH(refused__running_ahead, rig_open, rig_close)
{
	rig_ahead(WINDOW, 8);
	struct fan_op op = rig_int_sum(in, out, 16 * 2 * WINDOW);
	rig_start(&op);
	assert_int_equal(rig_tick(), 8);
	assert_int_equal(collides(3), FAN_ASK);
	assert_int_equal(rig_tick(), 1);
	assert_int_equal(rig.got[0].frag, 3);
	assert_true(rig.got[0].flags & FAN_F_DIRECT);
}

/* Under congestion some ranks may have sent the lowest long before: it does not wait in a slot for
 * what has passed.  One that is ahead of all, as in a window that is empty, is not so late. */
TEST_WITH(refused__left_behind, rig_open, rig_close)
{
	begin();
	marked_result(1, FAN_F_ECN);
	assert_int_equal(cwnd(), WINDOW / 2);
	for (uint64_t n = 2; n < WINDOW; n++)
		result(n);
	unsigned sent = 0;
	for (unsigned i = 0, n = rig_tick(); i < n; i++) {
		if (rig.got[i].type != FAN_TYPE_DATA) /* it asks about 0 */
			continue;
		assert_int_equal(rig.got[i].frag, WINDOW + 1 + sent++);
		assert_false(rig.got[i].flags & FAN_F_DIRECT);
	}
	assert_in_range(sent, 2, WINDOW - 2);
	result(0);
	assert_in_range(rig_tick(), 1, 2);
	assert_int_equal(rig.got[0].frag, WINDOW);
	assert_true(rig.got[0].flags & FAN_F_DIRECT);
	assert_false(rig.gots == 2 && rig.got[1].flags & FAN_F_DIRECT);
	for (uint64_t n = WINDOW; n <= WINDOW + sent; n++)
		result(n);
	assert_true(rig_tick() > 0);
	assert_true(cwnd() < WINDOW);
	assert_false(rig.got[0].flags & FAN_F_DIRECT);
}

/* ---- forming ---- */

/* forming.c - what a worker believes while its job forms. */

static enum fan_verdict forged_state(unsigned state, int err, uint64_t nonce, bool by_group)
{
	uint8_t body[FAN_CTL_BYTES_MAX];
	const struct fan_state m = {.state = (uint8_t)state, .err = (int8_t)err, .ranks = 3};
	return rig_packet(FAN_TYPE_STATE, nonce, body, fan_ctl_put(body, &m), by_group);
}

/* Who has joined as a rank that has not come may know the epoch, but no nonce: what it says while
 * the job forms draws a BEAT. */
TEST_WITH(worker__forming_heeds_answers_alone, rig_open, rig_close)
{
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
TEST_WITH(worker__forming_joins_again, rig_open, rig_close)
{
	rig_tick();
	for (unsigned life = 0; life < 3; life++) {
		assert_int_equal(rig_welcome(rig.cfg.nonce, 4), FAN_CTL);
		for (unsigned n = 0; n < FAN_BEAT_TRIES; n++) {
			rig_sends(FAN_TYPE_BEAT);
			rig.now_ns += FAN_JOIN_RETRY_NS;
		}
		rig_sends(FAN_TYPE_JOIN);
		assert_int_equal(rig.got[0].nonce, rig.cfg.nonce);
	}
}

/* Whoever has its nonce alone may say that its path ends; on another path it does not. */
TEST_WITH(worker__path_ends, rig_open, rig_close)
{
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

UNIT_MAIN
