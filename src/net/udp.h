/* SPDX-License-Identifier: Apache-2.0 */
/* udp.h - datagram sockets in batches: UDP_SEGMENT out, UDP_GRO in.
 *
 * The heart of the speed.  One call takes in up to 64 KiB of equal-sized datagrams of
 * one sender, one call sends a run of equal-sized datagrams to one receiver, gathered
 * from headers and payloads by iovec without a copy.  Where the kernel refuses
 * (UDP_SEGMENT or UDP_GRO unknown, EIO, EINVAL), the socket falls back to plain
 * datagrams, sendmmsg, and remembers so that it can be said.
 *
 * What leaves says ECT(0) in its IP header (RFC 3168), so that queues may mark it. */
#ifndef FAN_UDP_H
#define FAN_UDP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/socket.h>

#include "locals.h"

#define FAN_UDP_RECV_BYTES 65536 /* what one receive brings at most */
#define FAN_UDP_SEND_BYTES 65000 /* what one send carries at most, all headers fit on top */
#define FAN_UDP_BURST_MAX  64	 /* segments of one send; the kernel's bound is 64 or 128 */
#define FAN_UDP_ROUTES_MAX 8	 /* multicast interfaces that a socket remembers */
#define FAN_UDP_HOPS	   8	 /* routers that a multicast result may cross */
#define FAN_UDP_WAIT_MS	   1	 /* one wait for a full send queue... */
#define FAN_UDP_WAITS_MAX  20	 /* ...and how many of them one fan_udp_send allows itself */

/* An address for the core and back.  The 16 bytes of `addr` are an IPv6 address in
 * network order, IPv4 as v4-mapped; the port is in host order.  Back: 0 if the address
 * is not of `family` (AF_UNSPEC: either). */
fan_peer fan_peer_from_sockaddr(const struct sockaddr *sa, socklen_t len);
socklen_t fan_peer_to_sockaddr(const fan_peer *p, int family, struct sockaddr_storage *ss);

/* The same for an IPv6 socket that also serves IPv4: an address of either family. */
socklen_t fan_peer_to_mapped(const fan_peer *p, struct sockaddr_storage *ss);

/* AF_INET for a v4-mapped address, else AF_INET6; whether it is 0.0.0.0 or ::. */
int fan_peer_family(const fan_peer *p);
bool fan_peer_is_any(const fan_peer *p);

/* Parse "HOST:PORT", "[V6]:PORT" or "[V6%IF]:PORT".  Names are resolved; one that has
 * both families gives IPv4.
 * 0, or -1 with a text of what was expected in `why`, `bytes` bytes. */
int fan_peer_parse(fan_peer *p, const char *text, char *why, size_t bytes);

/* The same where no name is looked up.  False: it is no address and port. */
bool fan_peer_read(fan_peer *p, const char *text);

/* "10.0.0.1:5000" or "[fd00::1]:5000" into `text`, at least 80 bytes; returns it. */
const char *fan_peer_text(const fan_peer *p, char *text, size_t bytes);

/* A member's address and the interface that leads to it, remembered. */
struct fan_udp_route {
	fan_peer via;
	unsigned index;
	fan_peer local; /* our address there */
};

/* A socket.  Fields are the implementation's but for reading. */
struct fan_udp {
	int fd;
	int family;	       /* AF_INET or AF_INET6 */
	bool dual;	       /* AF_INET6, and IPv4 too */
	bool segment;	       /* UDP_SEGMENT works */
	bool gro;	       /* UDP_GRO works */
	int sndbuf, rcvbuf;    /* bytes the kernel granted (as getsockopt tells, halved) */
	uint64_t sends, recvs; /* system calls */
	uint64_t datagrams_out, datagrams_in;
	uint64_t send_drops; /* datagrams given up: queue stayed full, too long, ... */
	int last_errno;	     /* of the last refused send; EMSGSIZE: beyond the path MTU */
	struct fan_udp_route route[FAN_UDP_ROUTES_MAX];
	unsigned route_next;	   /* the entry to overwrite next */
	struct fan_locals *locals; /* on every interface: as whom to answer; else NULL */
};

struct fan_udp_options {
	fan_peer bind;	     /* local address; port 0: any; none: by the family of `connect` */
	fan_peer connect;    /* workers: the switch; then only its datagrams come in */
	int buffer_bytes;    /* SO_SNDBUF and SO_RCVBUF wanted; *FORCE is tried first */
	bool plain;	     /* do not try UDP_SEGMENT and UDP_GRO (also: FANIN_PLAIN_UDP=1) */
	bool freebind_group; /* bind is a multicast group: join it on the interface
			      * `interface`, SO_REUSEADDR, IP_MULTICAST_ALL off */
	unsigned interface;  /* index */
};

/* Open a non-blocking socket.  0, or -errno.
 *
 * One that is bound to 0.0.0.0 or [::] and not connected answers each peer from the
 * address that the peer sent to, and multicasts from the one that group->via sent to.  On
 * [::] it serves IPv4 as well. */
int fan_udp_open(struct fan_udp *u, const struct fan_udp_options *o);
void fan_udp_close(struct fan_udp *u);

/* The local address. */
fan_peer fan_udp_local(const struct fan_udp *u);

/* The largest IP packet that the path to `to` takes, as far as it is known; 0: not known.
 * Sends nothing. */
int fan_udp_mtu_to(const fan_peer *to);

/* The index of the interface that leads to `to`, 0: not known; and our address there
 * in `local` unless that is NULL.  Sends nothing. */
unsigned fan_udp_interface_to(const fan_peer *to, fan_peer *local);

/* How full the receive queue is, by the kernel's own count, which includes its overhead;
 * 0 if it does not tell. */
unsigned fan_udp_backlog_percent(const struct fan_udp *u);

/* What one receive brought: `bytes` bytes from `from`, in datagrams of `segment`
 * bytes, the last one perhaps shorter.  `segment` is at least 1. */
struct fan_udp_batch {
	fan_peer from;
	size_t bytes;
	size_t segment;
	bool marked; /* CE in the IP header of all of them: a queue on the way is long */
};

/* Bytes of the datagram that begins at `offset` of a batch. */
static inline size_t fan_udp_datagram_bytes(const struct fan_udp_batch *b, size_t offset)
{
	return b->bytes - offset < b->segment ? b->bytes - offset : b->segment;
}

/* Receive into `buf`, FAN_UDP_RECV_BYTES bytes.  1: a batch; 0: nothing there;
 * negative: -errno (ICMP errors such as ECONNREFUSED are returned once). */
int fan_udp_recv(struct fan_udp *u, uint8_t *buf, struct fan_udp_batch *b);

/* Send every item of `out`, in order for each receiver, and reset it.  Runs of items
 * with one receiver and one size leave in one call.  Items to a group leave by
 * multicast where group->multicast, else once per member; those to the parent go to
 * item->peer, which the caller has set.  `to_connected`: the socket
 * is connected and item->peer is not looked at.  A full queue is waited for a few
 * milliseconds, then datagrams are dropped and counted: the protocol recovers. */
void fan_udp_send(struct fan_udp *u, struct fan_out *out, bool to_connected);

#endif
