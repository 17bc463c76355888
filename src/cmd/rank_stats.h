/* SPDX-License-Identifier: Apache-2.0 */
/* rank_stats.h - asks a switch how far the ranks of a job have come, where they run ahead, and who
 * keeps sums for whom; prints it as a table and as JSON. */
#ifndef FAN_CMD_RANK_STATS_H
#define FAN_CMD_RANK_STATS_H

#include <jansson.h>
#include <stdio.h>

#include "ask.h"

/* Ask one shard about all ranks of its job number `index`, and about pairs of them, and
 * append each to `ranks`; print them to `f` as well, unless it is NULL, under a head unless
 * `*begun`.  Nothing is appended of a job whose ranks go in step, nor if there is no answer.
 * Returns how many jobs the switch has seen; 0: none, or no answer. */
unsigned rank_stats_ask(struct ask_talk *t, unsigned index, unsigned shard, json_t *ranks, FILE *f,
			bool *begun);

#endif
