/* SPDX-License-Identifier: Apache-2.0 */
/* bench.c - the options of `fanin bench`, its table and its JSON. */
#include "bench.h"

#include <jansson.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

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
	{"compute", 0, ARGS_NUMBER, AT(compute_ms), 0, 3600000, NULL, "MS",
	 "idle time before each all-reduce, as of a model that computes (0)"},
	{"jitter", 0, ARGS_NUMBER, AT(jitter), 0, 100, NULL, "PERCENT",
	 "random change of that time, by rank, up to this (0)"},
	{"tree", 0, ARGS_TEXT, AT(tree), 0, 0, NULL, "F/T",
	 "in a tree of switches: F of the job's T ranks are below the switches before this one"},
	{"policy", 0, ARGS_WORD, AT(policy), 0, 0, policies, "NAME",
	 "of the local switch: switchml, atp, esa or grid (switchml)"},
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

/* ---- what rank 0 prints, and the JSON that it writes ---- */

static const char *mode_name(const struct bench_options *o)
{
	return o->cfg.mode == FANIN_MODE_FIXED ? "fixed" : "native";
}

static bool in_blocks(const struct bench_options *o)
{
	return o->cfg.wire == FANIN_WIRE_INT8 && o->dtype <= FANIN_BFLOAT16;
}

static int wire_type(const struct bench_options *o)
{
	return o->dtype == FANIN_FLOAT32 ? o->cfg.wire : o->dtype;
}

static const char *wire_name(const struct bench_options *o)
{
	return in_blocks(o) ? "int8" : dtypes[wire_type(o)];
}

void bench_print_head(const struct bench_options *o, const fanin_comm *comm)
{
	struct fanin_stats s = {.size = sizeof s};
	fanin_comm_stats(comm, &s);
	if (s.host_ranks)
		printf("# %u ranks of this host share memory; %u host%s in all\n", s.host_ranks,
		       s.hosts, s.hosts == 1 ? "" : "s");
	printf("# fanin %s  ranks %d  switch %s\n", fanin_version(), fanin_comm_size(comm),
	       fanin_comm_switch(comm));
	printf("# %s, results by %s  mode %s  wire %s  packet %u B  window %u  ahead %u  shards %u%s%s\n",
	       s.sealed ? "sealed" : "open", s.multicast ? "multicast" : "unicast", mode_name(o),
	       wire_name(o), s.packet_bytes, s.window_frags, s.ahead_frags, s.shards,
	       s.segment_offload ? "" : "  no UDP_SEGMENT",
	       s.receive_offload ? "" : "  no UDP_GRO");
	printf("# %10s %12s %9s %6s %11s %11s %8s %8s %8s %8s %12s\n", "size (B)", "elements",
	       "type", "redop", "time (us)", "time p99", "algbw", "busbw", "linkbw", "#wrong",
	       "retransmits");
	fflush(stdout);
}

static uint64_t tensor_bytes(const struct bench_options *o, const struct bench_result *r)
{
	return r->count * fan_dtype_bytes((unsigned)o->dtype);
}

/* In GB/s of 1e9 bytes, as nccl-tests has them. */
static double algbw(const struct bench_options *o, const struct bench_result *r)
{
	return (double)tensor_bytes(o, r) / r->p50_us * 1e-3;
}

void bench_print_row(const struct bench_options *o, const struct bench_result *r, int ranks)
{
	const double bw = algbw(o, r);
	char wrong[24] = "N/A";
	if (o->check)
		snprintf(wrong, sizeof wrong, "%lld", (long long)r->sum[BENCH_WRONG]);
	if (o->progress && isatty(STDERR_FILENO))
		fprintf(stderr, "\r\033[K");
	printf("  %10llu %12llu %9s %6s %11.1f %11.1f %8.4f %8.4f %8.4f %8s %12lld\n",
	       (unsigned long long)tensor_bytes(o, r), (unsigned long long)r->count,
	       dtypes[o->dtype], ops[o->op], r->p50_us, r->p99_us, bw, bw * 2 * (ranks - 1) / ranks,
	       bw, wrong, (long long)r->sum[BENCH_RETRANSMITS]);
	if (r->most[BENCH_RESTARTS] || r->most[BENCH_MOVES])
		printf("# restarts %lld, moves %lld, longest time without a result %.3f s\n",
		       (long long)r->most[BENCH_RESTARTS], (long long)r->most[BENCH_MOVES],
		       (double)r->most[BENCH_GAP_NS] * 1e-9);
	fflush(stdout);
}

/* One line of the table, the first iterations one by one, and what holds for every line. */
static json_t *result_json(const struct bench_options *o, const struct fanin_stats *s,
			   const struct bench_result *r, int ranks, uint64_t all_bytes)
{
	const uint64_t sent = in_blocks(o) ? fan_wire_bytes(FAN_BLOCK8, r->count)
					   : r->count * fan_dtype_bytes((unsigned)wire_type(o));
	json_t *start = json_array(), *took = json_array();
	for (int i = 0; i < r->iters && i < BENCH_SERIES_MAX; i++) {
		json_array_append_new(start, json_integer(r->start_ns[i] / 1000));
		json_array_append_new(took, json_real((double)r->took_ns[i] * 1e-3));
	}
	return json_pack(
		"{sI sI ss ss si si ss ss so sI sI sI sI sf sI sI sI sI sI sI sI sI sI sI sI sb sb sb "
		"sf sf sf sf sf so so sI}",
		"bytes", (json_int_t)tensor_bytes(o, r), "count", (json_int_t)r->count, "dtype",
		dtypes[o->dtype], "op", ops[o->op], "ranks", ranks, "mtu", o->cfg.mtu, "mode",
		mode_name(o), "wire", wire_name(o), "wrong",
		o->check ? json_integer((json_int_t)r->sum[BENCH_WRONG]) : json_null(),
		"retransmits", (json_int_t)r->sum[BENCH_RETRANSMITS], "iterations",
		(json_int_t)r->iters, "restarts", (json_int_t)r->most[BENCH_RESTARTS], "moves",
		(json_int_t)r->most[BENCH_MOVES], "gap_s", (double)r->most[BENCH_GAP_NS] * 1e-9,
		"ahead_frags", (json_int_t)s->ahead_frags, "cache_frags",
		(json_int_t)s->cache_frags, "cache_peak", (json_int_t)r->most[BENCH_CACHE_PEAK],
		"cache_done", (json_int_t)r->sum[BENCH_CACHE_DONE], "cache_early",
		(json_int_t)r->sum[BENCH_CACHE_EARLY], "cache_over",
		(json_int_t)r->sum[BENCH_CACHE_OVER], "marks", (json_int_t)s->marks, "collisions",
		(json_int_t)s->collisions, "parts", (json_int_t)s->parts, "window_frags",
		(json_int_t)s->window_frags, "packet_bytes", (json_int_t)s->packet_bytes,
		"multicast", s->multicast, "segment_offload", s->segment_offload, "receive_offload",
		s->receive_offload, "time_us_p50", r->p50_us, "time_us_p99", r->p99_us, "elapsed_s",
		r->elapsed_s, "linkbw_GBps", algbw(o, r), "gbps", (double)sent * 8e-3 / r->p50_us,
		"starts_us", start, "times_us", took, "tensor_bytes", (json_int_t)all_bytes);
}

/* The share of each part, and which is lost. */
static json_t *parts_json(const fanin_comm *comm)
{
	struct fanin_part p = {.size = sizeof p};
	json_t *all = json_array();
	for (uint32_t k = 0; !fanin_comm_part(comm, k, &p); k++)
		json_array_append_new(all, json_pack("{ss sf sb}", "aggregator", p.aggregator,
						     "share", p.share_ppm * 1e-6, "lost", p.lost));
	return all;
}

int bench_write_json(const struct bench_options *o, const fanin_comm *comm,
		     const struct bench_result *r, int results, uint64_t all_bytes)
{
	struct fanin_stats s = {.size = sizeof s};
	json_t *rows = json_array();
	fanin_comm_stats(comm, &s);
	for (int i = 0; i < results; i++)
		json_array_append_new(rows,
				      result_json(o, &s, &r[i], fanin_comm_size(comm), all_bytes));
	json_t *root = json_pack("{ss so so}", "version", fanin_version(), "results", rows, "parts",
				 parts_json(comm));
	FILE *f = cmd_output("bench", "json", o->json);
	bool lost =
		!f || !root ||
		json_dumpf(root, f, JSON_INDENT(1) | JSON_REAL_PRECISION(6) | JSON_ENSURE_ASCII) ||
		fputc('\n', f) == EOF;
	if (f && cmd_output_done(f, "bench", "json", o->json))
		lost = true;
	json_decref(root);
	return lost;
}

/* ---- flags ---- */

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

/* Read --tree, "F/T". */
static bool read_tree(struct bench_options *o)
{
	unsigned first, workers;
	char end;

	if (!*o->tree)
		return true;
	if (sscanf(o->tree, "%7u/%7u%c", &first, &workers, &end) != 2 || workers < 2 ||
	    workers > FAN_WORKERS_MAX || first >= workers)
		return false;
	o->first = (int)first;
	o->workers = (int)workers;
	return true;
}

/* Check options against each other; NULL: valid. */
static const char *check_together(struct bench_options *o)
{
	if (!read_tree(o))
		return "--tree: expected F/T, with T from 2 to 65536 and F less than T, as 2/4";
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
