/* SPDX-License-Identifier: Apache-2.0 */
#include "rig.h"

static unsigned routes_in_use(void)
{
	unsigned n = 0;
	for (unsigned i = 0; i < FAN_CTL_ROUTES_MAX; i++)
		n += rig.c->route[i] != NULL;
	return n;
}

static void job__workers_are_told_when_all_switches_have_the_route(void **state)
{
	(void)state;
	rig_daemons();
	rig_join(0);
	assert_null(rig_take(10, "job"));
	assert_int_equal(rig_answer(0), 1);
	assert_int_equal(rig_answer(1), 1);
	assert_null(rig_take(10, "job"));
	assert_int_equal(rig_answer(3), 1);
	json_t *o = rig_take(10, "job");
	assert_non_null(o);
	const json_t *job = json_object_get(o, "job");
	const json_t *part = json_array_get(json_object_get(job, "parts"), 0);
	assert_string_equal(rig_text(part, "name"), "j/0");
	assert_string_equal(rig_text(part, "at"), "A:7");
	assert_string_equal(rig_text(part, "aggregator"), "PS:7");
	assert_int_equal(rig_number(part, "route"), rig_route()->number);
	assert_int_equal(json_integer_value(json_array_get(json_object_get(part, "cut"), 0)), 0);
	assert_int_equal(json_integer_value(json_array_get(json_object_get(part, "cut"), 1)),
			 INT64_C(1) << 32);
	json_decref(o);
}

static void job__bad_joins_are_refused_and_harm_nobody(void **state)
{
	static const struct {
		const char *line, *why;
	} bad[] = {
		{"{\"join\":{\"job\":\"k\",\"rank\":0,\"ranks\":4}}", "no job \"k\""},
		{"{\"join\":{\"job\":\"j\",\"rank\":4,\"ranks\":4}}",
		 "expected a rank from 0 to 3"},
		{"{\"join\":{\"job\":\"j\",\"rank\":-1,\"ranks\":4}}", "expected a rank"},
		{"{\"join\":{\"job\":\"j\",\"rank\":0,\"ranks\":5}}",
		 "has 4 workers in t.json, not 5"},
		{"{\"join\":{\"job\":\"j\",\"rank\":\"0\",\"ranks\":4}}",
		 "expected job, rank and ranks"},
	};
	(void)state;
	rig_work();
	for (unsigned i = 0; i < sizeof bad / sizeof bad[0]; i++) {
		fan_ctl_opened(rig.c, rig.now_ns, 20);
		rig.closed[20] = false;
		rig_say(20, "%s", bad[i].line);
		assert_true(rig_refused(20, bad[i].why));
	}
	rig_say(10, "{\"join\":{\"job\":\"j\",\"rank\":0,\"ranks\":4}}");
	assert_true(rig_refused(10, "a second join"));
	rig_say(11, "{\"moved\":{\"part\":99,\"route\":1}}");
	rig_say(11, "{\"moved\":{\"part\":0,\"route\":777}}");
	assert_int_equal(rig.c->job[0].rank[1].conn, 11);
	assert_int_equal(rig.c->job[0].rank[0].conn, CTL_NONE);
	assert_int_equal(rig_route()->state, CTL_READY);
	assert_int_equal(routes_in_use(), 1);
}

/* Rank `rank` is told to move; says so; it did. */
static void moves(unsigned rank)
{
	json_t *o = rig_take(10 + rank, "move");
	assert_non_null(o);
	const json_t *m = json_object_get(o, "move");
	assert_int_equal(rig_number(m, "route"), rig_route()->number);
	assert_string_equal(rig_text(m, "at"), rank < 2 ? "A:7" : "B:7");
	rig_say(10 + rank, "{\"moved\":{\"part\":0,\"route\":%lld}}", rig_number(m, "route"));
	json_decref(o);
}

static void job__moves_off_a_switch_that_is_gone(void **state)
{
	(void)state;
	rig_work();
	struct ctl_route *old = rig_route();
	assert_true(rig_stops_at(old, "M1"));
	rig_closes(1);
	rig_wait(50, 6);
	struct ctl_route *now = rig_route();
	assert_ptr_not_equal(now, old);
	assert_false(rig_stops_at(now, "M1"));
	assert_true(rig_stops_at(now, "M2"));
	assert_int_not_equal(now->number, old->number);
	assert_null(rig_take(10, "move")); /* switches first */
	rig_answer_all();
	for (unsigned r = 0; r < 3; r++)
		moves(r);
	rig_wait(10, 6);
	assert_int_equal(old->state, CTL_READY); /* rank 3 goes by it */
	moves(3);
	assert_int_equal(old->state, CTL_LEAVING);
	rig_wait(10, 6);
	json_t *o = rig_take(0, "remove");
	assert_non_null(o);
	rig_say(0, "{\"ok\":%lld}", rig_number(o, "id"));
	json_decref(o);
	rig_answer_all();
	assert_int_equal(routes_in_use(), 1);
	assert_ptr_equal(rig_route(), now);
	assert_int_equal(rig.c->job[0].life, 0);
}

/* One more switch goes before all have moved: what nobody was told of is dropped at once. */
static void job__a_third_plan_meanwhile(void **state)
{
	(void)state;
	rig_work();
	rig_closes(1);
	rig_wait(50, 6);
	rig_hello(1, "switch", "M1", 2, "");
	rig_closes(2); /* before anybody answered */
	rig_wait(50, 6);
	assert_true(rig_stops_at(rig_route(), "M1"));
	rig_answer_all();
	for (unsigned r = 0; r < 4; r++)
		moves(r);
	rig_wait(20, 6);
	rig_answer_all();
	assert_int_equal(routes_in_use(), 1);
}

/* What nobody can go round is waited for, and has its entries again at once, by the same number. */
static void job__a_rack_that_comes_back_is_told_again(void **state)
{
	(void)state;
	rig_work();
	struct ctl_route *r = rig_route();
	uint16_t number = r->number;
	rig_closes(0);
	rig_wait(300, 6);
	assert_ptr_equal(rig_route(), r);
	assert_true(rig_says("why j", "not planned"));
	rig_hello(0, "switch", "A", 2, "");
	json_t *o = rig_take(0, "install");
	assert_non_null(o);
	assert_int_equal(rig_number(json_object_get(o, "install"), "route"), number);
	rig_say(0, "{\"ok\":%lld}", rig_number(o, "id"));
	json_decref(o);
	rig_wait(300, 6);
	rig_answer_all();
	assert_ptr_equal(rig_route(), r);
	assert_null(rig_take(10, "move"));
	assert_true(ctl_route_is_there(r));
}

static void job__begins_again_when_its_aggregator_is_lost(void **state)
{
	(void)state;
	rig_work();
	rig_closes(4);
	rig_wait(1100, 4);
	assert_int_equal(rig.c->node[4].state, CTL_GONE);
	assert_int_equal(rig.c->job[0].life, 1);
	assert_null(rig_take(10, "again")); /* no other server may be its aggregator */
	rig_hello(4, "server", "PS", 2, "");
	rig_wait(200, 6);
	rig_answer_all();
	json_t *o = rig_take(10, "again");
	assert_non_null(o);
	const json_t *part =
		json_array_get(json_object_get(json_object_get(o, "again"), "parts"), 0);
	assert_string_equal(rig_text(part, "name"), "j/0~1");
	json_decref(o);
	rig_closes(10); /* the rank's next communicator */
	rig_join(0);
	o = rig_take(10, "job");
	assert_non_null(o);
	json_decref(o);
}

/* A worker whose line was cut goes on as it was, and is told what it missed. */
static void job__a_worker_that_was_away_is_told_what_it_missed(void **state)
{
	(void)state;
	rig_work();
	unsigned number = rig_route()->number;
	rig_closes(12);
	rig_closes(1);
	rig_wait(50, 6);
	rig_answer_all();
	moves(0);
	moves(1);
	moves(3);
	rig_wait(500, 6);
	rig_answer_all();
	assert_int_equal(routes_in_use(), 2); /* it may still go by the old one */
	fan_ctl_opened(rig.c, rig.now_ns, 12);
	rig_say(12, "{\"join\":{\"job\":\"j\",\"rank\":2,\"ranks\":4,\"routes\":[%u]}}", number);
	assert_int_equal(rig.closed[12], false);
	moves(2);
	rig_wait(50, 6);
	rig_answer_all();
	assert_int_equal(routes_in_use(), 1);
}

static void job__a_worker_that_stays_away_is_not_waited_for(void **state)
{
	(void)state;
	rig_work();
	rig_closes(12);
	rig_closes(1);
	rig_wait(50, 6);
	rig_answer_all();
	moves(0);
	moves(1);
	moves(3);
	rig_wait(FAN_CTL_ABSENT_MS + 100, 6);
	rig_answer_all();
	assert_int_equal(routes_in_use(), 1);
}

/* Routes of an earlier controller that a worker goes by are left alone, others are not. */
static void job__strays(void **state)
{
	(void)state;
	rig_hello(0, "switch", "A", 1, "1,2,9");
	assert_int_equal(rig.c->node[0].strays, 3);
	fan_ctl_opened(rig.c, rig.now_ns, 10);
	rig_say(10, "{\"join\":{\"job\":\"j\",\"rank\":0,\"ranks\":4,\"routes\":[9]}}");
	rig_wait(31000, 1);
	assert_int_equal(rig.c->node[0].strays, 3);
	assert_null(rig_take(0, "remove"));
	assert_false(rig.closed[10]);
	rig_closes(0);
	rig_closes(10);
	rig_hello(0, "switch", "A", 1, "1,2,9");
	rig_wait(1000, 1);
	rig.now_ns += 40000 * CTL_MS; /* nobody is awake: workers can still come for them */
	rig_wait(20000, 1);
	assert_int_equal(rig.c->node[0].strays, 3);
	rig_wait(11000, 1);
	assert_int_equal(rig.c->node[0].strays, 0);
	json_t *o = rig_take(0, "remove");
	assert_non_null(o);
	json_decref(o);
	rig_hello(1, "switch", "M1", 1, "");
	rig_hello(2, "switch", "M2", 1, "");
}

static void rejoin(unsigned rank, unsigned number)
{
	fan_ctl_opened(rig.c, rig.now_ns, 10 + rank);
	rig_say(10 + rank, "{\"join\":{\"job\":\"j\",\"rank\":%u,\"ranks\":4,\"routes\":[%u]}}",
		rank, number);
}

/* A controller that knows what the one before it did mends its jobs, too. */
static void job__goes_on_under_the_next_controller(void **state)
{
	static const char *const names[] = {"A", "M1", "M2", "B", "PS", "PT"};
	char routes[16];
	(void)state;
	rig_work();
	rig_closes(1); /* so that its paths are not what would be planned first */
	rig_wait(50, 6);
	rig_answer_all();
	for (unsigned r = 0; r < 4; r++)
		moves(r);
	unsigned number = rig_route()->number;
	assert_true(rig_stops_at(rig_route(), "M2"));
	rig_restart(rig_topology);
	rejoin(0, number); /* before any daemon */
	snprintf(routes, sizeof routes, "%u", number);
	for (unsigned i = 0; i < 6; i++)
		rig_hello(i, i < 4 ? "switch" : "server", names[i], 1,
			  i < 4 && i != 1 ? routes : "");
	rig_wait(200, 6);
	rig_answer_all();
	for (unsigned r = 1; r < 4; r++)
		rejoin(r, number);
	rig_wait(50, 6);
	assert_int_equal(rig_route()->number, number);
	assert_true(rig_stops_at(rig_route(), "M2"));
	for (unsigned r = 0; r < 4; r++) {
		assert_null(rig_take(10 + r, "job"));
		assert_int_equal(rig.closed[10 + r], false);
	}
	rig_closes(2);
	rig_wait(50, 6);
	rig_answer_all();
	assert_int_not_equal(rig_route()->number, number);
	for (unsigned r = 0; r < 4; r++)
		moves(r);
	assert_int_equal(rig.c->job[0].life, 0);
}

/* Once all ranks have stayed away, parts may be cut anew: a rank that comes back later with routes
 * of the earlier controller is not taken for one of these parts. */
static void job__restored_is_not_for_ever(void **state)
{
	(void)state;
	rig_work();
	unsigned number = rig_route()->number;
	rig_restart(rig_topology);
	assert_int_equal(rig.c->job[0].state, CTL_JOB_RESTORED);
	rig_daemons();
	rig_answer_all();
	rig_wait(FAN_CTL_ABSENT_MS, 6);
	assert_int_equal(rig.c->job[0].state, CTL_JOB_FREE);
	rig_answer_all();
	rig_join(0);
	assert_int_equal(rig.c->job[0].state, CTL_JOB_BOUND);
	rejoin(1, number + 7);
	assert_int_equal(rig.c->job[0].rank[1].parts_state, CTL_PARTS_FOREIGN);
	assert_null(rig_take(11, "move"));
}

static void job__a_state_that_makes_no_sense_is_refused(void **state)
{
	static const char *const bad[] = {
		"{}",
		"{\"last\":-1,\"jobs\":[]}",
		"{\"last\":1,\"jobs\":[{\"name\":\"j\",\"bound\":true}]}",
		("{\"last\":1,\"jobs\":[{\"name\":\"j\",\"bound\":true,\"trees\":[],"
		 "\"assignments\":[],\"routes\":[70000]}]}"),
	};
	struct fan_why why;
	(void)state;
	for (unsigned i = 0; i < sizeof bad / sizeof bad[0]; i++) {
		json_t *left = json_loads(bad[i], 0, NULL);
		rig_close(NULL);
		assert_int_equal(rig_begin(rig_topology, NULL, left, &why), FAN_E_CONFIG);
		json_decref(left);
	}
}

/* A switch says no: another number is tried, a few times, and then it is told why. */
static void job__a_switch_that_refuses(void **state)
{
	(void)state;
	rig_daemons();
	rig_join(0);
	for (unsigned i = 0; i < 20; i++) {
		for (json_t *o; (o = rig_take(0, "id"));) {
			if (json_object_get(o, "install"))
				rig_say(0, "{\"error\":%lld,\"why\":\"no room\"}",
					rig_number(o, "id"));
			else
				rig_say(0, "{\"ok\":%lld}", rig_number(o, "id"));
			json_decref(o);
		}
		rig_answer(1);
		rig_answer(3);
		rig_wait(150, 6);
	}
	assert_null(rig_take(10, "job"));
	assert_true(rig_says("why j", "A refuses route"));
	assert_in_range(rig.c->job[0].refusals, 2, CTL_REFUSALS_MAX + 1);
	assert_true(routes_in_use() < 3);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		RIG_TEST(job__workers_are_told_when_all_switches_have_the_route),
		RIG_TEST(job__bad_joins_are_refused_and_harm_nobody),
		RIG_TEST(job__moves_off_a_switch_that_is_gone),
		RIG_TEST(job__a_third_plan_meanwhile),
		RIG_TEST(job__a_rack_that_comes_back_is_told_again),
		RIG_TEST(job__begins_again_when_its_aggregator_is_lost),
		RIG_TEST(job__a_worker_that_was_away_is_told_what_it_missed),
		RIG_TEST(job__a_worker_that_stays_away_is_not_waited_for),
		RIG_TEST(job__strays),
		RIG_TEST(job__goes_on_under_the_next_controller),
		RIG_TEST(job__restored_is_not_for_ever),
		RIG_TEST(job__a_state_that_makes_no_sense_is_refused),
		RIG_TEST(job__a_switch_that_refuses),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
