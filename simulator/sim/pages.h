/* SPDX-License-Identifier: Apache-2.0 */
/* pages.h - memory that a run walks through again and again.
 *
 * With a thousand workers each event touches another one, and finding its page takes as long as
 * reading it.  So large pieces are allocated in huge pages, where the kernel has them. */
#ifndef FAN_SIM_PAGES_H
#define FAN_SIM_PAGES_H

#include <stdlib.h>
#include <sys/mman.h>

#define FAN_PAGES_LINE	64u
#define FAN_PAGES_LARGE ((size_t)2 << 20)

/* Allocate `bytes`, aligned to a cache line, for free().  NULL: out of memory. */
static inline void *fan_pages_alloc(size_t bytes)
{
	size_t align = bytes < FAN_PAGES_LARGE ? FAN_PAGES_LINE : FAN_PAGES_LARGE;
	size_t whole = (bytes + align - 1) / align * align;
	void *p = aligned_alloc(align, whole);
	if (p && align == FAN_PAGES_LARGE)
		(void)madvise(p, whole, MADV_HUGEPAGE); /* without huge pages it is only slower */
	return p;
}

#endif
