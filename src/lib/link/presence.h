/* SPDX-License-Identifier: Apache-2.0 */
/* presence.h - is a switch there that brings nothing?
 *
 * Behind a switch an aggregator may have died, and silence alone does not tell which of the two
 * has. A switch answers ECHOs itself.  So one whose connection has been silent for half of alive_ms
 * is asked, again and again, and the sentence about the end blames it only if it has not answered.
 * So is one that does not answer a JOIN: silence then tells of another key, or of what it sends
 * sums on to. */
#ifndef FAN_LIB_LINK_PRESENCE_H
#define FAN_LIB_LINK_PRESENCE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define FAN_PRESENCE_AFTER   2	 /* a switch that is silent for 1 / AFTER of alive_ms is asked */
#define FAN_PRESENCE_AGAIN   16	 /* 1 / AGAIN of alive_ms passes between questions */
#define FAN_PRESENCE_JOIN_MS 500 /* without a WELCOME before the first, and between questions */

struct fan_connection;

/* Of one connection.  All zero: nothing has come, nothing is asked. */
struct fan_presence {
	uint64_t next_ns; /* of the next question; 0: none */
	uint64_t nonce;	  /* of the questions since something came */
	bool answered;	  /* one of them */
};

/* Something else than an answer has come: who sent it is there, and so is the switch. */
void fan_presence_came(struct fan_connection *cn, uint64_t now_ns);

/* Is datagram `pkt` an answer to a question, and nothing else?  It is heeded then. */
bool fan_presence_heard(struct fan_presence *p, const uint8_t *pkt, size_t len);

/* Ask, if it is due. */
void fan_presence_turn(struct fan_connection *cn, uint64_t now_ns);

/* When it is due next; UINT64_MAX: never. */
uint64_t fan_presence_deadline(const struct fan_connection *cn);

#endif
