/* SPDX-License-Identifier: Apache-2.0 */
/* coll.h - ncclCollNet by libfanin: one sum a host in place of NCCL's rings.
 *
 * Each communicator of NCCL's is one of libfanin's, with as many ranks as NCCL hands over.  They
 * meet through the handles: rank 0's says where, and a nonce names the job.  FANIN_SWITCH names a
 * switch, otherwise hosts sum.  An operation may be one of libfanin, or one for each rank: NCCL
 * asks for windows of what all ranks have.  A table of functions calls these, each of which returns
 * an enum fan_nccl_result. */
#ifndef FAN_NCCL_COLL_H
#define FAN_NCCL_COLL_H

#include <fanin.h>
#include <stddef.h>

#include "abi.h"

#define FAN_NCCL_COLLS_MAX    64 /* communicators of a process at a time: NCCL does without more */
#define FAN_NCCL_COLL_OPS_MAX 4096 /* of libfanin, of one communicator, at a time */
/* Until a join without progress fails, unless FANIN_JOIN_MS says. */
#define FAN_NCCL_JOIN_MS	20000
#define FAN_NCCL_WAIT_MS	86400000 /* until an operation does, likewise FANIN_TIMEOUT_MS */
#define FAN_NCCL_COLL_PORTS	10000 /* the first of those at which rank 0's switch may listen */
#define FAN_NCCL_COLL_PORTS_END 30000 /* the kernel gives none of them to who asks for any */

/* `handle` has FAN_NCCL_HANDLE_BYTES bytes. */
int fan_nccl_coll_listen(int dev, void *handle, void **listening);
int fan_nccl_coll_close_listen(void *listening);

/* Join; blocks until all ranks have, or one has not.  After an error NCCL does without. */
int fan_nccl_coll_connect(void *handles[], int ranks, int rank, void *listening, void **comm);

int fan_nccl_coll_supports(int type, int op, int *supported);

/* Start an operation.  `*request` NULL: not now, ask again. */
int fan_nccl_coll_allreduce(void *comm, const void *in, void *out, size_t count, int type, int op,
			    void **request);

/* The bytes offset .. offset + bytes of what all ranks have, rank_bytes each, to `out`; `in` has
 * what of them is this rank's. */
int fan_nccl_coll_allgather(void *comm, const void *in, const struct fan_nccl_piece *out,
			    size_t rank_bytes, size_t offset, size_t bytes, void **request);

/* The sum of all ranks' bytes offset .. offset + bytes, of which `out` gets what is this rank's. */
int fan_nccl_coll_reducescatter(void *comm, const struct fan_nccl_piece *in, void *out,
				size_t rank_bytes, size_t offset, size_t bytes, int type, int op,
				void **request);

/* Has it ended?  Then, or after an error, `request` is no longer valid. */
int fan_nccl_coll_test(void *request, int *done, int *size);

/* Leave; what is under way ends, and its memory is the caller's again. */
int fan_nccl_coll_close(void *comm);

/* Join the job that the handles of all ranks say (coll_meet.c); `*job` is set on success alone. An
 * enum fan_nccl_result, whose cause is in the log. */
int fan_nccl_coll_join(void *handles[], int ranks, int rank, void *listening, fanin_comm **job);

/* Leave it. */
void fan_nccl_coll_leave(fanin_comm *job);

#endif
