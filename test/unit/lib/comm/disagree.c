/* SPDX-License-Identifier: Apache-2.0 */
/* Ranks that ask for different operations at a time: nothing is added, and the text says what each
 * has asked for.  In shared memory, through a switch, and between hosts. */
#include "core/wire/ctlmsg.h"
#include "lib/host/segment.h"
#include "unit/lib/team.h"

/* ---- in shared memory ---- */

static const struct fan_op sum = {
	.op = FAN_SUM, .dtype = FAN_FLOAT32, .wire = FAN_FLOAT32, .count = 8};

/* Ranks 10 and 11 that ask for `a` and `b`. */
static void assert_disagreement(struct fan_op a, struct fan_op b, const char *why)
{
	static _Alignas(64) uint8_t
		memory[sizeof(struct fan_host_segment) + FAN_HOST_DEPTH * 3 * FAN_HOST_CHUNK_BYTES];
	static struct fan_host_board rank[2];
	float in[8] = {0}, out[2][8] = {{1}, {1}};
	assert_true(sizeof memory >= fan_host_bytes(2));
	memset(memory, 0, sizeof memory);
	struct fan_host_segment *s = fan_host_init(memory, 2, 2);
	for (unsigned i = 0; i < 2; i++)
		fan_host_open(&rank[i], s, i, (uint16_t)(10 + i), 2);
	a.in = b.in = in;
	a.out = out[0];
	b.out = out[1];
	assert_true(fan_host_start(&rank[0], &a, 0) && fan_host_start(&rank[1], &b, 0));
	for (unsigned n = 0; n < 10; n++)
		fan_host_work(&rank[n % 2]);
	assert_int_equal(fan_host_error(&rank[0]), FAN_E_MISMATCH);
	assert_int_equal(fan_host_error(&rank[1]), FAN_E_MISMATCH);
	assert_string_equal(s->why, why);
	assert_true(out[0][0] == 1 && out[1][0] == 1);
}

TEST(disagree__in_shared_memory)
{
	struct fan_op other = sum;
	other.count = 7;
	assert_disagreement(sum, other,
			    "ranks disagree: rank 11 sent sum of float32, 7 elements, rank 10 sent "
			    "sum of float32, 8 elements");
	other = sum;
	other.dtype = other.wire = FAN_BFLOAT16;
	assert_disagreement(sum, other,
			    "ranks disagree: rank 11 sent sum of bfloat16, 8 elements, rank 10 "
			    "sent sum of float32, 8 elements");
	other = sum;
	other.op = FAN_MAX;
	assert_disagreement(sum, other,
			    "ranks disagree: rank 11 sent maximum of float32, 8 elements, rank 10 "
			    "sent sum of float32, 8 elements");
	other.reduce = true;
	other.mark = FAN_MARK_ROOT(10);
	assert_disagreement(other, (struct fan_op){.op = FAN_BARRIER, .dtype = FAN_UINT8},
			    "ranks disagree: rank 11 sent a barrier, rank 10 sent reduce with "
			    "maximum of float32, 8 elements to rank 10");
	other.mark |= FAN_MARK_MEMBER;
	assert_disagreement(sum, other,
			    "ranks disagree: rank 11 sent reduce-scatter with maximum of float32, "
			    "8 elements a rank, rank 10 sent sum of float32, 8 elements");
	other = sum;
	other.mark = 7;
	assert_disagreement(sum, other,
			    "ranks disagree: rank 11 sent sum of float32, 8 elements with mark 7, "
			    "rank 10 sent sum of float32, 8 elements");
}

/* Rank 1 of host 0 and rank 1 of host 1 are number 1 of theirs. */
TEST(disagree__in_shared_memory_about_the_root)
{
	struct fan_op first = sum, second;
	first.op = FAN_BCAST;
	first.root = 1;
	second = first;
	first.mark = FAN_MARK_ROOT(11);
	second.mark = FAN_MARK_ROOT(13);
	assert_disagreement(first, second,
			    "ranks disagree: rank 11 sent broadcast of float32, 8 elements from "
			    "rank 13, rank 10 sent broadcast of float32, 8 elements from rank 11");
}

/* ---- between hosts ---- */

static struct fan_op gone; /* to the other host */

static bool keep(void *ctx, const struct fan_op *op)
{
	(void)ctx;
	gone = *op;
	return true;
}

/* The mark with which the shares of `op` go to the other host, where a rank is alone on its own. */
static unsigned mark_of(struct fan_op op)
{
	static _Alignas(64) uint8_t
		memory[sizeof(struct fan_host_segment) + FAN_HOST_DEPTH * 2 * FAN_HOST_CHUNK_BYTES];
	static struct fan_host_board rank;
	double x[8] = {0};
	assert_true(sizeof memory >= fan_host_bytes(1));
	memset(memory, 0, sizeof memory);
	fan_host_open(&rank, fan_host_init(memory, 1, 1), 0, 0, 2);
	rank.with = (struct fan_host_net){.hosts = 2, .start = keep};
	gone.count = 0;
	op.in = op.out = x;
	assert_true(fan_host_start(&rank, &op, 0));
	fan_host_work(&rank);
	assert_int_equal(gone.count, 8);
	return gone.mark;
}

/* What becomes the same sum of float32 between hosts keeps what it was. */
TEST(disagree__between_hosts)
{
	struct fan_op op = sum;
	assert_int_equal(mark_of(op), 0);
	op.mark = FAN_MARK_ROOT(200) | FAN_MARK_MEMBER | 5;
	const unsigned plain = op.mark;
	assert_int_equal(mark_of(op), plain);
	op.op = FAN_AVG;
	assert_int_equal(mark_of(op), plain | FAN_MARK_AVG);
	op.dtype = op.wire = FAN_FLOAT16;
	assert_int_equal(mark_of(op), plain | FAN_MARK_AVG | 1u << FAN_MARK_HALF_SHIFT);
	op.op = FAN_MAX;
	op.dtype = op.wire = FAN_BFLOAT16;
	assert_int_equal(mark_of(op), plain | 2u << FAN_MARK_HALF_SHIFT);
}

/* ---- through a switch ---- */

typedef int call(fanin_comm *c, double *x, double *y);

static int broadcast_of(fanin_comm *c, double *x, double *y)
{
	(void)y;
	return fanin_broadcast(c, x, 2, FANIN_FLOAT64, 0);
}

static int broadcast_of_1(fanin_comm *c, double *x, double *y)
{
	(void)y;
	return fanin_broadcast(c, x, 2, FANIN_FLOAT64, 1);
}

static int reduce_to(fanin_comm *c, double *x, double *y)
{
	return fanin_reduce(c, x, y, 2, FANIN_FLOAT64, FANIN_SUM, 0);
}

static int reduce_to_1(fanin_comm *c, double *x, double *y)
{
	return fanin_reduce(c, x, y, 2, FANIN_FLOAT64, FANIN_SUM, 1);
}

static int gather(fanin_comm *c, double *x, double *y)
{
	return fanin_allgather(c, x, y, 2, FANIN_FLOAT64);
}

static int scatter(fanin_comm *c, double *x, double *y)
{
	return fanin_reduce_scatter(c, x, y, 2, FANIN_FLOAT64, FANIN_SUM);
}

static int marked(fanin_comm *c, double *x, double *y)
{
	EXPECT(!fanin_comm_mark(c, 3));
	return fanin_allreduce(c, x, y, 2, FANIN_FLOAT64, FANIN_SUM);
}

static int unmarked(fanin_comm *c, double *x, double *y)
{
	EXPECT(!fanin_comm_mark(c, 3) && !fanin_comm_mark(c, 0));
	return fanin_allreduce(c, x, y, 2, FANIN_FLOAT64, FANIN_SUM);
}

static int shorter(fanin_comm *c, double *x, double *y)
{
	return fanin_allreduce(c, x, y, 1, FANIN_FLOAT64, FANIN_SUM);
}

static int maximum(fanin_comm *c, double *x, double *y)
{
	return fanin_allreduce(c, x, y, 2, FANIN_INT64, FANIN_MAX);
}

static const struct {
	call *others, *last; /* what ranks 0 and 1, and rank 2 ask for */
	const char *words;
} differences[] = {
	/* rank 1 is no root to itself, nor is rank 2: one rank alone says that it is */
	{broadcast_of, broadcast_of_1, "they disagree about the root"},
	{reduce_to, reduce_to_1, "they disagree about the root"},
	{broadcast_of, gather, "sent all-gather of float64, 2 elements a rank"},
	{reduce_to, scatter, "sent reduce-scatter with sum of float64, 2 elements a rank"},
	{unmarked, shorter, "rank 2 sent sum of float64, 1 element"},
	{unmarked, maximum, "rank 2 sent maximum of int64, 2 elements"},
	{unmarked, broadcast_of, "rank 2 sent broadcast of float64, 2 elements"},
	{unmarked, marked, "rank 2 sent sum of float64, 2 elements with mark 3"},
};

static void differ(struct member *m)
{
	double x[6] = {1, 1, 1, 1, 1, 1}, y[6] = {7, 7, 7, 7, 7, 7};
	const size_t n = *(size_t *)m->team->ctx;
	int e = fanin_barrier(m->comm); /* which others may end before this rank has seen its end */
	if (!e)
		e = (m->rank == 2 ? differences[n].last : differences[n].others)(m->comm, x, y);
	EXPECT(e == FANIN_E_MISMATCH);
	EXPECT(strstr(fanin_comm_error(m->comm), differences[n].words));
	for (int i = 0; i < 6; i++) /* of an all-gather the own part is there */
		EXPECT(x[i] == 1 && (y[i] == 7 || y[i] == 1));
}

TEST(disagree__through_a_switch)
{
	for (size_t n = 0; n < sizeof differences / sizeof *differences; n++) {
		struct team t = team_new(3, differ);
		t.ctx = &n;
		team_run_last(&t);
	}
}

/* Marks that agree change nothing, and others are no marks. */
static void agree(struct member *m)
{
	int32_t x = 1;
	EXPECT(!fanin_comm_mark(m->comm, FANIN_MARK_MAX));
	EXPECT(!fanin_allreduce(m->comm, &x, &x, 1, FANIN_INT32, FANIN_SUM) && x == 3);
	EXPECT(!fanin_barrier(m->comm));
	EXPECT(fanin_comm_mark(m->comm, FANIN_MARK_MAX + 1) == FANIN_E_INVALID);
	EXPECT(fanin_comm_mark(m->comm, -1) == FANIN_E_INVALID);
	EXPECT(fanin_comm_mark(NULL, 0) == FANIN_E_INVALID);
}

TEST(disagree__not_about_the_same_mark)
{
	team_run_once(3, agree);
}

UNIT_MAIN
