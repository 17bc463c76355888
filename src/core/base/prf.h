/* SPDX-License-Identifier: Apache-2.0 */
/* prf.h - a keyed function that looks random to all without the key: SipHash-2-4.
 *
 * An aggregator numbers its jobs and proves addresses with it, so that senders that cannot see
 * packets have to guess.  It draws no random numbers: the caller gives the key.  Source: Aumasson,
 * Bernstein, SipHash: a fast short-input PRF, 2012. */
#ifndef FAN_BASE_PRF_H
#define FAN_BASE_PRF_H

#include <stdint.h>

/* 128 random bits, never sent. */
struct fan_secret {
	uint64_t k[2];
};

/* SipHash-2-4 of the `words` words at `m`, each as its 8 bytes in little-endian order. */
uint64_t fan_prf(const struct fan_secret *s, const uint64_t *m, unsigned words);

/* A permutation of the 32-bit numbers: different `n` give different numbers.  A Feistel network of
 * four rounds with fan_prf (Luby, Rackoff, 1988). */
uint32_t fan_prf_permute(const struct fan_secret *s, uint32_t n);

#endif
