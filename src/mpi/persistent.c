/* SPDX-License-Identifier: Apache-2.0 */
#include <assert.h>
#include <limits.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdlib.h>

#include "collective.h"
#include "group.h"
#include "next.h"
#include "request.h"
#include "turn.h"
#include "world.h"

#define TRIES_MAX FAN_LEARNER_STEPS /* calls until the faster one is known */

struct persistent {
	MPI_Request request; /* the receive */
	struct fan_mpi_group *group;
	struct fan_mpi_reduction reduction;
	size_t bytes;
	int tag; /* unique in this process */
	struct persistent *next;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* for the list */
static struct persistent *first;
static atomic_uint count_of; /* in the list */
static MPI_Comm twin = MPI_COMM_NULL;

static struct persistent *find(MPI_Request request)
{
	if (!atomic_load_explicit(&count_of, memory_order_relaxed))
		return NULL;
	pthread_mutex_lock(&lock);
	struct persistent *p = first;
	while (p && p->request != request)
		p = p->next;
	pthread_mutex_unlock(&lock);
	return p;
}

static bool has_twin(void)
{
	if (twin == MPI_COMM_NULL && PMPI_Comm_dup(MPI_COMM_SELF, &twin))
		return false;
	return !PMPI_Comm_set_errhandler(twin, MPI_ERRORS_RETURN);
}

/* With the lock held. */
static int free_tag(void)
{
	int tag = 0;
	for (const struct persistent *p = first; p;) {
		bool taken = p->tag == tag;
		tag += taken;
		p = taken ? first : p->next;
	}
	return tag;
}

/* The receive of `p`; false: MPI has refused something. */
static bool add(struct persistent *p)
{
	pthread_mutex_lock(&lock);
	bool ok = count_of < FAN_PERSISTENT_MAX && has_twin();
	p->tag = ok ? free_tag() : 0;
	ok = ok && !PMPI_Recv_init(NULL, 0, MPI_BYTE, 0, p->tag, twin, &p->request);
	if (ok) {
		p->next = first;
		first = p;
		count_of++;
	}
	pthread_mutex_unlock(&lock);
	return ok;
}

/* Remove it from the list. */
static void drop(struct persistent *p)
{
	pthread_mutex_lock(&lock);
	struct persistent **at = &first;
	while (*at && *at != p)
		at = &(*at)->next;
	if (*at) {
		*at = p->next;
		count_of--;
	}
	pthread_mutex_unlock(&lock);
	free(p);
}

void fan_mpi_persistent_end(void)
{
	while (first)
		drop(first);
	if (twin != MPI_COMM_NULL)
		PMPI_Comm_free(&twin);
}

/* ---- making ---- */

/* Collective: is `here` true on all ranks? */
static bool on_all(bool here, MPI_Comm comm)
{
	int mine = here, all = 0;
	return !PMPI_Allreduce(&mine, &all, 1, MPI_INT, MPI_MIN, comm) && all;
}

/* Collective: is fanin faster than the MPI?  Tried with memory of its own. */
static bool is_faster(const struct persistent *p, MPI_Datatype type, MPI_Op op)
{
	assert(p->group);
	const struct fan_learner *l = p->group->learner;
	if (fan_mpi_world.use == FAN_USE_ALWAYS)
		return true;
	if (!fan_learner_knows(l, FAN_LEARNER_ALLREDUCE, p->bytes) &&
	    p->reduction.count <= INT_MAX) {
		void *memory = calloc(1, p->bytes);
		bool all = on_all(memory, p->group->comm);
		for (int n = 0;
		     all && n < TRIES_MAX && !fan_learner_knows(l, FAN_LEARNER_ALLREDUCE, p->bytes);
		     n++)
			fan_mpi_allreduce(MPI_IN_PLACE, memory, (int)p->reduction.count, type, op,
					  p->group->comm);
		free(memory);
	}
	return fan_learner_peek(l, FAN_LEARNER_ALLREDUCE, p->bytes);
}

/* Collective; false: the request is left to the MPI. */
static bool take(const struct fan_mpi_reduction *r, MPI_Datatype type, MPI_Op op, MPI_Comm comm,
		 MPI_Request *request)
{
	struct fan_mpi_what what;
	struct fan_mpi_sum sum;
	fan_mpi_what_sum(&what, &sum, FAN_LEARNER_ALLREDUCE, r->count, type, op);
	struct fan_mpi_group *g = fan_mpi_turn_join(comm, &what);
	if (!g)
		return false;
	struct persistent *p = calloc(1, sizeof *p);
	if (p) {
		p->group = g;
		p->reduction = *r;
		p->reduction.sum = sum;
		p->bytes = what.bytes;
	}
	bool added = p && add(p);
	if (on_all(added, comm) && added && is_faster(p, type, op)) {
		g->kept = true;
		*request = p->request;
		return true;
	}
	if (added) {
		PMPI_Request_free(&p->request);
		drop(p);
	} else {
		free(p);
	}
	return false;
}

/* Only the MPI at run time tells which of the two names it has, not the headers: Open MPI 5 has MPI
 * 4's and calls itself MPI 3.1. */
int fan_mpi_allreduce_init(const void *in, void *out, int count, MPI_Datatype type, MPI_Op op,
			   MPI_Comm comm, MPI_Info info, MPI_Request *request)
{
	const struct fan_mpi_reduction r = {.in = in, .out = out, .count = count};
	if (take(&r, type, op, comm, request))
		return MPI_SUCCESS;
	fan_mpi_function init = fan_mpi_next[FAN_MPI_Allreduce_init];
	if (!init)
		init = fan_mpi_next[FAN_MPIX_Allreduce_init];
	__typeof__(&fan_mpi_allreduce_init) next = (__typeof__(next))init;
	return next(in, out, count, type, op, comm, info, request);
}

#if MPI_VERSION >= 4
int fan_mpi_allreduce_init_c(const void *in, void *out, MPI_Count count, MPI_Datatype type,
			     MPI_Op op, MPI_Comm comm, MPI_Info info, MPI_Request *request)
{
	const struct fan_mpi_reduction r = {.in = in, .out = out, .count = count};
	if (take(&r, type, op, comm, request))
		return MPI_SUCCESS;
	return FAN_NEXT(Allreduce_init_c)(in, out, count, type, op, comm, info, request);
}
#endif

/* ---- starting ---- */

static int start(struct persistent *p)
{
	MPI_Request request = p->request;
	int e = PMPI_Start(&request);
	if (e)
		return e;
	fan_mpi_report_add(FAN_WHY_TAKEN, 1, p->bytes);
	e = fan_mpi_request_start(p->group, &p->reduction, twin, p->tag, &request);
	if (e) { /* the request is inactive again */
		PMPI_Send(NULL, 0, MPI_BYTE, 0, p->tag, twin);
		PMPI_Wait(&request, MPI_STATUS_IGNORE);
	}
	return e;
}

int fan_mpi_start(MPI_Request *request)
{
	struct persistent *p = request ? find(*request) : NULL;
	return p ? start(p) : FAN_NEXT(Start)(request);
}

int fan_mpi_startall(int count, MPI_Request *requests)
{
	int e = MPI_SUCCESS;
	if (!atomic_load_explicit(&count_of, memory_order_relaxed))
		return FAN_NEXT(Startall)(count, requests);
	for (int i = 0; i < count && !e; i++)
		e = fan_mpi_start(&requests[i]);
	return e;
}

int fan_mpi_request_free(MPI_Request *request)
{
	struct persistent *p = request ? find(*request) : NULL;
	if (p)
		drop(p);
	return FAN_NEXT(Request_free)(request);
}
