/* SPDX-License-Identifier: Apache-2.0 */
/* What communicators do when all goes well; lib_comm_fail.c has the rest. */
#include "unit/lib/team.h"

#include <math.h>

/* Element `i` of `rank`: small whole numbers. */
static int value(int rank, size_t i)
{
	return (int)((i * 7 + (size_t)rank * 5) % 61) - 30;
}

static int expected(int ranks, size_t i, int op)
{
	int v = value(0, i);
	for (int r = 1; r < ranks; r++) {
		int x = value(r, i);
		if (op == FANIN_MIN)
			v = x < v ? x : v;
		else if (op == FANIN_MAX)
			v = x > v ? x : v;
		else
			v += x;
	}
	return v;
}

/* A half type's bits of a value that is exact in it. */
static uint16_t half_of(int dtype, float f)
{
	uint32_t bits;
	memcpy(&bits, &f, sizeof bits);
	if (dtype == FANIN_BFLOAT16)
		return (uint16_t)(bits >> 16);
	if (f == 0)
		return 0;
	return (uint16_t)((bits >> 16 & 0x8000) | ((bits >> 23 & 255) - 112) << 10 |
			  (bits >> 13 & 1023));
}

static size_t elem_bytes(int dtype)
{
	return dtype == FANIN_INT64 || dtype == FANIN_FLOAT64	   ? 8
	       : dtype == FANIN_FLOAT16 || dtype == FANIN_BFLOAT16 ? 2
								   : 4;
}

static void put(void *at, int dtype, double v)
{
	float f32 = (float)v;
	int32_t i32 = (int32_t)v;
	int64_t i64 = (int64_t)v;
	uint16_t half = half_of(dtype, f32);
	const void *from = dtype == FANIN_FLOAT32   ? (void *)&f32
			   : dtype == FANIN_FLOAT64 ? (void *)&v
			   : dtype == FANIN_INT32   ? (void *)&i32
			   : dtype == FANIN_INT64   ? (void *)&i64
						    : (void *)&half;
	memcpy(at, from, elem_bytes(dtype));
}

static void check_type(struct member *m, int dtype, int op, size_t count)
{
	size_t e = elem_bytes(dtype), wrong = 0;
	int ranks = m->team->ranks;
	char *in = malloc(count * e), *out = calloc(count, e), *want = malloc(count * e);
	for (size_t i = 0; i < count; i++) {
		put(in + i * e, dtype, value(m->rank, i));
		double all = expected(ranks, i, op);
		bool ints = dtype == FANIN_INT32 || dtype == FANIN_INT64;
		if (op == FANIN_AVG)
			all = ints ? trunc(all / ranks) : all / ranks;
		put(want + i * e, dtype, all);
	}
	EXPECT(fanin_allreduce(m->comm, in, out, count, dtype, op) == FANIN_OK);
	for (size_t i = 0; i < count; i++)
		wrong += memcmp(out + i * e, want + i * e, e) != 0;
	if (wrong)
		fprintf(stderr, "dtype %d op %d: %zu of %zu wrong\n", dtype, op, wrong, count);
	EXPECT(!wrong);
	free(in);
	free(out);
	free(want);
}

/* Averages over four ranks of whole numbers are exact in every type. */
static void all_types(struct member *m)
{
	static const int dtypes[] = {FANIN_FLOAT32, FANIN_FLOAT16, FANIN_BFLOAT16,
				     FANIN_INT32,   FANIN_INT64,   FANIN_FLOAT64};
	for (size_t d = 0; d < sizeof dtypes / sizeof *dtypes; d++)
		for (int op = FANIN_SUM; op <= FANIN_MAX; op++)
			check_type(m, dtypes[d], op, 5003);
}

TEST(comm__all_types_and_operations)
{
	team_run_once(4, all_types);
}

static void all_counts(struct member *m)
{
	static const size_t counts[] = {0, 1, 2, 351, 352, 353, 704, 100003};
	for (size_t k = 0; k < sizeof counts / sizeof counts[0]; k++) {
		size_t n = counts[k], wrong = 0;
		float *x = malloc(n * sizeof *x + 1);
		for (size_t i = 0; i < n; i++)
			x[i] = (float)value(m->rank, i);
		EXPECT(fanin_allreduce(m->comm, n ? x : NULL, n ? x : NULL, n, FANIN_FLOAT32,
				       FANIN_SUM) == FANIN_OK);
		for (size_t i = 0; i < n; i++)
			wrong += x[i] != (float)expected(m->team->ranks, i, FANIN_SUM);
		EXPECT(!wrong);
		free(x);
	}
}

TEST(comm__counts_in_place)
{
	team_run_once(3, all_counts);
}

/* Every way to carry the same sums. */
TEST(comm__options)
{
	for (int i = 0; i < 3; i++) {
		struct team t = team_new(2, all_counts);
		struct fanin_options *o = &t.options;
		*(i == 0   ? &o->multicast
		  : i == 1 ? &o->window
			   : &o->mtu) = i == 0	 ? 0
					: i == 1 ? 4
						 : 9000;
		team_run_last(&t);
	}
}

TEST(comm__two_shards)
{
	struct team t = {.ranks = 3, .body = all_counts};
	struct fanin_options o = FANIN_OPTIONS_INIT;
	t.options = o;
	t.options.timeout_ms = TEAM_PATIENT_MS;
	t.sw = team_switch(t.address, sizeof t.address, 2);
	team_run(&t);
	t.body = all_types;
	t.ranks = 4;
	t.options.job = "types";
	team_run_last(&t);
}

#define HALF_COUNT 3001

static void half_wire(struct member *m)
{
	static float x[TEAM_MAX][HALF_COUNT];
	float *mine = x[m->rank];
	size_t wrong = 0;
	for (size_t i = 0; i < HALF_COUNT; i++)
		mine[i] = (float)value(m->rank, i);
	EXPECT(!fanin_allreduce(m->comm, mine, mine, HALF_COUNT, FANIN_FLOAT32, FANIN_SUM));
	for (size_t i = 0; i < HALF_COUNT; i++)
		wrong += mine[i] != (float)expected(m->team->ranks, i, FANIN_SUM);
	EXPECT(!wrong);
	/* parameters are not rounded */
	float third = 1.0f / 3;
	mine[0] = m->rank ? 0 : third;
	EXPECT(!fanin_broadcast(m->comm, mine, 1, FANIN_FLOAT32, 0));
	EXPECT(mine[0] == third);
}

TEST(comm__half_types_on_the_wire)
{
	for (int wire = FANIN_FLOAT16; wire <= FANIN_BFLOAT16; wire++) {
		struct team t = team_new(4, half_wire);
		t.options.wire = wire;
		team_run_last(&t);
	}
}

static float fixed_out[TEAM_MAX][HALF_COUNT];

static void fixed_mode(struct member *m)
{
	float in[HALF_COUNT], *out = fixed_out[m->rank];
	size_t wrong = 0;
	int ranks = m->team->ranks;
	for (size_t i = 0; i < HALF_COUNT; i++)
		in[i] = (float)value(m->rank, i) / 7;
	EXPECT(!fanin_allreduce(m->comm, in, out, HALF_COUNT, FANIN_FLOAT32, FANIN_SUM));
	for (size_t i = 0; i < HALF_COUNT; i++) {
		double want = 0;
		for (int r = 0; r < ranks; r++)
			want += (double)((float)value(r, i) / 7);
		double bound = ranks * 8.0 * ranks / 2147483000 + fabs(want) / (1 << 23);
		wrong += fabs((double)out[i] - want) > bound;
	}
	EXPECT(!wrong);
}

TEST(comm__fixed_mode_is_the_same_everywhere)
{
	float first[HALF_COUNT];
	for (int run = 0; run < 3; run++) {
		struct team t = team_new(3, fixed_mode);
		t.options.mode = FANIN_MODE_FIXED;
		team_run_last(&t);
		if (run == 0)
			memcpy(first, fixed_out[0], sizeof first);
		for (int r = 0; r < 3; r++)
			assert_memory_equal(first, fixed_out[r], sizeof first);
	}
}

static void special_values(struct member *m)
{
	float x[5] = {1, 1, 1, 1e-40f, -0.0f};
	if (m->rank == 0) {
		x[0] = NAN;
		x[1] = INFINITY;
		x[2] = INFINITY;
	} else {
		x[2] = -INFINITY;
	}
	EXPECT(!fanin_allreduce(m->comm, x, x, 5, FANIN_FLOAT32, FANIN_SUM));
	EXPECT(isnan(x[0]));
	EXPECT(x[1] == INFINITY);
	EXPECT(isnan(x[2]));
	EXPECT(!isnan(x[3]) && !isinf(x[3]));
	EXPECT(x[4] == 0);
}

TEST(comm__nan_and_infinity)
{
	for (int mode = FANIN_MODE_NATIVE; mode <= FANIN_MODE_FIXED; mode++) {
		struct team t = team_new(2, special_values);
		t.options.mode = mode;
		team_run_last(&t);
	}
}

#define FLIGHT_OPS   200 /* more than the core has room for */
#define FLIGHT_COUNT 777

static void many_in_flight(struct member *m)
{
	fanin_op *op[FLIGHT_OPS];
	int32_t *x = malloc(sizeof *x * FLIGHT_OPS * FLIGHT_COUNT);
	size_t wrong = 0;
	for (int k = 0; k < FLIGHT_OPS; k++) {
		int32_t *p = x + (size_t)k * FLIGHT_COUNT;
		for (int i = 0; i < FLIGHT_COUNT; i++)
			p[i] = k * 1000 + i + m->rank;
		EXPECT(!fanin_allreduce_start(m->comm, p, p, FLIGHT_COUNT, FANIN_INT32, FANIN_SUM,
					      &op[k]));
	}
	for (int k = FLIGHT_OPS - 1; k >= 0; k--) { /* in the wrong order */
		EXPECT(fanin_op_wait(op[k], -1) == FANIN_OK);
		EXPECT(fanin_op_test(op[k]) == FANIN_OK);
		fanin_op_free(op[k]);
	}
	int n = m->team->ranks;
	for (int k = 0; k < FLIGHT_OPS; k++)
		for (int i = 0; i < FLIGHT_COUNT; i++)
			wrong += x[k * FLIGHT_COUNT + i] != n * (k * 1000 + i) + n * (n - 1) / 2;
	EXPECT(!wrong);
	free(x);
}

TEST(comm__many_in_flight_waited_in_reverse)
{
	team_run_once(3, many_in_flight);
}

/* An operation that rank 1 starts late is pending at rank 0 until then. */
static void late_start(struct member *m)
{
	atomic_int *may_start = m->team->ctx;
	int64_t x = m->rank + 1;
	fanin_op *op;
	while (m->rank && !atomic_load(may_start))
		sched_yield();
	EXPECT(!fanin_allreduce_start(m->comm, &x, &x, 1, FANIN_INT64, FANIN_SUM, &op));
	if (m->rank == 0) {
		EXPECT(fanin_op_test(op) == FANIN_E_PENDING);
		EXPECT(fanin_op_wait(op, 20) == FANIN_E_PENDING);
		EXPECT(fanin_op_wait(op, 0) == FANIN_E_PENDING);
		atomic_store(may_start, 1);
	}
	EXPECT(fanin_op_wait(op, TEAM_PATIENT_MS) == FANIN_OK);
	EXPECT(x == 3);
	fanin_op_free(op);
}

TEST(comm__wait_ends_in_time)
{
	atomic_int may_start = 0;
	struct team t = team_new(2, late_start);
	t.ctx = &may_start;
	team_run_last(&t);
}

static void rooted(struct member *m)
{
	int n = m->team->ranks;
	for (int root = 0; root < n; root++) {
		unsigned char bytes[5000];
		size_t wrong = 0;
		int32_t in[1000], out[1000];
		memset(bytes, m->rank == root ? 100 + root : 0, sizeof bytes);
		EXPECT(!fanin_broadcast(m->comm, bytes, sizeof bytes, FANIN_UINT8, root));
		for (size_t i = 0; i < sizeof bytes; i++)
			wrong += bytes[i] != 100 + root;
		for (int i = 0; i < 1000; i++) {
			in[i] = i * (m->rank + 1);
			out[i] = -1;
		}
		bool mine = m->rank == root;
		EXPECT(!fanin_reduce(m->comm, in, mine || m->rank % 2 ? out : NULL, 1000,
				     FANIN_INT32, FANIN_SUM, root));
		for (int i = 0; i < 1000; i++)
			wrong += out[i] != (mine ? i * n * (n + 1) / 2 : -1);
		EXPECT(!wrong);
	}
}

TEST(comm__broadcast_and_reduce)
{
	team_run_once(3, rooted);
}

static void barriers(struct member *m)
{
	atomic_int *came = m->team->ctx;
	for (int i = 1; i <= 20; i++) {
		atomic_fetch_add(came, 1);
		EXPECT(!fanin_barrier(m->comm));
		EXPECT(atomic_load(came) >= i * m->team->ranks);
	}
}

TEST(comm__barrier)
{
	atomic_int came = 0;
	struct team t = team_new(4, barriers);
	t.ctx = &came;
	team_run_last(&t);
}

/* Two jobs at once on one switch, each a communicator of every thread. */
static void two_jobs(struct member *m)
{
	struct fanin_options o = m->team->options;
	fanin_comm *other;
	o.switch_addr = m->team->address;
	o.job = "other";
	o.rank = m->team->ranks - 1 - m->rank;
	o.ranks = m->team->ranks;
	EXPECT(!fanin_comm_create(&o, &other));
	EXPECT(fanin_comm_rank(other) == o.rank && fanin_comm_size(other) == o.ranks);
	for (int i = 0; i < 50; i++) {
		int64_t a = m->rank, b = 10 * o.rank;
		fanin_op *oa, *ob;
		int n = o.ranks;
		EXPECT(!fanin_allreduce_start(m->comm, &a, &a, 1, FANIN_INT64, FANIN_SUM, &oa));
		EXPECT(!fanin_allreduce_start(other, &b, &b, 1, FANIN_INT64, FANIN_SUM, &ob));
		EXPECT(!fanin_op_wait(ob, -1) && !fanin_op_wait(oa, -1));
		EXPECT(a == n * (n - 1) / 2 && b == 10 * a);
		fanin_op_free(oa);
		fanin_op_free(ob);
	}
	fanin_comm_destroy(other);
}

TEST(comm__two_jobs_in_one_process)
{
	team_run_once(3, two_jobs);
}

static void *one_user(void *comm)
{
	for (int i = 0; i < 100; i++) {
		float x[500];
		size_t wrong = 0;
		for (int k = 0; k < 500; k++)
			x[k] = (float)k;
		EXPECT(!fanin_allreduce(comm, x, x, 500, FANIN_FLOAT32, FANIN_SUM));
		for (int k = 0; k < 500; k++)
			wrong += x[k] != (float)(2 * k);
		EXPECT(!wrong);
	}
	return NULL;
}

static void several_users(struct member *m)
{
	pthread_t user[4];
	for (int i = 0; i < 4; i++)
		pthread_create(&user[i], NULL, one_user, m->comm);
	for (int i = 0; i < 4; i++)
		pthread_join(user[i], NULL);
}

TEST(comm__used_by_several_threads)
{
	team_run_once(2, several_users);
}

#define RELAY_OPS   600
#define RELAY_COUNT 5000 /* of the largest; the others are anything down to nothing */

/* Operations on their way from the thread that starts them to the one that waits. */
struct relay {
	fanin_comm *comm;
	int rank, ranks;
	_Atomic(fanin_op *) op[RELAY_OPS];
	int32_t *x[RELAY_OPS];
};

static size_t relay_count(int k)
{
	return (size_t)(k * 7919 % 17 * k * 31 % RELAY_COUNT);
}

static void *relay_waiter(void *arg)
{
	struct relay *r = arg;
	for (int k = 0; k < RELAY_OPS; k++) {
		fanin_op *op;
		size_t wrong = 0;
		while (!(op = atomic_load(&r->op[k])))
			sched_yield();
		EXPECT(fanin_op_wait(op, -1) == FANIN_OK);
		for (size_t i = 0; i < relay_count(k); i++)
			wrong += r->x[k][i] != r->ranks * k + r->ranks * (r->ranks - 1) / 2;
		EXPECT(!wrong);
		fanin_op_free(op);
		free(r->x[k]);
	}
	return NULL;
}

/* One thread starts without ever waiting, another waits and frees in the same order. */
static void relay(struct member *m)
{
	struct relay *r = calloc(1, sizeof *r);
	pthread_t waiter;
	r->comm = m->comm;
	r->rank = m->rank;
	r->ranks = m->team->ranks;
	pthread_create(&waiter, NULL, relay_waiter, r);
	for (int k = 0; k < RELAY_OPS; k++) {
		fanin_op *op;
		size_t count = relay_count(k);
		r->x[k] = malloc(count * sizeof *r->x[k] + 1);
		for (size_t i = 0; i < count; i++)
			r->x[k][i] = k + r->rank;
		EXPECT(!fanin_allreduce_start(r->comm, r->x[k], r->x[k], count, FANIN_INT32,
					      FANIN_SUM, &op));
		atomic_store(&r->op[k], op);
	}
	pthread_join(waiter, NULL);
	free(r);
}

TEST(comm__one_thread_starts_and_another_waits)
{
	team_run_once(2, relay);
}

static void statistics(struct member *m)
{
	struct fanin_stats s = {.size = sizeof s}, small = {.size = 16};
	struct {
		struct fanin_stats own;
		uint64_t newer;
	} large = {{.size = sizeof large}, 7};
	float x[3520] = {0};
	EXPECT(!fanin_allreduce(m->comm, x, x, 3520, FANIN_FLOAT32, FANIN_SUM));
	EXPECT(!fanin_comm_stats(m->comm, &s));
	EXPECT(s.ops == 1 && s.bytes == sizeof x && s.fragments == 10);
	EXPECT(s.sent >= 10 && s.shards == 1 && s.window_frags >= 2);
	EXPECT(s.packet_bytes == FAN_HEAD_BYTES + FAN_PAYLOAD_1500);
	EXPECT(!fanin_comm_stats(m->comm, &small));
	EXPECT(small.size == 16 && small.ops == 1 && small.bytes == 0);
	small.size = 1;
	EXPECT(fanin_comm_stats(m->comm, &small) == FANIN_E_INVALID);
	EXPECT(!fanin_comm_stats(m->comm, &large.own));
	EXPECT(large.own.size == sizeof s && large.own.ops == 1 && large.newer == 7);
}

TEST(comm__statistics)
{
	setenv("FANIN_HOSTS", "0", 1); /* otherwise there are fragments about hosts */
	team_run_once(2, statistics);
	unsetenv("FANIN_HOSTS");
}

UNIT_MAIN
