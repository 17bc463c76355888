/* SPDX-License-Identifier: Apache-2.0 */
#include "cipher_gcrypt.h"

#include <assert.h>
#include <errno.h>
#include <gcrypt.h>
#include <pthread.h>
#include <string.h>
#include <sys/random.h>

#define NONCE_BYTES 12

/* Keys lie in memory that core dumps may have: secure memory of libgcrypt's would have to be
 * locked, and few bytes may be. */
static void begin(void)
{
	if (gcry_control(GCRYCTL_INITIALIZATION_FINISHED_P))
		return;
	gcry_check_version(NULL);
	gcry_control(GCRYCTL_DISABLE_SECMEM, 0);
	gcry_control(GCRYCTL_INITIALIZATION_FINISHED, 0);
}

static void *open_key(const uint8_t key[FAN_CIPHER_KEY_BYTES])
{
	gcry_cipher_hd_t h;

	if (gcry_cipher_open(&h, GCRY_CIPHER_AES128, GCRY_CIPHER_MODE_GCM, 0))
		return NULL;
	if (gcry_cipher_setkey(h, key, FAN_CIPHER_KEY_BYTES)) {
		gcry_cipher_close(h);
		return NULL;
	}
	return h;
}

static void close_key(void *key)
{
	gcry_cipher_close(key);
}

/* The counter in the low bytes of the nonce: keys differ by direction and sender. */
static bool begin_text(gcry_cipher_hd_t h, const struct fan_cipher_text *t)
{
	uint8_t nonce[NONCE_BYTES] = {0};

	for (unsigned i = 0; i < sizeof t->counter; i++)
		nonce[i] = (uint8_t)(t->counter >> 8 * i);
	return !gcry_cipher_setiv(h, nonce, sizeof nonce) &&
	       !gcry_cipher_authenticate(h, t->aad, t->aad_bytes);
}

static bool seal(void *key, const struct fan_cipher_text *t, uint8_t *to, const uint8_t *from,
		 uint8_t tag[FAN_CIPHER_TAG_BYTES])
{
	if (!begin_text(key, t))
		return false;
	if (t->bytes && gcry_cipher_encrypt(key, to, t->bytes, from, t->bytes))
		return false;
	return !gcry_cipher_gettag(key, tag, FAN_CIPHER_TAG_BYTES);
}

static bool unseal(void *key, const struct fan_cipher_text *t, uint8_t *text,
		   const uint8_t tag[FAN_CIPHER_TAG_BYTES])
{
	if (!begin_text(key, t))
		return false;
	if (t->bytes && gcry_cipher_decrypt(key, text, t->bytes, NULL, 0))
		return false;
	return !gcry_cipher_checktag(key, tag, FAN_CIPHER_TAG_BYTES);
}

static void mac(uint8_t to[FAN_MAC_BYTES], const uint8_t *key, size_t key_bytes,
		const uint8_t *data, size_t bytes)
{
	const gcry_buffer_t parts[2] = {
		{.size = key_bytes, .len = key_bytes, .data = (void *)key},
		{.size = bytes, .len = bytes, .data = (void *)data},
	};
	gcry_error_t e = gcry_md_hash_buffers(GCRY_MD_SHA256, GCRY_MD_FLAG_HMAC, to, parts, 2);

	assert(!e); /* a digest that every build has, and no argument out of range */
	(void)e;
}

static bool random_bytes(uint8_t *to, size_t bytes)
{
	ssize_t n;

	do
		n = getrandom(to, bytes, 0);
	while (n < 0 && errno == EINTR);
	return n == (ssize_t)bytes;
}

const struct fan_cipher *fan_cipher_gcrypt(void)
{
	static const struct fan_cipher table = {open_key, close_key, seal,
						unseal,	  mac,	     random_bytes};
	static pthread_once_t once = PTHREAD_ONCE_INIT;

	pthread_once(&once, begin);
	return &table;
}
