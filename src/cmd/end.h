/* SPDX-License-Identifier: Apache-2.0 */
/* end.h - the end of a program: output that could not be written is a failure. */
#ifndef FAN_CMD_END_H
#define FAN_CMD_END_H

/* Flush all streams.  Returns `status`; or 1, and a line on stderr, when `status` is 0 and some of
 * standard output is lost (a full disk, say).  A closed pipe ends the process before. */
int cmd_end(int status);

#endif
