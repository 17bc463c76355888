/* SPDX-License-Identifier: Apache-2.0 */
/* One switch of a route: ranks 0 and 1 join here, rank 0 to be summed at the switch
 * `core` and rank 1 here; ranks 2 and 3 come from the switch `rack`, 2 to be summed here.
 * What `core` has summed, of ranks 0 and 3, passes here again on its way to the aggregator. */
#include "unit/core/switch_rig.h"

#define ROUTE 5u
#define JOB   (ROUTE << FAN_ROUTE_BITS | 0x100u)

static const fan_peer core = {.addr = {0, 50}, .port = 9}, rack = {.addr = {0, 51}, .port = 9};
static struct fan_route_entry entry[5];
static uint32_t job;
static uint8_t beat_flags;

static int install_quota(unsigned number, unsigned entries, uint32_t quota)
{
	const struct fan_route_config c = {
		.number = (uint16_t)number, .quota = quota, .entry = entry, .entries = entries};
	return fan_switch_route(bed.sw, &c);
}

static int install(unsigned number, unsigned entries)
{
	return install_quota(number, entries, 0);
}

static enum fan_verdict send(fan_peer from, unsigned type, uint16_t rank, uint64_t frag,
			     int32_t value)
{
	struct fan_frag f = bed_frag(type, job, rank, 0);
	f.frag = frag;
	f.op = type == FAN_TYPE_DATA ? FAN_SUM : FAN_BARRIER;
	bool carries = type == FAN_TYPE_DATA;
	f.dtype = carries ? FAN_INT32 : FAN_UINT8;
	f.count = carries;
	f.flags = carries ? FAN_F_FIRST | FAN_F_LAST : 0;
	return bed_give(from, &f, carries ? &value : NULL, carries ? sizeof value : 0);
}

/* A control message of the rank, from a worker or in an envelope of `from`'s. */
static enum fan_verdict speak(fan_peer from, unsigned type, uint16_t rank, bool wrapped)
{
	uint8_t body[256];
	const struct fan_beat beat = {.flags = beat_flags};
	const struct fan_join join = {.ranks = BED_RANKS, .name = "j", .name_bytes = 1};
	size_t bytes = type == FAN_TYPE_JOIN ? fan_ctl_put(body, &join) : fan_ctl_put(body, &beat);
	const struct fan_envelope v = {.token = (uint16_t)(40 + rank), .hops = 1};
	return bed_control(from, bed_frag(type, job, rank, 1 + rank), body, bytes,
			   wrapped ? &v : NULL, 0, 0);
}

/* A STATE, `job_state`, of the aggregator's about `rank` comes back by `from`, for what was sent
 * last. */
static enum fan_verdict tell(fan_peer from, uint16_t rank, enum fan_job_state job_state)
{
	uint8_t body[256];
	struct fan_envelope sent, v;
	assert_int_equal(fan_envelope_get(&sent, &bed.got[0].f), FAN_OK);
	v = (struct fan_envelope){.token = sent.token,
				  .rank = rank,
				  .ranks = job_state == FAN_JOB_LEFT ? 0 : BED_RANKS,
				  .window = BED_WINDOW,
				  .payload_bytes = 64};
	const struct fan_state m = {.state = (uint8_t)job_state, .ranks = BED_RANKS};
	return bed_control(from, bed_frag(FAN_TYPE_STATE, job, FAN_RANK_NONE, 1 + rank), body,
			   fan_ctl_put(body, &m), &v, job, BED_EPOCH);
}

static enum fan_verdict answer(fan_peer from, uint16_t rank)
{
	return tell(from, rank, FAN_JOB_READY);
}

static void form(void)
{
	for (uint16_t rank = 0; rank < 2; rank++) {
		bed.now_ns++;
		assert_int_equal(speak(bed_worker(0, rank), FAN_TYPE_BEAT, rank, false), FAN_CTL);
		assert_true(fan_peer_equal(&bed.got[0].peer, rank ? &bed_aggregator : &core));
		assert_int_equal(answer(rank ? bed_aggregator : core, rank), FAN_CTL);
		assert_true(fan_peer_equal(&bed.got[0].peer,
					   &(fan_peer){.addr = {1, rank + 1u}, .port = 9}));
	}
}

static int open_routed(void **state __attribute__((unused)))
{
	bed.cfg = (struct fan_switch_config){.policy = FAN_POLICY_ATP,
					     .slots = 16,
					     .payload_bytes = 64,
					     .children_max = 16,
					     .spares = 1,
					     .routes = 2};
	bed.now_ns = FAN_MS;
	job = JOB;
	beat_flags = 0;
	bed_begin();
	const struct fan_route_entry all[] = {
		{.next = core, .ranks = {0x1}, .depth = 3},
		{.next = bed_aggregator, .ranks = {0x2}, .depth = 1, .sums = true},
		{.from = rack, .next = bed_aggregator, .ranks = {0x4}, .depth = 1, .sums = true},
		{.from = rack, .next = core, .ranks = {0x8}, .depth = 3},
		{.from = core, .next = bed_aggregator, .ranks = {0x9}, .depth = 1},
	};
	memcpy(entry, all, sizeof all);
	assert_int_equal(install(ROUTE, 5), FAN_OK);
	form();
	return 0;
}

TEST_WITH(routed__summed_here_or_passed_on, open_routed, NULL)
{
	assert_int_equal(send(bed_worker(0, 0), FAN_TYPE_DATA, 0, 3, 7), FAN_PASS);
	assert_true(fan_peer_equal(&bed.got[0].peer, &core));
	assert_int_equal(bed.got[0].f.sender, 0);
	assert_int_equal(send(rack, FAN_TYPE_DATA, 3, 3, 7), FAN_PASS);
	assert_true(fan_peer_equal(&bed.got[0].peer, &core));
	assert_int_equal(send(bed_worker(0, 1), FAN_TYPE_DATA, 1, 3, 20), FAN_WAIT);
	assert_int_equal(send(rack, FAN_TYPE_DATA, 2, 3, 300), FAN_DONE);
	struct fan_contribution p;
	assert_int_equal(fan_contribution_get(&p, &bed.got[0].f, BED_RANKS), -1);
	assert_true(fan_peer_equal(&bed.got[0].peer, &bed_aggregator));
	assert_int_equal(p.ranks[0], 0x6);
	assert_int_equal(fan_get32(p.elements), 320);
}

/* The sum 7 of `ranks` comes from `from`. */
static enum fan_verdict send_sum(fan_peer from, uint64_t ranks)
{
	uint8_t body[FAN_BITMAP_MAX + 4] = {[FAN_BITMAP_MAX] = 7};
	const uint64_t set[FAN_RANK_WORDS] = {ranks};
	struct fan_frag f = bed_frag(FAN_TYPE_PARTIAL, job, 0, 0);
	f.dtype = FAN_INT32;
	f.count = 1;
	f.flags = FAN_F_FIRST | FAN_F_LAST;
	fan_partial_put(&f, set, BED_RANKS, FAN_RANK_NONE, body + FAN_BITMAP_MAX, 4);
	return bed_give(from, &f, f.payload, f.payload_bytes);
}

/* The sum of ranks 0 and 3, from `core`, for which nothing is done here. */
TEST_WITH(routed__a_sum_of_elsewhere_passes, open_routed, NULL)
{
	assert_int_equal(send_sum(core, 0x9), FAN_PASS);
	assert_int_equal(bed.gots, 1);
	assert_true(fan_peer_equal(&bed.got[0].peer, &bed_aggregator));
	assert_int_equal(fan_get32(bed.got[0].bytes + FAN_HEAD_BYTES + 8), 7);
	assert_int_equal(send_sum(core, 0xb), FAN_DROP);
	assert_int_equal(bed.gots, 0);
	assert_int_equal(fan_switch_stats(bed.sw)->drops[FAN_DROP_ROUTE], 1);
}

/* Rank 2 has come by itself, and then a sum of the rack's with its contribution in it and rank 3's,
 * which is nowhere else: nothing can be subtracted here, so it goes on, and the slot keeps what it
 * has. */
TEST_WITH(routed__a_sum_that_overlaps_goes_on, open_routed, NULL)
{
	fan_switch_unroute(bed.sw, ROUTE);
	entry[2].ranks[0] = 0xc;
	entry[3] = entry[4];
	entry[3].ranks[0] = 0x1;
	assert_int_equal(install(ROUTE, 4), FAN_OK);
	job = JOB + 0x100;
	form();
	assert_int_equal(send(rack, FAN_TYPE_DATA, 2, 0, 20), FAN_WAIT);
	assert_int_equal(send_sum(rack, 0xc), FAN_PASS);
	assert_true(fan_peer_equal(&bed.got[0].peer, &bed_aggregator));
	assert_int_equal(fan_get32(bed.got[0].bytes + FAN_HEAD_BYTES + 8), 7);
	assert_int_equal(send(bed_worker(0, 1), FAN_TYPE_DATA, 1, 0, 300), FAN_WAIT);
	assert_int_equal(send(rack, FAN_TYPE_DATA, 3, 0, 4000), FAN_DONE);
	assert_int_equal(fan_get32(bed.got[0].bytes + FAN_HEAD_BYTES + 8), 4320);
}

/* A worker has its own contribution to send, and no sums. */
TEST_WITH(routed__a_worker_sends_no_sum, open_routed, NULL)
{
	assert_int_equal(send_sum(bed_worker(0, 1), 0x2), FAN_DROP);
	assert_int_equal(bed.gots, 0);
	assert_int_equal(fan_switch_stats(bed.sw)->drops[FAN_DROP_ROUTE], 1);
}

TEST_WITH(routed__off_the_route, open_routed, NULL)
{
	assert_int_equal(send(bed_worker(0, 2), FAN_TYPE_DATA, 2, 0, 1), FAN_DROP); /* not here */
	assert_int_equal(bed.gots, 0);
	assert_int_equal(send(rack, FAN_TYPE_DATA, 1, 0, 1), FAN_DROP);
	assert_int_equal(bed.gots, 0);
	assert_int_equal(send(bed_worker(1, 1), FAN_TYPE_DATA, 1, 0, 1), FAN_DROP); /* not rank 1 */
	assert_int_equal(bed.got[0].f.type, FAN_TYPE_WHO);
	assert_int_equal(send(rack, FAN_TYPE_RESULT, FAN_RANK_NONE, 0, 0),
			 FAN_DROP); /* not above */
	assert_int_equal(bed.gots, 0);
	assert_int_equal(speak(bed_worker(0, 3), FAN_TYPE_BEAT, 3, false), FAN_DROP);
	assert_int_equal(bed.gots, 0);
	assert_int_equal(speak(bed_worker(0, 3), FAN_TYPE_JOIN, 3, false), FAN_DROP);
	assert_int_equal(bed.got[0].f.type, FAN_TYPE_REFUSE);
	assert_int_equal((int8_t)bed.got[0].bytes[FAN_HEAD_BYTES], FAN_E_ROUTE);
	assert_int_equal(speak(rack, FAN_TYPE_JOIN, 0, true), FAN_DROP);
	assert_int_equal(bed.got[0].f.type, FAN_TYPE_RELAY);
	assert_int_equal(fan_switch_stats(bed.sw)->drops[FAN_DROP_ROUTE], 6);
}

TEST_WITH(routed__a_result_goes_down_once, open_routed, NULL)
{
	assert_int_equal(send(bed_aggregator, FAN_TYPE_RESULT, FAN_RANK_NONE, 4, 0), FAN_PASS);
	assert_int_equal(bed.gots, 2);
	assert_int_equal(bed.got[0].group->ranks, BED_RANKS); /* workers 0 and 1 */
	assert_false(fan_peer_is_none(&bed.got[0].group->peers[0]));
	assert_true(fan_peer_is_none(&bed.got[0].group->peers[2]));
	assert_int_equal(bed.got[1].group->ranks, 2);
	assert_true(fan_peer_equal(&bed.got[1].group->peers[0], &rack) ||
		    fan_peer_equal(&bed.got[1].group->peers[1], &rack));
	assert_int_equal(send(core, FAN_TYPE_RESULT, FAN_RANK_NONE, 4, 0),
			 FAN_DROP); /* the other way */
	assert_int_equal(fan_switch_stats(bed.sw)->drops[FAN_DROP_DUPLICATE], 1);
	bed.marked = true;
	assert_int_equal(send(bed_aggregator, FAN_TYPE_RESULT, FAN_RANK_NONE, 5, 0), FAN_PASS);
	assert_true(bed.got[0].f.flags & bed.got[1].f.flags & FAN_F_ECN);
}

static void replay(fan_peer from, uint16_t rank, const fan_peer *to)
{
	struct fan_frag f = bed_frag(FAN_TYPE_RESULT, job, FAN_RANK_NONE, 0);
	f.dtype = FAN_UINT8;
	f.op = FAN_BARRIER;
	f.flags = FAN_F_REPLAY;
	f.to = FAN_TAG(rank);
	for (unsigned again = 0; again < 2; again++) {
		assert_int_equal(bed_give(from, &f, NULL, 0), to ? FAN_PASS : FAN_DROP);
		assert_int_equal(bed.gots, to != NULL);
		if (to)
			assert_true(fan_peer_equal(&bed.got[0].peer, to));
	}
}

TEST_WITH(routed__to_one, open_routed, NULL)
{
	const fan_peer first = bed_worker(0, 0);
	replay(bed_aggregator, 2, &rack);
	replay(bed_aggregator, 3, &core); /* along its sum */
	replay(core, 3, &rack);
	replay(bed_aggregator, 0, &first); /* it is here */
	replay(core, 2, NULL);
	replay(bed_aggregator, 200, NULL);
}

/* What is for all goes only where it gets deeper by one. */
TEST_WITH(routed__to_all_by_depth, open_routed, NULL)
{
	struct fan_frag f = bed_frag(FAN_TYPE_FLUSH, job, FAN_RANK_NONE, 0);
	assert_int_equal(send(bed_worker(0, 1), FAN_TYPE_DATA, 1, 0, 20), FAN_WAIT);
	assert_int_equal(bed_give(bed_aggregator, &f, NULL, 0), FAN_PASS);
	assert_int_equal(bed.gots, 2); /* what is here, up; and to rack and core */
	assert_int_equal(bed.got[0].f.type, FAN_TYPE_PARTIAL);
	assert_int_equal(bed.got[1].f.type, FAN_TYPE_FLUSH);
	assert_int_equal(bed.got[1].f.depth, 1);
	f.depth = 2;
	assert_int_equal(bed_give(core, &f, NULL, 0), FAN_PASS);
	assert_int_equal(bed.got[0].f.depth, 3);
	f.depth = 1;
	assert_int_equal(bed_give(core, &f, NULL, 0), FAN_DROP);
	assert_int_equal(bed.gots, 0);
}

TEST_WITH(routed__who_after_a_restart, open_routed, NULL)
{
	bed_begin();
	assert_int_equal(send(rack, FAN_TYPE_DATA, 3, 0, 1), FAN_DROP); /* no routes yet */
	assert_int_equal(bed.gots, 0);
	assert_int_equal(install(ROUTE, 5), FAN_OK);
	assert_int_equal(send(rack, FAN_TYPE_DATA, 3, 0, 1), FAN_DROP);
	assert_int_equal(bed.got[0].f.type, FAN_TYPE_WHO);
	assert_int_equal(bed.got[0].f.depth, 3);
	assert_true(fan_peer_equal(&bed.got[0].peer, &rack));
	assert_int_equal(send(rack, FAN_TYPE_DATA, 3, 1, 1), FAN_DROP);
	assert_int_equal(bed.gots, 0); /* asked just now */
	bed.now_ns += FAN_WHO_NS;
	assert_int_equal(send(rack, FAN_TYPE_DATA, 3, 1, 1), FAN_DROP);
	assert_int_equal(bed.gots, 1);
	assert_int_equal(send_sum(core, 0x9), FAN_DROP); /* who sent these? */
	assert_int_equal(bed.got[0].f.type, FAN_TYPE_WHO);
	assert_int_equal(bed.got[0].f.depth, 1);
	assert_true(fan_peer_equal(&bed.got[0].peer, &core));
	assert_int_equal(speak(rack, FAN_TYPE_BEAT, 3, true), FAN_CTL);
	assert_true(fan_peer_equal(&bed.got[0].peer, &core));
	assert_int_equal(answer(core, 3), FAN_CTL);
	assert_true(fan_peer_equal(&bed.got[0].peer, &rack));
	assert_int_equal(send(rack, FAN_TYPE_DATA, 3, 1, 1), FAN_PASS);
}

/* The next life of the job does not push the one that ends away. */
TEST_WITH(routed__two_lives, open_routed, NULL)
{
	for (uint32_t life = 0; life < 3; life++) {
		job = JOB + (life << 8);
		form();
	}
	assert_int_equal(send(bed_worker(0, 1), FAN_TYPE_DATA, 1, 0, 1), FAN_WAIT);
	job = JOB + 0x100;
	assert_int_equal(send(bed_worker(0, 1), FAN_TYPE_DATA, 1, 0, 1), FAN_WAIT);
	job = JOB; /* but the one before that */
	assert_int_equal(send(bed_worker(0, 1), FAN_TYPE_DATA, 1, 0, 1), FAN_DROP);
	assert_int_equal(bed.got[0].f.type, FAN_TYPE_WHO);
}

/* Else tokens of earlier lives lead round in a circle. */
TEST_WITH(routed__an_answer_comes_back_as_the_question_went, open_routed, NULL)
{
	assert_int_equal(speak(bed_worker(0, 0), FAN_TYPE_BEAT, 0, false), FAN_CTL);
	const struct bed_got sent = bed.got[0];
	assert_int_equal(answer(bed_aggregator, 0), FAN_DROP);
	assert_int_equal(bed.gots, 0);
	bed.got[0] = sent;
	assert_int_equal(answer(core, 0), FAN_CTL);
}

TEST_WITH(routed__install, open_routed, NULL)
{
	assert_int_equal(install(ROUTE, 5), FAN_OK); /* again */
	assert_int_equal(install(ROUTE, 4), FAN_E_BUSY);
	assert_int_equal(install(ROUTE + 2, 4), FAN_OK);
	assert_int_equal(install(ROUTE + 1, 4), FAN_E_SLOTS_FULL);
	fan_switch_unroute(bed.sw, ROUTE);
	fan_switch_unroute(bed.sw, 999);
	assert_int_equal(send(rack, FAN_TYPE_DATA, 3, 0, 1), FAN_DROP);
	assert_int_equal(bed.gots, 0);
	entry[0].depth = 0;
	assert_int_equal(install(ROUTE + 1, 4), FAN_E_INVALID);
	entry[0].depth = 3;
	assert_int_equal(install(ROUTE + 1, 4), FAN_OK);
	assert_int_equal(install(ROUTE + 2, 4), FAN_OK);
}

static unsigned wait_in_slots(void)
{
	unsigned waiting = 0;
	for (uint64_t frag = 0; frag < BED_WINDOW; frag++)
		waiting += send(bed_worker(0, 1), FAN_TYPE_DATA, 1, frag, 1) == FAN_WAIT;
	return waiting;
}

/* 16 slots hold what two jobs have in flight, 8 fragments each: by hash some would meet. */
TEST_WITH(routed__a_quota_is_slots_of_its_own, open_routed, NULL)
{
	fan_switch_unroute(bed.sw, ROUTE);
	for (unsigned i = 0; i < 2; i++) {
		assert_int_equal(install_quota(ROUTE + i, 5, 8), FAN_OK);
		job = (ROUTE + i) << FAN_ROUTE_BITS | 0x100u;
		form();
	}
	for (unsigned i = 0; i < 2; i++) {
		job = (ROUTE + i) << FAN_ROUTE_BITS | 0x100u;
		assert_int_equal(fan_switch_job_of(bed.sw, job, BED_EPOCH)->quota, 8);
		assert_int_equal(wait_in_slots(), BED_WINDOW);
	}
	assert_int_equal(fan_switch_stats(bed.sw)->collisions, 0);
	fan_switch_unroute(bed.sw, ROUTE); /* its place is free for another */
	assert_int_equal(install_quota(ROUTE + 2, 5, 8), FAN_OK);
	job = (ROUTE + 2) << FAN_ROUTE_BITS | 0x100u;
	form();
	assert_int_equal(wait_in_slots(), BED_WINDOW);
}

TEST_WITH(routed__a_quota_without_room_shares, open_routed, NULL)
{
	fan_switch_unroute(bed.sw, ROUTE);
	for (unsigned i = 0; i < 2; i++) {
		assert_int_equal(install_quota(ROUTE + i, 5, 9 - i), FAN_OK);
		job = (ROUTE + i) << FAN_ROUTE_BITS | 0x100u;
		form();
	}
	assert_in_range(wait_in_slots(), 1, BED_WINDOW); /* by hash, in all 16 */
	job = ROUTE << FAN_ROUTE_BITS | 0x200u;
	form(); /* another life of the first job, in the same place */
	const struct fan_switch_job *a = fan_switch_job_of(bed.sw, job, BED_EPOCH);
	const struct fan_switch_job *b =
		fan_switch_job_of(bed.sw, (ROUTE + 1) << FAN_ROUTE_BITS | 0x100u, BED_EPOCH);
	assert_int_equal(a->own.count, 9);
	assert_int_equal(a->own.first, 0);
	assert_int_equal(b->own.count, 0);
}

TEST_WITH(routed__without_a_aggregator, open_routed, NULL)
{
	assert_int_equal(bed_add(0, 0, 0, 1, 0, 0), FAN_DROP); /* of a job without a route */
	assert_int_equal(fan_switch_stats(bed.sw)->drops[FAN_DROP_ROUTE], 1);
	bed.cfg.routes = 0;
	assert_int_equal(fan_switch_bytes(&bed.cfg), 0);
	bed.cfg.routes = FAN_ROUTES_MAX + 1;
	assert_int_equal(fan_switch_bytes(&bed.cfg), 0);
}

/* Something about running ahead, of `sender` and for or by the rank `other`, -1: nobody. */
static enum fan_verdict say(fan_peer from, unsigned type, uint16_t sender, int other, uint64_t frag,
			    uint16_t flags)
{
	static const int32_t value = 7;
	bool data = type == FAN_TYPE_DATA;
	struct fan_frag f = bed_frag(type, job, sender, 0);
	f.frag = frag;
	f.to = sender == FAN_RANK_NONE ? FAN_TAG(other) : 0;
	f.helper = sender == FAN_RANK_NONE ? 0 : FAN_TAG(other);
	f.dtype = data ? FAN_INT32 : 0;
	f.count = data;
	f.flags = (uint16_t)(flags | (data ? FAN_F_FIRST | FAN_F_LAST : 0));
	return bed_give(from, &f, data ? &value : NULL, data ? sizeof value : 0);
}

static bool went_to(unsigned i, fan_peer peer)
{
	return i < bed.gots && fan_peer_equal(&bed.got[i].peer, &peer);
}

static void run_ahead(void)
{
	beat_flags = FAN_BEAT_AHEAD;
	assert_int_equal(speak(rack, FAN_TYPE_BEAT, 2, true), FAN_CTL);
}

TEST_WITH(routed__a_question_is_answered_where_the_part_lies, open_routed, NULL)
{
	const unsigned data = FAN_TYPE_DATA, progress = FAN_TYPE_PROGRESS;
	assert_int_equal(say(rack, progress, 2, -1, 1, FAN_F_ASK), FAN_DROP); /* not yet */
	run_ahead();
	assert_int_equal(say(bed_worker(0, 1), data, 1, -1, 1, FAN_F_ASK), FAN_WAIT);
	assert_true(went_to(0, bed_worker(0, 1)));
	assert_int_equal(bed.got[0].f.type, progress);
	/* what is summed elsewhere is asked about there */
	assert_int_equal(say(bed_worker(0, 0), data, 0, -1, 1, FAN_F_ASK), FAN_PASS);
	assert_int_equal(bed.gots, 1);
	assert_true(went_to(0, core));
	assert_true(bed.got[0].f.flags & FAN_F_ASK);
	/* rank 2's has come by itself to where it is still missing, and then to where it is */
	assert_int_equal(say(rack, progress, 2, -1, 5, FAN_F_ASK), FAN_PASS);
	assert_true(went_to(0, bed_aggregator));
	assert_int_equal(bed.got[0].f.sender, 2);
	assert_int_equal(say(rack, data, 2, -1, 6, 0), FAN_WAIT);
	assert_int_equal(say(rack, progress, 2, -1, 6, FAN_F_ASK), FAN_CTL);
	assert_true(went_to(0, rack));
	assert_int_equal(bed.got[0].f.to, FAN_TAG(2));
	assert_true(bed.got[0].f.flags & FAN_F_AWAY);
	/* nobody asks for a rank of elsewhere */
	assert_int_equal(say(rack, progress, 1, -1, 5, FAN_F_ASK), FAN_DROP);
}

TEST_WITH(routed__what_is_for_a_helper_goes_down, open_routed, NULL)
{
	const unsigned data = FAN_TYPE_DATA, progress = FAN_TYPE_PROGRESS;
	run_ahead();
	assert_int_equal(say(bed_aggregator, progress, FAN_RANK_NONE, 2, 1, 0), FAN_PASS);
	assert_true(went_to(0, rack));
	assert_int_equal(say(bed_aggregator, progress, 3, 2, 1, FAN_F_ASK), FAN_PASS);
	assert_true(went_to(0, rack));
	assert_int_equal(say(bed_aggregator, data, 3, 2, 1, 0), FAN_PASS);
	assert_true(went_to(0, rack));
	assert_int_equal(say(bed_aggregator, FAN_TYPE_PROBE, 3, 1, 1, 0), FAN_PASS);
	assert_true(went_to(0, bed_worker(0, 1)));
	assert_int_equal(say(bed_aggregator, data, 3, 0, 1, 0),
			 FAN_PASS); /* worker, if not summed */
	assert_true(went_to(0, bed_worker(0, 0)));
	/* `core` is above and below: those for a helper go down, questions with one go up */
	assert_int_equal(say(core, data, 0, 3, 1, 0), FAN_PASS);
	assert_true(went_to(0, rack));
	assert_int_equal(say(core, data, 0, 2, 1, 0), FAN_DROP); /* not by this path */
	assert_int_equal(say(core, FAN_TYPE_PROBE, 0, 3, 1, 0), FAN_PASS);
	assert_true(went_to(0, bed_aggregator));
	/* the helper's question for another, and its answer to the switch that has chosen it */
	assert_int_equal(say(rack, FAN_TYPE_PROBE, 0, 2, 1, 0), FAN_PASS);
	assert_true(went_to(0, bed_aggregator));
	assert_int_equal(say(rack, progress, 0, 2, 1, 0), FAN_PASS);
	assert_true(went_to(0, bed_aggregator));
	assert_int_equal(say(rack, progress, 0, 1, 1, 0), FAN_DROP);
}

/* The rank, which speaks from `from`, has left, as `up` says. */
static void leave(fan_peer from, fan_peer up, uint16_t rank, bool wrapped)
{
	assert_int_equal(speak(from, FAN_TYPE_BEAT, rank, wrapped), FAN_CTL);
	assert_int_equal(tell(up, rank, FAN_JOB_LEFT), FAN_CTL);
}

static unsigned jobs_known(void)
{
	struct fan_switch_report r;
	fan_switch_report(bed.sw, &r);
	return r.jobs;
}

TEST_WITH(routed__a_job_is_over_when_all_have_left, open_routed, NULL)
{
	run_ahead();
	leave(bed_worker(0, 0), core, 0, false);
	leave(bed_worker(0, 1), bed_aggregator, 1, false);
	assert_int_equal(jobs_known(), 1); /* rank 2 is still there, in the rack */
	leave(rack, bed_aggregator, 2, true);
	assert_int_equal(jobs_known(), 0);
}

/* Nobody has spoken of the job for long: its slots and its stretch of them are free. */
TEST_WITH(routed__a_silent_job_is_forgotten, open_routed, NULL)
{
	struct fan_switch_report r;
	run_ahead();
	fan_switch_report(bed.sw, &r);
	assert_int_equal(r.jobs, 1);
	bed_pass(FAN_CHILD_SILENT_NS / 2);
	bed.now_ns += 2 * FAN_CHILD_SILENT_NS; /* suspended: that does not count */
	fan_switch_tick(bed.sw, bed.now_ns);
	fan_switch_report(bed.sw, &r);
	assert_int_equal(r.jobs, 1);
	bed_pass(FAN_CHILD_SILENT_NS);
	fan_switch_report(bed.sw, &r);
	assert_int_equal(r.jobs, 0);
	assert_true(fan_switch_deadline(bed.sw) == UINT64_MAX);
}

UNIT_MAIN
