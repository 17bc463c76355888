/* SPDX-License-Identifier: Apache-2.0 */
/* world.h - virtual time, nodes, the links between them, and the actors that live on nodes.
 *
 * An actor stands for a process: a worker, a switch daemon, a source of other traffic.  It receives
 * the packets that are addressed to it, and is called when its deadline expires; the objects of
 * src/core, which it drives, have the same three calls.  A node has links; it may host actors, and
 * may forward packets for others along the shortest path.  A node with a limited capacity works on
 * one packet after another, whether it sums or forwards them.
 *
 * Nothing is static, so several simulations can live in one process.  All randomness comes from the
 * seed: the same seed gives the same run to the last packet. */
#ifndef FAN_SIM_WORLD_H
#define FAN_SIM_WORLD_H

#include "core/wire/wire.h"
#include "event.h"
#include "link.h"

#define FAN_SIM_NEVER	   UINT64_MAX
#define FAN_SIM_NONE	   UINT32_MAX
#define FAN_SIM_NODES_MAX  65536
#define FAN_SIM_LINKS_MAX  (UINT32_C(1) << 22) /* directions */
#define FAN_SIM_ACTORS_MAX (UINT32_C(1) << 22)
#define FAN_SIM_STRAYS_MAX (UINT32_C(1) << 22) /* late and duplicate packets at a time */
#define FAN_SIM_HOPS_MAX   64		       /* links that a packet may cross */

struct fan_sim;

struct fan_actor_ops {
	/* The packet still belongs to the simulation.  `p->body` is NULL for traffic of no job. */
	void (*recv)(void *self, const struct fan_sim_packet *p);
	void (*tick)(void *self);	  /* the deadline has expired; the call must move it on */
	uint64_t (*deadline)(void *self); /* FAN_SIM_NEVER: none */
};

struct fan_sim_actor {
	void *self;
	const struct fan_actor_ops *ops;
	uint32_t node;
	uint32_t uplink;    /* the node's only link; FAN_SIM_NONE: it has several */
	uint64_t wake_ns;   /* earliest wake-up in the heap */
	const void *worker; /* the struct fan_worker that it drives; NULL: it drives none */
};

/* What a packet requires from its node. */
enum fan_sim_need {
	FAN_NEED_NOTHING,
	FAN_NEED_ORDER,	   /* overtakes no packet that needs capacity, but takes no time */
	FAN_NEED_CAPACITY, /* takes time for each of its bytes */
};

typedef enum fan_sim_need (*fan_sim_chooser)(const void *arg, const struct fan_sim_packet *p);

struct fan_sim_node {
	bool forwards;	      /* it forwards packets between other nodes */
	uint32_t inside;      /* the link that models its capacity; FAN_SIM_NONE: no limit */
	fan_sim_chooser uses; /* says what a packet requires; NULL: each needs capacity */
	const void *uses_arg;
	uint32_t first, links; /* its outgoing links in fan_sim.out */
	/* by node: the link towards this one; NULL until a path to it is first asked for */
	uint32_t *next;
	uint32_t *depth; /* by node: distance to this one in links; made with `next` under `ecmp` */
};

/* The links that a multicast group's packets take. */
struct fan_sim_tree {
	uint32_t *link_first; /* by node: its first link in `link`, up to the next node's first */
	uint32_t *link;
	uint32_t *member; /* actors */
	uint32_t members;
};

/* What a trace can see of a packet. */
enum fan_sight {
	FAN_SIGHT_SENT,	    /* handed to its first link */
	FAN_SIGHT_ARRIVED,  /* reached its actor, which has not handled it yet */
	FAN_SIGHT_OVERFLOW, /* dropped: the link's queue is full */
	FAN_SIGHT_LOST,	    /* dropped: by chance, or the link is down */
};

struct fan_sim {
	uint64_t seed, now_ns;
	struct fan_events events;
	struct fan_body_pool pool;
	struct fan_sim_body *desk; /* where a small body is joined with its payload */
	struct fan_sim_node *node;
	struct fan_sim_link *link;
	struct fan_sim_actor *actor;
	uint32_t nodes, links, actors;
	uint32_t nodes_room, links_room, actors_room;
	uint32_t *out; /* links by the node that they leave; made by fan_sim_index */
	/* packets that arrive out of their link's order, and where; of a free one, the next */
	struct fan_sim_stray {
		struct fan_link_entry e;
		uint32_t node;
	} * stray;
	uint32_t strays, strays_room, stray_free; /* stray_free == strays: none is free */
	struct fan_sim_tree *tree;
	uint32_t trees;
	struct fan_watch {
		void (*saw)(void *arg, enum fan_sight what, uint32_t link,
			    const struct fan_sim_packet *p);
		void *arg;
	} watch;
	/* Sees every packet on every link; may drop it (true) or delay it. */
	bool (*filter)(void *arg, uint32_t link, const struct fan_sim_packet *p, uint64_t *late_ns);
	void *filter_arg;
	uint32_t awaited;   /* actors that the run waits for and that have not ended */
	uint64_t in_flight; /* packets on links */
	uint64_t hops;	    /* packets that crossed a link and were handled */
	uint64_t frag_hops; /* those of them that carry elements */
	bool broke;	    /* out of memory: the run's results are invalid */
	bool elements;	    /* some job looks at its sums; else packets are but their headers */
	bool ecmp; /* flows are spread over all shortest paths, by hash; else one is taken */
};

/* Datagrams have at most `packet_bytes` bytes. */
void fan_sim_init(struct fan_sim *s, uint64_t seed, uint32_t packet_bytes);
void fan_sim_free(struct fan_sim *s);

/* Add a node.  With `bps` 0 its capacity has no limit; otherwise it marks packets that find more
 * than `ecn_bytes` before them (0: none).  Returns its number, or FAN_SIM_NONE: out of memory or of
 * numbers; so do fan_sim_add_link and fan_sim_add_actor. */
uint32_t fan_sim_add_node(struct fan_sim *s, bool forwards, uint64_t bps, uint32_t ecn_bytes);

/* Add one direction of a cable, from `a` to `b`. */
uint32_t fan_sim_add_link(struct fan_sim *s, uint32_t a, uint32_t b,
			  const struct fan_link_config *cfg);

/* Add an actor at `node`, after the last link.  Returns its address in packets. */
uint32_t fan_sim_add_actor(struct fan_sim *s, uint32_t node, void *self,
			   const struct fan_actor_ops *ops);

/* Index the links by node: after the last link and before the first actor, and again whenever nodes
 * or links are added later.  False: out of memory. */
bool fan_sim_index(struct fan_sim *s);

/* The link on which a packet from actor `from` to actor `to` leaves node `at`: the first of a
 * shortest path; FAN_SIM_NONE: there is none.  Of several it is the one that was added first; with
 * `ecmp` a hash of both actors and the node selects one, so that a flow keeps to one path. */
uint32_t fan_sim_hop(struct fan_sim *s, uint32_t at, uint32_t from, uint32_t to);

/* A body that holds the item's datagram; NULL: out of memory.  `lent`: the payload stays unchanged
 * until the simulation ends, so it is not copied. */
struct fan_sim_body *fan_sim_body(struct fan_sim *s, const struct fan_out_item *it, bool lent);

/* The datagram of a packet that an actor receives, in contiguous memory, until the next call. */
const uint8_t *fan_sim_bytes(struct fan_sim *s, const struct fan_sim_packet *p);

/* Read a fragment's datagram to `f`, without the checks of fan_wire_get, which all that the core
 * has sent passes.  False: it is of none of the `types` (bits by enum fan_type), or damaged. */
bool fan_sim_read(const struct fan_sim_packet *p, uint32_t types, struct fan_frag *f);

/* Send the datagram in p->body from the node of actor p->from; with FAN_PACKET_TREE to all members
 * of the tree p->to, which begins there.  Takes references of its own.  `own`: it waits for room in
 * the first link's queue, as a host's own packets do. */
void fan_sim_send(struct fan_sim *s, const struct fan_sim_packet *p, bool own);

/* Make a tree of the shortest paths from node `from` to these actors, in place of `tree` unless
 * that is FAN_SIM_NONE.  Returns its number, or FAN_SIM_NONE: out of memory. */
uint32_t fan_sim_set_tree(struct fan_sim *s, uint32_t tree, uint32_t from, const uint32_t *member,
			  uint32_t members);
void fan_sim_free_trees(struct fan_sim *s);

/* `recv` of an actor to which nobody sends. */
void fan_sim_hear_nothing(void *self, const struct fan_sim_packet *p);

/* Read the actor's deadline again; needed after a change from outside. */
void fan_sim_wake(struct fan_sim *s, uint32_t actor);

/* Change a link's rate during the run. */
void fan_sim_set_rate(struct fan_sim *s, uint32_t link, uint64_t bps);

/* Handle the next event if it is due by `until_ns`; false: none is. */
bool fan_sim_step(struct fan_sim *s, uint64_t until_ns);

/* An actor's address as the core knows it, and the reverse. */
static inline fan_peer fan_sim_peer(uint32_t actor)
{
	return (fan_peer){.addr = {0, (uint64_t)actor + 1}, .port = 4000};
}

#endif
