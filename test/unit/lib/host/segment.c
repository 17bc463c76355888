/* SPDX-License-Identifier: Apache-2.0 */
/* Ranks of one host in one segment: in turns from a seed, and as threads. */
#include "unit/unit.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/rng.h"
#include "core/sum/reduce.h"
#include "lib/host/segment.h"

#define RANKS 5
#define OPS   40
#define TURNS 2000000
#define CHUNK (FAN_HOST_SHORT_BYTES / 4) /* elements of float32 */
#define LONG  (FAN_HOST_CHUNKS * CHUNK)	 /* from which on chunks have more */

static struct fan_host_board local[RANKS];
static struct fan_host_segment *segment;

static void open_all(unsigned ranks)
{
	size_t bytes = fan_host_bytes(ranks);
	void *mem = aligned_alloc(64, (bytes + 63) / 64 * 64);
	memset(mem, 0, bytes);
	segment = fan_host_init(mem, ranks, ranks);
	assert_true(fan_host_is_sane(segment, bytes, ranks));
	assert_false(fan_host_is_sane(segment, bytes, ranks + 1));
	for (unsigned i = 0; i < ranks; i++)
		fan_host_open(&local[i], segment, i, (uint16_t)(10 + i), ranks);
}

static void close_all(void)
{
	free(segment);
}

/* Let ranks work in a random order until all operations have ended. */
static void run(struct fan_rng *r, unsigned ranks, uint64_t ops)
{
	for (unsigned turn = 0; turn < TURNS; turn++) {
		unsigned done = 0;
		fan_host_work(&local[fan_rng_below(r, ranks)]);
		for (unsigned i = 0; i < ranks; i++)
			done += local[i].first_op == ops;
		if (done == ranks)
			return;
	}
	fail_msg("not at an end");
}

static struct fan_op op_of(enum fan_redop op, enum fan_dtype type, uint64_t count, const void *in,
			   void *out)
{
	return (struct fan_op){op, type, .wire = type, .count = count, .in = in, .out = out};
}

static struct fan_op sum_of_floats(const float *in, float *out, uint64_t count)
{
	return op_of(FAN_SUM, FAN_FLOAT32, count, in, out);
}

/* All sizes around the bounds of small operations, shares and chunks. */
TEST(segment__sums)
{
	static const uint64_t counts[] = {0,	    1,	       7,
					  16,	    1023,      1024,
					  1025,	    5000,      CHUNK - 1,
					  CHUNK,    CHUNK + 1, 6 * CHUNK + 13,
					  LONG - 1, LONG,      LONG + 16 * 1024 + 13};
	struct fan_rng r;
	r = fan_rng_stream(1, 0);
	for (size_t n = 0; n < sizeof counts / sizeof counts[0]; n++) {
		uint64_t count = counts[n];
		float *in[RANKS], *out[RANKS];
		open_all(RANKS);
		for (unsigned i = 0; i < RANKS; i++) {
			in[i] = calloc(count + 1, sizeof(float));
			out[i] = calloc(count + 1, sizeof(float));
			for (uint64_t k = 0; k < count; k++)
				in[i][k] = (float)(k % 1000 * (i + 1));
			struct fan_op op = sum_of_floats(in[i], i % 2 ? in[i] : out[i], count);
			out[i][count] = in[i][count] = 77;
			assert_true(fan_host_start(&local[i], &op, 0));
		}
		run(&r, RANKS, 1);
		for (unsigned i = 0; i < RANKS; i++) {
			const float *got = i % 2 ? in[i] : out[i];
			for (uint64_t k = 0; k < count; k++)
				assert_true(got[k] == (float)(k % 1000 * 15));
			assert_true(got[count] == 77);
			free(in[i]);
			free(out[i]);
		}
		close_all();
	}
}

/* Of operations of float32 among so many hosts that sum, each with so many columns. */
TEST(segment__chunks)
{
	static const struct {
		uint64_t count, chunks;
		unsigned parts, columns;
	} cases[] = {
		{0, 1, 0, 5},
		{CHUNK, 1, 0, 5},
		{CHUNK + 1, 2, 0, 5},
		{2 * LONG, 32, 0, 5},
		{2 * LONG + (64 << 10), 32, 0, 5}, /* a multiple of 1,024 elements */
		{4 * LONG, 32, 0, 5}, /* 256 KiB, the longest one where hosts do not sum */
		{8 * LONG, 64, 0, 5},
		{LONG - 1, 16, 2, 2},
		{2 * LONG, 16, 2, 2},
		{4 * LONG, 32, 2, 2},
		{4 * LONG, 32, 3, 1},
		{4 * LONG, 16, 2, 5}, /* no more than the operation lets be hidden */
		{8 * LONG, 26, 2, 5}, /* 2 x 5 x 64 KiB */
		{8 * LONG, 16, 4, 4}, /* 1 MiB */
		{16 * LONG, 32, 16, 5},
		{16 * LONG, 64, 16, 1}, /* a share stays in the cache */
	};
	for (size_t n = 0; n < sizeof cases / sizeof cases[0]; n++) {
		const struct fan_op op = sum_of_floats(NULL, NULL, cases[n].count);
		open_all(RANKS);
		local[0].columns = cases[n].columns;
		local[0].with.parts = cases[n].parts;
		assert_true(fan_host_start(&local[0], &op, 0));
		assert_int_equal(local[0].chunks, cases[n].chunks);
		close_all();
	}
}

static float half_to_float(uint16_t bits)
{
	return (float)(bits & 0x8000 ? -1 : 1) * (float)((bits & 0x3ff) | 0x400) / 1024 *
	       (float)(1u << ((bits >> 10 & 31) - 15));
}

/* Every type and operation, roots, and many operations under way. */
TEST(segment__types_and_roots)
{
	static int64_t wide[RANKS], wide_out[RANKS];
	static int32_t narrow[RANKS], narrow_out[RANKS];
	static uint16_t half[RANKS], half_out[RANKS];
	static uint8_t bytes[RANKS][9000];
	struct fan_rng r;
	r = fan_rng_stream(2, 0);
	open_all(RANKS);
	for (unsigned i = 0; i < RANKS; i++) {
		wide[i] = INT64_C(1) << (40 + i);
		narrow[i] = -(int32_t)i - 1;
		half[i] = 0x4000; /* 2.0 */
		memset(bytes[i], (int)i, sizeof bytes[i]);
		struct fan_op ops[] = {
			op_of(FAN_SUM, FAN_INT64, 1, &wide[i], &wide_out[i]),
			op_of(FAN_AVG, FAN_INT32, 1, &narrow[i], i == 3 ? &narrow_out[i] : NULL),
			op_of(FAN_AVG, FAN_FLOAT16, 1, &half[i], &half_out[i]),
			op_of(FAN_BARRIER, FAN_UINT8, 0, NULL, NULL),
			op_of(FAN_BCAST, FAN_UINT8, sizeof bytes[i], i == 2 ? bytes[i] : NULL,
			      i == 2 ? NULL : bytes[i]),
			op_of(FAN_MAX, FAN_INT32, 1, &narrow[i], &narrow[i]),
		};
		ops[1].reduce = true;
		ops[1].root = 3;
		ops[4].root = 2;
		for (size_t n = 0; n < sizeof ops / sizeof ops[0]; n++)
			assert_true(fan_host_start(&local[i], &ops[n], 0));
	}
	run(&r, RANKS, 6);
	for (unsigned i = 0; i < RANKS; i++) {
		assert_true(wide_out[i] == INT64_C(31) << 40);
		assert_int_equal(narrow_out[i], i == 3 ? -3 : 0);
		assert_true(half_to_float(half_out[i]) == 2);
		assert_int_equal(bytes[i][0], 2);
		assert_int_equal(bytes[i][8999], 2);
		assert_int_equal(narrow[i], -1);
	}
	close_all();
}

TEST(segment__no_more_operations_than_it_has_room_for)
{
	open_all(2);
	struct fan_op op = {.op = FAN_BARRIER, .dtype = FAN_UINT8};
	for (unsigned n = 0; n < FAN_HOST_OPS_MAX; n++)
		assert_true(fan_host_start(&local[0], &op, 0));
	assert_false(fan_host_start(&local[0], &op, 0));
	close_all();
}

/* As many as there is room for, again and again: the last one that ended is looked at once more. */
TEST(segment__room_for_as_many_again)
{
	int32_t in[2] = {3, 4}, out[2][FAN_HOST_OPS_MAX];
	open_all(2);
	for (int time = 1; time <= 3; time++) {
		memset(out, 0, sizeof out);
		for (unsigned n = 0; n < 2 * FAN_HOST_OPS_MAX; n++) {
			struct fan_op op =
				op_of(FAN_SUM, FAN_INT32, 1, &in[n % 2], &out[n % 2][n / 2]);
			assert_true(fan_host_start(&local[n % 2], &op, 0));
		}
		for (unsigned n = 0; n < 4 * FAN_HOST_OPS_MAX; n++)
			fan_host_work(&local[n % 2]);
		for (unsigned i = 0; i < 2; i++) {
			assert_int_equal(local[i].first_op, time * FAN_HOST_OPS_MAX);
			assert_true(fan_host_has_room(&local[i]));
			for (unsigned n = 0; n < FAN_HOST_OPS_MAX; n++)
				assert_int_equal(out[i][n], 7);
		}
	}
	close_all();
}

TEST(segment__says_who_is_missing)
{
	bool missing[FAN_HOST_RANKS_MAX], shares;
	float values[2000] = {0};
	open_all(3);
	struct fan_op op = sum_of_floats(values, values, 2000);
	assert_int_equal(fan_host_missing(&local[0], missing, &shares), 0);
	fan_host_start(&local[0], &op, 0);
	fan_host_start(&local[1], &op, 0);
	fan_host_work(&local[0]);
	fan_host_work(&local[1]);
	assert_int_equal(fan_host_missing(&local[0], missing, &shares), 1);
	assert_true(missing[2] && !shares);
	fan_host_start(&local[2], &op, 0);
	fan_host_work(&local[2]);
	fan_host_work(&local[0]);
	assert_int_equal(fan_host_missing(&local[0], missing, &shares), 1);
	assert_true(missing[1] && shares); /* its share is not summed */
	close_all();
}

TEST(segment__only_the_first_error_counts)
{
	open_all(2);
	const struct fan_host_blame blame = {.cause = FAN_CAUSE_LOST(1)}, none = {.cause = 0};
	fan_host_fail(local[1].s, 1, FAN_E_RANK_LOST, "one", &blame);
	fan_host_fail(local[0].s, 0, FAN_E_STALLED, "two", &none);
	assert_int_equal(fan_host_error(&local[0]), FAN_E_RANK_LOST);
	assert_string_equal(segment->why, "one");
	assert_int_equal(segment->cause, FAN_CAUSE_LOST(1));
	assert_false(fan_host_work(&local[0]));
	close_all();
}

/* The last of three ranks has the result of an operation, leaves, and is missed by another one in
 * the next before the third has looked for its own. */
static void finish_late(uint64_t count)
{
	float *in = calloc(count, sizeof *in), *out[3];
	open_all(3);
	for (uint64_t k = 0; k < count; k++)
		in[k] = (float)(k % 100);
	const struct fan_op op = sum_of_floats(in, NULL, count);
	for (unsigned i = 0; i < 3; i++) {
		struct fan_op own = op;
		own.out = out[i] = calloc(count, sizeof *in);
		fan_host_start(&local[i], &own, 0);
	}
	for (unsigned i = 0; i < 6 && !local[2].first_op; i++)
		fan_host_work(&local[i % 3]);
	struct fan_op next = op;
	next.out = in;
	fan_host_start(&local[0], &next, 0);
	fan_host_start(&local[1], &next, 0);
	const unsigned late = local[1].first_op ? 0 : 1, other = 1 - late;
	fan_host_work(&local[other]);
	assert_int_equal(local[other].first_op, 1);
	assert_int_equal(local[late].first_op, 0);
	fan_host_fail(local[other].s, other, FAN_E_RANK_LEFT, "left", &(struct fan_host_blame){0});
	assert_false(fan_host_work(&local[late]));
	for (unsigned i = 0; i < 2; i++)
		fan_host_finish(&local[i]);
	for (unsigned i = 0; i < 3; i++) {
		assert_int_equal(local[i].first_op, 1);
		for (uint64_t k = 0; k < count; k++)
			assert_true(out[i][k] == 3 * (float)(k % 100));
		free(out[i]);
	}
	for (uint64_t k = 0; k < count; k++)
		assert_true(in[k] == (float)(k % 100));
	free(in);
	close_all();
}

TEST(segment__what_has_ended_elsewhere_ends_well)
{
	finish_late(1);
	finish_late(1024);
	finish_late(1025);
	finish_late(CHUNK);
	finish_late(2 * CHUNK + 13);
}

/* Two hosts: ranks 0 to 2 and 3 to 4, two columns; a network that is a sum. */

#define HOSTS	2
#define COLUMNS 2
#define SHARES	8

static struct fan_host_segment *segments[HOSTS];

/* What number i of a host has started, in order. */
struct column {
	struct fan_host_board *rank;
	struct fan_op op[SHARES];
	unsigned first, next;
};
static struct column column[HOSTS][COLUMNS];

static bool start_share(void *ctx, const struct fan_op *op)
{
	struct column *c = ctx;
	if (c->next - c->first == SHARES)
		return false;
	c->op[c->next++ % SHARES] = *op;
	return true;
}

/* The oldest shares of column `i`, if both hosts have one: their sum is the result of both. */
static bool network(unsigned i)
{
	struct column *a = &column[0][i], *b = &column[1][i];
	_Alignas(8) uint8_t acc[FAN_HOST_CHUNK_BYTES];
	if (a->first == a->next || b->first == b->next)
		return false;
	struct fan_op *x = &a->op[a->first++ % SHARES], *y = &b->op[b->first++ % SHARES];
	size_t bytes = (size_t)x->count * fan_dtype_bytes(x->dtype);
	assert_true(x->op == y->op && x->count == y->count && x->dtype == y->dtype &&
		    x->root == y->root && x->reduce == y->reduce);
	if (x->op == FAN_BCAST) {
		memcpy(acc, x->root ? y->in : x->in, bytes);
	} else if (x->op != FAN_BARRIER) {
		fan_reduce_load(x->dtype, acc, x->in, (unsigned)x->count);
		fan_reduce_add(x->dtype, x->op, acc, y->in, (unsigned)x->count);
		fan_reduce_finish(x->dtype, x->op, acc, (unsigned)x->count, HOSTS);
	}
	assert_true((x->out == NULL) == (x->op == FAN_BCAST ? x->root == 0 : x->reduce && x->root));
	for (uint64_t k = 0; x->error && k < x->count; k++)
		x->error[k]++, y->error[k]++;
	if (x->out)
		memcpy(x->out, acc, bytes);
	if (y->out)
		memcpy(y->out, acc, bytes);
	fan_host_returned(a->rank, FAN_OK);
	fan_host_returned(b->rank, FAN_OK);
	return true;
}

static void open_hosts(void)
{
	static const unsigned ranks[HOSTS] = {3, 2};
	unsigned r = 0;
	memset(column, 0, sizeof column);
	for (unsigned h = 0; h < HOSTS; h++) {
		size_t bytes = fan_host_bytes(ranks[h]);
		void *mem = aligned_alloc(64, (bytes + 63) / 64 * 64);
		memset(mem, 0, bytes);
		segments[h] = fan_host_init(mem, ranks[h], COLUMNS);
		for (unsigned i = 0; i < ranks[h]; i++, r++) {
			fan_host_open(&local[r], segments[h], i, (uint16_t)r, RANKS);
			local[r].with = (struct fan_host_net){
				.hosts = HOSTS, .host = h, .parts = HOSTS, .start = start_share};
			if (i < COLUMNS) {
				local[r].with.ctx = &column[h][i];
				column[h][i].rank = &local[r];
			}
		}
	}
}

static void run_hosts(struct fan_rng *r, uint64_t ops)
{
	for (unsigned turn = 0; turn < TURNS; turn++) {
		unsigned done = 0;
		fan_host_work(&local[fan_rng_below(r, RANKS)]);
		network((unsigned)fan_rng_below(r, COLUMNS));
		for (unsigned i = 0; i < RANKS; i++)
			done += local[i].first_op == ops;
		if (done == RANKS)
			return;
	}
	fail_msg("not at an end");
}

TEST(segment__several_hosts)
{
	enum { COUNT = 2 * CHUNK + 77 };
	static float in[RANKS][COUNT], out[RANKS][COUNT], lost[RANKS][COUNT];
	static int32_t small[RANKS], reduced[RANKS];
	static uint16_t half[RANKS];
	static uint8_t bytes[RANKS][3000];
	struct fan_rng rng = fan_rng_stream(3, 0);
	open_hosts();
	for (unsigned r = 0; r < RANKS; r++) {
		for (unsigned k = 0; k < COUNT; k++)
			in[r][k] = (float)(k % 500 + r);
		small[r] = 10 * (int32_t)r;
		reduced[r] = -1;
		half[r] = 0x7800; /* 32768: two of them are out of range */
		memset(bytes[r], (int)r, sizeof bytes[r]);
		/* rank 3 is number 0 of host 1 */
		struct fan_op ops[] = {
			op_of(FAN_AVG, FAN_FLOAT32, COUNT, in[r], out[r]),
			op_of(FAN_BARRIER, FAN_UINT8, 0, NULL, NULL),
			op_of(FAN_AVG, FAN_INT32, 1, &small[r], r == 3 ? &reduced[r] : NULL),
			op_of(FAN_AVG, FAN_FLOAT16, 1, &half[r], &half[r]),
			op_of(FAN_BCAST, FAN_UINT8, sizeof bytes[r], r == 3 ? bytes[r] : NULL,
			      r == 3 ? NULL : bytes[r]),
			op_of(FAN_MIN, FAN_INT32, 1, &small[r], &small[r]),
			sum_of_floats(NULL, NULL, 0),
		};
		ops[0].wire = FAN_BLOCK8;
		ops[0].error = lost[r];
		ops[2].reduce = true;
		for (size_t n = 0; n < sizeof ops / sizeof ops[0]; n++)
			assert_true(fan_host_start(&local[r], &ops[n], n == 2 || n == 4));
	}
	run_hosts(&rng, 7);
	for (unsigned r = 0; r < RANKS; r++) {
		for (unsigned k = 0; k < COUNT; k++) /* one rank of a host sends it */
			assert_true(out[r][k] == (float)(k % 500 + 2) && lost[2][k] == 0 &&
				    lost[r < 3 ? 0 : 3][k] + lost[r < 3 ? 1 : 4][k] == 1);
		assert_int_equal(reduced[r], r == 3 ? 20 : -1);
		assert_int_equal(half[r], 0x7800);
		assert_int_equal(bytes[r][0], 3);
		assert_int_equal(bytes[r][2999], 3);
		assert_int_equal(small[r], 0);
	}
	for (unsigned h = 0; h < HOSTS; h++)
		free(segments[h]);
}

/* Of three operations the shares of the second have failed, and all others have come back, with
 * news that ends the host: the third's are not taken for the second's. */
TEST(segment__shares_that_are_back_end_well)
{
	float in[3000], out[RANKS][3000], others[3000];
	open_hosts();
	for (unsigned k = 0; k < 3000; k++)
		in[k] = (float)k;
	for (unsigned i = 0; i < 3 * RANKS; i++) {
		struct fan_op op = sum_of_floats(in, i < RANKS ? out[i] : others, 3000);
		fan_host_start(&local[i % RANKS], &op, 0);
	}
	for (unsigned i = 0; i < 2 * RANKS; i++)
		fan_host_work(&local[i % RANKS]);
	assert_true(network(0) && network(1));
	for (unsigned i = 0; i < HOSTS * COLUMNS; i++) {
		column[i / COLUMNS][i % COLUMNS].first++;
		fan_host_returned(column[i / COLUMNS][i % COLUMNS].rank, FAN_E_RANK_LOST);
	}
	assert_true(network(0) && network(1));
	fan_host_work(&local[0]);
	fan_host_fail(local[2].s, 2, FAN_E_RANK_LEFT, "left", &(struct fan_host_blame){0});
	for (unsigned i = 0; i < 3; i++) {
		static const unsigned order[] = {1, 0, 2};
		fan_host_finish(&local[order[i]]);
		assert_int_equal(local[order[i]].first_op, 1);
		for (unsigned k = 0; k < 3000; k++)
			assert_true(out[order[i]][k] == (float)(RANKS * k));
	}
	for (unsigned h = 0; h < HOSTS; h++)
		free(segments[h]);
}

/* With bells: as threads that sleep when there is nothing to do. */
static void *be_rank(void *arg)
{
	struct fan_host_board *l = arg;
	enum { COUNT = 3 * CHUNK + 5 };
	int32_t *values = malloc(COUNT * sizeof *values);
	bool *right = calloc(1, sizeof *right);
	*right = true;
	for (int n = 0; n < OPS; n++) {
		uint64_t count = n % 3 ? (unsigned)n * 50u + 1 : COUNT;
		for (uint64_t k = 0; k < count; k++)
			values[k] = (int32_t)(k + l->me);
		struct fan_op op = op_of(FAN_SUM, FAN_INT32, count, values, values);
		fan_host_start(l, &op, 0);
		while (l->first_op <= (uint64_t)n) {
			uint32_t heard = fan_host_received(l, FAN_HOST_WORK);
			if (!fan_host_work(l) && l->first_op <= (uint64_t)n)
				fan_host_sleep(l, FAN_HOST_WORK, heard, 20000);
		}
		for (uint64_t k = 0; k < count; k++)
			*right &= values[k] == (int32_t)(RANKS * k + RANKS * (RANKS - 1) / 2);
	}
	free(values);
	return right;
}

TEST(segment__threads)
{
	pthread_t thread[RANKS];
	open_all(RANKS);
	for (unsigned i = 0; i < RANKS; i++)
		assert_int_equal(pthread_create(&thread[i], NULL, be_rank, &local[i]), 0);
	for (unsigned i = 0; i < RANKS; i++) {
		void *right;
		pthread_join(thread[i], &right);
		assert_true(*(bool *)right);
		free(right);
	}
	close_all();
}

UNIT_MAIN
