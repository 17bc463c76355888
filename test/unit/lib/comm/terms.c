/* SPDX-License-Identifier: Apache-2.0 */
/* What a program around the library asks for beyond its options. */
#include "unit/lib/team.h"

#include <unistd.h>

#include "lib/comm/comm.h"

static void count_idle(void *arg)
{
	atomic_fetch_add((atomic_int *)arg, 1);
}

/* While rank 1 is late, rank 0 has time for something else; that is what rank 1 waits for. */
static void idle(struct member *m)
{
	static atomic_int calls[2];
	const uint64_t until_ns = fan_clock_ns() + TEAM_PATIENT_MS / 2 * FAN_MS;
	int in[4] = {1, 2, 3, 4}, out[4];
	m->comm->rank.idle.call = count_idle;
	m->comm->rank.idle.arg = &calls[m->rank];
	while (m->rank && !atomic_load(&calls[0]) && fan_clock_ns() < until_ns)
		usleep(1000);
	EXPECT(!fanin_allreduce(m->comm, in, out, 4, FANIN_INT32, FANIN_SUM));
	EXPECT(out[3] == 8);
	EXPECT(atomic_load(&calls[0]) > 0);
}

TEST(terms__a_caller_that_waits_calls_idle)
{
	team_run_once(2, idle);
}

static char meeting[32]; /* of this run: the same test of another build may run beside it */

static void draw_meeting(void)
{
	snprintf(meeting, sizeof meeting, "127.0.0.1:%u", team_port());
}

static void *meet_there(void *rank)
{
	struct fanin_options o = FANIN_OPTIONS_INIT;
	const struct fan_comm_terms terms = {
		.meeting_addr = meeting, .meeting_local = true, .join_ms = TEAM_PATIENT_MS};
	fanin_comm *c;
	int one = 1, sum = 0;
	o.rank = *(int *)rank;
	o.ranks = 2;
	o.job = "terms";
	EXPECT(!fan_comm_create_on(&o, &terms, &c));
	EXPECT(!fanin_allreduce(c, &one, &sum, 1, FANIN_INT32, FANIN_SUM) && sum == 2);
	fanin_comm_destroy(c);
	return NULL;
}

/* No variable names a switch or a place to meet. */
TEST(terms__name_the_meeting)
{
	pthread_t other;
	int ranks[] = {0, 1};
	unsetenv("MASTER_ADDR");
	draw_meeting();
	atomic_store(&team_wrong, 0);
	assert_int_equal(pthread_create(&other, NULL, meet_there, &ranks[1]), 0);
	meet_there(&ranks[0]);
	pthread_join(other, NULL);
	team_check();
}

/* A join ends after its own time, whatever operations may take. */
TEST(terms__end_a_join)
{
	struct fanin_options o = FANIN_OPTIONS_INIT;
	const struct fan_comm_terms terms = {
		.meeting_addr = meeting, .meeting_local = true, .join_ms = 300};
	fanin_comm *c;
	draw_meeting();
	o.rank = 0;
	o.ranks = 2;
	o.job = "alone";
	o.timeout_ms = 86400000;
	assert_int_equal(fan_comm_create_on(&o, &terms, &c), FANIN_E_TIMEOUT);
	assert_non_null(strstr(fanin_comm_error(c), "within 0.3 s"));
	fanin_comm_destroy(c);
}

UNIT_MAIN
