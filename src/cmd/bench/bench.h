/* SPDX-License-Identifier: Apache-2.0 */
/* bench.h - `fanin bench`: time all-reduces through a switch and check every element.
 *
 * bench.c          flags
 * bench_local.c    --local N: a switch and N ranks as child processes
 * bench_run.c      what one rank does
 * bench_again.c    going on after a server of the plan was lost
 * bench_policy.c   which policy the switch has
 * bench_verify.c   inputs whose results are known exactly
 * bench_report.c   the table, the bar and the JSON that rank 0 writes */
#ifndef FAN_CMD_BENCH_BENCH_H
#define FAN_CMD_BENCH_BENCH_H

#include <fanin.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "cmd/args.h"
#include "core/wire/wire.h"
#include "lib/base/config.h"

#define BENCH_ITERS_MAX	 100000
#define BENCH_SIZES_MAX	 64		      /* lines of the table */
#define BENCH_SERIES_MAX 256		      /* iterations that JSON has one by one */
#define BENCH_BYTES_MAX	 (UINT64_C(16) << 30) /* of one tensor */

struct bench_options {
	int local;	       /* ranks to start here with a switch; 0: --switch */
	struct fan_config cfg; /* of a rank, as the library has it */
	uint64_t begin_bytes, end_bytes;
	uint64_t elems; /* 0: by bytes */
	int factor;
	int iters, warmup;
	int seconds;   /* instead of iters; 0: iters */
	int dtype, op; /* enum fanin_dtype, enum fanin_redop */
	int check;     /* every element */
	bool no_multicast;
	int compute_ms, jitter; /* before each all-reduce, +- percent of it */
	int workers, first;	/* of all the tree, and of those before this switch's; 0: no tree */
	int threads, slots;	/* of the local switch; slots 0: its default */
	int policy;		/* of the local switch, enum fan_policy */
	char json[ARGS_TEXT_BYTES];  /* file, or "" */
	char trace[ARGS_TEXT_BYTES]; /* empty: none */
	bool progress;
};

/* The names as options and JSON have them. */
const char *bench_dtype_name(int dtype);
const char *bench_op_name(int op);
size_t bench_dtype_bytes(int dtype);

/* Wait until all ranks are here.  0 or an error of the library. */
struct bench_gate {
	int (*wait)(void *ctx);
	void *ctx; /* NULL: the communicator */
};

struct json_t;

/* Inputs and results of one iteration, period by period: element i of a tensor is
 * element i mod BENCH_PERIOD of a tile.  Whole numbers, so small that every sum is
 * exact in the type in which it travels, in any order. */
#define BENCH_PERIOD 4093 /* prime: no multiple of any fragment's elements */

struct bench_tile {
	int dtype;
	size_t elem_bytes;
	double tolerance; /* fixed mode: what an element may be off by */
	unsigned char in[BENCH_PERIOD * 8];
	unsigned char expected[BENCH_PERIOD * 8];
};

/* What an all-reduce of one size has shown, over all ranks. */
struct bench_result {
	uint64_t count;
	double p50_us, p99_us;
	const char *policy; /* of the switch */
	double elapsed_s;   /* of rank 0, all timed iterations with what lies between them */
	int64_t wrong, retransmits;
	int64_t cache_peak;			     /* of the rank with the most */
	int64_t cache_done, cache_early, cache_over; /* over all ranks, so far */
	int iters;				     /* timed */
	/* Of the first BENCH_SERIES_MAX: when rank 0 began it, CLOCK_MONOTONIC, and the time of its
	 * slowest rank */
	int64_t start_ns[BENCH_SERIES_MAX], took_ns[BENCH_SERIES_MAX];
	/* Since the start, of the rank that has most of it: */
	int64_t restarts; /* communicators that were lost with a server */
	int64_t moves;	  /* of parts to other routes */
	int64_t gap_ns;	  /* longest time without a result while one was waited for */
};

/* Be one rank: all sizes, all iterations.  The exit status; errors go to stderr.
 * `gate` NULL: the library's barrier. */
int bench_run(const struct bench_options *o, const struct bench_gate *gate);

/* Write the traces of all local ranks of `job` to o->trace, and remove theirs.  0; or -1, and it
 * has been said why. */
int bench_trace_join(const struct bench_options *o, const char *job);

/* Be the parent of a switch and o->local ranks.  The exit status. */
int bench_local(const struct bench_options *o);

void bench_tile_make(struct bench_tile *t, const struct bench_options *o, int rank, int ranks,
		     int iter);
void bench_fill(const struct bench_tile *t, void *tensor, size_t count);

/* How many of `count` elements are not as expected; the first of them in `*first`. */
uint64_t bench_count_wrong(const struct bench_tile *t, const void *tensor, size_t count,
			   size_t *first);

/* One element as text, for messages. */
void bench_element_text(char *text, size_t bytes, const void *element, int dtype);

/* How far the ranks of job `name` ("": of all jobs) have come, as the switch reports: an array,
 * empty where they go in step. */
struct json_t *bench_rank_stats(const char *switch_text, const char *name, unsigned shards);
/* Is that a controller, whose plan names the switches? */
bool bench_follows(const char *switch_text);

/* The name of the policy of the switch that fanin_comm_switch names. */
const char *bench_policy(const char *switch_text);

void bench_print_head(FILE *f, const struct bench_options *o, const struct fanin_stats *s,
		      int ranks, const char *policy);
void bench_print_row(FILE *f, const struct bench_options *o, const struct bench_result *r,
		     int ranks);

/* Redraw the bar on stderr: `done` of `all` all-reduces, the last of `bytes` in `ns`. */
void bench_print_bar(int done, int all, uint64_t bytes, int64_t ns);

/* The share of each part, where there are several; and the same as an array. */
void bench_print_parts(FILE *f, const fanin_comm *comm);

/* Print which host sums nothing, and why, if there is one. */
void bench_print_idle(FILE *f, const struct fanin_stats *s);
struct json_t *bench_parts_json(const fanin_comm *comm);

/* Write the file o->json, with `rank_stats`, which stays the caller's, and `parts`, which does not.
 * 0, or -1 with errno. */
int bench_write_json(const struct bench_options *o, const struct fanin_stats *s, int ranks,
		     const struct bench_result *r, int results, uint64_t tensor_bytes,
		     struct json_t *rank_stats, struct json_t *parts);

#endif
