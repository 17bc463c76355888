/* SPDX-License-Identifier: Apache-2.0 */
#include "wait.h"

#include <sched.h>

#include "net/clock.h"

#define YIELDS	 100	      /* of the core, in vain, before sleep */
#define FAST_NS	 500	      /* a yield that took less went to nobody */
#define SLOW_NS	 (2 * FAN_MS) /* one that took more went to work that is not ours */
#define SLEEPS	 8    /* waits without yields, after fast or slow ones; next time twice as many, */
#define FAST_MAX 64   /* up to these, */
#define SLOW_MAX 1024 /* or these after a slow one */

static void give_up_yields(struct fan_host_wait *w, unsigned most)
{
	unsigned twice = 2 * w->sleeps_next;
	w->sleeps_next = twice < SLEEPS ? SLEEPS : twice > most ? most : twice;
	w->sleeps = w->sleeps_next;
}

/* Let the other ranks of this core run until the bell has rung: that takes less time than to fall
 * asleep and to be woken.  False: it has not.  A thread that computes keeps the core for its whole
 * time slice, and where each rank is a group to the scheduler (a session, a container), a yield
 * goes to nobody else.  Then the next waits do without. */
static bool yield_until(struct fan_host_wait *w, const struct fan_host_board *l, uint32_t heard)
{
	uint64_t begin_ns = fan_clock_ns(), last_ns = begin_ns;
	for (int n = 0; n < YIELDS; n++) {
		sched_yield();
		uint64_t now_ns = fan_clock_ns();
		if (now_ns > last_ns + SLOW_NS) {
			give_up_yields(w, SLOW_MAX);
			return false;
		}
		last_ns = now_ns;
		if (fan_host_heard(l, FAN_HOST_WORK) != heard) {
			w->sleeps_next /= 2;
			return true;
		}
	}
	if (last_ns < begin_ns + (uint64_t)YIELDS * FAST_NS)
		give_up_yields(w, FAST_MAX);
	return false;
}

void fan_host_wait(struct fan_host_wait *w, struct fan_host_board *l, uint32_t heard, int ms)
{
	if (fan_host_heard(l, FAN_HOST_WORK) != heard)
		return;
	if (w->sleeps)
		w->sleeps--;
	else if (yield_until(w, l, heard))
		return;
	fan_host_sleep(l, FAN_HOST_WORK, heard, ms);
}

int fan_host_wait_ms(int look_ms, uint64_t now_ns, uint64_t until_ns)
{
	return until_ns - now_ns < (uint64_t)look_ms * FAN_MS
		       ? (int)((until_ns - now_ns + FAN_MS - 1) / FAN_MS)
		       : look_ms;
}
