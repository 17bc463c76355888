/* SPDX-License-Identifier: Apache-2.0 */
/* versions.c - the tables that NCCL looks for: ncclNetPlugin_v8 to _v12, ncclCollNetPlugin_v8 to
 * _v12.
 *
 * Each function is adapted once for each way in which versions call it. */
#include <fanin.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "file/text.h"
#include "lib/base/config.h"
#include "plugin.h"

#define EXPORTED __attribute__((visibility("default")))

#define LIST_BYTES 256
#define NAME	   "Fanin"
#define COMMS_MAX  65536 /* links of a device, as NCCL gets it */

/* ---- common to all versions: beginning, devices, memory ---- */

static void log_wait(void *arg, const char *text)
{
	(void)arg;
	fan_nccl_warn(FAN_NCCL_SUCCESS, "%s", text);
}

/* Log to `log` from here on, also the ranks that one has waited for for 30 s, and log once that the
 * plug-in was chosen. */
static int start(fan_nccl_logger log)
{
	static atomic_bool said;
	char list[LIST_BYTES];
	struct fan_text t = fan_text_in(list, sizeof list);
	fan_nccl_log_to(log);
	fanin_on_wait(log_wait, NULL);
	fan_config_misspelt(log_wait, NULL);
	if (!fan_nccl_interfaces() || atomic_exchange(&said, true))
		return FAN_NCCL_SUCCESS;
	for (int i = 0; i < fan_nccl_interfaces(); i++)
		fan_text_add(&t, " [%d]%s", i, fan_nccl_interface(i)->name);
	const char *key = secure_getenv("FANIN_KEY_FILE");
	fan_nccl_info("fanin %s was chosen; devices:%s%s", fanin_version(), list,
		      key && *key ? "; sums are sealed, messages between ranks are in clear" : "");
	return FAN_NCCL_SUCCESS;
}

/* How many devices there are; with none NCCL takes another plug-in, and the log has the cause. */
static int devices(int *count)
{
	*count = fan_nccl_interfaces();
	if (*count)
		return FAN_NCCL_SUCCESS;
	return fan_nccl_warn(FAN_NCCL_SUCCESS, "fanin is not used: no network interface is up, has "
					       "an address and is named by NCCL_SOCKET_IFNAME");
}

/* Describe device `dev` in the newest version. */
static int properties(int dev, struct fan_nccl_props_v12 *props)
{
	const struct fan_nccl_interface *interface = fan_nccl_interface(dev);
	if (!interface)
		return fan_nccl_warn(FAN_NCCL_INVALID_ARGUMENT, "there is no device %d", dev);
	int speed = interface->speed_mbps;
	*props = (struct fan_nccl_props_v12){
		.name = (char *)interface->name,
		.pci_path = *interface->pci_path ? (char *)interface->pci_path : NULL,
		.guid = interface->guid,
		.ptr_support = FAN_NCCL_PTR_HOST,
		.speed = speed > FAN_NCCL_SPEED_MIN_MBPS ? speed : FAN_NCCL_SPEED_MIN_MBPS,
		.comms_max = COMMS_MAX,
		.recvs_max = FAN_NCCL_PIECES_MAX,
		.virtual = {.count = 1, .device = {dev}},
		.p2p_bytes_max = FAN_NCCL_MESSAGE_MAX,
		.coll_bytes_max = FAN_NCCL_MESSAGE_MAX,
		.multi_request_max = 1,
		.rail = -1,
		.plane = -1,
	};
	return FAN_NCCL_SUCCESS;
}

/* Copy the members that all versions have, by their own names. */
#define COPY(to, from)                                                                             \
	do {                                                                                       \
		memset((to), 0, sizeof *(to));                                                     \
		(to)->name = (from).name;                                                          \
		(to)->pci_path = (from).pci_path;                                                  \
		(to)->guid = (from).guid;                                                          \
		(to)->ptr_support = (from).ptr_support;                                            \
		(to)->speed = (from).speed;                                                        \
		(to)->comms_max = (from).comms_max;                                                \
		(to)->recvs_max = (from).recvs_max;                                                \
	} while (0)

#define COPY_V9(to, from)                                                                          \
	do {                                                                                       \
		COPY(to, from);                                                                    \
		(to)->virtual.count = (from).virtual.count;                                        \
		(to)->virtual.device[0] = (from).virtual.device[0];                                \
		(to)->p2p_bytes_max = (from).p2p_bytes_max;                                        \
		(to)->coll_bytes_max = (from).coll_bytes_max;                                      \
	} while (0)

#define COPY_V11(to, from)                                                                         \
	do {                                                                                       \
		COPY_V9(to, from);                                                                 \
		(to)->multi_request_max = (from).multi_request_max;                                \
	} while (0)

#define PROPERTIES(version, copy)                                                                  \
	static int properties_v##version(int dev, struct fan_nccl_props_v##version *props)         \
	{                                                                                          \
		struct fan_nccl_props_v12 p = {0};                                                 \
		int result = properties(dev, &p);                                                  \
		if (!result)                                                                       \
			copy(props, p);                                                            \
		return result;                                                                     \
	}

/* v10's is v9's. */
PROPERTIES(8, COPY)
PROPERTIES(9, COPY_V9)
PROPERTIES(11, COPY_V11)

/* Memory is registered by nobody: only the host's is taken. */
static int reg_mr(void *comm, void *data, size_t size, int type, void **memory)
{
	(void)comm, (void)data, (void)size;
	*memory = NULL;
	return type == FAN_NCCL_PTR_HOST ? FAN_NCCL_SUCCESS : FAN_NCCL_INTERNAL_ERROR;
}

static int reg_mr_dma_buf(void *comm, void *data, size_t size, int type, uint64_t offset, int fd,
			  void **memory)
{
	(void)comm, (void)data, (void)size, (void)type, (void)offset, (void)fd;
	*memory = NULL;
	return FAN_NCCL_INTERNAL_ERROR; /* of a device: not offered */
}

static int dereg_mr(void *comm, void *memory)
{
	(void)comm, (void)memory;
	return FAN_NCCL_SUCCESS;
}

static int finalize(void *context)
{
	(void)context;
	return FAN_NCCL_SUCCESS;
}

/* ---- beginning ---- */

static int init_v10(fan_nccl_logger log, void *profiler)
{
	(void)profiler;
	return start(log);
}

static int init_v11(void **context, uint64_t comm_id, void *config, fan_nccl_logger log,
		    void *profiler)
{
	(void)comm_id, (void)config, (void)profiler;
	*context = NULL;
	return start(log);
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

static int accept_link(void *listening, void **comm, void **on_device)
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
	.name = NAME, .devices = devices, .reg_mr = reg_mr, .reg_mr_dma_buf = reg_mr_dma_buf,      \
	.dereg_mr = dereg_mr, .accept = accept_link, .iflush = iflush, .test = fan_nccl_link_test, \
	.close_send = close_link, .close_recv = close_link, .close_listen = fan_nccl_close_listen

#define NET_TABLE(version, init_function, properties, listen_function, connect_function,           \
		  send_function, recv_function, ...)                                               \
	extern const struct fan_nccl_net_v##version ncclNetPlugin_v##version;                      \
	EXPORTED const struct fan_nccl_net_v##version ncclNetPlugin_v##version = {                 \
		NET_COMMON,                                                                        \
		.init = (init_function),                                                           \
		.get_properties = (properties),                                                    \
		.listen = (listen_function),                                                       \
		.connect = (connect_function),                                                     \
		.isend = (send_function),                                                          \
		.irecv = (recv_function),                                                          \
		__VA_ARGS__};

NET_TABLE(8, start, properties_v8, fan_nccl_listen, connect_v8, isend_v8, irecv_v8)
NET_TABLE(9, start, properties_v9, fan_nccl_listen, connect_v8, isend_v9, irecv_v9)
NET_TABLE(10, init_v10, properties_v9, fan_nccl_listen, connect_v10, isend_v10, irecv_v10)
NET_TABLE(11, init_v11, properties_v11, listen_v11, connect_v11, isend_v10, irecv_v10,
	  .finalize = finalize)
NET_TABLE(12, init_v11, properties, listen_v11, connect_v11, isend_v10, irecv_v10,
	  .finalize = finalize)

/* ---- ncclCollNet ---- */

static int coll_init_v11(void **context, uint64_t comm_id, fan_nccl_logger log)
{
	(void)comm_id;
	*context = NULL;
	return start(log);
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
	.name = NAME, .devices = fan_nccl_coll_devices, .connect = fan_nccl_coll_connect,          \
	.reduce_support = fan_nccl_coll_supports, .reg_mr = reg_mr,                                \
	.reg_mr_dma_buf = reg_mr_dma_buf, .dereg_mr = dereg_mr, .iflush = coll_iflush,             \
	.test = fan_nccl_coll_test, .close_coll = fan_nccl_coll_close,                             \
	.close_listen = fan_nccl_coll_close_listen

#define COLL_TABLE(version, of, init_function, properties, listen_function, allreduce, ...)        \
	extern const struct fan_nccl_coll_v##of ncclCollNetPlugin_v##version;                      \
	EXPORTED const struct fan_nccl_coll_v##of ncclCollNetPlugin_v##version = {                 \
		COLL_COMMON,                                                                       \
		.init = (init_function),                                                           \
		.get_properties = (properties),                                                    \
		.listen = (listen_function),                                                       \
		.iallreduce = (allreduce),                                                         \
		__VA_ARGS__};

COLL_TABLE(8, 8, start, properties_v8, fan_nccl_coll_listen, allreduce_v8,
	   .iallgather = allgather_v8, .ireducescatter = reducescatter_v8)
COLL_TABLE(9, 9, start, properties_v9, fan_nccl_coll_listen, allreduce_v9,
	   .iallgather = allgather_v9, .ireducescatter = reducescatter_v9)
COLL_TABLE(10, 9, start, properties_v9, fan_nccl_coll_listen, allreduce_v9,
	   .iallgather = allgather_v9, .ireducescatter = reducescatter_v9)
COLL_TABLE(11, 11, coll_init_v11, properties_v11, coll_listen_v11, allreduce_v9,
	   .iallgather = allgather_v9, .ireducescatter = reducescatter_v9, .finalize = finalize)
COLL_TABLE(12, 12, coll_init_v11, properties, coll_listen_v11, allreduce_v9,
	   .iallgather = allgather_v9, .ireducescatter = reducescatter_v9, .finalize = finalize)
