/* SPDX-License-Identifier: Apache-2.0 */
/* rig.h - the examples of experiments/lab, and plans by hand. */
#ifndef TEST_UNIT_PLAN_RIG_H
#define TEST_UNIT_PLAN_RIG_H

#include "unit/unit.h"

#include <stdio.h>

#include "core/base/err.h"
#include "plan/eval.h"
#include "plan/topo_json.h"
#include "plan/topo_make.h"

#define RIG_FILE_BYTES 65536

static inline struct fan_topo rig_load(const char *name)
{
	static char text[RIG_FILE_BYTES];
	char path[512];
	struct fan_topo t;
	struct fan_why why;

	snprintf(path, sizeof path, "%s/../../experiments/lab/%s.json", TEST_DATA, name);
	FILE *f = fopen(path, "r");
	assert_non_null(f);
	size_t bytes = fread(text, 1, sizeof text, f);
	fclose(f);
	if (fan_topo_parse(&t, text, bytes, &why))
		fail_msg("%s: %s", path, why.text);
	return t;
}

static inline struct fan_topo rig_make(const char *text)
{
	struct fan_make m;
	struct fan_topo t = {0};
	struct fan_why why = {""};

	if (fan_make_parse(&m, text, &why) || fan_make(&t, &m, &why))
		fail_msg("%s: %s", text, why.text);
	return t;
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
static inline struct fan_route rig_route(const struct fan_topo *t, const char *names)
{
	struct fan_route r = {0};
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

static inline void assert_near(double a, double b, double slack)
{
	if (!(a >= b - slack && a <= b + slack))
		fail_msg("%.12g is not %.12g", a, b);
}

#endif
