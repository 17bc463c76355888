/* SPDX-License-Identifier: Apache-2.0
 *
 * The other peer: MPI_Allreduce of Open MPI, with the transport and the algorithm that it picks or
 * is told.  Rank and size come from mpirun:
 *
 *     mpirun -n 8 --oversubscribe --mca pml ob1 --mca btl tcp,self
 *            --mca mpi_yield_when_idle 1 mpi_allreduce --bytes 16777216 --iters 20
 *
 * Every element of every result is checked, outside the timed part; a barrier
 * stands before each timed all-reduce, and one behind it.  The time of one all-reduce is that of
 * its slowest rank.  With --loop there is nothing between the all-reduces, only the last result is
 * checked, and the time is that of all by their number.  Rank 0 prints the line; exits 1 when an
 * element was wrong.
 *
 * With --turns N a library that takes MPI's functions, such as libfanin-mpi.so, is compared with
 * the MPI below it in one process, so that both have the ranks on the same cores and in the same
 * step: N all-reduces and their barriers by PMPI, N by MPI, and so on.  A side's time is the mean
 * of its turns' medians: a rank that lost its core for a while does not count, and a pace that the
 * ranks keep to for some turns counts as often as it comes.
 */
#include <mpi.h>

#include "peer.h"

/* A tensor and what becomes of it, of float or of double. */
struct tensors {
	size_t count;
	int doubles;
	void *in, *out;
	float *sum; /* exact in both */
};

static void fill(struct tensors *t, int rank)
{
	for (size_t i = 0; i < t->count; i++)
		if (t->doubles)
			((double *)t->in)[i] = (double)peer_input(rank, i);
		else
			((float *)t->in)[i] = peer_input(rank, i);
}

static long count_wrong(const struct tensors *t)
{
	long wrong = 0;

	if (!t->doubles)
		return peer_wrong(t->out, t->sum, t->count);
	for (size_t i = 0; i < t->count; i++)
		wrong += !(((double *)t->out)[i] == (double)t->sum[i]);
	return wrong;
}

typedef int allreduce_function(const void *, void *, int, MPI_Datatype, MPI_Op, MPI_Comm);

static void allreduce_by(allreduce_function *how, const struct tensors *t)
{
	how(t->in, t->out, (int)t->count, t->doubles ? MPI_DOUBLE : MPI_FLOAT, MPI_SUM,
	    MPI_COMM_WORLD);
}

static void allreduce(const struct tensors *t)
{
	allreduce_by(MPI_Allreduce, t);
}

/* Every MPI error aborts the job with MPI's own text (MPI_ERRORS_ARE_FATAL). */
static long measure(const struct peer_args *a, const struct tensors *t, double *time_us)
{
	long wrong = 0;

	for (int i = -a->warmup; i < a->iters; i++) {
		double start_us;

		memset(t->out, 0xff, a->bytes);
		MPI_Barrier(MPI_COMM_WORLD);
		start_us = peer_now_us();
		allreduce(t);
		if (i >= 0)
			time_us[i] = peer_now_us() - start_us;
		MPI_Barrier(MPI_COMM_WORLD);
		wrong += count_wrong(t);
	}
	MPI_Reduce(a->rank == 0 ? MPI_IN_PLACE : time_us, time_us, a->iters, MPI_DOUBLE, MPI_MAX, 0,
		   MPI_COMM_WORLD);
	return wrong;
}

static long measure_loop(const struct peer_args *a, const struct tensors *t, double *time_us)
{
	double start_us = peer_now_us();

	for (int i = 0; i < a->loop; i++)
		allreduce(t);
	time_us[0] = (peer_now_us() - start_us) / a->loop;
	return count_wrong(t);
}

/* One of its calls, this rank's time in *time_us; the number of wrong elements. */
static long time_one(const struct peer_args *a, const struct tensors *t, int below, double *time_us)
{
	allreduce_function *how = below ? PMPI_Allreduce : MPI_Allreduce;
	int (*barrier)(MPI_Comm) = below ? PMPI_Barrier : MPI_Barrier;
	double start_us;

	memset(t->out, 0xff, a->bytes);
	barrier(MPI_COMM_WORLD);
	start_us = peer_now_us();
	allreduce_by(how, t);
	*time_us = peer_now_us() - start_us;
	barrier(MPI_COMM_WORLD);
	return count_wrong(t);
}

/* Of the slowest rank each; sorts `time_us`. */
static double turn_median(const struct peer_args *a, double *time_us)
{
	size_t n = (size_t)a->turns;

	PMPI_Allreduce(MPI_IN_PLACE, time_us, a->turns, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
	qsort(time_us, n, sizeof(*time_us), peer_compare);
	return n % 2 ? time_us[n / 2] : (time_us[n / 2 - 1] + time_us[n / 2]) / 2;
}

/* Prints its own line, with the times of both sides; those of MPI are `time_us_...`. */
static long measure_turns(const struct peer_args *a, const struct tensors *t, double *time_us)
{
	int turns = a->iters / a->turns, last = (a->turns * 99 + 99) / 100 - 1;
	double mean_us[2] = {0, 0}, p99_us[2] = {0, 0};
	long wrong = 0;

	for (int i = 0; i < a->warmup; i++)
		wrong += time_one(a, t, 0, time_us);
	for (int n = 0; n < 2 * turns; n++) {
		int below = n % 2 == 0;

		for (int i = 0; i < a->turns; i++)
			wrong += time_one(a, t, below, &time_us[i]);
		mean_us[below] += turn_median(a, time_us) / turns;
		p99_us[below] += time_us[last] / turns;
	}
	PMPI_Allreduce(MPI_IN_PLACE, &wrong, 1, MPI_LONG, MPI_SUM, MPI_COMM_WORLD);
	if (a->rank == 0)
		printf("{\"results\":[{\"bytes\":%zu,\"dtype\":\"%s\",\"ranks\":%d,\"turns\":%d,"
		       "\"calls_in_a_turn\":%d,\"below_us\":%.3f,\"below_us_p99\":%.3f,"
		       "\"time_us_p50\":%.3f,\"time_us_p99\":%.3f,\"linkbw_GBps\":%.4f,"
		       "\"wrong\":%ld}]}\n",
		       a->bytes, a->doubles ? "float64" : "float32", a->size, turns, a->turns,
		       mean_us[1], p99_us[1], mean_us[0], p99_us[0],
		       (double)a->bytes / mean_us[0] * 1e-3, wrong);
	fflush(stdout);
	return wrong;
}

int main(int argc, char **argv)
{
	struct peer_args a = {.iters = 20, .warmup = 5, .bytes = 16 << 20};
	struct tensors t;
	double *time_us;
	long wrong, wrong_all = 1;

	MPI_Init(&argc, &argv);
	peer_parse(&a, argc, argv);
	MPI_Comm_rank(MPI_COMM_WORLD, &a.rank);
	MPI_Comm_size(MPI_COMM_WORLD, &a.size);
	if (a.loop)
		a.iters = 1;
	t.doubles = a.doubles;
	t.count = a.bytes / (a.doubles ? sizeof(double) : sizeof(float));
	t.in = malloc(a.bytes);
	t.out = malloc(a.bytes);
	t.sum = malloc(a.bytes);
	time_us = calloc((size_t)(a.turns ? a.turns : a.iters), sizeof(*time_us));
	if (t.in == NULL || t.out == NULL || t.sum == NULL || time_us == NULL) {
		fprintf(stderr, "mpi_allreduce: rank %d: no memory for 3 x %zu bytes\n", a.rank,
			a.bytes);
		MPI_Abort(MPI_COMM_WORLD, 1);
		return 1;
	}
	fill(&t, a.rank);
	peer_expect(t.sum, t.count, a.size);
	if (a.turns && a.iters < a.turns)
		a.iters = a.turns;
	if (a.turns)
		wrong = measure_turns(&a, &t, time_us);
	else
		wrong = a.loop ? measure_loop(&a, &t, time_us) : measure(&a, &t, time_us);
	PMPI_Allreduce(&wrong, &wrong_all, 1, MPI_LONG, MPI_SUM, MPI_COMM_WORLD);
	if (a.rank == 0 && !a.turns)
		peer_print(&a, "openmpi", time_us, wrong_all);
	free(time_us);
	free(t.sum);
	free(t.out);
	free(t.in);
	MPI_Finalize();
	return wrong_all == 0 ? 0 : 1;
}
