/* SPDX-License-Identifier: Apache-2.0 */
#include "dial.h"

#include <errno.h>
#include <netdb.h>
#include <netinet/in.h>
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <unistd.h>

#include "abi.h"
#include "link.h"
#include "net.h"
#include "net/clock.h"
#include "rails.h"

#define MAGIC	    0x314e6166u /* "faN1" */
#define NONCE_BYTES 16
#define HOST_BYTES  16
#define BACKLOG	    64
#define MS	    1000000ull

/* What a handle has. */
struct handle {
	uint32_t magic;
	uint16_t family, port; /* port in network order */
	uint8_t addr[16], nonce[NONCE_BYTES];
	uint64_t attempt; /* of the connecting side; 0: none yet */
};

_Static_assert(sizeof(struct handle) <= FAN_NCCL_HANDLE_BYTES, "a handle fits");

/* The first bytes of a connection. */
struct hello {
	uint32_t magic, zero;
	uint8_t nonce[NONCE_BYTES];
};

struct attempt {
	uint64_t id; /* 0: free */
	uint64_t deadline_ns;
	int fd;
};

/* A connection that has not said the nonce yet. */
struct guest {
	int fd; /* -1: none */
	uint64_t deadline_ns;
	size_t got;
	struct hello hello;
	uint8_t host[HOST_BYTES]; /* its address, without the port */
	char peer[FAN_NCCL_PEER_BYTES];
};

struct listener {
	int fd;
	uint8_t nonce[NONCE_BYTES];
	struct guest guest[FAN_NCCL_GUESTS_MAX];
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* of `attempts` */
static struct attempt attempts[FAN_NCCL_ATTEMPTS_MAX];

static void address_text(char text[FAN_NCCL_PEER_BYTES], const struct sockaddr_storage *at,
			 socklen_t bytes)
{
	char host[INET6_ADDRSTRLEN] = "?", port[8] = "?";
	getnameinfo((const struct sockaddr *)at, bytes, host, sizeof host, port, sizeof port,
		    NI_NUMERICHOST | NI_NUMERICSERV);
	snprintf(text, FAN_NCCL_PEER_BYTES, at->ss_family == AF_INET ? "%s:%s" : "[%s]:%s", host,
		 port);
}

/* ---- the side that is connected to ---- */

static void write_handle(void *to, const struct listener *l, const struct sockaddr_storage *at)
{
	struct handle h = {.magic = MAGIC, .family = at->ss_family};
	const struct sockaddr_in *four = (const void *)at;
	const struct sockaddr_in6 *six = (const void *)at;
	memcpy(h.nonce, l->nonce, sizeof h.nonce);
	if (at->ss_family == AF_INET) {
		h.port = four->sin_port;
		memcpy(h.addr, &four->sin_addr, sizeof four->sin_addr);
	} else {
		h.port = six->sin6_port;
		memcpy(h.addr, &six->sin6_addr, sizeof six->sin6_addr);
	}
	memset(to, 0, FAN_NCCL_HANDLE_BYTES);
	memcpy(to, &h, sizeof h);
}

int fan_nccl_listen(int dev, void *handle, void **listening)
{
	const struct fan_nccl_rail *rail = fan_nccl_rail(dev);
	struct sockaddr_storage at = {0};
	socklen_t bytes = sizeof at;
	*listening = NULL;
	if (!rail)
		return fan_nccl_warn(FAN_NCCL_INVALID_ARGUMENT, "there is no device %d", dev);
	struct listener *l = calloc(1, sizeof *l);
	if (!l)
		return FAN_NCCL_SYSTEM_ERROR;
	for (unsigned i = 0; i < FAN_NCCL_GUESTS_MAX; i++)
		l->guest[i].fd = -1;
	l->fd = socket(rail->addr.ss_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (l->fd < 0 || bind(l->fd, (const struct sockaddr *)&rail->addr, rail->addr_bytes) ||
	    listen(l->fd, BACKLOG) || getsockname(l->fd, (struct sockaddr *)&at, &bytes) ||
	    getrandom(l->nonce, sizeof l->nonce, 0) != sizeof l->nonce) {
		int e = errno;
		if (l->fd >= 0)
			close(l->fd);
		free(l);
		return fan_nccl_warn(FAN_NCCL_SYSTEM_ERROR, "cannot listen on %s: %s", rail->name,
				     strerror(e));
	}
	write_handle(handle, l, &at);
	*listening = l;
	return FAN_NCCL_SUCCESS;
}

static void dismiss(struct guest *g)
{
	close(g->fd);
	g->fd = -1;
}

/* The guest who has waited longest of the host that has most: strangers take the places of their
 * own. */
static struct guest *who_gives_way(struct listener *l)
{
	struct guest *found = NULL;
	unsigned most = 0;
	for (unsigned i = 0; i < FAN_NCCL_GUESTS_MAX; i++) {
		struct guest *g = &l->guest[i];
		unsigned same = 0;
		for (unsigned k = 0; k < FAN_NCCL_GUESTS_MAX; k++)
			same += !memcmp(g->host, l->guest[k].host, sizeof g->host);
		if (same > most || (same == most && g->deadline_ns < found->deadline_ns)) {
			most = same;
			found = g;
		}
	}
	return found;
}

static struct guest *place_in(struct listener *l)
{
	for (unsigned i = 0; i < FAN_NCCL_GUESTS_MAX; i++)
		if (l->guest[i].fd < 0)
			return &l->guest[i];
	struct guest *g = who_gives_way(l);
	dismiss(g);
	return g;
}

static void write_host(uint8_t host[HOST_BYTES], const struct sockaddr_storage *from)
{
	const struct sockaddr_in *four = (const void *)from;
	const struct sockaddr_in6 *six = (const void *)from;
	if (from->ss_family == AF_INET)
		memcpy(host, &four->sin_addr, sizeof four->sin_addr);
	else
		memcpy(host, &six->sin6_addr, HOST_BYTES);
}

/* Let in who has come. */
static void let_in(struct listener *l)
{
	for (unsigned turns = 0; turns < FAN_NCCL_GUESTS_MAX; turns++) {
		struct sockaddr_storage from = {0};
		socklen_t bytes = sizeof from;
		int fd = accept4(l->fd, (struct sockaddr *)&from, &bytes,
				 SOCK_CLOEXEC | SOCK_NONBLOCK);
		if (fd < 0)
			return;
		struct guest *place = place_in(l);
		memset(place, 0, sizeof *place);
		place->fd = fd;
		place->deadline_ns = fan_clock_ns() + FAN_NCCL_HELLO_MS * MS;
		write_host(place->host, &from);
		address_text(place->peer, &from, bytes);
	}
}

/* Read what a guest says.  True: the nonce. */
static bool is_known(const struct listener *l, struct guest *g)
{
	ssize_t n = recv(g->fd, (uint8_t *)&g->hello + g->got, sizeof g->hello - g->got, 0);
	if (n > 0)
		g->got += (size_t)n;
	if (n <= 0 && (!n || (errno != EAGAIN && errno != EINTR))) {
		dismiss(g);
		return false;
	}
	if (g->got < sizeof g->hello) {
		if (fan_clock_ns() > g->deadline_ns)
			dismiss(g);
		return false;
	}
	uint8_t differs = 0;
	for (unsigned i = 0; i < NONCE_BYTES; i++)
		differs |= (uint8_t)(g->hello.nonce[i] ^ l->nonce[i]);
	if (g->hello.magic == MAGIC && !g->hello.zero && !differs)
		return true;
	fan_nccl_info("%s is not of this program: closed", g->peer);
	dismiss(g);
	return false;
}

int fan_nccl_accept(void *listening, void **link)
{
	struct listener *l = listening;
	*link = NULL;
	let_in(l);
	for (unsigned i = 0; i < FAN_NCCL_GUESTS_MAX; i++) {
		struct guest *g = &l->guest[i];
		if (g->fd < 0 || !is_known(l, g))
			continue;
		*link = fan_nccl_link_new(g->fd, false, g->peer);
		g->fd = -1;
		return *link ? FAN_NCCL_SUCCESS : FAN_NCCL_SYSTEM_ERROR;
	}
	return FAN_NCCL_SUCCESS;
}

int fan_nccl_close_listen(void *listening)
{
	struct listener *l = listening;
	for (unsigned i = 0; i < FAN_NCCL_GUESTS_MAX; i++)
		if (l->guest[i].fd >= 0)
			dismiss(&l->guest[i]);
	close(l->fd);
	free(l);
	return FAN_NCCL_SUCCESS;
}

/* ---- the side that connects ---- */

static bool read_handle(struct sockaddr_storage *at, socklen_t *bytes, const struct handle *h)
{
	struct sockaddr_in *four = (void *)at;
	struct sockaddr_in6 *six = (void *)at;
	memset(at, 0, sizeof *at);
	at->ss_family = h->family;
	if (h->magic != MAGIC || !h->port)
		return false;
	if (h->family == AF_INET) {
		four->sin_port = h->port;
		memcpy(&four->sin_addr, h->addr, sizeof four->sin_addr);
		*bytes = sizeof *four;
		return true;
	}
	six->sin6_port = h->port;
	memcpy(&six->sin6_addr, h->addr, sizeof six->sin6_addr);
	*bytes = sizeof *six;
	return h->family == AF_INET6;
}

/* A place for one more attempt; one that nobody has asked about in time gives way.  NULL: none. */
static struct attempt *place(void)
{
	uint64_t now_ns = fan_clock_ns();
	for (unsigned i = 0; i < FAN_NCCL_ATTEMPTS_MAX; i++) {
		struct attempt *a = &attempts[i];
		if (a->id && now_ns > a->deadline_ns + FAN_NCCL_CONNECT_MS * MS) {
			close(a->fd);
			a->id = 0;
		}
		if (!a->id)
			return a;
	}
	return NULL;
}

/* Begin an attempt.  NULL: errno says why it cannot be. */
static struct attempt *begin(const struct fan_nccl_rail *rail, const struct sockaddr_storage *to,
			     socklen_t bytes)
{
	struct attempt *a = place();
	uint64_t id = fan_clock_nonce();
	if (!a || !id) {
		errno = EMFILE;
		return NULL;
	}
	int fd = socket(to->ss_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (fd < 0)
		return NULL;
	/* From the rail's own address, so that what comes back takes it as well. */
	if (rail->addr.ss_family == to->ss_family && !fan_nccl_rail_is_beside(rail, to))
		(void)!bind(fd, (const struct sockaddr *)&rail->addr, rail->addr_bytes);
	if (connect(fd, (const struct sockaddr *)to, bytes) && errno != EINPROGRESS) {
		int e = errno;
		close(fd);
		errno = e;
		return NULL;
	}
	*a = (struct attempt){id, fan_clock_ns() + FAN_NCCL_CONNECT_MS * MS, fd};
	return a;
}

static struct attempt *find(uint64_t id)
{
	for (unsigned i = 0; id && i < FAN_NCCL_ATTEMPTS_MAX; i++)
		if (attempts[i].id == id)
			return &attempts[i];
	return NULL;
}

/* Has the attempt come to its end?  0: not yet; 1: connected, and the nonce is said; -1: errno says
 * why it has failed. */
static int outcome(const struct attempt *a, const struct handle *h)
{
	struct pollfd p = {.fd = a->fd, .events = POLLOUT};
	struct hello hello = {.magic = MAGIC};
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
	memcpy(hello.nonce, h->nonce, sizeof hello.nonce);
	return send(a->fd, &hello, sizeof hello, MSG_NOSIGNAL) == sizeof hello ? 1 : -1;
}

/* With the lock held. */
static int go_on(const struct fan_nccl_rail *rail, struct handle *h, void **link)
{
	struct sockaddr_storage to = {0};
	socklen_t bytes = 0;
	char peer[FAN_NCCL_PEER_BYTES];
	if (!read_handle(&to, &bytes, h))
		return fan_nccl_warn(FAN_NCCL_INVALID_ARGUMENT,
				     "the handle to connect to is none of this plug-in: the other "
				     "side may have loaded another one");
	address_text(peer, &to, bytes);
	struct attempt *a = find(h->attempt);
	if (!a)
		a = begin(rail, &to, bytes);
	int done = a ? outcome(a, h) : -1, e = errno;
	h->attempt = a && !done ? a->id : 0;
	if (!done)
		return FAN_NCCL_SUCCESS;
	if (done < 0) {
		if (a)
			close(a->fd);
	} else {
		*link = fan_nccl_link_new(a->fd, true, peer);
	}
	if (a)
		a->id = 0;
	if (done < 0)
		return fan_nccl_warn(FAN_NCCL_REMOTE_ERROR, "cannot connect to %s over %s: %s",
				     peer, rail->name, strerror(e));
	return *link ? FAN_NCCL_SUCCESS : FAN_NCCL_SYSTEM_ERROR;
}

int fan_nccl_connect(int dev, void *handle, void **link)
{
	const struct fan_nccl_rail *rail = fan_nccl_rail(dev);
	struct handle h;
	*link = NULL;
	if (!rail)
		return fan_nccl_warn(FAN_NCCL_INVALID_ARGUMENT, "there is no device %d", dev);
	memcpy(&h, handle, sizeof h);
	pthread_mutex_lock(&lock);
	int result = go_on(rail, &h, link);
	pthread_mutex_unlock(&lock);
	memcpy(handle, &h, sizeof h);
	return result;
}
