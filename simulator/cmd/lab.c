/* SPDX-License-Identifier: Apache-2.0 */
/* lab.c - `fanin lab`: plans at work on an emulated network.
 *
 * Mininet is a library of Python, so a Python program does the work: lab.py in the build folder, or
 * in the libexec folder of an installed program.  This file finds and executes it. */
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cmd/cmd.h"

#define PYTHON	 "/usr/bin/python3" /* Debian's, for which its package mininet is built */
#define ARGS_MAX 64

/* Where lab.py is, relative to the program's folder. */
static const char *const places[] = {"simulator/lab/lab.py", "../libexec/fanin/lab/lab.py", NULL};

static int wants_root(int argc, char **argv)
{
	for (int i = 1; i < argc; i++)
		if (!strcmp(argv[i], "--help") || !strcmp(argv[i], "-h") ||
		    !strcmp(argv[i], "--list-options"))
			return 0;
	return geteuid() != 0;
}

int cmd_lab(int argc, char **argv)
{
	static char self[PATH_MAX], script[PATH_MAX];
	char *args[ARGS_MAX + 3] = {(char *)PYTHON, script};
	if (argc > ARGS_MAX) {
		fprintf(stderr, "fanin lab: more than %d arguments\n", ARGS_MAX - 1);
		return 2;
	}
	if (find_installed(places, self, script)) {
		fprintf(stderr, "fanin lab: no lab.py beside %s: expected %s or %s there\n", self,
			places[0], places[1]);
		return 1;
	}
	if (wants_root(argc, argv)) {
		fprintf(stderr, "fanin lab: needs root, for network namespaces: run it as root, "
				"or see `fanin sim --plan`, which does not\n");
		return 1;
	}
	for (int i = 1; i < argc; i++)
		args[i + 1] = argv[i];
	setenv("FANIN", self, 1);
	execv(PYTHON, args);
	fprintf(stderr, "fanin lab: %s: %s (Debian: python3, mininet)\n", PYTHON, strerror(errno));
	return 1;
}
