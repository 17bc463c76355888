/* SPDX-License-Identifier: Apache-2.0 */
#include "unit/unit.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "net/expose.h"

/* Metrics as text: names, labels from the network, numbers, histograms, files. */

static char why[256];

TEST(value__whole_numbers_and_others)
{
	struct fan_expose x = {.text = NULL};
	fan_expose_family(&x, "a_total", FAN_COUNTER, "Help.");
	fan_expose_count(&x, "a_total", NULL, UINT64_MAX);
	fan_expose_value(&x, "a_total", NULL, 3);
	fan_expose_value(&x, "a_total", NULL, 0.25);
	fan_expose_value(&x, "a_total", NULL, 1e300);
	assert_string_equal(x.text, "# HELP a_total Help.\n# TYPE a_total counter\n"
				    "a_total 18446744073709551615\na_total 3\na_total 0.25\n"
				    "a_total 1e+300\n");
	free(x.text);
}

/* A job's name comes from the network. */
TEST(labels__escape_what_would_end_them)
{
	struct fan_labels l = {.used = 0};
	fan_labels_number(&l, "shard", 7);
	fan_labels_add(&l, "fanin_job", "a\"b\\c\nd\x80\xff", 9);
	assert_string_equal(l.text, "shard=\"7\",fanin_job=\"a\\\"b\\\\c\\\\x0ad\\\\x80\\\\xff\"");
}

/* Valid UTF-8 stays; what is not is shown, and no other name looks the same. */
TEST(labels__of_different_names_differ)
{
	static const struct {
		const char *name, *label;
	} names[] = {
		{"\xc3\xa9\xe2\x82\xac\xf0\x9f\x98\x80", "\xc3\xa9\xe2\x82\xac\xf0\x9f\x98\x80"},
		{"job\xff", "job\\\\xff"},
		{"job\xfe", "job\\\\xfe"},
		{"job_", "job_"},
		{"job\\xff", "job\\\\x5cxff"},
		{"job\\\xff", "job\\\\\\\\xff"},
		{"job\\\\xff", "job\\\\\\\\x5cxff"},
		{"\xc2\x9b\x7f\x1b", "\\\\xc2\\\\x9b\\\\x7f\\\\x1b"},		 /* controls */
		{"\xc0\xaf\xed\xa0\x80", "\\\\xc0\\\\xaf\\\\xed\\\\xa0\\\\x80"}, /* no UTF-8 */
		{"\xe2\x82", "\\\\xe2\\\\x82"},
	};
	for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
		struct fan_labels l = {.used = 0};
		char want[128];
		snprintf(want, sizeof want, "n=\"%s\"", names[i].label);
		fan_labels_add(&l, "n", names[i].name, strlen(names[i].name));
		assert_string_equal(l.text, want);
		assert_int_equal(l.used, strlen(want));
	}
}

TEST(labels__too_long_are_cut_or_left_out)
{
	struct fan_labels l = {.used = 0};
	char name[FAN_EXPOSE_LABELS_MAX];
	memset(name, '\\', sizeof name);
	fan_labels_number(&l, "shard", 1);
	fan_labels_add(&l, "fanin_job", name, sizeof name);
	assert_string_equal(l.text, "shard=\"1\"");
	for (unsigned bytes = 0; bytes < 300; bytes++) {
		struct fan_labels one = {.used = 0};
		fan_labels_add(&one, "n", name, bytes);
		size_t quotes = strlen(one.text) - 4; /* n="..." */
		assert_int_equal(quotes % 2, 0);
		assert_true(one.used < sizeof one.text);
	}
}

TEST(histogram__buckets_add_up)
{
	struct fan_expose x = {.text = NULL};
	struct fan_labels l = {.used = 0};
	const double bound[] = {0.001, 0.01};
	const uint64_t count[] = {1, 2, 4};
	fan_labels_number(&l, "rank", 0);
	fan_expose_histogram(&x, "t_seconds", &l, bound, count, 2, 0.5);
	assert_string_equal(x.text, "t_seconds_bucket{rank=\"0\",le=\"0.001\"} 1\n"
				    "t_seconds_bucket{rank=\"0\",le=\"0.01\"} 3\n"
				    "t_seconds_bucket{rank=\"0\",le=\"+Inf\"} 7\n"
				    "t_seconds_sum{rank=\"0\"} 0.5\n"
				    "t_seconds_count{rank=\"0\"} 7\n");
	free(x.text);
}

TEST(text__has_a_bound)
{
	struct fan_expose x = {.text = NULL};
	for (unsigned i = 0; i < FAN_EXPOSE_BYTES_MAX / 16 && !x.full; i++)
		fan_expose_count(&x, "name_that_is_long_enough", NULL, i);
	assert_true(x.full);
	assert_true(x.room <= FAN_EXPOSE_BYTES_MAX);
	assert_int_not_equal(fan_expose_write(&x, "/tmp/fanin-expose-none", why, sizeof why), 0);
	free(x.text);
}

TEST(write__replaces_the_file)
{
	struct fan_expose x = {.text = NULL};
	char path[64], text[32] = "";
	snprintf(path, sizeof path, "/tmp/fanin-expose-%d", (int)getpid());
	fan_expose_count(&x, "a", NULL, 1);
	assert_int_equal(fan_expose_write(&x, path, why, sizeof why), 0);
	assert_int_equal(fan_expose_write(&x, path, why, sizeof why), 0);
	FILE *f = fopen(path, "r");
	assert_non_null(f);
	assert_non_null(fgets(text, sizeof text, f));
	fclose(f);
	assert_string_equal(text, "a 1\n");
	unlink(path);
	assert_int_not_equal(fan_expose_write(&x, "/nowhere/at/all", why, sizeof why), 0);
	free(x.text);
}

UNIT_MAIN
