/* SPDX-License-Identifier: Apache-2.0 */
#include "story.h"

#include <stdlib.h>
#include <string.h>

#define POLL_NS	 (200 * SIM_US)
#define AWAKE_NS (2000 * FAN_MS) /* between suspensions: all jobs' alive_ms and more */
#define TOLD_NS	 (2000 * FAN_MS) /* in which all have heard, behind slow links too */
#define TRICKS	 4000		 /* most of a stranger, who begins before anybody has joined */

static bool all_ready(void *arg)
{
	struct run *r = arg;
	for (unsigned i = 0; i < r->workers; i++) {
		const struct host_worker *w = &r->worker[i];
		if (w != r->extra && !w->gone &&
		    (!w->core || fan_worker_phase(w->core) < FAN_W_READY))
			return false;
	}
	return true;
}

#define FLAGS_AT 2u
#define CHECK_AT (FAN_HEAD_BYTES - 4u)

/* Make the checksum right, so that what is inside counts. */
static void mend(uint8_t *packet, size_t len)
{
	bool bare = packet[1] <= FAN_TYPE_RESULT && !(fan_get16(packet + FLAGS_AT) & FAN_F_SUMMED);
	uint32_t crc = fan_crc32c(0, packet, CHECK_AT);
	fan_put32(packet + CHECK_AT,
		  bare ? crc : fan_crc32c(crc, packet + FAN_HEAD_BYTES, len - FAN_HEAD_BYTES));
}

/* Write `f` before its payload in `packet`, with a field or two changed so that it stays
 * well-formed, mostly.  A type changes alone: what it finds where its fields are is another's. */
static void put_altered(struct fan_rng *r, struct fan_frag *f, uint8_t *packet)
{
	uint16_t flip = 0;
	uint8_t type = f->type;
	switch (fan_rng_below(r, 8)) {
	case 0: f->count = f->last = f->behind = (uint16_t)fan_rng_below(r, 40); break;
	case 1: f->frag += fan_rng_below(r, 8) - 4; break;
	case 2: f->frag = fan_rng_next(r); break;
	case 3: flip = (uint16_t)(1u << fan_rng_below(r, 15)); break;
	case 4:
		type = (uint8_t)(fan_rng_below(r, 2) ? rng_range(r, 1, 8) : rng_range(r, 16, 25));
		break;
	case 5: f->op = (uint8_t)fan_rng_below(r, 7); break;
	case 6: f->dtype = (uint8_t)fan_rng_below(r, FAN_DTYPE_COUNT); break;
	default: type = FAN_TYPE_PROBE; break;
	}
	fan_wire_put(packet, f);
	packet[1] = type;
	fan_put16(packet + FLAGS_AT, f->flags ^ flip);
	mend(packet, FAN_HEAD_BYTES + f->payload_bytes);
}

/* Something like a packet that `from` or another node has sent. */
static void play_trick(struct run *r, int from, bool as_itself)
{
	const struct sim_packet *p = r->sim.captured[fan_rng_below(&r->rng, SIM_CAPTURED)];
	static uint8_t packet[FAN_PACKET_MAX + 64];
	struct fan_frag f;
	if (!p || p->len > sizeof packet)
		return;
	memcpy(packet, p->bytes, p->len);
	if (fan_wire_get(&f, packet, p->len) >= 0)
		return;
	if (as_itself) {
		const struct host_worker *w = r->victim;
		f.sender = w->rank;
		f.helper = FAN_TAG(w->rank);
		if (f.type == FAN_TYPE_LEAVE || f.type == FAN_TYPE_JOIN)
			return;
	}
	uint8_t *body = packet + FAN_HEAD_BYTES;
	for (uint64_t n = fan_rng_below(&r->rng, 3); n && f.payload_bytes; n--)
		body[fan_rng_below(&r->rng, f.payload_bytes)] = (uint8_t)fan_rng_next(&r->rng);
	if (fan_rng_below(&r->rng, 4))
		put_altered(&r->rng, &f, packet);
	else
		fan_wire_put(packet, &f);
	if (packet[1] == FAN_TYPE_JOIN || packet[1] == FAN_TYPE_RELAY)
		return; /* without authentication a stranger may always claim a rank */
	sim_send_bytes(&r->sim, from, r->sim.node[from].up, packet,
		       FAN_HEAD_BYTES + f.payload_bytes, false);
}

#define FAR (UINT64_C(1) << 40) /* beyond all that there is to send */

/* The rank says that it is elsewhere, that others are, or that it keeps their sums.  What it
 * really sends is right, so all that may cost is time. */
static void lie(struct run *r)
{
	const struct sim_packet *p = r->sim.captured[fan_rng_below(&r->rng, SIM_CAPTURED)];
	static uint8_t packet[FAN_PACKET_MAX + 64];
	struct fan_frag f;
	if (!p || p->len > sizeof packet)
		return;
	memcpy(packet, p->bytes, p->len);
	if (fan_wire_get(&f, packet, p->len) >= 0 || f.type != FAN_TYPE_DATA)
		return;
	f.sender = r->victim->rank;
	uint64_t kind = fan_rng_below(&r->rng, 4);
	if (kind == 0) { /* far ahead */
		f.frag += FAR + fan_rng_below(&r->rng, FAR);
		f.flags ^= fan_rng_below(&r->rng, 2) ? FAN_F_ASK : 0;
	} else {
		f.payload_bytes = 0;
		f.helper = 0;
		f.last = f.count;
		f.type = kind == 1 ? FAN_TYPE_PROBE : FAN_TYPE_PROGRESS;
		f.frag += fan_rng_below(&r->rng, 2048);
		f.flags = kind == 2 ? FAN_F_ASK : 0;
	}
	if (kind == 3) { /* a helper's answer to somebody */
		f.sender = (uint16_t)fan_rng_below(&r->rng, r->victim->job->cfg.ranks);
		f.helper = FAN_TAG(r->victim->rank);
		f.behind = (uint16_t)fan_rng_next(&r->rng);
		f.before = (uint16_t)fan_rng_next(&r->rng);
		f.flags = (uint16_t)(fan_rng_below(&r->rng, 2) ? FAN_F_FULL : FAN_F_AWAY);
	}
	fan_wire_put(packet, &f);
	sim_send_bytes(&r->sim, r->victim->node, r->sim.node[r->victim->node].up, packet,
		       FAN_HEAD_BYTES + f.payload_bytes, false);
}

/* Everybody finds his timers in the past, and nobody may be lost for it. */
static void suspend(struct run *r)
{
	uint64_t ns = rng_range(&r->rng, 1, 60000) * FAN_MS;
	r->plan.limit_ns += ns;
	sim_sleep(&r->sim, ns);
}

/* The aggregator, or one of the switches between. */
static void stop_one(struct run *r)
{
	const unsigned which = (unsigned)fan_rng_below(&r->rng, r->plan.shareds + 1);
	struct host_node *h = which ? &r->shared[which - 1] : &r->sw;
	if (which)
		fan_switch_goodbye(h->slots, r->sim.now_ns);
	else
		fan_aggregator_stop(h->aggregator, r->sim.now_ns);
	sim_wake(&r->sim, h->node);
}

static void strike(struct run *r)
{
	struct host_worker *v = r->victim;
	struct sim_link *l = &r->sim.node[v->node].link;
	r->struck_ns = r->sim.now_ns;
	switch (r->plan.story) {
	case STORY_DEAF: l->deaf = true; break;
	case STORY_CUT: l->cut = true; break;
	case STORY_DEATH: host_worker_kill(v); break;
	case STORY_TAKEN:
	case STORY_FULL:
		r->extra->next_ns = r->sim.now_ns;
		sim_wake(&r->sim, r->extra->node);
		break;
	case STORY_ROGUE:
	case STORY_LIAR:
	case STORY_OUTSIDER:
		r->sim.capture = true;
		r->tricks = (unsigned)rng_range(&r->rng, 50, 400);
		break;
	case STORY_STOPPED: stop_one(r); break;
	case STORY_ASLEEP: r->tricks = (unsigned)rng_range(&r->rng, 1, 3); break;
	default: break;
	}
}

static void tick(void *self)
{
	struct run *r = self;
	bool lies = r->plan.story == STORY_LIAR;
	bool tricky = lies || r->plan.story == STORY_ROGUE || r->plan.story == STORY_OUTSIDER;
	r->story_ns = r->sim.now_ns + POLL_NS;
	if (r->plan.story == STORY_STRANGER) {
		r->story_ns = r->sim.now_ns + fan_rng_below(&r->rng, POLL_NS);
		stranger_strike(r);
		if (!--r->tricks)
			r->story_ns = SIM_NEVER;
		return;
	}
	if (!r->struck_ns) {
		if (all_ready(r) && fan_rng_below(&r->rng, 4) == 0)
			strike(r);
	} else if (r->plan.story == STORY_ASLEEP && r->tricks) {
		if (fan_rng_below(&r->rng, 4))
			return;
		r->tricks--;
		suspend(r);
		r->story_ns = r->sim.now_ns + AWAKE_NS;
	} else if (tricky && r->tricks) {
		r->tricks--;
		r->story_ns = r->sim.now_ns + fan_rng_below(&r->rng, POLL_NS);
		bool rogue = r->plan.story == STORY_ROGUE;
		if (lies)
			lie(r);
		else
			play_trick(r, rogue ? r->victim->node : r->stranger, rogue);
	} else if (r->plan.story == STORY_CUT && r->sim.now_ns < r->struck_ns + 300 * FAN_MS) {
		return;
	} else {
		r->sim.node[r->victim->node].link.cut = false;
		r->story_ns = SIM_NEVER;
	}
}

static uint64_t deadline(void *self)
{
	struct run *r = self;
	return r->story_ns;
}

static void recv_packet(void *self, const struct sim_packet *p)
{
	struct run *r = self;
	if (r->plan.story == STORY_STRANGER)
		stranger_hear(r, p);
}

void story_begin(struct run *r)
{
	const struct plan *p = &r->plan;
	struct host_worker *v = r->victim = &r->worker[p->victim];
	struct sim_link link = {.delay_ns = SIM_US};
	r->rng.state = fan_rng_mix(p->seed + 77);
	r->stranger = sim_add_node(&r->sim, &link);
	struct sim_node *n = &r->sim.node[r->stranger];
	n->self = r;
	n->recv = recv_packet;
	n->tick = tick;
	n->deadline = deadline;
	r->story_ns = SIM_NEVER;
	unsigned at = (unsigned)fan_rng_below(&r->rng, p->job[0][0].ops);
	switch (p->story) {
	case STORY_CALM: return;
	case STORY_STALL: v->stop_before = at; return;
	case STORY_EARLY: v->leave_before = at; return;
	case STORY_MISMATCH:
		v->other = &p->other;
		v->other_at = p->other_at;
		return;
	case STORY_RESTART:
		r->sw.restart_at = rng_range(&r->rng, 1, 400);
		r->sw.may_restart = all_ready;
		r->sw.may_restart_arg = r;
		return;
	case STORY_STRANGER:
		r->tricks = TRICKS;
		r->sim.capture = r->sim.sealed;
		break;
	default: break;
	}
	r->story_ns = 0;
	sim_wake(&r->sim, r->stranger);
}

static bool blames(const struct fan_fault *f, uint16_t rank)
{
	return fan_ranks_has(f->ranks, rank);
}

static bool blames_only(const struct fan_fault *f, uint16_t rank)
{
	uint64_t set[FAN_RANK_WORDS] = {0};
	fan_ranks_set(set, rank);
	return memcmp(set, f->ranks, sizeof set) == 0;
}

/* Does the fault of `w` name the victim alone?  In a tree its own switch knows who it is, by its
 * number there, and the others that somebody is lost. */
static bool blames_dead(const struct run *r, const struct host_worker *w, const struct fan_fault *f)
{
	if (w->first != r->victim->first)
		return fan_ranks_count(f->ranks) == 0;
	return blames_only(f, (uint16_t)(r->plan.victim - w->first));
}

/* May a rank of the story's job have ended like this? */
static bool ended_well(const struct run *r, const struct host_worker *w, const struct host_end *end)
{
	const struct fan_fault *f = &end->fault;
	uint16_t victim = r->plan.victim;
	uint64_t alive_ns = w->job->cfg.alive_ms * FAN_MS;
	/* what the dead has sent may arrive after its death */
	uint64_t late_ns = r->plan.link.stale ? r->plan.link.stale_ns : 0;
	switch (r->plan.story) {
	case STORY_RESTART: return end->err == FAN_E_RESTARTED || end->err == FAN_E_UNREACHABLE;
	case STORY_DEATH:
		return end->err == FAN_E_RANK_LOST && blames_dead(r, w, f) &&
		       end->at_ns <= r->struck_ns + late_ns + 2 * alive_ns;
	case STORY_STALL: return end->err == FAN_E_STALLED && blames_only(f, victim);
	case STORY_EARLY: /* it may go before the job has even formed, and then others who tire */
		return (end->err == FAN_E_RANK_LEFT && blames_only(f, victim)) ||
		       (end->err == FAN_E_TIMEOUT && blames(f, victim));
	case STORY_MISMATCH:
		return end->err == FAN_E_MISMATCH && blames(f, victim) &&
		       (f->rank_a == victim) != (f->rank_b == victim) && blames(f, f->rank_a) &&
		       blames(f, f->rank_b) && f->desc_a != f->desc_b;
	case STORY_ROGUE: return true;
	case STORY_STOPPED: /* told until they hear it, though much may be lost */
		return end->err == FAN_E_STOPPED && r->struck_ns &&
		       end->at_ns <= r->struck_ns + FAN_STOP_YOUNG_NS + TOLD_NS;
	default: return false;
	}
}

static void judge_life(const struct run *r, const struct host_worker *w, unsigned life)
{
	const struct host_end *end = &w->end[life];
	const struct fan_fault *f = &end->fault;
	SIM_CHECK(&r->sim, end->over, "%s rank %u life %u has not ended", w->job->cfg.name, w->rank,
		  life);
	bool own_way = r->plan.story == STORY_EARLY || r->plan.story == STORY_STALL;
	if (end->err == FAN_OK || (w == r->victim && own_way))
		return;
	bool told = w->job == &r->plan.job[0][0] || r->plan.story == STORY_RESTART ||
		    r->plan.story == STORY_STOPPED;
	SIM_CHECK(&r->sim, told && ended_well(r, w, end),
		  "%s: %s rank %u of %u life %u ended with %s (ranks %llx %llx %llx %llx, a %u b "
		  "%u, fragment %llu, victim %u)",
		  story_name(r->plan.story), w->job->cfg.name, w->rank, w->job->cfg.ranks, life,
		  fan_err_name(end->err), (unsigned long long)f->ranks[0],
		  (unsigned long long)f->ranks[1], (unsigned long long)f->ranks[2],
		  (unsigned long long)f->ranks[3], f->rank_a, f->rank_b,
		  (unsigned long long)f->frag, r->plan.victim);
}

static void judge_extra(const struct run *r)
{
	const struct host_end *end = &r->extra->end[0];
	SIM_CHECK(&r->sim, end->over || !r->struck_ns, "the one too many has not ended");
	bool in_time = end->err == FAN_E_RANK_TAKEN || end->err == FAN_E_JOBS_FULL ||
		       end->err == FAN_E_MEMBERS_FULL;
	/* the others may be gone by the time it comes */
	SIM_CHECK(&r->sim, in_time || !end->over || end->err == FAN_E_TIMEOUT,
		  "the one too many ended with %s", fan_err_name(end->err));
}

/* Nobody gets away with it where all others ended with an error. */
static void judge_fault_was_seen(const struct run *r)
{
	if (r->plan.story != STORY_MISMATCH)
		return;
	for (unsigned i = 0; i < r->workers; i++) {
		const struct host_worker *w = &r->worker[i];
		if (w != r->extra && w->job == &r->plan.job[0][0])
			SIM_CHECK(&r->sim, w->end[0].err == FAN_E_MISMATCH,
				  "rank %u noticed no mismatch", w->rank);
	}
}

void story_judge(const struct run *r)
{
	for (unsigned i = 0; i < r->workers; i++) {
		const struct host_worker *w = &r->worker[i];
		if (w == r->extra || w->dead)
			continue;
		for (unsigned life = 0; life < r->plan.lives; life++)
			judge_life(r, w, life);
	}
	if (r->extra)
		judge_extra(r);
	judge_fault_was_seen(r);
}
