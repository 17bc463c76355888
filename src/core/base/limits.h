/* SPDX-License-Identifier: Apache-2.0 */
/* limits.h - every bound of the protocol core on one page.
 *
 * Each queue, table and loop of src/core is bounded by a name from here.  The
 * wire-visible ones are normative: doc/protocol/base.md, section 2. */
#ifndef FAN_BASE_LIMITS_H
#define FAN_BASE_LIMITS_H

/* Wire */
#define FAN_WIRE_VERSION 2
#define FAN_HEAD_BYTES	 36   /* the header of every datagram */
#define FAN_TAG_BYTES	 16   /* authentication tag behind the payload of a sealed packet */
#define FAN_PAYLOAD_MIN	 64   /* smallest payload size a job may agree on, bytes */
#define FAN_PAYLOAD_MAX	 8832 /* largest; fits MTU 9000 over IPv6 with a tag */
#define FAN_PAYLOAD_1500 1408 /* for a path MTU of 1500 */
#define FAN_BITMAP_MAX	 (FAN_RANK_WORDS * 8) /* bytes of a bitmap before elements */
#define FAN_PACKET_MAX	 (FAN_HEAD_BYTES + FAN_BITMAP_MAX + FAN_PAYLOAD_MAX)
#define FAN_RUN_MAX	 8   /* fragments of a run: one that is lost is no more than 1/8 of 64 */
#define FAN_RUN_CALM	 512 /* results after one that was lost which leave alone */
#define FAN_CTL_BYTES_MAX                                                                          \
	200		     /* header and body of any control message but an echo and its answer */
#define FAN_CTL_UP_MIN	60   /* body of a JOIN, BEAT or LEAVE, bytes: no answer is longer */
#define FAN_ECHO_MIN	64   /* body of an echo, bytes: room for all of an answer's fields */
#define FAN_ECHO_MAX	8936 /* fills an IPv4 packet of 9000 bytes */
#define FAN_VERSION_MAX 31   /* bytes of a program's version text */
#define FAN_NAME_MAX	63   /* bytes of a job's name */

/* Job */
#define FAN_RANKS_MAX	 256		      /* children of one switch in one job */
#define FAN_RANK_WORDS	 (FAN_RANKS_MAX / 64) /* words of a bitmap over ranks */
#define FAN_RANK_NONE	 0xFFFFu	      /* "no rank"; also the switch as a sender */
#define FAN_WINDOW_MIN	 2 /* so that a round can be asked for again while the next one is open */
#define FAN_WINDOW_MAX	 4096  /* slots of one job, fragments in flight of one worker */
#define FAN_WINDOW_QUOTA 512   /* default most slots of one job: 100 Gb/s x 60 us */
#define FAN_AHEAD_MAX	 32768 /* slots of one job with run-ahead */
#define FAN_WORKERS_MAX	 65536 /* workers of one job, over all aggregators of a tree */
#define FAN_OPS_MAX	 64    /* operations in flight of one worker */

/* Switch */
#define FAN_JOBS_MAX	       64	      /* jobs on one switch shard, failed ones included */
#define FAN_GROUPS_MAX	       256	      /* jobs on one shard without shared slots */
#define FAN_MEMBERS_MAX	       2048	      /* members over all jobs of one shard */
#define FAN_SLOTS_MAX	       65536	      /* slots of one shard */
#define FAN_SHARDS_MAX	       64	      /* shards, UDP ports, of one switch */
#define FAN_SLOTS_LEAST	       16	      /* units kept for each job that may still come */
#define FAN_STOP_FINISH_NS     (50 * FAN_MS)  /* an aggregator that stops waits for open rounds */
#define FAN_STOP_YOUNG_NS      (250 * FAN_MS) /* after a job's beginning it is not stopped */
#define FAN_STOP_LOOK_NS       (2 * FAN_MS)   /* and looks for them so often */
#define FAN_STOP_TELL_NS       (40 * FAN_MS)  /* between its words to a member that stays */
#define FAN_DRAIN_JOBS_MAX     8   /* names of jobs that an aggregator waits for at its end */
#define FAN_DRAIN_HEAD_BYTES   20  /* of each: what all names derived from it begin with */
#define FAN_EVENTS_MAX	       256 /* events kept for the log until they are read */
#define FAN_PROOF_ROWS	       128 /* of proofs of an address, one for several hosts */
#define FAN_PROOFS_IN_ROW      8
#define FAN_AGGREGATOR_OUT_MAX 6 /* items that one datagram may cause */

/* Switch */
#define FAN_PLACES	      16 /* slots in which a fragment may be */
#define FAN_ENVELOPE_HOPS_MAX 24 /* switches in a row */
#define FAN_SPARES_MAX	      4096
#define FAN_SENT_LOGS	      32   /* of what a switch has sent up: one for each job and next hop */
#define FAN_SENT_NEXTS	      3	   /* most of one job */
#define FAN_SENT_MAX	      2048 /* numbers in one: what a queue of 3 MB holds */
#define FAN_SENT_COST	      8	   /* numbers sent for one that may be sent again */
#define FAN_SENT_CREDIT	      512  /* most numbers sent that count for that */
#define FAN_SWITCH_OUT_MAX    4	   /* items that one datagram can release */
#define FAN_ROUTE_HOPS_MAX    FAN_ENVELOPE_HOPS_MAX
#define FAN_ROUTE_ENTRIES_MAX 64  /* entries of a route, in one switch */
#define FAN_ROUTE_LIVES	      2	  /* lives of a route's job: one that ends, and the next */
#define FAN_ROUTES_MAX	      256 /* routes in one switch shard */

/* Node: aggregator, slots, or both */
#define FAN_NODE_OUT_MAX    16	/* items that one datagram may cause */
#define FAN_NODE_TICK_MAX   16	/* items of one tick of an aggregator behind slots */
#define FAN_NODE_STAGED_MAX 256 /* packets between aggregator and slots before a send */
#define FAN_NODE_SPARES	    512 /* datagrams given to the slots before a send */
#define FAN_ITEM_SCRATCH    256 /* most bytes of scratch of an item */

/* Run-ahead */
#define FAN_LAG_FRAGS	     64	   /* lag from which on a rank is a straggler */
#define FAN_ASKS_WINDOW	     4	   /* requests for PROGRESS a window, while results wait */
#define FAN_CACHE_MAX	     65536 /* sums in one helper cache */
#define FAN_HELPER_QUESTIONS 64	   /* questions that a helper forwards at a time */
#define FAN_STATS_RANKS	     4	   /* ranks in one REPORT about RANKS */
#define FAN_STATS_PAIRS	     14	   /* pairs of ranks in one REPORT about HELPERS */
#define FAN_STATS_SCAN	     4096  /* pairs examined for one REPORT about HELPERS */

/* Time, in nanoseconds unless the name has another unit */
#define FAN_MS	       UINT64_C(1000000)
#define FAN_RTO_MIN_NS (1 * FAN_MS) /* RFC 6298 has 1 s; a rack answers sooner */
#define FAN_RTO_FIRST_NS                                                                           \
	(FAN_MS / 5) /* of the first time-out, where sequence numbers show losses */
#define FAN_RTO_MAX_NS	    (100 * FAN_MS) /* before back-off */
#define FAN_RTO_BACKOFF_MAX 5		   /* doublings of a time-out */
#define FAN_RTO_LONG_NS	    (400 * FAN_MS) /* bound of doubling, if the first is no longer */
#define FAN_TAIL_PROBES	    64		   /* fragments probed for after a time-out */
#define FAN_TAIL_FEW	    8		   /* fragments probed for after a short first time-out */
#define FAN_TAIL_TIMEOUTS   3		 /* time-outs without news after which FEW are probed for */
#define FAN_GAP_RESULTS	    3		 /* later results after which a fragment is late */
#define FAN_GAP_AGAIN	    48		 /* later sequence numbers before a second MISS */
#define FAN_GAP_BEGUN	    1024	 /* numbers behind the highest: of a new stream */
#define FAN_MISS_RESENDS    3		 /* resends of a contribution after MISS */
#define FAN_REFUSALS_MAX    4		 /* resends after collisions; then past all slots */
#define FAN_ASKS_MAX	    64		 /* results that a worker requests by MISS at a time */
#define FAN_ASK_TRIES	    4		 /* MISSes for one of them */
#define FAN_MISS_MAX	    4		 /* results that one MISS may request */
#define FAN_WARN_NS	    (1 * FAN_MS) /* between warnings of a switch to all below it */
#define FAN_JOIN_RETRY_NS   (50 * FAN_MS) /* between JOINs, and BEATs until READY */
#define FAN_GROUP_TEST_NS   (20 * FAN_MS) /* between tests of a multicast group */
#define FAN_GROUP_TESTS	    5		  /* tests before results go by unicast */
#define FAN_ALIVE_MS	    10000	  /* default: silence after which a rank is lost */
#define FAN_ALIVE_MIN_MS    100
#define FAN_ALIVE_MAX_MS    600000
#define FAN_UNSURE_NS	    (1000 * FAN_MS) /* until a member has proved its address */
/* After a job's beginning, in which the ranks of another launch may still come */
#define FAN_CLAIMS_NS	     (30000 * FAN_MS)
#define FAN_CLAIMS_HELD_NS   (5000 * FAN_MS) /* after two launches have failed for one name */
#define FAN_CONTESTED_MAX    8		     /* such names that an aggregator remembers */
#define FAN_STRANGERS_MAX    10	   /* answers a millisecond to senders that have proved nothing */
#define FAN_STRANGERS_BURST  1024  /* such answers at once: many jobs may be refused together */
#define FAN_STRANGERS_AGAIN  10	   /* answers a millisecond to those of them that ask again */
#define FAN_STRANGERS_SEEN   16384 /* places of senders that have asked in vain */
#define FAN_BEATS_PER_ALIVE  8	   /* heartbeats within the liveness timeout */
#define FAN_BEATS_PER_STALL  4	   /* least heartbeats before an operation is given up */
#define FAN_TRIES_PER_BEAT   4	   /* while nobody answers them, in a sealed job */
#define FAN_REMIND_MIN_NS    (FAN_MS / 2)     /* least age of a round for its first reminder */
#define FAN_REMIND_MAX_NS    (100 * FAN_MS)   /* largest such age */
#define FAN_REMIND_STEP_NS   (FAN_MS / 10)    /* between ticks that send reminders */
#define FAN_ORDER_MAX	     1024	      /* rounds of a job that others can overtake */
#define FAN_REMIND_DOUBLINGS 6		      /* doublings of that age between further reminders */
#define FAN_CHILD_SILENT_NS  (20000 * FAN_MS) /* silence after which a switch forgets a child */
/* Idle time after which any job may take a shared slot. */
#define FAN_SLOT_IDLE_NS   (1000 * FAN_MS)
#define FAN_WHO_NS	   FAN_MS	 /* between BEATs in answer to WHO */
#define FAN_WHOS_MAX	   64		 /* WHOs of a switch in that time */
#define FAN_HELPER_FULL_NS (10 * FAN_MS) /* a full helper is given nothing for so long */
#define FAN_BEAT_TRIES	   8 /* BEATs without an answer before a forming rank joins again */
#define FAN_LEAVE_TRIES	   5 /* LEAVEs sent without an answer before a worker closes */

#endif
