/* SPDX-License-Identifier: Apache-2.0 */
/* silence.c - BEATs of a rank in READY, answered or not, and what it asks for meanwhile. */
#include "unit/core/worker_rig.h"

#define BEAT_NS (125 * FAN_MS) /* as rig_welcome says, for 1000 ms of silence */

static void begin(bool authentic)
{
	rig.cfg.authentic = authentic;
	rig.w = fan_worker_init(rig.mem, &rig.cfg, rig.now_ns);
	rig_tick();
	assert_int_equal(rig_welcome(rig.cfg.nonce, 4), FAN_CTL);
	assert_int_equal(rig_tick(), 1);
	assert_int_equal(rig_state(FAN_JOB_READY, 0, 0), FAN_CTL);
	assert_int_equal(fan_worker_phase(rig.w), FAN_W_READY);
}

/* Move to the next control message, which there is to be after `ns`. */
static void next_is(unsigned type, uint64_t ns)
{
	assert_int_equal(fan_worker_deadline(rig.w), rig.now_ns + ns);
	rig.now_ns += ns;
	rig_sends(type);
}

/* In a sealed job as in an open one, however soon it would be asked again. */
TEST_WITH(silence__none_where_beats_are_answered, rig_open, rig_close)
{
	for (unsigned authentic = 0; authentic < 2; authentic++) {
		begin(authentic);
		for (unsigned n = 0; n < 5; n++) {
			next_is(FAN_TYPE_BEAT, BEAT_NS);
			assert_int_equal(rig_state(FAN_JOB_READY, 0, 0), FAN_CTL);
		}
	}
}

/* An open job: whoever has forgotten it says so. */
TEST_WITH(silence__of_an_open_job_is_not_asked_about, rig_open, rig_close)
{
	begin(false);
	for (unsigned n = 1; n < FAN_BEATS_PER_ALIVE; n++)
		next_is(FAN_TYPE_BEAT, BEAT_NS);
	assert_int_equal(fan_worker_phase(rig.w), FAN_W_READY);
}

/* The answer to a JOIN by `path`. */
static int welcome(uint32_t job, uint8_t path)
{
	uint8_t body[FAN_CTL_BYTES_MAX];
	const struct fan_welcome m = {.window = 4, .shards = 1, .beat_ms = 125, .alive_ms = 1000};
	struct fan_frag f = {
		.nonce = rig.cfg.nonce,
		.job = job,
		.epoch = rig.epoch,
		.sender = FAN_RANK_NONE,
		.type = FAN_TYPE_WELCOME,
		.path = path,
		.payload = body,
		.payload_bytes = fan_ctl_put(body, &m),
	};
	return rig_recv(&f, false);
}

/* A sealed job: a next hop without keys is silent.  The rank joins anew there, well before it is
 * lost itself, and goes on once it is answered. */
TEST_WITH(silence__of_a_sealed_job_ends_in_time, rig_open, rig_close)
{
	begin(true);
	const uint64_t heard_ns = rig.now_ns, try_ns = BEAT_NS / FAN_TRIES_PER_BEAT;
	next_is(FAN_TYPE_BEAT, BEAT_NS);
	for (unsigned n = 1; n < FAN_BEAT_TRIES; n++)
		next_is(FAN_TYPE_BEAT, try_ns);
	next_is(FAN_TYPE_JOIN, try_ns);
	next_is(FAN_TYPE_JOIN, try_ns);
	assert_int_equal(rig.got[0].path, 1);
	assert_true(rig.now_ns - heard_ns < FAN_MS * rig.cfg.alive_ms / 2);

	assert_int_equal(welcome(rig.job, 1), FAN_CTL);
	next_is(FAN_TYPE_BEAT, 0);
	assert_int_equal(rig_state(FAN_JOB_READY, 0, 0), FAN_CTL);
	assert_int_equal(fan_worker_phase(rig.w), FAN_W_READY);
	next_is(FAN_TYPE_BEAT, BEAT_NS);
}

/* Who moves while it leaves, or leaves while it moves: nobody on the new route has its keys, so it
 * joins there first.  In an open job they need none. */
TEST_WITH(silence__of_a_new_route_for_who_leaves, rig_open, rig_close)
{
	for (unsigned moves_first = 0; moves_first < 2; moves_first++) {
		begin(true);
		const uint32_t after = UINT32_C(9) << FAN_ROUTE_BITS | rig.job;
		if (!moves_first)
			fan_worker_leave(rig.w, rig.now_ns, FAN_OK, NULL);
		fan_worker_reroute(rig.w, rig.now_ns, 9);
		fan_worker_leave(rig.w, rig.now_ns, FAN_OK, NULL);
		next_is(FAN_TYPE_JOIN, 0);
		assert_int_equal(rig.got[0].path, 1);
		next_is(FAN_TYPE_JOIN, FAN_JOIN_RETRY_NS);
		assert_int_equal(welcome(after, 0), FAN_DROP);	   /* of the route before */
		assert_int_equal(welcome(after + 1, 1), FAN_DROP); /* of another job */
		assert_int_equal(welcome(rig.job, 1), FAN_DROP);   /* by another route */
		assert_int_equal(welcome(after, 1), FAN_CTL);
		next_is(FAN_TYPE_LEAVE, 0);
		assert_int_equal(rig.got[0].job, after);
		for (unsigned n = 1; n < FAN_LEAVE_TRIES; n++)
			next_is(FAN_TYPE_LEAVE, FAN_JOIN_RETRY_NS);
		rig.now_ns += FAN_JOIN_RETRY_NS;
		assert_int_equal(rig_tick(), 0);
		assert_int_equal(fan_worker_phase(rig.w), FAN_W_LEFT);
	}
}

/* Nobody is there. */
TEST_WITH(silence__of_a_new_route_ends_leaving, rig_open, rig_close)
{
	begin(true);
	fan_worker_leave(rig.w, rig.now_ns, FAN_OK, NULL);
	fan_worker_reroute(rig.w, rig.now_ns, 9);
	next_is(FAN_TYPE_JOIN, 0);
	for (unsigned n = 1; n < FAN_LEAVE_TRIES; n++)
		next_is(FAN_TYPE_JOIN, FAN_JOIN_RETRY_NS);
	rig.now_ns += FAN_JOIN_RETRY_NS;
	assert_int_equal(rig_tick(), 0);
	assert_int_equal(fan_worker_phase(rig.w), FAN_W_LEFT);
}

static unsigned probes_of_a_tick(void)
{
	unsigned probes = 0;
	for (unsigned n = rig_tick(); n; n--)
		probes += rig.got[n - 1].type == FAN_TYPE_PROBE;
	return probes;
}

/* Its contribution to a sum is out, and the others do not come. */
static void await_result(void)
{
	static int32_t in[16] = {1}, out[16];
	struct fan_op op = rig_int_sum(in, out, 16);
	rig_ready();
	rig_start(&op);
	assert_int_equal(rig_tick(), 1);
}

TEST_WITH(silence__draws_probes, rig_open, rig_close)
{
	unsigned probes = 0;
	await_result();
	for (unsigned ms = 0; ms < 900; ms++) { /* below the stall time */
		rig.now_ns += FAN_MS;
		probes += probes_of_a_tick();
		rig_state(FAN_JOB_READY, 0, 0);
	}
	assert_in_range(probes, 2, 40); /* with back-off */
	assert_true(fan_worker_deadline(rig.w) > rig.now_ns);
}

/* A switch that begins again drops what comes first, and says WHO: who waits asks again as soon as
 * it is known there, not when its timer says so, which has grown long. */
TEST_WITH(silence__of_a_switch_that_forgot_ends_with_the_answer, rig_open, rig_close)
{
	await_result();
	for (unsigned waits = 0; waits < 2; waits++) {
		rig_ctl(FAN_TYPE_WHO, 0, NULL, 0);
		assert_int_equal(probes_of_a_tick(), 0);
		assert_int_equal(rig_state(FAN_JOB_READY, 0, 0), FAN_CTL);
		assert_int_equal(probes_of_a_tick(), waits); /* in time there is none */
		assert_int_equal(rig_state(FAN_JOB_READY, 0, 0), FAN_CTL);
		assert_int_equal(probes_of_a_tick(), 0); /* no more than once */
		rig_pass(400 * FAN_MS);
		assert_true(rig.w->rtt.backoff > 0);
		rig.now_ns = fan_worker_deadline(rig.w) - 1; /* it has just sent something */
	}
}

/* Who forges WHO in an outage has it ask once in 50 ms more, and no more often. */
TEST_WITH(silence__of_a_switch_that_is_said_to_have_forgotten, rig_open, rig_close)
{
	await_result();
	unsigned answered = 0;
	for (unsigned ms = 0; ms < 500; ms++) {
		rig.now_ns += FAN_MS;
		rig_tick(); /* its own time-outs */
		rig_ctl(FAN_TYPE_WHO, 0, NULL, 0);
		rig_tick();
		rig_state(FAN_JOB_READY, 0, 0);
		answered += probes_of_a_tick();
	}
	assert_in_range(answered, 2, 500 * FAN_MS / FAN_JOIN_RETRY_NS);
}

#define FRAGS 14 /* under way; all of them and a BEAT are fewer than RIG_OUT */

/* Nobody answers for long: each time-out asks about a few, whatever is under way. */
TEST_WITH(silence__is_met_with_fewer_probes, rig_open, rig_close)
{
	static int32_t in[FRAGS * RIG_PAYLOAD / 4], out[FRAGS * RIG_PAYLOAD / 4];
	rig_window(FRAGS);
	rig_ready_flags(FRAGS, 0);
	struct fan_op op = rig_int_sum(in, out, FRAGS * RIG_PAYLOAD / 4);
	rig_start(&op);
	assert_int_equal(rig_tick(), FRAGS);
	for (unsigned timeouts = 0; timeouts < 6;) {
		rig.now_ns = fan_worker_deadline(rig.w);
		const unsigned probes = probes_of_a_tick();
		if (!probes) { /* it was for a BEAT */
			rig_state(FAN_JOB_READY, 0, 0);
			continue;
		}
		const bool few = timeouts++ >= FAN_TAIL_TIMEOUTS;
		assert_in_range(probes, few ? FAN_TAIL_FEW : FRAGS,
				few ? FAN_TAIL_FEW + 2 : FRAGS); /* and the lowest, the newest */
	}
}

UNIT_MAIN
