/* SPDX-License-Identifier: Apache-2.0 */
/* echo.h - ask switches and aggregators by ECHO (doc/protocol/stats.md, section 5) whether they are
 * there.
 *
 * The questions of one asker to one peer have successive nonces, from a random one on, so only
 * who sees them can answer.  Lost questions are not repeated: a later one is as good, and late
 * answers count. */
#ifndef FAN_ECHO_H
#define FAN_ECHO_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/wire/ctlmsg.h"

#define FAN_ECHO_MS	   250 /* between two questions */
#define FAN_ECHO_TRIES	   6   /* unanswered: the peer is silent; ARP asks again after 1 s */
#define FAN_ECHO_PEERS_MAX 64  /* asked at once by fan_echo_all */
#define FAN_ECHO_BYTES	   (FAN_HEAD_BYTES + FAN_ECHO_MIN) /* shortest question */

struct fan_udp;

/* All zero: nothing has been asked, and nothing is due. */
struct fan_echo_asker {
	uint64_t nonce;	 /* of the first question */
	uint64_t asked;	 /* questions so far */
	uint64_t due_ns; /* time of the next one; 0: none is due */
};

/* Add the next question, with `body`, which must last until `out` is sent. */
void fan_echo_put_question(struct fan_echo_asker *a, struct fan_out *out, const fan_peer *to,
			   const uint8_t *body, size_t bytes);

/* Send a question of `bytes` with its header to `to`; NULL: to whom `udp` is connected.  The next
 * one is due FAN_ECHO_MS later. */
void fan_echo_ask(struct fan_echo_asker *a, struct fan_udp *udp, const fan_peer *to, size_t bytes,
		  uint64_t now_ns);

/* Which question, from 0 on, does datagram `pkt` answer?  -1: none.  `who`: its fields; may be
 * NULL. */
int64_t fan_echo_heard(const struct fan_echo_asker *a, const uint8_t *pkt, size_t len,
		       struct fan_echoed *who);

/* The time of the next question; UINT64_MAX: none is due. */
static inline uint64_t fan_echo_due(const struct fan_echo_asker *a)
{
	return a->due_ns ? a->due_ns : UINT64_MAX;
}

/* Read what has come to `udp`, which nothing else reads.  True: an answer is among it. */
bool fan_echo_receive(const struct fan_echo_asker *a, struct fan_udp *udp);

/* Ask `count` peers, and note in `answers` which have answered; those without a port do not.
 * Blocks until all have, for at most FAN_ECHO_TRIES * FAN_ECHO_MS. */
void fan_echo_all(const fan_peer *at, unsigned count, bool *answers);

#endif
