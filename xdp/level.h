/* SPDX-License-Identifier: Apache-2.0 */
/* level.h - how many of its frames a queue lets the kernel have.
 *
 * The kernel fills frames in the order in which it was given them.  If it has all of them, each
 * frame has left the caches when its turn comes.  So it has a few times as many as have waited to
 * be received at a time; but all of them at once where more wait than that allows for, so that a
 * burst finds them, and all at the beginning. */
#ifndef FAN_XDP_LEVEL_H
#define FAN_XDP_LEVEL_H

#include <stdint.h>

#define XDP_LEVEL_ALL	4096
#define XDP_LEVEL_LEAST 512
#define XDP_LEVEL_ROOM	4    /* frames by the most that waited */
#define XDP_LEVEL_LOOKS 1024 /* receives in which that most is looked for */

struct xdp_level {
	uint32_t frames; /* that the kernel is to have, XDP_LEVEL_LEAST to XDP_LEVEL_ALL */
	uint32_t most;	 /* that waited, in the last `looks` receives */
	uint32_t looks;
};

static inline void xdp_level_init(struct xdp_level *l)
{
	*l = (struct xdp_level){.frames = XDP_LEVEL_ALL};
}

/* `waiting` frames are there to be received, at most XDP_LEVEL_ALL. */
static inline void xdp_level_look(struct xdp_level *l, uint32_t waiting)
{
	if (waiting > l->most)
		l->most = waiting;
	uint32_t enough = l->most * XDP_LEVEL_ROOM;
	if (enough > l->frames)
		l->frames = XDP_LEVEL_ALL;
	if (++l->looks < XDP_LEVEL_LOOKS)
		return;
	l->frames = enough < XDP_LEVEL_LEAST ? XDP_LEVEL_LEAST
		    : enough > XDP_LEVEL_ALL ? XDP_LEVEL_ALL
					     : enough;
	l->most = l->looks = 0;
}

#endif
