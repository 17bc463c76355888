/* SPDX-License-Identifier: Apache-2.0 */
/* progress.h - how far the ranks of a job have come, and telling them.
 *
 * In a job whose ranks may run ahead of each other, results do not say whether what a rank
 * has sent has arrived: they wait for the slowest.  So a rank asks, with a DATA now and
 * then, and the nearest switch answers with PROGRESS: your part of this fragment has come, so
 * far behind it is the slowest rank, and so far before it the furthest.  PROGRESS is a bare
 * header.  Where the part, or a sum that it drove out of a slot, went on from that switch,
 * the question goes after it, and who gets it answers.  doc/protocol/run-ahead.md. */
#ifndef FAN_WIRE_PROGRESS_H
#define FAN_WIRE_PROGRESS_H

#include <assert.h>

#include "ctlmsg.h"

struct fan_progress {
	uint64_t next[FAN_RANKS_MAX]; /* by rank: behind the highest fragment it has sent */
	uint64_t front;		      /* the highest of them */
	uint16_t most[FAN_RANKS_MAX]; /* the furthest that each has been behind; at most 65535 */
};

/* How far a rank is behind the furthest; at most 65535. */
static inline uint16_t fan_progress_behind(const struct fan_progress *p, uint16_t rank)
{
	assert(p->next[rank] <= p->front);
	uint64_t behind = p->front - p->next[rank];
	return behind > UINT16_MAX ? UINT16_MAX : (uint16_t)behind;
}

/* A part of `frag` has come from `rank`; there is none behind the last number. */
static inline void fan_progress_note(struct fan_progress *p, uint16_t rank, uint64_t frag)
{
	if (frag < p->next[rank] || frag == UINT64_MAX)
		return;
	uint16_t behind = fan_progress_behind(p, rank);
	if (p->next[rank] && behind > p->most[rank]) /* else it is heard of for the first time */
		p->most[rank] = behind;
	p->next[rank] = frag + 1;
	if (p->front <= frag)
		p->front = frag + 1;
}

/* How a rank stands, as far as this tells. */
void fan_progress_standing(const struct fan_progress *p, uint16_t rank, struct fan_standing *s);

/* The lowest of the first `ranks`. */
uint64_t fan_progress_slowest(const struct fan_progress *p, uint16_t ranks);

/* The answer to the DATA or PROBE `asked` of a job of `ranks`. */
struct fan_frag fan_progress_answer(const struct fan_progress *p, uint16_t ranks,
				    const struct fan_frag *asked);

/* The question of rank `rank` about `asked`, a DATA, that goes after what went on. */
struct fan_frag fan_progress_question(const struct fan_frag *asked, uint16_t rank);

/* What the answer `f` says of the slowest: fragments from this one on it has not sent, as
 * far as is known. */
uint64_t fan_progress_heard(const struct fan_frag *f);

#endif
