/* SPDX-License-Identifier: Apache-2.0 */
/* Ranks as threads that find the switch of rank 0 by a launcher's variables alone. */
#include "unit/lib/team.h"

#include <arpa/inet.h>
#include <dirent.h>
#include <signal.h>
#include <sys/wait.h>

#include "lib/comm/comm.h"
#include "lib/comm/embedded_switch.h"
#include "net/echo.h"
#include "net/udp.h"

#define RANKS	     3
#define ELEMS	     5000
#define ALIVE_MS     1000
#define TIMEOUT_MS   8000
#define RETURN_TRIES 10

static char port_text[8];

static int set_up(void **state __attribute__((unused)))
{
	snprintf(port_text, sizeof port_text, "%u", team_port());
	unsetenv("FANIN_SWITCH");
	unsetenv("FANIN_CONFIG");
	setenv("FANIN_LOCAL", "0", 1);
	setenv("MASTER_ADDR", "127.0.0.1", 1);
	setenv("MASTER_PORT", port_text, 1);
	return 0;
}

struct rank {
	pthread_t thread;
	const char *job;
	int rank, ranks;
	int error;
	bool right;	  /* the sum was */
	unsigned last_ms; /* to stay after the operation */
	fanin_comm *comm; /* left open where `keep` is set */
	bool keep;
	char text[256];
};

static int open_rank(struct rank *r)
{
	struct fanin_options o = FANIN_OPTIONS_INIT;
	o.job = r->job;
	o.rank = r->rank;
	o.ranks = r->ranks;
	o.alive_ms = ALIVE_MS;
	o.timeout_ms = TIMEOUT_MS;
	int e = fanin_comm_create(&o, &r->comm);
	snprintf(r->text, sizeof r->text, "%s", e ? fanin_comm_error(r->comm) : "");
	return e;
}

static void *take_part(void *arg)
{
	struct rank *r = arg;
	static const float one = 1;
	float *values = malloc(ELEMS * sizeof *values);
	r->error = values ? open_rank(r) : FANIN_E_NOMEM;
	for (int i = 0; !r->error && i < ELEMS; i++)
		values[i] = one;
	if (!r->error)
		r->error =
			fanin_allreduce(r->comm, values, values, ELEMS, FANIN_FLOAT32, FANIN_SUM);
	r->right = !r->error;
	for (int i = 0; r->right && i < ELEMS; i++)
		r->right = (int)values[i] == r->ranks;
	free(values);
	usleep(r->last_ms * 1000);
	if (!r->keep) {
		fanin_comm_destroy(r->comm);
		r->comm = NULL;
	}
	return NULL;
}

static void run(struct rank *r, int ranks, const char *job)
{
	for (int i = 0; i < ranks; i++) {
		r[i].job = job;
		r[i].rank = i;
		r[i].ranks = ranks;
		assert_int_equal(pthread_create(&r[i].thread, NULL, take_part, &r[i]), 0);
	}
	for (int i = 0; i < ranks; i++)
		pthread_join(r[i].thread, NULL);
	for (int i = 0; i < ranks; i++) {
		if (r[i].error)
			fprintf(stderr, "rank %d: %s\n", i, r[i].text);
		assert_int_equal(r[i].error, FANIN_OK);
		assert_true(r[i].right);
	}
}

/* Whether somebody has the port. */
static bool taken(void)
{
	struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	at.sin_port = htons((uint16_t)atoi(port_text));
	int e = bind(fd, (struct sockaddr *)&at, sizeof at);
	close(fd);
	return e != 0;
}

TEST_WITH(embedded_switch__ranks_meet, set_up, NULL)
{
	struct rank r[RANKS] = {0};
	run(r, RANKS, "meet");
	assert_false(taken());
}

TEST_WITH(embedded_switch__says_where_it_is, set_up, NULL)
{
	char expected[64];
	struct rank r[2] = {{.keep = true}, {.keep = true}};
	snprintf(expected, sizeof expected, "127.0.0.1:%s (inside rank 0)", port_text);
	run(r, 2, "where");
	assert_string_equal(fanin_comm_switch(r[0].comm), expected);
	assert_string_equal(fanin_comm_switch(r[1].comm), expected);
	fanin_comm_destroy(r[1].comm);
	fanin_comm_destroy(r[0].comm);
}

TEST_WITH(embedded_switch__waits_for_slower_ranks, set_up, NULL)
{
	/* Rank 0 is done at once; the others stay, and leave in order. */
	struct rank r[RANKS] = {{.last_ms = 0}, {.last_ms = 300}, {.last_ms = 400}};
	run(r, RANKS, "slow");
}

TEST_WITH(embedded_switch__two_jobs_share_it, set_up, NULL)
{
	struct rank one[2] = {{.keep = true}, {.keep = true}}, two[2] = {0};
	run(one, 2, "one");
	run(two, 2, "two"); /* its end does not take the first job's switch away */
	assert_true(taken());
	fanin_op *op;
	assert_int_equal(fanin_barrier_start(one[0].comm, &op), FANIN_OK);
	assert_int_equal(fanin_barrier(one[1].comm), FANIN_OK);
	fanin_op_free(op);
	fanin_comm_destroy(one[1].comm);
	fanin_comm_destroy(one[0].comm);
	assert_false(taken());
}

TEST_WITH(embedded_switch__end_of_rank_0_is_named, set_up, NULL)
{
	struct rank r[2] = {{.keep = true}, {.keep = true}};
	int ends[2];
	assert_int_equal(pipe(ends), 0);
	pid_t pid = fork();
	if (!pid) { /* rank 0, which is killed when it has joined */
		struct rank zero = {.job = "kill", .rank = 0, .ranks = 2};
		char byte = (char)open_rank(&zero);
		(void)!write(ends[1], &byte, 1);
		pause();
	}
	r[1].job = "kill";
	r[1].rank = 1;
	r[1].ranks = 2;
	assert_int_equal(open_rank(&r[1]), FANIN_OK);
	char byte = 1;
	assert_int_equal(read(ends[0], &byte, 1), 1);
	assert_int_equal(byte, FANIN_OK);
	kill(pid, SIGKILL);
	waitpid(pid, NULL, 0);
	assert_int_equal(fanin_barrier(r[1].comm), FANIN_E_UNREACHABLE);
	assert_non_null(strstr(fanin_comm_error(r[1].comm), "inside rank 0"));
	fanin_comm_destroy(r[1].comm);
	close(ends[0]);
	close(ends[1]);
}

static int ended; /* written to, and closed once main has returned */

static void tell_end(void)
{
	close(ended);
}

/* Rank 0, which returns from its program with the communicator open as soon as it has been told. */
static void __attribute__((noreturn)) rank_that_returns(int told)
{
	struct rank zero = {.job = "return", .rank = 0, .ranks = 2};
	char byte = (char)open_rank(&zero);
	atexit(tell_end);
	(void)!write(ended, &byte, 1);
	(void)!read(told, &byte, 1);
	exit(0);
}

/* Whether rank 0's switch answers a while after its program has returned.  One that pauses for
 * longer than the quiet time is not to blame. */
static bool answers_afterwards(void)
{
	struct rank one = {.job = "return", .rank = 1, .ranks = 2};
	const struct timespec pause = {.tv_nsec = 100000000};
	int ends[2], tell[2], status;
	char byte = 1, why[256];
	bool answers;
	fan_peer to;
	char text[64];
	snprintf(text, sizeof text, "127.0.0.1:%s", port_text);
	assert_int_equal(fan_peer_parse(&to, text, why, sizeof why), 0);
	assert_int_equal(pipe(ends), 0);
	assert_int_equal(pipe(tell), 0);
	fflush(NULL);
	ended = ends[1];
	pid_t pid = fork();
	if (!pid)
		rank_that_returns(tell[0]);
	close(ends[1]);
	assert_int_equal(open_rank(&one), FANIN_OK);
	assert_int_equal(read(ends[0], &byte, 1), 1);
	assert_int_equal(byte, FANIN_OK);
	fan_echo_all(&to, 1, &answers);
	assert_true(answers);
	assert_int_equal(write(tell[1], &byte, 1), 1);
	assert_int_equal(read(ends[0], &byte, 1), 0);
	nanosleep(&pause, NULL);
	fan_echo_all(&to, 1, &answers);
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_true(WIFEXITED(status));
	fanin_comm_destroy(one.comm);
	close(ends[0]);
	close(tell[0]);
	close(tell[1]);
	return answers;
}

TEST_WITH(embedded_switch__answers_as_its_program_ends, set_up, NULL)
{
	unsigned tries = 0;
	while (!answers_afterwards())
		assert_true(++tries < RETURN_TRIES);
}

TEST_WITH(embedded_switch__port_of_another_program, set_up, NULL)
{
	struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	at.sin_port = htons((uint16_t)atoi(port_text));
	assert_int_equal(bind(fd, (struct sockaddr *)&at, sizeof at), 0);
	struct fanin_options o = FANIN_OPTIONS_INIT;
	fanin_comm *c;
	o.rank = 0;
	o.ranks = 2;
	o.timeout_ms = 300;
	assert_int_equal(fanin_comm_create(&o, &c), FANIN_E_SYSTEM);
	assert_non_null(strstr(fanin_comm_error(c), "in use"));
	assert_non_null(strstr(fanin_comm_error(c), "FANIN_SWITCH"));
	fanin_comm_destroy(c);
	close(fd);
}

TEST_WITH(embedded_switch__port_that_gets_free, set_up, NULL)
{
	struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	at.sin_port = htons((uint16_t)atoi(port_text));
	assert_int_equal(bind(fd, (struct sockaddr *)&at, sizeof at), 0);
	struct rank r[2] = {0};
	for (int i = 0; i < 2; i++) {
		r[i].job = "again";
		r[i].rank = i;
		r[i].ranks = 2;
		assert_int_equal(pthread_create(&r[i].thread, NULL, take_part, &r[i]), 0);
	}
	usleep(300000);
	close(fd);
	for (int i = 0; i < 2; i++)
		pthread_join(r[i].thread, NULL);
	assert_true(r[0].right && r[1].right);
}

TEST_WITH(embedded_switch__nowhere_to_meet, set_up, NULL)
{
	struct fanin_options o = FANIN_OPTIONS_INIT;
	fanin_comm *c;
	unsetenv("MASTER_ADDR");
	o.rank = 1;
	o.ranks = 2;
	assert_int_equal(fanin_comm_create(&o, &c), FANIN_E_CONFIG);
	assert_non_null(strstr(fanin_comm_error(c), "no switch"));
	fanin_comm_destroy(c);
}

/* This process's threads of switches. */
static unsigned switch_threads(void)
{
	char path[300], name[32];
	unsigned count = 0;
	DIR *d = opendir("/proc/self/task");
	for (struct dirent *e; d && (e = readdir(d));) {
		snprintf(path, sizeof path, "/proc/self/task/%s/comm", e->d_name);
		FILE *f = fopen(path, "r");
		if (f && fgets(name, sizeof name, f))
			count += !strcmp(name, "fanin-switch\n");
		if (f)
			fclose(f);
	}
	closedir(d);
	return count;
}

/* Training has the other cores. */
TEST_WITH(embedded_switch__is_one_thread, set_up, NULL)
{
	struct fanin_options o = FANIN_OPTIONS_INIT;
	struct fan_rendezvous at = {.one_host = true};
	struct fan_embedded_switch *sw;
	struct fan_config cfg;
	char why[FAN_CONFIG_WHY_BYTES];
	o.rank = 0;
	o.ranks = 2;
	assert_int_equal(fan_config_load(&cfg, &o, why, sizeof why), 0);
	snprintf(at.addr, sizeof at.addr, "127.0.0.1:%s", port_text);
	assert_int_equal(fan_embedded_switch_get(&sw, &at, &cfg, why, sizeof why), 0);
	assert_int_equal(switch_threads(), FAN_EMBEDDED_THREADS);
	fan_embedded_switch_put(sw, 0);
	assert_int_equal(switch_threads(), 0);
}

/* Whether what it sends goes there past the kernel. */
static bool has_ring_pair(const struct rank *r)
{
	const struct fan_rank *net = fan_comm_net(r->comm);
	return net->connections == 1 && net->connection[0].udp.pair[0];
}

TEST_WITH(embedded_switch__only_rank_0_reaches_it_past_the_kernel, set_up, NULL)
{
	struct rank r[RANKS] = {{.keep = true}, {.keep = true}, {.keep = true}};
	run(r, RANKS, "ring pair");
	for (int i = 0; i < RANKS; i++)
		assert_int_equal(has_ring_pair(&r[i]), i == 0);
	for (int i = RANKS; i-- > 0;)
		fanin_comm_destroy(r[i].comm);
	assert_false(taken());
}

UNIT_MAIN
