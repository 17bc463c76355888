/* SPDX-License-Identifier: Apache-2.0 */
/* connection.h - a worker of the core with its sockets, to one shard of a switch.
 *
 * The connection of shard i uses the switch's port + i.  Only the progress thread uses it, without
 * a lock.  Its sockets report to the communicator's epoll by its number n: 2 * n for the connected
 * socket, 2 * n + 1 for the multicast group. */
#ifndef FAN_LIB_LINK_CONNECTION_H
#define FAN_LIB_LINK_CONNECTION_H

#include "core/worker/worker.h"
#include "lib/base/op.h"
#include "net/echo.h"
#include "net/mtu_probe.h"
#include "net/udp.h"
#include "seal/rank.h"

#define FAN_CONNECTION_BATCHES_MAX  4		/* receives of one socket between two sends */
#define FAN_CONNECTION_OUT_MAX	    128		/* datagrams of one tick */
#define FAN_CONNECTION_SCRATCH_MAX  (256 << 10) /* bytes of converted payloads of one tick */
#define FAN_CONNECTION_BUFFER_BYTES (4 << 20)	/* requested for each direction of a socket */
#define FAN_CONNECTION_WHY_BYTES    256
#define FAN_CONNECTION_RING_PAIR    (UINT32_MAX - 2) /* number of ring pairs in epoll */
#define FAN_CONNECTION_CREDIT_NS    (2 * FAN_MS) /* sent at once after a pause, at the rate limit */
#define FAN_CONNECTION_HOLD_NS	    (50 * FAN_MS) /* longest delay of a datagram by the rate limit */
#define FAN_CONNECTION_FRAME_BYTES  14	/* of an Ethernet header, which link rates include */
#define FAN_FAILOVER_JOIN_MS	    500 /* without a WELCOME, until the switch is asked */

/* Buffers that all connections of a communicator use in turn. */
struct fan_connection_io {
	uint8_t recv[FAN_UDP_RECV_BYTES];
	struct fan_out_item item[FAN_CONNECTION_OUT_MAX];
	uint8_t *scratch; /* scratch_bytes; 64-byte aligned */
	size_t scratch_bytes;
	uint8_t *sealed; /* `stride` bytes for each item; NULL: jobs are open */
	size_t stride;
	struct fan_out out;
};

/* Its switch, and the path past one that is silent (failover.c). */
struct fan_failover {
	struct fan_echo_asker echo; /* of the switch */
	bool answered;		    /* by the switch, since something else came */
	bool at_server;
	struct fan_udp aside; /* at the server: the socket to the switch; fd -1: none */
	uint64_t stay_ns;     /* it does not return before */
	uint64_t heard_ns;    /* last packet on this path, or when it was taken */
	uint64_t look_ns; /* time of the next choice at the latest; later: this rank has slept */
	uint64_t moves;	  /* changes of path so far */
};

struct fan_connection {
	struct fan_worker *w;	    /* in memory of its own; NULL: not open */
	struct fan_seal_rank *seal; /* NULL: the job is open */
	struct fan_udp udp;	    /* connected to the switch */
	struct fan_udp group;	    /* fd -1: not listening */
	fan_peer switch_addr;	    /* of this shard */
	fan_peer server_addr;	    /* of this shard; none: no failover */
	struct fan_failover failover;
	struct fan_mtu_probe mtu_probe;
	/* a token bucket, which counts all headers */
	struct {
		double ns_per_byte; /* 0: no limit */
		uint64_t free_ns;   /* time of the next datagram */
	} rate_limit;
	unsigned shard;	   /* of its part's switch */
	unsigned part;	   /* index of the communicator's part */
	unsigned number;   /* index among the communicator's connections */
	uint32_t stall_ms; /* the stall time */
	bool behind;	   /* it has not moved to its part's route yet */
	uint64_t again_ns; /* time of the next try to join; 0: none */
	unsigned refusals; /* so often an earlier life may have had its rank */
	int epoll_fd;
	fan_peer group_at;     /* the one that was tried last */
	bool refused;	       /* ICMP has reported a closed port, and no packet has come since */
	bool by_group;	       /* results have come by multicast */
	bool news;	       /* a datagram or an operation awaits a tick */
	int short_mtu;	       /* of the route, which takes no full fragment; 0: it does */
	int io_errno;	       /* error of the socket; 0: none */
	uint64_t company_ns;   /* since when another rank has been in, if short_mtu; 0: none is */
	size_t bytes;	       /* of the worker's memory */
	uint32_t packet_bytes; /* header and payload of a full fragment */
	uint8_t *kept;	       /* the last result of each slot, with its length; NULL: none are */
	size_t kept_bytes;     /* of each */
};

/* Room for datagrams of `payload_bytes`, of sealed jobs if `sealed`.  NULL: no memory. */
struct fan_connection_io *fan_connection_io_new(uint16_t payload_bytes, bool sealed);
void fan_connection_io_free(struct fan_connection_io *io);

/* Open the sockets to shard `shard` of the switch at `addr` and begin to join, with the tenant's
 * key `key` (NULL: the job is open).  FAN_OK, or an error with its sentence in `why`,
 * FAN_CONNECTION_WHY_BYTES: FAN_E_NOMEM, FAN_E_INVALID, FAN_E_SYSTEM, FAN_E_UNREACHABLE (no route).
 * If a full fragment is larger than the route takes, it joins, and the communicator must fail when
 * all have, so that they are told. */
int fan_connection_open(struct fan_connection *cn, const struct fan_worker_config *cfg,
			const fan_peer *addr, const uint8_t *key, uint64_t now_ns, char *why);
void fan_connection_close(struct fan_connection *cn);

struct fan_daemon;

/* If the switch is `d`, in this process, datagrams go there past the kernel (net/ring_pair.h) from
 * now on. */
void fan_connection_shorten(struct fan_connection *cn, struct fan_daemon *d);

/* Handle what has come by a connection's ring pair; true if a fragment has finished. */
bool fan_connection_recv_rings(struct fan_connection *cn);

/* Keep the last result of each slot from now on, for ranks that lack it when the aggregator is lost
 * (regroup.c).  The connection has been welcomed. */
void fan_connection_keep(struct fan_connection *cn);

/* The last result of slot `slot`, `*bytes` long; NULL: none has been kept. */
const uint8_t *fan_connection_kept(const struct fan_connection *cn, uint32_t slot, uint32_t *bytes);

/* Report to epoll by another number, and leave the group. */
void fan_connection_renumber(struct fan_connection *cn, unsigned number);

/* When the rate limit permits the next datagram; 0: at once. */
uint64_t fan_connection_free_ns(const struct fan_connection *cn);

/* Open a socket to `to`.  0, or -errno. */
int fan_connection_dial(const fan_peer *to, struct fan_udp *u);

/* Continue by the socket `u`, on route `route`: JOINs from it announce the path to the same
 * aggregator.  The former socket is `*u` then.  FAN_OK; or an error, and nothing has changed. */
int fan_connection_go_on_by(struct fan_connection *cn, struct fan_udp *u, uint16_t route,
			    uint64_t now_ns);

/* The same by a new socket to `to`, where the route begins. */
int fan_connection_move(struct fan_connection *cn, const fan_peer *to, uint16_t route,
			uint64_t now_ns);

/* Try once to listen to the multicast group that the switch offers, if it does; again if it offers
 * another.  Without the group, results come by unicast. */
void fan_connection_listen(struct fan_connection *cn);

/* Handle datagrams of one of the sockets, at most FAN_CONNECTION_BATCHES_MAX batches.  True if a
 * fragment has finished. */
bool fan_connection_recv(struct fan_connection *cn, struct fan_connection_io *io, bool by_group);

/* Send all that can be sent now.  The path is tested where what is sent brings no result. */
void fan_connection_send(struct fan_connection *cn, struct fan_connection_io *io, uint64_t now_ns);

/* Bytes of a full fragment with the headers of IP and UDP. */
uint32_t fan_connection_ip_bytes(const struct fan_connection *cn);

/* Something other than an answer to an ECHO has come. */
void fan_failover_came(struct fan_connection *cn, uint64_t now_ns);

/* Is datagram `pkt` an answer of the switch to an ECHO?  It is noted then. */
bool fan_failover_heard(struct fan_failover *f, const uint8_t *pkt, size_t len);

/* Ask the switch, if that is due.  Leave a path that is being stopped, or has been silent for three
 * heartbeats, and return to a switch that answers. */
void fan_failover_work(struct fan_connection *cn, uint64_t now_ns);

/* Time of the next work; UINT64_MAX: never. */
uint64_t fan_failover_deadline(const struct fan_connection *cn);

#endif
