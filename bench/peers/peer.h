/* SPDX-License-Identifier: Apache-2.0
 *
 * What the two peers of the bench have in common: how they are told what to
 * run, how an input is made so that every element of the sum can be checked,
 * and the one line of JSON that they print, in the form of `fanin bench`.
 *
 * Compiles as C11 and as C++14; all functions are static, there is no peer.c.
 */
#ifndef FANIN_BENCH_PEER_H
#define FANIN_BENCH_PEER_H

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { PEER_ITERS_MAX = 100000, PEER_TURN_MAX = 1000 };

struct peer_args {
	int rank;
	int size;
	int iters;    /* timed all-reduces */
	int warmup;   /* untimed ones before them, checked as well */
	size_t bytes; /* of the tensor */
	int doubles;  /* its elements are float64; 0: float32.  MPI only */
	int loop;     /* MPI only: all-reduces one behind the other, timed as a whole; 0: iters */
	int turns;    /* all-reduces in turns of so many, by PMPI and by MPI, or by Gloo and by
		       * fanin; 0: by MPI, by Gloo */
	int watch; /* with turns, Gloo only: process id of a switch whose time is read; 0: none */
	const char *only;  /* with turns, Gloo only: "gloo" or "fanin" alone; NULL: both */
	const char *store; /* folder for Gloo's rendezvous; unused by MPI */
	const char *host;  /* address to bind; NULL: use iface */
	const char *iface; /* interface to bind; NULL: use host */
};

static inline long peer_number(const char *flag, const char *text, long min, long max)
{
	char *end;
	long value = strtol(text, &end, 10);

	if (*text == '\0' || *end != '\0' || value < min || value > max) {
		fprintf(stderr, "%s: \"%s\": expected a number from %ld to %ld\n", flag, text, min,
			max);
		exit(2);
	}
	return value;
}

/* Read the flags into `*a`, which holds the defaults; exits 2 on a wrong one. */
static inline void peer_parse(struct peer_args *a, int argc, char **argv)
{
	for (int i = 1; i < argc; i += 2) {
		const char *flag = argv[i];
		const char *text = i + 1 < argc ? argv[i + 1] : "";

		if (strcmp(flag, "--rank") == 0)
			a->rank = (int)peer_number(flag, text, 0, 1023);
		else if (strcmp(flag, "--size") == 0)
			a->size = (int)peer_number(flag, text, 1, 1024);
		else if (strcmp(flag, "--bytes") == 0)
			a->bytes = (size_t)peer_number(flag, text, 4, 1L << 30);
		else if (strcmp(flag, "--iters") == 0)
			a->iters = (int)peer_number(flag, text, 1, PEER_ITERS_MAX);
		else if (strcmp(flag, "--warmup") == 0)
			a->warmup = (int)peer_number(flag, text, 0, PEER_ITERS_MAX);
		else if (strcmp(flag, "--double") == 0)
			a->doubles = (int)peer_number(flag, text, 0, 1);
		else if (strcmp(flag, "--loop") == 0)
			a->loop = (int)peer_number(flag, text, 0, 1L << 30);
		else if (strcmp(flag, "--turns") == 0)
			a->turns = (int)peer_number(flag, text, 0, PEER_TURN_MAX);
		else if (strcmp(flag, "--watch") == 0)
			a->watch = (int)peer_number(flag, text, 0, 1L << 22);
		else if (strcmp(flag, "--only") == 0)
			a->only = text;
		else if (strcmp(flag, "--store") == 0)
			a->store = text;
		else if (strcmp(flag, "--host") == 0)
			a->host = text;
		else if (strcmp(flag, "--iface") == 0)
			a->iface = text;
		else {
			fprintf(stderr,
				"%s: expected --rank --size --bytes --iters --warmup --double "
				"--loop --turns --watch --only --store --host or --iface, each "
				"with a value\n",
				flag);
			exit(2);
		}
	}
}

/* Element `i` of `rank`'s input.  Small whole numbers: their sum over up to
 * 1024 ranks is exact in float32 in any order, so a check needs no tolerance. */
static inline float peer_input(int rank, size_t i)
{
	return (float)((i * 7 + (size_t)rank * 13) % 251);
}

static inline void peer_fill(float *data, size_t count, int rank)
{
	for (size_t i = 0; i < count; i++)
		data[i] = peer_input(rank, i);
}

/* The sum over `size` ranks, computed here, for `peer_wrong` to compare with. */
static inline void peer_expect(float *sum, size_t count, int size)
{
	for (size_t i = 0; i < count; i++) {
		sum[i] = 0;
		for (int rank = 0; rank < size; rank++)
			sum[i] += peer_input(rank, i);
	}
}

static inline long peer_wrong(const float *got, const float *sum, size_t count)
{
	long wrong = 0;

	for (size_t i = 0; i < count; i++)
		wrong += !(got[i] == sum[i]);
	return wrong;
}

static inline double peer_now_us(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec * 1e6 + (double)t.tv_nsec * 1e-3;
}

static inline int peer_compare(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

/* Print the line for `a->iters` times; sorts `time_us`.  GB/s are 1e9 bytes. */
static inline void peer_print(const struct peer_args *a, const char *policy, double *time_us,
			      long wrong)
{
	size_t n = (size_t)a->iters;
	double p50_us, alg;

	qsort(time_us, n, sizeof(*time_us), peer_compare);
	p50_us = n % 2 ? time_us[n / 2] : (time_us[n / 2 - 1] + time_us[n / 2]) / 2;
	alg = (double)a->bytes / p50_us * 1e-3;
	printf("{\"results\":[{\"bytes\":%zu,\"count\":%zu,\"dtype\":\"%s\",\"op\":\"sum\","
	       "\"ranks\":%d,\"policy\":\"%s\",\"time_us_p50\":%.3f,\"time_us_p99\":%.3f,"
	       "\"algbw_GBps\":%.4f,\"busbw_GBps\":%.4f,\"linkbw_GBps\":%.4f,"
	       "\"wrong\":%ld,\"retransmits\":null}]}\n",
	       a->bytes, a->bytes / (a->doubles ? sizeof(double) : sizeof(float)),
	       a->doubles ? "float64" : "float32", a->size, policy, p50_us,
	       time_us[(n * 99 + 99) / 100 - 1], alg, alg * 2 * (a->size - 1) / a->size, alg,
	       wrong);
	fflush(stdout);
}

#endif
