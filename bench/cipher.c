/* SPDX-License-Identifier: Apache-2.0 */
/* cipher.c - what sealing one datagram takes with each library of Debian's: ADR 28.
 *
 *     build/bench/cipher          nanoseconds, the least of 20 runs */
#include <gcrypt.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#ifdef WITH_NETTLE
#include <nettle/gcm.h>
#endif
#ifdef WITH_OPENSSL
#include <openssl/evp.h>
#endif

#include "seal/cipher_gcrypt.h"
#include "seal/hkdf.h"

#define HEAD   36
#define SMALL  60
#define FULL   1404 /* 1440 bytes with the header */
#define RUNS   20
#define PASSES 20000

static uint8_t head[HEAD], text[FULL], out[FULL], tag[16], key[32] = {1};
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

/* A forged packet costs this. */
static void by_gcrypt_refused(size_t bytes)
{
	const struct fan_cipher_text t = {counter++, head, HEAD, bytes};

	fan_cipher_gcrypt()->unseal(handle, &t, out, tag);
}

#ifdef WITH_NETTLE
static struct gcm_aes128_ctx nettle;

static void by_nettle(size_t bytes)
{
	uint8_t iv[12] = {0};

	memcpy(iv, &counter, sizeof counter);
	counter++;
	gcm_aes128_set_iv(&nettle, sizeof iv, iv);
	gcm_aes128_update(&nettle, HEAD, head);
	gcm_aes128_encrypt(&nettle, bytes, out, text);
	gcm_aes128_digest(&nettle, sizeof tag, tag);
}
#endif

#ifdef WITH_OPENSSL
static EVP_CIPHER_CTX *openssl;

static void by_openssl(size_t bytes)
{
	uint8_t iv[12] = {0};
	int n;

	memcpy(iv, &counter, sizeof counter);
	counter++;
	EVP_EncryptInit_ex(openssl, NULL, NULL, NULL, iv);
	EVP_EncryptUpdate(openssl, NULL, &n, head, HEAD);
	EVP_EncryptUpdate(openssl, out, &n, text, (int)bytes);
	EVP_EncryptFinal_ex(openssl, out, &n);
	EVP_CIPHER_CTX_ctrl(openssl, EVP_CTRL_GCM_GET_TAG, sizeof tag, tag);
}
#endif

/* The MAC of a JOIN, and the keys of a rank. */
static void mac(size_t bytes)
{
	uint8_t m[FAN_MAC_BYTES];

	fan_cipher_gcrypt()->mac(m, key, sizeof key, text, bytes);
}

static void rank_keys(size_t bytes)
{
	const struct fan_traffic t = {.job = 1, .epoch = 2};
	uint8_t to[16];

	(void)bytes;
	fan_traffic_up(fan_cipher_gcrypt(), to, key, &t, 3, ++counter);
	fan_cipher_gcrypt()->close(fan_cipher_gcrypt()->open(to));
}

static double least(void (*f)(size_t), size_t bytes)
{
	double best = 1e18;

	for (unsigned r = 0; r < RUNS; r++) {
		double since = now_ns();
		for (unsigned i = 0; i < PASSES / RUNS * (bytes > 100 ? 1 : 10); i++)
			f(bytes);
		double each = (now_ns() - since) / (PASSES / RUNS * (bytes > 100 ? 1 : 10));
		best = each < best ? each : best;
	}
	return best;
}

static void tell(const char *what, void (*f)(size_t))
{
	printf("%-28s %7.0f %7.0f\n", what, least(f, SMALL), least(f, FULL));
}

int main(void)
{
	handle = fan_cipher_gcrypt()->open(key);
	printf("%-28s %7s %7s   ns for a datagram of %d and %d bytes\n", "AES-128-GCM", "control",
	       "full", HEAD + SMALL, HEAD + FULL);
	printf("libgcrypt %s\n", gcry_check_version(NULL));
	tell("  seal", by_gcrypt);
	tell("  a tag that is wrong", by_gcrypt_refused);
#ifdef WITH_NETTLE
	gcm_aes128_set_key(&nettle, key);
	printf("nettle\n");
	tell("  seal", by_nettle);
#endif
#ifdef WITH_OPENSSL
	openssl = EVP_CIPHER_CTX_new();
	EVP_EncryptInit_ex(openssl, EVP_aes_128_gcm(), NULL, key, NULL);
	printf("OpenSSL 3, EVP\n");
	tell("  seal", by_openssl);
	EVP_CIPHER_CTX_free(openssl);
#endif
	printf("HMAC-SHA-256 of a JOIN        %6.0f\n", least(mac, SMALL + HEAD));
	printf("keys of a rank, made ready    %6.0f\n", least(rank_keys, SMALL));
	fan_cipher_gcrypt()->close(handle);
	return 0;
}
