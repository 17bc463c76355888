/* SPDX-License-Identifier: Apache-2.0 */
/* neighbours.h - does a daemon hear the daemons beside it in the topology?
 *
 * A link may fail without its ends: both still talk to the controller, by another network, and
 * packets between them vanish.  So each daemon asks its neighbours, which the controller names to
 * it, by an ECHO (doc/protocol/base.md, section 4.7) at each turn, and counts turns without an
 * answer. Pure: time and datagrams in, datagrams out. */
#ifndef FAN_NEIGHBOURS_H
#define FAN_NEIGHBOURS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/base/limits.h"
#include "core/base/out.h"

#define FAN_NEIGHBOURS_MAX 256 /* of a daemon; further ones are not asked */
#define FAN_NEIGHBOUR_MS   250 /* between two turns */
#define FAN_NEIGHBOUR_DOWN 4   /* turns in a row without an answer: silent */
#define FAN_NEIGHBOUR_UP   4   /* turns in a row with one: not any more */

struct fan_neighbour {
	char name[FAN_NAME_MAX + 1]; /* in the topology */
	fan_peer at;
};

struct fan_neighbours {
	uint32_t number; /* of the list, as the controller counts; 0: there is none */
	unsigned count;
	uint32_t turn;
	uint64_t due_ns; /* the next turn */
	struct fan_heard {
		struct fan_neighbour who;
		uint64_t asked[FAN_NEIGHBOUR_DOWN]; /* by turn: what the answer must bear */
		uint32_t asks;			    /* so far: entries of `asked` that count */
		bool answered;			    /* since the last turn */
		bool silent, changed;		    /* in the last turn */
		unsigned run;			    /* turns in a row that speak against `silent` */
	} of[FAN_NEIGHBOURS_MAX], next[FAN_NEIGHBOURS_MAX]; /* next: while the list changes */
};

/* From now on these.  Who was in the list before, at the same address, stays as it is; others are
 * believed to be heard.  `count` <= FAN_NEIGHBOURS_MAX. */
void fan_neighbours_set(struct fan_neighbours *n, uint32_t number, const struct fan_neighbour *of,
			unsigned count, uint64_t now_ns);

/* No list: whoever says what is silent now would say it of no list that anybody knows. */
void fan_neighbours_unlist(struct fan_neighbours *n);

/* The time of a turn has come: judge what was heard since the last one.  True: somebody's
 * silence has begun or ended.  Then everybody is to be asked. */
bool fan_neighbours_turn(struct fan_neighbours *n, uint64_t now_ns);

/* Ask neighbour `i` in this turn: a datagram in `out`, if that has room.  Its answer will bear
 * `nonce`, which nobody can guess. */
void fan_neighbours_ask(struct fan_neighbours *n, unsigned i, uint64_t nonce, struct fan_out *out);

/* A datagram has come.  True: it is an answer of one of them to one of the last questions. */
bool fan_neighbours_take(struct fan_neighbours *n, const fan_peer *from, const uint8_t *p,
			 size_t bytes);

#endif
