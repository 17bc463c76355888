/* SPDX-License-Identifier: Apache-2.0 */
/* args.h - options of a subcommand from one table.
 *
 * A row of the table is a flag `--name`, a key `name` in the section of the INI file that
 * bears the command's name, and a variable FANIN_COMMAND_NAME (dashes become underscores).
 * In rising order: what the caller put into the values, the INI file that FANIN_CONFIG
 * names, the variables, the flags. */
#ifndef FAN_ARGS_H
#define FAN_ARGS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "file/option.h"

#define ARGS_OPTIONS_MAX 64			   /* rows of a table */
#define ARGS_WHY_BYTES	 512			   /* enough for any error text */
#define ARGS_NAME_MAX	 63			   /* bytes of a name, a key or a word */
#define ARGS_TEXT_BYTES	 (FAN_OPTION_TEXT_MAX + 1) /* a text and its zero */
#define ARGS_MANY_MAX	 64			   /* texts of an option that may be repeated */

/* Kinds, for rows of tables. */
#define ARGS_FLAG    FAN_OPTION_FLAG /* no argument on the command line */
#define ARGS_NUMBER  FAN_OPTION_NUMBER
#define ARGS_SIZE    FAN_OPTION_SIZE
#define ARGS_TEXT    FAN_OPTION_TEXT
#define ARGS_WORD    FAN_OPTION_WORD
#define ARGS_PEER    FAN_OPTION_PEER
#define ARGS_MANY    FAN_OPTION_MANY
#define ARGS_OPERAND FAN_OPTION_OPERAND
#define ARGS_WORKER  FAN_OPTION_WORKER

/* Texts in the order of their sources; never freed. */
struct args_many {
	char *text[ARGS_MANY_MAX];
	unsigned count;
};

struct args_command {
	const char *name; /* "switch" */
	const char *help; /* a paragraph for --help */
	const struct fan_option *options;
	unsigned count;
	/* Names, ended by NULL: options that most need, and those of experiments.  --help has these
	 * in groups of their own, and the others between them.  NULL: --help has one group. */
	const char *const *needed, *const *experiments;
	/* Reads a row of the kind WORKER: fan_config_export. */
	int (*worker)(const char *flag, const char *text, char *expected, size_t bytes);
};

/* Refuse to start a daemon without a key where ranks have one.  `given`: its key file, by --OPTION,
 * "" for none; `variable` names the key file of ranks.  2, the exit status, and a line on stderr if
 * `given` is empty and the variable is set; otherwise 0. */
int args_need_key(const char *command, const char *option, const char *given, const char *variable);

/* Read all sources into `values`, the struct of the table's offsets.  An error, or --help, ends the
 * program; --list-options alone prints the table and does so. */
void args_parse(const struct args_command *c, void *values, int argc, char **argv);

/* End the program as args_parse does, with the error `format` about `command`. */
void args_wrong(const char *command, const char *format, ...)
	__attribute__((format(printf, 2, 3), noreturn));

#endif
