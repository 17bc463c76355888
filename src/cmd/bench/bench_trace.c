/* SPDX-License-Identifier: Apache-2.0 */
/* bench_trace.c - `fanin bench --trace`: the traces of all local ranks become one file. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bench.h"
#include "lib/rank_file.h"

#define LINE_BYTES 4096 /* longer than any event of src/lib/trace.c */

/* Append the events of `path`, a line each, which end in a comma but for the last. */
static int append(FILE *to, const char *path, bool first)
{
	char line[LINE_BYTES];
	FILE *from = fopen(path, "re");
	bool begun = !first;

	if (!from)
		return -1;
	while (fgets(line, sizeof line, from)) {
		if (*line != '{')
			continue;
		line[strcspn(line, "\n")] = '\0';
		size_t used = strlen(line);
		if (used && line[used - 1] == ',')
			line[used - 1] = '\0';
		fprintf(to, "%s%s", begun ? ",\n" : "", line);
		begun = true;
	}
	fclose(from);
	return 0;
}

int bench_trace_join(const struct bench_options *o, const char *job)
{
	FILE *to = fopen(o->trace, "we");
	int e = to ? 0 : -1;

	if (to)
		fprintf(to, "[\n");
	for (int r = 0; r < o->local && !e; r++) {
		char path[FAN_RANK_FILE_BYTES];
		fan_rank_file(path, sizeof path, o->trace, job, r);
		e = append(to, path, r == 0);
		remove(path);
	}
	if (to)
		fprintf(to, "\n]\n");
	if (to && fclose(to))
		e = -1;
	if (e)
		fprintf(stderr, "fanin bench: --trace: %s: %s\n", o->trace, strerror(errno));
	return e;
}
