/* SPDX-License-Identifier: Apache-2.0 */
/* reductions.c - every type, operation, communicator and count, in place and not, against the MPI's
 * own result; and what is none of fanin's stays with the MPI.
 *
 * Every value is a small whole number, so sums are exact in every order. */
#include "expect.h"

#define TYPES_MAX 32
#define FEW	  3 /* types that will do where it is not about types; with the argument "few" all */

enum value { FLOAT, DOUBLE, INT32, INT64, INT8, LONG_DOUBLE };

struct type {
	MPI_Datatype type;
	enum value value;
	unsigned each;	   /* values in one element */
	int takes, orders; /* fanin sums it; and takes the least and the most of it */
};

static struct type types[TYPES_MAX];
static int type_count;

/* All that fanin can take goes to it, and not to the MPI.  MPICH 4.0.2 reduces wrongly in place:
 * its own MPI_Reduce crashes at another root than 0, and on one rank. */
static int always;

static const MPI_Count counts[] = {0, 1, 3, 1000, 20011};
enum { COUNTS = sizeof counts / sizeof *counts, COUNT_MAX = 20011 };

static size_t value_bytes(enum value v)
{
	static const size_t bytes[] = {4, 8, 4, 8, 1, sizeof(long double)};
	return bytes[v];
}

static void add(MPI_Datatype type, enum value value, unsigned each, int takes, int orders)
{
	int bytes = 0;
	if (type != MPI_DATATYPE_NULL && !PMPI_Type_size(type, &bytes) &&
	    (size_t)bytes == each * value_bytes(value))
		types[type_count++] = (struct type){type, value, each, takes, orders};
}

static void make_types(void)
{
	add(MPI_FLOAT, FLOAT, 1, 1, 1);
	add(MPI_INT, INT32, 1, 1, 1);
	add(MPI_INT32_T, INT32, 1, 1, 1);
	add(MPI_LONG, INT64, 1, 1, 1);
	add(MPI_LONG_LONG, INT64, 1, 1, 1);
	add(MPI_INT64_T, INT64, 1, 1, 1);
	add(MPI_AINT, INT64, 1, 1, 1);
	add(MPI_UNSIGNED, INT32, 1, 1, 0);
	add(MPI_UNSIGNED_LONG, INT64, 1, 1, 0);
	add(MPI_UINT32_T, INT32, 1, 1, 0);
	add(MPI_UINT64_T, INT64, 1, 1, 0);
	add(MPI_C_FLOAT_COMPLEX, FLOAT, 2, 1, 0);
	add(MPI_REAL, FLOAT, 1, 1, 1);
	add(MPI_INTEGER, INT32, 1, 1, 1);
	add(MPI_DOUBLE, DOUBLE, 1, 1, 1);
	add(MPI_C_DOUBLE_COMPLEX, DOUBLE, 2, 1, 0);
	add(MPI_INT8_T, INT8, 1, 0, 0);
	add(MPI_LONG_DOUBLE, LONG_DOUBLE, 1, 0, 0);
}

static void put(void *at, enum value v, size_t i, long n)
{
	switch (v) {
	case FLOAT: ((float *)at)[i] = (float)n; break;
	case DOUBLE: ((double *)at)[i] = (double)n; break;
	case INT32: ((int *)at)[i] = (int)n; break;
	case INT64: ((long *)at)[i] = n; break;
	case INT8: ((signed char *)at)[i] = (signed char)n; break;
	case LONG_DOUBLE: ((long double *)at)[i] = n; break;
	}
}

static void fill(void *at, const struct type *t, MPI_Count count, int who)
{
	for (size_t i = 0; i < (size_t)count * t->each; i++)
		put(at, t->value, i, (long)((i * 7 + (size_t)who * 5) % 11) - 3);
}

/* One reduction of one communicator. */
struct job {
	MPI_Comm comm;
	int taken; /* fanin may take calls of this communicator */
	const struct type *type;
	MPI_Op op;
	MPI_Count count;
	int in_place;
	char *in, *out, *expected;
};

static int is_known(const struct job *j)
{
	int known = j->op == MPI_SUM			   ? j->type->takes
		    : j->op == MPI_MIN || j->op == MPI_MAX ? j->type->orders
							   : 0;
	return known && j->taken &&
	       (size_t)j->count * j->type->each * value_bytes(j->type->value) >= 8;
}

static void compare(const struct job *j, const char *what)
{
	size_t bytes = (size_t)j->count * j->type->each * value_bytes(j->type->value);
	int number = (int)(j->type - types);
	if (j->type->value == LONG_DOUBLE) /* whose padding is anything */
		for (MPI_Count i = 0; i < j->count; i++)
			EXPECT(((long double *)(void *)j->out)[i] ==
				       ((long double *)(void *)j->expected)[i],
			       "%s, long double", what);
	else
		EXPECT(!memcmp(j->out, j->expected, bytes), "%s, type %d, count %lld, in place %d",
		       what, number, (long long)j->count, j->in_place);
}

static void begin(struct job *j)
{
	fill(j->in, j->type, j->count, rank);
	fill(j->out, j->type, j->count, j->in_place ? rank : 99);
	fill(j->expected, j->type, j->count, 98);
	taken += is_known(j);
}

static void check_allreduce(struct job *j)
{
	begin(j);
	PMPI_Allreduce(j->in, j->expected, (int)j->count, j->type->type, j->op, j->comm);
	int e = MPI_Allreduce(j->in_place ? MPI_IN_PLACE : j->in, j->out, (int)j->count,
			      j->type->type, j->op, j->comm);
	EXPECT(!e, "code %d", e);
	compare(j, "allreduce");
}

static void check_reduce(struct job *j, int root, int size)
{
	int me;
	MPI_Comm_rank(j->comm, &me);
	begin(j);
	int place = j->in_place && me == root && ((size > 1 && !root) || (always && is_known(j)));
	PMPI_Reduce(j->in, j->expected, (int)j->count, j->type->type, j->op, root, j->comm);
	int e = MPI_Reduce(place ? MPI_IN_PLACE : j->in, me == root ? j->out : NULL, (int)j->count,
			   j->type->type, j->op, root, j->comm);
	EXPECT(!e, "code %d", e);
	if (me == root)
		compare(j, "reduce");
}

static void check_started(struct job *j)
{
	MPI_Request request;
	MPI_Status status;
	begin(j);
	PMPI_Allreduce(j->in, j->expected, (int)j->count, j->type->type, j->op, j->comm);
	int e = MPI_Iallreduce(j->in_place ? MPI_IN_PLACE : j->in, j->out, (int)j->count,
			       j->type->type, j->op, j->comm, &request);
	EXPECT(!e, "code %d", e);
	e = MPI_Wait(&request, &status);
	EXPECT(!e && request == MPI_REQUEST_NULL, "code %d", e);
	compare(j, "iallreduce");
}

#if MPI_VERSION >= 4
static void check_large_counts(struct job *j)
{
	begin(j);
	PMPI_Allreduce(j->in, j->expected, (int)j->count, j->type->type, j->op, j->comm);
	MPI_Allreduce_c(j->in_place ? MPI_IN_PLACE : j->in, j->out, j->count, j->type->type, j->op,
			j->comm);
	compare(j, "allreduce_c");
}
#else
/* As mpi4py asks for it: an MPI that lacks it gets it by LD_PRELOAD. */
int MPI_Allreduce_c(const void *in, void *out, MPI_Count count, MPI_Datatype type, MPI_Op op,
		    MPI_Comm comm) __attribute__((weak));

static void check_large_counts(struct job *j)
{
	if (!MPI_Allreduce_c)
		return;
	begin(j);
	PMPI_Allreduce(j->in, j->expected, (int)j->count, j->type->type, j->op, j->comm);
	int e = MPI_Allreduce_c(j->in_place ? MPI_IN_PLACE : j->in, j->out, j->count, j->type->type,
				j->op, j->comm);
	EXPECT(!e, "code %d", e);
	compare(j, "allreduce_c");
	e = MPI_Allreduce_c(j->in, j->out, (MPI_Count)1 << 32, j->type->type, j->op, j->comm);
	EXPECT(e == MPI_ERR_COUNT, "code %d", e);
}
#endif

/* Behind the first block, j->count elements, all `whole` of them are as they were. */
static void compare_rest(const struct job *j, MPI_Count whole)
{
	size_t each = j->type->each * value_bytes(j->type->value);
	size_t from = (size_t)j->count * each, bytes = (size_t)whole * each - from;
	EXPECT(!memcmp((char *)j->out + from, (char *)j->in + from, bytes),
	       "reduce_scatter_block in place, type %d, behind the block", (int)(j->type - types));
}

/* Blocks of a smaller count, so that all of them fit. */
static void check_blocks(struct job *j, int size)
{
	MPI_Count before = j->count;
	begin(j);
	taken -= is_known(j);
	j->count /= size;
	PMPI_Reduce_scatter_block(j->in, j->expected, (int)j->count, j->type->type, j->op, j->comm);
	int e = MPI_Reduce_scatter_block(j->in_place ? MPI_IN_PLACE : j->in, j->out, (int)j->count,
					 j->type->type, j->op, j->comm);
	EXPECT(!e, "code %d", e);
	compare(j, "reduce_scatter_block");
	if (j->in_place && j->type->value != LONG_DOUBLE)
		compare_rest(j, before);
	j->count *= size;
	taken += is_known(j);
	j->count = before;
}

static void check_ops(struct job *j, int size)
{
	const MPI_Op ops[] = {MPI_SUM, MPI_MIN, MPI_MAX, MPI_PROD};
	int complex = j->type->each == 2;
	for (int k = 0; k < 4; k++) {
		j->op = ops[k];
		if (complex && (j->op == MPI_MIN || j->op == MPI_MAX))
			continue;
		for (j->in_place = 0; j->in_place < 2; j->in_place++) {
			check_allreduce(j);
			check_reduce(j, (int)(j->count + k) % size, size);
			check_started(j);
			check_blocks(j, size);
			if (j->count == 1000)
				check_large_counts(j);
		}
	}
}

/* Blocking first: an operation that is only started joins nothing. */
static void check_comm(MPI_Comm comm, int is_taken)
{
	struct job j = {.comm = comm, .taken = is_taken};
	int size;
	size_t bytes = (size_t)COUNT_MAX * 16; /* of the largest type */
	MPI_Comm_size(comm, &size);
	j.taken = is_taken && size > 1;
	j.in = memory(bytes);
	j.out = memory(bytes);
	j.expected = memory(bytes);
	taken += j.taken;
	MPI_Barrier(comm);
	for (int t = 0; t < type_count; t++)
		for (int c = 0; c < COUNTS; c++) {
			j.type = &types[t];
			j.count = counts[c];
			check_ops(&j, size);
		}
	free(j.in);
	free(j.out);
	free(j.expected);
}

static void check_comms(void)
{
	MPI_Comm comm;
	check_comm(MPI_COMM_WORLD, 1);
	check_comm(MPI_COMM_SELF, 0);
	type_count = FEW; /* of the others a few types will do */
	MPI_Comm_dup(MPI_COMM_WORLD, &comm);
	check_comm(comm, 1);
	MPI_Comm_free(&comm);
	MPI_Comm_split(MPI_COMM_WORLD, 0, -rank, &comm);
	check_comm(comm, 1);
	MPI_Comm_free(&comm);
	MPI_Comm_split(MPI_COMM_WORLD, rank > 0, rank, &comm);
	check_comm(comm, 1);
	MPI_Comm_disconnect(&comm);
	MPI_Comm_split(MPI_COMM_WORLD, rank < 2 ? 0 : MPI_UNDEFINED, rank, &comm);
	if (comm != MPI_COMM_NULL) {
		check_comm(comm, 1);
		MPI_Comm_free(&comm);
	}
}

/* Between two groups each gets the other's sum. */
static void check_intercomm(void)
{
	MPI_Comm half, inter;
	int size, mine[4] = {rank, 1, 2, 3}, sum[4], expected[4];
	MPI_Comm_split(MPI_COMM_WORLD, rank % 2, rank, &half);
	MPI_Intercomm_create(half, 0, MPI_COMM_WORLD, 1 - rank % 2, 7, &inter);
	MPI_Comm_remote_size(inter, &size);
	PMPI_Allreduce(mine, expected, 4, MPI_INT, MPI_SUM, inter);
	MPI_Allreduce(mine, sum, 4, MPI_INT, MPI_SUM, inter);
	EXPECT(!memcmp(sum, expected, sizeof sum) && sum[1] == size, "inter-communicator");
	MPI_Barrier(inter);
	MPI_Comm_free(&inter);
	MPI_Comm_free(&half);
}

static void add_up(void *in, void *out, int *count, MPI_Datatype *type)
{
	(void)type;
	for (int i = 0; i < *count; i++)
		((int *)out)[i] += ((int *)in)[i];
}

static void check_own_operation(void)
{
	MPI_Op op;
	int mine[4] = {rank, 1, 2, 3}, sum[4];
	MPI_Op_create(add_up, 1, &op);
	MPI_Allreduce(mine, sum, 4, MPI_INT, op, MPI_COMM_WORLD);
	EXPECT(sum[0] == ranks * (ranks - 1) / 2 && sum[1] == ranks, "own operation");
	MPI_Op_free(&op);
}

/* MPICH has a half type; Debian's 4.0.2 ends the program where it is to sum it itself. */
#ifdef MPIX_C_FLOAT16
/* As IEEE 754 has it, of a whole number below 2048. */
static unsigned short half(int n)
{
	int exponent = n ? 31 - __builtin_clz((unsigned)n) : -15;
	unsigned digits = n ? (unsigned)n << (10 - exponent) & 0x3ff : 0;
	return (unsigned short)((unsigned)(exponent + 15) << 10 | digits);
}

static void check_half(void)
{
	enum { COUNT = 1000, HALF_MAX = 256 }; /* so that sums of up to seven ranks are exact */
	unsigned short in[COUNT], out[COUNT];
	for (int in_place = 0; in_place < 2; in_place++) {
		for (int i = 0; i < COUNT; i++)
			in[i] = out[i] = half(i % HALF_MAX + rank);
		taken++;
		MPI_Allreduce(in_place ? MPI_IN_PLACE : in, out, COUNT, MPIX_C_FLOAT16, MPI_SUM,
			      MPI_COMM_WORLD);
		for (int i = 0; i < COUNT; i++)
			EXPECT(out[i] == half(ranks * (i % HALF_MAX) + ranks * (ranks - 1) / 2),
			       "half type, in place %d, element %d", in_place, i);
	}
}
#endif

/* What the MPI would say is said, whatever fanin could do.  Debian's MPICH does not check: it
 * crashes by itself. */
#ifdef OPEN_MPI
static void check_errors(void)
{
	MPI_Comm comm;
	int mine[4] = {0}, sum[4], a, b;
	MPI_Comm_dup(MPI_COMM_WORLD, &comm);
	MPI_Comm_set_errhandler(comm, MPI_ERRORS_RETURN);
	taken++;
	MPI_Barrier(comm);
	MPI_Error_class(MPI_Allreduce(mine, sum, -1, MPI_INT, MPI_SUM, comm), &a);
	MPI_Error_class(PMPI_Allreduce(mine, sum, -1, MPI_INT, MPI_SUM, comm), &b);
	EXPECT(a == b && a, "count -1: class %d, not %d", a, b);
	MPI_Error_class(MPI_Reduce(mine, sum, 4, MPI_INT, MPI_SUM, ranks, comm), &a);
	MPI_Error_class(PMPI_Reduce(mine, sum, 4, MPI_INT, MPI_SUM, ranks, comm), &b);
	EXPECT(a == b && a, "root %d: class %d, not %d", ranks, a, b);
	MPI_Error_class(MPI_Allreduce(mine, sum, 4, MPI_INT, MPI_OP_NULL, comm), &a);
	MPI_Error_class(PMPI_Allreduce(mine, sum, 4, MPI_INT, MPI_OP_NULL, comm), &b);
	EXPECT(a == b && a, "no operation: class %d, not %d", a, b);
	MPI_Comm_free(&comm);
}
#endif

#define BLOCK 64

/* Is an error of MPI_NAME that of PMPI_NAME, and is there one in an MPI that `refuses`? */
#define EXPECT_SAME(refuses, name, ...)                                                            \
	do {                                                                                       \
		int a, b;                                                                          \
		MPI_Error_class(PMPI_##name(__VA_ARGS__), &b);                                     \
		MPI_Error_class(MPI_##name(__VA_ARGS__), &a);                                      \
		EXPECT(a == b && (a || !(refuses)), #name " class %d, not %d", a, b);              \
	} while (0)

/* Buffers that are one, and MPI_IN_PLACE where there is none, are the MPI's to refuse. */
static void check_buffers(void)
{
#ifdef OPEN_MPI
	const int mpich = 0;
#else
	const int mpich = 1;
#endif
	MPI_Comm comm;
	MPI_Request request;
	int *x = memory((size_t)ranks * BLOCK * sizeof *x), *own = x + (size_t)rank * BLOCK;
	MPI_Comm_dup(MPI_COMM_WORLD, &comm);
	MPI_Comm_set_errhandler(comm, MPI_ERRORS_RETURN);
	MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN); /* Open MPI asks it, too */
	taken++;
	MPI_Barrier(comm);
	EXPECT_SAME(1, Allreduce, x, x, BLOCK, MPI_INT, MPI_SUM, comm);
	EXPECT_SAME(1, Allreduce, x, MPI_IN_PLACE, BLOCK, MPI_INT, MPI_SUM, comm);
	EXPECT_SAME(1, Iallreduce, x, x, BLOCK, MPI_INT, MPI_SUM, comm, &request);
	EXPECT_SAME(1, Reduce_scatter_block, x, MPI_IN_PLACE, BLOCK, MPI_INT, MPI_SUM, comm);
	EXPECT_SAME(1, Allgather, x, BLOCK, MPI_INT, MPI_IN_PLACE, BLOCK, MPI_INT, comm);
	EXPECT_SAME(mpich, Allgather, own, BLOCK, MPI_INT, x, BLOCK, MPI_INT, comm);
	taken += !mpich;
	if (!rank)
		EXPECT_SAME(1, Reduce, x, x, BLOCK, MPI_INT, MPI_SUM, 0, comm);
	MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_ARE_FATAL);
	MPI_Comm_free(&comm);
	free(x);
}

int main(int argc, char **argv)
{
	MPI_Init(&argc, &argv);
	MPI_Comm_rank(MPI_COMM_WORLD, &rank);
	MPI_Comm_size(MPI_COMM_WORLD, &ranks);
	always = argc > 1 && !strcmp(argv[1], "always");
	make_types();
	if (argc > 1 && !strcmp(argv[1], "few"))
		type_count = FEW;
	check_comms();
	check_intercomm();
	check_own_operation();
#ifdef MPIX_C_FLOAT16
	if (always)
		check_half();
#endif
	if (always)
		check_buffers();
#ifdef OPEN_MPI
	check_errors();
#endif
	return finish();
}
