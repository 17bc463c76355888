/* SPDX-License-Identifier: Apache-2.0 */
/* Ends of programs, and their log. */
#include "unit/unit.h"

#include <fcntl.h>
#include <stdio.h>
#include <sys/wait.h>
#include <unistd.h>

#include "cmd/cmd.h"
#include "cmd/log.h"

/* ---- end ---- */

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

/* ---- log ---- */

#define S UINT64_C(1000000000)

static void log__is_bounded(void **state)
{
	(void)state;
	struct log_bound b = {0};
	uint64_t omitted, written = 0, left_out = 0, now_ns = 5 * S;
	for (unsigned n = 0; n < 100000; n++, now_ns += S / 10000) { /* 10 s of them */
		if (log_takes(&b, LOG_REST, now_ns, &omitted)) {
			written++;
			left_out += omitted;
		}
	}
	assert_in_range(written, LOG_BURST + 10 * LOG_LINES_A_S - 2,
			LOG_BURST + 10 * LOG_LINES_A_S + 2);
	assert_int_equal(left_out + written + b.omitted, 100000);
	now_ns += S * LOG_BURST / LOG_LINES_A_S;
	assert_true(log_takes(&b, LOG_REST, now_ns, &omitted));
	assert_true(omitted > 0);
	for (unsigned n = 1; n < LOG_BURST; n++) {
		assert_true(log_takes(&b, LOG_REST, now_ns, &omitted));
		assert_int_equal(omitted, 0);
	}
	assert_false(log_takes(&b, LOG_REST, now_ns, &omitted));
}

/* What reaches standard error of 6,000 refusals, by ranks and by a controller's strangers, as many
 * jobs that come, and one line for each thousand that is to be read. */
static void log__strangers_displace_no_other_line(void **state)
{
	(void)state;
	char line[256];
	unsigned ready = 0, refused = 0, created = 0, told = 0;
	FILE *f = tmpfile();
	int before = dup(STDERR_FILENO);
	assert_non_null(f);
	fflush(stderr);
	assert_int_equal(dup2(fileno(f), STDERR_FILENO), STDERR_FILENO);
	for (unsigned n = 0; n < 6000; n++) {
		cmd_log("event=rank_refused job=\"x\"");
		cmd_log("refused: no \"hello\"");
		cmd_log("event=job_created job=\"x\"");
		if (n % 1000 == 999)
			cmd_log("event=job_ready job=\"y\"");
	}
	fflush(stderr);
	dup2(before, STDERR_FILENO);
	close(before);
	rewind(f);
	while (fgets(line, sizeof line, f)) {
		ready += strstr(line, "job_ready") != NULL;
		refused += strstr(line, "refused") != NULL;
		created += strstr(line, "job_created") != NULL;
		told += strstr(line, "log_omitted") && strstr(line, "of=refusals");
	}
	fclose(f);
	assert_int_equal(ready, 6);
	assert_true(refused >= LOG_REFUSALS_BURST && refused < 6000);
	assert_true(created >= LOG_BURST && created < 6000);
	assert_true(told <= refused - LOG_REFUSALS_BURST);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(end__what_a_library_prints_is_looked_at),
		cmocka_unit_test(end__a_file_is_tried_and_left_as_it_was),
		cmocka_unit_test(log__is_bounded),
		cmocka_unit_test(log__strangers_displace_no_other_line),
	};
	return RUN(tests);
}
