/* SPDX-License-Identifier: Apache-2.0 */
/* The text of a key file.  What is taken has keys that are not zero, and reads the same when it is
 * written anew; what is not says so without what is in it. */
#include <stdio.h>

#include "fuzz.h"
#include "seal/key_file.h"

#define WHY_MAX 120

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static const uint8_t zeros[FAN_KEY_BYTES];
	char why[WHY_MAX + 1], text[FAN_KEYS_MAX * (FAN_KEY_TEXT_BYTES + 1)];
	struct fan_keys k, again;
	size_t bytes = 0;
	memset(why, 'w', sizeof why);
	int e = fan_key_text_read(&k, (const char *)data, size, "keys", why, WHY_MAX);
	FUZZ_CHECK(why[WHY_MAX] == 'w');
	FUZZ_CHECK(e == 0 || e == -1);
	if (e) {
		FUZZ_CHECK(memchr(why, '\0', WHY_MAX));
		FUZZ_CHECK(!memcmp(why, "keys:", 5));
		return 0;
	}
	FUZZ_CHECK(k.count >= 1 && k.count <= FAN_KEYS_MAX);
	for (unsigned i = 0; i < FAN_KEYS_MAX && i < k.count; i++) { /* gcc 14 wants both */
		FUZZ_CHECK(memcmp(k.key[i], zeros, sizeof zeros) != 0);
		fan_key_text(text + bytes, k.key[i]);
		bytes += FAN_KEY_TEXT_BYTES;
		text[bytes - 1] = '\n';
	}
	FUZZ_CHECK(!fan_key_text_read(&again, text, bytes, "keys", why, WHY_MAX));
	FUZZ_CHECK(again.count == k.count && !memcmp(again.key, k.key, k.count * sizeof k.key[0]));
	return 0;
}
