/* SPDX-License-Identifier: Apache-2.0 */
#include "file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#define PATH_BYTES 4096
#define PUBLIC	   0666 /* but for the umask */

/* How a file of each use is opened, and what it may be.  Without O_NONBLOCK a pipe waits for its
 * other end, and some devices for theirs. */
static const struct row {
	int flags;
	bool device, pipe; /* will do as well */
	bool empties;	   /* a regular file */
	bool waits;	   /* for what comes, once it is open */
} rows[] = {
	[FAN_FILE_READ] = {O_RDONLY, false, false, false, false},
	[FAN_FILE_KEY] = {O_RDONLY, false, false, false, false},
	[FAN_FILE_INPUT] = {O_RDONLY, true, true, false, true},
	[FAN_FILE_WRITE] = {O_WRONLY | O_CREAT, false, false, true, false},
	[FAN_FILE_OUTPUT] = {O_WRONLY | O_CREAT, true, true, true, true},
	[FAN_FILE_PROBE] = {O_WRONLY, true, true, false, false},
};

static int wrong(const char *path, const char *text, char *why, size_t bytes)
{
	snprintf(why, bytes, "%.200s: %s", path, text);
	return -1;
}

static bool is_null(const struct stat *st)
{
	return S_ISCHR(st->st_mode) && st->st_rdev == makedev(1, 3);
}

/* Has nobody but its owner, who is to be trusted, access to a key? */
static int check_key(const struct stat *st, const char *path, char *why, size_t bytes)
{
	if (st->st_mode & (S_IRWXG | S_IRWXO)) {
		snprintf(why, bytes,
			 "%.200s: others have access to it (mode %04o); expected 0600: chmod 600 "
			 "%.200s",
			 path, (unsigned)st->st_mode & 07777, path);
		return -1;
	}
	if (st->st_uid == geteuid() || !st->st_uid)
		return 0;
	snprintf(
		why, bytes,
		"%.200s: it belongs to user %u, who can change it; expected a file of user %u or root",
		path, (unsigned)st->st_uid, (unsigned)geteuid());
	return -1;
}

/* Is what `fd` is of a kind that `use` takes? */
static int check(int fd, const char *path, enum fan_file_use use, char *why, size_t bytes)
{
	const struct row *r = &rows[use];
	struct stat st;

	if (fstat(fd, &st))
		return wrong(path, strerror(errno), why, bytes);
	bool taken = S_ISREG(st.st_mode) || (r->device && S_ISCHR(st.st_mode)) ||
		     (r->pipe && S_ISFIFO(st.st_mode)) || (use == FAN_FILE_READ && is_null(&st));
	if (!taken)
		return wrong(path, "expected a regular file", why, bytes);
	if (use == FAN_FILE_KEY && check_key(&st, path, why, bytes))
		return -1;
	if ((r->empties && S_ISREG(st.st_mode) && ftruncate(fd, 0)) ||
	    (r->waits && fcntl(fd, F_SETFL, 0)))
		return wrong(path, strerror(errno), why, bytes);
	return 0;
}

static int open_with(const char *path, enum fan_file_use use, int more, char *why, size_t bytes)
{
	int fd = open(path, rows[use].flags | more | O_NONBLOCK | O_NOCTTY | O_CLOEXEC, PUBLIC);

	if (fd < 0 && errno == ENXIO)
		return wrong(path, "nobody reads this pipe", why, bytes);
	if (fd < 0)
		return wrong(path, strerror(errno), why, bytes);
	if (!check(fd, path, use, why, bytes))
		return fd;
	close(fd);
	return -1;
}

int fan_file_open(const char *path, enum fan_file_use use, char *why, size_t bytes)
{
	return open_with(path, use, 0, why, bytes);
}

bool fan_file_may_have(size_t bytes)
{
	struct rlimit most;
	const bool may = getrlimit(RLIMIT_FSIZE, &most) || most.rlim_cur == RLIM_INFINITY ||
			 bytes <= most.rlim_cur;

	errno = may ? errno : EFBIG;
	return may;
}

/* 0: an error. */
static ssize_t write_within(void *file, const char *text, size_t bytes)
{
	const int fd = (int)(intptr_t)file;
	const off_t at = lseek(fd, 0, SEEK_CUR);
	const ssize_t n =
		at < 0 || !fan_file_may_have((size_t)at + bytes) ? 0 : write(fd, text, bytes);

	return n < 0 ? 0 : n;
}

static int close_file(void *file)
{
	return close((int)(intptr_t)file);
}

static FILE *stream_of(int fd, const char *path, enum fan_file_use use, char *why, size_t bytes)
{
	const cookie_io_functions_t within = {.write = write_within, .close = close_file};
	struct stat st;
	const bool reads = (rows[use].flags & O_ACCMODE) == O_RDONLY;
	const bool limited =
		fd >= 0 && use == FAN_FILE_WRITE && !fstat(fd, &st) && S_ISREG(st.st_mode);
	FILE *f = fd < 0    ? NULL
		  : limited ? fopencookie((void *)(intptr_t)fd, "w", within)
			    : fdopen(fd, reads ? "r" : "w");

	if (fd >= 0 && !f) {
		wrong(path, strerror(errno), why, bytes);
		close(fd);
	}
	return f;
}

FILE *fan_file_stream(const char *path, enum fan_file_use use, char *why, size_t bytes)
{
	return stream_of(fan_file_open(path, use, why, bytes), path, use, why, bytes);
}

int fan_file_done(FILE *f, const char *path, char *why, size_t bytes)
{
	errno = 0;
	bool lost = fflush(f) != 0;
	int first = errno;

	lost |= ferror(f) != 0;
	if (fclose(f)) {
		lost = true;
		first = first ? first : errno;
	}
	return lost ? wrong(path, first ? strerror(first) : "could not be written whole", why,
			    bytes)
		    : 0;
}

/* "PATH.new".  False: too long. */
static bool name_new(char name[PATH_BYTES], const char *path, char *why, size_t bytes)
{
	int n = snprintf(name, PATH_BYTES, "%s.new", path);

	return (n > 0 && n < PATH_BYTES) || wrong(path, strerror(ENAMETOOLONG), why, bytes) == 0;
}

FILE *fan_file_renew(const char *path, char *why, size_t bytes)
{
	char name[PATH_BYTES];
	struct stat st;

	if (!name_new(name, path, why, bytes))
		return NULL;
	if (stat(path, &st) == 0 && !S_ISREG(st.st_mode)) {
		wrong(path, "expected a regular file, or none", why, bytes);
		return NULL;
	}
	if (lstat(name, &st) == 0 && (S_ISREG(st.st_mode) || S_ISLNK(st.st_mode)))
		unlink(name); /* of a program that was killed, or laid there by somebody */
	int fd = open_with(name, FAN_FILE_WRITE, O_EXCL, why, bytes);
	return stream_of(fd, name, FAN_FILE_WRITE, why, bytes);
}

int fan_file_renewed(FILE *f, const char *path, int bad, char *why, size_t bytes)
{
	char name[PATH_BYTES];
	int e = fan_file_done(f, path, why, bytes);

	if (!name_new(name, path, why, bytes))
		return -1;
	if (!e && bad)
		e = wrong(path, "could not be written whole", why, bytes);
	if (!e && rename(name, path))
		e = wrong(path, strerror(errno), why, bytes);
	if (e)
		unlink(name);
	return e;
}
