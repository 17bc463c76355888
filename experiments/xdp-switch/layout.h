/* SPDX-License-Identifier: Apache-2.0 */
/* layout.h - what the program in the kernel and its loader share.  Numbers in network order say so;
 * all others are in host order, which must be little-endian. */
#ifndef XDP_SWITCH_LAYOUT_H
#define XDP_SWITCH_LAYOUT_H

#include <linux/types.h>

#define PAYLOAD_WORDS 352  /* 32-bit words of a full fragment at MTU 1500 */
#define ROUNDS	      8192 /* two for each slot: 12 MiB */
#define JOBS	      8
#define RANKS	      64

/* A job whose ranks are all there.  Key: its number on the wire. */
struct job {
	__u32 epoch;
	__u32 ranks, window;
	__u32 first_round; /* its rounds are this one and 2 * window - 1 after it */
	__u32 seq;	   /* of the next result */
	__u32 group_ip;	   /* network order */
	__u16 group_port;
	__u16 peer_port[RANKS];
	__u32 peer_ip[RANKS]; /* network order */
};

enum count { SUMMED, RESULTS, REPLAYS, NEEDS, BAD, STALE, LEFT_TO_USER, COUNTS };

#endif
