/* SPDX-License-Identifier: Apache-2.0 */
#include "rig.h"

static char *ask(const char *question)
{
	return fan_ctl_ask(rig.c, rig.now_ns, question, strlen(question));
}

static void command__status_says_what_is_there(void **state)
{
	(void)state;
	rig_work();
	assert_true(rig_says("status", "switch A: up"));
	assert_true(rig_says("status", "job j: 4 of 4 ranks, routes are there"));
	assert_true(rig_says("why j", "all daemons are there"));
	assert_true(rig_says("why j", "A: 2 ranks from workers, summed, to M1"));
	assert_true(rig_says("why k", "error: no job \"k\""));
	assert_true(rig_says("hello", "error: \"hello\": expected status"));
	assert_true(rig_says("", "error: "));
	char *text = ask("status json");
	json_t *o = json_loads(text, 0, NULL);
	assert_non_null(o);
	assert_int_equal(json_array_size(json_object_get(o, "nodes")), 10);
	const json_t *job = json_array_get(json_object_get(o, "jobs"), 0);
	assert_int_equal(rig_number(job, "joined"), 4);
	const json_t *part = json_array_get(json_object_get(job, "parts"), 0);
	assert_string_equal(rig_text(part, "server"), "PS");
	assert_int_equal(rig_number(part, "moved"), 4);
	json_decref(o);
	free(text);
}

/* A name of e acutes, which a bound in bytes cuts in the middle of one. */
static const char *acutes(unsigned count)
{
	static char text[401];
	for (unsigned i = 0; i < count; i++)
		snprintf(text + 2 * i, 3, "\xc3\xa9");
	return text;
}

static void command__what_strangers_write_stays_one_line(void **state)
{
	(void)state;
	rig_daemons();
	rig_hello(20, "switch", "S1\\n2026-11-28T00:00:00.000Z S1 is gone\\u001b[2J\\u009b", 1, "");
	assert_true(rig_refused(20, "no node \"S1?2026-11-28T00:00:00.000Z S1 is gone?[2J??\""));
	assert_true(rig_noted("gone?[2J??"));
	rig_hello(21, "switch", acutes(35), 1, "");
	assert_true(rig_refused(21, "\xc3\xa9?\" in t.json"));
	for (unsigned i = 0; i < 6; i++) {
		json_t *o = rig_take(i, "id");
		if (o)
			rig_say(i, "{\"error\":%lld,\"why\":\"\\u001b]0;x\\u0007%s\"}",
				rig_number(o, "id"), acutes(150));
		json_decref(o);
	}
	char *text = ask("status json");
	json_t *o = json_loads(text, 0, NULL);
	const json_t *job = json_array_get(json_object_get(o, "jobs"), 0);
	assert_true(rig_has(rig_text(job, "why"), "refuses route 1: ?]0;x?\xc3\xa9"));
	assert_int_equal(json_array_size(json_object_get(o, "events")), rig.c->events);
	json_decref(o);
	free(text);
}

static void command__a_plan_can_be_taken_out_and_given_back(void **state)
{
	struct fan_why why;
	(void)state;
	rig_work();
	char *text = ask("plan json");
	json_t *plan = json_loads(text, 0, NULL);
	assert_non_null(plan);
	free(text);
	rig_close(NULL);
	assert_int_equal(rig_new(rig_topology, plan, &why), FAN_OK);
	rig_work();
	assert_true(rig_says("why j", "the plan that was given"));
	/* ...but not one with a node that there is not */
	json_t *tree = json_array_get(json_object_get(plan, "trees"), 0);
	json_object_set_new(tree, "server", json_string("XX"));
	rig_close(NULL);
	assert_int_equal(rig_new(rig_topology, plan, &why), FAN_E_CONFIG);
	assert_true(rig_has(why.text, "trees[0].server: no node \"XX\""));
	json_decref(plan);
}

static void command__plans_that_do_not_fit_harm_nobody(void **state)
{
	static const char *const orders[] = {
		"install",
		"install 7",
		"install {}",
		"install {\"trees\":[],\"assignments\":[]}",
		"install {\"trees\":[{\"tree\":0,\"job\":\"j\",\"server\":\"PT\",\"share\":1,\"sums\":[]}],"
		"\"assignments\":[]}",
		"install {\"trees\":[{\"tree\":0,\"job\":\"x\",\"server\":\"PS\",\"share\":1,\"sums\":[]}],"
		"\"assignments\":[]}",
	};
	(void)state;
	rig_work();
	struct ctl_route *r = rig.c->job[0].part[0].route;
	for (unsigned i = 0; i < sizeof orders / sizeof orders[0]; i++)
		assert_true(rig_says(orders[i], "error: "));
	rig_wait(100, 6);
	assert_ptr_equal(rig.c->job[0].part[0].route, r);
	assert_null(rig_take(10, "move"));
}

/* A path that leads in a circle, with a link that is passed twice in one direction. */
static void command__circles_are_refused(void **state)
{
	(void)state;
	rig_work();
	char *text = ask("plan json");
	json_t *plan = json_loads(text, 0, NULL);
	free(text);
	json_t *list = json_object_get(plan, "assignments");
	for (size_t i = 0; i < json_array_size(list); i++) {
		json_t *o = json_array_get(list, i);
		if (strcmp(rig_text(o, "worker"), "W1") == 0) {
			json_object_set_new(o, "at", json_string("PS"));
			json_object_set_new(o, "route",
					    json_pack("[ssssssss]", "W1", "A", "M1", "B", "M2", "A",
						      "M1", "B"));
			json_array_append_new(json_object_get(o, "route"), json_string("PS"));
		}
	}
	char *packed = json_dumps(plan, JSON_COMPACT), order[8192];
	snprintf(order, sizeof order, "install %s", packed);
	free(packed);
	json_decref(plan);
	assert_true(rig_says(order, "error: "));
	assert_true(rig_says(order, "twice"));
}

static void command__jobs_come_and_go(void **state)
{
	(void)state;
	rig_work();
	uint16_t number = rig.c->job[0].part[0].route->number;
	assert_true(rig_says(
		"admit {\"name\":\"k\",\"workers\":[\"W1\",\"W3\"],\"servers\":[\"PS\"]}", "ok"));
	rig_wait(20, 6);
	rig_answer_all();
	assert_true(rig_says("status", "job k: 0 of 2 ranks, routes are there"));
	assert_int_equal(rig.c->job[0].part[0].route->number, number); /* bound: it stays */
	fan_ctl_opened(rig.c, rig.now_ns, 30);
	rig_say(30, "{\"join\":{\"job\":\"k\",\"rank\":1,\"ranks\":2}}");
	json_t *o = rig_take(30, "job");
	assert_non_null(o);
	json_decref(o);
	assert_true(
		rig_says("admit {\"name\":\"k\",\"workers\":[\"W1\",\"W3\"],\"servers\":[\"PS\"]}",
			 "error: job \"k\" is there already"));
	assert_true(
		rig_says("admit {\"name\":\"l\",\"workers\":[\"W1\",\"X\"],\"servers\":[\"PS\"]}",
			 "no node \"X\""));
	assert_true(rig_says("admit nonsense", "error: "));
	assert_true(rig_says("end k", "ok"));
	assert_true(rig_refused(30, "job \"k\" has ended"));
	assert_true(rig_says("end k", "error: no job \"k\""));
	rig_wait(FAN_CTL_LINGER_MS + 100, 6);
	rig_answer_all();
	assert_true(rig_says(
		"admit {\"name\":\"m\",\"workers\":[\"W1\",\"W3\"],\"servers\":[\"PS\"]}", "ok"));
	assert_int_equal(rig.c->jobs, 2); /* in the place that is free */
}

static void command__too_many_workers_are_refused(void **state)
{
	struct fan_why why;
	json_t *root = json_loads(rig_topology, 0, NULL);
	json_t *nodes = json_object_get(root, "nodes"), *links = json_object_get(root, "links");
	(void)state;
	for (unsigned i = 0; i < 300; i++) {
		char name[16];
		snprintf(name, sizeof name, "V%u", i);
		json_array_append_new(nodes, json_pack("{ssss}", "name", name, "kind", "worker"));
		json_array_append_new(links,
				      json_pack("{ssss si}", "a", name, "b", "B", "gbps", 1));
	}
	json_object_del(root, "jobs");
	char *text = json_dumps(root, 0);
	json_decref(root);
	rig_close(NULL);
	assert_int_equal(rig_new(text, NULL, &why), FAN_E_CONFIG);
	assert_true(rig_has(why.text, "has 304 workers: expected 2 to 256"));
	free(text);
}

/* Ways may be looked for again while workers are at work; parts stay. */
static void command__replan_keeps_parts(void **state)
{
	(void)state;
	rig_work();
	uint64_t to = rig.c->job[0].part[0].to;
	assert_true(rig_says("replan", "ok"));
	rig_wait(50, 6);
	assert_int_equal(rig.c->job[0].parts, 1);
	assert_int_equal(rig.c->job[0].part[0].to, to);
	assert_true(rig_says("why j", "it was asked for"));
	assert_int_equal(rig.c->job[0].life, 0);
}

/* Threads that do not fit each other are told of, and nobody is sent there. */
static void command__threads_must_be_the_same(void **state)
{
	(void)state;
	rig_hello(0, "switch", "A", 1, "");
	rig_hello(1, "switch", "M1", 1, "");
	rig_hello(2, "switch", "M2", 1, "");
	rig_hello(3, "switch", "B", 1, "");
	rig_hello(5, "server", "PT", 1, "");
	fan_ctl_opened(rig.c, rig.now_ns, 4);
	rig_say(4, "{\"hello\":\"server\",\"name\":\"PS\",\"listen\":\"PS:7\",\"shards\":2,"
		   "\"slots\":64,\"started\":1,\"routes\":[]}");
	rig_join(0);
	rig_wait(200, 6);
	assert_int_equal(rig_answer(0), 0);
	assert_true(rig_says("why j", "start all with the same --threads"));
	assert_null(rig_take(10, "job"));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		RIG_TEST(command__status_says_what_is_there),
		RIG_TEST(command__what_strangers_write_stays_one_line),
		RIG_TEST(command__a_plan_can_be_taken_out_and_given_back),
		RIG_TEST(command__plans_that_do_not_fit_harm_nobody),
		RIG_TEST(command__circles_are_refused),
		RIG_TEST(command__jobs_come_and_go),
		RIG_TEST(command__too_many_workers_are_refused),
		RIG_TEST(command__replan_keeps_parts),
		RIG_TEST(command__threads_must_be_the_same),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
