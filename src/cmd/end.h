/* SPDX-License-Identifier: Apache-2.0 */
/* end.h - the end of a program: output that could not be written is a failure. */
#ifndef FAN_CMD_END_H
#define FAN_CMD_END_H

#include <stdbool.h>
#include <stdio.h>

/* Flush all streams.  Returns `status`; or 1, and a line on stderr, when `status` is 0 and some of
 * standard output is lost (a full disk, say).  A closed pipe ends the process before. */
int cmd_end(int status);

/* Check, as cmd_end does, what a library prints before it ends the process itself, as argp does for
 * --help.  Call it first. */
void cmd_begin(void);

/* Can FILE be written?  "" and "-" can.  Otherwise say why not, as
 * COMMAND's --OPTION, before work is done whose result would be lost. */
bool cmd_can_write(const char *command, const char *option, const char *file);

/* Open FILE, as COMMAND's --OPTION, for writing; "-" is standard output.  NULL, and a line on
 * stderr: it cannot be written. */
FILE *cmd_output(const char *command, const char *option, const char *file);

/* Close what cmd_output opened, unless it is standard output.  0; or -1, and a line on stderr, when
 * some of it is lost. */
int cmd_output_done(FILE *f, const char *command, const char *option, const char *file);

#endif
