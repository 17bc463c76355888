/* SPDX-License-Identifier: Apache-2.0 */
/* Ends of programs, and their log. */
#include "unit/unit.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "cmd/cmd.h"
#include "cmd/log.c"

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

TEST(output__what_a_library_prints_is_looked_at)
{
	assert_int_equal(status_of("/dev/full"), 1);
	assert_int_equal(status_of("/dev/null"), 0);
}

TEST(output__a_file_is_tried_and_left_as_it_was)
{
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

TEST(log__is_bounded)
{
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
TEST(log__strangers_displace_no_other_line)
{
	char line[256];
	unsigned ready = 0, refused = 0, created = 0, told = 0;
	FILE *f = tmpfile();
	int before = dup(STDERR_FILENO);
	assert_non_null(f);
	fflush(stderr);
	assert_int_equal(dup2(fileno(f), STDERR_FILENO), STDERR_FILENO);
	for (unsigned n = 0; n < 6000; n++) {
		cmd_log("event=rank_refused job=\"x\"");
		cmd_log("event=job_created job=\"x\"");
		if (n % 1000 == 999)
			cmd_log("event=job_ready job=\"y\"");
	}
	log_end();
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

/* Standard error is a pipe that is read only afterwards: each line is there, or counted. */
TEST(log__waits_for_no_reader)
{
	enum { LINES = 1900 };
	static char line[1900], read_back[2100];
	int before = dup(STDERR_FILENO), ends[2];
	unsigned long read_lines = 0, lost = 0;
	memset(line, 'x', sizeof line - 1);
	assert_int_equal(pipe(ends), 0);
	assert_int_equal(dup2(ends[1], STDERR_FILENO), STDERR_FILENO);
	for (unsigned n = 0; n < LINES; n++)
		cmd_log(line);
	assert_in_range(log_lost(), 1, LINES);
	FILE *f = fdopen(ends[0], "r");
	assert_non_null(f);
	while (read_lines + lost < LINES && fgets(read_back, sizeof read_back, f)) {
		const char *told = strstr(read_back, "event=log_omitted lines=");
		read_lines += strstr(read_back, line) != NULL;
		if (told && strstr(told, "of=unread"))
			lost += strtoul(told + strlen("event=log_omitted lines="), NULL, 10);
	}
	dup2(before, STDERR_FILENO);
	close(before);
	close(ends[1]);
	fclose(f);
	assert_int_equal(lost, log_lost());
	assert_int_equal(read_lines + lost, LINES);
}

/* Is `field` a line of the entry? */
static bool has_field(const char *entry, size_t bytes, const char *field)
{
	for (size_t at = 0; at < bytes; at++) {
		size_t line = strcspn(entry + at, "\n");
		if (line == strlen(field) && strncmp(entry + at, field, line) == 0)
			return true;
		at += line;
	}
	return false;
}

static unsigned fields_of(const char *entry, size_t bytes)
{
	unsigned n = 0;
	for (size_t at = 0; at < bytes; at++)
		n += entry[at] == '\n';
	return n;
}

TEST(log__entry_of_the_journal)
{
	char entry[LOG_ENTRY_BYTES + 1] = "", long_line[3 * LOG_ENTRY_BYTES];
	static const char line[] =
		"event=job_failed job=\"vgg/12!4\" ranks=2 cause=rank_lost text=\"a rank=9 is "
		"\\\" lost\" shard=3";
	size_t bytes = log_entry(entry, line);
	assert_true(has_field(entry, bytes, "PRIORITY=4"));
	assert_true(has_field(entry, bytes, "SYSLOG_IDENTIFIER=fanin"));
	assert_true(has_field(entry, bytes, "FANIN_EVENT=job_failed"));
	assert_true(has_field(entry, bytes, "FANIN_JOB=vgg/12!4"));
	assert_true(has_field(entry, bytes, "FANIN_JOB=vgg"));
	assert_true(has_field(entry, bytes, "FANIN_CAUSE=rank_lost"));
	assert_true(has_field(entry, bytes, "FANIN_SHARD=3"));
	assert_int_equal(fields_of(entry, bytes), 8); /* rank=9 is a text's */

	static const struct {
		const char *job;
		unsigned fields; /* of PRIORITY, SYSLOG_IDENTIFIER, MESSAGE, FANIN_EVENT and it */
	} jobs[] = {{"a", 5}, {"a/1", 6}, {"a!3", 6}, {"a/b", 5}, {"/1", 5}, {"1", 5}, {"!", 5}};
	for (size_t i = 0; i < sizeof jobs / sizeof jobs[0]; i++) {
		snprintf(long_line, sizeof long_line, "event=job_ready job=\"%s\"", jobs[i].job);
		memset(entry, 0, sizeof entry);
		assert_int_equal(fields_of(entry, log_entry(entry, long_line)), jobs[i].fields);
	}
	/* Nothing that a line has begins a field of its own, or leaves the entry. */
	memset(entry, 0, sizeof entry);
	bytes = log_entry(entry, "event=x\nFANIN_JOB=forged");
	assert_true(has_field(entry, bytes, "MESSAGE=event=x FANIN_JOB=forged"));
	memset(entry, 0, sizeof entry);
	bytes = log_entry(entry, "event=x job=\"a\nFANIN_RANK=0\"");
	assert_false(has_field(entry, bytes, "FANIN_RANK=0"));
	memset(long_line, 'x', sizeof long_line - 1);
	long_line[sizeof long_line - 1] = '\0';
	memcpy(long_line, "event=", 6);
	assert_in_range(log_entry(entry, long_line), LOG_ENTRY_BYTES / 2, LOG_ENTRY_BYTES);
}

TEST(log__is_the_journal)
{
	char text[64];
	struct stat s;
	int fd = open("/dev/null", O_WRONLY);
	assert_int_equal(fstat(fd, &s), 0);
	snprintf(text, sizeof text, "%llu:%llu", (unsigned long long)s.st_dev,
		 (unsigned long long)s.st_ino);
	assert_true(log_is_journal(fd, text));
	assert_false(log_is_journal(fd, NULL));
	assert_false(log_is_journal(fd, "1:2"));
	assert_false(log_is_journal(fd, "x"));
	assert_false(log_is_journal(-1, text));
	close(fd);
}

UNIT_MAIN
