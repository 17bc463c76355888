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

/* The slot ceases to be one of those that its job holds. */
static void release(struct fan_shared *sh, const struct fan_sslot *slot)
{
	struct fan_shared_job *j = fan_shared_job_of(sh, slot->job, slot->epoch);
	if (j && j->held && (slot->state == FAN_SSLOT_OPEN || slot->state == FAN_SSLOT_SENT))
		j->held--;
}

/* Send what the slot holds up. */
static void send_up(struct fan_shared *sh, const struct fan_shared_job *j,
		    const struct fan_sslot *slot, struct fan_out *out)
{
	struct fan_out_item *it = fan_out_add(out, FAN_TO_PEER);
	it->peer = j->up;
	fan_sslot_put(&sh->slots, slot, it);
	sh->stats.partials++;
}

/* Send the part up as it came, with what it has met here. */
static enum fan_verdict pass_up(const struct fan_part *p, uint16_t met, struct fan_out *out)
{
	struct fan_out_item *it = fan_out_add(out, FAN_TO_PEER);
	struct fan_frag g = *p->f;
	it->peer = *p->next;
	fan_relay_copy(it, p->f);
	g.flags |= met;
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
	if (!fan_sslot_is_full(slot, j->below))
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
		if (j->quota && j->held >= j->quota) {
			FAN_COUNT(sh, j, over_quota);
			return pass_up(p, FAN_F_COLLISION, out);
		}
		j->held++;
	}
	fan_sslot_add(&sh->slots, slot, p);
	FAN_COUNT(sh, j, hits);
	return added(sh, j, slot, out);
}

/* Another job takes the slot: what it holds leaves, if it has not yet. */
static void evict(struct fan_shared *sh, const struct fan_sslot *slot, struct fan_out *out)
{
	if (slot->state != FAN_SSLOT_OPEN)
		return;
	struct fan_shared_job *victim = fan_shared_job_of(sh, slot->job, slot->epoch);
	FAN_COUNT(sh, victim, evictions);
	send_up(sh, victim, slot, out);
}

static enum fan_verdict take_slot(struct fan_shared *sh, struct fan_shared_job *j,
				  struct fan_sslot *slot, const struct fan_part *p,
				  struct fan_out *out)
{
	if (j->quota && j->held >= j->quota) {
		FAN_COUNT(sh, j, over_quota);
		return pass_up(p, FAN_F_COLLISION, out);
	}
	if (is_held(sh, slot, p->f)) {
		if (!is_idle(sh, slot) && sh->contest(&sh->cfg, slot, p->f) == FAN_CONTEST_LOST) {
			FAN_COUNT(sh, j, collisions);
			return pass_up(p, FAN_F_COLLISION, out);
		}
		FAN_COUNT(sh, j, preemptions);
		evict(sh, slot, out);
	}
	release(sh, slot);
	fan_sslot_take(&sh->slots, slot, p, j->ranks);
	slot->since_ns = sh->now_ns;
	j->held++;
	FAN_COUNT(sh, j, taken);
	return added(sh, j, slot, out);
}

/* What rank or ranks, and are they reached where `from` is?  Else why not. */
static int find_part(const struct fan_shared *sh, const struct fan_shared_job *j,
		     const fan_peer *from, const struct fan_frag *f, struct fan_part *p)
{
	struct fan_partial several;
	*p = (struct fan_part){
		.f = f,
		.elements = f->payload,
		.bytes = f->payload_bytes,
		.sums = true,
		.next = &j->up,
	};
	if (f->flags & FAN_F_PARTIAL) {
		if (!fan_partial_get(&several, f, j->ranks))
			return FAN_DROP_FORMAT;
		memcpy(p->ranks, several.ranks, sizeof p->ranks);
		p->first = several.first;
		p->root = several.root;
		p->elements = several.elements;
		p->bytes = several.bytes;
		p->wide = true;
	} else {
		if (f->sender >= j->ranks)
			return FAN_DROP_SENDER;
		fan_ranks_set(p->ranks, f->sender);
		p->first = f->sender;
		p->root = f->flags & FAN_F_ROOT ? f->sender : FAN_RANK_NONE;
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

/* Does the part carry what it has to?  As in switch.c and server.c. */
static bool is_fit(const struct fan_part *p)
{
	const struct fan_frag *f = p->f;
	bool empty = f->flags & FAN_F_EMPTY, root = p->root != FAN_RANK_NONE;
	if (empty != (f->op == FAN_BCAST && !root))
		return false;
	if (root && f->op != FAN_BCAST && !(f->flags & FAN_F_REDUCE))
		return false;
	return !(f->flags & FAN_F_REDUCE && f->op >= FAN_BCAST);
}

static enum fan_verdict recv_data(struct fan_shared *sh, struct fan_shared_job *j,
				  const struct fan_part *p, struct fan_out *out)
{
	const struct fan_frag *f = p->f;
	size_t acc_bytes = fan_partial_acc_bytes(f);
	if (!is_fit(p))
		return fan_shared_drop(sh, FAN_DROP_FORMAT);
	if (p->bytes > j->payload_bytes)
		return fan_shared_drop(sh, FAN_DROP_LONG);
	bool wide = acc_bytes > j->payload_bytes || acc_bytes > sh->cfg.payload_bytes;
	bool alone = memcmp(p->ranks, j->below, sizeof p->ranks) == 0;
	if (f->flags & FAN_F_RESEND || wide || alone || !p->sums) {
		FAN_COUNT(sh, j, passed);
		return pass_up(p, 0, out);
	}
	struct fan_sslot *slot = fan_sslots_at(&sh->slots, f, j->window);
	if (fan_sslot_is_of(slot, f))
		return join_slot(sh, j, slot, p, out);
	return take_slot(sh, j, slot, p, out);
}

/* A rank misses a result.  Its part is in a sum that waits for others, and not for long:
 * nothing is lost, and it need not be asked about.  Else what is here goes up before the
 * question, so that the home's answer is true. */
static enum fan_verdict recv_probe(struct fan_shared *sh, struct fan_shared_job *j,
				   const struct fan_part *p, struct fan_out *out)
{
	struct fan_sslot *slot = fan_sslots_at(&sh->slots, p->f, j->window);
	if (p->sums && fan_sslot_is_of(slot, p->f)) {
		bool waits = slot->state == FAN_SSLOT_OPEN && fan_ranks_has(slot->seen, p->first);
		if (waits && is_young(sh->now_ns - slot->since_ns, j->fill_ns))
			return FAN_HELD;
		flush(sh, j, slot, out);
	}
	struct fan_out_item *it = fan_out_add(out, FAN_TO_PEER);
	it->peer = *p->next;
	fan_relay_copy(it, p->f);
	return FAN_PASS;
}

/* From below: a part, or the question for a result. */
static enum fan_verdict recv_fragment(struct fan_shared *sh, const fan_peer *from,
				      const struct fan_frag *f, struct fan_out *out)
{
	struct fan_shared_job *j = fan_shared_job_of(sh, f->job, f->epoch);
	struct fan_part p;
	if (f->type != FAN_TYPE_DATA && f->type != FAN_TYPE_PROBE)
		return fan_shared_drop(sh, FAN_DROP_TYPE);
	if (!j)
		return fan_shared_find_route(sh, f->job) >= 0
			       ? fan_routed_ask_who(sh, from, f, out)
			       : fan_relay_ask_who(sh, from, f, FAN_DROP_JOB, out);
	int why = find_part(sh, j, from, f, &p);
	if (why == FAN_DROP_SENDER)
		return fan_relay_ask_who(sh, from, f, FAN_DROP_SENDER, out);
	if (why >= 0)
		return fan_shared_drop(sh, (enum fan_drop)why);
	return f->type == FAN_TYPE_DATA ? recv_data(sh, j, &p, out) : recv_probe(sh, j, &p, out);
}

/* The result of `f` is there: its slot is free, and what comes late is too late. */
static void finish(struct fan_shared *sh, struct fan_shared_job *j, const struct fan_frag *f)
{
	struct fan_sslot *slot = fan_sslots_at(&sh->slots, f, j->window);
	FAN_COUNT(sh, j, results);
	if (!fan_sslot_is_of(slot, f))
		return;
	if (slot->state == FAN_SSLOT_SENT)
		smooth(&j->turn_ns, sh->now_ns - slot->touched_ns);
	release(sh, slot);
	fan_sslot_let_go(&sh->slots, slot);
	memset(slot->gone, 0xff, sizeof slot->gone);
}

static void recv_flush(struct fan_shared *sh, struct fan_shared_job *j, const struct fan_frag *f,
		       struct fan_out *out)
{
	struct fan_sslot *slot = fan_sslots_at(&sh->slots, f, j->window);
	if (fan_sslot_is_of(slot, f))
		flush(sh, j, slot, out);
}

static enum fan_verdict recv_from_above(struct fan_shared *sh, const fan_peer *from,
					const struct fan_frag *f, struct fan_out *out)
{
	if (f->type >= FAN_TYPE_CTL)
		return fan_relay_down(sh, from, f, out);
	struct fan_shared_job *j = fan_shared_job_of(sh, f->job, f->epoch);
	if (!j)
		return fan_shared_drop(sh, FAN_DROP_JOB);
	if (j->route && f->type == FAN_TYPE_RESULT && !fan_relay_is_for_one(f) &&
	    !fan_route_passes(j->route, (unsigned)(j - sh->routed) % FAN_ROUTE_LIVES, j->epoch,
			      f->frag))
		return fan_shared_drop(sh, FAN_DROP_DUPLICATE); /* it has come another way */
	switch (f->type) {
	case FAN_TYPE_RESULT: finish(sh, j, f); break;
	case FAN_TYPE_FLUSH: recv_flush(sh, j, f, out); break;
	case FAN_TYPE_NEED: break;
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
	if (f.type == FAN_TYPE_QUERY || f.type == FAN_TYPE_ECHO || f.type == FAN_TYPE_TALLY)
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
