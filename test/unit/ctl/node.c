/* SPDX-License-Identifier: Apache-2.0 */
#include "unit/unit.h"

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

/* Nothing is waited for: its jobs begin again at once. */
static void node__server_that_is_stopped_has_gone(void **state)
{
	(void)state;
	rig_work();
	rig_say(4, "{\"stopping\":true}");
	assert_int_equal(rig.c->node[4].state, CTL_GONE);
	assert_true(rig.closed[4]);
	assert_int_equal(rig.c->job[0].life, 1);
	assert_true(rig_noted("server PS is gone: it is being stopped"));
	rig_hello(4, "server", "PS", 2, ""); /* by the connection's number, which is free */
	assert_int_equal(rig.c->node[4].state, CTL_UP);
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
	assert_true(rig_refused(0, "expected health, ok, error or stopping"));
	assert_int_equal(rig.c->node[0].state, CTL_GONE);
}

/* ---- link ---- */

enum { A, M1, M2, B, PS, PT }; /* nodes, and the connections of their daemons */

/* A daemon reports that it does not hear these, of the list that it was told last. */
static void hears_not(unsigned conn, const char *names)
{
	rig_say(conn, "{\"health\":{\"neighbours\":%u,\"silent\":[%s]}}", rig.c->node[conn].list,
		names);
}

static struct ctl_link *between(const char *a, const char *b)
{
	uint32_t i = ctl_link_between(rig.c, a, b);
	assert_true(i < rig.c->links);
	return &rig.c->link[i];
}

static struct ctl_link *a_m1(void)
{
	return between("A", "M1");
}

static void tick(void)
{
	rig_wait(0, 6);
}

/* The names in the last list that `conn` was told, sorted as they came: "A,B". */
static const char *list_of(unsigned conn)
{
	static char text[256];
	json_t *o, *last = NULL;
	while ((o = rig_take(conn, "neighbours"))) {
		json_decref(last);
		last = o;
	}
	const json_t *list = json_object_get(last, "neighbours");
	const json_t *of = json_object_get(list, "of");
	text[0] = '\0';
	if (last)
		assert_int_equal(rig_number(list, "number"), rig.c->node[conn].list);
	for (size_t i = 0; i < json_array_size(of); i++) {
		const json_t *n = json_array_get(of, i);
		char at[80];
		snprintf(at, sizeof at, "%s:7", rig_text(n, "name"));
		assert_string_equal(rig_text(n, "at"), at);
		size_t used = strlen(text);
		snprintf(text + used, sizeof text - used, "%s%s", i ? "," : "",
			 rig_text(n, "name"));
	}
	json_decref(last);
	return text;
}

static void link__daemons_are_told_whom_to_ask(void **state)
{
	(void)state;
	rig_daemons();
	assert_string_equal(list_of(A), "M1,M2");
	assert_string_equal(list_of(B), "M1,M2,PS,PT");
	assert_string_equal(list_of(PS), "B");
	tick();
	assert_string_equal(list_of(A), ""); /* nothing new */
	rig_closes(M1);
	tick();
	assert_string_equal(list_of(A), "M2");
	rig_hello(M1, "switch", "M1", 2, "");
	tick();
	assert_string_equal(list_of(A), "M1,M2");
	assert_string_equal(list_of(M1), "A,B");
}

static void link__running_jobs_move_off_a_dead_one(void **state)
{
	(void)state;
	rig_work();
	struct ctl_route *old = rig_route();
	assert_true(rig_stops_at(old, "M1"));
	hears_not(A, "\"M1\"");
	rig_wait(100, 6);
	assert_true(a_m1()->state == CTL_LINK_DOWN);
	assert_true(rig_noted("link A-M1 is down: A does not hear M1"));
	assert_int_equal(rig.c->node[M1].state, CTL_UP);
	assert_ptr_not_equal(rig_route(), old);
	assert_true(rig_stops_at(rig_route(), "M2") && !rig_stops_at(rig_route(), "M1"));
	assert_true(rig_says("status", "link A-M1: down for 0."));
	assert_true(rig_says("why j", "link A-M1: down for 0."));
	assert_int_equal(old->state, CTL_READY); /* its number means what it meant */
	rig_answer_all();
	for (unsigned r = 0; r < 4; r++) {
		json_t *o = rig_take(10 + r, "move");
		assert_non_null(o);
		json_decref(o);
	}
}

static void link__either_end_counts(void **state)
{
	(void)state;
	rig_work();
	hears_not(M1, "\"A\"");
	tick();
	assert_true(a_m1()->state == CTL_LINK_DOWN);
	assert_false(between("M1", "B")->state == CTL_LINK_DOWN);
	hears_not(A, "");
	tick();
	assert_int_equal(a_m1()->heard_ns, 0);
}

static void link__comes_back_after_a_hold_and_jobs_stay(void **state)
{
	(void)state;
	rig_work();
	hears_not(A, "\"M1\"");
	rig_wait(100, 6);
	struct ctl_route *there = rig_route();
	hears_not(A, "");
	rig_wait(FAN_CTL_HOLD_MS - 100, 6);
	assert_true(a_m1()->state == CTL_LINK_DOWN);
	assert_true(fan_ctl_deadline(rig.c) <= rig.now_ns + 200 * CTL_MS);
	rig_wait(200, 6);
	assert_false(a_m1()->state == CTL_LINK_DOWN);
	assert_true(rig_noted("link A-M1 is back after 2."));
	rig_wait(500, 6);
	assert_ptr_equal(rig_route(), there);
	assert_true(rig_says("replan", "ok"));
	rig_wait(100, 6);
	assert_true(rig_stops_at(rig_route(), "M1"));
}

/* While it is held, further silence begins the hold anew. */
static void link__hold_is_of_hearing_without_a_break(void **state)
{
	(void)state;
	rig_work();
	hears_not(A, "\"M1\"");
	tick();
	for (unsigned i = 0; i < 5; i++) {
		hears_not(A, "");
		rig_wait(FAN_CTL_HOLD_MS - 200, 6);
		hears_not(M1, "\"A\"");
		tick();
		hears_not(M1, "");
	}
	assert_true(a_m1()->state == CTL_LINK_DOWN);
	assert_int_equal(a_m1()->flaps, 1);
}

static unsigned ms_until_back(void)
{
	unsigned ms = 0;
	hears_not(A, "\"M1\"");
	tick();
	assert_true(a_m1()->state == CTL_LINK_DOWN);
	hears_not(A, "");
	for (; a_m1()->state == CTL_LINK_DOWN; ms += 10)
		tick();
	return ms;
}

static void link__hold_doubles_up_to_a_bound_and_is_forgotten(void **state)
{
	(void)state;
	rig_work();
	unsigned last = 0;
	for (unsigned i = 0; i < 8; i++) {
		unsigned now = ms_until_back();
		unsigned want = FAN_CTL_HOLD_MS << i;
		want = want < FAN_CTL_HOLD_MAX_MS ? want : FAN_CTL_HOLD_MAX_MS;
		assert_in_range(now, want, want + 30);
		last = now;
	}
	assert_in_range(last, FAN_CTL_HOLD_MAX_MS, FAN_CTL_HOLD_MAX_MS + 30);
	rig_wait(FAN_CTL_CALM_MS + 100, 6);
	assert_in_range(ms_until_back(), FAN_CTL_HOLD_MS, FAN_CTL_HOLD_MS + 30);
}

/* A flapping link moves the job once; others see nothing of it. */
static void link__flaps_do_not_move_jobs_each_time(void **state)
{
	(void)state;
	rig_work();
	hears_not(A, "\"M1\"");
	rig_wait(100, 6);
	uint16_t number = rig_route()->number;
	for (unsigned i = 0; i < 20; i++) {
		hears_not(A, "");
		rig_wait(1000, 6);
		hears_not(A, "\"M1\"");
		rig_wait(1000, 6);
	}
	assert_int_equal(rig_route()->number, number);
}

/* Its neighbours saw it first: when it is back, its links are, too. */
static void link__a_node_that_goes_takes_the_blame(void **state)
{
	(void)state;
	rig_work();
	hears_not(A, "\"M1\"");
	hears_not(B, "\"M1\"");
	tick();
	assert_true(a_m1()->state == CTL_LINK_DOWN && between("M1", "B")->state == CTL_LINK_DOWN);
	rig_closes(M1);
	tick();
	assert_false(a_m1()->state == CTL_LINK_DOWN || between("M1", "B")->state == CTL_LINK_DOWN);
	assert_int_equal(a_m1()->flaps, 0);
	hears_not(A, "\"M1\""); /* of a list in which it is not, and of no interest */
	tick();
	rig_hello(M1, "switch", "M1", 2, "");
	tick();
	assert_false(a_m1()->state == CTL_LINK_DOWN || between("M1", "B")->state == CTL_LINK_DOWN);
}

static void link__reports_of_earlier_lists_do_not_count(void **state)
{
	(void)state;
	rig_work();
	uint32_t old = rig.c->node[A].list;
	rig_closes(M2);
	tick();
	assert_int_not_equal(rig.c->node[A].list, old);
	rig_say(A, "{\"health\":{\"neighbours\":%u,\"silent\":[\"M1\"]}}", old);
	rig_say(A, "{\"health\":{\"silent\":[\"M1\"]}}");
	tick();
	assert_false(a_m1()->state == CTL_LINK_DOWN);
}

static void link__nonsense_in_reports_harms_nobody(void **state)
{
	static const char *const silent[] = {
		"7",	    "null",	  "\"A\"",  "\"W1\"", "\"nobody\"",
		"[\"M1\"]", "{\"M1\":1}", "\"PS\"", "\"\"",
	};
	(void)state;
	rig_work();
	for (unsigned i = 0; i < sizeof silent / sizeof silent[0]; i++)
		hears_not(A, silent[i]);
	rig_say(A, "{\"health\":{\"neighbours\":\"x\",\"silent\":7}}");
	rig_say(A, "{\"health\":{\"neighbours\":%u,\"silent\":7}}", rig.c->node[A].list);
	tick();
	for (uint32_t i = 0; i < rig.c->links; i++)
		assert_false(rig.c->link[i].state == CTL_LINK_DOWN);
	assert_int_equal(rig.c->node[A].state, CTL_UP);
}

/* PS is on B alone: no other path.  What the job has stays, and works once the link does. */
static void link__without_another_path_jobs_wait(void **state)
{
	(void)state;
	rig_work();
	struct ctl_route *r = rig_route();
	hears_not(PS, "\"B\"");
	rig_wait(100, 6);
	assert_true(between("PS", "B")->state == CTL_LINK_DOWN);
	assert_true(rig_says("why j", "not planned, since link PS-B is down"));
	assert_ptr_equal(rig_route(), r);
	assert_int_equal(r->state, CTL_READY);
	hears_not(PS, "");
	rig_wait(FAN_CTL_HOLD_MS + 300, 6);
	assert_true(rig_says("why j", "came back"));
	assert_ptr_equal(rig_route(), r);
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
		RIG_TEST(node__server_that_is_stopped_has_gone),
		RIG_TEST(node__server_that_began_anew_has_lost_all),
		RIG_TEST(node__health_is_kept),
		RIG_TEST(link__daemons_are_told_whom_to_ask),
		RIG_TEST(link__running_jobs_move_off_a_dead_one),
		RIG_TEST(link__either_end_counts),
		RIG_TEST(link__comes_back_after_a_hold_and_jobs_stay),
		RIG_TEST(link__hold_is_of_hearing_without_a_break),
		RIG_TEST(link__hold_doubles_up_to_a_bound_and_is_forgotten),
		RIG_TEST(link__flaps_do_not_move_jobs_each_time),
		RIG_TEST(link__a_node_that_goes_takes_the_blame),
		RIG_TEST(link__reports_of_earlier_lists_do_not_count),
		RIG_TEST(link__nonsense_in_reports_harms_nobody),
		RIG_TEST(link__without_another_path_jobs_wait),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
