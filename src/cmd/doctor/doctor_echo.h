/* SPDX-License-Identifier: Apache-2.0 */
/* doctor_echo.h - trains of ECHOs to one shard of a switch, and their answers. */
#ifndef FAN_CMD_DOCTOR_DOCTOR_ECHO_H
#define FAN_CMD_DOCTOR_DOCTOR_ECHO_H

#include "net/echo.h"
#include "net/udp.h"

#define DOCTOR_TRAIN_MAX  65536	     /* ECHOs of a train */
#define DOCTOR_COUNT_MAX  5000	     /* of one that a user asks for */
#define DOCTOR_BURST_MAX  64	     /* ECHOs sent at once */
#define DOCTOR_STREAM_MAX (64 << 20) /* bytes of one stream, at most */

struct doctor_train {
	/* The packets to send. */
	unsigned count; /* 1 .. DOCTOR_TRAIN_MAX */
	unsigned burst; /* sent at once, 1 .. DOCTOR_BURST_MAX */
	uint64_t gap_ns;
	unsigned window;   /* in place of gaps: ECHOs in flight; 0: gaps */
	uint64_t wait_ns;  /* to wait for answers to the last */
	uint64_t until_ns; /* end by then, whatever is missing */
	uint16_t body_bytes, answer_bytes;
	bool once; /* end with the first answer */

	/* The result. */
	unsigned tried, sent; /* the difference: refused by the kernel */
	unsigned answered;
	unsigned version;	/* of the protocol, if another answered; 0: none */
	unsigned strays;	/* datagrams that are no switch's answer */
	unsigned batch;		/* most datagrams in one receive */
	int error;		/* last errno of a receive, ECONNREFUSED for one */
	int send_error;		/* last errno of a send */
	struct fan_echoed who;	/* valid if any were answered */
	const uint64_t *rtt_ns; /* `answered` times, rising; valid until the next train */
};

/* Open a socket to `to`.  It ignores the kernel's path MTU, and IP never fragments its datagrams.
 * 0, or -errno. */
int doctor_echo_open(struct fan_udp *udp, const fan_peer *to);

/* Send and wait; ends early when all answers have arrived, or when the interface refuses the size
 * (EMSGSIZE). */
void doctor_train_run(struct fan_udp *udp, struct doctor_train *tr);

/* Send ECHOs to `to` for `ns`, `window` in flight.  The answers per second once the path is full;
 * 0: there are none. */
double doctor_stream(const fan_peer *to, unsigned window, uint64_t ns, uint16_t body_bytes,
		     uint16_t answer_bytes);

#endif
