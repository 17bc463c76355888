/* SPDX-License-Identifier: Apache-2.0 */
/* expect.h - what the programs of test/mpi share: notes of what is wrong, and how many calls fanin
 * is to have taken. */
#ifndef FAN_TEST_MPI_EXPECT_H
#define FAN_TEST_MPI_EXPECT_H

#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int rank, ranks;
static long wrong, taken;

#define EXPECT(x, ...)                                                                             \
	do {                                                                                       \
		if (!(x)) {                                                                        \
			printf("rank %d: %s:%d: not so: %s: ", rank, __FILE__, __LINE__, #x);      \
			printf(__VA_ARGS__);                                                       \
			printf("\n");                                                              \
			wrong++;                                                                   \
		}                                                                                  \
	} while (0)

static inline void *memory(size_t bytes)
{
	void *p = calloc(1, bytes + 1);
	if (!p) {
		printf("rank %d: no memory\n", rank);
		MPI_Abort(MPI_COMM_WORLD, 1);
	}
	return p;
}

/* The last line of rank 0 is "wrong N, taken N". */
static inline int finish(void)
{
	long all = 0;
	PMPI_Allreduce(&wrong, &all, 1, MPI_LONG, MPI_SUM, MPI_COMM_WORLD);
	if (!rank)
		printf("wrong %ld, taken %ld\n", all, taken);
	MPI_Finalize();
	return all != 0;
}

#endif
