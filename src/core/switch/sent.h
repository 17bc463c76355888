/* SPDX-License-Identifier: Apache-2.0 */
/* sent.h - what a switch has sent up of a job, by number, so that what is lost above it shows at
 * once and comes again.
 *
 * The next hop follows the numbers, and asks by MISS.  A sum is sent again while its slot has it.
 * What passed as it came is asked for below: a worker gets NEED, a switch MISS by its own number.
 * PROBEs have timers. */
#ifndef FAN_SWITCH_SENT_H
#define FAN_SWITCH_SENT_H

#include "core/base/out.h"
#include "core/base/verdict.h"
#include "core/sum/contribution.h"

enum fan_sent_kind {
	FAN_SENT_OTHER, /* is not sent again */
	FAN_SENT_SUM,	/* of slot number `what` */
	FAN_SENT_DATA,	/* of rank `what`, a worker here */
	FAN_SENT_BELOW, /* passed as it came from the switch below that has rank `what` */
};

struct fan_sent {
	unsigned frag : 28; /* low bits */
	unsigned kind : 2;  /* enum fan_sent_kind */
	unsigned tries : 2; /* times that it was sent again before, up to FAN_MISS_RESENDS */
	uint16_t what;
	uint16_t below; /* the number that it had when it came */
};
_Static_assert(FAN_SLOTS_MAX <= UINT16_MAX + 1 && FAN_MISS_RESENDS <= 3, "fields of fan_sent");

struct fan_sent_log {
	const struct fan_switch_job *job; /* NULL: the log is free */
	fan_peer next;			  /* where it all went */
	uint64_t front;			  /* the highest fragment */
	uint16_t last;			  /* number that was given last */
	uint16_t count;			  /* entries that are filled */
	uint16_t credit;		  /* FAN_SENT_COST of it let one be sent again */
	struct fan_sent at[FAN_SENT_MAX]; /* by number */
};

struct fan_switch;
struct fan_switch_job;

/* Fragment `frag` leaves for the next hop `next` as `s` says.  Its number; 0, if there is no log.
 */
uint16_t fan_sent_note(struct fan_switch *sw, struct fan_switch_job *j, const fan_peer *next,
		       uint64_t frag, struct fan_sent s);

/* The entry of `f`, a DATA, PARTIAL or PROBE that passes as it came. */
struct fan_sent fan_sent_passing(const struct fan_switch *sw, const struct fan_switch_job *j,
				 const struct fan_frag *f);

/* The job is over: its logs are free. */
void fan_sent_end(struct fan_switch *sw, struct fan_switch_job *j);

/* The MISS `f` has come from `from`, above. */
enum fan_verdict fan_sent_missed(struct fan_switch *sw, struct fan_switch_job *j,
				 const fan_peer *from, const struct fan_frag *f,
				 struct fan_out *out);

#endif
