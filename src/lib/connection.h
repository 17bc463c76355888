/* SPDX-License-Identifier: Apache-2.0 */
/* connection.h - one worker of the core, with its sockets: on one shard of the switch, or of what a
 * plan has for one part of each tensor.
 *
 * The connection of shard i talks to the switch's port + i.  It is used by the progress thread
 * alone and has no lock.  Its sockets report to the communicator's epoll with its number n:
 * 2 * n for the connected socket, 2 * n + 1 for the multicast group. */
#ifndef FAN_LIB_CONNECTION_H
#define FAN_LIB_CONNECTION_H

#include "core/worker/worker.h"
#include "net/udp.h"
#include "op.h"

#define FAN_CONNECTION_BATCHES_MAX  4	/* receives of one socket before it is time to send */
#define FAN_CONNECTION_OUT_MAX	    128 /* datagrams of one tick */
#define FAN_CONNECTION_SCRATCH_MAX  (256 << 10) /* bytes of converted payloads of one tick */
#define FAN_CONNECTION_BUFFER_BYTES (4 << 20)	/* asked for each direction of a socket */
#define FAN_CONNECTION_WHY_BYTES    256
#define FAN_CONNECTION_CREDIT_NS    (2 * FAN_MS) /* sent at once after a pause, at the rate limit */
#define FAN_CONNECTION_HOLD_NS	    (50 * FAN_MS) /* longest delay of a datagram by the rate limit */
#define FAN_CONNECTION_FRAME_BYTES  14		  /* of Ethernet, which link rates count */

/* Buffers that all connections of a communicator use in turn. */
struct fan_connection_io {
	uint8_t recv[FAN_UDP_RECV_BYTES];
	struct fan_out_item item[FAN_CONNECTION_OUT_MAX];
	uint8_t *scratch; /* scratch_bytes; 64-byte aligned */
	size_t scratch_bytes;
	struct fan_out out;
};

/* By which way the connection goes: through the switch, or past it to the server.  way.c. */
struct fan_connection_way {
	struct fan_udp aside; /* at the server: to the switch, to see whether it is back */
	bool at_server;
	uint64_t heard_ns; /* last packet by this way, or when it was taken */
	uint64_t ask_ns;   /* when the switch is asked next */
	uint64_t moves;
};

/* A token bucket, which counts all headers. */
struct fan_rate_limit {
	double ns_per_byte; /* 0: no limit */
	uint64_t free_ns;   /* when the next datagram may go */
};

struct fan_connection {
	struct fan_worker *w; /* in memory of its own; NULL: not open */
	struct fan_udp udp;   /* connected to the switch */
	struct fan_udp group; /* fd -1: not listening */
	fan_peer switch_addr; /* of this shard */
	fan_peer server_addr; /* likewise; none: there is no other way */
	struct fan_connection_way way;
	struct fan_rate_limit rate_limit;
	struct fan_cut cut; /* what it has of each tensor */
	unsigned part;	    /* of the communicator's */
	unsigned number;    /* among its connections */
	bool behind;	    /* it is to go by another route, and has had no socket */
	uint64_t again_ns;  /* its JOIN is tried again then; 0: it is not */
	int epoll_fd;
	bool plain;
	bool group_tried;
	bool refused;	       /* ICMP: the switch's port is closed; until it answers */
	bool by_group;	       /* results have come by multicast */
	bool news;	       /* something came in or was started: tick */
	int io_errno;	       /* the socket is broken */
	size_t bytes;	       /* of the worker's memory */
	uint32_t packet_bytes; /* header and payload of a full fragment */
};

/* Room for datagrams of `payload_bytes`.  NULL: no memory. */
struct fan_connection_io *fan_connection_io_new(uint16_t payload_bytes);
void fan_connection_io_free(struct fan_connection_io *io);

/* Open the sockets to shard `cut.shard` of the switch at `addr` and begin to join.  FAN_OK, or an
 * error with its sentence in `why`, FAN_CONNECTION_WHY_BYTES: FAN_E_NOMEM, FAN_E_INVALID,
 * FAN_E_SYSTEM, FAN_E_UNREACHABLE (no route), FAN_E_MTU (a full fragment is larger than the route
 * takes). */
int fan_connection_open(struct fan_connection *cn, const struct fan_worker_config *cfg,
			const fan_peer *addr, uint64_t now_ns, char *why);
void fan_connection_close(struct fan_connection *cn);

/* Send at most `gbps`; 0: no rate limit. */
void fan_connection_set_rate_limit(struct fan_connection *cn, double gbps);

/* When the rate limit permits the next datagram; 0: at once. */
uint64_t fan_connection_free_ns(const struct fan_connection *cn);

/* Go on by route `route`, to which the switch at `addr` is the way: the same aggregator is told by
 * JOINs from a new socket.  FAN_OK; or an error, and nothing has changed. */
int fan_connection_move(struct fan_connection *cn, const fan_peer *addr, uint16_t route,
			uint64_t now_ns);

/* Listen to the multicast group that the switch offers, if it does and once.  A group
 * that cannot be joined is done without: results then come by unicast. */
void fan_connection_listen(struct fan_connection *cn);

/* Leave a way that has been silent, and come back to the switch when it answers. */
void fan_way_choose(struct fan_connection *cn, struct fan_connection_io *io, uint64_t now_ns);
uint64_t fan_way_deadline(const struct fan_connection *cn);

/* Let the communicator's epoll hear the connected socket.  FAN_OK, or -errno. */
int fan_connection_watch(const struct fan_connection *cn);

/* And no longer hear `u`. */
void fan_connection_ignore(const struct fan_connection *cn, const struct fan_udp *u);

/* Take in what has arrived at one of the sockets, FAN_CONNECTION_BATCHES_MAX batches at most.
 * Returns true if a fragment was finished. */
bool fan_connection_recv(struct fan_connection *cn, struct fan_connection_io *io, bool by_group);

/* Send all that can be sent now. */
void fan_connection_send(struct fan_connection *cn, struct fan_connection_io *io, uint64_t now_ns);

/* The socket has refused a full fragment: beyond the path MTU.  Then the MTU is `*mtu`,
 * 0 if it is not known. */
bool fan_connection_too_long(const struct fan_connection *cn, int *mtu);

/* The sentence for a full fragment that `mtu` does not take. */
void fan_connection_mtu_text(const struct fan_connection *cn, int mtu, char *why);

#endif
