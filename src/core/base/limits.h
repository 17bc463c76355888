/* SPDX-License-Identifier: Apache-2.0 */
/* limits.h - every bound of the protocol core on one page.
 *
 * Each queue, table and loop of src/core is bounded by a name from here.  The
 * wire-visible ones are normative: doc/protocol/base.md, section 2. */
#ifndef FAN_BASE_LIMITS_H
#define FAN_BASE_LIMITS_H

/* Wire */
#define FAN_WIRE_VERSION 2
#define FAN_HEAD_BYTES	 36		      /* the header of every datagram */
#define FAN_TAG_BYTES	 16		      /* reserved: authentication tag behind the payload */
#define FAN_PAYLOAD_MIN	 64		      /* smallest payload size a job may agree on, bytes */
#define FAN_PAYLOAD_MAX	 8832		      /* largest; fits MTU 9000 over IPv6 with a tag */
#define FAN_PAYLOAD_1500 1408		      /* for a path MTU of 1500 */
#define FAN_BITMAP_MAX	 (FAN_RANK_WORDS * 8) /* bytes of a bitmap before elements */
#define FAN_PACKET_MAX	 (FAN_HEAD_BYTES + FAN_BITMAP_MAX + FAN_PAYLOAD_MAX)
#define FAN_CTL_BYTES_MAX                                                                          \
	200		     /* header and body of any control message but an echo and its answer */
#define FAN_ECHO_MIN	64   /* body of an echo, bytes: room for all of an answer's fields */
#define FAN_ECHO_MAX	8936 /* fills an IPv4 packet of 9000 bytes */
#define FAN_VERSION_MAX 31   /* bytes of a program's version text */
#define FAN_NAME_MAX	63   /* bytes of a job's name */

/* Job */
#define FAN_RANKS_MAX	 256		      /* children of one switch in one job */
#define FAN_RANK_WORDS	 (FAN_RANKS_MAX / 64) /* words of a bitmap over ranks */
#define FAN_RANK_NONE	 0xFFFFu	      /* "no rank"; also the switch as a sender */
#define FAN_WINDOW_MAX	 4096  /* slots of one job, fragments in flight of one worker */
#define FAN_WINDOW_QUOTA 512   /* default most slots of one job: 100 Gb/s x 60 us */
#define FAN_AHEAD_MAX	 32768 /* the same where ranks run ahead of each other */
#define FAN_WORKERS_MAX	 65536 /* of one job, over all switches of a tree */
#define FAN_OPS_MAX	 64    /* operations in flight of one worker */

/* Switch */
#define FAN_JOBS_MAX	       64    /* jobs on one switch shard, failed ones included */
#define FAN_MEMBERS_MAX	       2048  /* members over all jobs of one shard */
#define FAN_SLOTS_MAX	       65536 /* slots of one shard */
#define FAN_SHARDS_MAX	       64    /* shards, UDP ports, of one switch */
#define FAN_EVENTS_MAX	       256   /* events kept for the log until they are read */
#define FAN_AGGREGATOR_OUT_MAX 6     /* items that one received datagram can release */

/* Shared switch */
#define FAN_PLACES	      16 /* slots that a fragment may be in */
#define FAN_ENVELOPE_HOPS_MAX 24 /* switches in a row */
#define FAN_SPARES_MAX	      4096
#define FAN_SENT_LOGS	      32   /* of what a switch has sent up: one for each job and next hop */
#define FAN_SENT_NEXTS	      3	   /* most of one job */
#define FAN_SENT_MAX	      2048 /* numbers in one: what a queue of 3 MB holds */
#define FAN_SENT_COST	      8	   /* numbers sent for one that may be sent again... */
#define FAN_SENT_CREDIT	      512  /* ...and the most that count for that */
#define FAN_SWITCH_OUT_MAX    4	   /* items that one datagram can release */
#define FAN_ROUTE_HOPS_MAX    FAN_ENVELOPE_HOPS_MAX
#define FAN_ROUTE_ENTRIES_MAX 64  /* of a route, in one switch */
#define FAN_ROUTE_LIVES	      2	  /* of the job of a route: one that ends, and the next */
#define FAN_ROUTES_MAX	      256 /* in one switch shard */
#define FAN_SHARES_MAX	      64  /* jobs with a weight of their own */
#define FAN_WEIGHT_MAX	      1000
#define FAN_TOKENS_MAX	      0xFFFFu

/* Node: aggregator, slots, or both */
#define FAN_NODE_OUT_MAX    16	/* items that one datagram can release */
#define FAN_NODE_TICK_MAX   16	/* items of one tick of an aggregator with slots before it */
#define FAN_NODE_STAGED_MAX 256 /* packets between the two until all is sent */
#define FAN_NODE_SPARES	    512 /* datagrams given to the slots until all is sent */
#define FAN_ITEM_SCRATCH    256 /* bytes of scratch that an item may take */

/* Ranks that run ahead of each other */
#define FAN_LAG_FRAGS	64    /* behind the furthest: a straggler */
#define FAN_ASKS_WINDOW 4     /* questions for PROGRESS in a window, while results wait */
#define FAN_CACHE_MAX	65536 /* sums that one worker keeps for others */
#define FAN_LEAD_ASKS	64    /* questions of others that a worker passes on at a time */
#define FAN_LAGS_RANKS	4     /* that one REPORT about RANKS tells about */
#define FAN_HELPS_PAIRS 14    /* of ranks that one REPORT about HELPERS tells about... */
#define FAN_HELPS_SCAN	4096  /* ...and that it looks at */

/* Time, nanoseconds unless the name says otherwise */
#define FAN_MS		     UINT64_C(1000000)
#define FAN_RTO_MIN_NS	     (1 * FAN_MS) /* RFC 6298 asks 1 s; a rack answers in less */
#define FAN_RTO_FIRST_NS     (FAN_MS / 5) /* likewise of the first, where losses show by numbers */
#define FAN_RTO_MAX_NS	     (100 * FAN_MS) /* before back-off */
#define FAN_RTO_BACKOFF_MAX  5		    /* doublings: at most 1.6 s between probes */
#define FAN_TAIL_PROBES	     64		    /* fragments probed for when nothing comes any more */
#define FAN_TAIL_FIRST	     8		    /* of them when the first time-out is a short one */
#define FAN_GAP_RESULTS	     3		    /* later results that make a fragment late */
#define FAN_GAP_AGAIN	     48		    /* later numbers after which one is asked for again */
#define FAN_GAP_BEGUN	     1024	    /* numbers behind the highest: of a new stream */
#define FAN_MISS_RESENDS     3		    /* of a contribution whose number was missed */
#define FAN_ASKS_MAX	     64		    /* results that a worker asks for by number at a time */
#define FAN_ASK_TRIES	     4		    /* times that it asks for one */
#define FAN_MISS_MAX	     4		    /* results that one MISS may ask for */
#define FAN_JOIN_RETRY_NS    (50 * FAN_MS)  /* between JOINs, and BEATs until READY */
#define FAN_GROUP_TEST_NS    (20 * FAN_MS)  /* between tests of a multicast group */
#define FAN_GROUP_TESTS	     5		    /* tests before results go by unicast */
#define FAN_ALIVE_MS	     10000	    /* default: silence after which a rank is lost */
#define FAN_ALIVE_MIN_MS     100
#define FAN_ALIVE_MAX_MS     600000
#define FAN_BEATS_PER_ALIVE  8 /* heartbeats within the liveness timeout */
#define FAN_BEATS_PER_STALL  4 /* heartbeats, at least, before an operation is given up */
#define FAN_REMIND_MIN_NS    (FAN_MS / 2)     /* a round's age when its first reminder goes */
#define FAN_REMIND_MAX_NS    (100 * FAN_MS)   /* likewise, at most */
#define FAN_REMIND_STEP_NS   (FAN_MS / 10)    /* between what fits one tick and the rest */
#define FAN_ORDER_MAX	     1024	      /* rounds of a job that others can overtake */
#define FAN_REMIND_DOUBLINGS 6		      /* of that age, between further ones */
#define FAN_CHILD_SILENT_NS  (20000 * FAN_MS) /* a switch forgets a child */
#define FAN_SLOT_IDLE_NS     (1000 * FAN_MS)  /* a shared slot that anybody may take */
#define FAN_WHO_NS	     FAN_MS	      /* between BEATs that a WHO draws */
#define FAN_LEAD_FULL_NS     (10 * FAN_MS)    /* a worker without room is given nothing to keep */
#define FAN_LEAVE_TRIES	     5		      /* LEAVEs sent before a worker just goes */

#endif
