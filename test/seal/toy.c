/* SPDX-License-Identifier: Apache-2.0 */
#include "toy.h"

#include <stdlib.h>
#include <string.h>

struct pair {
	uint64_t key, counter; /* key 0: none */
};

static struct {
	uint64_t random, sealed, repeats;
	unsigned keys;
	struct pair *pair; /* `room` places, a power of two, at most half full */
	size_t room, pairs;
} toy;

static uint64_t mix(uint64_t a, uint64_t b)
{
	uint64_t x = a * UINT64_C(0xd1342543de82ef95) + b + UINT64_C(0x9e3779b97f4a7c15);

	x = (x ^ x >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
	x = (x ^ x >> 27) * UINT64_C(0x94d049bb133111eb);
	return x ^ x >> 31;
}

static uint64_t digest(uint64_t h, const uint8_t *p, size_t bytes)
{
	for (; bytes >= 8; p += 8, bytes -= 8) {
		uint64_t w;
		memcpy(&w, p, sizeof w);
		h = mix(h, w);
	}
	for (; bytes; p++, bytes--)
		h = mix(h, *p + 1u);
	return mix(h, 0x5eed);
}

static struct pair *place_of(struct pair *in, size_t room, const struct pair *p)
{
	size_t at = mix(p->key, p->counter) & (room - 1);

	while (in[at].key && (in[at].key != p->key || in[at].counter != p->counter))
		at = (at + 1) & (room - 1);
	return &in[at];
}

static void grow(void)
{
	size_t room = toy.room ? 2 * toy.room : 1024;
	struct pair *more = calloc(room, sizeof *more);

	for (size_t i = 0; i < toy.room; i++)
		if (toy.pair[i].key)
			*place_of(more, room, &toy.pair[i]) = toy.pair[i];
	free(toy.pair);
	toy.pair = more;
	toy.room = room;
}

static void note(uint64_t key, uint64_t counter)
{
	const struct pair p = {key, counter};

	if (2 * toy.pairs >= toy.room)
		grow();
	struct pair *at = place_of(toy.pair, toy.room, &p);
	toy.sealed++;
	toy.repeats += at->key != 0;
	toy.pairs += at->key == 0;
	*at = p;
}

static void *open_key(const uint8_t key[FAN_CIPHER_KEY_BYTES])
{
	uint64_t *k = malloc(sizeof *k);

	*k = digest(1, key, FAN_CIPHER_KEY_BYTES) | 1;
	toy.keys++;
	return k;
}

static void close_key(void *key)
{
	toy.keys -= key != NULL;
	free(key);
}

static void crypt(uint64_t key, uint64_t counter, uint8_t *to, const uint8_t *from, size_t bytes)
{
	for (size_t i = 0; i < bytes; i++)
		to[i] = from[i] ^ (uint8_t)(mix(key + counter, i / 8) >> 8 * (i % 8));
}

static void tag_of(uint8_t *tag, uint64_t key, const struct fan_cipher_text *t, const uint8_t *text)
{
	uint64_t h[2] = {digest(mix(key, t->counter), t->aad, t->aad_bytes)};

	h[0] = digest(h[0], text, t->bytes);
	h[1] = mix(h[0], key);
	memcpy(tag, h, FAN_CIPHER_TAG_BYTES);
}

static bool seal(void *key, const struct fan_cipher_text *t, uint8_t *to, const uint8_t *from,
		 uint8_t tag[FAN_CIPHER_TAG_BYTES])
{
	uint64_t k = *(uint64_t *)key;

	note(k, t->counter);
	crypt(k, t->counter, to, from, t->bytes);
	tag_of(tag, k, t, to);
	return true;
}

static bool unseal(void *key, const struct fan_cipher_text *t, uint8_t *text,
		   const uint8_t tag[FAN_CIPHER_TAG_BYTES])
{
	uint64_t k = *(uint64_t *)key;
	uint8_t right[FAN_CIPHER_TAG_BYTES];

	tag_of(right, k, t, text);
	if (memcmp(right, tag, sizeof right) != 0)
		return false;
	crypt(k, t->counter, text, text, t->bytes);
	return true;
}

static void mac(uint8_t to[FAN_MAC_BYTES], const uint8_t *key, size_t key_bytes,
		const uint8_t *data, size_t bytes)
{
	uint64_t h[4] = {digest(digest(2, key, key_bytes), data, bytes)};

	for (unsigned i = 1; i < 4; i++)
		h[i] = mix(h[i - 1], i);
	memcpy(to, h, sizeof h);
}

static bool random_bytes(uint8_t *to, size_t bytes)
{
	for (size_t i = 0; i < bytes; i++)
		to[i] = (uint8_t)mix(++toy.random, 3);
	return true;
}

const struct fan_cipher *toy_cipher(void)
{
	static const struct fan_cipher table = {open_key, close_key, seal,
						unseal,	  mac,	     random_bytes};

	return &table;
}

void toy_reset(uint64_t seed)
{
	free(toy.pair);
	unsigned keys = toy.keys;
	memset(&toy, 0, sizeof toy);
	toy.keys = keys;
	toy.random = seed << 32;
}

uint64_t toy_sealed(void)
{
	return toy.sealed;
}

uint64_t toy_repeats(void)
{
	return toy.repeats;
}

unsigned toy_open_keys(void)
{
	return toy.keys;
}
