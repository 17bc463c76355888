/* SPDX-License-Identifier: Apache-2.0 */
#include "contribution.h"

#include <assert.h>

#define WORD_BYTES sizeof(uint64_t)

bool fan_partial_ranks(uint64_t *set, const struct fan_frag *f, unsigned ranks)
{
	uint64_t all[FAN_RANK_WORDS];
	if (f->words != fan_partial_words(ranks))
		return false;
	fan_ranks_none(set);
	for (unsigned i = 0; i < f->words; i++)
		set[i] = fan_get64(f->payload + i * WORD_BYTES);
	fan_ranks_all(all, ranks);
	return !fan_ranks_is_empty(set) && fan_ranks_within(set, all);
}

void fan_partial_put(struct fan_frag *f, const uint64_t *set, unsigned ranks, uint16_t root,
		     uint8_t *elements, size_t elements_bytes)
{
	assert(!fan_ranks_is_empty(set) && ranks <= FAN_RANKS_MAX);
	assert(root == FAN_RANK_NONE || fan_ranks_has(set, root));
	unsigned words = fan_partial_words(ranks);
	uint8_t *bitmap = elements - words * WORD_BYTES;
	for (unsigned i = 0; i < words; i++)
		fan_put64(bitmap + i * WORD_BYTES, set[i]);
	f->words = (uint8_t)words;
	f->root = FAN_TAG(root);
	f->payload = bitmap;
	f->payload_bytes = words * WORD_BYTES + elements_bytes;
}

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
