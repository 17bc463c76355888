/* SPDX-License-Identifier: Apache-2.0 */
/* A configuration file for a table with one option of each kind, and sizes. */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include "cmd/args.c"
#include "fuzz.h"

struct values {
	int slots, color;
	uint64_t bytes;
	bool loud;
	char file[ARGS_TEXT_BYTES];
	uint32_t guard;
};

#define AT(field) offsetof(struct values, field)
static const char *const colors[] = {"red", "green", "blue", NULL};
static const struct fan_option options[] = {
	{"slots", 's', ARGS_NUMBER, AT(slots), 2, 65536, NULL, "N", "slots"},
	{"big-bytes", 0, ARGS_SIZE, AT(bytes), 1024, 1 << 30, NULL, "BYTES", "bytes"},
	{"color", 0, ARGS_WORD, AT(color), 0, 0, colors, "NAME", "color"},
	{"loud", 'l', ARGS_FLAG, AT(loud), 0, 0, NULL, NULL, "loud"},
	{"file", 0, ARGS_TEXT, AT(file), 0, 0, NULL, "FILE", "file"},
};
static const struct args_command command = {.name = "switch",
					    .help = "help",
					    .options = options,
					    .count = sizeof options / sizeof options[0]};

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static int fd = -1;
	static char path[64];
	if (fd < 0) {
		fd = memfd_create("config", 0);
		snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
		setenv("FANIN_CONFIG", path, 1);
	}
	FUZZ_CHECK(fd >= 0 && ftruncate(fd, 0) == 0);
	FUZZ_CHECK(pwrite(fd, data, size, 0) == (ssize_t)size);
	struct values v = {.slots = 2, .bytes = 1024, .guard = 0xdeadbeef};
	char why[ARGS_WHY_BYTES], program[] = "fanin";
	char *argv[] = {program, NULL};
	memset(why, 'w', sizeof why);
	int err = read_all(&command, &v, 1, argv, why);
	FUZZ_CHECK(v.guard == 0xdeadbeef);
	if (err) {
		FUZZ_CHECK(memchr(why, '\0', sizeof why));
		return 0;
	}
	FUZZ_CHECK(v.slots >= 2 && v.slots <= 65536);
	FUZZ_CHECK(v.bytes >= 1024 && v.bytes <= 1 << 30);
	FUZZ_CHECK(v.color >= 0 && v.color < 3);
	FUZZ_CHECK(memchr(v.file, '\0', sizeof v.file));
	return 0;
}
