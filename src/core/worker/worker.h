/* SPDX-License-Identifier: Apache-2.0 */
/* worker.h - the worker role: sends each fragment once and gets the sum back once.
 *
 * A fan_worker is one rank of one job on one switch shard.  It joins, splits
 * operations into fragments, keeps a window of them in flight, probes for what is
 * missing, reassembles and dequantises results into the caller's tensor, and leaves.
 * It owns no socket, clock, thread or memory.
 *
 * Operations are numbered 0, 1, 2, ... in the order they are started; all ranks must
 * start the same ones in the same order.  Tensors stay the caller's and must not be
 * touched until the operation is done or the worker has failed. */
#ifndef FAN_WORKER_WORKER_H
#define FAN_WORKER_WORKER_H

#include "core/base/verdict.h"
#include "core/sum/helper_cache.h"
#include "core/wire/ctlmsg.h"
#include "priority.h"

struct fan_worker;
struct fan_pool;

struct fan_worker_config {
	char name[FAN_NAME_MAX + 1]; /* of the job */
	uint16_t rank;
	uint16_t ranks;		  /* 2 .. FAN_RANKS_MAX */
	uint16_t payload_bytes;	  /* of a full fragment: FAN_PAYLOAD_MIN .. _MAX, multiple of 8 */
	uint16_t window_max;	  /* most fragments in flight, 2 .. FAN_WINDOW_MAX */
	uint16_t burst_max;	  /* where ranks run ahead of each other, which is then what the
				   * window is for: most under way; 0: as the switch grants */
	uint8_t options;	  /* enum fan_join_option */
	uint32_t alive_ms;	  /* silence after which a rank is lost */
	uint32_t rto_min_ms;	  /* least time-out of a result; 0: FAN_RTO_MIN_NS */
	uint32_t join_ms;	  /* give up if the job is not ready by then */
	uint32_t stall_ms;	  /* give up an operation without progress for so long */
	uint16_t route;		  /* by which it reaches its aggregator; 0: none */
	uint16_t share;		  /* of its window, in 1 / 65536, that it uses; 0: all.  At least
				   * 4 fragments */
	uint64_t nonce;		  /* random, not 0: this life of this rank */
	fan_priority_fn priority; /* of fragments of operations without one; NULL: 0 */
	const void *priority_arg;
	uint32_t workers;	  /* behind this rank, for a switch that is one; 0 or 1: itself */
	uint32_t cache_frags;	  /* sums that it keeps for slow ranks where ranks run ahead of each
				   * other, at most FAN_CACHE_MAX; 0: none */
	struct fan_pool *relayed; /* a switch's uplink: its fragments are the rounds of this
				   * pool that are AWAITING, and there are no operations */
};

/* How the elements travel. */
enum fan_mode {
	FAN_NATIVE = 0, /* as they are, or as `wire` says */
	FAN_FIXED = 1,	/* float32 sums and averages in block fixed point: same bits on every run */
};

struct fan_op {
	enum fan_redop op;
	enum fan_dtype dtype; /* of the tensors; FAN_FIXED32 and FAN_EXP16 are internal */
	enum fan_dtype wire;  /* = dtype, or a half type for float32 tensors */
	enum fan_mode mode;
	uint16_t root;	  /* broadcast, and reduce if `reduce`.  FAN_RANK_NONE: a rank of another
			   * switch of the tree */
	bool reduce;	  /* only the root's `out` is written */
	uint8_t priority; /* of its fragments; 0: as the worker's function says */
	uint32_t layer;	  /* for that function: 1 the first; 0: not known */
	uint64_t count;	  /* elements */
	const void *in;	  /* unused by non-roots of a broadcast */
	void *out;	  /* may be `in`; unused by the root of a broadcast and by
			   * non-roots of a reduce */
};

/* Why a worker failed. */
struct fan_fault {
	int err;			/* enum fan_err; FAN_OK: it has not */
	uint16_t rank_a, rank_b;	/* MISMATCH: two ranks that disagree; RANK_TAKEN: a */
	fan_desc desc_a, desc_b;	/* MISMATCH: and what they sent.  Refusals: what the
					 * switch has (a) and what was asked (b) */
	uint64_t frag;			/* STALLED: the fragment waited for */
	uint64_t ranks[FAN_RANK_WORDS]; /* those to blame; may be empty: not known */
};

enum fan_worker_phase {
	FAN_W_JOINING, /* until WELCOME */
	FAN_W_FORMING, /* until all ranks are here */
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
	uint64_t replays;    /* of them by unicast replay */
	uint64_t collisions; /* of them: some part had found its shared slot taken */
	uint64_t marks;	     /* of them: some part had met congestion */
	uint64_t srtt_ns;    /* smoothed round trip, waits for others included */
	uint64_t rto_ns;
	uint32_t window;  /* granted, fragments */
	bool multicast;	  /* results come by multicast, as far as the switch has told */
	uint32_t cwnd;	  /* allowed now, fragments */
	uint32_t waiting; /* fragments sent whose results are not there; beyond cwnd: ahead */
	uint64_t next;	  /* the fragment that it comes to */
	uint64_t slowest; /* the one that the slowest rank has come to, at least */
	struct fan_helper_cache_stats cache;
	uint64_t drops[FAN_DROP_COUNT];
};

/* Bytes that a worker of this configuration needs; 0 if a field is out of range. */
size_t fan_worker_bytes(const struct fan_worker_config *cfg);

/* The same for an uplink of at most `window_max` fragments in flight. */
size_t fan_worker_uplink_bytes(uint16_t window_max);

/* Make a worker in `mem`, fan_worker_bytes(cfg) bytes aligned to 64.  It starts to
 * join at the first tick. */
struct fan_worker *fan_worker_init(void *mem, const struct fan_worker_config *cfg, uint64_t now_ns);

/* Handle one datagram that the switch sent, to this worker or to its group
 * (`by_group`); `marked`: it met congestion.  FAN_DONE: a fragment finished, FAN_ASK: the
 * switch needs one again, FAN_CTL, or FAN_DROP. */
enum fan_verdict fan_worker_recv(struct fan_worker *w, uint64_t now_ns, const uint8_t *pkt,
				 size_t len, bool by_group, bool marked);

/* Write all that can be sent now, contributions included, as far as `out` has room.
 * Call it after a batch of recv, after start and when the deadline has passed.  Each
 * contribution may take payload_bytes of scratch, rounded up to 64.  Returns true if
 * `out` ran full: send, reset and call again. */
bool fan_worker_tick(struct fan_worker *w, uint64_t now_ns, struct fan_out *out);

/* When tick wants to be called; UINT64_MAX: never. */
uint64_t fan_worker_deadline(struct fan_worker *w);

/* Start an operation; `*id` is its number.  FAN_E_BUSY: FAN_OPS_MAX are in flight;
 * FAN_E_INVALID: a field out of its range; or the error the worker failed with. */
int fan_worker_start(struct fan_worker *w, uint64_t now_ns, const struct fan_op *op, uint64_t *id);

/* Why the last datagram was dropped; meaningful after FAN_DROP. */
enum fan_drop fan_worker_last_drop(const struct fan_worker *w);

/* Is this packet for this worker, by job and epoch, or by its nonce? */
bool fan_worker_hears(const struct fan_worker *w, const struct fan_frag *f);

/* From now on packets take another path to the same aggregator, which the caller knows: by `route`,
 * or by the same as before if that is 0.  The aggregator is told, by JOINs under the same nonce,
 * and operations go on. */
void fan_worker_reroute(struct fan_worker *w, uint64_t now_ns, uint16_t route);

/* The route by which the aggregator knows this worker; 0: none, or it does not know it yet. */
uint16_t fan_worker_route(const struct fan_worker *w);

/* An uplink: the round of fragment `frag` is AWAITING now, and may go. */
void fan_worker_offer(struct fan_worker *w, uint64_t now_ns, uint64_t frag);

/* Workers of the job, in all the tree; 0 before it is ready. */
uint32_t fan_worker_workers(const struct fan_worker *w);

/* FAN_OK: operation `id` is done; FAN_E_PENDING; or the error the worker failed with. */
int fan_worker_test(const struct fan_worker *w, uint64_t id);

/* Begin to leave.  `err` is FAN_OK, or why: then the job fails for the others too, and
 * `blamed` says who is to blame.  NULL: as this worker's own fault says. */
void fan_worker_leave(struct fan_worker *w, uint64_t now_ns, int err, const uint64_t *blamed);

/* Assert all that holds between calls, slot by slot: for tests and simulations. */
void fan_worker_audit(const struct fan_worker *w);

enum fan_worker_phase fan_worker_phase(const struct fan_worker *w);
const struct fan_fault *fan_worker_fault(const struct fan_worker *w);
const struct fan_worker_stats *fan_worker_stats(struct fan_worker *w);

/* The switch's answer to JOIN: shards, group, window.  NULL before it came. */
const struct fan_welcome *fan_worker_welcome(const struct fan_worker *w);

/* The largest number of elements of `op` that one fragment carries. */
uint32_t fan_worker_frag_elems(const struct fan_worker *w, const struct fan_op *op);

#endif
