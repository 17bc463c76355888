/* SPDX-License-Identifier: Apache-2.0 */
/* sized.h - structs of the public interface that begin with their size, and may grow.
 *
 * A program and the library it runs with may come from different versions.  A caller's struct
 * may be smaller than the library's: fields that it lacks keep their initial values.  It may be
 * larger if the bytes beyond the library's struct are zero, which means "not given" in every
 * field added after version 0.1.  Otherwise an option would be ignored silently.
 *
 * New fields go to the end.  None of these structs ends in padding (config.c and embedded_switch.c
 * assert it): a field added there would not change the size, and an older caller's padding would
 * be taken for its value. */
#ifndef FAN_LIB_BASE_SIZED_H
#define FAN_LIB_BASE_SIZED_H

#include <stddef.h>

#define FAN_SIZED_MAX 4096 /* bytes of any such struct, now or later */

struct fan_sized {
	size_t known;	  /* bytes of the library's struct, a multiple of a size_t's */
	size_t least;	  /* bytes that every version has had */
	const char *init; /* the macro that sets it, for error texts */
};

/* Copy the caller's struct at `from` over `*to`, which holds the initial values; its size becomes
 * `kind->known`.  Both are aligned for a size_t.
 *
 * FAN_E_INVALID  no version has such a size, or the caller sets a field that this library does
 *                not know.  `why`, `bytes` bytes, says which; `*to` is unspecified. */
int fan_sized_take(void *to, const struct fan_sized *kind, const void *from, char *why,
		   size_t bytes);

#endif
