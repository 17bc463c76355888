/* SPDX-License-Identifier: Apache-2.0 */
/* ask.h - asks a switch: QUERY by topic, which any switch answers. */
#ifndef FAN_CMD_ASK_H
#define FAN_CMD_ASK_H

#include "core/wire/ctlmsg.h"
#include "net/udp.h"

#define ASK_ADDRESS_BYTES 80

/* A conversation with one shard. */
struct ask_talk {
	struct fan_udp udp;
	uint8_t *buffer; /* FAN_UDP_RECV_BYTES */
	char *why;	 /* ARGS_WHY_BYTES */
	char at[ASK_ADDRESS_BYTES];
};

/* A question, and where its answer goes: one of the four. */
struct ask_question {
	enum fan_topic topic;
	uint16_t index, first;
	struct fan_report *job;		  /* of QUERY */
	struct fan_slot_stats *slots;	  /* topic SLOTS */
	struct fan_rank_stats *ranks;	  /* topic RANKS, which has `first` */
	struct fan_helper_stats *helpers; /* topic HELPERS, which has it, too */
};

/* Ask once.  1: answered; 0: no answer in time; -1: ICMP reports that nothing listens. */
int ask_once(struct ask_talk *t, const struct ask_question *w);

/* Ask repeatedly until there is an answer.  0; or -1 and the cause in why. */
int ask_until(struct ask_talk *t, const struct ask_question *w);

#endif
