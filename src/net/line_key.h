/* SPDX-License-Identifier: Apache-2.0 */
/* line_key.h - signed lines: without the key nobody can write or change one.
 *
 *     > {"nonce":"32 hexadecimal digits"}        who dials
 *     < {"nonce":"32 hexadecimal digits"}
 *     > MAC {"hello":"switch",...}               from now on each line, in both directions
 *
 * Each direction has a key of its own, HKDF(the shared one, "fanin lines up" or "down") with both
 * nonces, the dialler's first, as salt.  MAC is the first 16 bytes, as hexadecimal digits, of
 * HMAC-SHA-256(that key, the number of the line, 8 bytes, least first, and HMAC-SHA-256(that key,
 * the line)).  So a line can be neither replayed, nor redirected, nor left out.  Lines are not
 * encrypted. */
#ifndef FAN_LINE_KEY_H
#define FAN_LINE_KEY_H

#include "seal/key_file.h"

#define FAN_LINE_NONCE_BYTES 16
#define FAN_LINE_MAC_CHARS   33 /* of a MAC and the space behind it */
#define FAN_LINE_HELLO_CHARS 44 /* of a line with a nonce, without its LF */

enum fan_line_verdict {
	FAN_LINE_GOOD,	/* the text stands behind FAN_LINE_MAC_CHARS */
	FAN_LINE_BEGUN, /* a nonce; the caller ignores it */
	FAN_LINE_CLEAR, /* not signed */
	FAN_LINE_BAD,	/* another key, or not the line that is due */
};

struct fan_line_key {
	const struct fan_cipher *cipher;
	struct fan_keys keys; /* the dialler uses the first; the called side accepts any */
	bool dials;
	bool begun;   /* both nonces are known */
	bool is_sure; /* the other end has shown which key it has: `in` and `out` are of that */
	uint8_t ours[FAN_LINE_NONCE_BYTES], theirs[FAN_LINE_NONCE_BYTES];
	uint8_t in[FAN_MAC_BYTES], out[FAN_MAC_BYTES];
	uint64_t taken, signed_lines;
};

/* Begin.  False: there are no random numbers. */
bool fan_line_key_init(struct fan_line_key *k, const struct fan_cipher *c,
		       const struct fan_keys *keys, bool dials);

/* The line that has our nonce, without an LF, and a zero behind it. */
void fan_line_key_hello(const struct fan_line_key *k, char text[FAN_LINE_HELLO_CHARS + 1]);

/* May lines be signed now? */
bool fan_line_key_may_sign(const struct fan_line_key *k);

/* The MAC and the space of the next line to be sent. */
void fan_line_key_sign(struct fan_line_key *k, char mac[FAN_LINE_MAC_CHARS], const char *text,
		       size_t bytes);

/* A line has come. */
enum fan_line_verdict fan_line_key_take(struct fan_line_key *k, const char *line, size_t bytes);

#endif
