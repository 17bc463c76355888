/* SPDX-License-Identifier: Apache-2.0 */
/* top_live.h - `fanin top` on a terminal: jobs with rates, drawn anew each second, and keys. */
#ifndef FAN_CMD_TOP_LIVE_H
#define FAN_CMD_TOP_LIVE_H

#include <jansson.h>
#include <stdio.h>

#include "cmd/metrics/metrics_jobs.h"

#define TOP_LIVE_ROWS_MAX 256 /* jobs, over all shards; the rest is counted */

/* On the head line of a switch that takes who asks for a stranger: it is on no host of the job. */
#define TOP_LIVE_STRANGER                                                                          \
	"   (as a stranger sees it: counts in steps of 1024, not which fragment is oldest)"

struct top_live;

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

#endif
