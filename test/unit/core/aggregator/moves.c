/* SPDX-License-Identifier: Apache-2.0 */
/* Members that go to another route while their job runs: core/member.c and core/control.c. */
#include "unit/core/aggregator_rig.h"

#define LOW_MASK 0xffffu

static uint32_t on(uint16_t route)
{
	return (uint32_t)route << FAN_ROUTE_BITS | (rig.job & LOW_MASK);
}

static fan_peer peer_on(uint16_t route, unsigned rank)
{
	fan_peer p = rig_peer(rank);
	p.addr[0] = route;
	return p;
}

/* JOIN of path number `path` of rank's life by `route`. */
static enum fan_verdict join(uint16_t rank, uint16_t route, uint8_t path, uint16_t ranks)
{
	uint8_t body[RIG_BODY];
	struct fan_join m = rig_join_of("a", ranks);
	size_t bytes = fan_ctl_put(body, &m);
	struct fan_frag f = {
		.nonce = rig_nonce(rank),
		.job = (uint32_t)route << FAN_ROUTE_BITS,
		.sender = rank,
		.type = FAN_TYPE_JOIN,
		.path = path,
		.payload = body,
		.payload_bytes = bytes,
	};
	enum fan_verdict v = rig_send(peer_on(route, rank), &f);
	if (rig_type(0) == FAN_TYPE_WELCOME) {
		rig.job = rig.got[0].f.job;
		rig.epoch = rig.got[0].f.epoch;
		rig.cookie[rank] = rig_welcome().cookie;
	}
	return v;
}

/* A message about the member's life, by `route`. */
static enum fan_verdict say(unsigned type, uint16_t rank, uint16_t route)
{
	uint8_t body[RIG_BODY];
	const struct fan_beat beat = {.cookie = rig.cookie[rank]};
	const struct fan_leave leave = {.err = FAN_OK};
	size_t bytes = type == FAN_TYPE_BEAT ? fan_ctl_put(body, &beat) : fan_ctl_put(body, &leave);
	struct fan_frag f = {
		.nonce = rig_nonce(rank),
		.job = on(route),
		.epoch = rig.epoch,
		.sender = rank,
		.type = (uint8_t)type,
		.payload = body,
		.payload_bytes = bytes,
	};
	return rig_send(peer_on(route, rank), &f);
}

static void form(uint16_t ranks, uint16_t route)
{
	for (uint16_t r = 0; r < ranks; r++)
		assert_int_equal(join(r, route, 0, ranks), FAN_CTL);
	for (uint16_t r = 0; r < ranks; r++)
		assert_int_equal(say(FAN_TYPE_BEAT, r, route), FAN_CTL);
	assert_int_equal(rig_state(0).state, FAN_JOB_READY);
}

static enum fan_verdict add(uint16_t rank, uint16_t route, uint64_t frag, int32_t value)
{
	struct fan_frag f = rig_data(rank, frag, &value);
	f.job = on(route);
	return rig_send(peer_on(route, rank), &f);
}

static uint16_t route_of(unsigned answer)
{
	return fan_route_number(rig.got[answer].f.job);
}

TEST_WITH(moves__results_go_to_both_routes_while_there_are_two, rig_open, rig_close)
{
	form(2, 3);
	assert_int_equal(join(1, 4, 1, 2), FAN_CTL);
	assert_int_equal(rig_type(0), FAN_TYPE_WELCOME);
	assert_int_equal(route_of(0), 4);
	assert_int_equal(say(FAN_TYPE_BEAT, 1, 4), FAN_CTL);
	assert_int_equal(add(0, 3, 0, 5), FAN_WAIT);
	assert_int_equal(add(1, 4, 0, 6), FAN_DONE);
	assert_int_equal(rig.gots, 2);
	assert_int_equal(rig_value(0), 11);
	assert_int_equal(rig_value(1), 11);
	assert_int_equal(route_of(0), 4);
	assert_int_equal(route_of(1), 3);
	assert_int_equal(rig.got[0].f.job & LOW_MASK, rig.got[1].f.job & LOW_MASK);

	assert_int_equal(join(0, 4, 1, 2), FAN_CTL);
	assert_int_equal(say(FAN_TYPE_BEAT, 0, 4), FAN_CTL);
	assert_int_equal(add(0, 4, 1, 5), FAN_WAIT);
	assert_int_equal(add(1, 4, 1, 6), FAN_DONE);
	assert_int_equal(rig.gots, 1);
	assert_int_equal(route_of(0), 4);
}

/* Whoever is on an older route than two gets no results by themselves, and may ask. */
TEST_WITH(moves__a_third_route_asks, rig_open, rig_close)
{
	form(3, 3);
	for (uint16_t r = 1; r < 3; r++) {
		assert_int_equal(join(r, (uint16_t)(3 + r), 1, 3), FAN_CTL);
		assert_int_equal(say(FAN_TYPE_BEAT, r, (uint16_t)(3 + r)), FAN_CTL);
	}
	assert_int_equal(add(0, 3, 0, 1), FAN_WAIT);
	assert_int_equal(add(1, 4, 0, 2), FAN_WAIT);
	assert_int_equal(add(2, 5, 0, 4), FAN_DONE);
	assert_int_equal(rig.gots, 2);
	assert_int_equal(route_of(0), 5);
	assert_int_equal(route_of(1), 4);
	struct fan_frag f = {
		.job = on(3),
		.epoch = rig.epoch,
		.flags = FAN_F_INSIST,
		.type = FAN_TYPE_PROBE,
	};
	assert_int_equal(rig_send(peer_on(3, 0), &f), FAN_REPLAY);
	assert_int_equal(rig.gots, 1);
	assert_int_equal(rig_value(0), 7);
	assert_int_equal(route_of(0), 3);
}

/* What a member said by the path before must not make it believe that it is unknown. */
TEST_WITH(moves__a_late_beat_is_not_denied, rig_open, rig_close)
{
	form(2, 3);
	assert_int_equal(join(1, 4, 1, 2), FAN_CTL);
	assert_int_equal(say(FAN_TYPE_BEAT, 1, 4), FAN_CTL);
	assert_int_equal(route_of(0), 4);
	assert_int_equal(say(FAN_TYPE_BEAT, 1, 3), FAN_DROP);
	assert_int_equal(rig.gots, 0);
	assert_int_equal(rig_drops(FAN_DROP_ROUTE), 1);
}

/* A late JOIN by the path before does not move it back. */
TEST_WITH(moves__a_late_join_changes_nothing, rig_open, rig_close)
{
	form(2, 3);
	assert_int_equal(join(1, 4, 1, 2), FAN_CTL);
	assert_int_equal(say(FAN_TYPE_BEAT, 1, 4), FAN_CTL);
	assert_int_equal(join(1, 3, 0, 2), FAN_CTL);
	assert_int_equal(rig.ag->jobs.job[0].members[1].route, 4);
	assert_int_equal(route_of(0), 3); /* its answer goes back by where it came */
}

TEST_WITH(moves__who_leaves_on_its_way_has_left, rig_open, rig_close)
{
	form(2, 3);
	assert_int_equal(say(FAN_TYPE_LEAVE, 1, 4), FAN_CTL); /* its JOINs were lost */
	assert_int_equal(rig_state(0).state, FAN_JOB_LEFT);
	assert_int_equal(rig.ag->jobs.job[0].in, 1);
	assert_int_equal(rig.ag->jobs.job[0].left, 1);
}

/* The job failed while the member was on its way: it learns why, and makes no new job. */
TEST_WITH(moves__to_a_job_that_has_failed, rig_open, rig_close)
{
	form(2, 3);
	rig_pass(900 * FAN_MS);
	say(FAN_TYPE_BEAT, 1, 3);
	rig_pass(400 * FAN_MS); /* rank 0 is silent */
	assert_int_equal(rig.ag->jobs.job[0].state, FAN_JOB_FAILED);
	assert_int_equal(join(1, 4, 1, 2), FAN_CTL);
	assert_int_equal(rig_state(0).err, FAN_E_RANK_LOST);
	assert_int_equal(rig_state(0).missing[0], 1);
	assert_int_equal(route_of(0), 4);
	assert_int_equal(rig.ag->jobs.used, 1);
}

TEST_WITH(moves__jobs_with_and_without_routes_do_not_mix, rig_open, rig_close)
{
	assert_int_equal(join(0, 3, 0, 2), FAN_CTL);
	assert_int_equal(say(FAN_TYPE_BEAT, 0, 3), FAN_CTL);
	assert_int_equal(join(1, 0, 0, 2), FAN_CTL);
	struct fan_refuse no;
	assert_int_equal(rig_type(0), FAN_TYPE_REFUSE);
	assert_int_equal(fan_ctl_get(&no, &rig.got[0].f), FAN_OK);
	assert_int_equal(no.err, FAN_E_JOB_MISMATCH);
	assert_int_equal(join(1, 3, 0, 2), FAN_CTL);
	assert_int_equal(say(FAN_TYPE_BEAT, 1, 3), FAN_CTL);
	assert_int_equal(rig.ag->jobs.job[0].state, FAN_JOB_READY);
	assert_int_equal(join(1, 0, 0, 2), FAN_CTL);
	assert_int_equal(fan_ctl_get(&no, &rig.got[0].f), FAN_OK);
	assert_int_equal(no.err, FAN_E_JOB_MISMATCH); /* at once, though it is READY */
}

/* Beside moves: two operations of two and one fragments, of which the first takes 7 ms and the
 * other 2. */
TEST_WITH(work__of_a_job, rig_open, rig_close)
{
	rig_form("a", 2, 0);
	static const struct {
		uint16_t rank, frag, flags;
		unsigned ms; /* that pass before it */
	} step[] = {
		{0, 0, FAN_F_FIRST, 1},
		{1, 0, FAN_F_FIRST, 2},
		{0, 1, FAN_F_LAST, 3},
		{0, 2, FAN_F_FIRST | FAN_F_LAST, 1},
		{1, 1, FAN_F_LAST, 1},
		{1, 2, FAN_F_FIRST | FAN_F_LAST, 1},
		{1, 2, FAN_F_FIRST | FAN_F_LAST, 9}, /* again */
	};
	const int32_t one = 1;
	struct fan_report r = {.index = 0};
	for (unsigned i = 0; i < sizeof step / sizeof *step; i++) {
		struct fan_frag f = rig_data(step[i].rank, step[i].frag, &one);
		f.flags = step[i].flags;
		rig.now_ns += step[i].ms * FAN_MS;
		rig_send(rig_peer(step[i].rank), &f);
		fan_aggregator_report(rig.ag, &r);
		assert_true(r.work.reported);
		assert_int_equal(r.work.bytes, 4 * (i < 1 ? 0 : i < 4 ? 1 : i < 5 ? 2 : 3));
		assert_int_equal(r.work.operations, i < 4 ? 0 : i < 5 ? 1 : 2);
	}
	assert_int_equal(r.work.busy_ns, (7 + 2) * FAN_MS);
}

UNIT_MAIN
