/* SPDX-License-Identifier: Apache-2.0 */
/* udp.c - opening a socket and receiving from it; udp_send.c sends. */
#include "udp.h"

#include <assert.h>
#include <errno.h>
#include <linux/filter.h>
#include <linux/sock_diag.h>
#include <netinet/in.h>
#include <netinet/ip.h>
#include <netinet/udp.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* ---- the local address to which each peer sends ---- */

#define HASH_FACTOR UINT64_C(0x9e3779b97f4a7c15) /* 2^64 over the golden ratio */

static unsigned set_of(const fan_peer *p)
{
	uint64_t h = (p->addr[0] ^ p->scope) * HASH_FACTOR;
	h = (h ^ h >> 32 ^ p->addr[1]) * HASH_FACTOR;
	h = (h ^ h >> 32 ^ p->port) * HASH_FACTOR;
	return (unsigned)(h >> 32) % FAN_LOCALS_SETS;
}

static bool is_free(const struct fan_local *l)
{
	return !(l->addr[0] | l->addr[1]);
}

/* Where `peer` is in its set; FAN_LOCALS_WAYS: nowhere. */
static unsigned find(const struct fan_local *set, const fan_peer *peer)
{
	unsigned i = 0;
	while (i < FAN_LOCALS_WAYS && (is_free(&set[i]) || !fan_peer_equal(&set[i].peer, peer)))
		i++;
	return i;
}

/* Free places count as silent for longest. */
static unsigned oldest(const struct fan_local *set)
{
	unsigned at = 0;
	for (unsigned i = 1; i < FAN_LOCALS_WAYS; i++)
		if (set[i].heard_at < set[at].heard_at)
			at = i;
	return at;
}

void fan_locals_put(struct fan_locals *t, const fan_peer *peer, const uint64_t addr[2])
{
	struct fan_local *set = t->place[set_of(peer)];
	unsigned i = find(set, peer);
	if (i == FAN_LOCALS_WAYS)
		i = oldest(set);
	set[i] = (struct fan_local){*peer, {addr[0], addr[1]}, ++t->puts};
}

const uint64_t *fan_locals_get(const struct fan_locals *t, const fan_peer *peer)
{
	const struct fan_local *set = t->place[set_of(peer)];
	unsigned i = find(set, peer);
	return i < FAN_LOCALS_WAYS ? set[i].addr : NULL;
}

void fan_locals_forget(struct fan_locals *t, const fan_peer *peer)
{
	struct fan_local *set = t->place[set_of(peer)];
	unsigned i = find(set, peer);
	if (i < FAN_LOCALS_WAYS)
		memset(&set[i], 0, sizeof set[i]);
}

#ifndef UDP_SEGMENT
#define UDP_SEGMENT 103
#endif
#ifndef UDP_GRO
#define UDP_GRO 104
#endif
#ifndef SO_ATTACH_REUSEPORT_CBPF
#define SO_ATTACH_REUSEPORT_CBPF 51
#endif
#ifndef IPV6_MULTICAST_ALL
#define IPV6_MULTICAST_ALL 29
#endif

#define SENDER_AT 12 /* low byte of a header's sender, which differs among ranks of one job */

static int set_int(int fd, int level, int name, int value)
{
	return setsockopt(fd, level, name, &value, sizeof value) ? -errno : 0;
}

/* Ask for `bytes` of buffer; returns what the kernel granted.  It counts its own
 * overhead by doubling, so half of the reported size fits. */
static int set_buffer(int fd, int force, int name, int bytes)
{
	int got = 0;
	socklen_t len = sizeof got;
	if (bytes > 0 && set_int(fd, SOL_SOCKET, force, bytes))
		set_int(fd, SOL_SOCKET, name, bytes);
	getsockopt(fd, SOL_SOCKET, name, &got, &len);
	return got / 2;
}

/* Never fragment: report a datagram that is too long.  Believe only the interface's MTU, since
 * anybody can forge a router's (ICMP). */
static void set_path(const struct fan_udp *u)
{
	if (u->family == AF_INET || u->dual)
		set_int(u->fd, IPPROTO_IP, IP_MTU_DISCOVER, IP_PMTUDISC_PROBE);
	if (u->family == AF_INET) {
		set_int(u->fd, IPPROTO_IP, IP_MULTICAST_TTL, FAN_UDP_HOPS);
		set_int(u->fd, IPPROTO_IP, IP_MULTICAST_LOOP, 1);
	} else {
		set_int(u->fd, IPPROTO_IPV6, IPV6_V6ONLY, !u->dual);
		set_int(u->fd, IPPROTO_IPV6, IPV6_MTU_DISCOVER, IPV6_PMTUDISC_PROBE);
		set_int(u->fd, IPPROTO_IPV6, IPV6_MULTICAST_HOPS, FAN_UDP_HOPS);
		set_int(u->fd, IPPROTO_IPV6, IPV6_MULTICAST_LOOP, 1);
	}
}

/* Let queues on the path mark packets instead of dropping them, and read the marks. */
static void set_ecn(const struct fan_udp *u)
{
	if (u->family == AF_INET || u->dual) {
		set_int(u->fd, IPPROTO_IP, IP_TOS, IPTOS_ECN_ECT0);
		set_int(u->fd, IPPROTO_IP, IP_RECVTOS, 1);
	}
	if (u->family == AF_INET6) {
		set_int(u->fd, IPPROTO_IPV6, IPV6_TCLASS, IPTOS_ECN_ECT0);
		set_int(u->fd, IPPROTO_IPV6, IPV6_RECVTCLASS, 1);
	}
}

/* Learn to which address, and by which interface, a datagram came. */
static int set_info(const struct fan_udp *u)
{
	return u->family == AF_INET ? set_int(u->fd, IPPROTO_IP, IP_PKTINFO, 1)
				    : set_int(u->fd, IPPROTO_IPV6, IPV6_RECVPKTINFO, 1);
}

static int set_everywhere(struct fan_udp *u)
{
	u->locals = calloc(1, sizeof *u->locals);
	return u->locals ? set_info(u) : -ENOMEM;
}

static void set_offloads(struct fan_udp *u, bool plain)
{
	int size = 0;
	socklen_t len = sizeof size;
	if (plain)
		return;
	u->segment = getsockopt(u->fd, IPPROTO_UDP, UDP_SEGMENT, &size, &len) == 0;
	u->gro = set_int(u->fd, IPPROTO_UDP, UDP_GRO, 1) == 0;
}

/* Become a member of group `g` on `interface`, and of no other that a process on
 * this host may have joined. */
static int join_group(const struct fan_udp *u, const fan_peer *g, unsigned interface)
{
	const uint8_t *b = (const uint8_t *)g->addr;
	if (u->family == AF_INET) {
		struct ip_mreqn m = {.imr_ifindex = (int)interface};
		memcpy(&m.imr_multiaddr, b + 12, 4);
		set_int(u->fd, IPPROTO_IP, IP_MULTICAST_ALL, 0);
		return setsockopt(u->fd, IPPROTO_IP, IP_ADD_MEMBERSHIP, &m, sizeof m) ? -errno : 0;
	}
	struct ipv6_mreq m = {.ipv6mr_interface = interface};
	memcpy(&m.ipv6mr_multiaddr, b, 16);
	set_int(u->fd, IPPROTO_IPV6, IPV6_MULTICAST_ALL, 0);
	return setsockopt(u->fd, IPPROTO_IPV6, IPV6_JOIN_GROUP, &m, sizeof m) ? -errno : 0;
}

static int bind_and_connect(struct fan_udp *u, const struct fan_udp_options *o)
{
	struct sockaddr_storage ss = {.ss_family = (sa_family_t)u->family};
	socklen_t len =
		u->family == AF_INET ? sizeof(struct sockaddr_in) : sizeof(struct sockaddr_in6);
	int e;
	if (o->freebind_group && (e = set_int(u->fd, SOL_SOCKET, SO_REUSEADDR, 1)))
		return e;
	if (o->beside && (e = set_int(u->fd, SOL_SOCKET, SO_REUSEPORT, 1)))
		return e;
	if (!fan_peer_is_none(&o->bind))
		len = fan_peer_to_sockaddr(&o->bind, u->family, &ss);
	if (!len)
		return -EAFNOSUPPORT;
	if (bind(u->fd, (struct sockaddr *)&ss, len))
		return -errno;
	if (o->freebind_group && (e = join_group(u, &o->bind, o->interface)))
		return e;
	if (fan_peer_is_none(&o->connect))
		return 0;
	len = fan_peer_to_sockaddr(&o->connect, u->family, &ss);
	if (!len)
		return -EAFNOSUPPORT;
	return connect(u->fd, (struct sockaddr *)&ss, len) ? -errno : 0;
}

/* Any port on [::] is no address at all. */
static bool is_everywhere(const struct fan_udp_options *o)
{
	return fan_peer_is_none(&o->connect) && fan_peer_is_any(&o->bind);
}

int fan_udp_open(struct fan_udp *u, const struct fan_udp_options *o)
{
	bool everywhere = is_everywhere(o);
	memset(u, 0, sizeof *u);
	u->bound = o->bind;
	u->family = fan_peer_family(fan_peer_is_none(&o->bind) ? &o->connect : &o->bind);
	u->dual = everywhere && u->family == AF_INET6;
	u->fd = socket(u->family, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (u->fd < 0)
		return -errno;
	set_path(u);
	set_ecn(u);
	set_offloads(u, o->plain);
	u->sndbuf = set_buffer(u->fd, SO_SNDBUFFORCE, SO_SNDBUF, o->buffer_bytes);
	u->rcvbuf = set_buffer(u->fd, SO_RCVBUFFORCE, SO_RCVBUF, o->buffer_bytes);
	int e = everywhere ? set_everywhere(u) : o->inlets ? set_info(u) : 0;
	if (!e)
		e = bind_and_connect(u, o);
	if (e)
		fan_udp_close(u);
	return e;
}

/* The first was bound without the option: so a port that another program has is an error, also if
 * that program shares it. */
int fan_udp_share(const struct fan_udp *u)
{
	assert(u->fd >= 0);
	return set_int(u->fd, SOL_SOCKET, SO_REUSEPORT, 1);
}

int fan_udp_spread(const struct fan_udp *u, unsigned sockets)
{
	assert(sockets > 0);
	struct sock_filter code[] = {
		BPF_STMT(BPF_LD | BPF_B | BPF_ABS, SENDER_AT),
		BPF_STMT(BPF_ALU | BPF_MOD | BPF_K, sockets),
		BPF_STMT(BPF_RET | BPF_A, 0),
	};
	struct sock_fprog program = {.len = sizeof code / sizeof *code, .filter = code};
	if (setsockopt(u->fd, SOL_SOCKET, SO_ATTACH_REUSEPORT_CBPF, &program, sizeof program))
		return -errno;
	return 0;
}

bool fan_udp_is_told(int e)
{
	switch (e) {
	case ECONNREFUSED:
	case EHOSTUNREACH:
	case ENETUNREACH:
	case EMSGSIZE:
	case ENOPROTOOPT:
	case EOPNOTSUPP:
	case EHOSTDOWN:
	case ENONET:
	case EPROTO:
	case EACCES: return true;
	default: return false;
	}
}

bool fan_udp_is_refused(int e)
{
	return e == EPERM || e == EACCES || e == ENOSYS;
}

void fan_udp_close(struct fan_udp *u)
{
	if (u->fd >= 0)
		close(u->fd);
	u->fd = -1;
	free(u->locals);
	u->locals = NULL;
	for (unsigned i = 0; i < FAN_UDP_RING_PAIRS; i++) {
		if (u->pair[i])
			fan_ring_pair_close(u->pair[i]);
		u->pair[i] = NULL;
	}
}

fan_peer fan_udp_local(const struct fan_udp *u)
{
	struct sockaddr_storage ss;
	socklen_t len = sizeof ss;
	memset(&ss, 0, sizeof ss);
	getsockname(u->fd, (struct sockaddr *)&ss, &len);
	return fan_peer_from_sockaddr((struct sockaddr *)&ss, len);
}

/* Room for the ancillary data of a receive. */
union control {
	char bytes[2 * CMSG_SPACE(sizeof(int)) + CMSG_SPACE(sizeof(struct in6_pktinfo))];
	struct cmsghdr align;
};

/* The ancillary data of a receive. */
struct notes {
	size_t segment;	   /* size of each datagram; 0: there is one */
	bool local;	   /* `addr` is the address that it was sent to */
	uint64_t addr[2];  /* as in fan_peer */
	unsigned ip_field; /* TOS or traffic class */
	unsigned index;	   /* of the interface that it came by; 0: not known */
};

static void note_v4_address(struct notes *n, const struct cmsghdr *c)
{
	struct sockaddr_in in = {.sin_family = AF_INET};
	struct in_pktinfo i;
	memcpy(&i, CMSG_DATA(c), sizeof i);
	in.sin_addr = i.ipi_spec_dst;
	n->index = (unsigned)i.ipi_ifindex;
	fan_peer p = fan_peer_from_sockaddr((struct sockaddr *)&in, sizeof in);
	memcpy(n->addr, p.addr, sizeof n->addr);
	n->local = true;
}

static void note_v6_address(struct notes *n, const struct cmsghdr *c)
{
	struct in6_pktinfo i;
	memcpy(&i, CMSG_DATA(c), sizeof i);
	memcpy(n->addr, &i.ipi6_addr, sizeof n->addr);
	n->index = i.ipi6_ifindex;
	n->local = true;
}

static void note(struct notes *n, const struct cmsghdr *c)
{
	int v;
	if (c->cmsg_level == IPPROTO_UDP && c->cmsg_type == UDP_GRO) {
		memcpy(&v, CMSG_DATA(c), sizeof v);
		n->segment = v > 0 ? (size_t)v : 0;
	} else if (c->cmsg_level == IPPROTO_IP && c->cmsg_type == IP_TOS) {
		n->ip_field = *(const uint8_t *)CMSG_DATA(c);
	} else if (c->cmsg_level == IPPROTO_IPV6 && c->cmsg_type == IPV6_TCLASS) {
		memcpy(&v, CMSG_DATA(c), sizeof v);
		n->ip_field = (unsigned)v;
	} else if (c->cmsg_level == IPPROTO_IP && c->cmsg_type == IP_PKTINFO) {
		note_v4_address(n, c);
	} else if (c->cmsg_level == IPPROTO_IPV6 && c->cmsg_type == IPV6_PKTINFO) {
		note_v6_address(n, c);
	}
}

/* Zeros: it is not known. */
static void read_memory(const struct fan_udp *u, uint32_t info[SK_MEMINFO_VARS])
{
	socklen_t len = SK_MEMINFO_VARS * sizeof *info;
	memset(info, 0, len);
	if (getsockopt(u->fd, SOL_SOCKET, SO_MEMINFO, info, &len))
		memset(info, 0, SK_MEMINFO_VARS * sizeof *info);
}

unsigned fan_udp_backlog_percent(const struct fan_udp *u)
{
	uint32_t info[SK_MEMINFO_VARS];
	read_memory(u, info);
	if (!info[SK_MEMINFO_RCVBUF])
		return 0;
	return (unsigned)((uint64_t)info[SK_MEMINFO_RMEM_ALLOC] * 100 / info[SK_MEMINFO_RCVBUF]);
}

uint32_t fan_udp_overflows(const struct fan_udp *u)
{
	uint32_t info[SK_MEMINFO_VARS];
	read_memory(u, info);
	return info[SK_MEMINFO_DROPS];
}

static void add_inlet(struct fan_inlets *i, const struct fan_inlet *more)
{
	unsigned k = 0;
	while (k < FAN_INLETS_MAX && i->of[k].index && i->of[k].index != more->index)
		k++;
	if (k == FAN_INLETS_MAX) {
		i->full = true;
		return;
	}
	i->of[k].index = more->index;
	i->of[k].datagrams += more->datagrams;
	i->of[k].bytes += more->bytes;
}

void fan_inlets_join(struct fan_inlets *to, const struct fan_inlets *more)
{
	for (unsigned i = 0; i < FAN_INLETS_MAX && more->of[i].index; i++)
		add_inlet(to, &more->of[i]);
	to->full |= more->full;
}

int fan_udp_recv(struct fan_udp *u, uint8_t *buf, struct fan_udp_batch *b)
{
	struct sockaddr_storage ss;
	struct iovec iov = {buf, FAN_UDP_RECV_BYTES};
	union control control;
	struct notes notes = {.segment = 0};
	struct msghdr m = {.msg_name = &ss,
			   .msg_namelen = sizeof ss,
			   .msg_iov = &iov,
			   .msg_iovlen = 1,
			   .msg_control = &control,
			   .msg_controllen = sizeof control};
	ssize_t n = recvmsg(u->fd, &m, 0);
	u->recvs++;
	if (n < 0 && (errno == EAGAIN || errno == EINTR))
		return 0;
	if (n < 0 && !fan_udp_is_told(errno))
		u->last_errno = errno;
	if (n < 0)
		return -errno;
	for (struct cmsghdr *c = CMSG_FIRSTHDR(&m); c; c = CMSG_NXTHDR(&m, c))
		note(&notes, c);
	b->from = fan_peer_from_sockaddr((struct sockaddr *)&ss, m.msg_namelen);
	if (u->locals && notes.local)
		fan_locals_put(u->locals, &b->from, notes.addr);
	b->bytes = (size_t)n;
	b->marked = (notes.ip_field & IPTOS_ECN_MASK) == IPTOS_ECN_CE;
	b->segment = notes.segment;
	if (b->segment == 0 || b->segment > b->bytes)
		b->segment = b->bytes ? b->bytes : 1;
	const struct fan_inlet in = {
		.index = notes.index,
		.datagrams = b->bytes ? (b->bytes + b->segment - 1) / b->segment : 1,
		.bytes = b->bytes,
	};
	u->bytes_in += in.bytes;
	u->datagrams_in += in.datagrams;
	if (in.index)
		add_inlet(&u->inlets, &in);
	return 1;
}
