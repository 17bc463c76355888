/* SPDX-License-Identifier: Apache-2.0 */
/* Traces are JSON that Perfetto opens; the ring keeps the last events. */
#include "unit/unit.h"

#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "lib/base/rank_file.h"
#include "lib/base/trace.h"

static char pattern[64], path[80];
static struct fan_config c;

static int begin(void **state __attribute__((unused)))
{
	snprintf(pattern, sizeof pattern, "/tmp/fanin-trace-%d.json", (int)getpid());
	snprintf(path, sizeof path, "/tmp/fanin-trace-%d-2.json", (int)getpid());
	setenv("FANIN_TRACE", pattern, 1);
	c = (struct fan_config){.rank = 2, .ranks = 4, .job = "j"};
	return 0;
}

/* The events of the file, but for those about names. */
static json_t *events(void)
{
	json_error_t why;
	json_t *all = json_load_file(path, 0, &why), *kept = json_array();
	assert_true(json_is_array(all));
	for (size_t i = 0; i < json_array_size(all); i++) {
		json_t *e = json_array_get(all, i);
		if (strcmp(json_string_value(json_object_get(e, "ph")), "M") != 0)
			json_array_append(kept, e);
	}
	json_decref(all);
	unlink(path);
	return kept;
}

static const char *text(const json_t *e, const char *key)
{
	return json_string_value(json_object_get(e, key));
}

TEST_WITH(trace__halves_of_an_operation_and_a_stall, begin, NULL)
{
	struct fan_trace *t = fan_trace_open(&c);
	assert_non_null(t);
	uint64_t id = fan_trace_id(t);
	assert_int_not_equal(id, fan_trace_id(t));
	struct fan_trace_event op = {.kind = FAN_TRACE_OP,
				     .name = "allreduce",
				     .begin_ns = 1000000,
				     .end_ns = 3500000,
				     .id = id,
				     .bytes = 64};
	struct fan_trace_event stall = {
		.kind = FAN_TRACE_STALL, .name = "no result", .begin_ns = 5000, .end_ns = 8000};
	fan_trace_add(t, &op);
	fan_trace_add(t, &stall);
	fan_trace_close(t, true);
	json_t *all = events();
	assert_int_equal(json_array_size(all), 3);
	const json_t *b = json_array_get(all, 0), *e = json_array_get(all, 1);
	const json_t *x = json_array_get(all, 2);
	assert_string_equal(text(b, "ph"), "b");
	assert_string_equal(text(e, "ph"), "e");
	assert_string_equal(text(b, "id"), text(e, "id"));
	assert_string_equal(text(b, "name"), "allreduce");
	double us = json_real_value(json_object_get(e, "ts")) -
		    json_real_value(json_object_get(b, "ts"));
	assert_true(us > 2499 && us < 2501);
	assert_int_equal(json_integer_value(json_object_get(b, "pid")), 2);
	assert_int_equal(json_integer_value(json_object_get(json_object_get(b, "args"), "bytes")),
			 64);
	assert_string_equal(text(x, "ph"), "X");
	assert_true(json_real_value(json_object_get(x, "dur")) == 3);
	json_decref(all);
}

TEST_WITH(trace__keeps_the_last_events, begin, NULL)
{
	struct fan_trace *t = fan_trace_open(&c);
	assert_non_null(t);
	for (uint64_t i = 0; i < FAN_TRACE_EVENTS + 10; i++) {
		struct fan_trace_event stall = {.kind = FAN_TRACE_STALL,
						.name = i < 10 ? "old" : "new",
						.begin_ns = i,
						.end_ns = i + 1};
		fan_trace_add(t, &stall);
	}
	fan_trace_close(t, true);
	json_t *all = events();
	assert_int_equal(json_array_size(all), FAN_TRACE_EVENTS);
	assert_string_equal(text(json_array_get(all, 0), "name"), "new");
	json_decref(all);
}

/* A process keeps its first error, so nothing before this one may fail. */
TEST_WITH(trace__a_file_that_may_not_grow_is_told, begin, NULL)
{
	char want[128];
	const struct rlimit none = {0, RLIM_INFINITY};
	struct rlimit before;
	assert_string_equal(fan_rank_file_error(), "");
	assert_int_equal(getrlimit(RLIMIT_FSIZE, &before), 0);
	assert_int_equal(setrlimit(RLIMIT_FSIZE, &none), 0);
	fan_trace_close(fan_trace_open(&c), true);
	setrlimit(RLIMIT_FSIZE, &before);
	snprintf(want, sizeof want, "FANIN_TRACE: %s: File too large", path);
	assert_string_equal(fan_rank_file_error(), want);
	assert_int_equal(access(path, F_OK), -1);
}

/* Any name makes JSON, and no link leads elsewhere. */
TEST_WITH(trace__of_a_name_with_quotes_at_a_link, begin, NULL)
{
	const char *const names[] = {"a\"},\n{\"x\\", "\xff\x1b[m\"", "\xc3\xa9"};
	const char *const told[] = {"fanin a\"},\n{\"x\\ rank 2", "fanin \\xff\\x1b[m\\\" rank 2",
				    "fanin \xc3\xa9 rank 2"};
	for (unsigned i = 0; i < 3; i++) {
		char other[sizeof path + 2];
		snprintf(other, sizeof other, "%s.o", path);
		snprintf(c.job, sizeof c.job, "%s", names[i]);
		assert_int_equal(symlink(other, path), 0);
		fan_trace_close(fan_trace_open(&c), true);
		json_t *all = json_load_file(path, 0, NULL);
		const json_t *args = json_object_get(json_array_get(all, 0), "args");
		assert_string_equal(text(args, "name"), told[i]);
		assert_int_equal(access(other, F_OK), -1);
		json_decref(all);
		unlink(path);
	}
}

TEST_WITH(trace__nobody_asked, begin, NULL)
{
	unsetenv("FANIN_TRACE");
	assert_null(fan_trace_open(&c));
	fan_trace_close(NULL, true);
	fan_trace_close(NULL, false);
}

UNIT_MAIN
