/* SPDX-License-Identifier: Apache-2.0 */
/* aggregator_rig.h - one switch and the packets of hand-made workers, for unit tests.
 *
 * What the switch answers stands decoded in rig.got until the next packet. */
#ifndef TEST_UNIT_CORE_RIG_H
#define TEST_UNIT_CORE_RIG_H

#include "core/aggregator/aggregator_priv.h"
#include "core/wire/envelope.h"
#include "unit/unit.h"

#define RIG_PAYLOAD 64
#define RIG_BODY    FAN_ECHO_MAX /* the longest of all bodies */

struct rig_got {
	enum fan_dest dest;
	uint16_t first; /* FAN_TO_GROUP */
	fan_peer peer;
	struct fan_frag f;
	uint8_t payload[RIG_PAYLOAD > RIG_BODY ? RIG_PAYLOAD : RIG_BODY];
};

static struct rig {
	struct fan_aggregator_config cfg;
	struct fan_aggregator *ag;
	uint64_t now_ns;
	bool at_once;			/* no time passes between control messages */
	unsigned life;			/* of each rank, of which each is in one job */
	uint32_t job, epoch;		/* of the last WELCOME */
	uint64_t cookie[FAN_RANKS_MAX]; /* by rank: of its last WELCOME */
	uint16_t window;
	uint8_t flags; /* of the BEATs */
	bool marked;   /* datagrams meet congestion */
	struct rig_got got[FAN_AGGREGATOR_OUT_MAX];
	unsigned gots;
	void *mem;
} rig;

static inline fan_peer rig_peer(unsigned rank)
{
	return (fan_peer){.addr = {1, rank + 1}, .port = 9};
}

static inline uint64_t rig_nonce(unsigned rank)
{
	return 1000 * (rig.life + 1) + rank;
}

static inline int rig_open(void **state __attribute__((unused)))
{
	free(rig.mem); /* of a test that gave up, or opened again */
	memset(&rig, 0, sizeof rig);
	rig.cfg = (struct fan_aggregator_config){
		.slots = 64,
		.payload_bytes = RIG_PAYLOAD,
		.jobs_max = 4,
		.members_max = 32,
		.window_max = 4,
		.shards = 1,
		.secret = {{70, 0}},
	};
	rig.mem = aligned_alloc(64, 1 << 20);
	assert_in_range(fan_aggregator_bytes(&rig.cfg), 1, 1 << 20);
	memset(rig.mem, 0xee, 1 << 20);
	rig.ag = fan_aggregator_init(rig.mem, &rig.cfg);
	rig.now_ns = 5 * FAN_MS;
	return 0;
}

static inline int rig_close(void **state __attribute__((unused)))
{
	free(rig.mem);
	rig.mem = NULL;
	return 0;
}

/* Begin anew with rig.cfg changed. */
static inline void rig_again(void)
{
	rig.ag = fan_aggregator_init(rig.mem, &rig.cfg);
}

static inline void rig_decode(const struct fan_out *out)
{
	rig.gots = out->count;
	for (unsigned i = 0; i < out->count; i++) {
		const struct fan_out_item *it = &out->item[i];
		struct rig_got *g = &rig.got[i];
		uint8_t packet[FAN_HEAD_BYTES + sizeof g->payload];
		g->dest = it->dest;
		g->first = it->first;
		g->peer = it->dest == FAN_TO_PEER ? it->peer : it->group->addr;
		assert_true(it->payload_bytes <= sizeof g->payload);
		fan_out_item_copy(it, packet);
		if (it->payload_bytes)
			memcpy(g->payload, it->payload, it->payload_bytes);
		assert_int_equal(fan_wire_get(&g->f, packet, fan_out_item_bytes(it)), -1);
		g->f.payload = g->payload;
	}
}

static inline enum fan_verdict rig_bytes(fan_peer from, const uint8_t *packet, size_t len)
{
	struct fan_out_item item[FAN_AGGREGATOR_OUT_MAX];
	uint8_t scratch[FAN_AGGREGATOR_OUT_MAX * 256];
	struct fan_out out;
	fan_out_init(&out, item, FAN_AGGREGATOR_OUT_MAX, scratch, sizeof scratch);
	enum fan_verdict v =
		fan_aggregator_recv(rig.ag, rig.now_ns, from, packet, len, rig.marked, &out);
	fan_aggregator_audit(rig.ag);
	rig_decode(&out);
	return v;
}

static inline enum fan_verdict rig_send(fan_peer from, const struct fan_frag *f)
{
	uint8_t packet[FAN_HEAD_BYTES + RIG_BODY + 8]; /* one too long, too */
	if (f->type >= FAN_TYPE_JOIN && !rig.at_once)  /* as often as strangers are answered */
		rig.now_ns += FAN_MS / FAN_STRANGERS_MAX;
	fan_wire_put(packet, f);
	if (f->payload_bytes)
		memcpy(packet + FAN_HEAD_BYTES, f->payload, f->payload_bytes);
	return rig_bytes(from, packet, FAN_HEAD_BYTES + f->payload_bytes);
}

static inline void rig_tick(void)
{
	struct fan_out_item item[FAN_AGGREGATOR_OUT_MAX];
	uint8_t scratch[FAN_AGGREGATOR_OUT_MAX * 256];
	struct fan_out out;
	fan_out_init(&out, item, FAN_AGGREGATOR_OUT_MAX, scratch, sizeof scratch);
	fan_aggregator_tick(rig.ag, rig.now_ns, &out);
	fan_aggregator_audit(rig.ag);
	rig_decode(&out);
}

/* Let time pass, awake: each timer in its turn.  The answers to the last one stand in rig.got. */
static inline void rig_pass(uint64_t ns)
{
	const uint64_t until_ns = rig.now_ns + ns;
	while (fan_aggregator_deadline(rig.ag) < until_ns) {
		const uint64_t at_ns = fan_aggregator_deadline(rig.ag);
		rig.now_ns = at_ns > rig.now_ns ? at_ns : rig.now_ns;
		rig_tick();
	}
	rig.now_ns = until_ns;
	rig_tick();
}

static inline struct fan_join rig_join_of(const char *name, uint16_t ranks)
{
	struct fan_join m = {
		.ranks = ranks,
		.payload_bytes = RIG_PAYLOAD,
		.alive_ms = 1000,
		.name_bytes = (uint8_t)strlen(name),
	};
	memcpy(m.name, name, m.name_bytes);
	return m;
}

/* A control message of `rank`; its header. */
static inline struct fan_frag rig_control(unsigned type, uint16_t rank, uint64_t nonce,
					  const uint8_t *body, size_t bytes)
{
	return (struct fan_frag){
		.nonce = nonce,
		.job = rig.job,
		.epoch = rig.epoch,
		.sender = rank,
		.type = (uint8_t)type,
		.payload = body,
		.payload_bytes = bytes,
	};
}

static inline enum fan_verdict rig_ctl(unsigned type, uint16_t rank, uint64_t nonce,
				       const uint8_t *body, size_t bytes)
{
	struct fan_frag f = rig_control(type, rank, nonce, body, bytes);
	return rig_send(rig_peer(rank), &f);
}

/* The control message `h` in an envelope of the switch `below`, which calls its rank `token`. */
static inline enum fan_verdict rig_via(fan_peer below, uint16_t token, struct fan_frag h,
				       const uint8_t *body, size_t bytes)
{
	uint8_t scratch[1024], packet[1024];
	struct fan_out_item it;
	struct fan_out out;
	const struct fan_envelope v = {.token = token, .hops = 1};
	fan_out_init(&out, &it, 1, scratch, sizeof scratch);
	fan_ctl_finish(&it, &h, body, bytes);
	fan_envelope_put(&it, &out, &v, 0, 0, it.head, it.payload, it.payload_bytes);
	fan_out_item_copy(&it, packet);
	return rig_bytes(below, packet, fan_out_item_bytes(&it));
}

/* What answer `i` says in its envelope, which goes to the switch `below`, and the envelope. */
static inline struct fan_frag rig_inside(unsigned i, fan_peer below, struct fan_envelope *v)
{
	struct fan_frag f;
	assert_true(i < rig.gots && rig.got[i].f.type == FAN_TYPE_RELAY);
	assert_true(fan_peer_equal(&rig.got[i].peer, &below));
	assert_int_equal(fan_envelope_get(v, &rig.got[i].f), FAN_OK);
	assert_int_equal(fan_wire_get(&f, v->inner, v->inner_bytes), -1);
	return f;
}

/* Somebody at `from` who is no rank asks about `topic`. */
static inline void rig_ask_about(fan_peer from, unsigned topic, uint16_t index, uint16_t first)
{
	const struct fan_query q = {.index = index, .first = first};
	uint8_t body[FAN_REPORT_BYTES];
	struct fan_frag f = {.nonce = 7,
			     .sender = FAN_RANK_NONE,
			     .type = FAN_TYPE_QUERY,
			     .topic = (uint8_t)topic,
			     .payload = body,
			     .payload_bytes = fan_ctl_put(body, &q)};
	assert_int_equal(rig_send(from, &f), FAN_CTL);
}

/* A question about `topic`. */
static inline enum fan_verdict rig_query(unsigned topic, uint16_t rank, uint64_t nonce,
					 const uint8_t *body, size_t bytes)
{
	struct fan_frag f = rig_control(FAN_TYPE_QUERY, rank, nonce, body, bytes);
	f.topic = (uint8_t)topic;
	return rig_send(rig_peer(rank), &f);
}

/* The type of the answer number `i`, or 0. */
static inline unsigned rig_type(unsigned i)
{
	return i < rig.gots ? rig.got[i].f.type : 0;
}

static inline enum fan_verdict rig_beat(uint16_t rank, uint64_t nonce, uint64_t frag, uint8_t flags)
{
	uint8_t body[RIG_BODY];
	struct fan_beat m = {.flags = flags, .cookie = rig.cookie[rank]};
	struct fan_frag f = rig_control(FAN_TYPE_BEAT, rank, nonce, body, fan_ctl_put(body, &m));
	f.frag = frag;
	return rig_send(rig_peer(rank), &f);
}

/* Note what the WELCOME to `rank` says.  True: it is a challenge. */
static inline bool rig_welcomed(uint16_t rank)
{
	struct fan_welcome w;
	assert_int_equal(rig_type(0), FAN_TYPE_WELCOME);
	assert_int_equal(fan_ctl_get(&w, &rig.got[0].f), FAN_OK);
	rig.job = rig.got[0].f.job;
	rig.epoch = rig.got[0].f.epoch;
	rig.window = w.window;
	rig.cookie[rank] = w.cookie;
	return fan_job_id_is(rig.job, 0);
}

/* One JOIN as `m` says; the error of the REFUSE, or of its failed job, or FAN_OK. */
static inline int rig_ask(uint16_t rank, uint64_t nonce, const struct fan_join *m)
{
	uint8_t body[RIG_BODY];
	assert_int_equal(rig_ctl(FAN_TYPE_JOIN, rank, nonce, body, fan_ctl_put(body, m)), FAN_CTL);
	assert_int_equal(rig.gots, 1);
	struct fan_refuse no;
	if (rig_type(0) == FAN_TYPE_REFUSE) {
		assert_int_equal(fan_ctl_get(&no, &rig.got[0].f), FAN_OK);
		assert_int_equal(rig.got[0].f.payload_bytes,
				 no.err == FAN_E_LAUNCHES ? 11 + FAN_HOSTS_BYTES : 11);
		return no.err;
	}
	struct fan_state s;
	if (rig_type(0) == FAN_TYPE_STATE) { /* its job has failed */
		assert_int_equal(fan_ctl_get(&s, &rig.got[0].f), FAN_OK);
		return s.err;
	}
	return FAN_OK;
}

/* The same until it is in, as a worker does it: a challenge is answered like any WELCOME. */
static inline int rig_join(uint16_t rank, uint64_t nonce, const struct fan_join *m)
{
	struct fan_state s;
	int e = rig_ask(rank, nonce, m);
	if (e || !rig_welcomed(rank))
		return e;
	assert_int_equal(rig_beat(rank, nonce, 0, 0), FAN_DROP);
	assert_int_equal(rig.gots, 1);
	assert_int_equal(rig_type(0), FAN_TYPE_STATE);
	assert_int_equal(fan_ctl_get(&s, &rig.got[0].f), FAN_OK);
	assert_int_equal(s.state, FAN_JOB_NONE);
	e = rig_ask(rank, nonce, m);
	if (!e)
		assert_false(rig_welcomed(rank));
	return e;
}

static inline enum fan_verdict rig_leave(uint16_t rank, int err)
{
	uint8_t body[RIG_BODY];
	struct fan_leave m = {.err = (int8_t)err};
	return rig_ctl(FAN_TYPE_LEAVE, rank, rig_nonce(rank), body, fan_ctl_put(body, &m));
}

/* What the STATE that is answer `i` says. */
static inline struct fan_state rig_state(unsigned i)
{
	struct fan_state s;
	assert_int_equal(rig_type(i), FAN_TYPE_STATE);
	assert_int_equal(fan_ctl_get(&s, &rig.got[i].f), FAN_OK);
	return s;
}

/* Let it say what it has to say now. */
static inline void rig_settle(void)
{
	while (fan_aggregator_deadline(rig.ag) <= rig.now_ns)
		rig_tick();
}

/* A job of `ranks`, ready. */
static inline void rig_form(const char *name, uint16_t ranks, uint8_t options)
{
	struct fan_join m = rig_join_of(name, ranks);
	m.options = options;
	for (uint16_t r = 0; r < ranks; r++)
		assert_int_equal(rig_join(r, rig_nonce(r), &m), FAN_OK);
	for (uint16_t r = 0; r < ranks; r++)
		assert_int_equal(rig_beat(r, rig_nonce(r), 0, rig.flags), FAN_CTL);
	if (options & FAN_JOIN_GROUP)
		return;
	assert_int_equal(rig_state(0).state, FAN_JOB_READY);
	rig_settle();
}

/* A contribution of one int32. */
static inline struct fan_frag rig_data(uint16_t rank, uint64_t frag, const int32_t *value)
{
	return (struct fan_frag){
		.frag = frag,
		.job = rig.job,
		.epoch = rig.epoch,
		.flags = FAN_F_FIRST | FAN_F_LAST,
		.sender = rank,
		.count = 1,
		.type = FAN_TYPE_DATA,
		.dtype = FAN_INT32,
		.op = FAN_SUM,
		.payload = (const uint8_t *)value,
		.payload_bytes = 4,
	};
}

static inline enum fan_verdict rig_add(uint16_t rank, uint64_t frag, int32_t value)
{
	struct fan_frag f = rig_data(rank, frag, &value);
	return rig_send(rig_peer(rank), &f);
}

static inline struct fan_frag rig_probe_of(uint16_t rank, uint64_t frag)
{
	struct fan_frag f = rig_control(FAN_TYPE_PROBE, rank, 0, NULL, 0);
	f.frag = frag;
	return f;
}

static inline enum fan_verdict rig_probe(uint16_t rank, uint64_t frag)
{
	struct fan_frag f = rig_probe_of(rank, frag);
	f.flags = FAN_F_INSIST;
	return rig_send(rig_peer(rank), &f);
}

/* The value that the RESULT which is answer `i` carries. */
static inline int32_t rig_value(unsigned i)
{
	int32_t v;
	assert_int_equal(rig_type(i), FAN_TYPE_RESULT);
	assert_int_equal(rig.got[i].f.payload_bytes, 4);
	memcpy(&v, rig.got[i].payload, 4);
	return v;
}

/* What was given is dropped, for that reason. */
static inline void rig_refused(enum fan_verdict v, enum fan_drop why)
{
	assert_int_equal(v, FAN_DROP);
	assert_int_equal(rig.ag->last_drop, why);
}

/* What the WELCOME that is the first answer says. */
static inline struct fan_welcome rig_welcome(void)
{
	struct fan_welcome w;
	assert_int_equal(fan_ctl_get(&w, &rig.got[0].f), FAN_OK);
	return w;
}

/* `rank` joins as `m` says, and is let in. */
static inline struct fan_welcome rig_admitted(uint16_t rank, const struct fan_join *m)
{
	assert_int_equal(rig_join(rank, rig_nonce(rank), m), FAN_OK);
	return rig_welcome();
}

static inline uint64_t rig_drops(enum fan_drop why)
{
	return fan_aggregator_stats(rig.ag)->drops[why];
}

#endif
