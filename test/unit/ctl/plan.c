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

/* It is of use all the same, above all where it mends. */
static void plan__under_way_goes_on_when_a_load_changes(void **state)
{
	(void)state;
	rig_daemons();
	json_t *made = fan_ctl_draft(rig.c);
	assert_true(rig_says("load {\"link\":[\"A\",\"M1\"],\"gbps\":5}", "ok"));
	rig_wait(100, 6);
	assert_true(waits() && begun == 1 && !stopped);
	answer(made);
	assert_int_equal(job()->parts, 1);
	rig_answer_all();
	rig_wait(10, 6); /* and then it is looked at */
	assert_true(waits() && begun == 2 && rig.c->goal == CTL_LOOK);
	made = fan_ctl_draft(rig.c);
	assert_true(rig_says("load {\"link\":[\"A\",\"M1\"],\"gbps\":6}", "ok"));
	answer(made);
	rig_wait(FAN_CTL_LOOK_MS - 200, 6);
	assert_true(!waits() && begun == 2 && !stopped);
	rig_wait(200, 6); /* not at once each time */
	assert_true(waits() && begun == 3 && rig.c->goal == CTL_LOOK);
	answer(fan_ctl_draft(rig.c));
	assert_int_equal(rig.c->wanted, CTL_MEND);
	rig_closes(1);
	rig_wait(100, 6);
	assert_true(waits() && begun == 4 && rig.c->goal == CTL_MEND);
	made = fan_ctl_draft(rig.c);
	assert_true(rig_says("load {\"link\":[\"A\",\"M1\"],\"gbps\":7}", "ok"));
	answer(made);
	assert_int_equal(rig.c->plans, 4);
	assert_int_equal(rig.c->overtaken, 0);
	assert_int_equal(rig.c->wanted, CTL_LOOK);
	rig_wait(FAN_CTL_LOOK_MS, 6);
	assert_true(waits() && begun == 5 && rig.c->goal == CTL_LOOK);
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

/* ---- groups ---- */

/* W1 .. W4 on A; P sums for W1 and W2, Q for W3 and W4, and R adds up; `nodes`, `links`: more. */
#define GROUPS_TOPOLOGY(nodes, links)                                                               \
	"{\"nodes\":[{\"name\":\"A\",\"kind\":\"switch\",\"gbps\":10},"                             \
	"{\"name\":\"P\",\"kind\":\"server\",\"parent\":\"R\"},"                                    \
	"{\"name\":\"Q\",\"kind\":\"server\",\"parent\":\"R\"},"                                    \
	"{\"name\":\"R\",\"kind\":\"server\"},"                                                     \
	"{\"name\":\"W1\",\"kind\":\"worker\"},{\"name\":\"W2\",\"kind\":\"worker\"},"              \
	"{\"name\":\"W3\",\"kind\":\"worker\"},{\"name\":\"W4\",\"kind\":\"worker\"}" nodes "],"    \
	"\"links\":[{\"a\":\"W1\",\"b\":\"A\",\"gbps\":10},{\"a\":\"W2\",\"b\":\"A\",\"gbps\":10}," \
	"{\"a\":\"W3\",\"b\":\"A\",\"gbps\":10},{\"a\":\"W4\",\"b\":\"A\",\"gbps\":10},"            \
	"{\"a\":\"P\",\"b\":\"A\",\"gbps\":10},{\"a\":\"Q\",\"b\":\"A\",\"gbps\":10},"              \
	"{\"a\":\"R\",\"b\":\"A\",\"gbps\":10}" links "],"                                          \
	"\"jobs\":[{\"name\":\"j\"}]}"

static const char groups_topology[] = GROUPS_TOPOLOGY("", "");

/* T and U are spare for P and Q, V for R. */
static const char spare_topology[] =
	GROUPS_TOPOLOGY(",{\"name\":\"T\",\"kind\":\"server\",\"parent\":\"V\"},"
			"{\"name\":\"U\",\"kind\":\"server\",\"parent\":\"V\"},"
			"{\"name\":\"V\",\"kind\":\"server\"}",
			",{\"a\":\"T\",\"b\":\"A\",\"gbps\":10},{\"a\":\"U\",\"b\":\"A\","
			"\"gbps\":10},{\"a\":\"V\",\"b\":\"A\",\"gbps\":10}");

enum { CONN_A, CONN_P, CONN_Q, CONN_R, DAEMONS, CONN_T = DAEMONS, CONN_U, CONN_V, ALL_DAEMONS };

static void hello_below(unsigned conn, const char *name, unsigned started, const char *above)
{
	fan_ctl_opened(rig.c, rig.now_ns, conn);
	rig_say(conn,
		"{\"hello\":\"server\",\"name\":\"%s\",\"listen\":\"%s:7\",\"shards\":1,"
		"\"slots\":64,\"started\":%u,\"routes\":[]%s}",
		name, name, started, above);
}

#define ABOVE(i) ",\"above\":{\"at\":\"R:7\",\"index\":" #i ",\"siblings\":2}"

static int groups_open(void **state)
{
	struct fan_why why;
	(void)state;
	assert_int_equal(rig_new(groups_topology, NULL, &why), FAN_OK);
	rig_hello(CONN_A, "switch", "A", 1, "");
	rig_hello(CONN_R, "server", "R", 1, "");
	return 0;
}

/* Rank `rank` of group `group` joins on connection 10 + 2 group + rank. */
static void join_group(unsigned group, unsigned rank)
{
	const unsigned conn = 10 + 2 * group + rank;
	fan_ctl_opened(rig.c, rig.now_ns, conn);
	rig_say(conn, "{\"join\":{\"job\":\"j@%u\",\"rank\":%u,\"ranks\":2}}", group, rank);
}

/* What is the part called that `conn` has been sent, by a line with `key`?  Where is it summed? */
static void sent_part(unsigned conn, const char *key, const char *name, const char *aggregator)
{
	json_t *o = rig_take(conn, key);
	assert_non_null(o);
	const json_t *parts = json_object_get(json_object_get(o, key), "parts");
	assert_int_equal(json_array_size(parts), 1);
	assert_string_equal(rig_text(json_array_get(parts, 0), "name"), name);
	assert_string_equal(rig_text(json_array_get(parts, 0), "aggregator"), aggregator);
	json_decref(o);
}

static void work_in_groups(void)
{
	hello_below(CONN_P, "P", 1, ABOVE(0));
	hello_below(CONN_Q, "Q", 1, ABOVE(1));
	rig_wait(200, DAEMONS);
	rig_answer_all();
	for (unsigned i = 0; i < 4; i++) {
		join_group(i / 2, i % 2);
		sent_part(10 + i, "job", "j/0", i < 2 ? "P:7" : "Q:7");
	}
}

/* All ranks of both groups begin again, in the same life, once `name` is back. */
static void begins_again(unsigned conn, const char *name, const char *above)
{
	rig_closes(conn);
	rig_wait(600, DAEMONS); /* FAN_CTL_BACK_MS */
	assert_int_equal(rig.c->job[0].life, 1);
	assert_int_equal(rig.c->job[1].life, 1);
	rig_wait(200, DAEMONS);
	rig_answer_all();
	for (unsigned i = 0; i < 4 && conn == CONN_R; i++) /* nobody sums without it */
		assert_null(rig_take(10 + i, "again"));
	hello_below(conn, name, 2, above);
	rig_wait(200, DAEMONS);
	rig_answer_all();
	for (unsigned i = 0; i < 4; i++)
		sent_part(10 + i, "again", "j/0~1", i < 2 ? "P:7" : "Q:7");
}

static void plan__groups_begin_again_together(void **state)
{
	(void)state;
	work_in_groups();
	assert_true(rig_says("drain R", "job \"j@0\" has no other server"));
	begins_again(CONN_R, "R", "");
}

static void plan__groups_begin_again_when_a_server_of_one_is_lost(void **state)
{
	(void)state;
	work_in_groups();
	begins_again(CONN_Q, "Q", ABOVE(1));
}

static void spares_come_but(unsigned conn)
{
	rig_hello(CONN_A, "switch", "A", 1, "");
	if (conn != CONN_R)
		rig_hello(CONN_R, "server", "R", 1, "");
	rig_hello(CONN_V, "server", "V", 1, "");
	hello_below(CONN_P, "P", 1, ABOVE(0));
	if (conn != CONN_Q)
		hello_below(CONN_Q, "Q", 1, ABOVE(1));
	hello_below(CONN_T, "T", 1, ",\"above\":{\"at\":\"V:7\",\"index\":0,\"siblings\":2}");
	hello_below(CONN_U, "U", 1, ",\"above\":{\"at\":\"V:7\",\"index\":1,\"siblings\":2}");
	rig_wait(200, ALL_DAEMONS);
	rig_answer_all();
}

static void spares_hello(void)
{
	spares_come_but(CONN_A + ALL_DAEMONS); /* nobody's */
}

static void all_go_to(const char *key, const char *name, const char *first, const char *second)
{
	rig_wait(200, ALL_DAEMONS);
	rig_answer_all();
	for (unsigned i = 0; i < 4; i++)
		sent_part(10 + i, key, name, i < 2 ? first : second);
}

static void spares_begin(void)
{
	struct fan_why why;
	rig_close(NULL);
	assert_int_equal(rig_new(spare_topology, NULL, &why), FAN_OK);
	spares_hello();
}

/* A server of one group, then a parent is taken out, and a server is lost: all go together. */
static void plan__groups_begin_again_below_another_parent(void **state)
{
	(void)state;
	spares_begin();
	for (unsigned i = 0; i < 4; i++)
		join_group(i / 2, i % 2);
	all_go_to("job", "j/0", "P:7", "Q:7");
	assert_true(rig_says("drain Q", "ok"));
	all_go_to("again", "j/0~1", "T:7", "U:7");
	assert_true(rig_says("drain T", "job \"j@0\" has no other server"));
	assert_true(rig_says("undrain Q", "ok"));
	rig_wait(300, ALL_DAEMONS);
	assert_null(rig_take(10, "again")); /* who has begun below V stays there */
	assert_true(rig_says("drain V", "ok"));
	all_go_to("again", "j/0~2", "P:7", "Q:7");
	assert_true(rig_says("undrain V", "ok"));
	rig_say(CONN_P, "{\"stopping\":true}");
	all_go_to("again", "j/0~3", "T:7", "U:7");
	rig_closes(CONN_V);
	rig_wait(600, 1);
	assert_true(rig_says("why j", "no parent of its 2 servers is there with all who sum"));
}

/* The next controller leaves groups below the parent at which they have begun. */
static void plan__groups_stay_below_their_parent_under_the_next_controller(void **state)
{
	(void)state;
	spares_begin();
	assert_true(rig_says("drain R", "ok"));
	for (unsigned i = 0; i < 4; i++)
		join_group(i / 2, i % 2);
	all_go_to("job", "j/0~1", "T:7", "U:7");
	assert_true(rig_says("undrain R", "ok"));
	rig_restart(spare_topology);
	spares_hello();
	for (unsigned i = 0; i < 2; i++)
		assert_string_equal(rig.c->node[rig.c->job[i].part[0].server].name, i ? "U" : "T");
}

/* Their parent, or a server below it, has gone while there was no controller. */
static void plan__groups_go_to_the_spare_where_the_next_controller_misses_one(void **state)
{
	static const unsigned gone[] = {CONN_R, CONN_Q};
	(void)state;
	for (unsigned k = 0; k < 2; k++) {
		spares_begin();
		for (unsigned i = 0; i < 4; i++)
			join_group(i / 2, i % 2);
		all_go_to("job", "j/0", "P:7", "Q:7");
		rig_restart(spare_topology);
		spares_come_but(gone[k]);
		for (unsigned i = 0; i < 2; i++)
			assert_int_equal(rig.c->job[i].parts, 0);
		rig_wait(5000, ALL_DAEMONS); /* enough was waited */
		for (unsigned i = 0; i < 4; i++)
			join_group(i / 2, i % 2);
		all_go_to("job", "j/0~1", "T:7", "U:7");
	}
}

/* What is added up twice, or elsewhere, would be wrong, or never whole. */
static void plan__groups_need_servers_with_their_parent(void **state)
{
	static const char *const above[] = {
		"", ABOVE(1), ",\"above\":{\"at\":\"X:7\",\"index\":0,\"siblings\":2}",
		",\"above\":{\"at\":\"R:7\",\"index\":0,\"siblings\":3}"};
	(void)state;
	hello_below(CONN_Q, "Q", 1, ABOVE(1));
	for (unsigned i = 0; i < sizeof above / sizeof *above; i++) {
		hello_below(CONN_P, "P", 1 + i, above[i]);
		rig_wait(200, DAEMONS);
		assert_int_equal(rig.c->job[0].parts, 0);
		assert_true(rig_says("why j", "start it with --parent R:7 --siblings 2 --index 0"));
		rig_closes(CONN_P);
		rig_wait(600, DAEMONS);
	}
	hello_below(CONN_P, "P", 9, ABOVE(0));
	rig_wait(200, DAEMONS);
	assert_int_equal(rig.c->job[0].parts, 1);
	hello_below(CONN_P + 20, "P", 10, ",\"above\":{\"at\":\"R:7\",\"index\":2,\"siblings\":2}");
	assert_true(rig_refused(CONN_P + 20, "expected above with at, index, siblings"));
}

static void plan__groups_are_admitted_and_ended_together(void **state)
{
	static const char again[] = "admit {\"name\":\"k\"}";
	(void)state;
	work_in_groups();
	assert_true(rig_says(again, "ok"));
	assert_true(rig_says(again, "job \"k\" is there already"));
	assert_true(rig_says("admit {\"name\":\"k@1\"}", "job \"k@1\" is there already"));
	assert_true(ctl_job_named(rig.c, "k@0") != CTL_NONE);
	assert_true(ctl_job_named(rig.c, "k@1") != CTL_NONE);
	assert_true(rig_says("end k", "ok"));
	assert_int_equal(ctl_job_named(rig.c, "k@0"), CTL_NONE);
	assert_int_equal(ctl_job_named(rig.c, "k@1"), CTL_NONE);
	assert_true(rig_says("end k", "no job \"k\""));
	assert_true(rig_says("why j", "part 0: 100.00 % to Q"));
}

#define GROUPS_TEST(name) cmocka_unit_test_setup_teardown(name, groups_open, rig_close)

int main(void)
{
	const struct CMUnitTest tests[] = {
		APART_TEST(plan__lines_do_not_wait_for_it),
		APART_TEST(plan__is_the_same_apart_and_here),
		APART_TEST(plan__that_was_overtaken_is_dropped),
		APART_TEST(plan__under_way_is_stopped_for_the_next),
		APART_TEST(plan__under_way_goes_on_when_a_load_changes),
		APART_TEST(plan__is_made_here_in_the_end),
		APART_TEST(plan__without_an_answer_is_made_here),
		APART_TEST(plan__nonsense_is_not_taken),
		APART_TEST(plan__never_changes_parts_that_workers_know),
		cmocka_unit_test(plan__best_counts_results),
		cmocka_unit_test(plan__sums_again_where_that_is_asked_for),
		GROUPS_TEST(plan__groups_begin_again_together),
		GROUPS_TEST(plan__groups_begin_again_when_a_server_of_one_is_lost),
		GROUPS_TEST(plan__groups_begin_again_below_another_parent),
		GROUPS_TEST(plan__groups_go_to_the_spare_where_the_next_controller_misses_one),
		GROUPS_TEST(plan__groups_stay_below_their_parent_under_the_next_controller),
		GROUPS_TEST(plan__groups_need_servers_with_their_parent),
		GROUPS_TEST(plan__groups_are_admitted_and_ended_together),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
