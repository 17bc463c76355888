/* SPDX-License-Identifier: Apache-2.0 */
/* Addresses as text, and what is nearly one; names are not looked up (no_names.c). */
#include "fuzz.h"
#include "net/udp.h"

#define TEXT_MAX 400
#define WHY_MAX	 120

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static const char alphabet[] = "0123456789.:[]%-/ ";
	char text[TEXT_MAX + 1], why[WHY_MAX + 1];
	size_t n = size < TEXT_MAX ? size : TEXT_MAX;
	for (size_t i = 0; i < n; i++)
		text[i] = memchr(alphabet, data[i], sizeof alphabet - 1) ? (char)data[i]
									 : alphabet[data[i] % 18];
	text[n] = '\0';
	memset(why, 'w', sizeof why);
	fan_peer p;
	int err = fan_peer_parse(&p, text, why, WHY_MAX);
	FUZZ_CHECK(why[WHY_MAX] == 'w');
	if (err)
		FUZZ_CHECK(memchr(why, '\0', WHY_MAX));
	else
		FUZZ_CHECK(p.port <= 65535);
	return 0;
}
