/* SPDX-License-Identifier: Apache-2.0 */
/* main.c - fanin-planner: the subcommands that need the solvers.  `fanin` runs it. */
#include <stdio.h>
#include <string.h>

#include "cmd/cmd.h"

int main(int argc, char **argv)
{
	static char plan[] = "fanin plan", controller[] = "fanin controller";
	const char *name = argc > 1 ? argv[1] : "";

	cmd_begin();
	if (strcmp(name, "plan") == 0) {
		argv[1] = plan;
		return cmd_end(cmd_plan(argc - 1, argv + 1));
	}
	if (strcmp(name, "controller") == 0) {
		argv[1] = controller;
		return cmd_end(cmd_controller(argc - 1, argv + 1));
	}
	fprintf(stderr, "fanin-planner: a part of fanin: run `fanin plan` or `fanin controller`\n");
	return 2;
}
