/* SPDX-License-Identifier: Apache-2.0 */
/* bench.c - the options of `fanin bench`. */
#include "bench.h"

#include <stdlib.h>
#include <string.h>

#include "cmd/cmd.h"
#include "core/base/policy_kind.h"
#include "lib/base/rendezvous.h"

/* Indices are the values of fanin.h. */
static const char *const dtypes[] = {"float32", "float16", "bfloat16", "int32", "int64", NULL};
static const char *const ops[] = {"sum", "avg", "min", "max", NULL};
static const char *const policies[] = {FAN_POLICY_NAMES, NULL};

#define AT(field) offsetof(struct bench_options, field)
static const struct fan_option options[] = {
	{"local", 0, ARGS_NUMBER, AT(local), 2, FANIN_RANKS_MAX, NULL, "N",
	 "start a switch and N ranks on this machine"},
	{"switch", 0, ARGS_WORKER, 0, 0, 0, NULL, "ADDR:PORT",
	 "be one rank of a job on this switch"},
	{"controller", 0, ARGS_WORKER, 0, 0, 0, NULL, "ADDR:PORT",
	 "be one rank of a job of this `fanin controller`'s plan"},
	{"job", 0, ARGS_WORKER, 0, 0, 0, NULL, "NAME", "name of the job"},
	{"rank", 0, ARGS_WORKER, 0, 0, 0, NULL, "R", "this rank (from the launcher)"},
	{"ranks", 0, ARGS_WORKER, 0, 0, 0, NULL, "N", "ranks of the job (from the launcher)"},
	{"begin", 'b', ARGS_SIZE, AT(begin_bytes), 8, BENCH_BYTES_MAX, NULL, "BYTES",
	 "first size (16M)"},
	{"end", 'e', ARGS_SIZE, AT(end_bytes), 8, BENCH_BYTES_MAX, NULL, "BYTES",
	 "last size (as --begin)"},
	{"factor", 'f', ARGS_NUMBER, AT(factor), 2, 1024, NULL, "F",
	 "factor from size to size (2)"},
	{"iters", 'n', ARGS_NUMBER, AT(iters), 1, BENCH_ITERS_MAX, NULL, "N",
	 "timed all-reduces of each size (20)"},
	{"seconds", 0, ARGS_NUMBER, AT(seconds), 1, 86400, NULL, "S",
	 "instead of --iters: all that begin within this time"},
	{"warmup", 'w', ARGS_NUMBER, AT(warmup), 0, BENCH_ITERS_MAX, NULL, "N",
	 "untimed all-reduces of each size before them (5)"},
	{"type", 'd', ARGS_WORD, AT(dtype), 0, 0, dtypes, "TYPE",
	 "float32, float16, bfloat16, int32 or int64 (float32)"},
	{"op", 'o', ARGS_WORD, AT(op), 0, 0, ops, "OP", "sum, avg, min or max (sum)"},
	{"check", 'c', ARGS_NUMBER, AT(check), 0, 1, NULL, "0|1", "check every element (1)"},
	{"mtu", 0, ARGS_WORKER, 0, 0, 0, NULL, "BYTES", "path MTU (1500)"},
	{"mode", 0, ARGS_WORKER, 0, 0, 0, NULL, "MODE",
	 "native, or fixed: the same bits on every run (native)"},
	{"wire", 0, ARGS_WORKER, 0, 0, 0, NULL, "TYPE",
	 "float32 tensors travel as float32, float16, bfloat16 or int8 (float32)"},
	{"timeout", 0, ARGS_WORKER, 0, 0, 0, NULL, "MS",
	 "fail after this time without progress (30000)"},
	{"alive", 0, ARGS_WORKER, 0, 0, 0, NULL, "MS",
	 "silence after which a rank is lost (10000)"},
	{"pace", 0, ARGS_WORKER, 0, 0, 0, NULL, "PERCENT",
	 "with --controller: percent of the planned rate to send at; 0: as windows allow (100)"},
	{"compute", 0, ARGS_NUMBER, AT(compute_ms), 0, 3600000, NULL, "MS",
	 "idle time before each all-reduce, as of a model that computes (0)"},
	{"jitter", 0, ARGS_NUMBER, AT(jitter), 0, 100, NULL, "PERCENT",
	 "random change of that time, by rank, up to this (0)"},
	{"workers", 0, ARGS_NUMBER, AT(workers), 2, FAN_WORKERS_MAX, NULL, "T",
	 "in a tree of switches: ranks of the job below all of them"},
	{"first", 0, ARGS_NUMBER, AT(first), 0, FAN_WORKERS_MAX - 1, NULL, "F",
	 "with --workers: how many are below the switches before this one (0)"},
	{"policy", 0, ARGS_WORD, AT(policy), 0, 0, policies, "NAME",
	 "of the local switch: switchml, atp, esa or grid (switchml)"},
	{"threads", 0, ARGS_NUMBER, AT(threads), 1, FAN_SHARDS_MAX, NULL, "T",
	 "shards of the local switch (1)"},
	{"slots", 0, ARGS_NUMBER, AT(slots), 2, FAN_SLOTS_MAX, NULL, "N",
	 "slots of the local switch, as for `fanin switch`"},
	{"json", 0, ARGS_TEXT, AT(json), 0, 0, NULL, "FILE", "write the results there"},
	{"progress", 0, ARGS_FLAG, AT(progress), 0, 0, NULL, NULL, "count all-reduces on stderr"},
};

/* Which flags, or keys of [bench], have chosen where to run. */
static struct {
	bool sw, controller, rank;
} given;

static int take_worker(const char *flag, const char *text, char *expected, size_t bytes)
{
	given.sw |= !strcmp(flag, "switch");
	given.controller |= !strcmp(flag, "controller");
	given.rank |= !strncmp(flag, "rank", 4);
	return fan_config_export(flag, text, expected, bytes);
}

static const struct args_command command = {
	.name = "bench",
	.worker = take_worker,
	.help = "Time all-reduces through a switch and check every element.\v"
		"Either --local N, or in every process --switch or --controller with --job, --rank and "
		"--ranks.  Times are "
		"those of the slowest rank; algbw = size / time, busbw = algbw x 2 (N - 1) / N as in "
		"nccl-tests, linkbw = what every link carries in each direction.",
	.options = options,
	.count = sizeof options / sizeof options[0],
};

const char *bench_dtype_name(int dtype)
{
	return dtypes[dtype];
}

const char *bench_op_name(int op)
{
	return ops[op];
}

size_t bench_dtype_bytes(int dtype)
{
	return fan_dtype_bytes((unsigned)dtype);
}

/* Is a switch named, or a controller, or a place where ranks meet without one? */
static bool is_addressed(const struct bench_options *o)
{
	struct fan_rendezvous at;
	char why[FAN_CONFIG_WHY_BYTES];
	static const char *const variables[] = {"FANIN_SWITCH", "FANIN_CONTROLLER", "FANIN_CONFIG"};
	bool addressed = *o->cfg.switch_addr || *o->cfg.controller_addr;
	for (size_t i = 0; i < sizeof variables / sizeof variables[0]; i++)
		addressed |= getenv(variables[i]) != NULL;
	return addressed || fan_rendezvous_find(&at, why, sizeof why) == FAN_OK;
}

/* The options of the library, from flags, variables, the INI file or by default.  0; or an error,
 * and `why`. */
static int take_settings(struct bench_options *o, char *why, size_t bytes)
{
	struct fanin_options any = FANIN_OPTIONS_INIT;
	if (o->local) { /* each rank's own are set later */
		any.rank = 0;
		any.ranks = 2;
	}
	return fan_config_load_part(&o->cfg, &any, why, bytes);
}

/* Check options against each other; NULL: valid. */
static const char *check_together(const struct bench_options *o)
{
	if (!!o->local + given.sw + given.controller > 1)
		return "--local, --switch, --controller: expected only one of them";
	if (!o->local && !is_addressed(o))
		return "expected --local N, --switch ADDR:PORT, --controller ADDR:PORT, or a "
		       "launcher's variables such as MASTER_ADDR and MASTER_PORT";
	if (o->local && given.rank)
		return "--rank, --ranks: expected with --switch or --controller, not with --local";
	if (!o->local && o->policy)
		return "--policy: expected with --local; otherwise the switch has one";
	if (o->local && o->cfg.ahead && !o->policy)
		return "ahead: expected with --policy atp, esa or grid";
	if (o->cfg.mode == FANIN_MODE_FIXED && o->cfg.wire != FANIN_WIRE_FLOAT32)
		return "mode fixed: expected wire float32";
	if (o->seconds && o->compute_ms)
		return "--seconds, --compute: expected only one of them";
	if (o->end_bytes < o->begin_bytes)
		return "--end: expected at least --begin";
	return NULL;
}

int cmd_bench(int argc, char **argv)
{
	struct bench_options o = {
		.begin_bytes = 16 << 20,
		.factor = 2,
		.iters = 20,
		.warmup = 5,
		.check = 1,
		.threads = 1,
	};
	char why[FAN_CONFIG_WHY_BYTES];
	args_parse(&command, &o, argc, argv);
	if (!o.end_bytes)
		o.end_bytes = o.begin_bytes;
	const char *wrong = take_settings(&o, why, sizeof why) ? why : check_together(&o);
	if (wrong) {
		fprintf(stderr, "%s: %s\n", argv[0], wrong);
		return 2;
	}
	if (o.cfg.rank <= 0 && !cmd_can_write("bench", "json", o.json))
		return 2;
	return o.local ? bench_local(&o) : bench_run(&o, NULL);
}
