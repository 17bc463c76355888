/* SPDX-License-Identifier: Apache-2.0 */
/* doctor_echo.h - trains of ECHOs to one shard of a switch, and what came back. */
#ifndef FAN_CMD_DOCTOR_DOCTOR_ECHO_H
#define FAN_CMD_DOCTOR_DOCTOR_ECHO_H

#include "core/wire/ctlmsg.h"
#include "net/udp.h"

#define DOCTOR_TRAIN_MAX 5000 /* ECHOs of a train */
#define DOCTOR_BURST_MAX 64   /* that leave at once */

/* A socket to one port. */
struct doctor_talk {
	struct fan_udp udp;
	fan_peer to;
};

struct doctor_train {
	/* What to send. */
	unsigned count; /* 1 .. DOCTOR_TRAIN_MAX */
	unsigned burst; /* that leave at once, 1 .. DOCTOR_BURST_MAX */
	uint64_t gap_ns;
	uint64_t wait_ns;  /* for answers to the last */
	uint64_t until_ns; /* then it ends, whatever is missing */
	uint16_t body_bytes, answer_bytes;
	bool once; /* one answer is enough */

	/* What came of it. */
	unsigned tried, sent; /* the kernel refused the difference */
	unsigned answered;
	unsigned version;	/* another of the protocol was spoken; 0: none */
	unsigned strays;	/* datagrams that are no answer of a switch */
	unsigned batch;		/* most datagrams that one receive brought */
	int error;		/* last errno that a receive told: ECONNREFUSED, ... */
	int send_error;		/* the same of a send */
	struct fan_echoed who;	/* as far as `answered` */
	const uint64_t *rtt_ns; /* `answered` of them, rising; until the next train */
};

/* Open a socket to `to`.  Datagrams leave whatever the kernel believes of the path MTU, never
 * fragmented by IP.  0, or -errno. */
int doctor_talk_open(struct doctor_talk *t, const fan_peer *to);
void doctor_talk_close(struct doctor_talk *t);

/* Send and wait; ends early when all have come, or when the interface refuses the size (EMSGSIZE).
 */
void doctor_train_run(struct doctor_talk *t, struct doctor_train *tr);

#endif
