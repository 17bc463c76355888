/* SPDX-License-Identifier: Apache-2.0 */
/* install.h - what switches, servers and workers must know to carry out a plan.
 *
 * Each tree of the plan becomes a part: a job of its own, with the tree's server as aggregator and
 * a route number that all its packets carry.  Switches on the path get entries, which say for a
 * previous hop and a set of ranks whether to sum or pass on, and the next hop.  A worker joins each
 * part at the first switch of its path, and cuts its tensors by the parts' shares.  Rank r of a
 * part is the job's r-th worker.  adr 11 has the reasons.
 *
 * Nothing is sent from here: like all of planner/plan, this does no I/O. */
#ifndef FAN_PLAN_INSTALL_H
#define FAN_PLAN_INSTALL_H

#include <jansson.h>

#include "core/base/rank_set.h"
#include "eval.h"

#define FAN_CUT_BITS 32u /* cuts are in units of 1 / 2^32 of a tensor */

/* One switch's rule for some ranks of a part. */
struct fan_install_entry {
	uint32_t from;	/* previous hop; FAN_NODE_NONE: workers that join here */
	uint32_t next;	/* next hop: a switch, or the server */
	uint32_t depth; /* hops to the server */
	bool sums;
	uint64_t ranks[FAN_RANK_WORDS];
};

/* What one switch must know of one part. */
struct fan_install_stop {
	uint32_t node;
	uint32_t quota;		 /* slots for the part; 0: the switch's default */
	uint32_t entry, entries; /* its entries in fan_install.entry */
};

struct fan_install_part {
	uint32_t tree, job, server; /* a tree of the plan; a job and a node of the topology */
	uint16_t route;
	uint32_t number;      /* of the part in its job, from 0 */
	uint64_t from, to;    /* its cut of each tensor, in 1 / 2^FAN_CUT_BITS */
	double gbps;	      /* rate at which each worker sends the part, with results counted */
	uint32_t *join;	      /* by rank: the node that it joins at, a switch or the server */
	uint32_t stop, stops; /* its stops in fan_install.stop; none if all join at the server */
};

struct fan_install {
	const struct fan_topo *t;
	struct fan_install_part *part;
	struct fan_install_stop *stop;
	struct fan_install_entry *entry;
	uint32_t parts, stops, entries;
	uint32_t stop_room, entry_room;
};

/* Check plan `p` and make its installation.  `t` must outlive it.  `slots`: of each switch, divided
 * among its parts by share; 0: no quotas.
 *
 * FAN_E_CONFIG  the plan does not fit the topology, or cannot be installed: a path
 *               passes a link twice or leads in a circle, too many parts, ranks, hops or
 *               entries; `why` names the place
 * FAN_E_NOMEM
 * On error `*in` is empty. */
int fan_install_make(struct fan_install *in, const struct fan_topo *t, const struct fan_plan *p,
		     uint32_t slots, struct fan_why *why);
void fan_install_free(struct fan_install *in);

/* The installation as JSON: a new reference, or NULL if memory is exhausted.
 *
 *     {"parts": [{"route", "job", "part", "name", "server", "share", "cut": [FROM, TO], "gbps",
 *                 "ranks", "group": [NUMBER, OF HOW MANY]}],
 *      "workers": [{"worker", "job", "rank", "joins": [{"route", "at"}]}],
 *      "switches": [{"name", "routes": [{"route", "quota",
 *                    "entries": [{"from", "ranks", "next", "depth", "sums"}]}]}],
 *      "servers": [{"name", "routes": [ROUTE]}]}
 *
 * Parts of a job's groups share one name and have "group".  "from" is null for workers that join
 * here; "ranks" is text such as "0-3,7"; "sums" is how many ranks are summed, or false. */
json_t *fan_install_json(const struct fan_install *in);

#endif
