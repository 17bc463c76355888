/* SPDX-License-Identifier: Apache-2.0 */
/* Layer tables, and means over seeds. */
#include "unit/unit.h"

#include <math.h>

#include "sim/model.h"
#include "sim/outcome.h"
#include "sim/scenario.h"

/* ---- outcome ---- */

/* A sweep of two variants, three seeds each; a job of b's last run failed. */
static json_t *make(void)
{
	json_t *o = json_loads(
		"{\"sweep\": [\"variant\", \"n.slots\", \"seed\"], \"runs\": ["
		"{\"set\": {\"variant\": \"a\", \"n.slots\": 8, \"seed\": 1}, \"avg_jct_s\": 2, \"failed_jobs\": 0, \"jobs\": [1, 2]},"
		"{\"set\": {\"variant\": \"a\", \"n.slots\": 8, \"seed\": 2}, \"avg_jct_s\": 6, \"failed_jobs\": 0, \"jobs\": [1, 2]},"
		"{\"set\": {\"variant\": \"b\", \"n.slots\": 8, \"seed\": 1}, \"avg_jct_s\": 5, \"failed_jobs\": 0, \"jobs\": [1, 2]},"
		"{\"set\": {\"variant\": \"a\", \"n.slots\": 8, \"seed\": 3}, \"avg_jct_s\": 1, \"failed_jobs\": 0, \"jobs\": [1, 2]},"
		"{\"set\": {\"variant\": \"b\", \"n.slots\": 8, \"seed\": 2}, \"avg_jct_s\": 1, \"failed_jobs\": 1, \"jobs\": [1, 2]},"
		"{\"set\": {\"variant\": \"a\", \"n.slots\": 16, \"seed\": 1}, \"avg_jct_s\": null, \"failed_jobs\": 2, \"jobs\": [1, 2]}"
		"]}",
		0, NULL);
	assert_non_null(o);
	return o;
}

static void outcome__mean_least_and_most_of_the_seeds(void **state)
{
	(void)state;
	size_t count = 0;
	json_t *o = make();
	struct fan_outcome *g = fan_outcomes_make(o, &count);
	assert_int_equal(count, 3);
	assert_string_equal(g[0].name, "a, slots=8");
	assert_int_equal(g[0].runs, 3);
	assert_int_equal(g[0].counted, 3);
	assert_float_equal(g[0].mean, 3, 1e-12);
	assert_float_equal(g[0].low, 1, 0);
	assert_float_equal(g[0].high, 6, 0);
	assert_int_equal(g[0].failed, 0);
	free(g);
	json_decref(o);
}

static void outcome__a_run_that_failed_has_no_figure(void **state)
{
	(void)state;
	size_t count = 0;
	json_t *o = make();
	struct fan_outcome *g = fan_outcomes_make(o, &count);
	assert_string_equal(g[1].name, "b, slots=8");
	assert_int_equal(g[1].runs, 2);
	assert_int_equal(g[1].counted, 1);
	assert_float_equal(g[1].mean, 5, 0);
	assert_int_equal(g[1].failed, 1);
	assert_int_equal(g[1].jobs, 4);
	assert_int_equal(g[2].counted, 0);
	assert_true(isnan(g[2].mean) && isnan(g[2].high));
	free(g);
	json_decref(o);
}

/* ---- scenario_set ---- */

static json_t *scenario_set_make(void)
{
	json_t *o = json_loads("{\"seed\": 1, \"nodes\": [{\"name\": \"a\", \"n\": 1}, "
			       "{\"name\": \"b\", \"n\": 2}, {\"name\": \"0\", \"n\": 3}], "
			       "\"list\": [1, 2, 3]}",
			       0, NULL);
	assert_non_null(o);
	return o;
}

/* What `path` = `text` makes of it, without blanks. */
static void becomes(const char *path, const char *text, const char *expect)
{
	char why[256];
	json_t *o = scenario_set_make();
	assert_int_equal(fan_scenario_set(o, path, text, why, sizeof why), 0);
	char *got = json_dumps(o, JSON_COMPACT);
	assert_string_equal(got, expect);
	free(got);
	json_decref(o);
}

#define HEAD "{\"seed\":1,\"nodes\":["
#define A(n) "{\"name\":\"a\",\"n\":" #n "}"
#define B(n) "{\"name\":\"b\",\"n\":" #n "}"
#define C(n) "{\"name\":\"0\",\"n\":" #n "}"
#define TAIL "],\"list\":[1,2,3]}"

static void set__by_key_name_and_number(void **state)
{
	(void)state;
	becomes("seed", "7", "{\"seed\":7,\"nodes\":[" A(1) "," B(2) "," C(3) TAIL);
	becomes("nodes.b.n", "9", HEAD A(1) "," B(9) "," C(3) TAIL);
	becomes("nodes.1.n", "9", HEAD A(1) "," B(9) "," C(3) TAIL);
	becomes("nodes.*.n", "9", HEAD A(9) "," B(9) "," C(9) TAIL);
	/* a name that is a number as well: both */
	becomes("nodes.0.n", "9", HEAD A(9) "," B(2) "," C(9) TAIL);
	becomes("list.2", "5", HEAD A(1) "," B(2) "," C(3) "],\"list\":[1,2,5]}");
}

static void set__any_json_or_else_a_text(void **state)
{
	(void)state;
	becomes("list", "[]", HEAD A(1) "," B(2) "," C(3) "],\"list\":[]}");
	becomes("nodes.a.n", "esa", HEAD A("esa") "," B(2) "," C(3) TAIL);
	becomes("nodes.a.n", "\"7\"", HEAD A("7") "," B(2) "," C(3) TAIL);
	becomes("nodes.a.n", "true", HEAD A(true) "," B(2) "," C(3) TAIL);
	becomes("nodes.a.n", "0.5", HEAD A(0.5) "," B(2) "," C(3) TAIL);
}

static void refuse(const char *path, const char *expect)
{
	char why[256] = "";
	json_t *o = scenario_set_make(), *before = scenario_set_make();
	assert_int_equal(fan_scenario_set(o, path, "1", why, sizeof why), -1);
	assert_string_equal(why, expect);
	assert_true(json_equal(o, before));
	json_decref(before);
	json_decref(o);
}

static void set__paths_that_lead_nowhere(void **state)
{
	(void)state;
	refuse("nodes.c.n", "\"nodes.c.n\": the scenario has nothing at \"c\"");
	refuse("nodes.3.n", "\"nodes.3.n\": the scenario has nothing at \"3\"");
	refuse("jobs.0.n", "\"jobs.0.n\": the scenario has nothing at \"jobs\"");
	refuse("seed.deeper", "\"seed.deeper\": the scenario has nothing at \"deeper\"");
	refuse("", "\"\": the scenario has nothing at \"\"");
	refuse("a.b.c.d.e.f.g.h.i.j.k.l.m.n.o.p.q",
	       "\"a.b.c.d.e.f.g.h.i.j.k.l.m.n.o.p.q\": the scenario has nothing at "
	       "\"a.b.c.d.e.f.g.h.i.j.k.l.m.n.o.p.q\"");
}

/* ---- model ---- */

static void model__parameters_as_published(void **state)
{
	(void)state;
	static const struct {
		const char *name;
		uint64_t numel;
	} known[] = {
		{"alexnet", 61100840},	  {"vgg16", 138357544},	     {"vgg19", 143667240},
		{"resnet50", 25557032},	  {"resnet101", 44549160},   {"resnet152", 60192808},
		{"bert-base", 109482240}, {"bert-large", 335141888}, {"gpt2-small", 124439808},
		{"ncf", 31832577},
	};
	unsigned i = 0;
	for (; fan_model_names[i]; i++) {
		struct fan_model m;
		assert_string_equal(fan_model_names[i], known[i].name);
		assert_true(fan_model_make(&m, known[i].name));
		assert_int_equal(fan_model_numel(&m), known[i].numel);
		fan_model_free(&m);
	}
	assert_int_equal(i, sizeof known / sizeof *known);
}

static void model__unknown_name(void **state)
{
	(void)state;
	struct fan_model m;
	assert_false(fan_model_make(&m, "vgg17"));
	assert_int_equal(fan_model_macs("vgg17"), 0);
}

static uint64_t time_ns(const char *name, bool backward)
{
	struct fan_model m;
	uint64_t sum = 0;
	assert_true(fan_model_make(&m, name));
	for (uint32_t i = 0; i < m.layers; i++)
		sum += backward ? m.layer[i].backward_ns : m.layer[i].forward_ns;
	fan_model_free(&m);
	return sum;
}

static void model__times_as_measured(void **state)
{
	(void)state;
	assert_int_equal(time_ns("vgg16", false), 252000000);
	assert_int_equal(time_ns("vgg16", true), 439000000);
	assert_int_equal(time_ns("resnet50", false), 202000000);
	assert_int_equal(time_ns("resnet50", true), 261000000);
	assert_in_range(time_ns("vgg19", false), 315000000, 325000000);
	assert_in_range(time_ns("resnet152", false), 550000000, 580000000);
}

/* Known figures of the literature: 15.5, 4.1 and 11.5 G multiply-adds. */
static void model__multiply_adds(void **state)
{
	(void)state;
	assert_in_range(fan_model_macs("vgg16"), 15400000000, 15600000000);
	assert_in_range(fan_model_macs("resnet50"), 4050000000, 4150000000);
	assert_in_range(fan_model_macs("resnet152"), 11450000000, 11650000000);
	assert_in_range(fan_model_macs("alexnet"), 700000000, 730000000);
}

static void model__most_of_vgg16_is_one_layer(void **state)
{
	(void)state;
	struct fan_model m;
	assert_true(fan_model_make(&m, "vgg16"));
	assert_int_equal(m.layers, 16);
	assert_string_equal(m.layer[13].name, "fc6");
	assert_int_equal(m.layer[13].numel * 100 / fan_model_numel(&m), 74);
	fan_model_free(&m);
}

static void model__csv(void **state)
{
	(void)state;
	struct fan_model m;
	char why[128];
	char text[] = "layer, numel ,forward_ns,backward_ns\r\n# measured\n\nconv,10,20,30\n"
		      "fc , 4096,0,1";
	assert_int_equal(fan_model_parse(&m, text, why, sizeof why), 0);
	assert_int_equal(m.layers, 2);
	assert_string_equal(m.layer[1].name, "fc");
	assert_int_equal(m.layer[1].numel, 4096);
	assert_int_equal(m.layer[0].forward_ns, 20);
	assert_int_equal(m.layer[1].backward_ns, 1);
	fan_model_free(&m);
}

static void wrong(const char *csv, const char *expect)
{
	struct fan_model m;
	char why[128] = "", *text = strdup(csv);
	assert_int_equal(fan_model_parse(&m, text, why, sizeof why), -1);
	assert_string_equal(why, expect);
	free(text);
}

static void model__csv_that_is_wrong(void **state)
{
	(void)state;
	const char *head = "line 1: expected the columns layer,numel,forward_ns,backward_ns";
	wrong("", head);
	wrong("layer,numel,forward_ns\n", head);
	wrong("layer,numel,forward_ns,backward_ns,more\n", head);
	wrong("layer,numel,forward_ns,backward_ns\n", "expected at least one layer");
	wrong("layer,numel,forward_ns,backward_ns\na,1,2\n", "line 2: expected 4 fields");
	wrong("layer,numel,forward_ns,backward_ns\na,-1,2,3\n",
	      "line 2: numel: expected a whole number of at most 2^36");
	wrong("layer,numel,forward_ns,backward_ns\na,99999999999999999999,2,3\n",
	      "line 2: numel: expected a whole number of at most 2^36");
	wrong("layer,numel,forward_ns,backward_ns\na,1,2,\n",
	      "line 2: backward_ns: expected a whole number of at most an hour");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(outcome__mean_least_and_most_of_the_seeds),
		cmocka_unit_test(outcome__a_run_that_failed_has_no_figure),
		cmocka_unit_test(set__by_key_name_and_number),
		cmocka_unit_test(set__any_json_or_else_a_text),
		cmocka_unit_test(set__paths_that_lead_nowhere),
		cmocka_unit_test(model__parameters_as_published),
		cmocka_unit_test(model__unknown_name),
		cmocka_unit_test(model__times_as_measured),
		cmocka_unit_test(model__multiply_adds),
		cmocka_unit_test(model__most_of_vgg16_is_one_layer),
		cmocka_unit_test(model__csv),
		cmocka_unit_test(model__csv_that_is_wrong),
	};
	return RUN(tests);
}
