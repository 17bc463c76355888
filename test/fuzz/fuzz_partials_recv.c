/* SPDX-License-Identifier: Apache-2.0 */
/* The aggregator of ranks behind switches.  The input is a list of partial sums, envelopes
 * and fragments with right checksums, from two switches below, a rank and a stranger.
 * Whatever comes: what leaves is well formed, drops are counted, bounds hold, and a job
 * beside it, behind a switch of its own, gets its sum. */
#include "aggregator.h"

#define NODES                                                                                      \
	4 /* 0, 1: switches below; 2: a rank of its own; 3: a stranger; 4: of the job beside */
#define SECRET UINT64_C(0x5eed123456789a00) /* nonces of the job beside */
#define RANKS  5 /* 0, 1 behind switch 0; 2, 3 behind switch 1; 4 is node 2 */

static void look_at(const struct fan_out *out)
{
	uint8_t packet[FAN_PACKET_MAX];
	for (unsigned i = 0; i < out->count; i++) {
		const struct fan_out_item *it = &out->item[i];
		struct fan_frag f;
		struct fan_envelope v;
		fuzz_look(packet, it, &f);
		FUZZ_CHECK(it->dest != FAN_TO_PEER || !fan_peer_token(&it->peer));
		if (f.type == FAN_TYPE_RESULT && f.job == job[1] && f.payload_bytes == 4)
			memcpy(&result, packet + FAN_HEAD_BYTES, 4);
		if (f.type != FAN_TYPE_RELAY)
			continue;
		FUZZ_CHECK(fan_envelope_get(&v, &f) == FAN_OK);
		struct fan_frag inner;
		struct fan_welcome w;
		if (v.inner[1] == FAN_TYPE_WELCOME) {
			FUZZ_CHECK(fan_wire_get(&inner, v.inner, v.inner_bytes) == -1);
			FUZZ_CHECK(fan_ctl_get(&w, &inner) == FAN_OK);
			cookie[v.token % 256] = w.cookie;
		}
		if (v.inner[1] == FAN_TYPE_WELCOME && v.token >= 40) {
			job[1] = f.job;
			epoch[1] = f.epoch;
		} else if (v.inner[1] == FAN_TYPE_WELCOME && !job[0]) {
			job[0] = f.job;
			epoch[0] = f.epoch;
		}
	}
}

/* A control message of rank `rank`; in an envelope if `token`. */
static void control(unsigned from, uint16_t token, struct fan_frag *h, const uint8_t *body,
		    size_t bytes)
{
	uint8_t packet[512];
	const struct fan_envelope v = {.token = token, .hops = 1};
	give(from, packet, fuzz_put_control(packet, h, body, bytes, &v, 0, 0));
}

static void join(unsigned from, uint16_t token, char name, uint16_t ranks, uint16_t rank,
		 uint64_t nonce, uint8_t path)
{
	uint8_t body[FAN_CTL_BYTES_MAX];
	const struct fan_join m = {.ranks = ranks,
				   .payload_bytes = 64,
				   .alive_ms = 600000,
				   .name_bytes = 1,
				   .name = {name}};
	struct fan_frag h = {.nonce = nonce, .sender = rank, .type = FAN_TYPE_JOIN, .path = path};
	control(from, token, &h, body, fan_ctl_put(body, &m));
}

static void beat(unsigned from, uint16_t token, unsigned n, uint16_t rank, uint64_t nonce)
{
	uint8_t body[FAN_CTL_BYTES_MAX];
	const struct fan_beat m = {.cookie = cookie[token % 256]};
	struct fan_frag h = {.nonce = nonce,
			     .job = job[n],
			     .epoch = epoch[n],
			     .sender = rank,
			     .type = FAN_TYPE_BEAT};
	control(from, token, &h, body, fan_ctl_put(body, &m));
}

/* A PARTIAL of one int32. */
static void partial(unsigned from, unsigned n, uint64_t frag, uint64_t ranks, int32_t value)
{
	uint8_t body[12];
	struct fan_frag f = {.frag = frag,
			     .job = job[n],
			     .epoch = epoch[n],
			     .type = FAN_TYPE_PARTIAL,
			     .flags = FAN_F_FIRST | FAN_F_LAST,
			     .count = 1,
			     .dtype = FAN_INT32};
	fan_put64(body, ranks);
	fan_put32(body + 8, (uint32_t)value);
	send(from, &f, body, sizeof body);
}

static unsigned aggregator_of(uint16_t rank)
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
		join(aggregator_of(r), r < 4 ? 1 + r : 0, 'a', RANKS, r, 1u + r, 0);
	for (uint16_t r = 0; r < RANKS; r++)
		beat(aggregator_of(r), r < 4 ? 1 + r : 0, 0, r, 1u + r);
}

static void fragment(struct fuzz *z, unsigned from)
{
	static const uint8_t types[] = {FAN_TYPE_DATA, FAN_TYPE_PARTIAL, FAN_TYPE_PROBE,
					FAN_TYPE_FLUSH, FAN_TYPE_PROGRESS};
	uint8_t body[512], kind = fuzz_8(z);
	struct fan_frag f = {.frag = fuzz_frag(z), .job = job[0], .epoch = epoch[0]};
	f.type = types[(kind & 15) % 5];
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
	struct fan_frag f = {
		.sender = FAN_RANK_NONE,
		.type = FAN_TYPE_RELAY,
		.relay = {.token = fuzz_8(z) % 8, .window = 4, .payload_bytes = 64},
	};
	f.relay.ranks = fuzz_8(z) % 8;
	f.relay.hops = fuzz_8(z) % 28;
	f.relay.rank = f.relay.ranks ? fuzz_8(z) % 8 : 0;
	fuzz_bytes(z, inner, len);
	fuzz_fix(inner, len);
	send(from, &f, inner, len);
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
	case 4: {
		uint64_t frag = fuzz_frag(z);
		partial(from, 0, frag, fuzz_8(z), 7);
		break;
	}
	case 5:
		now_ns += (uint64_t)fuzz_16(z) << 10; /* up to 67 ms */
		tick(4 * FAN_JOBS_MAX);
		break;
	default: fragment(z, from); break;
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct fuzz z = {data, size};
	const struct fan_aggregator_config cfg = {
		.slots = 32,
		.payload_bytes = 64,
		.jobs_max = 4,
		.members_max = 20,
		.window_max = 4,
		.shards = 1,
		.no_reminders = fuzz_8(&z) & 1,
	};
	begin(&cfg);
	form();
	while (z.left && now_ns < 60000 * FAN_MS)
		step(&z);
	result = 0;
	partial(NODES, 1, 0, 2, 7);
	FUZZ_CHECK(result == 1007);
	check_drops();
	return 0;
}
