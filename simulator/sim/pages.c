/* SPDX-License-Identifier: Apache-2.0 */
#include "pages.h"

#include <stdlib.h>
#include <sys/mman.h>

#define LINE  64u
#define LARGE ((size_t)2 << 20)

void *fan_pages_alloc(size_t bytes)
{
	size_t align = bytes < LARGE ? LINE : LARGE;
	size_t whole = (bytes + align - 1) / align * align;
	void *p = aligned_alloc(align, whole);
	if (p && align == LARGE)
		(void)madvise(p, whole, MADV_HUGEPAGE); /* without them it is slower, no more */
	return p;
}
