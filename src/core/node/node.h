/* SPDX-License-Identifier: Apache-2.0 */
/* node.h - what a shard is made of: an aggregator, slots in front of an aggregator, or both.
 *
 * Both in one node are the two objects of aggregator.h and switch.h as they would be on two
 * machines: each sends to the other what it would send there, and the packets do not leave
 * the node.  Everything from outside goes to the slots first, but for what a parent sends and
 * for questions that only the aggregator can answer.
 *
 * An aggregator may have a parent; slots alone have an aggregator elsewhere, or further slots
 * on the way to it.  Sans-IO, as its parts are.  A caller may give it several datagrams
 * before it sends what they led to. */
#ifndef FAN_NODE_NODE_H
#define FAN_NODE_NODE_H

#include "core/aggregator/aggregator.h"
#include "core/switch/switch.h"

struct fan_node;

struct fan_node_config {
	bool has_aggregator, has_slots;		 /* at least one */
	struct fan_aggregator_config aggregator; /* of the aggregator */
	struct fan_switch_config slots;		 /* of the slots; `aggregator` is filled in.  With
						  * both, `spares` is FAN_NODE_OUT_MAX at least */
	fan_peer above;				 /* slots alone: who is next on the way to the
						  * aggregator; an aggregator with siblings: its
						  * parent; otherwise nobody */
};

/* What passes between the two. */
struct fan_node_stats {
	uint64_t up_packets, up_bytes;	   /* from the slots to the aggregator */
	uint64_t down_packets, down_bytes; /* the other way */
	uint64_t lost;			   /* packets that found no room: the protocol recovers */
};

/* Bytes that a node of this configuration needs; 0 if a field is out of range. */
size_t fan_node_bytes(const struct fan_node_config *cfg);

/* Make one in `mem`, fan_node_bytes(cfg) bytes aligned to 64, which need no clearing. */
struct fan_node *fan_node_init(void *mem, const struct fan_node_config *cfg);

/* Items that an `out` must have room for; and FAN_ITEM_SCRATCH bytes of scratch for each. */
unsigned fan_node_out_items(const struct fan_node_config *cfg);

/* Is there room in `out`, and here, for what one more datagram may lead to?  If not, send
 * first.  There is room when all has been sent. */
bool fan_node_fits(const struct fan_node *n, const struct fan_out *out);

/* All of `out` has been sent: payloads that lie here are needed no more. */
void fan_node_sent(struct fan_node *n);

/* Handle one datagram, which fits; `marked`: it met congestion, here or on its way.  The verdict
 * is that of the object that it reaches first. */
enum fan_verdict fan_node_recv(struct fan_node *n, uint64_t now_ns, fan_peer from,
			       const uint8_t *pkt, size_t len, bool marked, struct fan_out *out);

/* Do what time asks for; `out` is empty.  If it runs full the deadline stays in the past. */
void fan_node_tick(struct fan_node *n, uint64_t now_ns, struct fan_out *out);

/* When tick wants to be called; UINT64_MAX: never. */
uint64_t fan_node_deadline(const struct fan_node *n);

/* Its parts, to be asked what they count; NULL: not here. */
struct fan_aggregator *fan_node_aggregator(const struct fan_node *n);
struct fan_switch *fan_node_slots(const struct fan_node *n);

const struct fan_node_stats *fan_node_stats(const struct fan_node *n);

/* Assert all that holds between calls, slot by slot: for tests and simulations. */
void fan_node_audit(const struct fan_node *n);

/* Jobs that the aggregator has, or that the slots have seen. */
unsigned fan_node_jobs(const struct fan_node *n);

#endif
