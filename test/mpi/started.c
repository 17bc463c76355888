/* SPDX-License-Identifier: Apache-2.0 */
/* started.c - all-reduces that are only started and waited for later: fanin joins a job beside
 * them, without a call in which ranks may wait for each other.
 *
 * With the argument "always" fanin must get calls in the end, and which ones is counted.  What
 * fanin did has no source in its status, so the program sees which way a call went; of many at a
 * time it does not, since MPIs use requests again as they were.  "limit" is a part of its own for
 * that. */
#include <pthread.h>
#include <stdatomic.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "expect.h"

#define COUNT	   1000	 /* elements, where all goes to fanin */
#define COUNT_MAX  17000 /* where that is learnt: more than 64 KiB */
#define AHEAD	   40	 /* calls of rank 0 before the others' first */
#define FEW_AHEAD  12	 /* calls of rank 0 that it has not waited for */
#define MIDDLE	   24	 /* calls after which the ranks are in the middle of a join */
#define PATIENCE_S 60
#define JOINS	   52	/* calls after which all ranks join */
#define FAST	   3000 /* calls of rank 0 without a stop */
#define FAST_TIMES 3
#define FAST_NS	   50000   /* between two of them, and more each time */
#define LATE_NS	   6000000 /* which a look at the clock takes the last rank's thread */
#define NAME_BYTES 16

static int always; /* all that fanin can take goes to it */
static int count = COUNT;
static int in[AHEAD][COUNT_MAX], out[AHEAD][COUNT_MAX];

static void start(int number, MPI_Comm comm, MPI_Request *request)
{
	int i = number % AHEAD;
	for (int k = 0; k < count; k++) {
		in[i][k] = rank + number + k;
		out[i][k] = -1;
	}
	MPI_Iallreduce(in[i], out[i], count, MPI_INT, MPI_SUM, comm, request);
}

/* The request of call `number` has ended.  True: fanin did it. */
static int ended(int number, const MPI_Status *status)
{
	int i = number % AHEAD;
	for (int k = 0; k < count; k++)
		EXPECT(out[i][k] == ranks * (ranks - 1) / 2 + ranks * (number + k),
		       "call %d, element %d", number, k);
	taken += status->MPI_SOURCE == MPI_UNDEFINED;
	return status->MPI_SOURCE == MPI_UNDEFINED;
}

/* Wait for call `number`.  True: fanin did it. */
static int wait_for(int number, MPI_Request *request)
{
	MPI_Status status;
	if (number % 2)
		MPI_Wait(request, &status);
	else
		for (int flag = 0; !flag;)
			MPI_Test(request, &flag, &status);
	return ended(number, &status);
}

static int one_call(int number, MPI_Comm comm)
{
	MPI_Request request;
	start(number, comm, &request);
	return wait_for(number, &request);
}

/* Nothing but such calls, until fanin has them, and a few more.  Rank 0 is a few calls ahead, and
 * tells the others by messages that it has seen enough. */
static void check_change(void)
{
	MPI_Comm comm;
	MPI_Request r[AHEAD];
	time_t begin = time(NULL);
	int n, stop = 0, mine = 0, ahead = rank ? 0 : FEW_AHEAD;
	MPI_Comm_dup(MPI_COMM_WORLD, &comm);
	for (n = 0; !stop && (always || n < 300); n++) {
		start(n, comm, &r[n % AHEAD]);
		if (n >= ahead)
			mine += wait_for(n - ahead, &r[(n - ahead) % AHEAD]);
		if (!rank)
			stop = mine > 5 || time(NULL) - begin > PATIENCE_S;
		for (int to = 1; !rank && to < ranks; to++)
			MPI_Send(&stop, 1, MPI_INT, to, 0, MPI_COMM_WORLD);
		if (rank)
			MPI_Recv(&stop, 1, MPI_INT, 0, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
	}
	for (int k = n - ahead; k < n; k++)
		mine += wait_for(k, &r[k % AHEAD]);
	EXPECT(mine > 5 || !always, "fanin has %d calls", mine);
	MPI_Comm_free(&comm);
}

/* Rank 0 starts many operations, and only then lets the others begin. */
static void check_ahead(void)
{
	MPI_Comm comm;
	MPI_Request r[AHEAD];
	MPI_Status s[AHEAD];
	int go = 1;
	MPI_Comm_dup(MPI_COMM_WORLD, &comm);
	if (rank)
		MPI_Recv(&go, 1, MPI_INT, 0, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
	for (int n = 0; n < AHEAD; n++)
		start(n, comm, &r[n]);
	for (int to = 1; !rank && to < ranks; to++)
		MPI_Send(&go, 1, MPI_INT, to, 1, MPI_COMM_WORLD);
	MPI_Waitall(AHEAD, r, s);
	for (int n = 0; n < AHEAD; n++)
		ended(n, &s[n]);
	for (int n = 0; n < AHEAD; n++)
		one_call(n, comm);
	MPI_Comm_free(&comm);
}

/* A call that may wait, or the end of the communicator, comes in the middle of the join. */
static void check_middle(void)
{
	MPI_Comm comm;
	int four[4] = {rank, 1, 2, 3}, sum[4];
	for (int calls = 0; calls < 2 * MIDDLE; calls += 7) {
		MPI_Comm_dup(MPI_COMM_WORLD, &comm);
		for (int n = 0; n < calls; n++)
			one_call(n, comm);
		if (calls % 2) {
			MPI_Allreduce(four, sum, 4, MPI_INT, MPI_SUM, comm);
			EXPECT(sum[1] == ranks, "after %d calls", calls);
			taken += always;
			one_call(0, comm);
		}
		MPI_Comm_free(&comm);
	}
}

static void pause_for(long ns)
{
	nanosleep(&(struct timespec){.tv_nsec = ns}, NULL);
}

static atomic_int late; /* this rank is the last one to agree */
static pthread_t program;

/* In place of the C library's.  The thread that joins a job beside the program has the program's
 * name, and looks at the clock after each of its operations. */
__attribute__((visibility("default"))) int clock_gettime(clockid_t clock, struct timespec *now)
{
	char name[NAME_BYTES] = "";
	if (atomic_load(&late) && !pthread_equal(pthread_self(), program) &&
	    !pthread_getname_np(pthread_self(), name, sizeof name) && strncmp(name, "fanin", 5))
		pause_for(LATE_NS);
	return (int)syscall(SYS_clock_gettime, clock, now);
}

/* Rank 0 starts one operation after the other while the ranks agree from which call on fanin is
 * used, which takes the last rank long. It has to wait there; otherwise it gives the MPI calls that
 * the others give to fanin. */
static void check_limit(void)
{
	static int mine[FAST][2], sum[FAST][2];
	static MPI_Request r[FAST];
	static MPI_Status s[FAST];
	program = pthread_self();
	alarm(PATIENCE_S); /* a call that two sides do never ends */
	for (int time = 0; time < FAST_TIMES; time++) {
		MPI_Comm comm;
		int go = 1;
		MPI_Comm_dup(MPI_COMM_WORLD, &comm);
		atomic_store(&late, rank == ranks - 1);
		for (int n = 0; n < JOINS; n++)
			one_call(n, comm);
		if (rank)
			MPI_Recv(&go, 1, MPI_INT, 0, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
		for (int n = 0; n < FAST; n++) {
			mine[n][0] = rank;
			mine[n][1] = n;
			MPI_Iallreduce(mine[n], sum[n], 2, MPI_INT, MPI_SUM, comm, &r[n]);
			if (!rank)
				pause_for(FAST_NS * (2 + time));
		}
		for (int to = 1; !rank && to < ranks; to++)
			MPI_Send(&go, 1, MPI_INT, to, 1, MPI_COMM_WORLD);
		MPI_Waitall(FAST, r, s);
		for (int n = 0; n < FAST; n++)
			EXPECT(sum[n][0] == ranks * (ranks - 1) / 2 && sum[n][1] == ranks * n,
			       "time %d, call %d", time, n);
		MPI_Comm_free(&comm);
	}
}

/* Two communicators, which ranks use in turns, are left to MPI_Finalize. */
static void leave_two(void)
{
	MPI_Comm comm[2];
	for (int i = 0; i < 2; i++)
		MPI_Comm_dup(MPI_COMM_WORLD, &comm[i]);
	for (int n = 0; n < MIDDLE; n++) {
		MPI_Request r[2];
		MPI_Status s[2];
		for (int i = 0; i < 2; i++) {
			int which = rank % 2 ? 1 - i : i;
			start(2 * n + which, comm[which], &r[which]);
		}
		MPI_Waitall(2, r, s);
		for (int i = 0; i < 2; i++)
			ended(2 * n + i, &s[i]);
	}
}

int main(int argc, char **argv)
{
	MPI_Init(&argc, &argv);
	MPI_Comm_rank(MPI_COMM_WORLD, &rank);
	MPI_Comm_size(MPI_COMM_WORLD, &ranks);
	always = argc > 1 && !strcmp(argv[1], "always");
	if (argc > 1 && !strcmp(argv[1], "limit")) {
		check_limit();
		return finish();
	}
	count = always ? COUNT : COUNT_MAX;
	check_change();
	check_ahead();
	check_middle();
	leave_two();
	return finish();
}
