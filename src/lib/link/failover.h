/* SPDX-License-Identifier: Apache-2.0 */
/* failover.h - the path of a connection: through its switch, or past a silent one to the server.
 *
 * A switch's slots hold nothing that cannot be requested again, and the job lives at the server:
 * so a connection whose switch is silent goes on with the server itself, under the same nonce.
 * Meanwhile it queries the switch every second, and returns when that answers. */
#ifndef FAN_LIB_LINK_FAILOVER_H
#define FAN_LIB_LINK_FAILOVER_H

#include "net/udp.h"

struct fan_connection;
struct fan_connection_io;

struct fan_failover {
	struct fan_udp aside; /* at the server: the socket to the switch; fd -1: none */
	bool at_server;
	bool asked;	   /* the switch: what has come before is no answer */
	uint64_t heard_ns; /* last packet on this path, or when it was taken */
	uint64_t look_ns;  /* time of the next choice at the latest; later: this rank has slept */
	uint64_t ask_ns;   /* time of the next query to the switch */
	uint64_t moves;	   /* changes of path so far */
};

/* Leave a path that is being stopped, or has been silent for three heartbeats, and return to a
 * switch that answers. */
void fan_failover_choose(struct fan_connection *cn, struct fan_connection_io *io, uint64_t now_ns);

/* Time of the next choice; UINT64_MAX: there is no other path. */
uint64_t fan_failover_deadline(const struct fan_connection *cn);

#endif
