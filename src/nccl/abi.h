/* SPDX-License-Identifier: Apache-2.0 */
/* abi.h - what NCCL and a network plug-in agree on: numbers, structs and tables of functions.
 *
 * NCCL looks for ncclNetPlugin_vN and ncclCollNetPlugin_vN, the highest N that it knows first, and
 * each plug-in declares them for itself; nccl.h has none of this.  Members stand in the order of
 * NCCL 2.30, and keep it for ever within a version.  Functions return enum fan_nccl_result. */
#ifndef FAN_NCCL_ABI_H
#define FAN_NCCL_ABI_H

#include <stddef.h>
#include <stdint.h>

#define FAN_NCCL_HANDLE_BYTES 128 /* that listen writes and NCCL carries to the other side */
#define FAN_NCCL_REQUESTS_MAX 32  /* outstanding, of one communicator */
#define FAN_NCCL_PTR_HOST     1	  /* memory of the host, the only kind here */

enum fan_nccl_result {
	FAN_NCCL_SUCCESS = 0,
	FAN_NCCL_SYSTEM_ERROR = 2,
	FAN_NCCL_INTERNAL_ERROR = 3,
	FAN_NCCL_INVALID_ARGUMENT = 4,
	FAN_NCCL_INVALID_USAGE = 5,
	FAN_NCCL_REMOTE_ERROR = 6
};

enum fan_nccl_type {
	FAN_NCCL_INT8 = 0,
	FAN_NCCL_UINT8 = 1,
	FAN_NCCL_INT32 = 2,
	FAN_NCCL_UINT32 = 3,
	FAN_NCCL_INT64 = 4,
	FAN_NCCL_UINT64 = 5,
	FAN_NCCL_FLOAT16 = 6,
	FAN_NCCL_FLOAT32 = 7,
	FAN_NCCL_FLOAT64 = 8,
	FAN_NCCL_BFLOAT16 = 9
};

enum fan_nccl_redop { FAN_NCCL_SUM = 0, FAN_NCCL_PROD = 1, FAN_NCCL_MAX = 2, FAN_NCCL_MIN = 3 };

/* Arguments of NCCL's log: how loud, and about what (a bit each). */
enum fan_nccl_level { FAN_NCCL_LOG_WARN = 2, FAN_NCCL_LOG_INFO = 3 };
#define FAN_NCCL_ABOUT_INIT 0x1UL
#define FAN_NCCL_ABOUT_NET  0x10UL

typedef void (*fan_nccl_logger)(int level, unsigned long about, const char *where, int line,
				const char *format, ...);

/* ---- what a device is ---- */

#define FAN_NCCL_PROPS_SPEED                                                                       \
	int speed, port; /* speed in Mb/s */                                                       \
	float latency;	 /* 0: NCCL takes its own */                                               \
	int comms_max, recvs_max;

struct fan_nccl_props_v8 {
	char *name, *pci_path;
	uint64_t guid;
	int ptr_support, reg_is_global;
	FAN_NCCL_PROPS_SPEED
	int device_type, device_version; /* 0: no offload */
};

#define FAN_NCCL_PROPS_V9(devices)                                                                 \
	char *name, *pci_path;                                                                     \
	uint64_t guid;                                                                             \
	int ptr_support, reg_is_global, force_flush;                                               \
	FAN_NCCL_PROPS_SPEED                                                                       \
	int device_type, device_version;                                                           \
	struct {                                                                                   \
		int count, device[devices];                                                        \
	} virtual;                                                                                 \
	size_t p2p_bytes_max, coll_bytes_max;

struct fan_nccl_props_v9 { /* and v10 */
	FAN_NCCL_PROPS_V9(4)
};

struct fan_nccl_props_v11 {
	FAN_NCCL_PROPS_V9(4)
	int multi_request_max;
};

struct fan_nccl_props_v12 {
	FAN_NCCL_PROPS_V9(8)
	int multi_request_max;
	int16_t rail, plane; /* -1: not given */
};

/* A piece of memory: v8's size has 32 bits. */
struct fan_nccl_piece_v8 {
	void *memory, *address;
	uint32_t bytes;
};

struct fan_nccl_piece {
	void *memory, *address;
	size_t bytes;
};

/* ---- tables of functions: what is alike in versions is one macro ---- */

/* Registering memory. */
#define FAN_NCCL_MEMORY                                                                            \
	int (*reg_mr)(void *comm, void *data, size_t size, int type, void **memory);               \
	int (*reg_mr_dma_buf)(void *comm, void *data, size_t size, int type, uint64_t offset,      \
			      int fd, void **memory);                                              \
	int (*dereg_mr)(void *comm, void *memory);

/* The members behind transfers in every table of ncclNet. */
#define FAN_NCCL_NET_REST                                                                          \
	int (*iflush)(void *comm, int n, void **data, int *sizes, void **memory, void **request);  \
	int (*test)(void *request, int *done, int *sizes);                                         \
	int (*close_send)(void *comm);                                                             \
	int (*close_recv)(void *comm);                                                             \
	int (*close_listen)(void *comm);

/* Members for devices that the GPU drives itself: always NULL here. */
#define FAN_NCCL_NET_OFFLOAD                                                                       \
	int (*get_device_mr)(void *comm, void *memory, void **device);                             \
	int (*irecv_consumed)(void *comm, int n, void *request);

#define FAN_NCCL_HEAD_PLAIN(version)                                                               \
	int (*devices)(int *count);                                                                \
	int (*get_properties)(int dev, struct fan_nccl_props_v##version *props);                   \
	int (*listen)(int dev, void *handle, void **comm);

#define FAN_NCCL_HEAD_CONTEXT(version)                                                             \
	int (*devices)(int *count);                                                                \
	int (*get_properties)(int dev, struct fan_nccl_props_v##version *props);                   \
	int (*listen)(void *context, int dev, void *handle, void **comm);

struct fan_nccl_net_v8 {
	const char *name;
	int (*init)(fan_nccl_logger log);
	FAN_NCCL_HEAD_PLAIN(8)
	int (*connect)(int dev, void *handle, void **comm, void **on_device);
	int (*accept)(void *listening, void **comm, void **on_device);
	FAN_NCCL_MEMORY
	int (*isend)(void *comm, void *data, int size, int tag, void *memory, void **request);
	int (*irecv)(void *comm, int n, void **data, int *sizes, int *tags, void **memory,
		     void **request);
	FAN_NCCL_NET_REST
	FAN_NCCL_NET_OFFLOAD
};

struct fan_nccl_net_v9 {
	const char *name;
	int (*init)(fan_nccl_logger log);
	FAN_NCCL_HEAD_PLAIN(9)
	int (*connect)(int dev, void *handle, void **comm, void **on_device);
	int (*accept)(void *listening, void **comm, void **on_device);
	FAN_NCCL_MEMORY
	int (*isend)(void *comm, void *data, size_t size, int tag, void *memory, void **request);
	int (*irecv)(void *comm, int n, void **data, size_t *sizes, int *tags, void **memory,
		     void **request);
	FAN_NCCL_NET_REST
	FAN_NCCL_NET_OFFLOAD
	int (*make_vdevice)(int *dev, void *props);
};

/* From v10 on the profiler's handles go along. */
#define FAN_NCCL_NET_TRANSFER_V10                                                                  \
	int (*isend)(void *comm, void *data, size_t size, int tag, void *memory, void *profiled,   \
		     void **request);                                                              \
	int (*irecv)(void *comm, int n, void **data, size_t *sizes, int *tags, void **memory,      \
		     void **profiled, void **request);

struct fan_nccl_net_v10 {
	const char *name;
	int (*init)(fan_nccl_logger log, void *profiler);
	FAN_NCCL_HEAD_PLAIN(9)
	int (*connect)(int dev, void *config, void *handle, void **comm, void **on_device);
	int (*accept)(void *listening, void **comm, void **on_device);
	FAN_NCCL_MEMORY
	FAN_NCCL_NET_TRANSFER_V10
	FAN_NCCL_NET_REST
	FAN_NCCL_NET_OFFLOAD
	int (*make_vdevice)(int *dev, void *props);
};

#define FAN_NCCL_NET_V11(version)                                                                  \
	const char *name;                                                                          \
	int (*init)(void **context, uint64_t comm_id, void *config, fan_nccl_logger log,           \
		    void *profiler);                                                               \
	FAN_NCCL_HEAD_CONTEXT(version)                                                             \
	int (*connect)(void *context, int dev, void *handle, void **comm, void **on_device);       \
	int (*accept)(void *listening, void **comm, void **on_device);                             \
	FAN_NCCL_MEMORY                                                                            \
	FAN_NCCL_NET_TRANSFER_V10                                                                  \
	FAN_NCCL_NET_REST                                                                          \
	FAN_NCCL_NET_OFFLOAD                                                                       \
	int (*make_vdevice)(int *dev, void *props);                                                \
	int (*finalize)(void *context);                                                            \
	int (*set_net_attr)(void *context, void *attributes);

struct fan_nccl_net_v11 {
	FAN_NCCL_NET_V11(11)
};

struct fan_nccl_net_v12 {
	FAN_NCCL_NET_V11(12)
};

#define FAN_NCCL_COLL_MEET                                                                         \
	int (*connect)(void *handles[], int ranks, int rank, void *listening, void **comm);        \
	int (*reduce_support)(int type, int op, int *supported);

#define FAN_NCCL_COLL_REST                                                                         \
	int (*iflush)(void *comm, void *data, int size, void *memory, void **request);             \
	int (*test)(void *request, int *done, int *size);                                          \
	int (*close_coll)(void *comm);                                                             \
	int (*close_listen)(void *comm);

#define FAN_NCCL_COLL_ALLREDUCE(count_type)                                                        \
	int (*iallreduce)(void *comm, void *in, void *out, count_type count, int type, int op,     \
			  void *in_memory, void *out_memory, void **request);

/* `offset` and `bytes` are the window of all ranks' bytes, `rank_bytes` for each rank. */
#define FAN_NCCL_COLL_WINDOWS(piece_type)                                                          \
	int (*iallgather)(void *comm, void *in, int pieces, piece_type *out, size_t rank_bytes,    \
			  size_t offset, size_t bytes, void *in_memory, void **request);           \
	int (*ireducescatter)(void *comm, int pieces, piece_type *in, void *out,                   \
			      size_t rank_bytes, size_t offset, size_t bytes, int type, int op,    \
			      void *out_memory, void **request);

struct fan_nccl_coll_v8 {
	const char *name;
	int (*init)(fan_nccl_logger log);
	FAN_NCCL_HEAD_PLAIN(8)
	FAN_NCCL_COLL_MEET
	FAN_NCCL_MEMORY
	FAN_NCCL_COLL_ALLREDUCE(int)
	FAN_NCCL_COLL_WINDOWS(struct fan_nccl_piece_v8)
	FAN_NCCL_COLL_REST
};

struct fan_nccl_coll_v9 { /* and v10 */
	const char *name;
	int (*init)(fan_nccl_logger log);
	FAN_NCCL_HEAD_PLAIN(9)
	FAN_NCCL_COLL_MEET
	FAN_NCCL_MEMORY
	FAN_NCCL_COLL_ALLREDUCE(size_t)
	FAN_NCCL_COLL_WINDOWS(struct fan_nccl_piece)
	FAN_NCCL_COLL_REST
	int (*make_vdevice)(int *dev, void *props);
};

#define FAN_NCCL_COLL_V11(version)                                                                 \
	const char *name;                                                                          \
	int (*init)(void **context, uint64_t comm_id, fan_nccl_logger log);                        \
	FAN_NCCL_HEAD_CONTEXT(version)                                                             \
	FAN_NCCL_COLL_MEET                                                                         \
	FAN_NCCL_MEMORY                                                                            \
	FAN_NCCL_COLL_ALLREDUCE(size_t)                                                            \
	FAN_NCCL_COLL_WINDOWS(struct fan_nccl_piece)                                               \
	FAN_NCCL_COLL_REST                                                                         \
	int (*make_vdevice)(int *dev, void *props);                                                \
	int (*finalize)(void *context);

struct fan_nccl_coll_v11 {
	FAN_NCCL_COLL_V11(11)
};

struct fan_nccl_coll_v12 {
	FAN_NCCL_COLL_V11(12)
};

#endif
