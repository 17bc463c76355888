/* SPDX-License-Identifier: Apache-2.0 */
#include "request.h"

#include <assert.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdlib.h>
#include <time.h>

#include "group.h"
#include "turn.h"
#include "types.h"
#include "world.h"

#define YIELDS	 100	/* polls in a row that yield the core in between */
#define SLEEP_NS 100000 /* of sleep between later polls */

/* An all-reduce that fanin can do; `count` of MPI's elements. */
struct reduction {
	struct fan_mpi_sum sum;
	const void *in; /* or MPI_IN_PLACE */
	void *out;
	MPI_Count count;
};

/* An operation in progress.  MPI knows it by its generalized request, which frees it. */
struct started {
	MPI_Request request;
	fanin_op *op;
	struct fan_mpi_group *group;
	int code; /* MPI's, of its result */
	struct started *next;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct started *first; /* oldest first; as many as fanin permits in progress */
static atomic_uint open_count;

/* Answer MPI about a request that has ended. */
static int query(void *extra, MPI_Status *status)
{
	const struct started *s = extra;
	PMPI_Status_set_elements(status, MPI_BYTE, 0);
	PMPI_Status_set_cancelled(status, 0);
	status->MPI_SOURCE = MPI_UNDEFINED;
	status->MPI_TAG = MPI_UNDEFINED;
	return s->code;
}

static int release(void *extra)
{
	free(extra);
	return MPI_SUCCESS;
}

/* A collective operation cannot be cancelled. */
static int cancel(void *extra, int complete)
{
	(void)extra, (void)complete;
	return MPI_SUCCESS;
}

static void append(struct started *s)
{
	assert(s->group);
	pthread_mutex_lock(&lock);
	struct started **at = &first;
	while (*at)
		at = &(*at)->next;
	*at = s;
	atomic_fetch_add(&open_count, 1);
	pthread_mutex_unlock(&lock);
}

/* Remove the oldest operation that has ended from the list; `g` not NULL: of that group. */
static struct started *take_ended(const struct fan_mpi_group *g)
{
	struct started *s = NULL;
	pthread_mutex_lock(&lock);
	for (struct started **at = &first; *at && !s; at = &(*at)->next)
		if ((!g || (*at)->group == g) && fanin_op_test((*at)->op) != FANIN_E_PENDING) {
			s = *at;
			*at = s->next;
			atomic_fetch_sub(&open_count, 1);
			break;
		}
	pthread_mutex_unlock(&lock);
	return s;
}

/* Report all operations that have ended to MPI. */
static void report_ended(const struct fan_mpi_group *g)
{
	struct started *s;
	while (atomic_load(&open_count) && (s = take_ended(g))) {
		s->code = fan_mpi_group_result(s->group, fanin_op_test(s->op));
		fanin_op_free(s->op);
		PMPI_Grequest_complete(s->request);
	}
}

static bool has_open(const struct fan_mpi_group *g)
{
	pthread_mutex_lock(&lock);
	const struct started *s = first;
	while (s && s->group != g)
		s = s->next;
	pthread_mutex_unlock(&lock);
	return s != NULL;
}

void fan_mpi_requests_pause(int *looks)
{
	fan_mpi_progress(NULL);
	if (++*looks < YIELDS)
		sched_yield();
	else
		nanosleep(&(struct timespec){.tv_nsec = SLEEP_NS}, NULL);
}

void fan_mpi_requests_wait(struct fan_mpi_group *g)
{
	int looks = 0;
	for (report_ended(g); has_open(g); report_ended(g))
		fan_mpi_requests_pause(&looks);
}

/* ---- starting ---- */

/* Start `r` in the job of `g`, as the generalized request *request. */
static int start(struct fan_mpi_group *g, const struct reduction *r, MPI_Request *request)
{
	struct started *s = calloc(1, sizeof *s);
	int e = s ? FANIN_OK : FANIN_E_NOMEM;
	if (!e)
		e = fanin_allreduce_start(g->job, r->in == MPI_IN_PLACE ? r->out : r->in, r->out,
					  (size_t)r->count * r->sum.each, r->sum.dtype, r->sum.op,
					  &s->op);
	if (e) {
		free(s);
		return fan_mpi_group_result(g, e);
	}
	s->group = g;
	e = PMPI_Grequest_start(query, release, cancel, s, &s->request);
	if (e) {
		fanin_op_free(s->op);
		free(s);
		return e;
	}
	*request = s->request;
	append(s);
	return MPI_SUCCESS;
}

/* Describe a call.  True: it goes to fanin, to job t->group->job. */
static bool begin(struct fan_mpi_turn *t, struct reduction *r, MPI_Datatype type, MPI_Op op,
		  MPI_Comm comm)
{
	struct fan_mpi_what what;
	fan_mpi_what_sum(&what, &r->sum, FAN_LEARNER_ALLREDUCE, r->count, type, op);
	what.known &= fan_mpi_buffers_fit(r->in, what.bytes, r->out, what.bytes);
	return fan_mpi_turn_at_once(t, comm, &what);
}

/* Called through the table alone. */
static int fan_mpi_iallreduce_c(const void *in, void *out, MPI_Count count, MPI_Datatype type,
				MPI_Op op, MPI_Comm comm, MPI_Request *request);

#define DEFINE_IALLREDUCE(name, mpi_name, count_type)                                              \
	int fan_mpi_##name(const void *in, void *out, count_type count, MPI_Datatype type,         \
			   MPI_Op op, MPI_Comm comm, MPI_Request *request)                         \
	{                                                                                          \
		struct reduction r = {.in = in, .out = out, .count = count};                       \
		struct fan_mpi_turn t;                                                             \
		if (begin(&t, &r, type, op, comm))                                                 \
			return start(t.group, &r, request);                                        \
		return FAN_NEXT(mpi_name, name)(in, out, count, type, op, comm, request);          \
	}
DEFINE_IALLREDUCE(iallreduce, Iallreduce, int)
DEFINE_IALLREDUCE(iallreduce_c, Iallreduce_c, MPI_Count)

/* Waiting.  A list without a request of fanin in progress goes to the MPI as it is.  With one, this
 * polls the MPI, so that both make progress. */

static bool is_ours(MPI_Request request)
{
	const struct started *s = first;
	while (s && s->request != request)
		s = s->next;
	return s != NULL;
}

bool fan_mpi_requests_pending(int count, const MPI_Request *requests)
{
	bool ours = false;
	if (!atomic_load_explicit(&open_count, memory_order_relaxed))
		return false;
	report_ended(NULL);
	pthread_mutex_lock(&lock);
	for (int i = 0; requests && i < count && first && !ours; i++)
		ours = is_ours(requests[i]);
	pthread_mutex_unlock(&lock);
	return ours;
}

static int fan_mpi_wait(MPI_Request *request, MPI_Status *status)
{
	for (int looks = 0; fan_mpi_requests_pending(1, request);)
		fan_mpi_requests_pause(&looks);
	return FAN_NEXT(Wait, wait)(request, status);
}

static int fan_mpi_waitall(int count, MPI_Request *requests, MPI_Status *statuses)
{
	for (int looks = 0; fan_mpi_requests_pending(count, requests);)
		fan_mpi_requests_pause(&looks);
	return FAN_NEXT(Waitall, waitall)(count, requests, statuses);
}

static int fan_mpi_waitany(int count, MPI_Request *requests, int *index, MPI_Status *status)
{
	for (int looks = 0; fan_mpi_requests_pending(count, requests);
	     fan_mpi_requests_pause(&looks)) {
		int flag = 0;
		int e = PMPI_Testany(count, requests, index, &flag, status);
		if (e || flag)
			return e;
	}
	return FAN_NEXT(Waitany, waitany)(count, requests, index, status);
}

static int fan_mpi_waitsome(int count, MPI_Request *requests, int *done, int *indices,
			    MPI_Status *statuses)
{
	for (int looks = 0; fan_mpi_requests_pending(count, requests);
	     fan_mpi_requests_pause(&looks)) {
		int e = PMPI_Testsome(count, requests, done, indices, statuses);
		if (e || *done)
			return e;
	}
	return FAN_NEXT(Waitsome, waitsome)(count, requests, done, indices, statuses);
}

/* ---- testing, which only reports to MPI first ---- */

static int fan_mpi_test(MPI_Request *request, int *flag, MPI_Status *status)
{
	report_ended(NULL);
	return FAN_NEXT(Test, test)(request, flag, status);
}

static int fan_mpi_testall(int count, MPI_Request *requests, int *flag, MPI_Status *statuses)
{
	report_ended(NULL);
	return FAN_NEXT(Testall, testall)(count, requests, flag, statuses);
}

static int fan_mpi_testany(int count, MPI_Request *requests, int *index, int *flag,
			   MPI_Status *status)
{
	report_ended(NULL);
	return FAN_NEXT(Testany, testany)(count, requests, index, flag, status);
}

static int fan_mpi_testsome(int count, MPI_Request *requests, int *done, int *indices,
			    MPI_Status *statuses)
{
	report_ended(NULL);
	return FAN_NEXT(Testsome, testsome)(count, requests, done, indices, statuses);
}

static int fan_mpi_request_get_status(MPI_Request request, int *flag, MPI_Status *status)
{
	report_ended(NULL);
	return FAN_NEXT(Request_get_status, request_get_status)(request, flag, status);
}

void fan_mpi_requests_take(fan_mpi_function *mine)
{
	FAN_MPI_EACH_REQUEST(FAN_TAKE)
}
