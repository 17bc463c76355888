/* SPDX-License-Identifier: Apache-2.0 */
#include "asked.h"
#include "shared_priv.h"

#define ALIGN 64u

static size_t align_up(size_t n)
{
	return (n + ALIGN - 1) / ALIGN * ALIGN;
}

static bool config_is_sane(const struct fan_shared_config *c)
{
	return (c->policy == FAN_POLICY_ATP || c->policy == FAN_POLICY_ESA) && c->slots >= 1 &&
	       c->slots <= FAN_SLOTS_MAX && c->payload_bytes >= FAN_PAYLOAD_MIN &&
	       c->payload_bytes <= FAN_PAYLOAD_MAX && c->children_max >= 2 &&
	       c->children_max <= FAN_MEMBERS_MAX && c->spares >= 1 &&
	       c->spares <= FAN_SPARES_MAX && c->routes <= FAN_ROUTES_MAX &&
	       (c->routes || !fan_peer_is_none(&c->home)) && !fan_peer_token(&c->home);
}

size_t fan_shared_bytes(const struct fan_shared_config *cfg)
{
	if (!config_is_sane(cfg))
		return 0;
	return align_up(sizeof(struct fan_shared)) +
	       align_up(cfg->children_max * sizeof(struct fan_child)) +
	       align_up(cfg->children_max * sizeof(struct fan_help_row)) +
	       align_up(cfg->routes * sizeof(struct fan_routed)) +
	       align_up(FAN_ROUTE_LIVES * cfg->routes * sizeof(struct fan_shared_job)) +
	       fan_sslots_bytes(cfg->slots, cfg->spares, cfg->payload_bytes);
}

struct fan_shared *fan_shared_init(void *mem, const struct fan_shared_config *cfg)
{
	struct fan_shared *sh = mem;
	uint8_t *p = (uint8_t *)mem + align_up(sizeof *sh);
	memset(sh, 0, sizeof *sh);
	sh->cfg = *cfg;
	sh->contest = cfg->policy == FAN_POLICY_ESA ? fan_policy_esa : fan_policy_atp;
	sh->deadline_ns = UINT64_MAX;
	sh->children = (struct fan_child *)p;
	memset(p, 0, cfg->children_max * sizeof *sh->children);
	p += align_up(cfg->children_max * sizeof *sh->children);
	sh->helps = (struct fan_help_row *)p;
	p += align_up(cfg->children_max * sizeof *sh->helps);
	sh->route = (struct fan_routed *)p;
	p += align_up(cfg->routes * sizeof *sh->route);
	sh->routed = (struct fan_shared_job *)p;
	memset(p, 0, FAN_ROUTE_LIVES * cfg->routes * sizeof *sh->routed);
	p += align_up(FAN_ROUTE_LIVES * cfg->routes * sizeof *sh->routed);
	fan_sslots_init(&sh->slots, p, cfg->slots, cfg->spares, cfg->payload_bytes);
	fan_usage_prepare(sh);
	return sh;
}

enum fan_verdict fan_shared_drop(struct fan_shared *sh, enum fan_drop why)
{
	sh->stats.drops[why]++;
	return FAN_DROP;
}

static struct fan_sslot *slot_of(const struct fan_shared *sh, const struct fan_shared_job *j,
				 const struct fan_frag *f)
{
	return j->lead.ahead ? fan_lead_slot(sh, j, f->frag)
			     : fan_sslots_at(&sh->slots, f, j->window);
}

/* Is there something in the slot that somebody waits for, as far as the part `f`, which
 * finds it taken, can tell?  A later fragment of the same place in the window says that
 * all have had the result of the earlier one. */
static bool is_held(struct fan_shared *sh, const struct fan_sslot *slot, const struct fan_frag *f)
{
	if (slot->state != FAN_SSLOT_OPEN && slot->state != FAN_SSLOT_SENT)
		return false;
	const struct fan_shared_job *j = fan_shared_job_of(sh, slot->job, slot->epoch);
	if (!j)
		return false;
	return slot->job != f->job || f->frag <= slot->frag ||
	       (f->frag - slot->frag) % j->window != 0;
}

/* Nothing has come for so long that it may be what is left of a duplicate. */
static bool is_idle(const struct fan_shared *sh, const struct fan_sslot *slot)
{
	return sh->now_ns - slot->touched_ns >= FAN_SLOT_IDLE_NS;
}

static bool is_over_quota(const struct fan_shared_job *j)
{
	return j->quota && j->held >= j->quota;
}

/* The slot ceases to be one of those that its job holds. */
static void release(struct fan_shared *sh, const struct fan_sslot *slot)
{
	struct fan_shared_job *j = fan_shared_job_of(sh, slot->job, slot->epoch);
	if (j && j->held && (slot->state == FAN_SSLOT_OPEN || slot->state == FAN_SSLOT_SENT))
		j->held--;
}

/* Send what the slot holds where `goal` says. */
static void send_slot(struct fan_shared *sh, const struct fan_sslot *slot,
		      const struct fan_goal *goal, struct fan_out *out)
{
	struct fan_out_item *it = fan_out_add(out, FAN_TO_PEER);
	struct fan_frag f;
	it->peer = goal->peer;
	fan_sslot_fill(&sh->slots, slot, &f);
	if (goal->rank != FAN_RANK_NONE)
		f.priority = (uint8_t)goal->rank;
	it->payload = f.payload;
	it->payload_bytes = f.payload_bytes;
	fan_wire_put(it->head, &f);
	sh->stats.partials++;
}

static struct fan_goal upwards(const fan_peer *next)
{
	return (struct fan_goal){.peer = *next, .rank = FAN_RANK_NONE};
}

static void send_up(struct fan_shared *sh, const struct fan_shared_job *j,
		    const struct fan_sslot *slot, struct fan_out *out)
{
	const struct fan_goal up = upwards(&j->up);
	send_slot(sh, slot, &up, out);
}

/* The slot's place is wanted: what it holds leaves to where it may wait, if it has not yet. */
static void evict(struct fan_shared *sh, const struct fan_sslot *slot, struct fan_out *out)
{
	if (slot->state != FAN_SSLOT_OPEN)
		return;
	struct fan_shared_job *j = fan_shared_job_of(sh, slot->job, slot->epoch);
	FAN_COUNT(sh, j, evictions);
	const struct fan_goal goal = fan_lead_goal(sh, j, slot->frag);
	fan_lead_lend(sh, j, &goal, slot->frag, slot->seen);
	send_slot(sh, slot, &goal, out);
}

/* Send the part on as it came, with what it has met here. */
static enum fan_verdict pass_on(const struct fan_frag *f, uint16_t met, const struct fan_goal *goal,
				struct fan_out *out)
{
	struct fan_out_item *it = fan_out_add(out, FAN_TO_PEER);
	struct fan_frag g = *f;
	it->peer = goal->peer;
	fan_relay_copy(it, f);
	g.flags |= met;
	if (goal->rank != FAN_RANK_NONE)
		g.priority = (uint8_t)goal->rank;
	fan_wire_put(it->head, &g); /* a mark of the network may be new, too */
	return FAN_PASS;
}

static void smooth(uint64_t *usual_ns, uint64_t ns)
{
	ns = ns < FAN_REMIND_MAX_NS ? ns : FAN_REMIND_MAX_NS;
	*usual_ns = *usual_ns ? (*usual_ns * 7 + ns) / 8 : ns;
}

/* Has it taken no longer than it may, going by what is usual?  Whoever asks is early then. */
static bool is_young(uint64_t age_ns, uint64_t usual_ns)
{
	uint64_t most_ns = usual_ns * 4;
	most_ns = most_ns < FAN_REMIND_MIN_NS ? FAN_REMIND_MIN_NS : most_ns;
	return age_ns < (most_ns < FAN_REMIND_MAX_NS ? most_ns : FAN_REMIND_MAX_NS);
}

/* Is the sum of all ranks on its way, or the result on its way back? */
static bool is_under_way(const struct fan_shared *sh, const struct fan_shared_job *j,
			 const struct fan_sslot *slot)
{
	return slot->state == FAN_SSLOT_SENT && is_young(sh->now_ns - slot->touched_ns, j->turn_ns);
}

static enum fan_verdict pass_up(const struct fan_part *p, uint16_t met, struct fan_out *out)
{
	const struct fan_goal up = upwards(p->next);
	return pass_on(p->f, met, &up, out);
}

/* The part finds no slot: it goes to where others of its fragment are, or will be. */
static enum fan_verdict pass_loose(struct fan_shared *sh, struct fan_shared_job *j,
				   const struct fan_part *p, uint16_t met, struct fan_out *out)
{
	const struct fan_goal goal = fan_lead_goal(sh, j, p->f->frag);
	fan_lead_lend(sh, j, &goal, p->f->frag, p->ranks);
	return pass_on(p->f, met, &goal, out);
}

/* The fragment has long been passed by others, and no slot holds it. */
static enum fan_verdict come_late(struct fan_shared *sh, struct fan_shared_job *j,
				  const struct fan_part *p, struct fan_out *out)
{
	sh->stats.late++;
	return pass_loose(sh, j, p, 0, out);
}

/* Asked to: send what the slot holds, and hold it no longer unless it is complete. */
static void flush(struct fan_shared *sh, struct fan_shared_job *j, struct fan_sslot *slot,
		  struct fan_out *out)
{
	bool holds = slot->state == FAN_SSLOT_OPEN || slot->state == FAN_SSLOT_SENT;
	if (!holds || is_under_way(sh, j, slot))
		return;
	send_up(sh, j, slot, out);
	FAN_COUNT(sh, j, flushes);
	slot->touched_ns = sh->now_ns;
	if (slot->state == FAN_SSLOT_SENT)
		return;
	release(sh, slot);
	fan_sslot_let_go(&sh->slots, slot);
}

/* The part is in.  Was it the last one? */
static enum fan_verdict added(struct fan_shared *sh, struct fan_shared_job *j,
			      struct fan_sslot *slot, struct fan_out *out)
{
	slot->touched_ns = sh->now_ns;
	bool full = fan_sslot_is_full(slot, j->below);
	if (!full && j->lead.ahead && fan_lead_is_over(j, slot)) { /* the others have passed */
		evict(sh, slot, out);
		release(sh, slot);
		fan_sslot_let_go(&sh->slots, slot);
		return FAN_WAIT;
	}
	if (!full)
		return FAN_WAIT;
	FAN_COUNT(sh, j, completions);
	smooth(&j->fill_ns, slot->touched_ns - slot->since_ns);
	send_up(sh, j, slot, out);
	slot->state = FAN_SSLOT_SENT;
	if (sh->cfg.options & FAN_SHARED_FREE_EARLY) {
		release(sh, slot);
		fan_sslot_let_go(&sh->slots, slot);
	}
	return FAN_DONE;
}

/* The part's slot has its key. */
static enum fan_verdict join_slot(struct fan_shared *sh, struct fan_shared_job *j,
				  struct fan_sslot *slot, const struct fan_part *p,
				  struct fan_out *out)
{
	bool several = p->f->flags & FAN_F_PARTIAL;
	bool twice = fan_sslot_has(slot, p);
	if (twice && !several)
		return fan_shared_drop(sh, FAN_DROP_DUPLICATE);
	if (twice || !fan_sslot_agrees(slot, p)) { /* the home tells who disagrees */
		FAN_COUNT(sh, j, passed);
		return pass_up(p, 0, out);
	}
	if (slot->state == FAN_SSLOT_PASSED) { /* it was let go, and is held again */
		if (is_over_quota(j)) {
			FAN_COUNT(sh, j, over_quota);
			return pass_loose(sh, j, p, FAN_F_COLLISION, out);
		}
		j->held++;
	}
	fan_sslot_add(&sh->slots, slot, p);
	FAN_COUNT(sh, j, hits);
	return added(sh, j, slot, out);
}

static enum fan_verdict take_slot(struct fan_shared *sh, struct fan_shared_job *j,
				  struct fan_sslot *slot, const struct fan_part *p,
				  struct fan_out *out)
{
	if (is_over_quota(j)) {
		FAN_COUNT(sh, j, over_quota);
		return pass_loose(sh, j, p, FAN_F_COLLISION, out);
	}
	if (is_held(sh, slot, p->f)) {
		bool same = j->lead.ahead && slot->state == FAN_SSLOT_OPEN &&
			    slot->job == p->f->job && slot->epoch == p->f->epoch;
		bool yields =
			same ? fan_lead_comes_sooner(j, p, slot) : fan_lead_gives_way(sh, slot);
		if (same && !yields && fan_lead_is_late(j, p->f->frag))
			return come_late(sh, j, p, out);
		if (!yields && !is_idle(sh, slot) &&
		    sh->contest(&sh->cfg, slot, p->f) == FAN_CONTEST_LOST) {
			FAN_COUNT(sh, j, collisions);
			return pass_loose(sh, j, p, FAN_F_COLLISION, out);
		}
		FAN_COUNT(sh, j, preemptions);
		sh->stats.yields += yields;
		evict(sh, slot, out);
	}
	release(sh, slot);
	fan_sslot_take(&sh->slots, slot, p, j->ranks);
	slot->since_ns = sh->now_ns;
	j->held++;
	FAN_COUNT(sh, j, taken);
	return added(sh, j, slot, out);
}

/* A leading worker speaks for other ranks; for whom it is says `priority`. */
static bool comes_from_leader(const struct fan_frag *f)
{
	return f->flags & FAN_F_LEAD && (f->type == FAN_TYPE_PROBE || f->flags & FAN_F_PARTIAL);
}

/* What rank or ranks, and are they reached where `from` is?  Else why not. */
static int find_part(const struct fan_shared *sh, const struct fan_shared_job *j,
		     const fan_peer *from, const struct fan_frag *f, struct fan_part *p)
{
	if (!fan_part_get(p, f, j->ranks))
		return f->flags & FAN_F_PARTIAL ? FAN_DROP_FORMAT : FAN_DROP_SENDER;
	p->sums = true;
	p->next = &j->up;
	if (j->route)
		return fan_routed_part(sh, j, from, p);
	if (comes_from_leader(f)) {
		fan_peer hop = fan_relay_hop(sh, j, f->priority);
		return j->lead.ahead && fan_peer_equal(&hop, from) ? -1 : FAN_DROP_SENDER;
	}
	if (j->route)
		return fan_routed_part(sh, j, from, p);
	for (uint16_t r = p->first; r < j->ranks; r++) {
		fan_peer hop = fan_relay_hop(sh, j, r);
		if (fan_ranks_has(p->ranks, r) && !fan_peer_equal(&hop, from))
			return FAN_DROP_SENDER;
		if (!p->wide)
			break;
	}
	return -1;
}

/* The part goes to the home by itself: the slot waits for it no more. */
static void pass_by(struct fan_shared *sh, struct fan_shared_job *j, struct fan_sslot *slot,
		    const struct fan_part *p, struct fan_out *out)
{
	if (slot->state != FAN_SSLOT_OPEN || fan_sslot_has(slot, p))
		return;
	for (unsigned i = 0; i < FAN_RANK_WORDS; i++)
		slot->gone[i] |= p->ranks[i];
	added(sh, j, slot, out);
}

static enum fan_verdict recv_data(struct fan_shared *sh, struct fan_shared_job *j,
				  const struct fan_part *p, struct fan_out *out)
{
	const struct fan_frag *f = p->f;
	size_t acc_bytes = fan_partial_acc_bytes(f);
	if (!fan_part_is_fit(p))
		return fan_shared_drop(sh, FAN_DROP_FORMAT);
	if (p->bytes > j->payload_bytes)
		return fan_shared_drop(sh, FAN_DROP_LONG);
	bool wide = acc_bytes > j->payload_bytes || acc_bytes > sh->cfg.payload_bytes;
	bool alone = memcmp(p->ranks, j->below, sizeof p->ranks) == 0;
	struct fan_sslot *slot = slot_of(sh, j, f);
	bool own = fan_sslot_is_of(slot, f);
	if (f->flags & FAN_F_RESEND && own && j->lead.ahead && !p->wide)
		pass_by(sh, j, slot, p, out);
	if (f->flags & FAN_F_RESEND || wide || alone || !p->sums) {
		FAN_COUNT(sh, j, passed);
		return pass_up(p, 0, out);
	}
	if (own)
		return join_slot(sh, j, slot, p, out);
	if (fan_lead_is_late(j, f->frag) && fan_lead_is_last(j, p))
		return come_late(sh, j, p, out);
	return take_slot(sh, j, slot, p, out);
}

/* A part of a job whose ranks run ahead of each other. */
static enum fan_verdict recv_ahead(struct fan_shared *sh, struct fan_shared_job *j,
				   const struct fan_part *p, struct fan_out *out)
{
	struct fan_frag f = *p->f;
	struct fan_part plain = *p; /* without the question */
	if (comes_from_leader(&f)) {
		fan_lead_full(sh, j, &f);
		FAN_COUNT(sh, j, passed);
		return pass_up(p, 0, out);
	}
	fan_lead_note(sh, j, p);
	bool asks = f.flags & FAN_F_LEAD && !p->wide;
	unsigned first = out->count;
	f.flags &= (uint16_t)~FAN_F_LEAD;
	plain.f = &f;
	enum fan_verdict v = recv_data(sh, j, &plain, out);
	if (asks && v != FAN_DROP)
		fan_lead_ask(sh, j, &f, first, out);
	return v;
}

/* Where does the question go, if the slot does not answer it?  One that insists goes up. */
static struct fan_goal goal_of_question(const struct fan_shared *sh, const struct fan_shared_job *j,
					const struct fan_part *p)
{
	if (!j->lead.ahead || p->f->flags & (FAN_F_RESEND | FAN_F_LEAD))
		return upwards(p->next);
	return fan_lead_goal(sh, j, p->f->frag);
}

/* Is the sender's part in a sum that waits for others, and not for long; or where ranks run
 * ahead of each other, for stragglers?  Then nothing is lost, and it need not be asked about. */
static bool waits_here(struct fan_shared *sh, const struct fan_shared_job *j,
		       const struct fan_sslot *slot, const struct fan_part *p)
{
	if (slot->state != FAN_SSLOT_OPEN || !fan_ranks_has(slot->seen, p->first))
		return false;
	if (!j->lead.ahead)
		return is_young(sh->now_ns - slot->since_ns, j->fill_ns);
	return !(p->f->flags & (FAN_F_RESEND | FAN_F_LEAD)) && fan_lead_gives_way(sh, slot);
}

/* A rank misses a result.  What is here goes up before the question, so that the home's
 * answer is true. */
static enum fan_verdict recv_probe(struct fan_shared *sh, struct fan_shared_job *j,
				   const struct fan_part *p, struct fan_out *out)
{
	const struct fan_frag *f = p->f;
	struct fan_sslot *slot = slot_of(sh, j, f);
	struct fan_goal goal = upwards(p->next);
	bool own = p->sums && fan_sslot_is_of(slot, f);
	if (j->lead.ahead && !(f->flags & FAN_F_LEAD))
		fan_lead_pace(sh, j, f->sender, f, 0, out);
	if (own && waits_here(sh, j, slot, p))
		return FAN_HELD;
	if (own)
		flush(sh, j, slot, out);
	else
		goal = goal_of_question(sh, j, p);
	return pass_on(f, 0, &goal, out);
}

/* From below: a part, or the question for a result. */
static enum fan_verdict recv_fragment(struct fan_shared *sh, const fan_peer *from,
				      const struct fan_frag *f, struct fan_out *out)
{
	struct fan_shared_job *j = fan_shared_job_of(sh, f->job, f->epoch);
	struct fan_part p;
	if (f->type != FAN_TYPE_DATA && f->type != FAN_TYPE_PROBE && f->type != FAN_TYPE_PACE)
		return fan_shared_drop(sh, FAN_DROP_TYPE);
	if (!j)
		return fan_shared_find_route(sh, f->job) >= 0
			       ? fan_routed_ask_who(sh, from, f, out)
			       : fan_relay_ask_who(sh, from, f, FAN_DROP_JOB, out);
	if (f->type == FAN_TYPE_PACE)
		return fan_lead_recv_pace(sh, j, from, f, out);
	int why = find_part(sh, j, from, f, &p);
	if (why == FAN_DROP_SENDER)
		return fan_relay_ask_who(sh, from, f, FAN_DROP_SENDER, out);
	if (why >= 0)
		return fan_shared_drop(sh, (enum fan_drop)why);
	if (f->type == FAN_TYPE_PROBE)
		return recv_probe(sh, j, &p, out);
	if (j->lead.ahead)
		return recv_ahead(sh, j, &p, out);
	return recv_data(sh, j, &p, out);
}

/* The result of `f` is there: its slot is free, and what comes late is too late. */
static void finish(struct fan_shared *sh, struct fan_shared_job *j, const struct fan_frag *f)
{
	struct fan_sslot *slot = slot_of(sh, j, f);
	FAN_COUNT(sh, j, results);
	if (!fan_sslot_is_of(slot, f))
		return;
	if (slot->state == FAN_SSLOT_SENT)
		smooth(&j->turn_ns, sh->now_ns - slot->touched_ns);
	release(sh, slot);
	fan_sslot_let_go(&sh->slots, slot);
	memset(slot->gone, 0xff, sizeof slot->gone);
}

/* What a leading worker may hold of it, too. */
static void flush_leader(struct fan_shared *sh, const struct fan_shared_job *j,
			 const struct fan_frag *f, struct fan_out *out)
{
	const struct fan_goal goal = fan_lead_goal(sh, j, f->frag);
	struct fan_frag g = *f;
	if (goal.rank == FAN_RANK_NONE || f->flags & FAN_F_LEAD)
		return;
	struct fan_out_item *it = fan_out_add(out, FAN_TO_PEER);
	it->peer = goal.peer;
	g.flags |= FAN_F_LEAD;
	g.priority = (uint8_t)goal.rank;
	fan_wire_put(it->head, &g);
}

static void recv_flush(struct fan_shared *sh, struct fan_shared_job *j, const struct fan_frag *f,
		       struct fan_out *out)
{
	struct fan_sslot *slot = slot_of(sh, j, f);
	if (fan_sslot_is_of(slot, f))
		flush(sh, j, slot, out);
	flush_leader(sh, j, f, out);
}

static enum fan_verdict recv_from_above(struct fan_shared *sh, const fan_peer *from,
					const struct fan_frag *f, struct fan_out *out)
{
	if (f->type >= FAN_TYPE_CTL)
		return fan_relay_down(sh, from, f, out);
	struct fan_shared_job *j = fan_shared_job_of(sh, f->job, f->epoch);
	struct fan_frag g = *f;
	f = &g;
	if (!j)
		return fan_shared_drop(sh, FAN_DROP_JOB);
	if (j->route && f->type == FAN_TYPE_RESULT && !fan_relay_is_for_one(f) &&
	    !fan_route_passes(j->route, (unsigned)(j - sh->routed) % FAN_ROUTE_LIVES, j->epoch,
			      f->frag))
		return fan_shared_drop(sh, FAN_DROP_DUPLICATE); /* it has come another way */
	switch (f->type) {
	case FAN_TYPE_RESULT: finish(sh, j, f); break;
	case FAN_TYPE_FLUSH: recv_flush(sh, j, f, out); break;
	case FAN_TYPE_PACE: fan_lead_heard(sh, j, &g); break;
	case FAN_TYPE_NEED: break;
	case FAN_TYPE_DATA:
	case FAN_TYPE_PROBE: break; /* for a leading worker below */
	default: return fan_shared_drop(sh, FAN_DROP_TYPE);
	}
	return fan_relay_fragment(sh, j, from, f, out);
}

enum fan_verdict fan_shared_recv(struct fan_shared *sh, uint64_t now_ns, fan_peer from,
				 const uint8_t *pkt, size_t len, bool marked, struct fan_out *out)
{
	struct fan_frag f;
	sh->now_ns = now_ns;
	sh->stats.packets++;
	int why = fan_wire_get(&f, pkt, len);
	if (why == FAN_DROP_VERSION)
		fan_asked_foreign(&from, pkt, len, out);
	if (why >= 0)
		return fan_shared_drop(sh, (enum fan_drop)why);
	if (marked && (f.type == FAN_TYPE_DATA || f.type == FAN_TYPE_RESULT))
		f.flags |= FAN_F_ECN;
	bool above = false;
	if (f.type >= FAN_TYPE_CTL &&
	    (f.type == FAN_TYPE_QUERY || f.type == FAN_TYPE_ECHO || f.type == FAN_TYPE_TALLY ||
	     f.type == FAN_TYPE_LAG || f.type == FAN_TYPE_HELP))
		return fan_usage_recv(sh, &from, &f, out);
	why = fan_routed_direction(sh, &from, &f, &above);
	if (why >= 0)
		return fan_shared_drop(sh, (enum fan_drop)why);
	if (above)
		return recv_from_above(sh, &from, &f, out);
	if (f.type >= FAN_TYPE_CTL)
		return fan_relay_up(sh, now_ns, &from, &f, out);
	return recv_fragment(sh, &from, &f, out);
}

uint64_t fan_shared_deadline(const struct fan_shared *sh)
{
	return sh->deadline_ns;
}

const struct fan_shared_stats *fan_shared_stats(const struct fan_shared *sh)
{
	return &sh->stats;
}
