/* SPDX-License-Identifier: Apache-2.0 */
/* neighbours.h - liveness of the links between a daemon and its neighbours in the topology.
 *
 * A link may fail while both ends still reach the controller by another network.  So at each turn
 * a daemon sends an ECHO (doc/protocol/stats.md, section 5) to each neighbour, which the
 * controller names, and counts turns without an answer. */
#ifndef FAN_NEIGHBOURS_H
#define FAN_NEIGHBOURS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/base/limits.h"
#include "core/base/out.h"
#include "echo.h"

#define FAN_NEIGHBOURS_MAX 256 /* of a daemon; further ones are ignored */
#define FAN_NEIGHBOUR_DOWN 4   /* turns without an answer until a neighbour is silent */
#define FAN_NEIGHBOUR_UP   4   /* turns with an answer until it is no longer silent */

struct fan_neighbour {
	char name[FAN_NAME_MAX + 1]; /* in the topology */
	fan_peer at;
};

struct fan_neighbours {
	uint32_t number; /* of the list, by the controller; 0: none, or that controller is gone */
	unsigned count;
	uint32_t turn;
	uint64_t due_ns; /* time of the next turn */
	struct fan_arrival {
		struct fan_neighbour who;
		struct fan_echo_asker echo;
		bool answered;	      /* since the last turn */
		bool silent, changed; /* state and change in the last turn */
		unsigned run;	      /* turns in a row that contradict `silent` */
		unsigned interface; /* index of the one towards it; 0: not known; for the caller */
	} of[FAN_NEIGHBOURS_MAX], next[FAN_NEIGHBOURS_MAX]; /* next: scratch of _set */
};

/* Replace the list.  A neighbour that was in the old list at the same address keeps its state; the
 * others begin as not silent.  `count` <= FAN_NEIGHBOURS_MAX. */
void fan_neighbours_set(struct fan_neighbours *n, uint32_t number, const struct fan_neighbour *of,
			unsigned count, uint64_t now_ns);

/* Begin a turn: update the neighbours' states by the answers since the last one.  True: a state has
 * changed.  Call fan_neighbours_ask for all neighbours afterwards. */
bool fan_neighbours_turn(struct fan_neighbours *n, uint64_t now_ns);

/* Write the ECHO of this turn to neighbour `i` into `out`, if that has room. */
void fan_neighbours_ask(struct fan_neighbours *n, unsigned i, struct fan_out *out);

/* Handle a datagram.  True: it answers one of the last ECHOs to one of the neighbours. */
bool fan_neighbours_take(struct fan_neighbours *n, const fan_peer *from, const uint8_t *p,
			 size_t bytes);

#endif
