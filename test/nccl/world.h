/* SPDX-License-Identifier: Apache-2.0 */
/* world.h - ranks as processes that share a few pages of memory, in which they exchange handles and
 * wait for each other, as NCCL's ranks do by its bootstrap. */
#ifndef TEST_NCCL_WORLD_H
#define TEST_NCCL_WORLD_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "api.h"

#define WORLD_RANKS_MAX 8
#define WORLD_BOXES	4096
#define WORLD_WAIT_S	300 /* what takes longer hangs */

struct box {
	atomic_int full;
	uint8_t data[FAN_NCCL_HANDLE_BYTES];
};

struct world {
	int ranks;
	atomic_int failed;		 /* a rank has ended badly */
	atomic_int arrived[WORLD_BOXES]; /* ranks at a barrier */
	atomic_ullong at_ns;		 /* a moment that a rank tells */
	struct box box[WORLD_BOXES];
	atomic_ullong value[WORLD_RANKS_MAX][4]; /* figures of each rank */
};

/* Of one rank's process: where it has got to in boxes and barriers, alike on all ranks. */
struct seat {
	struct world *world;
	int rank, next_box, next_barrier;
	uint64_t deadline_ns;
};

/* Numbers from a seed. */
uint64_t draw(uint64_t *state);
unsigned draw_below(uint64_t *state, unsigned bound);

uint64_t now_ns(void);

/* Memory for the ranks, empty.  Ends the process where there is none. */
struct world *world_new(int ranks);
void world_free(struct world *w);

/* Run `body` as each rank in a process of its own, in network namespace names[rank] if `names` is
 * not NULL.  The number of ranks that have failed; `killed` (-1: none) may be killed. */
int world_run(struct world *w, const char *const *names, int killed,
	      int (*body)(struct seat *s, void *arg), void *arg);

/* The number of a box, alike on all ranks that have asked as often. */
int seat_box(struct seat *s);
void box_put(struct world *w, int box, const void *data);
bool box_get(const struct world *w, int box, void *data); /* false: nothing is in it yet */

/* Wait for all ranks.  False: not all have come. */
bool seat_barrier(struct seat *s);

/* False, and a line on standard error, once the rank has taken too long. */
bool seat_has_time(const struct seat *s, const char *at);

#endif
