/* SPDX-License-Identifier: Apache-2.0 */
/* metrics_daemon.c - the counters of a switch or server, by shard, and of its process. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "cmd/log.h"
#include "core/base/err.h"
#include "core/base/limits.h"
#include "metrics_jobs.h"
#include "net/shard.h"

#define NS_PER_S 1e9

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

static void put_jobs(struct fan_expose *x, const struct shards *s)
{
	struct metrics_jobs m = {0};

	for (unsigned i = 0; i < s->count; i++) {
		const struct fan_shard_health *h = &s->of[i];
		for (unsigned k = 0; h->has_aggregator && k < h->jobs; k++)
			metrics_add_job(&m, i, &h->report[k]);
		for (unsigned k = 0; k < h->slot_jobs; k++)
			metrics_add_slots(&m, i, &h->slot_stats[k]);
	}
	metrics_put_jobs(x, &m);
	x->full |= m.lost;
	metrics_jobs_free(&m);
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
	struct shards s = {.count = fan_daemon_shards(d)};
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
