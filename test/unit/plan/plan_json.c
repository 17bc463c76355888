/* SPDX-License-Identifier: Apache-2.0 */
#include "unit/unit.h"

#include "plan/algorithm.h"
#include "plan/plan_json.h"
#include "rig.h"

static json_t *report(const struct fan_topo *t, const char *name)
{
	struct fan_plan_about about = {name, 1, 3, true};
	struct fan_planned how = {0};
	struct fan_plan p;
	struct fan_eval e;
	assert_int_equal(fan_algorithm_find(name, NULL)->run(t, &fan_plan_defaults, &p, &how),
			 FAN_OK);
	assert_int_equal(fan_eval(&e, t, &p, NULL), FAN_OK);
	json_t *o = fan_report_json(t, &p, &e, &about);
	assert_non_null(o);
	fan_eval_free(&e);
	fan_plan_free(&p);
	return o;
}

TEST(plan_json__the_same_after_a_round_trip)
{
	TOPO t = rig_load("inart-example");
	struct fan_why why;
	for (uint32_t i = 0; i < fan_algorithm_count; i++) {
		json_t *o = report(&t, fan_algorithms[i].name);
		struct fan_plan p;
		if (fan_plan_from_json(&p, &t, o, false, &why))
			fail_msg("%s: %s", fan_algorithms[i].name, why.text);
		assert_near(fan_eval_gbps(&t, &p),
			    json_number_value(json_object_get(o, "feasible_gbps")), 1e-9);
		fan_plan_free(&p);
		json_decref(o);
	}
}

TEST(report__says_what_design_fixes)
{
	TOPO t = rig_load("grid-example");
	json_t *o = report(&t, "atp"), *loads = json_object_get(o, "loads");
	assert_string_equal(json_string_value(json_object_get(o, "algorithm")), "atp");
	assert_near(json_number_value(json_object_get(o, "feasible_gbps")), 2.4375, 1e-9);
	assert_near(json_number_value(json_object_get(o, "bound_gbps")), 3, 0);
	assert_near(json_number_value(json_object_get(o, "gap")), 0.1875, 1e-9);
	assert_true(json_is_true(json_object_get(o, "proven")));
	assert_string_equal(json_string_value(json_object_get(o, "binding")), "switch S1");
	assert_int_equal(json_array_size(json_object_get(o, "assignments")), 16);
	assert_int_equal(json_array_size(json_object_get(loads, "switches")), 3);
	assert_int_equal(json_array_size(json_object_get(loads, "servers")), 1);
	assert_true(json_array_size(json_object_get(loads, "links")) >= 10);
	json_decref(o);
}

/* What may be wrong with the JSON of a plan. */
static void spoil(json_t *o, unsigned how)
{
	json_t *tree = json_array_get(json_object_get(o, "trees"), 0);
	json_t *a = json_array_get(json_object_get(o, "assignments"), 0);
	json_t *sum = json_array_get(json_object_get(tree, "sums"), 0);
	switch (how) {
	case 0: json_object_del(o, "trees"); break;
	case 1: json_object_set_new(o, "assignments", json_integer(3)); break;
	case 2: json_object_set_new(tree, "job", json_string("nobody")); break;
	case 3: json_object_set_new(tree, "server", json_string("W1")); break;
	case 4: json_object_set_new(tree, "share", json_real(-0.5)); break;
	case 5: json_object_set_new(a, "tree", json_integer(99)); break;
	case 6: json_object_set_new(a, "worker", json_string("W9")); break;
	case 7: json_object_set_new(a, "worker", json_string("S1")); break;
	case 8: json_object_set_new(a, "route", json_pack("[ss]", "W1", "S3")); break;
	case 9: json_array_clear(json_object_get(o, "assignments")); break;
	case 10: json_object_set_new(sum, "route", json_array()); break;
	case 11: json_object_set_new(sum, "switch", json_null()); break;
	default: fail();
	}
}

TEST(plan_json__refuses_with_path_and_cause)
{
	TOPO t = rig_load("grid-example");
	for (unsigned how = 0; how < 12; how++) {
		json_t *o = report(&t, "grid");
		struct fan_plan p;
		struct fan_why why;
		spoil(o, how);
		if (fan_plan_from_json(&p, &t, o, false, &why) != FAN_E_CONFIG || !why.text[0])
			fail_msg("way %u to spoil a plan's JSON was not seen", how);
		assert_int_equal(p.trees, 0);
		json_decref(o);
	}
}

UNIT_MAIN
