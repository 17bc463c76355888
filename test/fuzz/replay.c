/* SPDX-License-Identifier: Apache-2.0 */
/* replay.c - runs a target's corpus where there is no libFuzzer, and inputs of a seeded generator:
 * replay DIRECTORY [INPUTS] */
#include <dirent.h>
#include <stdio.h>

#include "fuzz.h"

#define INPUT_MAX  65536
#define RANDOM_MAX 1024

/* The copy is exactly as long as the input, so that sanitizers see a byte too many. */
static void run(const uint8_t *data, size_t size)
{
	uint8_t *copy = malloc(size ? size : 1);
	memcpy(copy, data, size);
	LLVMFuzzerTestOneInput(copy, size);
	free(copy);
}

static void run_random(uint64_t seed)
{
	uint8_t data[RANDOM_MAX];
	uint64_t x = (seed + 1) * UINT64_C(0x9e3779b97f4a7c15);
	for (size_t i = 0; i < sizeof data; i++) {
		x ^= x << 13;
		x ^= x >> 7;
		x ^= x << 17;
		data[i] = (uint8_t)(x >> 32);
	}
	run(data, 1 + seed % sizeof data);
}

int main(int argc, char **argv)
{
	static uint8_t data[INPUT_MAX];
	unsigned count = 0;
	const unsigned random = argc == 3 ? (unsigned)strtoul(argv[2], NULL, 10) : 0;
	DIR *dir = argc == 2 || argc == 3 ? opendir(argv[1]) : NULL;
	if (!dir) {
		fprintf(stderr,
			"replay: expected a directory of inputs, and how many random ones\n");
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
	for (unsigned i = 0; i < random; i++, count++)
		run_random(i);
	printf("%u inputs\n", count);
	return count == 0;
}
