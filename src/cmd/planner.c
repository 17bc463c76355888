/* SPDX-License-Identifier: Apache-2.0 */
/* planner.c - `fanin plan` and `fanin controller` become the program fanin-planner.
 *
 * Only that program links the solvers, so this one needs neither their packages nor their memory
 * (adr 13).  It lies beside this program in a build folder, in libexec when installed. */
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "beside.h"
#include "cmd.h"

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

/* argv[0] is "fanin plan" or "fanin controller". */
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
