/* SPDX-License-Identifier: Apache-2.0 */
/* fields.h - JSON objects into structs, from tables, with errors that name the place.
 *
 * A row of a table is a key of an object.  Keys that no row names are errors, so that a
 * misspelt one cannot be overlooked.  Numbers are given in the unit that the key's name
 * ends in and stored as whole nanoseconds, bits a second or millionths. */
#ifndef FAN_SIM_FIELDS_H
#define FAN_SIM_FIELDS_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define FAN_WHY_BYTES  1024
#define FAN_PATH_BYTES 256
#define FAN_FIELD_NAME 64 /* bytes of a text field, its zero counted */
#define FAN_NAME_CHARS "letters, digits, - _ . and /"
#define FAN_NAME_SET   "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_./"

enum fan_field_kind {
	FAN_FIELD_TEXT,	 /* char[FAN_FIELD_NAME]: a name, of FAN_NAME_CHARS */
	FAN_FIELD_NAMES, /* as TEXT; a * at its end stands for all names that begin so */
	FAN_FIELD_U16,	 /* whole numbers */
	FAN_FIELD_U32,
	FAN_FIELD_U64,
	FAN_FIELD_GBPS, /* uint64_t bits a second */
	FAN_FIELD_S,	/* uint64_t nanoseconds, given in seconds; below: in ms, in us */
	FAN_FIELD_MS,
	FAN_FIELD_US,
	FAN_FIELD_SHARE, /* uint32_t millionths, given as 0 .. 1 */
	FAN_FIELD_TIMES, /* as SHARE, also beyond 1 */
	FAN_FIELD_BOOL,	 /* bool */
	FAN_FIELD_WORD,	 /* int: the index in `words` */
	FAN_FIELD_OTHER, /* known; somebody else reads it */
};

struct fan_field {
	const char *key;
	enum fan_field_kind kind;
	size_t at;		  /* offset in the struct */
	double min, max;	  /* as given; both 0: any that fits */
	const char *const *words; /* ended by NULL */
};

/* What is being read, and what is wrong with it. */
struct fan_reader {
	const char *file;
	char path[FAN_PATH_BYTES]; /* of the object that is being read: "jobs[2].slow[0]" */
	char why[FAN_WHY_BYTES];
};

/* Read an object.  Fields that are absent keep what the struct has.  0, or -1 with r->why:
 * `file: path: cause`. */
int fan_fields_read(struct fan_reader *r, const json_t *object, const struct fan_field *fields,
		    unsigned count, void *to);

/* Complain about `key` of the current object, or about the object itself if it is NULL.
 * Returns -1. */
int fan_reader_fail(struct fan_reader *r, const char *key, const char *format, ...)
	__attribute__((format(printf, 3, 4)));

/* Go to a part of the current object, "jobs" or "[3]"; the length to go back to. */
size_t fan_reader_enter(struct fan_reader *r, const char *format, ...)
	__attribute__((format(printf, 2, 3)));
void fan_reader_leave(struct fan_reader *r, size_t length);

#endif
