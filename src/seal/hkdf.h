/* SPDX-License-Identifier: Apache-2.0 */
/* hkdf.h - key derivation: HKDF with SHA-256 (RFC 5869), and the keys that fanin derives by it. */
#ifndef FAN_SEAL_HKDF_H
#define FAN_SEAL_HKDF_H

#include "cipher.h"

#define FAN_KEY_BYTES	    32	/* of the keys in files */
#define FAN_HKDF_INFO_MAX   128 /* bytes */
#define FAN_TENANT_MAX	    63	/* bytes of a tenant's name, as of a job's */
#define FAN_SEAL_SALT_BYTES 16

/* Write `bytes` bytes, at most FAN_MAC_BYTES, of a key derived from `key` for the purpose `info`.
 */
void fan_hkdf(const struct fan_cipher *c, uint8_t *to, size_t bytes, const uint8_t *salt,
	      size_t salt_bytes, const uint8_t *key, size_t key_bytes, const uint8_t *info,
	      size_t info_bytes);

/* Characters that end a tenant's name in a job's name: '/', and the ones that libfanin appends to
 * the names of its own jobs. */
#define FAN_TENANT_ENDS "/#!"

/* The bytes of `job` that name its tenant: all up to the first of FAN_TENANT_ENDS. */
size_t fan_tenant_bytes(const char *job, size_t job_bytes);

/* Extract from the fabric's key what all tenants' keys are expanded from; expand from that the key
 * of tenant `name`, of `bytes` bytes. */
void fan_tenant_extract(const struct fan_cipher *c, uint8_t prk[FAN_MAC_BYTES],
			const uint8_t fabric[FAN_KEY_BYTES]);
void fan_tenant_expand(const struct fan_cipher *c, uint8_t to[FAN_KEY_BYTES],
		       const uint8_t prk[FAN_MAC_BYTES], const char *name, size_t bytes);

/* The key of tenant `name`, of `bytes` bytes, from the fabric's.  A tenant's key does not reveal
 * the fabric's, nor those of others. */
void fan_tenant_key(const struct fan_cipher *c, uint8_t to[FAN_KEY_BYTES],
		    const uint8_t fabric[FAN_KEY_BYTES], const char *name, size_t bytes);

/* The input of the keys of one life of a job.  WELCOME has all of it but the nonce. */
struct fan_traffic {
	uint32_t job, epoch;
	uint8_t salt[FAN_SEAL_SALT_BYTES]; /* random, drawn by the aggregator */
};

/* The key with which the aggregator seals what it sends to all ranks of that life. */
void fan_traffic_down(const struct fan_cipher *c, uint8_t to[FAN_CIPHER_KEY_BYTES],
		      const uint8_t tenant[FAN_KEY_BYTES], const struct fan_traffic *t);

/* The key with which the life `nonce` of rank `rank` seals what it sends. */
void fan_traffic_up(const struct fan_cipher *c, uint8_t to[FAN_CIPHER_KEY_BYTES],
		    const uint8_t tenant[FAN_KEY_BYTES], const struct fan_traffic *t, uint16_t rank,
		    uint64_t nonce);

/* The key with which the instance `instance` of a switch seals what it sends to the aggregator or
 * switch that has drawn the salt. */
void fan_traffic_hop(const struct fan_cipher *c, uint8_t to[FAN_CIPHER_KEY_BYTES],
		     const uint8_t tenant[FAN_KEY_BYTES], const struct fan_traffic *t,
		     uint64_t instance);

#endif
