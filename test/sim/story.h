/* SPDX-License-Identifier: Apache-2.0 */
/* story.h - what goes wrong in a run beside the links, and how it must end. */
#ifndef TEST_SIM_STORY_H
#define TEST_SIM_STORY_H

#include "moves.h"
#include "plan.h"

#define STORY_HOARD 64 /* packets that a stranger keeps for later */

/* One run of a plan. */
struct run {
	struct plan plan;
	struct sim sim;
	struct host_node sw;
	struct host_node leaf[PLAN_LEAVES_MAX];
	struct host_node shared[ROUTES_SWITCHES_MAX];
	struct moves moves;
	struct host_worker *worker; /* all ranks of all jobs, then `extra` */
	unsigned workers;
	struct host_worker *extra; /* or NULL */
	struct host_worker *victim;
	int stranger; /* node that plays the story */
	uint64_t story_ns, struck_ns;
	unsigned tricks; /* ROGUE, OUTSIDER, STRANGER: packets still to send; ASLEEP: suspensions to
			    come */
	struct sim_packet *hoard[STORY_HOARD]; /* STRANGER: what it has seen */
	uint32_t told_job, told_epoch;	       /* STRANGER: of a job that it has joined */
	struct fan_rng rng;
};

/* Set up what the plan's story needs; the hosts are there. */
void story_begin(struct run *r);

/* All are over: fail unless each rank ended as the story must end. */
void story_judge(const struct run *r);

/* ---- stranger.c: somebody who belongs to no job, and sends what may harm one ----
 *
 * Where jobs are open it sees no packet of theirs: it knows all addresses, names and routes, may
 * send with the address of anybody, and hears what is sent to its own.  Where they are sealed it
 * sees all packets, keeps some of them, and lacks nothing but the key.  Either way no rank may end
 * with an error, and no sum be wrong. */

/* Let it send one packet. */
void stranger_strike(struct run *r);

/* Something has come to its own address. */
void stranger_hear(struct run *r, const struct sim_packet *p);

void stranger_free(struct run *r);

#endif
