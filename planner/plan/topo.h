/* SPDX-License-Identifier: Apache-2.0 */
/* topo.h - topologies: nodes, links, background load and jobs; routes; and every bound of the
 * planner.
 *
 * Every link is full duplex: it has two arcs, each with the link's full rate.  Arc 2i leads from
 * `a` to `b` of link i, arc 2i + 1 back.  Only switches forward traffic.
 *
 * Whatever has a capacity is a resource: the arcs, numbered as above, and after them the nodes:
 * what a switch can sum, what a server takes in, what a worker sends.  `cap` is what background
 * load leaves of each. */
#ifndef FAN_PLAN_TOPO_H
#define FAN_PLAN_TOPO_H

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

/* ---- bounds ---- */

/* What a topology may have */
#define FAN_TOPO_NODES_MAX 16384
#define FAN_TOPO_LINKS_MAX 65536
#define FAN_TOPO_JOBS_MAX  256
#define FAN_TOPO_NAME_MAX  63	/* bytes of a node's or job's name */
#define FAN_TOPO_GBPS_MIN  1e-4 /* rates outside these bounds are refused; LPs err by 1e-7 */
#define FAN_TOPO_GBPS_MAX  1e9
#define FAN_WHY_BYTES	   320 /* an error's text with its terminating zero */

/* What a plan may have */
#define FAN_HOPS_MAX  24   /* links of one route */
#define FAN_TREES_MAX 1024 /* trees of one plan, over all jobs */

/* What can be installed */
#define FAN_PARTS_MAX  64	  /* trees of one job; each is a job of its own to its workers */
#define FAN_PART_SHARE 1e-9	  /* trees with a smaller share are left out */
#define FAN_STOPS_MAX  (1u << 20) /* switches of all parts together */
#define FAN_RULES_MAX  (1u << 22) /* entries of all of them together */

#define FAN_CIRCLE_MAX 4096 /* more entries of a part in a row count as a circle */

/* How long algorithms search */
#define FAN_PATHS_DEFAULT     8	     /* candidate routes between two nodes */
#define FAN_PATHS_MAX	      64     /* most candidate routes between two nodes */
#define FAN_PATH_STEPS_MAX    20000  /* links tried for one pair of nodes */
#define FAN_ROUNDINGS	      64     /* random roundings of one relaxed plan, by default */
#define FAN_ROUNDINGS_MAX     100000 /* most roundings of one relaxed plan */
#define FAN_TREES_DEFAULT     64     /* trees of one job on one server, by default */
#define FAN_LP_COLUMNS_MAX    150000 /* of a relaxed program; larger ones are refused */
#define FAN_BOUND_COLUMNS     25000  /* of the program of flows; otherwise the closed form */
#define FAN_LP_ITERATIONS     200000 /* steps of the simplex */
#define FAN_PHASE_COLUMNS     6000   /* of a program that is rounded; else fewer candidates */
#define FAN_EXACT_NODES_MAX   20000  /* nodes of branch and bound */
#define FAN_EXACT_CHOICES_MAX 4000   /* integer variables; `exact` refuses more */
#define FAN_BEST_NODES	      200 /* nodes of branch and bound if `best` runs `exact`: a second */
#define FAN_BEST_CHOICES      300 /* integer variables if `best` runs `exact` */
#define FAN_PACK_ROUNDS	      400 /* pricing rounds of column generation */
#define FAN_PACK_WORK	      4e9 /* simplex steps times rows in all of these rounds */
#define FAN_SEARCH_PASSES     12  /* passes of local search over all workers */
#define FAN_CANDIDATES_LARGE  24  /* switches tried where trying all would take too long */

/* ---- topologies ---- */

#define FAN_NODE_NONE UINT32_MAX

enum fan_node_kind { FAN_NODE_WORKER, FAN_NODE_SWITCH, FAN_NODE_SERVER };

extern const char *const fan_node_kinds[]; /* "worker", "switch", "server" */

struct fan_node {
	char name[FAN_TOPO_NAME_MAX + 1];
	enum fan_node_kind kind;
	double gbps; /* as given; 0: not given: a switch cannot sum, others have no limit */
	double background_gbps; /* used by others */
	uint32_t first, degree; /* its outgoing arcs in `out` */
};

struct fan_link {
	uint32_t a, b;
	double gbps;		/* in each direction */
	double background_gbps; /* used by others, in each direction */
};

/* Workers that sum their gradients together.  A job's model is split over its servers.  A job whose
 * servers have a parent comes as several, a group for each server below that parent.  Servers below
 * further parents are spare. */
struct fan_job {
	char name[FAN_TOPO_NAME_MAX + 1];
	uint32_t *worker, workers;
	uint32_t *server, servers;
	double weight;		/* its rate relative to that of other jobs */
	double demand_gbps;	/* the least rate that it accepts; 0: any */
	uint32_t group, groups; /* number of this group, and of groups; groups 0: not split */
	uint32_t spares;	/* of a group: spare servers after the first, one for each parent */
};

/* Empty: {0}. */
struct fan_topo {
	struct fan_node *node;
	struct fan_link *link;
	struct fan_job *job;
	uint32_t nodes, links, jobs;
	uint32_t node_room, link_room, job_room;
	uint32_t *out; /* arcs in order of the node they leave; set by fan_topo_seal */
	double *cap;   /* by resource, Gb/s, INFINITY: no limit; set by fan_topo_seal */
	bool results;  /* plans are judged with results counted; see eval.h */
};

/* Why something was refused: JSON path and cause. */
struct fan_why {
	char text[FAN_WHY_BYTES];
};

/* Set the text as printf does, unless `why` is NULL or has one.  Returns `err`. */
int fan_why_set(struct fan_why *why, int err, const char *format, ...)
	__attribute__((format(printf, 3, 4)));

void fan_topo_free(struct fan_topo *t);

/* Add a node or a link at the end.  The name is copied, and truncated if too long.  The caller
 * frees `*t` on error, too.
 * FAN_E_NOMEM; FAN_E_INVALID: more than the bounds allow. */
int fan_topo_add_node(struct fan_topo *t, const char *name, enum fan_node_kind kind, double gbps);
int fan_topo_add_link(struct fan_topo *t, uint32_t a, uint32_t b, double gbps);

/* Add a job with room for that many workers and servers, which the caller fills in. */
int fan_topo_add_job(struct fan_topo *t, const char *name, uint32_t workers, uint32_t servers);

/* Complete the topology: make `out` and `cap`, and check it.  Again after a change of rates or
 * background loads: `cap` is right even if a worker cannot reach its server any more.
 *
 * FAN_E_CONFIG  no job, a job without workers or servers, a worker that cannot reach a
 *               server, or background load that leaves nothing; `why` says which
 * FAN_E_NOMEM */
int fan_topo_seal(struct fan_topo *t, struct fan_why *why);

static inline uint32_t fan_arc_from(const struct fan_topo *t, uint32_t arc)
{
	return arc & 1 ? t->link[arc / 2].b : t->link[arc / 2].a;
}

static inline uint32_t fan_arc_to(const struct fan_topo *t, uint32_t arc)
{
	return arc & 1 ? t->link[arc / 2].a : t->link[arc / 2].b;
}

static inline uint32_t fan_topo_resources(const struct fan_topo *t)
{
	return 2 * t->links + t->nodes;
}

/* The resource of what a node can sum, take in or send. */
static inline uint32_t fan_node_resource(const struct fan_topo *t, uint32_t node)
{
	return 2 * t->links + node;
}

static inline bool fan_node_sums(const struct fan_topo *t, uint32_t node)
{
	return t->node[node].kind == FAN_NODE_SWITCH && t->node[node].gbps > 0;
}

/* What a switch can sum or a server can take in, as its own capacity and its links allow. */
double fan_topo_intake(const struct fan_topo *t, uint32_t node);

/* ---- candidate routes between two nodes: the shortest first, with few links in common ---- */

/* A route: the arcs from one node to another; none if both are the same. */
struct fan_arcs {
	uint32_t hops;
	uint32_t arc[FAN_HOPS_MAX];
};

/* Memory for a search in one topology. */
struct fan_paths {
	const struct fan_topo *t;
	uint32_t *distance; /* by node: links to the target */
	uint32_t *queue;
	uint8_t *on; /* by node: it is on the path being tried */
	struct fan_arcs *found;
	uint32_t *used; /* by arc: how many chosen routes use it */
	uint32_t steps, found_max;
	uint32_t step;	 /* step between lengths of routes: 2 if no cycle is odd, else 1 */
	uint32_t target; /* the node whose distances are in `distance` */
};

int fan_paths_open(struct fan_paths *p, const struct fan_topo *t);
void fan_paths_close(struct fan_paths *p);

/* Find up to `max` <= FAN_PATHS_MAX simple routes over switches and links with free capacity, the
 * shortest first; of one length, those that share the fewest links.  Returns their number. */
uint32_t fan_paths_find(struct fan_paths *p, uint32_t from, uint32_t to, uint32_t max,
			struct fan_arcs *route);

/* ---- topo_json.c: the one JSON form of a network and jobs.
 *
 *     {"nodes": [{"name", "kind": "worker" | "switch" | "server", "gbps", "background_gbps"}],
 *      "links": [{"a", "b", "gbps", "background_gbps"}],
 *      "jobs":  [{"name", "workers": [NAME], "servers": [NAME], "weight", "demand_gbps",
 *                 "group": [NUMBER, OF HOW MANY], "spares": [NAME]}]}
 *
 * "gbps" of a node is what a switch can sum (without it, the switch only forwards), what a server
 * takes in, and what a worker sends (without it, as much as their links carry).  There is at most
 * one link between two nodes.  python/fanin/research/formats writes this form from what people
 * write; other keys are ignored. ---- */

/* Read and seal a topology.  On error `*t` is empty, and `why` has JSON path and cause.
 *
 * FAN_E_CONFIG  it is not as described above, or inconsistent
 * FAN_E_NOMEM */
int fan_topo_from_json(struct fan_topo *t, const json_t *root, struct fan_why *why);

#endif
