/* SPDX-License-Identifier: Apache-2.0 */
/* name.h - names of jobs: FAN_NAME_MAX + 1 bytes, padded with zeros. */
#ifndef FAN_BASE_NAME_H
#define FAN_BASE_NAME_H

#include <stdint.h>
#include <string.h>

#include "limits.h"

/* Copy a padded name to `to`.  Returns its length without the padding. */
static inline uint8_t fan_name_copy(char *to, const char *name)
{
	uint8_t bytes = 0;

	memcpy(to, name, FAN_NAME_MAX + 1);
	while (bytes < FAN_NAME_MAX && name[bytes])
		bytes++;
	return bytes;
}

#endif
