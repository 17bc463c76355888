/* SPDX-License-Identifier: Apache-2.0 */
#include "end.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static int told; /* that it is full, once */

int cmd_end(int status)
{
	if (told)
		return status ? status : 1;
	errno = 0;
	int lost = fflush(NULL) != 0;

	if (!lost && !ferror(stdout))
		return status;
	told = 1;
	fprintf(stderr, "fanin: standard output: %s\n",
		lost && errno ? strerror(errno) : "could not be written whole");
	return status ? status : 1;
}

/* --help, and whatever else a library prints before it ends the process itself. */
static void at_exit(void)
{
	if (!told && cmd_end(0))
		_exit(1);
}

void cmd_begin(void)
{
	(void)atexit(at_exit);
}

bool cmd_can_write(const char *command, const char *option, const char *file)
{
	if (!*file || strcmp(file, "-") == 0)
		return true;
	bool is_new = access(file, F_OK) != 0;
	FILE *f = fopen(file, "a");
	if (f) {
		fclose(f);
		if (is_new)
			unlink(file);
		return true;
	}
	fprintf(stderr, "fanin %s: --%s: %s: %s\n", command, option, file, strerror(errno));
	return false;
}
