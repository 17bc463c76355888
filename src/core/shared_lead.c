/* SPDX-License-Identifier: Apache-2.0 */
#include "shared_priv.h"

/* What is loose waits for so many of the shortest answers above: none, or too long. */
#define HOME_FREE 3
#define HOME_BUSY 6

#define SHARE_ALL  256u	       /* of the parts in a block that go to leading workers: all */
#define SHARE_STEP 32u	       /* more of them in the next block */
#define SCATTER	   2654435769u /* 2^32 by the golden ratio: evenly, and in step with nothing */

void fan_lead_divide(struct fan_shared *sh)
{
	uint32_t jobs = 0, slots = sh->slots.count, n = 0;
	for (unsigned i = 0; i < FAN_JOBS_MAX; i++)
		jobs += sh->job[i].used && sh->job[i].lead.ahead;
	uint32_t each = jobs && slots / jobs ? slots / jobs : 1;
	for (unsigned i = 0; i < FAN_JOBS_MAX; i++)
		if (sh->job[i].used && sh->job[i].lead.ahead)
			sh->job[i].lead.due = (struct fan_stretch){n++ * each % slots, each};
}

struct fan_sslot *fan_lead_slot(const struct fan_shared *sh, const struct fan_shared_job *j,
				uint64_t frag)
{
	const struct fan_lead *lead = &j->lead;
	return fan_sslots_in_line(&sh->slots, frag, j->window, lead->in[frag >= lead->since]);
}

/* Fragments that nobody has begun go to the stretch that is due; but not before those of the
 * last change are over, since no more than two stretches are known. */
static void move(struct fan_shared_job *j)
{
	struct fan_lead *lead = &j->lead;
	if (fan_pace_slowest(&lead->pace, j->ranks) < lead->since)
		return;
	lead->in[0] = lead->in[1];
	lead->in[1] = lead->due;
	lead->since = lead->in[0].count ? lead->pace.front : 0;
}

/* Fragments in a block. */
static uint64_t block_frags(const struct fan_shared_job *j)
{
	return j->window * UINT64_C(2) / FAN_LEAD_BLOCKS + 1;
}

static unsigned nth_rank(const uint64_t *set, unsigned n)
{
	for (unsigned i = 0; i < FAN_RANK_WORDS; i++) {
		for (uint64_t rest = set[i]; rest; rest &= rest - 1)
			if (n-- == 0)
				return i * 64 + (unsigned)__builtin_ctzll(rest);
	}
	return FAN_RANK_NONE;
}

struct fan_goal fan_lead_goal(const struct fan_shared *sh, const struct fan_shared_job *j,
			      uint64_t frag)
{
	struct fan_goal up = {.peer = j->up, .rank = FAN_RANK_NONE};
	uint64_t number = frag / block_frags(j) + 1;
	const struct fan_lead_block *b = &j->lead.block[number % FAN_LEAD_BLOCKS];
	uint32_t draw = (uint32_t)frag * SCATTER;
	if (!j->lead.ahead || b->number != number || !b->count || (draw >> 24) >= b->share)
		return up;
	unsigned turn = (unsigned)((uint64_t)(draw << 8) * b->count >> 32);
	struct fan_goal goal = {.rank = (uint16_t)nth_rank(b->ranks, turn)};
	goal.peer = fan_relay_hop(sh, j, goal.rank);
	return fan_peer_is_none(&goal.peer) ? up : goal; /* it has gone */
}

static bool straggles(const struct fan_pace *pace, unsigned rank)
{
	return pace->next[rank] + FAN_LAG_FRAGS <= pace->front;
}

static struct fan_help_row *row_of(const struct fan_shared *sh, const struct fan_shared_job *j,
				   uint16_t rank)
{
	if (rank >= j->ranks || !j->child[rank])
		return NULL;
	const struct fan_child *c = &sh->children[j->child[rank] - 1];
	bool here = c->job == j->id && c->epoch == j->epoch; /* and not in a later life already */
	return here ? &sh->helps[j->child[rank] - 1] : NULL;
}

const uint32_t *fan_lead_row(const struct fan_shared *sh, const struct fan_shared_job *j,
			     uint16_t rank)
{
	const struct fan_help_row *row = row_of(sh, j, rank);
	return row ? row->parts : NULL;
}

void fan_lead_lend(struct fan_shared *sh, struct fan_shared_job *j, const struct fan_goal *goal,
		   uint64_t frag, const uint64_t *ranks)
{
	struct fan_lead *lead = &j->lead;
	if (!lead->ahead)
		return;
	if (goal->rank != FAN_RANK_NONE) {
		sh->stats.lent++;
		lead->lent[goal->rank]++;
	}
	if (!fan_lead_is_late(j, frag)) /* no straggler has come to it */
		return;
	struct fan_help_row *row = row_of(sh, j, goal->rank);
	for (unsigned i = 0; i < FAN_RANK_WORDS; i++) {
		for (uint64_t rest = ranks[i]; rest; rest &= rest - 1) {
			unsigned r = i * 64 + (unsigned)__builtin_ctzll(rest);
			if (!straggles(&lead->pace, r))
				continue;
			lead->owed[r]++;
			if (row)
				row->parts[r]++;
		}
	}
}

/* How long it is now. */
static uint64_t wait_ns(const struct fan_shared *sh, const struct fan_lead_wait *w)
{
	uint64_t since_ns = w->asked_ns ? sh->now_ns - w->asked_ns : 0;
	return since_ns > w->took_ns ? since_ns : w->took_ns;
}

/* A question about `frag` goes there.  One is under way at a time; what is lost is forgotten. */
static void note_asked(const struct fan_shared *sh, struct fan_lead_wait *w, uint64_t frag)
{
	if (w->asked_ns && sh->now_ns - w->asked_ns < FAN_LEAD_FULL_NS)
		return;
	w->asked_ns = sh->now_ns;
	w->frag = (uint32_t)frag;
}

static uint32_t clip(uint64_t ns)
{
	return ns < UINT32_MAX ? (uint32_t)ns : UINT32_MAX;
}

static void note_answered(const struct fan_shared *sh, struct fan_lead_wait *w, uint64_t frag)
{
	if (!w->asked_ns || w->frag != (uint32_t)frag)
		return;
	uint32_t took_ns = clip(sh->now_ns - w->asked_ns);
	w->asked_ns = 0;
	w->took_ns = w->took_ns ? w->took_ns / 2 + took_ns / 2 : took_ns;
	if (!w->least_ns || took_ns < w->least_ns)
		w->least_ns = took_ns;
	w->fresh = true;
}

/* What nobody has asked about since the last block is believed less. */
static void fade(struct fan_lead_wait *w)
{
	if (!w->fresh && !w->asked_ns)
		w->took_ns = w->took_ns / 2 + w->least_ns / 2;
	w->fresh = false;
}

/* How much of the next block goes to leading workers: less while nothing waits at the home, or
 * less than there. */
static void balance(const struct fan_shared *sh, struct fan_lead *lead,
		    const struct fan_lead_block *b)
{
	const struct fan_lead_wait *home = &lead->wait[FAN_RANKS_MAX];
	uint64_t home_ns = wait_ns(sh, home), mean_ns = 0;
	for (unsigned r = 0; r < FAN_RANKS_MAX; r++)
		if (fan_ranks_has(b->ranks, r))
			mean_ns += wait_ns(sh, &lead->wait[r]) / b->count;
	if (home_ns <= HOME_FREE * (uint64_t)home->least_ns || home_ns < mean_ns)
		lead->share = lead->share * 7 / 8;
	else
		lead->share += SHARE_STEP;
	lead->share = lead->share < SHARE_ALL ? lead->share : SHARE_ALL;
}

/* The ranks that lead in a block which is being entered: none if nobody straggles. */
static void choose(struct fan_shared *sh, struct fan_shared_job *j, struct fan_lead_block *b)
{
	struct fan_lead *lead = &j->lead;
	bool full = sh->now_ns < lead->full_until_ns, needed = false;
	uint64_t slowest = fan_pace_slowest(&lead->pace, j->ranks);
	memset(b->ranks, 0, sizeof b->ranks);
	b->count = 0;
	if (j->children < j->ranks)
		return;
	for (unsigned r = 0; r < j->ranks; r++) {
		needed |= straggles(&lead->pace, r);
		bool last = lead->pace.next[r] == slowest;
		bool has_room = !full || !fan_ranks_has(lead->full, r);
		if (last || !has_room || !fan_ranks_has(lead->offers, r))
			continue;
		fan_ranks_set(b->ranks, r);
		b->count++;
	}
	if (b->count)
		balance(sh, lead, b);
	for (unsigned r = 0; r <= FAN_RANKS_MAX; r++)
		fade(&lead->wait[r]);
	b->share = (uint16_t)lead->share;
	if (!needed)
		b->count = 0;
}

static void enter(struct fan_shared *sh, struct fan_shared_job *j)
{
	struct fan_lead *lead = &j->lead;
	uint64_t now = (lead->pace.front - 1) / block_frags(j) + 1;
	if (now > lead->entered + FAN_LEAD_BLOCKS) /* as after a restart */
		lead->entered = now - FAN_LEAD_BLOCKS;
	while (lead->entered < now) {
		uint64_t number = ++lead->entered;
		struct fan_lead_block *b = &lead->block[number % FAN_LEAD_BLOCKS];
		choose(sh, j, b);
		b->number = number;
	}
}

void fan_lead_note(struct fan_shared *sh, struct fan_shared_job *j, const struct fan_part *p)
{
	uint64_t front = j->lead.pace.front;
	const struct fan_stretch *in = &j->lead.in[1], *due = &j->lead.due;
	if (in->first != due->first || in->count != due->count)
		move(j);
	for (uint16_t r = p->first; r < j->ranks; r++) {
		if (fan_ranks_has(p->ranks, r))
			fan_pace_note(&j->lead.pace, r, p->f->frag);
		if (!p->wide)
			break;
	}
	if (j->lead.pace.front > front)
		enter(sh, j);
}

bool fan_lead_is_late(const struct fan_shared_job *j, uint64_t frag)
{
	return j->lead.ahead && frag + FAN_LAG_FRAGS < j->lead.pace.front;
}

bool fan_lead_gives_way(struct fan_shared *sh, const struct fan_sslot *slot)
{
	const struct fan_shared_job *j = fan_shared_job_of(sh, slot->job, slot->epoch);
	if (!j || !j->lead.ahead || slot->state != FAN_SSLOT_OPEN)
		return false;
	for (unsigned i = 0; i < FAN_RANK_WORDS; i++) {
		uint64_t missing = j->below[i] & ~(slot->seen[i] | slot->gone[i]);
		for (; missing; missing &= missing - 1) {
			unsigned r = i * 64 + (unsigned)__builtin_ctzll(missing);
			bool passed = j->lead.pace.next[r] > slot->frag;
			if (!passed && !straggles(&j->lead.pace, r))
				return false;
		}
	}
	return true;
}

/* How far the next rank, of those that are not in `in` nor `too`, has to come to fragment `frag`;
 * UINT64_MAX: all have come to it. */
static uint64_t distance(const struct fan_shared_job *j, uint64_t frag, const uint64_t *in,
			 const uint64_t *too)
{
	uint64_t least = UINT64_MAX;
	for (unsigned r = 0; r < j->ranks; r++) {
		uint64_t next = j->lead.pace.next[r];
		bool comes = fan_ranks_has(j->below, r) && !fan_ranks_has(in, r) &&
			     !fan_ranks_has(too, r) && next <= frag;
		if (comes && frag - next < least)
			least = frag - next;
	}
	return least;
}

bool fan_lead_comes_sooner(const struct fan_shared_job *j, const struct fan_part *p,
			   const struct fan_sslot *slot)
{
	return distance(j, p->f->frag, p->ranks, p->ranks) <
	       distance(j, slot->frag, slot->seen, slot->gone);
}

bool fan_lead_is_over(const struct fan_shared_job *j, const struct fan_sslot *slot)
{
	return distance(j, slot->frag, slot->seen, slot->gone) == UINT64_MAX;
}

bool fan_lead_is_last(const struct fan_shared_job *j, const struct fan_part *p)
{
	return distance(j, p->f->frag, p->ranks, p->ranks) == UINT64_MAX;
}

void fan_lead_full(struct fan_shared *sh, struct fan_shared_job *j, const struct fan_frag *f)
{
	if (!(f->flags & FAN_F_RESEND))
		return;
	if (sh->now_ns >= j->lead.full_until_ns)
		memset(j->lead.full, 0, sizeof j->lead.full);
	fan_ranks_set(j->lead.full, f->priority);
	j->lead.full_until_ns = sh->now_ns + FAN_LEAD_FULL_NS;
}

void fan_lead_pace(struct fan_shared *sh, struct fan_shared_job *j, uint16_t rank,
		   const struct fan_frag *f, uint16_t met, struct fan_out *out)
{
	struct fan_out_item *it = fan_out_add(out, FAN_TO_PEER);
	struct fan_frag h = fan_pace_answer(&j->lead.pace, j->ranks, f);
	h.priority = (uint8_t)rank;
	h.flags |= met;
	it->peer = fan_relay_hop(sh, j, rank);
	fan_wire_put(it->head, &h);
	sh->stats.paces++;
}

void fan_lead_ask(struct fan_shared *sh, struct fan_shared_job *j, const struct fan_frag *f,
		  unsigned first, struct fan_out *out)
{
	if (out->count == first) {
		fan_lead_pace(sh, j, f->sender, f, 0, out);
		return;
	}
	const struct fan_out_item *gone = &out->item[out->count - 1];
	struct fan_frag h = fan_pace_question(f, f->sender);
	h.priority = gone->head[15]; /* to a leading worker: that one */
	fan_peer hop = fan_relay_hop(sh, j, h.priority);
	if (fan_peer_equal(&gone->peer, &j->up))
		note_asked(sh, &j->lead.wait[FAN_RANKS_MAX], f->frag);
	else if (fan_peer_equal(&gone->peer, &hop))
		note_asked(sh, &j->lead.wait[h.priority], f->frag);
	struct fan_out_item *it = fan_out_add(out, FAN_TO_PEER);
	it->peer = gone->peer;
	fan_wire_put(it->head, &h);
}

enum fan_verdict fan_lead_recv_pace(struct fan_shared *sh, struct fan_shared_job *j,
				    const fan_peer *from, const struct fan_frag *f,
				    struct fan_out *out)
{
	bool asks = f->flags & FAN_F_LEAD;
	fan_peer hop = fan_relay_hop(sh, j, asks ? f->sender : f->priority);
	if (!j->lead.ahead || f->sender >= j->ranks || !fan_peer_equal(&hop, from))
		return fan_shared_drop(sh, FAN_DROP_SENDER);
	hop = fan_relay_hop(sh, j, f->sender);
	if (!asks && fan_peer_is_none(&hop))
		return fan_shared_drop(sh, FAN_DROP_SENDER);
	if (!asks) {
		uint16_t full = f->flags & FAN_F_RESEND; /* no room for more */
		note_answered(sh, &j->lead.wait[f->priority], f->frag);
		fan_lead_full(sh, j, f);
		fan_lead_pace(sh, j, f->sender, f, FAN_F_COLLISION | full, out);
		return FAN_CTL;
	}
	struct fan_out_item *it = fan_out_add(out, FAN_TO_PEER);
	it->peer = sh->cfg.home;
	fan_relay_copy(it, f);
	return FAN_PASS;
}

void fan_lead_standing(const struct fan_shared *sh, const struct fan_shared_job *j, uint16_t rank,
		       struct fan_standing *s)
{
	const struct fan_lead *lead = &j->lead;
	*s = (struct fan_standing){.lent = lead->lent[rank], .owed = lead->owed[rank]};
	fan_pace_standing(&lead->pace, rank, s);
	if (j->child[rank])
		s->cache = sh->children[j->child[rank] - 1].cache;
	if (fan_ranks_has(lead->offers, rank))
		s->flags |= FAN_RANK_OFFERS;
	if (sh->now_ns < lead->full_until_ns && fan_ranks_has(lead->full, rank))
		s->flags |= FAN_RANK_FULL;
}

void fan_lead_heard(struct fan_shared *sh, struct fan_shared_job *j, struct fan_frag *f)
{
	struct fan_lead_wait *home = &j->lead.wait[FAN_RANKS_MAX];
	note_answered(sh, home, f->frag);
	if (f->flags & FAN_F_COLLISION && home->took_ns / HOME_BUSY > home->least_ns)
		f->flags |= FAN_F_ECN;
}

bool fan_shared_lag(const struct fan_shared *sh, unsigned index, uint16_t rank, struct fan_lag *lag)
{
	const struct fan_shared_job *j = NULL;
	for (unsigned i = 0; i < FAN_JOBS_MAX && !j; i++)
		if (sh->job[i].used && index-- == 0)
			j = &sh->job[i];
	if (!j || rank >= j->ranks)
		return false;
	const struct fan_lead *lead = &j->lead;
	*lag = (struct fan_lag){
		.name = j->name,
		.job = j->id,
		.epoch = j->epoch,
		.ranks = j->ranks,
		.ahead = lead->ahead,
		.next = lead->pace.next[rank],
		.behind = lead->pace.front - lead->pace.next[rank],
		.straggles = lead->ahead && straggles(&lead->pace, rank),
		.offers = fan_ranks_has(lead->offers, rank),
		.full = sh->now_ns < lead->full_until_ns && fan_ranks_has(lead->full, rank),
		.lent = lead->lent[rank],
		.owed = lead->owed[rank],
		.helps = fan_lead_row(sh, j, rank),
		.whole = j->children == j->ranks,
	};
	return true;
}
