/* SPDX-License-Identifier: Apache-2.0 */
#include "turn.h"

#include "report.h"
#include "world.h"

/* Why a call cannot go to fanin whatever was learnt; FAN_WHY_TAKEN: it can. */
static enum fan_mpi_why refuse(const struct fan_mpi_group *g, const struct fan_mpi_what *what)
{
	if (!g)
		return FAN_WHY_COMM;
	if (g->off)
		return g->off;
	if (!what->known || what->root < 0 || what->root >= g->ranks)
		return FAN_WHY_KIND;
	return what->kind != FAN_LEARNER_BARRIER && what->bytes < FAN_MPI_LEAST_BYTES
		       ? FAN_WHY_SMALL
		       : FAN_WHY_TAKEN;
}

/* Towards the join, for which barriers do not count: a program may have nothing else. */
static void count(struct fan_mpi_group *g, const struct fan_mpi_what *what)
{
	if (g->job)
		return;
	g->calls += what->kind != FAN_LEARNER_BARRIER;
	g->bytes += what->bytes;
	fan_mpi_group_join(g);
}

static enum fan_mpi_why find_way(struct fan_mpi_turn *t)
{
	struct fan_mpi_group *g = t->group;
	count(g, &t->what);
	if (!g->job)
		return g->off ? g->off : FAN_WHY_EARLY;
	if (fan_mpi_world.use == FAN_USE_ALWAYS)
		return FAN_WHY_TAKEN;
	fan_learner_next(g->learner, t->what.kind, t->what.bytes, &t->step);
	if (t->step.trial) {
		t->trial_s = PMPI_Wtime();
		PMPI_Barrier(g->comm);
		t->call_s = PMPI_Wtime();
	}
	if (t->step.fanin)
		return FAN_WHY_TAKEN;
	return t->step.trial ? FAN_WHY_TRIAL : FAN_WHY_FASTER;
}

bool fan_mpi_turn_passes(enum fan_learner_kind kind, MPI_Count count, MPI_Datatype type, MPI_Op op,
			 int root, MPI_Comm comm)
{
	size_t bytes;
	if (!fan_mpi_world.on)
		return true;
	if (!fan_mpi_sum_glance(&bytes, count, type, op))
		return false;
	if (bytes < FAN_MPI_LEAST_BYTES) {
		fan_mpi_report_add(FAN_WHY_SMALL, bytes);
		return true;
	}
	const struct fan_mpi_group *g = fan_mpi_group_of(comm);
	if (!g || !g->job || root < 0 || root >= g->ranks)
		return false;
	if (!fan_learner_rests(g->learner, kind, bytes))
		return false;
	fan_mpi_report_add(FAN_WHY_FASTER, bytes);
	return true;
}

bool fan_mpi_turn_begin(struct fan_mpi_turn *t, MPI_Comm comm, const struct fan_mpi_what *what)
{
	t->step.trial = false;
	if (!fan_mpi_world.on)
		return false;
	t->group = fan_mpi_group_of(comm);
	t->what = *what;
	enum fan_mpi_why why = refuse(t->group, what);
	if (!why)
		why = find_way(t);
	fan_mpi_report_add(why, what->bytes);
	return !why;
}

static double unsettled(const struct fan_mpi_group *g)
{
	struct fanin_part first = {.size = sizeof first};
	struct fanin_stats stats = {.size = sizeof stats};
	if (fanin_comm_stats(g->job, &stats) || stats.parts < 2 ||
	    fanin_comm_part(g->job, 0, &first))
		return 0;
	return !first.settled;
}

/* All ranks take the largest of all times, and go on alike. */
static void agree(struct fan_mpi_turn *t)
{
	struct fan_mpi_group *g = t->group;
	struct fan_learner_times all;
	t->step.class->times.unsettled = unsettled(g);
	PMPI_Allreduce(&t->step.class->times, &all, FAN_LEARNER_DOUBLES, MPI_DOUBLE, MPI_MAX,
		       g->comm);
	fan_learner_decide(g->learner, t->what.kind, t->what.bytes, &all);
}

int fan_mpi_turn_end(struct fan_mpi_turn *t, int e)
{
	if (!t->step.trial)
		return e;
	double now_s = PMPI_Wtime();
	if (t->step.time_s)
		*t->step.time_s = now_s - t->call_s;
	t->step.class->times.trial_s += now_s - t->trial_s;
	if (t->step.agree)
		agree(t);
	return e;
}

struct fan_mpi_group *fan_mpi_turn_join(MPI_Comm comm, const struct fan_mpi_what *what)
{
	if (!fan_mpi_world.on)
		return NULL;
	struct fan_mpi_group *g = fan_mpi_group_of(comm);
	if (refuse(g, what))
		return NULL;
	if (!g->job) {
		g->calls += FAN_MPI_JOIN_CALLS;
		fan_mpi_group_join(g);
	}
	return g->job ? g : NULL;
}

bool fan_mpi_turn_at_once(struct fan_mpi_turn *t, MPI_Comm comm, const struct fan_mpi_what *what,
			  bool *timed)
{
	*timed = false;
	if (!fan_mpi_world.on)
		return false;
	struct fan_mpi_group *g = t->group = fan_mpi_group_of(comm);
	t->what = *what;
	enum fan_mpi_why why = refuse(g, what);
	if (!why && !g->job) {
		*timed = fan_mpi_background_call(g, what->bytes);
		why = g->job ? FAN_WHY_TAKEN : FAN_WHY_EARLY;
	}
	if (!why && fan_mpi_world.use == FAN_USE_LEARN &&
	    !fan_learner_peek(g->learner, what->kind, what->bytes))
		why = FAN_WHY_FASTER;
	fan_mpi_report_add(why, what->bytes);
	return !why;
}
