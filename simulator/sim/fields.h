/* SPDX-License-Identifier: Apache-2.0 */
/* fields.h - reads JSON objects into structs, by tables, with errors that name the place.
 *
 * A row of a table is a key of an object.  A key that no row names is an error, so that a misspelt
 * one is not overlooked.  Numbers are given in the unit that ends the key's name, and stored as
 * whole nanoseconds, bits a second or millionths. */
#ifndef FAN_SIM_FIELDS_H
#define FAN_SIM_FIELDS_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define FAN_WHY_BYTES  1024
#define FAN_PATH_BYTES 256
#define FAN_FIELD_NAME 64 /* bytes of a text field, with its zero */
#define FAN_NAME_CHARS "letters, digits, - _ . and /"
#define FAN_NAME_SET   "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_./"

enum fan_field_kind {
	FAN_FIELD_TEXT,	 /* char[FAN_FIELD_NAME]: a name, of FAN_NAME_CHARS */
	FAN_FIELD_NAMES, /* as TEXT; a * at the end stands for all names with that beginning */
	FAN_FIELD_U16,	 /* whole numbers */
	FAN_FIELD_U32,
	FAN_FIELD_U64,
	FAN_FIELD_GBPS, /* uint64_t bits a second */
	FAN_FIELD_S,	/* uint64_t nanoseconds, given in seconds; next: in ms, in us */
	FAN_FIELD_MS,
	FAN_FIELD_US,
	FAN_FIELD_SHARE, /* uint32_t millionths, given as 0 .. 1 */
	FAN_FIELD_TIMES, /* as SHARE, but may be above 1 */
	FAN_FIELD_BOOL,	 /* bool */
	FAN_FIELD_WORD,	 /* int: the index in `words` */
	FAN_FIELD_OTHER, /* known, but read elsewhere */
};

struct fan_field {
	const char *key;
	enum fan_field_kind kind;
	size_t at;		  /* offset in the struct */
	double min, max;	  /* in the key's unit; both 0: any that fits */
	const char *const *words; /* ended by NULL */
};

/* What is being read, and what is wrong with it. */
struct fan_reader {
	const char *file;
	char path[FAN_PATH_BYTES]; /* of the object being read: "jobs[2].slow[0]" */
	char why[FAN_WHY_BYTES];
};

/* Read an object.  Absent keys leave their fields alone.  0, or -1 with r->why: `file: path:
 * cause`. */
int fan_fields_read(struct fan_reader *r, const json_t *object, const struct fan_field *fields,
		    unsigned count, void *to);

/* Complain in r->why about `key` of the current object or, if it is NULL, the object.  Returns
 * -1. */
int fan_reader_fail(struct fan_reader *r, const char *key, const char *format, ...)
	__attribute__((format(printf, 3, 4)));

/* Enter a part of the current object, "jobs" or "[3]".  Returns the length to leave with. */
size_t fan_reader_enter(struct fan_reader *r, const char *format, ...)
	__attribute__((format(printf, 2, 3)));
void fan_reader_leave(struct fan_reader *r, size_t length);

#endif
