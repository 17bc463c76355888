/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "trace.h"

#define WORDS_MAX 16

static const char *path_read;
static unsigned line_number;

_Noreturn static void wrong(const char *expected, const char *got)
{
	fprintf(stderr, "%s:%u: expected %s, got \"%s\"\n", path_read, line_number, expected,
		got ? got : "");
	exit(2);
}

static const struct {
	const char *name;
	unsigned type;
} types[] = {
	{"data", FAN_TYPE_DATA},       {"result", FAN_TYPE_RESULT}, {"probe", FAN_TYPE_PROBE},
	{"need", FAN_TYPE_NEED},       {"miss", FAN_TYPE_MISS},	    {"join", FAN_TYPE_JOIN},
	{"welcome", FAN_TYPE_WELCOME}, {"beat", FAN_TYPE_BEAT},	    {"state", FAN_TYPE_STATE},
	{"leave", FAN_TYPE_LEAVE},     {"refuse", FAN_TYPE_REFUSE},
};

int trace_type(const char *name)
{
	for (unsigned i = 0; i < sizeof types / sizeof *types; i++)
		if (strcmp(types[i].name, name) == 0)
			return (int)types[i].type;
	return -1;
}

const char *trace_type_name(unsigned type)
{
	for (unsigned i = 0; i < sizeof types / sizeof *types; i++)
		if (types[i].type == type)
			return types[i].name;
	return "?";
}

static uint64_t number(const char *word)
{
	char *end = NULL;
	uint64_t v = word ? strtoull(word, &end, 10) : 0;
	if (!word || end == word || *end)
		wrong("a number", word);
	return v;
}

static uint16_t rank(const char *word)
{
	uint64_t v = number(word);
	if (v >= TRACE_RANKS_MAX)
		wrong("a rank below 16", word);
	return (uint16_t)v;
}

static uint8_t type(const char *word)
{
	int t = word ? trace_type(word) : -1;
	if (t < 0)
		wrong("a type of message", word);
	return (uint8_t)t;
}

static enum fan_redop redop(const char *word)
{
	static const char *const name[] = {"SUM", "AVG", "MIN", "MAX", "BCAST", "BARRIER"};
	for (unsigned i = 0; word && i < 6; i++)
		if (strcmp(name[i], word) == 0)
			return (enum fan_redop)i;
	wrong("an operation", word);
}

static void read_op(struct trace_script *s, char **w)
{
	struct tensor_op o = {.seed = s->job.ops + 1};
	struct fan_op *op = &o.op;
	int own = -1;
	op->op = redop(w[1]);
	op->count = number(w[2]);
	op->dtype = op->wire = FAN_FLOAT32;
	for (w += 3; *w; w++) {
		if (strcmp(*w, "fixed") == 0)
			op->mode = FAN_FIXED;
		else if (strcmp(*w, "reduce") == 0)
			op->reduce = true;
		else if (strcmp(*w, "int64") == 0)
			op->dtype = op->wire = FAN_INT64;
		else if (strcmp(*w, "root") == 0)
			op->root = rank(*++w);
		else if (strcmp(*w, "rank") == 0)
			own = rank(*++w);
		else
			wrong("fixed, reduce, int64, root R or rank R", *w);
	}
	if (own >= 0) {
		s->other[own] = o;
		s->other_at[own] = s->job.ops;
	} else if (s->job.ops == HOST_OPS_MAX) {
		wrong("fewer operations", "op");
	} else {
		s->job.op[s->job.ops++] = o;
	}
}

static void read_rule(struct trace_script *s, enum trace_what what, char **w)
{
	if (s->rules == TRACE_RULES_MAX)
		wrong("fewer rules", w[0]);
	struct trace_rule *r = &s->rule[s->rules++];
	*r = (struct trace_rule){what, type(w[1]), rank(w[2]), (unsigned)number(w[3]), 0};
	if (what != TRACE_LOSE)
		r->by_ns = number(w[4]) * SIM_US;
}

static void read_setting(struct trace_script *s, char **w)
{
	struct fan_worker_config *c = &s->job.cfg;
	if (strcmp(w[0], "ranks") == 0)
		c->ranks = (uint16_t)(rank(w[1]));
	else if (strcmp(w[0], "window") == 0)
		c->window_max = (uint16_t)number(w[1]);
	else if (strcmp(w[0], "payload") == 0)
		c->payload_bytes = (uint16_t)number(w[1]);
	else if (strcmp(w[0], "alive") == 0)
		c->alive_ms = (uint32_t)number(w[1]);
	else if (strcmp(w[0], "stall") == 0)
		c->stall_ms = (uint32_t)number(w[1]);
	else if (strcmp(w[0], "link") == 0)
		s->delay_ns = number(w[1]) * SIM_US;
	else
		wrong("a setting, an operation or a rule", w[0]);
}

static void read_words(struct trace_script *s, char **w)
{
	if (strcmp(w[0], "op") == 0)
		read_op(s, w);
	else if (strcmp(w[0], "lose") == 0)
		read_rule(s, TRACE_LOSE, w);
	else if (strcmp(w[0], "delay") == 0)
		read_rule(s, TRACE_DELAY, w);
	else if (strcmp(w[0], "again") == 0)
		read_rule(s, TRACE_AGAIN, w);
	else if (strcmp(w[0], "start") == 0)
		s->start_ns[rank(w[1])] = number(w[2]) * SIM_US;
	else if (strcmp(w[0], "die") == 0)
		s->die_ns[rank(w[1])] = number(w[2]) * SIM_US;
	else if (strcmp(w[0], "deaf") == 0)
		s->deaf[rank(w[1])] = true;
	else if (strcmp(w[0], "idle") == 0)
		s->idle[rank(w[1])] = true;
	else if (strcmp(w[0], "group") == 0)
		s->group = true;
	else if (strcmp(w[0], "show") == 0)
		for (w++; *w; w++)
			s->shown |= UINT64_C(1) << type(*w);
	else
		read_setting(s, w);
}

unsigned trace_recorded(FILE *f, char *line, size_t bytes)
{
	int first = ungetc(fgetc(f), f);
	if (first != '[' || !fgets(line, (int)bytes, f))
		return 0;
	line[strcspn(line, "\n")] = '\0';
	return line_number++;
}

bool trace_read(struct trace_script *s, FILE *f, const char *path, FILE *copy)
{
	char line[256];
	bool any = false;
	line_number = path == path_read ? line_number : 1;
	path_read = path;
	if (!f)
		wrong("a script that can be read", path);
	memset(s, 0, sizeof *s);
	s->delay_ns = 5 * SIM_US;
	s->job.exact = true;
	s->job.depth = 8;
	s->job.cfg = (struct fan_worker_config){.name = "job",
						.ranks = 2,
						.window_max = 4,
						.payload_bytes = 64,
						.alive_ms = 1000,
						.join_ms = 5000,
						.stall_ms = 3000};
	for (; ungetc(fgetc(f), f) != '[' && fgets(line, sizeof line, f); line_number++) {
		char *words[WORDS_MAX + 2] = {NULL};
		unsigned n = 0;
		if (copy)
			fputs(line, copy);
		line[strcspn(line, "#\n")] = '\0';
		for (char *w = strtok(line, " \t"); w && n < WORDS_MAX; w = strtok(NULL, " \t"))
			words[n++] = w;
		if (n)
			read_words(s, words);
		any = true;
	}
	return any;
}
