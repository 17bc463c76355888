/* SPDX-License-Identifier: Apache-2.0 */
/* scenario.h - what is to be simulated: topology, jobs, background traffic, changes.
 *
 * Read from JSON; doc/sim.md describes the keys.  Everything is checked before anything is
 * simulated, and errors name file, path and cause. */
#ifndef FAN_SIM_SCENARIO_H
#define FAN_SIM_SCENARIO_H

#include "core/switch/switch.h"
#include "fields.h"
#include "job.h"
#include "world.h"

#define FAN_SCENARIO_NODES_MAX	 16384
#define FAN_SCENARIO_LINKS_MAX	 65536
#define FAN_SCENARIO_JOBS_MAX	 1024
#define FAN_SCENARIO_FLOWS_MAX	 1024
#define FAN_SCENARIO_TCPS_MAX	 256
#define FAN_SCENARIO_CHANGES_MAX 4096

enum fan_node_kind {
	FAN_NODE_WORKER, /* hosts workers */
	FAN_NODE_SWITCH, /* forwards, and sums */
	FAN_NODE_SERVER, /* sums, for all the jobs that name it */
	FAN_NODE_ROUTER, /* forwards */
};

#define FAN_NODE_NONE FAN_POLICY_COUNT /* the policy of a switch that only forwards */

struct fan_scenario_node {
	char name[FAN_FIELD_NAME];
	int kind;	    /* enum fan_node_kind */
	uint64_t bps;	    /* what it can handle; 0: all that comes */
	uint64_t sums_bps;  /* instead: what routes have it sum, and nothing else counts; or 0 */
	uint32_t ecn_bytes; /* packets that find more before them there are marked; 0: none */
	int policy;	    /* enum fan_policy, or FAN_NODE_NONE */
	uint32_t slots, window, jobs, buffer_bytes;
	uint16_t ahead_max; /* most that a job's ranks may run ahead of each other */
	/* Shared switches. */
	uint32_t quota; /* most slots that one job holds; 0: all */
	bool free_early, preemption, ageing, priorities;
	bool reminders; /* of what completes their sums */
	char server_name[FAN_FIELD_NAME];
	uint32_t server; /* next hop; FAN_SIM_NONE: it completes its sums itself */
	uint16_t payload_bytes;
	bool multicast;
	uint32_t placed; /* workers on it */
	char parent_name[FAN_FIELD_NAME];
	uint32_t parent;   /* the node whose child it is in trees of switches; FAN_SIM_NONE: none */
	uint16_t children; /* switches that it is the parent of */
	uint16_t index;	   /* its own among its siblings */
	uint32_t entry;	   /* of "nodes" that it came from */
};

struct fan_scenario_link {
	uint32_t a, b;
	struct fan_link_config cfg; /* of both directions, but for back_bps */
	uint64_t back_bps;	    /* rate from b to a; 0: that of `cfg` */
};

enum fan_reduce {
	FAN_REDUCE_FANIN, /* through the core's objects */
	FAN_REDUCE_RING,  /* a model of ring all-reduce; of reducing along a binary tree (ring.h) */
	FAN_REDUCE_TREE,
	FAN_REDUCE_LEVELS, /* of rings on two levels */
};

struct fan_scenario_job {
	struct fan_job_config cfg;
	int reduce;  /* enum fan_reduce */
	uint32_t at; /* node that sums, or if `shared` completes sums */
	bool shared; /* switches sum; its workers join them */
	uint64_t bucket_bytes;
	char at_name[FAN_FIELD_NAME];
	char tensor[FAN_FIELD_NAME]; /* of which it is a part (tensor.h); empty: of none */
};

/* Traffic that takes room on links and is thrown away where it arrives. */
struct fan_scenario_flow {
	uint32_t from, to;
	uint64_t bps, start_ns, stop_ns;
	uint16_t packet_bytes;
	uint32_t jitter; /* gaps between packets vary by up to this, millionths */
	char from_name[FAN_FIELD_NAME], to_name[FAN_FIELD_NAME];
};

enum fan_tcp_kind { FAN_TCP_CUBIC, FAN_TCP_DCTCP };

extern const char *const fan_tcp_kinds[]; /* their names, ended by NULL */

/* A flow that competes with the jobs (tcp.c). */
struct fan_scenario_tcp {
	uint32_t from, to;
	int kind; /* enum fan_tcp_kind */
	uint64_t start_ns, stop_ns;
	uint64_t bytes;	       /* to send; 0: without end */
	uint32_t ack_segments; /* that the receiver waits for before it acknowledges */
	char from_name[FAN_FIELD_NAME], to_name[FAN_FIELD_NAME];
};

/* A cable that changes, in both directions, or a switch or server that restarts. */
struct fan_scenario_change {
	uint64_t at_ns, bps; /* bps 0: it keeps its rate */
	uint32_t link;	     /* FAN_SIM_NONE: it is about the node */
	uint32_t node;
	uint64_t restart_ns; /* how long it takes */
	bool down, up;
	char a[FAN_FIELD_NAME], b[FAN_FIELD_NAME], node_name[FAN_FIELD_NAME];
};

/* What a plan has a switch do with the parts of some ranks: struct fan_route_entry, by nodes. */
struct fan_scenario_entry {
	uint32_t from, next; /* from FAN_SIM_NONE: workers that join there */
	uint64_t ranks[FAN_RANK_WORDS];
	uint8_t depth;
	bool sums;
};

struct fan_scenario_route {
	uint32_t node;
	uint16_t number;
	uint32_t quota, entries;
	struct fan_scenario_entry *entry;
};

/* What is simulated: each packet, or what jobs reduce as flows (flow.c). */
enum fan_level { FAN_LEVEL_PACKETS, FAN_LEVEL_FLOWS };

struct fan_scenario {
	char name[FAN_FIELD_NAME];
	uint64_t seed, limit_ns, sample_ns;
	bool ecmp; /* flows are spread over all shortest paths */
	int level; /* enum fan_level */
	struct fan_scenario_node *node;
	struct fan_scenario_link *link;
	struct fan_scenario_job *job;
	struct fan_scenario_flow *flow;
	struct fan_scenario_tcp *tcp;
	struct fan_scenario_change *change;
	struct fan_scenario_route *route;
	uint32_t nodes, links, jobs, flows, tcps, changes, routes;
};

/* Read `root`, which came from r->file: names of files in it are relative to that.
 * 0, or -1 with r->why. */
int fan_scenario_read(struct fan_scenario *s, const json_t *root, struct fan_reader *r);
void fan_scenario_free(struct fan_scenario *s);

/* A world of its nodes and links alone.  False: out of memory. */
bool fan_scenario_network(struct fan_sim *sim, const struct fan_scenario *s);

/* That world's link from a to b of scenario link `link`; the one back is the next. */
uint32_t fan_scenario_link(const struct fan_scenario *s, uint32_t link);

/* The node of that name, or FAN_SIM_NONE. */
uint32_t fan_scenario_find(const struct fan_scenario *s, const char *name);

/* Change the value at a path like "jobs.0.window", "topology.nodes.s0.slots" or
 * "topology.links.*.loss": parts are keys, numbers of array entries, names of array
 * entries, or * for all.  `text` is JSON, or else a string.  0, or -1 with `why`. */
int fan_scenario_set(json_t *root, const char *path, const char *text, char *why, size_t why_bytes);

/* Is `node` the root of a tree of switches, or somewhere below it? */
bool fan_scenario_is_below(const struct fan_scenario *s, uint32_t node, uint32_t root);

/* May workers of a job that is summed at the node `at` join the node `n`? */
typedef bool fan_seat_fits(const struct fan_scenario *s, uint32_t n, uint32_t at);

/* The node nearest to `host` that fits, the first of several; FAN_SIM_NONE: there is none. */
uint32_t fan_scenario_nearest(const struct fan_scenario *s, struct fan_sim *sim, uint32_t host,
			      fan_seat_fits *fits, uint32_t at);

/* Where the workers of a job that is summed in the tree of j->at join. */
int fan_scenario_seat(struct fan_scenario *s, struct fan_sim *sim, struct fan_scenario_job *j,
		      struct fan_reader *r);

/* A switch with shared slots? */
bool fan_scenario_shares(const struct fan_scenario_node *n);

/* What completes the sums of a switch: a server, or one of the switches itself. */
uint32_t fan_scenario_aggregator(const struct fan_scenario *s, uint32_t node);

/* Where the workers of a job join whose sums j->at completes, behind switches. */
int fan_scenario_seat_shared(struct fan_scenario *s, struct fan_sim *sim,
			     struct fan_scenario_job *j, struct fan_reader *r);

/* The scenario with its plan worked in: a job for each part, and "routes".  A new reference;
 * NULL with r->why. */
json_t *fan_scenario_planned(const json_t *root, struct fan_reader *r);

/* The scenario with its topology as nodes and links, if a text or a file says it.  A new reference;
 * NULL with r->why. */
json_t *fan_scenario_given(const json_t *root, struct fan_reader *r);

int fan_scenario_read_routes(struct fan_scenario *s, const json_t *root, struct fan_reader *r);

/* A job's "cut": the part of each layer that it reduces; and its "joins", with
 * "groups", NULL: none: a route for each of equal runs of its workers. */
int fan_scenario_read_cut(struct fan_model *m, const json_t *cut, struct fan_reader *r);
int fan_scenario_read_joins(struct fan_scenario *s, struct fan_job_config *c, const json_t *list,
			    const json_t *groups, struct fan_reader *r);

/* See that the workers of a job with a route, and its server, know it. */
int fan_scenario_seat_routed(struct fan_scenario *s, struct fan_scenario_job *j,
			     struct fan_reader *r);

void fan_scenario_entry_put(struct fan_route_entry *to, const struct fan_scenario_entry *e,
			    fan_peer from, fan_peer next);

/* The parts, in files of their own. */
int fan_scenario_read_topology(struct fan_scenario *s, const json_t *o, struct fan_reader *r);
int fan_scenario_read_jobs(struct fan_scenario *s, const json_t *root, struct fan_reader *r);
int fan_scenario_read_parents(struct fan_scenario *s, struct fan_reader *r);
int fan_scenario_read_servers(struct fan_scenario *s, struct fan_reader *r);
int fan_scenario_place(struct fan_scenario *s, struct fan_reader *r);

/* A job's "model", from the current object; to be freed with fan_model_free. */
int fan_scenario_read_model(struct fan_model *m, const json_t *v, struct fan_reader *r);

/* The whole file, ended by a zero, to be freed; NULL with r->why.  `name` is relative to
 * the folder of r->file. */
char *fan_scenario_file(struct fan_reader *r, const char *key, const char *name);

#endif
