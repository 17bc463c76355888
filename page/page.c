/* SPDX-License-Identifier: Apache-2.0 */
#include "page.h"

#include <errno.h>
#include <limits.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "cmd/cmd.h"

#define PYTHON	"python3"
#define WAIT_MS 300000 /* limit for the generator, which takes seconds for thousands of runs */
#define LOOK_MS 5
#define ENDED	128
#define JSON	(JSON_COMPACT | JSON_REAL_PRECISION(17))

/* Where the generator may be, relative to the folder of the program. */
static const char *const places[] = {"page/__main__.py", "../libexec/fanin/page/__main__.py", NULL};

/* Wait for the child.  Its exit status; ENDED: a signal ended it, or it took over WAIT_MS. */
static int wait_for(pid_t child)
{
	const struct timespec look = {0, LOOK_MS * 1000000L};
	int status = 0;

	for (unsigned ms = 0; ms < WAIT_MS; ms += LOOK_MS) {
		pid_t ended = waitpid(child, &status, WNOHANG);
		if (ended == child)
			return WIFEXITED(status) ? WEXITSTATUS(status) : ENDED;
		if (ended < 0 && errno != EINTR)
			return ENDED;
		nanosleep(&look, NULL);
	}
	kill(child, SIGKILL);
	waitpid(child, &status, 0);
	return ENDED;
}

/* Run the generator from `in` to `out`.  Its exit status; -1 with errno: it was not started. */
static int run(const char *script, const char *kind, FILE *in, FILE *out)
{
	char *const argv[] = {(char *)PYTHON, (char *)"-E", (char *)"-s", (char *)"-B",
			      (char *)script, (char *)kind, (char *)NULL};
	posix_spawn_file_actions_t files;
	pid_t child;

	posix_spawn_file_actions_init(&files);
	posix_spawn_file_actions_adddup2(&files, fileno(in), STDIN_FILENO);
	posix_spawn_file_actions_adddup2(&files, fileno(out), STDOUT_FILENO);
	int e = posix_spawnp(&child, PYTHON, &files, NULL, argv, environ);
	posix_spawn_file_actions_destroy(&files);
	if (e) {
		errno = e;
		return -1;
	}
	return wait_for(child);
}

/* Save what would have been drawn as PATH.json, and end the line on stderr with its name. */
static void keep(const char *path, const json_t *given)
{
	char beside[PATH_MAX];
	int n = snprintf(beside, sizeof beside, "%s.json", path);

	if (strcmp(path, "-") == 0 || n < 0 || (size_t)n >= sizeof beside ||
	    json_dump_file(given, beside, JSON))
		fputc('\n', stderr);
	else
		fprintf(stderr, "; what it shows is in %s\n", beside);
}

static int make(const char *command, const char *option, const char *path, const char *kind,
		const json_t *given, FILE *out)
{
	char self[PATH_MAX], script[PATH_MAX];
	FILE *in = tmpfile();

	if (!in || !given || json_dumpf(given, in, JSON) || fflush(in) || fflush(out) ||
	    lseek(fileno(in), 0, SEEK_SET) < 0) {
		fprintf(stderr, "fanin %s: --%s: %s\n", command, option,
			in && given ? strerror(errno) : "no room for what it shows");
		if (in)
			fclose(in);
		return -1;
	}
	int e = find_installed(places, self, script);
	if (e) {
		fprintf(stderr, "fanin %s: --%s: no %s or %s beside %s", command, option, places[0],
			places[1], self);
	} else if ((e = run(script, kind, in, out)) < 0) {
		fprintf(stderr, "fanin %s: --%s: no page without Python: %s: %s", command, option,
			PYTHON, strerror(errno));
	} else if (e) {
		fprintf(stderr, "fanin %s: --%s: %s %s ended with %d", command, option, PYTHON,
			script, e);
	}
	fclose(in);
	if (e)
		keep(path, given);
	return e ? -1 : 0;
}

int fan_page_make(const char *command, const char *option, const char *path, const char *kind,
		  const json_t *given)
{
	FILE *out = cmd_output(command, option, path);

	if (!out)
		return -1;
	int e = make(command, option, path, kind, given, out);
	int lost = cmd_output_done(out, command, option, path);
	return e || lost ? -1 : 0;
}
