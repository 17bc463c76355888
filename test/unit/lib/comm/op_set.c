/* SPDX-License-Identifier: Apache-2.0 */
/* Reduce-scatter and all-gather: operations of several members. */
#include "unit/lib/team.h"

/* Chunk i of a reduce-scatter is rank i's; an all-gather brings them together again. */
static void scatter_and_gather(struct member *m)
{
	enum { COUNT = 3001, RANKS = 3 };
	static const size_t counts[] = {0, 1, COUNT};
	double *in = calloc(COUNT * RANKS, sizeof *in), *out = calloc(COUNT * RANKS, sizeof *out);
	fanin_op *op = NULL;
	if (!team_joined(m))
		return;
	for (size_t n = 0; n < sizeof counts / sizeof *counts; n++) {
		size_t count = counts[n], at = (size_t)m->rank * count, wrong = 0;
		for (size_t i = 0; i < count * RANKS; i++)
			in[i] = (double)(i * (m->rank + 1));
		EXPECT(!fanin_reduce_scatter(m->comm, in, in + at, count, FANIN_FLOAT64,
					     FANIN_SUM));
		for (size_t i = at; i < at + count; i++)
			wrong += in[i] != (double)(i * 6);
		EXPECT(!fanin_allgather_start(m->comm, in + at, out, count, FANIN_FLOAT64, &op));
		EXPECT(!fanin_op_wait(op, -1));
		fanin_op_free(op);
		for (size_t i = 0; i < count * RANKS; i++)
			wrong += out[i] != (double)(i * 6);
		EXPECT(!wrong);
		EXPECT(!fanin_allgather(m->comm, out + at, out, count, FANIN_FLOAT64));
	}
	EXPECT(fanin_allgather(m->comm, in, NULL, 1, FANIN_FLOAT64) == FANIN_E_INVALID);
	EXPECT(fanin_allgather(m->comm, in, out, SIZE_MAX / 16, FANIN_INT64) == FANIN_E_INVALID);
	EXPECT(fanin_reduce_scatter(m->comm, in, out, 1, FANIN_UINT8, FANIN_SUM) ==
	       FANIN_E_INVALID);
	EXPECT(fanin_reduce_scatter(m->comm, in, out, 1, 99, FANIN_SUM) == FANIN_E_INVALID);
	free(in);
	free(out);
}

static void op_set__scatter_and_gather(void **state)
{
	(void)state;
	team_run_once(3, scatter_and_gather);
}

/* More members than there may be operations: a start is refused whole, a call waits. */
static void fill_the_room(struct member *m)
{
	enum { SETS = 2100 };
	static fanin_op *ops[2][SETS];
	int started = 0, x[2] = {1, 1}, e = 0;
	if (!team_joined(m))
		return;
	while (started < SETS && !(e = fanin_allgather_start(m->comm, &x[m->rank], x, 1,
							     FANIN_INT32, &ops[m->rank][started])))
		started++;
	EXPECT(started >= 2048 && (!e || e == FANIN_E_BUSY));
	for (int i = started; i < SETS; i++)
		EXPECT(!fanin_allgather(m->comm, &x[m->rank], x, 1, FANIN_INT32));
	for (int i = 0; i < started; i++)
		fanin_op_free(ops[m->rank][i]);
}

static void op_set__fill_the_room(void **state)
{
	(void)state;
	team_run_once(2, fill_the_room);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(op_set__scatter_and_gather),
		cmocka_unit_test(op_set__fill_the_room),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
