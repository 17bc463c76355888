/* SPDX-License-Identifier: Apache-2.0 */
#include "cipher_gcrypt.h"

#include <assert.h>
#include <errno.h>
#include <gcrypt.h>
#include <pthread.h>
#include <stdlib.h>
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

/* MACs under keys that come again.  To allocate a digest and to make it ready for a key takes
 * longer than a MAC; the least recently used of a thread's gives way. */
#define MACS 8

struct keyed {
	gcry_md_hd_t h; /* NULL: none */
	uint8_t key[FAN_MAC_BYTES];
	size_t key_bytes;
	uint64_t used; /* number of the MAC */
};

struct macs {
	struct keyed at[MACS];
	uint64_t number;
};

static pthread_key_t macs_of_thread;
static bool has_macs; /* the thread key could be made */

static void free_macs(void *of)
{
	struct macs *m = of;

	for (unsigned i = 0; i < MACS; i++)
		gcry_md_close(m->at[i].h);
	explicit_bzero(m, sizeof *m);
	free(m);
}

/* The digest under that key; NULL: do without. */
static gcry_md_hd_t keyed(const uint8_t *key, size_t key_bytes)
{
	struct macs *m = has_macs ? pthread_getspecific(macs_of_thread) : NULL;
	struct keyed *k;

	if (has_macs && !m && (m = calloc(1, sizeof *m)) &&
	    pthread_setspecific(macs_of_thread, m)) {
		free(m);
		m = NULL;
	}
	if (!m || key_bytes > sizeof k->key)
		return NULL;
	k = &m->at[0];
	m->number++;
	for (unsigned i = 0; i < MACS; i++) {
		struct keyed *o = &m->at[i];
		if (o->h && o->key_bytes == key_bytes && !memcmp(o->key, key, key_bytes)) {
			o->used = m->number;
			return o->h;
		}
		k = o->used < k->used ? o : k;
	}
	if (!k->h && gcry_md_open(&k->h, GCRY_MD_SHA256, GCRY_MD_FLAG_HMAC))
		return NULL;
	k->key_bytes = key_bytes;
	k->used = m->number;
	memcpy(k->key, key, key_bytes);
	if (!gcry_md_setkey(k->h, key, key_bytes))
		return k->h;
	gcry_md_close(k->h);
	k->h = NULL;
	return NULL;
}

static void mac(uint8_t to[FAN_MAC_BYTES], const uint8_t *key, size_t key_bytes,
		const uint8_t *data, size_t bytes)
{
	gcry_md_hd_t h = keyed(key, key_bytes);

	if (h) {
		gcry_md_reset(h);
		gcry_md_write(h, data, bytes);
		memcpy(to, gcry_md_read(h, GCRY_MD_SHA256), FAN_MAC_BYTES);
		return;
	}
	const gcry_buffer_t parts[2] = {
		{.size = key_bytes, .len = key_bytes, .data = (void *)key},
		{.size = bytes, .len = bytes, .data = (void *)data},
	};
	gcry_error_t e = gcry_md_hash_buffers(GCRY_MD_SHA256, GCRY_MD_FLAG_HMAC, to, parts, 2);

	assert(!e); /* a digest that every build has, and no argument out of range */
	(void)e;
}

static void begin_once(void)
{
	begin();
	has_macs = !pthread_key_create(&macs_of_thread, free_macs);
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

	pthread_once(&once, begin_once);
	return &table;
}
