/* SPDX-License-Identifier: Apache-2.0 */
/* result_switch.c - what switches and servers have done, in total and over time. */
#include "result.h"

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
		json_array_append_new(list, json_real(more / fan_seconds(s->interval_ns)));
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
	return json_pack("{s:f, s:f, s:o, s:o, s:o, s:o, s:o}", "start_s", fan_seconds(s->start_ns),
			 "interval_s", fan_seconds(s->interval_ns), "occupancy",
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
	const struct fan_node_stats between = fan_sim_daemon_between(d);
	fan_put_count(o, "rx_packets", inner ? between.up_packets : d->rx_packets);
	fan_put_count(o, "rx_bytes", inner ? between.up_bytes : d->rx_bytes);
	fan_put_count(o, "tx_packets", inner ? between.down_packets : d->tx_packets);
	fan_put_count(o, "tx_bytes", inner ? between.down_bytes : d->tx_bytes);
}

/* ---- what sums for one job, or completes what shared slots could not ---- */

static json_t *aggregator_json(const struct fan_experiment *e, uint32_t node)
{
	const struct fan_sim_daemon *d = e->daemon[node];
	const struct fan_aggregator_stats st = fan_sim_daemon_aggregator(d);
	json_t *o = json_object();
	fan_put_text(o, "name", e->scenario->node[node].name);
	fan_put_text(o, "policy", "switchml");
	fan_put_count(o, "slots", d->cfg.aggregator.slots);
	fan_put_real(o, "occupancy", mean_occupancy(d->sums, d->cfg.aggregator.slots));
	fan_put_real(o, "hit_rate", share(st.contributions, fan_sim_offered(&st)));
	fan_put_count(o, "evictions", 0);  /* always 0 under switchml */
	fan_put_count(o, "collisions", 0); /* always 0 under switchml */
	fan_put_count(o, "contributions", st.contributions);
	fan_put_count(o, "partials", st.partials);
	fan_put_count(o, "results", st.results);
	fan_put_count(o, "replays", st.replays);
	fan_put_count(o, "needs", st.needs);
	fan_put_count(o, "reminders", st.flushes);
	fan_put_count(o, "dropped", sum_of(st.drops, FAN_DROP_COUNT));
	fan_put_count(o, "restarts", d->restarts);
	put_traffic(o, d, d->slots != NULL);
	json_object_set_new(o, "series", series_json(d->sums, d->cfg.aggregator.slots));
	return o;
}

/* ---- shared slots ---- */

static void put_slots_counts(json_t *o, const struct fan_switch_stats *st)
{
	fan_put_count(o, "collisions", st->collisions + st->over_quota);
	fan_put_count(o, "over_quota", st->over_quota);
	fan_put_count(o, "preemptions", st->preemptions);
	fan_put_count(o, "evictions", st->evictions);
	fan_put_count(o, "flushes", st->flushes);
	fan_put_count(o, "passed", st->passed);
	fan_put_count(o, "contributions", fan_sim_slots_added(st));
	fan_put_count(o, "completions", st->completions);
	fan_put_count(o, "partials", st->partials);
	fan_put_count(o, "results", st->results);
	fan_put_count(o, "unknown", st->unknown);
	fan_put_count(o, "dropped", sum_of(st->drops, FAN_DROP_COUNT));
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

static json_t *slots_json(const struct fan_experiment *e, uint32_t node)
{
	const struct fan_sim_daemon *d = e->daemon[node];
	const struct fan_switch_stats st = fan_sim_daemon_slots(d);
	json_t *o = json_object();
	fan_put_text(o, "name", e->scenario->node[node].name);
	fan_put_text(o, "policy", fan_policy_name((int)d->cfg.slots.policy));
	fan_put_count(o, "slots", d->cfg.slots.slots);
	fan_put_real(o, "occupancy", mean_occupancy(d->shares, d->cfg.slots.slots));
	fan_put_real(o, "hit_rate", share(fan_sim_slots_added(&st), fan_sim_slots_offered(&st)));
	put_slots_counts(o, &st);
	fan_put_count(o, "restarts", d->restarts);
	put_traffic(o, d, false);
	json_object_set_new(o, "series", slots_series_json(d->shares, d->cfg.slots.slots));
	return o;
}

json_t *fan_result_switches(const struct fan_experiment *e)
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

json_t *fan_result_servers(const struct fan_experiment *e)
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
