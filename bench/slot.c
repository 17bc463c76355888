/* SPDX-License-Identifier: Apache-2.0 */
/* slot - how fast the switch core sums, against memcpy, on one core.
 *
 * Datagrams of N ranks are laid out in memory as receives would bring them, in batches
 * of 44 of one rank, and go through fan_aggregator_recv: checked, looked up, summed, results
 * released.  The baseline copies the same payloads, datagram by datagram, to memory as
 * large as the slots.  Two settings: `stream`, where the datagrams of a 16 MiB tensor of
 * every rank come from main memory, and `cached`, where they lie in the cache, as
 * right after a receive.  The sums are checked, outside the timed parts. */
#include <errno.h>
#include <jansson.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "core/aggregator/aggregator.h"

#define RANKS	  8
#define BATCH	  44
#define WINDOW	  256
#define OUT_ITEMS 512

struct setting {
	const char *name;
	unsigned payload;
	enum fan_dtype dtype;
	unsigned frags; /* of one rank in one timed part */
	unsigned parts; /* timed parts; the median counts */
};

struct bed {
	const struct setting *set;
	struct fan_aggregator *sw;
	struct fan_out out;
	fan_peer peer[RANKS];
	uint32_t job, epoch;
	uint64_t cookie[RANKS]; /* of each WELCOME, for the BEAT that proves it has come */
	uint8_t *packets;	/* RANKS * frags datagrams */
	size_t stride;
	uint64_t next; /* fragment number */
	uint64_t wrong;
	uint64_t done;
};

static uint64_t now_ns(void)
{
	struct timespec ts;
	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (uint64_t)ts.tv_sec * 1000000000u + (uint64_t)ts.tv_nsec;
}

static _Noreturn void fail(const char *why)
{
	fprintf(stderr, "slot: %s\n", why);
	exit(1);
}

static void *must(void *p)
{
	if (!p)
		fail("out of memory");
	return p;
}

static unsigned elems(const struct setting *s)
{
	return s->payload / fan_dtype_bytes(s->dtype);
}

/* Send control message `type` with the `n` bytes of body at `body`. */
static void control(struct bed *b, enum fan_type type, uint16_t rank, const uint8_t *body, size_t n)
{
	uint8_t pkt[FAN_CTL_BYTES_MAX];
	struct fan_frag h = {.type = (uint8_t)type,
			     .job = b->job,
			     .epoch = b->epoch,
			     .sender = rank,
			     .nonce = rank + 1u};
	struct fan_out_item it = {.dest = FAN_TO_PEER};
	fan_ctl_finish(&it, &h, body, n);
	fan_out_reset(&b->out);
	fan_aggregator_recv(b->sw, now_ns(), b->peer[rank], pkt, fan_out_item_copy(&it, pkt), false,
			    &b->out);
}

/* Note what the WELCOME to `rank` says. */
static void welcomed(struct bed *b, uint16_t rank)
{
	uint8_t pkt[FAN_CTL_BYTES_MAX];
	struct fan_frag f;
	struct fan_welcome m;
	if (b->out.count == 0 ||
	    fan_wire_get(&f, pkt, fan_out_item_copy(&b->out.item[0], pkt)) >= 0 ||
	    f.type != FAN_TYPE_WELCOME || fan_ctl_get(&m, &f) != FAN_OK)
		fail("a JOIN was not answered by a WELCOME");
	b->job = f.job;
	b->epoch = f.epoch;
	b->cookie[rank] = m.cookie;
}

/* Join as every rank, then show with a BEAT that each is where its JOIN said. */
static void join_all(struct bed *b)
{
	uint8_t body[FAN_CTL_BYTES_MAX];
	for (uint16_t r = 0; r < RANKS; r++) {
		struct fan_join m = {.ranks = RANKS,
				     .payload_bytes = (uint16_t)b->set->payload,
				     .window = WINDOW,
				     .options = FAN_JOIN_WIDE | FAN_JOIN_NUMBERS,
				     .alive_ms = 10000,
				     .name_bytes = 1,
				     .name = "b"};
		b->job = b->epoch = 0;
		b->peer[r] = (fan_peer){.port = r + 1u};
		control(b, FAN_TYPE_JOIN, r, body, fan_ctl_put(body, &m));
		welcomed(b, r);
	}
	for (uint16_t r = 0; r < RANKS; r++) {
		struct fan_beat m = {.cookie = b->cookie[r]};
		control(b, FAN_TYPE_BEAT, r, body, fan_ctl_put(body, &m));
	}
	fan_out_reset(&b->out);
}

static uint8_t *packet(const struct bed *b, unsigned frag, unsigned rank)
{
	size_t batch = frag / BATCH, in_batch = frag % BATCH;
	return b->packets + ((batch * RANKS + rank) * BATCH + in_batch) * b->stride;
}

/* Lay out the next part's datagrams; rank r's element i of fragment f is r + (f + i) % 8. */
static void fill(struct bed *b)
{
	unsigned n = elems(b->set);
	for (unsigned f = 0; f < b->set->frags; f++)
		for (uint16_t r = 0; r < RANKS; r++) {
			uint8_t *p = packet(b, f, r);
			for (unsigned i = 0; i < n; i++) {
				float v = (float)(r + (b->next + f + i) % 8);
				if (b->set->dtype == FAN_BFLOAT16)
					memcpy(p + FAN_HEAD_BYTES + i * 2, (uint8_t *)&v + 2, 2);
				else
					memcpy(p + FAN_HEAD_BYTES + i * 4, &v, 4);
			}
			struct fan_frag h = {.type = FAN_TYPE_DATA,
					     .job = b->job,
					     .epoch = b->epoch,
					     .sender = r,
					     .dtype = (uint8_t)b->set->dtype,
					     .count = (uint16_t)n,
					     .seq = (uint16_t)(b->next + f),
					     .frag = b->next + f};
			fan_wire_put(p, &h);
		}
}

static float result_at(const struct bed *b, const uint8_t *p, unsigned i)
{
	float v = 0;
	if (b->set->dtype == FAN_BFLOAT16)
		memcpy((uint8_t *)&v + 2, p + i * 2, 2);
	else
		memcpy(&v, p + i * 4, 4);
	return v;
}

/* Check and forget the results that were released. */
static void verify(struct bed *b)
{
	for (unsigned k = 0; k < b->out.count; k++) {
		const struct fan_out_item *it = &b->out.item[k];
		uint64_t frag = fan_get64(it->head + 16);
		for (unsigned i = 0; i < elems(b->set); i++) {
			float want = (float)(RANKS * (RANKS - 1) / 2 + RANKS * ((frag + i) % 8));
			b->wrong += result_at(b, it->payload, i) != want;
		}
	}
	fan_out_reset(&b->out);
}

/* Feed all datagrams of the part; `check` looks at the sums as they come. */
static void feed(struct bed *b, bool check)
{
	uint64_t now = now_ns();
	for (unsigned at = 0; at < b->set->frags; at += BATCH) {
		unsigned end = at + BATCH < b->set->frags ? at + BATCH : b->set->frags;
		for (unsigned r = 0; r < RANKS; r++)
			for (unsigned f = at; f < end; f++)
				b->done +=
					fan_aggregator_recv(b->sw, now, b->peer[r], packet(b, f, r),
							    FAN_HEAD_BYTES + b->set->payload, false,
							    &b->out) == FAN_DONE;
		if (check)
			verify(b);
		else
			fan_out_reset(&b->out);
	}
	b->next += b->set->frags;
}

static void copy(const struct bed *b, uint8_t *to)
{
	size_t slots = 2 * WINDOW;
	for (unsigned at = 0; at < b->set->frags; at += BATCH) {
		unsigned end = at + BATCH < b->set->frags ? at + BATCH : b->set->frags;
		for (unsigned r = 0; r < RANKS; r++)
			for (unsigned f = at; f < end; f++)
				memcpy(to + f % slots * b->set->payload,
				       packet(b, f, r) + FAN_HEAD_BYTES, b->set->payload);
	}
	__asm__ volatile("" : : "r"(to) : "memory");
}

static int by_value(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;
	return (x > y) - (x < y);
}

static void open_bed(struct bed *b, const struct setting *s)
{
	struct fan_aggregator_config cfg = {.slots = 2 * WINDOW,
					    .payload_bytes = (uint16_t)s->payload,
					    .jobs_max = 4,
					    .members_max = 64,
					    .window_max = WINDOW,
					    .shards = 1,
					    .secret = {{1, 0}}};
	memset(b, 0, sizeof *b);
	b->set = s;
	b->sw = fan_aggregator_init(must(aligned_alloc(64, fan_aggregator_bytes(&cfg))), &cfg);
	struct fan_out_item *items = must(calloc(OUT_ITEMS, sizeof *items));
	fan_out_init(&b->out, items, OUT_ITEMS, must(malloc(1 << 16)), 1 << 16);
	b->stride = FAN_HEAD_BYTES + s->payload;
	size_t batches = (s->frags + BATCH - 1) / BATCH;
	size_t pages = batches * BATCH * RANKS * b->stride / 4096 + 1;
	b->packets = must(aligned_alloc(4096, pages * 4096));
	join_all(b);
}

/* Run one setting; returns its figure. */
static json_t *run(const struct setting *s, unsigned *failed)
{
	struct bed b;
	open_bed(&b, s);
	uint8_t *to = must(aligned_alloc(4096, (size_t)2 * WINDOW * 9216));
	double *sum = must(calloc(s->parts, sizeof *sum)),
	       *cpy = must(calloc(s->parts, sizeof *cpy));
	double *ratio = must(calloc(s->parts, sizeof *ratio));
	double bytes = (double)s->frags * RANKS * s->payload;
	memset(to, 1, (size_t)2 * WINDOW * 9216);
	fill(&b);
	feed(&b, true);
	for (unsigned k = 0; k < s->parts; k++) {
		fill(&b);
		uint64_t t0 = now_ns();
		feed(&b, false);
		uint64_t t1 = now_ns();
		fill(&b);
		uint64_t t2 = now_ns();
		copy(&b, to);
		uint64_t t3 = now_ns();
		feed(&b, true); /* the datagrams just copied, summed and checked */
		sum[k] = bytes / (double)(t1 - t0);
		cpy[k] = bytes / (double)(t3 - t2);
		ratio[k] = sum[k] / cpy[k];
	}
	qsort(sum, s->parts, sizeof *sum, by_value);
	qsort(cpy, s->parts, sizeof *cpy, by_value);
	qsort(ratio, s->parts, sizeof *ratio, by_value);
	double r = ratio[s->parts / 2];
	uint64_t want = (uint64_t)s->frags * (2 * s->parts + 1);
	if (b.wrong || b.done != want)
		(*failed)++;
	printf("%-22s %8.2f %8.2f %7.2f%s\n", s->name, sum[s->parts / 2], cpy[s->parts / 2], r,
	       b.wrong || b.done != want ? "  WRONG SUMS" : "");
	json_t *fig =
		json_pack("{s:s, s:f, s:f, s:f, s:I, s:I}", "name", s->name, "obtained", r,
			  "sum_GBps", sum[s->parts / 2], "memcpy_GBps", cpy[s->parts / 2], "wrong",
			  (json_int_t)b.wrong, "contributions", (json_int_t)want * RANKS);
	free(b.sw);
	free(b.out.item);
	free(b.out.scratch);
	free(b.packets);
	free(to);
	free(sum);
	free(cpy);
	free(ratio);
	return fig;
}

int main(int argc, char **argv)
{
	static const struct setting all[] = {
		{"float32-1408-stream", 1408, FAN_FLOAT32, 11916, 9},
		{"float32-8832-stream", 8832, FAN_FLOAT32, 1900, 9},
		{"bfloat16-1408-stream", 1408, FAN_BFLOAT16, 11916, 9},
		{"float32-1408-cached", 1408, FAN_FLOAT32, 44, 2001},
		{"float32-8832-cached", 8832, FAN_FLOAT32, 7, 2001},
	};
	const char *file = NULL, *only = NULL;
	bool once = false;
	int at = 1;
	if (at < argc && strcmp(argv[at], "--once") == 0) {
		once = true;
		at++;
	}
	if (at + 2 <= argc && strcmp(argv[at], "--only") == 0) {
		only = argv[at + 1];
		at += 2;
	}
	if (at + 2 == argc && strcmp(argv[at], "--json") == 0) {
		file = argv[at + 1];
	} else if (at != argc) {
		fprintf(stderr, "usage: slot [--once] [--only SETTING] [--json FILE]\n");
		return 2;
	}
	unsigned failed = 0;
	json_t *figures = json_array();
	printf("%-22s %8s %8s %7s\n", "setting", "sum GB/s", "memcpy", "ratio");
	for (unsigned i = 0; i < sizeof all / sizeof all[0]; i++) {
		struct setting set = all[i];
		if (only && strcmp(only, set.name) != 0)
			continue;
		if (once)
			set.parts = 1;
		json_array_append_new(figures, run(&set, &failed));
	}
	if (file) {
		json_t *root = json_pack("{s:o, s:{s:i, s:i, s:i}}", "figures", figures, "settings",
					 "ranks", RANKS, "window", WINDOW, "batch", BATCH);
		if (json_dump_file(root, file, JSON_INDENT(1)) != 0) {
			fprintf(stderr, "slot: %s: %s\n", file, strerror(errno));
			return 1;
		}
		json_decref(root);
	} else {
		json_decref(figures);
	}
	return failed ? 1 : 0;
}
