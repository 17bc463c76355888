/* SPDX-License-Identifier: Apache-2.0 */
/* cipher_gcrypt.h - libgcrypt's AES-128-OCB and HMAC-SHA-256.  ADR 28 has why this library. */
#ifndef FAN_SEAL_CIPHER_GCRYPT_H
#define FAN_SEAL_CIPHER_GCRYPT_H

#include "cipher.h"

/* The table.  The first call initialises libgcrypt, unless the process has done so.  Any thread may
 * call. */
const struct fan_cipher *fan_cipher_gcrypt(void);

#endif
