/* SPDX-License-Identifier: Apache-2.0 */
/* rtt.h - the retransmission timer of RFC 6298, in nanoseconds.
 *
 * A sample is the time from a contribution to its result and so includes waiting for
 * the other ranks; that is the time after which asking again makes sense.  Fragments
 * that were contributed twice, and replays, give no sample (Karn).
 *
 * But ranks that recover from losses wait for each other's timers, and timers that grew
 * with those waits would drive each other up to seconds.  So the first time-out goes by
 * the smallest recent sample as well: that of a fragment for which this rank was last,
 * or of a probe that was answered with NEED. */
#ifndef FAN_RECOVERY_RTT_H
#define FAN_RECOVERY_RTT_H

#include <assert.h>
#include <stdint.h>

#include "core/base/limits.h"

struct fan_rtt {
	uint64_t srtt_ns; /* 0: no sample yet */
	uint64_t var_ns;
	uint64_t least_ns; /* smallest sample of this span and the last; 0: none */
	uint64_t span_ns;  /* smallest sample of this span... */
	unsigned span;	   /* ...which has so many */
	uint64_t rto_ns;   /* FAN_RTO_MIN_NS .. FAN_RTO_MAX_NS, without back-off */
	uint64_t min_ns;   /* no time-out is shorter */
	uint64_t first_ns; /* the first one may be as short as this; 0: no, as min_ns says */
	unsigned backoff;  /* time-outs since something was heard */
};

/* What holds between calls. */
static inline void fan_rtt_check(const struct fan_rtt *r)
{
	assert(r->rto_ns >= r->min_ns && r->min_ns > 0);
	assert(r->backoff <= FAN_RTO_BACKOFF_MAX + 1);
}

/* `min_ms` 0: FAN_RTO_MIN_NS. */
void fan_rtt_init(struct fan_rtt *r, uint32_t min_ms);

/* From a probe to its answer, which waits for nobody. */
void fan_rtt_answer(struct fan_rtt *r, uint64_t sample_ns);
void fan_rtt_sample(struct fan_rtt *r, uint64_t sample_ns);

/* The timer with its back-off.  The first time it is half a round trip of silence, or
 * twice the smallest: what
 * runs out then costs a few headers, and at the end of an operation, when no later
 * results can tell of a loss, it is all that there is. */
uint64_t fan_rtt_timeout(const struct fan_rtt *r);

/* The timer ran out; something was heard. */
void fan_rtt_expired(struct fan_rtt *r);
void fan_rtt_heard(struct fan_rtt *r);

#endif
