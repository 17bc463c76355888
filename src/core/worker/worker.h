/* SPDX-License-Identifier: Apache-2.0 */
/* worker.h - the worker: sends each fragment once and receives its sum once.
 *
 * A fan_worker is one rank of one job on one shard.  It joins, splits operations into
 * fragments, keeps a window of them in flight, probes for missing results, reassembles
 * and dequantises results into the caller's tensor, and leaves.  It owns no socket,
 * clock, thread or memory.
 *
 * Operations are numbered from 0 in the order in which they are started; all ranks must
 * start the same ones in the same order.  Tensors belong to the caller and must not be
 * touched until the operation is done or the worker has failed. */
#ifndef FAN_WORKER_WORKER_H
#define FAN_WORKER_WORKER_H

#include "core/base/out.h"
#include "core/recovery/rtt.h"
#include "core/wire/ctlmsg.h"
#include "worker_helper.h"

struct fan_worker;
struct fan_pool;

/* The priority of a fragment, for slot policies that use it.
 *
 * The caller may choose the function.  The default follows ESA (arXiv 2201.06398): high
 * for jobs that have little left to send, that wait for the network more than they
 * compute, and for the first layers, which the next iteration needs first. */

/* State of a worker when it sends a fragment. */
struct fan_priority_view {
	uint64_t left_frags; /* of the operations in flight, this fragment included */
	uint64_t sent_frags; /* in the job's life: its share of service */
	uint64_t busy_ns;    /* recent time with operations in flight */
	uint64_t idle_ns;    /* recent time without */
	uint32_t layer;	     /* of the operation, 1 the first; 0: not known */
};

/* 0 lowest, 255 highest.  `arg` is the caller's. */
typedef uint8_t (*fan_priority_fn)(const void *arg, const struct fan_priority_view *v);

/* (busy / idle) / (left x layer), as a logarithm in 1 .. 255; a doubling is 8.  Before any idle
 * time, busy / idle counts as 1. */
uint8_t fan_priority_default(const void *arg, const struct fan_priority_view *v);

struct fan_worker_config {
	char name[FAN_NAME_MAX + 1]; /* of the job */
	uint16_t rank;
	uint16_t ranks;		/* 2 .. FAN_RANKS_MAX */
	uint16_t payload_bytes; /* of a full fragment: FAN_PAYLOAD_MIN .. _MAX, multiple of 8 */
	uint16_t window_max;	/* most fragments in flight, 2 .. FAN_WINDOW_MAX */
	uint16_t burst_max;	/* option AHEAD: most fragments in flight; 0: as granted */
	uint8_t options;	/* enum fan_join_option */
	uint8_t congestion;	/* enum fan_congestion_kind */
	uint32_t alive_ms;	/* silence after which a rank is lost */
	uint32_t rto_min_ms;	/* least time-out of a result; 0: FAN_RTO_MIN_NS */
	uint32_t join_ms;	/* time-out of the join */
	uint32_t stall_ms;	/* time-out of an operation without progress */
	/* an aggregator that does not know the worker is silent, for lack of a key: the worker
	 * joins again when BEATs get no answer */
	bool authentic;
	uint16_t route; /* to its aggregator; 0: none */
	/* of the window that it uses, in 1 / 65536, at least 4 fragments; 0: all */
	uint16_t share;
	uint64_t nonce;	 /* random, not 0: this life of this rank */
	uint64_t launch; /* id of its launch, and a claim: struct fan_join */
	uint32_t claim;
	fan_priority_fn priority; /* of fragments whose operation has none; NULL: 0 */
	const void *priority_arg;
	uint32_t workers; /* an uplink: workers below its aggregator; otherwise 0 or 1 */
	/* option AHEAD: sums in its helper cache, at most FAN_CACHE_MAX; 0: it is no helper */
	uint32_t cache_frags;
	/* an uplink: its fragments are the AWAITING rounds of this pool, and there are no
	 * operations */
	struct fan_pool *relayed;
};

/* Representation of the elements on the wire. */
enum fan_mode {
	FAN_NATIVE = 0, /* in type `wire` */
	FAN_FIXED = 1,	/* float32 sums and averages in block fixed point: same bits on every run */
};

struct fan_op {
	enum fan_redop op;
	enum fan_dtype dtype; /* of the tensors; FAN_FIXED32 and FAN_EXP16 are internal */
	/* = dtype; or a half type for float32 tensors; or BLOCK8 for sums and averages of float32,
	 * float16 and bfloat16 */
	enum fan_dtype wire;
	enum fan_mode mode;
	/* of a broadcast, or with `reduce`.  FAN_RANK_NONE: a rank of another aggregator of the
	 * tree */
	uint16_t root;
	bool reduce;	  /* only the root's `out` is written */
	uint8_t priority; /* of its fragments; 0: by the worker's function */
	uint32_t layer;	  /* argument of that function: 1 the first; 0: not known */
	uint16_t mark;	  /* enum fan_mark: the same on all ranks, or they disagree */
	uint64_t count;	  /* elements */
	const void *in;	  /* unused by non-roots of a broadcast */
	/* may be `in`; unused by the root of a broadcast and by non-roots of a reduce */
	void *out;
	/* BLOCK8: `count` floats, or NULL: what rounding took from `in`, set where it is sent */
	float *error;
};

#define FAN_FRAG_NONE UINT64_MAX /* not known */

/* Why a worker failed. */
struct fan_fault {
	int err; /* enum fan_err; FAN_OK: it has not failed */
	/* MISMATCH: two ranks that disagree; RANK_TAKEN and LAUNCHES, of a refusal: a */
	uint16_t rank_a, rank_b;
	/* MISMATCH: the fragment as each sent it.  Refusals: what the aggregator has (a) and what
	 * was requested (b) */
	fan_desc desc_a, desc_b;
	uint64_t frag;			/* STALLED: the fragment waited for, or FAN_FRAG_NONE */
	uint64_t ranks[FAN_RANK_WORDS]; /* ranks to blame; empty: not known */
	uint8_t hosts[FAN_HOSTS_BYTES]; /* LAUNCHES: as in struct fan_refuse */
};

enum fan_worker_phase {
	FAN_W_JOINING, /* until WELCOME */
	FAN_W_FORMING, /* until all ranks have joined */
	FAN_W_READY,
	FAN_W_FAILED,
	FAN_W_LEAVING, /* until LEFT */
	FAN_W_LEFT,
};

struct fan_worker_stats {
	uint64_t sent;	 /* contributions, resent ones included */
	uint64_t resent; /* contributions sent again on NEED */
	uint64_t probes;
	uint64_t results;    /* fragments finished */
	uint64_t replays;    /* results by unicast replay */
	uint64_t collisions; /* results with a contribution whose shared slot was taken */
	uint64_t marks;	     /* results with a congestion mark */
	uint64_t srtt_ns;    /* smoothed round trip, waits for others included */
	uint32_t window;     /* granted, fragments */
	bool multicast;	     /* results come by multicast, by the last STATE */
	uint32_t cwnd;	     /* congestion window, fragments */
	uint32_t waiting;    /* fragments sent without a result; may exceed cwnd with run-ahead */
	uint64_t next;	     /* its next fragment */
	uint64_t slowest;    /* lower bound of the slowest rank's next fragment */
	struct fan_helper_cache_stats cache;
	uint64_t drops[FAN_DROP_COUNT];
};

/* Bytes that a worker of this configuration needs; 0 if a field is out of range. */
size_t fan_worker_bytes(const struct fan_worker_config *cfg);

/* As fan_worker_bytes, for an uplink of at most `window_max` fragments in flight. */
size_t fan_worker_uplink_bytes(uint16_t window_max);

/* Make a worker in `mem`, fan_worker_bytes(cfg) bytes aligned to 64.  It begins to join at
 * the first tick. */
struct fan_worker *fan_worker_init(void *mem, const struct fan_worker_config *cfg, uint64_t now_ns);

/* Handle one datagram, to this worker or to its group (`by_group`); `marked`: with a congestion
 * mark.  FAN_DONE: a fragment has finished; FAN_ASK: a contribution is requested again; FAN_CTL;
 * FAN_DROP. */
enum fan_verdict fan_worker_recv(struct fan_worker *w, uint64_t now_ns, const uint8_t *pkt,
				 size_t len, bool by_group, bool marked);

/* As fan_worker_recv, of a datagram that fan_wire_get has read to `f`, which may change. */
enum fan_verdict fan_worker_take(struct fan_worker *w, uint64_t now_ns, struct fan_frag *f,
				 bool by_group, bool marked);

/* Write all that can be sent now, as far as `out` has room.  Call it after a batch of
 * recv, after start and when the deadline has passed.  Each contribution may take
 * payload_bytes of scratch, rounded up to 64.  True if `out` ran full: send, reset and
 * call again. */
bool fan_worker_tick(struct fan_worker *w, uint64_t now_ns, struct fan_out *out);

/* Time of the next tick; UINT64_MAX: none is needed. */
uint64_t fan_worker_deadline(struct fan_worker *w);

/* Fetch into the caches what each packet needs, for callers that have many workers and know which
 * one is next. */
void fan_worker_prefetch(const struct fan_worker *w);

/* Start an operation; `*id` is its number.  FAN_E_BUSY: FAN_OPS_MAX are in flight;
 * FAN_E_INVALID: a field is out of range; or the error with which the worker has failed. */
int fan_worker_start(struct fan_worker *w, uint64_t now_ns, const struct fan_op *op, uint64_t *id);

/* The reason for the last FAN_DROP. */
enum fan_drop fan_worker_last_drop(const struct fan_worker *w);

/* Is this packet for this worker, by job and epoch, or by its nonce? */
bool fan_worker_hears(const struct fan_worker *w, const struct fan_frag *f);

/* Has a switch on the path announced its stop?  The worker goes on until it is rerouted,
 * or loses its path: then it has failed with FAN_E_STOPPED. */
bool fan_worker_path_ends(const struct fan_worker *w);
void fan_worker_lose_path(struct fan_worker *w);

/* Packets take another path to the same aggregator from now on: on route `route`, or, if that is
 * 0, on the same as before.  JOINs under the same nonce announce it; operations continue. */
void fan_worker_reroute(struct fan_worker *w, uint64_t now_ns, uint16_t route);

/* The route on which the aggregator has this worker; 0: none, or none yet. */
uint16_t fan_worker_route(const struct fan_worker *w);

/* An uplink: the round of fragment `frag` is AWAITING now, and may be sent. */
void fan_worker_offer(struct fan_worker *w, uint64_t now_ns, uint64_t frag);

/* The ranks that had not joined by the aggregator's last report.  False: there was none. */
bool fan_worker_missing(const struct fan_worker *w, uint64_t missing[FAN_RANK_WORDS]);

/* Workers of the job, over the tree; 0 before it is ready. */
uint32_t fan_worker_workers(const struct fan_worker *w);

/* FAN_OK: operation `id` is done; FAN_E_PENDING; or the error with which the worker has failed. */
int fan_worker_test(const struct fan_worker *w, uint64_t id);

/* Begin to leave.  `err` is FAN_OK, or a cause with which the job fails for all ranks; `blamed`
 * are the ranks to blame, NULL: those of this worker's own fault. */
void fan_worker_leave(struct fan_worker *w, uint64_t now_ns, int err, const uint64_t *blamed);

/* Assert all invariants, slot by slot: for tests and simulations. */
void fan_worker_audit(const struct fan_worker *w);

/* A worker whose aggregator is lost (transfer.c).  Each of the granted window's slots
 * handles fragments slot, slot + window, ... in turn: the one whose result it has not had.  All
 * ranks have contributed to the one before, so no rank is more than one of them ahead. */
uint64_t fan_worker_awaits(const struct fan_worker *w, uint32_t slot);

/* Take a RESULT that another rank of the job got, in any phase.  False: it is not awaited, or
 * carries nothing for this rank. */
bool fan_worker_supply(struct fan_worker *w, uint64_t now_ns, const uint8_t *pkt, size_t len);

/* Elements of an operation whose results have not come, a run that begins where a fragment does. */
struct fan_missing {
	uint64_t first, end; /* none if the operation has none */
	uint64_t block;	     /* where the search goes on; 0 at first */
};

/* The next run of operation `id`.  False: there is no more. */
bool fan_worker_next_missing(const struct fan_worker *w, uint64_t id, struct fan_missing *r);

/* Number of fragments of started operations that have no result. */
uint64_t fan_worker_left(const struct fan_worker *w);

/* Bound the fragments in flight, below the window, by `in_flight`; the lowest unfinished one may
 * always be sent.  UINT32_MAX, the initial value: no bound. */
void fan_worker_allow(struct fan_worker *w, uint32_t in_flight);

/* Take `min_ms`, as in its configuration, for the least time-out of a result from now on. */
void fan_worker_least_timeout(struct fan_worker *w, uint32_t min_ms);

enum fan_worker_phase fan_worker_phase(const struct fan_worker *w);
const struct fan_fault *fan_worker_fault(const struct fan_worker *w);
const struct fan_worker_stats *fan_worker_stats(struct fan_worker *w);

/* Its round trips. */
const struct fan_rtt_histogram *fan_worker_trips(const struct fan_worker *w);

/* The WELCOME: shards, group, window.  NULL before it has come. */
const struct fan_welcome *fan_worker_welcome(const struct fan_worker *w);

/* May what it sends leave as runs (core/wire/run.h)?  Not on a path that it has moved to, nor while
 * losses keep its congestion window small, of which a run is much. */
bool fan_worker_runs(const struct fan_worker *w);

/* Most elements of `op` in one fragment. */
uint32_t fan_worker_frag_elems(const struct fan_worker *w, const struct fan_op *op);

#endif
