/* SPDX-License-Identifier: Apache-2.0 */
#include "line_key.h"

#include <assert.h>
#include <string.h>

#include "core/wire/wire.h"

#define BEFORE_NONCE "{\"nonce\":\""
#define AFTER_NONCE  "\"}"
#define SIGNED_BYTES 16 /* of the MAC */

_Static_assert(sizeof BEFORE_NONCE - 1 + 2 * FAN_LINE_NONCE_BYTES + sizeof AFTER_NONCE - 1 ==
		       FAN_LINE_HELLO_CHARS,
	       "the line with a nonce");

static void put_hex(char *to, const uint8_t *from, size_t bytes)
{
	for (size_t i = 0; i < bytes; i++) {
		to[2 * i] = "0123456789abcdef"[from[i] >> 4];
		to[2 * i + 1] = "0123456789abcdef"[from[i] & 15];
	}
}

static int digit(char c)
{
	return c >= '0' && c <= '9' ? c - '0' : c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

static bool get_hex(uint8_t *to, const char *from, size_t bytes)
{
	for (size_t i = 0; i < bytes; i++) {
		int high = digit(from[2 * i]), low = digit(from[2 * i + 1]);
		if (high < 0 || low < 0)
			return false;
		to[i] = (uint8_t)(high << 4 | low);
	}
	return true;
}

bool fan_line_key_init(struct fan_line_key *k, const struct fan_cipher *c,
		       const struct fan_keys *keys, bool dials)
{
	assert(keys->count > 0);
	memset(k, 0, sizeof *k);
	k->cipher = c;
	k->keys = *keys;
	k->dials = dials;
	return c->random(k->ours, sizeof k->ours);
}

void fan_line_key_hello(const struct fan_line_key *k, char text[FAN_LINE_HELLO_CHARS + 1])
{
	memcpy(text, BEFORE_NONCE, sizeof BEFORE_NONCE - 1);
	put_hex(text + sizeof BEFORE_NONCE - 1, k->ours, sizeof k->ours);
	memcpy(text + FAN_LINE_HELLO_CHARS - (sizeof AFTER_NONCE - 1), AFTER_NONCE,
	       sizeof AFTER_NONCE);
}

/* Derive the keys of both directions from key number `of`. */
static void make_keys(struct fan_line_key *k, unsigned of)
{
	assert(of < k->keys.count);
	static const char up[] = "fanin lines up", down[] = "fanin lines down";
	const uint8_t *first = k->dials ? k->ours : k->theirs;
	const uint8_t *second = k->dials ? k->theirs : k->ours;
	uint8_t salt[2 * FAN_LINE_NONCE_BYTES];

	memcpy(salt, first, FAN_LINE_NONCE_BYTES);
	memcpy(salt + FAN_LINE_NONCE_BYTES, second, FAN_LINE_NONCE_BYTES);
	fan_hkdf(k->cipher, k->dials ? k->out : k->in, FAN_MAC_BYTES, salt, sizeof salt,
		 k->keys.key[of], FAN_KEY_BYTES, (const uint8_t *)up, sizeof up - 1);
	fan_hkdf(k->cipher, k->dials ? k->in : k->out, FAN_MAC_BYTES, salt, sizeof salt,
		 k->keys.key[of], FAN_KEY_BYTES, (const uint8_t *)down, sizeof down - 1);
}

static void mac_of(const struct fan_line_key *k, uint8_t mac[FAN_MAC_BYTES], const uint8_t *key,
		   uint64_t number, const char *text, size_t bytes)
{
	uint8_t whole[8 + FAN_MAC_BYTES];

	fan_put64(whole, number);
	k->cipher->mac(whole + 8, key, FAN_MAC_BYTES, (const uint8_t *)text, bytes);
	k->cipher->mac(mac, key, FAN_MAC_BYTES, whole, sizeof whole);
}

bool fan_line_key_may_sign(const struct fan_line_key *k)
{
	return k->begun && (k->dials || k->is_sure);
}

void fan_line_key_sign(struct fan_line_key *k, char mac[FAN_LINE_MAC_CHARS], const char *text,
		       size_t bytes)
{
	assert(k->begun);
	uint8_t whole[FAN_MAC_BYTES];

	mac_of(k, whole, k->out, k->signed_lines++, text, bytes);
	put_hex(mac, whole, SIGNED_BYTES);
	mac[2 * SIGNED_BYTES] = ' ';
}

static enum fan_line_verdict take_nonce(struct fan_line_key *k, const char *line, size_t bytes)
{
	const char *nonce = line + sizeof BEFORE_NONCE - 1;

	if (bytes != FAN_LINE_HELLO_CHARS ||
	    memcmp(line, BEFORE_NONCE, sizeof BEFORE_NONCE - 1) != 0 ||
	    !get_hex(k->theirs, nonce, sizeof k->theirs) ||
	    memcmp(nonce + 2 * sizeof k->theirs, AFTER_NONCE, sizeof AFTER_NONCE - 1) != 0)
		return FAN_LINE_CLEAR;
	k->begun = true;
	make_keys(k, 0);
	return FAN_LINE_BEGUN;
}

static bool is_right(const struct fan_line_key *k, const uint8_t *mac, const char *text,
		     size_t bytes)
{
	uint8_t whole[FAN_MAC_BYTES], differs = 0;

	mac_of(k, whole, k->in, k->taken, text, bytes);
	for (unsigned i = 0; i < SIGNED_BYTES; i++) /* in the same time for all */
		differs |= whole[i] ^ mac[i];
	return !differs;
}

enum fan_line_verdict fan_line_key_take(struct fan_line_key *k, const char *line, size_t bytes)
{
	uint8_t mac[SIGNED_BYTES];

	if (!k->begun)
		return take_nonce(k, line, bytes);
	if (bytes < FAN_LINE_MAC_CHARS || line[FAN_LINE_MAC_CHARS - 1] != ' ' ||
	    !get_hex(mac, line, sizeof mac))
		return FAN_LINE_CLEAR;
	line += FAN_LINE_MAC_CHARS;
	bytes -= FAN_LINE_MAC_CHARS;
	bool right = is_right(k, mac, line, bytes);
	for (unsigned i = 1; i < k->keys.count && !right && !k->dials && !k->is_sure; i++) {
		make_keys(k, i);
		right = is_right(k, mac, line, bytes);
	}
	if (!right)
		return FAN_LINE_BAD;
	k->is_sure = true;
	k->taken++;
	return FAN_LINE_GOOD;
}
