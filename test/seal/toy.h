/* SPDX-License-Identifier: Apache-2.0 */
/* toy.h - a cipher for tests, fast and of no use to anybody, that notices a counter used twice.
 *
 * All that is asked of one holds: other keys, counters, texts or headers have other tags. */
#ifndef TEST_SEAL_TOY_H
#define TEST_SEAL_TOY_H

#include "seal/cipher.h"

const struct fan_cipher *toy_cipher(void);

/* Begin anew: nothing has been sealed, and "random" bytes follow from `seed`. */
void toy_reset(uint64_t seed);

/* Packets sealed since, and pairs of key and counter that were sealed with more than once. */
uint64_t toy_sealed(void);
uint64_t toy_repeats(void);

/* Keys that are open. */
unsigned toy_open_keys(void);

#endif
