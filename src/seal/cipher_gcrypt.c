/* SPDX-License-Identifier: Apache-2.0 */
#include <assert.h>
#include <errno.h>
#include <gcrypt.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#include "cipher.h"

#define NONCE_BYTES 12

/* Keys lie in ordinary memory, which core dumps contain: libgcrypt's secure memory has to be
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
	if (gcry_cipher_open(&h, GCRY_CIPHER_AES128, GCRY_CIPHER_MODE_OCB, 0))
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
	       !gcry_cipher_authenticate(h, t->aad, t->aad_bytes) && !gcry_cipher_final(h);
}

static bool seal(void *key, const struct fan_cipher_text *t, uint8_t *to, const uint8_t *from,
		 uint8_t tag[FAN_CIPHER_TAG_BYTES])
{
	if (!begin_text(key, t))
		return false;
	if (gcry_cipher_encrypt(key, to, t->bytes, from, t->bytes))
		return false;
	return !gcry_cipher_gettag(key, tag, FAN_CIPHER_TAG_BYTES);
}

static bool unseal(void *key, const struct fan_cipher_text *t, uint8_t *text,
		   const uint8_t tag[FAN_CIPHER_TAG_BYTES])
{
	if (!begin_text(key, t))
		return false;
	if (gcry_cipher_decrypt(key, text, t->bytes, NULL, 0))
		return false;
	return !gcry_cipher_checktag(key, tag, FAN_CIPHER_TAG_BYTES);
}

/* MACs under keys that are used again.  To prepare a digest for a key takes longer than a MAC, so a
 * thread keeps the digests of keys that were used twice lately, and replaces the least recently
 * used one.  Keys of invented tenants, which are used once, displace none. */
#define MACS	    8
#define LATELY	    8
#define BLOCK_BYTES 64 /* of SHA-256 */

struct keyed {
	gcry_md_hd_t h; /* NULL: none */
	uint8_t key[FAN_MAC_BYTES];
	size_t key_bytes;
	uint64_t used; /* number of the MAC */
};

struct macs {
	struct keyed at[MACS];
	uint8_t once[LATELY][FAN_MAC_BYTES]; /* keys that were not there, in a ring */
	size_t once_bytes[LATELY];	     /* 0: none */
	unsigned next;
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

static struct macs *own_macs(void)
{
	struct macs *m = has_macs ? pthread_getspecific(macs_of_thread) : NULL;
	if (!has_macs || m)
		return m;
	m = calloc(1, sizeof *m);
	if (m && pthread_setspecific(macs_of_thread, m)) {
		free(m);
		return NULL;
	}
	return m;
}

static bool seen_lately(struct macs *m, const uint8_t *key, size_t key_bytes)
{
	unsigned at = m->next++ % LATELY;
	for (unsigned i = 0; i < LATELY; i++)
		if (key_bytes == m->once_bytes[i] && !memcmp(m->once[i], key, key_bytes))
			return true;
	memcpy(m->once[at], key, key_bytes);
	m->once_bytes[at] = key_bytes;
	return false;
}

/* The prepared digest of that key; NULL: there is none. */
static gcry_md_hd_t keyed(const uint8_t *key, size_t key_bytes)
{
	struct macs *m = own_macs();
	struct keyed *k;
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
	if (!seen_lately(m, key, key_bytes) ||
	    (!k->h && gcry_md_open(&k->h, GCRY_MD_SHA256, GCRY_MD_FLAG_HMAC)))
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

static void hash(uint8_t to[FAN_MAC_BYTES], const uint8_t *a, size_t a_bytes, const uint8_t *b,
		 size_t b_bytes)
{
	const gcry_buffer_t parts[2] = {
		{.size = a_bytes, .len = a_bytes, .data = (void *)a},
		{.size = b_bytes, .len = b_bytes, .data = (void *)b},
	};
	gcry_error_t e = gcry_md_hash_buffers(GCRY_MD_SHA256, 0, to, parts, 2);
	assert(!e); /* a digest that every build has, and no argument out of range */
	(void)e;
}

/* RFC 2104, from two hashes: libgcrypt's own one-time HMAC allocates, and takes twice as long. */
static void mac_once(uint8_t to[FAN_MAC_BYTES], const uint8_t *key, size_t key_bytes,
		     const uint8_t *data, size_t bytes)
{
	uint8_t pad[BLOCK_BYTES] = {0}, inner[FAN_MAC_BYTES];
	if (key_bytes > sizeof pad)
		hash(pad, key, key_bytes, NULL, 0);
	else
		memcpy(pad, key, key_bytes);
	for (unsigned i = 0; i < sizeof pad; i++)
		pad[i] ^= 0x36;
	hash(inner, pad, sizeof pad, data, bytes);
	for (unsigned i = 0; i < sizeof pad; i++)
		pad[i] ^= 0x36 ^ 0x5c;
	hash(to, pad, sizeof pad, inner, sizeof inner);
	explicit_bzero(pad, sizeof pad);
}

static void mac(uint8_t to[FAN_MAC_BYTES], const uint8_t *key, size_t key_bytes,
		const uint8_t *data, size_t bytes)
{
	gcry_md_hd_t h = keyed(key, key_bytes);
	if (!h) {
		mac_once(to, key, key_bytes, data, bytes);
		return;
	}
	gcry_md_reset(h);
	gcry_md_write(h, data, bytes);
	memcpy(to, gcry_md_read(h, GCRY_MD_SHA256), FAN_MAC_BYTES);
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
