/* SPDX-License-Identifier: Apache-2.0 */
/* predict.c - header prediction: contributions of one rank come one behind the other, and their
 * headers differ in two numbers.
 *
 * The first one takes all checks.  Those of its job and its sender hold for the next one as well,
 * unless another packet was handled in between, or the job or the aggregator ends. */
#include "aggregator_priv.h"

void fan_predict_begin(struct fan_aggregator *ag, const fan_peer *from, const struct fan_frag *f,
		       const uint8_t *pkt)
{
	struct fan_predicted *p = &ag->predicted;
	struct fan_job *j = fan_jobs_get(&ag->jobs, f->job);
	assert(!p->on);
	if (!j || f->type != FAN_TYPE_DATA || f->helper || f->flags & FAN_F_ASK || j->burst ||
	    ag->stop_ns || j->state != FAN_JOB_READY || !j->members[f->sender].next_to)
		return;
	p->on = fan_wire_expect(&p->next, f, pkt);
	p->from = *from;
	p->job = j;
	p->member = &j->members[f->sender];
	p->round = fan_pool_next(&j->pool, fan_pool_round(&j->pool, f->frag));
	fan_contribution_get(&p->contribution, &p->next.f, j->ranks);
}

bool fan_predict_holds(struct fan_aggregator *ag, const fan_peer *from, const uint8_t *pkt,
		       size_t len, bool marked)
{
	struct fan_predicted *p = &ag->predicted;
	assert(p->on);
	p->on = !marked && fan_wire_is_expected(&p->next, pkt, len) &&
		fan_peer_equal(&p->from, from) &&
		fan_seq_gap_is_next(&p->member->gap, p->next.f.seq);
	return p->on;
}

enum fan_verdict fan_predict_take(struct fan_aggregator *ag, uint64_t now_ns, struct fan_out *out)
{
	struct fan_predicted *p = &ag->predicted;
	const struct fan_pool *pool = &p->job->pool;
	struct fan_round_outcome r = {.round = p->round};
	assert(fan_out_has(out, FAN_AGGREGATOR_OUT_MAX));
	ag->now_ns = now_ns;
	ag->stats.packets++;
	p->member->heard_ns = now_ns;
	p->contribution.elements = p->next.f.payload;
	p->round = fan_pool_next(pool, r.round);
	fan_pool_prefetch(pool, p->round, true);
	enum fan_verdict v = fan_round_add(pool, p->job->ranks, &p->contribution, &r);
	return fan_aggregator_took(ag, now_ns, p->job, &p->contribution, v, &r, out);
}
