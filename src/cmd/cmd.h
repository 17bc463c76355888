/* SPDX-License-Identifier: Apache-2.0 */
/* cmd.h - the subcommands, and what each program needs. */
#ifndef FAN_CMD_CMD_H
#define FAN_CMD_CMD_H

#include <stdbool.h>
#include <stdio.h>

/* The subcommands of `fanin`.  Each gets its own arguments, argv[0] being
 * "fanin NAME", and returns the exit status: 0, 1 for a failure, 2 for wrong usage.  A synonym has
 * the function of its subcommand. */

int cmd_switch(int argc, char **argv); /* and server */
int cmd_bench(int argc, char **argv);
int cmd_sim(int argc, char **argv);
int cmd_top(int argc, char **argv);    /* and ps */
int cmd_doctor(int argc, char **argv); /* and info */
int cmd_lab(int argc, char **argv);
int cmd_key(int argc, char **argv);
int cmd_controller(int argc, char **argv);

/* Only Python calls these: no list has them. */
int cmd_query(int argc, char **argv); /* of `fanin top` */
int cmd_probe(int argc, char **argv); /* of `fanin doctor` */

int cmd_plan(int argc, char **argv);

/* ---- output.c ---- */

/* The end of a program: output that could not be written is a failure. */

/* Flush all streams.  Returns `status`; or 1, and a line on stderr, when `status` is 0 and some of
 * standard output is lost (a full disk, say).  A closed pipe ends the process before. */
int cmd_end(int status);

/* Check, as cmd_end does, what a library prints before it ends the process itself, as argp does for
 * --help.  Call it first. */
void cmd_begin(void);

/* Can FILE be written?  "" and "-" can.  Otherwise report the cause, as
 * COMMAND's --OPTION, before work is done whose result would be lost. */
bool cmd_can_write(const char *command, const char *option, const char *file);

/* Open FILE, as COMMAND's --OPTION, for writing; "-" is standard output.  NULL, and a line on
 * stderr: it cannot be written. */
FILE *cmd_output(const char *command, const char *option, const char *file);

/* Close what cmd_output opened, unless it is standard output.  0; or -1, and a line on stderr, when
 * some of it is lost. */
int cmd_output_done(FILE *f, const char *command, const char *option, const char *file);

/* ---- python.c ---- */

/* Finds files that belong to this program by the program's own path. */

/* The first of `places` that exists, relative to the program's folder, into `found`; the
 * program's own path into `self`.  Both have PATH_MAX bytes; `places` ends with NULL.  -1: none
 * exists, or the program's path is unknown and `self` is empty. */
int find_installed(const char *const *places, char *self, char *found);

struct args_command;

/* Become the program `c->name` of python/fanin/PACKAGE, with `values` as its flags.  Rows are of
 * the kinds FLAG, NUMBER, SIZE, WORD, PEER, MANY, OPERAND, and those of text.  Returns the exit
 * status, and a line on stderr, when that fails. */
int cmd_python(const char *package, const struct args_command *c, const void *values);

#endif
