/* SPDX-License-Identifier: Apache-2.0 */
/* ask.h - questions to switches and servers: QUERY by topic, which any switch answers. */
#ifndef FAN_CMD_ASK_H
#define FAN_CMD_ASK_H

#include <jansson.h>

#include "core/wire/ctlmsg.h"
#include "net/udp.h"

#define ASK_ADDRESS_BYTES 80

/* A conversation with one shard: one at a time in a process. */
struct ask_talk {
	struct fan_udp udp; /* to be closed */
	char at[ASK_ADDRESS_BYTES];
};

/* Begin one with shard `shard` of the switch at `at`.  0, or -errno. */
int ask_open(struct ask_talk *t, const fan_peer *at, unsigned shard);

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

/* Ask at most `tries` times.  False: no answer. */
bool ask_times(struct ask_talk *t, const struct ask_question *w, unsigned tries);

/* Ask repeatedly until there is an answer, or it is `by_ns`.  0; or -1 and the cause in `why`,
 * ARGS_WHY_BYTES. */
int ask_until(struct ask_talk *t, const struct ask_question *w, uint64_t by_ns, char *why);

/* Ask one shard how far the ranks of its job number `index` have come, where they run ahead, and
 * who keeps sums for whom; append each rank to `ranks`.  Nothing is appended of a job whose ranks
 * go in step, nor if there is no answer.  Returns how many jobs the switch has seen; 0: none, or no
 * answer. */
unsigned rank_stats_ask(struct ask_talk *t, unsigned index, unsigned shard, json_t *ranks);

#endif
