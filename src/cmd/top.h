/* SPDX-License-Identifier: Apache-2.0 */
/* top.h - the parts of `fanin top`. */
#ifndef FAN_CMD_TOP_H
#define FAN_CMD_TOP_H

#include <jansson.h>
#include <stdbool.h>
#include <stdio.h>
#include <sys/ioctl.h>

#include "cmd/metrics/metrics_jobs.h"
#include "core/wire/ctlmsg.h"

/* ---- on a terminal: jobs with rates, drawn anew each second, and keys ---- */

#define TOP_LIVE_ROWS_MAX 256 /* jobs, over all shards; the rest is counted */

/* On the head line of a switch that takes who asks for a stranger: it is on no host of the job. */
#define TOP_LIVE_STRANGER                                                                          \
	"   (as a stranger sees it: counts in steps of 1024, not which fragment is oldest, but its age)"

struct top_live;

/* Since when the job's fragments are open without a result, in `text`: "12 s"; "-": none is, or it
 * is not told.  Returns `text`. */
#define TOP_LIVE_AGE_BYTES 24
const char *top_live_age(const struct fan_report *r, char *text);

/* A report to a stranger; false also where it cannot be known, since no fragment is open. */
bool top_live_sees_less(const struct fan_report *r);

enum top_live_key { TOP_LIVE_TIME, TOP_LIVE_AGAIN, TOP_LIVE_QUIT };

/* Take over the terminal of standard input and output.  `where` is named on the first line.  NULL:
 * it is no terminal, or there is no memory. */
struct top_live *top_live_open(const char *where);

/* Restore the terminal.  NULL is allowed. */
void top_live_close(struct top_live *l);

/* Take what has been asked at `now_ns`: `jobs`, which are given up, and `ranks`, of
 * rank_stats_ask().
 */
void top_live_take(struct top_live *l, uint64_t now_ns, struct metrics_jobs *jobs,
		   const json_t *ranks);

/* The size of the terminal; 24 lines of 80 columns if it is not known. */
struct winsize top_live_size(void);

/* Draw it. */
void top_live_draw(struct top_live *l);

/* Wait for a key until `by_ns` and act on it.  AGAIN: draw. */
enum top_live_key top_live_wait(struct top_live *l, uint64_t by_ns);

/* Write what top_live_draw draws to `f`, for a screen of `lines` and `columns`. */
void top_live_print(const struct top_live *l, FILE *f, unsigned lines, unsigned columns);

/* Act on the key `c`. */
enum top_live_key top_live_heed(struct top_live *l, int c);

/* As top_live_open, without a terminal: for tests. */
struct top_live *top_live_new(const char *where);

/* ---- --controller: nodes, jobs, and the trees that sum them ---- */

struct top_tree_args {
	const char *path; /* of the controller's Unix socket */
	const char *json; /* FILE for its status, - for the standard output; empty: none */
	int interval_s;
	bool once;
};

/* Print until ended, or once.  Returns the exit status. */
int top_tree(const struct top_tree_args *a);

/* ---- the share of a job that each of several aggregators has ----
 *
 * Ranks that use several aggregators give each a part of every tensor, as a job of its own: the
 * first has the job's name, part K the name with "/K" behind it.  No aggregator knows how large its
 * part is, but each counts the fragments that it has finished: its share is its own count since the
 * last question, divided by all counts.  Fragments of one job have one size, but for the last of an
 * operation. */

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
