/* SPDX-License-Identifier: Apache-2.0 */
#include "unit/unit.h"

#include "plan/algorithm.h"
#include "rig.h"

#define GOOD_NODES                                                                                 \
	"\"nodes\":[{\"name\":\"W1\",\"kind\":\"worker\"},"                                        \
	"{\"name\":\"S1\",\"kind\":\"switch\",\"gbps\":5},"                                        \
	"{\"name\":\"PS\",\"kind\":\"server\",\"gbps\":5}]"
#define LINK(a, b)   "{\"a\":\"" a "\",\"b\":\"" b "\",\"gbps\":3}"
#define GOOD_LINKS   "\"links\":[" LINK("W1", "S1") "," LINK("S1", "PS") "]"
#define NODE(inside) "{\"nodes\":[{" inside "}],\"links\":[]}"
#define LINKS(list)  "{" GOOD_NODES ",\"links\":[" list "]}"
#define JOBS(list)   "{" GOOD_NODES "," GOOD_LINKS ",\"jobs\":[" list "]}"

static const struct {
	const char *text, *why;
} bad[] = {
	{"", "line 1, column 0: not JSON"},
	{"[1,2", "not JSON"},
	{"{\"nodes\":[],\"nodes\":[]}", "duplicate object key"},
	{"[]", "expected an object with nodes and links"},
	{"{}", "nodes: expected a list, got nothing"},
	{"{\"nodes\":7}", "nodes: expected a list, got 7"},
	{"{\"nodes\":[7]}", "nodes[0]: expected an object, got 7"},
	{NODE("\"kind\":\"worker\""), "nodes[0].name: expected a name of 1 to 63 bytes"},
	{NODE("\"name\":\"\",\"kind\":\"worker\""), "nodes[0].name: expected a name"},
	{NODE("\"name\":\"a\\u001b[31m\\u009b\",\"kind\":\"worker\""),
	 "nodes[0].name: \"a?[31m??\": expected a name without control characters"},
	{NODE("\"name\":\"x\",\"kind\":\"router\""),
	 "nodes[0].kind: expected \"worker\", \"switch\" or \"server\", got \"router\""},
	{NODE("\"name\":\"x\",\"kind\":\"switch\",\"gbps\":\"ten\""),
	 "nodes[0].gbps: expected a number above 0, got \"ten\""},
	{NODE("\"name\":\"x\",\"kind\":\"switch\",\"gbps\":0"),
	 "nodes[0].gbps: expected a number above 0, got 0; leave it out"},
	{NODE("\"name\":\"x\",\"kind\":\"switch\",\"gbps\":-1"), "got -1"},
	{NODE("\"name\":\"x\",\"kind\":\"switch\",\"gbps\":1e300"), "got 1e+300"},
	{NODE("\"name\":\"x\",\"kind\":\"switch\",\"gbps\":3,\"background_gbps\":3"),
	 "nodes[0].background_gbps: 3 of 3 Gb/s are in use"},
	{"{\"nodes\":[{\"name\":\"x\",\"kind\":\"worker\"},{\"name\":\"x\",\"kind\":\"server\"}]}",
	 "nodes[1].name: \"x\" is the name of nodes[0] already"},
	{"{\"nodes\":[{\"name\":\"x\",\"kind\":\"worker\"}]}", "nodes: no server among them"},
	{"{\"nodes\":[{\"name\":\"x\",\"kind\":\"server\"}]}", "nodes: no worker among them"},
	{LINKS(LINK("W1", "S9")), "links[0].b: no node \"S9\""},
	{LINKS("{\"a\":\"W1\",\"b\":\"S1\"}"),
	 "links[0].gbps: expected a number above 0, got nothing"},
	{LINKS("{\"a\":\"W1\",\"b\":\"S1\",\"gbps\":0}"),
	 "links[0].gbps: expected a number above 0, got 0"},
	{LINKS("{\"a\":4,\"b\":\"S1\",\"gbps\":1}"),
	 "links[0].a: expected the name of a node, got 4"},
	{LINKS(LINK("S1", "S1")), "links[0].b: a link from \"S1\" to itself"},
	{LINKS(LINK("W1", "S1") ",{\"a\":\"W1\",\"b\":\"S1\",\"gbps\":2,\"directed\":1}"),
	 "links[1].directed: expected true or false, got 1"},
	{"{\"nodes\":[],\"links\":[]}", "nodes: there is none: the file is blank"},
	{"{" GOOD_NODES "," GOOD_LINKS ",\"job\":[]}", "job: no such key; did you mean \"jobs\"?"},
	{NODE("\"name\":\"x\",\"kind\":\"switch\",\"gpbs\":100"),
	 "nodes[0].gpbs: no such key; did you mean \"gbps\"?"},
	{LINKS("{\"a\":\"W1\",\"b\":\"S1\",\"gbps\":2,\"loss\":1}"), "links[0].loss: no such key"},
	{JOBS("{\"name\":\"a\",\"wieght\":3}"),
	 "jobs[0].wieght: no such key; did you mean \"weight\"?"},
	{LINKS(LINK("W1", "S1")), "worker \"W1\" (nodes[0]) cannot reach server \"PS\" (nodes[2])"},
	{LINKS("{\"a\":\"W1\",\"b\":\"S1\",\"gbps\":2,\"delay_us\":-1}"), "links[0].delay_us"},
	{LINKS("{\"a\":\"W1\",\"b\":\"S1\",\"gbps\":2,\"background_gbps\":2}"),
	 "links[0].background_gbps: 2 of 2 Gb/s are in use"},
	{JOBS("{}"), "jobs[0].name"},
	{JOBS(""), "jobs: there is none"},
	{JOBS("{\"name\":\"a\",\"workers\":[]}"), "jobs[0].workers: no worker"},
	{JOBS("{\"name\":\"a\",\"servers\":[]}"), "jobs[0].servers: no server"},
	{JOBS("{\"name\":\"a\",\"workers\":\"W1\"}"), "jobs[0].workers: expected a list of names"},
	{JOBS("{\"name\":\"a\",\"workers\":[\"S1\"]}"),
	 "jobs[0].workers[0]: \"S1\" is a switch, not a worker"},
	{JOBS("{\"name\":\"a\",\"workers\":[\"W1\",\"W1\"]}"),
	 "jobs[0].workers[1]: \"W1\" is workers[0] already"},
	{JOBS("{\"name\":\"a\",\"workers\":[null]}"), "jobs[0].workers[0]: expected the name"},
	{JOBS("{\"name\":\"a\",\"weight\":0}"), "jobs[0].weight: expected a number above 0"},
	{JOBS("{\"name\":\"a\",\"demand_gbps\":true}"), "jobs[0].demand_gbps: expected a number"},
	{JOBS("{\"name\":\"a\"},{\"name\":\"a\"}"), "jobs[1].name: \"a\" is the name of jobs[0]"},
};

#define SERVER(name, more) ",{\"name\":\"" name "\",\"kind\":\"server\"" more "}"
#define BELOW(parent)	   ",\"parent\":\"" parent "\""
#define WORKER(name)	   ",{\"name\":\"" name "\",\"kind\":\"worker\"}"
/* W1 .. W4 and the servers of `servers` on S, whose links are to be told. */
#define GROUPS(servers, links, jobs)                                                               \
	"{\"nodes\":[{\"name\":\"S\",\"kind\":\"switch\",\"gbps\":5}" WORKER("W1") WORKER("W2")    \
		WORKER("W3") WORKER("W4") servers "],\"links\":[" LINK("W1", "S") "," LINK(        \
			"W2", "S") "," LINK("W3", "S") "," LINK("W4", "S") links                   \
		"],\"jobs\":[" jobs "]}"
#define PQR	  SERVER("P", BELOW("R")) SERVER("Q", BELOW("R")) SERVER("R", "")
#define PQR_LINKS "," LINK("P", "S") "," LINK("Q", "S") "," LINK("R", "S")

static const struct {
	const char *text, *why;
} bad_groups[] = {
	{GROUPS(SERVER("P", BELOW("S")), "", ""),
	 "nodes[5].parent: expected another server's name"},
	{GROUPS(SERVER("P", BELOW("P")), "", ""),
	 "nodes[5].parent: expected another server's name"},
	{GROUPS(SERVER("P", BELOW("X")), "", ""), "nodes[5].parent: no node \"X\""},
	{GROUPS(SERVER("P", BELOW("Q")) SERVER("Q", BELOW("R")) SERVER("R", ""), "", ""),
	 "nodes[5].parent: \"Q\" has a parent itself"},
	{GROUPS(PQR, PQR_LINKS, "{\"name\":\"j\",\"servers\":[\"P\"]}"),
	 "jobs[0].servers: 1 of the 2 whose parent is \"R\""},
	{GROUPS(PQR, PQR_LINKS, "{\"name\":\"j\",\"servers\":[\"P\",\"R\"]}"),
	 "jobs[0].servers[1]: \"R\" has no parent, as others have"},
	{GROUPS(PQR, PQR_LINKS, "{\"name\":\"j\",\"workers\":[\"W1\",\"W2\",\"W3\"]}"),
	 "jobs[0].workers: 3 for 2 servers below \"R\""},
	{GROUPS(PQR, PQR_LINKS, "{\"name\":\"j\",\"workers\":[\"W1\",\"W2\"]}"),
	 "jobs[0].workers: 2 for 2 servers below \"R\""},
	{GROUPS(PQR, PQR_LINKS, "{\"name\":\"j\"},{\"name\":\"j@1\",\"servers\":[\"R\"]}"),
	 "jobs[1].name: \"j@1\" is the name of a group of \"j\""},
	{GROUPS(PQR SERVER("X", BELOW("Y")) SERVER("Y", ""),
		PQR_LINKS "," LINK("X", "S") "," LINK("Y", "S"), "{\"name\":\"j\"}"),
	 "jobs[0].servers: 1 have the parent \"Y\", others 2: expected as many"},
	{GROUPS(PQR, PQR_LINKS, "{\"name\":\"j\",\"servers\":[\"R\"],\"spares\":[\"Q\"]}"),
	 "jobs[0].spares: not of a group"},
	{GROUPS(PQR, PQR_LINKS, "{\"name\":\"j@0\",\"servers\":[\"P\"],\"group\":[2,2]}"),
	 "jobs[0].group: expected as fanin plan --topology writes it"},
};

TEST(topo_json__groups_that_cannot_be_are_refused)
{
	for (unsigned i = 0; i < sizeof bad_groups / sizeof *bad_groups; i++) {
		struct fan_topo t;
		struct fan_why why;
		const char *text = bad_groups[i].text;
		int err = fan_topo_parse(&t, text, strlen(text), &why);
		if (err != FAN_E_CONFIG || !strstr(why.text, bad_groups[i].why))
			fail_msg("%s\n  said %d \"%s\"\n  not \"%s\"", text, err, why.text,
				 bad_groups[i].why);
	}
}

/* Runs of the workers in the job's order, each with the server of that number, and the same after a
 * round trip. */
TEST(topo_json__a_job_whose_servers_have_a_parent_is_split)
{
	/* T, U below V are spare, in whatever order they are named. */
	static const char text[] =
		GROUPS(PQR SERVER("T", BELOW("V")) SERVER("U", BELOW("V")) SERVER("V", ""),
		       PQR_LINKS "," LINK("T", "S") "," LINK("U", "S") "," LINK("V", "S"),
		       "{\"name\":\"j\",\"weight\":2,\"servers\":[\"Q\",\"U\",\"T\",\"P\"]},"
		       "{\"name\":\"k\",\"servers\":[\"R\"]}");
	struct fan_topo t;
	struct fan_why why;
	assert_int_equal(fan_topo_parse(&t, text, strlen(text), &why), FAN_OK);
	for (unsigned pass = 0; pass < 2; pass++) {
		assert_int_equal(t.jobs, 3);
		static const char *const names[] = {"j@0", "k", "j@1"};
		for (uint32_t j = 0; j < 3; j++) {
			const struct fan_job *job = &t.job[j];
			assert_string_equal(job->name, names[j]);
			assert_int_equal(job->groups, j == 1 ? 0 : 2);
			assert_int_equal(job->group, j == 2);
			assert_int_equal(job->workers, j == 1 ? 4 : 2);
			assert_int_equal(job->worker[0], rig_node(&t, j == 2 ? "W3" : "W1"));
			assert_int_equal(job->servers, 1);
			assert_int_equal(job->server[0], rig_node(&t, j == 0   ? "Q"
								      : j == 1 ? "R"
									       : "P"));
			assert_int_equal(job->spares, j != 1);
			if (j != 1)
				assert_int_equal(job->server[1], rig_node(&t, j ? "T" : "U"));
			assert_near(job->weight, j == 1 ? 1 : 2, 0);
		}
		assert_int_equal(t.node[rig_node(&t, "P")].parent, rig_node(&t, "R"));
		json_t *o = fan_topo_to_json(&t);
		fan_topo_free(&t);
		assert_int_equal(fan_topo_from_json(&t, o, &why), FAN_OK);
		json_decref(o);
	}
	fan_topo_free(&t);
}

TEST(topo_json__refuses_with_path_and_cause)
{
	for (unsigned i = 0; i < sizeof bad / sizeof bad[0]; i++) {
		struct fan_topo t;
		struct fan_why why;
		int err = fan_topo_parse(&t, bad[i].text, strlen(bad[i].text), &why);
		if (err != FAN_E_CONFIG || !strstr(why.text, bad[i].why))
			fail_msg("%s\n  said %d \"%s\"\n  not \"%s\"", bad[i].text, err, why.text,
				 bad[i].why);
		assert_int_equal(t.nodes, 0);
	}
}

TEST(topo_json__one_job_of_all_unless_told)
{
	struct fan_topo t = rig_load("inart-example");
	assert_int_equal(t.jobs, 1);
	assert_int_equal(t.job[0].workers, 6);
	assert_int_equal(t.job[0].servers, 2);
	assert_near(t.job[0].weight, 1, 0);
	fan_topo_free(&t);
}

TEST(topo_json__jobs_as_told)
{
	struct fan_topo t;
	struct fan_why why;
	const char *text = JOBS("{\"name\":\"a\",\"workers\":[\"W1\"],\"weight\":2,"
				"\"demand_gbps\":0.5},{\"name\":\"b\"}");
	assert_int_equal(fan_topo_parse(&t, text, strlen(text), &why), FAN_OK);
	assert_int_equal(t.jobs, 2);
	assert_near(t.job[0].weight, 2, 0);
	assert_near(t.job[0].demand_gbps, 0.5, 0);
	assert_int_equal(t.job[1].workers, 1);
	fan_topo_free(&t);
}

/* Cables side by side are one link; of directed ones, each direction adds up alone. */
TEST(topo_json__links_side_by_side_are_one)
{
	static const struct {
		const char *first, *second;
		double gbps;
	} pair[] = {
		{LINK("W1", "S1"), LINK("S1", "W1"), 6},
		{"{\"a\":\"W1\",\"b\":\"S1\",\"gbps\":3,\"directed\":true}",
		 "{\"a\":\"S1\",\"b\":\"W1\",\"gbps\":3,\"directed\":true}", 3},
		{"{\"a\":\"W1\",\"b\":\"S1\",\"gbps\":3,\"directed\":true}",
		 "{\"a\":\"S1\",\"b\":\"W1\",\"gbps\":2,\"directed\":true}", 2},
		{"{\"a\":\"W1\",\"b\":\"S1\",\"gbps\":3,\"directed\":true}",
		 "{\"a\":\"W1\",\"b\":\"S1\",\"gbps\":1,\"directed\":true}", 4},
		{"{\"a\":\"W1\",\"b\":\"S1\",\"gbps\":3,\"directed\":true}", LINK("W1", "S1"), 3},
	};
	for (unsigned i = 0; i < sizeof pair / sizeof pair[0]; i++) {
		char text[1024];
		struct fan_topo t;
		struct fan_why why;
		snprintf(text, sizeof text, LINKS("%s,%s," LINK("S1", "PS")), pair[i].first,
			 pair[i].second);
		if (fan_topo_parse(&t, text, strlen(text), &why))
			fail_msg("%s: %s", text, why.text);
		assert_int_equal(t.links, 2);
		assert_near(t.link[0].gbps, pair[i].gbps, 1e-12);
		fan_topo_free(&t);
	}
}

TEST(topo_json__the_same_after_a_round_trip)
{
	struct fan_topo t = rig_make("fat-tree:k=4,workers=9,servers=2,programmable=0.5,seed=7"), u;
	struct fan_why why;
	t.node[3].gbps = 50;
	t.node[3].background_gbps = 20;
	fan_topo_refresh(&t);
	json_t *o = fan_topo_to_json(&t);
	assert_int_equal(fan_topo_from_json(&u, o, &why), FAN_OK);
	json_decref(o);
	assert_int_equal(t.nodes, u.nodes);
	assert_int_equal(t.links, u.links);
	assert_memory_equal(t.node, u.node, t.nodes * sizeof *t.node);
	assert_memory_equal(t.out, u.out, 2 * t.links * sizeof *t.out);
	assert_memory_equal(t.cap, u.cap, fan_topo_resources(&t) * sizeof *t.cap);
	fan_topo_free(&t);
	fan_topo_free(&u);
}

/* ---- graphml ---- */

TEST(graphml__names_kinds_and_rates)
{
	static char text[RIG_FILE_BYTES];
	struct fan_topo t;
	struct fan_why why = {""};
	FILE *f = fopen(TEST_DATA "/triangle.graphml", "r");
	assert_non_null(f);
	size_t bytes = fread(text, 1, sizeof text, f);
	fclose(f);
	assert_true(fan_graphml_is(text, bytes));
	json_t *o = fan_graphml_to_json(text, bytes, &why);
	assert_non_null(o);
	if (fan_topo_from_json(&t, o, &why))
		fail_msg("%s", why.text);
	json_decref(o);
	assert_int_equal(t.nodes, 6);
	assert_int_equal(t.links, 6);
	assert_true(fan_node_sums(&t, rig_node(&t, "Wien")));
	assert_false(fan_node_sums(&t, rig_node(&t, "Graz")));
	assert_int_equal(t.node[rig_node(&t, "PS")].kind, FAN_NODE_SERVER);
	assert_near(t.link[2].gbps, 2.5, 1e-12);
	struct fan_planned how = {0};
	struct fan_plan p;
	assert_int_equal(fan_best(&t, &fan_plan_defaults, &p, &how), FAN_OK);
	assert_near(fan_eval_gbps(&t, &p), 10, 1e-6); /* over Graz, and Linz's own link */
	fan_plan_free(&p);
	fan_topo_free(&t);
}

/* A network of two switches in a file that has these edges. */
static double rate_of(const char *edges, const char *direction)
{
	char text[1024];
	struct fan_topo t;
	struct fan_why why = {""};
	struct fan_attach a;
	snprintf(text, sizeof text,
		 "<graphml><key id=\"k\" attr.name=\"gbps\"/><graph edgedefault=\"%s\">"
		 "<node id=\"a\"/><node id=\"b\"/>%s</graph></graphml>",
		 direction, edges);
	json_t *o = fan_graphml_to_json(text, strlen(text), &why);
	assert_non_null(o);
	assert_int_equal(fan_attach_parse(&a, "workers=2,servers=1", &why), FAN_OK);
	if (fan_topo_from_json_attach(&t, o, &a, &why))
		fail_msg("%s", why.text);
	json_decref(o);
	double gbps = t.link[0].gbps;
	assert_int_equal(t.links, 1 + 3);
	fan_topo_free(&t);
	return gbps;
}

#define EDGE(a, b, more)                                                                           \
	"<edge source=\"" a "\" target=\"" b "\"" more "><data key=\"k\">10</data></edge>"

TEST(graphml__opposite_edges_are_one_link_where_they_are_directed)
{
	const char *both = EDGE("a", "b", "") EDGE("b", "a", "");
	assert_near(rate_of(both, "undirected"), 20, 0);
	assert_near(rate_of(both, "directed"), 10, 0);
	assert_near(rate_of(EDGE("a", "b", "") EDGE("a", "b", ""), "directed"), 20, 0);
	assert_near(rate_of(EDGE("a", "b", " directed=\"true\"")
				    EDGE("b", "a", " directed=\"true\""),
			    "undirected"),
		    10, 0);
	assert_near(rate_of(EDGE("a", "b", " directed=\"false\"") EDGE("b", "a", ""), "directed"),
		    10, 0);
}

TEST(graphml__refuses_with_line_and_cause)
{
	static const char *const broken[][2] = {
		{"<graphml>", "line 1: no element found"},
		{"<a>\n</b>", "line 2: mismatched tag"},
		{"<html/>", "no <graph> in it"},
		{"<graph><node/></graph>", "line 1: a node without an id"},
		{"<graph><node id=\"a\"/>\n<node id=\"a\"/></graph>",
		 "line 2: a node whose id was there before"},
		{"<graph><edge source=\"a\"/></graph>", "an edge without source and target"},
	};
	for (unsigned i = 0; i < sizeof broken / sizeof broken[0]; i++) {
		struct fan_why why = {""};
		json_t *o = fan_graphml_to_json(broken[i][0], strlen(broken[i][0]), &why);
		if (o || !strstr(why.text, broken[i][1]))
			fail_msg("%s: \"%s\"", broken[i][0], why.text);
	}
	assert_false(fan_graphml_is(" {", 2));
	assert_false(fan_graphml_is("", 0));
}

UNIT_MAIN
