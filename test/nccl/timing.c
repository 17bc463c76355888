/* SPDX-License-Identifier: Apache-2.0 */
/* timing.c - how long an all-reduce takes through CollNet, and as a ring over point to point, which
 * is what NCCL does without it; and messages of a link beside those of a plain TCP connection. */
#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "programs.h"

#define AHEAD	    8
#define SLICE_BYTES (512u << 10) /* of NCCL's buffers: 4 MiB in 8 steps */

/* NCCL's proxies yield whenever nothing has moved. */
static void idle(void)
{
	sched_yield();
}

/* ---- CollNet ---- */

static int sum_by_coll(struct seat *s, const struct api *a, void *comm, float *data, size_t bytes,
		       size_t piece)
{
	void *request[AHEAD];
	size_t pieces = (bytes + piece - 1) / piece, started = 0, ended = 0;
	while (ended < pieces) {
		int done = 0;
		bool moved = false;
		if (started < pieces && started - ended < AHEAD) {
			size_t at = started * piece;
			size_t own = bytes - at < piece ? bytes - at : piece;
			if (coll_allreduce(a, comm, (char *)data + at, (char *)data + at, own / 4,
					   FAN_NCCL_FLOAT32, FAN_NCCL_SUM,
					   &request[started % AHEAD]))
				return -1;
			moved = request[started % AHEAD] != NULL;
			started += moved;
		}
		if (ended < started && coll_test(a, request[ended % AHEAD], &done, NULL))
			return -1;
		ended += (size_t)done;
		if (!moved && !done)
			idle();
		if (!seat_has_time(s, "a sum"))
			return -1;
	}
	return 0;
}

/* ---- a ring ---- */

struct ring {
	void *out, *in, *sent[AHEAD], *received[AHEAD];
	float *place[AHEAD]; /* for what arrives and is added */
};

static int ring_meet(struct seat *s, const struct api *a, struct ring *r)
{
	memset(r, 0, sizeof *r);
	for (unsigned i = 0; i < AHEAD; i++)
		r->place[i] = malloc(SLICE_BYTES);
	return links_ring(s, a, &r->out, &r->in);
}

static void ring_close(const struct api *a, struct ring *r)
{
	api_close_send(a, r->out);
	api_close_recv(a, r->in);
	for (unsigned i = 0; i < AHEAD; i++)
		free(r->place[i]);
}

/* Message m of all: in step m / slices the slice m % slices of a part of the tensor goes on. */
struct walk {
	int ranks, rank;
	size_t part_bytes, slices;
	char *data;
};

static char *slice_at(const struct walk *w, size_t m, bool sends, size_t *bytes)
{
	size_t step = m / w->slices, slice = m % w->slices;
	size_t back = step + (sends ? 0 : 1);
	size_t part = ((size_t)w->rank + 2 * (size_t)w->ranks - back) % (size_t)w->ranks;
	size_t at = slice * SLICE_BYTES;
	*bytes = w->part_bytes - at < SLICE_BYTES ? w->part_bytes - at : SLICE_BYTES;
	return w->data + part * w->part_bytes + at;
}

static void add(float *restrict to, const float *restrict from, size_t count)
{
	for (size_t i = 0; i < count; i++)
		to[i] += from[i];
}

/* All messages of a rank, and those that it receives. */
static int sum_by_ring(struct seat *s, const struct api *a, struct ring *r, float *data,
		       size_t bytes)
{
	int n = s->world->ranks, tag = 0, done;
	struct walk w = {n, s->rank, bytes / (size_t)n, 0, (char *)data};
	w.slices = (w.part_bytes + SLICE_BYTES - 1) / SLICE_BYTES;
	size_t all = 2 * (size_t)(n - 1) * w.slices, adding = (size_t)(n - 1) * w.slices;
	size_t out = 0, out_done = 0, in = 0, in_done = 0, own;
	while (out_done < all || in_done < all) {
		bool moved = false;
		if (in < all && in - in_done < AHEAD) {
			char *at = slice_at(&w, in, false, &own);
			void *to[1] = {in < adding ? (void *)r->place[in % AHEAD] : at};
			if (api_irecv(a, r->in, 1, to, &own, &tag, &r->received[in % AHEAD]))
				return -1;
			moved |= r->received[in % AHEAD] != NULL;
			in += r->received[in % AHEAD] != NULL;
		}
		if (out < all && out - out_done < AHEAD &&
		    (out < w.slices || out - w.slices < in_done)) {
			char *at = slice_at(&w, out, true, &own);
			if (api_isend(a, r->out, at, own, 0, &r->sent[out % AHEAD]))
				return -1;
			moved |= r->sent[out % AHEAD] != NULL;
			out += r->sent[out % AHEAD] != NULL;
		}
		done = 0;
		if (in_done < in && api_test(a, r->received[in_done % AHEAD], &done, NULL))
			return -1;
		if (done) {
			char *at = slice_at(&w, in_done, false, &own);
			if (in_done < adding)
				add((float *)(void *)at, r->place[in_done % AHEAD], own / 4);
			in_done++;
		}
		moved |= done;
		done = 0;
		if (out_done < out && api_test(a, r->sent[out_done % AHEAD], &done, NULL))
			return -1;
		out_done += (size_t)done;
		if (!moved && !done)
			idle();
		if (!seat_has_time(s, "a ring's sum"))
			return -1;
	}
	return 0;
}

/* ---- both, in turns ---- */

static bool sums_are(const float *data, size_t count, int ranks)
{
	for (size_t i = 0; i < count; i += 997)
		if (data[i] != (float)(ranks * (ranks + 1) / 2))
			return false;
	return true;
}

int timing_sums(struct seat *s, const struct api *a, size_t bytes, size_t piece, int turns)
{
	size_t count = bytes / 4;
	float *data = malloc(bytes);
	void *comm = NULL;
	struct ring r;
	int offered = 0; /* devices for CollNet, alike on all ranks */
	if (!data || coll_devices(a, &offered) ||
	    (offered && coll_meet(s, a, s->world->ranks, s->rank, &comm)) || ring_meet(s, a, &r))
		return -1;
	for (int t = 0; t < 2 * turns; t++) {
		if (t % 2 == 0 && !offered)
			continue;
		for (size_t i = 0; i < count; i++)
			data[i] = (float)(s->rank + 1);
		if (!seat_barrier(s))
			return -1;
		uint64_t begin_ns = now_ns();
		if (t % 2 ? sum_by_ring(s, a, &r, data, bytes)
			  : sum_by_coll(s, a, comm, data, bytes, piece))
			return -1;
		uint64_t took_ns = now_ns() - begin_ns;
		if (!sums_are(data, count, s->world->ranks)) {
			fprintf(stderr, "rank %d: a sum is wrong\n", s->rank);
			return -1;
		}
		if (!seat_barrier(s))
			return -1;
		if (!s->rank)
			printf("%s %d %zu %.6f\n", t % 2 ? "ring" : "collnet", s->world->ranks,
			       bytes, (double)took_ns / 1e9);
	}
	fflush(stdout);
	free(data);
	ring_close(a, &r);
	return comm ? coll_close(a, comm) : 0;
}

/* ---- messages of a link, and of a connection ---- */

static int by_link(struct seat *s, const struct api *a, struct ring *r, char *data, size_t bytes,
		   int count)
{
	int started = 0, ended = 0, tag = 0, done;
	while (ended < count) {
		void *to[1] = {data}, **place = s->rank ? r->received : r->sent;
		bool moved = false;
		if (started < count && started - ended < AHEAD) {
			void **request = &place[started % AHEAD];
			to[0] = data + (size_t)(started % AHEAD) * bytes;
			if (s->rank ? api_irecv(a, r->in, 1, to, &bytes, &tag, request)
				    : api_isend(a, r->out, to[0], bytes, 0, request))
				return -1;
			moved = *request != NULL;
			started += moved;
		}
		done = 0;
		if (ended < started && api_test(a, place[ended % AHEAD], &done, NULL))
			return -1;
		ended += done;
		if (!moved && !done)
			idle();
	}
	return 0;
}

/* A connection from rank 0 to rank 1, by the kernel's calls alone. */
static int connection(struct seat *s)
{
	struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr = {htonl(INADDR_LOOPBACK)}};
	socklen_t bytes = sizeof at;
	uint8_t told[FAN_NCCL_HANDLE_BYTES] = {0};
	int box = seat_box(s), one = 1, fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0), taken;
	if (s->rank) {
		if (bind(fd, (struct sockaddr *)&at, sizeof at) || listen(fd, 1) ||
		    getsockname(fd, (struct sockaddr *)&at, &bytes))
			return -1;
		memcpy(told, &at, sizeof at);
		box_put(s->world, box, told);
		taken = accept(fd, NULL, NULL);
		close(fd);
		fd = taken;
	} else {
		while (!box_get(s->world, box, told))
			usleep(200);
		memcpy(&at, told, sizeof at);
		if (connect(fd, (struct sockaddr *)&at, sizeof at))
			return -1;
	}
	(void)setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
	return fd;
}

static int by_connection(const struct seat *s, int fd, char *data, size_t bytes, int count)
{
	for (int i = 0; i < count; i++) {
		char *at = data + (size_t)(i % AHEAD) * bytes;
		ssize_t n = s->rank ? recv(fd, at, bytes, MSG_WAITALL)
				    : send(fd, at, bytes, MSG_NOSIGNAL);
		if (n != (ssize_t)bytes)
			return -1;
	}
	return 0;
}

static uint64_t used_ns(void)
{
	struct timespec t;
	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
	return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

static void print_messages(const struct seat *s, const char *what, size_t bytes, int count,
			   uint64_t took_ns)
{
	uint64_t used = atomic_load(&s->world->value[0][0]) + atomic_load(&s->world->value[1][0]);
	printf("%s 2 %zu %.9f\n", what, bytes, (double)took_ns / 1e9 / count);
	printf("%s-processor 2 %zu %.9f\n", what, bytes, (double)used / 1e9 / count);
}

int timing_messages(struct seat *s, const struct api *a, size_t bytes, int turns)
{
	int count = (int)((256u << 20) / (bytes + 4096)), fd;
	char *data = calloc(AHEAD, bytes);
	struct ring r;
	if (!data || s->world->ranks != 2 || ring_meet(s, a, &r) || (fd = connection(s)) < 0)
		return -1;
	for (int t = 0; t < 2 * turns; t++) {
		if (!seat_barrier(s))
			return -1;
		uint64_t begin_ns = now_ns(), before_ns = used_ns();
		if (t % 2 ? by_connection(s, fd, data, bytes, count)
			  : by_link(s, a, &r, data, bytes, count))
			return -1;
		uint64_t took_ns = now_ns() - begin_ns;
		atomic_store(&s->world->value[s->rank][0], used_ns() - before_ns);
		if (!seat_barrier(s))
			return -1;
		if (s->rank)
			print_messages(s, t % 2 ? "tcp" : "link", bytes, count, took_ns);
	}
	fflush(stdout);
	close(fd);
	free(data);
	ring_close(a, &r);
	return 0;
}
