/* SPDX-License-Identifier: Apache-2.0 */
#include "contribution.h"

int fan_contribution_get_sum(struct fan_contribution *p, const struct fan_frag *f, unsigned ranks)
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
