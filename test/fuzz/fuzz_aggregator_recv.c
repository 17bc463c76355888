/* SPDX-License-Identifier: Apache-2.0 */
/* A switch with two jobs.  The input is a list of what arrives, with right checksums:
 * from members of the first job, from strangers, from the past.  The second job must
 * not notice. */
#include "aggregator.h"
#include "core/wire/run.h"

#define RANKS	4
#define PAYLOAD 64
#define NODES	8 /* 0..3: members; 4, 5: of the second job; 6, 7: strangers */

static void look_at(const struct fan_out *out)
{
	for (unsigned i = 0; i < out->count; i++) {
		const struct fan_out_item *it = &out->item[i];
		uint8_t packet[FAN_PACKET_MAX];
		struct fan_frag f;
		fuzz_look(packet, it, &f);
		FUZZ_CHECK(f.type != FAN_TYPE_REPORT || fan_out_item_bytes(it) <= asked_bytes);
		FUZZ_CHECK(f.topic == FAN_TOPIC_ECHO || it->payload_bytes <= FAN_CTL_BYTES_MAX);
		if (f.type == FAN_TYPE_WELCOME) {
			unsigned n = it->peer.addr[1] == 5 || it->peer.addr[1] == 6;
			struct fan_welcome w;
			f.payload = packet + FAN_HEAD_BYTES;
			FUZZ_CHECK(fan_ctl_get(&w, &f) == FAN_OK);
			cookie[(it->peer.addr[1] - 1) % 256] = w.cookie;
			job[n] = f.job;
			epoch[n] = f.epoch;
		}
		if (f.type == FAN_TYPE_RESULT && f.payload_bytes == 4)
			memcpy(&result, packet + FAN_HEAD_BYTES, 4);
	}
}

/* As a run that nobody has agreed to: those that it stands for, as src/net/shard.c gives them. */
static void give_run(unsigned from, uint8_t *packet, uint8_t more)
{
	uint8_t head[FAN_HEAD_BYTES];
	fuzz_run(packet, more);
	unsigned frags = fan_run_frags(packet, FAN_HEAD_BYTES);
	if (frags == 1)
		give(from, packet, FAN_HEAD_BYTES);
	for (unsigned n = 0; frags > 1 && n < frags; n++) {
		fan_run_take(head, packet, n);
		give(from, head, sizeof head);
	}
}

static struct fan_frag header(unsigned n, uint16_t rank, unsigned type, uint64_t nonce)
{
	return (struct fan_frag){.nonce = nonce,
				 .job = job[n],
				 .epoch = epoch[n],
				 .sender = rank,
				 .type = (uint8_t)type};
}

static void join(unsigned from, char name, uint16_t ranks, uint16_t rank, uint64_t nonce,
		 uint8_t options)
{
	uint8_t body[FAN_CTL_BYTES_MAX];
	struct fan_join m = {.ranks = ranks,
			     .payload_bytes = PAYLOAD,
			     .options = options,
			     .alive_ms = 1000,
			     .name_bytes = 1,
			     .name = {name}};
	struct fan_frag f = header(0, rank, FAN_TYPE_JOIN, nonce);
	send(from, &f, body, fan_ctl_put(body, &m));
}

static void beat(unsigned from, unsigned n, uint16_t rank, uint64_t nonce, uint64_t frag,
		 uint8_t flags)
{
	uint8_t body[FAN_CTL_BYTES_MAX];
	struct fan_beat m = {.flags = flags, .cookie = cookie[from % 256]};
	struct fan_frag f = header(n, rank, FAN_TYPE_BEAT, nonce);
	f.frag = frag;
	send(from, &f, body, fan_ctl_put(body, &m));
}

/* One contribution of the second job. */
static void add(uint16_t rank, uint64_t frag, int32_t value)
{
	struct fan_frag f = {.frag = frag,
			     .job = job[1],
			     .epoch = epoch[1],
			     .sender = rank,
			     .type = FAN_TYPE_DATA,
			     .flags = FAN_F_FIRST | FAN_F_LAST,
			     .count = 1,
			     .dtype = FAN_INT32};
	uint8_t body[4];
	memcpy(body, &value, 4);
	send(4u + rank, &f, body, 4);
}

static void form(uint8_t options)
{
	for (uint16_t r = 0; r < 2; r++)
		join(4u + r, 'b', 2, r, 50u + r, 0);
	for (uint16_t r = 0; r < 2; r++)
		beat(4u + r, 1, r, 50u + r, 0, 0);
	add(0, 0, 1000);
	for (uint16_t r = 0; r < RANKS; r++)
		join(r, 'a', RANKS, r, 1u + r, options);
	for (uint16_t r = 0; r < RANKS; r++)
		beat(r, 0, r, 1u + r, 0, 0);
	tick(2 * FAN_JOBS_MAX);
}

static void fragment(struct fuzz *z, unsigned from, uint16_t rank)
{
	uint8_t body[PAYLOAD * 2];
	struct fan_frag f = {
		.frag = fuzz_frag(z), .job = job[0], .epoch = epoch[0], .sender = rank};
	uint8_t kind = fuzz_8(z);
	f.type = kind & 0x80 ? FAN_TYPE_PROBE : FAN_TYPE_DATA;
	if (kind > 0xe0)
		f.type = kind > 0xf0 ? FAN_TYPE_MISS : FAN_TYPE_PROGRESS;
	f.seq = (uint16_t)f.frag;
	f.missing = f.frag;
	f.op = kind >> 4 & 7;
	f.dtype = kind & 15;
	f.flags = fuzz_flags(z, f.type);
	f.count = fuzz_8(z) % 80;
	f.last = f.count;
	f.exponent = (int16_t)fuzz_8(z);
	f.helper = f.exponent > 240 ? (fan_tag)(f.exponent - 240) : 0;
	size_t bytes = fan_wire_bytes(f.dtype, f.count);
	if (f.type != FAN_TYPE_DATA || f.flags & FAN_F_EMPTY || bytes > sizeof body)
		bytes = 0;
	fuzz_bytes(z, body, bytes);
	uint8_t packet[FAN_PACKET_MAX];
	size_t len = fuzz_put(packet, &f, body, bytes);
	if (f.type == FAN_TYPE_DATA && f.flags & FAN_F_EMPTY && f.exponent > 200)
		give_run(from, packet, (uint8_t)f.exponent % 10);
	else
		give(from, packet, len);
}

static void raw(struct fuzz *z, unsigned from)
{
	uint8_t packet[255];
	size_t len = fuzz_raw(z, packet);
	if (len >= 14 && packet[1] != FAN_TYPE_JOIN)
		fan_put32(packet + 4, job[0]);
	fuzz_fix(packet, len);
	give(from, packet, len);
}

static void echo(struct fuzz *z, unsigned from)
{
	uint8_t body[FAN_PACKET_MAX - FAN_HEAD_BYTES];
	struct fan_echo m = {.body_bytes = fuzz_16(z) % sizeof body};
	struct fan_frag f = header(0, 0, FAN_TYPE_QUERY, 1);
	m.answer_bytes = fuzz_16(z);
	f.topic = FAN_TOPIC_ECHO;
	if (m.body_bytes >= 2)
		send(from, &f, body, fan_ctl_put(body, &m));
}

static void query(struct fuzz *z, unsigned from, uint16_t rank)
{
	uint8_t body[FAN_CTL_BYTES_MAX];
	struct fan_query m = {.index = fuzz_8(z)};
	struct fan_frag f = header(0, rank, FAN_TYPE_QUERY, 1);
	if (m.index >= 0xf0) {
		echo(z, from);
		return;
	}
	f.topic = m.index % 16;
	m.index /= 16;
	m.first = f.topic == FAN_TOPIC_RANKS ? fuzz_8(z) : 0;
	send(from, &f, body, fan_ctl_put(body, &m));
}

static void leave(struct fuzz *z, unsigned from, uint16_t rank)
{
	uint8_t body[FAN_CTL_BYTES_MAX];
	struct fan_leave m = {.err = (int8_t)fuzz_8(z)};
	struct fan_frag f = header(0, rank, FAN_TYPE_LEAVE, 1u + rank);
	m.blamed[0] = fuzz_8(z);
	send(from, &f, body, fan_ctl_put(body, &m));
}

static void step(struct fuzz *z)
{
	static const unsigned from[] = {0, 1, 2, 3, 6, 7, 0, 1};
	uint8_t what = fuzz_8(z);
	unsigned sender = from[what & 7];
	uint16_t rank = what & 64 ? fuzz_8(z) : (uint16_t)(sender % RANKS);
	switch (what >> 3 & 7) {
	case 0:
	case 1: fragment(z, sender, rank); break;
	case 2: raw(z, sender); break;
	case 3: {
		uint64_t frag = fuzz_frag(z);
		beat(sender, 0, rank, 1u + rank, frag, fuzz_8(z));
		break;
	}
	case 4: leave(z, sender, rank); break;
	case 5: {
		static const char names[] = {'a', 'a', 'a', 'c', 'd', 'e'};
		char name = names[fuzz_8(z) % 6];
		uint16_t ranks = (uint16_t)(2 + fuzz_8(z) % 5);
		uint8_t nonce = fuzz_8(z);
		join(sender, name, ranks, rank, nonce, fuzz_8(z));
		break;
	}
	case 6:
		now_ns += (uint64_t)fuzz_16(z) << 12; /* up to a quarter of a second */
		beat(4, 1, 0, 50, 0, 0);
		beat(5, 1, 1, 51, 0, 0);
		tick(2 * FAN_JOBS_MAX);
		break;
	default: query(z, sender, rank); break;
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct fuzz z = {data, size};
	uint8_t first = fuzz_8(&z);
	const struct fan_aggregator_config cfg = {
		.slots = 32,
		.payload_bytes = PAYLOAD,
		.jobs_max = 5,
		.members_max = 20,
		.window_max = 4,
		.shards = 1,
		.group_family = first & 8 ? 4 : 0,
	};
	begin(&cfg);
	form(first & (7 | FAN_JOIN_NUMBERS | FAN_JOIN_QUAD));
	const uint32_t healthy = job[1];
	while (z.left)
		step(&z);
	tick(2 * FAN_JOBS_MAX);
	job[1] = healthy;
	result = 0;
	add(1, 0, 7);
	FUZZ_CHECK(result == 1007);
	check_drops();
	return 0;
}
