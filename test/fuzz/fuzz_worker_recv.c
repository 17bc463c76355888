/* SPDX-License-Identifier: Apache-2.0 */
/* A worker with operations of all kinds in flight.  The input is a list of what the
 * switch, or somebody in its name, sends.  Whatever it is, nothing beyond the tensors is
 * written and the worker's timers stay sane. */
#include "core/wire/run.h"
#include "core/worker/worker.h"
#include "packets.h"

#define PAYLOAD 64
#define WINDOW	8
#define GUARD	64
#define BYTES	2048 /* of one tensor */
#define OPS	11
#define NONCE	9

static _Alignas(64) uint8_t memory[1 << 18];
static uint8_t in[BYTES], out[OPS][GUARD + BYTES + GUARD];
static struct fan_worker *w;
static uint64_t now_ns;
static struct fan_frag sent[64]; /* the last contributions, by fragment */
static uint64_t drops;
static bool ahead; /* and keeps sums for others */
static bool numbers;

static const struct fan_op ops[OPS] = {
	{.op = FAN_SUM, .dtype = FAN_FLOAT32, .wire = FAN_FLOAT32, .mode = FAN_FIXED, .count = 512},
	{.op = FAN_AVG, .dtype = FAN_FLOAT32, .wire = FAN_FLOAT32, .count = 33},
	{.op = FAN_MAX, .dtype = FAN_FLOAT32, .wire = FAN_BFLOAT16, .count = 100},
	{.op = FAN_MIN,
	 .dtype = FAN_FLOAT16,
	 .wire = FAN_FLOAT16,
	 .count = 41,
	 .reduce = true,
	 .root = 1},
	{.op = FAN_BCAST, .dtype = FAN_UINT8, .wire = FAN_UINT8, .count = 300},
	{.op = FAN_BARRIER, .dtype = FAN_UINT8, .wire = FAN_UINT8},
	{.op = FAN_SUM, .dtype = FAN_INT64, .wire = FAN_INT64, .count = 17, .reduce = true},
	{.op = FAN_AVG, .dtype = FAN_FLOAT32, .wire = FAN_FLOAT32, .mode = FAN_FIXED, .count = 0},
	{.op = FAN_AVG, .dtype = FAN_FLOAT64, .wire = FAN_FLOAT64, .count = 17},
	{.op = FAN_SUM, .dtype = FAN_FLOAT32, .wire = FAN_BLOCK8, .count = 133},
	{.op = FAN_AVG, .dtype = FAN_BFLOAT16, .wire = FAN_BLOCK8, .count = 100},
};

static void tick(void)
{
	struct fan_out_item item[16];
	static _Alignas(64) uint8_t scratch[2048];
	struct fan_out o;
	fan_out_init(&o, item, 16, scratch, sizeof scratch);
	for (unsigned n = 0; n == 0 || fan_worker_deadline(w) <= now_ns; n++) {
		FUZZ_CHECK(n < 100 * WINDOW);
		fan_worker_tick(w, now_ns, &o);
		for (unsigned i = 0; i < o.count; i++) {
			uint8_t packet[FAN_PACKET_MAX];
			struct fan_frag f;
			FUZZ_CHECK(item[i].payload_bytes <= FAN_CTL_BYTES_MAX);
			FUZZ_CHECK(fan_wire_get(&f, packet, fuzz_datagram(packet, &item[i])) == -1);
			if (f.type == FAN_TYPE_DATA)
				sent[f.frag % 64] = f;
		}
		fan_out_reset(&o);
		fan_worker_audit(w);
	}
}

static void give(struct fan_frag *f, const uint8_t *body, size_t bytes, bool by_group)
{
	uint8_t packet[FAN_PACKET_MAX];
	size_t len = fuzz_put(packet, f, body, bytes);
	drops += fan_worker_recv(w, now_ns, packet, len, by_group, false) == FAN_DROP;
	fan_worker_audit(w);
}

/* A run that nobody has agreed to: what it stands for, as src/lib/link/connection.c gives it. */
static void give_run(struct fan_frag *f, uint8_t more, bool by_group)
{
	uint8_t packet[FAN_PACKET_MAX], head[FAN_HEAD_BYTES];
	fuzz_put(packet, f, packet, 0);
	fuzz_run(packet, more);
	unsigned frags = fan_run_frags(packet, FAN_HEAD_BYTES);
	for (unsigned n = 0; n < frags; n++) {
		const uint8_t *pkt = frags > 1 ? head : packet;
		if (frags > 1)
			fan_run_take(head, packet, n);
		drops += fan_worker_recv(w, now_ns, pkt, FAN_HEAD_BYTES, by_group, false) ==
			 FAN_DROP;
		fan_worker_audit(w);
	}
}

static void control(unsigned type, uint64_t nonce, const uint8_t *body, size_t bytes, bool by_group)
{
	struct fan_frag f = {.nonce = nonce,
			     .job = 1,
			     .epoch = 2,
			     .sender = FAN_RANK_NONE,
			     .type = (uint8_t)type};
	give(&f, body, bytes, by_group);
}

static void welcome(unsigned window)
{
	uint8_t body[FAN_CTL_BYTES_MAX];
	struct fan_welcome m = {
		.window = (uint16_t)window, .shards = 1, .beat_ms = 125, .alive_ms = 1000};
	m.burst = ahead ? m.window / 2 : 0;
	m.flags = FAN_WELCOME_QUAD | (numbers ? FAN_WELCOME_NUMBERS : 0);
	control(FAN_TYPE_WELCOME, NONCE, body, fan_ctl_put(body, &m), false);
}

static void state(uint8_t job_state, int8_t err, uint64_t frag, bool by_group)
{
	uint8_t body[FAN_CTL_BYTES_MAX];
	struct fan_state m = {.frag = frag, .state = job_state, .err = err, .missing = {frag}};
	control(FAN_TYPE_STATE, NONCE, body, fan_ctl_put(body, &m), by_group);
}

/* A result that fits what was sent, but for what the input changes. */
static void answer(struct fuzz *z)
{
	uint8_t body[4 * PAYLOAD];
	uint8_t change = fuzz_8(z);
	struct fan_frag f = sent[fuzz_frag(z) % 64];
	f.type = FAN_TYPE_RESULT;
	f.sender = FAN_RANK_NONE;
	f.seq = change & 1 ? fuzz_16(z) : UINT16_MAX;
	f.flags &= FAN_F_FIRST | FAN_F_LAST | FAN_F_REDUCE;
	if (change & 2)
		f.flags ^= fuzz_flags(z, f.type);
	if (change & 4)
		f.count = fuzz_8(z);
	if (change & 8)
		f.frag += (uint64_t)(int64_t)(int8_t)fuzz_8(z);
	if (change & 16)
		f.exponent = (int16_t)fuzz_16(z);
	if (change & 32)
		f.dtype = fuzz_8(z) % FAN_DTYPE_COUNT;
	if (change & 128)
		f.to = fuzz_tag(z);
	size_t bytes = fan_wire_bytes(f.dtype, f.count);
	if (f.flags & FAN_F_EMPTY || bytes > sizeof body)
		bytes = 0;
	fuzz_bytes(z, body, bytes);
	uint8_t more = f.flags & FAN_F_EMPTY ? fuzz_8(z) : 0;
	if (more >= 128)
		give_run(&f, more % 10, change & 64);
	else
		give(&f, body, bytes, change & 64);
}

/* Something to keep for others, or about that. */
static void lend(struct fuzz *z)
{
	static const uint8_t types[] = {FAN_TYPE_DATA, FAN_TYPE_PARTIAL, FAN_TYPE_PROBE,
					FAN_TYPE_PROGRESS, FAN_TYPE_FLUSH};
	uint8_t body[256], kind = fuzz_8(z);
	struct fan_frag f = {.frag = fuzz_frag(z), .job = 1, .epoch = 2, .type = types[kind % 5]};
	f.flags = fuzz_flags(z, f.type);
	f.sender = f.type == FAN_TYPE_FLUSH ? FAN_RANK_NONE : kind >> 2 & 3;
	if (f.type == FAN_TYPE_PROGRESS && !(f.flags & FAN_F_ASK))
		f.sender = FAN_RANK_NONE;
	f.op = kind >> 4 & 3;
	f.dtype = FAN_INT32;
	f.count = fuzz_8(z) % 20;
	f.last = f.behind = f.count;
	f.helper = fuzz_tag(z);
	f.to = f.helper;
	size_t bytes = 0;
	if (f.type == FAN_TYPE_PARTIAL) {
		f.root = fuzz_tag(z);
		bytes = fuzz_bitmap(z, body, 1);
	}
	size_t elements = f.flags & FAN_F_EMPTY || f.type > FAN_TYPE_RESULT ? 0 : f.count * 4u;
	fuzz_bytes(z, body + bytes, elements);
	give(&f, body, bytes + elements, false);
}

/* What this rank has sent is missing there. */
static void ask(struct fuzz *z, uint8_t what)
{
	uint8_t body[FAN_BITMAP_MAX];
	struct fan_frag f = {.frag = fuzz_frag(z),
			     .job = 1,
			     .epoch = 2,
			     .sender = FAN_RANK_NONE,
			     .type = what & 16 ? FAN_TYPE_MISS : FAN_TYPE_NEED,
			     .last = what >> 5};
	f.missing = f.frag;
	f.words = what & 32 ? 1 : 0;
	f.to = what & 64 ? fuzz_tag(z) : 0;
	size_t bytes = f.type == FAN_TYPE_NEED ? fuzz_bitmap(z, body, f.words) : 0;
	give(&f, body, bytes, false);
}

static void any_state(struct fuzz *z, bool by_group)
{
	uint8_t job_state = fuzz_8(z) % 6;
	int8_t err = (int8_t)fuzz_8(z);
	state(job_state, err, fuzz_frag(z), by_group);
}

static void any_control(struct fuzz *z, bool by_group)
{
	unsigned type = FAN_TYPE_CTL + fuzz_8(z) % 10u;
	uint64_t nonce = fuzz_frag(z);
	control(type, nonce, in, fuzz_8(z) % 64u, by_group);
}

static void step(struct fuzz *z)
{
	uint8_t what = fuzz_8(z);
	switch (what & 7) {
	case 0:
	case 1:
	case 2: answer(z); break;
	case 3:
		if (ahead && what & 8)
			lend(z);
		else
			ask(z, what);
		break;
	case 4: {
		uint8_t packet[255];
		size_t len = fuzz_8(z);
		fuzz_bytes(z, packet, len);
		fuzz_fix(packet, len);
		drops += fan_worker_recv(w, now_ns, packet, len, what & 8, what & 16) == FAN_DROP;
		break;
	}
	case 5: now_ns += (uint64_t)fuzz_16(z) << 10; break;
	case 6:
		if (what & 8)
			any_state(z, what & 16);
		else
			state(FAN_JOB_READY, 0, fuzz_frag(z), what & 16);
		break;
	default:
		if (what & 8)
			welcome(fuzz_8(z));
		else if (what & 16)
			fan_worker_leave(w, now_ns, FAN_OK, NULL);
		else
			any_control(z, what & 32);
	}
	if (what & 128)
		tick();
}

/* What a life of a worker begins as. */
#define JOINING 0xf0
#define FORMING 0xf1

static void begin(uint8_t first)
{
	const bool wide = first & 1, quad = first & 2;
	const struct fan_worker_config cfg = {
		.name = "a",
		.rank = 1,
		.ranks = 3,
		.payload_bytes = PAYLOAD,
		.window_max = WINDOW,
		.options = (uint8_t)((wide ? FAN_JOIN_WIDE : 0) | (quad ? FAN_JOIN_QUAD : 0) |
				     (ahead ? FAN_JOIN_AHEAD : 0)),
		.cache_frags = ahead ? 4 : 0,
		.alive_ms = 1000,
		.join_ms = 5000,
		.stall_ms = 3000,
		.nonce = NONCE,
	};
	FUZZ_CHECK(fan_worker_bytes(&cfg) > 0 && fan_worker_bytes(&cfg) <= sizeof memory);
	now_ns = FAN_MS;
	drops = 0;
	memset(out, 0xa5, sizeof out);
	memset(sent, 0, sizeof sent);
	w = fan_worker_init(memory, &cfg, now_ns);
	for (unsigned i = 0; i < OPS; i++) {
		struct fan_op op = ops[i];
		uint64_t id;
		op.in = in;
		op.out = out[i] + GUARD;
		FUZZ_CHECK(fan_worker_start(w, now_ns, &op, &id) == FAN_OK);
	}
	tick();
	if (first == JOINING)
		return;
	welcome(WINDOW);
	tick();
	if (first == FORMING)
		return;
	state(FAN_JOB_READY, 0, 0, false);
	tick();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct fuzz z = {data, size};
	ahead = size % 2;
	numbers = size % 4 > 1;
	begin(fuzz_8(&z));
	while (z.left)
		step(&z);
	tick();
	for (unsigned i = 0; i < OPS; i++) {
		size_t bytes = ops[i].count * fan_dtype_bytes(ops[i].dtype);
		for (size_t k = 0; k < sizeof out[i]; k++)
			FUZZ_CHECK((k >= GUARD && k < GUARD + bytes) || out[i][k] == 0xa5);
	}
	uint64_t counted = 0;
	for (unsigned i = 0; i < FAN_DROP_COUNT; i++)
		counted += fan_worker_stats(w)->drops[i];
	FUZZ_CHECK(counted == drops);
	return 0;
}
