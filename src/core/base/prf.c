/* SPDX-License-Identifier: Apache-2.0 */
#include "prf.h"

#define ROUNDS_WORD  2 /* for each word of the message */
#define ROUNDS_END   4
#define FEISTEL	     4
#define WORD_BYTES   8
#define PERMUTE_SALT UINT64_C(0x7065726d) /* so that no other use of the key gives these values */

static inline uint64_t turn(uint64_t v, unsigned bits)
{
	return v << bits | v >> (64 - bits);
}

static inline void sip_round(uint64_t v[4])
{
	v[0] += v[1];
	v[2] += v[3];
	v[1] = turn(v[1], 13) ^ v[0];
	v[3] = turn(v[3], 16) ^ v[2];
	v[0] = turn(v[0], 32);
	v[2] += v[1];
	v[0] += v[3];
	v[1] = turn(v[1], 17) ^ v[2];
	v[3] = turn(v[3], 21) ^ v[0];
	v[2] = turn(v[2], 32);
}

static void take(uint64_t v[4], uint64_t word)
{
	v[3] ^= word;
	for (unsigned i = 0; i < ROUNDS_WORD; i++)
		sip_round(v);
	v[0] ^= word;
}

uint64_t fan_prf(const struct fan_secret *s, const uint64_t *m, unsigned words)
{
	uint64_t v[4] = {
		s->k[0] ^ UINT64_C(0x736f6d6570736575), /* the paper's constants */
		s->k[1] ^ UINT64_C(0x646f72616e646f6d),
		s->k[0] ^ UINT64_C(0x6c7967656e657261),
		s->k[1] ^ UINT64_C(0x7465646279746573),
	};
	for (unsigned i = 0; i < words; i++)
		take(v, m[i]);
	take(v, (uint64_t)words * WORD_BYTES << 56);
	v[2] ^= 0xff;
	for (unsigned i = 0; i < ROUNDS_END; i++)
		sip_round(v);
	return v[0] ^ v[1] ^ v[2] ^ v[3];
}

uint32_t fan_prf_permute(const struct fan_secret *s, uint32_t n)
{
	uint32_t left = n >> 16, right = n & 0xffff;
	for (uint64_t i = 0; i < FEISTEL; i++) {
		const uint64_t m[] = {PERMUTE_SALT, i << 32 | right};
		uint32_t mixed = left ^ (uint32_t)(fan_prf(s, m, 2) & 0xffff);
		left = right;
		right = mixed;
	}
	return left << 16 | right;
}
