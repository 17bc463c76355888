/* SPDX-License-Identifier: Apache-2.0 */
/* main.c - fanin-planner: `fanin plan`, which needs the solvers.  `fanin` runs it. */
#include <stdio.h>
#include <string.h>

#include "cmd/cmd.h"

int main(int argc, char **argv)
{
	static char plan[] = "fanin plan";

	cmd_begin();
	if (argc > 1 && strcmp(argv[1], "plan") == 0) {
		argv[1] = plan;
		return cmd_end(cmd_plan(argc - 1, argv + 1));
	}
	fprintf(stderr, "fanin-planner: a part of fanin: run `fanin plan`\n");
	return 2;
}
