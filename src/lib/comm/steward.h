/* SPDX-License-Identifier: Apache-2.0 */
/* steward.h - a process that goes on with the embedded switch of a rank's process when that has
 * ended.
 *
 * A rank's process may end right after its last operation, by any means, _exit included, while
 * other ranks still lack the result: it was lost on the path, or has not been sent.  The switch
 * keeps results until all ranks have moved on; so it must not end with the rank.
 *
 * While the rank's process lives, the switch is on a thread there, as near to the rank as can be,
 * and the steward has what it needs to go on (net/estate.h).  For sealed jobs that would include
 * keys and counters, which are not in one place: there the steward runs the switch from the start.
 *
 * The process is this library's own file, run as a program by the dynamic loader that the rank's
 * process has: nothing else must be installed, and its version is the library's.  It is no child of
 * the rank's process, holds none of its files, and blocks all signals that can be.  It ends when it
 * is told to; or, when the rank's process has ended, once no rank of that process's jobs has been
 * heard for FAN_STEWARD_QUIET_MS, and after FAN_STEWARD_LINGER_MS in any case.
 *
 * The two talk by a socket, which is closed when the rank's process ends.  A child of fork() has no
 * part in it. */
#ifndef FAN_LIB_COMM_STEWARD_H
#define FAN_LIB_COMM_STEWARD_H

#include <fanin.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/aggregator/aggregator.h"
#include "lib/base/config.h"
#include "net/estate.h"

#define FAN_STEWARD_QUIET_MS	  2000 /* five times the longest pause between a rank's PROBEs */
#define FAN_STEWARD_ROOM_QUIET_MS 500  /* the quiet time where a new switch wants the port */
#define FAN_STEWARD_ROOM_MS	  4000 /* and how long it lingers at most; below FAN_EMBEDDED_BIND_MS */
#define FAN_STEWARD_LINGER_MS	  15000	  /* beyond the ranks' own alive_ms by default */
#define FAN_STEWARD_ANSWER_MS	  10000	  /* for its begin, and each of its answers */
#define FAN_STEWARD_BEGUN	  "begun" /* the text of its first answer */

enum fan_steward_wish { FAN_STEWARD_START, FAN_STEWARD_WATCH, FAN_STEWARD_STOP };

/* What it is asked: one datagram. */
struct fan_steward_question {
	enum fan_steward_wish wish;
	int linger_ms; /* STOP: as of fan_switch_stop */
	struct fan_drain of;
	/* START: as of struct fanin_switch_options. */
	int slots, threads, mtu, multicast;
	char listen[FAN_CONFIG_SWITCH_MAX + 1];
	char key_file[FAN_CONFIG_FILE_MAX + 1]; /* "": none */
	/* WATCH: what it goes on with, with the files; the port on which that listens. */
	struct fan_estate estate;
	unsigned port;
};

struct fan_steward_answer {
	char version[32];		 /* of the library */
	size_t bytes;			 /* of a question: one library understands the other */
	int error;			 /* START: enum fan_err */
	char text[FAN_CONFIG_WHY_BYTES]; /* START: the address; or, with an error, its sentence */
};

struct fan_steward;

/* Begin one.  NULL: it is not wanted (FANIN_STEWARD=0), or there can be none: this library is part
 * of a program, the process is the first of its container, with which all others end, it has rights
 * that its user lacks, or the system refuses. */
struct fan_steward *fan_steward_new(void);

/* Start a switch there, as fanin_switch_start; again after an error.  FAN_E_CLOSED: it does not
 * answer. */
int fan_steward_start(struct fan_steward *st, const struct fanin_switch_options *o, char *why,
		      size_t bytes);

/* Have it watch over a switch that this process runs (fan_switch_start, lasting), in place of one
 * that it runs itself: it goes on with that when this process has ended.  False: it cannot. */
bool fan_steward_watch(struct fan_steward *st, const fanin_switch *running);

/* As fanin_switch_address. */
const char *fan_steward_address(const struct fan_steward *st);

/* Stop the switch, as fan_switch_stop, and the steward.  NULL is allowed. */
void fan_steward_stop(struct fan_steward *st, const struct fan_drain *of, int linger_ms);

/* In a child of fork(): free it.  The parent's goes on. */
void fan_steward_abandon(struct fan_steward *st);

/* Tell the steward of a process of this user that has ended, if there is one on this host, that its
 * port `port` is wanted. */
void fan_steward_ask_for_room(unsigned port);

/* The name of the socket by which one is asked for room, for bind and sendto: its length.  */
struct sockaddr_un;
unsigned fan_steward_room_name(struct sockaddr_un *name, unsigned port);

/* Where the steward's process begins: steward_main.c.  The ELF entry of the library. */
void fan_steward_main(void);

#endif
