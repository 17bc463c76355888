/* SPDX-License-Identifier: Apache-2.0 */
#include <assert.h>
#include <stdlib.h>

#include "core/helper/policy_sa_atp.h"
#include "core/switch/routed.h"
#include "core/switch/switch_priv.h"
#include "experiment.h"

/* ---- standings ---- */

static bool loans_init(struct fan_standing_loans *l, size_t ranks)
{
	l->lent = calloc(ranks * (ranks + 2), sizeof *l->lent);
	l->deferred = l->lent + ranks;
	l->kept = l->deferred + ranks;
	return l->lent != NULL;
}

/* False: out of memory. */
static bool standings_init(struct fan_standings *s, uint32_t ranks, uint64_t interval_ns)
{
	assert(ranks > 0);
	memset(s, 0, sizeof *s);
	s->ranks = ranks;
	s->interval_ns = interval_ns ? interval_ns : 1;
	s->sum = calloc((size_t)ranks * FAN_STANDING_MAX, sizeof *s->sum);
	bool ok = loans_init(&s->all, ranks);
	ok &= loans_init(&s->past, ranks);
	return ok && s->sum;
}

void fan_standings_free(struct fan_standings *s)
{
	free(s->sum);
	free(s->all.lent);
	free(s->past.lent);
}

static struct fan_standing_at *sum_at(const struct fan_standings *s, uint32_t rank, uint32_t i)
{
	assert(rank < s->ranks && i < FAN_STANDING_MAX);
	return &s->sum[(size_t)rank * FAN_STANDING_MAX + i];
}

static void halve(struct fan_standings *s)
{
	for (uint32_t i = 0; i < FAN_STANDING_MAX; i++) {
		bool both = i < FAN_STANDING_MAX / 2;
		s->weight[i] = both ? s->weight[2 * i] + s->weight[2 * i + 1] : 0;
		for (uint32_t r = 0; r < s->ranks; r++) {
			struct fan_standing_at *to = sum_at(s, r, i), sum = {0, 0};
			for (uint32_t k = 2 * i; both && k < 2 * i + 2; k++) {
				sum.behind += sum_at(s, r, k)->behind;
				sum.kept += sum_at(s, r, k)->kept;
			}
			*to = sum;
		}
	}
	s->count = (s->count + 1) / 2;
	s->interval_ns *= 2;
}

/* Record that the s->ranks ranks stand as `at` says.  Time does not run backwards. */
static void standings_look(struct fan_standings *s, uint64_t now_ns,
			   const struct fan_standing_at *at)
{
	if (!s->count)
		s->start_ns = now_ns;
	while ((now_ns - s->start_ns) / s->interval_ns >= FAN_STANDING_MAX)
		halve(s);
	uint32_t i = (uint32_t)((now_ns - s->start_ns) / s->interval_ns);
	s->count = i + 1;
	s->weight[i]++;
	for (uint32_t r = 0; r < s->ranks; r++) {
		sum_at(s, r, i)->behind += at[r].behind;
		sum_at(s, r, i)->kept += at[r].kept;
	}
}

/* The switch has counted so much for `rank` until now in its life `life`: in a new one all counts
 * begin at 0. */
static void standings_count(struct fan_standings *s, const uint64_t life[2], uint16_t rank,
			    uint32_t lent, uint32_t deferred, const uint32_t *kept)
{
	assert(rank < s->ranks);
	size_t counts = (size_t)s->ranks * (s->ranks + UINT32_C(2));
	if (memcmp(s->life, life, sizeof s->life) != 0)
		memcpy(s->past.lent, s->all.lent, counts * sizeof *s->past.lent);
	memcpy(s->life, life, sizeof s->life);
	s->all.lent[rank] = s->past.lent[rank] + lent;
	s->all.deferred[rank] = s->past.deferred[rank] + deferred;
	for (uint32_t h = 0; kept && h < s->ranks; h++) {
		size_t pair = (size_t)rank * s->ranks + h;
		s->all.kept[pair] = s->past.kept[pair] + kept[h];
	}
}

/* Record each rank's lag and what it keeps. */
static void note_lags(struct fan_experiment_job *j, uint64_t now_ns)
{
	struct fan_standing_at at[FAN_RANKS_MAX] = {{0, 0}};
	uint64_t front = 0;
	for (uint32_t r = 0; r < j->cfg.ranks; r++) {
		struct fan_trainer *t = &j->trainer[r];
		if (!t->core || fan_worker_phase(t->core) != FAN_W_READY)
			return; /* not all have joined */
		const struct fan_worker_stats *st = fan_worker_stats(t->core);
		t->lag.next = st->next;
		at[r].kept = st->cache.open;
		front = t->lag.next > front ? t->lag.next : front;
	}
	for (uint32_t r = 0; r < j->cfg.ranks; r++) {
		struct fan_trainer_lag *lag = &j->trainer[r].lag;
		at[r].behind = front - lag->next;
		lag->sum += at[r].behind;
		lag->max = at[r].behind > lag->max ? at[r].behind : lag->max;
		lag->samples++;
	}
	standings_look(&j->standings, now_ns, at);
}

static uint64_t id_of(const struct fan_switch_job *j)
{
	return (uint64_t)j->id << 32 | j->epoch;
}

/* The job at this switch, or NULL.  After a restart the switch knows no names. */
static const struct fan_switch_job *find_job(const struct fan_switch *sw,
					     const struct fan_experiment_job *j)
{
	for (unsigned i = 0; sw && i < fan_switch_places(sw); i++) {
		const struct fan_switch_job *at = fan_switch_job_at(sw, i);
		bool same = at->name[0] ? strcmp(at->name, j->cfg.name) == 0
					: id_of(at) == j->standings.life[1];
		if (at->used && at->ahead && same)
			return at;
	}
	return NULL;
}

/* Record what a switch counts for the job's ranks: the first switch with all of them below, since
 * only such a switch lends, else the first that knows the job.  After a restart of the switch or
 * the job its counts begin at 0; until then the last ones hold. */
static void note_loans(const struct fan_experiment *e, struct fan_experiment_job *j)
{
	const struct fan_switch *sw = NULL;
	const struct fan_switch_job *found = NULL;
	uint64_t life[2] = {0};
	if (j->cfg.seat && j->cfg.seat[0].ranks != j->cfg.ranks)
		return; /* a tree: each leaf lends to its own ranks only */
	for (uint32_t n = 0; n < e->scenario->nodes && !(found && fan_path_has_all(found)); n++) {
		const struct fan_sim_daemon *d = e->daemon[n];
		const struct fan_switch_job *one = d ? find_job(d->slots, j) : NULL;
		if (!one || (found && !fan_path_has_all(one)))
			continue;
		sw = d->slots;
		found = one;
		life[0] = (uint64_t)n << 32 | d->restarts;
		life[1] = id_of(one);
	}
	for (uint16_t r = 0; found && r < j->cfg.ranks && r < found->ranks; r++)
		standings_count(&j->standings, life, r, found->sa->lent[r], found->sa->deferred[r],
				fan_run_ahead.row(sw, found, r));
}

static void tick(void *self)
{
	struct fan_observer *o = self;
	const struct fan_experiment *e = o->experiment;
	uint64_t now_ns = o->next_ns;
	o->next_ns += o->interval_ns;
	for (uint32_t i = 0; i < e->scenario->jobs; i++) {
		struct fan_experiment_job *j = &e->job[i];
		if (!j->standings.ranks)
			continue;
		note_lags(j, now_ns);
		note_loans(e, j);
	}
}

static uint64_t deadline(void *self)
{
	return ((const struct fan_observer *)self)->next_ns;
}

static const struct fan_actor_ops ops = {fan_sim_hear_nothing, tick, deadline};

bool fan_observer_begin(struct fan_observer *o, struct fan_experiment *e, uint64_t interval_ns)
{
	bool any = false, ok = true;
	for (uint32_t i = 0; i < e->scenario->jobs; i++) {
		struct fan_experiment_job *j = &e->job[i];
		if (!j->cfg.ahead || j->shared.by_ring || j->cfg.ranks > FAN_RANKS_MAX)
			continue;
		any = true;
		ok &= standings_init(&j->standings, j->cfg.ranks, interval_ns);
	}
	*o = (struct fan_observer){
		.experiment = e, .interval_ns = interval_ns, .next_ns = interval_ns};
	if (!any || !ok)
		return ok;
	o->actor = fan_sim_add_actor(&e->sim, 0, o, &ops);
	if (o->actor == FAN_SIM_NONE)
		return false;
	fan_sim_wake(&e->sim, o->actor);
	return true;
}
