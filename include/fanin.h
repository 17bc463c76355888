/* SPDX-License-Identifier: Apache-2.0 */
/* fanin.h - all-reduce, summed inside the network.
 *
 * The public interface of libfanin.  A communicator is one rank of one job.  All ranks start the
 * same operations in the same order; each call ends with the right result or with an error that
 * names the cause.  The library never exits, aborts or prints, and handles no signals.
 *
 * Functions return FANIN_OK (0) or a negative enum fanin_error, unless noted otherwise.  Several
 * threads may use one communicator; their operations start in the order in which the calls get its
 * lock.
 *
 * Structs that begin with `size` may grow in later versions, and a program may run with a library
 * of another one.  Fields that the caller's struct lacks keep their defaults.  Options that the
 * library does not know must be zero; otherwise the call ends with FANIN_E_INVALID.
 *
 *     struct fanin_options o = FANIN_OPTIONS_INIT;
 *     o.switch_addr = "10.0.0.1:5000"; o.job = "train"; o.rank = r; o.ranks = n;
 *     fanin_comm *c;
 *     int e = fanin_comm_create(&o, &c);
 *     if (!e) e = fanin_allreduce(c, grad, grad, count, FANIN_FLOAT32, FANIN_AVG);
 *     if (e) fprintf(stderr, "%s\n", fanin_comm_error(c));
 *     fanin_comm_destroy(c); */
#ifndef FANIN_H
#define FANIN_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define FANIN_VERSION_MAJOR 0
#define FANIN_VERSION_MINOR 2
#define FANIN_VERSION_PATCH 0

/* Most ranks of one job on one switch. */
#define FANIN_RANKS_MAX 256

/* Largest mark of an operation. */
#define FANIN_MARK_MAX 14

/* A rank of a job, connected to a switch. */
typedef struct fanin_comm fanin_comm;

/* A started operation. */
typedef struct fanin_op fanin_op;

/* A switch inside this process. */
typedef struct fanin_switch fanin_switch;

enum fanin_error {
	FANIN_OK = 0,
	FANIN_E_INVALID = -1, /* an argument is out of its range */
	FANIN_E_NOMEM = -2,
	FANIN_E_SYSTEM = -3,	    /* the operating system refused a call */
	FANIN_E_BUSY = -4,	    /* too many operations in flight */
	FANIN_E_UNREACHABLE = -5,   /* the switch does not answer */
	FANIN_E_TIMEOUT = -6,	    /* not every rank joined in time */
	FANIN_E_RANK_LOST = -7,	    /* a rank stopped answering */
	FANIN_E_RANK_LEFT = -8,	    /* a rank left while others still needed it */
	FANIN_E_STALLED = -9,	    /* a rank did not take part in time */
	FANIN_E_MISMATCH = -10,	    /* ranks disagree about count, type or operation */
	FANIN_E_RANK_TAKEN = -11,   /* the rank is taken in this job, by a life that goes on */
	FANIN_E_JOBS_FULL = -12,    /* the switch serves as many jobs as it can */
	FANIN_E_SLOTS_FULL = -13,   /* the switch has no slots left */
	FANIN_E_MEMBERS_FULL = -14, /* the switch has no room for more ranks */
	FANIN_E_JOB_MISMATCH = -15, /* ranks disagree about the job's size or options */
	FANIN_E_RESTARTED = -16,    /* the switch was restarted and does not know the job */
	FANIN_E_VERSION = -17,	    /* the switch speaks another version of the protocol */
	FANIN_E_SHORT = -18,	    /* internal: packet too short */
	FANIN_E_FORMAT = -19,	    /* internal: a malformed message */
	FANIN_E_CHECK = -20,	    /* internal: a wrong checksum */
	FANIN_E_CLOSED = -21,	    /* the communicator is being destroyed */
	FANIN_E_PAYLOAD = -22,	    /* fragments are larger than the switch's slots */
	FANIN_E_MTU = -23,	    /* fragments do not fit the path MTU */
	FANIN_E_PENDING = -24,	    /* not finished yet */
	FANIN_E_CONFIG = -25,	    /* wrong configuration; the error text says where */
	FANIN_E_SHARDS = -26,	    /* the switch and its server run different numbers of threads */
	FANIN_E_ROUTE = -27,   /* the worker joined at a switch where its route does not begin */
	FANIN_E_SEALED = -28,  /* of switch and rank only one has a key */
	FANIN_E_FILES = -29,   /* a rank has too few file descriptors left */
	FANIN_E_STOPPED = -30, /* the switch is being stopped */
	FANIN_E_LAUNCHES = -31 /* two launches of the program use one job name at once */
};

enum fanin_dtype {
	FANIN_FLOAT32 = 0,
	FANIN_FLOAT16 = 1,  /* IEEE binary16; summed in float32 */
	FANIN_BFLOAT16 = 2, /* summed in float32 */
	FANIN_INT32 = 3,    /* sums wrap; averages truncate towards zero */
	FANIN_INT64 = 4,
	FANIN_UINT8 = 7,  /* bytes; broadcast and all-gather only */
	FANIN_FLOAT64 = 8 /* IEEE binary64 */
};

enum fanin_redop {
	FANIN_SUM = 0,
	FANIN_AVG = 1,
	FANIN_MIN = 2, /* NaN if any is NaN */
	FANIN_MAX = 3
};

/* How elements travel that are reduced. */
enum fanin_wire {
	FANIN_WIRE_FLOAT32 = 0,	 /* as they are */
	FANIN_WIRE_FLOAT16 = 1,	 /* float32 as float16 */
	FANIN_WIRE_BFLOAT16 = 2, /* float32 as bfloat16 */
	/* sums and averages of more than 256 float32, float16 or bfloat16 in 8 bits, with an
	 * exponent for each 32 of them; the rest as it is */
	FANIN_WIRE_INT8 = 3
};

enum fanin_mode {
	FANIN_MODE_NATIVE = 0, /* sums in arrival order: same bits on every rank */
	FANIN_MODE_FIXED = 1   /* float32 sum and avg in block fixed point: same bits on
				* every rank and on every run */
};

/* Options of a communicator.  Set with FANIN_OPTIONS_INIT, then change fields.  A field
 * left at its initial value (NULL, -1) is taken from the first of these that has it:
 *
 *  1. the variable FANIN_<NAME>, if its comment has one;
 *  2. rank and ranks only: the launcher's variables RANK and WORLD_SIZE,
 *     OMPI_COMM_WORLD_RANK and _SIZE, PMI_RANK and PMI_SIZE, or a Slurm step's SLURM_PROCID and
 *     SLURM_STEP_NUM_TASKS;
 *  3. section [worker] of the INI file that FANIN_CONFIG names; keys are the fields' names,
 *     and `switch`, `server` and `controller` for the addresses;
 *  4. its default, which ends each comment below.
 *
 * When no switch is named, rank 0 starts one in its process for as long as its communicator
 * lives and other ranks need it.  All ranks meet there: at UDP port MASTER_PORT of MASTER_ADDR,
 * which torchrun sets; under Slurm at the step's first host; under Open MPI on this host, if all
 * ranks run here.  Under Slurm and Open MPI the port follows from the job's id.  Where the ranks
 * are on several hosts, the first rank of each host starts a switch as well, at a free UDP port,
 * and each switch sums a part of every tensor.  So it is beside named switches, unless
 * FANIN_HOSTS=0 is set, or a server, run-ahead or a controller is given.  The shares of switches
 * and hosts are at first as the hosts' cards tell, or FANIN_LINK_MBPS, a host's rate in Mb/s; if
 * not all do, equal.  They follow what is measured.
 *
 * Ranks of one host then share memory: they sum there, and only one tensor leaves the host.  A host
 * is a kernel, a network namespace and a user.  Not where one rank has fixed mode, run-ahead or
 * FANIN_LOCAL=0: then each rank sends its own contributions.  At named switches so it is where
 * ranks are on several hosts and FANIN_HOSTS=0 is not set, or with FANIN_LOCAL=1. */
struct fanin_options {
	size_t size;		 /* sizeof(struct fanin_options) */
	const char *switch_addr; /* "HOST:PORT" or "[V6]:PORT", or up to 64 of them with commas
				  * between, each of which sums a part of every tensor: the
				  * same list on all ranks; FANIN_SWITCH; switches inside ranks */
	const char *job;	 /* name, at most 63 bytes; FANIN_JOB; the launcher's job, or
				  * "default" without one */
	int rank;		 /* FANIN_RANK or the launcher; none */
	int ranks;		 /* 2..256; FANIN_RANKS or the launcher; none */
	int mtu;		 /* path MTU, 576..9000; FANIN_MTU; 1500 */
	int window;		 /* fragments in flight (with ahead: outstanding) per shard of the
				  * switch, 0..4096; 0: as many as the switch grants;
				  * FANIN_WINDOW; 0 */
	int timeout_ms;		 /* time without progress after which an operation fails, and a
				  * join without join_ms; FANIN_TIMEOUT_MS; 30000 */
	int alive_ms;		 /* silence after which a rank is lost; FANIN_ALIVE_MS; 10000 */
	int mode;		 /* enum fanin_mode; FANIN_MODE=native|fixed; native */
	int wire;		 /* enum fanin_wire; FLOAT32 only in fixed mode;
				  * FANIN_WIRE=float32|float16|bfloat16|int8; float32 */
	int multicast;		 /* 0: never listen to a group; 1: also at several switches;
				  * at one switch only */
	int checksum;		 /* ignored since version 0.3, as the next two */
	int narrow;		 /* ignored */
	int plain_udp;		 /* ignored */
	int priority;		 /* of the job where slots go by priority (policy esa), 1..255;
				  * 0: high for jobs that have little left to send and wait long
				  * for results; 0 */
	const char *server_addr; /* "HOST:PORT" of the server behind a switch with shared slots
				  * (policies atp, esa): ranks continue through it while the
				  * switch is silent; FANIN_SERVER; none */
	int ahead;		 /* fragments, per shard, by which this rank may run ahead of the
				  * slowest one, 2..32768; 0: all ranks proceed in step.  Either
				  * 0 on all ranks or on none; needs memory at the server
				  * (--ahead); 0 */
	int cache;		 /* with ahead: sums, per shard and of one payload each, that this
				  * rank keeps for slower ones on request, 0..65536; 0: the
				  * server keeps them all; 0 */
	const char *controller_addr; /* "HOST:PORT" of a `fanin controller`, which assigns each
				      * part of a tensor to switches and servers; replaces
				      * switch_addr; FANIN_CONTROLLER; none */
	int pace;		     /* with a controller: percent of the planned rate at which this
				      * rank sends, 0..1000; 0: no rate limit; 100 */
	/* Called by fanin_comm_create every few seconds while it waits; `text` is a sentence
	 * that says for what.  Once a process also with one for each variable FANIN_* that is
	 * probably misspelt.  Optional; may be NULL. */
	void (*waiting)(void *arg, const char *text);
	void *waiting_arg;
	int rto_min_ms; /* least silence before this rank asks for a result, 1..1000.  Raise it
			 * on links so slow that results queue for tens of milliseconds;
			 * 1; 20 with ahead, where ranks of a host share memory,
			 * and with several switches, but 5 at the end of what is in progress */
	int reserved;	/* leave it 0 */
	const char *key_file; /* of the key that seals the job: nobody else can read or change what
			       * ranks and switches send; libfanin(3); FANIN_KEY_FILE; none: the
			       * job is open */
	const char *controller_key_file; /* of the key that signs the controller's lines, as it has
					  * it; libfanin(3); FANIN_CONTROLLER_KEY_FILE; none: they
					  * are not signed */
	int join_ms;	  /* time without progress after which a join fails; FANIN_JOIN_MS; 0: as
			   * timeout_ms */
	int reserved_end; /* leave it 0 */
	/* The launch's name, the same on all its ranks and no other's: ranks of different launches
	 * are never summed, whatever their names; FANIN_RUN; the launcher's id; none */
	const char *run;
};
#define FANIN_OPTIONS_INIT                                                                         \
	{                                                                                          \
		sizeof(struct fanin_options), NULL, NULL, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1,  \
			-1, -1, -1, NULL, -1, -1, NULL, -1, NULL, NULL, -1, 0, NULL, NULL, 0, 0,   \
			NULL                                                                       \
	}

/* Counters of a communicator since it was created.  "Per shard" is per thread of a switch. */
struct fanin_stats {
	size_t size;	       /* set it to sizeof(struct fanin_stats) before each call */
	uint64_t ops;	       /* operations finished */
	uint64_t bytes;	       /* of tensors in these operations, on this rank */
	uint64_t fragments;    /* results received */
	uint64_t sent;	       /* contributions sent, including resent ones */
	uint64_t retransmits;  /* contributions sent again */
	uint64_t probes;       /* requests for a missing result */
	uint64_t replays;      /* results received again, by unicast */
	uint64_t drops;	       /* packets dropped on arrival, for any reason */
	uint64_t srtt_ns;      /* smoothed round trip, including waits for other ranks */
	uint32_t window_frags; /* window that the switch granted; with run-ahead, fragments that
				* may be outstanding; all shards together */
	uint32_t packet_bytes; /* header, payload and, sealed, tag of a full fragment */
	uint32_t shards;
	int multicast;		  /* 1: results arrive by multicast */
	int segment_offload;	  /* 1: UDP_SEGMENT in use; 0: plain datagrams */
	int receive_offload;	  /* 1: UDP_GRO in use */
	uint32_t cwnd_frags;	  /* part of window_frags that congestion control allows now */
	uint64_t marks;		  /* results with a congestion mark (ECN) */
	uint64_t collisions;	  /* results of which some part found its shared slot taken */
	uint64_t moves;		  /* failovers: to the server and back, to other routes */
	int server;		  /* 1: the switch is silent; this rank goes through the server */
	uint32_t ahead_asked;	  /* run-ahead that the options ask for, fragments per shard */
	uint32_t ahead_frags;	  /* run-ahead granted, all shards together; 0: all in step */
	uint32_t ahead_now_frags; /* known distance to the slowest rank, fragments */
	uint32_t cache_frags;	  /* capacity of this rank's cache, sums, all shards together */
	uint32_t cache_open;	  /* sums in the cache now */
	uint32_t cache_peak;	  /* the most sums that were in it */
	uint64_t cache_parts;	  /* partial sums and contributions added to the cache */
	uint64_t cache_done;	  /* sums of all ranks sent from it */
	uint64_t cache_early;	  /* sums of some ranks sent from it on request */
	uint64_t cache_over;	  /* partial sums for which it had no room */
	uint32_t parts;		  /* of each tensor that are summed separately; 1 without a plan */
	uint64_t result_ns;	  /* time of the last result, CLOCK_MONOTONIC; 0: none yet */
	uint64_t gap_ns;	  /* longest time without a result during operations */
	uint32_t hosts;		  /* on which the ranks are; 0: not known */
	uint32_t host_ranks;	  /* ranks of this host that share memory; 0: none */
	uint64_t sealed; /* 1: what is sent is sealed, options.key_file; 0: the job is open */
	uint64_t forged; /* sealed: packets dropped because nobody with the key had sent them, or
			  * because they had come before */
	uint32_t idle_hosts;  /* hosts that sum nothing, although hosts sum */
	uint32_t idle_rank;   /* the first rank of the first of them */
	uint64_t idle_misses; /* ranks that do not reach the switch inside that one, as behind a
			       * firewall; 0: it could start none */
};

/* A part of every tensor, and the aggregator that sums it. */
struct fanin_part {
	size_t size;	     /* set it to sizeof(struct fanin_part) before each call */
	char aggregator[64]; /* its address, "10.0.0.1:5000" */
	int rank;	     /* in whose process it is; -1: it is a named switch, or a plan's */
	uint32_t share_ppm;  /* share of every tensor, in millionths */
	uint64_t rtt_ns;  /* round trip through it, the mean of all ranks when it was measured last;
			   * 0: it was not */
	uint32_t settled; /* 1: shares stay as they are until the network changes; 0: they are
			   * still being learnt */
	uint32_t lost;	  /* 1: the switch is gone, and the others sum its share meanwhile */
};

/* Options of a switch inside this process.  Set with FANIN_SWITCH_OPTIONS_INIT, then
 * change fields.  If left at -1, mtu and multicast come from the same places as those of a
 * communicator; both should agree. */
struct fanin_switch_options {
	size_t size;	      /* sizeof(struct fanin_switch_options) */
	const char *listen;   /* "ADDR:PORT" or "[V6]:PORT"; 0.0.0.0 or [::]: every interface;
			       * port 0: any free one; NULL: "127.0.0.1:0" */
	int slots;	      /* fragments that each thread can sum at a time, 2..65536; -1: 4096 */
	int threads;	      /* 1..64; thread i listens on PORT + i; -1: 1; port 0 allows only 1 */
	int mtu;	      /* largest path MTU of the jobs, 576..9000; FANIN_MTU; 1500 */
	int multicast;	      /* 0: send results to each rank; 1 */
	const char *key_file; /* as that of its ranks: only jobs with this key; FANIN_KEY_FILE;
			       * none: only open jobs */
};
#define FANIN_SWITCH_OPTIONS_INIT                                                                  \
	{                                                                                          \
		sizeof(struct fanin_switch_options), NULL, -1, -1, -1, -1, NULL                    \
	}

#if defined(__GNUC__)
#pragma GCC visibility push(default)
#endif

/* Version of the running library, as "major.minor.patch". */
const char *fanin_version(void);

/* The text of an error code.  Never NULL. */
const char *fanin_strerror(int error);

/* Join a job and wait until all its ranks have joined.  Blocks for at most about join_ms
 * (plus the time it takes to resolve the switch's name).
 *
 * On error `*comm` may still be set: fanin_comm_error then says what happened, and the caller
 * must destroy it.  Otherwise it is NULL.
 *
 * The communicator starts one thread.  A child of fork() does not have it: there every call
 * on the communicator ends with FANIN_E_CLOSED, and destroying it only frees its memory. */
int fanin_comm_create(const struct fanin_options *options, fanin_comm **comm);

/* A communicator of `count` ranks of `comm`, 2 at least, whose rank i is ranks[i]: the same list on
 * all of these, and this rank among them.  `name`, 1 to 24 printable characters without blanks or
 * '"', tells it from the other groups that there are at a time.  Only its ranks call this, and
 * wait for each other, for at most about timeout_ms.
 *
 * It has the options of `comm` and its switches; a window that is not given is 64 fragments, so
 * that many groups fit a switch.  It takes less time and memory than fanin_comm_create, because
 * ranks know each other's hosts already.  Destroy it on all ranks before `comm`.  FANIN_E_INVALID
 * also with a controller.  Errors and `*group` as those of fanin_comm_create. */
int fanin_comm_group(fanin_comm *comm, const char *name, const int *ranks, int count,
		     fanin_comm **group);

/* As fanin_comm_group, with a timeout_ms of the group's own, and a join_ms, 100 to 86400000 as in
 * struct fanin_options; < 0: the timeout_ms of `comm`, and of the group. */
int fanin_comm_group_within(fanin_comm *comm, const char *name, const int *ranks, int count,
			    int timeout_ms, int join_ms, fanin_comm **group);

/* A communicator of the ranks that are left of one that has failed, in their order.  All of them
 * call this, and it returns once all are there but those that `comm` knows as lost.  Ranks that
 * have not come after `wait_ms` (-1: timeout_ms) are left out, if most ranks are there.
 *
 * It has the options of `comm`, and its switches without those that died with a rank; on a host
 * that has lost its only one, the first rank that is left starts another.  `comm` may be destroyed
 * before or after.
 *
 * FANIN_E_RANK_LEFT    no other rank is left: `*left` is NULL
 * FANIN_E_TIMEOUT      too few ranks have come: the others may go on without this one
 * FANIN_E_UNREACHABLE  no switch is left
 * FANIN_E_INVALID      with a controller */
int fanin_comm_shrink(fanin_comm *comm, int wait_ms, fanin_comm **left);

/* Leave the job and free everything.  Unfinished operations end with FANIN_E_CLOSED; their
 * handles stay valid until freed.  No other call on `comm` may begin from here on.  NULL is
 * allowed. */
void fanin_comm_destroy(fanin_comm *comm);

/* The first file of FANIN_TRACE or FANIN_METRICS that this process could not write, and why:
 * "FANIN_TRACE: t-0.json: No space left on device"; "" if there was none.  Operations go on without
 * it.  Ask after fanin_comm_destroy, which writes the traces.  Valid for ever. */
const char *fanin_file_error(void);

/* From here on `tell` is called, once a wait, when a rank of this process has operations under way
 * and nothing has come for them for 30 s, or until 2 s before its timeout_ms if that is sooner;
 * `text` is a sentence that says what it waits for.  By a thread of the library, one call at a
 * time: it must not call functions of this file but fanin_version and fanin_strerror, and may
 * last: ranks and fanin_comm_destroy do not wait for it.  NULL: by nobody; when this returns, no
 * call is under way. */
void fanin_on_wait(void (*tell)(void *arg, const char *text), void *arg);

int fanin_comm_rank(const fanin_comm *comm);
int fanin_comm_size(const fanin_comm *comm);

/* The switches' addresses as they were given, "10.0.0.1:5000"; if none was given, where the ranks
 * met, and " (inside rank 0)", followed by " and 3 more hosts" where other hosts sum parts too.
 * Valid until the communicator is destroyed.  NULL gives "". */
const char *fanin_comm_switch(const fanin_comm *comm);

/* Why the communicator failed: a sentence that names ranks or the switch; "" while it works.  A
 * rank of this host that ended without leaving alive_ms ago or more fails it, if ranks share
 * memory, even while no operation waits for that rank.  Valid until the communicator is destroyed.
 * NULL gives "no communicator". */
const char *fanin_comm_error(const fanin_comm *comm);

/* Operations that are started from here on carry `mark`, 0 .. FANIN_MARK_MAX; 0 at first.  Ranks
 * whose marks differ disagree, as if about the type: FANIN_E_MISMATCH.  For whoever builds other
 * operations of these, which ranks must not take for each other. */
int fanin_comm_mark(fanin_comm *comm, int mark);

/* Fill in `*stats`, up to the smaller of `stats->size` and the library's own size, and set
 * `stats->size` to that. */
int fanin_comm_stats(const fanin_comm *comm, struct fanin_stats *stats);

/* Fill in `*part` about part `number`, from 0 to stats.parts - 1, up to the smaller of `part->size`
 * and the library's own size, and set `part->size` to that.  FANIN_E_INVALID: there is no such
 * part. */
int fanin_comm_part(const fanin_comm *comm, uint32_t number, struct fanin_part *part);

/* Reduce `count` elements over all ranks; every rank gets the result in `out`, which may
 * be `in`.  Blocks. */
int fanin_allreduce(fanin_comm *comm, const void *in, void *out, size_t count, int dtype, int op);

/* Copy `count` elements of `root` to every rank's `buf`.  Blocks. */
int fanin_broadcast(fanin_comm *comm, void *buf, size_t count, int dtype, int root);

/* As allreduce, but only `root` gets the result; `out` may be NULL elsewhere. */
int fanin_reduce(fanin_comm *comm, const void *in, void *out, size_t count, int dtype, int op,
		 int root);

/* Return when every rank has called it. */
int fanin_barrier(fanin_comm *comm);

/* Reduce `count` elements for each rank: `in` has those for rank i at i x `count`, and `out` gets
 * those for this rank.  `out` may be their place in `in`; otherwise they must not overlap.  Blocks.
 */
int fanin_reduce_scatter(fanin_comm *comm, const void *in, void *out, size_t count, int dtype,
			 int op);

/* Every rank's `out` gets the `count` elements of each rank's `in`, those of rank i at i x `count`.
 * `in` may be their place in `out`.  Blocks. */
int fanin_allgather(fanin_comm *comm, const void *in, void *out, size_t count, int dtype);

/* Start an operation and return at once.  The buffers must stay valid and untouched until the
 * operation has ended; `*handle` must be given to fanin_op_free.  On error `*handle` is NULL.
 *
 * FANIN_E_BUSY  4096 operations are in flight: wait for one.  A reduce-scatter and an all-gather
 * count as one for each rank */
int fanin_allreduce_start(fanin_comm *comm, const void *in, void *out, size_t count, int dtype,
			  int op, fanin_op **handle);
/* As fanin_allreduce_start, and where this rank sends in eight bits (FANIN_WIRE_INT8), element i of
 * `lost`, which has `count`, is set to what rounding took from element i: add it to the next
 * contribution, and little is lost for long.  Elsewhere `lost` is left as it is: where ranks of a
 * host share memory each sends a part of the host's sum. */
int fanin_allreduce_lossy_start(fanin_comm *comm, const void *in, void *out, float *lost,
				size_t count, int dtype, int op, fanin_op **handle);
int fanin_broadcast_start(fanin_comm *comm, void *buf, size_t count, int dtype, int root,
			  fanin_op **handle);
int fanin_reduce_start(fanin_comm *comm, const void *in, void *out, size_t count, int dtype, int op,
		       int root, fanin_op **handle);
int fanin_barrier_start(fanin_comm *comm, fanin_op **handle);
int fanin_reduce_scatter_start(fanin_comm *comm, const void *in, void *out, size_t count, int dtype,
			       int op, fanin_op **handle);
int fanin_allgather_start(fanin_comm *comm, const void *in, void *out, size_t count, int dtype,
			  fanin_op **handle);

/* Start an operation and wait for its end, for at most `timeout_ms`; < 0: until it ends.  Quicker
 * than a start and fanin_op_wait: where ranks share memory the calling thread does the work itself,
 * and nobody is woken.  FANIN_E_PENDING: it has not ended by then, and goes on as one that was
 * started;
 * `*handle` is that.  Otherwise `*handle` is NULL, and the result that of fanin_op_wait, or
 * FANIN_E_BUSY as above. */
int fanin_allreduce_within(fanin_comm *comm, const void *in, void *out, size_t count, int dtype,
			   int op, int timeout_ms, fanin_op **handle);
int fanin_broadcast_within(fanin_comm *comm, void *buf, size_t count, int dtype, int root,
			   int timeout_ms, fanin_op **handle);
int fanin_reduce_within(fanin_comm *comm, const void *in, void *out, size_t count, int dtype,
			int op, int root, int timeout_ms, fanin_op **handle);
int fanin_barrier_within(fanin_comm *comm, int timeout_ms, fanin_op **handle);

/* FANIN_OK if the operation has ended well, FANIN_E_PENDING if it has not ended, or the error it
 * ended with.  Never blocks. */
int fanin_op_test(fanin_op *handle);

/* Wait until the operation has ended, for at most `timeout_ms`; FANIN_E_PENDING if it has not by
 * then.  `timeout_ms` < 0: until it ends, which the communicator's timeout bounds. */
int fanin_op_wait(fanin_op *handle, int timeout_ms);

/* Wait until the operation has ended, because it uses its buffers until then, and free its
 * handle.  NULL is allowed. */
void fanin_op_free(fanin_op *handle);

/* Start a switch in this process, for jobs of any process that reaches it; rank 0 of a job
 * may connect to it as other ranks do.  `*started` is NULL on error.  `why`, `why_bytes` bytes,
 * gets a sentence that describes the error, or "" without one; it may be NULL.
 *
 * FANIN_E_INVALID  an option is out of its range, or `listen` is no address
 * FANIN_E_CONFIG   a variable or the INI file is wrong
 * FANIN_E_SYSTEM   the port is in use, the address is not this machine's, ...
 * FANIN_E_NOMEM
 *
 * Its threads block all signals.  A child of fork() does not have them: fanin_switch_stop
 * there only frees memory, and the parent's switch continues. */
int fanin_switch_start(const struct fanin_switch_options *options, fanin_switch **started,
		       char *why, size_t why_bytes);

/* Its address as "10.0.0.1:5000", with the port that it got; a wildcard address stays a wildcard.
 * Valid until the switch is stopped.  NULL gives "". */
const char *fanin_switch_address(const fanin_switch *running);

/* Stop the switch and free everything.  First wait until no job is left, for at most
 * `linger_ms`, because slower ranks may still need their last results.  A killed rank counts as
 * present until its silence is noticed.  Nobody else joins meanwhile.  `linger_ms` <= 0: stop at
 * once.  NULL is allowed. */
void fanin_switch_stop(fanin_switch *running, int linger_ms);

#if defined(__GNUC__)
#pragma GCC visibility pop
#endif

#ifdef __cplusplus
}
#endif

#endif
