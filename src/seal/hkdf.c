/* SPDX-License-Identifier: Apache-2.0 */
#include "hkdf.h"

#include <assert.h>
#include <string.h>

/* No protocol but this one makes keys under this salt. */
static const uint8_t salt_2[] = "fanin 2";

/* HKDF in its two steps: extract, and expand what that has given. */
static void extract(const struct fan_cipher *c, uint8_t prk[FAN_MAC_BYTES], const uint8_t *salt,
		    size_t salt_bytes, const uint8_t *key, size_t key_bytes)
{
	c->mac(prk, salt, salt_bytes, key, key_bytes);
}

static void expand(const struct fan_cipher *c, uint8_t *to, size_t bytes,
		   const uint8_t prk[FAN_MAC_BYTES], const uint8_t *info, size_t info_bytes)
{
	uint8_t okm[FAN_MAC_BYTES], text[FAN_HKDF_INFO_MAX + 1];
	assert(bytes <= sizeof okm && info_bytes <= FAN_HKDF_INFO_MAX);
	memcpy(text, info, info_bytes);
	text[info_bytes] = 1; /* number of the block */
	c->mac(okm, prk, FAN_MAC_BYTES, text, info_bytes + 1);
	memcpy(to, okm, bytes);
}

void fan_hkdf(const struct fan_cipher *c, uint8_t *to, size_t bytes, const uint8_t *salt,
	      size_t salt_bytes, const uint8_t *key, size_t key_bytes, const uint8_t *info,
	      size_t info_bytes)
{
	uint8_t prk[FAN_MAC_BYTES];
	extract(c, prk, salt, salt_bytes, key, key_bytes);
	expand(c, to, bytes, prk, info, info_bytes);
}

size_t fan_tenant_bytes(const char *job, size_t job_bytes)
{
	size_t n = 0;
	while (n < job_bytes && !memchr(FAN_TENANT_ENDS, job[n], sizeof FAN_TENANT_ENDS - 1))
		n++;
	return n;
}

void fan_tenant_extract(const struct fan_cipher *c, uint8_t prk[FAN_MAC_BYTES],
			const uint8_t fabric[FAN_KEY_BYTES])
{
	extract(c, prk, salt_2, sizeof salt_2 - 1, fabric, FAN_KEY_BYTES);
}

void fan_tenant_expand(const struct fan_cipher *c, uint8_t to[FAN_KEY_BYTES],
		       const uint8_t prk[FAN_MAC_BYTES], const char *name, size_t bytes)
{
	static const char what[] = "tenant ";
	uint8_t info[sizeof what - 1 + FAN_TENANT_MAX];
	assert(bytes <= FAN_TENANT_MAX);
	memcpy(info, what, sizeof what - 1);
	memcpy(info + sizeof what - 1, name, bytes);
	expand(c, to, FAN_KEY_BYTES, prk, info, sizeof what - 1 + bytes);
}

void fan_tenant_key(const struct fan_cipher *c, uint8_t to[FAN_KEY_BYTES],
		    const uint8_t fabric[FAN_KEY_BYTES], const char *name, size_t bytes)
{
	uint8_t prk[FAN_MAC_BYTES];
	fan_tenant_extract(c, prk, fabric);
	fan_tenant_expand(c, to, prk, name, bytes);
}

static uint8_t *put(uint8_t *to, uint64_t v, unsigned bytes)
{
	for (unsigned i = 0; i < bytes; i++)
		to[i] = (uint8_t)(v >> 8 * i);
	return to + bytes;
}

/* "up" or "down", salt, job and epoch; for "up" also rank and nonce. */
static void traffic(const struct fan_cipher *c, uint8_t to[FAN_CIPHER_KEY_BYTES],
		    const uint8_t tenant[FAN_KEY_BYTES], const struct fan_traffic *t,
		    const char *what, const uint8_t *more, size_t more_bytes)
{
	uint8_t info[FAN_HKDF_INFO_MAX];
	size_t n = strlen(what);
	memcpy(info, what, n);
	memcpy(info + n, t->salt, sizeof t->salt);
	n += sizeof t->salt;
	put(put(info + n, t->job, 4), t->epoch, 4);
	n += 8;
	if (more_bytes)
		memcpy(info + n, more, more_bytes);
	fan_hkdf(c, to, FAN_CIPHER_KEY_BYTES, salt_2, sizeof salt_2 - 1, tenant, FAN_KEY_BYTES,
		 info, n + more_bytes);
}

void fan_traffic_down(const struct fan_cipher *c, uint8_t to[FAN_CIPHER_KEY_BYTES],
		      const uint8_t tenant[FAN_KEY_BYTES], const struct fan_traffic *t)
{
	traffic(c, to, tenant, t, "down", NULL, 0);
}

void fan_traffic_up(const struct fan_cipher *c, uint8_t to[FAN_CIPHER_KEY_BYTES],
		    const uint8_t tenant[FAN_KEY_BYTES], const struct fan_traffic *t, uint16_t rank,
		    uint64_t nonce)
{
	uint8_t more[2 + 8];
	put(put(more, rank, 2), nonce, 8);
	traffic(c, to, tenant, t, "up", more, sizeof more);
}

void fan_traffic_hop(const struct fan_cipher *c, uint8_t to[FAN_CIPHER_KEY_BYTES],
		     const uint8_t tenant[FAN_KEY_BYTES], const struct fan_traffic *t,
		     uint64_t instance)
{
	uint8_t more[8];
	put(more, instance, sizeof more);
	traffic(c, to, tenant, t, "hop", more, sizeof more);
}
