/* SPDX-License-Identifier: Apache-2.0 */
#include "sized.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

#include "core/base/err.h"

/* Return the offset of the first byte of `from` that is set, among those in [at, end); `end`: none
 * is. */
static size_t first_set(const unsigned char *from, size_t at, size_t end)
{
	while (at < end && !from[at])
		at++;
	return at;
}

int fan_sized_take(void *to, const struct fan_sized *kind, const void *from, char *why,
		   size_t bytes)
{
	size_t given;
	assert(kind->least >= sizeof given && kind->least <= kind->known);
	assert(kind->known <= FAN_SIZED_MAX && kind->known % sizeof given == 0);
	memcpy(&given, from, sizeof given);
	if (given < kind->least || given > FAN_SIZED_MAX || given % sizeof given) {
		snprintf(why, bytes, "options.size: %zu: expected %zu: set the options with %s",
			 given, kind->known, kind->init);
		return FAN_E_INVALID;
	}
	size_t at = first_set(from, kind->known, given);
	if (at < given) {
		snprintf(why, bytes,
			 "options.size: %zu: byte %zu is set, and this libfanin knows %zu bytes: "
			 "expected zeros there, or a newer libfanin",
			 given, at, kind->known);
		return FAN_E_INVALID;
	}
	memcpy(to, from, given < kind->known ? given : kind->known);
	memcpy(to, &kind->known, sizeof kind->known);
	return FAN_OK;
}
