/* SPDX-License-Identifier: Apache-2.0 */
#include "rtt.h"

#define SPAN	 64	       /* samples until the smallest is forgotten */
#define FIRST_NS (20 * FAN_MS) /* the time-out before the first sample */

static uint64_t least(uint32_t min_ms)
{
	return min_ms ? min_ms * FAN_MS : FAN_RTO_MIN_NS;
}

void fan_rtt_least(struct fan_rtt *r, uint32_t min_ms)
{
	r->min_ns = least(min_ms);
	if (r->rto_ns < r->min_ns)
		r->rto_ns = r->min_ns;
}

void fan_rtt_init(struct fan_rtt *r, uint32_t min_ms)
{
	uint64_t min_ns = least(min_ms);
	*r = (struct fan_rtt){
		.min_ns = min_ns,
		.rto_ns = min_ns > FIRST_NS ? min_ns : FIRST_NS,
	};
}

/* Keep the smallest of the last 64 to 128 samples. */
void fan_rtt_answer(struct fan_rtt *r, uint64_t sample_ns)
{
	if (r->span == 0 || sample_ns < r->span_ns)
		r->span_ns = sample_ns;
	if (r->least_ns == 0 || sample_ns < r->least_ns)
		r->least_ns = sample_ns;
	if (++r->span < SPAN)
		return;
	r->least_ns = r->span_ns;
	r->span = 0;
}

static void count(struct fan_rtt_histogram *h, uint64_t sample_ns)
{
	uint64_t bins = sample_ns / FAN_RTT_BIN_NS;
	unsigned bin = bins ? 64 - (unsigned)__builtin_clzll(bins) : 0;
	h->count[bin < FAN_RTT_BINS ? bin : FAN_RTT_BINS]++;
	h->sum_ns += sample_ns;
}

void fan_rtt_sample(struct fan_rtt *r, uint64_t sample_ns)
{
	fan_rtt_answer(r, sample_ns);
	count(&r->seen, sample_ns);
	/* A wait for other ranks' losses must not lengthen this rank's time-out. */
	if (sample_ns > FAN_RTO_MAX_NS)
		sample_ns = FAN_RTO_MAX_NS;
	if (r->srtt_ns == 0) {
		r->srtt_ns = sample_ns ? sample_ns : 1;
		r->var_ns = sample_ns / 2;
	} else {
		uint64_t off =
			sample_ns > r->srtt_ns ? sample_ns - r->srtt_ns : r->srtt_ns - sample_ns;
		r->var_ns = (3 * r->var_ns + off) / 4;
		r->srtt_ns = (7 * r->srtt_ns + sample_ns) / 8;
	}
	uint64_t rto = r->srtt_ns + 4 * r->var_ns;
	rto = rto > FAN_RTO_MAX_NS ? FAN_RTO_MAX_NS : rto;
	r->rto_ns = rto < r->min_ns ? r->min_ns : rto;
}

uint64_t fan_rtt_timeout(const struct fan_rtt *r)
{
	uint64_t probe_ns = r->srtt_ns ? r->srtt_ns / 2 : r->rto_ns;
	if (r->least_ns && 2 * r->least_ns < probe_ns)
		probe_ns = 2 * r->least_ns;
	if (r->first_ns && r->backoff == 0)
		return probe_ns < r->first_ns ? r->first_ns : probe_ns;
	probe_ns = probe_ns < r->min_ns ? r->min_ns : probe_ns;
	unsigned doublings = r->first_ns ? r->backoff - 1 : r->backoff;
	doublings = doublings < FAN_RTO_BACKOFF_MAX ? doublings : FAN_RTO_BACKOFF_MAX;
	const uint64_t most_ns = probe_ns > FAN_RTO_LONG_NS ? probe_ns : FAN_RTO_LONG_NS;
	return probe_ns << doublings < most_ns ? probe_ns << doublings : most_ns;
}

void fan_rtt_expired(struct fan_rtt *r)
{
	if (r->backoff < FAN_RTO_BACKOFF_MAX + (r->first_ns ? 1u : 0u))
		r->backoff++;
}

void fan_rtt_heard(struct fan_rtt *r)
{
	r->backoff = 0;
}
