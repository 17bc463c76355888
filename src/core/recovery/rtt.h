/* SPDX-License-Identifier: Apache-2.0 */
/* rtt.h - the retransmission timer of RFC 6298, in nanoseconds.
 *
 * A sample is the time from a contribution to its result and so includes waiting for
 * the other ranks: earlier requests would be in vain.  Fragments that were contributed
 * twice, and replays, give no sample (Karn).
 *
 * Ranks that recover from losses wait for each other's timers, and timers that grew
 * with those waits would raise each other to seconds.  So the first time-out is also
 * bounded by the smallest recent sample: of a fragment for which this rank was last, or
 * of a probe that was answered with NEED. */
#ifndef FAN_RECOVERY_RTT_H
#define FAN_RECOVERY_RTT_H

#include <assert.h>
#include <stdint.h>

#include "core/base/limits.h"

/* Samples by their length: count[i] has those of less than FAN_RTT_BIN_NS << i, and
 * count[FAN_RTT_BINS] the longer ones. */
#define FAN_RTT_BINS   16
#define FAN_RTT_BIN_NS UINT64_C(8192)

struct fan_rtt_histogram {
	uint64_t count[FAN_RTT_BINS + 1];
	uint64_t sum_ns;
};

struct fan_rtt {
	uint64_t srtt_ns;	       /* smoothed sample; 0: none yet */
	uint64_t var_ns;	       /* its smoothed deviation */
	uint64_t least_ns;	       /* smallest sample of this span and the last; 0: none */
	uint64_t span_ns;	       /* smallest sample of this span */
	unsigned span;		       /* samples in this span */
	uint64_t rto_ns;	       /* time-out without back-off, min_ns .. FAN_RTO_MAX_NS */
	uint64_t min_ns;	       /* least time-out */
	uint64_t first_ns;	       /* least first time-out; 0: min_ns */
	unsigned backoff;	       /* time-outs since the last packet came */
	struct fan_rtt_histogram seen; /* all samples, waits for other ranks included */
};

/* Assert the invariants that hold between calls. */
static inline void fan_rtt_check(const struct fan_rtt *r)
{
	assert(r->rto_ns >= r->min_ns && r->min_ns > 0);
	assert(r->backoff <= FAN_RTO_BACKOFF_MAX + 1);
}

/* Start without samples.  `min_ms` is the least time-out; 0: FAN_RTO_MIN_NS. */
void fan_rtt_init(struct fan_rtt *r, uint32_t min_ms);

/* Take `min_ms` for the least time-out from now on. */
void fan_rtt_least(struct fan_rtt *r, uint32_t min_ms);

/* Take a sample: from a probe to its answer, without waits for other ranks; and from a
 * contribution to its result. */
void fan_rtt_answer(struct fan_rtt *r, uint64_t sample_ns);
void fan_rtt_sample(struct fan_rtt *r, uint64_t sample_ns);

/* The time-out with its back-off.  The first one is half a round trip of silence, or twice
 * the smallest sample: it costs a few headers, and at the end of an operation, where no
 * later results show a loss, nothing else finds it. */
uint64_t fan_rtt_timeout(const struct fan_rtt *r);

/* The timer ran out; a packet came. */
void fan_rtt_expired(struct fan_rtt *r);
void fan_rtt_heard(struct fan_rtt *r);

#endif
