/* SPDX-License-Identifier: Apache-2.0 */
/* Communicators of some ranks of another one. */
#include <unistd.h>

#include "unit/lib/team.h"

#define RANKS  4
#define COUNT  5000
#define GROUPS 100

/* Sums of `ranks`, of which this is one, through a group of them. */
static void sum_among(struct member *m, const char *name, const int *ranks, int count)
{
	fanin_comm *group = NULL;
	float *x = malloc(COUNT * sizeof *x);
	float expected = 0;
	size_t wrong = 0;
	int e = fanin_comm_group(m->comm, name, ranks, count, &group);
	if (e)
		fprintf(stderr, "rank %d: %s\n", m->rank, fanin_comm_error(group));
	EXPECT(!e && fanin_comm_size(group) == count);
	EXPECT(!e && ranks[fanin_comm_rank(group)] == m->rank);
	for (int i = 0; i < count; i++)
		expected += (float)(ranks[i] + 1);
	for (size_t i = 0; i < COUNT; i++)
		x[i] = (float)(m->rank + 1);
	EXPECT(!e && !fanin_allreduce(group, x, x, COUNT, FANIN_FLOAT32, FANIN_SUM));
	for (size_t i = 0; i < COUNT; i++)
		wrong += x[i] != expected;
	EXPECT(!wrong);
	EXPECT(!e && !fanin_broadcast(group, x, COUNT, FANIN_FLOAT32, count - 1));
	fanin_comm_destroy(group);
	free(x);
}

/* Disjoint pairs at a time, then others whose ranks are in another order, and all. */
static void sum_in_groups(struct member *m)
{
	static const int pairs[2][2] = {{0, 1}, {2, 3}}, crossed[2][2] = {{3, 0}, {2, 1}};
	static const int all[RANKS] = {2, 0, 3, 1};
	sum_among(m, "pair", pairs[m->rank / 2], 2);
	sum_among(m, "pair", crossed[m->rank == 1 || m->rank == 2], 2);
	if (m->rank != 1)
		sum_among(m, "three", (const int[]){3, 2, 0}, 3);
	sum_among(m, "all", all, RANKS);
	EXPECT(!fanin_barrier(m->comm));
}

TEST(comm_group__sums_of_some_ranks)
{
	unsetenv("FANIN_LOCAL");
	team_run_once(RANKS, sum_in_groups);
}

TEST(comm_group__sums_in_shared_memory)
{
	setenv("FANIN_LOCAL", "1", 1);
	team_run_once(RANKS, sum_in_groups);
	unsetenv("FANIN_LOCAL");
}

/* Many at a time, and operations on all of them and on the communicator. */
static void hold_many(struct member *m)
{
	static const int all[RANKS] = {0, 1, 2, 3};
	fanin_comm *group[GROUPS];
	int joined = 0;
	for (; joined < GROUPS; joined++) {
		char name[16];
		snprintf(name, sizeof name, "g%d", joined);
		int e = fanin_comm_group(m->comm, name, all, RANKS, &group[joined]);
		if (e)
			fprintf(stderr, "rank %d, %s: %s\n", m->rank, name,
				fanin_comm_error(group[joined]));
		EXPECT(!e);
		if (e)
			break;
	}
	for (int i = 0; i < joined; i++) {
		int64_t x = m->rank + i;
		EXPECT(!fanin_allreduce(group[i], &x, &x, 1, FANIN_INT64, FANIN_SUM));
		EXPECT(x == 6 + 4 * i);
	}
	EXPECT(!fanin_barrier(m->comm));
	for (int i = 0; i < joined; i++)
		fanin_comm_destroy(group[i]);
}

static void name_no_switch(struct fanin_options *o, int rank)
{
	(void)rank;
	o->switch_addr = NULL;
}

/* At the switch that rank 0 starts, where nobody names one. */
TEST(comm_group__a_hundred_at_a_time)
{
	const char *local[] = {"0", "1"};
	char port[16];
	for (size_t k = 0; k < sizeof local / sizeof *local; k++) {
		struct team t = team_new(RANKS, hold_many);
		t.adjust = name_no_switch;
		snprintf(port, sizeof port, "%u", team_port());
		setenv("MASTER_ADDR", "127.0.0.1", 1);
		setenv("MASTER_PORT", port, 1);
		setenv("FANIN_LOCAL", local[k], 1);
		team_run_last(&t);
	}
	unsetenv("MASTER_ADDR");
	unsetenv("MASTER_PORT");
	unsetenv("FANIN_LOCAL");
}

static void refuse(struct member *m)
{
	static const int twice[] = {0, 1, 0}, far[] = {0, 1, 2}, other[] = {1 - 1, 1};
	const int own = m->rank;
	fanin_comm *group = m->comm;
	EXPECT(fanin_comm_group(m->comm, "g", twice, 3, &group) == FANIN_E_INVALID && !group);
	EXPECT(fanin_comm_group(m->comm, "g", far, 3, &group) == FANIN_E_INVALID);
	EXPECT(fanin_comm_group(m->comm, "g", &own, 1, &group) == FANIN_E_INVALID);
	EXPECT(fanin_comm_group(m->comm, "", other, 2, &group) == FANIN_E_INVALID);
	EXPECT(fanin_comm_group(m->comm, "a b", other, 2, &group) == FANIN_E_INVALID);
	EXPECT(fanin_comm_group(m->comm, "a-name-of-twenty-five-byte", other, 2, &group) ==
	       FANIN_E_INVALID);
	EXPECT(fanin_comm_group(NULL, "g", other, 2, &group) == FANIN_E_INVALID);
	EXPECT(fanin_comm_group_within(m->comm, "g", other, 2, 99, -1, &group) == FANIN_E_INVALID);
	EXPECT(fanin_comm_group_within(m->comm, "g", other, 2, -1, 86400001, &group) ==
	       FANIN_E_INVALID);
	EXPECT(!fanin_barrier(m->comm));
}

TEST(comm_group__refuses_wrong_lists)
{
	team_run_once(2, refuse);
}

/* Ranks that name different ranks do not meet. */
static void differ(struct member *m)
{
	static const int one[] = {0, 1}, another[] = {1, 0};
	fanin_comm *group;
	int e = fanin_comm_group(m->comm, "g", m->rank ? another : one, 2, &group);
	EXPECT(e == FANIN_E_TIMEOUT);
	fanin_comm_destroy(group);
}

/* Rank 1 comes when rank 0 has given up, to join and to take part; that of the communicator would
 * be patient. */
static void wait_for_the_late(struct member *m)
{
	static const int both[] = {0, 1};
	atomic_int *given_up = m->team->ctx;
	fanin_comm *group = NULL;
	int64_t x = 1;
	while (m->rank && atomic_load(given_up) < 1)
		usleep(1000);
	int e = fanin_comm_group_within(m->comm, "join", both, 2, 60000, m->rank ? 100 : 300,
					&group);
	EXPECT(e == FANIN_E_TIMEOUT);
	if (!m->rank && !strcmp(getenv("FANIN_LOCAL"), "0"))
		EXPECT(strstr(fanin_comm_error(group), "within 0.3 s"));
	fanin_comm_destroy(group);
	atomic_fetch_add(given_up, 1);
	EXPECT(!fanin_comm_group_within(m->comm, "op", both, 2, 400, TEAM_PATIENT_MS, &group));
	while (m->rank && atomic_load(given_up) < 3)
		usleep(1000);
	e = fanin_allreduce(group, &x, &x, 1, FANIN_INT64, FANIN_SUM);
	EXPECT(m->rank ? e != FANIN_OK : e == FANIN_E_STALLED);
	if (!m->rank)
		EXPECT(strstr(fanin_comm_error(group), "no progress for 0.4 s: rank 1"));
	fanin_comm_destroy(group); /* until rank 0 has left, rank 1 could complete the sum */
	atomic_fetch_add(given_up, 1);
	EXPECT(!fanin_barrier(m->comm));
}

TEST(comm_group__has_times_of_its_own)
{
	const char *local[] = {"0", "1"};
	for (size_t k = 0; k < sizeof local / sizeof *local; k++) {
		atomic_int given_up = 0;
		struct team t = team_new(2, wait_for_the_late);
		t.ctx = &given_up;
		setenv("FANIN_LOCAL", local[k], 1);
		team_run_last(&t);
	}
	unsetenv("FANIN_LOCAL");
}

TEST(comm_group__different_lists_do_not_meet)
{
	struct team t = team_new(2, differ);
	t.options.timeout_ms = 400;
	team_run_last(&t);
}

UNIT_MAIN
