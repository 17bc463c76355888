/* SPDX-License-Identifier: Apache-2.0 */
/* What callers leave while the thread of a communicator is awake, and no wake-up tells it of. */
#include "unit/lib/team.h"

#include <poll.h>
#include <stdatomic.h>
#include <time.h>
#include <unistd.h>

#include "lib/comm/comm.h"

#define PROMPT_MS 3000 /* BEATs wake the thread every 7.5 s */
#define LOOKS	  1000
#define LOOK_NS	  1000000
#define QUIET_NS  50000000

static struct fan_daemon *second;
static fan_peer second_at;
static atomic_uint begun;   /* ranks that no message wakes any more, or that could not join */
static atomic_uint added;   /* ranks that have a part to add */
static atomic_uint no_room; /* ranks that ended for want of room */

static bool has_wake_up(const struct fan_rank *r)
{
	struct pollfd p = {.fd = r->thread.wake_fd, .events = POLLIN};
	return poll(&p, 1, 0) > 0;
}

/* Returns with the lock held, while the thread is awake and has looked at what callers leave. */
static void catch_awake(struct fan_rank *r)
{
	const uint64_t one = 1;
	for (unsigned n = 0;; n++) {
		pthread_mutex_lock(&r->lock);
		if (r->asked.awake && !has_wake_up(r))
			return;
		pthread_mutex_unlock(&r->lock);
		if (n % LOOKS == 0)
			EXPECT(write(r->thread.wake_fd, &one, sizeof one) == sizeof one);
	}
}

/* Before a BEAT is due `done` says so. */
static bool is_prompt(struct fan_rank *r, bool (*done)(const struct fan_rank *r))
{
	const struct timespec pause = {.tv_nsec = LOOK_NS};
	uint64_t until_ns = fan_clock_ns() + PROMPT_MS * FAN_MS;
	bool is_done = false;
	while (!is_done && fan_clock_ns() < until_ns) {
		nanosleep(&pause, NULL);
		pthread_mutex_lock(&r->lock);
		is_done = done(r);
		pthread_mutex_unlock(&r->lock);
	}
	return is_done;
}

static bool has_joined_all(const struct fan_rank *r)
{
	return r->ready && r->parts.count == 2;
}

static bool has_completed(const struct fan_rank *r)
{
	return !r->asked.complete;
}

static bool has_failed(const struct fan_rank *r)
{
	return atomic_load(&r->error);
}

static void await_both(atomic_uint *ranks)
{
	const struct timespec pause = {.tv_nsec = LOOK_NS};
	atomic_fetch_add(ranks, 1);
	while (atomic_load(ranks) < 2)
		nanosleep(&pause, NULL);
}

/* No message of the other rank wakes the thread from now on. */
static void begin(struct member *m)
{
	const struct timespec pause = {.tv_nsec = QUIET_NS};
	EXPECT(fanin_barrier(m->comm) == 0);
	await_both(&begun); /* what one does next may end the job, and the other's barrier */
	nanosleep(&pause, NULL);
}

static void leave_second_part(struct fan_rank *r)
{
	const struct fan_rank_part part = {.at = second_at, .inside = -1};
	fan_rank_set_part(r, r->parts.count, &part, "");
	r->asked.parts_to_add = 1;
	r->kind->wake(r);
}

static void add_a_part(struct member *m)
{
	struct fan_rank *r = &m->comm->rank;
	begin(m);
	catch_awake(r);
	leave_second_part(r);
	pthread_mutex_unlock(&r->lock);
	await_both(&added); /* the other may catch its thread much later */
	EXPECT(is_prompt(r, has_joined_all));
}

/* There is no room for another connection: one rank says so, and the other may hear it first. */
static void add_one_too_many(struct member *m)
{
	struct fan_rank *r = &m->comm->rank;
	begin(m);
	EXPECT(fan_rank_connections(r) == FAN_SHARDS_MAX);
	catch_awake(r);
	leave_second_part(r);
	pthread_mutex_unlock(&r->lock);
	EXPECT(is_prompt(r, has_failed));
	atomic_fetch_add(&no_room, atomic_load(&r->error) == FAN_E_SHARDS);
}

static void complete(struct member *m)
{
	struct fan_rank *r = &m->comm->rank;
	begin(m);
	catch_awake(r);
	r->asked.complete = true;
	r->kind->wake(r);
	pthread_mutex_unlock(&r->lock);
	EXPECT(is_prompt(r, has_completed));
}

static void end(struct member *m)
{
	struct fan_rank *r = &m->comm->rank;
	begin(m);
	catch_awake(r);
	r->ending.error = FAN_E_RANK_LOST;
	r->kind->wake(r);
	pthread_mutex_unlock(&r->lock);
	EXPECT(is_prompt(r, has_failed));
}

static int set_up(void **state __attribute__((unused)))
{
	atomic_store(&begun, 0);
	atomic_store(&added, 0);
	return 0;
}

/* Ranks that joined at a named switch join at their hosts' aggregators next. */
TEST_WITH(progress__parts_to_add, set_up, NULL)
{
	char address[80];
	second = team_switch(address, sizeof address, 1);
	second_at = fan_daemon_address(second);
	team_run_once(2, add_a_part);
	fan_daemon_stop(second);
}

/* A switch with as many threads as a rank may have connections. */
TEST_WITH(progress__no_room_for_a_part, set_up, NULL)
{
	char wide[80], address[80];
	struct team t = team_new(2, add_one_too_many);
	struct fan_daemon *sw = team_switch(wide, sizeof wide, FAN_SHARDS_MAX);
	second = team_switch(address, sizeof address, 1);
	second_at = fan_daemon_address(second);
	t.list = wide;
	atomic_store(&no_room, 0);
	team_run(&t);
	assert_true(atomic_load(&no_room) >= 1);
	team_free(&t);
	fan_daemon_stop(sw);
	fan_daemon_stop(second);
}

TEST_WITH(progress__all_parts_are_there, set_up, NULL)
{
	team_run_once(2, complete);
}

TEST_WITH(progress__end, set_up, NULL)
{
	team_run_once(2, end);
}

int main(void)
{
	setenv("FANIN_HOSTS", "0", 1); /* parts are the tests' own */
	return unit_run();
}
