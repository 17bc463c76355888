/* SPDX-License-Identifier: Apache-2.0 */
/* failover.h - is the switch of a connection there, and the path past one that is silent.
 *
 * A switch's slots hold nothing that cannot be requested again, and the job lives at the server: so
 * a connection whose switch is silent moves to the server itself, under the same nonce, as it moves
 * to another route of a plan.  It returns when the switch answers an ECHO.
 *
 * ECHO also tells whether a switch that brings nothing for half of alive_ms is there: an aggregator
 * behind it may have died.  The sentence about the end blames it only if it does not answer.  The
 * same holds for one that does not answer a JOIN: it may have another key. */
#ifndef FAN_LIB_LINK_FAILOVER_H
#define FAN_LIB_LINK_FAILOVER_H

#include "net/echo.h"
#include "net/udp.h"

#define FAN_FAILOVER_JOIN_MS 500 /* without a WELCOME, until the switch is asked */

struct fan_connection;

struct fan_failover {
	struct fan_echo_asker echo; /* of the switch */
	bool answered;		    /* by the switch, since something else came */
	bool at_server;
	struct fan_udp aside; /* at the server: the socket to the switch; fd -1: none */
	uint64_t stay_ns;     /* it does not return before */
	uint64_t heard_ns;    /* last packet on this path, or when it was taken */
	uint64_t look_ns; /* time of the next choice at the latest; later: this rank has slept */
	uint64_t moves;	  /* changes of path so far */
};

/* Something other than an answer to an ECHO has come. */
void fan_failover_came(struct fan_connection *cn, uint64_t now_ns);

/* Is datagram `pkt` an answer of the switch to an ECHO?  It is noted then. */
bool fan_failover_heard(struct fan_failover *f, const uint8_t *pkt, size_t len);

/* Ask the switch, if that is due.  Leave a path that is being stopped, or has been silent for three
 * heartbeats, and return to a switch that answers. */
void fan_failover_work(struct fan_connection *cn, uint64_t now_ns);

/* Time of the next work; UINT64_MAX: never. */
uint64_t fan_failover_deadline(const struct fan_connection *cn);

#endif
