/* SPDX-License-Identifier: Apache-2.0 */
#include "unit/core/aggregator_rig.h"

TEST_WITH(aggregator__configurations, rig_open, rig_close)
{
	const struct fan_aggregator_config fine = rig.cfg;
	assert_true(fan_aggregator_bytes(&fine) > 0);
	struct fan_aggregator_config bad[12], below = fine;
	below.siblings = 2;
	assert_true(fan_aggregator_bytes(&below) > fan_aggregator_bytes(&fine));
	for (unsigned i = 0; i < 12; i++)
		bad[i] = fine;
	bad[0].slots = 1;
	bad[1].slots = FAN_SLOTS_MAX + 1;
	bad[2].payload_bytes = FAN_PAYLOAD_MIN - 8;
	bad[3].payload_bytes = FAN_PAYLOAD_MAX + 8;
	bad[4].jobs_max = FAN_GROUPS_MAX + 1;
	bad[5].members_max = 1;
	bad[6].window_max = 1;
	bad[7].shards = 0;
	bad[8].group_family = 5;
	bad[9].siblings = 1;
	bad[10].siblings = FAN_RANKS_MAX + 1;
	bad[11].siblings = bad[11].index = 2;
	for (unsigned i = 0; i < 12; i++)
		assert_int_equal(fan_aggregator_bytes(&bad[i]), 0);
}

/* Each reason to drop, counted once. */
TEST_WITH(aggregator__drops_are_counted_by_reason, rig_open, rig_close)
{
	rig_form("a", 2, 0);
	int32_t one = 1;
	const struct fan_frag fine = rig_data(0, 0, &one);
	struct fan_frag f[7] = {fine, fine, fine, fine, fine, fine, fine};
	fan_peer from = rig_peer(0);
	static const enum fan_drop want[7] = {FAN_DROP_JOB,    FAN_DROP_EPOCH, FAN_DROP_SENDER,
					      FAN_DROP_SENDER, FAN_DROP_TYPE,  FAN_DROP_FORMAT,
					      FAN_DROP_FORMAT};
	f[0].job ^= 0x100;
	f[1].epoch++;
	f[2].sender = 1; /* not its address */
	f[3].sender = 500;
	f[4].type = FAN_TYPE_RESULT;
	f[5].flags |= FAN_F_ROOT; /* of what? */
	f[6].flags |= FAN_F_EMPTY;
	f[6].payload_bytes = 0;
	for (unsigned i = 0; i < 7; i++) {
		rig_refused(rig_send(from, &f[i]), want[i]);
		assert_int_equal(rig.gots, 0);
	}
	uint8_t packet[FAN_HEAD_BYTES + 5] = {0};
	fan_wire_put(packet, &fine);
	memcpy(packet + FAN_HEAD_BYTES, &one, 4);
	assert_int_equal(rig_bytes(from, packet, FAN_HEAD_BYTES - 1), FAN_DROP);
	assert_int_equal(rig_bytes(from, packet, FAN_HEAD_BYTES + 3), FAN_DROP);
	assert_int_equal(rig_bytes(from, packet, FAN_HEAD_BYTES + 5), FAN_DROP);
	packet[16] ^= 1;
	assert_int_equal(rig_bytes(from, packet, FAN_HEAD_BYTES + 4), FAN_DROP);
	packet[0]++;
	assert_int_equal(rig_bytes(from, packet, FAN_HEAD_BYTES + 4), FAN_DROP);
	assert_int_equal(rig_drops(FAN_DROP_SHORT), 2);
	assert_int_equal(rig_drops(FAN_DROP_LONG), 1);
	assert_int_equal(rig_drops(FAN_DROP_CHECK), 1);
	assert_int_equal(rig_drops(FAN_DROP_VERSION), 1);
	assert_int_equal(rig_add(0, 0, 1), FAN_WAIT); /* nothing of it has harmed */
}

/* One mark of the network is enough, and it is of this fragment alone. */
TEST_WITH(aggregator__marks_reach_the_result, rig_open, rig_close)
{
	rig_form("a", 2, 0);
	for (uint64_t frag = 0; frag < 3; frag++) {
		rig.marked = frag == 1;
		assert_int_equal(rig_add(0, frag, 1), FAN_WAIT);
		rig.marked = false;
		assert_int_equal(rig_add(1, frag, 1), FAN_DONE);
		assert_int_equal(!!(rig.got[0].f.flags & FAN_F_ECN), frag == 1);
	}
}

TEST_WITH(aggregator__not_before_it_is_ready, rig_open, rig_close)
{
	struct fan_join m = rig_join_of("a", 2);
	rig_join(0, rig_nonce(0), &m);
	rig_refused(rig_add(0, 0, 1), FAN_DROP_STATE);
}

/* Elements that grow in the slot need room for what they become; broadcasts do not. */
TEST_WITH(aggregator__fragments_that_do_not_fit, rig_open, rig_close)
{
	rig_form("a", 2, 0);
	static const uint8_t payload[256];
	struct fan_frag f = rig_data(0, 0, NULL);
	f.payload = payload;
	f.dtype = FAN_FLOAT16;
	f.count = RIG_PAYLOAD / 2;
	f.payload_bytes = RIG_PAYLOAD;
	rig_refused(rig_send(rig_peer(0), &f), FAN_DROP_LONG);
	f.op = FAN_BCAST;
	f.flags |= FAN_F_ROOT;
	assert_int_equal(rig_send(rig_peer(0), &f), FAN_WAIT);
	f = rig_data(0, 1, NULL);
	f.payload = payload;
	f.count = RIG_PAYLOAD / 4 + 1;
	f.payload_bytes = RIG_PAYLOAD + 4;
	rig_refused(rig_send(rig_peer(0), &f), FAN_DROP_LONG);
}

TEST_WITH(aggregator__checksums_where_the_job_wants_them, rig_open, rig_close)
{
	rig_form("a", 2, FAN_JOIN_SUMMED);
	int32_t one = 1;
	struct fan_frag f = rig_data(0, 0, &one);
	rig_refused(rig_send(rig_peer(0), &f), FAN_DROP_CHECK);
	f.flags |= FAN_F_SUMMED;
	assert_int_equal(rig_send(rig_peer(0), &f), FAN_WAIT);
	f.sender = 1;
	assert_int_equal(rig_send(rig_peer(1), &f), FAN_DONE);
	assert_true(rig.got[0].f.flags & FAN_F_SUMMED);
}

TEST_WITH(aggregator__reduce_sends_the_payload_to_the_root, rig_open, rig_close)
{
	rig_form("a", 3, 0);
	for (uint16_t rank = 0; rank < 3; rank++) {
		int32_t x = rank + 1;
		struct fan_frag f = rig_data(rank, 0, &x);
		f.flags |= FAN_F_REDUCE | (rank == 1 ? FAN_F_ROOT : 0);
		rig_send(rig_peer(rank), &f);
	}
	assert_int_equal(rig.gots, 2);
	assert_int_equal(rig.got[0].dest, FAN_TO_GROUP);
	assert_int_equal(rig.got[0].first, 2); /* the rank behind the root */
	assert_true(rig.got[0].f.flags & FAN_F_EMPTY);
	assert_int_equal(rig.got[0].f.payload_bytes, 0);
	assert_int_equal(rig_value(1), 6);
	fan_peer root = rig_peer(1);
	assert_true(fan_peer_equal(&rig.got[1].peer, &root));
	assert_int_equal(rig_probe(0, 0), FAN_REPLAY);
	assert_true(rig.got[0].f.flags & FAN_F_EMPTY);
	assert_int_equal(rig_probe(1, 0), FAN_REPLAY);
	assert_int_equal(rig_value(0), 6);
}

/* The root contributed, left, and is nobody to send to. */
TEST_WITH(aggregator__reduce_whose_root_has_left, rig_open, rig_close)
{
	rig_form("a", 2, 0);
	int32_t x = 1;
	struct fan_frag f = rig_data(0, 0, &x);
	f.flags |= FAN_F_REDUCE | FAN_F_ROOT;
	assert_int_equal(rig_send(rig_peer(0), &f), FAN_WAIT);
	assert_int_equal(rig_leave(0, FAN_OK), FAN_CTL);
	f.sender = 1;
	f.flags &= (uint16_t)~FAN_F_ROOT;
	assert_int_equal(rig_send(rig_peer(1), &f), FAN_DONE);
	assert_int_equal(rig.gots, 1);
	assert_true(rig.got[0].f.flags & FAN_F_EMPTY);
}

/* Results are numbered; one that is younger than what a rank has heard may be on its way,
 * and is not sent again unless the rank insists. */
TEST_WITH(aggregator__result_under_way, rig_open, rig_close)
{
	rig_form("a", 2, 0);
	for (uint64_t n = 0; n < 3; n++) {
		rig_add(0, n, 1);
		assert_int_equal(rig_add(1, n, 1), FAN_DONE);
		assert_int_equal(rig.got[0].f.seq, n);
	}
	struct fan_frag probe = {
		.frag = 1, .job = rig.job, .epoch = rig.epoch, .last = 0, .type = FAN_TYPE_PROBE};
	assert_int_equal(rig_send(rig_peer(0), &probe), FAN_EARLY); /* has heard number 0 */
	assert_int_equal(rig.gots, 0);
	probe.last = 1; /* it was overtaken, or is lost */
	assert_int_equal(rig_send(rig_peer(0), &probe), FAN_REPLAY);
	probe.last = 65535; /* numbers wrap: the one before 0 */
	assert_int_equal(rig_send(rig_peer(0), &probe), FAN_EARLY);
	probe.flags = FAN_F_INSIST;
	assert_int_equal(rig_send(rig_peer(0), &probe), FAN_REPLAY);
	assert_int_equal(rig_value(0), 2);
}

TEST_WITH(aggregator__asks_for_what_is_missing, rig_open, rig_close)
{
	rig_form("a", 2, 0);
	assert_int_equal(rig_probe(0, 2), FAN_ASK);
	assert_int_equal(rig_type(0), FAN_TYPE_NEED);
	assert_int_equal(rig.got[0].f.frag, 2);
	rig_add(0, 2, 1);
	assert_int_equal(rig_probe(0, 2), FAN_EARLY);
	assert_int_equal(rig.gots, 0);
}

TEST_WITH(aggregator__mismatch_names_both_and_tells_all, rig_open, rig_close)
{
	rig_form("a", 3, 0);
	rig_add(2, 0, 1);
	int64_t wide = 1;
	struct fan_frag f = rig_data(0, 0, NULL);
	f.payload = (const uint8_t *)&wide;
	f.payload_bytes = 8;
	f.dtype = FAN_INT64;
	assert_int_equal(rig_send(rig_peer(0), &f), FAN_FAIL);
	assert_int_equal(rig.got[0].dest, FAN_TO_GROUP);
	struct fan_state s = rig_state(0);
	assert_int_equal(s.state, FAN_JOB_FAILED);
	assert_int_equal(s.err, FAN_E_MISMATCH);
	assert_int_equal(s.missing[0], 5);
	assert_int_equal(s.rank_a, 0);
	assert_int_equal(s.rank_b, 2);
	assert_int_equal(FAN_DESC_DTYPE(s.desc_a), FAN_INT64);
	assert_int_equal(FAN_DESC_DTYPE(s.desc_b), FAN_INT32);
	assert_int_equal(rig_add(1, 0, 1), FAN_DROP);
	rig_beat(1, rig_nonce(1), 0, 0); /* who missed it asks */
	assert_int_equal(rig_state(0).err, FAN_E_MISMATCH);
}

TEST_WITH(aggregator__round_after_a_rank_has_left, rig_open, rig_close)
{
	rig_form("a", 3, 0);
	assert_int_equal(rig_leave(1, FAN_OK), FAN_CTL);
	assert_int_equal(rig_add(0, 0, 1), FAN_FAIL);
	assert_int_equal(rig_state(0).err, FAN_E_RANK_LEFT);
	assert_int_equal(rig_state(0).missing[0], 2);
}

TEST_WITH(aggregator__jobs_do_not_touch_each_other, rig_open, rig_close)
{
	rig_form("a", 2, 0);
	const uint32_t job = rig.job, epoch = rig.epoch;
	assert_int_equal(rig_add(0, 0, 1), FAN_WAIT);
	rig_form("b", 2, 0);
	for (uint64_t n = 0; n < 40; n++) {
		assert_int_equal(rig_add(0, n, 100), FAN_WAIT);
		assert_int_equal(rig_add(1, n, 200), FAN_DONE);
		assert_int_equal(rig_value(0), 300);
	}
	rig.job = job;
	rig.epoch = epoch;
	assert_int_equal(rig_add(1, 0, 2), FAN_DONE);
	assert_int_equal(rig_value(0), 3);
}

TEST_WITH(aggregator__report, rig_open, rig_close)
{
	rig_form("first", 2, 0);
	rig_form("second", 3, 0);
	rig_add(1, 2, 1);
	rig_add(1, 3, 1);
	rig_add(0, 3, 1);
	struct fan_report r = {.index = 1};
	fan_aggregator_report(rig.ag, &r);
	assert_int_equal(r.jobs, 2);
	assert_string_equal(r.name, "second");
	assert_int_equal(r.state, FAN_JOB_READY);
	assert_int_equal(r.waiting, 2);
	assert_int_equal(r.oldest, 2);
	assert_int_equal(r.missing[0], 5);
	r.index = 2;
	fan_aggregator_report(rig.ag, &r);
	assert_int_equal(r.jobs, 2);
	assert_int_equal(r.name_bytes, 0);
}

/* Old events give way to new ones, and are counted. */
TEST_WITH(aggregator__events, rig_open, rig_close)
{
	struct fan_join m = rig_join_of("a", 2);
	struct fan_event ev;
	for (unsigned i = 0; i < FAN_EVENTS_MAX; i++)
		assert_int_equal(rig_join(2, i + 1, &m), FAN_E_INVALID);
	assert_int_equal(fan_aggregator_stats(rig.ag)->events_lost, 0);
	assert_int_equal(rig_join(0, 5, &m), FAN_OK); /* created, joined */
	assert_int_equal(fan_aggregator_stats(rig.ag)->events_lost, 2);
	unsigned n = 0;
	while (fan_aggregator_event(rig.ag, &ev))
		n++;
	assert_int_equal(n, FAN_EVENTS_MAX);
	assert_int_equal(ev.kind, FAN_EV_RANK_JOINED);
	assert_string_equal(ev.name, "a");
	fan_peer peer = rig_peer(0);
	assert_true(fan_peer_equal(&ev.peer, &peer));
}

/* Ranks that run ahead of each other: the window is a matter of memory, the burst of queues. */
TEST_WITH(aggregator__window_and_burst, rig_open, rig_close)
{
	struct fan_welcome w;
	struct fan_join m = rig_join_of("a", 2);
	m.options = FAN_JOIN_AHEAD;
	w = rig_admitted(0, &m);
	assert_int_equal(w.window, 4); /* this switch does not know of it... */
	assert_int_equal(w.burst, 0);
	m.options = 0;
	assert_int_equal(rig_join(1, rig_nonce(1), &m), FAN_OK); /* ...and does not care */
	rig.cfg.ahead_max = 32;
	rig.cfg.rx_bytes = 3 * 2 * (RIG_PAYLOAD + FAN_HEAD_BYTES);
	rig_again();
	m.options = FAN_JOIN_AHEAD;
	m.window = 20;
	w = rig_admitted(0, &m);
	assert_int_equal(w.window, 20);
	assert_int_equal(w.burst, 3);
	rig_beat(0, rig_nonce(0), 0, 0);
	m.options = 0; /* it would have all of the window under way */
	assert_int_equal(rig_join(1, rig_nonce(1), &m), FAN_E_JOB_MISMATCH);
	rig.cfg.ahead_max = 1;
	assert_int_equal(fan_aggregator_bytes(&rig.cfg), 0);
}

TEST_WITH(aggregator__tells_how_far_others_are, rig_open, rig_close)
{
	const int32_t one = 1;
	rig.cfg.ahead_max = 32;
	rig_again();
	rig_form("a", 2, FAN_JOIN_AHEAD);
	assert_int_equal(rig_add(0, 9, 1), FAN_WAIT);
	assert_int_equal(rig.gots, 0);
	struct fan_frag f = rig_data(0, 10, &one);
	f.flags |= FAN_F_ASK;
	assert_int_equal(rig_send(rig_peer(0), &f), FAN_WAIT);
	assert_int_equal(rig_type(0), FAN_TYPE_PROGRESS);
	assert_true(fan_peer_equal(&rig.got[0].peer, &(fan_peer){.addr = {1, 1}, .port = 9}));
	assert_int_equal(rig.got[0].f.frag, 10);
	assert_int_equal(rig.got[0].f.behind, 11); /* nothing of rank 1 */
	for (uint64_t n = 0; n < 5; n++)
		rig_add(1, n, 1);
	assert_int_equal(rig_probe(0, 9), FAN_EARLY); /* and the slowest is the one before 6 */
	assert_int_equal(rig_type(0), FAN_TYPE_PROGRESS);
	assert_int_equal(rig.got[0].f.behind, 5);
	assert_int_equal(fan_aggregator_stats(rig.ag)->progress_sent, 2);
}

/* A contribution of rank 0 under number `number`. */
static enum fan_verdict add_numbered(uint64_t frag, uint16_t number)
{
	const int32_t one = 1;
	struct fan_frag f = rig_data(0, frag, &one);
	f.seq = number;
	return rig_send(rig_peer(0), &f);
}

/* Ranks that can number what they send are told to, those that run ahead as well. */
TEST_WITH(aggregator__who_numbers, rig_open, rig_close)
{
	struct fan_welcome w;
	struct fan_join m = rig_join_of("a", 3);
	assert_int_equal(rig_admitted(0, &m).flags, 0);
	m.options = FAN_JOIN_NUMBERS;
	assert_int_equal(rig_admitted(1, &m).flags, FAN_WELCOME_NUMBERS);
	rig.cfg.ahead_max = 32;
	rig_again();
	m.options |= FAN_JOIN_AHEAD;
	w = rig_admitted(0, &m);
	assert_int_equal(w.flags, FAN_WELCOME_NUMBERS);
	assert_true(w.burst > 0);
}

/* Results leave as runs when all ranks read them; a rank that runs ahead does not. */
TEST_WITH(aggregator__who_reads_runs, rig_open, rig_close)
{
	struct fan_welcome w;
	struct fan_join m = rig_join_of("a", 2);
	for (unsigned both = 0; both < 2; both++) {
		rig_again();
		for (uint16_t r = 0; r < 2; r++) {
			m.options = (uint8_t)(FAN_JOIN_NUMBERS | (r || both ? FAN_JOIN_RUNS : 0));
			w = rig_admitted(r, &m);
			assert_int_equal(!(w.flags & FAN_WELCOME_RUNS), !(r || both));
		}
		assert_int_equal(rig.ag->jobs.job[0].all_read_runs, both);
	}
	m.options = FAN_JOIN_RUNS; /* without numbers nobody would ask for one that is lost */
	rig_again();
	assert_int_equal(rig_admitted(0, &m).flags, 0);
	rig.cfg.ahead_max = 32;
	rig_again();
	m.options = FAN_JOIN_RUNS | FAN_JOIN_NUMBERS | FAN_JOIN_AHEAD;
	assert_int_equal(rig_admitted(0, &m).flags, FAN_WELCOME_NUMBERS);
	rig.cfg.ahead_max = 0;
	rig.cfg.authentic = true; /* so packets are sealed, whatever the rank asks for */
	rig_again();
	m.options = FAN_JOIN_RUNS | FAN_JOIN_NUMBERS;
	for (uint16_t r = 0; r < 2; r++) {
		assert_int_equal(rig_admitted(r, &m).flags, FAN_WELCOME_NUMBERS);
	}
	assert_false(rig.ag->jobs.job[0].all_read_runs);
}

/* Not after one was lost: in a run as many are lost as it has. */
TEST_WITH(aggregator__no_runs_after_a_loss, rig_open, rig_close)
{
	rig_form("a", 2, FAN_JOIN_NUMBERS | FAN_JOIN_RUNS);
	const struct fan_group *g = &rig.ag->jobs.job[0].group;
	for (uint64_t n = 0; n <= FAN_RUN_CALM + 1; n++) {
		rig_add(0, n, 1);
		assert_int_equal(rig_add(1, n, 1), FAN_DONE);
		assert_int_equal(g->reads_runs, n == 0 || n > FAN_RUN_CALM);
		if (n == 0)
			assert_int_equal(rig_probe(0, n), FAN_REPLAY);
	}
}

/* Three later ones have come: that one is asked for, and again later. */
TEST_WITH(aggregator__asks_by_number, rig_open, rig_close)
{
	rig.cfg.window_max = 64;
	rig_again();
	rig_form("a", 2, FAN_JOIN_NUMBERS);
	assert_int_equal(add_numbered(0, 1), FAN_WAIT);
	assert_int_equal(add_numbered(2, 3), FAN_WAIT);
	assert_int_equal(add_numbered(3, 4), FAN_WAIT);
	assert_int_equal(rig.gots, 0);
	assert_int_equal(add_numbered(4, 5), FAN_WAIT);
	assert_int_equal(rig_type(0), FAN_TYPE_MISS);
	fan_peer to = rig_peer(0);
	assert_true(fan_peer_equal(&rig.got[0].peer, &to));
	assert_int_equal(rig.got[0].f.last, 5);
	assert_int_equal(rig.got[0].f.missing, 1 << 3);
	assert_int_equal(rig.got[0].f.sender, FAN_RANK_NONE);
	assert_int_equal(fan_aggregator_stats(rig.ag)->needs, 1);
	assert_int_equal(add_numbered(1, 6), FAN_WAIT); /* again, and a probe counts as well */
	struct fan_frag probe = rig_probe_of(0, 1);
	for (unsigned n = 7; n < 2 + FAN_GAP_AGAIN; n++) {
		probe.seq = (uint16_t)n;
		assert_int_equal(rig_send(rig_peer(0), &probe), FAN_EARLY);
		assert_int_equal(rig.gots, 0);
	}
	probe.seq = 2 + FAN_GAP_AGAIN;
	assert_int_equal(rig_send(rig_peer(0), &probe), FAN_EARLY);
	assert_int_equal(rig_type(0), FAN_TYPE_MISS);
	for (unsigned n = 0; n < 70000; n++) { /* modulo 65536 */
		probe.seq++;
		rig_send(rig_peer(0), &probe);
		assert_int_equal(rig.gots, 0);
	}
	for (uint64_t n = 0; n < 60; n += 7) /* rank 1 as well, but in order */
		rig_add(1, n, 1);
	assert_int_equal(fan_aggregator_stats(rig.ag)->needs, 2);
}

/* After a run of losses longer than can be asked for, the next packet says where the rank is. */
TEST_WITH(aggregator__a_long_run_of_losses, rig_open, rig_close)
{
	rig.cfg.window_max = 64;
	rig_again();
	rig_form("a", 2, FAN_JOIN_NUMBERS);
	assert_int_equal(add_numbered(0, 1), FAN_WAIT);
	struct fan_frag probe = rig_probe_of(0, 0);
	probe.seq = 1000;
	rig_send(rig_peer(0), &probe);
	assert_int_equal(rig_type(0), FAN_TYPE_MISS);
	assert_true(rig.got[0].f.missing >> 63); /* the rank is to know it, too */
	assert_int_equal(add_numbered(1, 1002), FAN_WAIT);
	assert_int_equal(add_numbered(2, 1003), FAN_WAIT);
	assert_int_equal(add_numbered(3, 1004), FAN_WAIT);
	assert_int_equal(rig_type(0), FAN_TYPE_MISS);
	assert_int_equal(rig.got[0].f.last, 1004);
	assert_int_equal(rig.got[0].f.missing & 0xff, 1 << 3);
}

/* A rank that does not number may have anything there. */
TEST_WITH(aggregator__no_numbers_no_questions, rig_open, rig_close)
{
	rig_form("a", 2, 0);
	for (uint64_t n = 0; n < 4; n++) {
		assert_int_equal(add_numbered(n, (uint16_t)(n * n + 1)), FAN_WAIT);
		assert_int_equal(rig.gots, 0);
	}
}

/* A rank asks for results by number. */
TEST_WITH(aggregator__replays_by_number, rig_open, rig_close)
{
	rig_form("a", 2, 0);
	for (uint64_t n = 0; n < 10; n++) {
		rig_add(0, n, (int32_t)n);
		assert_int_equal(rig_add(1, n, 0), FAN_DONE);
	}
	struct fan_frag miss = rig_control(FAN_TYPE_MISS, 1, 0, NULL, 0);
	miss.missing = 1 | 1 << 3;
	miss.last = 9;
	assert_int_equal(rig_send(rig_peer(1), &miss), FAN_REPLAY);
	assert_int_equal(rig.gots, 2);
	assert_int_equal(rig_value(0), 9);
	assert_int_equal(rig.got[0].f.seq, 9);
	assert_true(rig.got[0].f.flags & FAN_F_REPLAY);
	assert_int_equal(rig_value(1), 6);
	fan_peer to = rig_peer(1);
	assert_true(fan_peer_equal(&rig.got[1].peer, &to));
	miss.missing = UINT64_MAX; /* no more than four at a time */
	assert_int_equal(rig_send(rig_peer(1), &miss), FAN_REPLAY);
	assert_int_equal(rig.gots, FAN_MISS_MAX);
	miss.missing = 1 << 8; /* long over */
	assert_int_equal(rig_send(rig_peer(1), &miss), FAN_DROP);
	assert_int_equal(rig_drops(FAN_DROP_STALE), 1);
	miss.last = 10; /* has not been */
	miss.missing = 1;
	assert_int_equal(rig_send(rig_peer(1), &miss), FAN_DROP);
	miss.last = 9;
	assert_int_equal(rig_send(rig_peer(7), &miss), FAN_DROP); /* of nobody */
	assert_int_equal(rig_drops(FAN_DROP_SENDER), 1);
}

UNIT_MAIN
