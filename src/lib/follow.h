/* SPDX-License-Identifier: Apache-2.0 */
/* follow.h - a communicator that follows a controller's plan.
 *
 * Before it joins it asks for the parts of its job, and opens connections by them.  From then on
 * it does what the controller says: it moves a part to another route, or ends since a server is
 * lost.  Without its controller it goes on with what it has, and looks for it.
 *
 * All of it is the progress thread's. */
#ifndef FAN_LIB_FOLLOW_H
#define FAN_LIB_FOLLOW_H

#include "net/dial.h"
#include "told.h"

#define FAN_FOLLOW_AGAIN_MS 250 /* between JOINs that were refused for what may pass */

struct fanin_comm;
struct fan_connection;
struct fan_fault;

struct fan_follow {
	bool on;		    /* there is a controller */
	bool news;		    /* its socket has reported */
	bool told;		    /* it has told the parts */
	bool moving[FAN_PARTS_MAX]; /* and it waits to hear that the aggregator knows the route */
	unsigned movings;
	uint64_t behind_ns; /* when connections that are not where they should be try it;
			     * UINT64_MAX: none
			     */
	struct fan_dial dial;
	struct fan_told order; /* the last one */
};

void fan_follow_init(struct fanin_comm *c);
void fan_follow_free(struct fanin_comm *c);

/* Hear the controller, do what it says and answer.  May end the communicator. */
void fan_follow_work(struct fanin_comm *c, uint64_t now_ns);
uint64_t fan_follow_deadline(const struct fanin_comm *c);

/* Connection `cn` was refused while its job forms.  True: that may pass, as when a switch has begun
 * anew or an earlier life of the job is not over, and it will be tried again. */
bool fan_follow_forgives(struct fanin_comm *c, struct fan_connection *cn, uint64_t now_ns);

/* What it waits for, into `text`, `bytes` bytes. */
void fan_follow_text(const struct fanin_comm *c, char *text, size_t bytes);

#endif
