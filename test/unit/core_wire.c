/* SPDX-License-Identifier: Apache-2.0 */
#include "unit.h"

/* the source itself: the portable checksum is not seen from outside */
#include "core/wire.c"

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

static void wire__crc_vectors_of_rfc_3720(void **state)
{
	(void)state;
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

static void wire__crc_portable_agrees_and_continues(void **state)
{
	(void)state;
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

static void wire__round_trip(void **state)
{
	(void)state;
	uint8_t payload[40], packet[FAN_HEAD_BYTES + 41];
	struct fan_frag f = sample(payload, 10), g;
	for (unsigned offset = 0; offset < 2; offset++) { /* no alignment needed */
		size_t len = encode(packet + offset, &f);
		assert_int_equal(fan_wire_get(&g, packet + offset, len), -1);
		assert_true(g.frag == f.frag && g.job == f.job && g.epoch == f.epoch);
		assert_true(g.flags == f.flags && g.sender == f.sender && g.count == f.count);
		assert_true(g.exponent == -149 && g.type == f.type && g.dtype == f.dtype);
		assert_true(g.op == f.op && g.priority == 200 && g.payload_bytes == 40);
		assert_memory_equal(g.payload, payload, 40);
	}
}

/* protocol.md shows where each field lies */
static void wire__layout(void **state)
{
	(void)state;
	uint8_t payload[4], packet[FAN_HEAD_BYTES + 4];
	struct fan_frag f = sample(payload, 1);
	encode(packet, &f);
	static const uint8_t want[28] = {1,    2 - 1, 3,    0,	  0xd4, 0xc3, 0xb2,
					 0xa1, 0x88,  0x77, 0x66, 0x55, 0x34, 0x12,
					 0x33, 200,   0xef, 0xcd, 0xab, 0x89, 0x67,
					 0x45, 0x23,  0x01, 1,	  0,	0x6b, 0xff};
	assert_memory_equal(packet, want, sizeof want);
	assert_int_equal(fan_get32(packet + 28), fan_crc32c(0, packet, 28));
}

static int verdict_of(const struct fan_frag *f, size_t len)
{
	static uint8_t packet[FAN_PACKET_MAX + 8];
	struct fan_frag g;
	fan_wire_put(packet, f);
	return fan_wire_get(&g, packet, len);
}

static void wire__drops_by_length(void **state)
{
	(void)state;
	uint8_t payload[40], packet[FAN_HEAD_BYTES + 41] = {0};
	struct fan_frag f = sample(payload, 10), g;
	size_t len = encode(packet, &f);
	for (size_t n = 0; n < len; n++)
		assert_int_equal(fan_wire_get(&g, packet, n), FAN_DROP_SHORT);
	assert_int_equal(fan_wire_get(&g, packet, len + 1), FAN_DROP_LONG);
}

static void wire__drops_by_field(void **state)
{
	(void)state;
	uint8_t payload[40];
	struct fan_frag f = sample(payload, 10);
	const size_t len = FAN_HEAD_BYTES + 40;
	f.type = 0;
	assert_int_equal(verdict_of(&f, len), FAN_DROP_TYPE);
	f.type = FAN_TYPE_MISS + 1;
	assert_int_equal(verdict_of(&f, len), FAN_DROP_TYPE);
	f.type = FAN_TYPE_HELPS + 1;
	assert_int_equal(verdict_of(&f, len), FAN_DROP_TYPE);
	f.type = FAN_TYPE_JOIN; /* not SUMMED */
	assert_int_equal(verdict_of(&f, len), FAN_DROP_FORMAT);
	f = sample(payload, 10);
	f.flags |= FAN_F_TAG;
	assert_int_equal(verdict_of(&f, len), FAN_DROP_FORMAT);
	f = sample(payload, 10);
	f.dtype = FAN_DTYPE_COUNT;
	assert_int_equal(verdict_of(&f, len), FAN_DROP_FORMAT);
	f = sample(payload, 10);
	f.op = FAN_REDOP_COUNT;
	assert_int_equal(verdict_of(&f, len), FAN_DROP_FORMAT);
	f.op = FAN_BARRIER; /* with elements */
	assert_int_equal(verdict_of(&f, len), FAN_DROP_FORMAT);
}

/* Which operations a type has on the wire. */
static void wire__pairs_of_type_and_operation(void **state)
{
	(void)state;
	for (unsigned dtype = 0; dtype < FAN_DTYPE_COUNT; dtype++) {
		for (unsigned op = 0; op < FAN_BARRIER; op++) {
			struct fan_frag f = {
				.type = FAN_TYPE_DATA, .dtype = (uint8_t)dtype, .op = (uint8_t)op};
			bool sums = op == FAN_SUM || op == FAN_AVG;
			bool exists = dtype == FAN_UINT8     ? op == FAN_BCAST
				      : dtype == FAN_EXP16   ? op == FAN_MAX
				      : dtype == FAN_FIXED32 ? sums
							     : true;
			assert_int_equal(verdict_of(&f, FAN_HEAD_BYTES),
					 exists ? -1 : FAN_DROP_FORMAT);
		}
	}
}

static void wire__empty_carries_nothing(void **state)
{
	(void)state;
	uint8_t payload[40];
	struct fan_frag f = sample(payload, 10);
	f.op = FAN_BCAST;
	f.flags |= FAN_F_EMPTY;
	assert_int_equal(verdict_of(&f, FAN_HEAD_BYTES), -1);
	assert_int_equal(verdict_of(&f, FAN_HEAD_BYTES + 40), FAN_DROP_LONG);
}

/* Any single flipped bit of the header is noticed; of the payload too, if SUMMED. */
static void wire__flipped_bits(void **state)
{
	(void)state;
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

static void wire__whole_of_any_version(void **state)
{
	(void)state;
	uint8_t payload[40], packet[FAN_HEAD_BYTES + 40];
	struct fan_frag f = sample(payload, 10);
	f.flags |= FAN_F_SUMMED;
	size_t len = encode(packet, &f);
	assert_true(fan_wire_is_whole(packet, len));
	packet[0] = 2; /* a damaged version byte... */
	assert_false(fan_wire_is_whole(packet, len));
	uint32_t crc = fan_crc32c(fan_crc32c(0, packet, 28), packet + FAN_HEAD_BYTES, 40);
	fan_put32(packet + 28, crc); /* ...is not another version */
	assert_true(fan_wire_is_whole(packet, len));
	for (size_t n = 0; n < len; n++)
		assert_false(fan_wire_is_whole(packet, n));
}

static void wire__element_sizes(void **state)
{
	(void)state;
	static const unsigned wire[] = {4, 2, 2, 4, 8, 4, 2, 1}, acc[] = {4, 4, 4, 4, 8, 4, 2, 1};
	for (unsigned i = 0; i < FAN_DTYPE_COUNT; i++) {
		assert_int_equal(fan_dtype_bytes(i), wire[i]);
		assert_int_equal(fan_dtype_acc_bytes(i), acc[i]);
	}
	assert_int_equal(fan_dtype_bytes(FAN_DTYPE_COUNT), 0);
	assert_int_equal(fan_dtype_acc_bytes(UINT32_MAX), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(wire__crc_vectors_of_rfc_3720),
		cmocka_unit_test(wire__crc_portable_agrees_and_continues),
		cmocka_unit_test(wire__round_trip),
		cmocka_unit_test(wire__layout),
		cmocka_unit_test(wire__drops_by_length),
		cmocka_unit_test(wire__drops_by_field),
		cmocka_unit_test(wire__pairs_of_type_and_operation),
		cmocka_unit_test(wire__empty_carries_nothing),
		cmocka_unit_test(wire__flipped_bits),
		cmocka_unit_test(wire__whole_of_any_version),
		cmocka_unit_test(wire__element_sizes),
	};
	return RUN(tests);
}
