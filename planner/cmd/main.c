/* SPDX-License-Identifier: Apache-2.0 */
/* main.c - fanin-planner: the optimiser, which needs the solvers.  `fanin plan --serve` runs it. */
#include <stdio.h>
#include <string.h>

#include "plan.h"

int main(int argc, char **argv)
{
	if (argc == 3 && strcmp(argv[1], "plan") == 0 && strcmp(argv[2], "--serve") == 0)
		return plan_serve();
	fprintf(stderr, "fanin-planner: a part of fanin: run `fanin plan`\n");
	return 2;
}
