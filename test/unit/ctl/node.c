/* SPDX-License-Identifier: Apache-2.0 */
#include "rig.h"

static void node__who_is_not_in_the_topology_is_refused(void **state)
{
	(void)state;
	rig_hello(0, "switch", "X", 1, "");
	assert_true(rig_refused(0, "no node \"X\" in t.json"));
	rig_hello(1, "server", "A", 1, "");
	assert_true(rig_refused(1, "\"A\" is a switch in t.json, and the daemon a server"));
	rig_hello(2, "worker", "W1", 1, "");
	assert_true(rig_refused(2, "is a worker"));
	rig_hello(3, "switch", "A", 1, "");
	rig_hello(4, "switch", "A", 2, "");
	assert_true(rig_refused(4, "is connected already"));
	assert_int_equal(rig.c->node[0].conn, 3);
}

static void node__nonsense_is_refused(void **state)
{
	static const char *const lines[] = {
		"",
		"x",
		"[]",
		"7",
		"{}",
		"{\"hello\":7}",
		"{\"hello\":\"switch\",\"name\":\"A\"}",
		"{\"hello\":\"switch\",\"name\":\"A\",\"listen\":\"nowhere\",\"shards\":1}",
		"{\"hello\":\"switch\",\"name\":\"A\",\"listen\":\"A:7\",\"shards\":0}",
		"{\"hello\":\"switch\",\"name\":\"A\",\"listen\":\"A:7\",\"shards\":1,\"slots\":-1}",
		"{\"hello\":\"switch\",\"hello\":\"switch\"}",
		"{\"join\":7}",
		"{\"moved\":{\"part\":0,\"route\":1}}",
	};
	(void)state;
	for (unsigned i = 0; i < sizeof lines / sizeof lines[0]; i++) {
		fan_ctl_opened(rig.c, rig.now_ns, i);
		rig_say(i, "%s", lines[i]);
		assert_true(rig_refused(i, ""));
		assert_int_equal(rig.c->conn[i].kind, CTL_CONN_FREE);
	}
	for (unsigned i = 0; i < 4; i++)
		assert_int_equal(rig.c->node[i].state, CTL_NEVER);
}

static void node__who_says_nothing_is_sent_away(void **state)
{
	(void)state;
	fan_ctl_opened(rig.c, rig.now_ns, 9);
	rig_wait(9900, 0);
	assert_false(rig.closed[9]);
	rig_wait(200, 0);
	assert_true(rig_refused(9, "neither"));
}

static void node__silent_is_gone(void **state)
{
	(void)state;
	rig_daemons();
	assert_int_equal(rig.c->node[1].state, CTL_UP);
	for (unsigned i = 0; i < 120; i++) { /* all but M1 live */
		rig_say(0, "{\"health\":{}}");
		rig_say(3, "{\"health\":{}}");
		fan_ctl_tick(rig.c, rig.now_ns += 10 * CTL_MS);
	}
	assert_int_equal(rig.c->node[1].state, CTL_GONE);
	assert_true(rig.closed[1]);
	assert_int_equal(rig.c->node[0].state, CTL_UP);
	assert_true(rig_noted("switch M1 is gone: it is silent"));
}

/* Nobody is lost when a suspended machine goes on, and who is silent after it is lost as ever. */
static void node__silence_counts_while_the_controller_is_awake(void **state)
{
	(void)state;
	rig_work();
	rig_closes(4);	/* PS, which is waited for */
	rig_closes(13); /* and W4, likewise */
	rig.now_ns += 12000 * CTL_MS;
	fan_ctl_tick(rig.c, rig.now_ns); /* before any line that daemons send as they wake */
	for (unsigned i = 0; i < 6; i++) {
		assert_int_equal(rig.c->node[i].state, CTL_UP);
		assert_false(rig.closed[i]);
	}
	assert_true(rig.c->job[0].rank[3].absent_ns > 0);
	assert_int_equal(rig.c->job[0].life, 0);
	rig_wait(FAN_CTL_BACK_MS, 4);
	assert_int_equal(rig.c->node[4].state, CTL_GONE);
	rig_wait(FAN_CTL_SILENT_MS, 3);
	assert_int_equal(rig.c->node[3].state, CTL_GONE);
	assert_int_equal(rig.c->node[0].state, CTL_UP);
}

/* One that had no processor for less than that, right after a word and right before the next. */
static void node__a_pause_is_not_silence(void **state)
{
	(void)state;
	rig_daemons();
	for (unsigned i = 0; i < 20; i++) {
		rig_wait(200, 0);
		rig.now_ns += 900 * CTL_MS;
		fan_ctl_tick(rig.c, rig.now_ns);
		rig_wait(0, 6);
	}
	for (unsigned i = 0; i < 6; i++)
		assert_int_equal(rig.c->node[i].state, CTL_UP);
}

static void node__deadlines_are_told(void **state)
{
	(void)state;
	assert_true(fan_ctl_deadline(rig.c) <= rig.now_ns + FAN_CTL_AWAKE_MS * CTL_MS);
	rig_daemons();
	fan_ctl_line(rig.c, rig.now_ns += 150 * CTL_MS, 0, "{\"health\":{}}", 13);
	assert_true(fan_ctl_deadline(rig.c) <= rig.now_ns + 100 * CTL_MS);
}

/* A server whose line is cut and that comes back in time has lost nothing. */
static void node__server_may_come_back(void **state)
{
	(void)state;
	rig_work();
	rig_closes(4);
	rig_wait(300, 4);
	assert_int_equal(rig.c->node[4].state, CTL_UP);
	rig_hello(4, "server", "PS", 1, "");
	rig_wait(2000, 6);
	assert_int_equal(rig.c->node[4].state, CTL_UP);
	assert_int_equal(rig.c->job[0].life, 0);
}

static void node__server_that_began_anew_has_lost_all(void **state)
{
	(void)state;
	rig_work();
	rig_closes(4);
	rig_hello(4, "server", "PS", 2, "");
	assert_int_equal(rig.c->node[4].state, CTL_UP);
	assert_int_equal(rig.c->job[0].life, 1);
}

static void node__health_is_kept(void **state)
{
	(void)state;
	rig_daemons();
	rig_say(0, "{\"health\":{\"packets\":7,\"hits\":5,\"drops\":-3,\"passed\":\"x\"}}");
	assert_int_equal(rig.c->node[0].packets, 7);
	assert_int_equal(rig.c->node[0].hits, 5);
	assert_int_equal(rig.c->node[0].drops, 0);
	assert_int_equal(rig.c->node[0].passed, 0);
	rig_say(0, "{\"what\":1}");
	assert_true(rig_refused(0, "expected health, ok or error"));
	assert_int_equal(rig.c->node[0].state, CTL_GONE);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		RIG_TEST(node__who_is_not_in_the_topology_is_refused),
		RIG_TEST(node__nonsense_is_refused),
		RIG_TEST(node__who_says_nothing_is_sent_away),
		RIG_TEST(node__silent_is_gone),
		RIG_TEST(node__silence_counts_while_the_controller_is_awake),
		RIG_TEST(node__a_pause_is_not_silence),
		RIG_TEST(node__deadlines_are_told),
		RIG_TEST(node__server_may_come_back),
		RIG_TEST(node__server_that_began_anew_has_lost_all),
		RIG_TEST(node__health_is_kept),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
