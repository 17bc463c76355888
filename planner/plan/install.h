/* SPDX-License-Identifier: Apache-2.0 */
/* install.h - what switches, servers and workers must know so that a plan is what happens.
 *
 * Each tree of the plan becomes a part: a job of its own, with the tree's server as aggregator and
 * a route number that stands in all its packets.  Switches on the path get entries: what comes from
 * there, of these ranks, is summed here or passed on, and goes on there.  A worker joins each part
 * at the first switch of its path, and cuts its tensors by the parts' shares.  Rank r of a part is
 * the job's r-th worker.  adr 11 says why.
 *
 * Pure, as all of planner/plan; nothing is sent anywhere. */
#ifndef FAN_PLAN_INSTALL_H
#define FAN_PLAN_INSTALL_H

#include <jansson.h>

#include "core/base/rank_set.h"
#include "eval.h"

#define FAN_CUT_BITS 32u /* cuts are in 1 / 2^32 of a tensor */

/* One switch's rule for some ranks of a part. */
struct fan_install_entry {
	uint32_t from;	/* the node below; FAN_NODE_NONE: workers that join here */
	uint32_t next;	/* next hop up: a switch, or the server */
	uint32_t depth; /* hops to the server */
	bool sums;
	uint64_t ranks[FAN_RANK_WORDS];
};

/* What one switch knows of one part. */
struct fan_install_stop {
	uint32_t node;
	uint32_t quota;		 /* slots for it; 0: as the switch's own */
	uint32_t entry, entries; /* in fan_install.entry */
};

struct fan_install_part {
	uint32_t tree, job, server; /* of plan and topology */
	uint16_t route;
	uint32_t number;      /* among the job's parts */
	uint64_t from, to;    /* which part of each tensor, in 1 / 2^FAN_CUT_BITS */
	double gbps;	      /* that each worker sends of it, if results count, too */
	uint32_t *join;	      /* by rank: the node, a switch or the server itself */
	uint32_t stop, stops; /* in fan_install.stop; none if all join the server */
};

struct fan_install {
	const struct fan_topo *t;
	struct fan_install_part *part;
	struct fan_install_stop *stop;
	struct fan_install_entry *entry;
	uint32_t parts, stops, entries;
	uint32_t stop_room, entry_room;
};

struct fan_install_options {
	uint16_t first; /* route number of the first part */
	uint32_t slots; /* of each switch, shared out to its parts by share; 0: no quotas */
};

/* Make the installation of plan `p`, which is checked first.  `t` must outlive it.
 *
 * FAN_E_CONFIG  the plan does not fit the topology, or cannot be installed: a path that
 *               passes a link twice or leads in a circle, too many parts, ranks, hops or
 *               entries; `why` says where
 * FAN_E_NOMEM
 * On error `*in` is empty. */
int fan_install_make(struct fan_install *in, const struct fan_topo *t, const struct fan_plan *p,
		     const struct fan_install_options *o, struct fan_why *why);
void fan_install_free(struct fan_install *in);

/* A set of ranks as text, "0-3,7": a new reference. */
json_t *fan_ranks_json(const uint64_t *ranks);

/* A new reference, or NULL without memory:
 *
 *     {"parts": [{"route", "job", "part", "name", "server", "share", "cut": [FROM, TO], "gbps",
 *                 "ranks", "group": [NUMBER, OF HOW MANY]}],
 *      "workers": [{"worker", "job", "rank", "joins": [{"route", "at"}]}],
 *      "switches": [{"name", "routes": [{"route", "quota",
 *                    "entries": [{"from", "ranks", "next", "depth", "sums"}]}]}],
 *      "servers": [{"name", "routes": [ROUTE]}]}
 *
 * Parts of a job's groups have one name, and "group".  "from" is null for workers that join here;
 * "ranks" is text, as "0-3,7"; "sums" is how many ranks are summed, or false. */
json_t *fan_install_json(const struct fan_install *in);

#endif
