/* SPDX-License-Identifier: Apache-2.0 */
/* api.h - a plug-in as NCCL sees it: loaded by dlopen, and called through the table of one version.
 *
 * Functions are those of version 12, without what no version needs here; each returns what the
 * plug-in does.  Derived from NCCL 2.30's src/include/plugin/net and src/plugin. */
#ifndef TEST_NCCL_API_H
#define TEST_NCCL_API_H

#include "nccl/abi.h"

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
