/* SPDX-License-Identifier: Apache-2.0 */
/* A communicator on several switches, or at several addresses of one: a part of each tensor at
 * each.
 */
#include "unit/lib/team.h"

#include <dlfcn.h>
#include <netdb.h>

#define SWITCHES 3
#define ELEMS	 100003

static char list[SWITCHES * 90];

static void check_parts(struct member *m)
{
	struct fanin_part p = {.size = sizeof p}, small = {.size = sizeof small.size};
	uint32_t sum = 0;
	for (uint32_t k = 0; k < SWITCHES; k++) {
		EXPECT(!fanin_comm_part(m->comm, k, &p) && p.size == sizeof p);
		EXPECT(strstr(list, p.aggregator) && p.rank == -1 && !p.settled);
		EXPECT(p.share_ppm > 333000 && p.share_ppm < 334000);
		sum += p.share_ppm;
	}
	EXPECT(sum > 999990 && sum <= 1000000);
	EXPECT(!fanin_comm_part(m->comm, 0, &small) && small.size == sizeof small.size);
	EXPECT(fanin_comm_part(m->comm, SWITCHES, &p) == FANIN_E_INVALID);
	EXPECT(fanin_comm_part(m->comm, UINT32_MAX, &p) == FANIN_E_INVALID);
	EXPECT(fanin_comm_part(m->comm, 0, NULL) == FANIN_E_INVALID);
	EXPECT(fanin_comm_part(NULL, 0, &p) == FANIN_E_INVALID);
}

static void sums_body(struct member *m)
{
	struct fanin_stats s = {.size = sizeof s};
	float *values = malloc(ELEMS * sizeof *values);
	bool right = true;
	for (size_t i = 0; i < ELEMS; i++)
		values[i] = (float)(i % 1000 + (size_t)m->rank);
	EXPECT(fanin_allreduce(m->comm, values, values, ELEMS, FANIN_FLOAT32, FANIN_SUM) == 0);
	for (size_t i = 0; i < ELEMS; i++)
		right &= values[i] == (float)(3 * (i % 1000) + 3);
	EXPECT(right);
	int32_t one = m->rank;
	EXPECT(fanin_allreduce(m->comm, &one, &one, 1, FANIN_INT32, FANIN_MAX) == 0);
	EXPECT(one == 2);
	EXPECT(fanin_barrier(m->comm) == 0);
	EXPECT(fanin_comm_stats(m->comm, &s) == 0);
	EXPECT(s.parts == SWITCHES && s.shards == SWITCHES && !s.multicast);
	EXPECT(!strcmp(fanin_comm_switch(m->comm), list));
	check_parts(m);
	free(values);
}

TEST(several__sums_by_parts)
{
	struct team t = team_new(3, sums_body);
	struct fan_daemon *more[SWITCHES - 1];
	char address[80];
	snprintf(list, sizeof list, "%s", t.address);
	for (unsigned i = 0; i < SWITCHES - 1; i++) {
		size_t used = strlen(list);
		more[i] = team_switch(address, sizeof address, 1);
		snprintf(list + used, sizeof list - used, ",%s", address);
	}
	t.list = list;
	team_run(&t);
	for (unsigned i = 0; i < SWITCHES - 1; i++)
		fan_daemon_stop(more[i]);
	team_free(&t);
}

static void expect_refused(const char *switches, const char *server, const char *text)
{
	struct fanin_options o = FANIN_OPTIONS_INIT;
	fanin_comm *c;
	o.switch_addr = switches;
	o.server_addr = server;
	o.rank = 0;
	o.ranks = 2;
	o.timeout_ms = 500;
	assert_int_equal(fanin_comm_create(&o, &c), FANIN_E_CONFIG);
	if (!strstr(fanin_comm_error(c), text))
		fail_msg("not in \"%s\": %s", fanin_comm_error(c), text);
	fanin_comm_destroy(c);
}

TEST(several__wrong_lists)
{
	char many[2048] = "127.0.0.1:1000";
	for (int i = 1; i < 65; i++) {
		size_t used = strlen(many);
		snprintf(many + used, sizeof many - used, ",127.0.0.1:%d", 1000 + i);
	}
	expect_refused("127.0.0.1:5000,127.0.0.1:5000", NULL, "named twice");
	expect_refused("127.0.0.1:5000,here", NULL, "got \"here\"");
	expect_refused("127.0.0.1:5000,,127.0.0.1:5001", NULL, "got \"\"");
	expect_refused("127.0.0.1:5000,", NULL, "got \"\"");
	expect_refused("127.0.0.1:5000,127.0.0.1:5001", "127.0.0.1:6000", "expected one switch");
	expect_refused(many, NULL, "at most 64 switches");
}

/* One of several is not there: the text names that one. */
static void silent_body(struct member *m)
{
	const char *text = fanin_comm_error(m->comm);
	if (m->created != FANIN_E_UNREACHABLE)
		fprintf(stderr, "rank %d: %d, %s\n", m->rank, m->created, text);
	EXPECT(m->created == FANIN_E_UNREACHABLE);
	EXPECT(strstr(text, "switch 127.0.0.1:9 ") || strstr(text, "lost a switch"));
}

TEST(several__names_the_one_that_is_silent)
{
	struct team t = team_new(2, silent_body);
	t.may_fail = true;
	snprintf(list, sizeof list, "%s,127.0.0.1:9", t.address);
	t.list = list;
	t.options.timeout_ms = 3000; /* in which the ranks have met at the other */
	team_run_last(&t);
}

/* ---- names ---- */

#define NAME "switch.several"

static _Thread_local unsigned found; /* addresses that this rank finds of the name */
static atomic_uint ranks_that_find_two;

typedef int look_up(const char *, const char *, const struct addrinfo *, struct addrinfo **);

/* In the place of the C library's: the name's addresses are 127.0.0.1 and 127.0.0.2. */
int getaddrinfo(const char *restrict name, const char *restrict service,
		const struct addrinfo *restrict hints, struct addrinfo **restrict to)
{
	look_up *next;
	void *symbol = dlsym(RTLD_NEXT, "getaddrinfo");
	memcpy(&next, &symbol, sizeof next);
	if (strcmp(name, NAME) || hints->ai_flags & AI_NUMERICHOST)
		return next(name, service, hints, to);
	int e = next("127.0.0.1", service, hints, to);
	return e || found < 2 ? e : next("127.0.0.2", service, hints, &(*to)->ai_next);
}

static void find(struct fanin_options *o, int rank)
{
	(void)o;
	found = (unsigned)rank < atomic_load(&ranks_that_find_two) ? 2 : 1;
}

static void sums_by_name(struct member *m)
{
	const uint32_t parts = (int)atomic_load(&ranks_that_find_two) == m->team->ranks ? 2 : 1;
	struct fanin_stats s = {.size = sizeof s};
	float values[3000];
	bool right = true;
	for (int i = 0; i < 3000; i++)
		values[i] = (float)(i + m->rank);
	EXPECT(fanin_allreduce(m->comm, values, values, 3000, FANIN_FLOAT32, FANIN_SUM) == 0);
	for (int i = 0; i < 3000; i++)
		right &= values[i] == (float)(3 * i + 3);
	EXPECT(right);
	EXPECT(fanin_comm_stats(m->comm, &s) == 0);
	EXPECT(s.parts == parts);
}

/* Whatever each rank finds, all of them meet, with and without hosts that may sum. */
TEST(several__ranks_that_find_different_addresses_meet)
{
	struct team t = team_new(3, sums_by_name);
	char all[] = "0.0.0.0:0", why[256];
	struct fan_daemon_options o;
	struct fan_daemon *d;
	fan_daemon_defaults(&o);
	assert_int_equal(fan_peer_parse(&o.listen, all, why, sizeof why), 0);
	assert_int_equal(fan_daemon_start(&d, &o, why, sizeof why), 0);
	const fan_peer at = fan_daemon_address(d);
	snprintf(list, sizeof list, NAME ":%u", (unsigned)at.port);
	t.list = list;
	t.adjust = find;
	for (unsigned i = 0; i < 8; i++) {
		setenv("FANIN_HOSTS", i % 2 ? "1" : "0", 1);
		atomic_store(&ranks_that_find_two, i / 2);
		team_run(&t);
	}
	unsetenv("FANIN_HOSTS");
	fan_daemon_stop(d);
	team_free(&t);
}

/* ---- op_set: reduce-scatter and all-gather: operations of several members. ---- */

/* Chunk i of a reduce-scatter is rank i's; an all-gather brings them together again. */
static void scatter_and_gather(struct member *m)
{
	enum { COUNT = 3001, RANKS = 3 };
	static const size_t counts[] = {0, 1, COUNT};
	double *in = calloc(COUNT * RANKS, sizeof *in), *out = calloc(COUNT * RANKS, sizeof *out);
	fanin_op *op = NULL;
	for (size_t n = 0; n < sizeof counts / sizeof *counts; n++) {
		size_t count = counts[n], at = (size_t)m->rank * count, wrong = 0;
		for (size_t i = 0; i < count * RANKS; i++)
			in[i] = (double)(i * (m->rank + 1));
		EXPECT(!fanin_reduce_scatter(m->comm, in, in + at, count, FANIN_FLOAT64,
					     FANIN_SUM));
		for (size_t i = at; i < at + count; i++)
			wrong += in[i] != (double)(i * 6);
		EXPECT(!fanin_allgather_start(m->comm, in + at, out, count, FANIN_FLOAT64, &op));
		EXPECT(!fanin_op_wait(op, -1));
		fanin_op_free(op);
		for (size_t i = 0; i < count * RANKS; i++)
			wrong += out[i] != (double)(i * 6);
		EXPECT(!wrong);
		EXPECT(!fanin_allgather(m->comm, out + at, out, count, FANIN_FLOAT64));
	}
	EXPECT(fanin_allgather(m->comm, in, NULL, 1, FANIN_FLOAT64) == FANIN_E_INVALID);
	EXPECT(fanin_allgather(m->comm, in, out, SIZE_MAX / 16, FANIN_INT64) == FANIN_E_INVALID);
	EXPECT(fanin_reduce_scatter(m->comm, in, out, 1, FANIN_UINT8, FANIN_SUM) ==
	       FANIN_E_INVALID);
	EXPECT(fanin_reduce_scatter(m->comm, in, out, 1, 99, FANIN_SUM) == FANIN_E_INVALID);
	free(in);
	free(out);
}

TEST(op_set__scatter_and_gather)
{
	team_run_once(3, scatter_and_gather);
}

/* More members than there may be operations: a start is refused whole, a call waits. */
static void fill_the_room(struct member *m)
{
	enum { SETS = 2100 };
	static fanin_op *ops[2][SETS];
	int started = 0, x[2] = {1, 1}, e = 0;
	while (started < SETS && !(e = fanin_allgather_start(m->comm, &x[m->rank], x, 1,
							     FANIN_INT32, &ops[m->rank][started])))
		started++;
	EXPECT(started >= 2048 && (!e || e == FANIN_E_BUSY));
	for (int i = started; i < SETS; i++)
		EXPECT(!fanin_allgather(m->comm, &x[m->rank], x, 1, FANIN_INT32));
	for (int i = 0; i < started; i++)
		fanin_op_free(ops[m->rank][i]);
}

TEST(op_set__fill_the_room)
{
	team_run_once(2, fill_the_room);
}

UNIT_MAIN
