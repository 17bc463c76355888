/* SPDX-License-Identifier: Apache-2.0 */
/* fields.h - reads objects of the flat scenario into structs, by one table (fields.c).
 *
 * A row of the table is a key of a kind of object.  A key that no row names is an error, and so is
 * a value out of its bounds; the error names object and key: "nodes[3].slots: ...". */
#ifndef FAN_SIM_FIELDS_H
#define FAN_SIM_FIELDS_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define FAN_WHY_BYTES  1024
#define FAN_PATH_BYTES 128
#define FAN_FIELD_NAME 64 /* bytes of a text field, with its zero */

/* What is being read, and what is wrong with it. */
struct fan_reader {
	char path[FAN_PATH_BYTES]; /* of the object being read: "jobs[2].slow[0]" */
	char why[FAN_WHY_BYTES];
};

/* Read an object of the kind `kind` ("node") into its struct.  Absent keys leave their fields
 * alone.  0, or -1 with r->why. */
int fan_fields_read(struct fan_reader *r, const json_t *object, const char *kind, void *to);

/* Complain in r->why about `key` of the current object or, if it is NULL, the object.  Returns
 * -1. */
int fan_reader_fail(struct fan_reader *r, const char *key, const char *format, ...)
	__attribute__((format(printf, 3, 4)));

#endif
