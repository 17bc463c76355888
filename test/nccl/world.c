/* SPDX-License-Identifier: Apache-2.0 */
#include "world.h"

#include <fcntl.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

uint64_t draw(uint64_t *state)
{
	uint64_t z = *state += 0x9e3779b97f4a7c15u;
	z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
	z = (z ^ z >> 27) * 0x94d049bb133111ebu;
	return z ^ z >> 31;
}

unsigned draw_below(uint64_t *state, unsigned bound)
{
	return (unsigned)(draw(state) % bound);
}

uint64_t now_ns(void)
{
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

struct world *world_new(int ranks)
{
	struct world *w =
		mmap(NULL, sizeof *w, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (w == MAP_FAILED) {
		perror("mmap");
		exit(1);
	}
	w->ranks = ranks;
	return w;
}

void world_free(struct world *w)
{
	munmap(w, sizeof *w);
}

static void enter(const char *name)
{
	char path[256];
	snprintf(path, sizeof path, "/run/netns/%s", name);
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0 || setns(fd, CLONE_NEWNET)) {
		perror(path);
		_exit(1);
	}
	close(fd);
}

int world_run(struct world *w, const char *const *names, int killed,
	      int (*body)(struct seat *s, void *arg), void *arg)
{
	pid_t child[WORLD_RANKS_MAX];
	int failed = 0, status;
	fflush(NULL);
	for (int r = 0; r < w->ranks; r++) {
		child[r] = fork();
		if (child[r])
			continue;
		struct seat s = {w, r, 0, 0, now_ns() + WORLD_WAIT_S * 1000000000ull};
		if (names)
			enter(names[r]);
		exit(body(&s, arg)); /* leaks are looked for on the way */
	}
	for (int left = w->ranks; left > 0; left--) {
		pid_t ended = wait(&status);
		int r = 0;
		while (r < w->ranks && child[r] != ended)
			r++;
		if (ended < 0 || (status && r != killed)) {
			fprintf(stderr, "rank %d: status 0x%x\n", r, status);
			failed++;
			atomic_store(&w->failed, 1); /* the others need not wait for it */
		}
	}
	return failed;
}

int seat_box(struct seat *s)
{
	return s->next_box++ % WORLD_BOXES;
}

void box_put(struct world *w, int box, const void *data)
{
	memcpy(w->box[box].data, data, FAN_NCCL_HANDLE_BYTES);
	atomic_store(&w->box[box].full, 1);
}

bool box_get(const struct world *w, int box, void *data)
{
	if (!atomic_load(&w->box[box].full))
		return false;
	memcpy(data, w->box[box].data, FAN_NCCL_HANDLE_BYTES);
	return true;
}

bool seat_barrier(struct seat *s)
{
	atomic_int *here = &s->world->arrived[s->next_barrier++ % WORLD_BOXES];
	atomic_fetch_add(here, 1);
	while (atomic_load(here) < s->world->ranks) {
		if (!seat_has_time(s, "a barrier"))
			return false;
		usleep(200);
	}
	return true;
}

bool seat_has_time(const struct seat *s, const char *at)
{
	bool failed = atomic_load(&s->world->failed);
	if (!failed && now_ns() < s->deadline_ns)
		return true;
	if (!failed)
		fprintf(stderr, "rank %d: hangs at %s\n", s->rank, at);
	return false;
}
