/* SPDX-License-Identifier: Apache-2.0 */
/* One worker against a hand-made switch: joining, states, timers, leaving. */
#include "core/wire/route_table.h"
#include "unit/core/worker_rig.h"

TEST_WITH(worker__configurations, rig_open, rig_close)
{
	assert_true(fan_worker_bytes(&rig.cfg) > 0);
	struct fan_worker_config bad[9];
	for (unsigned i = 0; i < 9; i++)
		bad[i] = rig.cfg;
	bad[0].rank = bad[0].ranks;
	bad[1].ranks = 1;
	bad[2].ranks = FAN_RANKS_MAX + 1;
	bad[3].payload_bytes = 68;
	bad[4].payload_bytes = FAN_PAYLOAD_MAX + 8;
	bad[5].window_max = 1;
	bad[6].nonce = 0;
	bad[7].name[0] = '\0';
	memset(bad[8].name, 'x', sizeof bad[8].name);
	for (unsigned i = 0; i < 9; i++)
		assert_int_equal(fan_worker_bytes(&bad[i]), 0);
}

TEST_WITH(worker__joins, rig_open, rig_close)
{
	struct fan_join m;
	rig_sends(FAN_TYPE_JOIN);
	assert_int_equal(rig.got[0].nonce, rig.cfg.nonce);
	assert_int_equal(rig.got[0].sender, 1);
	assert_int_equal(fan_ctl_get(&m, &rig.got[0]), FAN_OK);
	assert_string_equal(m.name, "job");
	assert_int_equal(m.ranks, 3);
	assert_int_equal(rig_tick(), 0);
	rig.now_ns += FAN_JOIN_RETRY_NS;
	assert_int_equal(fan_worker_deadline(rig.w), rig.now_ns);
	assert_int_equal(rig_tick(), 1);
	assert_int_equal(rig_welcome(rig.cfg.nonce + 1, 4), FAN_DROP); /* another's */
	assert_int_equal(rig_welcome(rig.cfg.nonce, rig.cfg.window_max + 1), FAN_DROP);
	assert_int_equal(rig_welcome(rig.cfg.nonce, 4), FAN_CTL);
	assert_int_equal(fan_worker_phase(rig.w), FAN_W_FORMING);
	rig_sends(FAN_TYPE_BEAT); /* the switch waits for this */
	assert_int_equal(rig_state(FAN_JOB_READY, 0, 0), FAN_CTL);
	assert_int_equal(fan_worker_phase(rig.w), FAN_W_READY);
	assert_int_equal(rig_welcome(rig.cfg.nonce, 4), FAN_DROP); /* a second one */
}

TEST_WITH(worker__refused, rig_open, rig_close)
{
	rig_tick();
	uint8_t body[FAN_CTL_BYTES_MAX];
	struct fan_refuse no = {.err = FAN_E_RANK_TAKEN, .rank = 1};
	assert_int_equal(rig_ctl(FAN_TYPE_REFUSE, rig.cfg.nonce + 1, body, fan_ctl_put(body, &no)),
			 FAN_DROP);
	assert_int_equal(rig_ctl(FAN_TYPE_REFUSE, rig.cfg.nonce, body, fan_ctl_put(body, &no)),
			 FAN_CTL);
	assert_int_equal(fan_worker_phase(rig.w), FAN_W_FAILED);
	assert_int_equal(fan_worker_fault(rig.w)->err, FAN_E_RANK_TAKEN);
	assert_int_equal(fan_worker_fault(rig.w)->rank_a, 1);
	assert_int_equal(fan_worker_deadline(rig.w), UINT64_MAX);
	assert_int_equal(rig_tick(), 0);
	fan_worker_leave(rig.w, rig.now_ns, FAN_E_RANK_TAKEN, NULL);
	assert_int_equal(fan_worker_phase(rig.w), FAN_W_LEFT); /* it never was in */
}

TEST_WITH(worker__nobody_answers, rig_open, rig_close)
{
	rig_pass(rig.cfg.join_ms * FAN_MS - 1);
	assert_int_equal(fan_worker_phase(rig.w), FAN_W_JOINING);
	rig_pass(1);
	assert_int_equal(fan_worker_fault(rig.w)->err, FAN_E_UNREACHABLE);
}

TEST_WITH(worker__some_do_not_come, rig_open, rig_close)
{
	rig_tick();
	rig_welcome(rig.cfg.nonce, 4);
	rig_state(FAN_JOB_FORMING, 0, 4);
	rig_pass(rig.cfg.join_ms * FAN_MS);
	assert_int_equal(fan_worker_fault(rig.w)->err, FAN_E_TIMEOUT);
	assert_int_equal(fan_worker_fault(rig.w)->ranks[0], 4);
}

/* The switch took an old JOIN for ours: once more, with the same nonce. */
TEST_WITH(worker__joins_again_while_the_job_forms, rig_open, rig_close)
{
	rig_tick();
	rig_welcome(rig.cfg.nonce, 4);
	uint64_t id;
	struct fan_op op = rig_barrier();
	assert_int_equal(fan_worker_start(rig.w, rig.now_ns, &op, &id), FAN_OK);
	rig_tick();
	assert_int_equal(rig_state(FAN_JOB_NONE, 0, 0), FAN_CTL);
	assert_int_equal(fan_worker_phase(rig.w), FAN_W_JOINING);
	rig_sends(FAN_TYPE_JOIN);
	assert_int_equal(rig.got[0].nonce, rig.cfg.nonce);
	rig_welcome(rig.cfg.nonce, 2);
	rig_state(FAN_JOB_READY, 0, 0);
	rig_sends(FAN_TYPE_DATA);
	assert_int_equal(rig.got[0].frag, 0);
}

TEST_WITH(worker__switch_of_another_version, rig_open, rig_close)
{
	uint8_t packet[FAN_HEAD_BYTES] = {0};
	struct fan_frag f = {.type = FAN_TYPE_REFUSE, .nonce = rig.cfg.nonce};
	rig_tick();
	fan_wire_put(packet, &f);
	packet[0] = 9; /* damaged, for all we know */
	assert_int_equal(fan_worker_recv(rig.w, rig.now_ns, packet, sizeof packet, false, false),
			 FAN_DROP);
	assert_int_equal(fan_worker_phase(rig.w), FAN_W_JOINING);
	fan_put32(packet + 32, fan_crc32c(0, packet, 32));
	assert_int_equal(fan_worker_recv(rig.w, rig.now_ns, packet, sizeof packet, false, false),
			 FAN_DROP);
	const struct fan_fault *fault = fan_worker_fault(rig.w);
	assert_true(fault->err == FAN_E_VERSION && fault->desc_a == 9 && fault->desc_b == 2);
}

/* The aggregator's answer to the JOIN of path number `path`. */
static enum fan_verdict answer(unsigned type, uint32_t job, uint8_t path)
{
	uint8_t body[64];
	const struct fan_welcome m = {.window = 4, .shards = 1, .beat_ms = 125, .alive_ms = 1000};
	size_t bytes = fan_ctl_put(body, &m);
	struct fan_frag f = {.nonce = rig.cfg.nonce,
			     .job = job,
			     .epoch = rig.epoch,
			     .sender = FAN_RANK_NONE,
			     .type = (uint8_t)type,
			     .path = path,
			     .payload = body,
			     .payload_bytes = bytes};
	return rig_recv(&f, false);
}

/* Of the window granted, no more than its share is in flight, and 4 fragments may always be. */
TEST_WITH(worker__share_of_the_window, rig_open, rig_close)
{
	static const struct {
		uint16_t share;
		uint32_t cwnd;
	} all[] = {{0, 64}, {32768, 32}, {65535, 63}, {1, 4}};
	for (size_t i = 0; i < sizeof all / sizeof all[0]; i++) {
		rig_open(state);
		rig.cfg.window_max = 64;
		rig.cfg.share = all[i].share;
		free(rig.mem);
		rig.mem = aligned_alloc(64, (fan_worker_bytes(&rig.cfg) + 63) / 64 * 64);
		rig.w = fan_worker_init(rig.mem, &rig.cfg, rig.now_ns);
		assert_int_equal(rig_welcome(rig.cfg.nonce, 64), FAN_CTL);
		assert_int_equal(fan_worker_stats(rig.w)->window, 64);
		assert_int_equal(fan_worker_stats(rig.w)->cwnd, all[i].cwnd);
	}
}

/* Another path to the same aggregator: JOINs until it answers one of them, and no BEAT meanwhile.
 */
TEST_WITH(worker__another_path, rig_open, rig_close)
{
	rig_ready();
	rig_tick();
	fan_worker_reroute(rig.w, rig.now_ns, 0);
	for (unsigned i = 0; i < 3; i++) {
		rig_sends(FAN_TYPE_JOIN);
		assert_int_equal(rig.got[0].nonce, rig.cfg.nonce);
		assert_int_equal(rig.got[0].path, 1);
		rig.now_ns += FAN_JOIN_RETRY_NS;
	}
	assert_int_equal(answer(FAN_TYPE_WELCOME, rig.job, 0), FAN_DROP); /* to the first JOIN */
	rig_tick();
	assert_int_equal(rig.got[0].type, FAN_TYPE_JOIN);
	assert_int_equal(answer(FAN_TYPE_WELCOME, rig.job, 1), FAN_CTL);
	rig_sends(FAN_TYPE_BEAT);
	assert_int_equal(fan_worker_phase(rig.w), FAN_W_READY);
	assert_int_equal(answer(FAN_TYPE_WELCOME, rig.job, 1), FAN_DROP);
	fan_worker_reroute(rig.w, rig.now_ns, 0);
	rig_tick();
	assert_int_equal(rig.got[0].path, 2);
	assert_int_equal(answer(FAN_TYPE_WELCOME, rig.job + 1, 2), FAN_CTL); /* a job of its own */
	assert_int_equal(fan_worker_fault(rig.w)->err, FAN_E_RESTARTED);
}

/* By another route: it stands in JOINs at once, and in all else when the aggregator has answered.
 * What is said of the route before is not heeded any more. */
TEST_WITH(worker__another_route, rig_open, rig_close)
{
	rig_ready();
	rig_tick();
	const uint32_t before = rig.job, after = UINT32_C(9) << FAN_ROUTE_BITS | before;
	struct fan_op op = rig_barrier();
	uint64_t id;
	fan_worker_reroute(rig.w, rig.now_ns, 9);
	assert_int_equal(fan_worker_route(rig.w), 0);
	assert_int_equal(fan_worker_start(rig.w, rig.now_ns, &op, &id), FAN_OK);
	assert_int_equal(rig_tick(), 2);
	assert_int_equal(rig.got[0].type, FAN_TYPE_JOIN);
	assert_int_equal(rig.got[0].job, UINT32_C(9) << FAN_ROUTE_BITS);
	assert_int_equal(rig.got[1].type, FAN_TYPE_DATA);
	assert_int_equal(rig.got[1].job, before);
	assert_int_equal(answer(FAN_TYPE_REFUSE, before, 0), FAN_DROP);
	assert_int_equal(answer(FAN_TYPE_WELCOME, after, 1), FAN_CTL);
	assert_int_equal(fan_worker_route(rig.w), 9);
	assert_int_equal(rig_tick(), 2); /* what it waits for may be lost: it asks at once */
	assert_int_equal(rig.got[0].type, FAN_TYPE_BEAT);
	assert_int_equal(rig.got[1].type, FAN_TYPE_PROBE);
	assert_int_equal(rig.got[0].job, after);
	assert_int_equal(rig.got[1].job, after);
	assert_int_equal(rig_state(FAN_JOB_NONE, 0, 0), FAN_DROP); /* of a BEAT of before */
	assert_int_equal(fan_worker_phase(rig.w), FAN_W_READY);
	rig.job = after;
	assert_int_equal(rig_state(FAN_JOB_NONE, 0, 0), FAN_CTL);
	assert_int_equal(fan_worker_fault(rig.w)->err, FAN_E_RESTARTED);
}

/* One that leaves before the other route has answered: its socket leads there already. */
TEST_WITH(worker__leaves_by_the_new_route, rig_open, rig_close)
{
	rig_ready();
	fan_worker_reroute(rig.w, rig.now_ns, 9);
	fan_worker_leave(rig.w, rig.now_ns, FAN_OK, NULL);
	rig_sends(FAN_TYPE_LEAVE);
	assert_int_equal(rig.got[0].job, UINT32_C(9) << FAN_ROUTE_BITS | rig.job);
}

/* One that leaves as its route goes: all that it has sent was lost. */
TEST_WITH(worker__is_told_of_a_route_while_it_leaves, rig_open, rig_close)
{
	rig_ready();
	fan_worker_leave(rig.w, rig.now_ns, FAN_OK, NULL);
	for (unsigned i = 0; i < FAN_LEAVE_TRIES; i++) {
		assert_int_equal(rig_tick(), 1);
		assert_int_equal(rig.got[0].job, rig.job);
		rig.now_ns += FAN_JOIN_RETRY_NS;
	}
	fan_worker_reroute(rig.w, rig.now_ns, 9);
	for (unsigned i = 0; i < FAN_LEAVE_TRIES; i++) {
		rig_sends(FAN_TYPE_LEAVE);
		assert_int_equal(rig.got[0].job, UINT32_C(9) << FAN_ROUTE_BITS | rig.job);
		rig.now_ns += FAN_JOIN_RETRY_NS;
	}
	assert_int_equal(rig_tick(), 0);
	assert_int_equal(fan_worker_phase(rig.w), FAN_W_LEFT);
}

/* It is told while it joins, and while the job forms. */
TEST_WITH(worker__another_route_before_it_is_ready, rig_open, rig_close)
{
	rig_tick();
	fan_worker_reroute(rig.w, rig.now_ns, 9);
	assert_int_equal(rig_tick(), 1);
	assert_int_equal(rig.got[0].job, UINT32_C(9) << FAN_ROUTE_BITS);
	assert_int_equal(rig.got[0].path, 1);
	assert_int_equal(answer(FAN_TYPE_WELCOME, rig.job, 0), FAN_DROP); /* by the one before */
	const uint32_t job = UINT32_C(9) << FAN_ROUTE_BITS | rig.job;
	assert_int_equal(answer(FAN_TYPE_WELCOME, job, 1), FAN_CTL);
	assert_int_equal(fan_worker_phase(rig.w), FAN_W_FORMING);
	fan_worker_reroute(rig.w, rig.now_ns, 10);
	rig_sends(FAN_TYPE_JOIN);
	assert_int_equal(rig.got[0].path, 2);
	assert_int_equal(answer(FAN_TYPE_WELCOME, UINT32_C(10) << FAN_ROUTE_BITS | rig.job, 2),
			 FAN_CTL);
	assert_int_equal(fan_worker_phase(rig.w), FAN_W_FORMING);
	assert_int_equal(fan_worker_route(rig.w), 10);
}

TEST_WITH(worker__restarted_switch, rig_open, rig_close)
{
	rig_ready();
	assert_int_equal(rig_state(FAN_JOB_NONE, 0, 0), FAN_CTL);
	assert_int_equal(fan_worker_fault(rig.w)->err, FAN_E_RESTARTED);
	uint64_t id;
	struct fan_op op = rig_barrier();
	assert_int_equal(fan_worker_start(rig.w, rig.now_ns, &op, &id), FAN_E_RESTARTED);
	assert_int_equal(fan_worker_test(rig.w, 0), FAN_E_RESTARTED);
}

TEST_WITH(worker__failed_job, rig_open, rig_close)
{
	rig_ready();
	assert_int_equal(rig_state(FAN_JOB_FAILED, FAN_E_RANK_LOST, 5), FAN_CTL);
	assert_int_equal(fan_worker_fault(rig.w)->err, FAN_E_RANK_LOST);
	assert_int_equal(fan_worker_fault(rig.w)->ranks[0], 5);
	rig_state(FAN_JOB_FAILED, FAN_E_STALLED, 2); /* only the first counts */
	assert_int_equal(fan_worker_fault(rig.w)->err, FAN_E_RANK_LOST);
}

TEST_WITH(worker__beats, rig_open, rig_close)
{
	rig_ready();
	struct fan_beat m;
	uint64_t begin = rig.now_ns;
	unsigned beats = 0;
	while (rig.now_ns < begin + 1000 * FAN_MS) {
		rig.now_ns = fan_worker_deadline(rig.w);
		for (unsigned n = rig_tick(); n; n--) {
			assert_int_equal(rig.got[0].type, FAN_TYPE_BEAT);
			assert_int_equal(fan_ctl_get(&m, &rig.got[0]), FAN_OK);
			assert_int_equal(rig.got[0].nonce, rig.cfg.nonce);
			assert_int_equal(m.flags, 0);
			beats++;
		}
		rig_state(FAN_JOB_READY, 0, 0);
	}
	assert_in_range(beats, 8, 10); /* beat_ms is 125 */
	assert_int_equal(fan_worker_phase(rig.w), FAN_W_READY);
}

TEST_WITH(worker__silent_switch, rig_open, rig_close)
{
	rig_ready();
	uint64_t begin = rig.now_ns;
	while (fan_worker_phase(rig.w) == FAN_W_READY) {
		rig.now_ns = fan_worker_deadline(rig.w);
		rig_tick();
	}
	assert_int_equal(fan_worker_fault(rig.w)->err, FAN_E_UNREACHABLE);
	assert_int_equal(rig.now_ns, begin + 1000 * FAN_MS);
}

/* Those are blamed whose contribution to the very fragment is missing. */
TEST_WITH(worker__stall, rig_open, rig_close)
{
	for (unsigned right = 0; right < 2; right++) {
		rig_open(NULL);
		rig_ready();
		uint64_t id;
		struct fan_op op = rig_barrier();
		rig.now_ns += 700 * FAN_MS; /* idle time is no stall */
		rig_state(FAN_JOB_READY, 0, 0);
		assert_int_equal(fan_worker_start(rig.w, rig.now_ns, &op, &id), FAN_OK);
		uint64_t begin = rig.now_ns;
		while (fan_worker_phase(rig.w) == FAN_W_READY) {
			rig_tick();
			rig_state_about(FAN_JOB_READY, 0, 4, right ? 0 : 9);
			rig.now_ns += FAN_MS;
			assert_true(rig.now_ns < begin + 3000 * FAN_MS);
		}
		assert_in_range(rig.now_ns - begin, 2000 * FAN_MS, 2010 * FAN_MS);
		assert_int_equal(fan_worker_fault(rig.w)->err, FAN_E_STALLED);
		assert_int_equal(fan_worker_fault(rig.w)->frag, 0);
		assert_int_equal(fan_worker_fault(rig.w)->ranks[0], right ? 4 : 0);
		rig_close(NULL);
	}
	rig_open(NULL);
}

/* An old answer does not replace a newer one. */
TEST_WITH(worker__stall_after_a_late_answer, rig_open, rig_close)
{
	rig_ready();
	struct fan_op op = rig_barrier();
	uint64_t id;
	for (unsigned i = 0; i < 2; i++)
		assert_int_equal(fan_worker_start(rig.w, rig.now_ns, &op, &id), FAN_OK);
	assert_int_equal(rig_tick(), 2);
	struct fan_frag r = rig.got[0];
	r.type = FAN_TYPE_RESULT;
	r.sender = FAN_RANK_NONE;
	assert_int_equal(rig_recv(&r, false), FAN_DONE); /* fragment 1 is the lowest now */
	rig_state_about(FAN_JOB_READY, 0, 4, 1);
	rig_state_about(FAN_JOB_READY, 0, 1, 0);
	rig_state_about(FAN_JOB_FORMING, 0, 2, 1);
	for (unsigned i = 0; i < 3; i++) {
		rig_pass(900 * FAN_MS);
		rig_state_about(FAN_JOB_READY, 0, 0, 0);
	}
	assert_int_equal(fan_worker_fault(rig.w)->err, FAN_E_STALLED);
	assert_int_equal(fan_worker_fault(rig.w)->frag, 1);
	assert_int_equal(fan_worker_fault(rig.w)->ranks[0], 4);
}

/* A STATE that goes to the group. */
static enum fan_verdict group_test(bool by_group)
{
	uint8_t body[FAN_CTL_BYTES_MAX];
	const struct fan_state m = {.state = FAN_JOB_FORMING, .ranks = 3};
	return rig_packet(FAN_TYPE_STATE, 0, body, fan_ctl_put(body, &m), by_group);
}

TEST_WITH(worker__group_test, rig_open, rig_close)
{
	struct fan_beat m;
	rig_tick();
	rig_welcome(rig.cfg.nonce, 4);
	rig_tick();
	assert_int_equal(group_test(false), FAN_CTL);
	assert_int_equal(rig_tick(), 0); /* by unicast it tests nothing */
	assert_int_equal(group_test(true), FAN_CTL);
	assert_int_equal(rig_tick(), 1); /* at once */
	assert_int_equal(fan_ctl_get(&m, &rig.got[0]), FAN_OK);
	assert_true(m.flags & FAN_BEAT_HEARD);
	assert_int_equal(group_test(true), FAN_CTL);
	assert_int_equal(rig_tick(), 0); /* once */
}

static enum fan_verdict forged_state(unsigned state, int err, uint64_t nonce, bool by_group)
{
	uint8_t body[FAN_CTL_BYTES_MAX];
	const struct fan_state m = {.state = (uint8_t)state, .err = (int8_t)err, .ranks = 3};
	return rig_packet(FAN_TYPE_STATE, nonce, body, fan_ctl_put(body, &m), by_group);
}

/* No aggregator says NONE unasked, or FAILED by the group: somebody else does. */
TEST_WITH(worker__end_of_the_job_is_not_taken_from_anybody, rig_open, rig_close)
{
	rig_ready();
	for (int by_group = 0; by_group < 2; by_group++) {
		assert_int_equal(forged_state(FAN_JOB_NONE, 0, 0, by_group), FAN_DROP);
		assert_int_equal(forged_state(FAN_JOB_NONE, 0, 99, by_group), FAN_DROP);
	}
	assert_int_equal(forged_state(FAN_JOB_FAILED, FAN_E_RANK_LOST, 0, true), FAN_DROP);
	assert_int_equal(fan_worker_last_drop(rig.w), FAN_DROP_SENDER);
	assert_int_equal(forged_state(FAN_JOB_FAILED, FAN_E_STOPPED, 0, false), FAN_DROP);
	assert_int_equal(forged_state(FAN_JOB_FAILED, FAN_E_STOPPED, rig.cfg.nonce, true),
			 FAN_DROP);
	assert_int_equal(fan_worker_phase(rig.w), FAN_W_READY);
	assert_int_equal(forged_state(FAN_JOB_FAILED, FAN_E_RANK_LOST, 0, false), FAN_CTL);
	assert_int_equal(fan_worker_phase(rig.w), FAN_W_FAILED);
}

/* The answer to a LEAVE. */
static enum fan_verdict left(uint64_t nonce)
{
	uint8_t body[FAN_CTL_BYTES_MAX];
	const struct fan_state m = {.state = FAN_JOB_LEFT};
	return rig_ctl(FAN_TYPE_STATE, nonce, body, fan_ctl_put(body, &m));
}

/* What a switch passes on by the token of a child that it has forgotten. */
TEST_WITH(worker__state_of_another_life, rig_open, rig_close)
{
	uint8_t body[FAN_CTL_BYTES_MAX];
	const struct fan_state m = {.state = FAN_JOB_NONE};
	size_t bytes = fan_ctl_put(body, &m);
	rig_ready();
	assert_int_equal(rig_ctl(FAN_TYPE_STATE, rig.cfg.nonce + 1, body, bytes), FAN_DROP);
	assert_int_equal(fan_worker_last_drop(rig.w), FAN_DROP_SENDER);
	assert_int_equal(fan_worker_phase(rig.w), FAN_W_READY);
	assert_int_equal(rig_ctl(FAN_TYPE_STATE, rig.cfg.nonce, body, bytes), FAN_CTL);
	assert_int_equal(fan_worker_fault(rig.w)->err, FAN_E_RESTARTED);
}

TEST_WITH(worker__leaves, rig_open, rig_close)
{
	rig_ready();
	struct fan_leave m;
	fan_worker_leave(rig.w, rig.now_ns, FAN_OK, NULL);
	assert_int_equal(rig_tick(), 1);
	assert_int_equal(fan_ctl_get(&m, &rig.got[0]), FAN_OK);
	assert_int_equal(rig.got[0].nonce, rig.cfg.nonce);
	assert_int_equal(m.err, FAN_OK);
	assert_int_equal(left(rig.cfg.nonce + 1), FAN_DROP);
	assert_int_equal(left(rig.cfg.nonce), FAN_CTL);
	assert_int_equal(fan_worker_phase(rig.w), FAN_W_LEFT);
	assert_int_equal(fan_worker_deadline(rig.w), UINT64_MAX);
	assert_int_equal(rig_tick(), 0);
}

TEST_WITH(worker__leaves_without_an_answer, rig_open, rig_close)
{
	rig_ready();
	fan_worker_leave(rig.w, rig.now_ns, FAN_E_STALLED, (uint64_t[4]){2});
	unsigned sent = 0;
	while (fan_worker_phase(rig.w) == FAN_W_LEAVING) {
		struct fan_leave m;
		for (unsigned n = rig_tick(); n; n--, sent++) {
			assert_int_equal(fan_ctl_get(&m, &rig.got[0]), FAN_OK);
			assert_int_equal(m.blamed[0], 2);
		}
		rig.now_ns += 10 * FAN_MS;
	}
	assert_int_equal(sent, FAN_LEAVE_TRIES);
}

TEST_WITH(worker__drops_are_counted, rig_open, rig_close)
{
	uint8_t junk[FAN_HEAD_BYTES] = {FAN_WIRE_VERSION};
	assert_int_equal(rig_packet(FAN_TYPE_WHO, 0, NULL, 0, false), FAN_DROP); /* no job yet */
	rig_ready();
	assert_int_equal(fan_worker_recv(rig.w, rig.now_ns, junk, FAN_HEAD_BYTES - 1, false, false),
			 FAN_DROP);
	assert_int_equal(fan_worker_recv(rig.w, rig.now_ns, junk, FAN_HEAD_BYTES, false, false),
			 FAN_DROP);
	assert_int_equal(rig_packet(FAN_TYPE_JOIN, 0, NULL, 0, false), FAN_DROP);
	rig.epoch++;
	assert_int_equal(rig_packet(FAN_TYPE_STATE, 0, NULL, 0, false), FAN_DROP);
	rig.job++;
	assert_int_equal(rig_packet(FAN_TYPE_STATE, 0, NULL, 0, false), FAN_DROP);
	const uint64_t *drops = fan_worker_stats(rig.w)->drops;
	assert_int_equal(drops[FAN_DROP_SHORT], 1);
	assert_int_equal(drops[FAN_DROP_CHECK], 1);
	assert_int_equal(drops[FAN_DROP_TYPE], 1);
	assert_int_equal(drops[FAN_DROP_EPOCH], 1);
	assert_int_equal(drops[FAN_DROP_JOB], 2);
}

TEST_WITH(worker__operations_out_of_range, rig_open, rig_close)
{
	rig_ready();
	uint64_t id, more = 0;
	struct fan_op op = {.op = FAN_REDOP_COUNT};
	assert_int_equal(fan_worker_start(rig.w, rig.now_ns, &op, &id), FAN_E_INVALID);
	op = rig_barrier();
	while (fan_worker_start(rig.w, rig.now_ns, &op, &id) == FAN_OK)
		assert_int_equal(id, more++);
	assert_int_equal(more, FAN_OPS_MAX);
	assert_int_equal(fan_worker_start(rig.w, rig.now_ns, &op, &id), FAN_E_BUSY);
	assert_int_equal(fan_worker_test(rig.w, 0), FAN_E_PENDING);
	fan_worker_leave(rig.w, rig.now_ns, FAN_OK, NULL);
	assert_int_equal(fan_worker_start(rig.w, rig.now_ns, &op, &id), FAN_E_CLOSED);
	assert_int_equal(fan_worker_test(rig.w, 0), FAN_E_CLOSED);
}

/* a switch has forgotten us: one BEAT a millisecond is enough */
TEST_WITH(worker__who_draws_a_beat, rig_open, rig_close)
{
	rig_ready();
	assert_int_equal(rig_tick(), 0);
	for (unsigned i = 0; i < 5; i++)
		assert_int_equal(rig_ctl(FAN_TYPE_WHO, 0, NULL, 0), FAN_CTL);
	rig_sends(FAN_TYPE_BEAT);
	assert_int_equal(rig_ctl(FAN_TYPE_WHO, 0, NULL, 0), FAN_CTL);
	assert_int_equal(rig_tick(), 0);
	rig.now_ns += FAN_WHO_NS;
	assert_int_equal(rig_ctl(FAN_TYPE_WHO, 0, NULL, 0), FAN_CTL);
	assert_int_equal(rig_tick(), 1);
}

UNIT_MAIN
