/* SPDX-License-Identifier: Apache-2.0 */
/* Ranks, as processes, of which one ends: the others of its host learn it from the kernel. */
#include "unit/lib/team.h"

#include <dirent.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "lib/comm/comm.h"
#include "lib/host/attach.h"
#include "lib/host/host_comm.h"

#define RANKS	   3
#define ALL	   4	 /* ranks of the job, two a host */
#define GONE	   3	 /* the one that ends when it has joined its column */
#define SOON_MS	   15000 /* in which all must know; but... */
#define ALIVE_MS   500
#define STOPPED_MS 2500	 /* more than a machine with other work keeps those that live waiting */
#define LONG_MS	   20000 /* ...this long before any limit of the job */
#define SKIPPED	   77
#define SLEEP_MS   2000 /* for which a machine is suspended, and is used before */

#ifndef CLONE_NEWTIME
#define CLONE_NEWTIME 0x80
#endif

/* Of a host, in memory that processes made by fork() share. */
struct host {
	uint64_t nonce;
	atomic_uint attached, stay;
};

static void wait_until(atomic_uint *what, unsigned is)
{
	uint64_t until_ns = fan_clock_ns() + TEAM_PATIENT_MS * FAN_MS;
	while (atomic_load(what) != is && fan_clock_ns() < until_ns)
		nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
}

static void *shared(size_t bytes)
{
	void *at = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	assert_ptr_not_equal(at, MAP_FAILED);
	return at;
}

static bool attach(struct fan_host_memory *m, struct host *h, unsigned me)
{
	const struct fan_host_seat host = {h->nonce, me, RANKS, 1, TEAM_PATIENT_MS, false, NULL, 0};
	char why[256];
	bool ok = !fan_host_attach(m, &host, why, sizeof why);
	atomic_fetch_add(&h->attached, 1);
	return ok;
}

/* Rank `me` in a process of its own. */
static pid_t start(struct host *h, unsigned me)
{
	struct fan_host_memory m;
	pid_t child = fork();
	if (child)
		return child;
	if (attach(&m, h, me))
		wait_until(&h->stay, 0);
	_exit(0);
}

static void *attach_as_first(void *arg)
{
	struct fan_host_memory *m = arg;
	struct host *h = (struct host *)m->s;
	return attach(m, h, 0) ? arg : NULL;
}

static void end(pid_t child)
{
	int status;
	kill(child, SIGKILL);
	assert_int_equal(waitpid(child, &status, 0), child);
}

static unsigned descriptors(void)
{
	unsigned count = 0;
	DIR *d = opendir("/proc/self/fd");
	while (d && readdir(d))
		count++;
	closedir(d);
	return count;
}

TEST(host_liveness__the_kernel_tells_who_has_ended)
{
	struct host *h = shared(sizeof *h);
	struct fan_host_memory m;
	unsigned before = descriptors();
	pid_t child[RANKS];
	h->nonce = fan_clock_nonce();
	h->stay = 1;
	for (unsigned i = 1; i < RANKS; i++)
		child[i] = start(h, i);
	assert_true(attach(&m, h, 0));
	wait_until(&h->attached, RANKS);
	for (unsigned i = 1; i < RANKS; i++)
		assert_false(fan_host_has_ended(m.s, m.fd, i));
	kill(child[1], SIGSTOP); /* which is no end */
	end(child[2]);
	assert_false(fan_host_has_ended(m.s, m.fd, 1));
	assert_true(fan_host_has_ended(m.s, m.fd, 2));
	end(child[1]);
	assert_true(fan_host_has_ended(m.s, m.fd, 1));
	fan_host_detach(&m);
	assert_int_equal(descriptors(), before);
	munmap(h, sizeof *h);
}

/* A program's helpers may live on. */
TEST(host_liveness__a_child_does_not_hold_it)
{
	struct host *h = shared(sizeof *h);
	struct fan_host_memory m;
	h->nonce = fan_clock_nonce();
	h->stay = 1;
	pid_t other = start(h, 1), parent = fork();
	if (!parent) {
		if (attach(&m, h, 2) && !fork())
			wait_until(&h->stay, 0);
		_exit(0);
	}
	assert_true(attach(&m, h, 0));
	assert_int_equal(waitpid(parent, NULL, 0), parent);
	wait_until(&h->attached, RANKS);
	assert_true(fan_host_has_ended(m.s, m.fd, 2));
	atomic_store(&h->stay, 0);
	end(other);
	fan_host_detach(&m);
}

/* Its other ranks would lose their locks with the first that leaves. */
TEST(host_liveness__ranks_of_one_process_are_left_to_beats)
{
	struct host *h = shared(sizeof *h);
	struct fan_host_memory m[2] = {{.s = (void *)h}};
	pthread_t first;
	h->nonce = fan_clock_nonce();
	h->stay = 1;
	pid_t child = start(h, 2);
	assert_int_equal(pthread_create(&first, NULL, attach_as_first, &m[0]), 0);
	assert_true(attach(&m[1], h, 1));
	pthread_join(first, NULL);
	wait_until(&h->attached, RANKS);
	fan_host_detach(&m[1]);
	assert_false(fan_host_has_ended(m[0].s, m[0].fd, 1));
	assert_false(fan_host_has_ended(m[0].s, m[0].fd, 2));
	end(child);
	assert_true(fan_host_has_ended(m[0].s, m[0].fd, 2));
	fan_host_detach(&m[0]);
}

/* A job of two hosts, all on this machine. */
enum gone_when { WHEN_ALL_HAVE_JOINED, BEFORE_IT_JOINS };

struct job {
	enum gone_when when;
	uint64_t nonce[2];
	atomic_uint joined, ready; /* columns; the switch */
	char address[80];
	int signal; /* that rank GONE gets */
	int alive_ms;
	int result[ALL];
	uint64_t blamed[ALL][FAN_RANK_WORDS], after_ns[ALL];
};

static int open_rank(struct fanin_comm *c, const struct job *job, int rank)
{
	struct fan_meeting m = {.hosts = 2, .host_of = {0, 0, 1, 1}};
	struct fanin_options options = FANIN_OPTIONS_INIT;
	char why[256];
	fan_peer at;
	options.switch_addr = job->address;
	options.rank = rank;
	options.ranks = ALL;
	options.timeout_ms = LONG_MS;
	options.alive_ms = job->alive_ms;
	m.host[0] = (struct fan_meeting_host){.ranks = 2, .nonce = job->nonce[0]};
	m.host[1] = (struct fan_meeting_host){.first = 2, .ranks = 2, .nonce = job->nonce[1]};
	if (fan_config_load(&c->rank.cfg, &options, why, sizeof why) ||
	    fan_peer_parse(&at, job->address, why, sizeof why))
		return FAN_E_CONFIG;
	fan_rank_add_part(&c->rank, &(struct fan_rank_part){.at = at, .inside = -1}, "");
	return fan_host_comm_open(&c->rank, &m, false);
}

/* Rank GONE has the memory of its host, and no more. */
static void stop_before_it_joins(const struct job *job)
{
	const struct fan_host_seat second = {job->nonce[1],   1,     2,	   2,
					     TEAM_PATIENT_MS, false, NULL, 0};
	struct fan_host_memory m;
	char why[256];
	if (!fan_host_attach(&m, &second, why, sizeof why))
		raise(job->signal);
}

static void run_rank(struct job *job, int rank)
{
	int32_t mine = 1, sum;
	wait_until(&job->ready, 1);
	if (rank == GONE && job->when == BEFORE_IT_JOINS)
		stop_before_it_joins(job);
	struct fanin_comm *c = fan_comm_new();
	uint64_t from_ns = fan_clock_ns();
	int e = open_rank(c, job, rank);
	if (job->when == WHEN_ALL_HAVE_JOINED) {
		atomic_fetch_add(&job->joined, 1);
		wait_until(&job->joined, ALL);
		if (rank == GONE)
			raise(job->signal);
		from_ns = fan_clock_ns();
	}
	if (!e && !fan_rank_start(&c->rank))
		e = fanin_allreduce(c, &mine, &sum, 1, FANIN_INT32, FANIN_SUM);
	job->result[rank] = e;
	job->after_ns[rank] = fan_clock_ns() - from_ns;
	memcpy(job->blamed[rank], c->rank.fate.blamed, sizeof c->rank.fate.blamed);
	fan_comm_destroy(c);
}

static void lose_one(enum gone_when when, int signal, int alive_ms)
{
	struct job *job = shared(sizeof *job);
	pid_t child[ALL];
	int status;
	job->nonce[0] = fan_clock_nonce();
	job->nonce[1] = fan_clock_nonce();
	job->when = when;
	job->signal = signal;
	job->alive_ms = alive_ms;
	for (int r = 0; r < ALL; r++) {
		child[r] = fork();
		if (child[r])
			continue;
		run_rank(job, r);
		_exit(0);
	}
	struct fan_daemon *sw = team_switch(job->address, sizeof job->address, 1);
	atomic_store(&job->ready, 1);
	for (int r = 0; r < GONE; r++)
		assert_int_equal(waitpid(child[r], &status, 0), child[r]);
	end(child[GONE]);
	fan_daemon_stop(sw);
	for (int r = 0; r < GONE; r++) {
		assert_int_equal(job->result[r], FAN_E_RANK_LOST);
		assert_int_equal(fan_ranks_count(job->blamed[r]), 1);
		assert_true(fan_ranks_has(job->blamed[r], GONE));
		assert_true(job->after_ns[r] < SOON_MS * FAN_MS);
	}
	munmap(job, sizeof *job);
}

/* It has no thread yet, and nothing of its column is under way, so the switch does not miss it. */
TEST(host_liveness__all_hosts_name_one_that_ends_when_it_has_joined)
{
	lose_one(WHEN_ALL_HAVE_JOINED, SIGKILL, LONG_MS);
}

TEST(host_liveness__all_hosts_name_one_that_stops_when_it_has_joined)
{
	lose_one(WHEN_ALL_HAVE_JOINED, SIGSTOP, STOPPED_MS);
}

/* Rank 1 waits for it in its column, and rank 0 for rank 1. */
TEST(host_liveness__all_hosts_name_one_that_stops_before_it_joins)
{
	lose_one(BEFORE_IT_JOINS, SIGSTOP, STOPPED_MS);
}

TEST(host_liveness__all_hosts_name_one_that_ends_before_it_joins)
{
	lose_one(BEFORE_IT_JOINS, SIGKILL, LONG_MS);
}

/* A job of one host, which is suspended while its rank 0 waits for its rank 1. */
struct slept {
	uint64_t nonce;
	atomic_uint waits, slept;
	int result[2], sum[2];
};

/* Rank `rank` of two, which have the host's memory.  An error, or 0. */
static int start_alone(struct fanin_comm *c, uint64_t nonce, int rank, int alive_ms)
{
	struct fan_meeting m = {.hosts = 1};
	struct fanin_options options = FANIN_OPTIONS_INIT;
	char why[256];
	options.rank = rank;
	options.ranks = 2;
	options.timeout_ms = TEAM_PATIENT_MS;
	options.alive_ms = alive_ms;
	m.host[0] = (struct fan_meeting_host){.ranks = 2, .nonce = nonce};
	int e = fan_config_load(&c->rank.cfg, &options, why, sizeof why);
	if (!e)
		e = fan_host_comm_open(&c->rank, &m, false);
	return e ? e : fan_rank_start(&c->rank);
}

static void run_slept(struct slept *job, int rank)
{
	struct fanin_comm *c = fan_comm_new();
	int32_t mine = rank + 1;
	int e = start_alone(c, job->nonce, rank, SLEEP_MS - ALIVE_MS);
	if (rank == 0)
		atomic_store(&job->waits, 1);
	else
		wait_until(&job->slept, 1);
	if (!e)
		e = fanin_allreduce(c, &mine, &job->sum[rank], 1, FANIN_INT32, FANIN_SUM);
	job->result[rank] = e;
	fan_comm_destroy(c);
}

/* Have the children of this process live half an hour later. */
static bool change_clock(void)
{
	static const char later[] = "monotonic 1800 0";
	if (unshare(CLONE_NEWTIME))
		return false;
	int fd = open("/proc/self/timens_offsets", O_WRONLY | O_CLOEXEC);
	return fd >= 0 && write(fd, later, sizeof later - 1) == sizeof later - 1 && !close(fd);
}

/* Rank 1 waits for longer than a rank may be silent.  Skipped where the kernel makes no time
 * namespaces. */
TEST(host_liveness__ranks_may_have_other_clocks)
{
	struct slept *job = shared(sizeof *job);
	pid_t child[2];
	int status;
	job->nonce = fan_clock_nonce();
	for (int r = 0; r < 2; r++) {
		child[r] = fork();
		if (child[r])
			continue;
		if (!r && !change_clock())
			_exit(SKIPPED);
		const pid_t inside = r ? 0 : fork();
		if (inside)
			_exit(waitpid(inside, &status, 0) != inside || status);
		run_slept(job, r);
		_exit(0);
	}
	nanosleep(&(struct timespec){.tv_sec = 2 * SLEEP_MS / 1000}, NULL);
	bool skipped = waitpid(child[0], &status, WNOHANG) == child[0] && WIFEXITED(status) &&
		       WEXITSTATUS(status) == SKIPPED;
	if (skipped)
		end(child[1]);
	else
		wait_until(&job->waits, 1);
	atomic_store(&job->slept, 1);
	for (int r = 0; r < 2 && !skipped; r++) {
		waitpid(child[r], NULL, 0);
		assert_int_equal(job->result[r], FAN_OK);
		assert_int_equal(job->sum[r], 3);
	}
	munmap(job, sizeof *job);
	if (skipped)
		skip();
}

/* The other goes on a little later. */
TEST(host_liveness__what_a_suspended_host_slept_is_nobodys_silence)
{
	struct slept *job = shared(sizeof *job);
	pid_t child[2];
	job->nonce = fan_clock_nonce();
	for (int r = 0; r < 2; r++) {
		child[r] = fork();
		if (child[r])
			continue;
		run_slept(job, r);
		_exit(0);
	}
	wait_until(&job->waits, 1);
	nanosleep(&(struct timespec){.tv_sec = SLEEP_MS / 1000}, NULL);
	for (int r = 0; r < 2; r++)
		kill(child[r], SIGSTOP);
	nanosleep(&(struct timespec){.tv_sec = SLEEP_MS / 1000}, NULL);
	kill(child[0], SIGCONT);
	nanosleep(&(struct timespec){.tv_nsec = ALIVE_MS * FAN_MS / 2}, NULL);
	kill(child[1], SIGCONT);
	atomic_store(&job->slept, 1);
	for (int r = 0; r < 2; r++) {
		assert_int_equal(waitpid(child[r], NULL, 0), child[r]);
		assert_int_equal(job->result[r], FAN_OK);
		assert_int_equal(job->sum[r], 3);
	}
	munmap(job, sizeof *job);
}

/* A job of one host, whose rank 1 ends after its last operation; rank 0 starts no other, and asks.
 */
static struct fanin_comm *run_last(uint64_t nonce, int rank)
{
	struct fanin_comm *c = fan_comm_new();
	int32_t mine = rank + 1, sum = 0;
	int e = start_alone(c, nonce, rank, ALIVE_MS);
	if (!e)
		e = fanin_allreduce(c, &mine, &sum, 1, FANIN_INT32, FANIN_SUM);
	assert_true(!e && sum == 3);
	return c;
}

enum how { DIES, LEAVES, LEAVES_BUSY };

static struct fanin_comm *other_ends(enum how how)
{
	const uint64_t nonce = fan_clock_nonce();
	const pid_t child = fork();
	if (!child) {
		struct fanin_comm *c = run_last(nonce, 1);
		fanin_op *op;
		if (how == LEAVES_BUSY)
			assert_false(fanin_barrier_start(c, &op));
		if (how != DIES)
			fan_comm_destroy(c);
		_exit(0);
	}
	struct fanin_comm *c = run_last(nonce, 0);
	assert_int_equal(waitpid(child, NULL, 0), child);
	return c;
}

/* Rank 0 asks until it has heard. */
static void expect_end(struct fanin_comm *c, int error, const char *text)
{
	const uint64_t until_ns = fan_clock_ns() + TEAM_PATIENT_MS * FAN_MS;
	while (!*fanin_comm_error(c) && fan_clock_ns() < until_ns)
		nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
	assert_string_equal(fanin_comm_error(c), text);
	assert_int_equal(fanin_barrier(c), error);
	fan_comm_destroy(c);
}

TEST(host_liveness__who_asks_is_told_who_has_ended)
{
	expect_end(other_ends(DIES), FAN_E_RANK_LOST,
		   "rank 1 has ended: it was killed, or ended by itself");
}

TEST(host_liveness__who_asks_is_told_who_left_in_an_operation)
{
	struct fanin_comm *c = other_ends(LEAVES_BUSY);
	char text[256];
	snprintf(text, sizeof text, "rank 1 left job \"%s\" while other ranks still needed it",
		 c->rank.cfg.job);
	expect_end(c, FAN_E_RANK_LEFT, text);
}

TEST(host_liveness__one_that_has_left_is_no_error)
{
	struct fanin_comm *c = other_ends(LEAVES);
	const uint64_t until_ns = fan_clock_ns() + 4 * ALIVE_MS * FAN_MS;
	while (fan_clock_ns() < until_ns) {
		assert_string_equal(fanin_comm_error(c), "");
		nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
	}
	fan_comm_destroy(c);
}

int main(void)
{
	setenv("FANIN_LOCAL", "1", 1);
	return unit_run();
}
