/* SPDX-License-Identifier: Apache-2.0 */
#include "rig.h"

#include "plan/algorithm.h"

static void graphml__names_kinds_and_rates(void **state)
{
	(void)state;
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

static void graphml__opposite_edges_are_one_link_where_they_are_directed(void **state)
{
	(void)state;
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

static void graphml__refuses_with_line_and_cause(void **state)
{
	(void)state;
	static const char *const bad[][2] = {
		{"<graphml>", "line 1: no element found"},
		{"<a>\n</b>", "line 2: mismatched tag"},
		{"<html/>", "no <graph> in it"},
		{"<graph><node/></graph>", "line 1: a node without an id"},
		{"<graph><node id=\"a\"/>\n<node id=\"a\"/></graph>",
		 "line 2: a node whose id was there before"},
		{"<graph><edge source=\"a\"/></graph>", "an edge without source and target"},
	};
	for (unsigned i = 0; i < sizeof bad / sizeof bad[0]; i++) {
		struct fan_why why = {""};
		json_t *o = fan_graphml_to_json(bad[i][0], strlen(bad[i][0]), &why);
		if (o || !strstr(why.text, bad[i][1]))
			fail_msg("%s: \"%s\"", bad[i][0], why.text);
	}
	assert_false(fan_graphml_is(" {", 2));
	assert_false(fan_graphml_is("", 0));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(graphml__names_kinds_and_rates),
		cmocka_unit_test(graphml__opposite_edges_are_one_link_where_they_are_directed),
		cmocka_unit_test(graphml__refuses_with_line_and_cause),
	};
	return RUN(tests);
}
