/* SPDX-License-Identifier: Apache-2.0 */
/* How a rank waits for its bell: yields that help, and those that go to nobody.  The calls of the
 * C library that it learns from are this program's own. */
#include "unit/unit.h"

#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>

#include "lib/host/segment.h"

#define RANKS 2
#define VAIN  100 /* yields of a wait in vain */

static struct fan_host_segment *segment;
static struct fan_host_board board;
static unsigned yields;	   /* so far */
static unsigned ring_at;   /* the yield at which the bell rings; 0: never */
static unsigned went_each; /* one yield of so many goes to another thread; 0: none */
static long switches;
static long yield_us; /* how long a yield takes */
static long now_us;

int sched_yield(void)
{
	yields++;
	now_us += yield_us;
	if (went_each && yields % went_each == 0)
		switches++;
	if (yields == ring_at)
		fan_host_ring(segment, 0, FAN_HOST_WORK);
	return 0;
}

int getrusage(__rusage_who_t who, struct rusage *u)
{
	assert_int_equal(who, RUSAGE_THREAD);
	memset(u, 0, sizeof *u);
	u->ru_nvcsw = 1; /* both count */
	u->ru_nivcsw = switches;
	return 0;
}

int clock_gettime(clockid_t clock, struct timespec *t)
{
	(void)clock;
	*t = (struct timespec){.tv_sec = now_us / 1000000, .tv_nsec = now_us % 1000000 * 1000};
	return 0;
}

static int set_up(void **state __attribute__((unused)))
{
	size_t bytes = (fan_host_bytes(RANKS) + 63) / 64 * 64;
	void *mem = aligned_alloc(64, bytes);
	assert_non_null(mem);
	memset(mem, 0, bytes);
	segment = fan_host_init(mem, RANKS, RANKS);
	fan_host_open(&board, segment, 0, 10, RANKS);
	yields = ring_at = went_each = 0;
	yield_us = 1;
	return 0;
}

static int tear_down(void **state __attribute__((unused)))
{
	free(segment);
	return 0;
}

/* The yields of one wait for a bell that does not ring before it sleeps. */
static unsigned yields_of_wait(struct fan_host_wait *w)
{
	unsigned before = yields;
	fan_host_wait(w, &board, fan_host_received(&board, FAN_HOST_WORK), 0);
	return yields - before;
}

TEST_WITH(wait__yields_that_go_to_nobody_are_given_up, set_up, tear_down)
{
	struct fan_host_wait w = {0};
	assert_int_equal(yields_of_wait(&w), VAIN);
	for (unsigned without = 8; without <= 64; without *= 2) {
		for (unsigned n = 0; n < without; n++)
			assert_int_equal(yields_of_wait(&w), 0);
		assert_int_equal(yields_of_wait(&w), VAIN);
	}
	for (unsigned n = 0; n < 64; n++) /* and not more */
		assert_int_equal(yields_of_wait(&w), 0);
	assert_int_equal(yields_of_wait(&w), VAIN);
}

TEST_WITH(wait__yields_that_go_to_other_ranks_go_on, set_up, tear_down)
{
	struct fan_host_wait w = {0};
	went_each = 2;
	for (unsigned n = 0; n < 20; n++)
		assert_int_equal(yields_of_wait(&w), VAIN);
	went_each = 3;
	assert_int_equal(yields_of_wait(&w), VAIN);
	assert_int_equal(yields_of_wait(&w), 0);
}

TEST_WITH(wait__a_bell_ends_the_yields, set_up, tear_down)
{
	struct fan_host_wait w = {0};
	ring_at = 7;
	assert_int_equal(yields_of_wait(&w), 7);
	ring_at = 12; /* that they went to nobody is no reason to give them up */
	assert_int_equal(yields_of_wait(&w), 5);
	assert_int_equal(w.sleeps, 0);
}

TEST_WITH(wait__a_slow_yield_is_the_last_for_long, set_up, tear_down)
{
	struct fan_host_wait w = {0};
	went_each = 1;
	yield_us = 2001;
	unsigned waits = 0;
	for (unsigned n = 0; n < 8 + 16 + 32 + 64 + 128 + 256 + 512 + 3 * 1024 + 11; n++)
		waits += yields_of_wait(&w) != 0;
	assert_int_equal(waits, 11);
	assert_int_equal(yields, waits);
}

UNIT_MAIN
