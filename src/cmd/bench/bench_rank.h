/* SPDX-License-Identifier: Apache-2.0 */
/* bench_rank.h - one rank of the bench, while it runs. */
#ifndef FAN_CMD_BENCH_BENCH_RANK_H
#define FAN_CMD_BENCH_BENCH_RANK_H

#include "bench.h"

#define BENCH_RESTARTS_MAX 1000

struct bench_rank {
	const struct bench_options *o;
	const struct bench_gate *gate;
	fanin_comm *comm;
	int rank, ranks;
	bool waited;	     /* it has waited for others, and has said so */
	size_t tensor_bytes; /* of each of the two */
	void *in, *out;
	int iters;	   /* timed ones of this size, so far */
	int64_t *ns, *all; /* one an iteration: this rank's, and the slowest one's */
	int64_t start_ns[BENCH_SERIES_MAX]; /* of the first timed ones */
	int64_t begin_ns;		    /* of the timed ones */
	int64_t wrong;
	uint64_t retransmits; /* before the timed ones */
	struct bench_tile tile;
	bool told; /* a wrong element has been shown */
	struct bench_result result[BENCH_SIZES_MAX];
	int results; /* of sizes that are done */
	/* Sums over earlier communicators: */
	int64_t restarts;
	int64_t gap_ns;	   /* the longest without a result */
	int64_t result_ns; /* 0; or the last result before a restart, until there is a new one */
	uint64_t lost_moves, lost_retransmits;
};

int64_t bench_now_ns(void);

/* Make k->comm and wait for the others.  0 or an error of the library. */
int bench_join(struct bench_rank *k);

/* Its communicator has ended with `e` before step `*step`.  If a server was lost, make a new
 * one and agree with the other ranks from which step to go on.  0, or what ended it. */
int bench_again(struct bench_rank *k, int e, int64_t *step);

/* Counts over all communicators so far. */
uint64_t bench_retransmits(const struct bench_rank *k);
uint64_t bench_moves(const struct bench_rank *k);
int64_t bench_gap_ns(struct bench_rank *k);

#endif
