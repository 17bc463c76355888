/* SPDX-License-Identifier: Apache-2.0 */
/* job.h - a training job: its model, how long its layers take, who takes part.
 *
 * An iteration computes the layers forwards and then backwards.  On the way back, the gradients of
 * finished layers are collected in buckets, and a full bucket is all-reduced while the layers
 * before it are still being computed.  The next iteration begins when all buckets are reduced; with
 * `overlap`, each of its layers begins as soon as its own bucket is.  Buckets are reduced in the
 * order in which they fill, so those of the first layers come last: overlap lets only layers before
 * the first parameters begin early. */
#ifndef FAN_SIM_JOB_H
#define FAN_SIM_JOB_H

#include "core/base/rng.h"
#include "core/worker/worker.h"

#define FAN_MODEL_NAME_MAX   47
#define FAN_MODEL_LAYERS_MAX 4096
#define FAN_MODEL_NUMEL_MAX  (UINT64_C(1) << 36) /* elements of one layer */
#define FAN_LAYER_NS_MAX     (UINT64_C(3600) * 1000000000)
#define FAN_JOB_SLOWS_MAX    64
#define FAN_JOB_SPANS_MAX    512 /* iterations whose times are kept */
#define FAN_TENSOR_PARTS_MAX 128 /* jobs that are parts of one tensor (tensor.h) */

struct fan_layer {
	char name[FAN_MODEL_NAME_MAX + 1];
	uint64_t numel; /* parameters; may be 0 */
	uint64_t forward_ns, backward_ns;
};

struct fan_model {
	char name[FAN_MODEL_NAME_MAX + 1];
	struct fan_layer *layer; /* in forward order */
	uint32_t layers;
};

/* Gradients that are reduced together.  Bucket 0, that of the last layers, is ready first. */
struct fan_bucket {
	uint32_t low; /* its first layer */
	uint64_t elems;
};

/* Some workers compute or send at a fraction of their speed for a while. */
struct fan_slow {
	uint32_t rank, ranks; /* the first rank, and how many */
	bool computes, sends; /* which of these is slow */
	uint32_t speed;	      /* in millionths, at least 1 */
	uint64_t from_ns, to_ns;
	uint64_t interval_ns; /* 0: always slow; else drawn anew for each interval */
	uint32_t chance;      /* of being slow in an interval, millionths */
};

/* What sets the priority of a job's fragments, besides layers and computing. */
enum fan_job_priority {
	FAN_PRIORITY_REMAINING, /* what the job has left to reduce: less is more urgent */
	FAN_PRIORITY_ATTAINED,	/* what it has reduced: less is more urgent */
	FAN_PRIORITY_STARTED,	/* what is left of its operations in flight */
	FAN_PRIORITY_NONE,	/* nothing: all priorities are 0 */
};

/* Where a worker of a tree of switches joins, and as which rank. */
struct fan_job_seat {
	uint32_t node;
	uint32_t aggregator; /* the actor there; set once that exists */
	uint16_t rank, ranks;
	uint32_t place; /* of its inputs: the ranks below any one aggregator are neighbours */
	uint16_t route; /* its number in a plan; 0: none */
	bool multicast; /* set once the actor exists */
};

struct fan_job_config {
	char name[FAN_NAME_MAX + 1];
	struct fan_model model;
	struct fan_bucket *bucket;
	uint32_t buckets;
	uint32_t first; /* the first layer with parameters: those before it wait for no gradients */
	uint32_t ranks; /* at most FAN_WORKERS_MAX */
	uint32_t *host; /* ranks entries: the node of each */
	struct fan_job_seat *seat; /* ranks entries: where each joins; NULL: all at `aggregator` */
	uint32_t aggregator;	   /* the actor that sums; set once it exists */
	uint64_t arrival_ns;
	uint32_t iterations;
	uint16_t payload_bytes, window;
	uint64_t pace_bps;    /* each worker's sending rate; 0: as its window allows */
	uint16_t ahead;	      /* most fragments by which ranks run ahead of each other; 0: none */
	uint32_t cache_frags; /* sums that each rank keeps for slow ones */
	uint16_t route;	      /* its number in a plan; 0: none */
	uint8_t mode;	      /* enum fan_mode */
	uint8_t wire;	      /* enum fan_dtype: float32, a half type or BLOCK8 */
	bool overlap, verify;
	bool multicast;	    /* set once it is known who sums */
	bool urgent;	    /* set once it is known: some switch heeds priorities */
	uint8_t priority;   /* enum fan_job_priority */
	uint8_t congestion; /* enum fan_congestion_kind */
	uint32_t retries; /* times that a failed job begins again, from where all its ranks were */
	uint32_t jitter;  /* each iteration's compute times vary by up to this, millionths */
	uint32_t pareto;  /* shape of their Pareto distribution, millionths; 0: none */
	uint32_t slows;
	struct fan_slow slow[FAN_JOB_SLOWS_MAX];
	uint32_t alive_ms, stall_ms;
	uint64_t seed; /* seeds its workers' random numbers */
};

/* Cut the model into buckets of at least `bytes` bytes of float32; 0: one for each layer.  Every
 * bucket has elements; a model without any has no buckets.  Allocates c->bucket. */
bool fan_job_cut(struct fan_job_config *c, uint64_t bytes);

/* The bucket that layer `layer` waits for: the one with its elements or, for a layer without any,
 * that of the layers before it. */
uint32_t fan_job_bucket_of(const struct fan_job_config *c, uint32_t layer);

uint64_t fan_model_numel(const struct fan_model *m);

/* When `rank` ends work begun at `now_ns` that takes `work_ns` at full speed. */
uint64_t fan_job_work_until(const struct fan_job_config *c, uint16_t rank, uint64_t now_ns,
			    uint64_t work_ns);

/* The speed at which `rank` sends at `at_ns`, in millionths, and until when it holds. */
uint32_t fan_job_sending(const struct fan_job_config *c, uint16_t rank, uint64_t at_ns,
			 uint64_t *until_ns);

/* `work_ns` with the jitter of one rank in one iteration. */
uint64_t fan_job_jittered(const struct fan_job_config *c, uint16_t rank, uint32_t iteration,
			  uint64_t work_ns);

#endif
