/* SPDX-License-Identifier: Apache-2.0 */
/* agent.h - a daemon's end of the line to its controller: a thread beside the shards'.
 *
 * It dials, says who the daemon is and how it fares, and has the shards install and remove
 * routes as it is told.  Without a controller it goes on dialling, and the daemon with what it
 * has.  doc/controller.md has the lines. */
#ifndef FAN_AGENT_H
#define FAN_AGENT_H

#include "switchd.h"

#define FAN_AGENT_HEALTH_MS 250	 /* between two reports */
#define FAN_AGENT_RETRY_MS  250	 /* between two dials, at least... */
#define FAN_AGENT_FIRST_MS  100	 /* before the first dial after a line that worked, at most */
#define FAN_AGENT_RETRY_MAX 1000 /* ...and at most; so long, too, it waits to be connected */

struct fan_agent;

struct fan_agent_options {
	struct fan_switchd *daemon; /* outlives the agent */
	fan_peer controller;
	char name[FAN_NAME_MAX + 1]; /* of this node in the topology */
	bool is_switch;		     /* else a server */
	fan_peer listen; /* of shard 0; of any address: that of the way to the controller */
	unsigned shards;
	unsigned slots; /* of all shards, to be shared out by quotas */

	/* As fan_switchd_options has it, from the agent's thread. */
	void (*log)(void *ctx, const char *line);
	void *ctx;
};

/* Start it.  0 and `*a`, or -errno. */
int fan_agent_start(struct fan_agent **a, const struct fan_agent_options *o);

/* Stop it and free all; NULL is allowed. */
void fan_agent_stop(struct fan_agent *a);

#endif
