/* SPDX-License-Identifier: Apache-2.0 */
/* stats.c - a switch's reports about its slots and the jobs that it has seen. */
#include "child.h"
#include "core/wire/query.h"
#include "routed.h"
#include "switch_priv.h"

/* Job number `index` of those seen, or NULL; `*jobs`: how many there are. */
static const struct fan_switch_job *find(const struct fan_switch *sw, uint16_t index,
					 uint16_t *jobs)
{
	const struct fan_switch_job *found = NULL;
	*jobs = 0;
	for (unsigned i = 0; i < fan_switch_places(sw); i++)
		if (fan_switch_job_at(sw, i)->used && (*jobs)++ == index)
			found = fan_switch_job_at(sw, i);
	return found;
}

const struct fan_switch_stats *fan_switch_stats(const struct fan_switch *sw)
{
	return &sw->stats;
}

void fan_switch_report(const struct fan_switch *sw, struct fan_switch_report *r)
{
	*r = (struct fan_switch_report){.slots = sw->cfg.slots};
	for (unsigned i = 0; i < fan_switch_places(sw); i++) {
		const struct fan_switch_job *j = fan_switch_job_at(sw, i);
		r->jobs += j->used;
		r->slots_used += j->used ? j->held : 0;
	}
	for (unsigned i = 0; i < sw->cfg.children_max; i++)
		r->children += sw->marks[i] != 0;
}

void fan_switch_slot_stats(const struct fan_switch *sw, struct fan_slot_stats *m)
{
	struct fan_switch_report all;
	uint16_t index = m->index;
	fan_switch_report(sw, &all);
	*m = (struct fan_slot_stats){
		.index = index,
		.policy = (uint8_t)sw->cfg.policy,
		.slots = all.slots,
		.slots_used = all.slots_used,
	};
	const struct fan_switch_job *j = find(sw, index, &m->jobs);
	if (!j)
		return;
	m->held = j->held;
	m->quota = j->quota;
	m->hits = j->stats.hits;
	m->taken = j->stats.taken;
	m->collisions = j->stats.collisions;
	m->over_quota = j->stats.over_quota;
	m->passed = j->stats.passed;
	m->preemptions = j->stats.preemptions;
	m->evictions = j->stats.evictions;
	m->flushes = j->stats.flushes;
	m->completions = j->stats.completions;
	m->name_bytes = fan_name_copy(m->name, j->name);
}

/* How ranks from m->first on stand. */
static void report_ranks(const void *self, struct fan_rank_stats *m)
{
	const struct fan_switch *sw = self;
	const struct fan_switch_job *j = find(sw, m->index, &m->jobs);
	if (!j)
		return;
	m->ranks = j->ranks;
	m->name_bytes = fan_name_copy(m->name, j->name);
	fan_run_ahead.rank_stats(sw, j, m);
}

/* Which ranks were given contributions of which others, from pair m->first on.  `at` may end as the
 * pair behind the last possible one, which is 0 as m->next. */
static void report_helpers(const void *self, struct fan_helper_stats *m)
{
	const struct fan_switch *sw = self;
	const struct fan_switch_job *j = find(sw, m->index, &m->jobs);
	unsigned at = m->first;
	if (!j)
		return;
	m->ranks = j->ranks;
	m->name_bytes = fan_name_copy(m->name, j->name);
	for (unsigned n = 0;
	     n < FAN_STATS_SCAN && m->count < FAN_STATS_PAIRS && at < FAN_HELPER_PAIR(j->ranks, 0u);
	     n++) {
		unsigned helper = at / FAN_RANKS_MAX, helped = at % FAN_RANKS_MAX;
		const uint32_t *row = fan_run_ahead.row(sw, j, (uint16_t)helper);
		if (!row || helped >= j->ranks) {
			at = FAN_HELPER_PAIR(helper + 1, 0u);
			continue;
		}
		if (row[helped])
			m->help[m->count++] = (struct fan_helper_pair){(uint16_t)at, row[helped]};
		at++;
	}
	m->next = at < FAN_HELPER_PAIR(j->ranks, 0u) ? (uint16_t)at : 0;
}

/* The aggregator's report, as far as it is known here. */
static void report_job(const void *self, struct fan_report *r)
{
	const struct fan_switch *sw = self;
	uint16_t index = r->index;
	*r = (struct fan_report){.index = index, .shards = sw->cfg.shards};
	const struct fan_switch_job *j = find(sw, index, &r->jobs);
	if (!j)
		return;
	r->state = FAN_JOB_READY;
	r->ranks = j->ranks;
	r->window = j->window;
	r->results = j->stats.results;
	r->name_bytes = fan_name_copy(r->name, j->name);
	r->age_ms = FAN_AGE_NOT_TOLD;
}

void fan_switch_behind_loses(struct fan_switch *sw, uint16_t bytes)
{
	uint32_t most = sw->cfg.quota ? sw->cfg.quota : sw->cfg.slots;
	const struct fan_echoed who = {
		.payload_bytes = sw->cfg.payload_bytes,
		.shards = sw->cfg.shards,
		.window = (uint16_t)(most < FAN_WINDOW_MAX ? most : FAN_WINDOW_MAX),
		.behind_loses = bytes,
	};
	fan_query_prepare(sw->echoed, &who);
}

static bool knows_host(const void *self, uint16_t index, const fan_peer *from)
{
	const struct fan_switch *sw = self;
	uint16_t jobs;
	const struct fan_switch_job *j = find(sw, index, &jobs);
	for (unsigned r = 0; j && r < j->ranks; r++)
		if (j->child[r] && fan_peer_same_host(&sw->children[j->child[r] - 1].peer, from))
			return true;
	return false;
}

static void report_slots(const void *self, struct fan_slot_stats *m)
{
	fan_switch_slot_stats(self, m);
}

enum fan_verdict fan_stats_recv(struct fan_switch *sw, const fan_peer *from,
				const struct fan_frag *f, struct fan_out *out)
{
	static const struct fan_query_source tells = {knows_host, report_job, report_slots,
						      report_ranks, report_helpers};
	return fan_query_recv(&tells, sw, sw->echoed, from, f, out)
		       ? FAN_CTL
		       : fan_switch_drop(sw, FAN_DROP_FORMAT);
}

/* Slots that the job holds. */
static uint32_t count_held(const struct fan_switch *sw, const struct fan_switch_job *j)
{
	uint32_t held = 0;
	for (uint32_t i = 0; i < sw->slots.count; i++)
		held += fan_switch_holds(j, &sw->slots.slot[i]);
	return held;
}

void fan_switch_audit(const struct fan_switch *sw)
{
	uint32_t held = 0;
	fan_sslots_audit(&sw->slots);
	fan_child_audit(sw);
	for (uint32_t i = 0; i < sw->slots.count; i++)
		held += fan_sslot_holds(&sw->slots.slot[i]);
	for (unsigned i = 0; i < fan_switch_places(sw); i++) {
		const struct fan_switch_job *j = fan_switch_job_at(sw, i);
		uint64_t all[FAN_RANK_WORDS];
		if (!j->used)
			continue;
		fan_switch_job_check(j);
		fan_ranks_all(all, j->ranks);
		assert(fan_ranks_within(j->below, all));
		for (unsigned r = 0; r < j->ranks; r++)
			assert(j->child[r] <= sw->cfg.children_max);
		assert(count_held(sw, j) == j->held && j->held <= held);
		held -= j->held;
	}
	assert(held == 0); /* each by a job that is known */
}
