/* SPDX-License-Identifier: Apache-2.0 */
/* bench_run.c - one rank of the bench.
 *
 * An iteration: new input, all ranks at the gate, one timed all-reduce, every element
 * checked.  Its time is that of the slowest rank; so after all iterations the ranks
 * all-reduce their lists of times with max. */
#include <inttypes.h>
#include <jansson.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>

#include "bench.h"

struct rank {
	const struct bench_options *o;
	const struct bench_gate *gate;
	fanin_comm *comm;
	int rank, ranks;
	size_t tensor_bytes; /* of each of the two */
	void *in, *out;
	int64_t *ns; /* one an iteration */
	struct bench_tile tile;
	const char *policy; /* rank 0: of the switch */
	json_t *lags;	    /* likewise: how the ranks stood in the end */
	bool told;	    /* a wrong element has been shown */
	struct bench_result result[BENCH_SIZES_MAX];
	int results;
};

static int64_t now_ns(void)
{
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

static int fail(const struct rank *k, int e)
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

static int pass_gate(const struct rank *k)
{
	return k->gate ? k->gate->wait(k->gate->ctx) : fanin_barrier(k->comm);
}

/* The first wrong element of this rank, once. */
static void tell_wrong(struct rank *k, size_t at)
{
	size_t e = k->tile.elem_bytes;
	char got[32], want[32];
	if (k->told)
		return;
	k->told = true;
	bench_element_text(got, sizeof got, (char *)k->out + at * e, k->tile.dtype);
	bench_element_text(want, sizeof want, k->tile.expected + at % BENCH_PERIOD * e,
			   k->tile.dtype);
	fprintf(stderr, "fanin bench: rank %d: element %zu is %s, expected %s\n", k->rank, at, got,
		want);
}

/* Be idle as long as this rank's model would compute in iteration `iter`: the same time on
 * every run. */
static int compute(const struct rank *k, int iter)
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

/* One iteration; `*ns` is this rank's time. */
static int iterate(struct rank *k, size_t count, int iter, int64_t *ns, int64_t *wrong)
{
	const struct bench_options *o = k->o;
	size_t first = 0;
	if (o->check || iter == 0) {
		bench_tile_make(&k->tile, o, k->rank + o->first, o->workers ? o->workers : k->ranks,
				iter);
		bench_fill(&k->tile, k->in, count);
	}
	int e = o->compute_ms ? compute(k, iter) : pass_gate(k);
	int64_t start = now_ns();
	if (!e)
		e = fanin_allreduce(k->comm, k->in, k->out, count, o->dtype, o->op);
	*ns = now_ns() - start;
	if (e || !o->check)
		return e;
	uint64_t bad = bench_count_wrong(&k->tile, k->out, count, &first);
	if (bad)
		tell_wrong(k, first);
	*wrong += (int64_t)bad;
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

static uint64_t retransmits(const struct rank *k)
{
	struct fanin_stats s = {.size = sizeof s};
	fanin_comm_stats(k->comm, &s);
	return s.retransmits;
}

/* Over all ranks: what went wrong, was sent again since there were `before`, and was kept for
 * others. */
static int add_up(const struct rank *k, uint64_t before, struct bench_result *r)
{
	struct fanin_stats s = {.size = sizeof s};
	fanin_comm_stats(k->comm, &s);
	int64_t peak = s.cache_peak;
	int64_t sums[] = {r->wrong,
			  (int64_t)(s.retransmits - before),
			  (int64_t)s.cache_done,
			  (int64_t)s.cache_early,
			  (int64_t)s.cache_over,
			  (int64_t)s.bypassed};
	int e = fanin_allreduce(k->comm, sums, sums, sizeof sums / sizeof *sums, FANIN_INT64,
				FANIN_SUM);
	if (!e)
		e = fanin_allreduce(k->comm, &peak, &peak, 1, FANIN_INT64, FANIN_MAX);
	r->wrong = sums[0];
	r->retransmits = sums[1];
	r->cache_done = sums[2];
	r->cache_early = sums[3];
	r->cache_over = sums[4];
	r->bypassed = sums[5];
	r->cache_peak = peak;
	return e;
}

static json_t *look_at_ranks(const struct rank *k)
{
	struct fanin_stats s = {.size = sizeof s};
	fanin_comm_stats(k->comm, &s);
	return bench_lags(fanin_comm_switch(k->comm), k->o->job, s.ahead_frags ? s.shards : 0);
}

static int run_size(struct rank *k, size_t count, struct bench_result *r)
{
	const struct bench_options *o = k->o;
	int64_t unused = 0, begin = now_ns();
	uint64_t before = 0;
	for (int i = 0; i < o->warmup + o->iters; i++) {
		bool timed = i >= o->warmup;
		int64_t *ns = timed ? &k->ns[i - o->warmup] : &unused;
		if (i == o->warmup)
			before = retransmits(k);
		if (i == o->warmup)
			begin = now_ns();
		int e = iterate(k, count, i, ns, &r->wrong);
		if (e)
			return e;
		if (o->progress && k->rank == 0)
			bench_print_bar(i + 1, o->warmup + o->iters,
					count * bench_dtype_bytes(o->dtype), *ns);
	}
	r->elapsed_s = (double)(now_ns() - begin) * 1e-9;
	if (k->rank == 0 && *o->json) {
		json_decref(k->lags);
		k->lags = look_at_ranks(k); /* while all are there */
	}
	int e = fanin_allreduce(k->comm, k->ns, k->ns, (size_t)o->iters, FANIN_INT64, FANIN_MAX);
	if (!e)
		e = add_up(k, before, r);
	r->count = count;
	r->policy = k->policy;
	summarise(r, k->ns, o->iters);
	return e;
}

static int run_sizes(struct rank *k)
{
	const struct bench_options *o = k->o;
	size_t elem = bench_dtype_bytes(o->dtype);
	uint64_t bytes = o->begin_bytes;
	while (k->results < BENCH_SIZES_MAX && bytes <= o->end_bytes) {
		size_t count = o->elems ? o->elems : bytes / elem;
		struct bench_result *r = &k->result[k->results++];
		int e = run_size(k, count, r);
		if (e)
			return e;
		if (k->rank == 0)
			bench_print_row(stdout, o, r, k->ranks);
		bytes *= (uint64_t)o->factor;
		if (o->factor < 2 || o->elems)
			break;
	}
	return 0;
}

static void *tensor(size_t bytes)
{
	void *p = mmap(NULL, bytes, PROT_READ | PROT_WRITE,
		       MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
	return p == MAP_FAILED ? NULL : p;
}

static int allocate(struct rank *k)
{
	const struct bench_options *o = k->o;
	k->tensor_bytes = o->elems ? o->elems * bench_dtype_bytes(o->dtype) : o->end_bytes;
	k->in = tensor(k->tensor_bytes);
	k->out = tensor(k->tensor_bytes);
	k->ns = calloc((size_t)o->iters, sizeof *k->ns);
	return k->in && k->out && k->ns ? FANIN_OK : FANIN_E_NOMEM;
}

static int join(struct rank *k)
{
	const struct bench_options *o = k->o;
	struct fanin_options f = FANIN_OPTIONS_INIT;
	f.switch_addr = *o->switch_addr ? o->switch_addr : NULL;
	f.server_addr = *o->server_addr ? o->server_addr : NULL;
	f.job = *o->job ? o->job : NULL;
	f.rank = o->rank;
	f.ranks = o->ranks;
	f.mtu = o->mtu;
	f.mode = o->mode;
	f.wire = o->wire;
	f.window = o->window;
	f.timeout_ms = o->timeout_ms;
	f.alive_ms = o->alive_ms;
	f.multicast = o->no_multicast ? 0 : -1;
	f.plain_udp = o->plain ? 1 : -1;
	f.priority = o->priority;
	f.ahead = o->ahead;
	f.cache = o->cache;
	f.congestion = o->congestion;
	int e = fanin_comm_create(&f, &k->comm);
	if (e)
		return e;
	k->rank = fanin_comm_rank(k->comm);
	k->ranks = fanin_comm_size(k->comm);
	return 0;
}

/* What only rank 0 says. */
static int report(struct rank *k)
{
	struct fanin_stats s = {.size = sizeof s};
	fanin_comm_stats(k->comm, &s);
	if (k->rank != 0 || !*k->o->json)
		return 0;
	if (!bench_write_json(k->o, &s, k->ranks, k->result, k->results, 2 * k->tensor_bytes,
			      k->lags))
		return 0;
	fprintf(stderr, "fanin bench: %s: cannot write\n", k->o->json);
	return 1;
}

static int run_all(struct rank *k)
{
	struct fanin_stats s = {.size = sizeof s};
	int e = allocate(k);
	if (!e)
		e = join(k);
	if (!e)
		e = fanin_barrier(k->comm); /* the first operation: now the statistics are known */
	if (!e && k->rank == 0) {
		fanin_comm_stats(k->comm, &s);
		k->policy = bench_policy(fanin_comm_switch(k->comm));
		bench_print_head(stdout, k->o, &s, k->ranks, k->policy);
	}
	if (!e)
		e = run_sizes(k);
	return e ? fail(k, e) : 0;
}

int bench_run(const struct bench_options *o, const struct bench_gate *gate)
{
	struct rank *k = calloc(1, sizeof *k);
	if (!k) {
		fprintf(stderr, "fanin bench: out of memory\n");
		return 1;
	}
	k->o = o;
	k->gate = gate;
	k->rank = o->rank;
	int rc = run_all(k) ? 1 : report(k);
	for (int i = 0; i < k->results; i++)
		rc |= k->result[i].wrong != 0;
	fanin_comm_destroy(k->comm);
	if (k->in)
		munmap(k->in, k->tensor_bytes);
	if (k->out)
		munmap(k->out, k->tensor_bytes);
	free(k->ns);
	json_decref(k->lags);
	free(k);
	return rc;
}
