/* SPDX-License-Identifier: Apache-2.0 */
/* switch.h - the switch: slots that all jobs share, in front of an aggregator.
 *
 * A fan_switch sums what meets in its slots and sends it up as partial sums: to another
 * switch or to the aggregator (aggregator.h), which completes what the slots could not.  It
 * admits nobody and keeps no result.  It may forget anything at any time, all of it when
 * it restarts: that costs time, and no sum.  Who may have a slot, policy.h says.
 *
 * Sans-IO like fan_aggregator.  Payloads that it sends lie in the datagram given to recv, in
 * the scratch, or in memory of its own that stays as it is for cfg.spares further calls. */
#ifndef FAN_SWITCH_SWITCH_H
#define FAN_SWITCH_SWITCH_H

#include "core/base/policy_kind.h"
#include "core/base/share.h"
#include "core/base/verdict.h"
#include "core/wire/ctlmsg.h"
#include "core/wire/route_table.h"

struct fan_switch;

/* Parts that can be left out, to see what they are for, or used otherwise. */
enum fan_switch_option {
	FAN_SWITCH_FREE_EARLY = 1 << 0,	   /* a slot is free when its sum has left, not when the
					    * result comes back */
	FAN_SWITCH_NO_PREEMPTION = 1 << 1, /* esa: a higher priority takes no slot */
	FAN_SWITCH_NO_AGEING = 1 << 2,	   /* esa: a slot keeps its priority */
	FAN_SWITCH_NO_PRIORITIES = 1 << 3, /* esa: all priorities are 0 */
};

struct fan_switch_config {
	enum fan_policy policy; /* FAN_POLICY_ATP or FAN_POLICY_ESA */
	uint32_t slots;		/* 1 .. FAN_SLOTS_MAX */
	uint32_t quota;		/* most slots that one job of weight 1 holds; 0: all */
	struct fan_shares shares;
	uint16_t shards;	/* of the whole switch, which must be as many as the aggregator has;
				 * 0: not known */
	uint16_t payload_bytes; /* largest payload of a fragment that is summed here */
	uint16_t children_max;	/* 2 .. FAN_MEMBERS_MAX */
	uint16_t spares;	/* 1 .. FAN_SPARES_MAX: calls until what they wrote is sent */
	uint8_t options;	/* enum fan_switch_option */
	uint16_t routes;	/* most that may be installed, at most FAN_ROUTES_MAX */
	fan_peer aggregator;	/* who is next on the way up, of jobs without a route; none, if
				 * there are routes: there are no such jobs */
};

struct fan_switch_stats {
	uint64_t packets;
	uint64_t hits;		/* parts added to a slot that others had begun */
	uint64_t taken;		/* parts that took a slot */
	uint64_t collisions;	/* parts sent up unsummed: their slot was another's */
	uint64_t over_quota;	/* likewise: the job held as many slots as it may */
	uint64_t passed;	/* likewise, for all other reasons */
	uint64_t preemptions;	/* slots taken from a lower priority... */
	uint64_t evictions;	/* ...with a partial sum in them */
	uint64_t flushes;	/* partial sums sent up because somebody asked */
	uint64_t completions;	/* sums of all ranks below */
	uint64_t partials;	/* sums sent up */
	uint64_t results;	/* that passed on their way down */
	uint64_t progress_sent; /* ranks told how far the others are */
	uint64_t yields;  /* slots that waited for stragglers and gave way: preemptions, too */
	uint64_t lent;	  /* sums and parts given to helpers */
	uint64_t late;	  /* parts that found their slot left: lent, or sent up */
	uint64_t misses;  /* times that workers here were asked for what numbers showed as lost */
	uint64_t unknown; /* children asked who they are */
	uint64_t drops[FAN_DROP_COUNT];
};

/* What became of a datagram: FAN_WAIT added, FAN_DONE added and the sum has left,
 * FAN_PASS sent on, FAN_CTL, FAN_DROP. */

struct fan_switch_report {
	uint32_t slots, slots_used; /* that hold a sum */
	uint32_t children;
	uint32_t jobs;
};

/* How a rank stands beside the others of its job. */
struct fan_switch_rank {
	const char *name; /* of the job, the switch's; empty: not known */
	uint32_t job, epoch;
	uint16_t ranks;	      /* of the job */
	bool ahead;	      /* ranks may run ahead: what follows is kept only then */
	bool straggles;	      /* far behind the furthest */
	bool offers;	      /* has a cache for others' sums... */
	bool full;	      /* ...without room, as far as is known */
	uint64_t next;	      /* the fragment that it comes to */
	uint64_t behind;      /* fragments behind the furthest */
	uint32_t lent;	      /* sums and parts that it was given to keep */
	uint32_t deferred;    /* parts of its own that went loose while it was a straggler... */
	const uint32_t *kept; /* ...and by rank, those that it was given to keep; until the next
			       * packet; NULL: none */
	bool whole;	      /* all ranks are below this switch */
};

/* Bytes that a switch of this configuration needs; 0 if a field is out of range. */
size_t fan_switch_bytes(const struct fan_switch_config *cfg);

/* Make one in `mem`, fan_switch_bytes(cfg) bytes aligned to 64, which need no clearing. */
struct fan_switch *fan_switch_init(void *mem, const struct fan_switch_config *cfg);

/* Install a route, or take one away, while no item of an earlier call waits to be sent.
 *
 * FAN_E_INVALID     as fan_route_set has it
 * FAN_E_BUSY        the number has other entries already
 * FAN_E_SLOTS_FULL  there are cfg.routes of them */
int fan_switch_route(struct fan_switch *sw, const struct fan_route_config *c);
void fan_switch_unroute(struct fan_switch *sw, uint16_t number);

/* Handle one datagram of `len` bytes at `pkt` that `from` sent; `marked`: it met
 * congestion.  `out` has room for FAN_SWITCH_OUT_MAX items: fan_out_has. */
enum fan_verdict fan_switch_recv(struct fan_switch *sw, uint64_t now_ns, fan_peer from,
				 const uint8_t *pkt, size_t len, bool marked, struct fan_out *out);

/* Forget children that have fallen silent. */
void fan_switch_tick(struct fan_switch *sw, uint64_t now_ns);

/* When tick wants to be called; UINT64_MAX: never. */
uint64_t fan_switch_deadline(const struct fan_switch *sw);

/* Assert all that holds between calls, slot by slot: for tests and simulations. */
void fan_switch_audit(const struct fan_switch *sw);

const struct fan_switch_stats *fan_switch_stats(const struct fan_switch *sw);
void fan_switch_report(const struct fan_switch *sw, struct fan_switch_report *r);

/* Fill in what the slots have done for job number m->index (0 .. jobs-1). */
void fan_switch_slot_stats(const struct fan_switch *sw, struct fan_slot_stats *m);

/* How `rank` of job number `index` (0 .. jobs-1) stands; false: there is no such. */
bool fan_switch_rank(const struct fan_switch *sw, unsigned index, uint16_t rank,
		     struct fan_switch_rank *r);

#endif
