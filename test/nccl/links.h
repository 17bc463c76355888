/* SPDX-License-Identifier: Apache-2.0 */
/* links.h - point to point as NCCL's proxies drive it, in programs that a seed draws. */
#ifndef TEST_NCCL_LINKS_H
#define TEST_NCCL_LINKS_H

#include "world.h"

/* What data has: bytes that a key says, so that a wrong place or message differs. */
void data_fill(void *to, size_t bytes, uint64_t key);
bool data_is(const void *at, size_t bytes, uint64_t key);

/* Links between the ranks, all at a time: each with receives of one to eight pieces, some of them
 * posted ahead, messages in another order, of up to `bytes_max` bytes.  Some are given up by one
 * side with requests open.  All ranks call it with the same `*state`.  0: all was right. */
int links_run(struct seat *s, const struct api *a, uint64_t *state, size_t bytes_max);

/* Strangers at a listener, handles that are none, arguments out of range; then a link works. */
int links_hostile(struct seat *s, const struct api *a);

#endif
