/* SPDX-License-Identifier: Apache-2.0 */
#include "policy_sa_atp.h"

#include "core/switch/routed.h"
#include "core/switch/switch_priv.h"

/* A fragment that stays unaggregated waits too long where it goes: for so many of the shortest
 * answers. */
#define BUSY 6

static const struct fan_slot_policy sa_atp;
static const struct fan_run_ahead_ops run_ahead;

#define SHARE_ALL  256u	       /* of the contributions in a block that go to helpers: all */
#define SHARE_STEP 64u	       /* more of them in the next block */
#define SCATTER	   2654435769u /* 2^32 by the golden ratio: evenly, and in step with nothing */

/* If ranks come or go, divide the slots among the jobs whose ranks run ahead.  Each has a stretch
 * of its own, since its fragments in line would run into those of others. */
static void divide(struct fan_switch *sw)
{
	uint32_t jobs = 0, slots = sw->slots.count, n = 0;
	for (unsigned i = 0; i < fan_switch_places(sw); i++) {
		const struct fan_switch_job *j = fan_switch_job_at(sw, i);
		jobs += j->used && j->sa->inner;
	}
	uint32_t each = jobs && slots / jobs ? slots / jobs : 1;
	for (unsigned i = 0; i < fan_switch_places(sw); i++) {
		struct fan_switch_job *j = fan_switch_job_at(sw, i);
		if (j->used && j->sa->inner)
			j->sa->due = (struct fan_stretch){n++ * each % slots, each};
	}
}

static void beat(struct fan_switch *sw, struct fan_switch_job *j, const struct fan_child *c)
{
	if (c->rank >= j->ranks)
		return;
	if (c->beat & FAN_BEAT_HELPER)
		fan_ranks_set(j->sa->offers, c->rank);
	else
		fan_ranks_clear(j->sa->offers, c->rank);
	if (!(c->beat & FAN_BEAT_AHEAD) || j->sa->inner)
		return;
	j->sa->inner = j->policy;
	j->policy = &sa_atp;
	j->ahead = &run_ahead;
	divide(sw);
}

static void left(struct fan_switch_job *j, const struct fan_child *c)
{
	if (c->rank < j->ranks)
		fan_ranks_clear(j->sa->offers, c->rank);
}

static void end(struct fan_switch *sw, struct fan_switch_job *j)
{
	if (!j->sa->inner)
		return;
	j->sa->inner = NULL;
	divide(sw);
}

static struct fan_sslot *place(const struct fan_switch *sw, const struct fan_switch_job *j,
			       const struct fan_frag *f)
{
	const struct fan_sa_atp *sa = j->sa;
	assert(sa->inner);
	return fan_sslots_in_line(&sw->slots, f->frag, j->window, sa->in[f->frag >= sa->since]);
}

/* Return the slowest rank's fragment, of the ranks whose contributions are summed here. */
static uint64_t slowest_below(const struct fan_switch_job *j)
{
	uint64_t low = UINT64_MAX;
	for (unsigned r = fan_ranks_first(j->below); r < j->ranks;
	     r = fan_ranks_next(j->below, r + 1))
		low = j->sa->progress.next[r] < low ? j->sa->progress.next[r] : low;
	return low;
}

/* Fragments that nobody has begun go to the stretch that is due; but not before those of the
 * last change are over, since no more than two stretches are known. */
static void move(struct fan_switch_job *j)
{
	struct fan_sa_atp *sa = j->sa;
	if (slowest_below(j) < sa->since)
		return;
	sa->in[0] = sa->in[1];
	sa->in[1] = sa->due;
	sa->since = sa->in[0].count ? sa->progress.front : 0;
}

/* Fragments in a block. */
static uint64_t block_frags(const struct fan_switch_job *j)
{
	return j->window * UINT64_C(2) / FAN_HELPER_BLOCKS + 1;
}

/* A helper, or up. */
static struct fan_goal goal(const struct fan_switch *sw, const struct fan_switch_job *j,
			    uint64_t frag)
{
	const struct fan_goal up = fan_goal_up(&j->up);
	uint64_t number = frag / block_frags(j) + 1;
	const struct fan_helper_block *b = &j->sa->block[number % FAN_HELPER_BLOCKS];
	uint32_t draw = (uint32_t)frag * SCATTER;
	if (b->number != number || !b->count || (draw >> 24) >= b->share)
		return up;
	struct fan_goal helper = {.rank = fan_ranks_first(b->ranks)};
	for (uint64_t turn = (uint64_t)(draw << 8) * b->count >> 32; turn > 0; turn--)
		helper.rank = (uint16_t)fan_ranks_next(b->ranks, helper.rank + 1u);
	helper.peer = fan_path_down(sw, j, helper.rank);
	return fan_peer_is_none(&helper.peer) ? up : helper; /* it has gone */
}

static struct fan_helper_row *row_of(const struct fan_switch *sw, const struct fan_switch_job *j,
				     uint16_t rank)
{
	if (rank >= j->ranks || !j->child[rank])
		return NULL;
	const struct fan_child *c = &sw->children[j->child[rank] - 1];
	bool here = c->job == j->id && c->epoch == j->epoch; /* and not in a later life already */
	return here ? &sw->kept[j->child[rank] - 1] : NULL;
}

static const uint32_t *row(const struct fan_switch *sw, const struct fan_switch_job *j,
			   uint16_t rank)
{
	const struct fan_helper_row *row = row_of(sw, j, rank);
	return row ? row->parts : NULL;
}

/* Has the furthest rank long passed `frag`? */
static bool is_late(const struct fan_switch_job *j, uint64_t frag)
{
	return frag + FAN_LAG_FRAGS < j->sa->progress.front;
}

/* Count who keeps contributions of `ranks`, and whose they are. */
static void lend(struct fan_switch *sw, struct fan_switch_job *j, const struct fan_goal *to,
		 uint64_t frag, const uint64_t *ranks)
{
	struct fan_sa_atp *sa = j->sa;
	if (to->rank != FAN_RANK_NONE) {
		sw->stats.lent++;
		sa->lent[to->rank]++;
	}
	if (!is_late(j, frag)) /* no straggler has come to it */
		return;
	struct fan_helper_row *row = row_of(sw, j, to->rank);
	for (unsigned r = fan_ranks_first(ranks); r < j->ranks; r = fan_ranks_next(ranks, r + 1)) {
		if (!fan_progress_straggles(&sa->progress, r))
			continue;
		sa->deferred[r]++;
		if (row)
			row->parts[r]++;
	}
}

/* Is a question pending?  A lost one is forgotten. */
static bool is_asked(const struct fan_switch *sw, const struct fan_helper_wait *w)
{
	return w->asked_ns && sw->now_ns - w->asked_ns < FAN_HELPER_FULL_NS;
}

/* How long it is now. */
static uint64_t wait_ns(const struct fan_switch *sw, const struct fan_helper_wait *w)
{
	uint64_t since_ns = is_asked(sw, w) ? sw->now_ns - w->asked_ns : 0;
	return since_ns > w->took_ns ? since_ns : w->took_ns;
}

/* Send a question about `frag` there.  One is pending at a time. */
static void note_asked(const struct fan_switch *sw, struct fan_helper_wait *w, uint64_t frag)
{
	if (is_asked(sw, w))
		return;
	w->asked_ns = sw->now_ns;
	w->frag = (uint32_t)frag;
}

static uint32_t clip(uint64_t ns)
{
	return ns < UINT32_MAX ? (uint32_t)ns : UINT32_MAX;
}

/* An answer has come.  FAN_F_ECN: much waits there. */
static uint16_t note_answered(const struct fan_switch *sw, struct fan_helper_wait *w, uint64_t frag)
{
	if (w->asked_ns && w->frag == (uint32_t)frag) {
		uint32_t took_ns = clip(sw->now_ns - w->asked_ns);
		w->asked_ns = 0;
		w->took_ns = w->took_ns ? w->took_ns / 2 + took_ns / 2 : took_ns;
		if (!w->least_ns || took_ns < w->least_ns)
			w->least_ns = took_ns;
		w->fresh = true;
	}
	return w->took_ns / BUSY > w->least_ns ? FAN_F_ECN : 0;
}

/* Believe a measurement less if nobody has asked about it since the last block. */
static void fade(const struct fan_switch *sw, struct fan_helper_wait *w)
{
	if (!w->fresh && !is_asked(sw, w))
		w->took_ns = w->took_ns / 2 + w->least_ns / 2;
	w->fresh = false;
}

/* How much of the next block goes to helpers: less while answers of the aggregator take less time
 * than theirs, little by little, since what waits there the whole job waits for. */
static void balance(const struct fan_switch *sw, struct fan_sa_atp *sa,
		    const struct fan_helper_block *b)
{
	uint64_t mean_ns = 0;
	for (unsigned r = fan_ranks_first(b->ranks); r < FAN_RANKS_MAX;
	     r = fan_ranks_next(b->ranks, r + 1))
		mean_ns += wait_ns(sw, &sa->wait[r]) / b->count;
	if (wait_ns(sw, &sa->wait[FAN_RANKS_MAX]) < mean_ns)
		sa->share = sa->share * 63 / 64;
	else
		sa->share += SHARE_STEP;
	sa->share = sa->share < SHARE_ALL ? sa->share : SHARE_ALL;
}

/* The helpers of a block which is being entered: all that have room, but not the slowest straggler,
 * whose link is what others wait for. */
static void choose(const struct fan_switch *sw, struct fan_switch_job *j,
		   struct fan_helper_block *b)
{
	struct fan_sa_atp *sa = j->sa;
	const bool full = sw->now_ns < sa->full_until_ns;
	const uint64_t slowest = slowest_below(j);
	fan_ranks_none(b->ranks);
	b->count = 0;
	if (!fan_path_has_all(j))
		return;
	for (unsigned r = fan_ranks_first(sa->offers); r < j->ranks;
	     r = fan_ranks_next(sa->offers, r + 1)) {
		if ((full && fan_ranks_has(sa->full, r)) ||
		    (sa->progress.next[r] == slowest && fan_progress_straggles(&sa->progress, r)))
			continue;
		fan_ranks_set(b->ranks, r);
		b->count++;
	}
	if (b->count)
		balance(sw, sa, b);
	for (unsigned r = 0; r <= FAN_RANKS_MAX; r++)
		fade(sw, &sa->wait[r]);
	assert(sa->share <= SHARE_ALL && b->count <= j->ranks);
	b->share = (uint16_t)sa->share;
}

static void enter(struct fan_switch *sw, struct fan_switch_job *j)
{
	struct fan_sa_atp *sa = j->sa;
	uint64_t now = (sa->progress.front - 1) / block_frags(j) + 1;
	if (now > sa->entered + FAN_HELPER_BLOCKS) /* as after a restart */
		sa->entered = now - FAN_HELPER_BLOCKS;
	while (sa->entered < now) {
		uint64_t number = ++sa->entered;
		struct fan_helper_block *b = &sa->block[number % FAN_HELPER_BLOCKS];
		assert(b->number < number);
		choose(sw, j, b);
		b->number = number;
	}
}

/* Contributions of these ranks have come. */
static void note(struct fan_switch *sw, struct fan_switch_job *j, const struct fan_contribution *p)
{
	uint64_t front = j->sa->progress.front;
	const struct fan_stretch *in = &j->sa->in[1], *due = &j->sa->due;
	if (in->first != due->first || in->count != due->count)
		move(j);
	for (unsigned r = p->first; r < j->ranks; r = fan_contribution_next(p, r))
		fan_progress_note(&j->sa->progress, (uint16_t)r, p->f->frag);
	if (j->sa->progress.front > front)
		enter(sw, j);
}

/* Does the slot wait only for stragglers, or for contributions that took another path? */
static bool yields(const struct fan_switch_job *j, const struct fan_sslot *slot)
{
	if (slot->state != FAN_SSLOT_OPEN)
		return false;
	uint64_t missing[FAN_RANK_WORDS];
	fan_sslot_missing(slot, j->below, missing);
	for (unsigned r = fan_ranks_first(missing); r < j->ranks;
	     r = fan_ranks_next(missing, r + 1)) {
		bool passed = j->sa->progress.next[r] > slot->frag;
		if (!passed && !fan_progress_straggles(&j->sa->progress, r))
			return false;
	}
	return true;
}

/* How far the next of the ranks `missing` has to come to fragment `frag`; UINT64_MAX: all have come
 * to it. */
static uint64_t distance(const struct fan_switch_job *j, uint64_t frag, const uint64_t *missing)
{
	uint64_t least = UINT64_MAX;
	for (unsigned r = fan_ranks_first(missing); r < j->ranks;
	     r = fan_ranks_next(missing, r + 1)) {
		uint64_t next = j->sa->progress.next[r];
		if (next <= frag && frag - next < least)
			least = frag - next;
	}
	return least;
}

static uint64_t distance_of_slot(const struct fan_switch_job *j, const struct fan_sslot *slot)
{
	uint64_t missing[FAN_RANK_WORDS];
	fan_sslot_missing(slot, j->below, missing);
	return distance(j, slot->frag, missing);
}

static uint64_t distance_of_part(const struct fan_switch_job *j, const struct fan_contribution *p)
{
	uint64_t missing[FAN_RANK_WORDS];
	fan_ranks_without(missing, j->below, p->ranks);
	return distance(j, p->f->frag, missing);
}

static enum fan_contest contest(struct fan_switch *sw, const struct fan_switch_job *j,
				struct fan_sslot *slot, const struct fan_contribution *p)
{
	bool own = slot->job == j->id && slot->epoch == j->epoch;
	if (own && slot->state == FAN_SSLOT_OPEN) {
		/* the slot is that one's whose next contribution comes sooner, after the
		 * contribution itself */
		if (distance_of_part(j, p) < distance_of_slot(j, slot))
			return FAN_CONTEST_YIELDS;
		if (is_late(j, p->f->frag))
			return FAN_CONTEST_LATE;
	}
	return j->sa->inner->contest(sw, j, slot, p);
}

static bool is_over(const struct fan_switch_job *j, const struct fan_sslot *slot)
{
	return distance_of_slot(j, slot) == UINT64_MAX;
}

/* Does a contribution want a slot?  Not if it is late, and the last one as far as is known. */
static bool wants(const struct fan_switch_job *j, const struct fan_contribution *p)
{
	return !is_late(j, p->f->frag) || distance_of_part(j, p) != UINT64_MAX;
}

/* Note that the helper of `f` reports a full cache. */
static void note_full(struct fan_switch *sw, struct fan_switch_job *j, const struct fan_frag *f)
{
	if (!(f->flags & FAN_F_FULL))
		return;
	if (sw->now_ns >= j->sa->full_until_ns)
		fan_ranks_none(j->sa->full);
	fan_ranks_set(j->sa->full, fan_tag_rank(f->helper));
	j->sa->full_until_ns = sw->now_ns + FAN_HELPER_FULL_NS;
}

/* Tell `rank` how far the others are; `f`: what it asked about; `met`: flags. */
static void send_kept(struct fan_switch *sw, struct fan_switch_job *j, uint16_t rank,
		      const struct fan_frag *f, uint16_t met, struct fan_out *out)
{
	const fan_peer hop = fan_path_down(sw, j, rank);
	if (fan_peer_is_none(&hop))
		return;
	struct fan_out_item *it = fan_out_add(out, FAN_TO_PEER);
	struct fan_frag h = fan_progress_answer(&j->sa->progress, j->ranks, f);
	h.to = FAN_TAG(rank);
	h.flags |= met;
	it->peer = hop;
	fan_wire_put(it->head, &h);
	sw->stats.progress_sent++;
}

/* The DATA `f` has set something going to `went`: let the question be answered there. */
static void send_question(struct fan_switch *sw, struct fan_switch_job *j, const struct fan_frag *f,
			  const struct fan_goal *went, struct fan_out *out)
{
	bool helper = went->rank != FAN_RANK_NONE;
	struct fan_out_item *it = fan_out_add(out, FAN_TO_PEER);
	struct fan_frag h = fan_progress_question(f, f->sender);
	h.helper = FAN_TAG(went->rank);
	it->peer = went->peer;
	it->down = helper;
	fan_wire_put(it->head, &h);
	note_asked(sw, &j->sa->wait[helper ? went->rank : FAN_RANKS_MAX], f->frag);
}

/* A contribution of a job whose ranks run ahead of each other.  Its question is answered where it
 * comes to lie: here, or where it goes. */
static enum fan_verdict recv(struct fan_switch *sw, struct fan_switch_job *j,
			     const struct fan_contribution *p, struct fan_out *out)
{
	if (fan_speaks_for_others(p->f))
		note_full(sw, j, p->f);
	if (fan_speaks_for_others(p->f) || !p->sums)
		return fan_switch_pass_up(sw, j, p, 0, out);
	note(sw, j, p);
	struct fan_frag f = *p->f;
	struct fan_contribution plain = *p; /* without the question */
	bool asks = f.flags & FAN_F_ASK && !p->is_sum;
	unsigned before = out->count;
	f.flags &= (uint16_t)~FAN_F_ASK;
	plain.f = &f;
	enum fan_verdict v = fan_switch_add(sw, j, &plain, out);
	if (!asks || v == FAN_DROP)
		return v;
	if (out->count == before || sw->went_of != j)
		send_kept(sw, j, f.sender, &f, 0, out);
	else
		send_question(sw, j, &f, &sw->went, out);
	return v;
}

/* A question that insists, or a helper's. */
static bool insists(const struct fan_contribution *p)
{
	return p->f->flags & FAN_F_INSIST || p->f->helper;
}

static void asked(struct fan_switch *sw, struct fan_switch_job *j, const struct fan_contribution *p,
		  struct fan_out *out)
{
	if (p->sums && !p->f->helper)
		send_kept(sw, j, p->f->sender, p->f, 0, out);
}

/* For stragglers. */
static bool waits(const struct fan_switch_job *j, const struct fan_sslot *slot,
		  const struct fan_contribution *p)
{
	return !insists(p) && yields(j, slot);
}

static struct fan_goal asks(const struct fan_switch *sw, const struct fan_switch_job *j,
			    const struct fan_contribution *p)
{
	return insists(p) || !p->sums ? fan_goal_up(p->next) : goal(sw, j, p->f->frag);
}

/* Remind the helper, too: what it may hold of the fragment leaves. */
static void reminded(struct fan_switch *sw, struct fan_switch_job *j, const struct fan_frag *f,
		     struct fan_out *out)
{
	const struct fan_goal to = goal(sw, j, f->frag);
	struct fan_frag g = *f;
	if (to.rank == FAN_RANK_NONE || f->helper)
		return;
	struct fan_out_item *it = fan_out_add(out, FAN_TO_PEER);
	it->peer = to.peer;
	it->down = true;
	g.helper = FAN_TAG(to.rank);
	fan_wire_put(it->head, &g);
}

/* The question `f` of a rank has come after its contribution: it is answered if that is here,
 * otherwise it goes where the contribution has gone. */
static enum fan_verdict follow(struct fan_switch *sw, struct fan_switch_job *j,
			       const struct fan_frag *f, const struct fan_contribution *p,
			       struct fan_out *out)
{
	const struct fan_sslot *slot = place(sw, j, f);
	if (p->sums && fan_sslot_is_of(slot, f) && fan_ranks_has(slot->seen, f->sender)) {
		send_kept(sw, j, f->sender, f, FAN_F_AWAY, out);
		return FAN_CTL;
	}
	const struct fan_goal to = p->sums ? goal(sw, j, f->frag) : fan_goal_up(p->next);
	send_question(sw, j, f, &to, out);
	return FAN_PASS;
}

/* A question that goes up, or a helper's answer that goes to the switch that has chosen it. */
static enum fan_verdict progress(struct fan_switch *sw, struct fan_switch_job *j,
				 const fan_peer *from, const struct fan_frag *f,
				 struct fan_out *out)
{
	struct fan_contribution p;
	bool question = f->flags & FAN_F_ASK;
	uint16_t helper = fan_tag_rank(f->helper), speaker = question ? f->sender : helper;
	if (f->sender >= j->ranks || fan_path_rank(sw, j, from, speaker, &p) >= 0)
		return fan_switch_drop(sw, FAN_DROP_SENDER);
	if (!question && fan_path_has_all(j)) {
		const uint16_t busy = note_answered(sw, &j->sa->wait[helper], f->frag);
		note_full(sw, j, f);
		send_kept(sw, j, f->sender, f, FAN_F_AWAY | busy | (f->flags & FAN_F_FULL), out);
		return FAN_CTL;
	}
	if (question)
		return follow(sw, j, f, &p, out);
	struct fan_out_item *it = fan_out_add(out, FAN_TO_PEER);
	it->peer = *p.next;
	fan_relay_copy(it, f);
	return FAN_PASS;
}

/* Note an answer from above: it reports a long wait of unaggregated contributions there. */
static void heard(struct fan_switch *sw, struct fan_switch_job *j, struct fan_frag *f)
{
	const uint16_t busy = note_answered(sw, &j->sa->wait[FAN_RANKS_MAX], f->frag);
	if (f->flags & FAN_F_AWAY)
		f->flags |= busy;
}

static const struct fan_slot_policy sa_atp = {
	.name = "sa_atp",
	.place = place,
	.contest = contest,
	.unplaced = fan_plain_unplaced,
};

static const struct fan_run_ahead_ops run_ahead = {
	.recv = recv,
	.wants = wants,
	.yields = yields,
	.is_over = is_over,
	.goal = goal,
	.lend = lend,
	.asked = asked,
	.waits = waits,
	.asks = asks,
	.reminded = reminded,
	.progress = progress,
	.heard = heard,
};

static bool is_full(const struct fan_switch *sw, const struct fan_switch_job *j, uint16_t rank)
{
	return sw->now_ns < j->sa->full_until_ns && fan_ranks_has(j->sa->full, rank);
}

static void stands(const struct fan_switch *sw, const struct fan_switch_job *j, uint16_t rank,
		   struct fan_standing *s)
{
	const struct fan_sa_atp *sa = j->sa;
	*s = (struct fan_standing){.lent = sa->lent[rank], .deferred = sa->deferred[rank]};
	fan_progress_standing(&sa->progress, rank, s);
	if (j->child[rank])
		s->cache = sw->children[j->child[rank] - 1].cache;
	if (fan_ranks_has(sa->offers, rank))
		s->flags |= FAN_RANK_OFFERS;
	if (is_full(sw, j, rank))
		s->flags |= FAN_RANK_FULL;
}

static void rank_stats(const struct fan_switch *sw, const struct fan_switch_job *j,
		       struct fan_rank_stats *m)
{
	if (!j->sa->inner)
		return;
	m->ahead = 1;
	m->front = j->sa->progress.front;
	for (; m->count < FAN_STATS_RANKS && m->first + m->count < j->ranks; m->count++)
		stands(sw, j, (uint16_t)(m->first + m->count), &m->rank[m->count]);
}

static void take(struct fan_switch *sw, uint16_t before, uint16_t now)
{
	if (before)
		sw->kept[now - 1] = sw->kept[before - 1];
	else
		memset(&sw->kept[now - 1], 0, sizeof *sw->kept);
}

const struct fan_run_ahead_calls fan_run_ahead = {
	.job_bytes = sizeof(struct fan_sa_atp),
	.child_bytes = sizeof(struct fan_helper_row),
	.beat = beat,
	.left = left,
	.end = end,
	.take = take,
	.row = row,
	.rank_stats = rank_stats,
};
