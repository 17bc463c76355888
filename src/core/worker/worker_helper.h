/* SPDX-License-Identifier: Apache-2.0 */
/* worker_helper.h - a plug of the worker: keeping sums for slow ranks, as a helper of SA-ATP does
 * (core/helper).  A worker that keeps none knows nothing else of it. */
#ifndef FAN_WORKER_HELPER_H
#define FAN_WORKER_HELPER_H

#include "core/base/out.h"
#include "core/wire/wire.h"

struct fan_worker;
struct fan_worker_helper;

struct fan_helper_cache_stats {
	uint32_t frags; /* capacity, sums */
	uint32_t open;	/* incomplete sums in it */
	uint32_t peak;	/* most incomplete sums that were in it */
	uint64_t parts; /* contributions added */
	uint64_t done;	/* sums of all ranks sent */
	uint64_t early; /* sums of some ranks sent on request */
	uint64_t over;	/* sums of some ranks sent for lack of room */
};

struct fan_worker_helper_calls {
	/* Bytes for `frags` sums of `payload_bytes`; and: lay it out in `mem`, aligned to 64. */
	size_t (*bytes)(uint32_t frags, uint32_t payload_bytes);
	struct fan_worker_helper *(*init)(void *mem, uint32_t frags, uint32_t payload_bytes);

	/* Handle a DATA, PARTIAL, PROBE, FLUSH or request for PROGRESS that the switch gives it. */
	enum fan_verdict (*recv)(struct fan_worker *w, uint64_t now_ns, const struct fan_frag *f);

	/* Is there something of others to send; and send it.  True if `out` ran full. */
	bool (*is_due)(const struct fan_worker_helper *k);
	bool (*send)(struct fan_worker *w, struct fan_out *out);

	/* The sum for `frag` may be what others miss; and: its result has come. */
	void (*flush)(struct fan_worker_helper *k, uint64_t frag);
	void (*forget)(struct fan_worker_helper *k, uint64_t frag);

	const struct fan_helper_cache_stats *(*stats)(const struct fan_worker_helper *k);
	void (*audit)(const struct fan_worker_helper *k);
};

/* Defined by core/helper/helper.c. */
extern const struct fan_worker_helper_calls fan_worker_helper;

#endif
