/* SPDX-License-Identifier: Apache-2.0 */
/* cipher.c - what sealing one datagram takes with each library of Debian's: ADR 28.
 *
 *     build/bench/cipher          nanoseconds, the median of 61 rounds in which all take turns, and
 * the least */
#include <gcrypt.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#ifdef WITH_NETTLE
#include <nettle/gcm.h>
#endif
#ifdef WITH_OPENSSL
#include <openssl/core_names.h>
#include <openssl/evp.h>
#endif
#ifdef WITH_GNUTLS
#include <gnutls/crypto.h>
#endif
#ifdef WITH_IPSEC_MB
#include <intel-ipsec-mb.h>
#endif

#include "seal/cipher.h"
#include "seal/hkdf.h"

#define HEAD   32 /* of the header, which is authenticated */
#define SMALL  60
#define FULL   1344
#define ROUNDS 61
#define PASSES 300 /* of each in a round */

static uint8_t head[HEAD], text[FULL], out[FULL + 16], tag[16], key[32] = {1};
static uint64_t counter;

static double now_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec * 1e9 + (double)t.tv_nsec;
}

static void *handle;

static void by_gcrypt(size_t bytes)
{
	const struct fan_cipher_text t = {counter++, head, HEAD, bytes};

	fan_cipher_gcrypt()->seal(handle, &t, out, text, tag);
}

static void by_gcrypt_refused(size_t bytes)
{
	const struct fan_cipher_text t = {counter++, head, HEAD, bytes};

	fan_cipher_gcrypt()->unseal(handle, &t, out, tag);
}

static gcry_cipher_hd_t gcm;

static void by_gcrypt_gcm(size_t bytes)
{
	uint8_t iv[12] = {0};

	memcpy(iv, &counter, sizeof counter);
	counter++;
	gcry_cipher_setiv(gcm, iv, sizeof iv);
	gcry_cipher_authenticate(gcm, head, HEAD);
	gcry_cipher_encrypt(gcm, out, bytes, text, bytes);
	gcry_cipher_gettag(gcm, tag, sizeof tag);
}

static gcry_cipher_hd_t counting;

/* The text's blocks alone: no tag.  What a packet takes at least with this library. */
static void counter_mode(size_t bytes)
{
	uint8_t iv[16] = {0};

	memcpy(iv, &counter, sizeof counter);
	counter++;
	gcry_cipher_setctr(counting, iv, sizeof iv);
	gcry_cipher_encrypt(counting, out, bytes, text, bytes);
}

#if defined WITH_NETTLE || defined WITH_OPENSSL || defined WITH_GNUTLS || defined WITH_IPSEC_MB
static void next_iv(uint8_t iv[12])
{
	memset(iv, 0, 12);
	memcpy(iv, &counter, sizeof counter);
	counter++;
}
#endif

#ifdef WITH_NETTLE
static struct gcm_aes128_ctx nettle;

static void by_nettle(size_t bytes)
{
	uint8_t iv[12];

	next_iv(iv);
	gcm_aes128_set_iv(&nettle, sizeof iv, iv);
	gcm_aes128_update(&nettle, HEAD, head);
	gcm_aes128_encrypt(&nettle, bytes, out, text);
	gcm_aes128_digest(&nettle, sizeof tag, tag);
}
#endif

#ifdef WITH_OPENSSL
static EVP_CIPHER_CTX *openssl, *openssl_ocb;

/* The key stays; what each packet has of its own is set anew. */
static void by_openssl(size_t bytes)
{
	uint8_t iv[12];
	OSSL_PARAM get[2] = {
		OSSL_PARAM_construct_octet_string(OSSL_CIPHER_PARAM_AEAD_TAG, tag, sizeof tag),
		OSSL_PARAM_construct_end()};

	next_iv(iv);
	EVP_EncryptInit_ex2(openssl, NULL, NULL, iv, NULL);
	EVP_Cipher(openssl, NULL, head, HEAD);
	EVP_Cipher(openssl, out, text, (unsigned)bytes);
	EVP_Cipher(openssl, out, NULL, 0);
	EVP_CIPHER_CTX_get_params(openssl, get);
}

static void by_openssl_ocb(size_t bytes)
{
	uint8_t iv[12];
	int n;

	next_iv(iv);
	EVP_EncryptInit_ex2(openssl_ocb, NULL, NULL, iv, NULL);
	EVP_EncryptUpdate(openssl_ocb, NULL, &n, head, HEAD);
	EVP_EncryptUpdate(openssl_ocb, out, &n, text, (int)bytes);
	EVP_EncryptFinal_ex(openssl_ocb, out + n, &n);
	EVP_CIPHER_CTX_ctrl(openssl_ocb, EVP_CTRL_AEAD_GET_TAG, sizeof tag, tag);
}
#endif

#ifdef WITH_GNUTLS
static gnutls_aead_cipher_hd_t gnutls;

static void by_gnutls(size_t bytes)
{
	uint8_t iv[12];
	size_t room = sizeof out;

	next_iv(iv);
	gnutls_aead_cipher_encrypt(gnutls, iv, sizeof iv, head, HEAD, sizeof tag, text, bytes, out,
				   &room);
}
#endif

#ifdef WITH_IPSEC_MB
static IMB_MGR *ipsec;
static struct gcm_key_data ipsec_key __attribute__((aligned(64)));
static struct gcm_context_data ipsec_packet;

static void by_ipsec_mb(size_t bytes)
{
	uint8_t iv[12];

	next_iv(iv);
	IMB_AES128_GCM_ENC(ipsec, &ipsec_key, &ipsec_packet, out, text, bytes, iv, head, HEAD, tag,
			   sizeof tag);
}
#endif

/* The MAC of a JOIN; under a key that has not been there before; and the keys of a rank. */
static void mac(size_t bytes)
{
	uint8_t m[FAN_MAC_BYTES];

	(void)bytes;
	fan_cipher_gcrypt()->mac(m, key, sizeof key, text, 96);
}

static void mac_under_new(size_t bytes)
{
	uint8_t m[FAN_MAC_BYTES], other[32] = {0};

	(void)bytes;
	counter++;
	memcpy(other, &counter, sizeof counter);
	fan_cipher_gcrypt()->mac(m, other, sizeof other, text, 96);
}

static void rank_keys(size_t bytes)
{
	const struct fan_traffic t = {.job = 1, .epoch = 2};
	uint8_t to[16];

	(void)bytes;
	fan_traffic_up(fan_cipher_gcrypt(), to, key, &t, 3, ++counter);
	fan_cipher_gcrypt()->close(fan_cipher_gcrypt()->open(to));
}

static const struct way {
	const char *name;
	void (*run)(size_t bytes);
} ways[] = {
	{"libgcrypt, OCB", by_gcrypt},
	{"  a tag that is wrong", by_gcrypt_refused},
	{"  counter mode, no tag", counter_mode},
	{"libgcrypt, GCM", by_gcrypt_gcm},
#ifdef WITH_NETTLE
	{"nettle, GCM", by_nettle},
#endif
#ifdef WITH_OPENSSL
	{"OpenSSL 3, EVP, OCB", by_openssl_ocb},
	{"OpenSSL 3, EVP, GCM", by_openssl},
#endif
#ifdef WITH_GNUTLS
	{"GnuTLS, GCM", by_gnutls},
#endif
#ifdef WITH_IPSEC_MB
	{"ipsec-mb, GCM", by_ipsec_mb},
#endif
	{"HMAC-SHA-256 of a JOIN", mac},
	{"  under a new key", mac_under_new},
	{"keys of a rank, made ready", rank_keys},
};

#define WAYS (sizeof ways / sizeof ways[0])

static double took[WAYS][2][ROUNDS];

static int compare(const void *a, const void *b)
{
	const double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

static void begin(void)
{
	handle = fan_cipher_gcrypt()->open(key);
	if (gcry_cipher_open(&counting, GCRY_CIPHER_AES128, GCRY_CIPHER_MODE_CTR, 0) ||
	    gcry_cipher_setkey(counting, key, 16) ||
	    gcry_cipher_open(&gcm, GCRY_CIPHER_AES128, GCRY_CIPHER_MODE_GCM, 0) ||
	    gcry_cipher_setkey(gcm, key, 16))
		abort();
#ifdef WITH_NETTLE
	gcm_aes128_set_key(&nettle, key);
#endif
#ifdef WITH_OPENSSL
	openssl = EVP_CIPHER_CTX_new();
	EVP_EncryptInit_ex2(openssl, EVP_CIPHER_fetch(NULL, "AES-128-GCM", NULL), key, NULL, NULL);
	openssl_ocb = EVP_CIPHER_CTX_new();
	EVP_EncryptInit_ex2(openssl_ocb, EVP_CIPHER_fetch(NULL, "AES-128-OCB", NULL), key, NULL,
			    NULL);
#endif
#ifdef WITH_GNUTLS
	const gnutls_datum_t datum = {key, 16};
	gnutls_aead_cipher_init(&gnutls, GNUTLS_CIPHER_AES_128_GCM, &datum);
#endif
#ifdef WITH_IPSEC_MB
	ipsec = alloc_mb_mgr(0);
	init_mb_mgr_auto(ipsec, NULL);
	IMB_AES128_GCM_PRE(ipsec, key, &ipsec_key);
#endif
}

int main(void)
{
	static const size_t size[2] = {SMALL, FULL};

	begin();
	for (unsigned r = 0; r < ROUNDS; r++)
		for (unsigned z = 0; z < 2; z++)
			for (size_t w = 0; w < WAYS; w++) {
				double since = now_ns();
				for (unsigned i = 0; i < PASSES; i++)
					ways[w].run(size[z]);
				took[w][z][r] = (now_ns() - since) / PASSES;
			}
	printf("libgcrypt %s; ns for %d and %d bytes, and %d in clear: median (least)\n",
	       gcry_check_version(NULL), SMALL, FULL, HEAD);
	for (size_t w = 0; w < WAYS; w++) {
		printf("%-28s", ways[w].name);
		for (unsigned z = 0; z < 2; z++) {
			qsort(took[w][z], ROUNDS, sizeof took[w][z][0], compare);
			printf(" %6.0f (%4.0f)", took[w][z][ROUNDS / 2], took[w][z][0]);
		}
		puts("");
	}
	return 0;
}
