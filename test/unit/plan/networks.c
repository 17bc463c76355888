/* SPDX-License-Identifier: Apache-2.0 */
/* Every algorithm on random networks of one to four jobs: a plan or a named error, never more.
 *
 * FAN_TEST_NETWORKS says how many, FAN_TEST_SEED which.  The last number in the log is that of the
 * network that fails. */
#include "rig.h"
#include "unit/unit.h"

#include <math.h>

#include "plan/algorithm.h"
#include "plan/install.h"
#include "plan/steps.h"

#define NETWORKS      120
#define SWITCHES      6
#define JOBS	      4
#define WORKERS	      6
#define SERVERS	      3
#define NODES_EXACT   40  /* of branch and bound */
#define CHOICES_EXACT 120 /* integer variables */

/* All rates of a network are multiplied by one of these. */
static const double scales[] = {1, 1, 1, 1, FAN_TOPO_GBPS_MIN, 1e-3, 1e3, FAN_TOPO_GBPS_MAX / 100};
/* Of links and switches; 0: a switch does not sum. */
static const double rates[] = {0, 1, 1, 2.5, 10, 10, 100};

static uint32_t below(struct fan_rng *r, uint32_t n)
{
	return (uint32_t)fan_rng_below(r, n);
}

static double rate(struct fan_rng *r, double scale, bool some)
{
	return scale * rates[some + below(r, sizeof rates / sizeof rates[0] - some)];
}

static uint32_t add_node(struct fan_topo *t, enum fan_node_kind kind, double gbps)
{
	char name[16];
	snprintf(name, sizeof name, "%c%u", "wsp"[kind], t -> nodes);
	assert_int_equal(fan_topo_add_node(t, name, kind, gbps), 0);
	return t->nodes - 1;
}

/* Switches in a tree with some more links, then hosts at any of them. */
static struct fan_topo draw(struct fan_rng *r)
{
	struct fan_topo t;
	struct fan_why why = {""};
	const double scale = scales[below(r, sizeof scales / sizeof scales[0])];
	const uint32_t switches = 1 + below(r, SWITCHES), jobs = 1 + below(r, JOBS),
		       servers = 1 + below(r, SERVERS);
	t = (struct fan_topo){0};
	for (uint32_t i = 0; i < switches; i++) {
		add_node(&t, FAN_NODE_SWITCH, rate(r, scale, false));
		for (uint32_t k = 0; k < 1 + below(r, 2) && i; k++)
			assert_int_equal(
				fan_topo_add_link(&t, i, below(r, i), rate(r, scale, true)), 0);
	}
	for (uint32_t i = 0; i < servers; i++)
		add_node(&t, FAN_NODE_SERVER, rate(r, scale, false));
	for (uint32_t j = 0; j < jobs; j++) {
		const uint32_t workers = 1 + below(r, WORKERS);
		char name[16];
		snprintf(name, sizeof name, "j%u", j);
		assert_int_equal(fan_topo_add_job(&t, name, WORKERS, SERVERS), 0);
		for (uint32_t w = 0; w < workers; w++)
			t.job[j].worker[t.job[j].workers++] = add_node(&t, FAN_NODE_WORKER, 0);
		for (uint32_t s = 0; s < servers; s++)
			if (s == j % servers || below(r, 3) == 0)
				t.job[j].server[t.job[j].servers++] = switches + s;
		t.job[j].weight = rates[1 + below(r, 4)];
	}
	for (uint32_t i = switches; i < t.nodes; i++)
		for (uint32_t k = 0; k < 1 + (below(r, 8) == 0); k++)
			assert_int_equal(
				fan_topo_add_link(&t, i, below(r, switches), rate(r, scale, true)),
				0);
	t.results = below(r, 2);
	if (fan_topo_seal(&t, &why))
		fail_msg("%s", why.text);
	return t;
}

/* A plan is evaluated, no better than the bound, and installed or refused with the reason. */
static void check_plan(const struct fan_topo *t, const struct fan_plan *p, const char *name,
		       double bound)
{
	struct fan_why why = {""};
	INSTALL in;
	struct fan_eval e;
	if (fan_eval(&e, t, p, &why))
		fail_msg("%s: %s", name, why.text);
	if (!(e.gbps > 0 && e.gbps <= bound * (1 + 1e-5)))
		fail_msg("%s: %g Gb/s, and the bound is %g", name, e.gbps, bound);
	fan_eval_free(&e);
	int err = fan_install_make(&in, t, p, 0, &why);
	assert_true(err == FAN_OK || (err == FAN_E_CONFIG && why.text[0]));
}

static bool is_named(int err)
{
	return err == FAN_E_BUSY || err == FAN_E_STALLED || err == FAN_E_INVALID;
}

/* A link or a switch has nothing left. */
static void fail_one(struct fan_topo *t, struct fan_rng *r)
{
	struct fan_link *l = &t->link[below(r, t->links)];
	struct fan_node *n = &t->node[below(r, t->nodes)];
	if (below(r, 2))
		l->background_gbps = l->gbps;
	else if (n->kind == FAN_NODE_SWITCH)
		n->background_gbps = n->gbps;
	rig_refresh(t);
}

static void plan_all(struct fan_topo *t, struct fan_rng *r)
{
	struct fan_plan_options o = fan_plan_defaults;
	struct fan_plan plans[16];
	double bound = rig_bound(t, true);
	o.seed = fan_rng_next(r);
	o.nodes = NODES_EXACT;
	o.choices = CHOICES_EXACT;
	o.sums_at = (enum fan_sums_at)below(r, 3);
	o.rounding = (enum fan_rounding)below(r, 3);
	o.trees = below(r, 2) ? 1 : FAN_TREES_DEFAULT;
	o.roundings = 1 + below(r, 8);
	assert_true(fan_algorithm_count <= 16);
	for (uint32_t i = 0; i < fan_algorithm_count; i++) {
		struct fan_planned how = {0};
		int err = fan_algorithms[i].run(t, &o, &plans[i], &how);
		if (err && !is_named(err))
			fail_msg("%s: %s", fan_algorithms[i].name, fan_err_text(err));
		if (!err)
			check_plan(t, &plans[i], fan_algorithms[i].name, bound);
	}
	fail_one(t, r);
	struct fan_why why = {""};
	bool stands = fan_topo_seal(t, &why) == FAN_OK;
	bound = stands ? rig_bound(t, true) : 0;
	for (uint32_t i = 0; i < fan_algorithm_count; i++) {
		struct fan_planned how = {0};
		int err = FAN_E_BUSY;
		if (stands && fan_algorithms[i].mend && plans[i].trees)
			err = fan_algorithms[i].mend(t, &o, &plans[i], &how);
		if (err && !is_named(err))
			fail_msg("%s mends: %s", fan_algorithms[i].name, fan_err_text(err));
		if (!err)
			check_plan(t, &plans[i], fan_algorithms[i].name, bound);
		fan_plan_free(&plans[i]);
	}
}

TEST(networks__are_planned_or_refused)
{
	const char *many = getenv("FAN_TEST_NETWORKS");
	const uint32_t count = many ? (uint32_t)strtoul(many, NULL, 10) : NETWORKS;
	struct fan_rng all = test_rng();
	for (uint32_t i = 0; i < count; i++) {
		struct fan_rng r = {fan_rng_next(&all)};
		print_message("network %u\n", i);
		TOPO t = draw(&r);
		plan_all(&t, &r);
	}
}

UNIT_MAIN
