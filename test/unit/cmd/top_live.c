/* SPDX-License-Identifier: Apache-2.0 */
/* fanin top on a terminal: rates, order, keys, and that nothing leaves the screen. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
/* cmocka.h wants the three above first */
#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cmd/top.h"
#include "core/base/rank_set.h"

static struct top_live *l;
static char *text; /* of the last screen */

static int begin(void **state)
{
	(void)state;
	l = top_live_new("10.0.0.1:5000");
	return l ? 0 : -1;
}

static int end(void **state)
{
	(void)state;
	top_live_close(l);
	free(text);
	text = NULL;
	return 0;
}

static struct fan_report job(const char *name, uint64_t results)
{
	struct fan_report r = {.state = FAN_JOB_READY, .ranks = 2, .results = results};

	r.name_bytes = (uint8_t)strlen(name);
	memcpy(r.name, name, r.name_bytes);
	return r;
}

/* What a switch of two shards tells `s` seconds after the first time. */
static void ask(unsigned s, uint64_t a, uint64_t b)
{
	struct metrics_jobs m = {0};
	json_t *none = json_array();

	for (unsigned shard = 0; shard < 2; shard++) {
		struct fan_report one = job("alpha", a), other = job("beta", b);
		fan_ranks_set(other.missing, 1);
		other.waiting = 3;
		metrics_add_job(&m, shard, &one);
		metrics_add_job(&m, shard, &other);
	}
	top_live_take(l, (uint64_t)(s + 1) * 1000000000, &m, none);
	json_decref(none);
}

static const char *screen(unsigned lines, unsigned columns)
{
	size_t bytes;

	free(text);
	FILE *f = open_memstream(&text, &bytes);
	top_live_print(l, f, lines, columns);
	fclose(f);
	return text;
}

static void rates__of_both_shards(void **state)
{
	(void)state;
	ask(0, 100, 1000);
	ask(2, 200, 7000);
	const char *s = screen(24, 100);
	assert_non_null(strstr(s, "2 jobs by results/s"));
	const char *beta = strstr(s, "beta"), *alpha = strstr(s, "alpha");
	assert_true(beta && alpha && beta < alpha);
	assert_non_null(strstr(beta, "6000")); /* (7000 - 1000) * 2 shards / 2 s */
	assert_non_null(strstr(alpha, "100"));
	assert_non_null(strstr(beta, "  1")); /* the rank that it waits for */
	assert_non_null(strstr(alpha, "nobody"));
}

/* A switch that was restarted counts from zero. */
static void rates__are_never_negative(void **state)
{
	(void)state;
	ask(0, 100, 1000);
	ask(1, 5, 10);
	assert_null(strchr(strstr(screen(24, 100), "alpha"), '-'));
}

/* A job that stands still is "waits", first of all, in whichever order; one that goes on is not. */
static void rows__who_waits_is_first(void **state)
{
	(void)state;
	for (unsigned s = 0; s < 3; s++) {
		struct metrics_jobs m = {0};
		struct fan_report fast = job("fast", 1000 * (s + 1)), still = job("still", 7);
		fast.waiting = still.waiting = 3;
		fast.oldest = 1000 * (s + 1) + 1;
		still.oldest = 8;
		metrics_add_job(&m, 0, &fast);
		metrics_add_job(&m, 0, &still);
		top_live_take(l, (uint64_t)(s + 1) * 1000000000, &m, NULL);
		const char *one = strstr(screen(24, 100), "still "), *other = strstr(text, "fast ");
		assert_true(one && other && (one < other) == (s > 0));
		assert_true(!strstr(text, "waits   ") == (s == 0));
	}
	assert_non_null(strstr(strstr(text, "fast "), "ready"));
	top_live_heed(l, 'r');
	assert_true(strstr(screen(24, 100), "still ") < strstr(text, "fast "));
}

static void keys__choose_and_look_into_a_job(void **state)
{
	(void)state;
	ask(0, 100, 1000);
	ask(1, 200, 2000);
	assert_int_equal(top_live_heed(l, 'k'), TOP_LIVE_AGAIN); /* above the first: stays */
	assert_int_equal(top_live_heed(l, 'j'), TOP_LIVE_AGAIN);
	assert_int_equal(top_live_heed(l, '\r'), TOP_LIVE_AGAIN);
	assert_non_null(strstr(screen(24, 100), "job alpha"));
	ask(2, 900000, 2001); /* it is first now, and still the one */
	assert_non_null(strstr(screen(24, 100), "job alpha"));
	top_live_heed(l, 27);
	assert_non_null(strstr(screen(24, 100), "2 jobs"));
	assert_int_equal(top_live_heed(l, 'x'), TOP_LIVE_TIME);
	assert_int_equal(top_live_heed(l, 'q'), TOP_LIVE_QUIT);
}

static void keys__sort(void **state)
{
	(void)state;
	ask(0, 100, 1000);
	ask(1, 900, 1001);
	assert_true(strstr(screen(24, 100), "alpha") < strstr(text, "beta"));
	top_live_heed(l, 's'); /* by open fragments, which only beta has */
	assert_true(strstr(screen(24, 100), "alpha") > strstr(text, "beta"));
	top_live_heed(l, 'r');
	assert_true(strstr(screen(24, 100), "alpha") < strstr(text, "beta"));
}

static void screen__is_never_left(void **state)
{
	(void)state;
	struct metrics_jobs m = {0};
	for (unsigned i = 0; i < FAN_JOBS_MAX; i++) {
		char name[16];
		snprintf(name, sizeof name, "job-%u", i);
		struct fan_report r = job(name, i);
		metrics_add_job(&m, 0, &r);
	}
	top_live_take(l, 1, &m, NULL);
	for (unsigned lines = 1; lines < 20; lines++) {
		unsigned breaks = 0;
		for (const char *p = screen(lines, 20); *p; p++)
			breaks += *p == '\n';
		assert_true(breaks < lines);
		assert_null(strstr(text, "waits")); /* beyond 20 columns */
	}
	for (unsigned i = 0; i < FAN_JOBS_MAX; i++)
		top_live_heed(l, 'j');
	assert_non_null(strstr(screen(10, 80), "\033[7mjob-")); /* the chosen one is in sight */
}

static void no_jobs__are_no_crash(void **state)
{
	(void)state;
	struct metrics_jobs m = {0};
	top_live_take(l, 1, &m, NULL);
	top_live_heed(l, '\r');
	top_live_heed(l, 'j');
	assert_non_null(strstr(screen(24, 80), "no jobs"));
}

/* A stranger is not told which fragment is the oldest. */
static void shards__oldest_that_is_not_told(void **state)
{
	(void)state;
	struct metrics_jobs m = {0};
	struct fan_report r = job("alpha", 5);
	r.waiting = 2;
	r.oldest = UINT64_MAX;
	r.age_ms = 12345;
	metrics_add_job(&m, 0, &r);
	r.oldest = 4711;
	r.age_ms = FAN_AGE_NOT_TOLD;
	metrics_add_job(&m, 1, &r);
	top_live_take(l, 1, &m, NULL);
	assert_non_null(strstr(screen(24, 200), "not which fragment is oldest, but its age"));
	assert_non_null(strstr(text, "waits "));
	assert_non_null(strstr(text, " for 12 s\033["));
	top_live_heed(l, '\r');
	assert_null(strstr(screen(24, 120), "18446744073709551615"));
	assert_non_null(strstr(text, "2            -     12 s  "));
	assert_non_null(strstr(text, "2         4711        -  "));
}

/* Each shard decides by itself: one whose group has gone deaf says unicast, the other one's does
 * not change. */
static void shards__by_what_each_sends(void **state)
{
	(void)state;
	struct metrics_jobs m = {0};
	struct fan_report r = job("alpha", 5);
	for (unsigned shard = 0; shard < 2; shard++) {
		r.multicast = shard == 0;
		metrics_add_job(&m, shard, &r);
	}
	top_live_take(l, 1, &m, NULL);
	assert_null(strstr(screen(24, 140), "cast")); /* all shards together say neither */
	top_live_heed(l, '\r');
	screen(24, 140);
	const char *first = strstr(text, "    0 ready"), *second = strstr(text, "    1 ready");
	const char *multi = strstr(text, "multicast"), *uni = strstr(text, "unicast");
	assert_true(first && second && multi && uni);
	assert_true(first < multi && multi < second && second < uni);
	assert_null(strstr(uni, "multicast"));
}

/* The same fragment is the oldest at several looks: for so long, at least, it is waited for. */
static void rows__age_of_the_oldest_fragment(void **state)
{
	(void)state;
	const uint64_t oldest[] = {0, 0, 0, 1, UINT64_MAX, UINT64_MAX};
	const char *const told[] = {NULL, " for 1 s\033[", " for 2 s\033[", NULL, NULL, NULL};
	for (unsigned i = 0; i < 6; i++) {
		struct metrics_jobs m = {0};
		struct fan_report r = job("alpha", 5);
		r.waiting = 2;
		r.oldest = oldest[i];
		metrics_add_job(&m, 0, &r);
		top_live_take(l, (uint64_t)(i + 1) * 1000000000, &m, NULL);
		screen(24, 140);
		assert_true(told[i] ? strstr(text, told[i]) != NULL : !strstr(text, " s\033["));
		assert_true(!strstr(text, "stranger") == (i < 4)); /* which is not told */
	}
}

/* Names that ranks make of their job's are told as what they are; others as they are. */
static void rows__parts_of_a_job(void **state)
{
	(void)state;
	struct metrics_jobs m = {0};
	const char *const name[] = {"one/12!4", "two!1", "exp/3", "!odd", "/1!2"};
	for (unsigned i = 0; i < 5; i++) {
		struct fan_report r = job(name[i], 1);
		metrics_add_job(&m, 0, &r);
	}
	top_live_take(l, 1, &m, NULL);
	screen(24, 120);
	assert_non_null(strstr(text, "one (part 12) "));
	assert_non_null(strstr(text, "two (part 0) "));
	assert_non_null(strstr(text, "exp/3 "));
	assert_non_null(strstr(text, "!odd "));
	assert_non_null(strstr(text, "/1 (part 0) "));
}

/* Two that live have a series each, a failed one has none beside them. */
static void metrics__jobs_of_one_name(void **state)
{
	(void)state;
	struct metrics_jobs m = {0};
	struct fan_expose x = {.text = NULL};
	struct fan_slot_stats s = {.name_bytes = 5, .name = "alpha"};
	struct fan_report first = job("alpha", 5), failed = first;
	json_t *ranks = json_array();
	failed.state = FAN_JOB_FAILED;
	metrics_add_job(&m, 0, &failed);
	for (unsigned i = 0; i < 2; i++) {
		metrics_add_job(&m, 0, &first);
		metrics_add_slots(&m, 0, &s);
		json_array_append_new(ranks, json_pack("{s:s, s:i, s:i, s:i}", "job", "alpha",
						       "shard", 0, "rank", 0, "copy", (int)i));
	}
	metrics_add_job(&m, 0, &failed);
	assert_int_equal(m.jobs, 2);
	metrics_put_jobs(&x, &m);
	metrics_put_ranks(&x, ranks);
	for (const char *line = x.text, *next; *line; line = next) {
		const size_t name = strcspn(line, " \n");
		next = strchr(line, '\n') + 1;
		for (const char *other = next; *line != '#' && *other;
		     other = strchr(other, '\n') + 1)
			assert_int_not_equal(strncmp(line, other, name + 1), 0);
	}
	assert_non_null(strstr(x.text, "fanin_job_ranks{shard=\"0\",fanin_job=\"alpha\"} "));
	assert_non_null(
		strstr(x.text, "fanin_job_ranks{shard=\"0\",fanin_job=\"alpha\",copy=\"1\"} "));
	free(x.text);
	metrics_jobs_free(&m);
	json_decref(ranks);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(rates__of_both_shards, begin, end),
		cmocka_unit_test_setup_teardown(rates__are_never_negative, begin, end),
		cmocka_unit_test_setup_teardown(rows__who_waits_is_first, begin, end),
		cmocka_unit_test_setup_teardown(keys__choose_and_look_into_a_job, begin, end),
		cmocka_unit_test_setup_teardown(keys__sort, begin, end),
		cmocka_unit_test_setup_teardown(screen__is_never_left, begin, end),
		cmocka_unit_test_setup_teardown(no_jobs__are_no_crash, begin, end),
		cmocka_unit_test_setup_teardown(shards__oldest_that_is_not_told, begin, end),
		cmocka_unit_test_setup_teardown(shards__by_what_each_sends, begin, end),
		cmocka_unit_test_setup_teardown(rows__age_of_the_oldest_fragment, begin, end),
		cmocka_unit_test_setup_teardown(rows__parts_of_a_job, begin, end),
		cmocka_unit_test(metrics__jobs_of_one_name),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
