/* SPDX-License-Identifier: Apache-2.0 */
/* dial.c - how the two ends of a link find each other: listen, connect and accept of ncclNet.
 *
 * The handle that listen writes has the listener's address and a nonce from the kernel; NCCL
 * carries it to the other side, which connects and sends the nonce.  A connection that does not
 * within NONCE_MS is closed, so strangers only take places for a while.  connect and
 * accept return at once; connect keeps in the handle which attempt it goes on with. */

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <unistd.h>

#include "net/clock.h"
#include "net/udp.h"
#include "plugin.h"

#define NONCE_MS     60000	 /* until a connection has sent the nonce */
#define CONNECT_MS   30000	 /* until an attempt fails */
#define ATTEMPTS_MAX 256	 /* of one process, under way at a time */
#define GUESTS_MAX   16		 /* connections to a listener that have not sent the nonce */
#define MAGIC	     0x324e6166u /* "faN2" */
#define NONCE_BYTES  16
#define BACKLOG	     64
#define MS	     1000000ull

/* The content of a handle. */
struct handle {
	uint32_t magic, zero;
	fan_peer at;
	uint8_t nonce[NONCE_BYTES];
	uint64_t attempt; /* of the connecting side; 0: none yet */
};

_Static_assert(sizeof(struct handle) <= FAN_NCCL_HANDLE_BYTES, "a handle fits");

/* The first bytes of a connection. */
struct greeting {
	uint32_t magic, zero;
	uint8_t nonce[NONCE_BYTES];
};

struct attempt {
	uint64_t id; /* 0: free */
	uint64_t deadline_ns;
	int fd;
};

/* A connection that has not sent the nonce yet. */
struct pending {
	int fd; /* -1: none */
	uint64_t deadline_ns;
	size_t got;
	struct greeting greeting;
	fan_peer peer;
};

struct listener {
	int fd;
	uint8_t nonce[NONCE_BYTES];
	struct pending pending[GUESTS_MAX];
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* of `attempts` */
static struct attempt attempts[ATTEMPTS_MAX];

/* ---- the side that is connected to ---- */

int fan_nccl_listen(int dev, void *handle, void **listening)
{
	const struct fan_nccl_interface *interface = fan_nccl_interface(dev);
	struct sockaddr_storage at;
	struct handle h = {.magic = MAGIC};
	*listening = NULL;
	if (!interface)
		return fan_nccl_warn(FAN_NCCL_INVALID_ARGUMENT, "there is no device %d", dev);
	struct listener *l = calloc(1, sizeof *l);
	if (!l)
		return FAN_NCCL_SYSTEM_ERROR;
	for (unsigned i = 0; i < GUESTS_MAX; i++)
		l->pending[i].fd = -1;
	socklen_t bytes = fan_peer_to_sockaddr(&interface->at, AF_UNSPEC, &at);
	l->fd = socket(at.ss_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (l->fd < 0 || bind(l->fd, (const struct sockaddr *)&at, bytes) ||
	    listen(l->fd, BACKLOG) || getsockname(l->fd, (struct sockaddr *)&at, &bytes) ||
	    getrandom(l->nonce, sizeof l->nonce, 0) != sizeof l->nonce) {
		int e = errno;
		if (l->fd >= 0)
			close(l->fd);
		free(l);
		return fan_nccl_warn(FAN_NCCL_SYSTEM_ERROR, "cannot listen on %s: %s",
				     interface->name, strerror(e));
	}
	h.at = fan_peer_from_sockaddr((const struct sockaddr *)&at, bytes);
	memcpy(h.nonce, l->nonce, sizeof h.nonce);
	memset(handle, 0, FAN_NCCL_HANDLE_BYTES);
	memcpy(handle, &h, sizeof h);
	*listening = l;
	return FAN_NCCL_SUCCESS;
}

static void dismiss(struct pending *g)
{
	close(g->fd);
	g->fd = -1;
}

/* The client that has waited longest, of the host with most: strangers displace their own. */
static struct pending *who_gives_way(struct listener *l)
{
	struct pending *found = NULL;
	unsigned most = 0;
	for (unsigned i = 0; i < GUESTS_MAX; i++) {
		struct pending *g = &l->pending[i];
		unsigned same = 0;
		for (unsigned k = 0; k < GUESTS_MAX; k++)
			same += fan_peer_same_host(&g->peer, &l->pending[k].peer);
		if (same > most || (same == most && g->deadline_ns < found->deadline_ns)) {
			most = same;
			found = g;
		}
	}
	return found;
}

static struct pending *place_in(struct listener *l)
{
	for (unsigned i = 0; i < GUESTS_MAX; i++)
		if (l->pending[i].fd < 0)
			return &l->pending[i];
	struct pending *g = who_gives_way(l);
	dismiss(g);
	return g;
}

static void admit(struct listener *l)
{
	for (unsigned turns = 0; turns < GUESTS_MAX; turns++) {
		struct sockaddr_storage from = {0};
		socklen_t bytes = sizeof from;
		int fd = accept4(l->fd, (struct sockaddr *)&from, &bytes,
				 SOCK_CLOEXEC | SOCK_NONBLOCK);
		if (fd < 0)
			return;
		struct pending *place = place_in(l);
		memset(place, 0, sizeof *place);
		place->fd = fd;
		place->deadline_ns = fan_clock_ns() + NONCE_MS * MS;
		place->peer = fan_peer_from_sockaddr((const struct sockaddr *)&from, bytes);
	}
}

/* Read from a client.  True: it has sent the nonce. */
static bool is_known(const struct listener *l, struct pending *g)
{
	char peer[FAN_NCCL_PEER_BYTES];
	ssize_t n = recv(g->fd, (uint8_t *)&g->greeting + g->got, sizeof g->greeting - g->got, 0);
	if (n > 0)
		g->got += (size_t)n;
	if (n <= 0 && (!n || (errno != EAGAIN && errno != EINTR))) {
		dismiss(g);
		return false;
	}
	if (g->got < sizeof g->greeting) {
		if (fan_clock_ns() > g->deadline_ns)
			dismiss(g);
		return false;
	}
	uint8_t differs = 0;
	for (unsigned i = 0; i < NONCE_BYTES; i++)
		differs |= (uint8_t)(g->greeting.nonce[i] ^ l->nonce[i]);
	if (g->greeting.magic == MAGIC && !g->greeting.zero && !differs)
		return true;
	fan_nccl_info("%s is not of this program: closed",
		      fan_peer_text(&g->peer, peer, sizeof peer));
	dismiss(g);
	return false;
}

int fan_nccl_accept(void *listening, void **link)
{
	struct listener *l = listening;
	*link = NULL;
	admit(l);
	for (unsigned i = 0; i < GUESTS_MAX; i++) {
		struct pending *g = &l->pending[i];
		if (g->fd < 0 || !is_known(l, g))
			continue;
		*link = fan_nccl_link_new(g->fd, false, &g->peer);
		g->fd = -1;
		return *link ? FAN_NCCL_SUCCESS : FAN_NCCL_SYSTEM_ERROR;
	}
	return FAN_NCCL_SUCCESS;
}

int fan_nccl_close_listen(void *listening)
{
	struct listener *l = listening;
	for (unsigned i = 0; i < GUESTS_MAX; i++)
		if (l->pending[i].fd >= 0)
			dismiss(&l->pending[i]);
	close(l->fd);
	free(l);
	return FAN_NCCL_SUCCESS;
}

/* ---- the side that connects ---- */

/* A place for one more attempt; one that nobody has asked about in time gives way.  NULL: none. */
static struct attempt *place(void)
{
	uint64_t now_ns = fan_clock_ns();
	for (unsigned i = 0; i < ATTEMPTS_MAX; i++) {
		struct attempt *a = &attempts[i];
		if (a->id && now_ns > a->deadline_ns + CONNECT_MS * MS) {
			close(a->fd);
			a->id = 0;
		}
		if (!a->id)
			return a;
	}
	return NULL;
}

/* Begin an attempt.  NULL: errno has the cause. */
static struct attempt *begin(const struct fan_nccl_interface *interface, const fan_peer *to)
{
	struct sockaddr_storage there, here;
	const socklen_t bytes = fan_peer_to_sockaddr(to, AF_UNSPEC, &there);
	const socklen_t own = fan_peer_to_sockaddr(&interface->at, there.ss_family, &here);
	struct attempt *a = place();
	uint64_t id = fan_clock_nonce();
	if (!a || !id) {
		errno = EMFILE;
		return NULL;
	}
	int fd = socket(there.ss_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (fd < 0)
		return NULL;
	/* From the interface's own address, so that what comes back takes it as well. */
	if (own && !fan_nccl_interface_is_beside(interface, to))
		(void)!bind(fd, (const struct sockaddr *)&here, own);
	if (connect(fd, (const struct sockaddr *)&there, bytes) && errno != EINPROGRESS) {
		int e = errno;
		close(fd);
		errno = e;
		return NULL;
	}
	*a = (struct attempt){id, fan_clock_ns() + CONNECT_MS * MS, fd};
	return a;
}

static struct attempt *find(uint64_t id)
{
	for (unsigned i = 0; id && i < ATTEMPTS_MAX; i++)
		if (attempts[i].id == id)
			return &attempts[i];
	return NULL;
}

/* Has the attempt come to its end?  0: not yet; 1: connected, and the nonce is sent; -1: errno has
 * why it has failed. */
static int outcome(const struct attempt *a, const struct handle *h)
{
	struct pollfd p = {.fd = a->fd, .events = POLLOUT};
	struct greeting greeting = {.magic = MAGIC};
	int e = 0;
	socklen_t bytes = sizeof e;
	if (poll(&p, 1, 0) <= 0) {
		errno = ETIMEDOUT;
		return fan_clock_ns() > a->deadline_ns ? -1 : 0;
	}
	if (getsockopt(a->fd, SOL_SOCKET, SO_ERROR, &e, &bytes) || e) {
		errno = e;
		return -1;
	}
	memcpy(greeting.nonce, h->nonce, sizeof greeting.nonce);
	return send(a->fd, &greeting, sizeof greeting, MSG_NOSIGNAL) == sizeof greeting ? 1 : -1;
}

/* With the lock held. */
static int continue_dial(const struct fan_nccl_interface *interface, struct handle *h, void **link)
{
	char peer[FAN_NCCL_PEER_BYTES];
	if (h->magic != MAGIC || !h->at.port || h->at.port > UINT16_MAX)
		return fan_nccl_warn(FAN_NCCL_INVALID_ARGUMENT,
				     "the handle to connect to is none of this plug-in: the other "
				     "side may have loaded another one");
	struct attempt *a = find(h->attempt);
	if (!a)
		a = begin(interface, &h->at);
	int done = a ? outcome(a, h) : -1, e = errno;
	h->attempt = a && !done ? a->id : 0;
	if (!done)
		return FAN_NCCL_SUCCESS;
	if (done < 0) {
		if (a)
			close(a->fd);
	} else {
		*link = fan_nccl_link_new(a->fd, true, &h->at);
	}
	if (a)
		a->id = 0;
	if (done < 0)
		return fan_nccl_warn(FAN_NCCL_REMOTE_ERROR, "cannot connect to %s over %s: %s",
				     fan_peer_text(&h->at, peer, sizeof peer), interface->name,
				     strerror(e));
	return *link ? FAN_NCCL_SUCCESS : FAN_NCCL_SYSTEM_ERROR;
}

int fan_nccl_connect(int dev, void *handle, void **link)
{
	const struct fan_nccl_interface *interface = fan_nccl_interface(dev);
	struct handle h;
	*link = NULL;
	if (!interface)
		return fan_nccl_warn(FAN_NCCL_INVALID_ARGUMENT, "there is no device %d", dev);
	memcpy(&h, handle, sizeof h);
	pthread_mutex_lock(&lock);
	int result = continue_dial(interface, &h, link);
	pthread_mutex_unlock(&lock);
	memcpy(handle, &h, sizeof h);
	return result;
}
