/* SPDX-License-Identifier: Apache-2.0 */
/* bench_run.c - one rank of the bench.
 *
 * An iteration: new input, all ranks at the gate, one timed all-reduce, all at the gate again, so
 * that none checks on a core that another needs for the all-reduce, every element checked.  Its
 * time is that of the slowest rank; so after all iterations the ranks all-reduce their lists of
 * times with max. */
#include <assert.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include "bench.h"
#include "net/clock.h"

#define RESTARTS_MAX 1000

/* One rank, while it runs. */
struct bench_rank {
	const struct bench_options *o;
	pthread_barrier_t *gate; /* NULL: the communicator's */
	fanin_comm *comm;
	int rank, ranks;
	bool waited;	     /* it has waited for others, and has reported that */
	size_t tensor_bytes; /* of each of the two */
	void *in, *out;
	int iters;	   /* timed ones of this size, so far */
	int64_t *ns, *all; /* one an iteration: this rank's, and the slowest one's */
	int64_t start_ns[BENCH_SERIES_MAX]; /* of the first timed ones */
	int64_t begin_ns;		    /* of the timed ones */
	int64_t wrong;
	uint64_t retransmits; /* before the timed ones */
	struct bench_tile tile;
	bool reported; /* a wrong element has been shown */
	struct bench_result result[BENCH_SIZES_MAX];
	int results; /* of sizes that are done */
	/* Sums over earlier communicators: */
	int64_t restarts;
	int64_t gap_ns;	   /* the longest without a result */
	int64_t result_ns; /* 0; or the last result before a restart, until there is a new one */
	uint64_t lost_moves, lost_retransmits;
};

static int64_t now_ns(void)
{
	return (int64_t)fan_clock_ns();
}

/* Say why the rank cannot go on; returns `e`. */
static int ended_by(const struct bench_rank *k, int e)
{
	const char *why = fanin_comm_error(k->comm);
	if (!k->comm || !*why)
		why = fanin_strerror(e);
	if (k->rank >= 0)
		fprintf(stderr, "fanin bench: rank %d: %s\n", k->rank, why);
	else
		fprintf(stderr, "fanin bench: %s\n", why);
	return e;
}

static int pass_gate(const struct bench_rank *k)
{
	if (!k->gate)
		return fanin_barrier(k->comm);
	pthread_barrier_wait(k->gate);
	return FANIN_OK;
}

/* Print what fanin_comm_create is waiting for. */
static void log_wait(void *arg, const char *text)
{
	struct bench_rank *k = arg;
	k->waited = true;
	if (k->o->cfg.rank < 0)
		fprintf(stderr, "fanin bench: %s\n", text);
	else
		fprintf(stderr, "fanin bench: rank %d: %s\n", k->o->cfg.rank, text);
}

/* Print for whom an operation has been waiting for long. */
static void log_long_wait(void *arg, const char *text)
{
	(void)arg;
	fprintf(stderr, "fanin bench: %s\n", text);
}

/* Make k->comm and wait for the others.  0 or an error of the library. */
static int join(struct bench_rank *k)
{
	fanin_on_wait(log_long_wait, NULL);
	struct fanin_options f = FANIN_OPTIONS_INIT;
	f.waiting = log_wait;
	f.waiting_arg = k;
	int e = fanin_comm_create(&f, &k->comm);
	if (e)
		return e;
	k->rank = fanin_comm_rank(k->comm);
	k->ranks = fanin_comm_size(k->comm);
	if (k->waited)
		fprintf(stderr, "fanin bench: rank %d: all %d ranks have joined\n", k->rank,
			k->ranks);
	return 0;
}

/* ---- after the loss of a server of the plan ---- */

static struct fanin_stats stats(const struct bench_rank *k)
{
	struct fanin_stats s = {.size = sizeof s};
	if (!k->comm || fanin_comm_stats(k->comm, &s))
		memset(&s, 0, sizeof s);
	return s;
}

/* Counts over all communicators so far. */
static uint64_t retransmits(const struct bench_rank *k)
{
	return k->lost_retransmits + stats(k).retransmits;
}

static uint64_t moves(const struct bench_rank *k)
{
	return k->lost_moves + stats(k).moves;
}

/* A gap over a restart ends with the new communicator's first results. */
static int64_t gap_ns(struct bench_rank *k)
{
	struct fanin_stats s = stats(k);
	int64_t over = 0;
	if (k->result_ns && s.result_ns) {
		over = now_ns() - k->result_ns;
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
	gap_ns(k);
	k->result_ns = before_ns ? before_ns : (int64_t)s.result_ns;
	k->lost_retransmits += s.retransmits;
	k->lost_moves += s.moves;
	k->restarts++;
	fanin_comm_destroy(k->comm);
	k->comm = NULL;
}

/* The communicator has ended with `e` before step `*step`.  If a server was lost, make a new one
 * and agree with the other ranks from which step to go on: some may be one step ahead of others, so
 * all go on at the least.  0, or what ended it. */
static int again(struct bench_rank *k, int e, int64_t *step)
{
	bool follows = k->comm && *k->o->cfg.controller_addr;
	int64_t mine = *step;
	while (follows && e == FANIN_E_RESTARTED && k->restarts < RESTARTS_MAX) {
		if (k->rank == 0)
			fprintf(stderr, "fanin bench: rank 0: %s\n", fanin_comm_error(k->comm));
		drop(k);
		e = join(k);
		if (!e)
			e = fanin_allreduce(k->comm, &mine, step, 1, FANIN_INT64, FANIN_MIN);
	}
	if (!e)
		gap_ns(k);
	return e;
}

/* ---- an iteration ---- */

/* One element as text, for messages. */
static void element_text(char *text, size_t bytes, const void *element, int dtype)
{
	uint16_t half;
	int32_t i32;
	int64_t i64;
	float f;
	memcpy(&half, element, sizeof half);
	if (dtype == FANIN_FLOAT32) {
		memcpy(&f, element, sizeof f);
		snprintf(text, bytes, "%.9g", (double)f);
	} else if (dtype == FANIN_INT32) {
		memcpy(&i32, element, sizeof i32);
		snprintf(text, bytes, "%" PRId32, i32);
	} else if (dtype == FANIN_INT64) {
		memcpy(&i64, element, sizeof i64);
		snprintf(text, bytes, "%" PRId64, i64);
	} else {
		snprintf(text, bytes, "0x%04x", half);
	}
}

/* The first wrong element of this rank, once. */
static void report_wrong(struct bench_rank *k, size_t at)
{
	size_t e = k->tile.elem_bytes;
	char got[32], want[32];
	if (k->reported)
		return;
	k->reported = true;
	element_text(got, sizeof got, (char *)k->out + at * e, k->tile.dtype);
	element_text(want, sizeof want, k->tile.expected + at % BENCH_PERIOD * e, k->tile.dtype);
	fprintf(stderr, "fanin bench: rank %d: element %zu is %s, expected %s\n", k->rank, at, got,
		want);
}

/* Idle as long as this rank's model would compute in iteration `iter`; equal in every run. */
static int compute(const struct bench_rank *k, int iter)
{
	uint64_t mix = ((uint64_t)(k->rank + k->o->first) << 32 | (uint32_t)iter) + 1;
	mix = (mix ^ mix >> 31) * UINT64_C(0x9e3779b97f4a7c15);
	mix = (mix ^ mix >> 27) * UINT64_C(0x94d049bb133111eb);
	double spread = (double)(mix >> 40) / (1 << 23) - 1; /* -1 .. 1 */
	double ms = k->o->compute_ms * (1 + spread * k->o->jitter / 100);
	struct timespec t = {.tv_sec = (time_t)(ms / 1e3)};
	t.tv_nsec = (long)((ms - (double)t.tv_sec * 1e3) * 1e6);
	clock_nanosleep(CLOCK_MONOTONIC, 0, &t, NULL);
	return 0;
}

static void fill(const struct bench_tile *t, char *tensor, size_t count)
{
	size_t tile = BENCH_PERIOD * t->elem_bytes, bytes = count * t->elem_bytes;
	for (size_t at = 0; at < bytes; at += tile)
		memcpy(tensor + at, t->in, bytes - at < tile ? bytes - at : tile);
}

/* One iteration, which begins at `*start` and takes this rank `*ns`.  `gated`: the ranks have
 * waited for each other. */
static int iterate(struct bench_rank *k, size_t count, int iter, int64_t *start, int64_t *ns,
		   bool gated)
{
	const struct bench_options *o = k->o;
	size_t first = 0;
	if (o->check || iter == 0) {
		bench_tile_make(&k->tile, o, k->rank + o->first, o->workers ? o->workers : k->ranks,
				iter);
		fill(&k->tile, k->in, count);
	}
	int e = o->compute_ms ? compute(k, iter) : gated ? 0 : pass_gate(k);
	*start = now_ns();
	if (!e)
		e = fanin_allreduce(k->comm, k->in, k->out, count, o->dtype, o->op);
	*ns = now_ns() - *start;
	if (!e && o->check && !o->compute_ms && !gated)
		e = pass_gate(k);
	if (e || !o->check)
		return e;
	uint64_t bad = bench_count_wrong(&k->tile, k->out, count, &first);
	if (bad)
		report_wrong(k, first);
	k->wrong += (int64_t)bad;
	return 0;
}

static int compare_ns(const void *a, const void *b)
{
	int64_t x, y;
	memcpy(&x, a, sizeof x);
	memcpy(&y, b, sizeof y);
	return (x > y) - (x < y);
}

/* Percentiles of the slowest ranks' times. */
static void summarise(struct bench_result *r, int64_t *ns, int n)
{
	qsort(ns, (size_t)n, sizeof *ns, compare_ns);
	int64_t middle = n % 2 ? ns[n / 2] * 2 : ns[n / 2 - 1] + ns[n / 2];
	r->p50_us = (double)middle / 2e3;
	r->p99_us = (double)ns[((int64_t)n * 99 + 99) / 100 - 1] / 1e3;
}

/* Steps of one size: warm-up, getting ready to time, timed ones, summing up.  A step's number
 * is SIZE_STEP * size + step. */
#define SIZE_STEP (INT64_C(1) << 32)
#define LAST_STEP (INT64_C(1) << 31) /* summing up */

static int begin_timing(struct bench_rank *k)
{
	k->retransmits = retransmits(k);
	k->begin_ns = now_ns();
	return 0;
}

static int add_up(struct bench_rank *k, struct bench_result *r)
{
	struct fanin_stats s = {.size = sizeof s};
	fanin_comm_stats(k->comm, &s);
	const struct bench_result own = {
		.sum = {k->wrong, (int64_t)(retransmits(k) - k->retransmits), (int64_t)s.cache_done,
			(int64_t)s.cache_early, (int64_t)s.cache_over},
		.most = {s.cache_peak, k->restarts, (int64_t)moves(k), gap_ns(k)}};
	int e = fanin_allreduce(k->comm, own.sum, r->sum, BENCH_SUMS, FANIN_INT64, FANIN_SUM);
	return e ? e
		 : fanin_allreduce(k->comm, own.most, r->most, BENCH_MOSTS, FANIN_INT64, FANIN_MAX);
}

static int sum_up(struct bench_rank *k, size_t count, struct bench_result *r)
{
	memset(r, 0, sizeof *r);
	r->count = count;
	r->iters = k->iters;
	r->elapsed_s = (double)(now_ns() - k->begin_ns) * 1e-9;
	int e = fanin_allreduce(k->comm, k->ns, k->all, (size_t)k->iters, FANIN_INT64, FANIN_MAX);
	if (!e)
		e = add_up(k, r);
	for (int i = 0; i < k->iters && i < BENCH_SERIES_MAX; i++) {
		r->start_ns[i] = k->start_ns[i];
		r->took_ns[i] = k->all[i];
	}
	if (!e)
		summarise(r, k->all, k->iters);
	return e;
}

/* Elements of size number `size`; 0: there is none. */
static size_t size_count(const struct bench_options *o, int64_t size)
{
	uint64_t bytes = o->begin_bytes;
	for (int64_t i = 0; i < size && bytes <= o->end_bytes; i++)
		bytes *= (uint64_t)o->factor;
	if (size >= BENCH_SIZES_MAX || bytes > o->end_bytes)
		return 0;
	const unsigned each = fan_dtype_bytes((unsigned)o->dtype);
	assert(each > 0); /* o->dtype is of the table of types */
	return bytes / each;
}

/* Has rank 0 been timing for o->seconds, after `timed` iterations?  All ranks wait here. */
static int ask_time(struct bench_rank *k, int timed, bool *over)
{
	int64_t ns = now_ns() - k->begin_ns;
	int64_t late = k->rank == 0 && ns >= k->o->seconds * INT64_C(1000000000);
	int e = fanin_allreduce(k->comm, &late, &late, 1, FANIN_INT64, FANIN_MAX);
	*over = (late && timed) || timed == BENCH_ITERS_MAX;
	return e;
}

/* Print on stderr that `done` of `all` all-reduces are done, the last in `ns`. */
static void print_progress(int done, int all, int64_t ns)
{
	const bool last = done == all && !isatty(STDERR_FILENO);
	fprintf(stderr, "\r%d/%d  %.2f ms %s", done, all, (double)ns * 1e-6, last ? "\n" : "");
	fflush(stderr);
}

/* Step `i` is an iteration, or the end of them: `*over`. */
static int step_iteration(struct bench_rank *k, size_t count, int i, bool *over)
{
	const struct bench_options *o = k->o;
	bool timed = i > o->warmup;
	int iter = timed ? i - 1 : i, e = 0; /* one step began the timing */
	int64_t start, unused, *ns = &unused;
	if (timed && o->seconds)
		e = ask_time(k, iter - o->warmup, over);
	else if (timed)
		*over = iter - o->warmup == o->iters;
	if (timed)
		k->iters = iter - o->warmup;
	if (e || *over)
		return e;
	if (timed)
		ns = &k->ns[iter - o->warmup];
	e = iterate(k, count, iter, &start, ns, timed && o->seconds);
	if (timed && iter - o->warmup < BENCH_SERIES_MAX)
		k->start_ns[iter - o->warmup] = start;
	if (!e && o->progress && k->rank == 0)
		print_progress(iter + 1, o->warmup + (o->seconds ? iter + 1 : o->iters), *ns);
	return e;
}

/* Step `i` of size `size`; `*next` is the one after it. */
static int take_step(struct bench_rank *k, int64_t size, size_t count, int64_t i, int64_t *next)
{
	struct bench_result *r = &k->result[size];
	bool over = false;
	*next = size * SIZE_STEP + i + 1;
	if (i == 0)
		k->wrong = 0;
	if (i == k->o->warmup)
		return begin_timing(k);
	if (i < LAST_STEP) {
		int e = step_iteration(k, count, (int)i, &over);
		if (over)
			*next = size * SIZE_STEP + LAST_STEP;
		return e;
	}
	*next = (size + 1) * SIZE_STEP;
	int e = sum_up(k, count, r);
	if (e || size != k->results)
		return e;
	k->results++;
	if (k->rank == 0)
		bench_print_row(k->o, r, k->ranks);
	return 0;
}

/* All steps of all sizes; where a server is lost, back to what all ranks have done. */
static int run_sizes(struct bench_rank *k)
{
	int64_t step = 0, next;
	for (;;) {
		size_t count = size_count(k->o, step / SIZE_STEP);
		if (!count)
			return 0;
		int e = take_step(k, step / SIZE_STEP, count, step % SIZE_STEP, &next);
		if (!e)
			step = next;
		else
			e = again(k, e, &step);
		if (e)
			return e;
	}
}

static void *tensor(size_t bytes)
{
	void *p = mmap(NULL, bytes, PROT_READ | PROT_WRITE,
		       MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
	return p == MAP_FAILED ? NULL : p;
}

static int allocate(struct bench_rank *k)
{
	const struct bench_options *o = k->o;
	k->tensor_bytes = o->end_bytes;
	k->in = tensor(k->tensor_bytes);
	k->out = tensor(k->tensor_bytes);
	k->iters = o->iters;
	size_t most = o->seconds ? BENCH_ITERS_MAX : (size_t)o->iters;
	k->ns = calloc(most, sizeof *k->ns);
	k->all = calloc(most, sizeof *k->all);
	return k->in && k->out && k->ns && k->all ? FANIN_OK : FANIN_E_NOMEM;
}

/* The share of each part, where there are several. */
static void print_parts(const fanin_comm *comm)
{
	struct fanin_part p = {.size = sizeof p};
	if (fanin_comm_part(comm, 1, &p))
		return;
	printf("# shares of the tensors, with round trips:");
	for (uint32_t k = 0; !fanin_comm_part(comm, k, &p); k++) {
		printf("%s ", k ? "," : "");
		if (p.lost) {
			printf("%s lost", p.aggregator);
			continue;
		}
		printf("%.1f %% ", p.share_ppm / 1e4);
		if (p.rank >= 0)
			printf("inside rank %d at ", p.rank);
		printf("%s", p.aggregator);
		if (p.rtt_ns)
			printf(" (%.1f ms)", (double)p.rtt_ns * 1e-6);
	}
	printf("; %s\n", p.settled ? "settled" : "not settled yet");
}

static void print_end(const fanin_comm *comm)
{
	struct fanin_stats s = {.size = sizeof s};
	fanin_comm_stats(comm, &s);
	print_parts(comm);
	if (!s.idle_hosts)
		return;
	printf("# the host of rank %u sums nothing: ", s.idle_rank);
	if (s.idle_misses)
		printf("%llu of the ranks do not reach the switch inside it; is a firewall there?",
		       (unsigned long long)s.idle_misses);
	else
		printf("it could start no switch");
	if (s.idle_hosts > 1)
		printf("  (%u hosts sum nothing)", s.idle_hosts);
	printf("\n");
}

/* Print the results; rank 0 alone does. */
static int report(const struct bench_rank *k)
{
	if (k->rank != 0)
		return 0;
	print_end(k->comm);
	return *k->o->json &&
	       bench_write_json(k->o, k->comm, k->result, k->results, 2 * k->tensor_bytes);
}

/* Say which file of FANIN_TRACE or FANIN_METRICS could not be written.  0, or 1: there is one. */
static int report_files(void)
{
	if (*fanin_file_error())
		fprintf(stderr, "fanin bench: %s\n", fanin_file_error());
	return *fanin_file_error() != '\0';
}

static int run_all(struct bench_rank *k)
{
	int64_t begin = 0;
	int e = allocate(k);
	if (e)
		return ended_by(k, e);
	e = join(k);
	if (!e)
		e = fanin_barrier(k->comm); /* the first operation: now the statistics are known */
	if (e)
		e = again(k, e, &begin);
	if (!e && k->rank == 0)
		bench_print_head(k->o, k->comm);
	if (!e)
		e = run_sizes(k);
	return e ? ended_by(k, e) : 0;
}

int bench_run(const struct bench_options *o, pthread_barrier_t *gate)
{
	struct bench_rank *k = calloc(1, sizeof *k);
	if (!k) {
		fprintf(stderr, "fanin bench: out of memory\n");
		return 1;
	}
	k->o = o;
	k->gate = gate;
	k->rank = o->cfg.rank;
	int rc = run_all(k) ? 1 : report(k);
	for (int i = 0; i < k->results; i++)
		rc |= k->result[i].sum[BENCH_WRONG] != 0;
	fanin_comm_destroy(k->comm);
	rc |= report_files();
	if (k->in)
		munmap(k->in, k->tensor_bytes);
	if (k->out)
		munmap(k->out, k->tensor_bytes);
	free(k->ns);
	free(k->all);
	free(k);
	return rc;
}
