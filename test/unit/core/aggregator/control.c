/* SPDX-License-Identifier: Apache-2.0 */
#include "unit/core/aggregator_rig.h"

static const struct fan_job *job0(void)
{
	return &rig.ag->jobs.job[0];
}

TEST_WITH(control__welcome, rig_open, rig_close)
{
	rig.cfg.group_family = 4;
	rig.cfg.group_port = 77;
	memcpy(rig.cfg.group_base, (uint8_t[4]){239, 1, 0, 255}, 4);
	rig_again();
	struct fan_join m = rig_join_of("a", 2);
	struct fan_welcome w;
	assert_int_equal(rig_join(0, 5, &m), FAN_OK);
	m = rig_join_of("b", 2);
	assert_int_equal(rig_join(0, 6, &m), FAN_OK);
	assert_int_equal(rig.got[0].f.nonce, 6);
	w = rig_welcome();
	assert_int_equal(w.alive_ms, 1000);
	assert_int_equal(w.beat_ms, 125);
	assert_int_equal(w.group_family, 4);
	assert_int_equal(w.group_port, 77);
	assert_memory_equal(w.group, ((uint8_t[4]){239, 1, 1, 0}), 4); /* base + 1 */
}

static void refuses_other_version(uint8_t type)
{
	uint8_t packet[FAN_HEAD_BYTES + 11] = {0}; /* as long as the REFUSE */
	struct fan_frag f = {.type = type, .nonce = 42};
	fan_wire_put(packet, &f);
	packet[0] = 9;
	assert_int_equal(rig_bytes(rig_peer(0), packet, sizeof packet), FAN_DROP);
	assert_int_equal(rig.gots, 0); /* damaged, for all we know */
	fan_put32(packet + 32, fan_crc32c(fan_crc32c(0, packet, 32), packet + FAN_HEAD_BYTES, 11));
	assert_int_equal(rig_bytes(rig_peer(0), packet, sizeof packet - 1), FAN_DROP);
	assert_int_equal(rig.gots, 0); /* too short to answer, and so damaged */
	assert_int_equal(rig_bytes(rig_peer(0), packet, sizeof packet), FAN_DROP);
	struct fan_refuse no;
	assert_int_equal(rig_type(0), FAN_TYPE_REFUSE);
	assert_int_equal(fan_ctl_get(&no, &rig.got[0].f), FAN_OK);
	assert_int_equal(no.err, FAN_E_VERSION);
	assert_int_equal(no.have, FAN_WIRE_VERSION);
	assert_int_equal(no.want, 9);
	assert_int_equal(rig.got[0].f.nonce, 42);
}

TEST_WITH(control__other_version_is_refused, rig_open, rig_close)
{
	refuses_other_version(FAN_TYPE_JOIN);
	refuses_other_version(FAN_TYPE_QUERY);
}

TEST_WITH(control__stranger_learns_that_there_is_no_job, rig_open, rig_close)
{
	rig_form("a", 2, 0);
	rig.epoch++;
	rig_refused(rig_beat(0, rig_nonce(0), 7, 0), FAN_DROP_EPOCH);
	assert_int_equal(rig_state(0).state, FAN_JOB_NONE);
	assert_int_equal(rig_state(0).frag, 7);
	assert_int_equal(rig.got[0].f.epoch, rig.epoch);
}

TEST_WITH(control__beat_tells_who_is_missing, rig_open, rig_close)
{
	rig_form("a", 3, 0);
	rig_beat(0, rig_nonce(0), 0, 0);
	assert_int_equal(rig_state(0).missing[0], 0);
	rig_add(0, 0, 1);
	rig_beat(0, rig_nonce(0), 0, FAN_BEAT_WAITING);
	assert_int_equal(rig_state(0).missing[0], 6);
	rig_beat(0, rig_nonce(0), 1, FAN_BEAT_WAITING);
	assert_int_equal(rig_state(0).missing[0], 7);
	rig_add(1, 0, 1);
	rig_add(2, 0, 1);
	rig_beat(0, rig_nonce(0), 0, FAN_BEAT_WAITING);
	assert_int_equal(rig_state(0).missing[0], 0);
}

/* Contributions are as good as BEATs. */
TEST_WITH(control__data_is_a_sign_of_life, rig_open, rig_close)
{
	rig_form("a", 2, 0);
	for (uint64_t n = 0; n < 30; n++) {
		rig.now_ns += 100 * FAN_MS;
		rig_add(0, n, 1);
		rig_add(1, n, 1);
		rig_tick();
	}
	assert_int_equal(job0()->state, FAN_JOB_READY);
}

/* Who missed why the job failed may still ask. */
TEST_WITH(control__failed_job_stays_a_while, rig_open, rig_close)
{
	rig_form("a", 2, 0);
	rig_leave(0, FAN_E_STALLED);
	rig_pass(1500 * FAN_MS); /* alive_ms is 1000 */
	rig_beat(1, rig_nonce(1), 0, 0);
	assert_int_equal(rig_state(0).err, FAN_E_STALLED);
	rig_pass(2600 * FAN_MS);
	assert_int_equal(job0()->state, FAN_JOB_NONE);
}

TEST_WITH(control__silent_while_forming, rig_open, rig_close)
{
	struct fan_join m = rig_join_of("a", 2);
	rig_join(0, 5, &m);
	rig_pass(1300 * FAN_MS);
	assert_int_equal(job0()->state, FAN_JOB_NONE);
}

TEST_WITH(control__leave_too_early, rig_open, rig_close)
{
	rig_form("a", 2, 0);
	rig_add(0, 0, 1);
	assert_int_equal(rig_leave(1, FAN_OK), FAN_CTL);
	assert_int_equal(rig.gots, 2);
	assert_int_equal(rig_state(1).err, FAN_E_RANK_LEFT);
	assert_int_equal(rig_state(1).missing[0], 2);
}

/* Who gives up says whom it blames; ranks that do not exist are not blamed. */
TEST_WITH(control__leave_with_an_error, rig_open, rig_close)
{
	rig_form("a", 3, 0);
	uint8_t body[RIG_BODY];
	struct fan_leave m = {.err = FAN_E_STALLED, .blamed = {0xff02, 1, 0, UINT64_C(1) << 63}};
	rig_ctl(FAN_TYPE_LEAVE, 2, rig_nonce(2), body, fan_ctl_put(body, &m));
	struct fan_state s = rig_state(1);
	assert_int_equal(s.err, FAN_E_STALLED);
	assert_true(s.rank_a == FAN_RANK_NONE && s.rank_b == FAN_RANK_NONE);
	assert_true(s.missing[0] == 2 && s.missing[1] == 0 && s.missing[3] == 0);
	rig_again();
	rig_form("a", 3, 0);
	rig_leave(2, FAN_E_MTU); /* nobody named: itself */
	assert_int_equal(rig_state(1).missing[0], 4);
}

/* A rank that cannot take part ends a job that forms, too: nobody waits for it in vain. */
TEST_WITH(control__leave_while_forming, rig_open, rig_close)
{
	static const struct {
		int err;
		bool ends;
	} of[] = {{FAN_OK, false},	    {FAN_E_TIMEOUT, false}, {FAN_E_UNREACHABLE, false},
		  {FAN_E_RANK_LOST, false}, {FAN_E_NOMEM, true},    {FAN_E_SYSTEM, true},
		  {FAN_E_MTU, true},	    {FAN_E_FILES, true}};
	for (unsigned i = 0; i < sizeof of / sizeof *of; i++) {
		rig_again();
		const struct fan_join m = rig_join_of("a", 3);
		for (uint16_t r = 0; r < 2; r++) {
			rig_join(r, rig_nonce(r), &m);
			rig_beat(r, rig_nonce(r), 0, 0);
		}
		assert_int_equal(rig_leave(1, of[i].err), FAN_CTL);
		assert_int_equal(job0()->state, of[i].ends ? FAN_JOB_FAILED : FAN_JOB_FORMING);
		rig_beat(0, rig_nonce(0), 0, 0);
		const struct fan_state s = rig_state(0);
		assert_int_equal(s.err, of[i].ends ? of[i].err : FAN_OK);
		assert_int_equal(s.missing[0], of[i].ends ? 2 : 6);
		rig_join(2, rig_nonce(2), &m); /* who comes later makes a job of its own */
		assert_int_equal(job0()->in, of[i].ends ? 1 : 2);
	}
}

/* Nor one that has not proved where it is, and one that nobody is with. */
TEST_WITH(control__leave_of_one_that_is_not_sure, rig_open, rig_close)
{
	const struct fan_join m = rig_join_of("a", 3);
	rig_join(0, rig_nonce(0), &m);
	rig_beat(0, rig_nonce(0), 0, 0);
	rig_join(1, rig_nonce(1), &m);
	assert_int_equal(rig_leave(1, FAN_E_MTU), FAN_CTL);
	assert_int_equal(job0()->state, FAN_JOB_FORMING);
	assert_int_equal(rig_leave(0, FAN_E_MTU), FAN_CTL);
	assert_int_equal(job0()->state, FAN_JOB_NONE);
}

static void with_group(void)
{
	rig.cfg.group_family = 6;
	rig.cfg.group_base[0] = 0xff;
	rig_again();
}

TEST_WITH(control__group_that_one_cannot_join, rig_open, rig_close)
{
	with_group();
	struct fan_join m = rig_join_of("a", 2);
	rig_join(0, rig_nonce(0), &m);
	m.options = FAN_JOIN_GROUP;
	rig_join(1, rig_nonce(1), &m);
	rig_beat(0, rig_nonce(0), 0, 0);
	rig_beat(1, rig_nonce(1), 0, 0);
	assert_int_equal(rig_state(0).state, FAN_JOB_READY);
	assert_int_equal(rig_state(0).multicast, 0);
}

/* Results by unicast where the group has gone deaf. */
TEST_WITH(control__group_health, rig_open, rig_close)
{
	with_group();
	rig.flags = FAN_BEAT_HEARD;
	rig_form("a", 2, FAN_JOIN_GROUP);
	rig_beat(0, rig_nonce(0), 0, FAN_BEAT_HEARD);
	rig_beat(1, rig_nonce(1), 0, FAN_BEAT_HEARD);
	assert_true(job0()->group.multicast);
	for (uint64_t n = 0; n < 4000; n++) {
		rig_add(0, n, 1);
		rig_add(1, n, 1);
		if (n % 4 == 0) /* now and then one is lost: of all together, too many */
			rig_probe(1, n);
	}
	assert_true(job0()->group.multicast);
	for (uint64_t n = 4000; n < 6000 && job0()->group.multicast; n++) {
		rig_add(0, n, 1);
		rig_add(1, n, 1);
		rig_probe(1, n);
	}
	assert_false(job0()->group.multicast);
}

TEST_WITH(control__query, rig_open, rig_close)
{
	rig_form("a", 2, 0);
	uint8_t body[RIG_BODY];
	struct fan_query m = {.index = 0};
	size_t bytes = fan_ctl_put(body, &m);
	assert_int_equal(rig_query(FAN_TOPIC_JOB, 0, 9, body, bytes), FAN_CTL);
	struct fan_report r;
	assert_int_equal(rig_type(0), FAN_TYPE_REPORT);
	assert_int_equal(fan_ctl_get(&r, &rig.got[0].f), FAN_OK);
	assert_string_equal(r.name, "a");
	assert_true(rig.got[0].f.payload_bytes <= bytes);
	assert_int_equal(rig_query(FAN_TOPIC_JOB, 0, 9, body, 2), FAN_DROP); /* no amplifier */
	assert_int_equal(rig_query(FAN_TOPIC_COUNT, 0, 9, body, bytes), FAN_DROP);
	rig_refused(rig_ctl(FAN_TYPE_REPORT, 0, 9, body, bytes), FAN_DROP_TYPE);
}

/* The body of the answer to an ECHO with a body of `bytes`; 0: there is none. */
static size_t echo(uint16_t bytes, uint16_t answer_bytes, struct fan_echoed *m)
{
	static uint8_t body[FAN_ECHO_MAX + 8];
	fan_ctl_put(body, &(struct fan_echo){answer_bytes, bytes});
	if (rig_query(FAN_TOPIC_ECHO, 3, 9, body, bytes) != FAN_CTL)
		return 0;
	assert_int_equal(rig.gots, 1);
	assert_int_equal(rig_type(0), FAN_TYPE_REPORT);
	assert_int_equal(rig.got[0].f.topic, FAN_TOPIC_ECHO);
	assert_int_equal(rig.got[0].f.nonce, 9);
	assert_int_equal(rig.got[0].f.sender, FAN_RANK_NONE);
	fan_peer asker = rig_peer(3);
	assert_true(fan_peer_equal(&rig.got[0].peer, &asker));
	assert_int_equal(fan_ctl_get(m, &rig.got[0].f), FAN_OK);
	for (size_t i = 8 + m->version_bytes; i < rig.got[0].f.payload_bytes; i++)
		assert_int_equal(rig.got[0].payload[i], 0); /* nothing of others leaks */
	return rig.got[0].f.payload_bytes;
}

TEST_WITH(control__echo, rig_open, rig_close)
{
	struct fan_echoed m;
	rig.cfg.shards = 3;
	rig.cfg.group_family = 6;
	rig_again();
	assert_int_equal(echo(FAN_ECHO_MIN, 0, &m), FAN_ECHO_MIN); /* before any job */
	assert_int_equal(m.payload_bytes, RIG_PAYLOAD);
	assert_int_equal(m.shards, 3);
	assert_int_equal(m.window, 4);
	assert_int_equal(m.group_family, 6);
	assert_string_equal(m.version, FAN_BUILD_VERSION);
	assert_int_equal(echo(FAN_ECHO_MAX, 0, &m), FAN_ECHO_MAX); /* whatever slots hold */
	assert_int_equal(echo(1000, 100, &m), 100);
	assert_int_equal(echo(1001, 0, &m), 1001);
	assert_int_equal(echo(FAN_ECHO_MIN - 1, 0, &m), 0);
	assert_int_equal(echo(FAN_ECHO_MAX + 1, 0, &m), 0);
	assert_int_equal(echo(100, 101, &m), 0);
	assert_int_equal(rig_drops(FAN_DROP_FORMAT), 3);
}

TEST_WITH(control__echo_leaves_nothing_behind, rig_open, rig_close)
{
	struct fan_echoed m;
	struct fan_event ev;
	rig_form("a", 4, 0);
	while (fan_aggregator_event(rig.ag, &ev))
		continue;
	const uint64_t heard_ns = job0()->members[3].heard_ns;
	const uint64_t deadline_ns = fan_aggregator_deadline(rig.ag);
	rig.now_ns += FAN_MS;
	assert_int_equal(echo(200, 0, &m), 200);
	assert_int_equal(job0()->members[3].heard_ns, heard_ns); /* not a sign of life */
	assert_true(fan_aggregator_deadline(rig.ag) == deadline_ns);
	assert_false(fan_aggregator_event(rig.ag, &ev));
}

/* What is open ends; nothing begins; then each member is told under its own nonce, until it
 * leaves. */
TEST_WITH(control__stops, rig_open, rig_close)
{
	rig_form("a", 2, 0);
	rig_pass(FAN_STOP_YOUNG_NS);
	assert_int_equal(rig_add(0, 0, 1), FAN_WAIT);
	fan_aggregator_stop(rig.ag, rig.now_ns);
	rig_tick();
	assert_int_equal(rig.gots, 0);
	assert_int_equal(rig_add(1, 1, 1), FAN_DROP);
	assert_int_equal(rig_add(1, 0, 1), FAN_DONE);
	assert_int_equal(rig_type(0), FAN_TYPE_RESULT);
	rig.now_ns += FAN_STOP_LOOK_NS;
	for (unsigned turn = 0; turn < 2; turn++) {
		rig_tick();
		assert_int_equal(rig.gots, 2);
		for (unsigned r = 0; r < 2; r++) {
			const struct fan_state s = rig_state(r);
			assert_int_equal(s.state, FAN_JOB_FAILED);
			assert_int_equal(s.err, FAN_E_STOPPED);
			assert_int_equal(rig.got[r].f.nonce, rig_nonce(r));
		}
		rig_tick();
		assert_int_equal(rig.gots, 0);
		rig.now_ns += FAN_STOP_TELL_NS;
	}
	assert_int_equal(fan_aggregator_undrained(rig.ag), 1);
	for (uint16_t r = 0; r < 2; r++)
		rig_leave(r, FAN_OK);
	assert_int_equal(fan_aggregator_undrained(rig.ag), 0);
}

/* Its ranks may be agreeing about another loss. */
TEST_WITH(control__stops_no_young_job, rig_open, rig_close)
{
	rig_form("a", 2, 0);
	fan_aggregator_stop(rig.ag, rig.now_ns);
	rig_pass(FAN_STOP_YOUNG_NS / 2);
	for (uint16_t r = 0; r < 2; r++) {
		assert_int_equal(rig_add(r, 0, 1), r ? FAN_DONE : FAN_WAIT);
	}
	rig_pass(FAN_STOP_YOUNG_NS / 2);
	assert_int_equal(job0()->fault.err, FAN_E_STOPPED);
}

/* What others do not end in time is not waited for; a job that forms is told at once, and who comes
 * meanwhile is refused. */
TEST_WITH(control__stops_in_time, rig_open, rig_close)
{
	rig_form("a", 2, 0);
	rig_pass(FAN_STOP_YOUNG_NS);
	assert_int_equal(rig_add(0, 0, 1), FAN_WAIT);
	struct fan_join m = rig_join_of("b", 2);
	rig.life++;
	assert_int_equal(rig_join(0, rig_nonce(0), &m), FAN_OK);
	fan_aggregator_stop(rig.ag, rig.now_ns);
	rig_tick();
	assert_int_equal(rig.gots, 1);
	assert_int_equal(rig_state(0).err, FAN_E_STOPPED);
	assert_int_equal(rig.got[0].f.nonce, rig_nonce(0));
	assert_int_equal(rig_join(1, rig_nonce(1), &m), FAN_E_STOPPED);
	rig_pass(FAN_STOP_FINISH_NS);
	assert_int_equal(job0()->state, FAN_JOB_FAILED);
	assert_int_equal(job0()->fault.err, FAN_E_STOPPED);
}

UNIT_MAIN
