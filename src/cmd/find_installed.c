/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <inttypes.h>
#include <libgen.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "args.h"
#include "cmd.h"
#include "net/udp.h"

#define PLACE_BYTES 64 /* of a place, at most */

int find_installed(const char *const *places, char *self, char *found)
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

/* ---- `fanin plan --serve` becomes the program fanin-planner ---- */

static const char *const places[] = {"fanin-planner", "../libexec/fanin/fanin-planner", NULL};

/* Find it; false, and a line on stderr: there is none. */
static bool find_planner(char *found)
{
	static char self[PATH_MAX];

	if (!find_installed(places, self, found))
		return true;
	fprintf(stderr,
		"fanin plan: this fanin was built without its planner: no %s or %s beside %s.\n"
		"On Debian it is the package fanin-planner.  A build needs CLP and CBC: as "
		"root \"sh tools/deps.sh plan\" (Debian:\n"
		"coinor-libclp-dev coinor-libcbc-dev zlib1g-dev), then\n"
		"\"meson setup --reconfigure build -Dplanner=enabled && ninja -C build\".\n",
		places[0], places[1], self);
	return false;
}

bool cmd_has_planner(void)
{
	static char path[PATH_MAX];

	return find_planner(path);
}

int cmd_planner(void)
{
	static char path[PATH_MAX];
	char plan[] = "plan", serve[] = "--serve";
	char *const args[] = {path, plan, serve, NULL};

	if (find_planner(path)) {
		execv(path, args);
		fprintf(stderr, "fanin plan: %s: %s\n", path, strerror(errno));
	}
	return 1;
}

/* ---- what Python does: programs of python/fanin ---- */

#define SYSTEM_PYTHON "/usr/bin/python3"
#define PYTHON_MINOR  9 /* 3.9, at least */
#define PEER_BYTES    80
#define FIXED	      5 /* arguments before those of the subcommand */
#define MEMBER(as)    (*(const as *)((const char *)values + o->at))

/* In a build folder, an installed program, a wheel. */
static const char *const folders[] = {"python/fanin", "../libexec/fanin/python/fanin", "..", NULL};

static int find_script(const char *package, char *self, char *script)
{
	char path[PATH_MAX];

	for (unsigned i = 0; folders[i]; i++) {
		const char *const one[] = {path, NULL};
		snprintf(path, sizeof path, "%s/%s/__main__.py", folders[i], package);
		if (!find_installed(one, self, script))
			return 0;
	}
	return -1;
}

/* The interpreter: that of FANIN_PYTHON, which the `fanin` of a Python package sets to its own
 * environment's; else the system's for what needs the standard library alone, since the first of
 * the PATH may be a script that looks for one, which takes longer than `fanin ps`. */
static const char *python_for(const char *package)
{
	char path[PATH_MAX];
	unsigned minor;
	const char *given = getenv("FANIN_PYTHON");
	const bool is_standalone = !strcmp(package, "operate");

	if (given && *given)
		return given;
	if (is_standalone && realpath(SYSTEM_PYTHON, path) &&
	    sscanf(path, SYSTEM_PYTHON ".%u", &minor) == 1 && minor >= PYTHON_MINOR)
		return SYSTEM_PYTHON;
	return "python3";
}

/* Become `package`'s program `name`; its arguments begin at args[FIXED].  They are freed. */
static int become(const char *package, const char *name, char **args)
{
	static char self[PATH_MAX], script[PATH_MAX];
	const char *python = python_for(package);
	const char *const fixed[FIXED] = {python, "-I", "-S", script, name};

	if (!args) {
		fprintf(stderr, "fanin %s: out of memory\n", name);
		return 1;
	}
	if (find_script(package, self, script)) {
		fprintf(stderr, "fanin %s: no %s/%s beside %s, nor in %s\n", name, folders[0],
			package, self, folders[1]);
	} else {
		memcpy(args, fixed, sizeof fixed);
		setenv("FANIN", self, 1);
		setenv("FANIN_VERSION", FAN_BUILD_VERSION, 1);
		execvp(python, args);
		fprintf(stderr, "fanin %s: needs Python 3.9 or later: %s: %s\n", name, python,
			strerror(errno));
	}
	free(args);
	return 1;
}

static char *flag(const char *name, const char *value)
{
	char *text;

	if (asprintf(&text, "--%s%s%s", name, value ? "=" : "", value ? value : "") >= 0)
		return text;
	fprintf(stderr, "fanin: out of memory\n");
	exit(1);
}

/* Add option `o`, where it is set, to the flags at `to`.  Returns how many these are. */
static unsigned add(char **to, const struct fan_option *o, const void *values)
{
	char number[24], at[PEER_BYTES];

	switch (o->kind) {
	case ARGS_FLAG:
		if (MEMBER(bool))
			to[0] = flag(o->name, NULL);
		return MEMBER(bool);
	case ARGS_NUMBER:
		snprintf(number, sizeof number, "%d", MEMBER(int));
		to[0] = flag(o->name, number);
		return 1;
	case ARGS_SIZE:
		snprintf(number, sizeof number, "%" PRIu64, MEMBER(uint64_t));
		to[0] = flag(o->name, number);
		return 1;
	case ARGS_WORD: to[0] = flag(o->name, o->words[MEMBER(int)]); return 1;
	case ARGS_PEER:
		if (fan_peer_is_none(&MEMBER(fan_peer)))
			return 0;
		to[0] = flag(o->name, fan_peer_text(&MEMBER(fan_peer), at, sizeof at));
		return 1;
	case ARGS_MANY:
		for (unsigned i = 0; i < MEMBER(struct args_many).count; i++)
			to[i] = flag(o->name, MEMBER(struct args_many).text[i]);
		return MEMBER(struct args_many).count;
	default:
		if (MEMBER(char))
			to[0] = flag(o->name, &MEMBER(char));
		return MEMBER(char) != '\0';
	}
}

int cmd_python(const char *package, const struct args_command *c, const void *values)
{
	char **args = calloc(FIXED + (size_t)c->count * ARGS_MANY_MAX + 1, sizeof *args);
	unsigned n = FIXED;

	for (unsigned i = 0; args && i < c->count; i++)
		n += add(&args[n], &c->options[i], values);
	return become(package, c->name, args);
}
