/* SPDX-License-Identifier: Apache-2.0 */
/* The home of ranks behind shared switches.  The input is a list of partial sums, envelopes
 * and fragments with right checksums, from two switches below, a rank and a stranger.
 * Whatever comes: what leaves is well formed, drops are counted, bounds hold, and a job
 * beside it, behind a switch of its own, gets its sum. */
#include "core/switch_priv.h"
#include "packets.h"

#define NODES                                                                                      \
	4 /* 0, 1: switches below; 2: a rank of its own; 3: a stranger; 4: of the job beside */
#define SECRET UINT64_C(0x5eed123456789a00) /* nonces of the job beside */
#define RANKS  5 /* 0, 1 behind switch 0; 2, 3 behind switch 1; 4 is node 2 */

static _Alignas(64) uint8_t memory[1 << 20];
static struct fan_switch *sw;
static uint64_t now_ns, dropped;
static uint32_t job[2], epoch[2]; /* the job that is attacked, and the one beside it */
static int32_t result;

static fan_peer node(unsigned i)
{
	return (fan_peer){.addr = {7, i + 1}, .port = 1};
}

static void look_at(const struct fan_out *out)
{
	uint8_t packet[FAN_PACKET_MAX];
	for (unsigned i = 0; i < out->count; i++) {
		const struct fan_out_item *it = &out->item[i];
		struct fan_frag f;
		struct fan_via v;
		fuzz_look(packet, it, &f);
		FUZZ_CHECK(it->dest != FAN_TO_PEER || !fan_peer_token(&it->peer));
		if (f.type == FAN_TYPE_RESULT && f.job == job[1] && f.payload_bytes == 4)
			memcpy(&result, packet + FAN_HEAD_BYTES, 4);
		if (f.type != FAN_TYPE_VIA)
			continue;
		FUZZ_CHECK(fan_via_get(&v, &f) == FAN_OK);
		if (v.inner[1] == FAN_TYPE_WELCOME && v.token >= 40) {
			job[1] = f.job;
			epoch[1] = f.epoch;
		} else if (v.inner[1] == FAN_TYPE_WELCOME && !job[0]) {
			job[0] = f.job;
			epoch[0] = f.epoch;
		}
	}
}

static void give(unsigned from, const uint8_t *packet, size_t len)
{
	struct fan_out_item item[FAN_SWITCH_OUT_MAX];
	uint8_t scratch[FAN_SWITCH_OUT_MAX * 256];
	struct fan_out out;
	fan_out_init(&out, item, FAN_SWITCH_OUT_MAX, scratch, sizeof scratch);
	dropped +=
		fan_switch_recv(sw, now_ns, node(from), packet, len, now_ns & 1, &out) == FAN_DROP;
	look_at(&out);
}

static void send(unsigned from, struct fan_frag *f, const uint8_t *body, size_t bytes)
{
	uint8_t packet[2048];
	give(from, packet, fuzz_put(packet, f, body, bytes));
}

/* A control message of rank `rank`; in an envelope if `token`. */
static void control(unsigned from, uint16_t token, struct fan_frag *h, const uint8_t *body,
		    size_t bytes)
{
	uint8_t packet[512];
	const struct fan_via v = {.token = token, .hops = 1};
	give(from, packet, fuzz_put_control(packet, h, body, bytes, &v, 0, 0));
}

static void join(unsigned from, uint16_t token, char name, uint16_t ranks, uint16_t rank,
		 uint64_t nonce, uint8_t way)
{
	uint8_t body[FAN_CTL_BYTES_MAX];
	const struct fan_join m = {.ranks = ranks,
				   .payload_bytes = 64,
				   .alive_ms = 600000,
				   .name_bytes = 1,
				   .name = {name}};
	struct fan_frag h = {.frag = nonce, .sender = rank, .type = FAN_TYPE_JOIN, .priority = way};
	control(from, token, &h, body, fan_join_put(body, &m));
}

static void beat(unsigned from, uint16_t token, unsigned n, uint16_t rank, uint64_t nonce)
{
	uint8_t body[FAN_CTL_BYTES_MAX];
	const struct fan_beat m = {.nonce = nonce};
	struct fan_frag h = {
		.job = job[n], .epoch = epoch[n], .sender = rank, .type = FAN_TYPE_BEAT};
	control(from, token, &h, body, fan_beat_put(body, &m));
}

/* A PARTIAL of one int32. */
static void partial(unsigned from, unsigned n, uint64_t frag, uint64_t ranks, int32_t value)
{
	uint8_t body[12];
	struct fan_frag f = {.frag = frag,
			     .job = job[n],
			     .epoch = epoch[n],
			     .sender = 1,
			     .type = FAN_TYPE_DATA,
			     .flags = FAN_F_FIRST | FAN_F_LAST | FAN_F_PARTIAL,
			     .count = 1,
			     .dtype = FAN_INT32};
	fan_put64(body, ranks);
	fan_put32(body + 8, (uint32_t)value);
	send(from, &f, body, sizeof body);
}

static unsigned home_of(uint16_t rank)
{
	return rank / 2;
}

static void form(void)
{
	job[0] = job[1] = 0;
	for (uint16_t r = 0; r < 2; r++)
		join(NODES, 40 + r, 'b', 2, r, SECRET + r, 0);
	for (uint16_t r = 0; r < 2; r++)
		beat(NODES, 40 + r, 1, r, SECRET + r);
	partial(NODES, 1, 0, 1, 1000);
	for (uint16_t r = 0; r < RANKS; r++)
		join(home_of(r), r < 4 ? 1 + r : 0, 'a', RANKS, r, 1u + r, 0);
	for (uint16_t r = 0; r < RANKS; r++)
		beat(home_of(r), r < 4 ? 1 + r : 0, 0, r, 1u + r);
}

static void fragment(struct fuzz *z, unsigned from)
{
	static const uint8_t types[] = {FAN_TYPE_DATA, FAN_TYPE_DATA, FAN_TYPE_PROBE,
					FAN_TYPE_FLUSH};
	uint8_t body[512], kind = fuzz_8(z);
	struct fan_frag f = {.frag = fuzz_frag(z), .job = job[0], .epoch = epoch[0]};
	f.type = types[kind & 3];
	f.sender = fuzz_8(z) % 8;
	send(from, &f, body, fuzz_part(z, &f, kind, body));
}

static void raw(struct fuzz *z, unsigned from)
{
	uint8_t packet[255];
	give(from, packet, fuzz_raw(z, packet));
}

/* An envelope with whatever inside. */
static void envelope(struct fuzz *z, unsigned from)
{
	uint8_t inner[FAN_CTL_BYTES_MAX];
	size_t len = fuzz_8(z) % sizeof inner;
	struct fan_frag f = {.sender = fuzz_8(z) % 8,
			     .frag = fuzz_frag(z),
			     .type = FAN_TYPE_VIA,
			     .flags = FAN_F_SUMMED,
			     .priority = fuzz_8(z) % 10};
	fuzz_bytes(z, inner, len);
	fuzz_fix(inner, len);
	f.count = (uint16_t)len;
	send(from, &f, inner, len);
}

static void tick(void)
{
	struct fan_out_item item[FAN_SWITCH_OUT_MAX];
	uint8_t scratch[FAN_SWITCH_OUT_MAX * 256];
	struct fan_out out;
	fan_out_init(&out, item, FAN_SWITCH_OUT_MAX, scratch, sizeof scratch);
	for (unsigned i = 0; fan_switch_deadline(sw) <= now_ns; i++) {
		FUZZ_CHECK(i < 4 * FAN_JOBS_MAX);
		fan_switch_tick(sw, now_ns, &out);
		look_at(&out);
		fan_out_reset(&out);
	}
}

static void step(struct fuzz *z)
{
	uint8_t what = fuzz_8(z);
	unsigned from = what & 3;
	uint16_t rank = (uint16_t)(fuzz_8(z) % (RANKS + 1)), token = fuzz_8(z) % 6;
	switch (what >> 2 & 7) {
	case 0: raw(z, from); break;
	case 1: envelope(z, from); break;
	case 2: join(from, token, 'a', RANKS, rank, 1u + rank, fuzz_8(z)); break;
	case 3: beat(from, token, 0, rank, 1u + rank); break;
	case 4: partial(from, 0, fuzz_frag(z), fuzz_8(z), 7); break;
	case 5:
		now_ns += (uint64_t)fuzz_16(z) << 10; /* up to 67 ms */
		tick();
		break;
	default: fragment(z, from); break;
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct fuzz z = {data, size};
	const struct fan_switch_config cfg = {
		.slots = 32,
		.payload_bytes = 64,
		.jobs_max = 4,
		.members_max = 20,
		.window_max = 4,
		.shards = 1,
		.no_reminders = fuzz_8(&z) & 1,
	};
	now_ns = FAN_MS;
	dropped = 0;
	if (fan_switch_bytes(&cfg) > sizeof memory)
		abort();
	sw = fan_switch_init(memory, &cfg);
	form();
	while (z.left && now_ns < 60000 * FAN_MS)
		step(&z);
	result = 0;
	partial(NODES, 1, 0, 2, 7);
	FUZZ_CHECK(result == 1007);
	uint64_t counted = 0;
	for (unsigned i = 0; i < FAN_DROP_COUNT; i++)
		counted += fan_switch_stats(sw)->drops[i];
	FUZZ_CHECK(counted == dropped);
	return 0;
}
