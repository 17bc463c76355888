/* SPDX-License-Identifier: Apache-2.0 */
/* Communicators of the ranks that are left. */
#include "unit/lib/team.h"

#define RANKS 4
#define COUNT 3000

#define TOGETHER_MS 2000 /* in which ranks that begin together have met */

static bool sums(fanin_comm *c, int value, int expected)
{
	int32_t *x = malloc(COUNT * sizeof *x);
	bool right = true;
	for (int i = 0; i < COUNT; i++)
		x[i] = value;
	right &= !fanin_allreduce(c, x, x, COUNT, FANIN_INT32, FANIN_SUM);
	for (int i = 0; i < COUNT; i++)
		right &= x[i] == expected;
	free(x);
	return right;
}

/* As fanin_comm_shrink, which is to succeed. */
static int shrunk(fanin_comm *comm, int wait_ms, fanin_comm **left)
{
	int e = fanin_comm_shrink(comm, wait_ms, left);
	if (e)
		fprintf(stderr, "rank %d: %s\n", fanin_comm_rank(comm), fanin_comm_error(*left));
	return e;
}

/* Rank `leaver` goes, the others sum in vain, shrink, and go on; later another one goes. */
struct scene {
	int leaver;
};

static void shrink_twice(struct member *m)
{
	const struct scene *scene = m->team->ctx;
	fanin_comm *left = NULL, *fewer = NULL;
	EXPECT(sums(m->comm, m->rank, 6));
	if (m->rank == scene->leaver)
		return;
	EXPECT(!sums(m->comm, 1, 0));
	EXPECT(strstr(fanin_comm_error(m->comm), "left"));
	uint64_t begin_ns = fan_clock_ns();
	int e = shrunk(m->comm, -1, &left);
	EXPECT(!e && fan_clock_ns() - begin_ns < TEAM_PATIENT_MS / 2 * FAN_MS);
	EXPECT(!e && fanin_comm_size(left) == RANKS - 1);
	EXPECT(!e && fanin_comm_rank(left) == m->rank - (m->rank > scene->leaver));
	EXPECT(!e && sums(left, m->rank, 6 - scene->leaver));
	bool goes = !e && fanin_comm_rank(left) == 1;
	if (!e && !goes) {
		EXPECT(!sums(left, 1, 0));
		e = shrunk(left, -1, &fewer);
		EXPECT(!e && fanin_comm_size(fewer) == RANKS - 2 && sums(fewer, 5, 10));
	}
	fanin_comm_destroy(left);
	fanin_comm_destroy(fewer);
}

static void run(const char *local, int leaver)
{
	struct scene scene = {leaver};
	struct team t = team_new(RANKS, shrink_twice);
	t.ctx = &scene;
	setenv("FANIN_LOCAL", local, 1);
	team_run(&t);
	unsetenv("FANIN_LOCAL");
	team_free(&t);
}

TEST(comm_shrink__ranks_go_on_without_those_that_left)
{
	run("0", 2);
	run("0", 0);
}

TEST(comm_shrink__in_shared_memory)
{
	run("1", 2);
	run("1", 0);
}

/* A rank that is not known as lost is waited for as long as the others are told, and when it comes
 * it is told that it is late.  Two of four ranks do not go on without it. */
static void come_late(struct member *m)
{
	fanin_comm *left = NULL;
	static atomic_int gone_on;
	EXPECT(fanin_barrier(m->comm) == 0);
	if (m->rank == 3)
		return;
	EXPECT(fanin_barrier(m->comm) == FANIN_E_RANK_LEFT);
	while (m->rank == 1 && atomic_load(&gone_on) < 2)
		nanosleep(&(struct timespec){.tv_nsec = 10000000}, NULL);
	int e = fanin_comm_shrink(m->comm, 300, &left);
	if (e != FANIN_E_TIMEOUT) /* two of four are not most */
		fprintf(stderr, "rank %d: %d, %s\n", m->rank, e, fanin_comm_error(left));
	EXPECT(e == FANIN_E_TIMEOUT);
	atomic_fetch_add(&gone_on, 1);
	fanin_comm_destroy(left);
}

TEST(comm_shrink__half_of_the_ranks_do_not_go_on)
{
	team_run_once(4, come_late);
}

static void come_late_to_most(struct member *m)
{
	fanin_comm *left = NULL;
	static atomic_int come, gone_on;
	EXPECT(fanin_barrier(m->comm) == 0);
	if (m->rank == 4)
		return;
	EXPECT(fanin_barrier(m->comm) == FANIN_E_RANK_LEFT);
	atomic_fetch_add(&come, 1);
	while (atomic_load(&come) < 4 || (m->rank == 1 && atomic_load(&gone_on) < 3))
		nanosleep(&(struct timespec){.tv_nsec = 10000000}, NULL);
	int e = m->rank == 1 ? fanin_comm_shrink(m->comm, 300, &left)
			     : shrunk(m->comm, TOGETHER_MS, &left);
	if (m->rank == 1)
		EXPECT(e == FANIN_E_TIMEOUT);
	else
		EXPECT(!e && fanin_comm_size(left) == 3 && sums(left, 1, 3));
	atomic_fetch_add(&gone_on, 1);
	fanin_comm_destroy(left);
}

TEST(comm_shrink__a_late_rank_is_left_out)
{
	team_run_once(5, come_late_to_most);
}

static void be_left_alone(struct member *m)
{
	fanin_comm *left = m->comm;
	if (m->rank == 0)
		return;
	EXPECT(fanin_barrier(m->comm) == FANIN_E_RANK_LEFT);
	EXPECT(fanin_comm_shrink(m->comm, -1, &left) == FANIN_E_RANK_LEFT && !left);
	EXPECT(fanin_comm_shrink(NULL, -1, &left) == FANIN_E_INVALID);
	EXPECT(fanin_comm_shrink(m->comm, -1, NULL) == FANIN_E_INVALID);
}

TEST(comm_shrink__the_last_rank_is_told)
{
	team_run_once(2, be_left_alone);
}

UNIT_MAIN
