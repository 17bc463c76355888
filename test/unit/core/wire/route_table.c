/* SPDX-License-Identifier: Apache-2.0 */
#include "core/wire/route_table.h"

#include "unit/unit.h"

static const fan_peer a = {.port = 1}, b = {.port = 2}, c = {.port = 3}, aggregator = {.port = 9};
static const fan_peer worker = {.port = 77}, nobody;
static struct fan_route route;

/* An entry of the ranks whose bits are set. */
static struct fan_route_entry entry(fan_peer from, uint64_t ranks, fan_peer next, unsigned depth,
				    bool sums)
{
	return (struct fan_route_entry){.from = from,
					.next = next,
					.ranks = {ranks},
					.depth = (uint8_t)depth,
					.sums = sums};
}

static int set(const struct fan_route_entry *e, unsigned count)
{
	const struct fan_route_config config = {.number = 5, .entry = e, .entries = count};
	return fan_route_set(&route, &config);
}

static void route__up_by_who_sends_and_of_whom(void **state)
{
	(void)state;
	const uint64_t two[FAN_RANK_WORDS] = {0x3}, more[FAN_RANK_WORDS] = {0x7};
	const struct fan_route_entry e[] = {
		entry(nobody, 0x3, b, 4, false), /* to be summed at b, and back here */
		entry(nobody, 0x4, aggregator, 1, true),
		entry(b, 0x3, aggregator, 1, true),
		entry(c, 0x8, b, 4, false),
	};
	assert_int_equal(set(e, 4), FAN_OK);
	assert_int_equal(fan_route_up(&route, &worker, two)->depth, 4);
	assert_int_equal(fan_route_up(&route, &b, two)->depth, 1);
	assert_null(fan_route_up(&route, &b, more));
	assert_null(fan_route_up(&route, &c, two));
	assert_true(fan_route_up_one(&route, &worker, 2)->sums);
	assert_null(fan_route_up_one(&route, &worker, 3)); /* comes from c */
	assert_null(fan_route_up_one(&route, &worker, FAN_RANK_NONE));
	assert_int_equal(route.sums[0], 0x7);
	assert_true(fan_peer_equal(&route.up, &aggregator));
	assert_int_equal(route.below.ranks, 2); /* b and c */
}

static void route__down(void **state)
{
	(void)state;
	const struct fan_route_entry e[] = {
		entry(a, 0x1, aggregator, 1, false),  entry(nobody, 0x8, aggregator, 1, false),
		entry(b, 0x2, c, 3, false),	      entry(a, 0x4, aggregator, 1, true),
		entry(b, 0x10, aggregator, 2, false), /* another depth: no path of theirs */
	};
	assert_int_equal(set(e, 5), FAN_OK);
	assert_true(fan_route_leads_to(&route, &c));
	assert_false(fan_route_leads_to(&route, &b));
	const struct fan_route_entry *path = fan_route_path(&route, &aggregator, 0);
	const struct fan_group *hops = &route.path[path - route.entry];
	unsigned switches = 0;
	for (unsigned i = 0; i < hops->ranks; i++)
		switches += !fan_peer_is_none(&hops->peers[i]);
	assert_int_equal(hops->ranks, 3);
	assert_int_equal(switches, 1); /* a, once */
	assert_true(fan_route_path_has_workers(&route, path));
	assert_false(fan_route_path_has_workers(&route, fan_route_path(&route, &c, 2)));
	assert_null(fan_route_path(&route, &aggregator, 2));
	assert_null(fan_route_path(&route, &b, 0));
	assert_true(fan_peer_equal(&fan_route_down_one(&route, &c, 1)->from, &b));
	assert_null(fan_route_down_one(&route, &aggregator, 1));
	assert_true(fan_peer_is_none(&fan_route_down_one(&route, &c, 3)->from));
	assert_null(fan_route_down_one(&route, &aggregator, 0xff));
}

static void route__what_makes_no_sense(void **state)
{
	(void)state;
	const struct fan_route_entry bad[][2] = {
		{entry(a, 0x1, nobody, 1, false), entry(b, 0x2, aggregator, 1, false)},
		{entry(a, 0x0, aggregator, 1, false), entry(b, 0x2, aggregator, 1, false)},
		{entry(a, 0x1, aggregator, 0, false), entry(b, 0x2, aggregator, 1, false)},
		{entry(a, 0x1, aggregator, FAN_ROUTE_HOPS_MAX + 1, false),
		 entry(b, 0x2, aggregator, 1, false)},
		{entry(a, 0x3, aggregator, 1, false), entry(a, 0x2, c, 1, false)}, /* which, up? */
		{entry(a, 0x3, aggregator, 1, false),
		 entry(b, 0x2, aggregator, 1, false)},				 /* which, down? */
		{entry(a, 0x1, aggregator, 1, true), entry(b, 0x2, c, 1, true)}, /* two sums */
		{entry(a, 0x1, aggregator, 1, true), entry(b, 0x2, aggregator, 2, true)},
	};
	const struct fan_route_entry good[] = {entry(a, 0x1, aggregator, 1, true),
					       entry(b, 0x3, c, 2, false)};
	for (unsigned i = 0; i < sizeof bad / sizeof bad[0]; i++)
		assert_int_equal(set(bad[i], 2), FAN_E_INVALID);
	assert_int_equal(set(good, 0), FAN_E_INVALID);
	assert_int_equal(set(good, FAN_ROUTE_ENTRIES_MAX + 1), FAN_E_INVALID);
	const struct fan_route_entry back = entry(a, 0x1, a, 2, true); /* summed, and back */
	assert_int_equal(set(&back, 1), FAN_OK);
	const struct fan_route_config zero = {.entry = good, .entries = 2};
	assert_int_equal(fan_route_set(&route, &zero), FAN_E_INVALID);
	assert_int_equal(set(good, 2), FAN_OK);
}

static void route__is(void **state)
{
	(void)state;
	struct fan_route_entry e[] = {entry(a, 0x1, aggregator, 1, false),
				      entry(b, 0x2, c, 2, false)};
	const struct fan_route_entry swapped[] = {e[1], e[0]};
	struct fan_route_config config = {.number = 5, .entry = swapped, .entries = 2};
	assert_int_equal(set(e, 2), FAN_OK);
	assert_true(fan_route_is(&route, &config));
	config.quota = 1;
	assert_false(fan_route_is(&route, &config));
	config.quota = 0;
	e[0].sums = true;
	config.entry = e;
	assert_false(fan_route_is(&route, &config));
}

static void route__a_result_passes_once(void **state)
{
	(void)state;
	const struct fan_route_entry e = entry(a, 0x1, aggregator, 1, false);
	assert_int_equal(set(&e, 1), FAN_OK);
	assert_true(fan_route_passes(&route, 0, 7, 0));
	assert_false(fan_route_passes(&route, 0, 7, 0));
	assert_true(fan_route_passes(&route, 0, 7, 1));
	assert_true(fan_route_passes(&route, 0, 7, FAN_WINDOW_MAX)); /* in the place of 0 */
	assert_true(fan_route_passes(&route, 0, 8, FAN_WINDOW_MAX)); /* another epoch */
	assert_true(fan_route_passes(&route, 1, 8, FAN_WINDOW_MAX));
	assert_false(fan_route_passes(&route, 0, 7, 1));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(route__up_by_who_sends_and_of_whom), cmocka_unit_test(route__down),
		cmocka_unit_test(route__what_makes_no_sense),	      cmocka_unit_test(route__is),
		cmocka_unit_test(route__a_result_passes_once),
	};
	return RUN(tests);
}
