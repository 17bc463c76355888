/* SPDX-License-Identifier: Apache-2.0 */
#include "copy.h"

#include <stdint.h>
#include <string.h>

#define LINE 64u

#if defined(__x86_64__)
#include <emmintrin.h>

static void copy_line(uint8_t *to, const uint8_t *from)
{
	__m128i v[4];
	memcpy(v, from, sizeof v);
	for (unsigned i = 0; i < 4; i++)
		_mm_stream_si128((__m128i *)(to + sizeof *v * i), v[i]);
}

void fan_copy_past(void *to, const void *from, size_t bytes)
{
	uint8_t *t = to;
	const uint8_t *f = from;
	size_t done = 0;
	if (((uintptr_t)t & 15) == 0)
		for (; done + LINE <= bytes; done += LINE)
			copy_line(t + done, f + done);
	memcpy(t + done, f + done, bytes - done);
}

void fan_copy_fence(void)
{
	_mm_sfence();
}
#else
void fan_copy_past(void *to, const void *from, size_t bytes)
{
	memcpy(to, from, bytes);
}

void fan_copy_fence(void)
{
}
#endif
