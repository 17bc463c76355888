/* SPDX-License-Identifier: Apache-2.0 */
/* A pipe makes nobody wait, what is not meant is neither emptied nor replaced, a full disk is told.
 */
#include "unit/unit.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "file/file.h"

#define OTHER_USER 65534

static char folder[] = "/tmp/fanin-file-XXXXXX", path[64], other[64], why[256];

static int begin(void **state __attribute__((unused)))
{
	if (!mkdtemp(folder))
		return -1;
	snprintf(path, sizeof path, "%s/a", folder);
	snprintf(other, sizeof other, "%s/a.new", folder);
	return 0;
}

static int end(void **state __attribute__((unused)))
{
	unlink(path);
	unlink(other);
	rmdir(folder);
	memcpy(folder + strlen(folder) - 6, "XXXXXX", 6);
	return 0;
}

static void make(const char *name, const char *text)
{
	FILE *f = fopen(name, "w");
	assert_non_null(f);
	fputs(text, f);
	assert_int_equal(fclose(f), 0);
}

static void expect_text(const char *name, const char *want)
{
	char text[64];
	FILE *f = fopen(name, "r");
	assert_non_null(f);
	text[fread(text, 1, sizeof text - 1, f)] = '\0';
	fclose(f);
	assert_string_equal(text, want);
}

static void refused(const char *name, enum fan_file_use use, const char *says)
{
	assert_int_equal(fan_file_open(name, use, why, sizeof why), -1);
	if (!strstr(why, says) || strncmp(why, name, strlen(name)) != 0)
		fail_msg("expected \"%s: %s\" in \"%s\"", name, says, why);
}

static void taken(const char *name, enum fan_file_use use)
{
	int fd = fan_file_open(name, use, why, sizeof why);
	assert_true(fd >= 0);
	assert_int_equal(fcntl(fd, F_GETFD), FD_CLOEXEC);
	close(fd);
}

/* Each of these opened without O_NONBLOCK would wait for ever. */
TEST_WITH(open__a_pipe_without_its_other_end, begin, end)
{
	assert_int_equal(mkfifo(path, 0600), 0);
	refused(path, FAN_FILE_READ, "expected a regular file");
	refused(path, FAN_FILE_KEY, "expected a regular file");
	refused(path, FAN_FILE_WRITE, "nobody reads this pipe");
	refused(path, FAN_FILE_OUTPUT, "nobody reads this pipe");
	refused(path, FAN_FILE_PROBE, "nobody reads this pipe");
	FILE *f = fan_file_stream(path, FAN_FILE_INPUT, why, sizeof why);
	assert_non_null(f);
	assert_int_equal(fgetc(f), EOF);
	fclose(f);
}

TEST_WITH(open__a_pipe_that_is_read, begin, end)
{
	char text[8] = "";
	assert_int_equal(mkfifo(path, 0600), 0);
	int reader = open(path, O_RDONLY | O_NONBLOCK);
	assert_true(reader >= 0);
	refused(path, FAN_FILE_WRITE, "expected a regular file");
	FILE *f = fan_file_stream(path, FAN_FILE_OUTPUT, why, sizeof why);
	assert_non_null(f);
	assert_int_equal(fcntl(fileno(f), F_GETFL) & O_NONBLOCK,
			 0); /* or a slow reader loses some */
	fputs("b", f);
	assert_int_equal(fan_file_done(f, path, why, sizeof why), 0);
	assert_int_equal(read(reader, text, sizeof text), 1);
	close(reader);
}

TEST_WITH(open__devices_and_folders, begin, end)
{
	taken("/dev/null", FAN_FILE_READ);
	refused("/dev/null", FAN_FILE_WRITE, "expected a regular file");
	refused("/dev/zero", FAN_FILE_READ, "expected a regular file");
	refused("/dev/zero", FAN_FILE_KEY, "expected a regular file");
	refused("/tmp", FAN_FILE_READ, "expected a regular file");
	refused("/tmp", FAN_FILE_WRITE, "Is a directory");
	refused("/nowhere/at/all", FAN_FILE_READ, "No such file");
	refused("/nowhere/at/all", FAN_FILE_WRITE, "No such file");
}

TEST_WITH(open__only_writing_empties, begin, end)
{
	make(path, "abc");
	taken(path, FAN_FILE_READ);
	taken(path, FAN_FILE_PROBE);
	expect_text(path, "abc");
	taken(path, FAN_FILE_WRITE);
	expect_text(path, "");
}

TEST_WITH(key__of_somebody_else, begin, end)
{
	if (geteuid())
		skip(); /* only root gives files away */
	make(path, "abc");
	assert_int_equal(chmod(path, 0600), 0);
	taken(path, FAN_FILE_KEY);
	assert_int_equal(chown(path, OTHER_USER, 0), 0);
	refused(path, FAN_FILE_KEY, "it belongs to user 65534");
	taken(path, FAN_FILE_READ);
	assert_int_equal(chmod(path, 0640), 0);
	refused(path, FAN_FILE_KEY, "others have access to it (mode 0640)");
}

TEST_WITH(done__tells_a_full_disk, begin, end)
{
	for (unsigned bytes = 1; bytes <= 1 << 20;
	     bytes += (1 << 20) - 1) { /* buffered, and more */
		FILE *f = fan_file_stream("/dev/full", FAN_FILE_OUTPUT, why, sizeof why);
		assert_non_null(f);
		for (unsigned i = 0; i < bytes; i++)
			fputc('a', f);
		assert_int_equal(fan_file_done(f, "/dev/full", why, sizeof why), -1);
		assert_string_equal(why, "/dev/full: No space left on device");
	}
}

TEST_WITH(renew__is_whole_or_not_there, begin, end)
{
	make(path, "old");
	FILE *f = fan_file_renew(path, why, sizeof why);
	assert_non_null(f);
	fputs("new", f);
	expect_text(path, "old");
	assert_int_equal(fan_file_renewed(f, path, 0, why, sizeof why), 0);
	expect_text(path, "new");
	f = fan_file_renew(path, why, sizeof why);
	assert_non_null(f);
	assert_int_equal(fan_file_renewed(f, path, 1, why, sizeof why), -1);
	expect_text(path, "new");
	assert_int_equal(access(other, F_OK), -1);
}

TEST_WITH(renew__replaces_nothing_else, begin, end)
{
	assert_int_equal(mkfifo(path, 0600), 0);
	assert_null(fan_file_renew(path, why, sizeof why));
	assert_non_null(strstr(why, "expected a regular file, or none"));
	unlink(path);
	assert_int_equal(mkfifo(other, 0600), 0);
	assert_null(fan_file_renew(path, why, sizeof why));
	unlink(other);
	assert_null(fan_file_renew("/dev/null", why, sizeof why));
}

/* Beyond the limit of a file's size a signal would end the process. */
TEST_WITH(stream__ends_at_the_limit, begin, end)
{
	struct rlimit before, little;
	assert_int_equal(getrlimit(RLIMIT_FSIZE, &before), 0);
	little = (struct rlimit){4, before.rlim_max};
	FILE *f = fan_file_stream(path, FAN_FILE_WRITE, why, sizeof why);
	assert_non_null(f);
	assert_int_equal(setrlimit(RLIMIT_FSIZE, &little), 0);
	fputs("longer", f);
	const int e = fan_file_done(f, path, why, sizeof why);
	assert_int_equal(setrlimit(RLIMIT_FSIZE, &before), 0);
	assert_int_equal(e, -1);
	assert_non_null(strstr(why, strerror(EFBIG)));
}

/* Somebody has laid links at both names, which lead to a file of ours. */
TEST_WITH(renew__follows_no_link, begin, end)
{
	char third[64];
	snprintf(third, sizeof third, "%s/b", folder);
	for (unsigned hard = 0; hard < 2; hard++) {
		make(third, "ours");
		assert_int_equal(symlink(third, path), 0);
		assert_int_equal((hard ? link : symlink)(third, other), 0);
		FILE *f = fan_file_renew(path, why, sizeof why);
		assert_non_null(f);
		fputs("new", f);
		assert_int_equal(fan_file_renewed(f, path, 0, why, sizeof why), 0);
		expect_text(path, "new");
		expect_text(third, "ours");
		unlink(path);
		unlink(third);
	}
}

UNIT_MAIN
