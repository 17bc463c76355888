/* SPDX-License-Identifier: Apache-2.0 */
#include "unit/unit.h"

#include "core/worker/stream.h"

static struct fan_op draw_op(struct fan_rng *r, uint16_t ranks)
{
	static const enum fan_dtype types[] = {FAN_FLOAT32, FAN_FLOAT16, FAN_BFLOAT16, FAN_INT32,
					       FAN_INT64,   FAN_UINT8,	 FAN_FLOAT64};
	struct fan_op op = {.root = (uint16_t)fan_rng_below(r, ranks)};
	do {
		op.op = (enum fan_redop)fan_rng_below(r, FAN_REDOP_COUNT);
		op.dtype = op.wire = types[fan_rng_below(r, 6)];
		if (fan_rng_below(r, 3) == 0)
			op.wire = types[fan_rng_below(r, 6)];
		op.mode = (enum fan_mode)fan_rng_below(r, 2);
		op.reduce = fan_rng_below(r, 3) == 0;
		op.count = op.op == FAN_BARRIER || fan_rng_below(r, 8) == 0
				   ? 0
				   : fan_rng_below(r, 20000);
	} while (!fan_stream_op_is_sane(&op, ranks));
	return op;
}

/* The order of fragments as stream.h draws it: E0, E1, D0..., E2, D1..., ...  Each
 * element is to occur once. */
struct oracle {
	const struct fan_stream_op *s;
	uint64_t next; /* fragment */
	uint64_t element, group;
};

static void expect_exponents(struct oracle *o, uint64_t group, uint64_t blocks, uint64_t groups)
{
	struct fan_stream_frag p;
	uint64_t first = group * o->s->per_group, rest = blocks - first;
	fan_stream_frag(o->s, o->next, 0, &p);
	assert_true(p.exponents && p.dtype == FAN_EXP16 && p.redop == FAN_MAX);
	assert_int_equal(p.group, o->s->group_first + group);
	assert_int_equal(p.at, first);
	assert_int_equal(p.count, rest < o->s->per_group ? rest : o->s->per_group);
	assert_int_equal(p.flags, o->next == o->s->first ? FAN_F_FIRST : 0);
	assert_true(group < groups);
	o->next++;
}

static void expect_block(struct oracle *o, uint64_t block, uint16_t rank)
{
	const struct fan_op *op = &o->s->op;
	struct fan_stream_frag p;
	fan_stream_frag(o->s, o->next, rank, &p);
	assert_false(p.exponents);
	assert_int_equal(p.at, o->element);
	assert_int_equal(p.redop, op->op);
	assert_int_equal(p.dtype, op->mode == FAN_FIXED ? FAN_FIXED32 : op->wire);
	bool first = o->next == o->s->first, last = o->next + 1 == o->s->first + o->s->frags;
	assert_int_equal(p.flags & FAN_F_FIRST, first ? FAN_F_FIRST : 0);
	assert_int_equal(p.flags & FAN_F_LAST, last ? FAN_F_LAST : 0);
	assert_int_equal(!!(p.flags & FAN_F_REDUCE), op->reduce);
	bool rooted = op->reduce || op->op == FAN_BCAST;
	assert_int_equal(!!(p.flags & FAN_F_ROOT), rooted && rank == op->root);
	assert_int_equal(!!(p.flags & FAN_F_EMPTY), op->op == FAN_BCAST && rank != op->root);
	if (op->mode == FAN_FIXED) {
		assert_int_equal(p.group, o->s->group_first + block / o->s->per_group);
		assert_int_equal(p.block, block % o->s->per_group);
	}
	uint64_t rest = op->count - o->element;
	assert_int_equal(p.count, rest < o->s->per_frag ? rest : o->s->per_frag);
	o->element += p.count;
	o->next++;
}

static void check_op(struct fan_rng *r, const struct fan_op *op, uint16_t payload, unsigned width)
{
	struct fan_stream_op s;
	uint64_t first = fan_rng_next(r) >> 8, group_first = fan_rng_next(r) >> 8;
	uint16_t rank = (uint16_t)fan_rng_below(r, 4);
	fan_stream_open(&s, op, first, group_first, payload, width);
	assert_true(s.per_frag >= 1 && fan_wire_bytes(op->wire, s.per_frag) <= payload);
	uint64_t blocks = op->count ? (op->count + s.per_frag - 1) / s.per_frag : 1;
	uint64_t groups = op->mode == FAN_FIXED ? (blocks + s.per_group - 1) / s.per_group : 0;
	assert_int_equal(s.frags, blocks + groups);
	assert_int_equal(s.groups, groups);
	struct oracle o = {.s = &s, .next = first};
	if (groups)
		expect_exponents(&o, 0, blocks, groups);
	for (uint64_t block = 0; block < blocks; block++) {
		bool opens = groups && block % s.per_group == 0;
		if (opens && block / s.per_group + 1 < groups)
			expect_exponents(&o, block / s.per_group + 1, blocks, groups);
		if (opens) {
			uint64_t group = group_first + block / s.per_group;
			uint64_t rest = blocks - block;
			assert_int_equal(fan_stream_group_data(&s, group), o.next);
			assert_int_equal(fan_stream_group_blocks(&s, group),
					 rest < s.per_group ? rest : s.per_group);
		}
		expect_block(&o, block, rank);
	}
	assert_int_equal(o.next, first + s.frags);
	assert_int_equal(o.element, op->count);
}

TEST(stream__each_element_once_and_in_order)
{
	struct fan_rng r = test_rng();
	static const uint16_t payloads[] = {64, 64, 72, 128, 1408, 8832};
	for (unsigned i = 0; i < 3000; i++) {
		struct fan_op op = draw_op(&r, 4);
		check_op(&r, &op, payloads[fan_rng_below(&r, 6)], 1u << fan_rng_below(&r, 3));
	}
}

TEST(stream__elements_in_a_fragment)
{
	struct fan_op op = {.op = FAN_SUM, .dtype = FAN_FLOAT32, .wire = FAN_BFLOAT16};
	assert_int_equal(fan_stream_per_frag(&op, 1408, 2), 704);
	assert_int_equal(fan_stream_per_frag(&op, 1408, 1), 352); /* they grow in the slot */
	op.op = FAN_BCAST;
	assert_int_equal(fan_stream_per_frag(&op, 1408, 1), 704); /* these do not */
	op = (struct fan_op){.op = FAN_MAX, .dtype = FAN_INT64, .wire = FAN_INT64};
	assert_int_equal(fan_stream_per_frag(&op, 1408, 1), 176);
	op = (struct fan_op){.op = FAN_BCAST, .dtype = FAN_UINT8, .wire = FAN_UINT8};
	assert_int_equal(fan_stream_per_frag(&op, 8832, 1), 8832);
	op = (struct fan_op){.op = FAN_SUM, .dtype = FAN_BFLOAT16, .wire = FAN_BLOCK8};
	for (uint16_t payload = 64; payload <= 8832; payload += 8) {
		uint32_t n = fan_stream_per_frag(&op, payload, 4); /* the most that fits */
		assert_true(fan_wire_bytes(FAN_BLOCK8, n) <= payload);
		assert_true(fan_wire_bytes(FAN_BLOCK8, n + 1) > payload);
		assert_int_equal(fan_stream_per_frag(&op, payload, 1), payload / 4);
		assert_int_equal(fan_stream_per_frag(&op, payload, 2), payload / 2);
	}
	assert_int_equal(fan_stream_per_frag(&op, 1408, 4), 1365);
}

TEST(stream__what_is_no_operation)
{
	const struct fan_op fine = {
		.op = FAN_SUM, .dtype = FAN_FLOAT32, .wire = FAN_FLOAT32, .count = 9};
	assert_true(fan_stream_op_is_sane(&fine, 4));
	struct fan_op bad[11];
	for (unsigned i = 0; i < 11; i++)
		bad[i] = fine;
	bad[0].op = FAN_REDOP_COUNT;
	bad[1].dtype = bad[1].wire = FAN_FIXED32;
	bad[2].dtype = bad[2].wire = FAN_EXP16;
	bad[3].wire = FAN_INT32;
	bad[4].dtype = FAN_INT32;
	bad[5].dtype = bad[5].wire = FAN_UINT8; /* bytes are only broadcast */
	bad[6].mode = FAN_FIXED;
	bad[6].op = FAN_MIN;
	bad[7].mode = FAN_FIXED;
	bad[7].wire = FAN_FLOAT16;
	bad[8].reduce = true;
	bad[8].root = 4;
	bad[9].op = FAN_BARRIER;
	bad[10].op = FAN_BCAST;
	bad[10].reduce = true;
	for (unsigned i = 0; i < 11; i++)
		assert_false(fan_stream_op_is_sane(&bad[i], 4));
}

UNIT_MAIN
