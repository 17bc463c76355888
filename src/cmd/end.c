/* SPDX-License-Identifier: Apache-2.0 */
#include "end.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

int cmd_end(int status)
{
	errno = 0;
	int lost = fflush(NULL) != 0;

	if (!lost && !ferror(stdout))
		return status;
	fprintf(stderr, "fanin: standard output: %s\n",
		lost && errno ? strerror(errno) : "could not be written whole");
	return status ? status : 1;
}
