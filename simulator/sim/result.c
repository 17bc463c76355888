/* SPDX-License-Identifier: Apache-2.0 */
/* result.c - the results of an experiment, as JSON.
 *
 * All times are whole nanoseconds divided by 1e9, and all sums are taken in a fixed order: the same
 * run prints the same text on every machine. */
#include "result.h"

#include <stdlib.h>

#include "experiment.h"

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
			json_array_append_new(list, json_real(fan_seconds(end_ns)));
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
		uint32_t parts = fan_standings_kept(s, helper, r);
		snprintf(who, sizeof who, "%u", r);
		if (parts)
			fan_put_count(o, who, parts);
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
	return json_pack("{s:f, s:f, s:o, s:o}", "start_s", fan_seconds(s->start_ns), "interval_s",
			 fan_seconds(s->interval_ns), "behind", behind, "cache_open", kept);
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
		fan_put_count(o, "rank", r);
		fan_put_real(o, "lag_mean", (double)t->lag.sum / (double)samples);
		fan_put_count(o, "lag_max", t->lag.max);
		fan_put_count(o, "lent", fan_standings_lent(&j->standings, r));
		fan_put_count(o, "deferred", fan_standings_deferred(&j->standings, r));
		json_object_set_new(o, "helps", kept_json(&j->standings, r));
		fan_put_count(o, "cache_peak", c->peak);
		fan_put_count(o, "cache_parts", c->parts);
		fan_put_count(o, "cache_done", c->done);
		fan_put_count(o, "cache_early", c->early);
		fan_put_count(o, "cache_over", c->over);
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
	*jct_s = s.over && !error ? fan_seconds(s.done_ns - j->cfg.arrival_ns) : -1;
	uint64_t bytes = s.elems / (j->cfg.ranks ? j->cfg.ranks : 1u) * sizeof(float);
	json_t *o = json_object();
	fan_put_text(o, "name", j->cfg.name);
	fan_put_text(o, "model", j->cfg.model.name);
	fan_put_text(o, "at", sums_at(e->scenario, sj));
	fan_put_count(o, "workers", j->cfg.ranks);
	fan_put_count(o, "iterations", j->cfg.iterations);
	fan_put_real(o, "arrival_s", fan_seconds(j->cfg.arrival_ns));
	json_object_set_new(o, "jct_s", *jct_s >= 0 ? json_real(*jct_s) : json_null());
	fan_put_real(o, "comm_s", fan_seconds(s.comm_ns));
	fan_put_real(o, "wait_s", fan_seconds(s.wait_ns));
	fan_put_real(o, "ready_s", fan_seconds(s.ready_ns));
	fan_put_count(o, "bytes_per_worker", bytes);
	fan_put_real(o, "throughput_gbps_per_worker",
		     s.comm_ns ? (double)bytes * 8 / (double)s.comm_ns : 0);
	fan_put_count(o, "sent", s.st.sent);
	fan_put_count(o, "retransmissions", s.st.resent);
	fan_put_count(o, "replays", s.st.replays);
	fan_put_count(o, "probes", s.st.probes);
	fan_put_count(o, "model_elements", fan_model_numel(&j->cfg.model));
	fan_put_count(o, "reduced_elements", s.elems);
	fan_put_count(o, "checked_elements", s.checked);
	fan_put_count(o, "restarts", j->shared.lives);
	json_object_set_new(o, "iteration_ends_s", iterations_of(j));
	if (j->standings.ranks)
		json_object_set_new(o, "ahead", ahead_json(j));
	fan_put_text(o, "error", error);
	return o;
}

static json_t *link_json(const struct fan_experiment *e, uint32_t link)
{
	const struct fan_sim_link *l = &e->sim.link[link];
	const struct fan_link_stats *st = &l->stats;
	uint64_t queue = (uint64_t)(((unsigned __int128)st->queue_max_ps << 16) / l->byte_q16);
	double capacity = (double)e->weather.bps[link] * fan_seconds(e->sim.now_ns) / 8;
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
	fan_put_count(root, "failed_jobs", jobs - ended);
	fan_put_real(root, "end_s", fan_seconds(e->sim.now_ns));
	fan_put_count(root, "packet_hops", e->sim.hops);
	fan_put_count(root, "fragment_hops", e->sim.frag_hops);
	json_object_set_new(root, "jobs", list);
	json_object_set_new(root, "switches", fan_result_switches(e));
	json_object_set_new(root, "servers", fan_result_servers(e));
	json_object_set_new(root, "links", links_json(e));
	if (e->scenario->tcps)
		json_object_set_new(root, "flows", flows_json(e));
	free(jct_s);
	return root;
}
