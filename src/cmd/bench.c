/* SPDX-License-Identifier: Apache-2.0 */
/* bench.c - the flags of `fanin bench`. */
#include "bench.h"

#include <argp.h>
#include <stdlib.h>
#include <string.h>

enum flag {
	FLAG_LOCAL = 256,
	FLAG_SWITCH,
	FLAG_JOB,
	FLAG_RANK,
	FLAG_RANKS,
	FLAG_MTU,
	FLAG_MODE,
	FLAG_WIRE,
	FLAG_WINDOW,
	FLAG_TIMEOUT,
	FLAG_ALIVE,
	FLAG_NO_MULTICAST,
	FLAG_PLAIN,
	FLAG_THREADS,
	FLAG_SLOTS,
	FLAG_JSON,
	FLAG_PROGRESS,
	FLAG_ELEMS,
};

struct name {
	const char *text;
	int value;
	unsigned bytes;
};

static const struct name dtypes[] = {
	{"float32", FANIN_FLOAT32, 4},	 {"float16", FANIN_FLOAT16, 2},
	{"bfloat16", FANIN_BFLOAT16, 2}, {"int32", FANIN_INT32, 4},
	{"int64", FANIN_INT64, 8},	 {NULL, 0, 0},
};
static const struct name ops[] = {
	{"sum", FANIN_SUM, 0}, {"avg", FANIN_AVG, 0}, {"min", FANIN_MIN, 0},
	{"max", FANIN_MAX, 0}, {NULL, 0, 0},
};
static const struct name modes[] = {
	{"native", FANIN_MODE_NATIVE, 0},
	{"fixed", FANIN_MODE_FIXED, 0},
	{NULL, 0, 0},
};
static const struct name wires[] = {
	{"float32", FANIN_FLOAT32, 0},
	{"float16", FANIN_FLOAT16, 0},
	{"bfloat16", FANIN_BFLOAT16, 0},
	{NULL, 0, 0},
};

static const char *name_of(const struct name *n, int value)
{
	while (n->text && n->value != value)
		n++;
	return n->text;
}

const char *bench_dtype_name(int dtype)
{
	return name_of(dtypes, dtype);
}

const char *bench_op_name(int op)
{
	return name_of(ops, op);
}

size_t bench_dtype_bytes(int dtype)
{
	const struct name *n = dtypes;
	while (n->text && n->value != dtype)
		n++;
	return n->bytes;
}

static const struct argp_option flags[] = {
	{NULL, 0, NULL, 0, "Where (one of the first two):", 1},
	{"local", FLAG_LOCAL, "N", 0, "start a switch and N ranks on this machine", 1},
	{"switch", FLAG_SWITCH, "ADDR:PORT", 0, "be one rank of a job on this switch", 1},
	{"job", FLAG_JOB, "NAME", 0, "name of the job", 1},
	{"rank", FLAG_RANK, "R", 0, "this rank (else from the launcher)", 1},
	{"ranks", FLAG_RANKS, "N", 0, "ranks of the job (else from the launcher)", 1},
	{NULL, 0, NULL, 0, "What:", 2},
	{NULL, 'b', "SIZE", 0, "first size, bytes, K M G allowed (16M)", 2},
	{NULL, 'e', "SIZE", 0, "last size (as -b)", 2},
	{NULL, 'f', "FACTOR", 0, "from one size to the next (2)", 2},
	{"elems", FLAG_ELEMS, "N", 0, "one size of N elements, instead of -b and -e", 2},
	{NULL, 'n', "N", 0, "timed all-reduces of each size (20)", 2},
	{NULL, 'w', "N", 0, "untimed ones before them (5)", 2},
	{NULL, 'd', "TYPE", 0, "float32 float16 bfloat16 int32 int64", 2},
	{NULL, 'o', "OP", 0, "sum avg min max", 2},
	{NULL, 'c', "0|1", 0, "check every element (1)", 2},
	{NULL, 0, NULL, 0, "How:", 3},
	{"mtu", FLAG_MTU, "BYTES", 0, "path MTU, 576 to 9000 (1500)", 3},
	{"mode", FLAG_MODE, "MODE", 0, "native, or fixed: same bits on every run", 3},
	{"wire", FLAG_WIRE, "TYPE", 0, "float32 tensors travel as float32 float16 bfloat16", 3},
	{"window", FLAG_WINDOW, "N", 0, "fragments in flight (as the switch gives)", 3},
	{"timeout", FLAG_TIMEOUT, "MS", 0, "end after so long without progress (30000)", 3},
	{"alive", FLAG_ALIVE, "MS", 0, "a rank silent for so long is lost (10000)", 3},
	{"no-multicast", FLAG_NO_MULTICAST, NULL, 0, "results by unicast only", 3},
	{"plain", FLAG_PLAIN, NULL, 0, "no UDP_SEGMENT, no UDP_GRO", 3},
	{"threads", FLAG_THREADS, "T", 0, "shards of the local switch (1)", 3},
	{"slots", FLAG_SLOTS, "N", 0, "slots of a shard of the local switch", 3},
	{NULL, 0, NULL, 0, "Output:", 4},
	{"json", FLAG_JSON, "FILE", 0, "write the results there", 4},
	{"progress", FLAG_PROGRESS, NULL, 0, "draw a bar on stderr", 4},
	{0},
};

/* A number from `min` to `max`, else usage and exit 2. */
static uint64_t number(struct argp_state *state, const char *flag, const char *text, uint64_t min,
		       uint64_t max)
{
	char *end;
	unsigned long long v = strtoull(text, &end, 10);
	if (*text < '0' || *text > '9' || *end || v < min || v > max)
		argp_error(state, "%s: \"%s\": expected a number from %llu to %llu", flag, text,
			   (unsigned long long)min, (unsigned long long)max);
	return v;
}

static uint64_t size(struct argp_state *state, const char *flag, const char *text)
{
	char *end;
	unsigned long long v = strtoull(text, &end, 10);
	const char *units = "KMG", *unit = *end ? strchr(units, *end & ~32) : NULL;
	bool ok = *text >= '0' && *text <= '9' && (!*end || (unit && !end[1]));
	unsigned shift = unit ? 10 * (unsigned)(unit - units + 1) : 0;
	if (!ok || v > BENCH_BYTES_MAX >> shift || v << shift < 8)
		argp_error(state, "%s: \"%s\": expected bytes from 8 to %lluG, such as 64K or 16M",
			   flag, text, (unsigned long long)(BENCH_BYTES_MAX >> 30));
	return v << shift;
}

static int word(struct argp_state *state, const char *flag, const char *text, const struct name *n)
{
	char want[128] = "";
	size_t used = 0;
	for (const struct name *k = n; k->text; k++) {
		if (!strcmp(k->text, text))
			return k->value;
		used += (size_t)snprintf(want + used, sizeof want - used, "%s%s",
					 k == n ? "" : ", ", k->text);
	}
	argp_error(state, "%s: \"%s\": expected one of %s", flag, text, want);
	return 0;
}

/* Flags about sizes and counts. */
static bool parse_what(int key, const char *text, struct bench_options *o, struct argp_state *state)
{
	switch (key) {
	case 'b': o->begin_bytes = size(state, "-b", text); break;
	case 'e': o->end_bytes = size(state, "-e", text); break;
	case 'f': o->factor = (int)number(state, "-f", text, 2, 1024); break;
	case 'n': o->iters = (int)number(state, "-n", text, 1, BENCH_ITERS_MAX); break;
	case 'w': o->warmup = (int)number(state, "-w", text, 0, BENCH_ITERS_MAX); break;
	case 'd': o->dtype = word(state, "-d", text, dtypes); break;
	case 'o': o->op = word(state, "-o", text, ops); break;
	case 'c': o->check = number(state, "-c", text, 0, 1); break;
	case FLAG_ELEMS: o->elems = number(state, "--elems", text, 1, BENCH_BYTES_MAX / 8); break;
	case FLAG_JSON: o->json = text; break;
	case FLAG_PROGRESS: o->progress = true; break;
	default: return false;
	}
	return true;
}

static bool parse_how(int key, const char *text, struct bench_options *o, struct argp_state *state)
{
	switch (key) {
	case FLAG_LOCAL: o->local = (int)number(state, "--local", text, 2, FANIN_RANKS_MAX); break;
	case FLAG_SWITCH: o->switch_addr = text; break;
	case FLAG_JOB: o->job = text; break;
	case FLAG_RANK: o->rank = (int)number(state, "--rank", text, 0, FANIN_RANKS_MAX - 1); break;
	case FLAG_RANKS: o->ranks = (int)number(state, "--ranks", text, 2, FANIN_RANKS_MAX); break;
	case FLAG_MTU: o->mtu = (int)number(state, "--mtu", text, 576, 9000); break;
	case FLAG_MODE: o->mode = word(state, "--mode", text, modes); break;
	case FLAG_WIRE: o->wire = word(state, "--wire", text, wires); break;
	case FLAG_WINDOW: o->window = (int)number(state, "--window", text, 2, 4096); break;
	case FLAG_TIMEOUT:
		o->timeout_ms = (int)number(state, "--timeout", text, 100, 86400000);
		break;
	case FLAG_ALIVE: o->alive_ms = (int)number(state, "--alive", text, 100, 600000); break;
	case FLAG_NO_MULTICAST: o->no_multicast = true; break;
	case FLAG_PLAIN: o->plain = true; break;
	case FLAG_THREADS: o->threads = (int)number(state, "--threads", text, 1, 64); break;
	case FLAG_SLOTS: o->slots = (int)number(state, "--slots", text, 2, 65536); break;
	default: return false;
	}
	return true;
}

/* What flags say together. */
static void check_together(struct argp_state *state, struct bench_options *o)
{
	if (!o->local == !o->switch_addr)
		argp_error(state, "expected either --local N or --switch ADDR:PORT");
	if (o->local && (o->rank >= 0 || o->ranks >= 0))
		argp_error(state, "--rank and --ranks: expected with --switch, not with --local");
	if (o->mode == FANIN_MODE_FIXED && o->wire != FANIN_FLOAT32)
		argp_error(state, "--mode fixed: expected without --wire");
	if (!o->end_bytes)
		o->end_bytes = o->begin_bytes;
	if (o->end_bytes < o->begin_bytes)
		argp_error(state, "-e: expected at least -b, %llu bytes",
			   (unsigned long long)o->begin_bytes);
}

static error_t parse(int key, char *text, struct argp_state *state)
{
	struct bench_options *o = state->input;
	if (key == ARGP_KEY_END)
		check_together(state, o);
	else if (key == ARGP_KEY_ARG)
		argp_error(state, "\"%s\": expected only flags", text);
	else if (!parse_what(key, text, o, state) && !parse_how(key, text, o, state))
		return ARGP_ERR_UNKNOWN;
	return 0;
}

int cmd_bench(int argc, char **argv)
{
	static const struct argp argp = {
		.options = flags,
		.parser = parse,
		.doc = "Time all-reduces through a switch and check every element.",
	};
	struct bench_options o = {
		.job = NULL,
		.rank = -1,
		.ranks = -1,
		.begin_bytes = 16 << 20,
		.factor = 2,
		.iters = 20,
		.warmup = 5,
		.check = true,
		.mtu = 1500,
		.mode = FANIN_MODE_NATIVE,
		.wire = FANIN_FLOAT32,
		.window = -1,
		.timeout_ms = -1,
		.alive_ms = -1,
		.threads = 1,
	};
	argp_err_exit_status = 2;
	argp_parse(&argp, argc, argv, ARGP_IN_ORDER, NULL, &o);
	return o.local ? bench_local(&o) : bench_run(&o, NULL);
}
