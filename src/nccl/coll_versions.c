/* SPDX-License-Identifier: Apache-2.0 */
/* coll_versions.c - ncclCollNet in the versions that NCCL looks for: ncclCollNetPlugin_v6 to _v12.
 */
#include "coll.h"
#include "log.h"
#include "net.h"

#define EXPORTED __attribute__((visibility("default")))

static int init_v11(void **context, uint64_t comm_id, fan_nccl_logger log)
{
	(void)comm_id;
	*context = NULL;
	return fan_nccl_start(log);
}

static int listen_v11(void *context, int dev, void *handle, void **comm)
{
	(void)context;
	return fan_nccl_coll_listen(dev, handle, comm);
}

static int allreduce_v6(void *comm, void *in, void *out, int count, int type, int op,
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

static int iflush(void *comm, void *data, int size, void *memory, void **request)
{
	(void)comm, (void)data, (void)size, (void)memory;
	*request = NULL;
	return FAN_NCCL_SUCCESS;
}

#define COMMON                                                                                     \
	.name = FAN_NCCL_NAME, .devices = fan_nccl_devices, .connect = fan_nccl_coll_connect,      \
	.reduce_support = fan_nccl_coll_supports, .reg_mr_dma_buf = fan_nccl_reg_mr_dma_buf,       \
	.dereg_mr = fan_nccl_dereg_mr, .iflush = iflush, .test = fan_nccl_coll_test,               \
	.close_coll = fan_nccl_coll_close, .close_listen = fan_nccl_coll_close_listen

#define TABLE(version, of, init_function, properties, listen_function, reg, allreduce, ...)        \
	extern const struct fan_nccl_coll_v##of ncclCollNetPlugin_v##version;                      \
	EXPORTED const struct fan_nccl_coll_v##of ncclCollNetPlugin_v##version = {                 \
		COMMON,                                                                            \
		.init = (init_function),                                                           \
		.get_properties = (properties),                                                    \
		.listen = (listen_function),                                                       \
		.reg_mr = (reg),                                                                   \
		.iallreduce = (allreduce),                                                         \
		__VA_ARGS__};

TABLE(6, 6, fan_nccl_init_v6, fan_nccl_properties_v6, fan_nccl_coll_listen, fan_nccl_reg_mr_v6,
      allreduce_v6)
TABLE(7, 7, fan_nccl_init_v6, fan_nccl_properties_v7, fan_nccl_coll_listen, fan_nccl_reg_mr_v6,
      allreduce_v6)
TABLE(8, 8, fan_nccl_init_v6, fan_nccl_properties_v8, fan_nccl_coll_listen, fan_nccl_reg_mr,
      allreduce_v6, .iallgather = allgather_v8, .ireducescatter = reducescatter_v8)
TABLE(9, 9, fan_nccl_init_v6, fan_nccl_properties_v9, fan_nccl_coll_listen, fan_nccl_reg_mr,
      allreduce_v9, .iallgather = allgather_v9, .ireducescatter = reducescatter_v9)
TABLE(10, 9, fan_nccl_init_v6, fan_nccl_properties_v9, fan_nccl_coll_listen, fan_nccl_reg_mr,
      allreduce_v9, .iallgather = allgather_v9, .ireducescatter = reducescatter_v9)
TABLE(11, 11, init_v11, fan_nccl_properties_v11, listen_v11, fan_nccl_reg_mr, allreduce_v9,
      .iallgather = allgather_v9, .ireducescatter = reducescatter_v9, .finalize = fan_nccl_finalize)
TABLE(12, 12, init_v11, fan_nccl_properties, listen_v11, fan_nccl_reg_mr, allreduce_v9,
      .iallgather = allgather_v9, .ireducescatter = reducescatter_v9, .finalize = fan_nccl_finalize)
