/* SPDX-License-Identifier: Apache-2.0 */

#include "core/sum/contribution.h"
#include "routed.h"
#include "switch_priv.h"

#define MANY	  (UINT64_C(1) << (FAN_SEQ_GAP_BITS - 1))
#define FRAG_MASK ((UINT32_C(1) << 28) - 1)
#define BEGIN_NS  4096u /* what the first number is made of */

static struct fan_sent_log *find_log(const struct fan_switch *sw, const struct fan_switch_job *j,
				     const fan_peer *next)
{
	for (unsigned i = 0; i < FAN_SENT_NEXTS && j->sent[i]; i++)
		if (fan_peer_equal(&sw->sent[j->sent[i] - 1].next, next))
			return &sw->sent[j->sent[i] - 1];
	return NULL;
}

/* Numbers begin anywhere: there, those of an earlier life of this switch may be known. */
static struct fan_sent_log *begin_log(struct fan_switch *sw, struct fan_switch_job *j,
				      const fan_peer *next)
{
	unsigned n = 0, i = 0;
	while (n < FAN_SENT_NEXTS && j->sent[n])
		n++;
	while (i < FAN_SENT_LOGS && sw->sent[i].job)
		i++;
	if (n == FAN_SENT_NEXTS || i == FAN_SENT_LOGS)
		return NULL;
	struct fan_sent_log *l = &sw->sent[i];
	j->sent[n] = (uint16_t)(i + 1);
	l->job = j;
	l->next = *next;
	l->last = (uint16_t)(sw->now_ns / BEGIN_NS);
	l->count = 0;
	l->front = 0;
	l->credit = FAN_SENT_CREDIT;
	return l;
}

uint16_t fan_sent_note(struct fan_switch *sw, struct fan_switch_job *j, const fan_peer *next,
		       uint64_t frag, struct fan_sent s)
{
	struct fan_sent_log *l = find_log(sw, j, next);
	if (!l)
		l = begin_log(sw, j, next);
	if (!l)
		return 0;
	s.frag = frag & FRAG_MASK;
	l->front = frag > l->front ? frag : l->front;
	l->last++;
	l->at[l->last % FAN_SENT_MAX] = s;
	l->count = (uint16_t)(l->count + (l->count < FAN_SENT_MAX));
	l->credit = (uint16_t)(l->credit + (l->credit < FAN_SENT_CREDIT));
	return l->last;
}

/* Is the rank a worker here? */
static bool is_here(const struct fan_switch *sw, const struct fan_switch_job *j, unsigned rank)
{
	return j->child[rank] && !fan_peer_token(&sw->children[j->child[rank] - 1].peer);
}

struct fan_sent fan_sent_passing(const struct fan_switch *sw, const struct fan_switch_job *j,
				 const struct fan_frag *f)
{
	struct fan_sent s = {.kind = FAN_SENT_OTHER, .below = f->seq};
	struct fan_contribution p;
	bool contends = f->flags & FAN_F_COLLISION; /* then slots and queues are full */
	if (f->type == FAN_TYPE_PROBE || contends || fan_contribution_get(&p, f, j->ranks) >= 0)
		return s;
	s.what = f->helper ? fan_tag_rank(f->helper) : p.first;
	if (s.what >= j->ranks)
		return s;
	if (!is_here(sw, j, s.what))
		s.kind = FAN_SENT_BELOW;
	else if (f->type == FAN_TYPE_DATA)
		s.kind = FAN_SENT_DATA;
	return s;
}

static const struct fan_sent *find(const struct fan_sent_log *l, uint16_t number)
{
	uint16_t ago = (uint16_t)(l->last - number);
	return ago < l->count ? &l->at[number % FAN_SENT_MAX] : NULL;
}

static bool send_sum(struct fan_switch *sw, struct fan_switch_job *j, const struct fan_sent *s,
		     struct fan_out *out)
{
	assert(s->what < sw->slots.count);
	struct fan_sslot *slot = &sw->slots.slot[s->what];
	bool there = slot->state == FAN_SSLOT_SENT && (slot->frag & FRAG_MASK) == s->frag &&
		     fan_switch_holds(j, slot);
	if (there && s->tries < FAN_MISS_RESENDS)
		fan_switch_send_up(sw, j, slot, s->tries + 1u, out);
	return there && s->tries < FAN_MISS_RESENDS;
}

/* Request a forwarded datagram from its origin. */
static bool ask_below(const struct fan_switch *sw, const struct fan_switch_job *j,
		      const struct fan_sent_log *l, const struct fan_sent *s, struct fan_out *out)
{
	bool is_data = s->kind == FAN_SENT_DATA;
	const fan_peer hop = j->route ? fan_routed_down(sw, j, &l->next, s->what)
				      : fan_relay_hop(sw, j, s->what);
	const struct fan_frag h = {
		.frag = is_data ? l->front - ((l->front - s->frag) & FRAG_MASK) : 0,
		.job = j->id,
		.epoch = j->epoch,
		.sender = FAN_RANK_NONE,
		.to = is_data ? FAN_TAG(s->what) : 0,
		.missing = is_data ? 0 : 1,
		.last = is_data ? 0 : s->below,
		.type = is_data ? FAN_TYPE_NEED : FAN_TYPE_MISS,
	};
	if (fan_peer_is_none(&hop))
		return false;
	struct fan_out_item *it = fan_out_add(out, FAN_TO_PEER);
	it->peer = hop;
	fan_wire_put(it->head, &h);
	return true;
}

static bool answer(struct fan_switch *sw, struct fan_switch_job *j, const struct fan_sent_log *l,
		   const struct fan_sent *s, struct fan_out *out)
{
	switch (s->kind) {
	case FAN_SENT_SUM: return send_sum(sw, j, s, out);
	case FAN_SENT_DATA:
	case FAN_SENT_BELOW: return ask_below(sw, j, l, s, out);
	default: return false;
	}
}

/* More is lost above than numbers show: let those below rely on results and timers, as a MISS with
 * its last bit has workers do.  On a route, workers here alone: two switches may each be below the
 * other, and would ask each other for ever.  Once in a while is enough: where packets overtake
 * each other by far each one may bring such a MISS, and there may be 256 workers. */
static void warn_below(const struct fan_switch *sw, struct fan_switch_job *j, struct fan_out *out)
{
	if (j->warned_ns && sw->now_ns - (j->warned_ns - 1) < FAN_WARN_NS)
		return;
	j->warned_ns = sw->now_ns + 1;
	const struct fan_frag h = {
		.job = j->id,
		.epoch = j->epoch,
		.sender = FAN_RANK_NONE,
		.missing = MANY,
		.type = FAN_TYPE_MISS,
	};
	struct fan_out_item *it = fan_out_add(out, FAN_TO_GROUP);
	it->group = &j->group;
	fan_wire_put(it->head, &h);
}

enum fan_verdict fan_sent_missed(struct fan_switch *sw, struct fan_switch_job *j,
				 const fan_peer *from, const struct fan_frag *f,
				 struct fan_out *out)
{
	unsigned answered = 0, most = FAN_MISS_MAX;
	struct fan_sent_log *l = find_log(sw, j, from);
	if (!l || f->to)
		return fan_switch_drop(sw, FAN_DROP_SENDER);
	if (f->missing & MANY) {
		warn_below(sw, j, out);
		most--;
	}
	for (unsigned k = 0; k < FAN_SEQ_GAP_BITS && answered < most; k++) {
		const struct fan_sent *s = NULL;
		if (f->missing >> k & 1 && l->credit >= FAN_SENT_COST)
			s = find(l, (uint16_t)(f->last - k));
		if (!s)
			continue;
		const struct fan_sent lost = *s;
		if (!answer(sw, j, l, &lost, out))
			continue;
		l->credit -= FAN_SENT_COST;
		answered++;
	}
	return answered ? FAN_ASK : fan_switch_drop(sw, FAN_DROP_STALE);
}
