/* SPDX-License-Identifier: Apache-2.0 */
/* controller_ask.h - asks a controller through its Unix socket. */
#ifndef FAN_CMD_CONTROLLER_ASK_H
#define FAN_CMD_CONTROLLER_ASK_H

/* Ask the controller at `path` one line.  Its answer, to be freed; NULL: `why`, ARGS_WHY_BYTES,
 * says why there is none. */
char *controller_ask(const char *path, const char *line, char *why);

#endif
