/* SPDX-License-Identifier: Apache-2.0 */
#include "stream.h"

#include <assert.h>

uint32_t fan_stream_per_frag(const struct fan_op *op, uint16_t payload_bytes, unsigned width)
{
	unsigned wire = fan_dtype_bytes(op->wire);
	if (op->op == FAN_BARRIER || wire == 0)
		return 1;
	uint32_t most = payload_bytes / wire;
	if (op->wire == FAN_BLOCK8) /* with a byte for each block that has begun */
		most -= (payload_bytes + FAN_BLOCK8_ELEMENTS) / (FAN_BLOCK8_ELEMENTS + 1);
	/* half types and BLOCK8 grow while they are summed */
	uint32_t held = width * payload_bytes / fan_dtype_acc_bytes(op->wire);
	return op->op == FAN_BCAST || most < held ? most : held;
}

bool fan_stream_op_is_sane(const struct fan_op *op, uint16_t ranks)
{
	bool half = op->wire == FAN_FLOAT16 || op->wire == FAN_BFLOAT16;
	bool sums = op->op == FAN_SUM || op->op == FAN_AVG;
	bool blocks = op->wire == FAN_BLOCK8 && op->dtype <= FAN_BFLOAT16 && sums;
	bool user = op->dtype == FAN_UINT8 || op->dtype == FAN_FLOAT64 || op->dtype <= FAN_INT64;
	if (!user || op->op >= FAN_REDOP_COUNT || op->mode > FAN_FIXED)
		return false;
	if (op->wire != op->dtype && !(op->dtype == FAN_FLOAT32 && half) && !blocks)
		return false;
	if (op->dtype == FAN_UINT8 && op->op != FAN_BCAST && op->op != FAN_BARRIER)
		return false;
	if (op->mode == FAN_FIXED && (!sums || op->wire != FAN_FLOAT32))
		return false;
	if (op->reduce && op->op >= FAN_BCAST)
		return false;
	bool rooted = op->reduce || op->op == FAN_BCAST;
	if (rooted && op->root >= ranks && op->root != FAN_RANK_NONE)
		return false;
	return op->op != FAN_BARRIER || op->count == 0;
}

void fan_stream_open(struct fan_stream_op *s, const struct fan_op *op, uint64_t first,
		     uint64_t group_first, uint16_t payload_bytes, unsigned width)
{
	s->op = *op;
	s->first = first;
	s->group_first = group_first;
	s->per_frag = fan_stream_per_frag(op, payload_bytes, width);
	s->per_group = payload_bytes / 2u;
	assert(s->per_frag > 0);
	s->blocks = op->count / s->per_frag + (op->count % s->per_frag != 0);
	if (s->blocks == 0)
		s->blocks = 1; /* so that ranks that disagree about it are noticed */
	s->groups = 0;
	if (op->mode == FAN_FIXED)
		s->groups = (s->blocks + s->per_group - 1) / s->per_group;
	s->frags = s->blocks + s->groups;
	s->left = s->frags;
}

uint32_t fan_stream_group_blocks(const struct fan_stream_op *s, uint64_t group)
{
	assert(group >= s->group_first && group - s->group_first < s->groups);
	uint64_t before = (group - s->group_first) * s->per_group;
	uint64_t rest = s->blocks - before;
	return (uint32_t)(rest < s->per_group ? rest : s->per_group);
}

uint64_t fan_stream_group_data(const struct fan_stream_op *s, uint64_t group)
{
	uint64_t g = group - s->group_first;
	/* E0, then for each group: the exponents of the next one, if any, and its blocks */
	return s->first + 1 + g * (s->per_group + 1u) + (g + 1 < s->groups);
}

/* Fixed mode: which group, and is it its exponents or which of its blocks? */
static void locate(const struct fan_stream_op *s, uint64_t frag, struct fan_stream_frag *p)
{
	uint64_t n = frag - s->first;
	p->block = 0;
	p->exponents = true;
	p->group = s->group_first;
	if (n == 0)
		return;
	uint64_t g = (n - 1) / (s->per_group + 1u);
	uint64_t data = fan_stream_group_data(s, s->group_first + g);
	p->group = s->group_first + g + (frag < data);
	p->exponents = frag < data;
	if (!p->exponents)
		p->block = (uint32_t)(frag - data);
}

static uint16_t role_flags(const struct fan_op *op, uint16_t rank)
{
	bool root = rank == op->root;
	if (op->op == FAN_BCAST)
		return root ? FAN_F_ROOT : FAN_F_EMPTY;
	if (op->reduce)
		return (uint16_t)(FAN_F_REDUCE | (root ? FAN_F_ROOT : 0));
	return 0;
}

void fan_stream_frag(const struct fan_stream_op *s, uint64_t frag, uint16_t rank,
		     struct fan_stream_frag *p)
{
	assert(frag >= s->first && frag - s->first < s->frags);
	uint64_t block = frag - s->first;
	p->exponents = false;
	p->group = 0;
	p->flags = (uint16_t)((frag == s->first ? FAN_F_FIRST : 0) |
			      (frag == s->first + s->frags - 1 ? FAN_F_LAST : 0));
	p->dtype = (uint8_t)s->op.wire;
	p->redop = (uint8_t)s->op.op;
	if (s->groups) {
		locate(s, frag, p);
		block = (p->group - s->group_first) * s->per_group + p->block;
		p->dtype = p->exponents ? FAN_EXP16 : FAN_FIXED32;
	}
	if (p->exponents) {
		p->at = block;
		p->count = (uint16_t)fan_stream_group_blocks(s, p->group);
		p->redop = FAN_MAX;
		return;
	}
	p->flags |= role_flags(&s->op, rank);
	assert(block < s->blocks);
	p->at = block * s->per_frag;
	uint64_t rest = s->op.count - p->at;
	p->count = (uint16_t)(rest < s->per_frag ? rest : s->per_frag);
}
