/* SPDX-License-Identifier: Apache-2.0 */
/* beside.h - finds files that belong to this program by the program's own path. */
#ifndef FAN_CMD_BESIDE_H
#define FAN_CMD_BESIDE_H

/* The first of `places` that exists, relative to the program's folder, into `found`; the
 * program's own path into `self`.  Both have PATH_MAX bytes; `places` ends with NULL.  -1: none
 * exists, or the program's path is unknown and `self` is empty. */
int beside_find(const char *const *places, char *self, char *found);

#endif
