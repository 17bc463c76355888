/* SPDX-License-Identifier: Apache-2.0 */
#include "rig.h"

#include "plan/algorithm.h"
#include "plan/picture.h"

static char *draw(const struct fan_topo *t, bool html, struct fan_text *x)
{
	struct fan_planned how = {0};
	struct fan_plan p;
	struct fan_eval e;
	struct fan_why why;
	assert_int_equal(fan_grid(t, &fan_plan_defaults, &p, &how), FAN_OK);
	assert_int_equal(fan_eval(&e, t, &p, &why), FAN_OK);
	memset(x, 0, sizeof *x);
	if (html)
		fan_picture_html(x, t, &p, &e, "a <title> & 'more'");
	else
		fan_picture_dot(x, t, &p, &e);
	fan_eval_free(&e);
	fan_plan_free(&p);
	assert_false(x->failed);
	assert_int_equal(x->bytes, strlen(x->text));
	return x->text;
}

static unsigned count(const char *text, const char *what)
{
	unsigned n = 0;
	for (const char *p = text; (p = strstr(p, what)); p++)
		n++;
	return n;
}

/* Where a node's box is: its rectangle is the last before its title. */
static double height_of(const char *html, const char *title)
{
	const char *end = strstr(html, title), *p = html, *rect = NULL;
	double x, y;
	assert_non_null(end);
	while ((p = strstr(p, "<rect ")) && p < end)
		rect = p++;
	assert_non_null(rect);
	assert_int_equal(sscanf(rect, "<rect x=%lf y=%lf", &x, &y), 2);
	return y;
}

static void picture__has_every_node_and_link_once(void **state)
{
	(void)state;
	struct fan_topo t = rig_load("grid-example");
	struct fan_text x;
	const char *html = draw(&t, true, &x);
	assert_int_equal(count(html, "<rect "), t.nodes);
	assert_int_equal(count(html, "<path "), t.links);
	assert_non_null(strstr(html, "<b>3 Gb/s</b>"));
	assert_non_null(strstr(html, "link S1-S3: 3 Gb/s, 100 % full"));
	assert_non_null(strstr(html, "#cd2026")); /* full is red */
	fan_text_free(&x);
	const char *dot = draw(&t, false, &x);
	assert_int_equal(count(dot, " -- "), t.links);
	assert_int_equal(count(dot, "shape=circle"), 8);
	assert_int_equal(count(dot, "shape=house"), 1);
	fan_text_free(&x);
	fan_topo_free(&t);
}

static void picture__names_are_no_markup(void **state)
{
	(void)state;
	struct fan_topo t = rig_load("grid-example");
	struct fan_text x;
	snprintf(t.node[rig_node(&t, "S1")].name, FAN_TOPO_NAME_MAX, "<b>\"&\\");
	const char *html = draw(&t, true, &x);
	assert_null(strstr(html, "<b>\""));
	assert_non_null(strstr(html, "a _title_ _ _more_"));
	fan_text_free(&x);
	const char *dot = draw(&t, false, &x);
	assert_non_null(strstr(dot, "label=\"_b____"));
	fan_text_free(&x);
	fan_topo_free(&t);
}

/* A rack without hosts stays in the row of the racks, and cores above all. */
static void picture__rows_by_kind(void **state)
{
	(void)state;
	struct fan_topo t = rig_make("fat-tree:k=4,workers=3,seed=2");
	struct fan_text x;
	const char *html = draw(&t, true, &x);
	double rack = height_of(html, "switch R1:"), above = height_of(html, "switch A1:"),
	       core = height_of(html, "switch C1:");
	assert_true(core < above && above < rack && rack < height_of(html, "worker W1:"));
	for (unsigned i = 1; i <= 8; i++) {
		char title[32];
		snprintf(title, sizeof title, "switch R%u:", i);
		assert_near(height_of(html, title), rack, 0.2);
		snprintf(title, sizeof title, "switch A%u:", i);
		assert_near(height_of(html, title), above, 0.2);
	}
	fan_text_free(&x);
	fan_topo_free(&t);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(picture__has_every_node_and_link_once),
		cmocka_unit_test(picture__names_are_no_markup),
		cmocka_unit_test(picture__rows_by_kind),
	};
	return RUN(tests);
}
