/* SPDX-License-Identifier: Apache-2.0 */
/* What a process tells about its ranks, and where. */
#include "unit/lib/team.h"

#include <errno.h>
#include <fcntl.h>
#include <jansson.h>
#include <libgen.h>
#include <poll.h>
#include <sched.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "lib/base/rank_file.h"
#include "lib/comm/comm.h"
#include "lib/rank/registry.c"

#define RANKS	     3
#define COUNT	     1000
#define ANSWER_MS    60000 /* never reached unless something hangs */
#define NO_FILE	     3	   /* exit statuses of a child */
#define SOME_FILE    4
#define HELD_MS	     1200 /* more than FAN_REGISTRY_WAIT_NS */
#define STUCK_MS     1000 /* without a descriptor; and what that may take of a processor: */
#define STUCK_CPU_NS (100 * FAN_MS)

static pthread_barrier_t all;
static bool by_memory;
static char runtime[] = "/tmp/fanin-registry-XXXXXX"; /* XDG_RUNTIME_DIR */

static void tell_after(int ms)
{
	atomic_store(&registry.tell_ms, ms);
}

/* The path of this process's status file, FAN_STATUS_PATH_BYTES; "": there is none. */
static void status_file(char *path)
{
	pthread_mutex_lock(&registry.life);
	pthread_mutex_lock(&registry.lock);
	*path = '\0';
	if (registry.teller && registry.teller->file.watch >= 0)
		fan_status_path(&registry.teller->file, path);
	pthread_mutex_unlock(&registry.lock);
	pthread_mutex_unlock(&registry.life);
}

static void wait_ms(int ms)
{
	poll(NULL, 0, ms);
}

/* Has this process a status file?  Its thread may not have begun. */
static bool has_file(char *path)
{
	for (int ms = 0; ms < ANSWER_MS; ms += 10) {
		status_file(path);
		if (*path)
			return true;
		wait_ms(10);
	}
	return false;
}

/* Have the files of the folder written. */
static void wake(const char *path)
{
	char folder[FAN_STATUS_PATH_BYTES], watch[FAN_STATUS_PATH_BYTES + 8], drained[4096];
	snprintf(folder, sizeof folder, "%s", path);
	snprintf(watch, sizeof watch, "%s/watch", dirname(folder));
	const int fd = open(watch, O_RDWR | O_NONBLOCK);
	while (read(fd, drained, sizeof drained) > 0)
		;
	EXPECT(write(fd, "?", 1) == 1);
	close(fd);
}

/* The file once it has been written anew; NULL: it is not. */
static json_t *look_at(const char *path)
{
	struct stat before = {.st_ino = 0}, now;
	stat(path, &before);
	wake(path);
	for (int ms = 0; ms < ANSWER_MS; ms++) {
		if (!stat(path, &now) && (now.st_ino != before.st_ino ||
					  now.st_mtim.tv_nsec != before.st_mtim.tv_nsec)) {
			EXPECT((now.st_mode & 07777) == 0600);
			return json_load_file(path, 0, NULL);
		}
		wait_ms(1);
	}
	return NULL;
}

/* What this process tells; NULL: nothing. */
static json_t *ask(void)
{
	char path[FAN_STATUS_PATH_BYTES];
	return has_file(path) ? look_at(path) : NULL;
}

static const json_t *rank_in(const json_t *j, int rank)
{
	const json_t *ranks = json_object_get(j, "ranks");
	for (size_t i = 0; i < json_array_size(ranks); i++) {
		const json_t *r = json_array_get(ranks, i);
		if (json_integer_value(json_object_get(r, "rank")) == rank)
			return r;
	}
	return NULL;
}

static bool is(const json_t *r, const char *key, const char *text)
{
	const char *told = json_string_value(json_object_get(r, key));
	return told && !strcmp(told, text);
}

/* Rank 2 begins an operation late: the others are told to wait. */
static void wait_for_rank_2(struct member *m)
{
	int32_t x[COUNT] = {0}, y[COUNT];
	fanin_op *op = NULL;
	if (m->rank < 2)
		EXPECT(fanin_allreduce_start(m->comm, x, y, COUNT, FANIN_INT32, FANIN_SUM, &op) ==
		       FANIN_OK);
	pthread_barrier_wait(&all);
	if (m->rank == 0) {
		json_t *j;
		do { /* until both count as waiting */
			wait_ms(HELD_MS);
			j = ask();
			if (is(rank_in(j, 0), "state", "waits") &&
			    is(rank_in(j, 1), "state", "waits"))
				break;
			EXPECT(j != NULL);
			json_decref(j);
		} while (j);
		const json_t *r = rank_in(j, 1);
		const json_t *under_way = json_object_get(r, "under_way");
		const json_t *first = json_array_get(under_way, 0);
		EXPECT(json_array_size(json_object_get(j, "ranks")) == RANKS);
		EXPECT(json_integer_value(json_object_get(j, "pid")) == getpid());
		EXPECT(json_integer_value(json_object_get(r, "open")) == 1);
		EXPECT(json_array_size(under_way) == 1 && is(first, "kind", "allreduce"));
		EXPECT(json_integer_value(json_object_get(first, "bytes")) == sizeof x);
		EXPECT(json_number_value(json_object_get(r, "waited_s")) >= 1);
		EXPECT(json_number_value(json_object_get(first, "age_s")) >= 1);
		EXPECT(is(rank_in(j, 2), "state", "idle"));
		if (by_memory)
			EXPECT(json_integer_value(
				       json_array_get(json_object_get(r, "missing"), 0)) == 2);
		else
			EXPECT(is(json_array_get(json_object_get(r, "places"), 0), "job",
				  "default"));
		json_decref(j);
	}
	pthread_barrier_wait(&all);
	if (m->rank == 2)
		EXPECT(fanin_allreduce_start(m->comm, x, y, COUNT, FANIN_INT32, FANIN_SUM, &op) ==
		       FANIN_OK);
	EXPECT(op && fanin_op_wait(op, TEAM_PATIENT_MS) == FANIN_OK);
	fanin_op_free(op);
}

static void run_waits(const char *local)
{
	struct team t = team_new(RANKS, wait_for_rank_2);
	by_memory = *local == '1';
	setenv("FANIN_LOCAL", local, 1);
	pthread_barrier_init(&all, NULL, RANKS);
	team_run(&t);
	pthread_barrier_destroy(&all);
	team_free(&t);
	unsetenv("FANIN_LOCAL");
	char path[FAN_STATUS_PATH_BYTES];
	status_file(path);
	assert_string_equal(path, ""); /* the thread has ended with the last rank */
}

/* On a disk of a few pages, which are full, operations go on, and there is one word about it. */
static void be_on_a_full_disk(struct member *m)
{
	char path[FAN_STATUS_PATH_BYTES];
	int32_t x[COUNT] = {0}, y[COUNT];
	EXPECT(fanin_allreduce(m->comm, x, y, COUNT, FANIN_INT32, FANIN_SUM) == FANIN_OK);
	if (has_file(path)) /* it has no page, and none of what it is to say */
		wake(path);
	for (int ms = 0; ms < ANSWER_MS && !*fan_rank_file_error(); ms += 10)
		wait_ms(10);
	EXPECT(strstr(fan_rank_file_error(), strerror(ENOSPC)) != NULL);
}

/* First of all: the first error is kept. */
TEST(registry__a_full_disk_stops_nothing)
{
	char file[64];
	static const char page[4096];
	if (geteuid() || unshare(CLONE_NEWNS) ||
	    mount("none", "/", NULL, MS_REC | MS_PRIVATE, NULL) ||
	    mount("none", runtime, "tmpfs", 0, "size=16k"))
		skip();
	snprintf(file, sizeof file, "%s/full", runtime);
	const int fd = open(file, O_WRONLY | O_CREAT, 0600);
	while (write(fd, page, sizeof page) > 0)
		;
	close(fd);
	team_run_once(2, be_on_a_full_disk);
	assert_int_equal(umount(runtime), 0);
}

TEST(registry__tells_who_waits_at_a_switch)
{
	run_waits("0");
}

TEST(registry__tells_who_waits_in_memory)
{
	run_waits("1");
}

/* A child's word. */
static int status_of(pid_t child)
{
	int status = -1;
	EXPECT(child > 0 && waitpid(child, &status, 0) == child);
	return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

static uint64_t cpu_ns(void)
{
	struct timespec t;
	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
	return (uint64_t)t.tv_sec * 1000 * FAN_MS + (uint64_t)t.tv_nsec;
}

/* Who looks while the process has no descriptor left costs it nothing, and sees it later. */
static void look_without_descriptors(const char *path)
{
	struct rlimit before, none;
	const int next = dup(0);
	EXPECT(!getrlimit(RLIMIT_NOFILE, &before));
	none = before;
	none.rlim_cur = (rlim_t)next; /* what there is stays */
	EXPECT(next > 0 && !close(next));
	wake(path);
	EXPECT(!setrlimit(RLIMIT_NOFILE, &none));
	const uint64_t begin_ns = cpu_ns();
	wait_ms(STUCK_MS);
	EXPECT(cpu_ns() - begin_ns < STUCK_CPU_NS);
	EXPECT(!setrlimit(RLIMIT_NOFILE, &before));
	json_t *j = look_at(path);
	EXPECT(j != NULL);
	json_decref(j);
}

/* Those who clean /tmp remove files that nobody has used for long. */
static void look_after_a_removal(const char *path)
{
	char folder[FAN_STATUS_PATH_BYTES], watch[FAN_STATUS_PATH_BYTES + 8];
	snprintf(folder, sizeof folder, "%s", path);
	snprintf(watch, sizeof watch, "%s/watch", dirname(folder));
	EXPECT(!unlink(path) && !unlink(watch) && !rmdir(folder));
	for (int ms = 0; ms < ANSWER_MS && access(path, F_OK); ms += 10)
		wait_ms(10);
	json_t *j = look_at(path);
	EXPECT(json_array_size(json_object_get(j, "ranks")) == 2);
	json_decref(j);
}

static void be_looked_at(struct member *m)
{
	pthread_barrier_wait(&all);
	if (m->rank == 0) {
		char path[FAN_STATUS_PATH_BYTES], later[FAN_STATUS_PATH_BYTES];
		struct stat folder;
		EXPECT(has_file(path));
		EXPECT(strstr(path, runtime) == path);
		snprintf(later, sizeof later, "%s", path);
		EXPECT(!stat(dirname(later), &folder) && (folder.st_mode & 07777) == 0700);
		const pid_t child = fork();
		if (!child) { /* the ranks are not its own, nor is the file */
			status_file(later);
			_exit(*later ? SOME_FILE : NO_FILE);
		}
		EXPECT(status_of(child) == NO_FILE);
		EXPECT(has_file(later) && !strcmp(later, path));
		json_t *j = look_at(path);
		EXPECT(json_array_size(json_object_get(j, "ranks")) == 2);
		EXPECT(is(j, "program", "caf\\xe9"));
		json_decref(j);
		look_without_descriptors(path);
		look_after_a_removal(path);
	}
	pthread_barrier_wait(&all);
}

static void run_two(void (*work)(struct member *))
{
	struct team t = team_new(2, work);
	pthread_barrier_init(&all, NULL, 2);
	team_run(&t);
	pthread_barrier_destroy(&all);
	team_free(&t);
}

TEST(registry__writes_a_file_of_its_user_alone)
{
	char *const own = program_invocation_short_name;
	char odd[] = "caf\xe9"; /* a name that is no UTF-8 */
	program_invocation_short_name = odd;
	run_two(be_looked_at);
	program_invocation_short_name = own;
}

/* Where a link, or a folder that others may enter, stands in place of the first folder, the file is
 * in the next one: nobody's word leads it elsewhere. */
static void be_elsewhere(struct member *m __attribute__((unused)))
{
	char path[FAN_STATUS_PATH_BYTES];
	EXPECT(has_file(path) && strstr(path, runtime) != path && !strstr(path, "/etc/"));
}

TEST(registry__follows_no_link)
{
	char folder[64], watch[80];
	snprintf(folder, sizeof folder, "%s/fanin", runtime);
	snprintf(watch, sizeof watch, "%s/watch", folder);
	unlink(watch);
	rmdir(folder);
	assert_int_equal(symlink("/etc", folder), 0);
	team_run_once(2, be_elsewhere);
	assert_int_equal(unlink(folder), 0);
	assert_int_equal(mkdir(folder, 0700) || chmod(folder, 0755), 0);
	team_run_once(2, be_elsewhere);
	assert_int_equal(rmdir(folder), 0);
}

static pthread_mutex_t said_lock = PTHREAD_MUTEX_INITIALIZER;
static char said[4][512];
static unsigned says;

static void note_wait(void *arg, const char *text)
{
	pthread_mutex_lock(&said_lock);
	EXPECT(arg == said);
	if (says < 4)
		snprintf(said[says], sizeof said[0], "%s", text);
	says++;
	pthread_mutex_unlock(&said_lock);
}

static unsigned said_so_far(void)
{
	pthread_mutex_lock(&said_lock);
	const unsigned n = says;
	pthread_mutex_unlock(&said_lock);
	return n;
}

/* Rank 2 is late until both others have said so, and for some turns more. */
static void say_once(struct member *m)
{
	int32_t x[COUNT] = {0}, y[COUNT];
	if (m->rank == 2) {
		while (said_so_far() < 2)
			wait_ms(10);
		wait_ms(3 * FAN_REGISTRY_TURN_MS);
		tell_after(FAN_REGISTRY_TELL_MS); /* nobody says how long the rest takes */
	}
	EXPECT(fanin_allreduce(m->comm, x, y, COUNT, FANIN_INT32, FANIN_SUM) == FANIN_OK);
}

TEST(registry__a_rank_that_waits_long_says_so_once)
{
	char want[64];
	for (int local = 0; local < 2; local++) {
		bool seen[RANKS] = {false};
		says = 0;
		setenv("FANIN_LOCAL", local ? "1" : "0", 1);
		tell_after(1000);
		fanin_on_wait(note_wait, said);
		team_run_once(RANKS, say_once);
		fanin_on_wait(NULL, NULL);
		tell_after(FAN_REGISTRY_TELL_MS);
		unsetenv("FANIN_LOCAL");
		assert_int_equal(says, 2);
		for (unsigned i = 0; i < 2; i++) {
			print_message("%s\n", said[i]);
			for (int r = 0; r < RANKS; r++) {
				snprintf(want, sizeof want, "rank %d of job \"", r);
				seen[r] |= strstr(said[i], want) == said[i];
			}
			assert_non_null(strstr(said[i], "allreduce of 4000 bytes"));
			assert_non_null(strstr(said[i], local ? "waits for rank 2 to take part"
							      : "waits for results from 127."));
		}
		assert_true(seen[0] && seen[1] && !seen[2]);
	}
}

static atomic_bool goes_on;

static void wait_there(void *arg, const char *text)
{
	note_wait(arg, text);
	while (!atomic_load(&goes_on))
		wait_ms(10);
}

static void wait_for_the_first(struct member *m)
{
	int32_t x[COUNT] = {0}, y[COUNT];
	while (m->rank == 1 && !said_so_far())
		wait_ms(10);
	EXPECT(fanin_allreduce(m->comm, x, y, COUNT, FANIN_INT32, FANIN_SUM) == FANIN_OK);
}

/* As one whose standard error nobody reads. */
TEST(registry__no_rank_waits_for_a_program_that_is_told)
{
	says = 0;
	tell_after(1000);
	fanin_on_wait(wait_there, said);
	team_run_once(2, wait_for_the_first);
	tell_after(FAN_REGISTRY_TELL_MS);
	atomic_store(&goes_on, true);
	fanin_on_wait(NULL, NULL);
	assert_int_equal(says, 1);
}

/* Ranks come and go while somebody looks without pause. */
static atomic_bool ends;

static void *look_on(void *arg)
{
	unsigned *count = arg;
	char path[FAN_STATUS_PATH_BYTES];
	while (!atomic_load(&ends)) {
		status_file(path);
		if (*path)
			wake(path);
		*count += *path != 0;
	}
	return NULL;
}

static void do_nothing(struct member *m __attribute__((unused)))
{
}

TEST(registry__ranks_come_and_go_while_somebody_looks)
{
	struct team t = team_new(2, do_nothing);
	pthread_t looks;
	unsigned count = 0;
	assert_int_equal(pthread_create(&looks, NULL, look_on, &count), 0);
	for (int i = 0; i < 20; i++)
		team_run(&t);
	atomic_store(&ends, true);
	pthread_join(looks, NULL);
	print_message("%u looks\n", count);
	team_free(&t);
}

int main(void)
{
	char folder[64], watch[80];
	if (!mkdtemp(runtime) || setenv("XDG_RUNTIME_DIR", runtime, 1))
		return 1;
	const int failed = unit_run();
	snprintf(folder, sizeof folder, "%s/fanin", runtime);
	snprintf(watch, sizeof watch, "%s/watch", folder);
	unlink(watch);
	rmdir(folder);
	rmdir(runtime);
	return failed;
}
