/* SPDX-License-Identifier: Apache-2.0 */
/* daemon_client.h - the controller client of a daemon, in a thread of its own.
 *
 * It dials, registers the daemon, reports its health, and has the shards install and remove
 * routes.  Without a controller it redials, and the daemon continues as it is.  doc/controller.md
 * has the lines. */
#ifndef FAN_DAEMON_CLIENT_H
#define FAN_DAEMON_CLIENT_H

#include "daemon.h"

#define FAN_DAEMON_CLIENT_HEALTH_MS 250	 /* between two reports */
#define FAN_DAEMON_CLIENT_RETRY_MS  250	 /* least time between two dials */
#define FAN_DAEMON_CLIENT_FIRST_MS  100	 /* most before the first redial after a connection */
#define FAN_DAEMON_CLIENT_RETRY_MAX 1000 /* most between two dials, and time-out of one */

struct fan_daemon_client;

struct fan_daemon_client_options {
	struct fan_daemon *daemon; /* must outlive the client */
	fan_peer controller;
	char name[FAN_NAME_MAX + 1]; /* of this node in the topology */
	bool is_switch;		     /* otherwise a server */
	/* of shard 0; a wildcard address: replaced by the one towards the controller */
	fan_peer listen;
	fan_peer above; /* of aggregators with siblings: the parent, shard 0 */
	unsigned index, siblings;
	unsigned shards;
	unsigned slots;	      /* of all shards, to be shared out by quotas */
	struct fan_keys keys; /* of the controller's lines; count 0: they are not signed */

	/* As fan_daemon_options has it, from the client's thread. */
	void (*log)(void *ctx, const char *line);
	void *ctx;
};

/* Start it.  0 and `*a`, or -errno. */
int fan_daemon_client_start(struct fan_daemon_client **a,
			    const struct fan_daemon_client_options *o);

/* Stop it and free all; NULL is allowed. */
void fan_daemon_client_stop(struct fan_daemon_client *a);

#endif
