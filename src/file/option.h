/* SPDX-License-Identifier: Apache-2.0 */
/* option.h - one option from one text, and INI files of them: the rows of the tables of the
 * commands (cmd/args.h) and of the library (lib/base/config.c), and what reads them. */
#ifndef FAN_FILE_OPTION_H
#define FAN_FILE_OPTION_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#define FAN_OPTION_WORDS_MAX 64	   /* of one option */
#define FAN_OPTION_TEXT_MAX  255   /* bytes, if `max` is 0 */
#define FAN_OPTION_LINES_MAX 10000 /* of an INI file */

enum fan_option_kind {
	FAN_OPTION_FLAG,      /* bool: yes, true, on, 1, or their contrary; NULL: yes */
	FAN_OPTION_NUMBER,    /* int, min .. max */
	FAN_OPTION_SIZE,      /* uint64_t bytes, min .. max: "4096", "4K", "16M", "1G" */
	FAN_OPTION_TEXT,      /* char[], 1 to `max` bytes and a zero; max 0: FAN_OPTION_TEXT_MAX */
	FAN_OPTION_PRINTABLE, /* as TEXT, without control characters and quotation marks */
	FAN_OPTION_WORD,      /* int: the index in `words` */
	FAN_OPTION_OTHER,     /* its table's own, and all kinds after it */
	FAN_OPTION_PEER,      /* fan_peer (cmd/args.h, as the rest) */
	FAN_OPTION_MANY,      /* struct args_many: may be repeated, at most `max` times */
	FAN_OPTION_OPERAND,   /* as TEXT, and no flag: the argument that has none */
	FAN_OPTION_WORKER,    /* an option of the library: what it takes is in that one's row */
};

struct fan_option {
	const char *name;
	int letter; /* 's' of the flag -s; 0: none */
	enum fan_option_kind kind;
	size_t at; /* offset in the struct of the values */
	int64_t min, max;
	const char *const *words; /* ended by NULL */
	const char *what;	  /* of a flag: "N", "ADDR:PORT"; NULL: it takes nothing */
	const char *help;
};

/* Store `text` in `values`; false: it is not what the option expects, and nothing is stored. */
bool fan_option_set(const struct fan_option *o, void *values, const char *text);

/* Write what it expects: "a number from 0 to 4096", "red, green or blue". */
void fan_option_expected(const struct fan_option *o, char *text, size_t bytes);

/* A variable that is set and not empty, for a library: NULL in a privileged program. */
const char *fan_option_variable(const char *name);

/* A key of an INI file.  False: it is wrong, and the rest is not read. */
typedef bool fan_option_take(void *arg, unsigned line, const char *section, const char *name,
			     const char *value);

/* Read the file.  0; 1: `take` refused a key; -1: line `*line` is wrong, `why` says what was
 * expected. */
int fan_option_read(FILE *file, fan_option_take *take, void *arg, unsigned *line, char *why,
		    size_t bytes);

#endif
