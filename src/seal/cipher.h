/* SPDX-License-Identifier: Apache-2.0 */
/* cipher.h - the cryptography that sealing asks for, as a table of functions.
 *
 * Daemons and library use libgcrypt's (cipher_gcrypt.c).  Tests, simulations and fuzzers may use
 * another one, so that they can look at keys and counters. */
#ifndef FAN_SEAL_CIPHER_H
#define FAN_SEAL_CIPHER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define FAN_CIPHER_KEY_BYTES 16 /* AES-128 */
#define FAN_CIPHER_TAG_BYTES 16
#define FAN_MAC_BYTES	     32 /* of HMAC-SHA-256, and of its keys here */

/* A text to seal with a counter that this key has not had before: `aad` stays in clear. */
struct fan_cipher_text {
	uint64_t counter;
	const uint8_t *aad;
	size_t aad_bytes;
	size_t bytes; /* of the text */
};

struct fan_cipher {
	/* A key made ready for use; NULL: no memory. */
	void *(*open)(const uint8_t key[FAN_CIPHER_KEY_BYTES]);
	void (*close)(void *key); /* NULL is allowed */

	/* Encrypt `from` to `to`, which do not overlap, and write the tag.  False: not done. */
	bool (*seal)(void *key, const struct fan_cipher_text *t, uint8_t *to, const uint8_t *from,
		     uint8_t tag[FAN_CIPHER_TAG_BYTES]);

	/* Decrypt `text` in place.  False: the tag is not that of text, aad, counter and key, and
	 * `text` is unspecified. */
	bool (*unseal)(void *key, const struct fan_cipher_text *t, uint8_t *text,
		       const uint8_t tag[FAN_CIPHER_TAG_BYTES]);

	/* HMAC-SHA-256 of `bytes` bytes at `data` under a key of `key_bytes` bytes. */
	void (*mac)(uint8_t mac[FAN_MAC_BYTES], const uint8_t *key, size_t key_bytes,
		    const uint8_t *data, size_t bytes);

	/* Bytes that nobody can guess.  False: there are none. */
	bool (*random)(uint8_t *to, size_t bytes);
};

/* ---- cipher_gcrypt.c: libgcrypt's AES-128-OCB and HMAC-SHA-256.  ADR 28 has why this library ----
 */

/* The table.  The first call initialises libgcrypt, unless the process has done so.  Any thread may
 * call. */
const struct fan_cipher *fan_cipher_gcrypt(void);

#endif
