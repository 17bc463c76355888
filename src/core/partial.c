/* SPDX-License-Identifier: Apache-2.0 */
#include "partial.h"

#define WORD_BYTES sizeof(uint64_t)

/* Bits of a word, in parallel: the compiler's own may be a call where no instruction is. */
static unsigned count_bits(uint64_t v)
{
	v -= v >> 1 & UINT64_C(0x5555555555555555);
	v = (v & UINT64_C(0x3333333333333333)) + (v >> 2 & UINT64_C(0x3333333333333333));
	v = (v + (v >> 4)) & UINT64_C(0x0f0f0f0f0f0f0f0f);
	return (unsigned)(v * UINT64_C(0x0101010101010101) >> 56);
}

unsigned fan_ranks_count(const uint64_t *set)
{
	unsigned n = 0;
	for (unsigned i = 0; i < FAN_RANK_WORDS; i++)
		n += count_bits(set[i]);
	return n;
}

uint16_t fan_ranks_first(const uint64_t *set)
{
	for (unsigned i = 0; i < FAN_RANK_WORDS; i++)
		if (set[i])
			return (uint16_t)(i * 64 + (unsigned)__builtin_ctzll(set[i]));
	return FAN_RANK_NONE;
}

/* Is there a bit of a rank that a job of `ranks` has not? */
static bool has_beyond(const uint64_t *set, unsigned ranks)
{
	for (unsigned i = 0; i < FAN_RANK_WORDS; i++) {
		unsigned here = ranks > i * 64 ? ranks - i * 64 : 0;
		uint64_t real = here >= 64 ? UINT64_MAX : (UINT64_C(1) << here) - 1;
		if (set[i] & ~real)
			return true;
	}
	return false;
}

bool fan_partial_get(struct fan_partial *p, const struct fan_frag *f, unsigned ranks)
{
	unsigned words = f->type == FAN_TYPE_NEED ? f->count : f->sender & 0xff;
	memset(p->ranks, 0, sizeof p->ranks);
	for (unsigned i = 0; i < words; i++)
		p->ranks[i] = fan_get64(f->payload + i * WORD_BYTES);
	p->first = fan_ranks_first(p->ranks);
	p->elements = f->payload + words * WORD_BYTES;
	p->bytes = f->payload_bytes - words * WORD_BYTES;
	p->root = f->flags & FAN_F_ROOT ? f->sender >> 8 : FAN_RANK_NONE;
	if (p->first == FAN_RANK_NONE || has_beyond(p->ranks, ranks))
		return false;
	return p->root == FAN_RANK_NONE || fan_ranks_has(p->ranks, p->root);
}

void fan_partial_put(struct fan_frag *f, const uint64_t *set, unsigned ranks, uint16_t root,
		     uint8_t *elements, size_t elements_bytes)
{
	unsigned words = fan_partial_words(ranks);
	uint8_t *bitmap = elements - words * WORD_BYTES;
	for (unsigned i = 0; i < words; i++)
		fan_put64(bitmap + i * WORD_BYTES, set[i]);
	f->flags |= FAN_F_PARTIAL;
	if (f->type == FAN_TYPE_NEED) {
		f->count = (uint16_t)words;
	} else {
		f->sender = (uint16_t)(words | (root == FAN_RANK_NONE ? 0 : root << 8));
		f->flags |= root == FAN_RANK_NONE ? 0 : FAN_F_ROOT;
	}
	f->payload = bitmap;
	f->payload_bytes = words * WORD_BYTES + elements_bytes;
}
