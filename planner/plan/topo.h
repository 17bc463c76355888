/* SPDX-License-Identifier: Apache-2.0 */
/* topo.h - topologies: nodes, links, background load and jobs.
 *
 * Every link is full duplex: it has two arcs, each with the link's full rate.  Arc 2i leads from
 * `a` to `b` of link i, arc 2i + 1 back.  Only switches forward traffic.
 *
 * Whatever has a capacity is a resource: the arcs, numbered as above, and after them the nodes:
 * what a switch can sum, what a server takes in, what a worker sends.  `cap` is what background
 * load leaves of each. */
#ifndef FAN_PLAN_TOPO_H
#define FAN_PLAN_TOPO_H

#include <stdbool.h>
#include <stdint.h>

#include "sizes.h"

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

void fan_topo_init(struct fan_topo *t);
void fan_topo_free(struct fan_topo *t);

/* Add a node or a link at the end.  The name is copied, and truncated if too long.  The caller
 * frees `*t` on error, too.
 * FAN_E_NOMEM; FAN_E_INVALID: more than sizes.h allows. */
int fan_topo_add_node(struct fan_topo *t, const char *name, enum fan_node_kind kind, double gbps);
int fan_topo_add_link(struct fan_topo *t, uint32_t a, uint32_t b, double gbps);

/* Add a job with room for that many workers and servers, which the caller fills in. */
int fan_topo_add_job(struct fan_topo *t, const char *name, uint32_t workers, uint32_t servers);

/* The length in bytes of a job's name without the suffix of a group. */
uint32_t fan_job_name_bytes(const char *name, uint32_t groups);

/* Complete the topology: make `out` and `cap`, and check it.
 *
 * FAN_E_CONFIG  no job, a job without workers or servers, a worker that cannot reach a
 *               server, or background load that leaves nothing; `why` says which
 * FAN_E_NOMEM */
int fan_topo_seal(struct fan_topo *t, struct fan_why *why);

/* Compute `cap` again after a change of rates or background loads. */
void fan_topo_refresh(struct fan_topo *t);

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

/* The switch at the other end of a host's first link; FAN_NODE_NONE if it has none. */
uint32_t fan_topo_rack(const struct fan_topo *t, uint32_t host);

/* What a switch can sum or a server can take in, as its own capacity and its links allow. */
double fan_topo_intake(const struct fan_topo *t, uint32_t node);

/* The name of a resource for people: "link S1-S3", "switch S1", "server PS" or "worker W1". */
void fan_resource_text(const struct fan_topo *t, uint32_t resource, char *text, unsigned bytes);

#endif
