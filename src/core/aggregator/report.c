/* SPDX-License-Identifier: Apache-2.0 */
/* report.c - what an aggregator tells about its jobs and their ranks. */
#include "aggregator_priv.h"
#include "core/base/name.h"

/* Job number `index` of those there are, or NULL; `*jobs`: how many there are. */
static const struct fan_job *find_job(const struct fan_aggregator *ag, uint16_t index,
				      uint16_t *jobs)
{
	const struct fan_job *found = NULL;
	*jobs = 0;
	for (unsigned i = 0; i < ag->jobs.max; i++)
		if (ag->jobs.job[i].state != FAN_JOB_NONE && (*jobs)++ == index)
			found = &ag->jobs.job[i];
	return found;
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
}

bool fan_aggregator_knows(const struct fan_aggregator *ag, uint16_t index, const fan_peer *from)
{
	uint16_t jobs;
	const struct fan_job *j = find_job(ag, index, &jobs);
	for (unsigned r = 0; j && r < j->ranks; r++)
		if (j->members[r].flags & FAN_MEMBER_SURE && fan_peer_same_host(&j->peers[r], from))
			return true;
	return false;
}

void fan_aggregator_rank_stats(const struct fan_aggregator *ag, struct fan_rank_stats *m)
{
	*m = (struct fan_rank_stats){.index = m->index, .first = m->first};
	const struct fan_job *j = find_job(ag, m->index, &m->jobs);
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
