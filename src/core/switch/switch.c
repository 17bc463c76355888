/* SPDX-License-Identifier: Apache-2.0 */
#include "switch_priv.h"

#include "child.h"
#include "core/wire/query.h"
#include "routed.h"

#define FROM_BELOW                                                                                 \
	(1u << FAN_TYPE_DATA | 1u << FAN_TYPE_PARTIAL | 1u << FAN_TYPE_PROBE |                     \
	 1u << FAN_TYPE_PROGRESS | 1u << FAN_TYPE_MISS)

static bool config_is_sane(const struct fan_switch_config *c)
{
	return fan_policy_shares((int)c->policy) && c->slots >= 1 && c->slots <= FAN_SLOTS_MAX &&
	       c->payload_bytes >= FAN_PAYLOAD_MIN && c->payload_bytes <= FAN_PAYLOAD_MAX &&
	       c->children_max >= 2 && c->children_max <= FAN_MEMBERS_MAX && c->spares >= 1 &&
	       c->spares <= FAN_SPARES_MAX && c->routes <= FAN_ROUTES_MAX &&
	       (c->routes || !fan_peer_is_none(&c->aggregator)) && !fan_peer_token(&c->aggregator);
}

/* Return the places of jobs, as fan_switch_places has it. */
static size_t places_of(const struct fan_switch_config *c)
{
	return FAN_JOBS_MAX + (size_t)c->routes * FAN_ROUTE_LIVES;
}

size_t fan_switch_bytes(const struct fan_switch_config *cfg)
{
	if (!config_is_sane(cfg))
		return 0;
	return fan_align_up(sizeof(struct fan_switch)) + fan_child_bytes(cfg->children_max) +
	       fan_align_up(cfg->children_max * fan_run_ahead.child_bytes) +
	       places_of(cfg) * fan_align_up(fan_run_ahead.job_bytes) +
	       fan_align_up(FAN_SENT_LOGS * sizeof(struct fan_sent_log)) +
	       fan_align_up(cfg->routes * sizeof(struct fan_route)) +
	       fan_align_up(FAN_ROUTE_LIVES * cfg->routes * sizeof(struct fan_switch_job)) +
	       fan_sslots_bytes(cfg->slots, cfg->spares, cfg->payload_bytes);
}

struct fan_switch *fan_switch_init(void *mem, const struct fan_switch_config *cfg)
{
	struct fan_switch *sw = mem;
	assert(config_is_sane(cfg) && (uintptr_t)mem % FAN_ALIGN == 0);
	uint8_t *p = (uint8_t *)mem + fan_align_up(sizeof *sw);
	memset(sw, 0, sizeof *sw);
	sw->cfg = *cfg;
	sw->policy = fan_slot_policy(cfg->policy);
	sw->deadline_ns = sw->tell_ns = UINT64_MAX;
	p = fan_child_init(sw, p);
	sw->kept = (struct fan_helper_row *)p;
	p += fan_align_up(cfg->children_max * fan_run_ahead.child_bytes);
	sw->sent = (struct fan_sent_log *)p;
	for (unsigned i = 0; i < FAN_SENT_LOGS; i++)
		sw->sent[i].job = NULL;
	p += fan_align_up(FAN_SENT_LOGS * sizeof *sw->sent);
	sw->route = (struct fan_route *)p;
	p += fan_align_up(cfg->routes * sizeof *sw->route);
	sw->routed = (struct fan_switch_job *)p;
	memset(p, 0, FAN_ROUTE_LIVES * cfg->routes * sizeof *sw->routed);
	p += fan_align_up(FAN_ROUTE_LIVES * cfg->routes * sizeof *sw->routed);
	for (unsigned i = 0; i < fan_switch_places(sw); i++) {
		fan_switch_job_at(sw, i)->sa = (struct fan_sa_atp *)p;
		memset(p, 0, fan_run_ahead.job_bytes);
		p += fan_align_up(fan_run_ahead.job_bytes);
	}
	fan_sslots_init(&sw->slots, p, cfg->slots, cfg->spares, cfg->payload_bytes);
	fan_switch_behind_loses(sw, 0);
	return sw;
}

enum fan_verdict fan_switch_drop(struct fan_switch *sw, enum fan_drop why)
{
	assert(why < FAN_DROP_COUNT);
	sw->stats.drops[why]++;
	return FAN_DROP;
}

/* Is there something in the slot that somebody waits for, as far as the contribution `f`, which
 * finds it taken, can tell?  A later fragment of the same place in the window shows that
 * all have had the result of the earlier one. */
static bool is_held(struct fan_switch *sw, const struct fan_sslot *slot, const struct fan_frag *f)
{
	if (!fan_sslot_holds(slot))
		return false;
	const struct fan_switch_job *j = fan_switch_job_of(sw, slot->job, slot->epoch);
	assert(j);
	return slot->job != f->job || f->frag <= slot->frag ||
	       (f->frag - slot->frag) % j->window != 0;
}

/* Nothing has come for so long that the slot may hold a late duplicate. */
static bool is_idle(const struct fan_switch *sw, const struct fan_sslot *slot)
{
	return sw->now_ns - slot->touched_ns >= FAN_SLOT_IDLE_NS;
}

static bool is_over_quota(const struct fan_switch_job *j)
{
	return j->quota && j->held >= j->quota;
}

/* The slot no longer counts among its job's. */
static void release(struct fan_switch *sw, const struct fan_sslot *slot)
{
	if (!fan_sslot_holds(slot))
		return;
	struct fan_switch_job *j = fan_switch_job_of(sw, slot->job, slot->epoch);
	assert(j && j->held > 0);
	j->held--;
}

/* The number of what leaves for `goal`; 0: that is a helper. */
static uint16_t number_for(struct fan_switch *sw, struct fan_switch_job *j,
			   const struct fan_goal *goal, uint64_t frag, struct fan_sent s)
{
	return goal->rank == FAN_RANK_NONE ? fan_sent_note(sw, j, &goal->peer, frag, s) : 0;
}

/* Send the slot's sum to `goal`, after so many tries on MISS. */
static void send_slot(struct fan_switch *sw, struct fan_switch_job *j, const struct fan_sslot *slot,
		      const struct fan_goal *goal, unsigned tries, struct fan_out *out)
{
	struct fan_out_item *it = fan_out_add(out, FAN_TO_PEER);
	struct fan_frag f;
	const struct fan_sent s = {
		.kind = FAN_SENT_SUM,
		.tries = tries & 3,
		.what = (uint16_t)(slot - sw->slots.slot),
	};
	it->peer = goal->peer;
	it->down = goal->rank != FAN_RANK_NONE;
	fan_sslot_fill(&sw->slots, slot, &f);
	f.helper = FAN_TAG(goal->rank);
	f.seq = number_for(sw, j, goal, f.frag, s);
	it->payload = f.payload;
	it->payload_bytes = f.payload_bytes;
	fan_wire_put(it->head, &f);
	sw->went = *goal;
	sw->went_of = j;
	sw->stats.partials++;
}

void fan_switch_send_up(struct fan_switch *sw, struct fan_switch_job *j, struct fan_sslot *slot,
			unsigned tries, struct fan_out *out)
{
	const struct fan_goal up = fan_goal_up(&j->up);
	send_slot(sw, j, slot, &up, tries, out);
	slot->touched_ns = sw->now_ns;
}

/* Where the contributions of `ranks` to fragment `frag` go now, unaggregated. */
static struct fan_goal send_off(struct fan_switch *sw, struct fan_switch_job *j, uint64_t frag,
				const uint64_t *ranks)
{
	if (!j->ahead)
		return fan_goal_up(&j->up);
	const struct fan_goal goal = j->ahead->goal(sw, j, frag);
	j->ahead->lend(sw, j, &goal, frag, ranks);
	return goal;
}

/* Free the slot's place: send its sum where it may wait, unless that has happened. */
static void evict(struct fan_switch *sw, const struct fan_sslot *slot, struct fan_out *out)
{
	if (slot->state != FAN_SSLOT_OPEN)
		return;
	struct fan_switch_job *j = fan_switch_job_of(sw, slot->job, slot->epoch);
	assert(j);
	FAN_COUNT(sw, j, evictions);
	const struct fan_goal goal = send_off(sw, j, slot->frag, slot->seen);
	send_slot(sw, j, slot, &goal, 0, out);
}

/* Send the contribution on as it came, with the flags `met`. */
static enum fan_verdict pass_on(struct fan_switch *sw, struct fan_switch_job *j,
				const struct fan_frag *f, uint16_t met, const struct fan_goal *goal,
				struct fan_out *out)
{
	struct fan_out_item *it = fan_out_add(out, FAN_TO_PEER);
	struct fan_frag g = *f;
	g.flags |= met;
	it->peer = goal->peer;
	it->down = goal->rank != FAN_RANK_NONE;
	g.seq = number_for(sw, j, goal, f->frag, fan_sent_passing(sw, j, &g));
	fan_relay_copy(it, f);
	if (goal->rank != FAN_RANK_NONE)
		g.helper = FAN_TAG(goal->rank);
	fan_wire_put(it->head, &g); /* a mark of the network may be new, too */
	sw->went = *goal;
	sw->went_of = j;
	return FAN_PASS;
}

static void smooth(uint64_t *usual_ns, uint64_t ns)
{
	ns = ns < FAN_REMIND_MAX_NS ? ns : FAN_REMIND_MAX_NS;
	*usual_ns = *usual_ns ? (*usual_ns * 7 + ns) / 8 : ns;
}

/* Is an age within four times the usual time, FAN_REMIND_MIN_NS .. _MAX_NS?  A probe is early then.
 */
static bool is_young(uint64_t age_ns, uint64_t usual_ns)
{
	uint64_t most_ns = usual_ns * 4;
	most_ns = most_ns < FAN_REMIND_MIN_NS ? FAN_REMIND_MIN_NS : most_ns;
	return age_ns < (most_ns < FAN_REMIND_MAX_NS ? most_ns : FAN_REMIND_MAX_NS);
}

/* Is the sum of all ranks in flight, or the result? */
static bool is_in_progress(const struct fan_switch *sw, const struct fan_switch_job *j,
			   const struct fan_sslot *slot)
{
	return slot->state == FAN_SSLOT_SENT && is_young(sw->now_ns - slot->touched_ns, j->turn_ns);
}

enum fan_verdict fan_switch_pass_up(struct fan_switch *sw, struct fan_switch_job *j,
				    const struct fan_contribution *p, uint16_t met,
				    struct fan_out *out)
{
	const struct fan_goal up = fan_goal_up(p->next);
	FAN_COUNT(sw, j, passed);
	return pass_on(sw, j, p->f, met, &up, out);
}

enum fan_verdict fan_switch_pass_unaggregated(struct fan_switch *sw, struct fan_switch_job *j,
					      const struct fan_contribution *p, uint16_t met,
					      struct fan_out *out)
{
	const struct fan_goal goal = send_off(sw, j, p->f->frag, p->ranks);
	return pass_on(sw, j, p->f, met, &goal, out);
}

/* Other ranks are long past the fragment, and no slot holds it. */
static enum fan_verdict pass_late(struct fan_switch *sw, struct fan_switch_job *j,
				  const struct fan_contribution *p, struct fan_out *out)
{
	sw->stats.late++;
	return fan_switch_pass_unaggregated(sw, j, p, 0, out);
}

/* Asked to: send what the slot holds, and hold it no longer unless it is complete. */
static void flush(struct fan_switch *sw, struct fan_switch_job *j, struct fan_sslot *slot,
		  struct fan_out *out)
{
	if (!fan_sslot_holds(slot) || is_in_progress(sw, j, slot))
		return;
	fan_switch_send_up(sw, j, slot, 0, out);
	FAN_COUNT(sw, j, flushes);
	if (slot->state == FAN_SSLOT_SENT)
		return;
	release(sw, slot);
	fan_sslot_release(&sw->slots, slot);
}

/* A contribution was added, or has passed by: send the sum if the slot is full. */
static enum fan_verdict added(struct fan_switch *sw, struct fan_switch_job *j,
			      struct fan_sslot *slot, struct fan_out *out)
{
	slot->touched_ns = sw->now_ns;
	assert(slot->state == FAN_SSLOT_OPEN);
	bool full = fan_sslot_is_full(slot, j->below);
	if (!full && j->ahead && j->ahead->is_over(j, slot)) { /* the others have passed */
		evict(sw, slot, out);
		release(sw, slot);
		fan_sslot_release(&sw->slots, slot);
		return FAN_WAIT;
	}
	if (!full)
		return FAN_WAIT;
	FAN_COUNT(sw, j, completions);
	smooth(&j->fill_ns, slot->touched_ns - slot->since_ns);
	fan_switch_send_up(sw, j, slot, 0, out);
	slot->state = FAN_SSLOT_SENT;
	if (sw->cfg.options & FAN_SWITCH_FREE_EARLY) {
		release(sw, slot);
		fan_sslot_release(&sw->slots, slot);
	}
	return FAN_DONE;
}

/* The contribution's slot has its key. */
static enum fan_verdict join_slot(struct fan_switch *sw, struct fan_switch_job *j,
				  struct fan_sslot *slot, const struct fan_contribution *p,
				  struct fan_out *out)
{
	bool twice = fan_sslot_has(slot, p);
	if (twice && !p->is_sum)
		return fan_switch_drop(sw, FAN_DROP_DUPLICATE);
	if (twice ||
	    !fan_sslot_agrees(slot, p)) { /* the aggregator names the ranks that disagree */
		return fan_switch_pass_up(sw, j, p, 0, out);
	}
	if (slot->state == FAN_SSLOT_PASSED) { /* it was released, and is held again */
		if (is_over_quota(j)) {
			FAN_COUNT(sw, j, over_quota);
			return j->policy->unplaced(sw, j, p, out);
		}
		j->held++;
	}
	fan_sslot_add(&sw->slots, slot, p);
	FAN_COUNT(sw, j, hits);
	return added(sw, j, slot, out);
}

/* The contribution finds another fragment in its slot.  Which one keeps it? */
static enum fan_contest meet(struct fan_switch *sw, const struct fan_switch_job *j,
			     struct fan_sslot *slot, const struct fan_contribution *p)
{
	const struct fan_switch_job *owner = fan_switch_job_of(sw, slot->job, slot->epoch);
	if (owner != j && owner->ahead && owner->ahead->yields(owner, slot))
		return FAN_CONTEST_YIELDS;
	enum fan_contest c = j->policy->contest(sw, j, slot, p);
	return c == FAN_CONTEST_LOST && is_idle(sw, slot) ? FAN_CONTEST_WON : c;
}

static enum fan_verdict take_slot(struct fan_switch *sw, struct fan_switch_job *j,
				  struct fan_sslot *slot, const struct fan_contribution *p,
				  struct fan_out *out)
{
	if (is_over_quota(j)) {
		FAN_COUNT(sw, j, over_quota);
		return j->policy->unplaced(sw, j, p, out);
	}
	if (is_held(sw, slot, p->f)) {
		enum fan_contest c = meet(sw, j, slot, p);
		if (c == FAN_CONTEST_LATE)
			return pass_late(sw, j, p, out);
		if (c == FAN_CONTEST_LOST) {
			FAN_COUNT(sw, j, collisions);
			return j->policy->unplaced(sw, j, p, out);
		}
		FAN_COUNT(sw, j, preemptions);
		sw->stats.yields += c == FAN_CONTEST_YIELDS;
		evict(sw, slot, out);
	}
	release(sw, slot);
	fan_sslot_take(&sw->slots, slot, p, j->ranks);
	slot->since_ns = sw->now_ns;
	j->held++;
	FAN_COUNT(sw, j, taken);
	return added(sw, j, slot, out);
}

/* The contribution, a DATA, goes to the aggregator by itself: the slot waits for it no more. */
static void pass_by(struct fan_switch *sw, struct fan_switch_job *j, struct fan_sslot *slot,
		    const struct fan_contribution *p, struct fan_out *out)
{
	if (slot->state != FAN_SSLOT_OPEN || fan_sslot_has(slot, p))
		return;
	fan_contribution_join(p, slot->gone);
	added(sw, j, slot, out);
}

/* Check that `from` is where each rank of a contribution has joined, and fill in its next hop. */
static int without_route(const struct fan_switch *sw, const struct fan_switch_job *j,
			 const fan_peer *from, struct fan_contribution *p)
{
	p->sums = true;
	p->next = &j->up;
	for (unsigned r = p->first; r < j->ranks; r = fan_contribution_next(p, r)) {
		fan_peer hop = fan_relay_hop(sw, j, (uint16_t)r);
		if (!fan_peer_equal(&hop, from))
			return FAN_DROP_SENDER;
	}
	return -1;
}

/* Fill in p->next and p->sums of a contribution with known ranks that `from` has sent.  -1, or the
 * reason to drop it. */
static int find_next_hop(const struct fan_switch *sw, const struct fan_switch_job *j,
			 const fan_peer *from, struct fan_contribution *p)
{
	return j->route ? fan_routed_contribution(sw, j, from, p) : without_route(sw, j, from, p);
}

/* Find the rank or ranks of a packet, and check that they are reached where `from` is.  Otherwise
 * return why not. */
static int find_part(const struct fan_switch *sw, const struct fan_switch_job *j,
		     const fan_peer *from, const struct fan_frag *f, struct fan_contribution *p)
{
	int why = fan_contribution_get(p, f, j->ranks);
	if (why >= 0)
		return why;
	if (!fan_speaks_for_others(f))
		return find_next_hop(sw, j, from, p);
	return j->ahead ? fan_path_rank(sw, j, from, fan_tag_rank(f->helper), p) : FAN_DROP_SENDER;
}

enum fan_verdict fan_switch_add(struct fan_switch *sw, struct fan_switch_job *j,
				const struct fan_contribution *p, struct fan_out *out)
{
	const struct fan_frag *f = p->f;
	size_t acc_bytes = fan_partial_acc_bytes(f);
	int why = fan_contribution_unfit(p, j->payload_bytes, SIZE_MAX, false);
	if (why >= 0)
		return fan_switch_drop(sw, (enum fan_drop)why);
	bool wide = acc_bytes > j->payload_bytes || acc_bytes > sw->cfg.payload_bytes;
	bool alone = fan_ranks_equal(p->ranks, j->below);
	struct fan_sslot *slot = j->policy->place(sw, j, f);
	bool own = p->sums && fan_sslot_is_of(slot, f);
	if (f->flags & FAN_F_DIRECT && own)
		pass_by(sw, j, slot, p, out);
	if (f->flags & FAN_F_DIRECT || wide || alone || !p->sums)
		return fan_switch_pass_up(sw, j, p, 0, out);
	if (own)
		return join_slot(sw, j, slot, p, out);
	if (j->ahead && !j->ahead->wants(j, p))
		return pass_late(sw, j, p, out);
	return take_slot(sw, j, slot, p, out);
}

/* Is the sender's contribution in a sum that waits for others, and rightly so?  Then nothing is
 * lost, and it need not be asked about.  It does not wait for long: contributions and sums are in
 * flight.  An insisting rank has nothing else to wait for, and slots that fill late because of it
 * must not make it wait longer. */
static bool waits_here(const struct fan_switch *sw, const struct fan_switch_job *j,
		       const struct fan_sslot *slot, const struct fan_contribution *p)
{
	const uint64_t usual_ns = p->f->flags & FAN_F_INSIST ? 0 : j->fill_ns;
	if (slot->state != FAN_SSLOT_OPEN || !fan_ranks_has(slot->seen, p->first))
		return false;
	return j->ahead ? j->ahead->waits(j, slot, p)
			: is_young(sw->now_ns - slot->since_ns, usual_ns);
}

/* A rank misses a result.  Send sums up before the question, so that the aggregator's answer is
 * true. */
static enum fan_verdict recv_probe(struct fan_switch *sw, struct fan_switch_job *j,
				   const struct fan_contribution *p, struct fan_out *out)
{
	const struct fan_frag *f = p->f;
	struct fan_sslot *slot = j->policy->place(sw, j, f);
	struct fan_goal goal = fan_goal_up(p->next);
	bool own = p->sums && fan_sslot_is_of(slot, f);
	if (j->ahead)
		j->ahead->asked(sw, j, p, out);
	if (own && waits_here(sw, j, slot, p))
		return FAN_EARLY;
	if (own)
		flush(sw, j, slot, out);
	else if (j->ahead)
		goal = j->ahead->asks(sw, j, p);
	return pass_on(sw, j, f, 0, &goal, out);
}

/* A rank misses results by number: only the aggregator has them. */
static enum fan_verdict recv_miss(struct fan_switch *sw, const struct fan_switch_job *j,
				  const fan_peer *from, const struct fan_frag *f,
				  struct fan_out *out)
{
	struct fan_contribution p;
	int why = fan_path_rank(sw, j, from, f->sender, &p);
	if (why >= 0)
		return fan_switch_drop(sw, (enum fan_drop)why);
	struct fan_out_item *it = fan_out_add(out, FAN_TO_PEER);
	it->peer = *p.next;
	fan_relay_copy(it, f);
	return FAN_PASS;
}

/* Has a worker next to us sent it, and in order?  `from` has been checked. */
static bool arrives_next(struct fan_switch *sw, const struct fan_switch_job *j,
			 const struct fan_frag *f)
{
	if (j->route || f->helper || f->type == FAN_TYPE_PARTIAL)
		return false;
	assert(f->sender < j->ranks && j->child[f->sender]);
	struct fan_child *c = &sw->children[j->child[f->sender] - 1];
	return !fan_peer_token(&c->peer) && fan_seq_gap_is_next(&c->gap, f->seq);
}

/* From below: a contribution, or the question for a result. */
static enum fan_verdict recv_fragment(struct fan_switch *sw, const fan_peer *from,
				      const struct fan_frag *f, struct fan_out *out)
{
	struct fan_switch_job *j = fan_switch_job_of(sw, f->job, f->epoch);
	struct fan_contribution p;
	if (!(1u << f->type & FROM_BELOW))
		return fan_switch_drop(sw, FAN_DROP_TYPE);
	if (!j)
		return fan_switch_find_route(sw, f->job) >= 0
			       ? fan_routed_ask_who(sw, from, f, out)
			       : fan_relay_ask_who(sw, from, f, 0, FAN_DROP_JOB, out);
	assert(!j->quota || j->held <= j->quota);
	if (f->type == FAN_TYPE_PROGRESS)
		return j->ahead ? j->ahead->progress(sw, j, from, f, out)
				: fan_switch_drop(sw, FAN_DROP_SENDER);
	if (f->type == FAN_TYPE_MISS)
		return recv_miss(sw, j, from, f, out);
	int why = find_part(sw, j, from, f, &p);
	if (why == FAN_DROP_SENDER)
		return fan_relay_ask_who(sw, from, f, 0, FAN_DROP_SENDER, out);
	if (why >= 0)
		return fan_switch_drop(sw, (enum fan_drop)why);
	if (!arrives_next(sw, j, f))
		fan_arrival_note(sw, j, from, f,
				 fan_speaks_for_others(f) ? fan_tag_rank(f->helper) : p.first, out);
	if (f->type == FAN_TYPE_PROBE)
		return recv_probe(sw, j, &p, out);
	return j->ahead ? j->ahead->recv(sw, j, &p, out) : fan_switch_add(sw, j, &p, out);
}

/* The result of `f` has arrived: free its slot, and ignore later contributions. */
static void finish(struct fan_switch *sw, struct fan_switch_job *j, const struct fan_frag *f)
{
	struct fan_sslot *slot = j->policy->place(sw, j, f);
	FAN_COUNT(sw, j, results);
	if (!fan_sslot_is_of(slot, f))
		return;
	if (slot->state == FAN_SSLOT_SENT)
		smooth(&j->turn_ns, sw->now_ns - slot->touched_ns);
	release(sw, slot);
	fan_sslot_release(&sw->slots, slot);
	memset(slot->gone, 0xff, sizeof slot->gone);
}

static void recv_flush(struct fan_switch *sw, struct fan_switch_job *j, const struct fan_frag *f,
		       struct fan_out *out)
{
	struct fan_sslot *slot = j->policy->place(sw, j, f);
	if (fan_sslot_is_of(slot, f))
		flush(sw, j, slot, out);
	if (j->ahead)
		j->ahead->reminded(sw, j, f, out);
}

static enum fan_verdict recv_from_above(struct fan_switch *sw, const fan_peer *from,
					const struct fan_frag *f, struct fan_out *out)
{
	if (f->type >= FAN_TYPE_CTL)
		return fan_relay_down(sw, from, f, out);
	struct fan_switch_job *j = fan_switch_job_of(sw, f->job, f->epoch);
	struct fan_frag g = *f;
	f = &g;
	if (!j)
		return fan_switch_drop(sw, FAN_DROP_JOB);
	if (j->route && f->type == FAN_TYPE_RESULT && fan_relay_addressee(f) == FAN_RANK_NONE &&
	    !fan_route_passes(j->route, (unsigned)(j - sw->routed) % FAN_ROUTE_LIVES, j->epoch,
			      f->frag))
		return fan_switch_drop(sw, FAN_DROP_DUPLICATE); /* it took another path */
	switch (f->type) {
	case FAN_TYPE_RESULT: finish(sw, j, f); break;
	case FAN_TYPE_FLUSH: recv_flush(sw, j, f, out); break;
	case FAN_TYPE_PROGRESS:
		if (j->ahead)
			j->ahead->heard(sw, j, &g);
		break;
	case FAN_TYPE_NEED: break;
	case FAN_TYPE_MISS: return fan_sent_missed(sw, j, from, f, out);
	case FAN_TYPE_DATA:
	case FAN_TYPE_PARTIAL:
	case FAN_TYPE_PROBE: break; /* for a helper below */
	default: return fan_switch_drop(sw, FAN_DROP_TYPE);
	}
	return fan_relay_fragment(sw, j, from, f, out);
}

/* Set `*above` if `f` comes from a next hop, and clear it if from a child.  -1; FAN_DROP_ROUTE: it
 * comes from neither, or its route is not known. */
static int direction(const struct fan_switch *sw, const fan_peer *from, const struct fan_frag *f,
		     bool *above)
{
	*above = fan_peer_equal(from, &sw->cfg.aggregator);
	return sw->cfg.routes ? fan_routed_direction(sw, from, f, above) : -1;
}

enum fan_verdict fan_switch_recv(struct fan_switch *sw, uint64_t now_ns, fan_peer from,
				 const uint8_t *pkt, size_t len, bool marked, struct fan_out *out)
{
	struct fan_frag f;
	assert(fan_out_has(out, FAN_SWITCH_OUT_MAX));
	sw->now_ns = now_ns;
	sw->stats.packets++;
	int why = fan_wire_get(&f, pkt, len);
	if (why == FAN_DROP_VERSION)
		fan_query_foreign(&from, pkt, len, out);
	if (why >= 0)
		return fan_switch_drop(sw, (enum fan_drop)why);
	if (marked && f.type <= FAN_TYPE_RESULT)
		f.flags |= FAN_F_ECN;
	bool above = false;
	if (f.type == FAN_TYPE_QUERY)
		return fan_stats_recv(sw, &from, &f, out);
	why = direction(sw, &from, &f, &above);
	if (why >= 0)
		return fan_switch_drop(sw, (enum fan_drop)why);
	if (above)
		return recv_from_above(sw, &from, &f, out);
	if (f.type >= FAN_TYPE_CTL)
		return fan_relay_up(sw, now_ns, &from, &f, out);
	return recv_fragment(sw, &from, &f, out);
}

uint64_t fan_switch_deadline(const struct fan_switch *sw)
{
	return sw->tell_ns < sw->deadline_ns ? sw->tell_ns : sw->deadline_ns;
}
