/* SPDX-License-Identifier: Apache-2.0 */
/* csv.h - tables of comma-separated values whose first line names the columns. */
#ifndef FAN_SIM_CSV_H
#define FAN_SIM_CSV_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define FAN_CSV_FIELDS_MAX 16

/* A table that is being read, line by line. */
struct fan_csv {
	char *rest;
	unsigned line; /* number of the last line read */
	unsigned fields;
	char *field[FAN_CSV_FIELDS_MAX]; /* of that line, without surrounding blanks */
};

/* Begin to read `text`, which is changed and must stay, and whose columns must be `head`, for
 * instance "layer,numel".  False: the first line differs. */
bool fan_csv_open(struct fan_csv *c, char *text, const char *head);

/* Read the next line that is neither empty nor a # comment; false: there is none.  It has c->fields
 * fields, perhaps not as many as the head. */
bool fan_csv_next(struct fan_csv *c);

/* Read a whole number of at most `most`; false: `field` is none. */
bool fan_csv_number(const char *field, uint64_t most, uint64_t *n);

/* Read seconds, with or without a fraction, as nanoseconds.  False: `field` is no such number. */
bool fan_csv_seconds(const char *field, uint64_t *ns);

#endif
