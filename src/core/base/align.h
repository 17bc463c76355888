/* SPDX-License-Identifier: Apache-2.0 */
/* align.h - sizes in whole cache lines, for objects that lay out their own memory. */
#ifndef FAN_BASE_ALIGN_H
#define FAN_BASE_ALIGN_H

#include <stddef.h>

#define FAN_ALIGN 64u

/* `n` bytes, rounded up to whole cache lines. */
static inline size_t fan_align_up(size_t n)
{
	return (n + FAN_ALIGN - 1) / FAN_ALIGN * FAN_ALIGN;
}

#endif
