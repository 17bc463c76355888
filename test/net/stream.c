/* SPDX-License-Identifier: Apache-2.0 */
/* A rank with several operations under way at any time, all of whose sums are checked: drills.sh
 * kills switches beside it, hub.sh has it on a bad network.
 *
 *     stream [-e] [-s SEED] SECONDS FILE
 *
 * What it belongs to is told by variables (FANIN_SWITCH, RANK, ...).  With -s tensors have many
 * lengths and values that no other seed, operation or rank has; with -e it goes on with the ranks
 * that are left when one is lost.  Says
 * "# fanin stream" once all ranks have joined, and at the end how many sums there were and how many
 * elements were wrong; writes this, and whether parts are lost, into FILE.  Exit code 0; 1 after an
 * error, which it prints. */
#include <fanin.h>
#include <math.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define FLIGHT	  8	 /* operations under way */
#define ELEMS	  16384u /* at most; no more bytes in all than may be under way when shares change */
#define AMPLITUDE 20	 /* of values: whole numbers, exact as sums of six ranks on any wire */
#define CLOSE	  1e-4	 /* in fixed mode */
#define SHRINK_MS 60000

/* One life of a group of ranks. */
struct life {
	fanin_comm *comm;
	fanin_op *op[FLIGHT];
	double until; /* rank 0 starts no more by then */
	uint32_t started, ended;
};

static float tensor[FLIGHT][ELEMS];
static uint32_t seed, operations, wrong;
static double tolerance;

static double now(void)
{
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static uint32_t mix(uint32_t x)
{
	x = (x ^ x >> 16) * 0x7feb352du;
	x = (x ^ x >> 15) * 0x846ca68bu;
	return x ^ x >> 16;
}

/* The last element is rank 0's: whether more operations are started. */
static uint32_t count_of(uint32_t number)
{
	return seed ? 2 + mix(seed + number) % (ELEMS - 1) : ELEMS;
}

static float value(uint32_t number, uint32_t i, int rank)
{
	uint32_t key = mix(seed * 31 + number) + (uint32_t)rank * 0x9e3779b9u;
	return (float)((int)(mix(key + i) % (2 * AMPLITUDE + 1)) - AMPLITUDE);
}

static uint32_t wrong_in(const float *x, uint32_t number, int ranks)
{
	uint32_t count = count_of(number), bad = 0;
	for (uint32_t i = 0; i < count; i++) {
		float want = 0;
		for (int r = 0; r < ranks && i < count - 1; r++)
			want += value(number, i, r);
		if (i == count - 1)
			want = x[i] > 0.5F;
		if (fabs((double)x[i] - (double)want) <= tolerance)
			continue;
		if (!bad++)
			fprintf(stderr,
				"stream: seed %u, sum %u: element %u of %u is %g, expected %g\n",
				(unsigned)seed, (unsigned)number, (unsigned)i, (unsigned)count,
				(double)x[i], (double)want);
	}
	return bad;
}

static int start(struct life *l)
{
	uint32_t number = l->started++, count = count_of(number);
	int rank = fanin_comm_rank(l->comm);
	float *x = tensor[number % FLIGHT];
	for (uint32_t i = 0; i < count - 1; i++)
		x[i] = value(number, i, rank);
	x[count - 1] = rank == 0 && now() < l->until;
	return fanin_allreduce_start(l->comm, x, x, count, FANIN_FLOAT32, FANIN_SUM,
				     &l->op[number % FLIGHT]);
}

/* All ranks start the same operations: FLIGHT more than have ended when rank 0's word to stop
 * comes. */
static int run(struct life *l)
{
	int e = FANIN_OK;
	bool goes = true;
	while (l->started < FLIGHT && !e)
		e = start(l);
	for (; l->ended < l->started && !e; l->ended++) {
		uint32_t place = l->ended % FLIGHT;
		e = fanin_op_wait(l->op[place], -1);
		fanin_op_free(l->op[place]);
		l->op[place] = NULL;
		if (e)
			break;
		operations++;
		wrong += wrong_in(tensor[place], l->ended, fanin_comm_size(l->comm));
		goes &= tensor[place][count_of(l->ended) - 1] > 0.5F;
		if (goes)
			e = start(l);
	}
	for (unsigned i = 0; i < FLIGHT; i++)
		fanin_op_free(l->op[i]);
	return e;
}

static int tell(const fanin_comm *comm, const char *path)
{
	struct fanin_part p = {.size = sizeof p};
	FILE *f = fopen(path, "w");
	if (!f)
		return 1;
	fprintf(f, "{\"wrong\": %u, \"operations\": %u, \"parts\": [", (unsigned)wrong,
		(unsigned)operations);
	for (uint32_t k = 0; !fanin_comm_part(comm, k, &p); k++)
		fprintf(f, "%s\n{\"lost\": %s}", k ? "," : "", p.lost ? "true" : "false");
	fprintf(f, "]}\n");
	return fclose(f) != 0;
}

/* Run with the ranks of `comm`; if one is lost and the others are to go on, with these. */
static int live(fanin_comm *comm, double until, bool elastic, const char *path)
{
	struct life l = {.comm = comm, .until = until};
	fanin_comm *left = NULL;
	int e = run(&l);
	if (!e)
		return tell(comm, path);
	fprintf(stderr, "stream: %s\n", fanin_comm_error(comm));
	if (!elastic)
		return e;
	e = fanin_comm_shrink(comm, SHRINK_MS, &left);
	if (e) {
		fprintf(stderr, "stream: shrink: %s\n",
			left ? fanin_comm_error(left) : fanin_strerror(e));
	} else {
		printf("# %d ranks are left\n", fanin_comm_size(left));
		seed++;
		e = live(left, until, false, path);
	}
	fanin_comm_destroy(left);
	return e;
}

int main(int argc, char **argv)
{
	struct fanin_options options = FANIN_OPTIONS_INIT;
	const char *mode = getenv("FANIN_MODE");
	fanin_comm *comm;
	bool elastic = false;
	for (int flag; (flag = getopt(argc, argv, "es:")) != -1;) {
		elastic |= flag == 'e';
		if (flag == 's')
			seed = (uint32_t)strtoul(optarg, NULL, 10);
		if (flag == '?')
			argc = 0;
	}
	if (argc != optind + 2) {
		fprintf(stderr, "usage: stream [-e] [-s SEED] SECONDS FILE\n");
		return 2;
	}
	tolerance = mode && !strcmp(mode, "fixed") ? CLOSE : 0;
	int e = fanin_comm_create(&options, &comm);
	if (!e) {
		printf("# fanin stream\n");
		fflush(stdout);
		e = live(comm, now() + atof(argv[optind]), elastic, argv[optind + 1]);
	} else {
		fprintf(stderr, "stream: %s\n", comm ? fanin_comm_error(comm) : fanin_strerror(e));
	}
	printf("# sums: %u, wrong elements: %u\n", (unsigned)operations, (unsigned)wrong);
	fanin_comm_destroy(comm);
	return e ? 1 : wrong ? 3 : 0;
}
