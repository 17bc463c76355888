/* SPDX-License-Identifier: Apache-2.0 */
#include "unit/unit.h"

/* the source itself: the portable checksum is not seen from outside */
#include "core/wire/wire.c"

static struct fan_frag sample(uint8_t *payload, unsigned count)
{
	for (unsigned i = 0; i < 4 * count; i++)
		payload[i] = (uint8_t)(i * 7 + 1);
	return (struct fan_frag){
		.frag = UINT64_C(0x0123456789abcdef),
		.job = 0xa1b2c3d4,
		.epoch = 0x55667788,
		.flags = FAN_F_FIRST | FAN_F_LAST,
		.sender = 0x1234,
		.seq = 0xfedc,
		.helper = FAN_TAG(254),
		.place = 9,
		.count = (uint16_t)count,
		.exponent = -149,
		.type = FAN_TYPE_DATA,
		.dtype = FAN_INT32,
		.op = FAN_MAX,
		.priority = 200,
		.payload = payload,
		.payload_bytes = 4u * count,
	};
}

static size_t encode(uint8_t *packet, const struct fan_frag *f)
{
	fan_wire_put(packet, f);
	if (f->payload_bytes)
		memcpy(packet + FAN_HEAD_BYTES, f->payload, f->payload_bytes);
	return FAN_HEAD_BYTES + f->payload_bytes;
}

TEST(wire__crc_vectors_of_rfc_3720)
{
	uint8_t zeros[32] = {0}, ones[32], up[32], down[32];
	memset(ones, 0xff, sizeof ones);
	for (unsigned i = 0; i < 32; i++) {
		up[i] = (uint8_t)i;
		down[i] = (uint8_t)(31 - i);
	}
	static const uint8_t read10[48] = {0x01,	0xc0,	     [16] = 0x14, [22] = 0x04,
					   [27] = 0x14, [31] = 0x18, [32] = 0x28, [40] = 0x02};
	assert_int_equal(fan_crc32c(0, zeros, 32), 0x8a9136aa);
	assert_int_equal(fan_crc32c(0, ones, 32), 0x62a8ab43);
	assert_int_equal(fan_crc32c(0, up, 32), 0x46dd794e);
	assert_int_equal(fan_crc32c(0, down, 32), 0x113fdb5c);
	assert_int_equal(fan_crc32c(0, read10, 48), 0xd9963a56);
	assert_int_equal(fan_crc32c(0, "123456789", 9), 0xe3069283);
}

TEST(wire__crc_portable_agrees_and_continues)
{
	struct fan_rng r = test_rng();
	uint8_t p[300];
	for (unsigned i = 0; i < sizeof p; i++)
		p[i] = (uint8_t)fan_rng_next(&r);
	for (unsigned len = 0; len < sizeof p; len++) {
		uint32_t whole = fan_crc32c(0, p, len);
		assert_int_equal(whole, ~crc32c_portable(~0u, p, len));
		unsigned cut = (unsigned)fan_rng_below(&r, len + 1);
		assert_int_equal(whole, fan_crc32c(fan_crc32c(0, p, cut), p + cut, len - cut));
	}
}

TEST(wire__round_trip)
{
	uint8_t payload[40], packet[FAN_HEAD_BYTES + 41];
	struct fan_frag f = sample(payload, 10), g;
	for (unsigned offset = 0; offset < 2; offset++) { /* no alignment needed */
		size_t len = encode(packet + offset, &f);
		assert_int_equal(fan_wire_get(&g, packet + offset, len), -1);
		assert_true(g.frag == f.frag && g.job == f.job && g.epoch == f.epoch);
		assert_true(g.flags == f.flags && g.sender == f.sender && g.count == f.count);
		assert_true(g.seq == f.seq && g.helper == f.helper && g.place == 9 && g.to == 0);
		assert_true(g.exponent == -149 && g.type == f.type && g.dtype == f.dtype);
		assert_true(g.op == f.op && g.priority == 200 && g.payload_bytes == 40);
		assert_memory_equal(g.payload, payload, 40);
	}
}

/* doc/protocol/base.md shows where each field lies */
TEST(wire__layout)
{
	uint8_t payload[4], packet[FAN_HEAD_BYTES + 4];
	struct fan_frag f = sample(payload, 1);
	encode(packet, &f);
	static const uint8_t want[32] = {2,    1,    3,	   0,	 0xd4, 0xc3, 0xb2, 0xa1,
					 0x88, 0x77, 0x66, 0x55, 0x34, 0x12, 0xdc, 0xfe,
					 0xef, 0xcd, 0xab, 0x89, 0x67, 0x45, 0x23, 0x01,
					 0xff, 0x90, 1,	   0,	 0x6b, 0xff, 0x33, 200};
	assert_memory_equal(packet, want, sizeof want);
	assert_int_equal(fan_get32(packet + 32), fan_crc32c(0, packet, 32));
}

struct message {
	uint8_t type;
	uint32_t has, may;
	const char *name;
};

static const struct message messages[] = {
#define X(name, number, has, may, text) {number, has, may, #name},
	FAN_MESSAGES(X)
#undef X
};

/* A message with all that its type has: each field another value, all others 0. */
static struct fan_frag full(const struct message *m)
{
	static const uint8_t bitmap[8] = {1};
	const uint32_t has = m->has;
	struct fan_frag f = {
		.type = m->type,
		.flags = (uint16_t)m->may,
		.job = 0x01020304,
		.epoch = 5,
		.sender = 6,
		.seq = 7,
		.nonce = has & FAN_HAS_NONCE ? 8 : 0,
		.frag = has & FAN_HAS_FRAG ? 9 : 0,
		.missing = has & FAN_HAS_MISSING ? 10 : 0,
		.place = has & FAN_HAS_PLACE ? 15 : 0,
		.helper = has & FAN_HAS_HELPER ? 256 : 0,
		.to = has & FAN_HAS_TO ? 255 : 0,
		.root = has & FAN_HAS_ROOT ? 254 : 0,
		.last = has & FAN_HAS_LAST ? 11 : 0,
		.behind = has & FAN_HAS_DISTANCES ? 12 : 0,
		.before = has & FAN_HAS_DISTANCES ? 13 : 0,
		.count = has & FAN_HAS_ELEMENTS ? 14 : 0,
		.exponent = has & FAN_HAS_ELEMENTS ? -15 : 0,
		.dtype = has & FAN_HAS_ELEMENTS ? FAN_BFLOAT16 : 0,
		.op = has & FAN_HAS_ELEMENTS ? FAN_MIN : 0,
		.priority = has & FAN_HAS_PRIORITY ? 16 : 0,
		.depth = has & FAN_HAS_DEPTH ? 17 : 0,
		.path = has & FAN_HAS_PATH ? 18 : 0,
		.topic = has & FAN_HAS_TOPIC ? 3 : 0,
		.words = has & FAN_HAS_WORDS ? 1 : 0,
		.payload = bitmap,
	};
	if (has & FAN_HAS_RELAY) {
		f.relay.token = 19;
		f.relay.hops = 20;
		f.relay.rank = 21;
		f.relay.ranks = 256;
		f.relay.window = 22;
		f.relay.payload_bytes = 23;
	}
	if (f.type == FAN_TYPE_PARTIAL) { /* a tag in the sender's place; words by length */
		f.sender = FAN_RANK_NONE;
		f.helper = FAN_TAG(6);
		f.words = 1;
	}
	f.payload_bytes = f.words * 8u;
	return f;
}

static void assert_same_fields(const struct fan_frag *g, const struct fan_frag *f)
{
	assert_true(g->type == f->type && g->flags == f->flags && g->job == f->job);
	assert_true(g->epoch == f->epoch && g->sender == f->sender && g->seq == f->seq);
	assert_true(g->nonce == f->nonce && g->frag == f->frag && g->missing == f->missing);
	assert_true(g->place == f->place && g->helper == f->helper && g->to == f->to);
	assert_true(g->root == f->root && g->last == f->last && g->behind == f->behind);
	assert_true(g->before == f->before && g->count == f->count && g->dtype == f->dtype);
	assert_true(g->exponent == f->exponent && g->op == f->op && g->depth == f->depth);
	assert_true(g->priority == f->priority && g->path == f->path && g->topic == f->topic);
	assert_true(g->words == f->words && g->payload_bytes == f->payload_bytes);
	assert_memory_equal(&g->relay, &f->relay, sizeof f->relay);
}

/* Every field of every message comes back, and no other. */
TEST(wire__fields_of_every_type)
{
	assert_int_equal(sizeof messages / sizeof *messages, 18);
	for (unsigned i = 0; i < sizeof messages / sizeof *messages; i++) {
		uint8_t packet[FAN_HEAD_BYTES + 8];
		struct fan_frag g, f = full(&messages[i]);
		assert_int_equal(fan_wire_get(&g, packet, encode(packet, &f)), -1);
		assert_same_fields(&g, &f);
		assert_string_equal(fan_type_name(f.type), messages[i].name);
	}
	assert_string_equal(fan_type_name(9), "unknown");
	assert_string_equal(fan_type_name(255), "unknown");
}

/* A packet of `f`, of which byte `at` becomes `value`; the check is right. */
static int verdict_with(const struct fan_frag *f, size_t len, unsigned at, uint8_t value)
{
	static uint8_t packet[FAN_PACKET_MAX + 8];
	struct fan_frag g;
	fan_wire_put(packet, f);
	packet[at] = value;
	bool covered = packet[1] > FAN_TYPE_RESULT || packet[2] & FAN_F_SUMMED;
	size_t bytes = covered ? len - FAN_HEAD_BYTES : 0;
	uint32_t crc = fan_crc32c(fan_crc32c(0, packet, 32), packet + FAN_HEAD_BYTES, bytes);
	fan_put32(packet + 32, crc);
	return fan_wire_get(&g, packet, len);
}

static int verdict_of(const struct fan_frag *f, size_t len)
{
	return verdict_with(f, len, 0, FAN_WIRE_VERSION);
}

TEST(wire__drops_by_length)
{
	uint8_t payload[40], packet[FAN_HEAD_BYTES + 41] = {0};
	struct fan_frag f = sample(payload, 10), g;
	size_t len = encode(packet, &f);
	for (size_t n = 0; n < len; n++)
		assert_int_equal(fan_wire_get(&g, packet, n), FAN_DROP_SHORT);
	assert_int_equal(fan_wire_get(&g, packet, len + 1), FAN_DROP_LONG);
}

TEST(wire__drops_by_field)
{
	uint8_t payload[40];
	struct fan_frag f = sample(payload, 10);
	const size_t len = FAN_HEAD_BYTES + 40;
	static const uint8_t none[] = {0, 9, 15, 26, 31, 32, 255};
	for (unsigned i = 0; i < sizeof none; i++)
		assert_int_equal(verdict_with(&f, len, 1, none[i]), FAN_DROP_TYPE);
	assert_int_equal(verdict_with(&f, len, 3, FAN_F_SEALED >> 8), FAN_DROP_FORMAT);
	assert_int_equal(verdict_with(&f, len, 3, 0x80), FAN_DROP_FORMAT);
	assert_int_equal(verdict_with(&f, len, 3, FAN_F_REPLAY >> 8), FAN_DROP_FORMAT);
	assert_int_equal(verdict_with(&f, len, 25, 0x91), FAN_DROP_FORMAT); /* helper 510 */
	f = sample(payload, 10);
	f.dtype = FAN_DTYPE_COUNT;
	assert_int_equal(verdict_of(&f, len), FAN_DROP_FORMAT);
	f = sample(payload, 10);
	f.op = FAN_REDOP_COUNT;
	assert_int_equal(verdict_of(&f, len), FAN_DROP_FORMAT);
	f.op = FAN_BARRIER; /* with elements */
	assert_int_equal(verdict_of(&f, len), FAN_DROP_FORMAT);
	f = (struct fan_frag){.type = FAN_TYPE_NEED, .words = FAN_RANK_WORDS + 1};
	assert_int_equal(verdict_of(&f, FAN_HEAD_BYTES + 40), FAN_DROP_FORMAT);
}

/* The bitmap of a PARTIAL is what its elements leave: one to four words. */
TEST(wire__bitmap_by_length)
{
	uint8_t packet[FAN_HEAD_BYTES + 100] = {0};
	struct fan_frag g, f = {.type = FAN_TYPE_PARTIAL, .count = 3, .dtype = FAN_FLOAT16};
	fan_wire_put(packet, &f); /* 12 bytes of elements, as wide as they are summed */
	for (size_t bytes = 0; bytes < 100; bytes++) {
		size_t bitmap = bytes > 12 ? bytes - 12 : 0;
		int want = bitmap < 8		       ? FAN_DROP_SHORT
			   : bitmap > 32 || bitmap % 8 ? FAN_DROP_LONG
						       : -1;
		assert_int_equal(fan_wire_get(&g, packet, FAN_HEAD_BYTES + bytes), want);
		if (want < 0)
			assert_int_equal(g.words, bitmap / 8);
	}
}

/* Which operations a type has on the wire. */
TEST(wire__pairs_of_type_and_operation)
{
	for (unsigned dtype = 0; dtype < FAN_DTYPE_COUNT; dtype++) {
		for (unsigned op = 0; op < FAN_BARRIER; op++) {
			struct fan_frag f = {
				.type = FAN_TYPE_DATA, .dtype = (uint8_t)dtype, .op = (uint8_t)op};
			bool sums = op == FAN_SUM || op == FAN_AVG;
			bool exists = dtype == FAN_UINT8     ? op == FAN_BCAST
				      : dtype == FAN_EXP16   ? op == FAN_MAX
				      : dtype == FAN_FIXED32 ? sums
				      : dtype == FAN_BLOCK8  ? sums
							     : true;
			assert_int_equal(verdict_of(&f, FAN_HEAD_BYTES),
					 exists ? -1 : FAN_DROP_FORMAT);
		}
	}
}

TEST(wire__empty_carries_nothing)
{
	uint8_t payload[40];
	struct fan_frag f = sample(payload, 10);
	f.op = FAN_BCAST;
	f.flags |= FAN_F_EMPTY;
	assert_int_equal(verdict_of(&f, FAN_HEAD_BYTES), -1);
	assert_int_equal(verdict_of(&f, FAN_HEAD_BYTES + 40), FAN_DROP_LONG);
}

/* Any single flipped bit of the header is noticed; of the payload too, if SUMMED. */
TEST(wire__flipped_bits)
{
	uint8_t payload[40], packet[FAN_HEAD_BYTES + 40];
	struct fan_frag g;
	for (int summed = 0; summed < 2; summed++) {
		struct fan_frag f = sample(payload, 10);
		f.flags |= summed ? FAN_F_SUMMED : 0;
		size_t len = encode(packet, &f);
		for (size_t bit = 0; bit < len * 8; bit++) {
			packet[bit / 8] ^= (uint8_t)(1u << bit % 8);
			int v = fan_wire_get(&g, packet, len);
			packet[bit / 8] ^= (uint8_t)(1u << bit % 8);
			int want = bit < 8				? FAN_DROP_VERSION
				   : bit < 8 * FAN_HEAD_BYTES || summed ? FAN_DROP_CHECK
									: -1;
			assert_int_equal(v, want);
		}
	}
}

TEST(wire__whole_of_any_version)
{
	uint8_t payload[40], packet[FAN_HEAD_BYTES + 40];
	struct fan_frag f = sample(payload, 10);
	f.flags |= FAN_F_SUMMED;
	size_t len = encode(packet, &f);
	assert_true(fan_wire_is_whole(packet, len));
	packet[0] = 3; /* a damaged version byte... */
	assert_false(fan_wire_is_whole(packet, len));
	uint32_t crc = fan_crc32c(fan_crc32c(0, packet, 32), packet + FAN_HEAD_BYTES, 40);
	fan_put32(packet + 32, crc); /* ...is not another version */
	assert_true(fan_wire_is_whole(packet, len));
	for (size_t n = 0; n < len; n++)
		assert_false(fan_wire_is_whole(packet, n));
}

TEST(wire__element_sizes)
{
	static const unsigned wire[] = {4, 2, 2, 4, 8, 4, 2, 1, 8, 1},
			      acc[] = {4, 4, 4, 4, 8, 4, 2, 1, 8, 4};
	for (unsigned i = 0; i < FAN_DTYPE_COUNT; i++) {
		assert_int_equal(fan_dtype_bytes(i), wire[i]);
		assert_int_equal(fan_dtype_acc_bytes(i), acc[i]);
		for (unsigned n = 0; n < 100; n++)
			assert_int_equal(fan_wire_bytes(i, n),
					 n * wire[i] + (i == FAN_BLOCK8 ? (n + 31) / 32 : 0));
	}
	assert_int_equal(fan_dtype_bytes(FAN_DTYPE_COUNT), 0);
	assert_int_equal(fan_dtype_acc_bytes(UINT32_MAX), 0);
}

static bool same(const struct fan_frag *a, const struct fan_frag *b)
{
	uint8_t x[FAN_HEAD_BYTES], y[FAN_HEAD_BYTES];
	fan_wire_put(x, a);
	fan_wire_put(y, b);
	return memcmp(x, y, sizeof x) == 0 && a->payload == b->payload &&
	       a->payload_bytes == b->payload_bytes;
}

/* What is expected is what would be read, and nothing else is. */
TEST(wire__expected)
{
	struct fan_rng r = test_rng();
	uint8_t payload[16], packet[FAN_HEAD_BYTES + 16];
	struct fan_frag f = sample(payload, 4), g;
	unsigned held = 0;
	f.flags = 0;
	for (unsigned n = 0; n < 20000; n++) {
		struct fan_expected x;
		size_t len = encode(packet, &f);
		assert_int_equal(fan_wire_get(&g, packet, len), -1);
		assert_true(fan_wire_expect(&x, &g, packet));
		f.seq++;
		f.frag++;
		encode(packet, &f);
		if (n % 2)
			packet[fan_rng_below(&r, FAN_HEAD_BYTES)] ^=
				(uint8_t)(1u << fan_rng_below(&r, 8));
		if (n % 4 == 3)
			fan_wire_recheck(packet, len);
		const bool whole = fan_wire_get(&g, packet, len) < 0;
		if (fan_wire_is_expected(&x, packet, len)) {
			assert_true(whole && same(&x.f, &g) && g.frag == f.frag);
			assert_true(x.head[2] == f.frag + 1);
			held++;
		} else {
			assert_true(n % 2);
		}
		assert_false(fan_wire_is_expected(&x, packet, len - 1));
	}
	assert_in_range(held, 10000, 10800); /* of flips only those that recheck has undone */
}

/* Only elements that no checksum covers. */
TEST(wire__not_expected)
{
	uint8_t payload[16], packet[FAN_HEAD_BYTES + 16];
	struct fan_frag f = sample(payload, 4);
	struct fan_expected x;
	f.flags = FAN_F_SUMMED;
	encode(packet, &f);
	assert_false(fan_wire_expect(&x, &f, packet));
	f = (struct fan_frag){.type = FAN_TYPE_DATA, .flags = FAN_F_EMPTY, .count = 4};
	encode(packet, &f);
	assert_false(fan_wire_expect(&x, &f, packet));
	f = (struct fan_frag){.type = FAN_TYPE_PROBE};
	encode(packet, &f);
	assert_false(fan_wire_expect(&x, &f, packet));
}

UNIT_MAIN
