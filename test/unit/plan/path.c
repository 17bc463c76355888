/* SPDX-License-Identifier: Apache-2.0 */
#include "rig.h"

static struct fan_route route[FAN_PATHS_MAX];

static uint32_t find(const struct fan_topo *t, const char *from, const char *to, uint32_t max)
{
	struct fan_paths p;
	assert_int_equal(fan_paths_open(&p, t), 0);
	uint32_t n = fan_paths_find(&p, rig_node(t, from), rig_node(t, to), max, route);
	fan_paths_close(&p);
	for (uint32_t i = 0; i < n; i++) {
		uint32_t at = rig_node(t, from);
		for (uint32_t k = 0; k < route[i].hops; k++) {
			assert_int_equal(fan_arc_from(t, route[i].arc[k]), at);
			at = fan_arc_to(t, route[i].arc[k]);
		}
		assert_int_equal(at, rig_node(t, to));
		for (uint32_t k = 0; k < i; k++)
			assert_memory_not_equal(route[i].arc, route[k].arc,
						route[i].hops * sizeof(uint32_t));
	}
	return n;
}

static void path__shortest_first(void **state)
{
	(void)state;
	struct fan_topo t = rig_load("grid-example");
	assert_int_equal(find(&t, "W1", "PS", 8), 2);
	assert_int_equal(route[0].hops, 3);
	assert_int_equal(route[1].hops, 4); /* over S2; never over another host */
	assert_int_equal(find(&t, "W1", "PS", 1), 1);
	assert_int_equal(find(&t, "S1", "S1", 8), 1);
	assert_int_equal(route[0].hops, 0);
	fan_topo_free(&t);
}

static void path__not_over_what_is_full(void **state)
{
	(void)state;
	struct fan_topo t = rig_load("grid-example");
	t.link[0].background_gbps = 3;
	fan_topo_refresh(&t);
	assert_int_equal(find(&t, "W1", "PS", 8), 1);
	assert_int_equal(route[0].hops, 4);
	fan_topo_free(&t);
}

/* In a fat-tree with k = 8, four of 16 equal routes need not share a link. */
static void path__as_different_as_can_be(void **state)
{
	(void)state;
	struct fan_topo t = rig_make("fat-tree:k=8,workers=1");
	assert_int_equal(find(&t, "R1", "R32", 4), 4);
	for (uint32_t i = 0; i < 4; i++) {
		assert_int_equal(route[i].hops, 4);
		for (uint32_t k = 0; k < i; k++)
			for (uint32_t h = 0; h < 4; h++)
				assert_int_not_equal(route[i].arc[h], route[k].arc[h]);
	}
	assert_int_equal(find(&t, "R1", "R32", 16), 16);
	assert_int_equal(route[15].hops, 4);
	fan_topo_free(&t);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(path__shortest_first),
		cmocka_unit_test(path__not_over_what_is_full),
		cmocka_unit_test(path__as_different_as_can_be),
	};
	return RUN(tests);
}
