/* SPDX-License-Identifier: Apache-2.0 */
#include "unit/unit.h"

#include "sim/model.h"

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
