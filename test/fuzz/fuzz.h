/* SPDX-License-Identifier: Apache-2.0 */
/* fuzz.h - input bytes as a list of choices.
 *
 * A target reads numbers and bytes until its input is used up; what is beyond the end
 * reads as zero, so every input means something. */
#ifndef TEST_FUZZ_FUZZ_H
#define TEST_FUZZ_FUZZ_H

#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "core/wire/wire.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

struct fuzz {
	const uint8_t *p;
	size_t left;
};

static inline uint8_t fuzz_8(struct fuzz *z)
{
	if (z->left == 0)
		return 0;
	z->left--;
	return *z->p++;
}

static inline uint16_t fuzz_16(struct fuzz *z)
{
	uint16_t low = fuzz_8(z);
	return (uint16_t)(low | fuzz_8(z) << 8);
}

/* Up to `bytes` bytes, the rest zero. */
static inline void fuzz_bytes(struct fuzz *z, uint8_t *to, size_t bytes)
{
	size_t n = bytes < z->left ? bytes : z->left;
	memset(to, 0, bytes);
	if (n)
		memcpy(to, z->p, n);
	z->p += n;
	z->left -= n;
}

/* A number that is mostly small. */
static inline uint64_t fuzz_frag(struct fuzz *z)
{
	uint8_t b = fuzz_8(z);
	return b < 240 ? b % 32u : (uint64_t)fuzz_16(z) << (b % 16) * 4;
}

/* Make version and checksum of the packet right, so that what is inside counts. */
static inline void fuzz_fix(uint8_t *packet, size_t len)
{
	if (len < FAN_HEAD_BYTES)
		return;
	packet[0] = FAN_WIRE_VERSION;
	bool elements = packet[1] <= FAN_TYPE_RESULT;
	uint32_t crc = fan_crc32c(0, packet, FAN_HEAD_BYTES - 4);
	if (!elements || fan_get16(packet + 2) & FAN_F_SUMMED)
		crc = fan_crc32c(crc, packet + FAN_HEAD_BYTES, len - FAN_HEAD_BYTES);
	fan_put32(packet + FAN_HEAD_BYTES - 4, crc);
}

#ifdef FUZZ_NO_NAMES
#include <netdb.h>

/* In place of getaddrinfo (ld's --wrap): reads addresses, and asks nobody for names. */
int __real_getaddrinfo(const char *node, const char *service, const struct addrinfo *hints,
		       struct addrinfo **list);
int __wrap_getaddrinfo(const char *node, const char *service, const struct addrinfo *hints,
		       struct addrinfo **list);

int __wrap_getaddrinfo(const char *node, const char *service, const struct addrinfo *hints,
		       struct addrinfo **list)
{
	struct addrinfo h = *hints;

	h.ai_flags |= AI_NUMERICHOST;
	return __real_getaddrinfo(node, service, &h, list);
}
#endif

#define FUZZ_CHECK(condition)                                                                      \
	do {                                                                                       \
		if (!(condition))                                                                  \
			abort();                                                                   \
	} while (0)

#endif
