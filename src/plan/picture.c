/* SPDX-License-Identifier: Apache-2.0 */
#include "picture.h"

#include <math.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#define LEVELS_MAX  8
#define PAGE_PIXELS 1180
#define ROW_PIXELS  130
#define EDGE_PIXELS 40
#define WIDE_MAX    6.0

void fan_text_free(struct fan_text *x)
{
	free(x->text);
	memset(x, 0, sizeof *x);
}

static void put(struct fan_text *x, const char *format, ...) __attribute__((format(printf, 2, 3)));

static void put(struct fan_text *x, const char *format, ...)
{
	va_list args, again;

	va_start(args, format);
	va_copy(again, args);
	int n = vsnprintf(NULL, 0, format, args);
	va_end(args);
	size_t need = n < 0 ? 0 : x->bytes + (size_t)n + 1;
	if (need > x->room && !x->failed) {
		char *more = realloc(x->text, need * 2);
		x->failed = !more;
		if (more) {
			x->text = more;
			x->room = need * 2;
		}
	}
	if (n >= 0 && !x->failed) {
		vsnprintf(x->text + x->bytes, x->room - x->bytes, format, again);
		x->bytes += (size_t)n;
	}
	va_end(again);
}

/* A name, with what HTML and graphviz take for their own left out of it. */
static void put_name(struct fan_text *x, const char *name)
{
	for (; *name; name++)
		put(x, "%c", strchr("<>&\"'\\", *name) || (unsigned char)*name < ' ' ? '_' : *name);
}

/* How full a resource is, 0 .. 1, background load included. */
static double fullness(const struct fan_topo *t, const struct fan_eval *e, uint32_t r)
{
	double all, background;

	if (r < 2 * t->links) {
		all = t->link[r / 2].gbps;
		background = t->link[r / 2].background_gbps;
	} else {
		all = t->node[r - 2 * t->links].gbps;
		background = t->node[r - 2 * t->links].background_gbps;
	}
	return all > 0 ? fmin((e->load_gbps[r] + background) / all, 1) : 0;
}

/* The fuller direction of a link. */
static double link_fullness(const struct fan_topo *t, const struct fan_eval *e, uint32_t link)
{
	return fmax(fullness(t, e, 2 * link), fullness(t, e, 2 * link + 1));
}

/* From grey over orange to red. */
static void put_colour(struct fan_text *x, double full)
{
	int red = (int)(170 + 50 * full), green = (int)(170 - 150 * full * full);
	int blue = (int)(170 - 150 * fmin(1, full * 1.5));

	put(x, "#%02x%02x%02x", red, green, blue);
}

static bool sums_here(const struct fan_plan *p, uint32_t node)
{
	for (uint32_t i = 0; i < p->trees; i++)
		if (fan_tree_sum(&p->tree[i], node))
			return true;
	return false;
}

void fan_picture_dot(struct fan_text *x, const struct fan_topo *t, const struct fan_plan *p,
		     const struct fan_eval *e)
{
	static const char *const shapes[] = {"circle", "box", "house"};

	put(x, "graph plan {\n\tnode [style=filled fontsize=10];\n");
	for (uint32_t i = 0; i < t->nodes; i++) {
		double full = fullness(t, e, fan_node_resource(t, i));
		put(x, "\tn%u [label=\"", i);
		put_name(x, t->node[i].name);
		if (full > 0)
			put(x, "\\n%.0f %%", 100 * full);
		put(x, "\" shape=%s penwidth=%d fillcolor=\"", shapes[t->node[i].kind],
		    sums_here(p, i) ? 3 : 1);
		put_colour(x, full);
		put(x, "\"];\n");
	}
	for (uint32_t i = 0; i < t->links; i++) {
		double full = link_fullness(t, e, i);
		put(x, "\tn%u -- n%u [penwidth=%.1f color=\"", t->link[i].a, t->link[i].b,
		    1 + (WIDE_MAX - 1) * full);
		put_colour(x, full);
		put(x, "\"];\n");
	}
	put(x, "}\n");
}

/* ---- the page -------------------------------------------------------------- */

struct layout {
	uint32_t *level; /* by node: 0 is a host */
	double *across;	 /* pixels */
	uint32_t count[LEVELS_MAX + 1], levels;
};

/* Links to the nearest host. */
static void find_levels(const struct fan_topo *t, struct layout *l)
{
	for (uint32_t i = 0; i < t->nodes; i++)
		l->level[i] = t->node[i].kind == FAN_NODE_SWITCH ? LEVELS_MAX : 0;
	for (uint32_t round = 0; round < LEVELS_MAX; round++)
		for (uint32_t a = 0; a < 2 * t->links; a++) {
			uint32_t *to = &l->level[fan_arc_to(t, a)];
			uint32_t from = l->level[fan_arc_from(t, a)];
			*to = from + 1 < *to ? from + 1 : *to;
		}
}

/* Hosts under their switch: in the order of the switch that they are on. */
static void place(const struct fan_topo *t, struct layout *l)
{
	uint32_t next[LEVELS_MAX + 1] = {0};

	find_levels(t, l);
	for (uint32_t i = 0; i < t->nodes; i++) {
		l->count[l->level[i]]++;
		l->levels = l->level[i] > l->levels ? l->level[i] : l->levels;
	}
	for (uint32_t i = 0; i < t->nodes; i++)
		if (l->level[i] > 0)
			l->across[i] = (next[l->level[i]]++ + 0.5) / l->count[l->level[i]];
	for (uint32_t s = 0; s < t->nodes; s++) {
		for (uint32_t k = 0; k < t->node[s].degree && l->level[s] == 1; k++) {
			uint32_t host = fan_arc_to(t, t->out[t->node[s].first + k]);
			if (l->level[host] == 0 && !(l->across[host] > 0))
				l->across[host] = (next[0]++ + 0.5) / l->count[0];
		}
	}
	for (uint32_t i = 0; i < t->nodes; i++)
		l->across[i] = EDGE_PIXELS + l->across[i] * (PAGE_PIXELS - 2 * EDGE_PIXELS);
}

static double down(const struct layout *l, uint32_t node)
{
	return EDGE_PIXELS + (double)(l->levels - l->level[node]) * ROW_PIXELS;
}

static void put_title(struct fan_text *x, const struct fan_topo *t, const struct fan_eval *e,
		      uint32_t resource)
{
	char name[2 * FAN_TOPO_NAME_MAX + 16];

	fan_resource_text(t, resource, name, sizeof name);
	put_name(x, name);
	put(x, ": %.4g Gb/s, %.0f %% of it full; ", e->load_gbps[resource],
	    100 * fullness(t, e, resource));
}

static void put_link(struct fan_text *x, const struct fan_topo *t, const struct fan_eval *e,
		     const struct layout *l, uint32_t i)
{
	uint32_t a = t->link[i].a, b = t->link[i].b;
	double full = link_fullness(t, e, i);

	put(x, "<line x1=%.1f y1=%.1f x2=%.1f y2=%.1f stroke-width=%.1f stroke=\"", l->across[a],
	    down(l, a), l->across[b], down(l, b), 0.6 + (WIDE_MAX - 0.6) * full);
	put_colour(x, full);
	put(x, "\"><title>");
	put_title(x, t, e, 2 * i);
	put_title(x, t, e, 2 * i + 1);
	put(x, "</title></line>\n");
}

static void put_node(struct fan_text *x, const struct fan_topo *t, const struct fan_plan *p,
		     const struct fan_eval *e, const struct layout *l, uint32_t i)
{
	double full = fullness(t, e, fan_node_resource(t, i));
	double wide = (PAGE_PIXELS - 2 * EDGE_PIXELS) / (double)l->count[l->level[i]];
	double size = fmin(fmax(wide * 0.4, 3), 14);
	bool round = t->node[i].kind == FAN_NODE_WORKER;

	put(x,
	    "<rect x=%.1f y=%.1f width=%.1f height=%.1f rx=%.1f stroke=\"%s\" stroke-width=%d fill=\"",
	    l->across[i] - size, down(l, i) - size, 2 * size, 2 * size, round ? size : 2,
	    t->node[i].kind == FAN_NODE_SERVER ? "#06c" : "#333", sums_here(p, i) ? 3 : 1);
	put_colour(x, full);
	put(x, "\"><title>");
	put_title(x, t, e, fan_node_resource(t, i));
	put(x, "</title></rect>\n");
	if (wide > 5.0 * (double)strlen(t->node[i].name)) {
		put(x, "<text x=%.1f y=%.1f text-anchor=middle>", l->across[i],
		    down(l, i) + size + 12);
		put_name(x, t->node[i].name);
		put(x, "</text>\n");
	}
}

void fan_picture_html(struct fan_text *x, const struct fan_topo *t, const struct fan_plan *p,
		      const struct fan_eval *e, const char *title)
{
	struct layout l = {.level = calloc(t->nodes + 1, sizeof(uint32_t)),
			   .across = calloc(t->nodes + 1, sizeof(double))};

	x->failed = x->failed || !l.level || !l.across;
	if (!x->failed) {
		place(t, &l);
		put(x, "<!doctype html><meta charset=utf-8><title>");
		put_name(x, title);
		put(x, "</title><style>body{font:14px sans-serif;margin:1em}text{font:10px "
		       "sans-serif}</style><h1>");
		put_name(x, title);
		put(x,
		    "</h1><p>%.6g Gb/s for every worker. Wide and red is full; a thick border sums; "
		    "squares with a blue border are servers, circles workers.</p>\n"
		    "<svg width=%d height=%d>\n",
		    e->gbps, PAGE_PIXELS, 2 * EDGE_PIXELS + (int)l.levels * ROW_PIXELS);
		for (uint32_t i = 0; i < t->links; i++)
			put_link(x, t, e, &l, i);
		for (uint32_t i = 0; i < t->nodes; i++)
			put_node(x, t, p, e, &l, i);
		put(x, "</svg>\n");
	}
	free(l.level);
	free(l.across);
}
