/* SPDX-License-Identifier: Apache-2.0 */
/* wait.c - the bells of a segment, waiting for them, and how it ends (segment.h). */
#include <assert.h>
#include <linux/futex.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "net/clock.h"
#include "segment.h"

#define YIELDS	 100	      /* of the core, in vain, before sleep */
#define WENT_MIN (YIELDS / 2) /* of these; if fewer went to another thread, yields do not help */
#define SLOW_NS	 (2 * FAN_MS) /* one that took more went to work that is not ours */
#define SLEEPS	 8    /* waits without yields, where those did not help; next time twice as many, */
#define FEW_MAX	 64   /* up to these where few went to another thread, */
#define SLOW_MAX 1024 /* or to these after a slow one */

/* ---- bells ---- */

static long futex(_Atomic uint32_t *at, int op, uint32_t value, const struct timespec *t)
{
	return syscall(SYS_futex, at, op, value, t, NULL, 0);
}

void fan_host_ring(struct fan_host_segment *s, unsigned i, enum fan_host_bell_name bell)
{
	assert(i < FAN_HOST_RANKS_MAX);
	struct fan_host_bell *b = &s->rank[i].bell[bell];
	atomic_fetch_add(&b->rings, 1);
	if (atomic_load(&b->asleep))
		futex(&b->rings, FUTEX_WAKE, 1, NULL);
}

void fan_host_ring_others(struct fan_host_segment *s, unsigned me, enum fan_host_bell_name bell)
{
	for (unsigned i = 0; i < fan_host_ranks(s); i++)
		if (i != me)
			fan_host_ring(s, i, bell);
}

uint32_t fan_host_received(const struct fan_host_board *l, enum fan_host_bell_name bell)
{
	return atomic_load(&l->s->rank[l->me].bell[bell].rings);
}

void fan_host_sleep(struct fan_host_board *l, enum fan_host_bell_name bell, uint32_t heard, int ms)
{
	assert(ms >= 0);
	struct fan_host_bell *b = &l->s->rank[l->me].bell[bell];
	struct timespec t = {.tv_sec = ms / 1000, .tv_nsec = ms % 1000 * 1000000L};
	atomic_store(&b->asleep, 1);
	if (atomic_load(&b->rings) == heard)
		futex(&b->rings, FUTEX_WAIT, heard, &t);
	atomic_store(&b->asleep, 0);
}

/* ---- waiting ---- */

static void give_up_yields(struct fan_host_wait *w, unsigned most)
{
	unsigned twice = 2 * w->sleeps_next;
	w->sleeps_next = twice < SLEEPS ? SLEEPS : twice > most ? most : twice;
	w->sleeps = w->sleeps_next;
}

/* How often this thread's core went to another thread.  How long a yield took does not show that:
 * to nobody it takes 0.2 to 0.7 us, by processor and kernel. */
static long switches(void)
{
	struct rusage u;
	return getrusage(RUSAGE_THREAD, &u) ? 0 : u.ru_nvcsw + u.ru_nivcsw;
}

/* Let the other ranks of this core run until the bell has rung: that takes less time than to fall
 * asleep and to be woken.  False: it has not.  A thread that computes keeps the core for its whole
 * time slice, and where each rank is a group to the scheduler (a session, a container), a yield
 * goes to nobody else.  Then the next waits do without. */
static bool yield_until(struct fan_host_wait *w, const struct fan_host_board *l, uint32_t heard)
{
	long begin = switches();
	uint64_t last_ns = fan_clock_ns();
	for (int n = 0; n < YIELDS; n++) {
		sched_yield();
		uint64_t now_ns = fan_clock_ns();
		if (now_ns > last_ns + SLOW_NS) {
			give_up_yields(w, SLOW_MAX);
			return false;
		}
		last_ns = now_ns;
		if (fan_host_received(l, FAN_HOST_WORK) != heard) {
			w->sleeps_next /= 2;
			return true;
		}
	}
	if (switches() - begin < WENT_MIN)
		give_up_yields(w, FEW_MAX);
	return false;
}

void fan_host_wait(struct fan_host_wait *w, struct fan_host_board *l, uint32_t heard, int ms)
{
	if (fan_host_received(l, FAN_HOST_WORK) != heard)
		return;
	if (w->sleeps)
		w->sleeps--;
	else if (yield_until(w, l, heard))
		return;
	fan_host_sleep(l, FAN_HOST_WORK, heard, ms);
}

/* ---- ends ---- */

void fan_host_fail(struct fan_host_segment *s, unsigned me, int error, const char *why,
		   const struct fan_host_blame *blame)
{
	int32_t none = 0;
	assert(error != FAN_OK && error != FAN_E_PENDING);
	if (!atomic_compare_exchange_strong(&s->error, &none, FAN_E_PENDING))
		return;
	snprintf(s->why, sizeof s->why, "%s", why);
	s->cause = blame->cause;
	if (blame->hosts)
		memcpy(s->blamed, blame->hosts, sizeof s->blamed);
	if (blame->lost)
		memcpy(s->lost, blame->lost, sizeof s->lost);
	atomic_store(&s->error, error);
	fan_host_ring_others(s, me, FAN_HOST_WORK);
	fan_host_ring_others(s, me, FAN_HOST_CALL);
}

void fan_host_read_end(const struct fan_host_segment *s, struct fan_host_end *e)
{
	memcpy(e->why, s->why, sizeof e->why);
	e->why[sizeof e->why - 1] = '\0';
	memcpy(e->lost, s->lost, sizeof e->lost);
	memcpy(e->blamed, s->blamed, sizeof e->blamed);
	const int8_t cause = (int8_t)s->cause; /* as LEAVE has it */
	e->cause = cause == FAN_E_PENDING ? 0 : cause;
}

int fan_host_error(const struct fan_host_board *l)
{
	int e = atomic_load(&l->s->error);
	return e == FAN_E_PENDING ? 0 : e;
}

void fan_host_leave(struct fan_host_board *l)
{
	atomic_store(&l->s->rank[l->me].beats, UINT64_MAX);
	fan_host_ring_others(l->s, l->me, FAN_HOST_WORK);
}
