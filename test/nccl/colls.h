/* SPDX-License-Identifier: Apache-2.0 */
/* colls.h - CollNet as NCCL's proxies drive it, in programs that a seed draws. */
#ifndef TEST_NCCL_COLLS_H
#define TEST_NCCL_COLLS_H

#include "world.h"

/* Meet as `ranks` ranks, of which this is `rank`; others of the world do not take part, but call it
 * with rank -1.  `*comm` NULL with 0: this rank is none of them. */
int coll_meet(struct seat *s, const struct api *a, int ranks, int rank, void **comm);

/* Communicators of some ranks, or all, with operations of each kind and several outstanding on
 * each; up to `bytes_max` bytes.  All ranks call it with the same `*state`.  0: all sums were
 * right. */
int colls_run(struct seat *s, const struct api *a, uint64_t *state, size_t bytes_max);

/* One rank leaves, and one is closed by another thread, while the others wait for them: an error.
 */
int colls_leave(struct seat *s, const struct api *a, uint64_t *state);

/* What is out of range, and handles that do not go together. */
int colls_hostile(struct seat *s, const struct api *a);

/* One all-reduce of `bytes` bytes of float32, by all ranks, and its result looked at. */
int colls_large(struct seat *s, const struct api *a, size_t bytes);

/* Which types and operations are summed, and which not. */
int colls_support(const struct api *a);

#endif
