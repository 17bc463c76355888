/* SPDX-License-Identifier: Apache-2.0 */
/* Communicators whose ranks share memory, as threads: callers that do the work themselves beside
 * others, and the thread that does it for those who do not wait. */
#include "team.h"

#define RANKS	4
#define CALLERS 3
#define COUNT	20000
#define ROUNDS	60
#define STARTED 8

/* All operations are alike, so callers may start them in any order. */
struct caller {
	fanin_comm *comm;
	int starts; /* before it waits; 0: it calls the blocking function */
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
	if (!caller->starts)
		EXPECT(fanin_allreduce(caller->comm, x, y, COUNT, FANIN_INT32, FANIN_SUM) ==
		       FANIN_OK);
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
	if (!team_joined(m))
		return;
	EXPECT(fanin_barrier(m->comm) == FANIN_OK);
	EXPECT(fanin_comm_stats(m->comm, &s) == 0 && s.host_ranks == RANKS);
	for (int round = 0; round < ROUNDS; round++) {
		for (int n = 0; n < CALLERS; n++) {
			int starts = n == 0 && round % 2 ? round % STARTED + 1 : 0;
			caller[n] = (struct caller){m->comm, starts};
			EXPECT(pthread_create(&thread[n], NULL, call, &caller[n]) == 0);
		}
		for (int n = 0; n < CALLERS; n++)
			pthread_join(thread[n], NULL);
	}
}

/* One caller's work is done by another, or by the thread, and none is forgotten. */
static void intra_comm__several_callers_of_a_rank(void **state)
{
	(void)state;
	team_run_once(RANKS, call_by_several);
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
	if (!team_joined(m))
		return;
	if (m->rank) {
		pthread_barrier_wait(over);
		return;
	}
	for (int n = 0; n < 2; n++)
		EXPECT(pthread_create(&thread[n], NULL, wait_for_others, m->comm) == 0);
	nanosleep(&(struct timespec){.tv_nsec = 200 * 1000000L}, NULL); /* they have begun */
	fanin_comm_destroy(m->comm);
	m->comm = NULL;
	for (int n = 0; n < 2; n++)
		pthread_join(thread[n], NULL);
	pthread_barrier_wait(over);
}

static void intra_comm__destroyed_while_a_caller_works(void **state)
{
	(void)state;
	pthread_barrier_t over;
	struct team t = team_new(2, destroy_under_callers);
	t.ctx = &over;
	pthread_barrier_init(&over, NULL, 2);
	team_run(&t);
	team_free(&t);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(intra_comm__several_callers_of_a_rank),
		cmocka_unit_test(intra_comm__destroyed_while_a_caller_works),
	};
	setenv("FANIN_LOCAL", "1", 1);
	return cmocka_run_group_tests_name("intra_comm", tests, NULL, NULL);
}
