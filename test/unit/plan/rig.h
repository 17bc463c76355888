/* SPDX-License-Identifier: Apache-2.0 */
/* rig.h - the examples of experiments/lab, and plans by hand. */
#ifndef TEST_UNIT_PLAN_RIG_H
#define TEST_UNIT_PLAN_RIG_H

#include "unit/unit.h"

#include <stdio.h>
#include <sys/socket.h>
#include <unistd.h>

#include "core/base/err.h"
#include "plan/eval.h"
#include "plan/install.h"
#include "plan/steps.h"
#include "plan/topo.h"

#define RIG_FILE_BYTES (4 << 20)

/* Variables that are freed where their block ends. */
#define TOPO	__attribute__((cleanup(fan_topo_free))) struct fan_topo
#define PLAN	__attribute__((cleanup(fan_plan_free))) struct fan_plan
#define EVAL	__attribute__((cleanup(fan_eval_free))) struct fan_eval
#define CANDS	__attribute__((cleanup(fan_cands_close))) struct fan_cands
#define INSTALL __attribute__((cleanup(fan_install_free))) struct fan_install

/* The topology in a text of JSON. */
static inline struct fan_topo rig_parse(const char *text)
{
	struct fan_topo t;
	struct fan_why why;
	json_t *root = json_loads(text, 0, NULL);

	if (fan_topo_from_json(&t, root, &why))
		fail_msg("%.200s: %s", text, why.text);
	json_decref(root);
	return t;
}

/* Rates or background loads have changed. */
static inline void rig_refresh(struct fan_topo *t)
{
	(void)fan_topo_seal(t, NULL);
}

/* A line of fanin.research.formats, for a line of `source`: its process lives as long as this. */
static inline const char *rig_formats(const char *source)
{
	static const char program[] = TEST_DATA "/../../python/fanin/research/__main__.py";
	static FILE *to, *from;
	static char text[RIG_FILE_BYTES];

	if (!to) {
		int ends[2];
		assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends), 0);
		if (fork() == 0) {
			dup2(ends[1], STDIN_FILENO);
			dup2(ends[1], STDOUT_FILENO);
			execlp("python3", "python3", "-I", "-S", "-B", program, "formats", NULL);
			_exit(127);
		}
		close(ends[1]);
		to = fdopen(ends[0], "w");
		from = fdopen(dup(ends[0]), "r");
	}
	fprintf(to, "%s\n", source);
	fflush(to);
	if (!fgets(text, sizeof text, from))
		fail_msg("%s: no network", source);
	return text;
}

/* The topology that a file has, or that numbers make. */
static inline struct fan_topo rig_make(const char *source)
{
	return rig_parse(rig_formats(source));
}

/* An example of experiments/lab. */
static inline struct fan_topo rig_load(const char *name)
{
	char path[256];

	snprintf(path, sizeof path, "%s/../../experiments/lab/%s.json", TEST_DATA, name);
	return rig_make(path);
}

static inline uint32_t rig_node(const struct fan_topo *t, const char *name)
{
	for (uint32_t i = 0; i < t->nodes; i++)
		if (strcmp(t->node[i].name, name) == 0)
			return i;
	fail_msg("no node %s", name);
	return 0;
}

/* The route over the nodes that are named, with blanks between them. */
static inline struct fan_arcs rig_route(const struct fan_topo *t, const char *names)
{
	struct fan_arcs r = {0};
	char text[256], *rest = text;

	snprintf(text, sizeof text, "%s", names);
	uint32_t at = rig_node(t, strtok_r(text, " ", &rest));
	for (char *w = strtok_r(NULL, " ", &rest); w; w = strtok_r(NULL, " ", &rest)) {
		uint32_t to = rig_node(t, w), arc = 0;
		while (arc < 2 * t->links &&
		       (fan_arc_from(t, arc) != at || fan_arc_to(t, arc) != to))
			arc++;
		assert_true(arc < 2 * t->links);
		r.arc[r.hops++] = arc;
		at = to;
	}
	return r;
}

static inline void rig_flow(const struct fan_topo *t, struct fan_flow *f, const char *names)
{
	f->route = rig_route(t, names);
	f->to = fan_arc_to(t, f->route.arc[f->route.hops - 1]);
}

/* The plan of the GRID paper: W4 over S2, all others to the switch they are on. */
static inline struct fan_plan rig_grid_plan(const struct fan_topo *t)
{
	static const char *const flows[] = {"W1 S1", "W2 S1", "W3 S1", "W4 S1 S2",
					    "W5 S2", "W6 S2", "W7 S3", "W8 S3"};
	struct fan_plan p = {0};
	struct fan_tree *tree = fan_plan_add(&p, t, 0, rig_node(t, "PS"), 1);
	for (unsigned i = 0; i < 8; i++)
		rig_flow(t, &tree->flow[i], flows[i]);
	rig_flow(t, fan_tree_add_sum(tree, rig_node(t, "S1")), "S1 S3 PS");
	rig_flow(t, fan_tree_add_sum(tree, rig_node(t, "S2")), "S2 S3 PS");
	rig_flow(t, fan_tree_add_sum(tree, rig_node(t, "S3")), "S3 PS");
	return p;
}

/* Of what any plan can reach; `results`: with those, where the network asks for them. */
static inline double rig_bound(const struct fan_topo *t, bool results)
{
	CANDS c;
	const struct fan_cands_options few = {.paths = 1};
	assert_int_equal(fan_cands_open(&c, t, &few), 0);
	return fan_bound(&c, results);
}

static inline void assert_near(double a, double b, double slack)
{
	if (!(a >= b - slack && a <= b + slack))
		fail_msg("%.12g is not %.12g", a, b);
}

#endif
