/* SPDX-License-Identifier: Apache-2.0 */
/* coll.c - ncclCollNet by libfanin: one sum a host in place of NCCL's rings.
 *
 * Each communicator of NCCL's is one of libfanin's, with as many ranks as NCCL hands over.  They
 * meet through the handles: rank 0's has the address, and a nonce names the job.  FANIN_SWITCH
 * names a switch; without one hosts sum, if FANIN_HOSTS=1.  An operation may be one of libfanin, or
 * one for each rank: NCCL asks for windows of what all ranks have. */
#include <arpa/inet.h>
#include <assert.h>
#include <errno.h>
#include <fanin.h>
#include <netinet/in.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <unistd.h>

#include "file/option.h"
#include "lib/comm/comm.h"
#include "lib/comm/meeting.h"
#include "plugin.h"

#define COLLS_MAX 64   /* communicators of a process at a time: NCCL does without more */
#define OPS_MAX	  4096 /* of libfanin, of one communicator, at a time */
/* Until a join without progress fails, unless FANIN_JOIN_MS is set. */
#define JOIN_MS	  20000
#define WAIT_MS	  86400000 /* until an operation does, likewise FANIN_TIMEOUT_MS */
#define PORTS	  10000	   /* the first of those at which rank 0's switch may listen */
#define PORTS_END 30000	   /* the kernel assigns none of them */

#define MAGIC	   0x3143616eu /* "naC1" */
#define PORT_TRIES 256
#define JOB_BYTES  64
#define ADDR_BYTES 32

#define STRING_OF(x) #x
#define STRING(x)    STRING_OF(x)

/* ---- where the ranks of a communicator meet, and their job ---- */

struct handle {
	uint32_t magic;
	uint16_t port, named; /* host order; named: this rank knows a switch or a controller */
	uint32_t addr;	      /* IPv4, network order; 0: none */
	uint32_t zero;
	uint64_t nonce[2];
	int32_t host[FAN_MEETING_RECORD];
};

_Static_assert(sizeof(struct handle) <= FAN_NCCL_HANDLE_BYTES, "a handle fits");

/* NCCL closes it only after a successful connect: a few bytes are left. */
struct listener {
	int fd; /* keeps the port for the switch; -1: it has gone */
	struct handle handle;
};

static atomic_int joined; /* communicators of this process */

/* A UDP port that is free, and a socket that keeps it; 0: none is. */
static uint16_t keep_port(int *fd)
{
	*fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	for (int i = 0; *fd >= 0 && i < PORT_TRIES; i++) {
		uint16_t port;
		if (getrandom(&port, sizeof port, 0) != sizeof port)
			break;
		port = (uint16_t)(PORTS + port % (PORTS_END - PORTS));
		struct sockaddr_in at = {.sin_family = AF_INET, .sin_port = htons(port)};
		if (!bind(*fd, (struct sockaddr *)&at, sizeof at))
			return port;
	}
	if (*fd >= 0)
		close(*fd);
	*fd = -1;
	return 0;
}

int fan_nccl_coll_devices(int *count)
{
	const struct fanin_options o = FANIN_OPTIONS_INIT;
	struct fan_config c;
	char why[FAN_CONFIG_WHY_BYTES];
	bool sums = fan_config_load_part(&c, &o, why, sizeof why) || *c.switch_addr ||
		    *c.controller_addr || c.hosts == 1; /* joining reports errors */
	*count = sums ? fan_nccl_interfaces() : 0;
	if (!sums)
		fan_nccl_info("CollNet is not offered: no switch is named, and without one NCCL's "
			      "rings are as fast (FANIN_HOSTS=1: hosts sum all the same)");
	return FAN_NCCL_SUCCESS;
}

int fan_nccl_coll_listen(int dev, void *handle, void **listening)
{
	const struct fan_nccl_interface *interface = fan_nccl_interface(dev);
	*listening = NULL;
	if (!interface)
		return fan_nccl_warn(FAN_NCCL_INVALID_ARGUMENT, "there is no device %d", dev);
	struct listener *l = calloc(1, sizeof *l);
	if (!l)
		return FAN_NCCL_SYSTEM_ERROR;
	struct handle *h = &l->handle;
	h->magic = MAGIC;
	h->named = fan_meeting_is_named();
	if (fan_peer_family(&interface->at) == AF_INET)
		memcpy(&h->addr, (const char *)interface->at.addr + 12, sizeof h->addr);
	fan_meeting_record(h->host, NULL);
	h->port = keep_port(&l->fd);
	if (!h->port || getrandom(h->nonce, sizeof h->nonce, 0) != sizeof h->nonce) {
		free(l);
		return fan_nccl_warn(FAN_NCCL_SYSTEM_ERROR, "CollNet: no UDP port is free: %s",
				     strerror(errno));
	}
	memset(handle, 0, FAN_NCCL_HANDLE_BYTES);
	memcpy(handle, h, sizeof *h);
	*listening = l;
	return FAN_NCCL_SUCCESS;
}

static void release(struct listener *l)
{
	if (l->fd >= 0)
		close(l->fd);
	l->fd = -1;
}

int fan_nccl_coll_close_listen(void *listening)
{
	release(listening);
	free(listening);
	return FAN_NCCL_SUCCESS;
}

/* Read rank 0's handle.  NULL; or why the handles do not go together. */
static const char *agree(struct handle *first, bool *local, void *handles[], int ranks)
{
	struct handle h;
	memcpy(first, handles[0], sizeof *first);
	*local = true;
	for (int i = 0; i < ranks; i++) {
		memcpy(&h, handles[i], sizeof h);
		if (h.magic != MAGIC)
			return "another rank has loaded another plug-in, or another version of it";
		if (h.named != first->named)
			return "some ranks name a switch or a controller, and some do not";
		*local = *local && !memcmp(h.host, first->host, sizeof(struct fan_host_id));
	}
	if (!first->named && !first->addr && !*local)
		return "rank 0's device has no IPv4 address: name a switch in FANIN_SWITCH";
	return NULL;
}

static int create(const struct handle *first, bool local, int ranks, int rank, fanin_comm **job)
{
	char name[JOB_BYTES], addr[ADDR_BYTES], text[INET_ADDRSTRLEN];
	struct in_addr at = {.s_addr = local ? htonl(INADDR_LOOPBACK) : first->addr};
	inet_ntop(AF_INET, &at, text, sizeof text);
	snprintf(addr, sizeof addr, "%s:%u", text, (unsigned)first->port);
	snprintf(name, sizeof name, "nccl-%016llx%016llx", (unsigned long long)first->nonce[0],
		 (unsigned long long)first->nonce[1]);
	struct fanin_options o = FANIN_OPTIONS_INIT;
	const struct fan_comm_terms terms = {
		.meeting_addr = first->named ? "" : addr,
		.meeting_local = local && !first->named,
		.one_card = true, /* that of the device: NCCL shares out among devices */
		.join_ms = JOIN_MS,
	};
	o.rank = rank;
	o.ranks = ranks;
	o.job = name;
	if (!fan_option_variable("FANIN_TIMEOUT_MS"))
		o.timeout_ms = WAIT_MS;
	return fan_comm_create_on(&o, &terms, job);
}

static void leave(fanin_comm *job)
{
	fanin_comm_destroy(job);
	atomic_fetch_sub(&joined, 1);
}

/* Join the job of all ranks' handles; `*job` is set on success alone.  The cause of an
 * error is in the log. */
static int join(void *handles[], int ranks, int rank, void *listening, fanin_comm **job)
{
	struct listener *l = listening;
	struct handle first;
	bool local;
	*job = NULL;
	const char *why = ranks < 2 || ranks > FANIN_RANKS_MAX || rank < 0 || rank >= ranks
				  ? "from 2 to 256 ranks can be summed"
				  : agree(&first, &local, handles, ranks);
	if (!why && atomic_fetch_add(&joined, 1) >= COLLS_MAX) {
		atomic_fetch_sub(&joined, 1);
		why = "this process has " STRING(COLLS_MAX) " of CollNet, and may have no more";
	}
	release(l);
	if (why)
		return fan_nccl_warn(FAN_NCCL_SYSTEM_ERROR,
				     "CollNet is not used for rank %d of %d: %s", rank, ranks, why);
	int error = create(&first, local, ranks, rank, job);
	if (error) {
		fan_nccl_warn(FAN_NCCL_SYSTEM_ERROR, "CollNet is not used for rank %d of %d: %s",
			      rank, ranks, *job ? fanin_comm_error(*job) : fanin_strerror(error));
		leave(*job);
		*job = NULL;
		return FAN_NCCL_SYSTEM_ERROR;
	}
	fan_comm_metrics_start(*job);
	struct fanin_stats s = {.size = sizeof s};
	fanin_comm_stats(*job, &s);
	fan_nccl_info("CollNet is used by rank %d of %d, at %s%s", rank, ranks,
		      fanin_comm_switch(*job), s.sealed ? ", sealed" : "");
	return FAN_NCCL_SUCCESS;
}

struct request {
	struct coll *of;       /* NULL: free */
	unsigned count, ended; /* operations of libfanin */
	size_t bytes;
	fanin_op **op;
};

struct coll {
	pthread_mutex_t lock; /* of all below */
	fanin_comm *job;
	int ranks, rank;
	bool failed;	 /* the log has why */
	unsigned places; /* requests at a time */
	fanin_op **ops;	 /* of all of them, `ranks` each */
	struct request request[FAN_NCCL_REQUESTS_MAX];
};

/* ---- types ---- */

static const struct {
	int dtype; /* of libfanin; -1: none */
	unsigned bytes;
	bool sum_only; /* its sums wrap as those of the signed type do */
} types[] = {
	[FAN_NCCL_INT8] = {-1, 1, false},
	[FAN_NCCL_UINT8] = {-1, 1, false},
	[FAN_NCCL_INT32] = {FANIN_INT32, 4, false},
	[FAN_NCCL_UINT32] = {FANIN_INT32, 4, true},
	[FAN_NCCL_INT64] = {FANIN_INT64, 8, false},
	[FAN_NCCL_UINT64] = {FANIN_INT64, 8, true},
	[FAN_NCCL_FLOAT16] = {FANIN_FLOAT16, 2, false},
	[FAN_NCCL_FLOAT32] = {FANIN_FLOAT32, 4, false},
	[FAN_NCCL_FLOAT64] = {FANIN_FLOAT64, 8, false},
	[FAN_NCCL_BFLOAT16] = {FANIN_BFLOAT16, 2, false},
};

#define TYPES ((int)(sizeof types / sizeof *types))

static const int redops[] = {
	[FAN_NCCL_SUM] = FANIN_SUM,
	[FAN_NCCL_PROD] = -1,
	[FAN_NCCL_MAX] = FANIN_MAX,
	[FAN_NCCL_MIN] = FANIN_MIN,
};

int fan_nccl_coll_supports(int type, int op, int *supported)
{
	*supported = type >= 0 && type < TYPES && op >= 0 && op <= FAN_NCCL_MIN &&
		     types[type].dtype >= 0 && redops[op] >= 0 &&
		     (op == FAN_NCCL_SUM || !types[type].sum_only);
	return FAN_NCCL_SUCCESS;
}

/* ---- a communicator ---- */

int fan_nccl_coll_connect(void *handles[], int ranks, int rank, void *listening, void **comm)
{
	fanin_comm *job = NULL;
	*comm = NULL;
	int result = join(handles, ranks, rank, listening, &job);
	if (result)
		return result;
	struct coll *c = calloc(1, sizeof *c);
	unsigned places = OPS_MAX / (unsigned)ranks;
	if (c) {
		c->places = places < FAN_NCCL_REQUESTS_MAX ? places : FAN_NCCL_REQUESTS_MAX;
		c->ops = calloc((size_t)c->places * (unsigned)ranks, sizeof(void *));
	}
	if (!c || !c->ops) {
		free(c);
		leave(job);
		return FAN_NCCL_SYSTEM_ERROR;
	}
	pthread_mutex_init(&c->lock, NULL);
	c->job = job;
	c->ranks = ranks;
	c->rank = rank;
	for (unsigned i = 0; i < c->places; i++)
		c->request[i].op = c->ops + (size_t)i * (unsigned)ranks;
	*comm = c;
	return FAN_NCCL_SUCCESS;
}

int fan_nccl_coll_close(void *comm)
{
	struct coll *c = comm;
	pthread_mutex_lock(&c->lock); /* who tests in another thread has returned */
	pthread_mutex_unlock(&c->lock);
	leave(c->job);
	for (unsigned i = 0; i < c->places; i++)
		for (unsigned k = c->request[i].ended; k < c->request[i].count; k++)
			fanin_op_free(c->request[i].op[k]);
	pthread_mutex_destroy(&c->lock);
	free(c->ops);
	free(c);
	return FAN_NCCL_SUCCESS;
}

/* Return NCCL's result for an error of libfanin, with the cause in the log. */
static int failed(struct coll *c, int error)
{
	const char *cause = fanin_comm_error(c->job);
	int result = FAN_NCCL_REMOTE_ERROR;
	switch (error) {
	case FANIN_E_INVALID: result = FAN_NCCL_INVALID_ARGUMENT; break;
	case FANIN_E_MISMATCH: result = FAN_NCCL_INVALID_USAGE; break;
	case FANIN_E_NOMEM:
	case FANIN_E_SYSTEM:
	case FANIN_E_CLOSED:
	case FANIN_E_FILES: result = FAN_NCCL_SYSTEM_ERROR; break;
	default: break;
	}
	if (!c->failed)
		fan_nccl_warn(result, "CollNet, rank %d of %d: %s", c->rank, c->ranks,
			      *cause ? cause : fanin_strerror(error));
	c->failed = true;
	return result;
}

/* ---- operations ---- */

/* A place for a request, and the lock; NULL: none is free. */
static struct request *take(struct coll *c, size_t bytes)
{
	pthread_mutex_lock(&c->lock);
	for (unsigned i = 0; i < c->places; i++) {
		struct request *r = &c->request[i];
		if (r->of)
			continue;
		r->of = c;
		r->count = r->ended = 0;
		r->bytes = bytes;
		return r;
	}
	pthread_mutex_unlock(&c->lock);
	return NULL;
}

/* After an operation was started: 0; or this error of libfanin. */
static int started(struct request *r, int error)
{
	assert(r->count < (unsigned)r->of->ranks);
	if (!error)
		r->count++;
	return error;
}

/* End a call that has started `r`, or failed to.  Returns its result. */
static int begun(struct coll *c, struct request *r, int error, void **request)
{
	int result = FAN_NCCL_SUCCESS;
	if (!error)
		*request = r;
	else if (error != FANIN_E_BUSY || r->count)
		result = failed(c, error);
	if (error && !r->count)
		r->of = NULL; /* otherwise its place stays taken: memory is in use until the end */
	pthread_mutex_unlock(&c->lock);
	return result;
}

int fan_nccl_coll_allreduce(void *comm, const void *in, void *out, size_t count, int type, int op,
			    void **request)
{
	struct coll *c = comm;
	int known, error = 0;
	*request = NULL;
	fan_nccl_coll_supports(type, op, &known);
	if (!known)
		return fan_nccl_warn(FAN_NCCL_INVALID_ARGUMENT,
				     "CollNet: type %d with operation %d is not summed", type, op);
	struct request *r = take(c, count * types[type].bytes);
	if (!r)
		return FAN_NCCL_SUCCESS;
	if (count)
		error = started(r, fanin_allreduce_start(c->job, in, out, count, types[type].dtype,
							 redops[op], &r->op[r->count]));
	return begun(c, r, error, request);
}

/* A window of what all ranks have. */
struct window {
	size_t rank_bytes, offset, bytes;
};

/* The part of it that is rank r's: how many bytes, and where it begins in the window. */
static size_t part(const struct window *w, int r, size_t *at)
{
	size_t begin = (size_t)r * w->rank_bytes, end = begin + w->rank_bytes;
	if (begin < w->offset)
		begin = w->offset;
	if (end > w->offset + w->bytes)
		end = w->offset + w->bytes;
	*at = begin - w->offset;
	return end > begin ? end - begin : 0;
}

/* Does it lie within what all have, and in the one piece of memory? */
static bool holds(const struct coll *c, const struct window *w, size_t memory)
{
	size_t all;
	return !__builtin_mul_overflow(w->rank_bytes, (size_t)c->ranks, &all) && w->offset <= all &&
	       w->bytes <= all - w->offset && w->bytes <= memory;
}

static bool is_whole(const struct coll *c, const struct window *w)
{
	return !w->offset && w->bytes == w->rank_bytes * (size_t)c->ranks;
}

static int gather(struct coll *c, struct request *r, const struct window *w, const void *in,
		  uint8_t *out)
{
	int error = 0;
	size_t at;
	if (is_whole(c, w))
		return started(r, fanin_allgather_start(c->job, in, out, w->rank_bytes, FANIN_UINT8,
							&r->op[0]));
	for (int k = 0; k < c->ranks && !error; k++) {
		size_t bytes = part(w, k, &at);
		if (bytes && k == c->rank)
			memmove(out + at, in, bytes);
		if (bytes)
			error = started(r, fanin_broadcast_start(c->job, out + at, bytes,
								 FANIN_UINT8, k, &r->op[r->count]));
	}
	return error;
}

int fan_nccl_coll_allgather(void *comm, const void *in, const struct fan_nccl_piece *out,
			    size_t rank_bytes, size_t offset, size_t bytes, void **request)
{
	struct coll *c = comm;
	const struct window w = {rank_bytes, offset, bytes};
	*request = NULL;
	if (!holds(c, &w, out->bytes))
		return fan_nccl_warn(FAN_NCCL_INVALID_ARGUMENT,
				     "CollNet: an all-gather of %zu bytes at %zu of %d x %zu",
				     bytes, offset, c->ranks, rank_bytes);
	struct request *r = take(c, bytes);
	if (!r)
		return FAN_NCCL_SUCCESS;
	return begun(c, r, bytes ? gather(c, r, &w, in, out->address) : 0, request);
}

static int scatter(struct coll *c, struct request *r, const struct window *w, const uint8_t *in,
		   void *out, int type, int op)
{
	int error = 0;
	size_t at, element = types[type].bytes;
	if (is_whole(c, w))
		return started(
			r, fanin_reduce_scatter_start(c->job, in, out, w->rank_bytes / element,
						      types[type].dtype, redops[op], &r->op[0]));
	for (int k = 0; k < c->ranks && !error; k++) {
		size_t bytes = part(w, k, &at);
		if (bytes)
			error = started(r, fanin_reduce_start(c->job, in + at,
							      k == c->rank ? out : NULL,
							      bytes / element, types[type].dtype,
							      redops[op], k, &r->op[r->count]));
	}
	return error;
}

int fan_nccl_coll_reducescatter(void *comm, const struct fan_nccl_piece *in, void *out,
				size_t rank_bytes, size_t offset, size_t bytes, int type, int op,
				void **request)
{
	struct coll *c = comm;
	const struct window w = {rank_bytes, offset, bytes};
	int known;
	*request = NULL;
	fan_nccl_coll_supports(type, op, &known);
	if (!known || !holds(c, &w, in->bytes) || (rank_bytes | offset | bytes) % types[type].bytes)
		return fan_nccl_warn(
			FAN_NCCL_INVALID_ARGUMENT,
			"CollNet: a reduce-scatter of %zu bytes at %zu of %d x %zu, type "
			"%d with operation %d",
			bytes, offset, c->ranks, rank_bytes, type, op);
	struct request *r = take(c, bytes);
	if (!r)
		return FAN_NCCL_SUCCESS;
	return begun(c, r, bytes ? scatter(c, r, &w, in->address, out, type, op) : 0, request);
}

int fan_nccl_coll_test(void *request, int *done, int *size)
{
	struct request *r = request;
	struct coll *c = r->of;
	int error = 0, result = FAN_NCCL_SUCCESS;
	pthread_mutex_lock(&c->lock);
	while (r->ended < r->count) {
		int e = fanin_op_test(r->op[r->ended]);
		if (e == FANIN_E_PENDING)
			break;
		fanin_op_free(r->op[r->ended++]);
		error = error ? error : e;
	}
	*done = r->ended == r->count && !error;
	if (*done && size)
		*size = (int)r->bytes;
	if (error)
		result = failed(c, error);
	if (*done ||
	    (error && r->ended == r->count)) /* what still runs ends with the communicator */
		r->of = NULL;
	pthread_mutex_unlock(&c->lock);
	return result;
}
