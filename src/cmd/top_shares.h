/* SPDX-License-Identifier: Apache-2.0 */
/* top_shares.h - computes the share of a job that each of several aggregators has.
 *
 * Ranks that use several aggregators give each a part of every tensor, as a job of its own: the
 * first has the job's name, part K the name with "/K" behind it.  No aggregator knows how large its
 * part is, but each counts the fragments that it has finished: its share is its own count since the
 * last question, divided by all counts.  Fragments of one job have one size, but for the last of an
 * operation. */
#ifndef FAN_CMD_TOP_SHARES_H
#define FAN_CMD_TOP_SHARES_H

#include <jansson.h>
#include <stdio.h>

#include "core/wire/ctlmsg.h"

#define TOP_SWITCHES_MAX 32
#define TOP_SHARES_JOBS	 1024 /* parts; further ones are ignored */

struct top_shares {
	unsigned jobs;
	struct top_shares_job {
		char name[FAN_NAME_MAX + 1];
		unsigned ranks;
		uint64_t before[TOP_SWITCHES_MAX], now[TOP_SWITCHES_MAX];
	} * job;
};

/* Begin a round of questions: the last answers become the earlier ones. */
void top_shares_begin(struct top_shares *s);

/* Add the answer of a shard of aggregator `at` about a job. */
void top_shares_add(struct top_shares *s, unsigned at, const struct fan_report *r);

/* A line for each job of which `count` aggregators have finished something since the last time, or
 * since it began: its name, and each one's address with its share. */
void top_shares_print(const struct top_shares *s, const fan_peer *at, unsigned count);

/* These lines as an array of {"name", "shares": [{"switch", "share"}]}. */
json_t *top_shares_json(const struct top_shares *s, const fan_peer *at, unsigned count);

void top_shares_free(struct top_shares *s);

#endif
