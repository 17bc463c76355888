/* SPDX-License-Identifier: Apache-2.0 */
/* doctor_group.h - the doctors of all ranks of a job, which meet as its ranks do.
 *
 * All take the same steps; what one measures, all learn by an all-reduce. */
#ifndef FAN_CMD_DOCTOR_DOCTOR_GROUP_H
#define FAN_CMD_DOCTOR_DOCTOR_GROUP_H

#include "lib/comm/meeting.h"

struct doctor;

struct doctor_group {
	bool wanted; /* the environment has this rank and the number of ranks */
	bool met;    /* all ranks have met, and none is lost */
	bool first;  /* this is the first rank of its host */
	unsigned host;
	struct fan_meeting meeting;
	struct fanin_comm *comm; /* NULL: none */
	struct fan_embedded_switch *sw;
};

/* Do the configuration and the options say that there are other ranks? */
void doctor_group_init(struct doctor *d);

/* Wait for the other ranks.  Adds one finding, or none if there are no others. */
void doctor_group_meet(struct doctor *d);

/* All-reduce the words in place, by sum.  False: a rank is lost, which is a finding. */
bool doctor_group_add(struct doctor *d, int32_t *words, unsigned count);

/* Wait for all ranks, then leave. */
void doctor_group_leave(struct doctor *d);

#endif
