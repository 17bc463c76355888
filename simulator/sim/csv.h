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
	char *field[FAN_CSV_FIELDS_MAX]; /* of that line, without blanks around them */
};

/* Begin with `text`, which is changed and must stay, and expect the columns `head`, for
 * instance "layer,numel".  False: the first line is another. */
bool fan_csv_open(struct fan_csv *c, char *text, const char *head);

/* The next line that is not empty and no # comment; false: there is none.  Its number of fields
 * is c->fields, which may differ from the head's. */
bool fan_csv_next(struct fan_csv *c);

/* A whole number of at most `most`; false: it is none. */
bool fan_csv_number(const char *field, uint64_t most, uint64_t *n);

/* Seconds, maybe with a fraction, as nanoseconds. */
bool fan_csv_seconds(const char *field, uint64_t *ns);

#endif
