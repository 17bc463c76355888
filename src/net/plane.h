/* SPDX-License-Identifier: Apache-2.0 */
/* plane.h - a second path, past the sockets, by which a daemon's shards receive datagrams.
 *
 * A plane takes the datagrams for the shards' ports from interfaces and passes them to the shards
 * in place.  The sockets stay open: they receive what the plane does not take, other interfaces'
 * traffic included, and send all answers.  So a plane may leave what it does not understand to the
 * kernel. */
#ifndef FAN_PLANE_H
#define FAN_PLANE_H

#include "core/base/out.h"

#define FAN_PLANE_QUEUES_MAX  64
#define FAN_PLANE_BATCH	      256 /* datagrams between two sends */
#define FAN_PLANE_NAMES_BYTES 256 /* of interfaces, with commas between them */

/* A datagram as it was received. */
struct fan_plane_datagram {
	fan_peer from;
	uint64_t to[2];	     /* the local address that it was sent to, as in fan_peer */
	const uint8_t *data; /* until `release` */
	size_t bytes;
	bool marked; /* CE in the IP header */
};

struct fan_plane_stats {
	uint64_t bad_length, bad_checksum; /* frames dropped: frame.h */
	uint64_t other;			   /* frames that were not understood */
	uint64_t lost;			   /* for lack of room, by the kernel's count */
	/* left to the sockets: datagrams whose sender left their checksum to a device that did not
	 * do it, as on veth */
	uint64_t unfinished;
};

struct fan_plane;

/* A plane's own.  Calls for one queue come from one thread. */
struct fan_plane_calls {
	unsigned (*shard)(const struct fan_plane *p, unsigned queue); /* that it is for */
	int (*fd)(const struct fan_plane *p, unsigned queue);	      /* to poll for POLLIN */
	/* Up to `most` datagrams; and: forget them, their bytes are used again. */
	unsigned (*recv)(struct fan_plane *p, unsigned queue, struct fan_plane_datagram *d,
			 unsigned most);
	void (*release)(struct fan_plane *p, unsigned queue);
	unsigned (*backlog_percent)(const struct fan_plane *p, unsigned queue);
	void (*stats)(const struct fan_plane *p, unsigned queue, struct fan_plane_stats *s);
	void (*close)(struct fan_plane *p);
};

/* Made by an open function, and closed by p->calls->close. */
struct fan_plane {
	const struct fan_plane_calls *calls;
	unsigned queues;
	const char *kind; /* for the log: "native,copy" */
};

/* What a plane is asked for. */
struct fan_plane_wish {
	char interfaces[FAN_PLANE_NAMES_BYTES]; /* "eth0,eth1" */
	fan_peer listen;			/* of shard 0; others follow at the next ports */
	unsigned shards;
	size_t datagram_bytes; /* the longest */
};

/* Open a plane; datagrams arrive from now on.  0 and `*p`; or -1 with the reason and the remedy in
 * `why`. */
typedef int fan_plane_open(struct fan_plane **p, const struct fan_plane_wish *w, char *why,
			   size_t bytes);

/* The plane that a program was built with; NULL: none.  Defined by the program, not here. */
extern fan_plane_open *const fan_plane_plug;

#endif
