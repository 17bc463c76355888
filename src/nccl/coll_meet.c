/* SPDX-License-Identifier: Apache-2.0 */
/* coll_meet.c - where the ranks of a communicator of ncclCollNet meet, and their job. */
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <unistd.h>

#include "abi.h"
#include "coll.h"
#include "file/option.h"
#include "interface.h"
#include "lib/api/metrics.h"
#include "lib/comm/comm.h"
#include "lib/comm/meeting.h"
#include "net.h"

#define MAGIC	   0x3143616eu /* "naC1" */
#define PORT_TRIES 256
#define JOB_BYTES  64
#define ADDR_BYTES 32

#define STRING_OF(x) #x
#define STRING(x)    STRING_OF(x)

struct handle {
	uint32_t magic;
	uint16_t port, named; /* host order; named: this rank knows a switch or a controller */
	uint32_t addr;	      /* IPv4, network order; 0: none */
	uint32_t zero;
	uint64_t nonce[2];
	int32_t host[FAN_MEETING_RECORD];
};

_Static_assert(sizeof(struct handle) <= FAN_NCCL_HANDLE_BYTES, "a handle fits");

/* NCCL closes it only after a connect that went well: what is left is a few bytes. */
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
		port = (uint16_t)(FAN_NCCL_COLL_PORTS +
				  port % (FAN_NCCL_COLL_PORTS_END - FAN_NCCL_COLL_PORTS));
		struct sockaddr_in at = {.sin_family = AF_INET, .sin_port = htons(port)};
		if (!bind(*fd, (struct sockaddr *)&at, sizeof at))
			return port;
	}
	if (*fd >= 0)
		close(*fd);
	*fd = -1;
	return 0;
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
		.join_ms = FAN_NCCL_JOIN_MS,
	};
	o.rank = rank;
	o.ranks = ranks;
	o.job = name;
	if (!fan_option_variable("FANIN_TIMEOUT_MS"))
		o.timeout_ms = FAN_NCCL_WAIT_MS;
	return fan_comm_create_on(&o, &terms, job);
}

int fan_nccl_coll_join(void *handles[], int ranks, int rank, void *listening, fanin_comm **job)
{
	struct listener *l = listening;
	struct handle first;
	bool local;
	*job = NULL;
	const char *why = ranks < 2 || ranks > FANIN_RANKS_MAX || rank < 0 || rank >= ranks
				  ? "from 2 to 256 ranks can be summed"
				  : agree(&first, &local, handles, ranks);
	if (!why && atomic_fetch_add(&joined, 1) >= FAN_NCCL_COLLS_MAX) {
		atomic_fetch_sub(&joined, 1);
		why = "this process has " STRING(
			FAN_NCCL_COLLS_MAX) " of CollNet, and may have no more";
	}
	release(l);
	if (why)
		return fan_nccl_warn(FAN_NCCL_SYSTEM_ERROR,
				     "CollNet is not used for rank %d of %d: %s", rank, ranks, why);
	int error = create(&first, local, ranks, rank, job);
	if (error) {
		fan_nccl_warn(FAN_NCCL_SYSTEM_ERROR, "CollNet is not used for rank %d of %d: %s",
			      rank, ranks, *job ? fanin_comm_error(*job) : fanin_strerror(error));
		fan_nccl_coll_leave(*job);
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

void fan_nccl_coll_leave(fanin_comm *job)
{
	fanin_comm_destroy(job);
	atomic_fetch_sub(&joined, 1);
}
