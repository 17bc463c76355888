/* SPDX-License-Identifier: Apache-2.0 */
/* congestion.h - the congestion window: how many fragments a worker keeps in flight.
 *
 * The window starts at what the switch granted, which fits the switch's own queue; queues on the
 * path may be shorter.  A control, an object of functions, makes it smaller and larger:
 *
 *   fanin   the default, congestion.c.  Once per window: if more than one in eight fragments was
 *           lost, the window is halved; otherwise it grows by a sixteenth.  Fewer losses are taken
 *           for line errors, which a smaller window does not cure: a window slot that waits for a
 *           lost fragment delays no other slot.  Where queues mark packets (ECN), the first marked
 *           result halves the window at once; further marks count only after a window of results.
 *           After the first mark it grows by one fragment a window, as in ATP.  Where switches drop
 *           what finds no slot, a collision halves the window, and each result makes it larger by a
 *           fragment, as in GRID.
 *   a2tp    A2TP, EuroSys'23: a window for links and one for shared slots.
 *
 * A new control is a new congestion_NAME.c and its line below; doc/extend.md has one. */
#ifndef FAN_RECOVERY_CONGESTION_H
#define FAN_RECOVERY_CONGESTION_H

#include <assert.h>
#include <stdbool.h>
#include <stdint.h>

#define FAN_CWND_MIN	     2u /* fragments: one in flight while the other's result arrives */
#define FAN_CONGESTION_ALL   UINT32_MAX /* no bound */
#define FAN_CONGESTION_LOST  UINT64_MAX /* in place of a round trip */
#define FAN_CONGESTION_WORDS 10

/* The controls beside the default: the object fan_congestion_NAME of congestion_NAME.c, which the
 * build finds by its line here. */
#define FAN_CONGESTION_CONTROLS(X)                                                                 \
	X(A2TP, a2tp)                                                                              \
	/* and so on: doc/extend.md */

enum fan_congestion_kind {
	FAN_CONGESTION_FANIN = 0,
#define FAN_X(NUMBER, name) FAN_CONGESTION_##NUMBER,
	FAN_CONGESTION_CONTROLS(FAN_X)
#undef FAN_X
		FAN_CONGESTION_COUNT
};

/* Their names, by number, for tables of words. */
#define FAN_CONGESTION_NAME_(NUMBER, name) , #name
#define FAN_CONGESTION_NAMES		   "fanin" FAN_CONGESTION_CONTROLS(FAN_CONGESTION_NAME_)

struct fan_congestion_control;

struct fan_congestion {
	const struct fan_congestion_control *control;
	uint32_t cwnd;	/* fragments allowed in flight: fan_congestion_set */
	uint32_t max;	/* upper bound of cwnd */
	uint32_t done;	/* fragments finished since the last adjustment */
	uint32_t lost;	/* fragments lost since the last adjustment */
	uint32_t slots; /* of those sent next, how many may take shared slots; or _ALL */
	bool marks;	/* marks have been seen */
	bool crowded;	/* losses have shrunk it, and it is below `max` since: queues overflow */
	uint64_t own[FAN_CONGESTION_WORDS]; /* the control's, 0 at first */
};

/* A control sets cwnd, slots and crowded, and `done` and `lost` to 0.  Functions may be NULL, but
 * for `ended`. */
struct fan_congestion_control {
	/* Start with a window of c->max fragments. */
	void (*init)(struct fan_congestion *c);

	/* A fragment has finished, `trip_ns` after it was sent, waits for other ranks included (0:
	 * it was sent more than once); or, FAN_CONGESTION_LOST, was lost.  It is counted. */
	void (*ended)(struct fan_congestion *c, uint64_t now_ns, uint64_t trip_ns);

	/* About the fragment that is done: a queue has marked it; a rank's contribution found its
	 * shared slot taken, and went on unaggregated. */
	void (*marked)(struct fan_congestion *c, uint64_t now_ns);
	void (*taken)(struct fan_congestion *c, uint64_t now_ns);

	/* A contribution was dropped for want of a slot; those of one window count once. */
	void (*collided)(struct fan_congestion *c, uint64_t now_ns);
};

/* Assert the invariants that hold between calls. */
static inline void fan_congestion_check(const struct fan_congestion *c)
{
	assert(c->cwnd <= c->max);
	assert(c->cwnd >= FAN_CWND_MIN || c->cwnd == c->max);
}

/* Start with `kind`, an enum fan_congestion_kind, and a window of `max` fragments. */
void fan_congestion_init(struct fan_congestion *c, unsigned kind, uint32_t max);

/* Allow `cwnd` fragments, or the least or most that can be. */
void fan_congestion_set(struct fan_congestion *c, uint64_t cwnd);

/* May the fragment that is sent next take a shared slot?  Else it goes past them. */
static inline bool fan_congestion_takes_slot(struct fan_congestion *c)
{
	return c->slots == FAN_CONGESTION_ALL || (c->slots && c->slots--);
}

static inline void fan_congestion_done(struct fan_congestion *c, uint64_t now_ns, uint64_t trip_ns)
{
	c->done++;
	c->control->ended(c, now_ns, trip_ns);
}

/* The other events.  A result is done or lost before it is marked or taken. */
void fan_congestion_lost(struct fan_congestion *c, uint64_t now_ns);
void fan_congestion_marked(struct fan_congestion *c, uint64_t now_ns);
void fan_congestion_taken(struct fan_congestion *c, uint64_t now_ns);
void fan_congestion_collided(struct fan_congestion *c, uint64_t now_ns);

#define FAN_X(NUMBER, name) extern const struct fan_congestion_control fan_congestion_##name;
FAN_CONGESTION_CONTROLS(FAN_X)
#undef FAN_X

#endif
