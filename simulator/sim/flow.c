/* SPDX-License-Identifier: Apache-2.0 */
#include <assert.h>
#include <math.h>
#include <stdlib.h>

#include "core/worker/stream.h"
#include "result.h"

#define NEVER INFINITY

/* What a link carries for a job: `bytes` for each byte of its gradients. */
struct load {
	uint32_t link;
	double bytes;
};

/* Times are in nanoseconds.  Bytes are those of gradients on the wire, without headers. */
struct flow {
	const struct fan_scenario_job *job;
	struct load *load;
	uint32_t loads, buckets;
	double window;	   /* bytes that may be in flight */
	double pace;	   /* the most bytes a nanosecond that the job asks for */
	double most;	   /* bytes a nanosecond that window and pace allow this bucket */
	double latency_ns; /* of the longest path, there and back */
	double *ready_ns;  /* by bucket of the iteration: when all workers have it */
	double computed_ns;
	uint32_t iteration, bucket;
	double left;	/* bytes of the bucket still to send */
	double wake_ns; /* start of an iteration, or bucket ready; NEVER: it sends, or is over */
	bool begins, sends, over, fixed;
	double rate, done_ns, comm_ns, comm_until_ns, wait_ns, bytes;
	double span_ns[FAN_JOB_SPANS_MAX];
};

struct flows {
	const struct fan_scenario *scenario;
	struct fan_sim sim;
	struct flow *flow;
	double *copies; /* by link: a job's copies; then bytes of all jobs without a rate */
	double *room;	/* by link: bytes a nanosecond not yet given to a job */
	bool multicast;
};

/* ---- the links that jobs use ---- */

static unsigned element_bytes(const struct fan_job_config *c)
{
	assert(c);
	return fan_dtype_bytes(c->wire);
}

/* Bytes of gradients in a packet. */
static double packet_bytes(const struct fan_job_config *c)
{
	assert(c->payload_bytes > 0);
	const struct fan_op op = {.dtype = FAN_FLOAT32,
				  .wire = (enum fan_dtype)c->wire,
				  .mode = (enum fan_mode)c->mode};
	return (double)fan_stream_per_frag(&op, c->payload_bytes, c->wire == FAN_BLOCK8 ? 4 : 1) *
	       element_bytes(c);
}

static double link_ns(const struct fan_sim_link *l, double bytes)
{
	return (double)l->delay_ns + (bytes + l->cfg.overhead_bytes) * 8e9 / (double)l->cfg.bps;
}

/* Add `times` contributions from node `a` to `b`, and with `back` their results.  Returns a
 * packet's round-trip time. */
static double add_path(struct flows *f, const struct flow *w, uint32_t a, uint32_t b, double times,
		       bool back)
{
	double ns = 0, packet = packet_bytes(&w->job->cfg) + FAN_HEAD_BYTES;
	while (a != b) {
		uint32_t link = fan_sim_next(&f->sim, a, b);
		if (link == FAN_SIM_NONE)
			break; /* out of memory: the world is invalid */
		f->copies[link] += times;
		ns += link_ns(&f->sim.link[link], packet);
		if (back) {
			double *down = &f->copies[link ^ 1];
			*down = f->multicast && *down > 0 ? *down : *down + times;
			ns += link_ns(&f->sim.link[link ^ 1], packet);
		}
		a = f->sim.link[link].to;
	}
	return ns;
}

/* The node above one that sums, or FAN_SIM_NONE. */
static uint32_t above(const struct fan_scenario *s, uint32_t node)
{
	const struct fan_scenario_node *n = &s->node[node];
	return n->parent != FAN_SIM_NONE ? n->parent : n->server;
}

/* Add the paths from each worker to where it joins, and from each node that sums to the next one.
 * Returns the longest path's round-trip time. */
static double add_sums(struct flows *f, struct flow *w, bool *passed, uint32_t *window)
{
	const struct fan_scenario *s = f->scenario;
	const struct fan_scenario_job *j = w->job;
	double most_ns = 0;
	for (uint32_t r = 0; r < j->cfg.ranks; r++) {
		uint32_t at = j->cfg.seat ? j->cfg.seat[r].node : j->at;
		f->multicast = s->node[at].multicast && !j->shared;
		double ns = add_path(f, w, j->cfg.host[r], at, 1, true);
		for (uint32_t up = above(s, at); at != j->at && up != FAN_SIM_NONE;
		     up = above(s, at)) {
			f->multicast = s->node[up].multicast && !j->shared;
			if (s->node[at].window < *window)
				*window = s->node[at].window;
			ns += add_path(f, w, at, up, passed[at] ? 0 : 1, true);
			passed[at] = true;
			at = up;
		}
		if (ns > most_ns)
			most_ns = ns;
	}
	return most_ns;
}

/* Add the paths of a binary tree: each rank sends up once and gets the result once. */
static double add_tree(struct flows *f, struct flow *w)
{
	const struct fan_job_config *c = &w->job->cfg;
	double most_ns = 0;
	for (uint32_t r = 1; r < c->ranks; r++) {
		double ns = 0;
		for (uint32_t at = r; at; at = (at - 1) / 2) {
			double times = at == r ? 1 : 0;
			ns += add_path(f, w, c->host[at], c->host[(at - 1) / 2], times, true);
		}
		most_ns = ns > most_ns ? ns : most_ns;
	}
	return most_ns;
}

/* Add the paths of a ring: parts go from each worker to the next, all but one n-th twice. */
static double add_ring(struct flows *f, struct flow *w)
{
	const struct fan_job_config *c = &w->job->cfg;
	double ns = 0, times = 2.0 * (c->ranks - 1) / c->ranks;
	for (uint32_t r = 0; r < c->ranks; r++)
		ns += add_path(f, w, c->host[r], c->host[(r + 1) % c->ranks], times, false);
	return ns * times;
}

/* The bytes on a link for a byte of gradients, headers included. */
static double framed(const struct flows *f, const struct flow *w, uint32_t link)
{
	double headers = FAN_HEAD_BYTES + f->sim.link[link].cfg.overhead_bytes;
	return 1 + headers / packet_bytes(&w->job->cfg);
}

/* Gather the links that the job uses from f->copies, and set that to zero again. */
static bool gather(struct flows *f, struct flow *w)
{
	for (uint32_t i = 0; i < f->sim.links; i++)
		w->loads += f->copies[i] > 0;
	w->load = calloc(w->loads + UINT32_C(1), sizeof *w->load);
	uint32_t n = 0;
	for (uint32_t i = 0; i < f->sim.links; i++) {
		if (w->load && f->copies[i] > 0)
			w->load[n++] = (struct load){i, f->copies[i] * framed(f, w, i)};
		f->copies[i] = 0;
	}
	return w->load != NULL;
}

static bool begin(struct flows *f, struct flow *w, const struct fan_scenario_job *j)
{
	const struct fan_job_config *c = &j->cfg;
	uint32_t window = c->window;
	bool *passed = calloc(f->scenario->nodes, sizeof *passed);
	w->job = j;
	w->buckets = c->buckets;
	w->begins = true;
	w->wake_ns = (double)c->arrival_ns;
	w->ready_ns = calloc(c->buckets + UINT32_C(1), sizeof *w->ready_ns);
	if (!passed || !w->ready_ns) {
		free(passed);
		return false;
	}
	bool ring = j->reduce != FAN_REDUCE_FANIN; /* or a tree: no windows, no joining */
	if (!ring && f->scenario->node[j->at].window < window)
		window = f->scenario->node[j->at].window;
	w->latency_ns = j->reduce == FAN_REDUCE_RING   ? add_ring(f, w)
			: j->reduce == FAN_REDUCE_TREE ? add_tree(f, w)
						       : add_sums(f, w, passed, &window);
	w->window = ring ? NEVER : window * packet_bytes(c);
	if (!ring) /* JOIN, WELCOME, BEAT and STATE */
		w->wake_ns += 2 * w->latency_ns;
	free(passed);
	if (!gather(f, w) || f->sim.broke)
		return false;
	double frame = w->loads ? framed(f, w, w->load[0].link) : 1;
	w->pace = c->pace_bps ? (double)c->pace_bps / 8e9 / frame : NEVER;
	return true;
}

/* ---- rates ---- */

/* The rate that a link has left for each copy of jobs without one; NEVER: it has no such copy. */
static double share_of(const struct flows *f, uint32_t link)
{
	return f->copies[link] > 0 ? f->room[link] / f->copies[link] : NEVER;
}

static void fix(struct flows *f, struct flow *w, double rate)
{
	w->rate = rate;
	w->fixed = true;
	for (uint32_t i = 0; i < w->loads; i++) {
		const struct load *l = &w->load[i];
		f->copies[l->link] -= l->bytes;
		if (f->copies[l->link] < 1e-9)
			f->copies[l->link] = 0;
		f->room[l->link] -= rate * l->bytes;
		if (f->room[l->link] < 0)
			f->room[l->link] = 0;
	}
}

/* The most that a job can get if all get the same. */
static double bound_of(const struct flows *f, const struct flow *w)
{
	double least = w->most;
	for (uint32_t i = 0; i < w->loads; i++) {
		double share = share_of(f, w->load[i].link);
		least = share < least ? share : least;
	}
	return least;
}

/* Divide the rates max-min fairly: in each turn, the job with the least bound gets it. */
static void share_out(struct flows *f)
{
	for (uint32_t i = 0; i < f->scenario->jobs; i++) {
		struct flow *w = &f->flow[i];
		w->fixed = !w->sends;
		for (uint32_t k = 0; w->sends && k < w->loads; k++) {
			uint32_t link = w->load[k].link;
			f->copies[link] = 0;
			f->room[link] = (double)f->sim.link[link].cfg.bps / 8e9;
		}
	}
	for (uint32_t i = 0; i < f->scenario->jobs; i++)
		for (uint32_t k = 0; f->flow[i].sends && k < f->flow[i].loads; k++)
			f->copies[f->flow[i].load[k].link] += f->flow[i].load[k].bytes;
	for (;;) { /* ends: each turn fixes one rate */
		double least = NEVER;
		struct flow *who = NULL;
		for (uint32_t i = 0; i < f->scenario->jobs; i++) {
			double bound = f->flow[i].fixed ? NEVER : bound_of(f, &f->flow[i]);
			if (!f->flow[i].fixed && (!who || bound < least)) {
				least = bound;
				who = &f->flow[i];
			}
		}
		if (!who)
			return;
		fix(f, who, least < 1e9 ? least : 1e9); /* no link: almost at once */
	}
}

/* ---- time ---- */

/* Compute the iteration on all workers from `now_ns` on, and with it when each bucket is ready. */
static void compute(struct flow *w, double now_ns)
{
	const struct fan_job_config *c = &w->job->cfg;
	const struct fan_model *m = &c->model;
	w->computed_ns = now_ns;
	for (uint32_t b = 0; b < w->buckets; b++)
		w->ready_ns[b] = now_ns;
	for (uint32_t r = 0; r < c->ranks; r++) {
		uint64_t at_ns = (uint64_t)now_ns;
		uint32_t b = 0;
		for (uint32_t step = 0; step < 2 * m->layers; step++) {
			bool back = step >= m->layers;
			uint32_t layer = back ? 2 * m->layers - 1 - step : step;
			uint64_t ns =
				back ? m->layer[layer].backward_ns : m->layer[layer].forward_ns;
			ns = fan_job_jittered(c, (uint16_t)r, w->iteration, ns);
			at_ns = fan_job_work_until(c, (uint16_t)r, at_ns, ns);
			if (!back || b == w->buckets || c->bucket[b].low != layer)
				continue;
			if ((double)at_ns > w->ready_ns[b])
				w->ready_ns[b] = (double)at_ns;
			b++;
		}
		if ((double)at_ns > w->computed_ns)
			w->computed_ns = (double)at_ns;
	}
}

/* End the iteration: the last bucket was sent at `now_ns`, or there was none. */
static void end_iteration(struct flow *w, double now_ns)
{
	double end_ns = now_ns + (w->buckets ? w->latency_ns : 0);
	if (end_ns < w->computed_ns)
		end_ns = w->computed_ns;
	w->wait_ns += end_ns - w->computed_ns;
	if (w->iteration < FAN_JOB_SPANS_MAX)
		w->span_ns[w->iteration] = end_ns;
	w->done_ns = end_ns;
	w->over = ++w->iteration == w->job->cfg.iterations;
	w->begins = !w->over;
	w->wake_ns = w->over ? NEVER : end_ns;
}

/* Go to the next bucket of the iteration, if there is one. */
static void next_bucket(struct flow *w, double now_ns)
{
	assert(w->ready_ns && w->bucket <= w->buckets);
	w->sends = false;
	if (w->bucket == w->buckets) {
		end_iteration(w, now_ns);
		return;
	}
	w->left = (double)w->job->cfg.bucket[w->bucket].elems * element_bytes(&w->job->cfg);
	w->wake_ns = w->ready_ns[w->bucket];
}

/* The rate that the window allows.  Bytes beyond one window wait for results, one window in each
 * round trip; all of them do if the window is full of the bucket before. */
static double window_rate(const struct flow *w)
{
	double waits = w->comm_until_ns > w->ready_ns[w->bucket] ? w->left : w->left - w->window;
	return waits > 0 ? w->window / w->latency_ns * w->left / waits : NEVER;
}

static void wake(struct flow *w, double now_ns)
{
	if (w->begins) {
		w->begins = false;
		w->bucket = 0;
		compute(w, now_ns);
		next_bucket(w, now_ns);
		return;
	}
	double rate = window_rate(w);
	w->most = rate < w->pace ? rate : w->pace;
	w->sends = true;
	w->wake_ns = NEVER;
}

static void sent(struct flow *w, double from_ns, double now_ns)
{
	double until_ns = now_ns + w->latency_ns;
	w->bytes += (double)w->job->cfg.bucket[w->bucket].elems * element_bytes(&w->job->cfg);
	w->comm_ns += until_ns - (w->comm_until_ns > from_ns ? w->comm_until_ns : from_ns);
	w->comm_until_ns = until_ns;
	w->bucket++;
	next_bucket(w, now_ns);
}

/* The time of the next change: a job wakes up, or has sent its bucket. */
static double next_change(const struct flows *f, double now_ns)
{
	double next_ns = NEVER;
	for (uint32_t i = 0; i < f->scenario->jobs; i++) {
		const struct flow *w = &f->flow[i];
		double ns = w->sends ? now_ns + w->left / w->rate : w->wake_ns;
		next_ns = ns < next_ns ? ns : next_ns;
	}
	return next_ns > now_ns ? next_ns : now_ns;
}

/* Do everything that is due by `next_ns`.  True: the set of sending jobs has changed. */
static bool advance(struct flows *f, double now_ns, double next_ns)
{
	bool changed = false;
	for (uint32_t i = 0; i < f->scenario->jobs; i++) {
		struct flow *w = &f->flow[i];
		bool sends = w->sends;
		assert(w->ready_ns);
		if (sends) {
			w->left -= w->rate * (next_ns - now_ns);
			if (w->left <= 1e-6 * w->rate) /* within a millionth of a nanosecond */
				sent(w, w->ready_ns[w->bucket], next_ns);
		}
		if (!w->over && !w->sends && w->wake_ns <= next_ns)
			wake(w, next_ns);
		changed |= sends != w->sends;
	}
	return changed;
}

static void run(struct flows *f)
{
	double now_ns = 0, limit_ns = (double)f->scenario->limit_ns;
	for (;;) {
		double next_ns = next_change(f, now_ns);
		if (next_ns == NEVER || next_ns > limit_ns)
			return;
		if (advance(f, now_ns, next_ns))
			share_out(f);
		now_ns = next_ns;
	}
}

/* ---- results ---- */

static json_t *job_json(const struct flows *f, const struct flow *w)
{
	const struct fan_job_config *c = &w->job->cfg;
	double bytes = w->bytes / element_bytes(c) * sizeof(float);
	json_t *o = json_object(), *ends = json_array();
	fan_put_text(o, "name", c->name);
	fan_put_text(o, "model", c->model.name);
	fan_put_text(o, "at", fan_result_at(f->scenario, w->job));
	fan_put_count(o, "workers", c->ranks);
	fan_put_count(o, "iterations", c->iterations);
	fan_put_real(o, "arrival_s", fan_seconds(c->arrival_ns));
	json_object_set_new(o, "jct_s",
			    w->over ? json_real((w->done_ns - (double)c->arrival_ns) / FAN_NS_PER_S)
				    : json_null());
	fan_put_real(o, "comm_s", w->comm_ns / FAN_NS_PER_S);
	fan_put_real(o, "wait_s", w->wait_ns / FAN_NS_PER_S);
	fan_put_count(o, "bytes_per_worker", (uint64_t)bytes);
	fan_put_real(o, "throughput_gbps_per_worker", w->comm_ns > 0 ? bytes * 8 / w->comm_ns : 0);
	fan_put_count(o, "retransmissions", 0);
	fan_put_count(o, "model_elements", fan_model_numel(&c->model));
	for (uint32_t i = 0; i < w->iteration && i < FAN_JOB_SPANS_MAX; i++)
		json_array_append_new(ends, json_real(w->span_ns[i] / FAN_NS_PER_S));
	json_object_set_new(o, "iteration_ends_s", ends);
	fan_put_text(o, "error", w->over ? NULL : "not over at limit_s");
	return o;
}

static json_t *links_json(struct flows *f, double end_ns)
{
	json_t *list = json_array();
	for (uint32_t i = 0; i < f->sim.links; i++)
		f->copies[i] = 0;
	for (uint32_t i = 0; i < f->scenario->jobs; i++)
		for (uint32_t k = 0; k < f->flow[i].loads; k++)
			f->copies[f->flow[i].load[k].link] +=
				f->flow[i].load[k].bytes * f->flow[i].bytes;
	for (uint32_t i = 0; i < f->sim.links; i++) {
		const struct fan_sim_link *l = &f->sim.link[i];
		double capacity = (double)l->cfg.bps / 8e9 * end_ns;
		if (f->copies[i] > 0)
			json_array_append_new(
				list, json_pack("{s:s, s:s, s:I, s:f}", "from",
						f->scenario->node[l->from].name, "to",
						f->scenario->node[l->to].name, "bytes",
						(json_int_t)f->copies[i], "use",
						capacity > 0 ? f->copies[i] / capacity : 0.0));
	}
	return list;
}

static json_t *result(struct flows *f)
{
	const struct fan_scenario *s = f->scenario;
	double *jct_s = calloc(s->jobs + UINT32_C(1), sizeof *jct_s), end_ns = 0;
	json_t *list = json_array();
	uint32_t ended = 0;
	if (!jct_s) {
		json_decref(list);
		return NULL;
	}
	for (uint32_t i = 0; i < s->jobs; i++) {
		const struct flow *w = &f->flow[i];
		json_array_append_new(list, job_json(f, w));
		end_ns = w->done_ns > end_ns ? w->done_ns : end_ns;
		if (w->over)
			jct_s[ended++] =
				(w->done_ns - (double)w->job->cfg.arrival_ns) / FAN_NS_PER_S;
	}
	json_t *root = json_pack("{s:s, s:I, s:s}", "name", s->name, "seed", (json_int_t)s->seed,
				 "level", "flows");
	fan_put_jct(root, jct_s, ended);
	fan_put_count(root, "failed_jobs", s->jobs - ended);
	fan_put_real(root, "end_s", end_ns / FAN_NS_PER_S);
	json_object_set_new(root, "jobs", list);
	json_object_set_new(root, "switches", json_array());
	json_object_set_new(root, "servers", json_array());
	json_object_set_new(root, "links", links_json(f, end_ns));
	free(jct_s);
	return root;
}

static bool set_up(struct flows *f, const struct fan_scenario *s)
{
	*f = (struct flows){.scenario = s};
	bool ok = fan_scenario_network(&f->sim, s);
	f->flow = calloc(s->jobs + UINT32_C(1), sizeof *f->flow);
	f->copies = calloc(f->sim.links + UINT32_C(1), sizeof *f->copies);
	f->room = calloc(f->sim.links + UINT32_C(1), sizeof *f->room);
	ok = ok && f->flow && f->copies && f->room;
	for (uint32_t i = 0; ok && i < s->jobs; i++)
		/* tear_down frees it: NOLINTNEXTLINE(clang-analyzer-unix.Malloc) */
		ok = begin(f, &f->flow[i], &s->job[i]);
	return ok;
}

static void tear_down(struct flows *f)
{
	for (uint32_t i = 0; f->flow && i < f->scenario->jobs; i++) {
		free(f->flow[i].load);
		free(f->flow[i].ready_ns);
	}
	free(f->flow);
	free(f->copies);
	free(f->room);
	fan_sim_free(&f->sim);
}

json_t *fan_flow_run(const struct fan_scenario *s)
{
	struct flows f;
	json_t *root = NULL;
	if (set_up(&f, s)) {
		run(&f);
		root = result(&f);
	}
	tear_down(&f);
	return root;
}
