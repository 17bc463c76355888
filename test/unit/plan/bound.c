/* SPDX-License-Identifier: Apache-2.0 */
#include "rig.h"

#include <math.h>

#include "plan/bound.h"
#include "plan/relax.h"

static void open_cands(struct fan_cands *c, const struct fan_topo *t, uint32_t paths)
{
	struct fan_cands_options o = {.paths = paths};
	assert_int_equal(fan_cands_open(c, t, &o), 0);
}

static double relaxed(const struct fan_cands *c)
{
	struct fan_relax r;
	assert_int_equal(fan_relax_open(&r, c, NULL), 0);
	assert_int_equal(fan_relax_solve(&r, false), 0);
	double gbps = r.gbps;
	fan_relax_close(&r);
	return gbps;
}

/* GRID's program without links, solved by hand: from numbers, not from the topology. */
static double closed_form(double n, double access, double server, double switches)
{
	double y = fmin(server, switches / n);
	return fmin(access, y + (server - y) / n);
}

/* Links so wide that only switches, the server and what workers send count. */
static void bound__closed_form_without_links(void **state)
{
	(void)state;
	struct fan_rng rng = test_rng();
	for (unsigned i = 0; i < 200; i++) {
		char make[256];
		uint32_t workers = (uint32_t)rng_range(&rng, 1, 30);
		double cap = 1 + (double)fan_rng_below(&rng, 300) / 7;
		double server = 1 + (double)fan_rng_below(&rng, 300) / 3;
		double access = 1 + (double)fan_rng_below(&rng, 60) / 7;
		snprintf(make, sizeof make,
			 "leaf-spine:leaves=3,spines=2,hosts=40,workers=%u,link=1e6,server=%.17g,"
			 "switch=%.17g,seed=%u",
			 workers, server, cap, i);
		struct fan_topo t = rig_make(make);
		struct fan_cands c;
		for (uint32_t k = 0; k < t.nodes; k++)
			if (t.node[k].kind == FAN_NODE_WORKER)
				t.node[k].gbps = access;
		fan_topo_refresh(&t);
		open_cands(&c, &t, 8);
		double want = closed_form(workers, access, server, 5 * cap), flows;
		assert_int_equal(fan_bound_flows(&c, false, &flows), 0);
		assert_near(fan_bound_closed(&c, false), want, 1e-9);
		assert_near(relaxed(&c), want, 1e-6);
		assert_near(flows, want, 1e-6);
		fan_cands_close(&c);
		fan_topo_free(&t);
	}
}

/* Over all routes, flows by target and volumes by route are the same program. */
static void bound__flows_and_routes_agree(void **state)
{
	(void)state;
	struct fan_rng rng = test_rng();
	for (unsigned i = 0; i < 60; i++) {
		char make[256];
		snprintf(make, sizeof make,
			 "%s,workers=%u,servers=%u,link=%u,server=%u,switch=%u,switch_max=%u,"
			 "programmable=0.%u,seed=%u",
			 i % 2 ? "triangle:hosts=20" : "leaf-spine:leaves=3,spines=2,hosts=20",
			 (unsigned)rng_range(&rng, 1, 12), (unsigned)rng_range(&rng, 1, 3),
			 (unsigned)rng_range(&rng, 2, 12), (unsigned)rng_range(&rng, 2, 30),
			 (unsigned)rng_range(&rng, 1, 9), (unsigned)rng_range(&rng, 9, 60),
			 (unsigned)rng_range(&rng, 1, 9), i);
		struct fan_topo t = rig_make(make);
		struct fan_cands c;
		double flows;
		open_cands(&c, &t, FAN_PATHS_MAX);
		assert_int_equal(fan_bound_flows(&c, false, &flows), 0);
		if (fabs(relaxed(&c) - flows) > 1e-6 * flows)
			fail_msg("%s: routes %.9g, flows %.9g", make, relaxed(&c), flows);
		assert_true(flows <= fan_bound_closed(&c, true) * (1 + 1e-9));
		fan_cands_close(&c);
		fan_topo_free(&t);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(bound__closed_form_without_links),
		cmocka_unit_test(bound__flows_and_routes_agree),
	};
	return RUN(tests);
}
