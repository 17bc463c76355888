/* SPDX-License-Identifier: Apache-2.0 */
/* topo_make.h - topologies from a few numbers and a seed. */
#ifndef FAN_PLAN_TOPO_MAKE_H
#define FAN_PLAN_TOPO_MAKE_H

#include "topo.h"

enum fan_shape {
	FAN_SHAPE_STAR,	      /* all hosts on one switch */
	FAN_SHAPE_TRIANGLE,   /* three switches, each linked with the others */
	FAN_SHAPE_LEAF_SPINE, /* each leaf linked with each spine */
	FAN_SHAPE_FAT_TREE,   /* k pods of k/2 racks and k/2 aggregation switches, (k/2)^2 cores */
	/* groups of routers that are all linked, and one link between any two groups */
	FAN_SHAPE_DRAGONFLY,
	FAN_SHAPE_RAILS, /* each host linked with several switches, these with each spine */
};

struct fan_make {
	enum fan_shape shape;
	uint32_t k;		 /* fat-tree: ports of a switch, even */
	uint32_t leaves, spines; /* leaf-spine: their numbers; rails: spines */
	uint32_t groups;	 /* dragonfly: of routers; rails: of hosts that share switches */
	uint32_t routers;	 /* dragonfly: routers of a group */
	uint32_t global;	 /* dragonfly: most links of a router to other groups */
	uint32_t rails;		 /* rails: links of a host */
	uint32_t hosts; /* places for hosts under a rack switch; 0: k/2, or as many as needed */
	uint32_t workers, servers;
	uint32_t root;	    /* 1: one more server, ROOT, is the parent of the others */
	double link_gbps;   /* of every link */
	double server_gbps; /* what a server takes in */
	double switch_gbps, switch_max_gbps; /* what a switch can sum: uniform between them */
	double programmable; /* share of switches that can sum, 0 .. 1; they are drawn */
	uint64_t seed;	     /* of these drawings, and of the hosts' places */
	uint32_t largest;    /* fan_attach: 1: keep only the largest piece of a network */
	bool servers_given;  /* false: `servers` is the default */
};

/* Parse a shape and numbers, such as "fat-tree:k=8,workers=100,programmable=0.2".  Names are those
 * above without _gbps.  Numbers that are left out have the shape's defaults.
 *
 * FAN_E_CONFIG  `why` has the reason */
int fan_make_parse(struct fan_make *m, const char *text, struct fan_why *why);

/* Build a topology and seal it.  Workers are named W1, W2, ..., servers PS1, ..., switches S1, S2,
 * ...; in a fat-tree racks R1, ..., aggregation switches A1, ..., and cores C1, ...; routers of a
 * dragonfly D1, ..., and switches that hosts of rails are linked with T1, ...
 *
 * FAN_E_CONFIG  no room for that many hosts, an odd k, or too many groups
 * FAN_E_NOMEM */
int fan_make(struct fan_topo *t, const struct fan_make *m, struct fan_why *why);

/* Build without a job, and do not seal; there may be no server.  Errors are those of fan_make. */
int fan_make_network(struct fan_topo *t, const struct fan_make *m, struct fan_why *why);

/* Hosts for a network that has none, such as those of the Topology Zoo.  They are put on the
 * switches in turn, in random order.  Of `make` only workers, servers, link, server, switch,
 * switch_max, programmable, seed and largest are used. */
struct fan_attach {
	struct fan_make make;
	bool link_given;   /* false: a host's link is as fast as the fastest of its switch */
	bool switch_given; /* draw what switches can sum; false: keep it */
};

/* Parse text such as "workers=8,servers=2,switch=100".  FAN_E_CONFIG: `why` has the reason. */
int fan_attach_parse(struct fan_attach *a, const char *text, struct fan_why *why);

/* Add the hosts to `*t`, and a job of all workers and servers if it has none, and seal it.
 *
 * FAN_E_CONFIG  no switch, a network in several pieces, too many nodes, or as fan_topo_seal
 * FAN_E_NOMEM   the caller frees `*t` in both cases. */
int fan_attach(struct fan_topo *t, const struct fan_attach *a, struct fan_why *why);

/* Add hosts without a job, and do not seal.  Errors are those of fan_attach. */
int fan_attach_hosts(struct fan_topo *t, const struct fan_attach *a, struct fan_why *why);

#endif
