/* SPDX-License-Identifier: Apache-2.0 */
#include "core/sum/shared_slot.h"
#include "unit/unit.h"

#define RANKS  4
#define SPARES 2

static _Alignas(64) uint8_t memory[1 << 14];
static struct fan_sslots slots;
static struct fan_frag frag;
static int32_t value;

static int open_slots(void **state __attribute__((unused)))
{
	memset(memory, 0xee, sizeof memory);
	assert_true(fan_sslots_bytes(2, SPARES, 64) <= sizeof memory);
	fan_sslots_init(&slots, memory, 2, SPARES, 64);
	return 0;
}

/* Rank `rank`'s contribution to fragment `n` of job `job`. */
static struct fan_contribution part(uint32_t job, uint64_t n, uint16_t rank, int32_t v,
				    uint8_t priority)
{
	value = v;
	frag = (struct fan_frag){.frag = n,
				 .job = job,
				 .epoch = 1,
				 .type = FAN_TYPE_DATA,
				 .dtype = FAN_INT32,
				 .count = 1,
				 .flags = FAN_F_FIRST | FAN_F_LAST,
				 .sender = rank,
				 .priority = priority,
				 .payload = (const uint8_t *)&value,
				 .payload_bytes = 4};
	struct fan_contribution p = {.f = &frag,
				     .first = rank,
				     .root = FAN_RANK_NONE,
				     .elements = frag.payload,
				     .bytes = 4};
	fan_ranks_set(p.ranks, rank);
	return p;
}

static int32_t sum_in(const struct fan_out_item *it, uint64_t *ranks)
{
	struct fan_contribution p;
	struct fan_frag f;
	uint8_t packet[128];
	int32_t v;
	fan_out_item_copy(it, packet);
	assert_int_equal(fan_wire_get(&f, packet, fan_out_item_bytes(it)), -1);
	assert_int_equal(fan_contribution_get(&p, &f, RANKS), -1);
	*ranks = p.ranks[0];
	memcpy(&v, p.elements, 4);
	return v;
}

/* What the slot holds leaves as a PARTIAL. */
static void leave(const struct fan_sslot *s, struct fan_out_item *it)
{
	struct fan_frag f;
	fan_sslot_fill(&slots, s, &f);
	it->payload = f.payload;
	it->payload_bytes = f.payload_bytes;
	fan_wire_put(it->head, &f);
}

TEST_WITH(slot__adds_and_remembers, open_slots, NULL)
{
	const uint64_t below[FAN_RANK_WORDS] = {0xf};
	struct fan_sslot *s = &slots.slot[0];
	struct fan_out_item it;
	uint64_t ranks;
	struct fan_contribution p = part(1, 5, 0, 10, 7);
	assert_false(fan_sslot_is_of(s, &frag));
	fan_sslot_take(&slots, s, &p, RANKS);
	assert_true(fan_sslot_is_of(s, &frag) && fan_sslot_has(s, &p));
	p = part(1, 5, 2, 20, 3);
	assert_false(fan_sslot_has(s, &p));
	assert_true(fan_sslot_agrees(s, &p));
	fan_sslot_add(&slots, s, &p);
	assert_int_equal(s->priority, 7); /* the highest of its contributions */
	assert_false(fan_sslot_is_full(s, below));
	leave(s, &it);
	assert_int_equal(sum_in(&it, &ranks), 30);
	assert_int_equal(ranks, 0x5);
	fan_sslot_release(&slots, s);
	assert_true(fan_sslot_has(s, &p)); /* twice is noticed */
	p = part(1, 5, 1, 1, 0);
	fan_sslot_add(&slots, s, &p);
	p = part(1, 5, 3, 2, 0);
	fan_sslot_add(&slots, s, &p);
	assert_true(fan_sslot_is_full(s, below)); /* with those that have gone */
	leave(s, &it);
	assert_int_equal(sum_in(&it, &ranks), 3);
	assert_int_equal(ranks, 0xa);
}

/* What has left stays as it is, for as many takers as there are spares. */
TEST_WITH(slot__sums_that_left_stay, open_slots, NULL)
{
	struct fan_sslot *s = &slots.slot[1];
	struct fan_out_item it[SPARES];
	uint64_t ranks;
	struct fan_contribution p = part(1, 0, 0, 100, 0);
	fan_sslot_take(&slots, s, &p, RANKS);
	for (int32_t i = 0; i < SPARES; i++) {
		leave(s, &it[i]);
		p = part(2, (uint64_t)i, 1, 200 + i, 0);
		fan_sslot_take(&slots, s, &p, RANKS);
	}
	assert_int_equal(sum_in(&it[0], &ranks), 100);
	assert_int_equal(ranks, 0x1);
	assert_int_equal(sum_in(&it[1], &ranks), 200);
	assert_int_equal(ranks, 0x2);
}

/* A slot whose job is over may have left just now: whoever takes it does not write over that. */
TEST_WITH(slot__what_is_lost_may_be_on_its_way, open_slots, NULL)
{
	struct fan_sslot *s = &slots.slot[0];
	struct fan_out_item it;
	uint64_t ranks;
	struct fan_contribution p = part(1, 0, 0, 100, 0);
	fan_sslot_take(&slots, s, &p, RANKS);
	leave(s, &it);
	s->state = FAN_SSLOT_LOST;
	fan_sslots_audit(&slots);
	assert_false(fan_sslot_is_of(s, &frag) || fan_sslot_holds(s));
	p = part(2, 0, 1, 200, 0);
	fan_sslot_take(&slots, s, &p, RANKS);
	fan_sslots_audit(&slots);
	assert_int_equal(sum_in(&it, &ranks), 100);
	assert_int_equal(ranks, 0x1);
}

TEST_WITH(slot__agrees_about_all_claims, open_slots, NULL)
{
	struct fan_sslot *s = &slots.slot[0];
	struct fan_contribution p = part(1, 0, 0, 1, 0);
	p.root = 0;
	fan_sslot_take(&slots, s, &p, RANKS);
	p = part(1, 0, 1, 1, 0);
	assert_true(fan_sslot_agrees(s, &p));
	p.root = 1; /* a second root */
	assert_false(fan_sslot_agrees(s, &p));
	p = part(1, 0, 1, 1, 0);
	frag.exponent = 3;
	assert_false(fan_sslot_agrees(s, &p));
	p = part(1, 0, 1, 1, 0);
	frag.flags |= FAN_F_SUMMED;
	assert_false(fan_sslot_agrees(s, &p));
	p = part(1, 0, 1, 1, 0);
	frag.op = FAN_MAX;
	assert_false(fan_sslot_agrees(s, &p));
}

/* A root whose contribution has left is not the root of what comes behind it. */
TEST_WITH(slot__the_root_goes_with_its_part, open_slots, NULL)
{
	struct fan_sslot *s = &slots.slot[0];
	struct fan_frag f;
	struct fan_contribution p = part(1, 0, 2, 1, 0);
	frag.flags |= FAN_F_REDUCE | FAN_F_ROOT;
	p.root = 2;
	fan_sslot_take(&slots, s, &p, RANKS);
	fan_sslot_fill(&slots, s, &f);
	assert_int_equal(f.root, FAN_TAG(2));
	assert_int_equal(fan_contribution_get(&p, &f, RANKS), -1);
	assert_int_equal(p.root, 2);
	fan_sslot_release(&slots, s);
	p = part(1, 0, 1, 1, 0);
	frag.flags |= FAN_F_REDUCE;
	fan_sslot_add(&slots, s, &p);
	fan_sslot_fill(&slots, s, &f);
	assert_int_equal(f.root, 0);
	assert_int_equal(fan_contribution_get(&p, &f, RANKS), -1);
	assert_int_equal(p.root, FAN_RANK_NONE);
}

/* The index is of job, epoch, number in the window and place, and in the table. */
TEST_WITH(slot__index, open_slots, NULL)
{
	unsigned differ = 0;
	for (unsigned i = 0; i < 64; i++) {
		struct fan_frag f = {.frag = i, .job = 3, .epoch = 4}, g = f;
		g.frag += 64;
		const struct fan_sslot *a = fan_sslots_at(&slots, &f, 64);
		assert_in_range(a - slots.slot, 0, 1);
		assert_ptr_equal(a, fan_sslots_at(&slots, &g, 64));
		f.place = 1;
		differ += a != fan_sslots_at(&slots, &f, 64);
	}
	assert_in_range(differ, 16, 48); /* half of them, more or less */
}

UNIT_MAIN
