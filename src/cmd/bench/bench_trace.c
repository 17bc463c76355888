/* SPDX-License-Identifier: Apache-2.0 */
/* bench_trace.c - `fanin bench --trace`: the traces of all local ranks become one file. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bench.h"
#include "file/file.h"
#include "lib/base/rank_file.h"

#define WHY_BYTES  512
#define LINE_BYTES 4096 /* longer than any event of src/lib/base/trace.c */

/* Append the events of `path`, a line each, which end in a comma but for the last. */
static int append(FILE *to, const char *path, bool first, char *why)
{
	char line[LINE_BYTES];
	FILE *from = fan_file_stream(path, FAN_FILE_READ, why, WHY_BYTES);
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
	char why[WHY_BYTES];
	FILE *to = fan_file_stream(o->trace, FAN_FILE_OUTPUT, why, sizeof why);
	int e = to ? 0 : -1;

	if (to)
		fprintf(to, "[\n");
	for (int r = 0; r < o->local && !e; r++) {
		char path[FAN_RANK_FILE_BYTES];
		fan_rank_file(path, sizeof path, o->trace, job, r);
		e = append(to, path, r == 0, why);
		remove(path);
	}
	if (to)
		fprintf(to, "\n]\n");
	if (to && fan_file_done(to, o->trace, why, sizeof why))
		e = -1;
	if (e)
		fprintf(stderr, "fanin bench: --trace: %s\n", why);
	return e;
}
