/* SPDX-License-Identifier: Apache-2.0 */
/* Header prediction changes nothing: the same packets, predicted or not, have the same verdicts,
 * answers and sums. */
#include "unit/core/aggregator_rig.h"

#define RANKS 3u
#define STEPS 160u
#define CALM  110u /* steps before what ends the job */
#define RUNS  200u
#define WAIT  (300 * FAN_MS) /* three without a packet are too long for a rank */

/* What a run has seen, a step. */
struct seen {
	enum fan_verdict v;
	unsigned drop, gots, what;
	uint32_t answers; /* a checksum */
};

struct run {
	struct fan_rng rng;
	uint64_t next[RANKS]; /* fragment of each rank */
	uint16_t seq[RANKS];
	unsigned predicted; /* packets that were */
	bool predicts;
	struct seen seen[STEPS];
	struct fan_aggregator_stats stats;
};

/* What is wrong with a step's packet, or comes before it. */
enum what {
	ELSEWHERE,
	FLIPPED,
	CHECK, /* flipped in the checksum */
	SKIPPED,
	REPEATED,
	MARKED,
	SHORT,
	CHANGED, /* with a right checksum; from here on, what may end the job */
	LEAVE,
	STOP,
	PAUSE,
	PAUSES = PAUSE + 5,
	KINDS = 60 /* all others: nothing */
};

static uint32_t answers(void)
{
	uint32_t crc = 0;
	for (unsigned i = 0; i < rig.gots; i++) {
		const struct rig_got *g = &rig.got[i];
		uint8_t head[FAN_HEAD_BYTES];
		fan_wire_put(head, &g->f);
		crc = fan_crc32c(crc, head, sizeof head - 4); /* with its checksum it is constant */
		crc = fan_crc32c(crc, g->payload, g->f.payload_bytes);
	}
	return crc;
}

/* The rank that is behind sends on, in bursts. */
static unsigned rank_of(struct run *r, unsigned last)
{
	unsigned least = 0;
	for (unsigned i = 1; i < RANKS; i++)
		if (r->next[i] < r->next[least])
			least = i;
	return r->next[last] < r->next[least] + rig.window ? last : least;
}

static void before(enum what what, unsigned rank)
{
	if (what >= PAUSE && what < PAUSES)
		rig_pass(WAIT);
	else if (what == LEAVE)
		rig_leave((uint16_t)rank, FAN_OK);
	else if (what == STOP)
		fan_aggregator_stop(rig.ag, rig.now_ns);
}

static void step(struct run *r, unsigned rank, struct seen *s)
{
	const uint64_t drawn = fan_rng_next(&r->rng);
	enum what what = (enum what)(drawn % KINDS);
	if (what >= CHANGED && s < &r->seen[CALM])
		what = KINDS;
	const int32_t value = (int32_t)(100 * rank + r->next[rank]);
	struct fan_frag f = rig_data((uint16_t)rank, r->next[rank] - (what == REPEATED), &value);
	uint8_t packet[FAN_HEAD_BYTES + sizeof value];
	if (r->next[rank])
		f.flags = 0;
	before(what, rank);
	r->seq[rank] = (uint16_t)(r->seq[rank] + 1 + (what == SKIPPED));
	f.seq = r->seq[rank];
	fan_wire_put(packet, &f);
	memcpy(packet + FAN_HEAD_BYTES, &value, sizeof value);
	if (what == FLIPPED || what == CHANGED || what == CHECK)
		packet[what == CHECK ? FAN_HEAD_BYTES - 1 : drawn / KINDS % FAN_HEAD_BYTES] ^=
			(uint8_t)(1u << drawn / 4096 % 8);
	if (what == CHANGED)
		fan_wire_recheck(packet, sizeof packet);
	if (!r->predicts)
		rig.ag->predicted.on = false;
	rig.marked = what == MARKED;
	const struct fan_predicted was = rig.ag->predicted;
	s->v = rig_bytes(rig_peer(what == ELSEWHERE ? rank + 1 : rank), packet,
			 sizeof packet - (what == SHORT));
	r->predicted += was.on && rig.ag->predicted.next.f.frag == was.next.f.frag + 1 &&
			(s->v == FAN_WAIT || s->v == FAN_DONE);
	s->what = what;
	s->drop = s->v == FAN_DROP ? rig.ag->last_drop : 0;
	s->gots = rig.gots;
	s->answers = answers();
	if (s->v == FAN_WAIT || s->v == FAN_DONE) {
		assert_true(rig.ag->jobs.job[0].members[rank].heard_ns == rig.now_ns);
		r->next[rank]++;
	}
	rig.now_ns++;
}

/* STEPS packets after one seed. */
static void play(struct run *r, uint64_t seed, bool predicts)
{
	*r = (struct run){.rng = {seed}, .predicts = predicts};
	rig_open(NULL);
	rig_form("a", RANKS, FAN_JOIN_NUMBERS);
	rig_pass(FAN_STOP_YOUNG_NS);
	for (unsigned i = 0; i < RANKS; i++)
		r->seq[i] = UINT16_MAX;
	for (unsigned i = 0, rank = 0; i < STEPS; i++) {
		rank = rank_of(r, rank);
		step(r, rank, &r->seen[i]);
	}
	r->stats = *fan_aggregator_stats(rig.ag);
}

TEST_WITH(predict__changes_nothing, rig_open, rig_close)
{
	struct fan_rng rng = test_rng();
	unsigned predicted = 0;
	for (unsigned n = 0; n < RUNS; n++) {
		static struct run with, without;
		const uint64_t seed = fan_rng_next(&rng);
		play(&with, seed, true);
		play(&without, seed, false);
		for (unsigned i = 0; i < STEPS; i++) {
			const struct seen *a = &with.seen[i], *b = &without.seen[i];
			if (memcmp(a, b, sizeof *a) != 0)
				fail_msg(
					"run %u, step %u, kind %u: verdict %d, drop %u; else %d, %u",
					n, i, a->what, a->v, a->drop, b->v, b->drop);
		}
		assert_memory_equal(&with.stats, &without.stats, sizeof with.stats);
		assert_int_equal(without.predicted, 0);
		predicted += with.predicted;
	}
	assert_in_range(predicted, RUNS * STEPS / 8, RUNS * STEPS);
}

/* Contribution `frag` of rank `rank`, with that number. */
static enum fan_verdict add(uint16_t rank, uint64_t frag, unsigned op)
{
	const int32_t value = 1;
	struct fan_frag f = rig_data(rank, frag, &value);
	f.op = (uint8_t)op;
	f.flags = 0;
	f.seq = (uint16_t)frag;
	return rig_send(rig_peer(rank), &f);
}

/* A predicted contribution may end the job; the one behind it comes to none. */
TEST_WITH(predict__not_after_a_failure, rig_open, rig_close)
{
	rig_form("a", 2, FAN_JOIN_NUMBERS);
	assert_int_equal(add(1, 0, FAN_SUM), FAN_WAIT);
	assert_int_equal(add(1, 1, FAN_MAX), FAN_WAIT);
	assert_int_equal(add(0, 0, FAN_SUM), FAN_DONE);
	assert_true(rig.ag->predicted.on);
	assert_int_equal(add(0, 1, FAN_SUM), FAN_FAIL);
	rig_refused(add(0, 2, FAN_SUM), FAN_DROP_STATE);
}

/* Whatever else fails the job: its uplink may while a contribution is handled. */
TEST_WITH(predict__not_after_another_failure, rig_open, rig_close)
{
	const struct fan_job_fault fault = {.err = FAN_E_STALLED};
	struct fan_out_item item[FAN_AGGREGATOR_OUT_MAX];
	uint8_t scratch[FAN_AGGREGATOR_OUT_MAX * 256];
	struct fan_out out;
	rig_form("a", 2, FAN_JOIN_NUMBERS);
	assert_int_equal(add(0, 0, FAN_SUM), FAN_WAIT);
	assert_true(rig.ag->predicted.on);
	fan_out_init(&out, item, FAN_AGGREGATOR_OUT_MAX, scratch, sizeof scratch);
	fan_control_fail(rig.ag, &rig.ag->jobs.job[0], &fault, &out);
	rig_refused(add(0, 1, FAN_SUM), FAN_DROP_STATE);
}

/* The other rank has fallen silent meanwhile. */
TEST_WITH(predict__not_after_a_timer, rig_open, rig_close)
{
	rig_form("a", 2, FAN_JOIN_NUMBERS);
	for (unsigned i = 0; i < 4; i++) {
		assert_int_equal(add(0, i, FAN_SUM), FAN_WAIT);
		assert_true(rig.ag->predicted.on);
		rig_pass(330 * FAN_MS);
	}
	assert_int_equal(rig.ag->jobs.job[0].state, FAN_JOB_FAILED);
	rig_refused(add(0, 4, FAN_SUM), FAN_DROP_STATE);
}

UNIT_MAIN
