/* SPDX-License-Identifier: Apache-2.0 */
#include "group.h"

#include <assert.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "calls.h"
#include "file/option.h"
#include "lib/comm/comm.h"
#include "meet.h"
#include "request.h"
#include "world.h"

#define WHY_BYTES   (MPI_MAX_ERROR_STRING < 512 ? MPI_MAX_ERROR_STRING : 512)
#define PROGRESS_NS 1000000  /* between polls while a job is joined */
#define JOIN_MS	    10000    /* until a join without progress fails */
#define WAIT_MS	    86400000 /* until an operation does: MPI has no such limit */
#define ALIVE_MS    60000    /* of silence until a rank counts as lost */

static int keyval = MPI_KEYVAL_INVALID;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* for the list and the count */
static struct fan_mpi_group *groups;
static unsigned jobs_open;
static atomic_bool refused; /* a join has failed; no other is tried */

/* A thread may still read a group that another thread has just dropped, so its memory is kept for
 * the next group; `comm` then differs. */
static struct fan_mpi_group *spare;
_Atomic(struct fan_mpi_group *) fan_mpi_group_last;

static void release(void)
{
	pthread_mutex_lock(&lock);
	jobs_open--;
	pthread_mutex_unlock(&lock);
}

static void leave(struct fan_mpi_group *g)
{
	if (!g->job)
		return;
	fan_mpi_requests_wait(g);
	fanin_comm_destroy(g->job);
	g->job = NULL;
	release();
}

static void drop(struct fan_mpi_group *g)
{
	for (unsigned i = 0; i < FAN_LEARNER_KINDS; i++)
		fan_mpi_pass_forget(&g->passes[i]);
	pthread_mutex_lock(&lock);
	struct fan_mpi_group **at = &groups;
	while (*at && *at != g)
		at = &(*at)->next;
	if (*at)
		*at = g->next;
	pthread_mutex_unlock(&lock);
	leave(g);
	free(g->learner);
	g->comm = MPI_COMM_NULL;
	pthread_mutex_lock(&lock);
	g->next = spare;
	spare = g;
	pthread_mutex_unlock(&lock);
}

/* MPI calls it when a communicator ends without MPI_Comm_free, as in MPI_Finalize. */
static int gone(MPI_Comm comm, int key, void *group, void *unused)
{
	(void)comm, (void)key, (void)unused;
	drop(group);
	return MPI_SUCCESS;
}

bool fan_mpi_groups_init(void)
{
	return !PMPI_Comm_create_keyval(MPI_COMM_NULL_COPY_FN, gone, &keyval, NULL);
}

void fan_mpi_groups_end(void)
{
	PMPI_Barrier(MPI_COMM_WORLD); /* so that no rank waits for one that has not left yet */
	while (groups) {
		struct fan_mpi_group *g = groups;
		PMPI_Comm_delete_attr(g->comm, keyval);
		if (groups == g) /* the MPI has not called `gone` */
			drop(g);
	}
	PMPI_Comm_free_keyval(&keyval);
	fan_mpi_group_last = NULL;
	while (spare) {
		struct fan_mpi_group *g = spare;
		spare = g->next;
		free(g);
	}
}

/* With the lock held. */
static struct fan_mpi_group *blank(void)
{
	struct fan_mpi_group *g = spare;
	if (!g)
		return calloc(1, sizeof *g);
	spare = g->next;
	g->calls = 0;
	g->bytes = 0;
	g->job = NULL;
	g->error = 0;
	g->learner = NULL;
	return g;
}

/* Are some ranks in another MPI_COMM_WORLD, where fanin may not be loaded? */
static bool has_strangers(MPI_Comm comm, int ranks)
{
	assert(ranks > 0);
	MPI_Group group;
	bool strange = false;
	int *numbers = calloc(2 * (size_t)ranks, sizeof *numbers);
	if (!numbers || PMPI_Comm_group(comm, &group)) {
		free(numbers);
		return true;
	}
	for (int i = 0; i < ranks; i++)
		numbers[i] = i;
	PMPI_Group_translate_ranks(group, ranks, numbers, fan_mpi_world.group, numbers + ranks);
	for (int i = 0; i < ranks; i++)
		strange |= numbers[ranks + i] == MPI_UNDEFINED;
	PMPI_Group_free(&group);
	free(numbers);
	return strange;
}

static enum fan_mpi_why why_off(MPI_Comm comm, int ranks)
{
	int inter = 0;
	PMPI_Comm_test_inter(comm, &inter);
	if (inter || ranks < 2 || ranks > FANIN_RANKS_MAX || has_strangers(comm, ranks))
		return FAN_WHY_COMM;
	return fan_mpi_world.use == FAN_USE_NEVER ? FAN_WHY_OFF : FAN_WHY_TAKEN;
}

/* With the lock held. */
static struct fan_mpi_group *add(MPI_Comm comm)
{
	struct fan_mpi_group *g = blank();
	if (!g)
		return NULL;
	for (unsigned i = 0; i < FAN_LEARNER_KINDS; i++)
		fan_mpi_pass_init(&g->passes[i]);
	PMPI_Comm_rank(comm, &g->rank);
	PMPI_Comm_size(comm, &g->ranks);
	g->off = why_off(comm, g->ranks);
	bool set = !PMPI_Comm_set_attr(comm, keyval, g);
	struct fan_mpi_group **list = set ? &groups : &spare;
	g->next = *list;
	*list = g;
	g->comm = set ? comm : MPI_COMM_NULL;
	return set ? g : NULL;
}

struct fan_mpi_group *fan_mpi_group_of(MPI_Comm comm)
{
	struct fan_mpi_group *g = atomic_load_explicit(&fan_mpi_group_last, memory_order_acquire);
	int found = 0;
	if (g && comm != MPI_COMM_NULL &&
	    atomic_load_explicit(&g->comm, memory_order_acquire) == comm)
		return g;
	g = NULL;
	if (comm == MPI_COMM_NULL || PMPI_Comm_get_attr(comm, keyval, &g, &found))
		return NULL;
	if (!found) {
		pthread_mutex_lock(&lock);
		PMPI_Comm_get_attr(comm, keyval, &g, &found);
		if (!found)
			g = add(comm);
		pthread_mutex_unlock(&lock);
	}
	if (g)
		atomic_store_explicit(&fan_mpi_group_last, g, memory_order_release);
	return g;
}

/* ---- joining ---- */

/* Reserve one more job for `g`, and memory for its learner.  Whether it returns true or false, the
 * caller releases a job that is not joined. */
static bool reserve(struct fan_mpi_group *g)
{
	if (!g->learner)
		g->learner = calloc(1, sizeof *g->learner);
	pthread_mutex_lock(&lock);
	bool room = jobs_open < FAN_MPI_JOBS_MAX && !atomic_load(&refused) && g->learner;
	jobs_open++;
	pthread_mutex_unlock(&lock);
	return room;
}

struct joining {
	struct fan_mpi_meet meet;
	int rank, ranks;
	fanin_comm *job; /* set by a failed join as well, for its error */
	int result;	 /* FANIN_OK: `job` is joined */
	atomic_bool done;
};

static void log_failed(const struct fan_mpi_group *g, const struct joining *j)
{
	char name[MPI_MAX_OBJECT_NAME] = "", what[MPI_MAX_OBJECT_NAME + 32];
	int bytes;
	PMPI_Comm_get_name(g->comm, name, &bytes);
	snprintf(what, sizeof what, "%s: rank %d", *name ? name : "a communicator", g->rank);
	fan_mpi_log(what, j->job ? fanin_comm_error(j->job) : fanin_strerror(j->result));
}

/* Join the job or fail, in a thread that never calls MPI. */
static void *run_join(void *arg)
{
	struct joining *j = arg;
	assert(j->rank >= 0 && j->rank < j->ranks);
	struct fanin_options o = FANIN_OPTIONS_INIT;
	const struct fan_comm_terms terms = {
		.meeting_addr = j->meet.addr,
		.meeting_local = j->meet.local,
		.join_ms = JOIN_MS,
	};
	o.rank = j->rank;
	o.ranks = j->ranks;
	o.job = j->meet.job;
	if (!fan_option_variable("FANIN_TIMEOUT_MS"))
		o.timeout_ms = WAIT_MS;
	if (!fan_option_variable("FANIN_ALIVE_MS"))
		o.alive_ms = ALIVE_MS;
	j->result = fan_comm_create_on(&o, &terms, &j->job);
	if (!j->result)
		fan_comm_metrics_start(j->job);
	atomic_store(&j->done, true);
	return NULL;
}

/* Another rank may still wait for messages of the last collective call, so MPI makes progress
 * meanwhile. */
static void join_beside(struct joining *j)
{
	pthread_t thread;
	if (pthread_create(&thread, NULL, run_join, j)) {
		j->result = FANIN_E_SYSTEM;
		return;
	}
	while (!atomic_load(&j->done)) {
		fan_mpi_progress(NULL);
		nanosleep(&(struct timespec){.tv_nsec = PROGRESS_NS}, NULL);
	}
	pthread_join(thread, NULL);
}

/* Collective: afterwards all ranks have joined, or none has.  The first rank that could not join
 * prints why. */
static bool all_joined(const struct fan_mpi_group *g, const struct joining *j)
{
	assert(g->rank < g->ranks);
	int mine = j->result ? g->rank : g->ranks, first = 0;
	PMPI_Allreduce(&mine, &first, 1, MPI_INT, MPI_MIN, g->comm);
	if (first == g->rank)
		log_failed(g, j);
	return first == g->ranks;
}

static void join(struct fan_mpi_group *g)
{
	assert(!g->job && !g->off);
	struct joining j = {.rank = g->rank, .ranks = g->ranks};
	char why[WHY_BYTES];
	bool willing = reserve(g);
	if (!fan_mpi_meet(&j.meet, g->comm, g->rank, willing, why, sizeof why)) {
		if (willing && !g->rank)
			fan_mpi_log("a communicator", why);
		release();
		g->off = FAN_WHY_OFF;
		return;
	}
	join_beside(&j);
	if (all_joined(g, &j)) {
		j.job->rank.idle.call = fan_mpi_progress;
		g->job = j.job;
		return;
	}
	fanin_comm_destroy(j.job);
	atomic_store(&refused, true);
	release();
	g->off = FAN_WHY_OFF;
}

bool fan_mpi_group_has_enough(const struct fan_mpi_group *g)
{
	return g->calls >= FAN_MPI_JOIN_CALLS || g->bytes >= FAN_MPI_JOIN_BYTES ||
	       fan_mpi_world.use == FAN_USE_ALWAYS;
}

void fan_mpi_group_join(struct fan_mpi_group *g)
{
	if (!g->job && !g->off && fan_mpi_group_has_enough(g))
		join(g);
}

/* ---- leaving ---- */

/* MPI_Comm_free and MPI_Comm_disconnect are collective: all leave together. */
static void leave_together(MPI_Comm comm)
{
	struct fan_mpi_group *g = NULL;
	int found = 0;
	if (!fan_mpi_world.on || comm == MPI_COMM_NULL ||
	    PMPI_Comm_get_attr(comm, keyval, &g, &found) || !found)
		return;
	if (!g->job)
		return;
	fan_mpi_requests_wait(g);
	PMPI_Barrier(comm);
	leave(g);
}

int fan_mpi_comm_free(MPI_Comm *comm)
{
	if (comm)
		leave_together(*comm);
	return FAN_NEXT(Comm_free, comm_free)(comm);
}

int fan_mpi_comm_disconnect(MPI_Comm *comm)
{
	if (comm)
		leave_together(*comm);
	return FAN_NEXT(Comm_disconnect, comm_disconnect)(comm);
}

/* ---- errors ---- */

int fan_mpi_group_result(struct fan_mpi_group *g, int e)
{
	int class;
	char text[WHY_BYTES];
	if (!e)
		return MPI_SUCCESS;
	if (!g->error) {
		const char *why = fanin_comm_error(g->job);
		snprintf(text, sizeof text, "fanin: %s", *why ? why : fanin_strerror(e));
		g->error = MPI_ERR_OTHER;
		if (!PMPI_Add_error_class(&class) && !PMPI_Add_error_code(class, &g->error))
			PMPI_Add_error_string(g->error, text);
	}
	PMPI_Comm_call_errhandler(g->comm, g->error);
	return g->error;
}
