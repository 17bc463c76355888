/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FAN_CMD_SIM_ENGINE_H
#define FAN_CMD_SIM_ENGINE_H

/* Answer the requests on standard input, as sim_engine.c says.  Returns the exit status: 1 if one
 * is no JSON or an answer cannot be written. */
int sim_engine(void);

#endif
