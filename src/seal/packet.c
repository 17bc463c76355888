/* SPDX-License-Identifier: Apache-2.0 */
#include "packet.h"

#include <string.h>

#include "core/wire/wire.h"

#define FLAGS_AT 2
#define CHECK_AT (FAN_HEAD_BYTES - 4)

_Static_assert(FAN_TAG_BYTES == FAN_CIPHER_TAG_BYTES, "one tag");

bool fan_seal_head(struct fan_seal_head *h, const uint8_t *pkt, size_t len)
{
	if (len < FAN_HEAD_BYTES || pkt[0] != FAN_WIRE_VERSION)
		return false;
	h->type = pkt[1];
	h->sealed = fan_get16(pkt + FLAGS_AT) & FAN_F_SEALED;
	h->job = fan_get32(pkt + 4);
	h->epoch = fan_get32(pkt + 8);
	h->sender = fan_get16(pkt + 12);
	h->is_signed = h->sealed && !fan_get32(pkt + CHECK_AT);
	return true;
}

static void mark(uint8_t *head, uint32_t in_place_of_check)
{
	fan_put16(head + FLAGS_AT, fan_get16(head + FLAGS_AT) | FAN_F_SEALED);
	fan_put32(head + CHECK_AT, in_place_of_check);
}

static void unmark(uint8_t *pkt, size_t len)
{
	fan_put16(pkt + FLAGS_AT, fan_get16(pkt + FLAGS_AT) & (uint16_t)~FAN_F_SEALED);
	fan_wire_recheck(pkt, len);
}

bool fan_seal_item(const struct fan_cipher *c, void *key, uint64_t counter, struct fan_out_item *it,
		   uint8_t *to)
{
	const struct fan_cipher_text t = {counter, it->head, CHECK_AT, it->payload_bytes};
	mark(it->head, (uint32_t)counter);
	if (!c->seal(key, &t, to, it->payload, to + it->payload_bytes))
		return false;
	it->payload = to;
	it->payload_bytes += FAN_SEAL_MORE;
	return true;
}

/* The counter whose lower bits are `low`. */
static uint64_t counter_of(const struct fan_replay *r, uint32_t low)
{
	int32_t ahead = (int32_t)(low - (uint32_t)r->highest);
	if (ahead < 0 && r->highest < (uint64_t) - (int64_t)ahead)
		return r->highest + (uint32_t)ahead;
	return r->highest + (uint64_t)(int64_t)ahead;
}

/* Has `counter` not come, as far as is known?  Those behind the window are taken for known. */
static bool is_new(const struct fan_replay *r, uint64_t counter, uint64_t window)
{
	if (counter > r->highest)
		return true;
	return counter && r->highest - counter < window &&
	       !(r->bits[counter / 64 % FAN_REPLAY_WORDS] >> counter % 64 & 1);
}

/* `counter` has come, authentic and new. */
static void note(struct fan_replay *r, uint64_t counter)
{
	uint64_t word = counter / 64;
	if (counter > r->highest) {
		uint64_t last = r->highest / 64;
		uint64_t end = word - last > FAN_REPLAY_WORDS ? last + FAN_REPLAY_WORDS : word;
		while (last < end)
			r->bits[++last % FAN_REPLAY_WORDS] = 0;
		r->highest = counter;
	}
	r->bits[word % FAN_REPLAY_WORDS] |= UINT64_C(1) << counter % 64;
}

enum fan_seal_verdict fan_seal_open(const struct fan_cipher *c, void *key, struct fan_replay *r,
				    uint64_t window, uint8_t *pkt, size_t *len)
{
	if (*len < FAN_HEAD_BYTES + FAN_SEAL_MORE)
		return FAN_SEAL_TAG;
	const size_t bytes = *len - FAN_SEAL_MORE;
	const struct fan_cipher_text t = {counter_of(r, fan_get32(pkt + CHECK_AT)), pkt, CHECK_AT,
					  bytes - FAN_HEAD_BYTES};
	if (!is_new(r, t.counter, window))
		return FAN_SEAL_REPLAY;
	if (!c->unseal(key, &t, pkt + FAN_HEAD_BYTES, pkt + bytes))
		return FAN_SEAL_TAG;
	note(r, t.counter);
	unmark(pkt, bytes);
	*len = bytes;
	return FAN_SEAL_GOOD;
}

/* MACs are over the whole packet, which is short. */
#define SIGNED_MAX 512

struct text {
	uint8_t byte[SIGNED_MAX];
	size_t bytes;
};

static void add(struct text *t, const uint8_t *p, size_t bytes)
{
	assert(t->bytes + bytes <= SIGNED_MAX);
	if (bytes)
		memcpy(t->byte + t->bytes, p, bytes);
	t->bytes += bytes;
}

void fan_sign_item(const struct fan_cipher *c, const uint8_t tenant[FAN_KEY_BYTES],
		   struct fan_out_item *it, uint8_t *to, const struct fan_signed_with *w)
{
	struct text t = {.bytes = 0};
	uint8_t whole[FAN_MAC_BYTES];
	mark(it->head, 0);
	add(&t, it->head, FAN_HEAD_BYTES);
	add(&t, it->payload, it->payload_bytes);
	add(&t, w->more, w->more_bytes);
	const size_t bytes = t.bytes - FAN_HEAD_BYTES;
	memcpy(to, t.byte + FAN_HEAD_BYTES, bytes);
	add(&t, w->known, w->known_bytes);
	c->mac(whole, tenant, FAN_KEY_BYTES, t.byte, t.bytes);
	memcpy(to + bytes, whole, FAN_SEAL_MORE);
	it->payload = to;
	it->payload_bytes = bytes + FAN_SEAL_MORE;
}

bool fan_signed_is_by(const struct fan_cipher *c, const uint8_t tenant[FAN_KEY_BYTES],
		      const uint8_t *pkt, size_t len, const uint8_t *known, size_t known_bytes)
{
	uint8_t whole[FAN_MAC_BYTES], differs = 0;
	struct text t;
	if (len < FAN_HEAD_BYTES + FAN_SEAL_MORE || len + known_bytes > SIGNED_MAX)
		return false;
	len -= FAN_SEAL_MORE;
	const uint8_t *text = pkt;
	if (known_bytes) {
		t.bytes = 0;
		add(&t, pkt, len);
		add(&t, known, known_bytes);
		text = t.byte;
	}
	c->mac(whole, tenant, FAN_KEY_BYTES, text, len + known_bytes);
	for (unsigned i = 0; i < FAN_SEAL_MORE; i++) /* in constant time */
		differs |= whole[i] ^ pkt[len + i];
	return !differs;
}

size_t fan_signed_open(uint8_t *pkt, size_t len, size_t more_bytes)
{
	len -= FAN_SEAL_MORE + more_bytes;
	unmark(pkt, len);
	return len;
}
