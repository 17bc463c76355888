/* SPDX-License-Identifier: Apache-2.0 */
/* How communicators end: with an error and a sentence, on every rank, in time. */
#include "unit/lib/team.h"

#include <poll.h>
#include <sys/epoll.h>
#include <sys/wait.h>
#include <unistd.h>

#include "lib/link/connection.h"

#define ALIVE_MS 3000 /* a rank that lives beats every 375 ms, even when it is starved */
#define STALL_MS 2000

/* The communicator has ended with `error` and its sentence has `words` in it. */
#define EXPECT_END(comm, error, words)                                                             \
	do {                                                                                       \
		int32_t nothing = 0;                                                               \
		int end_ = fanin_allreduce(comm, &nothing, &nothing, 1, FANIN_INT32, FANIN_SUM);   \
		EXPECT(end_ == (error));                                                           \
		if (!strstr(fanin_comm_error(comm), words)) {                                      \
			fprintf(stderr, "\"%s\" has no \"%s\"\n", fanin_comm_error(comm), words);  \
			EXPECT(!*"words");                                                         \
		}                                                                                  \
	} while (0)

/* ---- joining ---- */

static int create(const char *address, const char *job, int rank, int ranks, int timeout_ms,
		  fanin_comm **comm)
{
	struct fanin_options o = FANIN_OPTIONS_INIT;
	o.switch_addr = address;
	o.job = job;
	o.rank = rank;
	o.ranks = ranks;
	o.timeout_ms = timeout_ms;
	return fanin_comm_create(&o, comm);
}

static void assert_read(fanin_comm *c, const char *words)
{
	if (!strstr(fanin_comm_error(c), words))
		fail_msg("\"%s\" has no \"%s\"", fanin_comm_error(c), words);
	fanin_comm_destroy(c);
}

TEST(fail__no_switch)
{
	fanin_comm *c;
	struct fan_udp silent;
	struct fan_udp_options o = {.bind = {{0}, 0, 0}};
	char why[80], address[80];
	assert_int_equal(create("127.0.0.1:9", "j", 0, 2, 300, &c), FANIN_E_UNREACHABLE);
	assert_read(c, "the switch 127.0.0.1:9 does not answer (port unreachable, ");

	assert_int_equal(fan_peer_parse(&o.bind, "127.0.0.1:0", why, sizeof why), 0);
	assert_int_equal(fan_udp_open(&silent, &o), 0);
	fan_peer at = fan_udp_local(&silent);
	fan_peer_text(&at, address, sizeof address);
	assert_int_equal(create(address, "j", 0, 2, 300, &c), FANIN_E_UNREACHABLE);
	assert_read(c, "is the UDP port open?");
	fan_udp_close(&silent);
}

TEST(fail__wrong_configuration)
{
	fanin_comm *c;
	assert_int_equal(create("10.0.0.1", "j", 0, 2, 300, &c), FANIN_E_CONFIG);
	assert_read(c, "switch: ");
	assert_int_equal(create("10.0.0.1:1", "j", 2, 2, 300, &c), FANIN_E_CONFIG);
	assert_read(c, "rank 2 of 2 ranks");
	assert_int_equal(create("10.0.0.1:1", "j", 0, 1, 300, &c), FANIN_E_INVALID);
	assert_read(c, "options.ranks");
	assert_int_equal(fanin_comm_create(NULL, &c), FANIN_E_INVALID);
	assert_null(c);
	assert_string_equal(fanin_comm_error(c), "no communicator");
	fanin_comm_destroy(c);
}

TEST(fail__ranks_that_do_not_come)
{
	char address[80];
	fanin_comm *c;
	struct fan_daemon *sw = team_switch(address, sizeof address, 1);
	assert_int_equal(create(address, "train", 1, 4, 400, &c), FANIN_E_TIMEOUT);
	assert_read(c, "ranks 0, 2, 3 of 4 have not joined job \"train\" within 0.4 s");
	fan_daemon_stop(sw);
}

/* A job whose launch has an id goes on, whoever else wants its ranks. */
static void intrude(struct member *m)
{
	fanin_comm *c;
	if (m->rank == 0) {
		EXPECT(create(m->team->address, "default", 1, 2, 5000, &c) == FANIN_E_RANK_TAKEN);
		EXPECT(strstr(fanin_comm_error(c), "rank 1 of job \"default\" is already taken"));
		fanin_comm_destroy(c);
		EXPECT(create(m->team->address, "default", 2, 3, 5000, &c) == FANIN_E_JOB_MISMATCH);
		EXPECT(strstr(fanin_comm_error(c), "it has 2 ranks, rank 2 was started with 3"));
		fanin_comm_destroy(c);
	}
	EXPECT(!fanin_barrier(m->comm)); /* the job goes on */
}

TEST(fail__rank_taken)
{
	setenv("FANIN_ALIVE_MS", "300", 1); /* for so long an earlier life may have it */
	setenv("FANIN_RUN", "7", 1);
	team_run_once(2, intrude);
	unsetenv("FANIN_RUN");
	unsetenv("FANIN_ALIVE_MS");
}

/* The child of mix() begins threads. */
const char *__tsan_default_options(void);
const char *__tsan_default_options(void)
{
	return "die_after_fork=0";
}

/* Without one nobody can tell whose ranks the job has. */
static void mix(struct member *m)
{
	fanin_comm *c;
	int e = FAN_OK, status = 0;
	const pid_t child = m->rank == 0 ? fork() : -1;
	if (!child) { /* another process, which does not know that it is the rank itself */
		e = create(m->team->address, "default", 1, 2, 5000, &c);
		_exit(e != FANIN_E_LAUNCHES ||
		      !strstr(fanin_comm_error(c),
			      "rank 1 was started at 127.0.0.1 and at 127.0.0.1"));
	}
	EXPECT(child < 0 || (waitpid(child, &status, 0) == child && !status));
	for (int i = 0; i < 2000 && !e; i++) {
		poll(NULL, 0, 5);
		e = fanin_barrier(m->comm);
	}
	EXPECT(e == FANIN_E_LAUNCHES);
	EXPECT_END(m->comm, FANIN_E_LAUNCHES, "two launches use the name \"default\"");
}

TEST(fail__two_launches)
{
	team_run_once(2, mix);
}

/* ---- ranks that stop ---- */

/* A rank that joins and, once the job is ready, is never heard of again. */
static void be_mortal(const char *address, int rank, int ranks)
{
	struct fan_connection l = {.number = 0, .epoll_fd = epoll_create1(0)};
	struct fan_connection_io *io = fan_connection_io_new(FAN_PAYLOAD_1500, false);
	struct fan_worker_config cfg = {
		.name = "default",
		.rank = (uint16_t)rank,
		.ranks = (uint16_t)ranks,
		.payload_bytes = FAN_PAYLOAD_1500,
		.window_max = FAN_WINDOW_MAX,
		.options = FAN_JOIN_WIDE,
		.alive_ms = ALIVE_MS,
		.join_ms = 60000,
		.stall_ms = 60000,
		.nonce = fan_clock_nonce(),
	};
	char why[FAN_CONNECTION_WHY_BYTES];
	fan_peer at;
	EXPECT(!fan_peer_parse(&at, address, why, sizeof why));
	EXPECT(!fan_connection_open(&l, &cfg, &at, NULL, fan_clock_ns(), why));
	while (fan_worker_phase(l.w) < FAN_W_READY) {
		struct pollfd p = {.fd = l.udp.fd, .events = POLLIN};
		fan_connection_send(&l, io, fan_clock_ns());
		poll(&p, 1, 10);
		fan_connection_recv(&l, io, false);
	}
	EXPECT(fan_worker_phase(l.w) == FAN_W_READY);
	fan_connection_close(&l);
	fan_connection_io_free(io);
	close(l.epoll_fd);
}

struct mortal {
	const char *address;
	int rank, ranks;
};

static void *mortal_thread(void *arg)
{
	const struct mortal *d = arg;
	be_mortal(d->address, d->rank, d->ranks);
	return NULL;
}

static void bereaved(struct member *m)
{
	float x[1000] = {0};
	EXPECT(fanin_allreduce(m->comm, x, x, 1000, FANIN_FLOAT32, FANIN_SUM) == FANIN_E_RANK_LOST);
	EXPECT_END(m->comm, FANIN_E_RANK_LOST, "rank 3 stopped answering (silent for more");
}

static void three_of_four(struct fanin_options *o, int rank)
{
	(void)rank;
	o->ranks = 4;
	o->alive_ms = ALIVE_MS;
}

TEST(fail__dead_rank_is_named)
{
	struct team t = team_new(3, bereaved);
	struct mortal d = {t.address, 3, 4};
	pthread_t thread;
	t.adjust = three_of_four;
	setenv("FANIN_HOSTS", "0", 1); /* the fourth knows of no hosts */
	assert_int_equal(pthread_create(&thread, NULL, mortal_thread, &d), 0);
	team_run(&t);
	pthread_join(thread, NULL);
	unsetenv("FANIN_HOSTS");
	team_free(&t);
}

static void rejoined(struct member *m)
{
	EXPECT(!fanin_barrier(m->comm));
}

/* All ranks are killed and begin anew before the switch misses the first. */
TEST(fail__killed_ranks_begin_anew_at_once)
{
	struct team t = team_new(2, rejoined);
	struct mortal d[] = {{t.address, 0, 2}, {t.address, 1, 2}};
	pthread_t thread[2];
	t.options.alive_ms = ALIVE_MS;
	for (int r = 0; r < 2; r++)
		assert_int_equal(pthread_create(&thread[r], NULL, mortal_thread, &d[r]), 0);
	for (int r = 0; r < 2; r++)
		pthread_join(thread[r], NULL);
	team_run_last(&t);
}

/* Rank 1 is alive but does not call; the other job on the switch goes on. */
static void stall(struct member *m)
{
	atomic_int *ended = m->team->ctx;
	float x[1000] = {0};
	if (m->rank != 1) {
		EXPECT(fanin_allreduce(m->comm, x, x, 1000, FANIN_FLOAT32, FANIN_SUM) ==
		       FANIN_E_STALLED);
		atomic_fetch_add(ended, 1);
	}
	while (atomic_load(ended) < 2)
		usleep(1000);
	while (m->rank == 1 && !*fanin_comm_error(m->comm))
		usleep(1000); /* it is told without asking */
	EXPECT_END(m->comm, FANIN_E_STALLED, "rank 1 did not take part");
}

static void busy(struct member *m)
{
	atomic_int *ended = m->team->ctx;
	int64_t go_on = 1;
	while (go_on) {
		go_on = atomic_load(ended) < 2;
		EXPECT(!fanin_allreduce(m->comm, &go_on, &go_on, 1, FANIN_INT64, FANIN_MAX));
	}
}

static void *busy_team(void *team)
{
	struct team *t = team;
	pthread_t thread[2];
	struct member m[2];
	for (int r = 0; r < 2; r++) {
		m[r] = (struct member){.team = t, .rank = r};
		pthread_create(&thread[r], NULL, team_member, &m[r]);
	}
	for (int r = 0; r < 2; r++)
		pthread_join(thread[r], NULL);
	return NULL;
}

TEST(fail__stalled_rank_is_named_and_other_jobs_go_on)
{
	atomic_int ended = 0;
	struct team t = team_new(3, stall);
	t.ctx = &ended;
	struct team other = t;
	pthread_t thread;
	t.options.timeout_ms = STALL_MS;
	t.options.alive_ms = 2 * STALL_MS; /* some beats before it counts as stalled */
	other.body = busy;
	other.ranks = 2;
	other.options.job = "busy";
	assert_int_equal(pthread_create(&thread, NULL, busy_team, &other), 0);
	team_run(&t);
	pthread_join(thread, NULL);
	team_check();
	team_free(&t);
}

/* Rank 0 goes while rank 1 needs it. */
static void go_early(struct member *m)
{
	float x[1000] = {0};
	if (m->rank == 0)
		return;
	EXPECT(fanin_allreduce(m->comm, x, x, 1000, FANIN_FLOAT32, FANIN_SUM) == FANIN_E_RANK_LEFT);
	EXPECT_END(m->comm, FANIN_E_RANK_LEFT, "rank 0 left job \"default\"");
}

TEST(fail__rank_that_leaves_is_named)
{
	team_run_once(2, go_early);
}

/* Handles outlive the communicator.  Rank 0 goes once rank 1 has the barrier's result: what it
 * starts afterwards needs rank 1, so its end is the job's, and may be heard before that result if
 * that has to be sent again. */
static void drop_pending(struct member *m)
{
	atomic_int *passed = m->team->ctx;
	fanin_op *op[100];
	float x[100] = {0};
	EXPECT(!fanin_barrier(m->comm)); /* or rank 0 is gone before the other has joined */
	atomic_fetch_add(passed, 1);
	while (atomic_load(passed) < 2 && !*fanin_comm_error(m->comm))
		usleep(1000);
	if (m->rank == 0) {
		for (int i = 0; i < 100; i++)
			EXPECT(!fanin_allreduce_start(m->comm, x, x, 100, FANIN_FLOAT32, FANIN_SUM,
						      &op[i]));
		fanin_comm_destroy(m->comm);
		m->comm = NULL;
		for (int i = 0; i < 100; i++) {
			EXPECT(fanin_op_wait(op[i], -1) == FANIN_E_CLOSED);
			fanin_op_free(op[i]);
		}
	} else {
		while (!*fanin_comm_error(m->comm))
			usleep(1000);
		EXPECT_END(m->comm, FANIN_E_RANK_LEFT, "rank 0 left");
	}
}

TEST(fail__pending_operations_end_with_destroy)
{
	struct team t = team_new(2, drop_pending);
	atomic_int passed = 0;
	t.ctx = &passed;
	team_run_last(&t);
}

static void lose_switch(struct member *m)
{
	atomic_int *ready = m->team->ctx;
	EXPECT(!fanin_barrier(m->comm));
	atomic_fetch_add(ready, 1);
	while (!*fanin_comm_error(m->comm))
		usleep(1000);
	EXPECT_END(m->comm, FANIN_E_UNREACHABLE, "stopped answering");
}

static void *stop_switch(void *team)
{
	struct team *t = team;
	atomic_int *ready = t->ctx;
	while (atomic_load(ready) < 2)
		usleep(1000);
	fan_daemon_stop(t->sw);
	return NULL;
}

TEST(fail__switch_that_stops)
{
	atomic_int ready = 0;
	struct team t = team_new(2, lose_switch);
	pthread_t thread;
	t.ctx = &ready;
	t.options.alive_ms = 500;
	assert_int_equal(pthread_create(&thread, NULL, stop_switch, &t), 0);
	team_run(&t);
	pthread_join(thread, NULL);
}

/* ---- calls ---- */

static void wrong_calls(struct member *m)
{
	float x[4] = {0};
	fanin_op *op = (fanin_op *)x;
	fanin_comm *c = m->comm;
	EXPECT(fanin_allreduce(NULL, x, x, 4, FANIN_FLOAT32, FANIN_SUM) == FANIN_E_INVALID);
	EXPECT(fanin_allreduce(c, NULL, x, 4, FANIN_FLOAT32, FANIN_SUM) == FANIN_E_INVALID);
	EXPECT(fanin_allreduce(c, x, NULL, 4, FANIN_FLOAT32, FANIN_SUM) == FANIN_E_INVALID);
	for (int d = -2; d < 12; d++)
		for (int o = -2; o < 8; o++)
			if (d < 0 || (d > FANIN_INT64 && d != FANIN_FLOAT64) || o < 0 ||
			    o > FANIN_MAX)
				EXPECT(fanin_allreduce(c, x, x, 1, d, o) == FANIN_E_INVALID);
	EXPECT(fanin_allreduce(c, x, x, SIZE_MAX / 4, FANIN_FLOAT32, FANIN_SUM) == FANIN_E_INVALID);
	EXPECT(fanin_broadcast(c, x, 4, FANIN_FLOAT32, -1) == FANIN_E_INVALID);
	EXPECT(fanin_broadcast(c, x, 4, FANIN_FLOAT32, 2) == FANIN_E_INVALID);
	EXPECT(fanin_broadcast(c, NULL, 4, FANIN_UINT8, 0) == FANIN_E_INVALID);
	EXPECT(fanin_reduce(c, x, NULL, 4, FANIN_FLOAT32, FANIN_SUM, m->rank) == FANIN_E_INVALID);
	EXPECT(fanin_barrier_start(c, NULL) == FANIN_E_INVALID);
	EXPECT(fanin_allreduce_start(c, x, x, 4, 99, FANIN_SUM, &op) == FANIN_E_INVALID);
	EXPECT(op == NULL);
	EXPECT(fanin_op_wait(NULL, 0) == FANIN_E_INVALID && fanin_op_test(NULL) == FANIN_E_INVALID);
	fanin_op_free(NULL);
	EXPECT(!fanin_barrier(c)); /* no harm done */
}

TEST(fail__wrong_arguments)
{
	team_run_once(2, wrong_calls);
}

/* Rank 0 may start as many as the bound says, then one more when one has ended. */
static void overfill(struct member *m)
{
	enum { OPS = 4096 };
	atomic_int *full = m->team->ctx;
	static fanin_op *op[OPS];
	fanin_op *more;
	if (m->rank == 0) {
		for (int i = 0; i < OPS; i++)
			EXPECT(!fanin_barrier_start(m->comm, &op[i]));
		EXPECT(fanin_barrier_start(m->comm, &more) == FANIN_E_BUSY && !more);
		atomic_store(full, 1);
		EXPECT(!fanin_barrier(m->comm)); /* waits for room */
		for (int i = 0; i < OPS; i++) {
			EXPECT(fanin_op_test(op[i]) == FANIN_OK);
			fanin_op_free(op[i]);
		}
		return;
	}
	while (!atomic_load(full))
		usleep(1000);
	for (int i = 0; i < OPS + 1; i++)
		EXPECT(!fanin_barrier(m->comm));
}

TEST(fail__too_many_operations)
{
	atomic_int full = 0;
	struct team t = team_new(2, overfill);
	t.ctx = &full;
	team_run_last(&t);
}

/* In a child that was forked the communicator is closed, in the parent it lives. */
static void fork_child(struct member *m)
{
	int status;
	pid_t pid = m->rank == 0 ? fork() : -1;
	if (pid == 0) {
		int e = fanin_barrier(m->comm);
		fanin_comm_destroy(m->comm);
		_exit(e == FANIN_E_CLOSED ? 0 : 1);
	}
	if (m->rank == 0)
		EXPECT(waitpid(pid, &status, 0) == pid && WIFEXITED(status) &&
		       WEXITSTATUS(status) == 0);
	EXPECT(!fanin_barrier(m->comm));
}

TEST(fail__forked_child_does_no_harm)
{
	team_run_once(2, fork_child);
}

TEST(texts__errors)
{
	for (int e = FANIN_E_STOPPED; e <= FANIN_OK; e++) {
		assert_true(strlen(fanin_strerror(e)) > 0);
		assert_string_not_equal(fanin_strerror(e), "unknown error");
	}
	assert_string_equal(fanin_strerror(1), "unknown error");
	assert_string_equal(fanin_strerror(-128), "unknown error");
	assert_string_equal(fanin_strerror(FANIN_E_CLOSED), "the communicator is closed");
}

UNIT_MAIN
