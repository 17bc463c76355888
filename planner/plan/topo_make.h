/* SPDX-License-Identifier: Apache-2.0 */
/* topo_make.h - topologies from a few numbers and a seed. */
#ifndef FAN_PLAN_TOPO_MAKE_H
#define FAN_PLAN_TOPO_MAKE_H

#include "topo.h"

enum fan_shape {
	FAN_SHAPE_STAR,	      /* all hosts on one switch */
	FAN_SHAPE_TRIANGLE,   /* three switches, each linked with the others */
	FAN_SHAPE_LEAF_SPINE, /* every leaf linked with every spine */
	FAN_SHAPE_FAT_TREE,   /* k pods of k/2 racks and k/2 aggregation switches, (k/2)^2 cores */
	/* groups whose routers are all linked, and a link for any two groups */
	FAN_SHAPE_DRAGONFLY,
	FAN_SHAPE_RAILS, /* a host has a link into each of several switches, under spines */
};

struct fan_make {
	enum fan_shape shape;
	uint32_t k;		 /* fat-tree: even */
	uint32_t leaves, spines; /* leaf-spine; rails has spines, too */
	uint32_t groups;	 /* dragonfly; rails: of hosts with switches of their own */
	uint32_t routers;	 /* dragonfly: of a group */
	uint32_t global;	 /* dragonfly: most links of a router to other groups */
	uint32_t rails;		 /* rails: links of a host */
	uint32_t hosts; /* places for hosts under a rack switch; 0: k/2, or as many as needed */
	uint32_t workers, servers;
	uint32_t root;	    /* 1: a further server, ROOT, is the parent of the others */
	double link_gbps;   /* of every link */
	double server_gbps; /* what a server takes in */
	double switch_gbps, switch_max_gbps; /* what a switch sums: uniform between the two */
	double programmable; /* share of the switches that can sum, chosen at random */
	uint64_t seed;	     /* of that choice, the capacities and the hosts' places */
	uint32_t largest;    /* of fan_attach: 1: keep only the largest piece of a network */
	bool servers_given;  /* else `servers` is the default */
};

/* "fat-tree:k=8,workers=100,programmable=0.2": a shape and numbers by the names above, with
 * _gbps left out.  What is not named has the shape's defaults.
 *
 * FAN_E_CONFIG  with the reason */
int fan_make_parse(struct fan_make *m, const char *text, struct fan_why *why);

/* Build and seal.  Workers are W1, W2, ..., servers PS1, ..., switches S1, S2, ...; in a
 * fat-tree racks are R1, ..., aggregation switches A1, ..., and cores C1, ...; routers of a
 * dragonfly are D1, ..., and switches that rails lead to T1, ...
 *
 * FAN_E_CONFIG  no room for that many hosts, an odd k, or too many groups
 * FAN_E_NOMEM */
int fan_make(struct fan_topo *t, const struct fan_make *m, struct fan_why *why);

/* Build without a job, and do not seal; there may be no server.  Errors are those of fan_make. */
int fan_make_network(struct fan_topo *t, const struct fan_make *m, struct fan_why *why);

/* Hosts for a network that has none, as those of the Topology Zoo: on switches in a random
 * order, in turn.  Of fan_make only workers, servers, link, server, switch, switch_max,
 * programmable, seed and largest count. */
struct fan_attach {
	struct fan_make make;
	bool link_given;   /* else each host's link is as its switch's fastest */
	bool switch_given; /* draw what switches sum; else it stays */
};

/* "workers=8,servers=2,switch=100,seed=1".  FAN_E_CONFIG with the reason. */
int fan_attach_parse(struct fan_attach *a, const char *text, struct fan_why *why);

/* Add them to `*t`, with a job of all workers and servers if there was no job, and seal.
 *
 * FAN_E_CONFIG  no switch, a network in several pieces, too many nodes, or as fan_topo_seal
 * FAN_E_NOMEM `*t` is to be freed by the caller in both cases. */
int fan_attach(struct fan_topo *t, const struct fan_attach *a, struct fan_why *why);

/* Add hosts without a job, and do not seal.  Errors are those of fan_attach. */
int fan_attach_hosts(struct fan_topo *t, const struct fan_attach *a, struct fan_why *why);

#endif
