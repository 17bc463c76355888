/* SPDX-License-Identifier: Apache-2.0 */
/* sim_sweep.c - runs each combination of values, several at a time. */
#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "file/file.h"
#include "sim.h"
#include "sim/experiment.h"
#include "sim/trace.h"

#define TELL_NS 500000000 /* nanoseconds between two lines of progress */

/* One combination of values. */
struct point {
	unsigned variant;		/* its number, if there are variants */
	unsigned which[SIM_SWEEPS_MAX]; /* for each key, the number of its value */
	struct fan_scenario scenario;
	bool read;
	uint32_t pcap_node; /* FAN_SIM_NONE: all nodes */
	json_t *result;
	char why[SIM_WHY_BYTES];
};

struct sweep {
	const struct sim_args *args;
	const char *file;
	struct point *point;
	unsigned points;
	atomic_uint next, done;
	atomic_ullong told_ns; /* wall-clock time of the last line of progress */
	uint64_t start_ns;
};

static uint64_t wall_ns(void)
{
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * 1000000000 + (uint64_t)t.tv_nsec;
}

static int set_one(json_t *root, const char *key, const char *value, const char *file, char *why)
{
	char text[SIM_WHY_BYTES / 2];
	if (fan_scenario_set(root, key, value, text, sizeof text) == 0)
		return 0;
	snprintf(why, SIM_WHY_BYTES, "%s: --set %s", file, text);
	return -1;
}

static int apply_sets(const struct sim_args *a, json_t *root, char *why)
{
	for (unsigned i = 0; i < a->sets; i++) {
		char *copy = strdup(a->set[i]), *value = copy ? strchr(copy, '=') : NULL;
		int bad = -1;
		if (value) {
			*value++ = '\0';
			bad = set_one(root, copy, value, a->file, why);
		}
		free(copy);
		if (bad)
			return -1;
	}
	return a->seed ? set_one(root, "seed", a->seed, a->file, why) : 0;
}

static int read_point(const struct sweep *w, struct point *p, const json_t *root)
{
	struct fan_reader r = {.file = w->file};
	json_t *copy = json_deep_copy(root);
	int bad = copy ? apply_sets(w->args, copy, p->why) : -1;
	if (!bad && w->args->variant)
		bad = sim_variant_apply(w->args, p->variant, copy, p->why);
	for (unsigned k = 0; !bad && k < w->args->sweeps; k++) {
		const struct sim_sweep_key *s = &w->args->sweep[k];
		bad = set_one(copy, s->key, s->value[p->which[k]], w->file, p->why);
	}
	if (!bad && fan_scenario_read(&p->scenario, copy, &r)) {
		snprintf(p->why, sizeof p->why, "%s", r.why);
		bad = -1;
	}
	p->read = !bad;
	p->pcap_node = bad || !w->args->pcap_node
			       ? FAN_SIM_NONE
			       : fan_scenario_find(&p->scenario, w->args->pcap_node);
	if (!bad && w->args->pcap_node && p->pcap_node == FAN_SIM_NONE) {
		snprintf(p->why, sizeof p->why, "--pcap: no node \"%s\"", w->args->pcap_node);
		bad = -1;
	}
	json_decref(copy);
	return bad;
}

static bool tell(void *arg, uint64_t now_ns, uint64_t done, uint64_t all)
{
	struct sweep *w = arg;
	unsigned long long told_ns = atomic_load(&w->told_ns), wall = wall_ns();
	if (w->args->quiet || wall < told_ns + TELL_NS ||
	    !atomic_compare_exchange_strong(&w->told_ns, &told_ns, wall))
		return true;
	bool terminal = isatty(STDERR_FILENO);
	if (!terminal && wall < told_ns + 20ull * TELL_NS && told_ns != w->start_ns)
		atomic_store(&w->told_ns, told_ns); /* in a log, every ten seconds will do */
	else if (w->points > 1)
		fprintf(stderr, "%s%u of %u runs%s", terminal ? "\r\033[K" : "", w->done, w->points,
			terminal ? "" : "\n");
	else
		fprintf(stderr, "%s%llu of %llu iterations, %.3f s of virtual time%s",
			terminal ? "\r\033[K" : "", (unsigned long long)done,
			(unsigned long long)all, (double)now_ns * 1e-9, terminal ? "" : "\n");
	return true;
}

/* Files that a run writes besides its result; NULL: not this one. */
struct outputs {
	FILE *lines, *pcap, *chrome, *beside;
};

static bool open_outputs(struct outputs *o, const struct sim_args *a, char *why)
{
	const struct {
		const char *name;
		enum fan_file_use use;
		FILE **f;
	} wanted[] = {{a->trace, FAN_FILE_OUTPUT, &o->lines},
		      {a->pcap, FAN_FILE_OUTPUT, &o->pcap},
		      {a->beside, FAN_FILE_INPUT, &o->beside},
		      {a->chrome_trace, FAN_FILE_OUTPUT, &o->chrome}};
	for (unsigned i = 0; i < sizeof wanted / sizeof *wanted; i++)
		if (wanted[i].name && !(*wanted[i].f = fan_file_stream(
						wanted[i].name, wanted[i].use, why, SIM_WHY_BYTES)))
			return false;
	return true;
}

/* Close the files.  False: some of the output is lost, and `why` says why. */
static bool close_outputs(struct outputs *o, const struct sim_args *a, char *why)
{
	const char *name[] = {a->trace, a->pcap, a->chrome_trace};
	FILE *const f[] = {o->lines, o->pcap, o->chrome};
	bool whole = true;
	for (unsigned i = 0; i < sizeof name / sizeof name[0]; i++)
		if (f[i] && fan_file_done(f[i], name[i], why, SIM_WHY_BYTES))
			whole = false;
	if (o->beside)
		fclose(o->beside);
	return whole;
}

/* Report that the capture has reached its bound. */
static void tell_missed(const struct sim_args *a, const struct fan_trace *t)
{
	fprintf(stderr,
		"fanin sim: --pcap: %s has the first %llu packets, until %.6f s; it has no room for "
		"%llu more%s%s\n",
		a->pcap, (unsigned long long)t->captured, (double)t->until_ns * 1e-9,
		(unsigned long long)t->missed, a->pcap_node ? "" : ": capture one node's with ",
		a->pcap_node ? "" : "FILE:NODE");
}

static void run_flows(const struct sweep *w, struct point *p)
{
	const struct sim_args *a = w->args;
	if (a->trace || a->pcap || a->chrome_trace)
		snprintf(p->why, sizeof p->why,
			 "--trace, --pcap, --chrome-trace: the level flows has no packets");
	else if (!(p->result = fan_flow_run(&p->scenario)))
		snprintf(p->why, sizeof p->why, "out of memory");
}

static void run_point(struct sweep *w, struct point *p)
{
	if (p->scenario.level == FAN_LEVEL_FLOWS) {
		run_flows(w, p);
		return;
	}
	struct fan_experiment *e = calloc(1, sizeof *e);
	struct fan_progress progress = {tell, w};
	struct fan_timeline *timeline = NULL;
	struct fan_trace trace = {.missed = 0};
	struct outputs o = {0};
	bool open = open_outputs(&o, w->args, p->why);
	if (open && e && fan_experiment_begin(e, &p->scenario)) {
		if (o.lines || o.pcap)
			fan_trace_begin(&trace, e, o.lines, o.pcap, p->pcap_node);
		if (o.chrome)
			timeline = fan_timeline_begin(e, o.chrome, o.beside);
		if (o.chrome && !timeline) {
			snprintf(p->why, sizeof p->why, "%s: no operations of ranks in it",
				 w->args->beside ? w->args->beside : "out of memory");
			open = false;
		}
		if (open && fan_experiment_run(e, &progress))
			p->result = fan_experiment_result(e);
		fan_timeline_end(timeline);
		fan_experiment_end(e);
	}
	if (p->result && trace.missed)
		tell_missed(w->args, &trace);
	if (open && !p->result)
		snprintf(p->why, sizeof p->why, "out of memory");
	if (!close_outputs(&o, w->args, p->why) && p->result) {
		json_decref(p->result);
		p->result = NULL;
	}
	free(e);
}

static void *work(void *arg)
{
	struct sweep *w = arg;
	for (;;) {
		unsigned i = atomic_fetch_add(&w->next, 1);
		if (i >= w->points)
			return NULL;
		run_point(w, &w->point[i]);
		fan_scenario_free(&w->point[i].scenario);
		w->point[i].read = false;
		atomic_fetch_add(&w->done, 1);
	}
}

static void run_all(struct sweep *w)
{
	pthread_t thread[SIM_JOBS_MAX];
	unsigned started = 0;
	w->start_ns = wall_ns();
	atomic_store(&w->told_ns, w->start_ns);
	while (started + 1 < w->args->jobs && started + 1 < w->points &&
	       pthread_create(&thread[started], NULL, work, w) == 0)
		started++;
	work(w);
	for (unsigned i = 0; i < started; i++)
		pthread_join(thread[i], NULL);
	if (!w->args->quiet && isatty(STDERR_FILENO))
		fputs("\r\033[K", stderr);
}

/* The value as JSON, so that 0.5 is a number. */
static json_t *value_json(const char *text)
{
	json_t *v = json_loads(text, JSON_DECODE_ANY, NULL);
	return v ? v : json_string(text);
}

static json_t *collect(const struct sweep *w)
{
	if (w->args->sweeps == 0 && !w->args->variant)
		return json_incref(w->point[0].result);
	json_t *keys = json_array(), *runs = json_array();
	if (w->args->variant)
		json_array_append_new(keys, json_string("variant"));
	for (unsigned k = 0; k < w->args->sweeps; k++)
		json_array_append_new(keys, json_string(w->args->sweep[k].key));
	for (unsigned i = 0; i < w->points; i++) {
		json_t *set = json_object();
		if (w->args->variant)
			json_object_set_new(
				set, "variant",
				json_string(sim_variant_name(w->args, w->point[i].variant)));
		for (unsigned k = 0; k < w->args->sweeps; k++) {
			const struct sim_sweep_key *s = &w->args->sweep[k];
			json_object_set_new(set, s->key,
					    value_json(s->value[w->point[i].which[k]]));
		}
		json_t *run = json_pack("{s:o}", "set", set);
		json_object_update(run, w->point[i].result);
		json_array_append_new(runs, run);
	}
	return json_pack("{s:o, s:o}", "sweep", keys, "runs", runs);
}

static unsigned count_points(const struct sim_args *a)
{
	unsigned points = a->variant ? (unsigned)json_object_size(a->variant) : 1;
	for (unsigned k = 0; k < a->sweeps && points <= SIM_POINTS_MAX; k++)
		points *= a->sweep[k].values;
	return points;
}

json_t *sim_sweep(const struct sim_args *a, const json_t *root, bool *wrong, char *why)
{
	struct sweep w = {.args = a, .file = a->file, .points = count_points(a)};
	json_t *result = NULL;
	*wrong = true;
	if (w.points > SIM_POINTS_MAX) {
		snprintf(why, SIM_WHY_BYTES, "--sweep: more than %d combinations", SIM_POINTS_MAX);
		return NULL;
	}
	w.point = calloc(w.points, sizeof *w.point);
	const char *bad = w.point ? NULL : "out of memory";
	for (unsigned i = 0; !bad && i < w.points; i++) {
		struct point *p = &w.point[i];
		p->variant = i;
		for (unsigned k = a->sweeps, rest = i; k-- > 0;) {
			p->which[k] = rest % a->sweep[k].values;
			rest /= a->sweep[k].values;
			p->variant = rest;
		}
		bad = read_point(&w, p, root) ? p->why : NULL;
	}
	if (!bad) {
		*wrong = false;
		run_all(&w);
	}
	for (unsigned i = 0; !bad && i < w.points; i++)
		bad = w.point[i].result ? NULL : w.point[i].why;
	if (bad)
		snprintf(why, SIM_WHY_BYTES, "%s", bad);
	else
		result = collect(&w);
	for (unsigned i = 0; w.point && i < w.points; i++) {
		json_decref(w.point[i].result);
		if (w.point[i].read)
			fan_scenario_free(&w.point[i].scenario);
	}
	free(w.point);
	return result;
}
