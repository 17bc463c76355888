/* SPDX-License-Identifier: Apache-2.0 */
/* Communicators whose ranks share memory, as threads: callers that do the work themselves beside
 * others, and the thread that does it for those who do not wait. */
#include <unistd.h>

#include "unit/lib/team.h"

#include "lib/comm/comm.h"
#include "lib/host/attach.h"
#include "lib/host/host_comm.h"
#include "lib/host/watch.h"

#define RANKS	  4
#define CALLERS	  3
#define COUNT	  20000
#define ROUNDS	  60
#define STARTED	  8
#define JOIN_MS	  6000 /* half of it to come for the memory */
#define ENDS	  100
#define END_MS	  50000 /* a wake-up that is missed costs 60 s */
#define MISSED_MS 6000	/* half of it until it is told, half in which others hear */
#define ALIVE_MS  200	/* of silence */
#define HEARD_MS  20000 /* never reached where ranks tell each other */

/* All operations are alike, so callers may start them in any order. */
struct caller {
	fanin_comm *comm;
	int starts; /* before it waits; 0: it calls the blocking function, -1: that with a handle */
};

static bool is_sum(const int32_t *x)
{
	for (int i = 0; i < COUNT; i++)
		if (x[i] != i * RANKS)
			return false;
	return true;
}

static void *call(void *arg)
{
	const struct caller *caller = arg;
	int32_t *x = malloc(COUNT * sizeof *x), *y = malloc(COUNT * sizeof *y);
	fanin_op *op[STARTED];
	for (int i = 0; i < COUNT; i++)
		x[i] = i;
	for (int k = 0; k < caller->starts; k++)
		EXPECT(fanin_allreduce_start(caller->comm, x, y, COUNT, FANIN_INT32, FANIN_SUM,
					     &op[k]) == FANIN_OK);
	if (caller->starts == 0)
		EXPECT(fanin_allreduce(caller->comm, x, y, COUNT, FANIN_INT32, FANIN_SUM) ==
		       FANIN_OK);
	if (caller->starts < 0)
		EXPECT(fanin_allreduce_within(caller->comm, x, y, COUNT, FANIN_INT32, FANIN_SUM,
					      TEAM_PATIENT_MS, &op[0]) == FANIN_OK);
	for (int k = 0; k < caller->starts; k++) {
		EXPECT(fanin_op_wait(op[k], TEAM_PATIENT_MS) == FANIN_OK);
		fanin_op_free(op[k]);
	}
	EXPECT(is_sum(y));
	free(x);
	free(y);
	return NULL;
}

/* In each round several callers, then none: an operation that was forgotten stays so. */
static void call_by_several(struct member *m)
{
	pthread_t thread[CALLERS];
	struct caller caller[CALLERS];
	struct fanin_stats s = {.size = sizeof s};
	EXPECT(fanin_barrier(m->comm) == FANIN_OK);
	EXPECT(fanin_comm_stats(m->comm, &s) == 0 && s.host_ranks == RANKS);
	for (int round = 0; round < ROUNDS; round++) {
		for (int n = 0; n < CALLERS; n++) {
			int starts = n == 0 && round % 2 ? round % STARTED + 1 : -(n % 2);
			caller[n] = (struct caller){m->comm, starts};
			EXPECT(pthread_create(&thread[n], NULL, call, &caller[n]) == 0);
		}
		for (int n = 0; n < CALLERS; n++)
			pthread_join(thread[n], NULL);
	}
}

/* One caller's work is done by another, or by the thread, and none is forgotten. */
TEST(host_comm__several_callers_of_a_rank)
{
	team_run_once(RANKS, call_by_several);
}

static atomic_int pending; /* the rank that came first has given up its wait */

/* Rank 0 does not wait for as long as the others take, and what it has started ends without it; all
 * others wait in the call, more than one thread of each. */
static void wait_within(struct member *m)
{
	int32_t *x = malloc(COUNT * sizeof *x);
	fanin_op *op;
	for (int i = 0; i < COUNT; i++)
		x[i] = i;
	while (m->rank && !atomic_load(&pending))
		usleep(1000);
	int e = fanin_allreduce_within(m->comm, x, x, COUNT, FANIN_INT32, FANIN_SUM,
				       m->rank ? TEAM_PATIENT_MS : 5, &op);
	atomic_store(&pending, 1);
	EXPECT(e == (m->rank ? FANIN_OK : FANIN_E_PENDING) && !op == (m->rank != 0));
	EXPECT(m->rank || fanin_op_wait(op, TEAM_PATIENT_MS) == FANIN_OK);
	fanin_op_free(op);
	EXPECT(is_sum(x));
	EXPECT(!fanin_barrier_within(m->comm, -1, &op) && !op);
	EXPECT(!fanin_broadcast_within(m->comm, x, 1, FANIN_INT32, 1, -1, &op) && !op);
	EXPECT(!fanin_reduce_within(m->comm, x, x, 1, FANIN_INT32, FANIN_MAX, 1, -1, &op) && !op);
	EXPECT(fanin_barrier_within(m->comm, -1, NULL) == FANIN_E_INVALID);
	free(x);
}

TEST(host_comm__a_wait_that_is_too_short_leaves_the_rest_to_the_thread)
{
	team_run_once(RANKS, wait_within);
}

/* A rank of two hosts: ranks 0 and 1 are on one, 2 and 3 on the other. */
struct opener {
	pthread_t thread;
	const char *address;
	uint64_t nonce;
	int rank, timeout_ms;
	int result;
	uint64_t blamed[FAN_RANK_WORDS];
	char why[256];
};

/* Open its communicator, and then start an operation. */
static void *open_alone(void *arg)
{
	struct opener *o = arg;
	struct fanin_comm *c = fan_comm_new();
	struct fan_meeting m = {.hosts = 2, .host_of = {0, 0, 1, 1}};
	struct fanin_options options = FANIN_OPTIONS_INIT;
	int32_t mine = 1, sum;
	fan_peer at;
	options.switch_addr = o->address;
	options.rank = o->rank;
	options.ranks = 4;
	options.timeout_ms = o->timeout_ms;
	m.host[0] = (struct fan_meeting_host){.ranks = 2, .nonce = o->nonce};
	m.host[1] = (struct fan_meeting_host){.first = 2, .ranks = 2, .nonce = o->nonce ^ 1};
	EXPECT(fan_config_load(&c->rank.cfg, &options, o->why, sizeof o->why) == FAN_OK);
	EXPECT(fan_peer_parse(&at, o->address, o->why, sizeof o->why) == 0);
	fan_rank_add_part(&c->rank, &(struct fan_rank_part){.at = at, .inside = -1}, "");
	o->result = fan_host_comm_open(&c->rank, &m, false);
	if (!o->result && !fan_rank_start(&c->rank))
		o->result = fanin_allreduce(c, &mine, &sum, 1, FANIN_INT32, FANIN_SUM);
	memcpy(o->blamed, c->rank.fate.blamed, sizeof o->blamed);
	snprintf(o->why, sizeof o->why, "%s", fanin_comm_error(c));
	fan_comm_destroy(c);
	return NULL;
}

static void open_all(struct opener *o, int count)
{
	char address[80];
	struct fan_daemon *sw = team_switch(address, sizeof address, 1);
	uint64_t nonce = fan_clock_nonce();
	for (int i = 0; i < count; i++) {
		o[i].address = address;
		o[i].nonce = nonce;
		assert_int_equal(pthread_create(&o[i].thread, NULL, open_alone, &o[i]), 0);
	}
	for (int i = 0; i < count; i++)
		pthread_join(o[i].thread, NULL);
	fan_daemon_stop(sw);
	team_check();
}

/* Rank 0 has missed rank 2 before rank 1 misses rank 3. */
TEST(host_comm__columns_that_are_not_joined_have_one_cause)
{
	struct opener o[2] = {{.rank = 0, .timeout_ms = 1000}, {.rank = 1, .timeout_ms = 2500}};
	open_all(o, 2);
	assert_int_equal(o[0].result, FAN_E_TIMEOUT);
	assert_int_equal(o[1].result, FAN_E_TIMEOUT);
	assert_non_null(strstr(o[0].why, "rank 2 has not joined"));
	assert_string_equal(o[1].why, o[0].why);
}

/* Rank 1 was killed before it asked rank 0 for the memory of their host.  Ranks 2 and 3 wait for
 * both in their columns, and hear of it from rank 0. */
TEST(host_comm__all_hosts_name_one_that_never_comes_for_the_memory)
{
	struct opener o[3] = {{.rank = 0, .timeout_ms = MISSED_MS},
			      {.rank = 2, .timeout_ms = HEARD_MS},
			      {.rank = 3, .timeout_ms = HEARD_MS}};
	open_all(o, 3);
	for (int i = 0; i < 3; i++) {
		print_message("rank %d: %s\n", o[i].rank, o[i].why);
		assert_int_equal(fan_ranks_count(o[i].blamed), 1);
		assert_true(fan_ranks_has(o[i].blamed, 1));
		assert_int_equal(o[i].result, i ? FAN_E_RANK_LOST : FAN_E_TIMEOUT);
		assert_non_null(strstr(o[i].why, "rank 1 "));
	}
}

/* Rank 0 of the two ranks of the only host. */
static void *open_first_of_two(void *arg)
{
	struct opener *o = arg;
	struct fanin_comm *c = fan_comm_new();
	struct fan_meeting m = {.hosts = 1};
	struct fanin_options options = FANIN_OPTIONS_INIT;
	int32_t mine = 1, sum;
	options.rank = 0;
	options.ranks = 2;
	options.timeout_ms = o->timeout_ms;
	options.join_ms = JOIN_MS;
	options.alive_ms = ALIVE_MS;
	m.host[0] = (struct fan_meeting_host){.ranks = 2, .nonce = o->nonce};
	EXPECT(fan_config_load(&c->rank.cfg, &options, o->why, sizeof o->why) == FAN_OK);
	EXPECT(fan_host_comm_open(&c->rank, &m, false) == FAN_OK);
	EXPECT(fan_rank_start(&c->rank) == FAN_OK);
	o->result = fanin_allreduce(c, &mine, &sum, 1, FANIN_INT32, FANIN_SUM);
	snprintf(o->why, sizeof o->why, "%s", fanin_comm_error(c));
	fan_comm_destroy(c);
	return NULL;
}

/* It has the memory.  Long before an operation stalls: MPI knows no such limit. */
TEST(host_comm__a_rank_that_never_beats_is_lost)
{
	uint64_t from_ns = fan_clock_ns();
	struct opener o = {.timeout_ms = TEAM_PATIENT_MS, .nonce = fan_clock_nonce()};
	struct fan_host_seat other = {o.nonce, 1, 2, 1, TEAM_PATIENT_MS, false, NULL, 0};
	struct fan_host_memory memory;
	char why[256];
	assert_int_equal(pthread_create(&o.thread, NULL, open_first_of_two, &o), 0);
	assert_int_equal(fan_host_attach(&memory, &other, why, sizeof why), 0);
	pthread_join(o.thread, NULL);
	fan_host_detach(&memory);
	team_check();
	assert_int_equal(o.result, FAN_E_RANK_LOST);
	assert_non_null(strstr(o.why, "rank 1 stopped answering (silent for more than 0.2 s)"));
	assert_true(fan_clock_ns() > from_ns + ALIVE_MS * FAN_MS);
}

/* One of the two ranks of the only host, whose thread has nothing to do when it is to end. */
static void *open_and_end(void *arg)
{
	const struct opener *o = arg;
	for (uint64_t n = 0; n < ENDS; n++) {
		struct fanin_comm *c = fan_comm_new();
		struct fan_meeting m = {.hosts = 1};
		struct fanin_options options = FANIN_OPTIONS_INIT;
		char why[FAN_CONFIG_WHY_BYTES];
		options.rank = o->rank;
		options.ranks = 2;
		options.timeout_ms = TEAM_PATIENT_MS;
		m.host[0] = (struct fan_meeting_host){.ranks = 2, .nonce = o->nonce + n};
		EXPECT(fan_config_load(&c->rank.cfg, &options, why, sizeof why) == FAN_OK);
		EXPECT(fan_host_comm_open(&c->rank, &m, false) == FAN_OK);
		EXPECT(fan_rank_begin(&c->rank) == FAN_OK);
		uint64_t from_ns = fan_clock_ns();
		fan_comm_destroy(c);
		EXPECT(fan_clock_ns() < from_ns + END_MS * FAN_MS);
	}
	return NULL;
}

TEST(host_comm__ends_at_once)
{
	const uint64_t nonce = fan_clock_nonce();
	struct opener o[2] = {{.rank = 0, .nonce = nonce}, {.rank = 1, .nonce = nonce}};
	for (int i = 0; i < 2; i++)
		assert_int_equal(pthread_create(&o[i].thread, NULL, open_and_end, &o[i]), 0);
	for (int i = 0; i < 2; i++)
		pthread_join(o[i].thread, NULL);
	team_check();
}

static void *wait_for_others(void *arg)
{
	fanin_comm *comm = arg;
	EXPECT(fanin_barrier(comm) == FANIN_E_CLOSED);
	return NULL;
}

/* Rank 0's barrier, in which nobody else takes part, ends when its communicator is destroyed. */
static void destroy_under_callers(struct member *m)
{
	pthread_barrier_t *over = m->team->ctx;
	pthread_t thread[2];
	if (m->rank) {
		pthread_barrier_wait(over);
		return;
	}
	for (int n = 0; n < 2; n++)
		EXPECT(pthread_create(&thread[n], NULL, wait_for_others, m->comm) == 0);
	while (atomic_load(&m->comm->rank.ops_open) < 2)
		usleep(1000);
	fanin_comm_destroy(m->comm);
	m->comm = NULL;
	for (int n = 0; n < 2; n++)
		pthread_join(thread[n], NULL);
	pthread_barrier_wait(over);
}

TEST(host_comm__destroyed_while_a_caller_works)
{
	pthread_barrier_t over;
	struct team t = team_new(2, destroy_under_callers);
	t.ctx = &over;
	pthread_barrier_init(&over, NULL, 2);
	team_run_last(&t);
}

/* A process of the same user writes into the memory. */
static void change_memory(struct member *m)
{
	static int32_t x[RANKS][COUNT];
	int32_t *mine = x[m->rank];
	struct fan_host_segment *s = m->comm->rank.host->s;
	if (!m->rank) {
		s->ranks = UINT32_MAX;
		s->columns = 0;
	}
	for (int round = 0; round < ROUNDS; round++) {
		for (int i = 0; i < COUNT; i++)
			mine[i] = i;
		EXPECT(!fanin_allreduce(m->comm, mine, mine, COUNT, FANIN_INT32, FANIN_SUM));
		EXPECT(is_sum(mine));
	}
	if (!m->rank) {
		memset(s->why, 'x', sizeof s->why);
		memset(s->lost, 0xff, sizeof s->lost);
		s->cause = FAN_E_PENDING;
		atomic_store(&s->error, FAN_E_RANK_LOST);
	}
	EXPECT(fanin_barrier(m->comm) == FAN_E_RANK_LOST);
	EXPECT(strlen(fanin_comm_error(m->comm)) == FAN_HOST_WHY_BYTES - 1);
}

TEST(host_comm__believes_no_number_that_another_process_may_change)
{
	team_run_once(RANKS, change_memory);
}

int main(void)
{
	setenv("FANIN_LOCAL", "1", 1);
	return unit_run();
}
