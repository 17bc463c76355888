/* SPDX-License-Identifier: Apache-2.0 */
/* progress.h - how far the ranks of a job have come, and the message PROGRESS.
 *
 * With run-ahead, results do not show whether a contribution has arrived: they wait for the
 * slowest rank.  So a rank sets ASK in a DATA now and then, and the nearest switch answers with
 * PROGRESS, a bare header: the contribution has arrived, the slowest rank is so far behind it,
 * and the furthest so far before it.  Where the contribution, or a sum that it evicted, went on
 * from that switch, the request follows it, and its receiver answers.
 * doc/protocol/run-ahead.md. */
#ifndef FAN_WIRE_PROGRESS_H
#define FAN_WIRE_PROGRESS_H

#include <assert.h>

#include "ctlmsg.h"

struct fan_progress {
	uint64_t next[FAN_RANKS_MAX]; /* by rank: highest fragment received from it, + 1 */
	uint64_t front;		      /* the largest of `next` */
	uint16_t most[FAN_RANKS_MAX]; /* by rank: largest lag, at most 65535 */
};

/* The lag of a rank, at most 65535. */
static inline uint16_t fan_progress_behind(const struct fan_progress *p, uint16_t rank)
{
	assert(p->next[rank] <= p->front);
	uint64_t behind = p->front - p->next[rank];
	return behind > UINT16_MAX ? UINT16_MAX : (uint16_t)behind;
}

static inline bool fan_progress_straggles(const struct fan_progress *p, unsigned rank)
{
	return p->next[rank] + FAN_LAG_FRAGS <= p->front;
}

/* A contribution of `rank` to `frag` has come; UINT64_MAX is ignored. */
static inline void fan_progress_note(struct fan_progress *p, uint16_t rank, uint64_t frag)
{
	if (frag < p->next[rank] || frag == UINT64_MAX)
		return;
	uint16_t behind = fan_progress_behind(p, rank);
	if (p->next[rank] && behind > p->most[rank]) /* not on its first contribution */
		p->most[rank] = behind;
	p->next[rank] = frag + 1;
	if (p->front <= frag)
		p->front = frag + 1;
}

/* Fill in lag and straggler of a rank's statistics. */
void fan_progress_standing(const struct fan_progress *p, uint16_t rank, struct fan_standing *s);

/* The PROGRESS that answers the DATA or PROBE `asked` of a job of `ranks`. */
struct fan_frag fan_progress_answer(const struct fan_progress *p, uint16_t ranks,
				    const struct fan_frag *asked);

/* The request of rank `rank` about the DATA `asked`, to follow a contribution that went on. */
struct fan_frag fan_progress_question(const struct fan_frag *asked, uint16_t rank);

#endif
