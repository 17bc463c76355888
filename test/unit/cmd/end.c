/* SPDX-License-Identifier: Apache-2.0 */
#include "unit/unit.h"

#include <fcntl.h>
#include <stdio.h>
#include <sys/wait.h>
#include <unistd.h>

#include "cmd/end.h"

/* The status of a process that prints to `file` and ends as a library ends it. */
static int status_of(const char *file)
{
	int status = -1;
	pid_t pid = fork();
	if (pid == 0) {
		int fd = open(file, O_WRONLY);
		int quiet = open("/dev/null", O_WRONLY);
		if (fd < 0 || quiet < 0 || dup2(fd, 1) != 1 || dup2(quiet, 2) != 2)
			_exit(99);
		cmd_begin();
		puts("usage: ...");
		exit(0);
	}
	assert_true(pid > 0);
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_true(WIFEXITED(status));
	return WEXITSTATUS(status);
}

static void end__what_a_library_prints_is_looked_at(void **state)
{
	(void)state;
	assert_int_equal(status_of("/dev/full"), 1);
	assert_int_equal(status_of("/dev/null"), 0);
}

static void end__a_file_is_tried_and_left_as_it_was(void **state)
{
	(void)state;
	char path[] = "/tmp/fanin-end-XXXXXX", gone[64];
	int fd = mkstemp(path);
	assert_true(fd >= 0 && write(fd, "old", 3) == 3);
	assert_true(cmd_can_write("bench", "json", path));
	assert_int_equal(lseek(fd, 0, SEEK_END), 3);
	close(fd);
	unlink(path);
	assert_true(cmd_can_write("bench", "json", path));
	assert_int_not_equal(access(path, F_OK), 0);
	snprintf(gone, sizeof gone, "%s/no", path);
	assert_false(cmd_can_write("bench", "json", gone));
	assert_true(cmd_can_write("bench", "json", ""));
	assert_true(cmd_can_write("bench", "json", "-"));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(end__what_a_library_prints_is_looked_at),
		cmocka_unit_test(end__a_file_is_tried_and_left_as_it_was),
	};
	return RUN(tests);
}
