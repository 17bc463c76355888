/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cmd.h"
#include "file/file.h"

#define WHY_BYTES 512

static int reported; /* the full output has been reported, once */

int cmd_end(int status)
{
	if (reported)
		return status ? status : 1;
	errno = 0;
	int lost = fflush(NULL) != 0;

	if (!lost && !ferror(stdout))
		return status;
	reported = 1;
	fprintf(stderr, "fanin: standard output: %s\n",
		lost && errno ? strerror(errno) : "could not be written whole");
	return status ? status : 1;
}

/* Checks --help and other output of libraries that end the process themselves. */
static void at_exit(void)
{
	if (!reported && cmd_end(0))
		_exit(1);
}

void cmd_begin(void)
{
	(void)atexit(at_exit);
}

static void wrong(const char *command, const char *option, const char *why)
{
	fprintf(stderr, "fanin %s: --%s: %s\n", command, option, why);
}

bool cmd_can_write(const char *command, const char *option, const char *file)
{
	char why[WHY_BYTES];
	struct stat st;

	if (!*file || strcmp(file, "-") == 0)
		return true;
	bool is_new = stat(file, &st) != 0;
	if (!is_new && S_ISFIFO(st.st_mode)) /* closing would end its reader's input */
		return true;
	int fd = fan_file_open(file, is_new ? FAN_FILE_OUTPUT : FAN_FILE_PROBE, why, sizeof why);
	if (fd < 0) {
		wrong(command, option, why);
		return false;
	}
	close(fd);
	if (is_new)
		unlink(file);
	return true;
}

FILE *cmd_output(const char *command, const char *option, const char *file)
{
	char why[WHY_BYTES];

	if (strcmp(file, "-") == 0)
		return stdout;
	FILE *f = fan_file_stream(file, FAN_FILE_OUTPUT, why, sizeof why);
	if (!f)
		wrong(command, option, why);
	return f;
}

int cmd_output_done(FILE *f, const char *command, const char *option, const char *file)
{
	char why[WHY_BYTES] = "-: could not be written whole";
	int e = f == stdout ? fflush(f) : fan_file_done(f, file, why, sizeof why);

	if (e)
		wrong(command, option, why);
	return e ? -1 : 0;
}
