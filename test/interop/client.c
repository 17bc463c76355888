/* SPDX-License-Identifier: Apache-2.0 */
/* client.c - a worker that uses libfanin and does what worker.py does.
 *
 *     client PLAN IN OUT       options by the FANIN_* variables
 *
 * PLAN has one operation a line, `VERB DTYPE OP COUNT ROOT`; `wait` for all those before
 * it; and `sleep SECONDS`, alive.  IN holds the tensors of all operations one behind the
 * other; results go to OUT in the same way.  An error ends it with `error CODE TEXT` on stderr. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "fanin.h"

enum { OPS_MAX = 256 };

struct step {
	char verb[16], dtype[16], op[8];
	size_t count, bytes;
	int root;
	char *in, *out; /* out: NULL unless this rank gets the result */
	fanin_op *handle;
};

static const struct word {
	const char *name;
	int value, bytes;
} words[] = {
	{"float32", FANIN_FLOAT32, 4},	 {"float16", FANIN_FLOAT16, 2},
	{"bfloat16", FANIN_BFLOAT16, 2}, {"int32", FANIN_INT32, 4},
	{"int64", FANIN_INT64, 8},	 {"float64", FANIN_FLOAT64, 8},
	{"uint8", FANIN_UINT8, 1},	 {"sum", FANIN_SUM, 0},
	{"avg", FANIN_AVG, 0},		 {"min", FANIN_MIN, 0},
	{"max", FANIN_MAX, 0},
};

static const struct word *word(const char *name)
{
	for (size_t i = 0; i < sizeof words / sizeof words[0]; i++)
		if (!strcmp(words[i].name, name))
			return &words[i];
	fprintf(stderr, "plan: unknown word %s\n", name);
	exit(2);
}

/* Read the tensor of `s` from `in` and start its operation. */
static int start(fanin_comm *c, struct step *s, FILE *in)
{
	int dtype = word(s->dtype)->value, rank = fanin_comm_rank(c);

	s->bytes = s->count * (size_t)word(s->dtype)->bytes;
	s->in = malloc(s->bytes + 1);
	s->out = NULL;
	if (!s->in || fread(s->in, 1, s->bytes, in) != s->bytes)
		return FANIN_E_INVALID;
	if (!strcmp(s->verb, "barrier"))
		return fanin_barrier_start(c, &s->handle);
	if (!strcmp(s->verb, "broadcast")) {
		s->out = s->in;
		return fanin_broadcast_start(c, s->in, s->count, dtype, s->root, &s->handle);
	}
	if (!strcmp(s->verb, "allreduce") || rank == s->root) {
		s->out = malloc(s->bytes + 1);
		if (!s->out)
			return FANIN_E_NOMEM;
	}
	if (!strcmp(s->verb, "allreduce"))
		return fanin_allreduce_start(c, s->in, s->out, s->count, dtype, word(s->op)->value,
					     &s->handle);
	return fanin_reduce_start(c, s->in, s->out, s->count, dtype, word(s->op)->value, s->root,
				  &s->handle);
}

/* Wait for `n` steps and write what they gave. */
static int finish(struct step *steps, size_t n, FILE *out)
{
	int first = 0;

	for (size_t i = 0; i < n; i++) {
		struct step *s = &steps[i];
		int e = s->handle ? fanin_op_wait(s->handle, -1) : 0;

		fanin_op_free(s->handle);
		if (!e && s->out && fwrite(s->out, 1, s->bytes, out) != s->bytes)
			e = FANIN_E_SYSTEM;
		if (s->out != s->in)
			free(s->out);
		free(s->in);
		if (!first)
			first = e;
	}
	return first;
}

static int run_plan(fanin_comm *c, FILE *plan, FILE *in, FILE *out)
{
	struct step steps[OPS_MAX];
	size_t n = 0;
	char line[128];
	unsigned seconds;
	int e = 0, late;

	while (!e && n < OPS_MAX && fgets(line, sizeof line, plan)) {
		if (!strncmp(line, "wait", 4)) {
			e = finish(steps, n, out);
			n = 0;
			continue;
		}
		if (sscanf(line, "sleep %u", &seconds) == 1) {
			sleep(seconds);
			continue;
		}
		memset(&steps[n], 0, sizeof steps[n]);
		if (sscanf(line, "%15s %15s %7s %zu %d", steps[n].verb, steps[n].dtype, steps[n].op,
			   &steps[n].count, &steps[n].root) != 5)
			return FANIN_E_INVALID;
		e = start(c, &steps[n++], in);
	}
	late = finish(steps, n, out);
	return e ? e : late;
}

int main(int argc, char **argv)
{
	struct fanin_options o = FANIN_OPTIONS_INIT;
	fanin_comm *c = NULL;
	FILE *plan, *in, *out;
	int e;

	if (argc != 4 || !(plan = fopen(argv[1], "r")) || !(in = fopen(argv[2], "rb")) ||
	    !(out = fopen(argv[3], "wb"))) {
		fprintf(stderr, "usage: client PLAN IN OUT\n");
		return 2;
	}
	e = fanin_comm_create(&o, &c);
	if (!e)
		e = run_plan(c, plan, in, out);
	if (e)
		fprintf(stderr, "error %d %s\n", e, fanin_comm_error(c));
	fanin_comm_destroy(c);
	fclose(plan);
	fclose(in);
	if (fclose(out) && !e)
		e = FANIN_E_SYSTEM;
	return e ? 1 : 0;
}
