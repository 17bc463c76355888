/* SPDX-License-Identifier: Apache-2.0 */
/* topo.h - what a plan is made for: nodes, links, background load and jobs.
 *
 * Every link is full duplex: two arcs, each with the link's rate of its own.  Arc 2i
 * leads from link i's `a` to its `b`, arc 2i + 1 back.  Only switches pass traffic on.
 *
 * All that can run out is a resource: the arcs, numbered as above, and behind them the
 * nodes - what a switch can sum, what a server takes in, what a worker sends.  What
 * background load leaves of each is in `cap`. */
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
	double gbps; /* as given; 0: none was: a switch cannot sum, others have no limit */
	double background_gbps;		     /* of it in use by others */
	char address[FAN_TOPO_NAME_MAX + 1]; /* that it dials a controller from; empty: any */
	uint32_t first, degree;		     /* its outgoing arcs: `out` of the topology */
	uint32_t parent; /* of a server: the one that its sums go up to; FAN_NODE_NONE */
};

struct fan_link {
	uint32_t a, b;
	double gbps;		/* in each direction */
	double background_gbps; /* of it in use by others, in each direction */
	double delay_us;
};

/* Workers that need one another's sums.  Its model is split over its servers; or its workers are,
 * where these have a parent: into a group for each server below it, and each group is a job here.
 * Servers below further parents, as many below each, are spare. */
struct fan_job {
	char name[FAN_TOPO_NAME_MAX + 1];
	uint32_t *worker, workers;
	uint32_t *server, servers;
	double weight;		/* its rate, relative to that of other jobs */
	double demand_gbps;	/* what it must get; 0: whatever there is */
	uint32_t group, groups; /* which of how many groups; groups 0: it is whole */
	uint32_t spares;	/* of a group: servers behind that in `server`, a parent each */
};

struct fan_topo {
	struct fan_node *node;
	struct fan_link *link;
	struct fan_job *job;
	uint32_t nodes, links, jobs;
	uint32_t node_room, link_room, job_room;
	uint32_t *out; /* arcs by the node they leave; from fan_topo_seal */
	double *cap;   /* by resource, Gb/s, INFINITY where there is no limit; also from it */
	bool results;  /* plans are judged with the results that come back; see eval.h */
};

/* Why something was refused: JSON path and cause. */
struct fan_why {
	char text[FAN_WHY_BYTES];
};

/* Keeps the first reason, as printf has it.  Always `err`. */
int fan_why_set(struct fan_why *why, int err, const char *format, ...)
	__attribute__((format(printf, 3, 4)));

void fan_topo_init(struct fan_topo *t);
void fan_topo_free(struct fan_topo *t);

/* Add one at the end; `*t` is to be freed on error, too.  Names are copied and cut.
 * FAN_E_NOMEM, FAN_E_INVALID: more than sizes.h allows. */
int fan_topo_add_node(struct fan_topo *t, const char *name, enum fan_node_kind kind, double gbps);
int fan_topo_add_link(struct fan_topo *t, uint32_t a, uint32_t b, double gbps);

/* A job without members: room for as many as told, which the caller fills. */
int fan_topo_add_job(struct fan_topo *t, const char *name, uint32_t workers, uint32_t servers);

/* One job of all workers and all servers, in the order of the nodes. */
int fan_topo_add_all(struct fan_topo *t, const char *name);

/* Split each job whose servers have a parent into groups, NAME@0, NAME@1, ...: server i below
 * each parent sums the i-th of equal runs of its workers.  FAN_E_CONFIG with `why`; FAN_E_NOMEM. */
int fan_topo_split(struct fan_topo *t, struct fan_why *why);

/* How many servers have this one as parent. */
uint32_t fan_topo_children(const struct fan_topo *t, uint32_t node);

/* Bytes of the name of the job that a group is of, or of its own if it is whole. */
uint32_t fan_job_name_bytes(const char *name, uint32_t groups);

/* Everything is there: make `out` and `cap`, and see that it makes sense.
 *
 * FAN_E_CONFIG  no job, a job without workers or servers, a worker that cannot reach a
 *               server, or background load that leaves nothing; `why` says which
 * FAN_E_NOMEM */
int fan_topo_seal(struct fan_topo *t, struct fan_why *why);

/* The network hangs together; or, with `largest`, only its largest piece stays.  No job is there
 * yet, and nothing is sealed.
 *
 * FAN_E_CONFIG  there are several pieces; `why` names a node of two
 * FAN_E_NOMEM */
int fan_topo_whole(struct fan_topo *t, bool largest, struct fan_why *why);

/* Derive `cap` again after a change of rates or background loads. */
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

/* What a node can sum, take in or send. */
static inline uint32_t fan_node_resource(const struct fan_topo *t, uint32_t node)
{
	return 2 * t->links + node;
}

static inline bool fan_node_sums(const struct fan_topo *t, uint32_t node)
{
	return t->node[node].kind == FAN_NODE_SWITCH && t->node[node].gbps > 0;
}

/* Links between switches never run out: each has what all hosts can send and as much again
 * for their sums.  GRID's published program is of this kind.  Background load on them goes. */
void fan_topo_lift_limits(struct fan_topo *t);

/* The switch at the other end of a host's first link; FAN_NODE_NONE if it has none. */
uint32_t fan_topo_rack(const struct fan_topo *t, uint32_t host);

/* What a switch can sum or a server takes in, by itself and through its links. */
double fan_topo_intake(const struct fan_topo *t, uint32_t node);

/* "link S1-S3", "switch S1", "server PS" and "worker W1", for people. */
void fan_resource_text(const struct fan_topo *t, uint32_t resource, char *text, unsigned bytes);

#endif
