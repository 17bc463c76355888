/* SPDX-License-Identifier: Apache-2.0 */
#include "background.h"

#include <assert.h>
#include <mpi.h>
#include <pthread.h>
#include <stdint.h>
#include <stdlib.h>
#include <time.h>

#include "group.h"
#include "learner.h"
#include "lib/comm/comm.h"
#include "meet.h"
#include "net/clock.h"
#include "world.h"

#define NEVER	    UINT64_MAX
#define WHY_BYTES   512
#define PROGRESS_NS 1000000 /* between polls while a call waits for the thread */
#define NS_PER_S    1e9

enum phase { BEFORE, OFFERED, ANSWERED, JOINING, OVER };

/* What the threads agree on: the largest of each. */
struct agreed {
	int64_t number; /* of calls so far */
	int64_t fanin_ns[FAN_LEARNER_CLASSES];
	int64_t minus_mpi_ns[FAN_LEARNER_CLASSES]; /* of the least time; INT64_MIN + 1: none */
};
#define AGREED_COUNT (sizeof(struct agreed) / sizeof(int64_t))

struct fan_mpi_background {
	enum phase phase;
	uint64_t begun_at; /* number of the call that sent the offer */
	MPI_Request offered, answered;
	struct fan_mpi_offer offer;
	uint32_t mine[FAN_MEET_ANSWERS], all[FAN_MEET_ANSWERS];

	/* What the thread will time, by the calls so far.  Constant once the answers are there. */
	uint64_t classes; /* one bit for each class */
	size_t bytes[FAN_LEARNER_CLASSES];
	unsigned samples[FAN_LEARNER_CLASSES];
	int64_t mpi_ns[FAN_LEARNER_CLASSES];
	char *memory; /* for the largest of them */

	struct fan_mpi_join join;
	pthread_t thread;

	pthread_mutex_t lock; /* for the members below, and for mpi_ns once the answers are known */
	pthread_cond_t changed; /* signals `ended` */
	uint64_t number;	/* of calls so far */
	uint64_t limit;		/* a call with this number waits until change_at is known */
	uint64_t change_at;	/* calls from here on may go to fanin; NEVER: none */
	bool ended;		/* the thread has ended */
	bool faster[FAN_LEARNER_CLASSES];
};

struct fan_mpi_background *fan_mpi_background_new(void)
{
	struct fan_mpi_background *b = calloc(1, sizeof *b);
	if (!b)
		return NULL;
	b->limit = b->change_at = NEVER;
	b->offered = b->answered = MPI_REQUEST_NULL;
	pthread_mutex_init(&b->lock, NULL);
	pthread_cond_init(&b->changed, NULL);
	return b;
}

void fan_mpi_background_free(struct fan_mpi_background *b)
{
	if (!b)
		return;
	pthread_cond_destroy(&b->changed);
	pthread_mutex_destroy(&b->lock);
	free(b->memory);
	free(b);
}

/* ---- the thread ---- */

static size_t tried_bytes(const struct fan_mpi_background *b, unsigned class)
{
	assert(class < FAN_LEARNER_CLASSES);
	size_t bytes = b->bytes[class] & ~(sizeof(int64_t) - 1);
	return bytes < FAN_BACKGROUND_BYTES ? bytes : FAN_BACKGROUND_BYTES;
}

static int compare(const void *a, const void *b)
{
	const int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
	return (x > y) - (x < y);
}

/* The median of fanin's times for a class. */
static int try_class(struct fan_mpi_background *b, unsigned class, int64_t *ns)
{
	assert(class < FAN_LEARNER_CLASSES);
	int64_t times[FAN_BACKGROUND_TIMES];
	int e = FANIN_OK;
	for (unsigned i = 0; i < FAN_BACKGROUND_TIMES && !e; i++) {
		uint64_t begin_ns = fan_clock_ns();
		e = fanin_allreduce(b->join.job, b->memory, b->memory,
				    tried_bytes(b, class) / sizeof(int64_t), FANIN_INT64,
				    FANIN_SUM);
		times[i] = (int64_t)(fan_clock_ns() - begin_ns);
	}
	qsort(times + 1, FAN_BACKGROUND_TIMES - 1, sizeof *times, compare);
	*ns = (int64_t)((double)times[1 + (FAN_BACKGROUND_TIMES - 1) / 2] *
			((double)b->bytes[class] / (double)tried_bytes(b, class)));
	return e;
}

static int try_all(struct fan_mpi_background *b, struct agreed *mine)
{
	int e = FANIN_OK;
	for (unsigned n = 0; n < FAN_LEARNER_CLASSES && !e; n++)
		if (b->classes & 1ull << n)
			e = try_class(b, n, &mine->fanin_ns[n]);
	return e;
}

/* From here on, calls wait at `limit` until the ranks have agreed. */
static void set_limit(struct fan_mpi_background *b, struct agreed *mine)
{
	pthread_mutex_lock(&b->lock);
	mine->number = (int64_t)b->number;
	b->limit = b->number + FAN_BACKGROUND_LEAD;
	for (unsigned n = 0; n < FAN_LEARNER_CLASSES; n++)
		mine->minus_mpi_ns[n] = b->mpi_ns[n] ? -b->mpi_ns[n] : INT64_MIN + 1;
	pthread_mutex_unlock(&b->lock);
}

/* With the lock held.  An agreement that failed here may have reached other ranks, so calls from
 * the limit on get the job's error. */
static void decide(struct fan_mpi_background *b, const struct agreed *all, int e)
{
	b->change_at = e ? b->limit : (uint64_t)all->number + FAN_BACKGROUND_LEAD;
	for (unsigned n = 0; n < FAN_LEARNER_CLASSES; n++) {
		double mpi_ns = -(double)all->minus_mpi_ns[n];
		b->faster[n] = e || (all->minus_mpi_ns[n] > INT64_MIN + 1 &&
				     (double)all->fanin_ns[n] < FAN_LEARNER_MARGIN * mpi_ns);
	}
}

static void *run(void *arg)
{
	struct fan_mpi_background *b = arg;
	struct agreed mine = {0}, all = {0};
	fan_mpi_join(&b->join);
	bool joined = !b->join.result;
	int e = b->join.result;
	if (joined) {
		e = try_all(b, &mine);
		set_limit(b, &mine);
		if (!e)
			e = fanin_allreduce(b->join.job, &mine, &all, AGREED_COUNT, FANIN_INT64,
					    FANIN_MAX);
	}
	pthread_mutex_lock(&b->lock);
	if (joined)
		decide(b, &all, e);
	b->ended = true;
	pthread_cond_broadcast(&b->changed);
	pthread_mutex_unlock(&b->lock);
	return NULL;
}

/* ---- the program's thread ---- */

/* Give up: all calls go to the MPI until a call that may wait joins a job. */
static void give_up(struct fan_mpi_group *g)
{
	struct fan_mpi_background *b = g->background;
	free(b->memory);
	b->memory = NULL;
	b->phase = OVER;
	fan_mpi_group_release(g);
}

static void begin(struct fan_mpi_group *g, uint64_t number)
{
	struct fan_mpi_background *b = g->background;
	if (!g->rank)
		fan_mpi_meet_offer(&b->offer);
	b->begun_at = number;
	b->phase = PMPI_Ibcast(&b->offer, sizeof b->offer, MPI_BYTE, 0, g->comm, &b->offered)
			   ? OVER
			   : OFFERED;
}

static void answer(struct fan_mpi_group *g, bool may_wait)
{
	struct fan_mpi_background *b = g->background;
	size_t most = sizeof(int64_t);
	int has = 0;
	if (may_wait)
		has = !PMPI_Wait(&b->offered, MPI_STATUS_IGNORE);
	else if (PMPI_Test(&b->offered, &has, MPI_STATUS_IGNORE))
		has = 0;
	for (unsigned n = 0; n < FAN_LEARNER_CLASSES; n++)
		if (tried_bytes(b, n) > most)
			most = tried_bytes(b, n);
	b->memory = calloc(1, most);
	bool willing = fan_mpi_group_reserve(g) && b->memory;
	fan_mpi_meet_answer(b->mine, has ? &b->offer : NULL, willing);
	b->phase = ANSWERED;
	if (PMPI_Iallreduce(b->mine, b->all, FAN_MEET_ANSWERS, MPI_UINT32_T, MPI_BAND, g->comm,
			    &b->answered))
		give_up(g);
}

/* All answers have arrived. */
static void join(struct fan_mpi_group *g)
{
	struct fan_mpi_background *b = g->background;
	char why[WHY_BYTES];
	b->join.rank = g->rank;
	b->join.ranks = g->ranks;
	if (!fan_mpi_meet_choose(&b->join.meet, &b->offer, b->all, why, sizeof why)) {
		give_up(g);
		return;
	}
	b->phase = JOINING;
	if (pthread_create(&b->thread, NULL, run, b))
		give_up(g);
}

/* The thread has ended. */
static void take(struct fan_mpi_group *g)
{
	struct fan_mpi_background *b = g->background;
	pthread_join(b->thread, NULL);
	b->phase = OVER;
	if (b->join.result) {
		fan_mpi_group_refuse(g, &b->join);
		return;
	}
	free(b->memory);
	b->memory = NULL;
	for (unsigned n = 0; n < FAN_LEARNER_CLASSES; n++)
		if (b->classes & 1ull << n)
			fan_learner_tell(g->learner, FAN_LEARNER_ALLREDUCE, n, b->faster[n]);
	fan_mpi_group_take(g, b->join.job);
}

/* May call `number` go to fanin, or is it settled that no call will? */
static bool has_changed(struct fan_mpi_background *b, uint64_t number)
{
	pthread_mutex_lock(&b->lock);
	while (number >= b->limit && !b->ended)
		pthread_cond_wait(&b->changed, &b->lock);
	bool changed = b->ended && (b->join.result || number >= b->change_at);
	pthread_mutex_unlock(&b->lock);
	return changed;
}

static void step(struct fan_mpi_group *g, uint64_t number)
{
	struct fan_mpi_background *b = g->background;
	int flag = 0;
	if (b->phase == BEFORE && fan_mpi_group_has_enough(g))
		begin(g, number);
	else if (b->phase == OFFERED && number == b->begun_at + FAN_BACKGROUND_ANSWER)
		answer(g, false);
	else if (b->phase == ANSWERED && !PMPI_Test(&b->answered, &flag, MPI_STATUS_IGNORE) && flag)
		join(g);
	else if (b->phase == JOINING && has_changed(b, number))
		take(g);
}

bool fan_mpi_background_call(struct fan_mpi_group *g, size_t bytes)
{
	struct fan_mpi_background *b = g->background;
	unsigned class = fan_learner_class(bytes);
	if (b->phase == OVER)
		return false;
	pthread_mutex_lock(&b->lock);
	uint64_t number = b->number++;
	pthread_mutex_unlock(&b->lock);
	if (b->phase == BEFORE) {
		g->calls++;
		g->bytes += bytes;
	}
	if (b->phase == BEFORE || b->phase == OFFERED) {
		b->classes |= 1ull << class;
		if (bytes > b->bytes[class])
			b->bytes[class] = bytes;
	}
	step(g, number);
	return !g->job && b->phase != OVER && b->samples[class]++ < FAN_BACKGROUND_SAMPLES;
}

bool fan_mpi_background_is_idle(const struct fan_mpi_background *b)
{
	return b->phase == BEFORE || b->phase == OVER;
}

void fan_mpi_background_time(struct fan_mpi_group *g, size_t bytes, double time_s)
{
	struct fan_mpi_background *b = g->background;
	int64_t *least_ns = &b->mpi_ns[fan_learner_class(bytes)];
	int64_t ns = (int64_t)(time_s * NS_PER_S) + 1;
	pthread_mutex_lock(&b->lock);
	if (!*least_ns || ns < *least_ns)
		*least_ns = ns;
	pthread_mutex_unlock(&b->lock);
}

static void wait_for_thread(struct fan_mpi_background *b)
{
	for (bool ended = false; !ended;) {
		fan_mpi_progress(NULL);
		nanosleep(&(struct timespec){.tv_nsec = PROGRESS_NS}, NULL);
		pthread_mutex_lock(&b->lock);
		ended = b->ended;
		pthread_mutex_unlock(&b->lock);
	}
}

void fan_mpi_background_finish_stage(struct fan_mpi_group *g, unsigned stage)
{
	assert(stage < FAN_BACKGROUND_STAGES);
	struct fan_mpi_background *b = g->background;
	if ((unsigned)b->phase != OFFERED + stage)
		return;
	switch (b->phase) {
	case OFFERED: answer(g, true); break;
	case ANSWERED:
		PMPI_Wait(&b->answered, MPI_STATUS_IGNORE);
		PMPI_Wait(&b->offered, MPI_STATUS_IGNORE);
		join(g);
		break;
	default: wait_for_thread(b); take(g);
	}
}

bool fan_mpi_background_finish(struct fan_mpi_group *g)
{
	if (fan_mpi_background_is_idle(g->background))
		return false;
	for (unsigned stage = 0; stage < FAN_BACKGROUND_STAGES; stage++)
		fan_mpi_background_finish_stage(g, stage);
	return true;
}
