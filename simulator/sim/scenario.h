/* SPDX-License-Identifier: Apache-2.0 */
/* scenario.h - what is to be simulated: topology, jobs, background traffic, changes.
 *
 * A scenario is read from JSON; doc/sim.md describes the keys.  Everything is checked before
 * anything is simulated, and errors name file, path and cause. */
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
	FAN_NODE_SERVER, /* sums for all jobs that name it */
	FAN_NODE_ROUTER, /* forwards */
};

#define FAN_NODE_NONE FAN_POLICY_COUNT /* the policy of a switch that only forwards */

struct fan_scenario_node {
	char name[FAN_FIELD_NAME];
	int kind;	    /* enum fan_node_kind */
	uint64_t bps;	    /* the rate that it can handle; 0: any */
	uint64_t sums_bps;  /* instead: the rate at which it sums by routes; or 0 */
	uint32_t ecn_bytes; /* packets that find more before them are marked; 0: never */
	int policy;	    /* enum fan_policy, or FAN_NODE_NONE */
	uint32_t slots, window, jobs, buffer_bytes;
	uint16_t ahead_max; /* most fragments by which a job's ranks may run ahead of each other */
	/* Switches with shared slots. */
	uint32_t quota; /* most slots that one job holds; 0: all */
	bool free_early, preemption, ageing, priorities;
	bool reminders; /* what completes the sums sends reminders */
	char server_name[FAN_FIELD_NAME];
	uint32_t server; /* the next hop; FAN_SIM_NONE: it completes its sums itself */
	uint16_t payload_bytes;
	bool multicast;
	uint32_t placed; /* workers placed on it */
	char parent_name[FAN_FIELD_NAME];
	uint32_t parent;   /* its parent in trees of switches; FAN_SIM_NONE: none */
	uint16_t children; /* switches whose parent it is */
	uint16_t index;	   /* its number among its siblings */
	uint32_t entry;	   /* the entry of "nodes" that it came from */
};

struct fan_scenario_link {
	uint32_t a, b;
	struct fan_link_config cfg; /* for both directions, except for back_bps */
	uint64_t back_bps;	    /* the rate from b to a; 0: that of `cfg` */
};

enum fan_reduce {
	FAN_REDUCE_FANIN, /* through the core's objects */
	FAN_REDUCE_RING,  /* a model of a ring (ring.h); next: of a binary tree */
	FAN_REDUCE_TREE,
	FAN_REDUCE_LEVELS, /* a model of rings on two levels */
};

struct fan_scenario_job {
	struct fan_job_config cfg;
	int reduce;  /* enum fan_reduce */
	uint32_t at; /* the node that sums or, if `shared`, that completes sums */
	bool shared; /* its workers join switches with shared slots */
	uint64_t bucket_bytes;
	char at_name[FAN_FIELD_NAME];
	char tensor[FAN_FIELD_NAME]; /* the tensor of which it is a part (tensor.h); empty: none */
};

/* Background traffic: it uses up the capacity of links and is dropped where it arrives. */
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
	uint64_t bytes;	       /* to send; 0: it does not end */
	uint32_t ack_segments; /* segments for which the receiver delays an acknowledgement */
	char from_name[FAN_FIELD_NAME], to_name[FAN_FIELD_NAME];
};

/* A change of a cable in both directions, or a restart of a switch or server. */
struct fan_scenario_change {
	uint64_t at_ns, bps; /* bps 0: the rate stays */
	uint32_t link;	     /* FAN_SIM_NONE: the node restarts */
	uint32_t node;
	uint64_t restart_ns; /* how long the restart takes */
	bool down, up;
	char a[FAN_FIELD_NAME], b[FAN_FIELD_NAME], node_name[FAN_FIELD_NAME];
};

/* What a plan has a switch do with the contributions of some ranks: a struct fan_route_entry, by
 * nodes. */
struct fan_scenario_entry {
	uint32_t from, next; /* `from` FAN_SIM_NONE: workers that join there */
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

/* The level of detail: each packet, or what jobs reduce as flows (flow.c). */
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

/* Read `root`, which came from r->file; names of files in it are relative to that file's folder.
 * 0, or -1 with r->why. */
int fan_scenario_read(struct fan_scenario *s, const json_t *root, struct fan_reader *r);
void fan_scenario_free(struct fan_scenario *s);

/* Make a world of the scenario's nodes and links alone.  False: out of memory. */
bool fan_scenario_network(struct fan_sim *sim, const struct fan_scenario *s);

/* That world's number of scenario link `link`, from a to b; from b to a it is one more. */
uint32_t fan_scenario_link(const struct fan_scenario *s, uint32_t link);

/* The node with this name, or FAN_SIM_NONE. */
uint32_t fan_scenario_find(const struct fan_scenario *s, const char *name);

/* Change the value at a path like "jobs.0.window", "topology.nodes.s0.slots" or
 * "topology.links.*.loss".  Its parts are keys, numbers or names of array entries, or * for all of
 * them.  `text` is taken as JSON or, if it is none, as a string.  0, or -1 with `why`. */
int fan_scenario_set(json_t *root, const char *path, const char *text, char *why, size_t why_bytes);

/* Is `node` in the tree of switches below `root`, or `root` itself? */
bool fan_scenario_is_below(const struct fan_scenario *s, uint32_t node, uint32_t root);

/* Can workers of a job that is summed at node `at` join node `n`? */
typedef bool fan_seat_fits(const struct fan_scenario *s, uint32_t n, uint32_t at);

/* The fitting node that is nearest to `host`, the first of several; FAN_SIM_NONE: there is none. */
uint32_t fan_scenario_nearest(const struct fan_scenario *s, struct fan_sim *sim, uint32_t host,
			      fan_seat_fits *fits, uint32_t at);

/* Choose where the workers of job `j` join, which is summed in the tree of j->at. */
int fan_scenario_seat(struct fan_scenario *s, struct fan_sim *sim, struct fan_scenario_job *j,
		      struct fan_reader *r);

/* Is the node a switch with shared slots, or a router on a route of a plan? */
bool fan_scenario_shares(const struct fan_scenario_node *n);

/* The node that completes a switch's sums: a server, or a switch. */
uint32_t fan_scenario_aggregator(const struct fan_scenario *s, uint32_t node);

/* Choose the switches that the workers of job `j` join; j->at completes their sums. */
int fan_scenario_seat_shared(struct fan_scenario *s, struct fan_sim *sim,
			     struct fan_scenario_job *j, struct fan_reader *r);

/* The scenario with its plan worked in: a job for each part, and "routes".  Returns a new
 * reference, or NULL with r->why. */
json_t *fan_scenario_planned(const json_t *root, struct fan_reader *r);

/* The scenario with its topology as nodes and links, if a text or a file gives that.  Returns a new
 * reference, or NULL with r->why. */
json_t *fan_scenario_given(const json_t *root, struct fan_reader *r);

int fan_scenario_read_routes(struct fan_scenario *s, const json_t *root, struct fan_reader *r);

/* Read a job's "cut", the part of each layer that it reduces; and its "joins".  `groups` has a
 * route for each of equal runs of the job's workers, or is NULL. */
int fan_scenario_read_cut(struct fan_model *m, const json_t *cut, struct fan_reader *r);
int fan_scenario_read_joins(struct fan_scenario *s, struct fan_job_config *c, const json_t *list,
			    const json_t *groups, struct fan_reader *r);

/* Make sure that the workers of a job with a route, and its server, know the route. */
int fan_scenario_seat_routed(struct fan_scenario *s, struct fan_scenario_job *j,
			     struct fan_reader *r);

void fan_scenario_entry_put(struct fan_route_entry *to, const struct fan_scenario_entry *e,
			    fan_peer from, fan_peer next);

/* Readers of the scenario's parts, each in a file of its own. */
int fan_scenario_read_topology(struct fan_scenario *s, const json_t *o, struct fan_reader *r);
int fan_scenario_read_jobs(struct fan_scenario *s, const json_t *root, struct fan_reader *r);
int fan_scenario_read_parents(struct fan_scenario *s, struct fan_reader *r);
int fan_scenario_read_servers(struct fan_scenario *s, struct fan_reader *r);
int fan_scenario_place(struct fan_scenario *s, struct fan_reader *r);

/* Read a job's "model" from the current object; free it with fan_model_free. */
int fan_scenario_read_model(struct fan_model *m, const json_t *v, struct fan_reader *r);

/* The whole file, ended by a zero, for the caller to free; NULL with r->why.  `name` is relative to
 * the folder of r->file. */
char *fan_scenario_file(struct fan_reader *r, const char *key, const char *name);

#endif
