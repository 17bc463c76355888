/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <libgen.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "args.h"
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

/* ---- `fanin plan` and `fanin controller` become the program fanin-planner ---- */

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

/* ---- subcommands that Python does: programs of the package fanin ---- */

#define PYTHON	   "python3"
#define FIXED	   5 /* arguments before the flags */
#define MEMBER(as) (*(const as *)((const char *)values + o->at))

/* In a build folder, an installed program, a wheel. */
static const char *const python_folders[] = {"python/fanin", "../libexec/fanin", "..", NULL};

/* Option `o` as a flag; NULL: it is not set. */
static char *flag_of(const struct fan_option *o, const void *values)
{
	char *text = NULL;
	int n = 0;

	if (o->kind == ARGS_FLAG && MEMBER(bool))
		n = asprintf(&text, "--%s", o->name);
	else if (o->kind == ARGS_NUMBER && MEMBER(int))
		n = asprintf(&text, "--%s=%d", o->name, MEMBER(int));
	else if (o->kind == ARGS_TEXT && MEMBER(char))
		n = asprintf(&text, "--%s=%s", o->name, &MEMBER(char));
	if (n >= 0)
		return text;
	fprintf(stderr, "fanin: out of memory\n");
	exit(1);
}

static int find_script(const char *place, char *self, char *script)
{
	char path[PATH_MAX];

	for (unsigned i = 0; python_folders[i]; i++) {
		const char *const one[] = {path, NULL};
		snprintf(path, sizeof path, "%s/%s", python_folders[i], place);
		if (!beside_find(one, self, script))
			return 0;
	}
	return -1;
}

int cmd_python(const char *place, const struct args_command *c, const void *values)
{
	static char self[PATH_MAX], script[PATH_MAX];
	char *args[FIXED + ARGS_OPTIONS_MAX + 1] = {(char *)PYTHON, (char *)"-I", (char *)"-S",
						    script, (char *)c->name};
	unsigned n = FIXED;

	if (find_script(place, self, script)) {
		fprintf(stderr, "fanin %s: no %s/%s beside %s, nor in %s\n", c->name,
			python_folders[0], place, self, python_folders[1]);
		return 1;
	}
	for (unsigned i = 0; i < c->count && i < ARGS_OPTIONS_MAX; i++) {
		args[n] = flag_of(&c->options[i], values);
		n += args[n] != NULL;
	}
	setenv("FANIN", self, 1);
	execvp(PYTHON, args);
	fprintf(stderr, "fanin %s: needs Python 3.9 or later: %s: %s\n", c->name, PYTHON,
		strerror(errno));
	return 1;
}
