/* SPDX-License-Identifier: Apache-2.0 */
/* api.c - a plug-in as NCCL sees it: loaded by dlopen, and called through the table of one version.
 */

#include <dlfcn.h>
#include <stdio.h>
#include <string.h>

#include "world.h"

#define NET(v)	((const struct fan_nccl_net_v##v *)a->net)
#define COLL(v) ((const struct fan_nccl_coll_v##v *)a->coll)
#define BAD	FAN_NCCL_INTERNAL_ERROR /* no such version */

#define CASE(v, call)                                                                              \
	case (v): return (call)

/* A call by versions 8 to 10, and from 11 on. */
#define OLD(table, ten, call)                                                                      \
	CASE(8, table(8)->call);                                                                   \
	CASE(9, table(9)->call);                                                                   \
	CASE(10, table(ten)->call)

#define NEW(table, call)                                                                           \
	CASE(11, table(11)->call);                                                                 \
	CASE(12, table(12)->call)

#define ALL(table, ten, call)                                                                      \
	switch (a->version) {                                                                      \
		OLD(table, ten, call);                                                             \
		NEW(table, call);                                                                  \
	default: return BAD;                                                                       \
	}

int api_load(struct api *a, const char *path, int version)
{
	char name[64];
	memset(a, 0, sizeof *a);
	a->version = version;
	a->library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
	if (!a->library) {
		fprintf(stderr, "%s\n", dlerror());
		return -1;
	}
	snprintf(name, sizeof name, "ncclNetPlugin_v%d", version);
	a->net = dlsym(a->library, name);
	snprintf(name, sizeof name, "ncclCollNetPlugin_v%d", version);
	a->coll = dlsym(a->library, name);
	return a->net ? 0 : -1;
}

int api_init(struct api *a, fan_nccl_logger log)
{
	int result = BAD;
	switch (a->version) {
	case 8: result = NET(8)->init(log); break;
	case 9: result = NET(9)->init(log); break;
	case 10: result = NET(10)->init(log, NULL); break;
	case 11: result = NET(11)->init(&a->net_context, 1, NULL, log, NULL); break;
	case 12: result = NET(12)->init(&a->net_context, 1, NULL, log, NULL); break;
	}
	if (result || !a->coll)
		return result;
	switch (a->version) {
	case 8: return COLL(8)->init(log);
	case 9:
	case 10: return COLL(9)->init(log);
	case 11: return COLL(11)->init(&a->coll_context, 1, log);
	default: return COLL(12)->init(&a->coll_context, 1, log);
	}
}

int api_finalize(struct api *a)
{
	if (a->version < 11)
		return 0;
	int result = a->version == 11 ? NET(11)->finalize(a->net_context)
				      : NET(12)->finalize(a->net_context);
	if (result || !a->coll)
		return result;
	return a->version == 11 ? COLL(11)->finalize(a->coll_context)
				: COLL(12)->finalize(a->coll_context);
}

int api_devices(const struct api *a, int *count)
{
	ALL(NET, 10, devices(count))
}

/* What tests look at, of whichever struct. */
#define PROPERTIES(v, of)                                                                          \
	case v: {                                                                                  \
		struct fan_nccl_props_v##of q;                                                     \
		memset(&q, 0xa5, sizeof q);                                                        \
		int result = NET(v)->get_properties(dev, &q);                                      \
		p->name = q.name;                                                                  \
		p->pci_path = q.pci_path;                                                          \
		p->ptr_support = q.ptr_support;                                                    \
		p->speed = q.speed;                                                                \
		p->latency = q.latency;                                                            \
		p->recvs_max = q.recvs_max;                                                        \
		return result;                                                                     \
	}

int api_properties(const struct api *a, int dev, struct fan_nccl_props_v12 *p)
{
	memset(p, 0, sizeof *p);
	switch (a->version) {
		PROPERTIES(8, 8)
		PROPERTIES(9, 9)
		PROPERTIES(10, 9)
		PROPERTIES(11, 11)
		PROPERTIES(12, 12)
	default: return BAD;
	}
}

int api_listen(const struct api *a, int dev, void *handle, void **comm)
{
	switch (a->version) {
		OLD(NET, 10, listen(dev, handle, comm));
		NEW(NET, listen(a->net_context, dev, handle, comm));
	default: return BAD;
	}
}

int api_connect(const struct api *a, int dev, void *handle, void **comm)
{
	void *on_device = NULL;
	switch (a->version) {
	case 8: return NET(8)->connect(dev, handle, comm, &on_device);
	case 9: return NET(9)->connect(dev, handle, comm, &on_device);
	case 10:
		return NET(10)->connect(dev, NULL, handle, comm, &on_device);
		NEW(NET, connect(a->net_context, dev, handle, comm, &on_device));
	default: return BAD;
	}
}

int api_accept(const struct api *a, void *listening, void **comm)
{
	void *on_device = NULL;
	ALL(NET, 10, accept(listening, comm, &on_device))
}

int api_reg(const struct api *a, void *comm, void *data, size_t bytes, void **memory)
{
	ALL(NET, 10, reg_mr(comm, data, bytes, FAN_NCCL_PTR_HOST, memory))
}

int api_dereg(const struct api *a, void *comm, void *memory)
{
	ALL(NET, 10, dereg_mr(comm, memory))
}

int api_isend(const struct api *a, void *comm, void *data, size_t bytes, int tag, void **request)
{
	switch (a->version) {
	case 8: return NET(8)->isend(comm, data, (int)bytes, tag, NULL, request);
	case 9: return NET(9)->isend(comm, data, bytes, tag, NULL, request);
	case 10:
		return NET(10)->isend(comm, data, bytes, tag, NULL, NULL, request);
		NEW(NET, isend(comm, data, bytes, tag, NULL, NULL, request));
	default: return BAD;
	}
}

int api_irecv(const struct api *a, void *comm, int n, void **data, size_t *room, int *tags,
	      void **request)
{
	int narrow[8];
	void *memory[8] = {0}, *profiled[8] = {0};
	for (int i = 0; i < n && i < 8; i++)
		narrow[i] = (int)room[i];
	*request = (void *)1; /* as NCCL has it where it can do without the completion */
	switch (a->version) {
	case 8: return NET(8)->irecv(comm, n, data, narrow, tags, memory, request);
	case 9: return NET(9)->irecv(comm, n, data, room, tags, memory, request);
	case 10:
		return NET(10)->irecv(comm, n, data, room, tags, memory, profiled, request);
		NEW(NET, irecv(comm, n, data, room, tags, memory, profiled, request));
	default: return BAD;
	}
}

int api_test(const struct api *a, void *request, int *done, int *sizes)
{
	ALL(NET, 10, test(request, done, sizes))
}

int api_close_send(const struct api *a, void *comm)
{
	ALL(NET, 10, close_send(comm))
}

int api_close_recv(const struct api *a, void *comm)
{
	ALL(NET, 10, close_recv(comm))
}

int api_close_listen(const struct api *a, void *comm)
{
	ALL(NET, 10, close_listen(comm))
}

/* ---- the other table ---- */

int coll_devices(const struct api *a, int *count)
{
	ALL(COLL, 9, devices(count))
}

int coll_listen(const struct api *a, int dev, void *handle, void **comm)
{
	switch (a->version) {
		OLD(COLL, 9, listen(dev, handle, comm));
		NEW(COLL, listen(a->coll_context, dev, handle, comm));
	default: return BAD;
	}
}

int coll_connect(const struct api *a, void *handles[], int ranks, int rank, void *listening,
		 void **comm)
{
	ALL(COLL, 9, connect(handles, ranks, rank, listening, comm))
}

int coll_supports(const struct api *a, int type, int op, int *supported)
{
	ALL(COLL, 9, reduce_support(type, op, supported))
}

int coll_allreduce(const struct api *a, void *comm, void *in, void *out, size_t count, int type,
		   int op, void **request)
{
	switch (a->version) {
	case 8:
		return COLL(8)->iallreduce(comm, in, out, (int)count, type, op, NULL, NULL,
					   request);
	case 9:
	case 10:
		return COLL(9)->iallreduce(comm, in, out, count, type, op, NULL, NULL, request);
		NEW(COLL, iallreduce(comm, in, out, count, type, op, NULL, NULL, request));
	default: return BAD;
	}
}

static struct fan_nccl_piece_v8 narrow(const struct fan_nccl_piece *p)
{
	return (struct fan_nccl_piece_v8){p->memory, p->address, (uint32_t)p->bytes};
}

int coll_allgather(const struct api *a, void *comm, void *in, struct fan_nccl_piece *out,
		   size_t rank_bytes, size_t offset, size_t bytes, void **request)
{
	struct fan_nccl_piece_v8 old = narrow(out);
	switch (a->version) {
	case 8:
		return COLL(8)->iallgather(comm, in, 1, &old, rank_bytes, offset, bytes, NULL,
					   request);
	case 9:
	case 10:
		return COLL(9)->iallgather(comm, in, 1, out, rank_bytes, offset, bytes, NULL,
					   request);
		NEW(COLL, iallgather(comm, in, 1, out, rank_bytes, offset, bytes, NULL, request));
	default: return BAD;
	}
}

int coll_reducescatter(const struct api *a, void *comm, struct fan_nccl_piece *in, void *out,
		       size_t rank_bytes, size_t offset, size_t bytes, int type, int op,
		       void **request)
{
	struct fan_nccl_piece_v8 old = narrow(in);
	switch (a->version) {
	case 8:
		return COLL(8)->ireducescatter(comm, 1, &old, out, rank_bytes, offset, bytes, type,
					       op, NULL, request);
	case 9:
	case 10:
		return COLL(9)->ireducescatter(comm, 1, in, out, rank_bytes, offset, bytes, type,
					       op, NULL, request);
		NEW(COLL, ireducescatter(comm, 1, in, out, rank_bytes, offset, bytes, type, op,
					 NULL, request));
	default: return BAD;
	}
}

int coll_test(const struct api *a, void *request, int *done, int *size)
{
	ALL(COLL, 9, test(request, done, size))
}

int coll_close(const struct api *a, void *comm)
{
	ALL(COLL, 9, close_coll(comm))
}

int coll_close_listen(const struct api *a, void *comm)
{
	ALL(COLL, 9, close_listen(comm))
}
