/* SPDX-License-Identifier: Apache-2.0 */
/* node.h - the composition of a shard: an aggregator, a switch (its slots), or both.
 *
 * Both in one node are the objects of aggregator.h and switch.h as on two machines: they exchange
 * the same packets, which do not leave the node.  Packets from outside go to the switch first,
 * except those of a parent and queries that only the aggregator can answer.
 *
 * An aggregator may have a parent; a switch alone has an aggregator elsewhere, or another switch
 * as its next hop.  Sans-IO.  A caller may give it several datagrams before it sends the items
 * that they caused. */
#ifndef FAN_NODE_NODE_H
#define FAN_NODE_NODE_H

#include "core/aggregator/aggregator.h"
#include "core/switch/switch.h"

struct fan_node_config {
	bool has_aggregator, has_slots;		 /* at least one */
	struct fan_aggregator_config aggregator; /* with has_aggregator */
	/* with has_slots; its `aggregator` is filled in, and `spares` raised to FAN_NODE_OUT_MAX */
	struct fan_switch_config slots;
	/* a switch alone: its next hop; an aggregator with siblings: its parent; otherwise none */
	fan_peer above;
};

/* Packets between the two. */
struct fan_node_stats {
	uint64_t up_packets, up_bytes;	   /* from the slots to the aggregator */
	uint64_t down_packets, down_bytes; /* from the aggregator to the slots */
	uint64_t lost;			   /* dropped for lack of room: the protocol recovers */
};

/* Callers may read all up to the blank line. */
struct fan_node {
	struct fan_aggregator *aggregator; /* NULL: elsewhere */
	struct fan_switch *slots;	   /* NULL: none */
	struct fan_node_stats stats;

	/* For node.c alone: */
	fan_peer above;
	bool has_parent;	/* which is `above` */
	bool sorts;		/* some items of its parts do not leave as they are */
	unsigned out_max;	/* items that one datagram can release */
	unsigned calls_max;	/* calls of the slots that one datagram can cause */
	unsigned calls, spares; /* of the slots since all was sent, and at most */

	/* Packets between the two objects.  Items may refer to them. */
	uint8_t *stage; /* STAGED_MAX places of `stride` bytes; NULL: not both are here */
	size_t stride;
	unsigned staged, handled;
	struct {
		size_t bytes;
		bool up;
	} packet[FAN_NODE_STAGED_MAX];
};

/* Bytes that a node of this configuration needs; 0 if a field is out of range. */
size_t fan_node_bytes(const struct fan_node_config *cfg);

/* Make one in `mem`, fan_node_bytes(cfg) bytes aligned to 64, which need no clearing. */
struct fan_node *fan_node_init(void *mem, const struct fan_node_config *cfg);

/* Items for which an `out` must have room, with FAN_ITEM_SCRATCH bytes of scratch for each. */
unsigned fan_node_out_items(const struct fan_node_config *cfg);

/* Is there room, in `out` and in the node, for one more datagram?  If not, send first: then there
 * is. */
bool fan_node_fits(const struct fan_node *n, const struct fan_out *out);

/* All of `out` has been sent: the node may reuse the payloads' memory. */
void fan_node_sent(struct fan_node *n);

/* Handle one datagram, for which there is room; `marked`: with a congestion mark.  The verdict is
 * that of the object that it reaches first. */
enum fan_verdict fan_node_recv(struct fan_node *n, uint64_t now_ns, fan_peer from,
			       const uint8_t *pkt, size_t len, bool marked, struct fan_out *out);

/* As fan_node_recv, at a node without slots, of a datagram that fan_wire_get has read to `f`, which
 * may change. */
enum fan_verdict fan_node_take(struct fan_node *n, uint64_t now_ns, const fan_peer *from,
			       struct fan_frag *f, bool marked, struct fan_out *out);

/* Run timers; `out` is empty.  If it runs full, the deadline stays in the past. */
void fan_node_tick(struct fan_node *n, uint64_t now_ns, struct fan_out *out);

/* Time of the next tick; UINT64_MAX: none is needed. */
uint64_t fan_node_deadline(const struct fan_node *n);

/* Say in answers to ECHO that datagrams of `bytes` and more get lost on the path `above`; 0: that
 * none are known to.  All items have been sent. */
void fan_node_behind_loses(struct fan_node *n, uint16_t bytes);

/* As fan_aggregator_drain; slots alone obey of->goodbye only, as fan_switch_goodbye.  And how
 * many jobs are waited for. */
void fan_node_drain(struct fan_node *n, uint64_t now_ns, const struct fan_drain *of);
unsigned fan_node_undrained(const struct fan_node *n);

/* Assert all invariants, slot by slot: for tests and simulations. */
void fan_node_audit(const struct fan_node *n);

/* Jobs of the aggregator; of a switch alone, jobs that it has seen. */
unsigned fan_node_jobs(const struct fan_node *n);

#endif
