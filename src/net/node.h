/* SPDX-License-Identifier: Apache-2.0 */
/* node.h - what a shard is made of: a home, shared slots in front of a home, or both.
 *
 * Both in one shard are the two objects of core/switch.h and core/shared.h as they would be
 * on two machines: each sends to the other what it would send there, and the packets do not
 * leave the process.  Everything from outside goes to the slots first, but for questions
 * that only the home can answer.
 *
 * A home alone may have a parent, slots alone have a home elsewhere, or further slots on the
 * way to it.  Sans-IO, as its parts are; the memory is its own. */
#ifndef FAN_NODE_H
#define FAN_NODE_H

#include "core/shared.h"
#include "core/switch.h"

#define FAN_NODE_OUT_MAX    16	/* items that one datagram can release */
#define FAN_NODE_STAGED_MAX 256 /* packets between home and slots until all is sent */
#define FAN_NODE_TICK_ITEMS 16	/* that one tick of a home with slots in front of it writes */
#define FAN_NODE_SPARES	    512 /* datagrams given to the slots until all is sent */

struct fan_node_config {
	bool has_home, has_slots;	/* at least one */
	struct fan_switch_config home;	/* of the home */
	struct fan_shared_config slots; /* of the slots; `home` and `spares` are filled in */
	fan_peer above;			/* slots alone: who is next on the way to the home;
					 * a home with siblings: its parent; else nobody */
};

struct fan_node {
	struct fan_switch *home;  /* NULL: elsewhere */
	struct fan_shared *slots; /* NULL: none */
	fan_peer above;
	unsigned calls; /* of the slots since all was sent */

	/* Packets on their way between the two.  What is sent may lie in them. */
	uint8_t *stage; /* STAGED_MAX places of `stride` bytes */
	size_t stride;
	unsigned staged, handled;
	uint64_t lost; /* that found no place: the protocol recovers */
	struct {
		size_t bytes;
		bool up;
	} packet[FAN_NODE_STAGED_MAX];
};

/* 0; -EINVAL: a field out of its range; -ENOMEM. */
int fan_node_init(struct fan_node *n, const struct fan_node_config *cfg);
void fan_node_free(struct fan_node *n);

/* Bytes of the objects that `cfg` asks for. */
size_t fan_node_bytes(const struct fan_node_config *cfg);

/* Is there room in `out` for what one more datagram may lead to?  Else send first. */
bool fan_node_fits(const struct fan_node *n, const struct fan_out *out);

/* All of `out` has been sent: payloads that lie here are needed no more. */
void fan_node_sent(struct fan_node *n);

/* Handle one datagram; `marked`: it met congestion, here or on its way. */
void fan_node_recv(struct fan_node *n, uint64_t now_ns, fan_peer from, const uint8_t *pkt,
		   size_t len, bool marked, struct fan_out *out);

/* Do what time asks for; `out` is empty.  If it runs full the deadline stays in the past. */
void fan_node_tick(struct fan_node *n, uint64_t now_ns, struct fan_out *out);
uint64_t fan_node_deadline(const struct fan_node *n);

/* Jobs that the home has, or that the slots have seen. */
unsigned fan_node_jobs(const struct fan_node *n);

#endif
