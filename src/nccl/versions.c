/* SPDX-License-Identifier: Apache-2.0 */
/* versions.c - the tables that NCCL looks for: ncclNetPlugin_v8 to _v12, ncclCollNetPlugin_v8 to
 * _v12.
 *
 * Each function is adapted once for each way in which versions call it. */
#include <fanin.h>
#include <stdbool.h>

#include "coll.h"
#include "dial.h"
#include "link.h"
#include "net.h"

#define EXPORTED __attribute__((visibility("default")))

/* ---- beginning ---- */

static int init_v10(fan_nccl_logger log, void *profiler)
{
	(void)profiler;
	return fan_nccl_start(log);
}

static int init_v11(void **context, uint64_t comm_id, void *config, fan_nccl_logger log,
		    void *profiler)
{
	(void)comm_id, (void)config, (void)profiler;
	*context = NULL;
	return fan_nccl_start(log);
}

/* ---- meeting ---- */

static int listen_v11(void *context, int dev, void *handle, void **comm)
{
	(void)context;
	return fan_nccl_listen(dev, handle, comm);
}

static int connect_v8(int dev, void *handle, void **comm, void **on_device)
{
	(void)on_device;
	return fan_nccl_connect(dev, handle, comm);
}

static int connect_v10(int dev, void *config, void *handle, void **comm, void **on_device)
{
	(void)config, (void)on_device;
	return fan_nccl_connect(dev, handle, comm);
}

static int connect_v11(void *context, int dev, void *handle, void **comm, void **on_device)
{
	(void)context, (void)on_device;
	return fan_nccl_connect(dev, handle, comm);
}

static int accept_v8(void *listening, void **comm, void **on_device)
{
	(void)on_device;
	return fan_nccl_accept(listening, comm);
}

/* ---- messages ---- */

static int isend_v8(void *comm, void *data, int size, int tag, void *memory, void **request)
{
	(void)memory;
	*request = NULL;
	return size < 0 ? FAN_NCCL_INVALID_ARGUMENT
			: fan_nccl_link_send(comm, data, (size_t)size, tag, request);
}

static int isend_v9(void *comm, void *data, size_t size, int tag, void *memory, void **request)
{
	(void)memory;
	return fan_nccl_link_send(comm, data, size, tag, request);
}

static int isend_v10(void *comm, void *data, size_t size, int tag, void *memory, void *profiled,
		     void **request)
{
	(void)memory, (void)profiled;
	return fan_nccl_link_send(comm, data, size, tag, request);
}

static int irecv_v8(void *comm, int n, void **data, int *sizes, int *tags, void **memory,
		    void **request)
{
	size_t room[FAN_NCCL_PIECES_MAX];
	(void)memory;
	*request = NULL;
	bool fits = n > 0 && n <= FAN_NCCL_PIECES_MAX;
	for (int i = 0; fits && i < n; i++) {
		fits = sizes[i] >= 0;
		room[i] = (size_t)sizes[i];
	}
	return fits ? fan_nccl_link_recv(comm, n, data, room, tags, request)
		    : FAN_NCCL_INVALID_ARGUMENT;
}

static int irecv_v9(void *comm, int n, void **data, size_t *sizes, int *tags, void **memory,
		    void **request)
{
	(void)memory;
	return fan_nccl_link_recv(comm, n, data, sizes, tags, request);
}

static int irecv_v10(void *comm, int n, void **data, size_t *sizes, int *tags, void **memory,
		     void **profiled, void **request)
{
	(void)memory, (void)profiled;
	return fan_nccl_link_recv(comm, n, data, sizes, tags, request);
}

/* Flush nothing: received bytes are in the host's memory, and all see them. */
static int iflush(void *comm, int n, void **data, int *sizes, void **memory, void **request)
{
	(void)comm, (void)n, (void)data, (void)sizes, (void)memory;
	*request = NULL;
	return FAN_NCCL_SUCCESS;
}

static int close_link(void *comm)
{
	fan_nccl_link_close(comm);
	return FAN_NCCL_SUCCESS;
}

/* ---- the tables of ncclNet ---- */

/* The members that every table of its kind has alike. */
#define NET_COMMON                                                                                 \
	.name = FAN_NCCL_NAME, .devices = fan_nccl_devices,                                        \
	.reg_mr_dma_buf = fan_nccl_reg_mr_dma_buf, .dereg_mr = fan_nccl_dereg_mr,                  \
	.iflush = iflush, .test = fan_nccl_link_test, .close_send = close_link,                    \
	.close_recv = close_link, .close_listen = fan_nccl_close_listen

#define NET_TABLE(version, init_function, properties, listen_function, connect_function,           \
		  accept_function, reg, send_function, recv_function, ...)                         \
	extern const struct fan_nccl_net_v##version ncclNetPlugin_v##version;                      \
	EXPORTED const struct fan_nccl_net_v##version ncclNetPlugin_v##version = {                 \
		NET_COMMON,                                                                        \
		.init = (init_function),                                                           \
		.get_properties = (properties),                                                    \
		.listen = (listen_function),                                                       \
		.connect = (connect_function),                                                     \
		.accept = (accept_function),                                                       \
		.reg_mr = (reg),                                                                   \
		.isend = (send_function),                                                          \
		.irecv = (recv_function),                                                          \
		__VA_ARGS__};

NET_TABLE(8, fan_nccl_start, fan_nccl_properties_v8, fan_nccl_listen, connect_v8, accept_v8,
	  fan_nccl_reg_mr, isend_v8, irecv_v8)
NET_TABLE(9, fan_nccl_start, fan_nccl_properties_v9, fan_nccl_listen, connect_v8, accept_v8,
	  fan_nccl_reg_mr, isend_v9, irecv_v9)
NET_TABLE(10, init_v10, fan_nccl_properties_v9, fan_nccl_listen, connect_v10, accept_v8,
	  fan_nccl_reg_mr, isend_v10, irecv_v10)
NET_TABLE(11, init_v11, fan_nccl_properties_v11, listen_v11, connect_v11, accept_v8,
	  fan_nccl_reg_mr, isend_v10, irecv_v10, .finalize = fan_nccl_finalize)
NET_TABLE(12, init_v11, fan_nccl_properties, listen_v11, connect_v11, accept_v8, fan_nccl_reg_mr,
	  isend_v10, irecv_v10, .finalize = fan_nccl_finalize)

/* ---- ncclCollNet ---- */

static int coll_init_v11(void **context, uint64_t comm_id, fan_nccl_logger log)
{
	(void)comm_id;
	*context = NULL;
	return fan_nccl_start(log);
}

static int coll_listen_v11(void *context, int dev, void *handle, void **comm)
{
	(void)context;
	return fan_nccl_coll_listen(dev, handle, comm);
}

static int allreduce_v8(void *comm, void *in, void *out, int count, int type, int op,
			void *in_memory, void *out_memory, void **request)
{
	(void)in_memory, (void)out_memory;
	*request = NULL;
	return count < 0 ? FAN_NCCL_INVALID_ARGUMENT
			 : fan_nccl_coll_allreduce(comm, in, out, (size_t)count, type, op, request);
}

static int allreduce_v9(void *comm, void *in, void *out, size_t count, int type, int op,
			void *in_memory, void *out_memory, void **request)
{
	(void)in_memory, (void)out_memory;
	return fan_nccl_coll_allreduce(comm, in, out, count, type, op, request);
}

static int one_piece(int pieces, void **request)
{
	*request = NULL;
	return pieces == 1 ? FAN_NCCL_SUCCESS
			   : fan_nccl_warn(FAN_NCCL_INVALID_ARGUMENT,
					   "CollNet: memory in %d pieces: 1 is taken", pieces);
}

static int allgather_v9(void *comm, void *in, int pieces, struct fan_nccl_piece *out,
			size_t rank_bytes, size_t offset, size_t bytes, void *in_memory,
			void **request)
{
	(void)in_memory;
	int result = one_piece(pieces, request);
	return result ? result
		      : fan_nccl_coll_allgather(comm, in, out, rank_bytes, offset, bytes, request);
}

static int allgather_v8(void *comm, void *in, int pieces, struct fan_nccl_piece_v8 *out,
			size_t rank_bytes, size_t offset, size_t bytes, void *in_memory,
			void **request)
{
	struct fan_nccl_piece wide = {out->memory, out->address, out->bytes};
	return allgather_v9(comm, in, pieces, &wide, rank_bytes, offset, bytes, in_memory, request);
}

static int reducescatter_v9(void *comm, int pieces, struct fan_nccl_piece *in, void *out,
			    size_t rank_bytes, size_t offset, size_t bytes, int type, int op,
			    void *out_memory, void **request)
{
	(void)out_memory;
	int result = one_piece(pieces, request);
	return result ? result
		      : fan_nccl_coll_reducescatter(comm, in, out, rank_bytes, offset, bytes, type,
						    op, request);
}

static int reducescatter_v8(void *comm, int pieces, struct fan_nccl_piece_v8 *in, void *out,
			    size_t rank_bytes, size_t offset, size_t bytes, int type, int op,
			    void *out_memory, void **request)
{
	struct fan_nccl_piece wide = {in->memory, in->address, in->bytes};
	return reducescatter_v9(comm, pieces, &wide, out, rank_bytes, offset, bytes, type, op,
				out_memory, request);
}

static int coll_iflush(void *comm, void *data, int size, void *memory, void **request)
{
	(void)comm, (void)data, (void)size, (void)memory;
	*request = NULL;
	return FAN_NCCL_SUCCESS;
}

#define COLL_COMMON                                                                                \
	.name = FAN_NCCL_NAME, .devices = fan_nccl_devices, .connect = fan_nccl_coll_connect,      \
	.reduce_support = fan_nccl_coll_supports, .reg_mr_dma_buf = fan_nccl_reg_mr_dma_buf,       \
	.dereg_mr = fan_nccl_dereg_mr, .iflush = coll_iflush, .test = fan_nccl_coll_test,          \
	.close_coll = fan_nccl_coll_close, .close_listen = fan_nccl_coll_close_listen

#define COLL_TABLE(version, of, init_function, properties, listen_function, reg, allreduce, ...)   \
	extern const struct fan_nccl_coll_v##of ncclCollNetPlugin_v##version;                      \
	EXPORTED const struct fan_nccl_coll_v##of ncclCollNetPlugin_v##version = {                 \
		COLL_COMMON,                                                                       \
		.init = (init_function),                                                           \
		.get_properties = (properties),                                                    \
		.listen = (listen_function),                                                       \
		.reg_mr = (reg),                                                                   \
		.iallreduce = (allreduce),                                                         \
		__VA_ARGS__};

COLL_TABLE(8, 8, fan_nccl_start, fan_nccl_properties_v8, fan_nccl_coll_listen, fan_nccl_reg_mr,
	   allreduce_v8, .iallgather = allgather_v8, .ireducescatter = reducescatter_v8)
COLL_TABLE(9, 9, fan_nccl_start, fan_nccl_properties_v9, fan_nccl_coll_listen, fan_nccl_reg_mr,
	   allreduce_v9, .iallgather = allgather_v9, .ireducescatter = reducescatter_v9)
COLL_TABLE(10, 9, fan_nccl_start, fan_nccl_properties_v9, fan_nccl_coll_listen, fan_nccl_reg_mr,
	   allreduce_v9, .iallgather = allgather_v9, .ireducescatter = reducescatter_v9)
COLL_TABLE(11, 11, coll_init_v11, fan_nccl_properties_v11, coll_listen_v11, fan_nccl_reg_mr,
	   allreduce_v9, .iallgather = allgather_v9, .ireducescatter = reducescatter_v9,
	   .finalize = fan_nccl_finalize)
COLL_TABLE(12, 12, coll_init_v11, fan_nccl_properties, coll_listen_v11, fan_nccl_reg_mr,
	   allreduce_v9, .iallgather = allgather_v9, .ireducescatter = reducescatter_v9,
	   .finalize = fan_nccl_finalize)
