/* SPDX-License-Identifier: Apache-2.0 */
/* bench_again.c - continues after the loss of a server of the plan.
 *
 * Each rank's communicator ends with RESTARTED.  A new one of the same job gets new parts from the
 * controller.  Some ranks may be one step ahead of others: all continue at the least of their
 * steps. */
#include <string.h>

#include "bench_rank.h"

static struct fanin_stats stats(const struct bench_rank *k)
{
	struct fanin_stats s = {.size = sizeof s};
	if (!k->comm || fanin_comm_stats(k->comm, &s))
		memset(&s, 0, sizeof s);
	return s;
}

uint64_t bench_retransmits(const struct bench_rank *k)
{
	return k->lost_retransmits + stats(k).retransmits;
}

uint64_t bench_moves(const struct bench_rank *k)
{
	return k->lost_moves + stats(k).moves;
}

/* A gap over a restart ends with the new communicator's first results. */
int64_t bench_gap_ns(struct bench_rank *k)
{
	struct fanin_stats s = stats(k);
	int64_t over = 0;
	if (k->result_ns && s.result_ns) {
		over = bench_now_ns() - k->result_ns;
		k->result_ns = 0;
	}
	if (k->gap_ns < over)
		k->gap_ns = over;
	if (k->gap_ns < (int64_t)s.gap_ns)
		k->gap_ns = (int64_t)s.gap_ns;
	return k->gap_ns;
}

/* Destroy the communicator that has ended, and keep its counts. */
static void drop(struct bench_rank *k)
{
	struct fanin_stats s = stats(k);
	int64_t before_ns = k->result_ns;
	k->result_ns = 0;
	bench_gap_ns(k);
	k->result_ns = before_ns ? before_ns : (int64_t)s.result_ns;
	k->lost_retransmits += s.retransmits;
	k->lost_moves += s.moves;
	k->restarts++;
	fanin_comm_destroy(k->comm);
	k->comm = NULL;
}

int bench_again(struct bench_rank *k, int e, int64_t *step)
{
	bool follows = k->comm && *k->o->cfg.controller_addr;
	int64_t mine = *step;
	while (follows && e == FANIN_E_RESTARTED && k->restarts < BENCH_RESTARTS_MAX) {
		if (k->rank == 0)
			fprintf(stderr, "fanin bench: rank 0: %s\n", fanin_comm_error(k->comm));
		drop(k);
		e = bench_join(k);
		if (!e)
			e = fanin_allreduce(k->comm, &mine, step, 1, FANIN_INT64, FANIN_MIN);
	}
	if (!e)
		bench_gap_ns(k);
	return e;
}
