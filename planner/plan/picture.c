/* SPDX-License-Identifier: Apache-2.0 */
#include <math.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "report.h"

#define LEVELS_MAX  8
#define PAGE_PIXELS 1180
#define ROW_PIXELS  130
#define EDGE_PIXELS 40
#define WIDE_MAX    5.0 /* pixels of a link that is full */
#define WIDE_MIN    1.8
#define FULL_PIXELS 500.0 /* of all links' widths together, about */
#define TEXT_PIXELS 6.0	  /* of a letter */
#define FEW_HOSTS   0.8	  /* of the mean: a switch with fewer has room for so many */
#define NEXT_TO	    1.5	  /* of the room of one: farther ends have others between them */
#define KINDS_MAX   16	  /* of names of switches */

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

/* A name, with what graphviz takes for its own left out of it. */
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

/* From grey over amber to red. */
static void put_colour(struct fan_text *x, double full)
{
	static const int stops[3][3] = {{205, 212, 220}, {240, 178, 70}, {205, 32, 38}};
	int from = full < 0.5 ? 0 : 1;
	double part = 2 * full - from;

	put(x, "#");
	for (int i = 0; i < 3; i++)
		put(x, "%02x",
		    (unsigned)lround(stops[from][i] +
				     part * (stops[from + 1][i] - stops[from][i])));
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

/* ---- the page ---- */

struct layout {
	uint32_t *level; /* by node: 0 is a host */
	double *across;	 /* pixels */
	uint32_t count[LEVELS_MAX + 1], levels;
	double top;	/* pixels above the upper row */
	double wide;	/* of a link that is full */
	double host;	/* pixels from one host to the next */
	bool host_text; /* there is room for their names */
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

/* "R12" and "R7" are of a kind: what is before the number. */
static size_t kind_bytes(const char *name)
{
	size_t n = strlen(name);

	while (n > 0 && name[n - 1] >= '0' && name[n - 1] <= '9')
		n--;
	return n;
}

/* Switches that are named alike belong in one row: a rack without hosts is still a rack.
 * Only where names tell rows apart: there are some kinds of names, and not many. */
static void align_kinds(const struct fan_topo *t, struct layout *l)
{
	uint32_t first[KINDS_MAX], least[KINDS_MAX], kinds = 0;

	for (int pass = 0; pass < 2; pass++)
		for (uint32_t i = 0; i < t->nodes; i++) {
			const char *name = t->node[i].name;
			size_t n = kind_bytes(name);
			uint32_t k = 0;
			if (t->node[i].kind != FAN_NODE_SWITCH)
				continue;
			while (k < kinds && (kind_bytes(t->node[first[k]].name) != n ||
					     memcmp(t->node[first[k]].name, name, n) != 0))
				k++;
			if (k == KINDS_MAX || (pass == 1 && kinds < 2))
				return;
			if (k == kinds) {
				first[kinds] = i;
				least[kinds++] = l->level[i];
			}
			if (l->level[i] < least[k])
				least[k] = l->level[i];
			if (pass == 1)
				l->level[i] = least[k];
		}
}

/* Hosts of a switch that have no place so far; with `at`, which gives them places from there on. */
static double place_hosts(const struct fan_topo *t, struct layout *l, uint32_t s, const double *at)
{
	double count = 0;

	for (uint32_t k = 0; k < t->node[s].degree; k++) {
		uint32_t host = fan_arc_to(t, t->out[t->node[s].first + k]);
		if (l->level[host] > 0 || l->across[host] > 0)
			continue;
		count++;
		if (at)
			l->across[host] = *at + count - 0.5;
	}
	return count;
}

/* Hosts side by side under the switch that they are on, and that switch above their
 * middle; one with few hosts has room for more. */
static void place_lowest(const struct fan_topo *t, struct layout *l)
{
	double next = 0, least = fmax(FEW_HOSTS * l->count[0] / fmax(l->count[1], 1), 1);

	for (uint32_t s = 0; s < t->nodes; s++) {
		if (l->level[s] != 1)
			continue;
		double hosts = place_hosts(t, l, s, NULL), room = fmax(hosts, least);
		double at = next + (room - hosts) / 2;
		place_hosts(t, l, s, &at);
		l->across[s] = next + room / 2;
		next += room;
	}
	for (uint32_t i = 0; i < t->nodes; i++) /* on no switch at all */
		if (l->level[i] == 0 && !(l->across[i] > 0))
			l->across[i] = next++ + 0.5;
	for (uint32_t i = 0; i < t->nodes && next > 0; i++)
		if (l->level[i] <= 1)
			l->across[i] /= next;
	l->host = (PAGE_PIXELS - 2 * EDGE_PIXELS) / fmax(next, 1);
}

static void place(const struct fan_topo *t, struct layout *l)
{
	uint32_t next[LEVELS_MAX + 1] = {0};
	size_t longest = 0;

	find_levels(t, l);
	align_kinds(t, l);
	for (uint32_t i = 0; i < t->nodes; i++) {
		l->count[l->level[i]]++;
		l->levels = l->level[i] > l->levels ? l->level[i] : l->levels;
		if (l->level[i] == 0 && strlen(t->node[i].name) > longest)
			longest = strlen(t->node[i].name);
	}
	for (uint32_t i = 0; i < t->nodes; i++)
		if (l->level[i] > 1)
			l->across[i] = (next[l->level[i]]++ + 0.5) / l->count[l->level[i]];
	place_lowest(t, l);
	for (uint32_t i = 0; i < t->nodes; i++)
		l->across[i] = EDGE_PIXELS + l->across[i] * (PAGE_PIXELS - 2 * EDGE_PIXELS);
	l->top = EDGE_PIXELS;
	for (uint32_t i = 0; i < t->links; i++)
		if (l->level[t->link[i].a] == l->levels && l->level[t->link[i].b] == l->levels)
			l->top = 2.5 * EDGE_PIXELS; /* it bends upwards */
	l->wide = fmin(fmax(FULL_PIXELS / (double)(t->links + 1), WIDE_MIN), WIDE_MAX);
	l->host_text = l->host > TEXT_PIXELS * (double)longest;
}

static double down(const struct layout *l, uint32_t node)
{
	return l->top + (double)(l->levels - l->level[node]) * ROW_PIXELS;
}

/* [end, end, bow over what stands between in the same row, share and Gb/s there, and back] */
static json_t *link_json(const struct fan_topo *t, const struct fan_eval *e, const struct layout *l,
			 uint32_t i)
{
	uint32_t a = t->link[i].a, b = t->link[i].b;
	double ax = l->across[a], bx = l->across[b];
	double room = (PAGE_PIXELS - 2 * EDGE_PIXELS) / (double)l->count[l->level[a]];
	bool bends = l->level[a] == l->level[b] && fabs(ax - bx) > NEXT_TO * room;

	return json_pack("[iifffff]", (int)a, (int)b,
			 bends ? fmin(fabs(ax - bx) * 0.1, EDGE_PIXELS) : 0, fullness(t, e, 2 * i),
			 e->load_gbps[2 * i], fullness(t, e, 2 * i + 1), e->load_gbps[2 * i + 1]);
}

static json_t *node_json(const struct fan_topo *t, const struct fan_plan *p,
			 const struct fan_eval *e, const struct layout *l, uint32_t i)
{
	static const char *const kinds[] = {"worker", "switch", "server"};
	const struct fan_node *n = &t->node[i];
	double bytes = (double)strlen(n->name);
	double room = (PAGE_PIXELS - 2 * EDGE_PIXELS) / (double)l->count[l->level[i]];
	double size = fmin(fmax((l->level[i] ? room : l->host) * 0.42, 2), 15);
	bool inside = n->kind == FAN_NODE_SWITCH && 2 * size > TEXT_PIXELS * bytes;
	bool below = n->kind == FAN_NODE_WORKER ? l->host_text : n->kind == FAN_NODE_SERVER;

	size = n->kind == FAN_NODE_SERVER ? fmax(size, 6) : size;
	return json_pack("{ss ss sf sf sf sf sf sb sb sb}", "name", n->name, "kind", kinds[n->kind],
			 "x", l->across[i], "y", down(l, i), "size", size, "full",
			 fullness(t, e, fan_node_resource(t, i)), "gbps",
			 e->load_gbps[fan_node_resource(t, i)], "sums", sums_here(p, i), "passes",
			 n->kind == FAN_NODE_SWITCH && !fan_node_sums(t, i), "named",
			 inside || below);
}

json_t *fan_picture_page(const struct fan_topo *t, const struct fan_plan *p,
			 const struct fan_eval *e, const char *title, const char *sub)
{
	struct layout l = {.level = calloc(t->nodes + 1, sizeof(uint32_t)),
			   .across = calloc(t->nodes + 1, sizeof(double))};
	json_t *page = NULL, *nodes = json_array(), *links = json_array();

	if (l.level && l.across) {
		place(t, &l);
		for (uint32_t i = 0; i < t->nodes; i++)
			json_array_append_new(nodes, node_json(t, p, e, &l, i));
		for (uint32_t i = 0; i < t->links; i++)
			json_array_append_new(links, link_json(t, e, &l, i));
		page = json_pack("{ss ss ss s[{ss ss si sf sf sO sO}]}", "by", "fanin plan",
				 "title", title, "sub", sub, "blocks", "kind", "network", "title",
				 "What the plan loads, and where it sums", "width", PAGE_PIXELS,
				 "height", l.top + EDGE_PIXELS + (double)l.levels * ROW_PIXELS,
				 "wide", l.wide, "nodes", nodes, "links", links);
	}
	json_decref(nodes);
	json_decref(links);
	free(l.level);
	free(l.across);
	return page;
}
