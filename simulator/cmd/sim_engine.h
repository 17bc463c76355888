/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FAN_CMD_SIM_ENGINE_H
#define FAN_CMD_SIM_ENGINE_H

/* Run the request on standard input and print its answer, as sim_engine.c says.  Returns the exit
 * status: 0; 1 for a failure, 2 for a request that is wrong, both with {"error"}. */
int sim_engine(void);

#endif
