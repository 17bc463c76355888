/* SPDX-License-Identifier: Apache-2.0 */
/* Plans that are made apart: asked for, answered later, overtaken. */
#include "rig.h"

static unsigned begun, stopped;
static bool cannot;

static bool apart(void *ctx)
{
	(void)ctx;
	begun += !cannot;
	return !cannot;
}

static void stop_apart(void *ctx)
{
	(void)ctx;
	stopped++;
}

static int open_apart(void **state)
{
	int e = rig_open(state);
	rig.c->o.apart = apart;
	rig.c->o.stop_apart = stop_apart;
	begun = stopped = 0;
	cannot = false;
	return e;
}

static const struct ctl_job *job(void)
{
	return &rig.c->job[0];
}

static void answer(json_t *value)
{
	fan_ctl_planned(rig.c, rig.now_ns, value);
	json_decref(value);
}

static bool waits(void)
{
	return rig.c->phase == CTL_DRAFTING;
}

static void plan__lines_do_not_wait_for_it(void **state)
{
	(void)state;
	rig_daemons();
	assert_true(waits() && begun == 1);
	json_t *made = fan_ctl_draft(rig.c); /* as the copy does, whatever is said meanwhile */
	assert_int_equal(job()->parts, 0);
	rig_join(0);
	assert_true(rig_says("status", "job j: 1 of 4 ranks"));
	rig_wait(500, 6);
	assert_true(waits() && begun == 1);
	assert_true(fan_ctl_deadline(rig.c) > rig.now_ns); /* nothing is to be done */
	answer(made);
	assert_false(waits());
	assert_int_equal(job()->parts, 1);
	assert_int_equal(rig.c->plans, 1);
	rig_answer_all();
	json_t *o = rig_take(10, "job");
	assert_non_null(o);
	json_decref(o);
	answer(json_object()); /* of nobody */
	assert_int_equal(rig.c->plans, 1);
}

static void plan__is_the_same_apart_and_here(void **state)
{
	(void)state;
	rig_daemons();
	json_t *made = fan_ctl_draft(rig.c);
	char *text = json_dumps(made, 0); /* as it comes through a pipe */
	json_decref(made);
	answer(json_loads(text, 0, NULL));
	free(text);
	uint16_t number = job()->part[0].route->number;
	struct ctl_part part = job()->part[0];
	cannot = true;
	assert_true(rig_says("replan", "ok"));
	rig_wait(100, 6);
	assert_int_equal(rig.c->plans, 2);
	assert_int_equal(rig.c->wanted, CTL_MEND);
	assert_int_equal(job()->parts, 1);
	assert_int_equal(job()->part[0].route->number, number);
	assert_memory_equal(&job()->part[0].from, &part.from, 2 * sizeof part.from);
}

static void plan__that_was_overtaken_is_dropped(void **state)
{
	(void)state;
	rig_daemons();
	json_t *made = fan_ctl_draft(rig.c);
	rig_closes(1);
	answer(made); /* by M1, which is gone */
	assert_int_equal(job()->parts, 0);
	rig_wait(100, 6);
	assert_true(waits() && begun == 2 && !stopped);
	answer(fan_ctl_draft(rig.c));
	assert_int_equal(job()->parts, 1);
	assert_int_equal(rig.c->overtaken, 0);
}

static void plan__under_way_is_stopped_for_the_next(void **state)
{
	(void)state;
	rig_daemons();
	rig_closes(1);
	rig_wait(100, 6);
	assert_int_equal(stopped, 1);
	assert_int_equal(begun, 2);
	assert_true(waits());
	answer(fan_ctl_draft(rig.c));
	assert_int_equal(job()->parts, 1);
}

/* Things change faster than plans are made: one is made all the same. */
static void plan__is_made_here_in_the_end(void **state)
{
	(void)state;
	rig_daemons();
	for (unsigned i = 0; i < FAN_CTL_OVERTAKEN_MAX; i++) {
		assert_int_equal(job()->parts, 0);
		assert_true(waits());
		assert_true(rig_says("replan", "ok"));
		rig_wait(10, 6);
	}
	assert_false(waits());
	assert_int_equal(job()->parts, 1);
	assert_int_equal(rig.c->overtaken, 0);
	assert_true(rig_says("replan", "ok"));
	rig_wait(10, 6);
	assert_true(waits());
}

static void plan__without_an_answer_is_made_here(void **state)
{
	(void)state;
	cannot = true;
	rig_daemons();
	assert_int_equal(job()->parts, 1);
	cannot = false;
	assert_true(rig_says("replan", "ok"));
	rig_wait(10, 6);
	assert_true(waits());
	answer(NULL);
	assert_int_equal(rig.c->plans, 2);
}

static void plan__nonsense_is_not_taken(void **state)
{
	static const char *const answers[] = {
		"{}",
		"[]",
		"{\"jobs\":7,\"left\":[]}",
		"{\"jobs\":[\"j\"]}",
		"{\"jobs\":[\"k\"],\"left\":[]}",
		"{\"jobs\":[7],\"left\":[]}",
		"{\"jobs\":[\"j\"],\"left\":[]}",
		"{\"jobs\":[\"j\"],\"left\":[],\"trees\":[],\"assignments\":[]}",
		"{\"jobs\":[\"j\"],\"left\":[],\"trees\":[{}],\"assignments\":[]}",
	};
	(void)state;
	rig_daemons();
	for (unsigned i = 0; i < sizeof answers / sizeof answers[0]; i++) {
		assert_true(waits());
		answer(json_loads(answers[i], 0, NULL));
		assert_int_equal(rig.c->plans, i + 1);
		assert_int_equal(job()->parts, 1); /* it was made here */
		assert_true(rig_says("replan", "ok"));
		rig_wait(10, 6);
	}
}

/* While other parts are planned for it, a worker is told those that there are. */
static void plan__never_changes_parts_that_workers_know(void **state)
{
	(void)state;
	rig_daemons();
	answer(fan_ctl_draft(rig.c));
	rig_answer_all();
	assert_true(rig_says("replan", "ok"));
	rig_wait(10, 6);
	json_t *made = fan_ctl_draft(rig.c), *trees = json_object_get(made, "trees");
	json_t *half = json_deep_copy(json_array_get(trees, 0));
	json_object_set_new(json_array_get(trees, 0), "share", json_real(0.5));
	json_object_set_new(half, "share", json_real(0.5));
	json_object_set_new(half, "tree", json_integer(1));
	json_array_append_new(trees, half);
	json_t *list = json_object_get(made, "assignments");
	for (size_t i = 0, n = json_array_size(list); i < n; i++) {
		json_t *o = json_deep_copy(json_array_get(list, i));
		json_object_set_new(o, "tree", json_integer(1));
		json_array_append_new(list, o);
	}
	json_t *before = json_deep_copy(made);
	answer(made); /* nobody has been told: it may */
	assert_int_equal(job()->parts, 2);
	rig_answer_all();
	rig_join(0);
	assert_int_equal(job()->state, CTL_JOB_BOUND);
	assert_true(rig_says("replan", "ok"));
	rig_wait(10, 6);
	json_array_remove(json_object_get(before, "trees"), 1);
	answer(before);
	assert_int_equal(job()->parts, 2);
	assert_true(rig.c->plans == 3 && !waits());
}

/* Rates of the parts of InArt's example, all together. */
static double gbps_of(const char *algorithm)
{
	struct fan_why why;
	json_t *root =
		json_load_file(TEST_DATA "/../../experiments/lab/inart-example.json", 0, NULL);
	char *text = json_dumps(root, 0);
	double gbps = 0;
	unsigned conn = 0;
	assert_int_equal(rig_new(text, NULL, &why), FAN_OK);
	rig.c->o.algorithm = fan_algorithm_find(algorithm);
	for (uint32_t i = 0; i < rig.c->nodes; i++)
		if (rig.c->node[i].kind != FAN_NODE_WORKER)
			rig_hello(conn++,
				  rig.c->node[i].kind == FAN_NODE_SWITCH ? "switch" : "server",
				  rig.c->node[i].name, 1, "");
	rig_wait(200, conn);
	for (uint32_t i = 0; i < job()->parts; i++)
		gbps += job()->part[i].gbps;
	free(text);
	json_decref(root);
	rig_close(NULL);
	return gbps;
}

/* Others plan without them, and are told what is left. */
/* Where the sum of the workers at A goes, under atp, if B may sum as well; a new text. */
static char *sum_goes_to(enum fan_sums_at reading)
{
	struct fan_why why;
	char topology[sizeof rig_topology + 16];
	const char *b = strstr(rig_topology, "\"B\",\"kind\":\"switch\"");
	char *to = NULL;
	snprintf(topology, sizeof topology, "%.*s\"B\",\"gbps\":40,%s", (int)(b - rig_topology),
		 rig_topology, b + strlen("\"B\","));
	assert_int_equal(rig_new(topology, NULL, &why), FAN_OK);
	rig.c->o.algorithm = fan_algorithm_find("atp");
	rig.c->o.plan.sums_at = reading;
	rig_daemons();
	json_t *made = fan_ctl_draft(rig.c), *sum;
	size_t i;
	json_array_foreach (
		json_object_get(json_array_get(json_object_get(made, "trees"), 0), "sums"), i,
		sum) {
		const json_t *route = json_object_get(sum, "route");
		if (strcmp(json_string_value(json_object_get(sum, "switch")), "A") == 0)
			to = strdup(json_string_value(
				json_array_get(route, json_array_size(route) - 1)));
	}
	json_decref(made);
	rig_close(NULL);
	return to;
}

static void plan__sums_again_where_that_is_asked_for(void **state)
{
	(void)state;
	char *once = sum_goes_to(FAN_SUMS_NEAREST), *twice = sum_goes_to(FAN_SUMS_TWO_LEVELS);
	assert_string_equal(once, "PS");
	assert_string_equal(twice, "B");
	free(once);
	free(twice);
}

static void plan__best_counts_results(void **state)
{
	(void)state;
	double best = gbps_of("best"), paper = gbps_of("inart");
	assert_true(best > 2.66 && best < 2.67);
	assert_true(paper > 2.39 && paper < 2.41);
}

#define APART_TEST(name) cmocka_unit_test_setup_teardown(name, open_apart, rig_close)

int main(void)
{
	const struct CMUnitTest tests[] = {
		APART_TEST(plan__lines_do_not_wait_for_it),
		APART_TEST(plan__is_the_same_apart_and_here),
		APART_TEST(plan__that_was_overtaken_is_dropped),
		APART_TEST(plan__under_way_is_stopped_for_the_next),
		APART_TEST(plan__is_made_here_in_the_end),
		APART_TEST(plan__without_an_answer_is_made_here),
		APART_TEST(plan__nonsense_is_not_taken),
		APART_TEST(plan__never_changes_parts_that_workers_know),
		cmocka_unit_test(plan__best_counts_results),
		cmocka_unit_test(plan__sums_again_where_that_is_asked_for),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
