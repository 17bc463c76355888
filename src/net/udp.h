/* SPDX-License-Identifier: Apache-2.0 */
/* udp.h - datagram sockets in batches: UDP_SEGMENT out, UDP_GRO in.
 *
 * One call receives up to 64 KiB of equal-sized datagrams of one sender; one call sends
 * a run of equal-sized datagrams to one receiver, gathered from headers and payloads by
 * iovec without a copy.  Where the kernel refuses (UDP_SEGMENT or UDP_GRO unknown, EIO,
 * EINVAL), the socket falls back to plain datagrams by sendmmsg, or where that is refused by
 * sendmsg, as its fields show.
 *
 * Datagrams have ECT(0) in the IP header (RFC 3168), so that queues may mark them. */
#ifndef FAN_UDP_H
#define FAN_UDP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/socket.h>

#include "core/base/out.h"
#include "ring_pair.h"

#define FAN_UDP_RECV_BYTES	 65536 /* most bytes of one receive */
#define FAN_UDP_SEND_BYTES	 65000 /* most bytes of one send, without lower headers */
#define FAN_UDP_BURST_MAX	 64    /* segments of one send; the kernel's bound is 64 or 128 */
#define FAN_UDP_ROUTES_MAX	 8     /* multicast interfaces cached by a socket */
#define FAN_INLETS_MAX		 8     /* interfaces by which a socket counts what comes */
#define FAN_UDP_HOPS		 8     /* routers that a multicast result may cross */
#define FAN_UDP_WAIT_MS		 1     /* of one wait for a full send queue */
#define FAN_UDP_WAITS_MAX	 20    /* such waits in one fan_udp_send */
#define FAN_UDP_WAITS_INSIDE_MAX 200   /* with ranks inside, which may end before a second try */
#define FAN_UDP_RING_PAIRS	 8     /* of a socket to ranks in its own process */
#define FAN_UDP_TOLD_MAX	 8     /* tries of one datagram while ICMP messages refuse it */

/* Convert between socket addresses and the core's (out.h).  fan_peer_to_sockaddr returns the
 * length, or 0 if the address is not of `family` (AF_UNSPEC: either). */
fan_peer fan_peer_from_sockaddr(const struct sockaddr *sa, socklen_t len);
socklen_t fan_peer_to_sockaddr(const fan_peer *p, int family, struct sockaddr_storage *ss);

/* The address of an interface, by getifaddrs(3); none if it is of another family. */
struct ifaddrs;
fan_peer fan_peer_of_interface(const struct ifaddrs *i);

/* As fan_peer_to_sockaddr, for an IPv6 socket that also serves IPv4: any address. */
socklen_t fan_peer_to_mapped(const fan_peer *p, struct sockaddr_storage *ss);

/* AF_INET for a v4-mapped address, otherwise AF_INET6; and: is it 0.0.0.0 or ::? */
int fan_peer_family(const fan_peer *p);
bool fan_peer_is_any(const fan_peer *p);

/* Is it an address that the Internet may know: neither private, nor of a link, nor of this host? */
bool fan_peer_is_public(const fan_peer *p);

/* Parse "HOST:PORT", "[V6]:PORT" or "[V6%IF]:PORT".  Names are resolved, to IPv4 if they have both
 * families.  0; or with the error in `why`, `bytes` bytes, FAN_PEER_UNKNOWN: the name is unknown,
 * which may change; or -1. */
#define FAN_PEER_UNKNOWN (-2)
int fan_peer_parse(fan_peer *p, const char *text, char *why, size_t bytes);

/* As fan_peer_parse, with all addresses of the name that are of the first one's family: `*count`
 * of them, at most `max`. */
int fan_peer_parse_all(fan_peer *p, unsigned max, unsigned *count, const char *text, char *why,
		       size_t bytes);

/* Whether that is the form of `text`, with a port from 1 on; names are not looked up.  0, or -1
 * with the error in `why`. */
int fan_peer_check(const char *text, char *why, size_t bytes);

/* As fan_peer_parse, for numeric addresses.  False: it is no address and port. */
bool fan_peer_read(fan_peer *p, const char *text);

/* Write "10.0.0.1:5000" or "[fd00::1]:5000" to `text`, at least 80 bytes.  Returns `text`. */
const char *fan_peer_text(const fan_peer *p, char *text, size_t bytes);

/* Datagrams received, by interface. */
struct fan_inlets {
	struct fan_inlet {
		unsigned index;		   /* 0: none */
		uint64_t datagrams, bytes; /* without the headers of UDP and IP */
	} of[FAN_INLETS_MAX];
	bool full; /* there was no room for one */
};

/* Add what came by `more` to `*to`. */
void fan_inlets_join(struct fan_inlets *to, const struct fan_inlets *more);

/* Whether sendmmsg may be called. */
enum fan_udp_batching {
	FAN_UDP_UNTRIED,
	FAN_UDP_BATCHES, /* it has been done once: a refusal is of a packet */
	FAN_UDP_SINGLY,	 /* it is refused, and sendmsg is not */
};
/* The local address to which each peer sends.
 *
 * A socket on every interface receives datagrams for any address of the machine, but the
 * kernel answers from the one that the route prefers, which a peer that uses another one
 * ignores.  So such a socket stores here the address that each peer uses.
 *
 * A set-associative table of fixed size: in a full set the peer that has been silent the
 * longest is replaced.  For a peer that is not in the table the kernel chooses. */

#define FAN_LOCALS_SETS 512 /* times FAN_LOCALS_WAYS: twice FAN_MEMBERS_MAX */
#define FAN_LOCALS_WAYS 8

struct fan_locals {
	uint64_t puts;
	struct fan_local {
		fan_peer peer;
		uint64_t addr[2];  /* as in fan_peer; zero: free */
		uint64_t heard_at; /* `puts` of the table at its last datagram */
	} place[FAN_LOCALS_SETS][FAN_LOCALS_WAYS];
};

/* Note that `peer` has sent to the local address `addr`. */
void fan_locals_put(struct fan_locals *t, const fan_peer *peer, const uint64_t addr[2]);

/* The local address for `peer`, valid until the next put; NULL: not known. */
const uint64_t *fan_locals_get(const struct fan_locals *t, const fan_peer *peer);

/* Remove `peer`: its address no longer exists. */
void fan_locals_forget(struct fan_locals *t, const fan_peer *peer);

/* A socket.  Users only read the fields. */
struct fan_udp {
	int fd;
	int family;	       /* AF_INET or AF_INET6 */
	int sndbuf, rcvbuf;    /* bytes granted: half of getsockopt's value */
	uint64_t sends, recvs; /* system calls */
	uint64_t datagrams_out, datagrams_in;
	uint64_t bytes_out, bytes_in; /* of these, without the headers of UDP and IP */
	uint64_t send_drops;	      /* datagrams not sent: full queue, too long, other errors */
	struct fan_locals *locals;    /* of a socket on every interface; otherwise NULL */
	fan_peer bound;		      /* without `locals`: the address given to bind; or none */
	/* Datagrams to these ranks go there, if there is room; a connected socket has one, for all
	 * that it sends.  They are closed with the socket.  NULL: none. */
	struct fan_ring_pair *pair[FAN_UDP_RING_PAIRS];
	struct fan_inlets inlets;
	/* errno of the last refused send or receive; EMSGSIZE: beyond an interface's MTU. */
	int last_errno;
	/* A cached interface towards a member. */
	struct fan_udp_route {
		fan_peer via;
		unsigned index;
		fan_peer local; /* the local address on it */
	} route[FAN_UDP_ROUTES_MAX];
	unsigned route_next; /* the entry to overwrite next */
	bool dual;	     /* AF_INET6, and IPv4 too */
	bool segment;	     /* UDP_SEGMENT works */
	bool gro;	     /* UDP_GRO works */
	uint8_t batching;    /* enum fan_udp_batching */
};

struct fan_udp_options {
	fan_peer bind;	  /* local address; port 0: any; none: by the family of `connect` */
	fan_peer connect; /* of workers: the switch, the only sender then */
	int buffer_bytes; /* of SO_SNDBUF and SO_RCVBUF; *FORCE is tried first */
	bool plain;	  /* do not try UDP_SEGMENT and UDP_GRO */
	bool inlets;	  /* count what comes by each interface */
	bool beside; /* `bind` is the address of a socket that fan_udp_share has opened to others */
	/* `bind` is a multicast group: join it on `interface`, with SO_REUSEADDR and without
	 * IP_MULTICAST_ALL */
	bool freebind_group;
	unsigned interface; /* index */
};

/* Open a non-blocking socket.  0, or -errno.
 *
 * A socket that is bound to 0.0.0.0 or [::] and not connected answers each peer from the address
 * that the peer sends to, and multicasts from the one that group->via sends to.  On [::] it also
 * serves IPv4. */
int fan_udp_open(struct fan_udp *u, const struct fan_udp_options *o);
void fan_udp_close(struct fan_udp *u);

/* Let more sockets of this user have the address of `u`, which is bound: options.beside.  0, or
 * -errno. */
int fan_udp_share(const struct fan_udp *u);

/* Let the kernel give each datagram to number (sender in its header) modulo `sockets`, of 2 or more
 * sockets on the address of `u`, in the order of their opening and `u` first. Otherwise it chooses
 * by a hash of the addresses.  0, or -errno. */
int fan_udp_spread(const struct fan_udp *u, unsigned sockets);

/* The local address. */
fan_peer fan_udp_local(const struct fan_udp *u);

/* Is `e` an error that an ICMP message makes a connected socket return?  Anybody can send those, so
 * it proves nothing; the same errors can have a cause of this machine's own. */
bool fan_udp_is_told(int e);

/* Is `e` what a filter of system calls or of packets answers? */
bool fan_udp_is_refused(int e);

/* The MTU of the path to `to` as the kernel believes it, by ICMP messages, bytes; 0:
 * not known.  Sends nothing.  fan_next_hop_read (netlink.h) returns what is sure. */
int fan_udp_mtu_to(const fan_peer *to);

/* The index of the interface towards `to`, 0: not known; and the local address on it in `local`,
 * which may be NULL.  Sends nothing. */
unsigned fan_udp_interface_to(const fan_peer *to, fan_peer *local);

/* Fill of the receive queue in percent, by the kernel's count with its overhead; 0: not known. */
unsigned fan_udp_backlog_percent(const struct fan_udp *u);

/* Count the datagrams that the kernel has dropped because the receive queue was full, among others;
 * 0: not known. */
uint32_t fan_udp_overflows(const struct fan_udp *u);

/* The data of one receive: `bytes` bytes from `from`, in datagrams of `segment` >= 1
 * bytes, the last one perhaps shorter. */
struct fan_udp_batch {
	fan_peer from;
	size_t bytes;
	size_t segment;
	bool marked; /* CE in the IP header of all datagrams */
};

/* Bytes of the datagram that begins at `offset` of a batch. */
static inline size_t fan_udp_datagram_bytes(const struct fan_udp_batch *b, size_t offset)
{
	return b->bytes - offset < b->segment ? b->bytes - offset : b->segment;
}

/* Receive into `buf`, FAN_UDP_RECV_BYTES bytes.  1: a batch; 0: nothing there;
 * negative: -errno (those of fan_udp_is_told are returned once). */
int fan_udp_recv(struct fan_udp *u, uint8_t *buf, struct fan_udp_batch *b);

/* Send every item of `out`, in order for each receiver, and reset it.  Runs of items with
 * one receiver and one size leave in one call.  Items to a group leave by multicast with
 * group->multicast, otherwise once per member; those to the parent go to item->peer, which
 * the caller has set.  `to_connected`: the socket is connected, and item->peer is ignored.
 * Waits a few milliseconds for a full queue, then drops and counts datagrams: the protocol
 * recovers. */
void fan_udp_send(struct fan_udp *u, struct fan_out *out, bool to_connected);

/* Put the item, before it is sealed, into the ring pairs of all its receivers in this process, and
 * keep fan_udp_send from sending it to them.  It is shown with what fan_udp_send sends next. False:
 * one of them has no room, or there is none. */
bool fan_udp_put_inside(struct fan_udp *u, struct fan_out_item *it, bool to_connected);

#endif
