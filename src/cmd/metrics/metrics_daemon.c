/* SPDX-License-Identifier: Apache-2.0 */
/* metrics_daemon.c - the counters of a switch or server, by shard, of its process and of its jobs.
 *
 * Labels are bounded: `shard` by FAN_SHARDS_MAX, `fanin_job` by FAN_JOBS_MAX a shard, `reason` by
 * FAN_DROP_COUNT, `rank` by WAITS_MAX of a job.  The label is not called `job`, which is
 * Prometheus' own. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "cmd/log.h"
#include "core/base/err.h"
#include "core/base/limits.h"
#include "core/base/rank_set.h"
#include "metrics_http.h"
#include "net/logline.h"
#include "net/shard.h"

#define NS_PER_S  1e9
#define WAITS_MAX 8 /* ranks named that a job waits for; their number is exact */

#define TRAFFIC_AT(field) offsetof(struct fan_shard_health, traffic.field)
static const struct fan_metric traffic[] = {
	{"fanin_received_datagrams_total", "Datagrams received.", TRAFFIC_AT(datagrams_in)},
	{"fanin_received_bytes_total", "Bytes received, without headers of UDP and IP.",
	 TRAFFIC_AT(bytes_in)},
	{"fanin_receive_calls_total", "Calls that received: datagrams by calls is the batch.",
	 TRAFFIC_AT(receives)},
	{"fanin_sent_datagrams_total", "Datagrams sent.", TRAFFIC_AT(datagrams_out)},
	{"fanin_sent_bytes_total", "Bytes sent, without headers of UDP and IP.",
	 TRAFFIC_AT(bytes_out)},
	{"fanin_send_calls_total", "Calls that sent.", TRAFFIC_AT(sends)},
	{"fanin_unsent_datagrams_total", "Datagrams that could not be sent.",
	 TRAFFIC_AT(send_drops)},
	{"fanin_marked_datagrams_total", "Datagrams with a congestion mark.", TRAFFIC_AT(marked)},
	{"fanin_inner_lost_packets_total",
	 "Packets between switch and aggregator of this process without room.", TRAFFIC_AT(lost)},
};

#define AGGREGATOR_AT(field) offsetof(struct fan_shard_health, aggregator.field)
static const struct fan_metric aggregator[] = {
	{"fanin_aggregator_packets_total", "Packets that reached the aggregator.",
	 AGGREGATOR_AT(packets)},
	{"fanin_aggregator_contributions_total", "Contributions added to a slot.",
	 AGGREGATOR_AT(contributions)},
	{"fanin_aggregator_partial_sums_total", "Partial sums added to a slot.",
	 AGGREGATOR_AT(partials)},
	{"fanin_aggregator_results_total", "Fragments finished.", AGGREGATOR_AT(results)},
	{"fanin_aggregator_replays_total", "Results sent again.", AGGREGATOR_AT(replays)},
	{"fanin_aggregator_requests_total",
	 "Requests for contributions that were lost, one for each rank.", AGGREGATOR_AT(needs)},
	{"fanin_aggregator_reminders_total", "Reminders sent to switches.", AGGREGATOR_AT(flushes)},
	{"fanin_aggregator_progress_total", "Answers with the progress of ranks.",
	 AGGREGATOR_AT(progress_sent)},
};

#define SWITCH_AT(field) offsetof(struct fan_shard_health, slots.field)
static const struct fan_metric slots[] = {
	{"fanin_switch_packets_total", "Packets that reached the shared slots.",
	 SWITCH_AT(packets)},
	{"fanin_switch_hits_total", "Contributions added to a slot in use.", SWITCH_AT(hits)},
	{"fanin_switch_taken_total", "Contributions that took a slot.", SWITCH_AT(taken)},
	{"fanin_switch_collisions_total", "Contributions whose slot was taken.",
	 SWITCH_AT(collisions)},
	{"fanin_switch_over_quota_total", "Contributions beyond their job's quota.",
	 SWITCH_AT(over_quota)},
	{"fanin_switch_unaggregated_total", "Contributions unaggregated for other reasons.",
	 SWITCH_AT(passed)},
	{"fanin_switch_preemptions_total", "Slots taken from other sums.", SWITCH_AT(preemptions)},
	{"fanin_switch_evictions_total", "Partial sums evicted.", SWITCH_AT(evictions)},
	{"fanin_switch_flushes_total", "Partial sums sent up on request.", SWITCH_AT(flushes)},
	{"fanin_switch_completions_total", "Sums of all ranks below.", SWITCH_AT(completions)},
	{"fanin_switch_partial_sums_total", "Sums sent up.", SWITCH_AT(partials)},
	{"fanin_switch_results_total", "Results passed down.", SWITCH_AT(results)},
	{"fanin_switch_requests_total", "Requests for packets that were lost.", SWITCH_AT(misses)},
	{"fanin_switch_lent_sums_total", "Sums and contributions given to helpers.",
	 SWITCH_AT(lent)},
	{"fanin_switch_late_contributions_total", "Contributions after their slot's sum had left.",
	 SWITCH_AT(late)},
	{"fanin_switch_unknown_children_total", "Questions sent to unknown children.",
	 SWITCH_AT(unknown)},
};

struct shards {
	const struct fan_shard_health *of;
	unsigned count;
};

static struct fan_labels shard_label(unsigned shard)
{
	struct fan_labels l = {.used = 0};

	fan_labels_number(&l, "shard", shard);
	return l;
}

static void put_counters(struct fan_expose *x, const struct shards *s, const struct fan_metric *m,
			 size_t count)
{
	for (size_t k = 0; k < count; k++) {
		fan_expose_family(x, m[k].name, FAN_COUNTER, m[k].help);
		for (unsigned i = 0; i < s->count; i++) {
			struct fan_labels l = shard_label(i);
			uint64_t value;
			memcpy(&value, (const char *)&s->of[i] + m[k].at, sizeof value);
			fan_expose_count(x, m[k].name, &l, value);
		}
	}
}

static void put_drops_of(struct fan_expose *x, unsigned shard, const char *object,
			 const uint64_t *drops)
{
	for (unsigned i = 0; i < FAN_DROP_COUNT; i++) {
		struct fan_labels l = shard_label(shard);
		const char *reason = fan_drop_text(i);
		fan_labels_add(&l, "object", object, strlen(object));
		fan_labels_add(&l, "reason", reason, strlen(reason));
		fan_expose_count(x, "fanin_dropped_packets_total", &l, drops[i]);
	}
}

static void put_drops(struct fan_expose *x, const struct shards *s)
{
	fan_expose_family(x, "fanin_dropped_packets_total", FAN_COUNTER,
			  "Packets dropped, by reason.");
	for (unsigned i = 0; i < s->count; i++) {
		if (s->of[i].has_slots)
			put_drops_of(x, i, "switch", s->of[i].slots.drops);
		if (s->of[i].has_aggregator)
			put_drops_of(x, i, "aggregator", s->of[i].aggregator.drops);
	}
}

static void put_cpu(struct fan_expose *x, const struct shards *s)
{
	fan_expose_family(x, "fanin_shard_cpu_seconds_total", FAN_COUNTER,
			  "Processor time of the shard's thread.");
	for (unsigned i = 0; i < s->count; i++) {
		struct fan_labels l = shard_label(i);
		fan_expose_value(x, "fanin_shard_cpu_seconds_total", &l,
				 (double)s->of[i].traffic.cpu_ns / NS_PER_S);
	}
}

static void put_slots_used(struct fan_expose *x, const struct shards *s)
{
	for (unsigned used = 0; used < 2; used++) {
		const char *name = used ? "fanin_switch_slots_used" : "fanin_switch_slots";
		fan_expose_family(x, name, FAN_GAUGE,
				  used ? "Shared slots that hold a sum." : "Shared slots.");
		for (unsigned i = 0; i < s->count; i++) {
			struct fan_labels l = shard_label(i);
			const struct fan_slot_stats *of = &s->of[i].slot_stats[0];
			fan_expose_count(x, name, &l, used ? of->slots_used : of->slots);
		}
	}
}

/* ---- jobs ---- */

/* `copy`: others of its name that are shown before it, in its shard. */
struct jobs {
	struct job {
		unsigned shard, copy;
		const struct fan_report *report;
	} job[FAN_SHARDS_MAX * FAN_JOBS_MAX];
	struct slot_job {
		unsigned shard, copy;
		const struct fan_slot_stats *stats;
	} slot_job[FAN_SHARDS_MAX * FAN_JOBS_MAX];
	unsigned count, slots;
};

static bool same_name(const char *a, size_t a_bytes, const char *b, size_t b_bytes)
{
	return a_bytes == b_bytes && memcmp(a, b, a_bytes) == 0;
}

/* Add job `k` of a shard, unless it has failed and another one of its name is there. */
static void add_job(struct jobs *m, unsigned shard, const struct fan_shard_health *h, unsigned k)
{
	const struct fan_report *r = &h->report[k];
	unsigned copy = 0;

	for (unsigned i = 0; i < h->jobs; i++) {
		const struct fan_report *o = &h->report[i];
		if (i == k || !same_name(o->name, o->name_bytes, r->name, r->name_bytes))
			continue;
		if (r->state == FAN_JOB_FAILED && (i < k || o->state != FAN_JOB_FAILED))
			return;
		copy += i < k && o->state != FAN_JOB_FAILED;
	}
	m->job[m->count++] = (struct job){shard, copy, r};
}

static void add_slots(struct jobs *m, unsigned shard, const struct fan_shard_health *h, unsigned k)
{
	const struct fan_slot_stats *s = &h->slot_stats[k];
	unsigned copy = 0;

	for (unsigned i = 0; i < k; i++)
		copy += same_name(h->slot_stats[i].name, h->slot_stats[i].name_bytes, s->name,
				  s->name_bytes);
	m->slot_job[m->slots++] = (struct slot_job){shard, copy, s};
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

static struct fan_labels labels_of_job(const struct job *j)
{
	return labels_of(j->shard, j->report->name, j->report->name_bytes, j->copy);
}

static void put_states(struct fan_expose *x, const struct jobs *m)
{
	static const unsigned states[] = {FAN_JOB_FORMING, FAN_JOB_READY, FAN_JOB_FAILED};

	fan_expose_family(x, "fanin_job_state", FAN_GAUGE,
			  "1 for the state that the job is in, 0 for the others.");
	for (unsigned i = 0; i < m->count; i++) {
		for (unsigned k = 0; k < sizeof states / sizeof states[0]; k++) {
			struct fan_labels l = labels_of_job(&m->job[i]);
			const char *word = fan_job_state_text(states[k]);
			fan_labels_add(&l, "state", word, strlen(word));
			fan_expose_count(x, "fanin_job_state", &l,
					 m->job[i].report->state == states[k]);
		}
	}
}

/* Which ranks the oldest open fragment waits for, or a job that is forming. */
static void put_waits(struct fan_expose *x, const struct jobs *m)
{
	fan_expose_family(x, "fanin_job_waits_for_rank", FAN_GAUGE,
			  "1 for each rank that the job waits for, or that made it fail: the first "
			  "eight.");
	for (unsigned i = 0; i < m->count; i++) {
		const struct fan_report *r = m->job[i].report;
		unsigned reported = 0;
		for (unsigned k = fan_ranks_first(r->missing);
		     k < FAN_RANKS_MAX && reported < WAITS_MAX;
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
	case MISSING: return fan_ranks_count(r->missing);
	case MULTICAST: return r->multicast;
	case RESULTS: return r->results;
	default: return r->replays;
	}
}

static void put_job_values(struct fan_expose *x, const struct jobs *m)
{
	for (unsigned k = 0; k < JOB_VALUES; k++) {
		fan_expose_family(x, job_family[k].name, job_family[k].type, job_family[k].help);
		for (unsigned i = 0; i < m->count; i++) {
			struct fan_labels l = labels_of_job(&m->job[i]);
			fan_expose_count(x, job_family[k].name, &l, job_value(m->job[i].report, k));
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
static void put_work(struct fan_expose *x, const struct jobs *m)
{
	for (unsigned k = 0; k < WORK_VALUES; k++) {
		bool begun = false;
		for (unsigned i = 0; i < m->count; i++) {
			const struct fan_job_work *w = &m->job[i].report->work;
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

static void put_slots(struct fan_expose *x, const struct jobs *m)
{
	for (unsigned k = 0; k < sizeof slot_metrics / sizeof slot_metrics[0]; k++) {
		const struct fan_metric *c = &slot_metrics[k];
		const bool is_gauge = k < SLOT_GAUGES;
		fan_expose_family(x, c->name, is_gauge ? FAN_GAUGE : FAN_COUNTER, c->help);
		for (unsigned i = 0; i < m->slots; i++) {
			const struct slot_job *j = &m->slot_job[i];
			const struct fan_slot_stats *s = j->stats;
			struct fan_labels l = labels_of(j->shard, s->name, s->name_bytes, j->copy);
			uint32_t gauge;
			uint64_t value;
			memcpy(&gauge, (const char *)s + c->at, sizeof gauge);
			memcpy(&value, (const char *)s + c->at, sizeof value);
			fan_expose_count(x, c->name, &l, is_gauge ? gauge : value);
		}
	}
}

static void put_jobs(struct fan_expose *x, const struct shards *s)
{
	struct jobs *m = calloc(1, sizeof *m);

	if (!m) {
		x->full = true;
		return;
	}
	for (unsigned i = 0; i < s->count; i++) {
		const struct fan_shard_health *h = &s->of[i];
		for (unsigned k = 0; h->has_aggregator && k < h->jobs; k++)
			add_job(m, i, h, k);
		for (unsigned k = 0; k < h->slot_jobs; k++)
			add_slots(m, i, h, k);
	}
	put_states(x, m);
	put_job_values(x, m);
	put_work(x, m);
	put_waits(x, m);
	if (m->slots)
		put_slots(x, m);
	free(m);
}

/* ---- the build, and what every process has ---- */

static double clock_s(clockid_t id)
{
	struct timespec t = {0, 0};

	clock_gettime(id, &t);
	return (double)t.tv_sec + (double)t.tv_nsec / NS_PER_S;
}

/* Bytes of memory in use; 0: not known. */
static double resident_bytes(void)
{
	unsigned long whole = 0, resident = 0;
	FILE *f = fopen("/proc/self/statm", "re");

	if (!f)
		return 0;
	int n = fscanf(f, "%lu %lu", &whole, &resident);
	fclose(f);
	return n == 2 ? (double)resident * (double)sysconf(_SC_PAGESIZE) : 0;
}

/* Seconds since 1970 of this process's first call, which is soon after its start. */
static double start_s(void)
{
	static double start;

	if (start == 0)
		start = clock_s(CLOCK_REALTIME);
	return start;
}

static void put_one(struct fan_expose *x, const char *name, enum fan_metric_type type,
		    const char *help, double value)
{
	fan_expose_family(x, name, type, help);
	fan_expose_value(x, name, NULL, value);
}

static void put_process(struct fan_expose *x, const char *role)
{
	struct fan_labels l = {.used = 0};

	fan_labels_add(&l, "version", FAN_BUILD_VERSION, strlen(FAN_BUILD_VERSION));
	fan_labels_number(&l, "protocol", FAN_WIRE_VERSION);
	fan_labels_add(&l, "role", role, strlen(role));
	fan_expose_family(x, "fanin_build_info", FAN_GAUGE, "1; labels tell the build.");
	fan_expose_count(x, "fanin_build_info", &l, 1);
	put_one(x, "process_cpu_seconds_total", FAN_COUNTER, "Processor time of all threads.",
		clock_s(CLOCK_PROCESS_CPUTIME_ID));
	put_one(x, "process_resident_memory_bytes", FAN_GAUGE, "Memory in use.", resident_bytes());
	put_one(x, "fanin_log_lost_lines_total", FAN_COUNTER,
		"Lines of the log that nobody read in time.", (double)log_lost());
	put_one(x, "process_start_time_seconds", FAN_GAUGE, "Time of the start, since 1970.",
		start_s());
}

void metrics_put_daemon(struct fan_expose *x, struct fan_daemon *d, const char *role)
{
	struct fan_daemon_facts facts;

	fan_daemon_facts(d, &facts);
	struct shards s = {.count = facts.shards};
	struct fan_shard_health *health = calloc(s.count, sizeof *health);
	if (!health) {
		x->full = true;
		return;
	}
	for (unsigned i = 0; i < s.count; i++)
		fan_daemon_health(d, i, &health[i]);
	s.of = health;
	put_process(x, role);
	put_cpu(x, &s);
	put_counters(x, &s, traffic, sizeof traffic / sizeof traffic[0]);
	if (health[0].has_aggregator)
		put_counters(x, &s, aggregator, sizeof aggregator / sizeof aggregator[0]);
	if (health[0].has_slots) {
		put_counters(x, &s, slots, sizeof slots / sizeof slots[0]);
		put_slots_used(x, &s);
	}
	put_drops(x, &s);
	put_jobs(x, &s);
	free(health);
}
