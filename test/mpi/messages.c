/* SPDX-License-Identifier: Apache-2.0 */
/* messages.c - broadcasts of all kinds of types; requests among others; progress of the MPI while
 * fanin waits; with the argument "always", by which all goes to fanin, a communicator that is freed
 * early; and with "threads" two threads with a communicator each, and nothing else, or with a
 * number sums of that number; with "nothing" not even MPI_Init. */
#include <pthread.h>

#include "expect.h"

#define ROWS	 37
#define ROUNDS	 200
#define LARGE	 (4 << 20)
#define REQUESTS 6
#define JOBS	 24

static int always; /* all that fanin can take goes to it */

/* ---- broadcasts ---- */

struct gap {
	int number;
	double value;
	char letter;
};

static MPI_Datatype gap_type(void)
{
	struct gap g = {0};
	MPI_Datatype made, whole, parts[] = {MPI_INT, MPI_DOUBLE, MPI_CHAR};
	int lengths[] = {1, 1, 1};
	MPI_Aint base, at[3];
	MPI_Get_address(&g, &base);
	MPI_Get_address(&g.number, &at[0]);
	MPI_Get_address(&g.value, &at[1]);
	MPI_Get_address(&g.letter, &at[2]);
	for (int i = 0; i < 3; i++)
		at[i] -= base;
	MPI_Type_create_struct(3, lengths, at, parts, &made);
	MPI_Type_create_resized(made, 0, sizeof g, &whole);
	MPI_Type_free(&made);
	return whole;
}

/* One broadcast from `root`, which sends `count` of `sent`; others get `got_count` of `got`. */
static void check_bcast(int root, int count, MPI_Datatype sent, int got_count, MPI_Datatype got,
			size_t bytes)
{
	unsigned char *a = memory(bytes), *b = memory(bytes);
	int n = rank == root ? count : got_count;
	MPI_Datatype type = rank == root ? sent : got;
	for (size_t i = 0; i < bytes; i++)
		a[i] = b[i] = rank == root ? (unsigned char)(i * 31 + 7) : 0xee;
	PMPI_Bcast(b, n, type, root, MPI_COMM_WORLD);
	int e = MPI_Bcast(a, n, type, root, MPI_COMM_WORLD);
	taken++;
	EXPECT(!e && !memcmp(a, b, bytes), "bcast of %d from %d: code %d", count, root, e);
	free(a);
	free(b);
}

static void check_bcasts(void)
{
	MPI_Datatype column, pair, line, swapped, gap = gap_type();
	int lengths[] = {1, 1}, at[] = {1, 0};
	MPI_Type_vector(ROWS, 1, 3, MPI_DOUBLE, &column);
	MPI_Type_contiguous(2, MPI_DOUBLE, &pair);
#if MPI_VERSION >= 4
	MPI_Type_contiguous_c(5, pair, &line);
#else
	MPI_Type_contiguous(5, pair, &line);
#endif
	MPI_Type_indexed(2, lengths, at, MPI_DOUBLE, &swapped);
	MPI_Datatype made[] = {column, pair, line, swapped, gap};
	for (int i = 0; i < 5; i++)
		MPI_Type_commit(&made[i]);
	for (int root = 0; root < ranks; root++) {
		check_bcast(root, 100, MPI_DOUBLE, 100, MPI_DOUBLE, 800);
		check_bcast(root, 100003, MPI_CHAR, 100003, MPI_CHAR, 100003);
		check_bcast(root, 9, MPI_DOUBLE_INT, 9, MPI_DOUBLE_INT, 9 * 16);
		check_bcast(root, 1, column, ROWS, MPI_DOUBLE, ROWS * 24);
		check_bcast(root, ROWS, MPI_DOUBLE, 1, column, ROWS * 24);
		check_bcast(root, 10, line, 50, pair, 800);
		check_bcast(root, 10, swapped, 20, MPI_DOUBLE, 160);
		check_bcast(root, 20, MPI_DOUBLE, 10, swapped, 160);
		check_bcast(root, 1000, gap, 1000, gap, 1000 * sizeof(struct gap));
	}
	for (int i = 0; i < 5; i++)
		MPI_Type_free(&made[i]);
	int one = rank, before = rank;
	MPI_Bcast(&one, 1, MPI_INT, 0, MPI_COMM_WORLD);	   /* too small */
	MPI_Bcast(&before, 0, MPI_INT, 0, MPI_COMM_WORLD); /* nothing */
	EXPECT(!one && before == rank, "small broadcasts");
}

/* ---- all-gathers ---- */

/* Each rank sends `count` of `sent`, and gets as much from each as `got_count` of `got`. */
static void check_allgather(int count, MPI_Datatype sent, int got_count, MPI_Datatype got,
			    size_t bytes, int in_place)
{
	size_t all = bytes * (size_t)ranks;
	unsigned char *a = memory(all), *b = memory(all), *in = memory(bytes);
	MPI_Aint low, extent;
	MPI_Type_get_extent(got, &low, &extent);
	for (size_t i = 0; i < bytes; i++)
		in[i] = (unsigned char)((size_t)rank * 53 + i * 7);
	if (in_place) {
		memcpy(a + rank * got_count * extent, in, bytes);
		memcpy(b + rank * got_count * extent, in, bytes);
	}
	PMPI_Allgather(in_place ? MPI_IN_PLACE : in, count, sent, b, got_count, got,
		       MPI_COMM_WORLD);
	int e = MPI_Allgather(in_place ? MPI_IN_PLACE : in, count, sent, a, got_count, got,
			      MPI_COMM_WORLD);
	taken++;
	EXPECT(!e && !memcmp(a, b, all), "allgather of %d, in place %d: code %d", count, in_place,
	       e);
	free(a);
	free(b);
	free(in);
}

static void check_allgathers(void)
{
	MPI_Datatype column;
	MPI_Type_vector(ROWS, 1, 3, MPI_DOUBLE, &column);
	MPI_Type_commit(&column);
	for (int in_place = 0; in_place < 2; in_place++) {
		check_allgather(1000, MPI_DOUBLE, 1000, MPI_DOUBLE, 8000, in_place);
		check_allgather(5, MPI_CHAR, 5, MPI_CHAR, 5, in_place);
		check_allgather(7, MPI_DOUBLE_INT, 7, MPI_DOUBLE_INT, 7 * 16, in_place);
	}
	check_allgather(1, column, ROWS, MPI_DOUBLE, ROWS * 24, 0);
	check_allgather(ROWS, MPI_DOUBLE, 1, column, ROWS * 24, 0);
	MPI_Type_free(&column);
}

/* Requests: even ones are reductions, odd ones messages to the next rank. */

static int in[REQUESTS][1000], out[REQUESTS][1000];

static void start_all(MPI_Request *requests)
{
	int next = (rank + 1) % ranks, last = (rank + ranks - 1) % ranks;
	for (int i = 0; i < REQUESTS; i++) {
		for (int k = 0; k < 1000; k++) {
			in[i][k] = rank + i + k;
			out[i][k] = -1;
		}
		if (i % 2 == 0) {
			MPI_Iallreduce(in[i], out[i], 1000, MPI_INT, MPI_SUM, MPI_COMM_WORLD,
				       &requests[i]);
			taken++;
			continue;
		}
		MPI_Request sent;
		MPI_Irecv(out[i], 1000, MPI_INT, last, i, MPI_COMM_WORLD, &requests[i]);
		MPI_Isend(in[i], 1000, MPI_INT, next, i, MPI_COMM_WORLD, &sent);
		MPI_Request_free(&sent);
	}
}

static void check_all(const char *how)
{
	int last = (rank + ranks - 1) % ranks, ranks_sum = ranks * (ranks - 1) / 2;
	for (int i = 0; i < REQUESTS; i++)
		for (int k = 0; k < 1000; k++) {
			int expected = i % 2 ? last + i + k : ranks_sum + ranks * (i + k);
			EXPECT(out[i][k] == expected, "%s: request %d, element %d", how, i, k);
		}
	MPI_Barrier(MPI_COMM_WORLD); /* `in` is sent until here */
	taken++;
}

static void check_waits(void)
{
	MPI_Request r[REQUESTS];
	MPI_Status s[REQUESTS];
	int index, done, at[REQUESTS];
	start_all(r);
	MPI_Waitall(REQUESTS, r, s);
	check_all("waitall");
	start_all(r);
	for (int i = REQUESTS; i-- > 0;)
		MPI_Wait(&r[i], &s[i]);
	check_all("wait, last first");
	start_all(r);
	for (int i = 0; i < REQUESTS; i++) {
		MPI_Waitany(REQUESTS, r, &index, MPI_STATUS_IGNORE);
		EXPECT(index >= 0 && index < REQUESTS && r[index] == MPI_REQUEST_NULL, "waitany");
	}
	MPI_Waitany(REQUESTS, r, &index, MPI_STATUS_IGNORE);
	EXPECT(index == MPI_UNDEFINED, "waitany of nothing");
	check_all("waitany");
	start_all(r);
	for (int left = REQUESTS; left > 0; left -= done)
		MPI_Waitsome(REQUESTS, r, &done, at, s);
	check_all("waitsome");
}

static void check_tests(void)
{
	MPI_Request r[REQUESTS];
	MPI_Status s[REQUESTS];
	int index, flag = 0, done, at[REQUESTS];
	start_all(r);
	while (!flag)
		MPI_Testall(REQUESTS, r, &flag, s);
	check_all("testall");
	start_all(r);
	for (int i = 0; i < REQUESTS; i++)
		for (flag = 0; !flag;)
			MPI_Test(&r[i], &flag, &s[i]);
	check_all("test");
	start_all(r);
	for (int left = REQUESTS; left > 0; left -= flag)
		MPI_Testany(REQUESTS, r, &index, &flag, s);
	check_all("testany");
	start_all(r);
	for (int left = REQUESTS; left > 0; left -= done)
		MPI_Testsome(REQUESTS, r, &done, at, s);
	check_all("testsome");
	start_all(r);
	for (int i = 0; i < REQUESTS; i++)
		for (flag = 0; !flag;)
			MPI_Request_get_status(r[i], &flag, &s[i]);
	MPI_Waitall(REQUESTS, r, s);
	check_all("get_status");
}

/* Rank 1 reaches the reduction only after the MPI has moved rank 0's large message, which takes
 * rank 0's help; and rank 0 must come back from a start that nobody else has made yet. */
static void check_progress(void)
{
	char *large = memory(LARGE);
	int mine[4] = {rank, 1, 2, 3}, sum[4];
	MPI_Request request;
	if (rank == 0)
		MPI_Isend(large, LARGE, MPI_CHAR, 1, 1, MPI_COMM_WORLD, &request);
	if (rank == 1)
		MPI_Recv(large, LARGE, MPI_CHAR, 0, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
	MPI_Allreduce(mine, sum, 4, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
	taken++;
	EXPECT(sum[1] == ranks, "a reduction beside a message");
	if (rank == 0)
		MPI_Wait(&request, MPI_STATUS_IGNORE);
	if (rank == 1)
		MPI_Recv(large, 1, MPI_CHAR, 0, 2, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
	MPI_Iallreduce(mine, sum, 4, MPI_INT, MPI_SUM, MPI_COMM_WORLD, &request);
	taken++;
	if (rank == 0)
		MPI_Send(large, 1, MPI_CHAR, 1, 2, MPI_COMM_WORLD);
	MPI_Wait(&request, MPI_STATUS_IGNORE);
	EXPECT(sum[1] == ranks, "a start before the others'");
	free(large);
}

/* The communicator goes while its operation is under way; Open MPI 4.1.4 itself crashes there. */
static void check_early_free(void)
{
	MPI_Comm comm;
	MPI_Request request;
	int mine[4] = {rank, 1, 2, 3}, sum[4];
	MPI_Comm_dup(MPI_COMM_WORLD, &comm);
	MPI_Iallreduce(mine, sum, 4, MPI_INT, MPI_SUM, comm, &request); /* joins nothing */
	MPI_Wait(&request, MPI_STATUS_IGNORE);
	EXPECT(sum[1] == ranks, "before a call that may wait");
	MPI_Barrier(comm);
	MPI_Iallreduce(mine, sum, 4, MPI_INT, MPI_SUM, comm, &request);
	taken += 2;
	MPI_Comm_free(&comm);
	MPI_Wait(&request, MPI_STATUS_IGNORE);
	EXPECT(sum[1] == ranks, "after MPI_Comm_free");
}

/* ---- threads ---- */

static void *one_thread(void *arg)
{
	MPI_Comm comm = *(MPI_Comm *)arg;
	for (int n = 0; n < ROUNDS; n++) {
		int mine[64], sum[64];
		for (int i = 0; i < 64; i++)
			mine[i] = rank + n + i;
		MPI_Allreduce(mine, sum, 64, MPI_INT, MPI_SUM, comm);
		for (int i = 0; i < 64; i++)
			if (sum[i] != ranks * (ranks - 1) / 2 + ranks * (n + i))
				return arg;
	}
	return NULL;
}

static void check_threads(int provided)
{
	pthread_t thread[2];
	MPI_Comm comm[2];
	void *failed;
	if (provided != MPI_THREAD_MULTIPLE) {
		printf("rank %d: no MPI_THREAD_MULTIPLE\n", rank);
		return;
	}
	for (int i = 0; i < 2; i++)
		MPI_Comm_dup(MPI_COMM_WORLD, &comm[i]);
	for (int i = 0; i < 2; i++)
		pthread_create(&thread[i], NULL, one_thread, &comm[i]);
	for (int i = 0; i < 2; i++) {
		pthread_join(thread[i], &failed);
		EXPECT(!failed, "thread %d", i);
	}
	taken += 2 * ROUNDS;
	MPI_Comm_free(&comm[0]); /* the other one goes with MPI_Finalize */
}

/* A job a turn; another launch at the same switch has another `number`. */
static void check_launch(int number)
{
	const size_t bytes = sizeof(int) * LARGE / 64;
	int *mine = memory(bytes), *sum = memory(bytes), wrong_at = -1;
	for (int turn = 0; turn < JOBS; turn++) {
		MPI_Comm comm;
		MPI_Comm_dup(MPI_COMM_WORLD, &comm);
		for (int i = 0; i < LARGE / 64; i++)
			mine[i] = number * (turn + i);
		MPI_Allreduce(mine, sum, LARGE / 64, MPI_INT, MPI_SUM, comm);
		taken++;
		for (int i = 0; i < LARGE / 64; i++)
			if (sum[i] != ranks * mine[i])
				wrong_at = i;
		EXPECT(wrong_at < 0, "turn %d, element %d: %d", turn, wrong_at, sum[wrong_at]);
		MPI_Comm_free(&comm);
	}
	free(mine);
	free(sum);
}

int main(int argc, char **argv)
{
	int threads = argc > 1 && !strcmp(argv[1], "threads"), provided;
	if (argc > 1 && !strcmp(argv[1], "nothing"))
		return 0;
	MPI_Init_thread(&argc, &argv, threads ? MPI_THREAD_MULTIPLE : MPI_THREAD_SINGLE, &provided);
	MPI_Comm_rank(MPI_COMM_WORLD, &rank);
	MPI_Comm_size(MPI_COMM_WORLD, &ranks);
	always = argc > 1 && !strcmp(argv[1], "always");
	if (threads) {
		check_threads(provided);
		return finish();
	}
	if (argc > 1 && atoi(argv[1])) {
		check_launch(atoi(argv[1]));
		return finish();
	}
	check_bcasts();
	check_allgathers();
	check_waits();
	check_tests();
	check_progress();
	if (always)
		check_early_free();
	return finish();
}
