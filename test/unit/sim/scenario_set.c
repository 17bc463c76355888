/* SPDX-License-Identifier: Apache-2.0 */
#include "unit/unit.h"

#include "sim/scenario.h"

static json_t *make(void)
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
	json_t *o = make();
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
	json_t *o = make(), *before = make();
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

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(set__by_key_name_and_number),
		cmocka_unit_test(set__any_json_or_else_a_text),
		cmocka_unit_test(set__paths_that_lead_nowhere),
	};
	return RUN(tests);
}
