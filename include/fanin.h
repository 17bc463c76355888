/* SPDX-License-Identifier: Apache-2.0 */
/* fanin.h - all-reduce through a switch that adds on the way.
 *
 * The public interface of libfanin.  A communicator is one rank of one job.  All its
 * ranks start the same operations in the same order; each call ends with the right
 * result or with an error that names the cause.  The library never exits, aborts or
 * prints, and handles no signals.
 *
 * Functions return FANIN_OK (0) or a negative enum fanin_error, unless they say
 * otherwise.  A communicator may be used by several threads; operations then start in
 * the order in which the calls get its lock.
 *
 *     struct fanin_options o = FANIN_OPTIONS_INIT;
 *     o.switch_addr = "10.0.0.1:5000"; o.job = "train"; o.rank = r; o.ranks = n;
 *     fanin_comm *c;
 *     int e = fanin_comm_create(&o, &c);
 *     if (!e) e = fanin_allreduce(c, grad, grad, count, FANIN_FLOAT32, FANIN_AVG);
 *     if (e) fprintf(stderr, "%s\n", fanin_comm_error(c));
 *     fanin_comm_destroy(c);
 */
#ifndef FANIN_H
#define FANIN_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define FANIN_VERSION_MAJOR 0
#define FANIN_VERSION_MINOR 1
#define FANIN_VERSION_PATCH 0

/* Most ranks of one job on one switch. */
#define FANIN_RANKS_MAX 256

/* A rank of a job, connected to a switch. */
typedef struct fanin_comm fanin_comm;

/* An operation that has been started. */
typedef struct fanin_op fanin_op;

/* A switch inside this process. */
typedef struct fanin_switch fanin_switch;

enum fanin_error {
	FANIN_OK = 0,
	FANIN_E_INVALID = -1, /* an argument is out of its range */
	FANIN_E_NOMEM = -2,
	FANIN_E_SYSTEM = -3,	  /* the operating system refused a call */
	FANIN_E_BUSY = -4,	  /* too many operations in flight */
	FANIN_E_UNREACHABLE = -5, /* the switch does not answer */
	FANIN_E_TIMEOUT = -6,	  /* not every rank joined in time */
	FANIN_E_RANK_LOST = -7,	  /* a rank stopped answering */
	FANIN_E_RANK_LEFT = -8,	  /* a rank left while others still needed it */
	FANIN_E_STALLED = -9,	  /* a rank did not take part in time */
	FANIN_E_MISMATCH = -10,	  /* ranks disagree about count, type or operation */
	FANIN_E_RANK_TAKEN = -11, /* the rank is already taken in this job */
	FANIN_E_JOBS_FULL = -12,  /* the switch serves as many jobs as it can */
	FANIN_E_SLOTS_FULL = -13, /* the switch has no slots left */
	FANIN_E_MEMBERS_FULL = -14,
	FANIN_E_JOB_MISMATCH = -15, /* ranks disagree about the job's size or options */
	FANIN_E_RESTARTED = -16,    /* the switch was restarted and does not know the job */
	FANIN_E_VERSION = -17,	    /* the switch speaks another version of the protocol */
	FANIN_E_SHORT = -18,	    /* internal: a packet too short */
	FANIN_E_FORMAT = -19,	    /* internal: a malformed message */
	FANIN_E_CHECK = -20,	    /* internal: a wrong checksum */
	FANIN_E_CLOSED = -21,	    /* the communicator is being destroyed */
	FANIN_E_PAYLOAD = -22,	    /* the switch's slots are smaller than our fragments */
	FANIN_E_MTU = -23,	    /* fragments do not fit the path MTU */
	FANIN_E_PENDING = -24,	    /* not finished yet */
	FANIN_E_CONFIG = -25,	    /* wrong configuration; the text says where */
	FANIN_E_SHARDS = -26,	    /* the switch and its server run different numbers of threads */
	FANIN_E_ROUTE = -27	    /* the worker is not where the job's route has it join */
};

enum fanin_dtype {
	FANIN_FLOAT32 = 0,
	FANIN_FLOAT16 = 1,  /* IEEE binary16; summed in float32 */
	FANIN_BFLOAT16 = 2, /* summed in float32 */
	FANIN_INT32 = 3,    /* sums wrap; averages truncate towards zero */
	FANIN_INT64 = 4,
	FANIN_UINT8 = 7 /* bytes; broadcast only */
};

enum fanin_redop {
	FANIN_SUM = 0,
	FANIN_AVG = 1,
	FANIN_MIN = 2, /* NaN if any is NaN */
	FANIN_MAX = 3
};

enum fanin_mode {
	FANIN_MODE_NATIVE = 0, /* sums in arrival order: same bits on every rank */
	FANIN_MODE_FIXED = 1   /* float32 sum and avg in block fixed point: same bits on
				* every rank and on every run */
};

enum fanin_congestion {
	FANIN_CONGESTION_AIMD = 0, /* one window, by losses and marks */
	FANIN_CONGESTION_A2TP = 1  /* beside it another one for shared slots: what goes beyond
				    * passes the slots by */
};

/* Options of a communicator.  Set with FANIN_OPTIONS_INIT, then change fields.  A field
 * left at its initial value (NULL, -1) is taken from the first of these that has it: the
 * variable FANIN_<NAME>; for rank and ranks the launcher's variables (RANK and WORLD_SIZE,
 * OMPI_COMM_WORLD_RANK and _SIZE, SLURM_PROCID and SLURM_NTASKS); the section [worker] of
 * the INI file that FANIN_CONFIG names, where keys are spelt as the fields (and `switch`);
 * its default.
 *
 * Where nobody names a switch, rank 0 starts one in its process, for as long as its
 * communicator lives and the other ranks need it, and all meet there: at UDP port MASTER_PORT
 * of MASTER_ADDR, which torchrun sets; under Slurm at the step's first host; under Open MPI
 * on this host, if all ranks are here.  The port then follows from the job's id. */
struct fanin_options {
	size_t size;		 /* sizeof(struct fanin_options) */
	const char *switch_addr; /* "HOST:PORT", "[V6]:PORT"; FANIN_SWITCH; else rank 0 starts
				  * one: see below */
	const char *job;	 /* name, at most 63 bytes; FANIN_JOB; by the launcher's job; else
				  * "default" */
	int rank;		 /* -1: FANIN_RANK or the launcher */
	int ranks;		 /* -1: FANIN_RANKS or the launcher; 2..256 */
	int mtu;		 /* path MTU, 576..9000; FANIN_MTU; 1500 */
	int window;		 /* fragments in flight (with ahead: under way) per shard of the
				  * switch, 0..4096; 0: as many as the switch gives;
				  * FANIN_WINDOW; 0 */
	int timeout_ms;		 /* an operation or join without progress ends in an error
				  * after this; FANIN_TIMEOUT_MS; 30000 */
	int alive_ms;		 /* silence after which a rank is lost; FANIN_ALIVE_MS; 10000 */
	int mode;		 /* enum fanin_mode; FANIN_MODE=native|fixed; native */
	int wire;		 /* enum fanin_dtype in which float32 tensors travel when they
				  * are reduced: FLOAT32, FLOAT16 or BFLOAT16, not with the fixed
				  * mode; FANIN_WIRE=float32|float16|bfloat16; float32 */
	int multicast;		 /* 0: never listen to a group; FANIN_MULTICAST; 1 */
	int checksum;		 /* 1: CRC-32C over payloads too; FANIN_CHECKSUM; 0 */
	int narrow;		 /* 1: slots of one payload; half types then travel in half-full
				  * fragments but the job needs half the switch's memory;
				  * FANIN_NARROW; 0 */
	int plain_udp;		 /* 1: no UDP_SEGMENT, no UDP_GRO; FANIN_PLAIN_UDP; 0 */
	int priority;		 /* of this job where slots go by priority (policy esa): 1..255, or
				  * 0: high for jobs with little left to send and much to wait for;
				  * FANIN_PRIORITY; 0 */
	const char *server_addr; /* "HOST:PORT" of the server behind a switch with shared slots
				  * (policies atp, esa): when the switch is silent, ranks go on
				  * through it, and come back; FANIN_SERVER; none */
	int ahead;		 /* fragments by which this rank may run ahead of the slowest one,
				  * per shard, so that ranks that are slow in turns do not hold
				  * each other: 2..32768, or 0: all go in step; the same on all
				  * ranks; where the switch has memory for it (fanin switch, server
				  * --ahead); FANIN_AHEAD; 0 */
	int cache;		 /* with ahead: sums that this rank keeps for slower ones when the
				  * switch asks it to, per shard, each of one payload: 0..65536;
				  * 0: the server keeps them all; FANIN_CACHE; 0 */
	int congestion;		 /* enum fanin_congestion; FANIN_CONGESTION=aimd|a2tp; aimd */
	const char *controller_addr; /* "HOST:PORT" of a `fanin controller`, instead of a switch: it
				      * tells which switches and servers sum which part of each
				      * tensor; FANIN_CONTROLLER; none */
	int pace; /* with a controller: percent of the planned rate at which this rank sends,
		   * 0..1000; 0: as fast as windows allow; FANIN_PACE; 100 */
	/* While fanin_comm_create waits it calls this every few seconds, with a sentence about what
	 * it waits for; NULL: nobody wants to know. */
	void (*waiting)(void *arg, const char *text);
	void *waiting_arg;
	int rto_min_ms; /* silence after which this rank asks for a result, at least: on links so
			 * slow that a result waits for tens of milliseconds in queues, asking
			 * sooner makes the queues longer; 1..1000; FANIN_RTO_MIN_MS; 1, with
			 * ahead 20 */
};
#define FANIN_OPTIONS_INIT                                                                         \
	{                                                                                          \
		sizeof(struct fanin_options), NULL, NULL, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1,  \
			-1, -1, -1, NULL, -1, -1, -1, NULL, -1, NULL, NULL, -1                     \
	}

struct fanin_stats {
	size_t size;	       /* set it to sizeof(struct fanin_stats) before the call */
	uint64_t ops;	       /* finished */
	uint64_t bytes;	       /* of tensors reduced, this rank's */
	uint64_t fragments;    /* results received */
	uint64_t sent;	       /* contributions sent, resent ones included */
	uint64_t retransmits;  /* contributions sent again */
	uint64_t probes;       /* "I miss this result" sent */
	uint64_t replays;      /* results that came again, by unicast */
	uint64_t drops;	       /* packets dropped on arrival, all reasons */
	uint64_t srtt_ns;      /* smoothed round trip, waits for others included */
	uint32_t window_frags; /* granted by the switch, all shards together */
	uint32_t packet_bytes; /* header and payload of a full fragment */
	uint32_t shards;
	int multicast;	      /* 1: results arrive by multicast */
	int segment_offload;  /* 1: UDP_SEGMENT in use; 0: plain datagrams */
	int receive_offload;  /* 1: UDP_GRO in use */
	uint32_t cwnd_frags;  /* of window_frags: that congestion leaves */
	uint64_t marks;	      /* results some part of which has met congestion (ECN) */
	uint64_t collisions;  /* results some part of which found its shared slot taken */
	uint64_t moves;	      /* from the switch to the server, and back; to other routes */
	int server;	      /* 1: the switch is silent, and this rank goes through the server */
	uint32_t ahead_asked; /* by which its options would let this rank run ahead, per shard... */
	uint32_t ahead_frags; /* ...and by which it may, all shards together.  0: the job goes in
			       * step; else window_frags says how many it may have under way */
	uint32_t lead_frags;  /* by which it is ahead now, as far as is known */
	uint32_t cache_frags; /* sums that it has room to keep for others, all shards together... */
	uint32_t cache_open;  /* ...that wait for somebody... */
	uint32_t cache_peak;  /* ...and the most of them there have been */
	uint64_t cache_parts; /* parts and sums added to them */
	uint64_t cache_done;  /* sums of all ranks sent... */
	uint64_t cache_early; /* ...sums sent because somebody asked... */
	uint64_t cache_over;  /* ...and sums and parts for which there was no room */
	uint64_t bypassed;    /* contributions sent past shared slots, by a2tp */
	uint32_t parts;	      /* of each tensor, that go to homes of their own; 1 without a plan */
	uint64_t result_ns;   /* when the last result came, CLOCK_MONOTONIC; 0: none yet */
	uint64_t gap_ns;      /* longest time without a result while operations were under way */
};

/* Options of a switch inside this process.  Set with FANIN_SWITCH_OPTIONS_INIT, then
 * change fields.  mtu and multicast that are left at -1 are looked for where those of a
 * communicator are; they should be the same for both. */
struct fanin_switch_options {
	size_t size;	    /* sizeof(struct fanin_switch_options) */
	const char *listen; /* "ADDR:PORT", "[V6]:PORT"; 0.0.0.0 or [::]: every interface;
			     * port 0: any that is free; NULL: "127.0.0.1:0" */
	int slots;	    /* fragments that each thread can sum at a time, 2..65536; -1: 4096 */
	int threads;	    /* 1..64; number i listens on PORT + i; -1: 1, as port 0 needs */
	int mtu;	    /* path MTU that slots are made for, 576..9000; FANIN_MTU; 1500 */
	int multicast;	    /* 0: send results to each rank; FANIN_MULTICAST; 1 */
};
#define FANIN_SWITCH_OPTIONS_INIT                                                                  \
	{                                                                                          \
		sizeof(struct fanin_switch_options), NULL, -1, -1, -1, -1                          \
	}

#if defined(__GNUC__)
#pragma GCC visibility push(default)
#endif

/* Version of the library that is running, as "major.minor.patch". */
const char *fanin_version(void);

/* The text of an error code.  Never NULL. */
const char *fanin_strerror(int error);

/* Join a job and wait until all its ranks are there.  On error `*comm` is NULL unless
 * a communicator could be made that tells more: then fanin_comm_error says what
 * happened and it must be destroyed.  Blocks about timeout_ms at most (and for as long
 * as the name of the switch takes to resolve).
 *
 * The communicator starts one thread.  A child that fork() made has no such thread: there
 * every call on it ends with FANIN_E_CLOSED, and destroying it only frees its memory. */
int fanin_comm_create(const struct fanin_options *options, fanin_comm **comm);

/* Leave the job and free everything.  Operations that have not finished end with
 * FANIN_E_CLOSED and their handles stay valid until freed; no other call on `comm` may
 * begin from here on.  NULL is allowed. */
void fanin_comm_destroy(fanin_comm *comm);

int fanin_comm_rank(const fanin_comm *comm);
int fanin_comm_size(const fanin_comm *comm);

/* Where the switch is, as it was named: "10.0.0.1:5000"; with " (inside rank 0)" after it
 * if nobody named one.  Valid until the communicator is destroyed.  NULL gives "". */
const char *fanin_comm_switch(const fanin_comm *comm);

/* What ended the communicator, in a sentence that names ranks or the switch; "" while
 * it works.  Valid until the communicator is destroyed.  NULL gives "no communicator". */
const char *fanin_comm_error(const fanin_comm *comm);

int fanin_comm_stats(const fanin_comm *comm, struct fanin_stats *stats);

/* Reduce `count` elements of all ranks; every rank gets the result in `out`, which may
 * be `in`.  Blocks. */
int fanin_allreduce(fanin_comm *comm, const void *in, void *out, size_t count, int dtype, int op);

/* Copy `count` elements of `root` to every rank's `buf`.  Blocks. */
int fanin_broadcast(fanin_comm *comm, void *buf, size_t count, int dtype, int root);

/* As allreduce, but only `root` gets the result; `out` may be NULL elsewhere. */
int fanin_reduce(fanin_comm *comm, const void *in, void *out, size_t count, int dtype, int op,
		 int root);

/* Return when every rank has called it. */
int fanin_barrier(fanin_comm *comm);

/* The same, started only.  The buffers must stay and must not be touched until the
 * operation has ended; `*handle` must be given to fanin_op_free.  FANIN_E_BUSY when 4096
 * operations have been started and not ended: wait for one.  On error `*handle` is NULL. */
int fanin_allreduce_start(fanin_comm *comm, const void *in, void *out, size_t count, int dtype,
			  int op, fanin_op **handle);
int fanin_broadcast_start(fanin_comm *comm, void *buf, size_t count, int dtype, int root,
			  fanin_op **handle);
int fanin_reduce_start(fanin_comm *comm, const void *in, void *out, size_t count, int dtype, int op,
		       int root, fanin_op **handle);
int fanin_barrier_start(fanin_comm *comm, fanin_op **handle);

/* FANIN_OK: ended well; FANIN_E_PENDING; or the error it ended with.  Never blocks. */
int fanin_op_test(fanin_op *handle);

/* Wait until the operation has ended; `timeout_ms` < 0: as long as it takes, which is
 * bounded by the communicator's timeout.  FANIN_E_PENDING if it has not ended then. */
int fanin_op_wait(fanin_op *handle, int timeout_ms);

/* Wait until the operation has ended, since it uses its buffers until then, and free its
 * handle.  NULL is allowed. */
void fanin_op_free(fanin_op *handle);

/* Start a switch in this process, for jobs of any process that reaches it: rank 0 of a
 * job may then connect to it as the other ranks do.  `*started` is NULL on error.  `why`,
 * `why_bytes` bytes, gets a sentence about what was wrong, and "" without an error; it may
 * be NULL.
 *
 * FANIN_E_INVALID  an option is out of its range or `listen` cannot be understood
 * FANIN_E_CONFIG   a variable or the INI file is wrong
 * FANIN_E_SYSTEM   the port is in use, the address is not this machine's, ...
 * FANIN_E_NOMEM
 *
 * Each of its threads has all signals blocked.  A child that fork() made has none of them:
 * fanin_switch_stop there only frees memory, and the parent's switch goes on. */
int fanin_switch_start(const struct fanin_switch_options *options, fanin_switch **started,
		       char *why, size_t why_bytes);

/* Where it listens, as "10.0.0.1:5000", with the port that it got; a wildcard stays one.
 * Valid until the switch is stopped.  NULL gives "". */
const char *fanin_switch_address(const fanin_switch *running);

/* Stop the switch and free everything.  First wait until no job is left, `linger_ms` at
 * most: the slower ranks may still need their last results, and would wait for the
 * switch in vain.  A rank that was killed leaves only when its silence is noticed.
 * `linger_ms` <= 0: stop at once.  NULL is allowed. */
void fanin_switch_stop(fanin_switch *running, int linger_ms);

#if defined(__GNUC__)
#pragma GCC visibility pop
#endif

#ifdef __cplusplus
}
#endif

#endif
