/* SPDX-License-Identifier: Apache-2.0 */
/* cmd.h - the subcommands of `fanin`.  Each gets its own arguments, argv[0] being
 * "fanin NAME", and returns the exit status: 0, 1 for a failure, 2 for wrong usage. */
#ifndef FAN_CMD_H
#define FAN_CMD_H

int cmd_switch(int argc, char **argv);
int cmd_server(int argc, char **argv);
int cmd_bench(int argc, char **argv);
int cmd_sim(int argc, char **argv);
int cmd_top(int argc, char **argv);
int cmd_doctor(int argc, char **argv);
int cmd_lab(int argc, char **argv);
int cmd_info(int argc, char **argv);
int cmd_key(int argc, char **argv);

/* cmd_planner runs these two in a program of their own. */
int cmd_planner(int argc, char **argv);
int cmd_plan(int argc, char **argv);
int cmd_controller(int argc, char **argv);

#endif
