/* SPDX-License-Identifier: Apache-2.0 */
#include "unit/unit.h"

#include "core/sum/contribution.h"
#include "core/wire/run.h"
#include "core/wire/wire.h"

#define ITEMS 64

static struct fan_out_item item[ITEMS];
static struct fan_group readers = {.reads_runs = true}, others;
static struct fan_out out;

static void empty_out(void)
{
	static uint8_t scratch[64];
	fan_out_init(&out, item, ITEMS, scratch, sizeof scratch);
}

/* A result without elements for a group. */
static struct fan_out_item *add(const struct fan_group *g, uint64_t frag, uint16_t seq)
{
	const struct fan_frag f = {
		.frag = frag,
		.seq = seq,
		.job = 5,
		.epoch = 6,
		.sender = FAN_RANK_NONE,
		.type = FAN_TYPE_RESULT,
		.flags = FAN_F_REDUCE | FAN_F_EMPTY,
		.count = 352,
	};
	struct fan_out_item *it = fan_out_add(&out, FAN_TO_GROUP);
	it->group = g;
	fan_wire_put(it->head, &f);
	return it;
}

static unsigned packets(void)
{
	unsigned n = 0;
	for (unsigned i = 0; i < out.count; i++)
		n += out.item[i].dest != FAN_TO_NOBODY;
	return n;
}

/* What is packed comes out as it was, whatever is between: also where both numbers wrap. */
TEST(run__round_trip)
{
	uint8_t was[ITEMS][FAN_HEAD_BYTES], head[FAN_HEAD_BYTES];
	const unsigned frags = 2 * FAN_RUN_MAX + 3;
	unsigned n = 0;
	empty_out();
	for (unsigned i = 0; i < frags; i++) {
		memcpy(was[i], add(&readers, UINT64_C(0xfffffffd) + i, (uint16_t)(65533 + i))->head,
		       FAN_HEAD_BYTES);
		add(&others, i, (uint16_t)i)->dest = FAN_TO_PEER;
	}
	fan_run_pack(&out, false);
	assert_int_equal(packets(), 3 + frags);
	for (unsigned i = 0; i < out.count; i++) {
		const struct fan_out_item *it = &out.item[i];
		if (it->dest != FAN_TO_GROUP)
			continue;
		unsigned has = fan_run_frags(it->head, FAN_HEAD_BYTES);
		assert_int_equal(has, n < 2 * FAN_RUN_MAX ? FAN_RUN_MAX : 3);
		struct fan_frag f;
		assert_int_equal(fan_wire_get(&f, it->head, FAN_HEAD_BYTES), FAN_DROP_FORMAT);
		for (unsigned k = 0; k < has; k++, n++) {
			fan_run_take(head, it->head, k);
			assert_memory_equal(head, was[n], FAN_HEAD_BYTES);
			assert_int_equal(fan_wire_get(&f, head, FAN_HEAD_BYTES), -1);
			assert_int_equal(f.frag, UINT64_C(0xfffffffd) + n);
		}
	}
	assert_int_equal(n, frags);
}

static void alone(const struct fan_group *g, uint64_t frag, uint16_t seq, uint16_t flags)
{
	empty_out();
	add(&readers, 10, 20);
	struct fan_out_item *it = add(g, frag, seq);
	fan_put16(it->head + 2, fan_get16(it->head + 2) ^ flags);
	fan_run_pack(&out, false);
	assert_int_equal(packets(), 2);
	assert_int_equal(fan_run_frags(item[0].head, FAN_HEAD_BYTES), 1);
}

TEST(run__only_what_follows)
{
	static struct fan_group more = {.reads_runs = true};
	alone(&readers, 12, 21, 0);
	alone(&readers, 11, 22, 0);
	alone(&readers, 11, 20, 0);
	alone(&more, 11, 21, 0);
	alone(&others, 11, 21, 0);
	alone(&readers, 11, 21, FAN_F_LAST);
	alone(&readers, 11, 21, FAN_F_EMPTY);
	empty_out();
	add(&readers, 10, 20);
	add(&readers, 11, 21);
	fan_run_pack(&out, false);
	assert_int_equal(packets(), 1);
}

/* A worker's have one way to go; but elements go alone. */
TEST(run__of_a_worker)
{
	empty_out();
	for (unsigned i = 0; i < 4; i++) {
		struct fan_out_item *it = add(&others, i, (uint16_t)i);
		it->dest = FAN_TO_PEER;
		memset(&it->peer, (int)i, sizeof it->peer); /* as nobody sets it */
	}
	fan_run_pack(&out, false);
	assert_int_equal(packets(), 4);
	item[2].payload_bytes = 64;
	fan_run_pack(&out, true);
	assert_int_equal(packets(), 3);
}

TEST(run__what_is_none)
{
	uint8_t packet[FAN_HEAD_BYTES + 1] = {0};
	empty_out();
	for (unsigned i = 0; i < 3; i++)
		add(&readers, i, (uint16_t)i);
	fan_run_pack(&out, false);
	assert_int_equal(fan_run_frags(item[0].head, FAN_HEAD_BYTES), 3);
	for (size_t len = 0; len < FAN_HEAD_BYTES; len++)
		assert_int_equal(fan_run_frags(item[0].head, len), 1);
	memcpy(packet, item[0].head, FAN_HEAD_BYTES);
	assert_int_equal(fan_run_frags(packet, FAN_HEAD_BYTES + 1), 1);
	packet[20] ^= 1; /* which `check` covers */
	assert_int_equal(fan_run_frags(packet, FAN_HEAD_BYTES), 1);
	const struct {
		uint8_t at, is;
	} bad[] = {{31, 0}, {31, FAN_RUN_MAX}, {31, 255}, {1, FAN_TYPE_PARTIAL}, {2, 0}};
	for (unsigned i = 0; i < sizeof bad / sizeof bad[0]; i++) {
		memcpy(packet, item[0].head, FAN_HEAD_BYTES);
		packet[bad[i].at] = bad[i].is;
		fan_wire_recheck(packet, FAN_HEAD_BYTES);
		assert_int_equal(fan_run_frags(packet, FAN_HEAD_BYTES), 1);
	}
}

/* ---- partial ---- */

static uint8_t packet[FAN_PACKET_MAX];

/* A PARTIAL of elements whose bytes are all 0x2a, or a NEED, on the wire. */
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
		.frag = 9, .type = FAN_TYPE_PARTIAL, .dtype = (uint8_t)dtype, .count = count};
}

/* The packet's verdict; its check is right, whatever has been changed in it. */
static int verdict(size_t len)
{
	struct fan_frag g;
	bool covered = packet[1] > FAN_TYPE_RESULT || packet[2] & FAN_F_SUMMED;
	uint32_t crc = fan_crc32c(0, packet, FAN_HEAD_BYTES - 4);
	crc = fan_crc32c(crc, packet + FAN_HEAD_BYTES, covered ? len - FAN_HEAD_BYTES : 0);
	fan_put32(packet + FAN_HEAD_BYTES - 4, crc);
	return fan_wire_get(&g, packet, len);
}

TEST(partial__round_trip)
{
	static const unsigned ranks[] = {2, 64, 65, 256};
	for (unsigned i = 0; i < 4; i++) {
		uint64_t set[FAN_RANK_WORDS] = {2};
		fan_ranks_set(set, ranks[i] - 1);
		struct fan_frag f = sum_of(FAN_INT32, 3), g;
		f.helper = FAN_TAG(i);
		size_t len = encode(&f, set, ranks[i], FAN_RANK_NONE);
		assert_int_equal(len, FAN_HEAD_BYTES + fan_partial_words(ranks[i]) * 8 + 12);
		assert_int_equal(fan_wire_get(&g, packet, len), -1);
		assert_int_equal(g.words, fan_partial_words(ranks[i]));
		assert_int_equal(g.helper, FAN_TAG(i));
		assert_int_equal(g.root, 0);
		uint64_t got[FAN_RANK_WORDS];
		assert_true(fan_partial_ranks(got, &g, ranks[i]));
		assert_true(fan_ranks_equal(got, set));
		assert_int_equal(g.payload[g.payload_bytes - 1], 0x2a);
		/* with a shorter bitmap, the rest would be too long */
		assert_int_equal(fan_wire_get(&g, packet, len - 1),
				 i < 2 ? FAN_DROP_SHORT : FAN_DROP_LONG);
		assert_int_equal(fan_wire_get(&g, packet, len + 1), FAN_DROP_LONG);
	}
}

/* rounded once, at the aggregator: half types travel as wide as they are summed */
TEST(partial__halves_are_wide)
{
	const uint64_t set[FAN_RANK_WORDS] = {3};
	struct fan_frag f = sum_of(FAN_BFLOAT16, 5), g;
	size_t len = encode(&f, set, 4, FAN_RANK_NONE);
	assert_int_equal(len, FAN_HEAD_BYTES + 8 + 20);
	assert_int_equal(fan_wire_get(&g, packet, len), -1);
	f = sum_of(FAN_BFLOAT16, 5);
	f.op = FAN_BCAST;
	assert_int_equal(encode(&f, set, 4, 1), FAN_HEAD_BYTES + 8 + 10);
}

TEST(partial__root)
{
	uint64_t set[FAN_RANK_WORDS] = {3};
	fan_ranks_set(set, 255);
	struct fan_frag f = sum_of(FAN_INT64, 1), g;
	f.flags = FAN_F_REDUCE;
	size_t len = encode(&f, set, 256, 255);
	assert_int_equal(fan_wire_get(&g, packet, len), -1);
	assert_int_equal(g.root, FAN_TAG(255));
	fan_put16(packet + 24, 257); /* a tag that no rank has */
	assert_int_equal(verdict(len), FAN_DROP_FORMAT);
}

TEST(partial__hostile_bitmaps)
{
	uint64_t set[FAN_RANK_WORDS] = {1};
	struct fan_frag f = sum_of(FAN_INT32, 1), g;
	uint64_t got[FAN_RANK_WORDS];
	size_t len = encode(&f, set, 4, FAN_RANK_NONE);
	memset(packet + FAN_HEAD_BYTES, 0, 8); /* nobody */
	assert_int_equal(fan_wire_get(&g, packet, len), -1);
	assert_false(fan_partial_ranks(got, &g, 4));
	set[0] = 1 << 4; /* beyond the job */
	f = sum_of(FAN_INT32, 1);
	len = encode(&f, set, 4, FAN_RANK_NONE);
	assert_int_equal(fan_wire_get(&g, packet, len), -1);
	assert_false(fan_partial_ranks(got, &g, 4));
	assert_true(fan_partial_ranks(got, &g, 5));
	for (unsigned words = 0; words < 300; words++) {
		bool fits = words >= 1 && words <= FAN_RANK_WORDS;
		int want = fits ? -1 : words ? FAN_DROP_LONG : FAN_DROP_SHORT;
		assert_int_equal(verdict(FAN_HEAD_BYTES + words * 8 + 4), want);
	}
}

/* A word more or less, by a length that no check covers, is no other sum. */
TEST(partial__bitmap_of_another_job)
{
	uint64_t set[FAN_RANK_WORDS] = {3}, got[FAN_RANK_WORDS];
	struct fan_frag f = sum_of(FAN_INT64, 3), g;
	size_t len = encode(&f, set, 100, FAN_RANK_NONE);
	assert_int_equal(fan_wire_get(&g, packet, len), -1);
	assert_true(fan_partial_ranks(got, &g, 65) && fan_partial_ranks(got, &g, 128));
	assert_false(fan_partial_ranks(got, &g, 64) || fan_partial_ranks(got, &g, 129));
	for (unsigned i = 0; i < 2; i++) { /* the elements begin elsewhere then */
		memset(packet + FAN_HEAD_BYTES + 8, 0, sizeof packet - FAN_HEAD_BYTES - 8);
		assert_int_equal(fan_wire_get(&g, packet, i ? len + 8 : len - 8), -1);
		assert_false(fan_partial_ranks(got, &g, 100));
	}
}

TEST(partial__only_where_it_means_something)
{
	static const uint8_t types[] = {FAN_TYPE_RESULT, FAN_TYPE_PROBE, FAN_TYPE_FLUSH};
	const uint64_t set[FAN_RANK_WORDS] = {3};
	for (unsigned i = 0; i < sizeof types; i++) {
		struct fan_frag f = sum_of(FAN_INT32, 1);
		size_t len = encode(&f, set, 4, FAN_RANK_NONE);
		assert_int_equal(verdict(len), -1);
		packet[1] = types[i];
		assert_int_equal(verdict(len), FAN_DROP_LONG);
	}
}

TEST(partial__need)
{
	uint64_t set[FAN_RANK_WORDS] = {0};
	fan_ranks_set(set, 70);
	struct fan_frag f = {.type = FAN_TYPE_NEED, .sender = FAN_RANK_NONE}, g;
	size_t len = encode(&f, set, 100, FAN_RANK_NONE);
	assert_int_equal(len, FAN_HEAD_BYTES + 16);
	assert_int_equal(fan_wire_get(&g, packet, len), -1);
	assert_int_equal(g.words, 2);
	uint64_t got[FAN_RANK_WORDS];
	assert_true(fan_partial_ranks(got, &g, 100));
	assert_int_equal(fan_ranks_first(got), 70);
}

UNIT_MAIN
