/* SPDX-License-Identifier: Apache-2.0 */
/* report.c - an aggregator's reports about itself, its jobs and their ranks. */
#include <assert.h>

#include "aggregator_priv.h"
#include "core/wire/query.h"

/* Job number `index` of those there are, or NULL; `*jobs`: how many there are. */
static const struct fan_job *find_job(const struct fan_aggregator *ag, uint16_t index,
				      uint16_t *jobs)
{
	const struct fan_job *found = NULL;
	*jobs = 0;
	for (unsigned i = 0; i < ag->jobs.used; i++)
		if (ag->jobs.job[i].state != FAN_JOB_NONE && (*jobs)++ == index)
			found = &ag->jobs.job[i];
	return found;
}

/* How long fragments have been open without a result. */
static uint32_t age_ms(const struct fan_aggregator *ag, const struct fan_job *j)
{
	const uint64_t ms = (ag->now_ns - j->still_ns) / FAN_MS;
	return ms < FAN_AGE_NOT_TOLD ? (uint32_t)ms : FAN_AGE_NOT_TOLD - 1;
}

static uint16_t operations(const struct fan_job *j)
{
	const int32_t open = j->operations_open;
	return open < 0 ? 0 : open < UINT16_MAX ? (uint16_t)open : UINT16_MAX;
}

void fan_aggregator_report(const struct fan_aggregator *ag, struct fan_report *r)
{
	uint16_t index = r->index;
	memset(r, 0, sizeof *r);
	r->index = index;
	r->shards = ag->cfg.shards;
	const struct fan_job *j = find_job(ag, index, &r->jobs);
	if (!j)
		return;
	r->state = (uint8_t)j->state;
	r->err = j->fault.err;
	r->multicast = j->group.multicast;
	r->ranks = j->ranks;
	r->window = j->window;
	r->results = j->results;
	r->replays = j->replays;
	r->waiting = fan_job_open(j, &r->oldest);
	fan_job_missing(j, r->oldest, r->waiting > 0, r->missing);
	r->name_bytes = fan_name_copy(r->name, j->name);
	r->age_ms = r->waiting ? age_ms(ag, j) : FAN_AGE_NOT_TOLD;
	r->operations = operations(j);
	r->work = j->work;
	r->work.reported = true;
	r->work.busy_ns = (int64_t)j->work.busy_ns > 0 ? j->work.busy_ns : 0;
}

static bool knows_host(const void *self, uint16_t index, const fan_peer *from)
{
	uint16_t jobs;
	const struct fan_job *j = find_job(self, index, &jobs);
	for (unsigned r = 0; j && r < j->ranks; r++)
		if (j->members[r].flags & FAN_MEMBER_SURE && fan_peer_same_host(&j->peers[r], from))
			return true;
	return false;
}

void fan_aggregator_drain(struct fan_aggregator *ag, uint64_t now_ns, const struct fan_drain *of)
{
	if (of->goodbye)
		fan_aggregator_stop(ag, now_ns);
	ag->drains = true;
	ag->drain = *of;
}

static bool is_awaited(const struct fan_drain *d, const struct fan_job *j)
{
	bool found = !d->count;
	for (unsigned i = 0; i < d->count && !found; i++) {
		const char *end = memchr(d->head[i], '\0', sizeof d->head[i]);
		found = end && !memcmp(j->name, d->head[i], (size_t)(end - d->head[i]));
	}
	return found;
}

unsigned fan_aggregator_undrained(const struct fan_aggregator *ag)
{
	unsigned n = 0;
	for (unsigned i = 0; i < ag->jobs.used; i++) {
		const struct fan_job *j = &ag->jobs.job[i];
		const bool reported = j->state == FAN_JOB_FORMING && ag->stop_ns; /* is to be */
		const bool closed = j->fault.err == FAN_E_CLOSED; /* nobody needs anything of it */
		if (j->state == FAN_JOB_READY || (j->state == FAN_JOB_FAILED && !closed) ||
		    reported)
			n += is_awaited(&ag->drain, j);
	}
	return n;
}

/* How ranks from m->first on stand. */
static void report_ranks(const void *self, struct fan_rank_stats *m)
{
	const struct fan_job *j = find_job(self, m->index, &m->jobs);
	if (!j)
		return;
	m->ranks = j->ranks;
	m->name_bytes = fan_name_copy(m->name, j->name);
	if (!j->burst)
		return;
	m->ahead = 1;
	m->front = j->progress.front;
	for (; m->count < FAN_STATS_RANKS && m->first + m->count < j->ranks; m->count++)
		fan_progress_standing(&j->progress, (uint16_t)(m->first + m->count),
				      &m->rank[m->count]);
}

static void report_job(const void *self, struct fan_report *m)
{
	fan_aggregator_report(self, m);
}

/* No slots are shared here, and no helper gets anything from here. */
enum fan_verdict fan_report_query(struct fan_aggregator *ag, const fan_peer *from,
				  const struct fan_frag *f, struct fan_out *out)
{
	static const struct fan_query_source tells = {
		.knows = knows_host, .job = report_job, .ranks = report_ranks};
	return fan_query_recv(&tells, ag, ag->echoed, from, f, out)
		       ? FAN_CTL
		       : fan_aggregator_drop(ag, FAN_DROP_FORMAT);
}

void fan_aggregator_behind_loses(struct fan_aggregator *ag, uint16_t bytes)
{
	const struct fan_echoed m = {
		.payload_bytes = ag->cfg.payload_bytes,
		.shards = ag->cfg.shards,
		.window = ag->cfg.window_max,
		.group_family = ag->cfg.group_family,
		.behind_loses = bytes,
	};
	fan_query_prepare(ag->echoed, &m);
}

const struct fan_aggregator_stats *fan_aggregator_stats(const struct fan_aggregator *ag)
{
	return &ag->stats;
}

void fan_aggregator_audit(const struct fan_aggregator *ag)
{
	assert(ag->event_count <= FAN_EVENTS_MAX);
	fan_jobs_audit(&ag->jobs);
	for (unsigned i = 0; i < ag->jobs.used; i++)
		if (ag->jobs.job[i].state != FAN_JOB_NONE && ag->jobs.job[i].up)
			fan_worker_audit(ag->jobs.job[i].up);
}
