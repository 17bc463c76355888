/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <libgen.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cmd.h"

#define PLACE_BYTES 64 /* of a place, at most */

int beside_find(const char *const *places, char *self, char *found)
{
	char folder[PATH_MAX], path[PATH_MAX + PLACE_BYTES];
	ssize_t n = readlink("/proc/self/exe", folder, sizeof folder - 1);

	folder[n > 0 ? n : 0] = '\0';
	memcpy(self, folder, n > 0 ? (size_t)n + 1 : 1);
	if (n <= 0)
		return -1;
	const char *dir = dirname(folder);
	for (; *places; places++) {
		snprintf(path, sizeof path, "%s/%s", dir, *places);
		if (realpath(path, found))
			return 0;
	}
	return -1;
}

/* ---- `fanin controller` becomes Python ---- */

#define PYTHON "python3"

/* The commands in Python: in a build, installed, in a wheel. */
static const char *const commands[] = {"python/fanin/operate/__main__.py",
				       "../libexec/fanin/python/fanin/operate/__main__.py",
				       "../operate/__main__.py", NULL};

/* argv[0] is "fanin NAME". */
int cmd_operate(int argc, char **argv)
{
	static char self[PATH_MAX], path[PATH_MAX];

	if (beside_find(commands, self, path)) {
		fprintf(stderr,
			"%s: no %s or %s beside %s: on Debian it is the package fanin-planner\n",
			argv[0], commands[0], commands[1], self);
		return 1;
	}
	const char *const first[] = {PYTHON, "-I", path, strchr(argv[0], ' ') + 1};
	const size_t count = sizeof first / sizeof first[0];
	char **args = calloc((size_t)argc + count, sizeof *args);
	if (args) {
		memcpy(args, first, sizeof first);
		memcpy(&args[count], &argv[1], (size_t)(argc - 1) * sizeof *args);
		setenv("FANIN", self, 1);
		setenv("FANIN_VERSION", FAN_BUILD_VERSION, 1);
		execvp(PYTHON, args);
	}
	fprintf(stderr, "%s: %s: %s\n", argv[0], PYTHON, strerror(errno));
	free(args);
	return 1;
}

/* ---- `fanin plan` becomes the program fanin-planner ---- */

static const char *const places[] = {"fanin-planner", "../libexec/fanin/fanin-planner", NULL};

static int not_there(const char *name, const char *self)
{
	fprintf(stderr,
		"%s: this fanin was built without its planner: no %s or %s beside %s.\n"
		"On Debian it is the package fanin-planner.  A build needs CLP, CBC and expat: as "
		"root \"sh tools/deps.sh plan\" (Debian:\n"
		"coinor-libclp-dev coinor-libcbc-dev zlib1g-dev libexpat1-dev), then\n"
		"\"meson setup --reconfigure build -Dplanner=enabled && ninja -C build\".\n",
		name, places[0], places[1], self);
	return 1;
}

/* argv[0] is "fanin plan". */
int cmd_planner(int argc, char **argv)
{
	static char self[PATH_MAX], path[PATH_MAX];

	if (beside_find(places, self, path))
		return not_there(argv[0], self);
	char **args = calloc((size_t)argc + 2, sizeof *args);
	if (args) {
		args[0] = path;
		args[1] = strchr(argv[0], ' ') + 1;
		memcpy(&args[2], &argv[1], (size_t)(argc - 1) * sizeof *args);
		execv(path, args);
	}
	fprintf(stderr, "%s: %s: %s\n", argv[0], path, strerror(errno));
	free(args);
	return 1;
}
