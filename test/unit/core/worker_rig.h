/* SPDX-License-Identifier: Apache-2.0 */
/* worker_rig.h - one worker, rank 1 of 3, and the packets of a hand-made switch.
 *
 * What the last tick sent stands decoded in rig.got; payloads point to rig.payload. */
#ifndef TEST_UNIT_CORE_WORKER_RIG_H
#define TEST_UNIT_CORE_WORKER_RIG_H

#include "core/worker/worker_priv.h"
#include "unit/unit.h"

#define RIG_OUT	    16
#define RIG_PAYLOAD 64

static struct {
	struct fan_worker_config cfg;
	struct fan_worker *w;
	uint64_t now_ns;
	uint32_t job, epoch;
	struct fan_frag got[RIG_OUT];
	uint8_t payload[RIG_OUT][FAN_CTL_BYTES_MAX];
	unsigned gots;
	bool marked; /* congestion was met by what comes */
	void *mem;
} rig;

/* Begin anew with rig.cfg. */
static inline void rig_again(void)
{
	free(rig.mem);
	size_t bytes = fan_worker_bytes(&rig.cfg);
	assert_true(bytes > 0);
	rig.mem = aligned_alloc(64, (bytes + 63) / 64 * 64);
	memset(rig.mem, 0xee, bytes);
	rig.w = fan_worker_init(rig.mem, &rig.cfg, rig.now_ns);
}

static inline int rig_open(void **state __attribute__((unused)))
{
	free(rig.mem); /* of a test that gave up, or opened again */
	memset(&rig, 0, sizeof rig);
	rig.cfg = (struct fan_worker_config){
		.name = "job",
		.rank = 1,
		.ranks = 3,
		.payload_bytes = RIG_PAYLOAD,
		.window_max = 4,
		.alive_ms = 1000,
		.join_ms = 5000,
		.stall_ms = 2000,
		.nonce = 4711,
	};
	rig.now_ns = 3 * FAN_MS;
	rig.job = 0x100;
	rig.epoch = 9;
	rig_again();
	return 0;
}

static inline int rig_close(void **state __attribute__((unused)))
{
	free(rig.mem);
	rig.mem = NULL;
	return 0;
}

/* Let the worker send; how many packets. */
static inline unsigned rig_tick(void)
{
	struct fan_out_item item[RIG_OUT];
	static _Alignas(64) uint8_t scratch[4096];
	struct fan_out out;
	fan_out_init(&out, item, RIG_OUT, scratch, sizeof scratch);
	fan_worker_tick(rig.w, rig.now_ns, &out);
	fan_worker_audit(rig.w);
	rig.gots = out.count;
	for (unsigned i = 0; i < out.count; i++) {
		uint8_t packet[FAN_HEAD_BYTES + FAN_CTL_BYTES_MAX];
		assert_true(item[i].payload_bytes <= FAN_CTL_BYTES_MAX);
		size_t bytes = fan_out_item_copy(&item[i], packet);
		if (item[i].payload_bytes)
			memcpy(rig.payload[i], item[i].payload, item[i].payload_bytes);
		assert_int_equal(fan_wire_get(&rig.got[i], packet, bytes), -1);
		rig.got[i].payload = rig.payload[i];
	}
	return out.count;
}

/* One packet is sent now, of this type. */
static inline void rig_sends(unsigned type)
{
	assert_int_equal(rig_tick(), 1);
	assert_int_equal(rig.got[0].type, type);
}

/* Let time pass, awake: each control message in its turn.  What else there is to send goes, too. */
static inline void rig_pass(uint64_t ns)
{
	const uint64_t until_ns = rig.now_ns + ns;
	while (rig.w->control_ns < until_ns) {
		if (rig.w->control_ns > rig.now_ns)
			rig.now_ns = rig.w->control_ns;
		rig_tick();
	}
	rig.now_ns = until_ns;
	rig_tick();
}

static inline enum fan_verdict rig_recv(const struct fan_frag *f, bool by_group)
{
	uint8_t packet[FAN_PACKET_MAX];
	fan_wire_put(packet, f);
	if (f->payload_bytes)
		memcpy(packet + FAN_HEAD_BYTES, f->payload, f->payload_bytes);
	return fan_worker_recv(rig.w, rig.now_ns, packet, FAN_HEAD_BYTES + f->payload_bytes,
			       by_group, rig.marked);
}

/* A message of the switch about `frag`. */
static inline struct fan_frag rig_frag(unsigned type, uint64_t frag)
{
	struct fan_frag f = {.frag = frag, .job = rig.job, .epoch = rig.epoch};
	f.sender = FAN_RANK_NONE;
	f.type = (uint8_t)type;
	return f;
}

static inline enum fan_verdict rig_packet(unsigned type, uint64_t nonce, const uint8_t *body,
					  size_t bytes, bool by_group)
{
	struct fan_frag f = rig_frag(type, 0);
	f.nonce = nonce;
	f.payload = body;
	f.payload_bytes = bytes;
	return rig_recv(&f, by_group);
}

static inline enum fan_verdict rig_ctl(unsigned type, uint64_t nonce, const uint8_t *body,
				       size_t bytes)
{
	return rig_packet(type, nonce, body, bytes, false);
}

static inline struct fan_welcome rig_welcome_of(uint16_t window, uint16_t burst, uint8_t flags)
{
	struct fan_welcome m = {.window = window, .burst = burst, .shards = 1, .beat_ms = 125};
	m.alive_ms = 1000;
	m.flags = flags;
	return m;
}

static inline enum fan_verdict rig_welcome(uint64_t nonce, unsigned window)
{
	uint8_t body[FAN_CTL_BYTES_MAX];
	const struct fan_welcome m = rig_welcome_of((uint16_t)window, 0, 0);
	return rig_ctl(FAN_TYPE_WELCOME, nonce, body, fan_ctl_put(body, &m));
}

static inline enum fan_verdict rig_state_about(unsigned state, int err, uint64_t missing,
					       uint64_t frag)
{
	uint8_t body[FAN_CTL_BYTES_MAX];
	struct fan_state m = {.frag = frag,
			      .state = (uint8_t)state,
			      .err = (int8_t)err,
			      .ranks = 3,
			      .missing = {missing}};
	return rig_ctl(FAN_TYPE_STATE, rig.cfg.nonce, body, fan_ctl_put(body, &m));
}

static inline enum fan_verdict rig_state(unsigned state, int err, uint64_t missing)
{
	return rig_state_about(state, err, missing, 0);
}

/* Begin anew with rig.cfg and another window. */
static inline void rig_window(uint16_t window)
{
	rig.cfg.window_max = window;
	rig_again();
}

/* Join as the WELCOME `m` says, and become ready. */
static inline void rig_join_as(const struct fan_welcome *m)
{
	uint8_t body[FAN_CTL_BYTES_MAX];
	rig_tick();
	assert_int_equal(rig_ctl(FAN_TYPE_WELCOME, rig.cfg.nonce, body, fan_ctl_put(body, m)),
			 FAN_CTL);
	rig_tick();
	assert_int_equal(rig_state(FAN_JOB_READY, 0, 0), FAN_CTL);
}

static inline void rig_ready_flags(uint16_t window, uint8_t flags)
{
	const struct fan_welcome m = rig_welcome_of(window, 0, flags);
	rig_join_as(&m);
}

/* Begin anew as one that runs ahead by `window`, with `burst` fragments under way. */
static inline void rig_ahead_flags(uint16_t window, uint16_t burst, uint8_t flags)
{
	const struct fan_welcome m = rig_welcome_of(window, burst, flags);
	rig.cfg.options |= FAN_JOIN_AHEAD;
	rig_window(window);
	rig_join_as(&m);
}

static inline void rig_ahead(uint16_t window, uint16_t burst)
{
	rig_ahead_flags(window, burst, 0);
}

/* The switch says that the contribution of `frag` has come, and the slowest rank is `behind` it. */
static inline enum fan_verdict rig_pace(uint64_t frag, uint16_t behind)
{
	struct fan_frag f = rig_frag(FAN_TYPE_PROGRESS, frag);
	f.behind = behind;
	return rig_recv(&f, false);
}

/* The same, and number what is sent. */
static inline void rig_ready_numbered(uint16_t window)
{
	rig_ready_flags(window, FAN_WELCOME_NUMBERS);
}

/* Join, with a window of 4, and become ready. */
static inline void rig_ready(void)
{
	rig_ready_flags(4, 0);
}

/* Start an operation; its number. */
static inline uint64_t rig_start(const struct fan_op *op)
{
	uint64_t id = 999;
	assert_int_equal(fan_worker_start(rig.w, rig.now_ns, op, &id), FAN_OK);
	return id;
}

static inline struct fan_op rig_op(enum fan_redop op, enum fan_dtype type, uint64_t count,
				   const void *in, void *out)
{
	return (struct fan_op){op, type, .wire = type, .count = count, .in = in, .out = out};
}

static inline struct fan_op rig_barrier(void)
{
	return rig_op(FAN_BARRIER, FAN_UINT8, 0, NULL, NULL);
}

static inline struct fan_op rig_int_sum(const int32_t *in, int32_t *out, uint64_t count)
{
	return rig_op(FAN_SUM, FAN_INT32, count, in, out);
}

static inline struct fan_op rig_fixed_sum(const float *in, float *out, uint64_t count)
{
	struct fan_op op = rig_op(FAN_SUM, FAN_FLOAT32, count, in, out);
	op.mode = FAN_FIXED;
	return op;
}

#endif
