/* SPDX-License-Identifier: Apache-2.0 */
/* switch.h - the switch: slots that all jobs share, in front of an aggregator.
 *
 * A fan_switch adds contributions that meet in its slots and sends partial sums up: to another
 * switch or to the aggregator (aggregator.h), which completes them.  It admits no ranks and
 * keeps no results.  It may lose any of its state, or all in a restart: that costs time, never a
 * sum.  The slot policy (policy.h) decides which fragment gets a slot.
 *
 * Sans-IO like fan_aggregator.  Payloads of its items lie in the datagram given to recv, in the
 * scratch, or in memory of its own that is unchanged for cfg.spares further calls. */
#ifndef FAN_SWITCH_SWITCH_H
#define FAN_SWITCH_SWITCH_H

#include "core/base/out.h"
#include "core/base/policy_kind.h"
#include "core/wire/ctlmsg.h"
#include "core/wire/route_table.h"

struct fan_switch;

/* Mechanisms that experiments switch off or on. */
enum fan_switch_option {
	/* a slot is free when its sum has left, not when the result has come */
	FAN_SWITCH_FREE_EARLY = 1 << 0,
	FAN_SWITCH_NO_PREEMPTION = 1 << 1, /* esa: a higher priority takes no slot */
	FAN_SWITCH_NO_AGEING = 1 << 2,	   /* esa: a slot keeps its priority */
	FAN_SWITCH_NO_PRIORITIES = 1 << 3, /* esa: all priorities are 0 */
};

struct fan_switch_config {
	enum fan_policy policy; /* one that fan_policy_shares */
	uint32_t slots;		/* 1 .. FAN_SLOTS_MAX */
	uint32_t quota;		/* most slots that one job holds; 0: all */
	uint16_t shards;	/* of the daemon, as many as the aggregator's; 0: not known */
	uint16_t payload_bytes; /* largest payload of a fragment that is summed here */
	uint16_t children_max;	/* 2 .. FAN_MEMBERS_MAX */
	uint16_t spares;	/* 1 .. FAN_SPARES_MAX: most calls between two sends */
	uint8_t options;	/* enum fan_switch_option */
	/* BEATs without a key do not come here, but anybody can repeat JOINs */
	bool authentic;
	uint16_t routes; /* most routes installed, at most FAN_ROUTES_MAX */
	/* next hop of jobs without a route; none, with `routes` > 0: there are no such jobs */
	fan_peer aggregator;
};

struct fan_switch_stats {
	uint64_t packets;
	uint64_t hits;	/* contributions added to a slot in use */
	uint64_t taken; /* contributions that took a slot */
	/* contributions unaggregated, or dropped, because their slot was taken */
	uint64_t collisions;
	uint64_t
		over_quota; /* contributions unaggregated, or dropped, because of the job's quota */
	uint64_t passed;    /* contributions unaggregated for all other reasons */
	uint64_t preemptions;	/* slots taken from a lower priority or from stragglers */
	uint64_t evictions;	/* partial sums evicted by preemptions */
	uint64_t flushes;	/* partial sums sent up on request */
	uint64_t completions;	/* sums of all ranks below */
	uint64_t partials;	/* sums sent up */
	uint64_t results;	/* results passed down */
	uint64_t progress_sent; /* answers with PROGRESS */
	uint64_t yields;	/* preemptions of slots that waited for stragglers */
	uint64_t lent;		/* sums and contributions given to helpers */
	uint64_t late;		/* contributions after their slot's sum had left: lent or sent up */
	uint64_t misses;	/* MISSes sent to workers */
	uint64_t unknown;	/* WHOs sent to unknown children */
	uint64_t drops[FAN_DROP_COUNT];
};

struct fan_switch_report {
	uint32_t slots, slots_used; /* all, and the ones that hold a sum */
	uint32_t children;
	uint32_t jobs;
};

/* Bytes that a switch of this configuration needs; 0 if a field is out of range. */
size_t fan_switch_bytes(const struct fan_switch_config *cfg);

/* Make one in `mem`, fan_switch_bytes(cfg) bytes aligned to 64, which need no clearing. */
struct fan_switch *fan_switch_init(void *mem, const struct fan_switch_config *cfg);

/* Install a route, or remove one, when all items of earlier calls have been sent.
 *
 * FAN_E_INVALID     see fan_route_set
 * FAN_E_BUSY        the number is installed with other entries
 * FAN_E_SLOTS_FULL  cfg.routes are installed */
int fan_switch_route(struct fan_switch *sw, const struct fan_route_config *c);
void fan_switch_unroute(struct fan_switch *sw, uint16_t number);

/* Say in answers to ECHO that datagrams of `bytes` and more get lost on the path to the next hop;
 * 0: that none are known to. */
void fan_switch_behind_loses(struct fan_switch *sw, uint16_t bytes);

/* Handle one datagram of `len` bytes at `pkt` that `from` sent; `marked`: with a congestion mark.
 * `out` has room for FAN_SWITCH_OUT_MAX items: fan_out_has.  FAN_WAIT: added; FAN_DONE: added, and
 * the sum has left; FAN_PASS: sent on; FAN_CTL; FAN_EARLY; FAN_DROP. */
enum fan_verdict fan_switch_recv(struct fan_switch *sw, uint64_t now_ns, fan_peer from,
				 const uint8_t *pkt, size_t len, bool marked, struct fan_out *out);

/* Stop the switch for good: from now on it refuses JOINs, and fan_switch_tell informs proved
 * children every FAN_STOP_TELL_NS, as many as `out` has room for.  Datagrams are handled as
 * before. */
void fan_switch_goodbye(struct fan_switch *sw, uint64_t now_ns);
void fan_switch_tell(struct fan_switch *sw, uint64_t now_ns, struct fan_out *out);

/* Forget children that have fallen silent. */
void fan_switch_tick(struct fan_switch *sw, uint64_t now_ns);

/* Time of the next tick; UINT64_MAX: none is needed. */
uint64_t fan_switch_deadline(const struct fan_switch *sw);

/* Assert all invariants, slot by slot: for tests and simulations. */
void fan_switch_audit(const struct fan_switch *sw);

const struct fan_switch_stats *fan_switch_stats(const struct fan_switch *sw);
void fan_switch_report(const struct fan_switch *sw, struct fan_switch_report *r);

/* Fill in the counters of job number m->index (0 .. jobs-1). */
void fan_switch_slot_stats(const struct fan_switch *sw, struct fan_slot_stats *m);

#endif
