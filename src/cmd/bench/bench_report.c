/* SPDX-License-Identifier: Apache-2.0 */
#include <jansson.h>
#include <sys/resource.h>
#include <unistd.h>

#include "bench.h"
#include "cmd/cmd.h"

static const char *mode_name(const struct bench_options *o)
{
	return o->cfg.mode == FANIN_MODE_FIXED ? "fixed" : "native";
}

static const char *wire_name(const struct bench_options *o)
{
	if (o->cfg.wire == FANIN_WIRE_INT8 && o->dtype <= FANIN_BFLOAT16)
		return "int8";
	return bench_dtype_name(o->dtype == FANIN_FLOAT32 ? o->cfg.wire : o->dtype);
}

/* Bandwidths in GB/s of 1e9 bytes, as nccl-tests has them; link: what every link carries
 * in each direction. */
struct bandwidth {
	double alg, bus, link;
};

static struct bandwidth bandwidth(const struct bench_options *o, const struct bench_result *r,
				  int ranks)
{
	double alg = (double)(r->count * bench_dtype_bytes(o->dtype)) / r->p50_us * 1e-3;
	return (struct bandwidth){alg, alg * 2 * (ranks - 1) / ranks, alg};
}

void bench_print_head(FILE *f, const struct bench_options *o, const struct fanin_stats *s,
		      int ranks, const char *policy)
{
	if (s->host_ranks)
		fprintf(f, "# %u ranks of this host share memory; %u host%s in all\n",
			s->host_ranks, s->hosts, s->hosts == 1 ? "" : "s");
	fprintf(f,
		"# fanin %s  ranks %d  policy %s  mode %s  wire %s  packet %u B  window %u  "
		"shards %u\n",
		fanin_version(), ranks, policy, mode_name(o), wire_name(o), s->packet_bytes,
		s->window_frags, s->shards);
	fprintf(f, "# %s, results by %s, sends %s, receives %s\n", s->sealed ? "sealed" : "open",
		s->multicast ? "multicast" : "unicast",
		s->segment_offload ? "with UDP_SEGMENT" : "as plain datagrams",
		s->receive_offload ? "with UDP_GRO" : "as plain datagrams");
	if (s->ahead_frags)
		fprintf(f,
			"# ranks run ahead of the slowest by up to %u fragments, and keep up to %u "
			"sums for slower ones\n",
			s->ahead_frags, s->cache_frags);
	else if (s->ahead_asked)
		fprintf(f,
			"# all ranks go in step: the switch has no memory for --ahead %u (fanin "
			"switch, server --ahead), or policy switchml\n",
			s->ahead_asked);
	fprintf(f, "# %10s %12s %9s %6s %11s %11s %8s %8s %8s %8s %12s\n", "size", "count", "type",
		"redop", "time", "time p99", "algbw", "busbw", "linkbw", "#wrong", "retransmits");
	fprintf(f, "# %10s %12s %9s %6s %11s %11s %8s %8s %8s\n", "(B)", "(elements)", "", "",
		"(us)", "(us)", "(GB/s)", "(GB/s)", "(GB/s)");
	fflush(f);
}

void bench_print_row(FILE *f, const struct bench_options *o, const struct bench_result *r,
		     int ranks)
{
	struct bandwidth b = bandwidth(o, r, ranks);
	if (o->progress && isatty(STDERR_FILENO))
		fprintf(stderr, "\r\033[K");
	fprintf(f, "  %10llu %12llu %9s %6s %11.1f %11.1f %8.4f %8.4f %8.4f ",
		(unsigned long long)(r->count * bench_dtype_bytes(o->dtype)),
		(unsigned long long)r->count, bench_dtype_name(o->dtype), bench_op_name(o->op),
		r->p50_us, r->p99_us, b.alg, b.bus, b.link);
	if (o->check)
		fprintf(f, "%8lld", (long long)r->wrong);
	else
		fprintf(f, "%8s", "N/A");
	fprintf(f, " %12lld\n", (long long)r->retransmits);
	if (r->restarts || r->moves)
		fprintf(f, "# restarts %lld, moves %lld, longest time without a result %.3f s\n",
			(long long)r->restarts, (long long)r->moves, (double)r->gap_ns * 1e-9);
	fflush(f);
}

void bench_print_bar(int done, int all, uint64_t bytes, int64_t ns)
{
	enum { WIDTH = 30 };
	char bar[WIDTH + 1];
	for (int i = 0; i < WIDTH; i++)
		bar[i] = (int64_t)i * all < (int64_t)done * WIDTH ? '#' : '.';
	bar[WIDTH] = '\0';
	fprintf(stderr, "\r[%s] %d/%d  %.1f MB in %.2f ms = %.3f GB/s ", bar, done, all,
		(double)bytes * 1e-6, (double)ns * 1e-6, (double)bytes / (double)ns);
	if (done == all && !isatty(STDERR_FILENO))
		fprintf(stderr, "\n");
	fflush(stderr);
}

/* At which rate each rank sends, in Gb/s: its elements as they travel, and all bytes with the
 * headers of fragments, UDP, IPv4 and Ethernet, as links count them. */
static json_t *rates_json(const struct bench_options *o, const struct fanin_stats *s,
			  const struct bench_result *r)
{
	enum { HEADERS = FAN_HEAD_BYTES + 28 + 14 };
	bool blocks = o->cfg.wire == FANIN_WIRE_INT8 && o->dtype <= FANIN_BFLOAT16;
	bool floats = o->dtype == FANIN_FLOAT32;
	uint64_t bytes = blocks	  ? fan_wire_bytes(FAN_BLOCK8, r->count)
			 : floats ? r->count * bench_dtype_bytes(o->cfg.wire)
				  : r->count * bench_dtype_bytes(o->dtype);
	uint64_t full = s->packet_bytes > FAN_HEAD_BYTES ? s->packet_bytes - FAN_HEAD_BYTES : 1;
	uint64_t all = bytes + (bytes + full - 1) / full * HEADERS;
	return json_pack("{s:f, s:f, s:i, s:I, s:I, s:f}", "gbps", (double)bytes * 8e-3 / r->p50_us,
			 "wire_gbps", (double)all * 8e-3 / r->p50_us, "iterations", r->iters,
			 "restarts", (json_int_t)r->restarts, "moves", (json_int_t)r->moves,
			 "gap_s", (double)r->gap_ns * 1e-9);
}

static json_t *result_json(const struct bench_options *o, const struct bench_result *r, int ranks)
{
	struct bandwidth b = bandwidth(o, r, ranks);
	return json_pack("{s:I, s:I, s:s, s:s, s:i, s:s, s:f, s:f, s:f, s:f, s:f, s:f, s:o, s:I}",
			 "bytes", (json_int_t)(r->count * bench_dtype_bytes(o->dtype)), "count",
			 (json_int_t)r->count, "dtype", bench_dtype_name(o->dtype), "op",
			 bench_op_name(o->op), "ranks", ranks, "policy", r->policy, "time_us_p50",
			 r->p50_us, "time_us_p99", r->p99_us, "elapsed_s", r->elapsed_s,
			 "algbw_GBps", b.alg, "busbw_GBps", b.bus, "linkbw_GBps", b.link, "wrong",
			 o->check ? json_integer((json_int_t)r->wrong) : json_null(), "retransmits",
			 (json_int_t)r->retransmits);
}

/* Its first iterations one by one, in order. */
static json_t *series_json(const struct bench_result *r)
{
	json_t *start = json_array(), *took = json_array();
	for (int i = 0; i < r->iters && i < BENCH_SERIES_MAX; i++) {
		json_array_append_new(start, json_integer(r->start_ns[i] / 1000));
		json_array_append_new(took, json_real((double)r->took_ns[i] * 1e-3));
	}
	return json_pack("{s:o, s:o}", "starts_us", start, "times_us", took);
}

/* How far ranks may run ahead of each other, and what they have kept for others. */
static json_t *run_ahead_json(const struct fanin_stats *s, const struct bench_result *r)
{
	return json_pack("{s:I, s:I, s:I, s:I, s:I, s:I, s:I}", "ahead_asked",
			 (json_int_t)s->ahead_asked, "ahead_frags", (json_int_t)s->ahead_frags,
			 "cache_frags", (json_int_t)s->cache_frags, "cache_peak",
			 (json_int_t)r->cache_peak, "cache_done", (json_int_t)r->cache_done,
			 "cache_early", (json_int_t)r->cache_early, "cache_over",
			 (json_int_t)r->cache_over);
}

/* What holds for every line of the table. */
static json_t *conditions_json(const struct bench_options *o, const struct fanin_stats *s,
			       uint64_t tensor_bytes)
{
	struct rusage usage;
	getrusage(RUSAGE_SELF, &usage);
	return json_pack("{s:I, s:I, s:I, s:I, s:I, s:b, s:b, s:b, s:I, s:I, s:i, s:s, s:s, s:I}",
			 "marks", (json_int_t)s->marks, "collisions", (json_int_t)s->collisions,
			 "window_frags", (json_int_t)s->window_frags, "packet_bytes",
			 (json_int_t)s->packet_bytes, "tensor_bytes", (json_int_t)tensor_bytes,
			 "multicast", s->multicast, "segment_offload", s->segment_offload,
			 "receive_offload", s->receive_offload, "shards", (json_int_t)s->shards,
			 "parts", (json_int_t)s->parts, "mtu", o->cfg.mtu, "mode", mode_name(o),
			 "wire", wire_name(o), "rss_peak_bytes",
			 (json_int_t)usage.ru_maxrss * 1024);
}

static json_t *settings_json(const struct bench_options *o)
{
	return json_pack("{s:i, s:i, s:i, s:b, s:i, s:i, s:i, s:b}", "local", o->local,
			 "iterations", o->iters, "warmup", o->warmup, "check", o->check, "threads",
			 o->threads, "slots", o->slots, "window", o->cfg.window, "no_multicast",
			 !o->cfg.multicast);
}

/* Has that rank several parts, by several networks? */
static bool has_rails(const fanin_comm *comm, uint32_t part, const struct fanin_part *p)
{
	struct fanin_part other = {.size = sizeof other};
	bool has = false;
	for (uint32_t k = 0; !has && !fanin_comm_part(comm, k, &other); k++)
		has = k != part && other.rank == p->rank;
	return has;
}

void bench_print_parts(FILE *to, const fanin_comm *comm)
{
	struct fanin_part p = {.size = sizeof p};
	if (fanin_comm_part(comm, 1, &p))
		return;
	fprintf(to, "# shares of the tensors, with round trips:");
	for (uint32_t k = 0; !fanin_comm_part(comm, k, &p); k++) {
		fprintf(to, "%s ", k ? "," : "");
		if (p.lost) {
			fprintf(to, "%s lost", p.aggregator);
			continue;
		}
		fprintf(to, "%.1f %% ", p.share_ppm / 1e4);
		if (p.rank < 0)
			fprintf(to, "%s", p.aggregator);
		else
			fprintf(to, "inside rank %d", p.rank);
		if (p.rank >= 0 && has_rails(comm, k, &p))
			fprintf(to, " at %s", p.aggregator);
		if (p.rtt_ns)
			fprintf(to, " (%.1f ms)", (double)p.rtt_ns * 1e-6);
	}
	fprintf(to, "; %s\n", p.settled ? "settled" : "not settled yet");
}

void bench_print_idle(FILE *to, const struct fanin_stats *s)
{
	if (!s->idle_hosts)
		return;
	fprintf(to, "# the host of rank %u sums nothing: ", s->idle_rank);
	if (s->idle_misses)
		fprintf(to,
			"%llu of the ranks do not reach the switch inside it; is a firewall there?",
			(unsigned long long)s->idle_misses);
	else
		fprintf(to, "it could start no switch");
	if (s->idle_hosts > 1)
		fprintf(to, "  (%u hosts sum nothing)", s->idle_hosts);
	fputc('\n', to);
}

json_t *bench_parts_json(const fanin_comm *comm)
{
	struct fanin_part p = {.size = sizeof p};
	json_t *all = json_array();
	for (uint32_t k = 0; !fanin_comm_part(comm, k, &p); k++)
		json_array_append_new(
			all, json_pack("{s:s, s:i, s:f, s:I, s:b, s:b}", "aggregator", p.aggregator,
				       "rank", p.rank, "share", p.share_ppm * 1e-6, "rtt_ns",
				       (json_int_t)p.rtt_ns, "settled", p.settled, "lost", p.lost));
	return all;
}

int bench_write_json(const struct bench_options *o, const struct fanin_stats *s, int ranks,
		     const struct bench_result *r, int results, uint64_t tensor_bytes,
		     json_t *rank_stats, json_t *parts)
{
	json_t *rows = json_array(), *conditions = conditions_json(o, s, tensor_bytes);
	for (int i = 0; i < results; i++) {
		json_t *row = result_json(o, &r[i], ranks);
		json_t *rates = rates_json(o, s, &r[i]);
		json_object_update(row, rates);
		json_object_update(row, conditions);
		json_decref(rates);
		json_object_update_new(row, series_json(&r[i]));
		json_object_update_new(row, run_ahead_json(s, &r[i]));
		json_array_append_new(rows, row);
	}
	json_decref(conditions);
	json_t *root =
		json_pack("{s:s, s:o, s:o, s:O, s:o}", "version", fanin_version(), "settings",
			  settings_json(o), "results", rows, "ranks", rank_stats, "parts", parts);
	return cmd_write_json("bench", o->json, root, JSON_INDENT(1) | JSON_REAL_PRECISION(6));
}
