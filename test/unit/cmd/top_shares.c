/* SPDX-License-Identifier: Apache-2.0 */
/* Shares of a job by what its aggregators have finished. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "cmd/top.h"
#include "net/daemon.h"
#include "net/udp.h"

static const fan_peer at[3] = {{.port = 1}, {.port = 2}, {.port = 3}};
static struct top_shares shares;

static void told(unsigned k, const char *name, unsigned ranks, uint64_t results)
{
	struct fan_report r = {.ranks = (uint16_t)ranks, .results = results};

	strcpy(r.name, name);
	top_shares_add(&shares, k, &r);
}

/* The share of aggregator `k` of job `name`; NAN: nothing is told of that job. */
static double share(const char *name, size_t k)
{
	json_t *all = top_shares_json(&shares, at, 3);
	double got = NAN;

	for (size_t i = 0; i < json_array_size(all); i++) {
		const json_t *one = json_array_get(all, i);
		if (strcmp(json_string_value(json_object_get(one, "name")), name))
			continue;
		const json_t *of = json_array_get(json_object_get(one, "shares"), k);
		got = json_real_value(json_object_get(of, "share"));
	}
	json_decref(all);
	return got;
}

static bool is_near(double a, double b)
{
	return fabs(a - b) < 1e-9;
}

static void top_shares__parts_are_one_job(void **state)
{
	(void)state;
	top_shares_begin(&shares);
	told(0, "train", 4, 60);
	told(1, "train/1", 4, 30);
	told(2, "train/2", 4, 10);
	assert_true(is_near(share("train", 0), 0.6));
	assert_true(is_near(share("train", 1), 0.3));
	assert_true(is_near(share("train", 2), 0.1));
	assert_true(isnan(share("train/1", 1)));
	top_shares_free(&shares);
}

static void top_shares__shards_count_together(void **state)
{
	(void)state;
	top_shares_begin(&shares);
	told(0, "train", 4, 20);
	told(0, "train", 4, 40);
	told(1, "train/1", 4, 40);
	assert_true(is_near(share("train", 0), 0.6));
	top_shares_free(&shares);
}

/* Jobs of a tenant are no parts of each other, nor of a job of other ranks. */
static void top_shares__other_jobs_stand_for_themselves(void **state)
{
	(void)state;
	top_shares_begin(&shares);
	told(0, "t/7", 2, 5);
	told(1, "t/8", 2, 5);
	told(0, "u", 3, 5);
	told(1, "u/1", 2, 5);
	told(0, "v/x", 2, 5);
	told(1, "v", 2, 5);
	assert_true(is_near(share("t/7", 0), 1.0));
	assert_true(is_near(share("t/8", 1), 1.0));
	assert_true(is_near(share("u", 0), 1.0));
	assert_true(is_near(share("u/1", 1), 1.0));
	assert_true(is_near(share("v/x", 0), 1.0));
	top_shares_free(&shares);
}

/* What was finished before does not count; a part that begins anew does. */
static void top_shares__since_the_last_time(void **state)
{
	(void)state;
	top_shares_begin(&shares);
	told(0, "train", 4, 1000);
	told(1, "train/1", 4, 500);
	top_shares_begin(&shares);
	told(0, "train", 4, 1010);
	told(1, "train/1", 4, 30);
	assert_true(is_near(share("train", 0), 0.25));
	top_shares_begin(&shares);
	told(0, "train", 4, 1010);
	told(1, "train/1", 4, 30);
	assert_true(isnan(share("train", 0)));
	top_shares_free(&shares);
}

static void top_shares__more_parts_than_there_is_room_for(void **state)
{
	char name[32];

	(void)state;
	top_shares_begin(&shares);
	for (unsigned i = 0; i < TOP_SHARES_JOBS + 5; i++) {
		snprintf(name, sizeof name, "job%u", i);
		told(i % 3, name, 2, 1);
	}
	assert_int_equal(shares.jobs, TOP_SHARES_JOBS);
	told(TOP_SWITCHES_MAX, "job0", 2, 1);
	assert_true(is_near(share("job0", 0), 1.0));
	top_shares_free(&shares);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(top_shares__parts_are_one_job),
		cmocka_unit_test(top_shares__shards_count_together),
		cmocka_unit_test(top_shares__other_jobs_stand_for_themselves),
		cmocka_unit_test(top_shares__since_the_last_time),
		cmocka_unit_test(top_shares__more_parts_than_there_is_room_for),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
