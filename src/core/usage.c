/* SPDX-License-Identifier: Apache-2.0 */
/* usage.c - what a shared switch tells about its slots and the jobs it has seen. */
#include "asked.h"
#include "shared_priv.h"

/* Job number `index` of those seen, or NULL; `*jobs`: how many there are. */
static const struct fan_shared_job *find(const struct fan_shared *sh, uint16_t index,
					 uint16_t *jobs)
{
	const struct fan_shared_job *found = NULL;
	*jobs = 0;
	for (unsigned i = 0; i < fan_shared_places(sh); i++)
		if (fan_shared_job_at(sh, i)->used && (*jobs)++ == index)
			found = fan_shared_job_at(sh, i);
	return found;
}

static uint8_t copy_name(char *to, const struct fan_shared_job *j)
{
	uint8_t bytes = 0;
	memcpy(to, j->name, sizeof j->name);
	while (bytes < FAN_NAME_MAX && j->name[bytes])
		bytes++;
	return bytes;
}

void fan_shared_report(const struct fan_shared *sh, struct fan_shared_report *r)
{
	*r = (struct fan_shared_report){.slots = sh->cfg.slots};
	for (unsigned i = 0; i < fan_shared_places(sh); i++) {
		const struct fan_shared_job *j = fan_shared_job_at(sh, i);
		r->jobs += j->used;
		r->slots_used += j->used ? j->held : 0;
	}
	for (unsigned i = 0; i < sh->cfg.children_max; i++)
		r->children += sh->children[i].used;
}

void fan_shared_tally(const struct fan_shared *sh, struct fan_tallied *m)
{
	struct fan_shared_report all;
	uint16_t index = m->index;
	fan_shared_report(sh, &all);
	*m = (struct fan_tallied){
		.index = index,
		.policy = (uint8_t)sh->cfg.policy,
		.slots = all.slots,
		.slots_used = all.slots_used,
	};
	const struct fan_shared_job *j = find(sh, index, &m->jobs);
	if (!j)
		return;
	m->held = j->held;
	m->quota = j->quota;
	m->hits = j->use.hits;
	m->taken = j->use.taken;
	m->collisions = j->use.collisions;
	m->over_quota = j->use.over_quota;
	m->passed = j->use.passed;
	m->preemptions = j->use.preemptions;
	m->evictions = j->use.evictions;
	m->flushes = j->use.flushes;
	m->completions = j->use.completions;
	m->name_bytes = copy_name(m->name, j);
}

/* How ranks from m->first on stand. */
static void lags(const struct fan_shared *sh, struct fan_lags *m)
{
	const struct fan_shared_job *j = find(sh, m->index, &m->jobs);
	if (!j)
		return;
	m->ranks = j->ranks;
	m->name_bytes = copy_name(m->name, j);
	if (!j->lead.ahead)
		return;
	m->ahead = 1;
	m->front = j->lead.pace.front;
	for (; m->count < FAN_LAGS_RANKS && m->first + m->count < j->ranks; m->count++)
		fan_lead_standing(sh, j, (uint16_t)(m->first + m->count), &m->rank[m->count]);
}

/* Which ranks were given parts of which others, from pair m->first on.  `at` may end as the
 * pair behind the last possible one, which is 0 as m->next. */
static void helps(const struct fan_shared *sh, struct fan_helps *m)
{
	const struct fan_shared_job *j = find(sh, m->index, &m->jobs);
	unsigned at = m->first;
	if (!j)
		return;
	m->ranks = j->ranks;
	m->name_bytes = copy_name(m->name, j);
	for (unsigned n = 0;
	     n < FAN_HELPS_SCAN && m->count < FAN_HELPS_PAIRS && at < FAN_HELP_PAIR(j->ranks, 0u);
	     n++) {
		unsigned helper = at / FAN_RANKS_MAX, helped = at % FAN_RANKS_MAX;
		const uint32_t *row = fan_lead_row(sh, j, (uint16_t)helper);
		if (!row || helped >= j->ranks) {
			at = FAN_HELP_PAIR(helper + 1, 0u);
			continue;
		}
		if (row[helped])
			m->help[m->count++] = (struct fan_help){(uint16_t)at, row[helped]};
		at++;
	}
	m->next = at < FAN_HELP_PAIR(j->ranks, 0u) ? (uint16_t)at : 0;
}

/* As the home would tell it, as far as it is known here. */
static void report(const struct fan_shared *sh, struct fan_report *r)
{
	uint16_t index = r->index;
	*r = (struct fan_report){.index = index, .shards = sh->cfg.shards};
	const struct fan_shared_job *j = find(sh, index, &r->jobs);
	if (!j)
		return;
	r->state = FAN_JOB_READY;
	r->ranks = j->ranks;
	r->window = j->window;
	r->results = j->use.results;
	r->name_bytes = copy_name(r->name, j);
}

void fan_usage_prepare(struct fan_shared *sh)
{
	uint32_t most = sh->cfg.quota ? sh->cfg.quota : sh->cfg.slots;
	const struct fan_echoed who = {
		.payload_bytes = sh->cfg.payload_bytes,
		.shards = sh->cfg.shards,
		.window = (uint16_t)(most < FAN_WINDOW_MAX ? most : FAN_WINDOW_MAX),
	};
	fan_asked_prepare(sh->echoed, &who);
}

enum fan_verdict fan_usage_recv(struct fan_shared *sh, const fan_peer *from,
				const struct fan_frag *f, struct fan_out *out)
{
	struct fan_query q;
	if (f->type == FAN_TYPE_ECHO)
		return fan_asked_echo(sh->echoed, from, f, out)
			       ? FAN_CTL
			       : fan_shared_drop(sh, FAN_DROP_FORMAT);
	if (fan_query_get(&q, f) != FAN_OK)
		return fan_shared_drop(sh, FAN_DROP_FORMAT);
	uint8_t *body = fan_out_scratch(out, FAN_CTL_BYTES_MAX);
	if (f->type == FAN_TYPE_QUERY) {
		struct fan_report r = {.index = q.index};
		report(sh, &r);
		fan_asked_put(from, FAN_TYPE_REPORT, f, body, fan_report_put(body, &r), out);
	} else if (f->type == FAN_TYPE_LAG) {
		struct fan_lags m = {.index = q.index, .first = q.first};
		lags(sh, &m);
		fan_asked_put(from, FAN_TYPE_LAGS, f, body, fan_lags_put(body, &m), out);
	} else if (f->type == FAN_TYPE_HELP) {
		struct fan_helps m = {.index = q.index, .first = q.first};
		helps(sh, &m);
		fan_asked_put(from, FAN_TYPE_HELPS, f, body, fan_helps_put(body, &m), out);
	} else {
		struct fan_tallied m = {.index = q.index};
		fan_shared_tally(sh, &m);
		fan_asked_put(from, FAN_TYPE_TALLIED, f, body, fan_tallied_put(body, &m), out);
	}
	return FAN_CTL;
}
