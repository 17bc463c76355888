/* SPDX-License-Identifier: Apache-2.0 */
/* bench.h - `fanin bench`: time all-reduces through a switch and check every element.
 *
 * bench.c          flags; what rank 0 prints, and the JSON that it writes
 * bench_local.c    --local N: a switch and N ranks as child processes
 * bench_run.c      what one rank does, also after a server of the plan was lost
 * bench_verify.c   inputs whose results are known exactly */
#ifndef FAN_CMD_BENCH_BENCH_H
#define FAN_CMD_BENCH_BENCH_H

#include <fanin.h>
#include <pthread.h>
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
	int factor;
	int iters, warmup;
	int seconds;		/* instead of iters; 0: iters */
	int dtype, op;		/* enum fanin_dtype, enum fanin_redop */
	int check;		/* every element */
	int compute_ms, jitter; /* before each all-reduce, +- percent of it */
	char tree[ARGS_TEXT_BYTES];
	int workers, first; /* of all the tree, and of those before this switch's; 0: no tree */
	int policy;	    /* of the local switch, enum fan_policy */
	char json[ARGS_TEXT_BYTES]; /* file, or "" */
	bool progress;
};

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

/* Over all ranks: sums; and what the rank with most has, of its communicators so far. */
enum bench_sum {
	BENCH_WRONG,
	BENCH_RETRANSMITS,
	BENCH_CACHE_DONE,
	BENCH_CACHE_EARLY,
	BENCH_CACHE_OVER,
	BENCH_SUMS
};
enum bench_most {
	BENCH_CACHE_PEAK,
	BENCH_RESTARTS, /* communicators that were lost with a server */
	BENCH_MOVES,	/* of parts to other routes */
	BENCH_GAP_NS,	/* longest time without a result while one was waited for */
	BENCH_MOSTS
};

/* The measurements of all-reduces of one size. */
struct bench_result {
	uint64_t count;
	double p50_us, p99_us;
	double elapsed_s; /* of rank 0, all timed iterations with what lies between them */
	int64_t sum[BENCH_SUMS], most[BENCH_MOSTS];
	int iters; /* timed */
	/* For the first BENCH_SERIES_MAX: when rank 0 began it, CLOCK_MONOTONIC, and the time of
	 * its slowest rank */
	int64_t start_ns[BENCH_SERIES_MAX], took_ns[BENCH_SERIES_MAX];
};

/* Be one rank: all sizes, all iterations.  The exit status; errors go to stderr.
 * All ranks wait for each other at `gate`; NULL: by the library's barrier. */
int bench_run(const struct bench_options *o, pthread_barrier_t *gate);

/* Be the parent of a switch and o->local ranks.  The exit status. */
int bench_local(const struct bench_options *o);

void bench_tile_make(struct bench_tile *t, const struct bench_options *o, int rank, int ranks,
		     int iter);

/* How many of `count` elements are not as expected; the first of them in `*first`. */
uint64_t bench_count_wrong(const struct bench_tile *t, const void *tensor, size_t count,
			   size_t *first);

/* Rank 0: the table's head, its lines, and what follows them. */
void bench_print_head(const struct bench_options *o, const fanin_comm *comm);
void bench_print_row(const struct bench_options *o, const struct bench_result *r, int ranks);

/* Write the file o->json.  `all_bytes`: of a rank's tensors.  0, or 1: the cause has been reported.
 */
int bench_write_json(const struct bench_options *o, const fanin_comm *comm,
		     const struct bench_result *r, int results, uint64_t all_bytes);

#endif
