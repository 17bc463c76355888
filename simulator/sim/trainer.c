/* SPDX-License-Identifier: Apache-2.0 */
#include "trainer.h"

#include <assert.h>
#include <math.h>
#include <stdlib.h>

#include "core/worker/in_step.h"
#include "pages.h"
#include "trace.h"

#define OP_POISON   0x5c
#define PAUSE_MAX   8			/* doublings of the pause before a job begins again */
#define PACED_ITEMS 4			/* packets that leave together under a pace */
#define TICKS_MAX   (2 * FAN_AHEAD_MAX) /* of a core at a time */

/* ---- its life ---- */

static struct fan_job_seat seat_of(const struct fan_trainer *t)
{
	const struct fan_job_config *c = t->shared->cfg;
	if (c->seat)
		return c->seat[t->rank];
	return (struct fan_job_seat){
		.aggregator = c->aggregator,
		.rank = t->rank,
		.ranks = (uint16_t)c->ranks,
		.place = t->rank,
		.multicast = c->multicast,
	};
}

/* A fragment's priority: the core's function, with facts that the core cannot know. */
static uint8_t urgency(const void *arg, const struct fan_priority_view *v)
{
	const struct fan_trainer *t = arg;
	struct fan_priority_view mine = *v;
	if (t->shared->cfg->priority == FAN_PRIORITY_REMAINING)
		mine.left_frags = t->left_elems / t->shared->frag_elems + 1;
	else if (t->shared->cfg->priority == FAN_PRIORITY_ATTAINED)
		mine.left_frags = v->sent_frags + 1;
	return fan_priority_default(NULL, &mine);
}

static bool join(struct fan_trainer *t)
{
	const struct fan_job_config *c = t->shared->cfg;
	const struct fan_job_seat at = seat_of(t);
	struct fan_worker_config w = {
		.rank = at.rank,
		.ranks = at.ranks,
		.payload_bytes = c->payload_bytes,
		.window_max = c->ahead ? c->ahead : c->window,
		.burst_max = c->window,
		.route = at.route,
		.options = (uint8_t)((at.multicast ? FAN_JOIN_GROUP : 0) |
				     (c->ahead ? FAN_JOIN_AHEAD : 0) |
				     (c->wire == FAN_BLOCK8 ? FAN_JOIN_QUAD : 0)),
		.congestion = c->congestion,
		.cache_frags = c->cache_frags,
		.alive_ms = c->alive_ms,
		.join_ms = c->stall_ms,
		.stall_ms = c->stall_ms,
		.rto_min_ms = t->shared->tensor ? fan_in_step_rto_ms(false) : 0,
		.nonce = fan_rng_mix(c->seed ^
				     fan_rng_mix((uint64_t)t->shared->lives << 32 | t->rank)) |
			 1,
	};
	memcpy(w.name, c->name, sizeof w.name);
	if (c->urgent && c->priority != FAN_PRIORITY_NONE) {
		w.priority = urgency;
		w.priority_arg = t;
	}
	size_t bytes = fan_worker_bytes(&w);
	struct fan_trainer_shared *sh = t->shared;
	/* an odd number of cache lines: workers' fields fall into different sets */
	size_t each = fan_align_up(bytes) | FAN_ALIGN;
	if (bytes && !sh->room)
		sh->room = fan_pages_alloc(each * c->ranks);
	if (!bytes || !sh->room)
		return false;
	t->core = fan_worker_init(sh->room + t->rank * each, &w, sh->sim->now_ns);
	if (sh->tensor)
		fan_worker_allow(t->core, 0); /* nothing, until fan_tensor_keep_in_step */
	t->shared->sim->actor[t->actor].worker = t->core;
	return true;
}

/* The elements to reduce from `iteration` on. */
static uint64_t elems_from(const struct fan_job_config *c, uint32_t iteration)
{
	assert(iteration <= c->iterations);
	return fan_model_numel(&c->model) * (c->iterations - iteration);
}

/* Drop the operations of a life that is over. */
static void drop_ops(struct fan_trainer *t)
{
	for (uint64_t i = t->op_first; i < t->op_next; i++)
		free(t->op[i % FAN_OPS_MAX].out);
	t->op_first = t->op_next = t->in_flight = 0;
}

/* Begin again at `iteration`; all ranks have the gradients of earlier ones. */
static void restart_from(struct fan_trainer *t, uint32_t iteration)
{
	assert(iteration <= t->shared->cfg->iterations);
	drop_ops(t);
	t->left_elems = elems_from(t->shared->cfg, iteration);
	t->fault = (struct fan_fault){.err = FAN_OK};
	t->iteration = iteration;
	t->step = 0;
	t->working = t->begun = t->left = false;
	t->bucket_ready = t->bucket_done = t->bucket_at =
		(uint64_t)iteration * t->shared->cfg->buckets;
	t->bucket_elems = 0;
	t->comm_since_ns = t->wait_since_ns = FAN_SIM_NEVER;
	t->times.done_ns = 0;
	t->shared->sim->awaited++;
}

/* All ranks have left, some with an error: restart them all, also those that had finished, since
 * the others need them. */
static void restart_all(struct fan_trainer_shared *sh)
{
	struct fan_sim *s = sh->sim;
	uint32_t least = UINT32_MAX;
	bool failed = false;
	for (uint32_t r = 0; r < sh->cfg->ranks; r++) {
		const struct fan_trainer *t = &sh->first[r];
		uint64_t done = sh->cfg->buckets ? t->bucket_done / sh->cfg->buckets : 0;
		least = done < least ? (uint32_t)done : least;
		failed |= t->fault.err != FAN_OK;
	}
	if (!failed || sh->lives == sh->cfg->retries)
		return;
	sh->lives++;
	sh->gone = 0;
	sh->begin_ns = s->now_ns + (FAN_MS << (sh->lives < PAUSE_MAX ? sh->lives : PAUSE_MAX));
	for (uint32_t r = 0; r < sh->cfg->ranks; r++) {
		restart_from(&sh->first[r], least);
		fan_sim_wake(s, sh->first[r].actor);
	}
}

/* Do as a launcher does: when one process fails, end the others.  They would wait until their own
 * timers expire, which for a rank that was refused is the whole time to join. */
static void end_others(struct fan_trainer_shared *sh)
{
	for (uint32_t r = 0; r < sh->cfg->ranks; r++) {
		struct fan_trainer *t = &sh->first[r];
		if (!t->core)
			continue;
		fan_worker_leave(t->core, sh->sim->now_ns, FAN_E_CLOSED, NULL);
		t->deadline_ns = sh->sim->now_ns;
		fan_sim_wake(sh->sim, t->actor);
	}
}

static void add_stats(struct fan_worker_stats *to, const struct fan_worker_stats *st)
{
	to->sent += st->sent;
	to->resent += st->resent;
	to->probes += st->probes;
	to->results += st->results;
	to->replays += st->replays;
	to->cache.frags = st->cache.frags;
	to->cache.peak = st->cache.peak > to->cache.peak ? st->cache.peak : to->cache.peak;
	to->cache.parts += st->cache.parts;
	to->cache.done += st->cache.done;
	to->cache.early += st->cache.early;
	to->cache.over += st->cache.over;
}

static void go(struct fan_trainer *t)
{
	if (t->core)
		add_stats(&t->stats, fan_worker_stats(t->core));
	t->left = true;
	t->shared->sim->awaited--;
	t->core = NULL;
	t->shared->sim->actor[t->actor].worker = NULL;
	if (++t->shared->gone == t->shared->cfg->ranks)
		restart_all(t->shared);
	else if (t->fault.err && (!t->begun || t->shared->lives < t->shared->cfg->retries))
		end_others(t->shared);
}

/* ---- reducing ---- */

static uint64_t buckets_all(const struct fan_trainer *t)
{
	const struct fan_job_config *c = t->shared->cfg;
	return (uint64_t)c->buckets * c->iterations;
}

static void check(struct fan_trainer *t, const struct fan_trainer_op *op)
{
	const struct fan_trainer_shared *sh = t->shared;
	const float *want = sh->expect + op->shift;
	/* quant.h: the error is at most ranks / f, f = 2^31 / (ranks * 2^7); up to 23,000 ranks
	 * that is below 33, half of the least input */
	float ranks = (float)sh->cfg->ranks;
	float off = sh->cfg->mode == FAN_FIXED ? ranks * ranks * 0x1p-24F : 0;
	uint32_t wrong = 0;
	for (uint32_t i = 0; i < op->elems; i++) /* without a branch, so that it is vectorized */
		wrong |= (uint32_t) !(fabsf(op->out[i] - want[i]) <= off);
	t->wrong |= wrong != 0;
	t->times.checked += wrong ? 0 : op->elems;
}

static void start_op(struct fan_trainer *t, uint32_t elems, bool last)
{
	struct fan_trainer_shared *sh = t->shared;
	struct fan_trainer_op *o = &t->op[t->op_next % FAN_OPS_MAX];
	o->elems = elems;
	o->last = last;
	o->shift = (uint32_t)(t->op_next % FAN_TILE_SHIFTS) * FAN_TRAINER_OP_SHIFT;
	o->out = NULL;
	if (sh->expect) {
		o->out = aligned_alloc(FAN_ALIGN, fan_align_up(elems * sizeof *o->out));
		if (!o->out) {
			sh->sim->broke = true;
			return;
		}
		memset(o->out, OP_POISON, elems * sizeof *o->out);
	}
	const struct fan_op op = {
		.op = FAN_SUM,
		.dtype = FAN_FLOAT32,
		.wire = (enum fan_dtype)sh->cfg->wire,
		.mode = (enum fan_mode)sh->cfg->mode,
		.layer = sh->cfg->bucket[t->bucket_at % sh->cfg->buckets].low + 1,
		.count = elems,
		.in = sh->input + o->shift + seat_of(t).place * FAN_TRAINER_RANK_SHIFT,
		.out = o->out ? o->out : sh->sink,
	};
	uint64_t id;
	if (fan_worker_start(t->core, sh->sim->now_ns, &op, &id) == FAN_OK)
		t->op_next++;
	else
		free(o->out); /* the worker has failed: the next look at its phase will tell */
}

/* Keep enough operations in flight to fill the window twice. */
static bool start_ops(struct fan_trainer *t)
{
	const struct fan_trainer_shared *sh = t->shared;
	bool any = false;
	while (t->bucket_at < t->bucket_ready && t->op_next - t->op_first < FAN_OPS_MAX &&
	       t->in_flight < sh->ahead) {
		uint64_t all = sh->cfg->bucket[t->bucket_at % sh->cfg->buckets].elems;
		uint64_t rest = all - t->bucket_elems;
		uint32_t elems = rest < sh->tile ? (uint32_t)rest : sh->tile;
		uint64_t before = t->op_next;
		start_op(t, elems, elems == rest);
		if (t->op_next == before)
			return any;
		any = true;
		t->bucket_elems += elems;
		t->in_flight += elems;
		if (t->bucket_elems == all) {
			t->bucket_at++;
			t->bucket_elems = 0;
		}
	}
	return any;
}

/* Note the end of reducing, if all buckets that were ready are reduced. */
static void note_quiet(struct fan_trainer *t)
{
	if (t->bucket_done != t->bucket_ready || t->comm_since_ns == FAN_SIM_NEVER)
		return;
	t->times.comm_ns += t->shared->sim->now_ns - t->comm_since_ns;
	t->comm_since_ns = FAN_SIM_NEVER;
}

static bool take_finished(struct fan_trainer *t)
{
	bool any = false;
	while (t->op_first < t->op_next && fan_worker_test(t->core, t->op_first) == FAN_OK) {
		struct fan_trainer_op *o = &t->op[t->op_first++ % FAN_OPS_MAX];
		if (o->out)
			check(t, o);
		free(o->out);
		o->out = NULL;
		t->times.elems += o->elems;
		t->in_flight -= o->elems;
		t->left_elems -= o->elems;
		t->bucket_done += o->last;
		any = true;
	}
	note_quiet(t);
	return any;
}

/* The overhead bytes of a packet on its host's first link. */
static uint32_t frame_bytes(const struct fan_sim *s, uint32_t actor)
{
	assert(actor < s->actors);
	return s->link[s->out[s->node[s->actor[actor].node].first]].overhead_bytes;
}

/* A body for the datagram; a payload in the job's table is not copied. */
static struct fan_sim_body *body_of(const struct fan_trainer *t, const struct fan_out_item *it)
{
	const struct fan_trainer_shared *sh = t->shared;
	uintptr_t at = (uintptr_t)it->payload - (uintptr_t)sh->input;
	return fan_sim_body(sh->sim, it, at < sh->input_bytes || !it->payload_bytes);
}

static void tick_core(struct fan_trainer *t)
{
	struct fan_trainer_shared *sh = t->shared;
	struct fan_sim *s = sh->sim;
	uint32_t to = seat_of(t).aggregator;
	struct fan_out out;
	bool paced = sh->cfg->pace_bps && fan_worker_phase(t->core) == FAN_W_READY;
	fan_out_init(&out, sh->item, paced ? PACED_ITEMS : FAN_TRAINER_ITEMS, sh->scratch,
		     sh->scratch_bytes);
	bool more = true;
	uint64_t bytes = 0;
	for (unsigned n = 0; more && n < (paced ? 1 : TICKS_MAX); n++) {
		more = fan_worker_tick(t->core, s->now_ns, &out);
		for (unsigned i = 0; i < out.count; i++) {
			const struct fan_out_item *it = &out.item[i];
			struct fan_sim_packet p = {
				.from = t->actor,
				.to = to,
				.len = (uint16_t)fan_out_item_bytes(it),
				.body = body_of(t, it),
			};
			if (!p.body)
				return;
			fan_sim_send(s, &p, true);
			fan_body_put(&s->pool, p.body);
			bytes += paced ? p.len + frame_bytes(s, t->actor) : 0;
		}
		fan_out_reset(&out);
	}
	if (paced)
		t->paced_ns = s->now_ns + bytes * UINT64_C(8000000000) / sh->cfg->pace_bps;
}

/* ---- the actor ---- */

/* Record the end of iterations whose gradients are all reduced. */
static void note_spans(struct fan_trainer *t, uint64_t buckets_before)
{
	const struct fan_job_config *c = t->shared->cfg;
	if (!c->buckets)
		return;
	for (uint64_t n = buckets_before / c->buckets; n < t->bucket_done / c->buckets; n++)
		if (n < FAN_JOB_SPANS_MAX)
			t->span_ns[n] = t->shared->sim->now_ns;
	if (buckets_before / c->buckets < t->bucket_done / c->buckets)
		fan_tensor_tell(t);
}

/* Begin, fail or leave, as the core's phase and the finished work require. */
static bool change(struct fan_trainer *t)
{
	const struct fan_job_config *c = t->shared->cfg;
	enum fan_worker_phase phase = fan_worker_phase(t->core);
	uint64_t now_ns = t->shared->sim->now_ns;
	if (phase == FAN_W_READY && !t->begun) {
		t->begun = true;
		if (!t->times.ready_ns)
			t->times.ready_ns = now_ns;
		return true;
	}
	if (phase == FAN_W_FAILED) {
		t->fault = *fan_worker_fault(t->core);
		fan_worker_leave(t->core, now_ns, t->fault.err, NULL);
		return true;
	}
	bool done = t->begun && t->iteration == c->iterations && t->bucket_done == buckets_all(t);
	if (phase == FAN_W_READY && done) {
		fan_trainer_note_wait(t, false);
		t->times.done_ns = now_ns;
		fan_worker_leave(t->core, now_ns, FAN_OK, NULL);
		return true;
	}
	return false;
}

/* Do what the program around the core does after any event; `due`: the core likely has something to
 * send. */
static void run(struct fan_trainer *t, bool due)
{
	const struct fan_sim *s = t->shared->sim;
	if (t->shared->tensor)
		fan_tensor_keep_in_step(t);
	for (bool again = true; again && !s->broke; due = false) {
		if (!due)
			t->deadline_ns = fan_worker_deadline(t->core);
		if (due || (t->deadline_ns <= s->now_ns && t->paced_ns <= s->now_ns)) {
			tick_core(t);
			t->deadline_ns = fan_worker_deadline(t->core);
		}
		if (t->deadline_ns < t->paced_ns)
			t->deadline_ns = t->paced_ns;
		again = change(t);
		if (fan_worker_phase(t->core) != FAN_W_READY || !t->begun)
			continue;
		uint64_t before = t->bucket_done;
		if (take_finished(t)) {
			again = true;
			note_spans(t, before);
		}
		again |= fan_trainer_compute(t);
		again |= start_ops(t);
	}
	if (fan_worker_phase(t->core) == FAN_W_LEFT)
		go(t);
}

static void recv_packet(void *self, const struct fan_sim_packet *p)
{
	struct fan_trainer *t = self;
	if (!t->core || !p->body)
		return;
	struct fan_sim *s = t->shared->sim;
	const bool by_group = p->flags & FAN_PACKET_BY_GROUP, marked = p->flags & FAN_PACKET_ECN;
	struct fan_frag f;
	if (fan_sim_read(p, 1u << FAN_TYPE_RESULT, &f))
		fan_worker_take(t->core, s->now_ns, &f, by_group, marked);
	else
		fan_worker_recv(t->core, s->now_ns, fan_sim_bytes(s, p), p->len, by_group, marked);
	run(t, !t->shared->cfg->pace_bps);
}

static void tick(void *self)
{
	struct fan_trainer *t = self;
	if (!t->core && !join(t)) {
		t->shared->sim->broke = true;
		return;
	}
	run(t, false);
}

static uint64_t deadline(void *self)
{
	const struct fan_trainer *t = self;
	if (t->left)
		return FAN_SIM_NEVER;
	if (!t->core)
		return t->shared->begin_ns;
	/* a failed or leaving worker computes no more */
	bool computes = t->working && fan_worker_phase(t->core) == FAN_W_READY;
	return computes && t->until_ns < t->deadline_ns ? t->until_ns : t->deadline_ns;
}

static const struct fan_actor_ops ops = {recv_packet, tick, deadline};

/* ---- by ring ---- */

/* Has the bucket that was started last been reduced? */
static bool ring_done(const struct fan_ring *r)
{
	return !r->busy;
}

static void run_ring(struct fan_trainer *t)
{
	struct fan_ring *g = &t->ring;
	const struct fan_job_config *c = t->shared->cfg;
	for (bool again = true; again && !t->shared->sim->broke;) {
		again = fan_trainer_compute(t);
		uint64_t before = t->bucket_done;
		if (t->bucket_at > t->bucket_done && ring_done(g)) {
			t->times.elems += c->bucket[t->bucket_done++ % c->buckets].elems;
			note_spans(t, before);
			again = true;
		}
		if (t->bucket_at == t->bucket_done && t->bucket_at < t->bucket_ready) {
			fan_ring_start(g, c->bucket[t->bucket_at++ % c->buckets].elems);
			again = true;
		}
		note_quiet(t);
	}
	if (t->iteration < c->iterations || t->bucket_done < buckets_all(t))
		return;
	fan_trainer_note_wait(t, false);
	t->times.done_ns = t->shared->sim->now_ns;
	go(t);
}

static void recv_ring(void *self, const struct fan_sim_packet *p)
{
	struct fan_trainer *t = self;
	fan_ring_recv(&t->ring, p);
	if (t->begun && !t->left)
		run_ring(t);
}

static void place_in_tree(struct fan_trainer *t)
{
	const struct fan_trainer *first = t->shared->first;
	struct fan_ring *g = &t->ring;
	g->tree = t->shared->by_tree;
	g->window = t->shared->cfg->window;
	g->up = first[t->rank ? (t->rank - 1) / 2 : 0].actor;
	for (uint32_t i = 2u * t->rank + 1; i <= 2u * t->rank + 2 && i < g->ranks; i++)
		g->down[g->children++] = first[i].actor;
}

/* Find the places in the ring of its rack and in that of the racks. */
static bool place_in_levels(struct fan_trainer *t)
{
	const struct fan_trainer_shared *sh = t->shared;
	struct fan_ring *g = &t->ring;
	g->levels = sh->by_levels;
	if (g->levels &&
	    !fan_ring_seats(sh->sim, sh->cfg->host, g->ranks, t->rank, &g->rack, &g->among))
		return false;
	g->rack.next = sh->first[g->rack.next].actor;
	g->among.next = sh->first[g->among.next].actor;
	return true;
}

static void tick_ring(void *self)
{
	struct fan_trainer *t = self;
	if (!t->begun) {
		t->begun = true;
		t->times.ready_ns = t->shared->sim->now_ns;
		t->ring = (struct fan_ring){
			.sim = t->shared->sim,
			.actor = t->actor,
			.next = t->shared->first[(t->rank + 1) % t->shared->cfg->ranks].actor,
			.rank = t->rank,
			.ranks = (uint16_t)t->shared->cfg->ranks,
			.payload_bytes = t->shared->cfg->payload_bytes,
			.elem_bytes = (uint16_t)fan_dtype_bytes(t->shared->cfg->wire),
			.note = t->ring.note,
			.notes = t->ring.notes,
			.notes_room = t->ring.notes_room,
		};
		place_in_tree(t);
		t->shared->sim->broke |= !place_in_levels(t);
	}
	run_ring(t);
}

static uint64_t deadline_ring(void *self)
{
	const struct fan_trainer *t = self;
	if (t->left)
		return FAN_SIM_NEVER;
	if (!t->begun)
		return t->shared->cfg->arrival_ns;
	return t->working ? t->until_ns : FAN_SIM_NEVER;
}

static const struct fan_actor_ops ring_ops = {recv_ring, tick_ring, deadline_ring};

bool fan_trainer_init(struct fan_trainer *t, struct fan_trainer_shared *sh, uint16_t rank)
{
	assert(rank < sh->cfg->ranks);
	memset(t, 0, sizeof *t);
	t->shared = sh;
	t->rank = rank;
	t->comm_since_ns = t->wait_since_ns = FAN_SIM_NEVER;
	t->ring.sim = sh->sim;
	t->left_elems = elems_from(sh->cfg, 0);
	if (rank == 0)
		sh->first = t;
	t->actor =
		fan_sim_add_actor(sh->sim, sh->cfg->host[rank], t, sh->by_ring ? &ring_ops : &ops);
	if (t->actor == FAN_SIM_NONE)
		return false;
	sh->sim->awaited++;
	fan_sim_wake(sh->sim, t->actor);
	return true;
}

void fan_trainer_free(struct fan_trainer *t)
{
	drop_ops(t);
	fan_ring_free(&t->ring);
}
