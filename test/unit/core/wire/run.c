/* SPDX-License-Identifier: Apache-2.0 */
#include "core/wire/run.h"
#include "core/wire/wire.h"
#include "unit/unit.h"

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
static void run__round_trip(void **state)
{
	uint8_t was[ITEMS][FAN_HEAD_BYTES], head[FAN_HEAD_BYTES];
	const unsigned frags = 2 * FAN_RUN_MAX + 3;
	unsigned n = 0;
	(void)state;
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

static void run__only_what_follows(void **state)
{
	static struct fan_group more = {.reads_runs = true};
	(void)state;
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
static void run__of_a_worker(void **state)
{
	(void)state;
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

static void run__what_is_none(void **state)
{
	uint8_t packet[FAN_HEAD_BYTES + 1] = {0};
	(void)state;
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

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(run__round_trip),
		cmocka_unit_test(run__only_what_follows),
		cmocka_unit_test(run__of_a_worker),
		cmocka_unit_test(run__what_is_none),
	};
	return RUN(tests);
}
