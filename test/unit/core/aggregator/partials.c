/* SPDX-License-Identifier: Apache-2.0 */
#include "core/sum/contribution.h"
#include "unit/core/aggregator_rig.h"

#define RANKS 4

static const fan_peer below = {.addr = {7, 7}, .port = 8};
static uint16_t seq; /* of the next PARTIAL */

/* What rank `rank` says, in an envelope from the switch below.  Its token is rank + 1. */
static enum fan_verdict via(uint16_t rank, enum fan_type type, const uint8_t *body, size_t bytes)
{
	return rig_via(below, (uint16_t)(rank + 1),
		       rig_control(type, rank, rig_nonce(rank), NULL, 0), body, bytes);
}

/* Rank `rank` of the job `name` joins from below, by `route`; flags of its WELCOME. */
static uint8_t welcome_flags(const char *name, uint16_t rank, uint16_t route, uint8_t options)
{
	uint8_t body[RIG_BODY];
	struct fan_join m = rig_join_of(name, RANKS);
	struct fan_welcome w;
	m.options = options;
	rig.job = (uint32_t)route << FAN_ROUTE_BITS;
	rig.epoch = 0;
	assert_int_equal(via(rank, FAN_TYPE_JOIN, body, fan_ctl_put(body, &m)), FAN_CTL);
	struct fan_envelope v;
	struct fan_frag f = rig_inside(0, below, &v);
	assert_int_equal(f.type, FAN_TYPE_WELCOME);
	assert_int_equal(fan_ctl_get(&w, &f), FAN_OK);
	rig.job = f.job;
	rig.epoch = f.epoch;
	rig.cookie[rank] = w.cookie;
	return w.flags;
}

/* The switch follows the numbers of all but rank 0. */
static int form(void **state)
{
	uint8_t body[RIG_BODY];
	rig_open(state);
	for (uint16_t r = 0; r < RANKS; r++)
		assert_int_equal(welcome_flags("a", r, 0, r ? FAN_JOIN_NUMBERS : 0),
				 r ? FAN_WELCOME_NUMBERS : 0);
	for (uint16_t r = 0; r < RANKS; r++) {
		const struct fan_beat b = {.cookie = rig.cookie[r]};
		assert_int_equal(via(r, FAN_TYPE_BEAT, body, fan_ctl_put(body, &b)), FAN_CTL);
	}
	assert_int_equal(rig.ag->jobs.job[0].state, FAN_JOB_READY);
	rig_settle();
	return 0;
}

/* A PARTIAL of `ranks` from `from`; `words` of bitmap. */
static enum fan_verdict partial(fan_peer from, uint64_t frag, uint64_t ranks, int32_t value,
				uint16_t words, bool marked)
{
	struct {
		uint64_t bitmap[4];
		uint8_t value[4];
	} body = {{ranks}, {0}};
	uint8_t payload[64];
	struct fan_frag f = rig_data(0, frag, &value);
	size_t bytes = words * 8u;
	memcpy(payload, body.bitmap, bytes);
	memcpy(payload + bytes, &value, 4);
	f.type = FAN_TYPE_PARTIAL;
	f.seq = seq;
	f.payload = payload;
	f.payload_bytes = bytes + 4;
	rig.marked = marked;
	enum fan_verdict v = rig_send(from, &f);
	rig.marked = false;
	return v;
}

static enum fan_drop dropped(enum fan_verdict v)
{
	assert_int_equal(v, FAN_DROP);
	assert_int_equal(rig.gots, 0);
	return rig.ag->last_drop;
}

TEST_WITH(server__partials_complete_once, form, rig_close)
{
	assert_int_equal(partial(below, 0, 0x3, 10, 1, false), FAN_WAIT);
	assert_int_equal(partial(below, 0, 0xc, 7, 1, false), FAN_DONE);
	assert_int_equal(rig_value(0), 17);
	assert_int_equal(rig.got[0].f.flags & FAN_F_ECN, 0);
	assert_int_equal(dropped(partial(below, 0, 0xc, 7, 1, false)), FAN_DROP_DUPLICATE);
	assert_int_equal(fan_aggregator_stats(rig.ag)->partials, 2);
}

TEST_WITH(server__overlap_asks_for_what_is_missing, form, rig_close)
{
	assert_int_equal(partial(below, 0, 0x3, 10, 1, false), FAN_WAIT);
	assert_int_equal(partial(below, 0, 0x6, 100, 1, false), FAN_ASK);
	assert_int_equal(rig_type(0), FAN_TYPE_NEED);
	assert_int_equal(rig.got[0].dest, FAN_TO_GROUP);
	assert_int_equal(rig.got[0].f.words, 1);
	assert_int_equal(fan_get64(rig.got[0].payload), 0x4);
	assert_int_equal(fan_aggregator_stats(rig.ag)->needs, 1);
	assert_int_equal(partial(below, 0, 0xc, 5, 1, false), FAN_DONE);
	assert_int_equal(rig_value(0), 15); /* never the 100 */
}

TEST_WITH(server__hostile_partials, form, rig_close)
{
	const fan_peer stranger = {.addr = {7, 8}, .port = 8};
	uint32_t job = rig.job, epoch = rig.epoch;
	assert_int_equal(dropped(partial(below, 0, 0, 1, 1, false)), FAN_DROP_FORMAT);
	assert_int_equal(dropped(partial(below, 0, 0x10, 1, 1, false)), FAN_DROP_FORMAT);
	assert_int_equal(dropped(partial(below, 0, UINT64_MAX, 1, 1, false)), FAN_DROP_FORMAT);
	assert_int_equal(dropped(partial(stranger, 0, 0x1, 1, 1, false)), FAN_DROP_SENDER);
	assert_int_equal(dropped(partial(below, 1000, 0x1, 1, 1, false)), FAN_DROP_AHEAD);
	rig.job = 0x700 | (job & 0xff);
	assert_int_equal(dropped(partial(below, 0, 0x1, 1, 1, false)), FAN_DROP_JOB);
	rig.job = job;
	rig.epoch = epoch + 1;
	assert_int_equal(dropped(partial(below, 0, 0x1, 1, 1, false)), FAN_DROP_EPOCH);
	rig.epoch = epoch;
	for (uint16_t words = 2; words <= 4; words++) /* longer than needed, and empty there */
		assert_int_equal(dropped(partial(below, 0, 0x1, 1, words, false)), FAN_DROP_FORMAT);
	assert_int_equal(partial(below, 0, 0x1, 1, 1, false), FAN_WAIT);
	assert_int_equal(partial(below, 0, 0xe, 2, 1, false), FAN_DONE);
	assert_int_equal(rig_value(0), 3);
}

/* A member of the job, at an address of its own, is not behind the switch below. */
TEST_WITH(server__speaks_only_for_those_behind_it, form, rig_close)
{
	rig_form("b", 2, 0); /* joined directly */
	assert_int_equal(dropped(partial(below, 0, 0x1, 1, 1, false)), FAN_DROP_SENDER);
	assert_int_equal(rig_add(0, 0, 1), FAN_WAIT);
	assert_int_equal(rig_add(1, 0, 2), FAN_DONE);
	assert_int_equal(rig_value(0), 3);
}

TEST_WITH(server__marks_stick, form, rig_close)
{
	assert_int_equal(partial(below, 0, 0x3, 10, 1, true), FAN_WAIT);
	assert_int_equal(partial(below, 0, 0xc, 7, 1, false), FAN_DONE);
	assert_true(rig.got[0].f.flags & FAN_F_ECN);
	assert_int_equal(partial(below, 1, 0xf, 7, 1, false), FAN_DONE);
	assert_false(rig.got[0].f.flags & FAN_F_ECN);
}

/* Reminders: at 2 ms when nothing is known, and then after twice as long each time. */
TEST_WITH(server__reminders, form, rig_close)
{
	uint64_t wait_ns = FAN_REMIND_MIN_NS;
	assert_int_equal(partial(below, 0, 0x3, 10, 1, false), FAN_WAIT);
	for (unsigned i = 0; i < 4; i++, wait_ns *= 2) {
		rig.now_ns += wait_ns - 1000;
		rig_tick();
		assert_int_equal(rig.gots, 0);
		rig.now_ns += 1000;
		rig_tick();
		assert_int_equal(rig.gots, 1);
		assert_int_equal(rig_type(0), FAN_TYPE_FLUSH);
		assert_int_equal(rig.got[0].f.frag, 0);
	}
	assert_int_equal(fan_aggregator_stats(rig.ag)->flushes, 4);
	assert_int_equal(partial(below, 0, 0xc, 7, 1, false), FAN_DONE);
	rig.now_ns += 400 * FAN_MS;
	rig_tick();
	assert_int_equal(rig.gots, 0);
}

/* JOIN of rank 0 from `from` by path number `path`; the WELCOME's. */
static uint8_t join_by(fan_peer from, uint8_t path)
{
	uint8_t body[RIG_BODY];
	struct fan_join m = rig_join_of("a", RANKS);
	size_t bytes = fan_ctl_put(body, &m);
	struct fan_frag f = {.nonce = rig_nonce(0),
			     .type = FAN_TYPE_JOIN,
			     .path = path,
			     .payload = body,
			     .payload_bytes = bytes};
	assert_int_equal(rig_send(from, &f), FAN_CTL);
	assert_int_equal(rig_type(0), FAN_TYPE_WELCOME);
	assert_int_equal(rig.got[0].f.job, rig.job);
	rig.cookie[0] = rig_welcome().cookie;
	return rig.got[0].f.path;
}

/* A member may come by another path, and no JOIN of the past brings it back. */
TEST_WITH(server__members_move, form, rig_close)
{
	int32_t v = 5;
	struct fan_frag f = rig_data(0, 0, &v);
	struct fan_event ev;
	assert_int_equal(dropped(rig_send(rig_peer(0), &f)), FAN_DROP_SENDER);
	assert_int_equal(join_by(rig_peer(0), 0), 0); /* known, but no later path */
	assert_int_equal(dropped(rig_send(rig_peer(0), &f)), FAN_DROP_SENDER);
	assert_int_equal(join_by(rig_peer(0), 1), 1);
	assert_int_equal(dropped(rig_send(rig_peer(0), &f)), FAN_DROP_SENDER);
	assert_int_equal(rig_beat(0, rig_nonce(0), 0, 0), FAN_CTL); /* it hears us there */
	assert_int_equal(rig_send(rig_peer(0), &f), FAN_WAIT);
	assert_int_equal(dropped(partial(below, 1, 0x1, 1, 1, false)), FAN_DROP_SENDER);
	assert_int_equal(partial(below, 0, 0xe, 10, 1, false), FAN_DONE);
	assert_int_equal(rig_value(0), 15);
	assert_int_equal(join_by(rig_peer(9), 1), 1);	  /* twice the same number */
	assert_int_equal(join_by(rig_peer(9), 200), 200); /* below 1, of 8 bits */
	f = rig_data(0, 1, &v);
	assert_int_equal(rig_send(rig_peer(0), &f), FAN_WAIT);
	bool moved = false;
	while (fan_aggregator_event(rig.ag, &ev))
		moved |= ev.kind == FAN_EV_RANK_MOVED && ev.rank == 0;
	assert_true(moved);
}

TEST_WITH(server__envelopes_hold_only_what_ranks_say, form, rig_close)
{
	uint8_t body[FAN_REPORT_BYTES];
	const struct fan_query q = {.index = 0};
	assert_int_equal(dropped(via(0, FAN_TYPE_QUERY, body, fan_ctl_put(body, &q))),
			 FAN_DROP_TYPE);
	uint8_t nothing[FAN_HEAD_BYTES] = {0};
	struct fan_frag f = {.type = FAN_TYPE_RELAY,
			     .relay = {.token = 1},
			     .payload = nothing,
			     .payload_bytes = sizeof nothing};
	assert_int_equal(dropped(rig_send(below, &f)), FAN_DROP_VERSION);
	f.relay.token = 0;
	assert_int_equal(dropped(rig_send(below, &f)), FAN_DROP_FORMAT);
}

/* A switch between knows nothing of runs. */
TEST_WITH(partials__no_runs_behind_a_switch, form, rig_close)
{
	assert_int_equal(welcome_flags("b", 1, 0, FAN_JOIN_NUMBERS | FAN_JOIN_RUNS),
			 FAN_WELCOME_NUMBERS);
}

TEST_WITH(partials__numbers_on_a_route, form, rig_close)
{
	assert_int_equal(welcome_flags("b", 1, 7, FAN_JOIN_NUMBERS), FAN_WELCOME_NUMBERS);
}

/* A switch has one row of numbers for all that it sends of a job, whoever numbers behind it.  It is
 * asked by MISS, without a rank. */
TEST_WITH(partials__switches_are_followed, form, rig_close)
{
	int32_t v = 1;
	struct fan_frag f;
	seq = 700; /* it may begin anywhere */
	assert_int_equal(partial(below, 0, 0xe, 10, 1, false), FAN_WAIT);
	seq = 702;
	assert_int_equal(partial(below, 1, 0x6, 10, 1, false), FAN_WAIT);
	f = rig_data(0, 2, &v);
	f.seq = 703;
	assert_int_equal(rig_send(below, &f), FAN_WAIT);
	assert_int_equal(rig.gots, 0);
	f = (struct fan_frag){
		.frag = 2, .job = rig.job, .epoch = rig.epoch, .sender = 3, .type = FAN_TYPE_PROBE};
	f.seq = 704;
	rig_send(below, &f);
	assert_int_equal(rig_type(0), FAN_TYPE_MISS);
	assert_true(fan_peer_equal(&rig.got[0].peer, &below));
	assert_int_equal(rig.got[0].f.to, 0);
	assert_int_equal(rig.got[0].f.last, 704);
	assert_int_equal(rig.got[0].f.missing, 1 << 3);
	seq = 0;
}

/* A round that three later ones have overtaken is likely held in a slot: switches are reminded of
 * it at once, and again after three more. */
TEST_WITH(partials__overtaken_rounds, form, rig_close)
{
	assert_int_equal(partial(below, 0, 0x3, 10, 1, false), FAN_WAIT);
	for (uint64_t n = 1; n <= 7; n += n == 3 ? 2 : 1) { /* 4 is in the slot of 0 */
		assert_int_equal(partial(below, n, 0xf, 1, 1, false), FAN_DONE);
		bool due = n == 3 || n == 7;
		assert_int_equal(rig.gots, due ? 2 : 1);
		if (!due)
			continue;
		assert_int_equal(rig_type(1), FAN_TYPE_FLUSH);
		assert_int_equal(rig.got[1].f.frag, 0);
	}
	assert_int_equal(partial(below, 0, 0xc, 7, 1, false), FAN_DONE);
	assert_int_equal(rig.gots, 1);
	for (uint64_t n = 9; n <= 11; n++) {
		assert_int_equal(partial(below, n, 0xf, 1, 1, false), FAN_DONE);
		assert_int_equal(rig.gots, 1);
	}
}

/* ---- run ahead: an aggregator of ranks 0 and 1, behind one switch, and 2, behind another ---- */

#define HOME_RANKS 3

static fan_peer hop_of(uint16_t rank)
{
	return (fan_peer){.addr = {5, rank < 2 ? 1 : 2}, .port = 9};
}

/* A control message of the rank, in the envelope of its switch. */
static void send_via(uint16_t rank, unsigned type, const uint8_t *body, size_t bytes)
{
	assert_int_equal(rig_via(hop_of(rank), (uint16_t)(rank + 1),
				 rig_control(type, rank, rig_nonce(rank), NULL, 0), body, bytes),
			 FAN_CTL);
}

static int open_aggregator(void **state)
{
	uint8_t body[RIG_BODY];
	rig_open(state);
	rig.cfg.ahead_max = 16;
	rig_again();
	struct fan_join m = rig_join_of("a", HOME_RANKS);
	m.options = FAN_JOIN_AHEAD;
	for (uint16_t r = 0; r < HOME_RANKS; r++) {
		struct fan_envelope v;
		struct fan_welcome w;
		rig.job = rig.epoch = 0;
		send_via(r, FAN_TYPE_JOIN, body, fan_ctl_put(body, &m));
		struct fan_frag inner = rig_inside(0, hop_of(r), &v);
		rig.job = rig.got[0].f.job;
		rig.epoch = rig.got[0].f.epoch;
		assert_int_equal(fan_ctl_get(&w, &inner), FAN_OK);
		rig.cookie[r] = w.cookie;
	}
	for (uint16_t r = 0; r < HOME_RANKS; r++) {
		const struct fan_beat beat = {.flags = FAN_BEAT_AHEAD, .cookie = rig.cookie[r]};
		send_via(r, FAN_TYPE_BEAT, body, fan_ctl_put(body, &beat));
	}
	assert_int_equal(rig.ag->jobs.job[0].state, FAN_JOB_READY);
	rig_settle();
	return 0;
}

/* A sum of `ranks` that comes from `from`, of the helper `helper`; none: -1. */
static enum fan_verdict sum(uint16_t from, int helper, uint64_t frag, uint64_t ranks, int32_t value)
{
	uint8_t body[12];
	struct fan_frag f = rig_data(1, frag, &value); /* one word of bitmap */
	fan_put64(body, ranks);
	memcpy(body + 8, &value, sizeof value);
	f.type = FAN_TYPE_PARTIAL;
	f.helper = FAN_TAG(helper);
	f.payload = body;
	f.payload_bytes = sizeof body;
	return rig_send(hop_of(from), &f);
}

/* A helper may have contributions of ranks that are elsewhere; a switch that just sums may not. */
TEST_WITH(server_ahead__sum_of_a_helper, open_aggregator, rig_close)
{
	assert_int_equal(sum(0, -1, 0, 7, 12), FAN_DROP); /* 2 is not behind this switch */
	assert_int_equal(sum(0, 2, 0, 7, 12), FAN_DROP);  /* nor is the helper 2 */
	assert_int_equal(sum(0, 9, 0, 7, 12), FAN_DROP);  /* there is no such rank */
	assert_int_equal(fan_aggregator_stats(rig.ag)->drops[FAN_DROP_SENDER], 3);
	assert_int_equal(sum(0, 1, 0, 7, 12), FAN_DONE);
	assert_int_equal(rig_type(0), FAN_TYPE_RESULT);
	assert_int_equal(rig_value(0), 12);
	assert_int_equal(sum(0, 1, 0, 7, 12), FAN_DROP); /* never twice */
	assert_int_equal(sum(2, 2, 1, 3, 4), FAN_WAIT);
	assert_int_equal(sum(0, 1, 1, 6, 4), FAN_ASK); /* 1 is in it twice: 2 is asked */
	assert_int_equal(rig_type(0), FAN_TYPE_NEED);
	assert_int_equal(fan_get64(rig.got[0].f.payload), 4);
}

static enum fan_verdict ask(uint16_t from, unsigned type, uint16_t rank, int helper, uint64_t frag)
{
	struct fan_frag f = rig_control(type, rank, 0, NULL, 0);
	f.frag = frag;
	f.flags = type == FAN_TYPE_PROGRESS ? FAN_F_ASK : 0;
	f.helper = FAN_TAG(helper);
	return rig_send(hop_of(from), &f);
}

TEST_WITH(server_ahead__questions, open_aggregator, rig_close)
{
	assert_int_equal(ask(0, FAN_TYPE_PROBE, 2, -1, 3), FAN_DROP); /* not from there */
	assert_int_equal(ask(0, FAN_TYPE_PROBE, 2, 1, 3), FAN_ASK);   /* but by way of 1 */
	assert_int_equal(rig_type(0), FAN_TYPE_NEED);
	fan_peer hop = hop_of(2);
	assert_true(fan_peer_equal(&rig.got[0].peer, &hop)); /* the answer goes to the asker */
	assert_int_equal(rig.got[0].f.to, FAN_TAG(2));
	assert_int_equal(ask(0, FAN_TYPE_PROBE, 7, 1, 3), FAN_DROP);
	assert_int_equal(ask(0, FAN_TYPE_PROGRESS, 1, -1, 3), FAN_CTL);
	assert_int_equal(rig_type(0), FAN_TYPE_PROGRESS);
	assert_int_equal(rig.got[0].f.to, FAN_TAG(1));
	assert_true(rig.got[0].f.flags & FAN_F_AWAY);
	assert_int_equal(rig.got[0].f.behind, 4); /* nothing of anybody */
	assert_int_equal(ask(2, FAN_TYPE_PROGRESS, 1, -1, 3), FAN_DROP);
}

/* PARTIALs tell how far ranks are. */
TEST_WITH(server_ahead__pace_of_sums, open_aggregator, rig_close)
{
	assert_int_equal(sum(0, 1, 6, 7, 1), FAN_DONE);
	assert_int_equal(sum(0, -1, 8, 3, 1), FAN_WAIT);
	assert_int_equal(ask(0, FAN_TYPE_PROBE, 0, -1, 8), FAN_EARLY);
	assert_int_equal(rig_type(0), FAN_TYPE_PROGRESS);
	assert_int_equal(rig.got[0].f.behind, 2); /* 2 has sent 6, and comes to 7 */
}

/* What a QUERY learns of the ranks of job number `index`, from `first` on. */
static struct fan_rank_stats standing(uint16_t index, uint16_t first)
{
	const fan_peer local = {.addr = {0, UINT64_C(1) << 56}, .port = 5}; /* ::1 */
	struct fan_rank_stats m;
	rig_ask_about(local, FAN_TOPIC_RANKS, index, first);
	assert_int_equal(fan_ctl_get(&m, &rig.got[0].f), FAN_OK);
	return m;
}

/* An aggregator tells of its ranks what the contributions that come to it tell. */
TEST_WITH(server_ahead__how_ranks_stand, open_aggregator, rig_close)
{
	assert_int_equal(sum(0, 1, 6, 7, 1), FAN_DONE);
	assert_int_equal(sum(0, -1, 8, 3, 1), FAN_WAIT);
	assert_int_equal(sum(0, -1, 9, 1, 1), FAN_WAIT);
	struct fan_rank_stats m = standing(0, 1);
	assert_int_equal(m.jobs, 1);
	assert_int_equal(m.ranks, HOME_RANKS);
	assert_int_equal(m.ahead, 1);
	assert_int_equal(m.front, 10);
	assert_int_equal(m.count, 2);
	assert_memory_equal(m.name, "a", 2);
	assert_int_equal(m.rank[0].behind, 1);
	assert_int_equal(m.rank[1].behind, 3);
	m = standing(1, 0);
	assert_int_equal(m.jobs, 1);
	assert_int_equal(m.ranks, 0);
}

UNIT_MAIN
