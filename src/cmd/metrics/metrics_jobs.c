/* SPDX-License-Identifier: Apache-2.0 */
/* metrics_jobs.c - the jobs of shards, as families of metrics. */
#include "metrics_jobs.h"

#include <stdlib.h>
#include <string.h>

#include "core/base/rank_set.h"
#include "net/logline.h"

#define JOBS_MAX (FAN_SHARDS_MAX * FAN_JOBS_MAX)
#define NS_PER_S 1e9
#define STEP	 16 /* entries by which a list grows */

/* Room for one more entry of `bytes` bytes; NULL: there is none. */
static void *room(void *list, unsigned count, size_t bytes)
{
	if (count >= JOBS_MAX)
		return NULL;
	return count % STEP ? list : realloc(list, (count + STEP) * bytes);
}

static bool same_name(const char *a, size_t a_bytes, const char *b, size_t b_bytes)
{
	return a_bytes == b_bytes && memcmp(a, b, a_bytes) == 0;
}

void metrics_add_job(struct metrics_jobs *m, unsigned shard, const struct fan_report *r)
{
	unsigned copy = 0;

	for (unsigned i = 0; i < m->jobs; i++) {
		struct metrics_job *j = &m->job[i];
		if (j->shard != shard ||
		    !same_name(j->report.name, j->report.name_bytes, r->name, r->name_bytes))
			continue;
		if (r->state == FAN_JOB_FAILED)
			return;
		if (j->report.state == FAN_JOB_FAILED) {
			j->report = *r;
			return;
		}
		copy++;
	}
	struct metrics_job *list = room(m->job, m->jobs, sizeof *list);
	if (!list) {
		m->lost = true;
		return;
	}
	m->job = list;
	m->job[m->jobs++] = (struct metrics_job){shard, copy, *r};
}

void metrics_add_slots(struct metrics_jobs *m, unsigned shard, const struct fan_slot_stats *s)
{
	unsigned copy = 0;

	for (unsigned i = 0; i < m->slot_jobs; i++) {
		const struct metrics_slots *j = &m->slots[i];
		copy += j->shard == shard &&
			same_name(j->slots.name, j->slots.name_bytes, s->name, s->name_bytes);
	}
	struct metrics_slots *list = room(m->slots, m->slot_jobs, sizeof *list);
	if (!list) {
		m->lost = true;
		return;
	}
	m->slots = list;
	m->slots[m->slot_jobs++] = (struct metrics_slots){shard, copy, *s};
}

void metrics_jobs_free(struct metrics_jobs *m)
{
	free(m->job);
	free(m->slots);
}

static struct fan_labels labels_of(unsigned shard, const char *name, size_t bytes, unsigned copy)
{
	struct fan_labels l = {.used = 0};

	fan_labels_number(&l, "shard", shard);
	fan_labels_add(&l, "fanin_job", name, bytes);
	if (copy)
		fan_labels_number(&l, "copy", copy);
	return l;
}

static struct fan_labels labels_of_job(const struct metrics_job *j)
{
	return labels_of(j->shard, j->report.name, j->report.name_bytes, j->copy);
}

static void put_states(struct fan_expose *x, const struct metrics_jobs *m)
{
	static const unsigned states[] = {FAN_JOB_FORMING, FAN_JOB_READY, FAN_JOB_FAILED};

	fan_expose_family(x, "fanin_job_state", FAN_GAUGE,
			  "1 for the state that the job is in, 0 for the others.");
	for (unsigned i = 0; i < m->jobs; i++) {
		for (unsigned k = 0; k < sizeof states / sizeof states[0]; k++) {
			struct fan_labels l = labels_of_job(&m->job[i]);
			const char *word = fan_job_state_text(states[k]);
			fan_labels_add(&l, "state", word, strlen(word));
			fan_expose_count(x, "fanin_job_state", &l,
					 m->job[i].report.state == states[k]);
		}
	}
}

static unsigned count_missing(const struct fan_report *r)
{
	unsigned count = 0;

	for (unsigned i = fan_ranks_first(r->missing); i < FAN_RANKS_MAX;
	     i = fan_ranks_next(r->missing, i + 1))
		count++;
	return count;
}

/* Which ranks the oldest open fragment waits for, or a job that is forming. */
static void put_waits(struct fan_expose *x, const struct metrics_jobs *m)
{
	fan_expose_family(x, "fanin_job_waits_for_rank", FAN_GAUGE,
			  "1 for each rank that the job waits for, or that made it fail: the first "
			  "eight.");
	for (unsigned i = 0; i < m->jobs; i++) {
		const struct fan_report *r = &m->job[i].report;
		unsigned reported = 0;
		for (unsigned k = fan_ranks_first(r->missing);
		     k < FAN_RANKS_MAX && reported < METRICS_WAITS_MAX;
		     k = fan_ranks_next(r->missing, k + 1), reported++) {
			struct fan_labels l = labels_of_job(&m->job[i]);
			fan_labels_number(&l, "rank", k);
			fan_expose_count(x, "fanin_job_waits_for_rank", &l, 1);
		}
	}
}

enum { RANKS, WINDOW, WAITING, MISSING, MULTICAST, RESULTS, REPLAYS, JOB_VALUES };

static const struct {
	const char *name, *help;
	enum fan_metric_type type;
} job_family[JOB_VALUES] = {
	[RANKS] = {"fanin_job_ranks", "Ranks of the job.", FAN_GAUGE},
	[WINDOW] = {"fanin_job_window_fragments", "Fragments in flight that a rank may have.",
		    FAN_GAUGE},
	[WAITING] = {"fanin_job_open_fragments", "Fragments that some ranks have contributed to.",
		     FAN_GAUGE},
	[MISSING] = {"fanin_job_missing_ranks",
		     "Ranks that the oldest open fragment, or a job that is forming, waits for.",
		     FAN_GAUGE},
	[MULTICAST] = {"fanin_job_multicast", "1: results go by multicast; 0: by unicast.",
		       FAN_GAUGE},
	[RESULTS] = {"fanin_job_results_total", "Fragments finished.", FAN_COUNTER},
	[REPLAYS] = {"fanin_job_replays_total", "Results sent again.", FAN_COUNTER},
};

static uint64_t job_value(const struct fan_report *r, unsigned which)
{
	switch (which) {
	case RANKS: return r->ranks;
	case WINDOW: return r->window;
	case WAITING: return r->waiting;
	case MISSING: return count_missing(r);
	case MULTICAST: return r->multicast;
	case RESULTS: return r->results;
	default: return r->replays;
	}
}

static void put_job_values(struct fan_expose *x, const struct metrics_jobs *m)
{
	for (unsigned k = 0; k < JOB_VALUES; k++) {
		fan_expose_family(x, job_family[k].name, job_family[k].type, job_family[k].help);
		for (unsigned i = 0; i < m->jobs; i++) {
			struct fan_labels l = labels_of_job(&m->job[i]);
			fan_expose_count(x, job_family[k].name, &l,
					 job_value(&m->job[i].report, k));
		}
	}
}

enum { OPERATIONS, TENSORS, BUSY, WORK_VALUES };

static const char *const work_family[WORK_VALUES][2] = {
	[OPERATIONS] = {"fanin_job_operations_total", "Operations finished."},
	[TENSORS] = {"fanin_job_tensor_bytes_total",
		     "Bytes of tensors in finished fragments, of one rank."},
	[BUSY] = {"fanin_job_operation_seconds_total",
		  "Time of all operations, each from its first contribution to its last result."},
};

/* Put the work of jobs whose aggregator is in this process. */
static void put_work(struct fan_expose *x, const struct metrics_jobs *m)
{
	for (unsigned k = 0; k < WORK_VALUES; k++) {
		bool begun = false;
		for (unsigned i = 0; i < m->jobs; i++) {
			const struct fan_job_work *w = &m->job[i].report.work;
			struct fan_labels l = labels_of_job(&m->job[i]);
			if (!w->reported)
				continue;
			if (!begun)
				fan_expose_family(x, work_family[k][0], FAN_COUNTER,
						  work_family[k][1]);
			begun = true;
			fan_expose_value(x, work_family[k][0], &l,
					 k == OPERATIONS ? (double)w->operations
					 : k == TENSORS	 ? (double)w->bytes
							 : (double)w->busy_ns / NS_PER_S);
		}
	}
}

#define SLOT_AT(field) offsetof(struct fan_slot_stats, field)
#define SLOT_GAUGES    2 /* of 32 bits, in front of the counters */
static const struct fan_metric slot_metrics[] = {
	{"fanin_job_slots_held", "Shared slots that the job holds.", SLOT_AT(held)},
	{"fanin_job_slots_quota", "Shared slots that the job may hold; 0: all.", SLOT_AT(quota)},
	{"fanin_job_slot_hits_total", "Contributions added to a shared slot in use.",
	 SLOT_AT(hits)},
	{"fanin_job_slot_taken_total", "Contributions that took a shared slot.", SLOT_AT(taken)},
	{"fanin_job_slot_collisions_total", "Contributions whose shared slot was taken.",
	 SLOT_AT(collisions)},
	{"fanin_job_slot_over_quota_total", "Contributions beyond the job's quota.",
	 SLOT_AT(over_quota)},
	{"fanin_job_slot_unaggregated_total", "Contributions unaggregated for other reasons.",
	 SLOT_AT(passed)},
	{"fanin_job_slot_preemptions_total", "Slots that the job took from other sums.",
	 SLOT_AT(preemptions)},
	{"fanin_job_slot_evictions_total", "Partial sums of the job that were evicted.",
	 SLOT_AT(evictions)},
	{"fanin_job_slot_flushes_total", "Partial sums sent up on request.", SLOT_AT(flushes)},
	{"fanin_job_slot_completions_total", "Sums of all ranks below.", SLOT_AT(completions)},
};

static void put_slots(struct fan_expose *x, const struct metrics_jobs *m)
{
	for (unsigned k = 0; k < sizeof slot_metrics / sizeof slot_metrics[0]; k++) {
		const struct fan_metric *c = &slot_metrics[k];
		const bool is_gauge = k < SLOT_GAUGES;
		fan_expose_family(x, c->name, is_gauge ? FAN_GAUGE : FAN_COUNTER, c->help);
		for (unsigned i = 0; i < m->slot_jobs; i++) {
			const struct fan_slot_stats *s = &m->slots[i].slots;
			struct fan_labels l = labels_of(m->slots[i].shard, s->name, s->name_bytes,
							m->slots[i].copy);
			uint32_t gauge;
			uint64_t value;
			memcpy(&gauge, (const char *)s + c->at, sizeof gauge);
			memcpy(&value, (const char *)s + c->at, sizeof value);
			fan_expose_count(x, c->name, &l, is_gauge ? gauge : value);
		}
	}
}

void metrics_put_jobs(struct fan_expose *x, const struct metrics_jobs *m)
{
	put_states(x, m);
	put_job_values(x, m);
	put_work(x, m);
	put_waits(x, m);
	if (m->slot_jobs)
		put_slots(x, m);
}
