/* SPDX-License-Identifier: Apache-2.0 */
#include "rank_file.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "file/file.h"
#include "file/option.h"

#define WATCH	    "watch"
#define NEW_BYTES   (FAN_STATUS_NAME_BYTES + 4)
#define START_FIELD 22 /* of /proc/PID/stat */
#define OTHERS	    (S_IRWXG | S_IRWXO)

/* ---- descriptors and forks ---- */

unsigned long long fan_files_limit(void)
{
	struct rlimit r;
	return getrlimit(RLIMIT_NOFILE, &r) || r.rlim_cur == RLIM_INFINITY ? 0 : r.rlim_cur;
}

const char *fan_files_strerror(int e, char *text, size_t bytes)
{
	if (e == EMFILE)
		snprintf(text, bytes,
			 "%s: this process may have %llu file descriptors; raise the limit "
			 "(ulimit -n) or destroy groups that are not used",
			 strerror(e), fan_files_limit());
	else
		snprintf(text, bytes, "%s", strerror(e));
	return text;
}

static atomic_uint forks;
static pthread_once_t forks_once = PTHREAD_ONCE_INIT;

static void forked(void)
{
	atomic_fetch_add(&forks, 1);
}

static void count_forks(void)
{
	pthread_atfork(NULL, NULL, forked);
}

unsigned fan_fork_guard(void)
{
	pthread_once(&forks_once, count_forks);
	return atomic_load(&forks);
}

/* ---- files of ranks ---- */

/* The last error of files that somebody asked for, and of the status file, which nobody did. */
static struct error {
	char text[FAN_RANK_FILE_BYTES];
	_Atomic int state;
} of_wanted, of_status;

enum { NONE, BEING_WRITTEN, WRITTEN }; /* of an error */

void fan_rank_file_fail(const char *variable, const char *why)
{
	struct error *e = strcmp(variable, FAN_RANK_FILE_STATUS) ? &of_wanted : &of_status;
	int none = NONE;
	if (!atomic_compare_exchange_strong(&e->state, &none, BEING_WRITTEN))
		return;
	snprintf(e->text, sizeof e->text, "%s: %s", variable, why);
	atomic_store(&e->state, WRITTEN);
}

const char *fan_rank_file_error(void)
{
	if (atomic_load(&of_wanted.state) == WRITTEN)
		return of_wanted.text;
	return atomic_load(&of_status.state) == WRITTEN ? of_status.text : "";
}

/* Append a job's name or a number, with "_" for what must not be in a file's name. */
static size_t put_safe(char *path, size_t used, size_t bytes, const char *text)
{
	for (; *text && used + 1 < bytes; text++)
		path[used++] = (char)(*text == '/' || *text == '.' ? '_' : *text);
	return used;
}

bool fan_rank_file(char *path, size_t bytes, const char *pattern, const char *job, int rank)
{
	char number[16], dashed[20];
	size_t used = 0;
	const char *dot = strrchr(pattern, '.'), *slash = strrchr(pattern, '/');
	const char *insert = dot && (!slash || dot > slash) ? dot : pattern + strlen(pattern);
	assert(bytes > 0);
	snprintf(number, sizeof number, "%d", rank);
	snprintf(dashed, sizeof dashed, "-%d", rank);
	if (strstr(pattern, "%r"))
		insert = NULL;
	for (const char *p = pattern;; p++) {
		if (p == insert)
			used = put_safe(path, used, bytes, dashed);
		if (!*p || used + 1 >= bytes)
			break;
		if (*p != '%' || !strchr("rj%", p[1]) || !p[1]) {
			path[used++] = *p;
			continue;
		}
		p++;
		used = put_safe(path, used, bytes, *p == 'r' ? number : *p == 'j' ? job : "%");
	}
	path[used] = '\0';
	return used + 1 < bytes;
}

/* ---- the status file ---- */

/* When this process began, in ticks since the machine did. */
static unsigned long long start_ticks(void)
{
	char text[1024] = "";
	unsigned long long ticks = 0;
	FILE *f = fopen("/proc/self/stat", "re");
	if (!f)
		return 0;
	const size_t n = fread(text, 1, sizeof text - 1, f);
	fclose(f);
	text[n] = '\0';
	const char *at = strrchr(text, ')'); /* the program's name may have anything */
	for (unsigned field = 2; at && field < START_FIELD; field++)
		at = strchr(at + 1, ' ');
	if (at)
		sscanf(at, "%llu", &ticks);
	return ticks;
}

/* The number of the namespace in which the process has its number. */
static unsigned long long pid_namespace(void)
{
	struct stat st;
	return stat("/proc/self/ns/pid", &st) ? 0 : st.st_ino;
}

/* Make folder `name` of `parent`, or open it as it is.  -1 with errno: EPERM, others may change it;
 * `theirs`: it has to be this user's, as is the parent. */
static int open_folder(const char *parent, const char *name, bool theirs)
{
	struct stat st;
	const int in = open(parent, O_PATH | O_DIRECTORY | O_CLOEXEC);
	int fd = -1, e = 0;
	if (in < 0)
		return -1;
	if (theirs && !fstat(in, &st) && st.st_uid != geteuid()) {
		e = EPERM; /* sudo keeps the variable of another user */
	} else {
		mkdirat(in, name, S_IRWXU);
		fd = openat(in, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
		e = fd < 0 ? errno : 0;
	}
	close(in);
	if (fd >= 0 && !fstat(fd, &st) && st.st_uid == geteuid() && !(st.st_mode & OTHERS))
		return fd;
	if (fd >= 0)
		close(fd);
	errno = e ? e : EPERM;
	return -1;
}

static int open_again(const struct fan_status_file *s)
{
	return open_folder(s->parent, s->folder, false);
}

static int open_watch(int folder)
{
	struct stat st;
	mkfifoat(folder, WATCH, S_IRUSR | S_IWUSR);
	const int fd = openat(folder, WATCH, O_RDWR | O_NONBLOCK | O_NOFOLLOW | O_CLOEXEC);
	if (fd < 0)
		return -1;
	if (!fstat(fd, &st) && S_ISFIFO(st.st_mode) && st.st_uid == geteuid())
		return fd;
	close(fd);
	errno = EEXIST;
	return -1;
}

/* Try the folder `name` of `parent`.  0, or an error number. */
static int try_folder(struct fan_status_file *s, const char *parent, const char *name, bool theirs)
{
	const int fits = snprintf(s->parent, sizeof s->parent, "%s", parent);
	snprintf(s->folder, sizeof s->folder, "%s", name);
	if (fits >= (int)sizeof s->parent)
		return ENAMETOOLONG;
	const int folder = open_folder(parent, name, theirs);
	if (folder < 0)
		return errno;
	s->watch = open_watch(folder);
	const int e = s->watch < 0 ? errno : 0;
	close(folder);
	return e;
}

int fan_status_open(struct fan_status_file *s)
{
	const char *runtime = secure_getenv("XDG_RUNTIME_DIR");
	char own[FAN_STATUS_NAME_BYTES];
	int e = ENOENT;
	s->watch = -1;
	snprintf(s->name, sizeof s->name, "%d-%llu-%llu", (int)getpid(), start_ticks(),
		 pid_namespace());
	if (runtime && *runtime == '/')
		e = try_folder(s, runtime, "fanin", true);
	if (e) {
		snprintf(own, sizeof own, "/run/user/%u", (unsigned)geteuid());
		e = try_folder(s, own, "fanin", true);
	}
	if (e) {
		snprintf(own, sizeof own, "fanin-%u", (unsigned)geteuid());
		e = try_folder(s, "/tmp", own, false);
	}
	return e;
}

static int write_all(int fd, const char *text, size_t bytes)
{
	for (size_t used = 0; used < bytes;) {
		const ssize_t n = write(fd, text + used, bytes - used);
		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			return n ? errno : EIO;
		used += (size_t)n;
	}
	return 0;
}

int fan_status_write(const struct fan_status_file *s, const char *text, size_t bytes)
{
	char new[NEW_BYTES];
	if (bytes > FAN_STATUS_BYTES || !fan_file_may_have(bytes))
		return EFBIG;
	const int folder = open_again(s);
	if (folder < 0)
		return errno;
	snprintf(new, sizeof new, "%s.new", s->name);
	unlinkat(folder, new, 0);
	const int fd = openat(folder, new, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC,
			      S_IRUSR | S_IWUSR);
	int e = fd < 0 ? errno : write_all(fd, text, bytes);
	if (fd >= 0 && close(fd) && !e)
		e = errno;
	if (!e && renameat(folder, new, folder, s->name))
		e = errno;
	if (e)
		unlinkat(folder, new, 0);
	close(folder);
	return e;
}

void fan_status_path(const struct fan_status_file *s, char *path)
{
	snprintf(path, FAN_STATUS_PATH_BYTES, "%s/%s/%s", s->parent, s->folder, s->name);
}

void fan_status_remove(const struct fan_status_file *s)
{
	const int folder = open_again(s);
	if (folder < 0)
		return;
	unlinkat(folder, s->name, 0);
	close(folder);
}
