/* SPDX-License-Identifier: Apache-2.0 */
/* mtu_probe.h - does the path to a switch or aggregator lose large datagrams?
 *
 * Routers report it by ICMP, which anybody can forge and firewalls drop.  So an object that waits
 * for the effect of large datagrams sends ECHOs of that length, and short ones with them.  If short
 * ones are answered again and again, but no long one, and no result arrives, the path takes no such
 * datagrams.  The size that a router reported is only tried, by an ECHO of that length.  An answer
 * may report that the answerer's own path to its next hop loses large datagrams; it then counts as
 * no answer to a long ECHO. */
#ifndef FAN_MTU_PROBE_H
#define FAN_MTU_PROBE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "echo.h"
#include "udp.h"

#define FAN_MTU_PROBE_MTU_MIN  576  /* that every path takes */
#define FAN_MTU_PROBE_AFTER_MS 500  /* without a result, until a test begins */
#define FAN_MTU_PROBE_AGAIN_MS 2500 /* without a result, until a test begins after a passed one */
#define FAN_MTU_PROBE_STEP_MS  100  /* from round to round */
#define FAN_MTU_PROBE_ROUNDS   24 /* without an answer to a long ECHO, until the path is given up */
#define FAN_MTU_PROBE_ANSWERS  8  /* to short ones by then, at least */
#define FAN_MTU_PROBE_PART     8  /* AFTER_MS is at most the stall time over this */
#define FAN_MTU_PROBE_PARTS    64 /* STEP_MS is at most the stall time over this */

/* The ECHOs of a test. */
enum fan_mtu_probe_echo {
	FAN_MTU_PROBE_LONG,
	FAN_MTU_PROBE_SHORT,
	FAN_MTU_PROBE_TOLD, /* of the length that ICMP reports for a router */
	FAN_MTU_PROBE_ECHOS
};

/* The test of one path.  All zero: no test is in progress. */
struct fan_mtu_probe {
	uint64_t next_ns; /* of the next round; 0: no large datagram waits for a result */
	struct fan_echo_asker echo[FAN_MTU_PROBE_ECHOS];
	uint32_t bytes;	      /* of the longest datagram since the last result, with its header */
	unsigned rounds;      /* rounds sent; 0: no test is in progress */
	unsigned short_heard; /* answers to short ECHOs */
	bool told_heard;      /* an ECHO of `told_bytes` has been answered */
	uint32_t told_bytes;  /* that a router reportedly takes, as `bytes`; 0: none */
	int told_mtu;
	/* of the datagrams that the path behind loses, by the answer; 0: it reports none of
	 * the kind */
	uint32_t behind_bytes;
};

/* A datagram of `bytes` has been sent at `now_ns`.  `stall_ms`: the stall time of the job. */
void fan_mtu_probe_sent(struct fan_mtu_probe *t, uint32_t bytes, uint64_t now_ns,
			uint32_t stall_ms);

/* A result has come: the path takes full packets. */
void fan_mtu_probe_result(struct fan_mtu_probe *t);

/* Is datagram `pkt` an answer to an ECHO of the test, and nothing else?  It is heeded then. */
bool fan_mtu_probe_heard(struct fan_mtu_probe *t, const uint8_t *pkt, size_t len, uint64_t now_ns);

/* Send the ECHOs that are due to `to` by `udp`, which is connected to it if `connected`.  True: the
 * path does not take full packets, or if `behind_bytes`, the one behind. */
bool fan_mtu_probe_turn(struct fan_mtu_probe *t, struct fan_udp *udp, const fan_peer *to,
			bool connected, uint32_t stall_ms, uint64_t now_ns);

/* When it is due next; UINT64_MAX: never. */
uint64_t fan_mtu_probe_deadline(const struct fan_mtu_probe *t);

#endif
