/* SPDX-License-Identifier: Apache-2.0 */
/* switch_rig.h - one switch, hand-made workers below and an aggregator above.
 *
 * What the switch sends stands decoded in bed.got until the next packet. */
#ifndef TEST_UNIT_CORE_SWITCH_RIG_H
#define TEST_UNIT_CORE_SWITCH_RIG_H

#include "core/switch/switch_priv.h"
#include "unit/unit.h"

#define BED_RANKS  4
#define BED_WINDOW 8
#define BED_EPOCH  5

struct bed_got {
	enum fan_dest dest;
	fan_peer peer;
	const struct fan_group *group;
	struct fan_frag f;
	uint8_t bytes[512];
	size_t len;
};

static struct bed {
	_Alignas(64) uint8_t memory[2 << 20];
	struct fan_switch_config cfg;
	struct fan_switch *sw;
	uint64_t now_ns;
	uint16_t window;		   /* of its jobs */
	bool marked;			   /* packets meet a queue that marks */
	uint8_t beat;			   /* flags of BEATs... */
	struct fan_helper_cache_use cache; /* ...and what they say of caches */
	struct bed_got got[FAN_SWITCH_OUT_MAX];
	unsigned gots;
} bed;

static const fan_peer bed_aggregator = {.addr = {0, 1}, .port = 9};

static inline fan_peer bed_worker(unsigned job, unsigned rank)
{
	return (fan_peer){.addr = {1 + job, rank + 1}, .port = 9};
}

static inline enum fan_verdict bed_give(fan_peer from, struct fan_frag *f, const void *body,
					size_t bytes)
{
	uint8_t packet[512], scratch[FAN_SWITCH_OUT_MAX * 256];
	struct fan_out_item item[FAN_SWITCH_OUT_MAX];
	struct fan_out out;
	fan_out_init(&out, item, FAN_SWITCH_OUT_MAX, scratch, sizeof scratch);
	f->payload = body;
	f->payload_bytes = bytes;
	fan_wire_put(packet, f);
	if (bytes)
		memcpy(packet + FAN_HEAD_BYTES, body, bytes);
	enum fan_verdict v = fan_switch_recv(bed.sw, bed.now_ns, from, packet,
					     FAN_HEAD_BYTES + bytes, bed.marked, &out);
	fan_switch_audit(bed.sw);
	bed.gots = out.count;
	for (unsigned i = 0; i < out.count; i++) {
		struct bed_got *g = &bed.got[i];
		g->dest = item[i].dest;
		g->peer = item[i].peer;
		g->group = item[i].group;
		g->len = fan_out_item_bytes(&item[i]);
		fan_out_item_copy(&item[i], g->bytes);
		assert_int_equal(fan_wire_get(&g->f, g->bytes, g->len), -1);
	}
	return v;
}

static inline uint32_t bed_job(unsigned job)
{
	return 0x100 | job;
}

static inline struct fan_frag bed_frag(unsigned type, uint32_t job, uint16_t sender, uint64_t nonce)
{
	struct fan_frag f = {.nonce = nonce, .job = job, .epoch = BED_EPOCH, .sender = sender};
	f.type = (uint8_t)type;
	return f;
}

/* A BEAT of the rank; its token. */
static inline uint16_t bed_beat(unsigned job, uint16_t rank)
{
	uint8_t body[64];
	const struct fan_beat m = {.flags = bed.beat, .cache = bed.cache};
	size_t bytes = fan_ctl_put(body, &m);
	struct fan_frag f = bed_frag(FAN_TYPE_BEAT, bed_job(job), rank, 1 + rank);
	assert_int_equal(bed_give(bed_worker(job, rank), &f, body, bytes), FAN_CTL);
	assert_int_equal(bed.gots, 1);
	assert_true(fan_peer_equal(&bed.got[0].peer, &bed_aggregator));
	struct fan_envelope v;
	assert_int_equal(bed.got[0].f.type, FAN_TYPE_RELAY);
	assert_int_equal(fan_envelope_get(&v, &bed.got[0].f), FAN_OK);
	assert_int_equal(v.hops, 1);
	return v.token;
}

/* A JOIN of the rank for job `name`; its token. */
static inline uint16_t bed_join(unsigned job, uint16_t rank, const char *name)
{
	uint8_t body[256];
	struct fan_join m = {.ranks = BED_RANKS,
			     .payload_bytes = 64,
			     .alive_ms = 1000,
			     .name_bytes = (uint8_t)strlen(name)};
	struct fan_envelope v;
	memcpy(m.name, name, m.name_bytes);
	size_t bytes = fan_ctl_put(body, &m);
	struct fan_frag f = {.nonce = 1 + rank, .sender = rank, .type = FAN_TYPE_JOIN};
	assert_int_equal(bed_give(bed_worker(job, rank), &f, body, bytes), FAN_CTL);
	assert_int_equal(fan_envelope_get(&v, &bed.got[0].f), FAN_OK);
	return v.token;
}

/* The control message `h` from `from`; in an envelope, of `job` in `epoch`, unless `v` is NULL. */
static inline enum fan_verdict bed_control(fan_peer from, struct fan_frag h, const uint8_t *body,
					   size_t bytes, const struct fan_envelope *v, uint32_t job,
					   uint32_t epoch)
{
	uint8_t scratch[512], packet[512];
	struct fan_out_item item;
	struct fan_out out;
	struct fan_frag f;
	fan_out_init(&out, &item, 1, scratch, sizeof scratch);
	fan_ctl_finish(&item, &h, body, bytes);
	if (v)
		fan_envelope_put(&item, &out, v, job, epoch, item.head, item.payload,
				 item.payload_bytes);
	fan_out_item_copy(&item, packet);
	assert_int_equal(fan_wire_get(&f, packet, fan_out_item_bytes(&item)), -1);
	return bed_give(from, &f, packet + FAN_HEAD_BYTES, item.payload_bytes);
}

/* The aggregator's answer `type` to it, with `body`; `ranks` of the job, or 0: it does not tell. */
static inline enum fan_verdict bed_answer(unsigned job, uint16_t rank, uint16_t token,
					  uint16_t ranks, enum fan_type type, const uint8_t *body,
					  size_t bytes)
{
	const struct fan_envelope v = {.token = token,
				       .rank = rank,
				       .ranks = ranks,
				       .window = bed.window,
				       .payload_bytes = 64};
	return bed_control(bed_aggregator, bed_frag(type, bed_job(job), FAN_RANK_NONE, 1 + rank),
			   body, bytes, &v, bed_job(job), BED_EPOCH);
}

/* Its answer to a BEAT. */
static inline enum fan_verdict bed_state(unsigned job, uint16_t rank, uint16_t token)
{
	uint8_t body[256];
	const struct fan_state m = {.state = FAN_JOB_READY, .ranks = BED_RANKS};
	return bed_answer(job, rank, token, BED_RANKS, FAN_TYPE_STATE, body, fan_ctl_put(body, &m));
}

static inline enum fan_verdict bed_welcome(unsigned job, uint16_t rank, uint16_t token,
					   uint16_t shards)
{
	uint8_t body[256];
	const struct fan_welcome m = {
		.window = BED_WINDOW, .shards = shards, .beat_ms = 100, .alive_ms = 1000};
	return bed_answer(job, rank, token, BED_RANKS, FAN_TYPE_WELCOME, body,
			  fan_ctl_put(body, &m));
}

/* The aggregator has noted that the rank leaves. */
static inline enum fan_verdict bed_left(unsigned job, uint16_t rank, uint16_t token)
{
	uint8_t body[256];
	const struct fan_state m = {
		.state = FAN_JOB_LEFT, .rank_a = FAN_RANK_NONE, .rank_b = FAN_RANK_NONE};
	return bed_answer(job, rank, token, 0, FAN_TYPE_STATE, body, fan_ctl_put(body, &m));
}

/* The rank is behind the switch `below`, which calls it `token`. */
static inline void bed_beat_below(unsigned job, uint16_t rank, fan_peer below, uint16_t token)
{
	uint8_t body[64];
	const struct fan_beat m = {.flags = 0};
	struct fan_envelope v = {.token = token, .hops = 1};
	assert_int_equal(bed_control(below, bed_frag(FAN_TYPE_BEAT, bed_job(job), rank, 1 + rank),
				     body, fan_ctl_put(body, &m), &v, 0, 0),
			 FAN_CTL);
	assert_int_equal(fan_envelope_get(&v, &bed.got[0].f), FAN_OK);
	assert_int_equal(bed_state(job, rank, v.token), FAN_CTL);
}

static inline void bed_form(unsigned job)
{
	for (uint16_t r = 0; r < BED_RANKS; r++) {
		uint16_t token = bed_beat(job, r);
		assert_int_equal(bed_state(job, r, token), FAN_CTL);
		assert_int_equal(bed.got[0].f.type, FAN_TYPE_STATE);
	}
}

static inline void bed_begin(void)
{
	memset(bed.memory, 0xee, sizeof bed.memory);
	assert_in_range(fan_switch_bytes(&bed.cfg), 1, sizeof bed.memory);
	bed.sw = fan_switch_init(bed.memory, &bed.cfg);
	bed.marked = false;
}

static inline int bed_open(void **state __attribute__((unused)))
{
	bed.cfg = (struct fan_switch_config){.policy = FAN_POLICY_ATP,
					     .slots = 1,
					     .payload_bytes = 64,
					     .children_max = 16,
					     .spares = 1,
					     .aggregator = bed_aggregator};
	bed.now_ns = FAN_MS;
	bed.window = BED_WINDOW;
	bed.beat = 0;
	bed_begin();
	bed_form(0);
	bed_form(1);
	return 0;
}

static inline struct fan_frag bed_head(unsigned job, uint16_t rank, uint64_t frag, unsigned type)
{
	return (struct fan_frag){.frag = frag,
				 .job = bed_job(job),
				 .epoch = BED_EPOCH,
				 .sender = rank,
				 .type = (uint8_t)type};
}

static inline enum fan_verdict bed_add(unsigned job, uint16_t rank, uint64_t frag, int32_t value,
				       uint8_t priority, uint16_t flags)
{
	struct fan_frag f = bed_head(job, rank, frag, FAN_TYPE_DATA);
	f.dtype = FAN_INT32;
	f.count = 1;
	f.priority = priority;
	f.flags = (uint16_t)(FAN_F_FIRST | FAN_F_LAST | flags);
	return bed_give(bed_worker(job, rank), &f, &value, sizeof value);
}

static inline enum fan_verdict bed_from_aggregator(unsigned job, uint64_t frag, unsigned type)
{
	struct fan_frag f = bed_head(job, FAN_RANK_NONE, frag, type);
	if (type == FAN_TYPE_RESULT) {
		f.op = FAN_BARRIER;
		f.dtype = FAN_UINT8;
	}
	return bed_give(bed_aggregator, &f, NULL, 0);
}

/* Let time pass, awake: each look at who is silent in its turn. */
static inline void bed_pass(uint64_t ns)
{
	const uint64_t until_ns = bed.now_ns + ns;
	while (fan_switch_deadline(bed.sw) < until_ns) {
		bed.now_ns = fan_switch_deadline(bed.sw);
		fan_switch_tick(bed.sw, bed.now_ns);
	}
	bed.now_ns = until_ns;
	fan_switch_tick(bed.sw, bed.now_ns);
}

/* Answer `i` is a PARTIAL of `ranks` of the fragment, with the sum. */
static inline void bed_is_partial(unsigned i, unsigned job, uint64_t frag, uint64_t ranks,
				  int32_t sum)
{
	struct fan_contribution p;
	int32_t value;
	assert_true(i < bed.gots);
	const struct bed_got *g = &bed.got[i];
	assert_true(fan_peer_equal(&g->peer, &bed_aggregator));
	assert_int_equal(g->f.type, FAN_TYPE_PARTIAL);
	assert_true(g->f.job == bed_job(job) && g->f.frag == frag);
	assert_int_equal(fan_contribution_get(&p, &g->f, BED_RANKS), -1);
	assert_int_equal(p.ranks[0], ranks);
	assert_int_equal(p.bytes, 4);
	memcpy(&value, p.elements, 4);
	assert_int_equal(value, sum);
}

#endif
