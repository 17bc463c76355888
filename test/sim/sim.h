/* SPDX-License-Identifier: Apache-2.0 */
/* sim.h - nodes on one switch or several, and links that lose, repeat, delay and damage.
 *
 * Time, events and packets on their way are the simulator's, simulator/sim/world.h; the faults
 * are drawn here, so that a seed keeps its meaning whatever the simulator learns.
 *
 * Each node but the first has a link to the node above it, node 0 if nothing else is
 * said, which carries its traffic in both directions and has its own faults.  Everything is drawn
 * from the seed, so a run can be repeated to the last packet. */
#ifndef TEST_SIM_SIM_H
#define TEST_SIM_SIM_H

#include "core/base/out.h"
#include "draw.h"
#include "sim/world.h"

#define SIM_SWITCH   0
#define SIM_NEVER    UINT64_MAX
#define SIM_US	     UINT64_C(1000)
#define SIM_CAPTURED 32 /* packets kept for nodes that imitate others */

/* Chances are in millionths. */
struct sim_link {
	uint64_t delay_ns, jitter_ns;
	uint32_t loss, twice, late, stale, damage;
	uint32_t burst; /* chance that a loss is the first of a burst */
	uint32_t ghost; /* chance that a JOIN comes once more, up to ghost_ns later */
	uint64_t ghost_ns;
	uint64_t stale_ns;
	uint64_t burst_until_ns;
	bool deaf;			     /* hears no multicast */
	bool cut;			     /* carries nothing */
	uint64_t up_bps, down_bps;	     /* 0: packets take no time */
	uint64_t up_until_ns, down_until_ns; /* busy with what was sent before */
};

struct sim_packet {
	int from, to;
	bool by_group;
	size_t len;
	uint8_t bytes[];
};

/* What a node does; `self` is its own. */
struct sim_node {
	void *self;
	void (*recv)(void *self, const struct sim_packet *p);
	void (*tick)(void *self);
	uint64_t (*deadline)(void *self);
	fan_peer peer;
	fan_peer group; /* the multicast group it listens to */
	struct sim_link link;
	int up; /* the node above */
	struct sim_seat *seat;
};

struct sim {
	uint64_t seed, now_ns;
	struct fan_sim world;
	uint64_t slept_ns; /* so far: now_ns is ahead of the world's by that */
	uint64_t late_ns;  /* of the packet that is being sent */
	bool sealed;	   /* jobs are, with the cipher of test/seal/toy.h */
	bool lines;	   /* links have rates, and keep the order of packets */
	struct fan_rng rng;
	struct sim_node *node;
	int nodes, nodes_max;
	uint64_t delivered;
	struct sim_packet *captured[SIM_CAPTURED];
	unsigned captured_next;
	bool capture;
	/* Sees each packet that is sent, may ask for its loss (true) or change its delay. */
	bool (*filter)(void *arg, const struct sim_packet *p, uint64_t *delay_ns);
	void *filter_arg;
};

void sim_init(struct sim *s, uint64_t seed);
void sim_free(struct sim *s);

/* A new node; its handlers are the caller's to set.  Returns its number. */
int sim_add_node(struct sim *s, const struct sim_link *link);

/* Send the item's datagram from one node to another. */
void sim_send(struct sim *s, int from, int to, const struct fan_out_item *it, bool by_group);

/* The same of a datagram that is there. */
void sim_send_bytes(struct sim *s, int from, int to, const uint8_t *packet, size_t len,
		    bool by_group);

/* Look at the node's deadline anew; needed after it was changed from outside. */
void sim_wake(struct sim *s, int node);

/* All nodes are suspended for `ns`, and what is on its way arrives that much later. */
void sim_sleep(struct sim *s, uint64_t ns);

/* Handle the next event, if it is due by `until_ns`; false if none is. */
bool sim_step(struct sim *s, uint64_t until_ns);

/* Memory for an object of the core, which asks for none that is cleared: the ends of it hold what
 * no field may.  The middle of a large one is as it comes: to fill hundreds of megabytes takes
 * longer than the run. */
void *sim_memory(size_t bytes);

/* The node that has this address, or -1. */
int sim_find(const struct sim *s, const fan_peer *peer);

/* Say what is wrong, with the seed, and end the process. */
_Noreturn void sim_fail(const struct sim *s, const char *format, ...)
	__attribute__((format(printf, 2, 3)));

#define SIM_CHECK(s, condition, ...)                                                               \
	do {                                                                                       \
		if (!(condition))                                                                  \
			sim_fail(s, __VA_ARGS__);                                                  \
	} while (0)

#endif
