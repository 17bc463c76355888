/* SPDX-License-Identifier: Apache-2.0 */
/* world.h - virtual time, nodes, the links between them, and the actors that live on nodes.
 *
 * An actor is what would be a process: a worker, a switch daemon, a source of other
 * traffic.  It hears the packets that are addressed to it, and is called when its
 * deadline comes: the same three calls as the objects of src/core have, which it
 * drives.  A node has links; it may host actors, and may forward packets that are for
 * others, along the shortest path.  A node with a limited capacity works on one packet
 * after the other, whether it sums or forwards it.
 *
 * Nothing is static: several simulations live in one process.  All that is random comes
 * from the seed, so the same seed gives the same run to the last packet. */
#ifndef FAN_SIM_WORLD_H
#define FAN_SIM_WORLD_H

#include "event.h"
#include "link.h"

#define FAN_SIM_NEVER	   UINT64_MAX
#define FAN_SIM_NONE	   UINT32_MAX
#define FAN_SIM_NODES_MAX  65536
#define FAN_SIM_LINKS_MAX  (UINT32_C(1) << 22) /* directions */
#define FAN_SIM_ACTORS_MAX (UINT32_C(1) << 22)
#define FAN_SIM_STRAYS_MAX (UINT32_C(1) << 22) /* packets late or twice at a time */
#define FAN_SIM_HOPS_MAX   64		       /* links that a packet may cross */

struct fan_sim;

struct fan_actor_ops {
	/* The packet stays the simulation's.  `p->body` is NULL for traffic beside the jobs. */
	void (*recv)(void *self, const struct fan_sim_packet *p);
	void (*tick)(void *self);	  /* the deadline has come; it must move on */
	uint64_t (*deadline)(void *self); /* FAN_SIM_NEVER: none */
};

struct fan_sim_actor {
	void *self;
	const struct fan_actor_ops *ops;
	uint32_t node;
	uint32_t uplink;    /* the node's only link; FAN_SIM_NONE: it has several */
	uint64_t wake_ns;   /* earliest wake-up in the heap */
	const void *worker; /* what it drives, if that is a struct fan_worker; or NULL */
};

/* What a packet needs of its node. */
enum fan_sim_need {
	FAN_NEED_NOTHING,
	FAN_NEED_ORDER,	   /* it overtakes none of those that need capacity, but takes no time */
	FAN_NEED_CAPACITY, /* time for each of its bytes */
};

typedef enum fan_sim_need (*fan_sim_chooser)(const void *arg, const struct fan_sim_packet *p);

struct fan_sim_node {
	bool forwards;	      /* packets between others may pass */
	uint32_t inside;      /* the link that stands for its capacity; FAN_SIM_NONE: no limit */
	fan_sim_chooser uses; /* what a packet needs of it; NULL: each needs capacity */
	const void *uses_arg;
	uint32_t first, links; /* its links out, in fan_sim.out */
	/* by node: how packets that are for this one get nearer; NULL until somebody lives here */
	uint32_t *next;
	uint32_t *depth; /* by node: links to this one, where flows are spread; made with `next` */
};

/* How a multicast group's packets spread. */
struct fan_sim_tree {
	uint32_t *link_first; /* by node: its links are link[link_first[n]] up to the next's */
	uint32_t *link;
	uint32_t *member; /* actors */
	uint32_t members;
};

/* What there is to see, for traces. */
enum fan_sight {
	FAN_SIGHT_SENT,	    /* handed to its first link */
	FAN_SIGHT_ARRIVED,  /* at the actor it is for; before that one handles it */
	FAN_SIGHT_OVERFLOW, /* dropped: the link's queue is full */
	FAN_SIGHT_LOST,	    /* dropped: by chance, or the link is down */
};

struct fan_watch {
	void (*saw)(void *arg, enum fan_sight what, uint32_t link, const struct fan_sim_packet *p);
	void *arg;
};

struct fan_sim {
	uint64_t seed, now_ns;
	struct fan_event_heap heap;
	struct fan_body_pool pool;
	struct fan_sim_body *desk; /* where a small body and its payload are put together */
	struct fan_sim_node *node;
	struct fan_sim_link *link;
	struct fan_sim_actor *actor;
	uint32_t nodes, links, actors;
	uint32_t nodes_room, links_room, actors_room;
	uint32_t *out;		      /* links by node that they leave; made by fan_sim_route */
	struct fan_link_entry *stray; /* packets that do not keep the order of their link */
	uint32_t *stray_free;
	uint32_t strays, strays_room, stray_frees;
	struct fan_sim_tree *tree;
	uint32_t trees;
	struct fan_watch watch;
	struct fan_timeline *timeline; /* looks at ranks; or NULL */
	/* Sees every packet on every link, may ask for its loss (true) or a delay. */
	bool (*filter)(void *arg, uint32_t link, const struct fan_sim_packet *p, uint64_t *late_ns);
	void *filter_arg;
	uint32_t awaited;   /* actors that the run lasts for and that have not ended */
	uint64_t in_flight; /* packets on links */
	uint64_t hops;	    /* packets that crossed a link and were handled */
	uint64_t frag_hops; /* of them with elements */
	bool broke;	    /* out of memory: no result of this run counts */
	bool ecmp; /* flows are spread over all shortest paths, by hash; else one is taken */
};

/* Datagrams are of `packet_bytes` at most. */
void fan_sim_init(struct fan_sim *s, uint64_t seed, uint32_t packet_bytes);
void fan_sim_free(struct fan_sim *s);

/* A node; `bps` 0: it works as fast as packets come, else it marks those that find more than
 * `ecn_bytes` before them (0: none).  Its number, or FAN_SIM_NONE: out of memory or of
 * numbers; so are the next two. */
uint32_t fan_sim_add_node(struct fan_sim *s, bool forwards, uint64_t bps, uint32_t ecn_bytes);

/* `uses` says what each packet needs of the node's capacity. */
void fan_sim_choose(struct fan_sim *s, uint32_t node, fan_sim_chooser uses, const void *arg);

/* One direction of a cable from `a` to `b`. */
uint32_t fan_sim_add_link(struct fan_sim *s, uint32_t a, uint32_t b,
			  const struct fan_link_config *cfg);

/* After the last link: what an actor needs to be at `node`.  Its address in packets. */
uint32_t fan_sim_add_actor(struct fan_sim *s, uint32_t node, void *self,
			   const struct fan_actor_ops *ops);

/* After the last link, before the first actor: index the links by node.  When nodes and
 * links are added later, do it again.  False: no memory. */
bool fan_sim_index(struct fan_sim *s);

/* The link on which packets for node `to` leave node `at`: the first of a shortest path,
 * of several the one added first.  FAN_SIM_NONE: there is no path. */
uint32_t fan_sim_next(struct fan_sim *s, uint32_t at, uint32_t to);

/* The link on which a packet from actor `from` to actor `to` leaves node `at`: as fan_sim_next, or
 * with `ecmp`, of all links that lead nearer, the one that a hash of both actors and the node
 * selects, so that a flow keeps to one path. */
uint32_t fan_sim_hop(struct fan_sim *s, uint32_t at, uint32_t from, uint32_t to);

/* Links of a shortest path between two nodes; FAN_SIM_NONE: there is none. */
uint32_t fan_sim_distance(struct fan_sim *s, uint32_t from, uint32_t to);

/* A body that holds the item's datagram; NULL: out of memory. */
struct fan_sim_body *fan_sim_body(struct fan_sim *s, const struct fan_out_item *it);

/* As fan_sim_body; the item's payload stays where it is, unchanged, until the simulation ends. */
struct fan_sim_body *fan_sim_body_lent(struct fan_sim *s, const struct fan_out_item *it);

/* Send what p->body holds, from the node where p->from lives.  Takes a reference of its
 * own.  `own`: the sender's own packets wait for room in the first link's queue. */
void fan_sim_send(struct fan_sim *s, const struct fan_sim_packet *p, bool own);

/* A tree of the shortest paths from node `from` to these actors, in place of `tree` or, if
 * that is FAN_SIM_NONE, a new one; its number, or FAN_SIM_NONE: out of memory. */
uint32_t fan_sim_set_tree(struct fan_sim *s, uint32_t tree, uint32_t from, const uint32_t *member,
			  uint32_t members);
void fan_sim_free_trees(struct fan_sim *s);

/* Send to all members of the tree p->to, which begins where p->from lives. */
void fan_sim_spread(struct fan_sim *s, const struct fan_sim_packet *p, bool own);

/* `recv` of an actor to which nobody sends. */
void fan_sim_hear_nothing(void *self, const struct fan_sim_packet *p);

/* Look at the actor's deadline anew; needed after it was changed from outside. */
void fan_sim_wake(struct fan_sim *s, uint32_t actor);

/* Change a link's rate during the run. */
void fan_sim_set_rate(struct fan_sim *s, uint32_t link, uint64_t bps);

/* Handle the next event, if it is due by `until_ns`; false if none is. */
bool fan_sim_step(struct fan_sim *s, uint64_t until_ns);

/* An actor's address as the core knows it, and back; FAN_SIM_NONE: nobody's. */
static inline fan_peer fan_sim_peer(uint32_t actor)
{
	return (fan_peer){.addr = {0, (uint64_t)actor + 1}, .port = 4000};
}

static inline uint32_t fan_sim_actor_of(const fan_peer *p)
{
	return (uint32_t)(p->addr[1] - 1);
}

#endif
