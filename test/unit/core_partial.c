/* SPDX-License-Identifier: Apache-2.0 */
#include "core/partial.h"
#include "unit.h"

static uint8_t packet[FAN_PACKET_MAX];

/* A PARTIAL of `count` elements, each 0x2a in its first byte, on the wire. */
static size_t encode(struct fan_frag *f, const uint64_t *set, unsigned ranks, uint16_t root)
{
	uint8_t buffer[FAN_BITMAP_MAX + 64] = {0};
	uint8_t *elements = buffer + FAN_BITMAP_MAX;
	size_t bytes = f->flags & FAN_F_EMPTY ? 0 : fan_partial_acc_bytes(f);
	if (f->type == FAN_TYPE_NEED)
		bytes = 0;
	memset(elements, 0x2a, bytes);
	fan_partial_put(f, set, ranks, root, elements, bytes);
	fan_wire_put(packet, f);
	memcpy(packet + FAN_HEAD_BYTES, f->payload, f->payload_bytes);
	return FAN_HEAD_BYTES + f->payload_bytes;
}

static struct fan_frag sum_of(enum fan_dtype dtype, uint16_t count)
{
	return (struct fan_frag){
		.frag = 9, .type = FAN_TYPE_DATA, .dtype = (uint8_t)dtype, .count = count};
}

static void partial__round_trip(void **state)
{
	(void)state;
	static const unsigned ranks[] = {2, 64, 65, 256};
	for (unsigned i = 0; i < 4; i++) {
		uint64_t set[FAN_RANK_WORDS] = {2};
		fan_ranks_set(set, ranks[i] - 1);
		struct fan_frag f = sum_of(FAN_INT32, 3), g;
		size_t len = encode(&f, set, ranks[i], FAN_RANK_NONE);
		assert_int_equal(len, FAN_HEAD_BYTES + fan_partial_words(ranks[i]) * 8 + 12);
		assert_int_equal(fan_wire_get(&g, packet, len), -1);
		struct fan_partial p;
		assert_true(fan_partial_get(&p, &g, ranks[i]));
		assert_memory_equal(p.ranks, set, sizeof set);
		assert_int_equal(p.first, 1);
		assert_int_equal(p.root, FAN_RANK_NONE);
		assert_int_equal(p.bytes, 12);
		assert_int_equal(p.elements[11], 0x2a);
		assert_int_equal(fan_wire_get(&g, packet, len - 1), FAN_DROP_SHORT);
		assert_int_equal(fan_wire_get(&g, packet, len + 1), FAN_DROP_LONG);
	}
}

/* rounded once, at the home: half types travel as wide as they are summed */
static void partial__halves_are_wide(void **state)
{
	(void)state;
	const uint64_t set[FAN_RANK_WORDS] = {3};
	struct fan_frag f = sum_of(FAN_BFLOAT16, 5), g;
	size_t len = encode(&f, set, 4, FAN_RANK_NONE);
	assert_int_equal(len, FAN_HEAD_BYTES + 8 + 20);
	assert_int_equal(fan_wire_get(&g, packet, len), -1);
	f = sum_of(FAN_BFLOAT16, 5);
	f.op = FAN_BCAST;
	assert_int_equal(encode(&f, set, 4, 1), FAN_HEAD_BYTES + 8 + 10);
}

static void partial__root(void **state)
{
	(void)state;
	uint64_t set[FAN_RANK_WORDS] = {0};
	fan_ranks_set(set, 255);
	fan_ranks_set(set, 7);
	struct fan_frag f = sum_of(FAN_INT64, 1), g;
	f.flags = FAN_F_REDUCE;
	size_t len = encode(&f, set, 256, 255);
	struct fan_partial p;
	assert_int_equal(fan_wire_get(&g, packet, len), -1);
	assert_true(fan_partial_get(&p, &g, 256));
	assert_int_equal(p.root, 255);
	f = sum_of(FAN_INT64, 1);
	encode(&f, set, 256, 6); /* a root whose part is not in */
	assert_int_equal(fan_wire_get(&g, packet, len), -1);
	assert_false(fan_partial_get(&p, &g, 256));
}

static void partial__hostile_bitmaps(void **state)
{
	(void)state;
	uint64_t set[FAN_RANK_WORDS] = {0};
	struct fan_frag f = sum_of(FAN_INT32, 1), g;
	struct fan_partial p;
	size_t len = encode(&f, set, 4, FAN_RANK_NONE); /* nobody */
	assert_int_equal(fan_wire_get(&g, packet, len), -1);
	assert_false(fan_partial_get(&p, &g, 4));
	set[0] = 1 << 4; /* beyond the job */
	f = sum_of(FAN_INT32, 1);
	len = encode(&f, set, 4, FAN_RANK_NONE);
	assert_int_equal(fan_wire_get(&g, packet, len), -1);
	assert_false(fan_partial_get(&p, &g, 4));
	assert_true(fan_partial_get(&p, &g, 5));
	for (unsigned words = 0; words < 300; words++) {
		if (words >= 1 && words <= FAN_RANK_WORDS)
			continue;
		f.sender = (uint16_t)(words & 0xff);
		fan_wire_put(packet, &f);
		if (f.sender == 0 || f.sender > FAN_RANK_WORDS)
			assert_int_equal(fan_wire_get(&g, packet, len), FAN_DROP_FORMAT);
	}
}

static void partial__only_where_it_means_something(void **state)
{
	(void)state;
	static const uint8_t types[] = {FAN_TYPE_RESULT, FAN_TYPE_PROBE, FAN_TYPE_FLUSH};
	const uint64_t set[FAN_RANK_WORDS] = {3};
	for (unsigned i = 0; i < sizeof types; i++) {
		struct fan_frag f = sum_of(FAN_INT32, 1), g;
		f.type = types[i];
		size_t len = encode(&f, set, 4, FAN_RANK_NONE);
		assert_int_equal(fan_wire_get(&g, packet, len), FAN_DROP_FORMAT);
	}
}

static void partial__need(void **state)
{
	(void)state;
	uint64_t set[FAN_RANK_WORDS] = {0};
	fan_ranks_set(set, 70);
	struct fan_frag f = {.type = FAN_TYPE_NEED, .sender = FAN_RANK_NONE, .op = FAN_BARRIER}, g;
	size_t len = encode(&f, set, 100, FAN_RANK_NONE);
	assert_int_equal(len, FAN_HEAD_BYTES + 16);
	assert_int_equal(fan_wire_get(&g, packet, len), -1);
	struct fan_partial p;
	assert_true(fan_partial_get(&p, &g, 100));
	assert_int_equal(p.first, 70);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(partial__round_trip),
		cmocka_unit_test(partial__halves_are_wide),
		cmocka_unit_test(partial__root),
		cmocka_unit_test(partial__hostile_bitmaps),
		cmocka_unit_test(partial__only_where_it_means_something),
		cmocka_unit_test(partial__need),
	};
	return RUN(tests);
}
