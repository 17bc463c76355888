/* SPDX-License-Identifier: Apache-2.0 */
/* A rank with several operations under way at any time, all of whose sums are checked: drills.sh
 * kills switches beside it.
 *
 *     stream SECONDS FILE
 *
 * What it belongs to is told by variables (FANIN_SWITCH, RANK, ...).  Says "# fanin stream" once
 * all ranks have joined, and at the end writes how many sums were wrong, and whether parts are
 * lost, into FILE.  Exit code 0; 1 after an error, which it prints. */
#include <fanin.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#define FLIGHT 8      /* operations under way */
#define ELEMS  16384u /* of int32; no more bytes in all than may be under way when shares change */
#define GOES   (ELEMS - 1) /* the element by which rank 0 says whether more are started */
#define SPREAD 7

static int32_t tensor[FLIGHT][ELEMS];

static double now(void)
{
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static void fill(int32_t *x, uint32_t number, int rank, bool goes)
{
	for (uint32_t i = 0; i < GOES; i++)
		x[i] = (int32_t)(number * SPREAD + i) + rank;
	x[GOES] = rank == 0 && goes;
}

static unsigned wrong_in(const int32_t *x, uint32_t number, int ranks)
{
	unsigned wrong = x[GOES] != 0 && x[GOES] != 1;
	for (uint32_t i = 0; i < GOES; i++)
		wrong += x[i] != (int32_t)(number * SPREAD + i) * ranks + ranks * (ranks - 1) / 2;
	return wrong;
}

static int start(fanin_comm *comm, uint32_t number, bool goes, fanin_op **op)
{
	int32_t *x = tensor[number % FLIGHT];
	fill(x, number, fanin_comm_rank(comm), goes);
	return fanin_allreduce_start(comm, x, x, ELEMS, FANIN_INT32, FANIN_SUM,
				     &op[number % FLIGHT]);
}

/* All ranks start the same operations: FLIGHT more than have ended when rank 0's word to stop
 * comes. */
static int run(fanin_comm *comm, double seconds, unsigned *wrong, uint32_t *ended)
{
	fanin_op *op[FLIGHT];
	uint32_t started = 0;
	const double begin = now();
	bool goes = true;
	int e = FANIN_OK;
	for (; started < FLIGHT && !e; started++)
		e = start(comm, started, true, op);
	for (; *ended < started && !e; ++*ended) {
		fanin_op *oldest = op[*ended % FLIGHT];
		const int32_t *x = tensor[*ended % FLIGHT];
		e = fanin_op_wait(oldest, -1);
		fanin_op_free(oldest);
		if (e)
			break;
		*wrong += wrong_in(x, *ended, fanin_comm_size(comm));
		goes &= x[GOES] == 1;
		if (goes)
			e = start(comm, started++, now() < begin + seconds, op);
	}
	return e;
}

static int tell(const fanin_comm *comm, const char *path, unsigned wrong, uint32_t ended)
{
	struct fanin_part p = {.size = sizeof p};
	FILE *f = fopen(path, "w");
	if (!f)
		return 1;
	fprintf(f, "{\"wrong\": %u, \"operations\": %u, \"parts\": [", wrong, (unsigned)ended);
	for (uint32_t k = 0; !fanin_comm_part(comm, k, &p); k++)
		fprintf(f, "%s\n{\"lost\": %s}", k ? "," : "", p.lost ? "true" : "false");
	fprintf(f, "]}\n");
	return fclose(f) != 0;
}

int main(int argc, char **argv)
{
	struct fanin_options options = FANIN_OPTIONS_INIT;
	fanin_comm *comm;
	unsigned wrong = 0;
	uint32_t ended = 0;
	if (argc != 3) {
		fprintf(stderr, "usage: stream SECONDS FILE\n");
		return 2;
	}
	int e = fanin_comm_create(&options, &comm);
	if (!e) {
		printf("# fanin stream\n");
		fflush(stdout);
		e = run(comm, atof(argv[1]), &wrong, &ended);
	}
	if (e)
		fprintf(stderr, "stream: %s\n", fanin_comm_error(comm));
	else
		e = tell(comm, argv[2], wrong, ended);
	fanin_comm_destroy(comm);
	return e || wrong;
}
