/* SPDX-License-Identifier: Apache-2.0 */
/* trace.c - runs scripts and prints what happens at the switch, or compares it with
 * what happened when the trace was recorded, which stands below each script.
 *
 *     trace FILE...                 print
 *     trace --compare FILE...       1 and the first difference of each that is not the same
 *     trace --update FILE...        record them anew
 *
 * Read the difference before it is committed: each line of it is a change of the protocol's
 * behaviour. */
#include "trace.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static struct trace {
	struct trace_script script;
	struct sim sim;
	struct host_node sw;
	struct host_worker worker[TRACE_RANKS_MAX];
	int node; /* kills ranks when their time has come */
	FILE *to;
} t;

static void say(const char *format, ...) __attribute__((format(printf, 1, 2)));

static void say(const char *format, ...)
{
	va_list args;
	fprintf(t.to, "[%7" PRIu64 "us] ", t.sim.now_ns / SIM_US);
	va_start(args, format);
	vfprintf(t.to, format, args);
	va_end(args);
	fputc('\n', t.to);
}

static void put_ranks(char *text, size_t bytes, const uint64_t *set)
{
	size_t n = 0;
	text[0] = '\0';
	for (unsigned r = 0; r < FAN_RANKS_MAX && n < bytes; r++)
		if (fan_ranks_has(set, r))
			n += (size_t)snprintf(text + n, bytes - n, " w%u", r);
}

/* What the packet says beside its type. */
static void describe(const struct fan_frag *f, char *text, size_t bytes)
{
	struct fan_state s;
	char ranks[80];
	text[0] = '\0';
	if (f->type == FAN_TYPE_DATA || f->type == FAN_TYPE_RESULT) {
		const char *kind = f->dtype == FAN_EXP16     ? " exponents"
				   : f->dtype == FAN_FIXED32 ? " fixed"
							     : "";
		snprintf(text, bytes, " #%" PRIu64 "%s x%u%s%s", f->frag, kind, f->count,
			 f->flags & FAN_F_EMPTY ? " empty" : "",
			 f->flags & (FAN_F_DIRECT | FAN_F_REPLAY) ? " again" : "");
	} else if (f->type == FAN_TYPE_PROBE || f->type == FAN_TYPE_NEED) {
		snprintf(text, bytes, " #%" PRIu64, f->frag);
	} else if (f->type == FAN_TYPE_MISS) {
		size_t n = 0;
		for (unsigned i = 64; i-- && n < bytes;)
			if (f->missing >> i & 1)
				n += (size_t)snprintf(text + n, bytes - n, " number %u",
						      (uint16_t)(f->last - i));
	} else if (f->type == FAN_TYPE_STATE && fan_ctl_get(&s, f) == FAN_OK) {
		static const char *const name[] = {"none", "forming", "ready", "failed", "left"};
		put_ranks(ranks, sizeof ranks, s.missing);
		snprintf(text, bytes, " %s%s%s%s%s", name[s.state],
			 s.multicast ? ", multicast" : "", s.err ? " " : "",
			 s.err ? fan_err_name(s.err) : "", ranks);
	}
}

/* The link: count the packet, apply its rule.  Seen when it is sent. */
static bool filter(void *arg, const struct sim_packet *p, uint64_t *delay_ns)
{
	(void)arg;
	struct fan_frag f;
	if (fan_wire_get(&f, p->bytes, p->len) >= 0)
		return false;
	bool up = p->to == SIM_SWITCH, lost = false;
	unsigned rank = (unsigned)(up ? p->from : p->to) - 1;
	for (unsigned i = 0; i < t.script.rules; i++) {
		struct trace_rule *r = &t.script.rule[i];
		if (r->type != f.type || r->rank != rank || r->number == 0 || --r->number)
			continue;
		lost = r->what == TRACE_LOSE;
		if (r->what == TRACE_DELAY)
			*delay_ns += r->by_ns;
		if (r->what == TRACE_AGAIN) {
			t.sim.node[rank + 1].link.delay_ns += r->by_ns;
			sim_send_bytes(&t.sim, p->from, p->to, p->bytes, p->len, p->by_group);
			t.sim.node[rank + 1].link.delay_ns -= r->by_ns;
		}
	}
	char text[160];
	describe(&f, text, sizeof text);
	if (t.script.shown >> f.type & 1 && (!up || lost))
		say("%s%u%s %s%s%s%s", up ? "w" : "sw0 > w", rank, up ? " > sw0" : "",
		    trace_type_name(f.type), text, p->by_group ? " (group)" : "",
		    lost ? ": lost" : "");
	return lost;
}

static void (*switch_recv)(void *self, const struct sim_packet *p);

/* What the switch makes of what arrives. */
static void seen_by_switch(void *self, const struct sim_packet *p)
{
	struct fan_frag f;
	const struct fan_aggregator_stats *st = fan_aggregator_stats(t.sw.aggregator);
	const struct fan_aggregator_stats before = *st;
	bool shown = fan_wire_get(&f, p->bytes, p->len) == -1 && t.script.shown >> f.type & 1;
	if (shown) {
		char text[160];
		describe(&f, text, sizeof text);
		say("sw0 < w%d %s%s", p->from - 1, trace_type_name(f.type), text);
	}
	switch_recv(self, p);
	for (unsigned i = 0; shown && i < FAN_DROP_COUNT; i++)
		if (st->drops[i] > before.drops[i])
			say("sw0: dropped, %s", fan_drop_text(i));
	if (shown && st->results > before.results)
		say("sw0: done");
}

static uint64_t next_death(void *self)
{
	(void)self;
	uint64_t at = SIM_NEVER;
	for (unsigned r = 0; r < t.script.job.cfg.ranks; r++)
		if (t.script.die_ns[r] && !t.worker[r].dead && t.script.die_ns[r] < at)
			at = t.script.die_ns[r];
	return at;
}

static void kill_those_due(void *self)
{
	(void)self;
	for (unsigned r = 0; r < t.script.job.cfg.ranks; r++) {
		if (!t.script.die_ns[r] || t.script.die_ns[r] > t.sim.now_ns || t.worker[r].dead)
			continue;
		say("w%u dies", r);
		host_worker_kill(&t.worker[r]);
	}
}

static void set_up(void)
{
	struct host_job *j = &t.script.job;
	struct sim_link link = {.delay_ns = t.script.delay_ns};
	if (t.script.group)
		j->cfg.options |= FAN_JOIN_GROUP;
	sim_init(&t.sim, 1);
	t.sim.filter = filter;
	struct fan_aggregator_config cfg = {
		.slots = 64,
		.payload_bytes = j->cfg.payload_bytes,
		.jobs_max = 2,
		.members_max = 32,
		.window_max = j->cfg.window_max,
		.shards = 1,
		.greedy = true,
		.secret = {{1, 0}},
		.group_family = t.script.group ? 4 : 0,
		.group_port = 9,
		.group_base = {239, 1, 1, 1},
	};
	host_aggregator_init(&t.sw, &t.sim, &cfg);
	switch_recv = t.sim.node[SIM_SWITCH].recv;
	t.sim.node[SIM_SWITCH].recv = seen_by_switch;
	struct tensor_job about = {j->cfg.ranks, j->cfg.payload_bytes / 4u};
	for (unsigned i = 0; i < j->ops; i++)
		tensor_expect(&j->op[i], &about);
	for (uint16_t r = 0; r < j->cfg.ranks; r++) {
		struct host_worker *w = &t.worker[r];
		link.deaf = t.script.deaf[r];
		host_worker_init(w, &t.sim, &link, j, r);
		w->room_items = 8;
		w->next_ns = t.script.start_ns[r];
		w->stop_before = t.script.idle[r] ? 0 : UINT32_MAX;
		if (t.script.other_at[r]) {
			w->other = &t.script.other[r];
			w->other_at = t.script.other_at[r] - 1;
		}
		sim_wake(&t.sim, w->node);
	}
	t.node = sim_add_node(&t.sim, &link);
	t.sim.node[t.node].deadline = next_death;
	t.sim.node[t.node].tick = kill_those_due;
	sim_wake(&t.sim, t.node);
}

/* Run until all have left and say how each ended. */
static void run(void)
{
	const uint64_t limit_ns = 30000 * FAN_MS;
	bool told[TRACE_RANKS_MAX] = {false};
	while (sim_step(&t.sim, limit_ns)) {
		for (unsigned r = 0; r < t.script.job.cfg.ranks; r++) {
			const struct host_end *e = &t.worker[r].end[0];
			char ranks[80];
			if (told[r] || !e->over)
				continue;
			told[r] = true;
			put_ranks(ranks, sizeof ranks, e->fault.ranks);
			say("w%u: %s%s", r, e->err ? fan_err_name(e->err) : "all done",
			    e->err ? ranks : "");
		}
	}
}

static void tear_down(void)
{
	for (unsigned r = 0; r < t.script.job.cfg.ranks; r++)
		host_worker_free(&t.worker[r]);
	host_node_free(&t.sw);
	sim_free(&t.sim);
	host_job_free(&t.script.job);
}

/* The first recorded line that differs from what was got, to stderr. */
static bool is_recorded(char *got, FILE *f, const char *path)
{
	char want[256];
	for (char *line = strtok(got, "\n"); line; line = strtok(NULL, "\n")) {
		unsigned n = trace_recorded(f, want, sizeof want);
		if (n && strcmp(want, line) == 0)
			continue;
		fprintf(stderr, "%s:%u: expected\n  %s\ngot\n  %s\n", path, n, n ? want : "the end",
			line);
		return false;
	}
	unsigned n = trace_recorded(f, want, sizeof want);
	if (n)
		fprintf(stderr, "%s:%u: expected\n  %s\ngot the end\n", path, n, want);
	return !n;
}

enum what { PRINT, COMPARE, UPDATE };

static int all_of(const char *path, enum what what)
{
	char *anew = NULL, line[256];
	size_t bytes = 0;
	int rc = 0;
	FILE *f = fopen(path, "r"), *out = what == UPDATE ? open_memstream(&anew, &bytes) : NULL;
	memset(&t, 0, sizeof t);
	while (trace_read(&t.script, f, path, out)) {
		char *got = NULL;
		t.to = what == COMPARE ? open_memstream(&got, &bytes) : out ? out : stdout;
		if (!t.to)
			return 2;
		set_up();
		run();
		tear_down();
		if (what == COMPARE) {
			fclose(t.to);
			rc |= !is_recorded(got, f, path);
			free(got);
		}
		while (trace_recorded(f, line, sizeof line))
			;
		memset(&t, 0, sizeof t);
	}
	fclose(f);
	if (out && (fclose(out) || !(f = fopen(path, "w")) || fputs(anew, f) < 0 || fclose(f)))
		rc = 2;
	free(anew);
	return rc;
}

int main(int argc, char **argv)
{
	enum what what = PRINT;
	int worst = 0;
	if (argc > 2 && strncmp(argv[1], "--", 2) == 0)
		what = strcmp(argv[1], "--update") == 0 ? UPDATE : COMPARE;
	if (argc < 2) {
		fprintf(stderr, "usage: trace [--compare | --update] FILE...\n");
		return 2;
	}
	for (int i = what == PRINT ? 1 : 2; i < argc; i++) {
		int rc = all_of(argv[i], what);
		worst = rc > worst ? rc : worst;
	}
	return worst;
}
