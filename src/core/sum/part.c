/* SPDX-License-Identifier: Apache-2.0 */
#include "part.h"

int fan_part_get_sum(struct fan_part *p, const struct fan_frag *f, unsigned ranks)
{
	size_t bitmap = f->words * sizeof(uint64_t);
	if (!fan_partial_ranks(p->ranks, f, ranks))
		return FAN_DROP_FORMAT;
	p->f = f;
	p->elements = f->payload + bitmap;
	p->bytes = f->payload_bytes - bitmap;
	p->first = fan_ranks_first(p->ranks);
	p->root = fan_tag_rank(f->root);
	p->is_sum = true;
	return p->root == FAN_RANK_NONE || fan_ranks_has(p->ranks, p->root) ? -1 : FAN_DROP_FORMAT;
}
