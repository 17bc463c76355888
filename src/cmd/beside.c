/* SPDX-License-Identifier: Apache-2.0 */
#include "beside.h"

#include <libgen.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define PLACE_BYTES 64 /* of a place, at most */

int beside_find(const char *const *places, char *self, char *found)
{
	char folder[PATH_MAX], path[PATH_MAX + PLACE_BYTES];
	ssize_t n = readlink("/proc/self/exe", folder, sizeof folder - 1);

	folder[n > 0 ? n : 0] = '\0';
	memcpy(self, folder, n > 0 ? (size_t)n + 1 : 1);
	if (n <= 0)
		return -1;
	const char *dir = dirname(folder);
	for (; *places; places++) {
		snprintf(path, sizeof path, "%s/%s", dir, *places);
		if (realpath(path, found))
			return 0;
	}
	return -1;
}
