/* SPDX-License-Identifier: Apache-2.0
 *
 * The other peer: MPI_Allreduce of Open MPI over TCP, with the algorithm that it
 * picks itself.  Rank and size come from mpirun:
 *
 *     mpirun -n 8 --oversubscribe --mca pml ob1 --mca btl tcp,self
 *            --mca mpi_yield_when_idle 1 mpi_allreduce --bytes 16777216 --iters 20
 *
 * Every element of every result is checked, outside the timed part; a barrier
 * stands before each timed all-reduce, and one behind it.  The time of one all-reduce is that of
 * its slowest rank.  Rank 0 prints the line; exits 1 when an element was wrong.
 */
#include <mpi.h>

#include "peer.h"

/* Every MPI error aborts the job with MPI's own text (MPI_ERRORS_ARE_FATAL). */
static long measure(const struct peer_args *a, float *tensors, double *time_us)
{
	size_t count = a->bytes / sizeof(float);
	float *in = tensors, *out = tensors + count, *sum = tensors + 2 * count;
	long wrong = 0, wrong_all = 0;

	peer_fill(in, count, a->rank);
	peer_expect(sum, count, a->size);
	for (int i = -a->warmup; i < a->iters; i++) {
		double start_us;

		memset(out, 0xff, count * sizeof(float));
		MPI_Barrier(MPI_COMM_WORLD);
		start_us = peer_now_us();
		MPI_Allreduce(in, out, (int)count, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
		if (i >= 0)
			time_us[i] = peer_now_us() - start_us;
		MPI_Barrier(MPI_COMM_WORLD);
		wrong += peer_wrong(out, sum, count);
	}
	MPI_Reduce(a->rank == 0 ? MPI_IN_PLACE : time_us, time_us, a->iters, MPI_DOUBLE, MPI_MAX, 0,
		   MPI_COMM_WORLD);
	MPI_Allreduce(&wrong, &wrong_all, 1, MPI_LONG, MPI_SUM, MPI_COMM_WORLD);
	return wrong_all;
}

int main(int argc, char **argv)
{
	struct peer_args a = {.iters = 20, .warmup = 5, .bytes = 16 << 20};
	double *time_us;
	float *tensors;
	long wrong = 1;

	MPI_Init(&argc, &argv);
	peer_parse(&a, argc, argv);
	MPI_Comm_rank(MPI_COMM_WORLD, &a.rank);
	MPI_Comm_size(MPI_COMM_WORLD, &a.size);
	tensors = malloc(3 * a.bytes);
	time_us = calloc((size_t)a.iters, sizeof(*time_us));
	if (tensors == NULL || time_us == NULL) {
		fprintf(stderr, "mpi_allreduce: rank %d: no memory for 3 x %zu bytes\n", a.rank,
			a.bytes);
		MPI_Abort(MPI_COMM_WORLD, 1);
		return 1;
	}
	wrong = measure(&a, tensors, time_us);
	if (a.rank == 0)
		peer_print(&a, "openmpi-tcp", time_us, wrong);
	free(time_us);
	free(tensors);
	MPI_Finalize();
	return wrong == 0 ? 0 : 1;
}
