/* SPDX-License-Identifier: Apache-2.0 */
/* doctor_group.h - several doctors, one for each rank of a job, who meet as its ranks would.
 *
 * Each does the same steps; what one measures, all learn by an all-reduce. */
#ifndef FAN_CMD_DOCTOR_DOCTOR_GROUP_H
#define FAN_CMD_DOCTOR_DOCTOR_GROUP_H

#include "lib/comm/meeting.h"

struct doctor;

struct doctor_group {
	bool wanted; /* the environment names a rank and how many there are */
	bool met;    /* all of them; until one is lost */
	bool first;  /* this is the first rank of its host */
	unsigned host;
	struct fan_meeting meeting;
	struct fanin_comm *comm; /* NULL: there is none */
	struct fan_embedded_switch *sw;
};

/* Are there other ranks?  By the configuration and the options. */
void doctor_group_init(struct doctor *d);

/* Wait for the other ranks.  One finding, or none if there are none. */
void doctor_group_meet(struct doctor *d);

/* Everybody's words, in place: each adds its own.  False: a rank is lost, which is a finding. */
bool doctor_group_add(struct doctor *d, int32_t *words, unsigned count);

/* Wait for all, and part. */
void doctor_group_leave(struct doctor *d);

#endif
