/* SPDX-License-Identifier: Apache-2.0 */
/* scenario.h - what is to be simulated: topology, jobs, background traffic, changes.
 *
 * A scenario is read from JSON as python/fanin/research/scenario.py makes it of the one that people
 * write: flat, with every node, link and job by itself, and nodes as numbers.  fields.c has its
 * keys.  No scenario, however wrong, leads out of bounds. */
#ifndef FAN_SIM_SCENARIO_H
#define FAN_SIM_SCENARIO_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/switch/switch.h"
#include "job.h"
#include "world.h"

/* ---- fields.c: objects of the flat scenario, read into structs by one table ----
 *
 * A row of the table is a key of a kind of object.  A key that no row names is an error, and so is
 * a value out of its bounds; the error names object and key: "nodes[3].slots: ...". */

#define FAN_WHY_BYTES  1024
#define FAN_PATH_BYTES 128
#define FAN_FIELD_NAME 64 /* bytes of a text field, with its zero */

/* What is being read, and what is wrong with it. */
struct fan_reader {
	char path[FAN_PATH_BYTES]; /* of the object being read: "jobs[2].slow[0]" */
	char why[FAN_WHY_BYTES];
};

/* Read an object of the kind `kind` ("node") into its struct.  Absent keys leave their fields
 * alone.  0, or -1 with r->why. */
int fan_fields_read(struct fan_reader *r, const json_t *object, const char *kind, void *to);

/* Complain in r->why about `key` of the current object or, if it is NULL, the object.  Returns
 * -1. */
int fan_reader_fail(struct fan_reader *r, const char *key, const char *format, ...)
	__attribute__((format(printf, 3, 4)));

/* ---- scenario.c ---- */

#define FAN_SCENARIO_NODES_MAX	 16384
#define FAN_SCENARIO_LINKS_MAX	 65536
#define FAN_SCENARIO_JOBS_MAX	 1024
#define FAN_SCENARIO_FLOWS_MAX	 1024
#define FAN_SCENARIO_TCPS_MAX	 256
#define FAN_SCENARIO_CHANGES_MAX 4096
#define FAN_SCENARIO_ROUTES_MAX	 65536

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
	bool reminders;	 /* what completes the sums sends reminders */
	uint32_t server; /* the next hop; FAN_SIM_NONE: it completes its sums itself */
	uint16_t payload_bytes;
	bool multicast;
	uint32_t parent;   /* its parent in trees of switches; FAN_SIM_NONE: none */
	uint16_t children; /* switches whose parent it is */
	uint16_t index;	   /* its number among its siblings */
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
	int reduce; /* enum fan_reduce */
	uint32_t model;
	uint32_t at; /* the node that sums or, if `shared`, that completes sums */
	bool shared; /* its workers join switches with shared slots */
	uint64_t bucket_bytes;
	char tensor[FAN_FIELD_NAME]; /* the tensor of which it is a part (tensor.h); empty: none */
};

/* Background traffic: it uses up the capacity of links and is dropped where it arrives. */
struct fan_scenario_flow {
	uint32_t from, to;
	uint64_t bps, start_ns, stop_ns;
	uint16_t packet_bytes;
	uint32_t jitter; /* gaps between packets vary by up to this, millionths */
};

enum fan_tcp_kind { FAN_TCP_CUBIC, FAN_TCP_DCTCP };

/* Names, ended by NULL. */
extern const char *const fan_tcp_kinds[];
extern const char *const fan_scenario_policies[];
extern const char *const fan_scenario_congestions[];

/* A flow that competes with the jobs (tcp.c). */
struct fan_scenario_tcp {
	uint32_t from, to;
	int kind; /* enum fan_tcp_kind */
	uint64_t start_ns, stop_ns;
	uint64_t bytes;	       /* to send; 0: it does not end */
	uint32_t ack_segments; /* segments for which the receiver delays an acknowledgement */
	const char *from_name, *to_name;
};

/* A change of a cable in both directions, or a restart of a switch or server. */
struct fan_scenario_change {
	uint64_t at_ns, bps; /* bps 0: the rate stays */
	uint32_t link;	     /* FAN_SIM_NONE: the node restarts */
	uint32_t node;
	uint64_t restart_ns; /* how long the restart takes */
	bool down, up;
};

/* What a plan has a switch do with the contributions of some ranks: a struct fan_route_entry, by
 * nodes. */
struct fan_scenario_entry {
	uint32_t from, next; /* `from` FAN_SIM_NONE: workers that join there */
	uint64_t ranks[FAN_RANK_WORDS];
	uint16_t depth;
	bool sums;
};

struct fan_scenario_route {
	uint32_t node;
	uint16_t number;
	uint32_t quota, entries;
	struct fan_scenario_entry *entry;
};

struct fan_scenario {
	char name[FAN_FIELD_NAME];
	uint64_t seed, limit_ns, sample_ns;
	bool ecmp; /* flows are spread over all shortest paths */
	struct fan_scenario_node *node;
	struct fan_scenario_link *link;
	struct fan_scenario_job *job;
	struct fan_scenario_flow *flow;
	struct fan_scenario_tcp *tcp;
	struct fan_scenario_change *change;
	struct fan_scenario_route *route;
	uint32_t nodes, links, jobs, flows, tcps, changes, routes;
	const json_t *root; /* while it is read */
};

/* Read the flat scenario `root`.  0, or -1 with r->why. */
int fan_scenario_read(struct fan_scenario *s, const json_t *root, struct fan_reader *r);
void fan_scenario_free(struct fan_scenario *s);

/* Make a world of the scenario's nodes and links alone.  False: out of memory. */
bool fan_scenario_network(struct fan_sim *sim, const struct fan_scenario *s);

/* That world's number of scenario link `link`, from a to b; from b to a it is one more. */
uint32_t fan_scenario_link(const struct fan_scenario *s, uint32_t link);

/* Is the node a switch with shared slots, or a router on a route of a plan? */
bool fan_scenario_shares(const struct fan_scenario_node *n);

void fan_scenario_entry_put(struct fan_route_entry *to, const struct fan_scenario_entry *e,
			    fan_peer from, fan_peer next);

#endif
