/* SPDX-License-Identifier: Apache-2.0 */
/* key_file.h - keys in files.
 *
 * A file has one key, or two while keys are changed: the first is used, the second is still valid.
 * A key is a line of 64 hexadecimal digits or 44 characters of base64.  Empty lines and comments,
 * from '#' on, are ignored.  The file must belong to the user of this process or to root, who alone
 * have access. */
#ifndef FAN_SEAL_KEY_FILE_H
#define FAN_SEAL_KEY_FILE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "hkdf.h"

#define FAN_KEYS_MAX	       2
#define FAN_KEY_TEXT_BYTES     65   /* of a key in hexadecimal digits, and its zero */
#define FAN_KEY_FILE_BYTES_MAX 4096 /* of a file */

struct fan_keys {
	unsigned count; /* 0: none, nothing is sealed */
	uint8_t key[FAN_KEYS_MAX][FAN_KEY_BYTES];
};

/* Read the file.  Returns 0; or -1 with the cause in `why`, of `bytes` bytes, which has the file's
 * name and nothing of its content. */
int fan_key_file_read(struct fan_keys *k, const char *path, char *why, size_t bytes);

/* As fan_key_file_read, from `text` of `length` bytes; `path` is for `why`. */
int fan_key_text_read(struct fan_keys *k, const char *text, size_t length, const char *path,
		      char *why, size_t bytes);

/* The key as hexadecimal digits. */
void fan_key_text(char text[FAN_KEY_TEXT_BYTES], const uint8_t key[FAN_KEY_BYTES]);

#endif
