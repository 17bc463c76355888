/* SPDX-License-Identifier: Apache-2.0 */
/* programs.h - the plug-in as NCCL's proxies drive it, in programs that a seed draws: links.c,
 * point to point, and colls.c, CollNet. */
#ifndef TEST_NCCL_PROGRAMS_H
#define TEST_NCCL_PROGRAMS_H

#include <stddef.h>
#include <stdio.h>

#include "world.h"

#define FAIL(...)                                                                                  \
	do {                                                                                       \
		fprintf(stderr, "%s:%d: ", __FILE__, __LINE__);                                    \
		fprintf(stderr, __VA_ARGS__);                                                      \
		fputc('\n', stderr);                                                               \
		return -1;                                                                         \
	} while (0)

/* Of this process, by its logger (standin.c). */
extern char last_warning[1024];
void logger(int level, unsigned long about, const char *where, int line, const char *format, ...)
	__attribute__((format(printf, 5, 6)));

/* What data has: bytes that a key says, so that a wrong place or message differs. */
void data_fill(void *to, size_t bytes, uint64_t key);
bool data_is(const void *at, size_t bytes, uint64_t key);

/* Links in a ring: to the next rank and from the one before.  All ranks call it. */
int links_ring(struct seat *s, const struct api *a, void **out, void **in);

/* Links between the ranks, all at a time: each with receives of one to eight pieces, some of them
 * posted ahead, messages in another order, of up to `bytes_max` bytes.  Some are given up by one
 * side with requests open.  All ranks call it with the same `*state`.  0: all was right. */
int links_run(struct seat *s, const struct api *a, uint64_t *state, size_t bytes_max);

/* Strangers at a listener, handles that are none, arguments out of range; then a link works. */
int links_hostile(struct seat *s, const struct api *a);

/* Meet as `ranks` ranks, of which this is `rank`; others of the world do not take part, but call it
 * with rank -1.  `*comm` NULL with 0: this rank is none of them. */
int coll_meet(struct seat *s, const struct api *a, int ranks, int rank, void **comm);

/* The same, by device `dev`; > 0: what the plug-in says of a communicator that is not to be, to all
 * alike. */
int coll_try(struct seat *s, const struct api *a, int dev, int ranks, int rank, void **comm);

/* Communicators of some ranks, or all, with operations of each kind and several outstanding on
 * each; up to `bytes_max` bytes.  All ranks call it with the same `*state`.  0: all sums were
 * right. */
int colls_run(struct seat *s, const struct api *a, uint64_t *state, size_t bytes_max);

/* Rank 0 waits for rank 1 until the plug-in has said so in the log; then both get their sum. */
int colls_wait(struct seat *s, const struct api *a);

/* One rank leaves, and one is closed by another thread, while the others wait for them: an error.
 */
int colls_leave(struct seat *s, const struct api *a, uint64_t *state);

/* What is out of range, and handles that do not go together. */
int colls_hostile(struct seat *s, const struct api *a);

/* One all-reduce of `bytes` bytes of float32, by all ranks, and its result looked at. */
int colls_large(struct seat *s, const struct api *a, size_t bytes);

/* Which types and operations are summed, and which not. */
int colls_support(const struct api *a);

/* timing.c.  Lines "WHAT RANKS BYTES SECONDS" on standard output, `turns` of each in turns:
 * collnet, if the plug-in offers it, and ring, of an all-reduce of `bytes` bytes of float32,
 * through CollNet in pieces of `piece` bytes; link and tcp, of a message of `bytes` bytes from rank
 * 0 to rank 1, and, as link-processor and tcp-processor, the processor time of both ranks. */
int timing_sums(struct seat *s, const struct api *a, size_t bytes, size_t piece, int turns);
int timing_messages(struct seat *s, const struct api *a, size_t bytes, int turns);

/* rails.c.  Two ranks, each in a network namespace of its own, with two links between them: each
 * device has its own traffic, one that is down is none, and one reaches another one's network.  The
 * number of tries that failed. */
int rails_run(const char *plugin);

/* Two ranks make communicators until they may have no more, or the switch cannot: the plug-in's
 * cause has `cause`.  All sum, and one more is to be had once one has been closed.  `count`: so
 * many there are; 0: one or more.  The number of ranks that failed. */
int many_run(const char *plugin, const char *const *names, int count, const char *cause);

#endif
