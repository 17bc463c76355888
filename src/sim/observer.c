/* SPDX-License-Identifier: Apache-2.0 */
#include "observer.h"

#include "experiment.h"

/* How far each rank of the job is behind the furthest. */
static void note_lags(struct fan_experiment_job *j)
{
	uint64_t front = 0;
	for (uint32_t r = 0; r < j->cfg.ranks; r++) {
		struct fan_trainer *t = &j->trainer[r];
		if (!t->core || fan_worker_phase(t->core) != FAN_W_READY)
			return; /* not all are there */
		t->lag.next = fan_worker_stats(t->core)->next;
		front = t->lag.next > front ? t->lag.next : front;
	}
	for (uint32_t r = 0; r < j->cfg.ranks; r++) {
		struct fan_trainer_lag *lag = &j->trainer[r].lag;
		uint64_t behind = front - lag->next;
		lag->sum += behind;
		lag->max = behind > lag->max ? behind : lag->max;
		lag->samples++;
	}
}

/* What the switch counts of the job's ranks; 0 after a restart: what it said last holds. */
static void note_loans(struct fan_experiment_job *j, const struct fan_sharer *h)
{
	struct fan_lag lag;
	for (unsigned i = 0; fan_shared_lag(h->core, i, 0, &lag); i++) {
		if (!lag.ahead || strcmp(lag.name, j->cfg.name) != 0)
			continue;
		for (uint32_t r = 0; r < j->cfg.ranks; r++) {
			struct fan_trainer_lag *mine = &j->trainer[r].lag;
			if (!fan_shared_lag(h->core, i, (uint16_t)r, &lag))
				break;
			mine->lent = lag.lent > mine->lent ? lag.lent : mine->lent;
			mine->owed = lag.owed > mine->owed ? lag.owed : mine->owed;
		}
	}
}

static void tick(void *self)
{
	struct fan_observer *o = self;
	const struct fan_experiment *e = o->experiment;
	o->next_ns += o->interval_ns;
	for (uint32_t i = 0; i < e->scenario->jobs; i++) {
		struct fan_experiment_job *j = &e->job[i];
		if (!j->cfg.ahead)
			continue;
		note_lags(j);
		for (uint32_t n = 0; n < e->scenario->nodes; n++)
			if (e->sharer[n])
				note_loans(j, e->sharer[n]);
	}
}

static uint64_t deadline(void *self)
{
	return ((const struct fan_observer *)self)->next_ns;
}

static void recv_packet(void *self, const struct fan_sim_packet *p)
{
	(void)self;
	(void)p;
}

static const struct fan_actor_ops ops = {recv_packet, tick, deadline};

bool fan_observer_begin(struct fan_observer *o, struct fan_experiment *e, uint64_t interval_ns)
{
	bool any = false;
	for (uint32_t i = 0; i < e->scenario->jobs; i++)
		any |= e->job[i].cfg.ahead != 0;
	*o = (struct fan_observer){
		.experiment = e, .interval_ns = interval_ns, .next_ns = interval_ns};
	if (!any)
		return true;
	o->actor = fan_sim_add_actor(&e->sim, 0, o, &ops);
	if (o->actor == FAN_SIM_NONE)
		return false;
	fan_sim_wake(&e->sim, o->actor);
	return true;
}
