/* SPDX-License-Identifier: Apache-2.0 */
/* world.h - a plug-in as NCCL sees it, and ranks as processes that share a few pages of memory, in
 * which they exchange handles and wait for each other, as NCCL's ranks do by its bootstrap. */
#ifndef TEST_NCCL_WORLD_H
#define TEST_NCCL_WORLD_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "nccl/abi.h"

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

/* ---- the plug-in: loaded by dlopen, and called through the table of one version ----
 *
 * Functions are those of version 12, without what no version needs here; each returns what the
 * plug-in does.  Derived from NCCL 2.30's src/include/plugin/net and src/plugin. */

#define API_FIRST 6
#define API_LAST  12

struct api {
	int version;
	void *library, *net_context, *coll_context;
	const void *net, *coll; /* coll NULL: the plug-in has none */
};

/* Load `path` and take version `version`.  0, or -1: it has none; errors are printed. */
int api_load(struct api *a, const char *path, int version);

int api_init(struct api *a, fan_nccl_logger log); /* of both tables */
int api_finalize(struct api *a);		  /* of both; 0 where the version has none */
int api_devices(const struct api *a, int *count);
int api_properties(const struct api *a, int dev, struct fan_nccl_props_v12 *p);

int api_listen(const struct api *a, int dev, void *handle, void **comm);
int api_connect(const struct api *a, int dev, void *handle, void **comm);
int api_accept(const struct api *a, void *listening, void **comm);
int api_reg(const struct api *a, void *comm, void *data, size_t bytes, void **memory);
int api_dereg(const struct api *a, void *comm, void *memory);
int api_isend(const struct api *a, void *comm, void *data, size_t bytes, int tag, void **request);
int api_irecv(const struct api *a, void *comm, int n, void **data, size_t *room, int *tags,
	      void **request);
int api_test(const struct api *a, void *request, int *done, int *sizes);
int api_close_send(const struct api *a, void *comm);
int api_close_recv(const struct api *a, void *comm);
int api_close_listen(const struct api *a, void *comm);

int coll_devices(const struct api *a, int *count);
int coll_listen(const struct api *a, int dev, void *handle, void **comm);
int coll_connect(const struct api *a, void *handles[], int ranks, int rank, void *listening,
		 void **comm);
int coll_supports(const struct api *a, int type, int op, int *supported);
int coll_allreduce(const struct api *a, void *comm, void *in, void *out, size_t count, int type,
		   int op, void **request);
int coll_allgather(const struct api *a, void *comm, void *in, struct fan_nccl_piece *out,
		   size_t rank_bytes, size_t offset, size_t bytes, void **request);
int coll_reducescatter(const struct api *a, void *comm, struct fan_nccl_piece *in, void *out,
		       size_t rank_bytes, size_t offset, size_t bytes, int type, int op,
		       void **request);
int coll_test(const struct api *a, void *request, int *done, int *size);
int coll_close(const struct api *a, void *comm);
int coll_close_listen(const struct api *a, void *comm);

#endif
