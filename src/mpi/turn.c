/* SPDX-License-Identifier: Apache-2.0 */
#include "turn.h"

#include <assert.h>
#include <stdint.h>

#include "report.h"
#include "world.h"

size_t fan_mpi_message_bytes(MPI_Count count, size_t each)
{
	size_t bytes;
	return count > 0 && !__builtin_mul_overflow((size_t)count, each, &bytes) &&
			       bytes <= PTRDIFF_MAX
		       ? bytes
		       : 0;
}

bool fan_mpi_buffers_fit(const void *in, size_t in_bytes, const void *out, size_t out_bytes)
{
	const uintptr_t a = (uintptr_t)in, b = (uintptr_t)out;
	if (!in || !out || out == MPI_IN_PLACE)
		return false;
	return in == MPI_IN_PLACE || (a < b ? b - a >= in_bytes : a - b >= out_bytes);
}

bool fan_mpi_what_sum(struct fan_mpi_what *what, struct fan_mpi_sum *sum,
		      enum fan_learner_kind kind, MPI_Count count, MPI_Datatype type, MPI_Op op)
{
	bool known = fan_mpi_sum_find(sum, type, op);
	*what = (struct fan_mpi_what){
		.kind = kind,
		.bytes =
			fan_mpi_message_bytes(count, known ? sum->bytes : fan_mpi_type_bytes(type)),
		.known = known,
	};
	return known;
}

/* Below, calls go to the MPI. */
static size_t least_bytes(void)
{
	return fan_mpi_world.use == FAN_USE_LEARN ? FAN_LEARNER_LEAST_BYTES : FAN_MPI_LEAST_BYTES;
}

/* Why a call cannot go to fanin, whatever the learner decides; FAN_WHY_TAKEN: it can. */
static enum fan_mpi_why refuse(const struct fan_mpi_group *g, const struct fan_mpi_what *what)
{
	if (!g)
		return FAN_WHY_COMM;
	if (g->off)
		return g->off;
	if (!what->known || what->root < 0 || what->root >= g->ranks)
		return FAN_WHY_KIND;
	if (what->kind == FAN_LEARNER_BARRIER && fan_mpi_world.use == FAN_USE_ALWAYS)
		return FAN_WHY_TAKEN;
	return what->bytes < least_bytes() ? FAN_WHY_SMALL : FAN_WHY_TAKEN;
}

/* Is no job joined, nor about to be? */
static bool is_early(const struct fan_mpi_group *g)
{
	return !g->job && !fan_mpi_group_has_enough(g);
}

/* Count a call towards the join, so that barriers must look again.  Barriers do not count: a
 * program may have no other calls. */
static void count(struct fan_mpi_group *g, const struct fan_mpi_what *what)
{
	fan_mpi_pass_forget(&g->passes[FAN_LEARNER_BARRIER]);
	g->calls += what->kind != FAN_LEARNER_BARRIER;
	g->bytes += what->bytes;
}

static enum fan_mpi_why choose(struct fan_mpi_turn *t)
{
	assert(t->group);
	struct fan_mpi_group *g = t->group;
	if (!g->job) {
		count(g, &t->what);
		fan_mpi_group_join(g);
	}
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

/* Why calls equal to this one go to the MPI, and how many: *rest, or all.  False: they may go to
 * fanin. */
static bool find_pass(struct fan_mpi_group *g, const struct fan_mpi_what *what, uint64_t **rest,
		      enum fan_mpi_why *why)
{
	assert(what->kind < FAN_LEARNER_KINDS);
	*rest = NULL;
	*why = refuse(g, what);
	if (!*why && what->kind == FAN_LEARNER_BARRIER && is_early(g))
		*why = FAN_WHY_EARLY;
	if (*why || !g->job || fan_mpi_world.use != FAN_USE_LEARN)
		return *why;
	*why = FAN_WHY_FASTER;
	*rest = fan_learner_rest(g->learner, what->kind, what->bytes);
	return *rest;
}

bool fan_mpi_turn_passes(enum fan_learner_kind kind, MPI_Count count, MPI_Datatype type, MPI_Op op,
			 int root, MPI_Comm comm)
{
	struct fan_mpi_what what = {.kind = kind, .known = true, .root = root};
	size_t each = 0;
	uint64_t *rest;
	enum fan_mpi_why why;
	if (!fan_mpi_world.on)
		return true;
	struct fan_mpi_group *g = fan_mpi_group_of(comm);
	if (!g)
		return false;
	if (kind != FAN_LEARNER_BARRIER && !fan_mpi_type_is_named(type, op, &each, &what.known))
		return false;
	what.bytes = fan_mpi_message_bytes(count, each);
	if (!g->off && (root < 0 || root >= g->ranks))
		return false;
	if (!find_pass(g, &what, &rest, &why))
		return false;
	struct fan_mpi_pass *p = &g->passes[kind];
	fan_mpi_pass_remember(p, count, type, op, rest, what.bytes, why);
	return fan_mpi_pass_next(p, count, type, op);
}

bool fan_mpi_turn_begin(struct fan_mpi_turn *t, MPI_Comm comm, const struct fan_mpi_what *what)
{
	t->step.trial = false;
	if (!fan_mpi_world.on)
		return false;
	t->group = fan_mpi_group_of(comm);
	t->what = *what;
	if (t->group)
		fan_mpi_pass_forget(&t->group->passes[what->kind]);
	enum fan_mpi_why why = refuse(t->group, what);
	if (!why)
		why = choose(t);
	fan_mpi_report_add(why, 1, what->bytes);
	return !why;
}

static double unsettled(const struct fan_mpi_group *g)
{
	assert(g->job);
	struct fanin_part first = {.size = sizeof first};
	struct fanin_stats stats = {.size = sizeof stats};
	if (fanin_comm_stats(g->job, &stats) || stats.parts < 2 ||
	    fanin_comm_part(g->job, 0, &first))
		return 0;
	return !first.settled;
}

/* All ranks adopt the largest of their times, and so decide alike. */
static void agree(struct fan_mpi_turn *t)
{
	assert(t->step.trial && t->step.class);
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
		*t->step.time_s += now_s - t->call_s;
	t->step.class->times.trial_s += now_s - t->trial_s;
	if (t->step.agree)
		agree(t);
	return e;
}

bool fan_mpi_turn_at_once(struct fan_mpi_turn *t, MPI_Comm comm, const struct fan_mpi_what *what)
{
	if (!fan_mpi_world.on)
		return false;
	struct fan_mpi_group *g = t->group = fan_mpi_group_of(comm);
	enum fan_mpi_why why = refuse(g, what);
	if (!why && !g->job) {
		count(g, what);
		why = FAN_WHY_EARLY;
	}
	if (!why && fan_mpi_world.use == FAN_USE_LEARN &&
	    !fan_learner_peek(g->learner, what->kind, what->bytes))
		why = FAN_WHY_FASTER;
	fan_mpi_report_add(why, 1, what->bytes);
	return !why;
}
