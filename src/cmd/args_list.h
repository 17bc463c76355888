/* SPDX-License-Identifier: Apache-2.0 */
/* args_list.h - options as lines that a shell's completion reads: `fanin COMMAND --list-options`.
 *
 * A line has five fields, separated by tabs: "--name", "-l" or "-", the name of the argument or
 * "-", the words that it may be, separated by commas, or "-", and the help.  Completion asks the
 * program itself, so what it offers is what the program takes. */
#ifndef FAN_ARGS_LIST_H
#define FAN_ARGS_LIST_H

#include <stdbool.h>

#include "args.h"

struct argp_option;

/* Is the first argument --list-options? */
bool args_list_is_wanted(int argc, char **argv);

/* Print the table, to standard output. */
void args_list(const struct args_command *c);

/* Print the options of a command that has a table of argp's own. */
void args_list_argp(const struct argp_option *options);

#endif
