/* SPDX-License-Identifier: Apache-2.0 */
/* Ranks, as threads, that find the segment of their host. */
#include "unit/unit.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "lib/host/attach.h"
#include "net/clock.h"

#define RANKS	   4
#define PATIENT_MS 20000
#define HURRIED_MS 300	/* who waits for one that does not come... */
#define MET_MS	   2000 /* ...and in which another one has */
#define HANG_S	   120
#define LOOK_NS	   300000000 /* in which a process that gives up has ended */

struct rank {
	struct fan_host_seat host;
	struct fan_host_memory memory;
	char why[256];
	int error;
};

static void *attach(void *arg)
{
	struct rank *r = arg;
	r->error = fan_host_attach(&r->memory, &r->host, r->why, sizeof r->why);
	return NULL;
}

TEST(host_attach__all_map_the_same)
{
	pthread_t thread[RANKS];
	struct rank r[RANKS] = {0};
	uint64_t nonce = fan_clock_nonce();
	for (unsigned i = 0; i < RANKS; i++) {
		r[i].host = (struct fan_host_seat){nonce,      RANKS - 1 - i, RANKS, 2,
						   PATIENT_MS, true,	      NULL,  0};
		assert_int_equal(pthread_create(&thread[i], NULL, attach, &r[i]), 0);
	}
	for (unsigned i = 0; i < RANKS; i++) {
		pthread_join(thread[i], NULL);
		assert_int_equal(r[i].error, 0);
		assert_int_equal(r[i].memory.s->ranks, RANKS);
		assert_int_equal(r[i].memory.s->columns, 2);
	}
	r[0].memory.s->data[5] = 0x5a;
	assert_int_equal(r[RANKS - 1].memory.s->data[5], 0x5a);
	for (unsigned i = 0; i < RANKS; i++)
		fan_host_detach(&r[i].memory);
}

TEST(host_attach__nobody_there)
{
	struct rank r = {.host = {fan_clock_nonce(), 1, 2, 1, 50, false, NULL, 0}};
	attach(&r);
	assert_int_equal(r.error, FAN_E_TIMEOUT);
	assert_null(r.memory.s);
	assert_non_null(strstr(r.why, "share memory"));
	r.host.me = 0; /* the first one waits for the other */
	attach(&r);
	assert_int_equal(r.error, FAN_E_TIMEOUT);
}

/* One of three does not come: neither has the other, who would wait for it.  Both come again. */
TEST(host_attach__together_or_not_at_all)
{
	pthread_t thread[3];
	struct rank r[3] = {0};
	uint64_t nonce = fan_clock_nonce();
	for (unsigned come = 2; come <= 3; come++) {
		for (unsigned i = 0; i < come; i++) {
			int ms = come == 3 || i ? PATIENT_MS : MET_MS;
			r[i].host = (struct fan_host_seat){nonce, i, 3, 1, ms, true, NULL, 0};
			assert_int_equal(pthread_create(&thread[i], NULL, attach, &r[i]), 0);
		}
		for (unsigned i = 0; i < come; i++) {
			pthread_join(thread[i], NULL);
			assert_int_equal(r[i].error, come == 3 ? FAN_OK : FAN_E_TIMEOUT);
			assert_true(come == 3 || strstr(r[i].why, "rank 2 "));
			assert_true((come == 3) == (r[i].memory.s != NULL));
		}
	}
	for (unsigned i = 0; i < 3; i++)
		fan_host_detach(&r[i].memory);
}

/* Of three ranks of a job, 10 to 12 there, the last one never comes: who waits for it and who has
 * the memory name it. */
TEST(host_attach__names_who_does_not_come)
{
	static const uint16_t of_job[] = {10, 11, 12};
	uint64_t nonce = fan_clock_nonce();
	pthread_t thread[2];
	struct rank r[2] = {0};
	for (unsigned i = 0; i < 2; i++) {
		r[i].host = (struct fan_host_seat){nonce, i,	  3, 1, i ? PATIENT_MS : MET_MS,
						   false, of_job, 0};
		assert_int_equal(pthread_create(&thread[i], NULL, attach, &r[i]), 0);
	}
	for (unsigned i = 0; i < 2; i++)
		pthread_join(thread[i], NULL);
	assert_int_equal(r[0].error, FAN_E_TIMEOUT);
	assert_non_null(strstr(r[0].why, "rank 12 "));
	assert_int_equal(fan_ranks_count(r[0].memory.missing), 1);
	assert_true(fan_ranks_has(r[0].memory.missing, 12));
	assert_int_equal(r[1].error, FAN_OK);
	assert_int_equal(r[1].memory.s->error, FAN_E_TIMEOUT);
	assert_string_equal(r[1].memory.s->why, r[0].why);
	assert_true(fan_ranks_has(r[1].memory.s->lost, 12));
	fan_host_detach(&r[1].memory);
}

/* Nobody who waits for the first rank can have heard of any other. */
TEST(host_attach__names_the_first_where_it_does_not_answer)
{
	static const uint16_t of_job[] = {10, 11};
	struct rank r = {.host = {fan_clock_nonce(), 1, 2, 1, HURRIED_MS, false, of_job, 0}};
	attach(&r);
	assert_int_equal(r.error, FAN_E_TIMEOUT);
	assert_non_null(strstr(r.why, "rank 10 "));
	assert_int_equal(fan_ranks_count(r.memory.missing), 1);
	assert_true(fan_ranks_has(r.memory.missing, 10));
}

/* Of another size than this rank expects: another number of ranks. */
TEST(host_attach__not_what_it_must_be)
{
	pthread_t thread;
	uint64_t nonce = fan_clock_nonce();
	struct rank first = {.host = {nonce, 0, 2, 1, PATIENT_MS, false, NULL, 0}};
	struct rank other = {.host = {nonce, 1, 3, 1, PATIENT_MS, false, NULL, 0}};
	assert_int_equal(pthread_create(&thread, NULL, attach, &first), 0);
	attach(&other);
	pthread_join(thread, NULL);
	assert_int_equal(other.error, FAN_E_FORMAT);
	assert_null(other.memory.s);
	fan_host_detach(&first.memory);
}

/* The first rank, as far as it listens. */
static int listen_as_first(uint64_t nonce)
{
	struct sockaddr_un at = {.sun_family = AF_UNIX};
	int bytes = snprintf(at.sun_path + 1, sizeof at.sun_path - 1, "fanin-%016llx",
			     (unsigned long long)nonce);
	int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
	assert_false(bind(fd, (struct sockaddr *)&at,
			  (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + bytes)));
	assert_false(listen(fd, 1));
	return fd;
}

/* The others have the segment then, and would wait for this rank. */
TEST(host_attach__waits_on_where_it_was_stopped)
{
	struct rank r = {.host = {fan_clock_nonce(), 1, 2, 1, PATIENT_MS, false, NULL, 0}};
	int status, listener = listen_as_first(r.host.nonce);
	pid_t child = fork();
	if (!child) {
		attach(&r);
		_exit(0);
	}
	int to = accept(listener, NULL, NULL);
	for (int i = 0; i < 3; i++) {
		nanosleep(&(struct timespec){.tv_nsec = LOOK_NS}, NULL);
		assert_int_equal(waitpid(child, &status, WNOHANG), 0);
		kill(child, SIGSTOP);
		assert_int_equal(waitpid(child, &status, WUNTRACED), child);
		kill(child, SIGCONT);
	}
	kill(child, SIGKILL);
	waitpid(child, &status, 0);
	close(to);
	close(listener);
}

/* The first rank has no descriptor left with which to let the other one in. */
TEST(host_attach__gives_up_without_descriptors)
{
	const uint64_t nonce = fan_clock_nonce();
	struct rank r = {.host = {nonce, 0, 2, 1, HURRIED_MS, false, NULL, 0}}, other = {0};
	int status, next = dup(0);
	close(next);
	pid_t child = fork();
	if (!child) {
		const struct rlimit two = {(rlim_t)next + 2, (rlim_t)next + 2};
		alarm(HANG_S);
		setrlimit(RLIMIT_NOFILE, &two);
		attach(&r);
		_exit(r.error != FAN_E_SYSTEM || !strstr(r.why, strerror(EMFILE)));
	}
	other.host = (struct fan_host_seat){nonce, 1, 2, 1, PATIENT_MS, false, NULL, 0};
	attach(&other);
	assert_int_equal(waitpid(child, &status, 0), child);
	assert_int_equal(status, 0);
	assert_int_equal(other.error, FAN_E_SYSTEM);
	assert_null(other.memory.s);
}

/* Beyond the limit of a file's size a signal would end the process. */
TEST(host_attach__heeds_the_limit_of_files)
{
	struct rank r = {.host = {fan_clock_nonce(), 0, 2, 1, PATIENT_MS, false, NULL, 0}};
	struct rlimit before, little;
	assert_false(getrlimit(RLIMIT_FSIZE, &before));
	little = (struct rlimit){fan_host_bytes(2) - 1, before.rlim_max};
	assert_true(fan_host_can_attach(2, r.why, sizeof r.why));
	assert_false(setrlimit(RLIMIT_FSIZE, &little));
	assert_true(fan_host_can_attach(1, r.why, sizeof r.why));
	assert_string_equal(r.why, "");
	assert_false(fan_host_can_attach(2, r.why, sizeof r.why));
	assert_non_null(strstr(r.why, strerror(EFBIG)));
	attach(&r);
	assert_false(setrlimit(RLIMIT_FSIZE, &before));
	assert_int_equal(r.error, FAN_E_SYSTEM);
	assert_non_null(strstr(r.why, strerror(EFBIG)));
}

/* Whoever knows the name has filled the queue of the first rank, which is stopped. */
TEST(host_attach__gives_up_where_others_queue)
{
	struct rank r = {.host = {fan_clock_nonce(), 1, 2, 1, HURRIED_MS, false, NULL, 0}};
	struct sockaddr_un at;
	socklen_t bytes = sizeof at;
	int listener = listen_as_first(r.host.nonce), queued[8], e = 0;
	assert_false(getsockname(listener, (struct sockaddr *)&at, &bytes));
	for (unsigned i = 0; i < 8; i++) {
		queued[i] = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
		e = connect(queued[i], (struct sockaddr *)&at, bytes) ? errno : 0;
	}
	assert_int_equal(e, EAGAIN);
	alarm(HANG_S);
	attach(&r);
	alarm(0);
	assert_int_equal(r.error, FAN_E_TIMEOUT);
	for (unsigned i = 0; i < 8; i++)
		close(queued[i]);
	close(listener);
}

UNIT_MAIN
