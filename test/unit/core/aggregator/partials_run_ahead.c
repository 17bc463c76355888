/* SPDX-License-Identifier: Apache-2.0 */
/* An aggregator of ranks 0 and 1, behind one switch, and 2, behind another. */
#include "unit/core/aggregator_rig.h"

#include "core/wire/envelope.h"

#define RANKS 3

static fan_peer hop_of(uint16_t rank)
{
	return (fan_peer){.addr = {5, rank < 2 ? 1 : 2}, .port = 9};
}

/* A control message of the rank, in the envelope of its switch. */
static void send_via(uint16_t rank, unsigned type, const uint8_t *body, size_t bytes)
{
	uint8_t scratch[1024];
	struct fan_out_item item;
	struct fan_out out;
	struct fan_frag h = {.nonce = rig_nonce(rank),
			     .job = type == FAN_TYPE_JOIN ? 0 : rig.job,
			     .epoch = type == FAN_TYPE_JOIN ? 0 : rig.epoch,
			     .sender = rank,
			     .type = (uint8_t)type};
	fan_out_init(&out, &item, 1, scratch, sizeof scratch);
	uint8_t copy[FAN_CTL_BYTES_MAX];
	memcpy(copy, body, bytes);
	fan_ctl_finish(&item, &h, copy, bytes);
	const struct fan_envelope v = {.token = (uint16_t)(rank + 1), .hops = 1};
	fan_envelope_put(&item, &out, &v, 0, 0, item.head, item.payload, item.payload_bytes);
	uint8_t packet[1024];
	fan_out_item_copy(&item, packet);
	assert_int_equal(rig_bytes(hop_of(rank), packet, fan_out_item_bytes(&item)), FAN_CTL);
}

static int open_aggregator(void **state)
{
	uint8_t body[RIG_BODY];
	rig_open(state);
	rig.cfg.ahead_max = 16;
	rig_again();
	struct fan_join m = rig_join_of("a", RANKS);
	m.options = FAN_JOIN_AHEAD;
	for (uint16_t r = 0; r < RANKS; r++) {
		send_via(r, FAN_TYPE_JOIN, body, fan_join_put(body, &m));
		assert_int_equal(rig_type(0), FAN_TYPE_RELAY);
		rig.job = rig.got[0].f.job;
		rig.epoch = rig.got[0].f.epoch;
		struct fan_envelope v;
		struct fan_frag inner;
		struct fan_welcome w;
		assert_int_equal(fan_envelope_get(&v, &rig.got[0].f), FAN_OK);
		assert_int_equal(fan_wire_get(&inner, v.inner, v.inner_bytes), -1);
		assert_int_equal(fan_welcome_get(&w, &inner), FAN_OK);
		rig.cookie[r] = w.cookie;
	}
	for (uint16_t r = 0; r < RANKS; r++) {
		const struct fan_beat beat = {.flags = FAN_BEAT_AHEAD, .cookie = rig.cookie[r]};
		send_via(r, FAN_TYPE_BEAT, body, fan_beat_put(body, &beat));
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
static void server_ahead__sum_of_a_helper(void **state)
{
	(void)state;
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
	const struct fan_frag f = {.frag = frag,
				   .job = rig.job,
				   .epoch = rig.epoch,
				   .sender = rank,
				   .flags = type == FAN_TYPE_PROGRESS ? FAN_F_ASK : 0,
				   .helper = FAN_TAG(helper),
				   .type = (uint8_t)type};
	return rig_send(hop_of(from), &f);
}

static void server_ahead__questions(void **state)
{
	(void)state;
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
static void server_ahead__pace_of_sums(void **state)
{
	(void)state;
	assert_int_equal(sum(0, 1, 6, 7, 1), FAN_DONE);
	assert_int_equal(sum(0, -1, 8, 3, 1), FAN_WAIT);
	assert_int_equal(ask(0, FAN_TYPE_PROBE, 0, -1, 8), FAN_EARLY);
	assert_int_equal(rig_type(0), FAN_TYPE_PROGRESS);
	assert_int_equal(rig.got[0].f.behind, 2); /* 2 has sent 6, and comes to 7 */
}

/* An aggregator tells of its ranks what the contributions that come to it tell. */
static void server_ahead__how_ranks_stand(void **state)
{
	(void)state;
	struct fan_rank_stats m = {.index = 0, .first = 1};
	assert_int_equal(sum(0, 1, 6, 7, 1), FAN_DONE);
	assert_int_equal(sum(0, -1, 8, 3, 1), FAN_WAIT);
	assert_int_equal(sum(0, -1, 9, 1, 1), FAN_WAIT);
	fan_aggregator_rank_stats(rig.ag, &m);
	assert_int_equal(m.jobs, 1);
	assert_int_equal(m.ranks, RANKS);
	assert_int_equal(m.ahead, 1);
	assert_int_equal(m.front, 10);
	assert_int_equal(m.count, 2);
	assert_memory_equal(m.name, "a", 2);
	assert_int_equal(m.rank[0].behind, 1);
	assert_int_equal(m.rank[1].behind, 3);
	m = (struct fan_rank_stats){.index = 1};
	fan_aggregator_rank_stats(rig.ag, &m);
	assert_int_equal(m.jobs, 1);
	assert_int_equal(m.ranks, 0);
}

#define HOME_TEST(name) cmocka_unit_test_setup_teardown(name, open_aggregator, rig_close)

int main(void)
{
	const struct CMUnitTest tests[] = {
		HOME_TEST(server_ahead__sum_of_a_helper),
		HOME_TEST(server_ahead__questions),
		HOME_TEST(server_ahead__pace_of_sums),
		HOME_TEST(server_ahead__how_ranks_stand),
	};
	return RUN(tests);
}
