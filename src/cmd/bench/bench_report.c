/* SPDX-License-Identifier: Apache-2.0 */
#include <jansson.h>
#include <unistd.h>

#include "bench.h"
#include "cmd/cmd.h"

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
	return in_blocks(o) ? "int8" : bench_dtype_name(wire_type(o));
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
	return r->count * bench_dtype_bytes(o->dtype);
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
	       bench_dtype_name(o->dtype), bench_op_name(o->op), r->p50_us, r->p99_us, bw,
	       bw * 2 * (ranks - 1) / ranks, bw, wrong, (long long)r->sum[BENCH_RETRANSMITS]);
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
					   : r->count * bench_dtype_bytes(wire_type(o));
	json_t *start = json_array(), *took = json_array();
	for (int i = 0; i < r->iters && i < BENCH_SERIES_MAX; i++) {
		json_array_append_new(start, json_integer(r->start_ns[i] / 1000));
		json_array_append_new(took, json_real((double)r->took_ns[i] * 1e-3));
	}
	return json_pack(
		"{sI sI ss ss si si ss ss so sI sI sI sI sf sI sI sI sI sI sI sI sI sI sI sI sb sb sb "
		"sf sf sf sf sf so so sI}",
		"bytes", (json_int_t)tensor_bytes(o, r), "count", (json_int_t)r->count, "dtype",
		bench_dtype_name(o->dtype), "op", bench_op_name(o->op), "ranks", ranks, "mtu",
		o->cfg.mtu, "mode", mode_name(o), "wire", wire_name(o), "wrong",
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
