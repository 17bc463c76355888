/* SPDX-License-Identifier: Apache-2.0 */
/* args.h - options of a subcommand from one table.
 *
 * A row of the table is a flag `--name`, a key `name` in the section of the INI file that
 * bears the command's name, and a variable FANIN_COMMAND_NAME (dashes become underscores).
 * In rising order: what the caller put into the values, the INI file (`--config FILE` or
 * FANIN_CONFIG), the variables, the flags. */
#ifndef FAN_ARGS_H
#define FAN_ARGS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "file/option.h"

struct argp_option;

#define ARGS_OPTIONS_MAX 64  /* rows of a table */
#define ARGS_WHY_BYTES	 512 /* enough for any error text */
#define ARGS_NAME_MAX	 63  /* bytes of a name, a key or a word */
#define ARGS_TEXT_BYTES	 256 /* a text and its zero */

#define ARGS_CONFIG_HELP "INI file; otherwise the one that FANIN_CONFIG names"

enum args_kind {
	ARGS_FLAG = FAN_OPTION_FLAG,	 /* bool; no argument on the command line */
	ARGS_NUMBER = FAN_OPTION_NUMBER, /* int, min .. max */
	ARGS_SIZE = FAN_OPTION_SIZE,	 /* uint64_t bytes, min .. max */
	ARGS_TEXT = FAN_OPTION_TEXT,	 /* char[ARGS_TEXT_BYTES] */
	ARGS_WORD = FAN_OPTION_WORD,	 /* int: the index in `words` */
	ARGS_PEER = FAN_OPTION_OTHER,	 /* fan_peer */
};

struct args_option {
	const char *name; /* "slots" */
	int letter;	  /* 's' for -s; 0: none */
	enum args_kind kind;
	size_t at; /* offset in the values */
	int64_t min, max;
	const char *const *words; /* ended by NULL */
	const char *what;	  /* "N", "ADDR:PORT"; NULL for flags */
	const char *help;
};

struct args_command {
	const char *name; /* "switch" */
	const char *help; /* a paragraph for --help */
	const struct args_option *options;
	unsigned count;
	/* Names, ended by NULL: options that most need, and those of experiments.  --help has these
	 * in groups of their own, and the others between them.  NULL: --help has one group. */
	const char *const *needed, *const *experiments;
};

/* Read all sources into `values`, the struct of the table's offsets.  0; or -1 and the error in
 * `why`, ARGS_WHY_BYTES bytes: where, what was expected and what was found.  Wrong flags and --help
 * end the program, by argp. */
int args_read(const struct args_command *c, void *values, int argc, char **argv, char *why);

/* Refuse to start a daemon without a key where ranks have one.  `given`: its key file, by --OPTION,
 * "" for none; `variable` names the key file of ranks.  2, the exit status, and a line on stderr if
 * `given` is empty and the variable is set; otherwise 0. */
int args_need_key(const char *command, const char *option, const char *given, const char *variable);

/* As args_read, but prints an error and ends the program with status 2.  --list-options alone
 * prints the table and ends it with status 0. */
void args_parse(const struct args_command *c, void *values, int argc, char **argv);

/* The word of a NULL-terminated list that is most like `word`; NULL: none is like it. */
const char *args_nearest(const char *word, const char *const *words);

/* Store `text` as option `o` of `values`; for a flag of the command line `text` is NULL.
 * 0; or -1 with "expected ..., got ..." in `why`, `bytes` bytes. */
int args_set(const struct args_option *o, void *values, const char *text, char *why, size_t bytes);

/* Options as lines that a shell's completion reads: `fanin COMMAND --list-options`.
 *
 * A line has five fields, separated by tabs: "--name", "-l" or "-", the name of the argument or
 * "-", the words that it may be, separated by commas, or "-", and the help.  Completion asks the
 * program itself, so what it offers is what the program takes. */

/* Is the first argument --list-options? */
bool args_list_is_wanted(int argc, char **argv);

/* Print the options of a command that has a table of argp's own. */
void args_list_argp(const struct argp_option *options);

#endif
