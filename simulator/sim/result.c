/* SPDX-License-Identifier: Apache-2.0 */
/* result.c - the results of an experiment, as JSON.
 *
 * All times are whole nanoseconds divided by 1e9, and all sums are taken in a fixed order: the same
 * run prints the same text on every machine. */
#include <stdlib.h>

#include "experiment.h"

static double seconds(uint64_t ns)
{
	return (double)ns / 1e9;
}

static void put_text(json_t *o, const char *key, const char *text)
{
	json_object_set_new(o, key, text ? json_string(text) : json_null());
}

static void put_count(json_t *o, const char *key, uint64_t n)
{
	json_object_set_new(o, key, json_integer((json_int_t)n));
}

static void put_real(json_t *o, const char *key, double v)
{
	json_object_set_new(o, key, json_real(v));
}

/* ---- switches and servers ---- */

static uint64_t sum_of(const uint64_t *list, unsigned count)
{
	uint64_t sum = 0;
	for (unsigned i = 0; i < count; i++)
		sum += list[i];
	return sum;
}

static double share(uint64_t part, uint64_t whole)
{
	return whole ? (double)part / (double)whole : 0;
}

/* ---- over time ---- */

/* The mean share of the slots, sample by sample. */
static json_t *share_of_slots(const struct fan_series *s, enum fan_series_figure which,
			      uint32_t slots)
{
	json_t *list = json_array();
	for (uint32_t i = 0; i < s->count; i++)
		json_array_append_new(list,
				      json_real((double)s->sum[i][which] / s->weight[i] / slots));
	return list;
}

/* The rate of a counter, per second.  Counts are cumulative: the last values are used. */
static json_t *rate_json(const struct fan_series *s, enum fan_series_figure which)
{
	json_t *list = json_array();
	uint64_t before = 0;
	for (uint32_t i = 0; i < s->count; i++) {
		double more = (double)(s->last[i][which] - before);
		json_array_append_new(list, json_real(more / seconds(s->interval_ns)));
		before = s->last[i][which];
	}
	return list;
}

/* The share of contributions that were added; null: none arrived. */
static json_t *hits_json(const struct fan_series *s)
{
	json_t *list = json_array();
	uint64_t offered = 0, added = 0;
	for (uint32_t i = 0; i < s->count; i++) {
		const uint64_t *last = s->last[i];
		uint64_t came = last[FAN_SERIES_OFFERED] - offered;
		uint64_t hit = last[FAN_SERIES_ADDED] - added;
		json_array_append_new(list, came ? json_real(share(hit, came)) : json_null());
		offered = last[FAN_SERIES_OFFERED];
		added = last[FAN_SERIES_ADDED];
	}
	return list;
}

static json_t *series_json(const struct fan_series *s, uint32_t slots)
{
	return json_pack("{s:f, s:f, s:o, s:o, s:o, s:o, s:o}", "start_s", seconds(s->start_ns),
			 "interval_s", seconds(s->interval_ns), "occupancy",
			 share_of_slots(s, FAN_SERIES_USED, slots), "lent",
			 share_of_slots(s, FAN_SERIES_LENT, slots), "hit_rate", hits_json(s),
			 "results_per_s", rate_json(s, FAN_SERIES_RESULTS), "rx_bytes_per_s",
			 rate_json(s, FAN_SERIES_RX_BYTES));
}

static double mean_occupancy(const struct fan_series *s, uint32_t slots)
{
	uint64_t sum = 0, weight = 0;
	for (uint32_t i = 0; i < s->count; i++) {
		sum += s->sum[i][FAN_SERIES_USED];
		weight += s->weight[i];
	}
	return share(sum, weight * slots);
}

/* Put the traffic of links or, if `inner`, that of an aggregator with the slots in front of it. */
static void put_traffic(json_t *o, const struct fan_sim_daemon *d, bool inner)
{
	const struct fan_node_stats between = fan_sim_daemon_counters(d).node;
	put_count(o, "rx_packets", inner ? between.up_packets : d->rx_packets);
	put_count(o, "rx_bytes", inner ? between.up_bytes : d->rx_bytes);
	put_count(o, "tx_packets", inner ? between.down_packets : d->tx_packets);
	put_count(o, "tx_bytes", inner ? between.down_bytes : d->tx_bytes);
}

/* ---- what sums for one job, or completes what shared slots could not ---- */

static json_t *aggregator_json(const struct fan_experiment *e, uint32_t node)
{
	const struct fan_sim_daemon *d = e->daemon[node];
	const struct fan_sim_counters all = fan_sim_daemon_counters(d);
	const struct fan_aggregator_stats *st = &all.aggregator;
	json_t *o = json_object();
	put_text(o, "name", e->scenario->node[node].name);
	put_text(o, "policy", "switchml");
	put_count(o, "slots", d->cfg.aggregator.slots);
	put_real(o, "occupancy", mean_occupancy(d->sums, d->cfg.aggregator.slots));
	put_real(o, "hit_rate", share(st->contributions, all.offered));
	put_count(o, "evictions", 0);  /* always 0 under switchml */
	put_count(o, "collisions", 0); /* always 0 under switchml */
	put_count(o, "contributions", st->contributions);
	put_count(o, "partials", st->partials);
	put_count(o, "results", st->results);
	put_count(o, "replays", st->replays);
	put_count(o, "needs", st->needs);
	put_count(o, "reminders", st->flushes);
	put_count(o, "dropped", sum_of(st->drops, FAN_DROP_COUNT));
	put_count(o, "restarts", d->restarts);
	put_traffic(o, d, d->slots != NULL);
	json_object_set_new(o, "series", series_json(d->sums, d->cfg.aggregator.slots));
	return o;
}

/* ---- shared slots ---- */

static void put_slots_counts(json_t *o, const struct fan_sim_counters *all)
{
	const struct fan_switch_stats *st = &all->slots;
	put_count(o, "collisions", st->collisions + st->over_quota);
	put_count(o, "over_quota", st->over_quota);
	put_count(o, "preemptions", st->preemptions);
	put_count(o, "evictions", st->evictions);
	put_count(o, "flushes", st->flushes);
	put_count(o, "passed", st->passed);
	put_count(o, "contributions", all->slots_added);
	put_count(o, "completions", st->completions);
	put_count(o, "partials", st->partials);
	put_count(o, "results", st->results);
	put_count(o, "unknown", st->unknown);
	put_count(o, "dropped", sum_of(st->drops, FAN_DROP_COUNT));
}

static json_t *slots_series_json(const struct fan_series *s, uint32_t slots)
{
	json_t *o = series_json(s, slots);
	json_object_set_new(o, "collisions_per_s", rate_json(s, FAN_SERIES_COLLISIONS));
	json_object_set_new(o, "preemptions_per_s", rate_json(s, FAN_SERIES_PREEMPTIONS));
	json_object_set_new(o, "evictions_per_s", rate_json(s, FAN_SERIES_EVICTIONS));
	json_object_set_new(o, "flushes_per_s", rate_json(s, FAN_SERIES_FLUSHES));
	return o;
}

static const char *policy_name(int policy)
{
	static const char *const name[] = {FAN_POLICY_NAMES};
	return policy >= 0 && policy < FAN_POLICY_COUNT ? name[policy] : "unknown";
}

static json_t *slots_json(const struct fan_experiment *e, uint32_t node)
{
	const struct fan_sim_daemon *d = e->daemon[node];
	const struct fan_sim_counters all = fan_sim_daemon_counters(d);
	json_t *o = json_object();
	put_text(o, "name", e->scenario->node[node].name);
	put_text(o, "policy", policy_name((int)d->cfg.slots.policy));
	put_count(o, "slots", d->cfg.slots.slots);
	put_real(o, "occupancy", mean_occupancy(d->shares, d->cfg.slots.slots));
	put_real(o, "hit_rate", share(all.slots_added, all.slots_offered));
	put_slots_counts(o, &all);
	put_count(o, "restarts", d->restarts);
	put_traffic(o, d, false);
	json_object_set_new(o, "series", slots_series_json(d->shares, d->cfg.slots.slots));
	return o;
}

static json_t *switches_json(const struct fan_experiment *e)
{
	json_t *list = json_array();
	for (uint32_t n = 0; n < e->scenario->nodes; n++) {
		const struct fan_sim_daemon *d = e->daemon[n];
		if (d && d->slots)
			json_array_append_new(list, slots_json(e, n));
		else if (d && e->scenario->node[n].kind == FAN_NODE_SWITCH)
			json_array_append_new(list, aggregator_json(e, n));
	}
	return list;
}

static json_t *servers_json(const struct fan_experiment *e)
{
	json_t *list = json_array();
	for (uint32_t n = 0; n < e->scenario->nodes; n++) {
		const struct fan_sim_daemon *d = e->daemon[n];
		if (d && d->aggregator &&
		    (d->slots || e->scenario->node[n].kind == FAN_NODE_SERVER))
			json_array_append_new(list, aggregator_json(e, n));
	}
	return list;
}

static int by_value(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;
	return (x > y) - (x < y);
}

/* The percentile of sorted values: the least that `percent` of them do not exceed, or null. */
static json_t *percentile(const double *sorted, uint32_t count, unsigned percent)
{
	uint32_t rank = (uint32_t)(((uint64_t)count * percent + 99) / 100);
	return count ? json_real(sorted[rank ? rank - 1 : 0]) : json_null();
}

/* Put "avg_jct_s", "p50_jct_s" and "p99_jct_s" of `count` completion times, in seconds, which are
 * sorted here; null: no job has ended. */
static void put_jct(json_t *o, double *jct_s, uint32_t count)
{
	double sum = 0;
	for (uint32_t i = 0; i < count; i++)
		sum += jct_s[i];
	if (count)
		qsort(jct_s, count, sizeof *jct_s, by_value);
	json_object_set_new(o, "avg_jct_s", count ? json_real(sum / count) : json_null());
	json_object_set_new(o, "p50_jct_s", percentile(jct_s, count, 50));
	json_object_set_new(o, "p99_jct_s", percentile(jct_s, count, 99));
}

/* The figures of a job's ranks, added up. */
struct sums {
	uint64_t done_ns, ready_ns, comm_ns, wait_ns, elems, checked;
	struct fan_worker_stats st;
	int err;
	bool over, wrong;
};

static struct sums add_up(const struct fan_experiment_job *j)
{
	struct sums s = {.over = true};
	for (uint32_t r = 0; r < j->cfg.ranks; r++) {
		const struct fan_trainer *t = &j->trainer[r];
		if (t->times.done_ns > s.done_ns)
			s.done_ns = t->times.done_ns;
		if (t->times.ready_ns > s.ready_ns)
			s.ready_ns = t->times.ready_ns;
		s.comm_ns += t->times.comm_ns;
		s.wait_ns += t->times.wait_ns;
		s.elems += t->times.elems;
		s.checked += t->times.checked;
		s.st.sent += t->stats.sent;
		s.st.resent += t->stats.resent;
		s.st.probes += t->stats.probes;
		s.st.replays += t->stats.replays;
		s.err = s.err ? s.err : t->fault.err;
		s.wrong |= t->wrong;
		s.over &= t->left && t->times.done_ns != 0;
	}
	uint32_t ranks = j->cfg.ranks ? j->cfg.ranks : 1;
	s.comm_ns /= ranks;
	s.wait_ns /= ranks;
	return s;
}

static json_t *iterations_of(const struct fan_experiment_job *j)
{
	json_t *list = json_array();
	for (uint32_t i = 0; i < j->cfg.iterations && i < FAN_JOB_SPANS_MAX; i++) {
		uint64_t end_ns = 0;
		for (uint32_t r = 0; r < j->cfg.ranks; r++)
			if (j->trainer[r].span_ns[i] > end_ns)
				end_ns = j->trainer[r].span_ns[i];
		if (end_ns)
			json_array_append_new(list, json_real(seconds(end_ns)));
	}
	return list;
}

static const char *why_not(const struct fan_experiment *e, const struct sums *s)
{
	if (s->wrong)
		return "a sum is wrong";
	if (s->err)
		return fan_err_name(s->err);
	return e->timed_out && !s->over ? "not over at limit_s" : NULL;
}

/* By rank: how many of its contributions rank `helper` was given to keep, if any. */
static json_t *kept_json(const struct fan_standings *s, uint32_t helper)
{
	json_t *o = json_object();
	char who[16];
	for (uint32_t r = 0; r < s->ranks; r++) {
		uint32_t parts = s->all.kept[(size_t)helper * s->ranks + r];
		snprintf(who, sizeof who, "%u", r);
		if (parts)
			put_count(o, who, parts);
	}
	return o;
}

/* Means of the samples, a list for each rank; null: a sample without a look. */
static json_t *standings_json(const struct fan_standings *s)
{
	json_t *behind = json_array(), *kept = json_array();
	for (uint32_t r = 0; r < s->ranks; r++) {
		json_t *b = json_array(), *k = json_array();
		for (uint32_t i = 0; i < s->count; i++) {
			const struct fan_standing_at *at =
				&s->sum[(size_t)r * FAN_STANDING_MAX + i];
			double looks = s->weight[i];
			json_array_append_new(b, looks > 0 ? json_real((double)at->behind / looks)
							   : json_null());
			json_array_append_new(k, looks > 0 ? json_real((double)at->kept / looks)
							   : json_null());
		}
		json_array_append_new(behind, b);
		json_array_append_new(kept, k);
	}
	return json_pack("{s:f, s:f, s:o, s:o}", "start_s", seconds(s->start_ns), "interval_s",
			 seconds(s->interval_ns), "behind", behind, "cache_open", kept);
}

/* Each rank's lag, and what it kept for the others. */
static json_t *ahead_json(const struct fan_experiment_job *j)
{
	json_t *list = json_array();
	for (uint32_t r = 0; r < j->cfg.ranks; r++) {
		const struct fan_trainer *t = &j->trainer[r];
		const struct fan_helper_cache_stats *c = &t->stats.cache;
		uint64_t samples = t->lag.samples ? t->lag.samples : 1;
		json_t *o = json_object();
		put_count(o, "rank", r);
		put_real(o, "lag_mean", (double)t->lag.sum / (double)samples);
		put_count(o, "lag_max", t->lag.max);
		put_count(o, "lent", j->standings.all.lent[r]);
		put_count(o, "deferred", j->standings.all.deferred[r]);
		json_object_set_new(o, "helps", kept_json(&j->standings, r));
		put_count(o, "cache_peak", c->peak);
		put_count(o, "cache_parts", c->parts);
		put_count(o, "cache_done", c->done);
		put_count(o, "cache_early", c->early);
		put_count(o, "cache_over", c->over);
		json_array_append_new(list, o);
	}
	return json_pack("{s:I, s:I, s:o, s:o}", "window", (json_int_t)j->cfg.ahead, "cache_frags",
			 (json_int_t)j->cfg.cache_frags, "ranks", list, "series",
			 standings_json(&j->standings));
}

/* What sums for the job: a node, or "ring" or "tree". */
static const char *sums_at(const struct fan_scenario *s, const struct fan_scenario_job *j)
{
	return j->reduce == FAN_REDUCE_RING	? "ring"
	       : j->reduce == FAN_REDUCE_TREE	? "tree"
	       : j->reduce == FAN_REDUCE_LEVELS ? "two-level-ring"
						: s->node[j->at].name;
}

static json_t *job_json(const struct fan_experiment *e, uint32_t i, double *jct_s)
{
	const struct fan_experiment_job *j = &e->job[i];
	const struct fan_scenario_job *sj = &e->scenario->job[i];
	struct sums s = add_up(j);
	const char *error = why_not(e, &s);
	*jct_s = s.over && !error ? seconds(s.done_ns - j->cfg.arrival_ns) : -1;
	uint64_t bytes = s.elems / (j->cfg.ranks ? j->cfg.ranks : 1u) * sizeof(float);
	json_t *o = json_object();
	put_text(o, "name", j->cfg.name);
	put_text(o, "model", j->cfg.model.name);
	put_text(o, "at", sums_at(e->scenario, sj));
	put_count(o, "workers", j->cfg.ranks);
	put_count(o, "iterations", j->cfg.iterations);
	put_real(o, "arrival_s", seconds(j->cfg.arrival_ns));
	json_object_set_new(o, "jct_s", *jct_s >= 0 ? json_real(*jct_s) : json_null());
	put_real(o, "comm_s", seconds(s.comm_ns));
	put_real(o, "wait_s", seconds(s.wait_ns));
	put_real(o, "ready_s", seconds(s.ready_ns));
	put_count(o, "bytes_per_worker", bytes);
	put_real(o, "throughput_gbps_per_worker",
		 s.comm_ns ? (double)bytes * 8 / (double)s.comm_ns : 0);
	put_count(o, "sent", s.st.sent);
	put_count(o, "retransmissions", s.st.resent);
	put_count(o, "replays", s.st.replays);
	put_count(o, "probes", s.st.probes);
	put_count(o, "model_elements", fan_model_numel(&j->cfg.model));
	put_count(o, "reduced_elements", s.elems);
	put_count(o, "checked_elements", s.checked);
	put_count(o, "restarts", j->shared.lives);
	json_object_set_new(o, "iteration_ends_s", iterations_of(j));
	if (j->standings.ranks)
		json_object_set_new(o, "ahead", ahead_json(j));
	put_text(o, "error", error);
	return o;
}

static json_t *link_json(const struct fan_experiment *e, uint32_t link)
{
	const struct fan_sim_link *l = &e->sim.link[link];
	const struct fan_link_stats *st = &l->stats;
	uint64_t queue = (uint64_t)(((unsigned __int128)st->queue_max_ps << 16) / l->byte_q16);
	double capacity = (double)e->weather.bps[link] * seconds(e->sim.now_ns) / 8;
	return json_pack("{s:s, s:s, s:I, s:I, s:f, s:I, s:I, s:I, s:I}", "from",
			 e->scenario->node[l->from].name, "to", e->scenario->node[l->to].name,
			 "packets", (json_int_t)st->packets, "bytes", (json_int_t)st->bytes, "use",
			 capacity > 0 ? (double)st->bytes / capacity : 0.0, "overflows",
			 (json_int_t)st->overflows, "lost", (json_int_t)st->lost, "ecn_marked",
			 (json_int_t)st->marked, "queue_max_bytes", (json_int_t)queue);
}

static json_t *links_json(const struct fan_experiment *e)
{
	json_t *list = json_array();
	for (uint32_t i = 0; i < e->sim.links; i++)
		if (e->sim.link[i].from != e->sim.link[i].to)
			json_array_append_new(list, link_json(e, i));
	return list;
}

static json_t *flows_json(const struct fan_experiment *e)
{
	json_t *list = json_array();
	for (uint32_t i = 0; i < e->scenario->tcps; i++)
		json_array_append_new(list, fan_tcp_result(&e->tcp[i]));
	return list;
}

json_t *fan_experiment_result(const struct fan_experiment *e)
{
	uint32_t jobs = e->scenario->jobs, ended = 0;
	double *jct_s = calloc(jobs + UINT32_C(1), sizeof *jct_s);
	json_t *list = json_array();
	if (!jct_s) {
		json_decref(list);
		return NULL;
	}
	for (uint32_t i = 0; i < jobs; i++) {
		double one;
		json_array_append_new(list, job_json(e, i, &one));
		if (one >= 0)
			jct_s[ended++] = one;
	}
	json_t *root = json_pack("{s:s, s:I}", "name", e->scenario->name, "seed",
				 (json_int_t)e->scenario->seed);
	put_jct(root, jct_s, ended);
	put_count(root, "failed_jobs", jobs - ended);
	put_real(root, "end_s", seconds(e->sim.now_ns));
	put_count(root, "packet_hops", e->sim.hops);
	put_count(root, "fragment_hops", e->sim.frag_hops);
	json_object_set_new(root, "jobs", list);
	json_object_set_new(root, "switches", switches_json(e));
	json_object_set_new(root, "servers", servers_json(e));
	json_object_set_new(root, "links", links_json(e));
	if (e->scenario->tcps)
		json_object_set_new(root, "flows", flows_json(e));
	free(jct_s);
	return root;
}
