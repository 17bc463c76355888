/* SPDX-License-Identifier: Apache-2.0 */
/* replay.c - runs a target's corpus where there is no libFuzzer: replay
 * DIRECTORY */
#include <dirent.h>
#include <stdio.h>

#include "fuzz.h"

#define INPUT_MAX 65536

/* The copy is exactly as long as the input, so that sanitizers see a byte too many. */
static void run(const uint8_t *data, size_t size)
{
	uint8_t *copy = malloc(size ? size : 1);
	memcpy(copy, data, size);
	LLVMFuzzerTestOneInput(copy, size);
	free(copy);
}

int main(int argc, char **argv)
{
	static uint8_t data[INPUT_MAX];
	unsigned count = 0;
	DIR *dir = argc == 2 ? opendir(argv[1]) : NULL;
	if (!dir) {
		fprintf(stderr, "replay: expected a directory of inputs\n");
		return 2;
	}
	for (const struct dirent *e; (e = readdir(dir));) {
		char path[4096];
		snprintf(path, sizeof path, "%s/%s", argv[1], e->d_name);
		FILE *f = e->d_name[0] == '.' ? NULL : fopen(path, "rb");
		if (!f)
			continue;
		size_t size = fread(data, 1, sizeof data, f);
		fclose(f);
		run(data, size);
		count++;
	}
	closedir(dir);
	printf("%u inputs\n", count);
	return count == 0;
}
