/* SPDX-License-Identifier: Apache-2.0 */
/* regroup_agree.c - all ranks agree on which results they have, and go on from there; and on
 * whether a lost switch is there again (regroup.c). */
#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "net/clock.h"
#include "thread.h"

#define BUFFER_BYTES 65536
#define RESULTS	     64	     /* given to other ranks at a time */
#define KEY_FULL     0x10000 /* in a key, rank + 1: it has the elements, too */
#define KEY_RANK     0xffff

void fan_regroup_forget(struct fan_regroup *g)
{
	free(g->stands);
	free(g->owners);
	free(g->results);
	g->stands = NULL;
	g->owners = NULL;
	g->results = NULL;
}

static void fail(struct fan_rank *r, const char *what)
{
	char text[FAN_FAULT_TEXT_BYTES];
	snprintf(text, sizeof text, "%.400s; %s", r->regroup->why, what);
	fan_ranks_set(r->fate.blamed, (unsigned)r->cfg.rank);
	r->fate.cause = FAN_E_UNREACHABLE;
	fan_rank_fail(r, FAN_E_UNREACHABLE, text);
}

/* An all-reduce of all ranks' words, in place. */
static void add_up(struct fan_rank *r, enum fan_redop redop, enum fan_dtype dtype, size_t count,
		   void *words)
{
	struct fanin_op *op = fan_op_new_own(FAN_OP_AGREEMENT, redop, dtype, count, words);
	r->regroup->arrived = false;
	if (!op) {
		fail(r, fan_err_text(FAN_E_NOMEM));
		return;
	}
	fan_op_queue_put_first(&r->ops.waiting, op);
}

static uint32_t window_of(const struct fan_connection *cn)
{
	return fan_worker_welcome(cn->w)->window;
}

/* A slot of an old connection, by its number among all. */
struct place {
	struct fan_connection *cn;
	uint32_t slot, window;
};

static struct place place_of(struct fan_regroup *g, unsigned number)
{
	struct place p = {.cn = g->old, .slot = number};
	assert(number < g->slots);
	while (p.slot >= window_of(p.cn))
		p.slot -= window_of(p.cn++);
	p.window = window_of(p.cn);
	return p;
}

/* ---- where all ranks stand ---- */

void fan_regroup_agree(struct fan_rank *r)
{
	struct fan_regroup *g = r->regroup;
	assert(g->phase == FAN_REGROUP_JOINS && !r->ops.running_count);
	g->phase = FAN_REGROUP_STANDS;
	g->slots = 0;
	g->result_bytes = 0;
	for (unsigned i = 0; i < g->olds; i++) {
		size_t bytes = (sizeof(uint32_t) + g->old[i].packet_bytes + 7) / 8 * 8;
		g->slots += window_of(&g->old[i]);
		g->result_bytes = bytes > g->result_bytes ? bytes : g->result_bytes;
	}
	fan_regroup_forget(g);
	g->stands = calloc(1 + (size_t)g->slots, sizeof *g->stands);
	g->owners = calloc(2 * (size_t)g->slots + 1, sizeof *g->owners);
	g->results = calloc(RESULTS, g->result_bytes + 1);
	if (!g->stands || !g->owners || !g->results) {
		fail(r, fan_err_text(FAN_E_NOMEM));
		return;
	}
	g->stands[0] = -(int64_t)g->ops;
	for (unsigned x = 0; x < g->slots; x++) {
		struct place p = place_of(g, x);
		g->stands[1 + x] = (int64_t)fan_worker_awaits(p.cn->w, p.slot);
	}
	add_up(r, FAN_MAX, FAN_INT64, 1 + (size_t)g->slots, g->stands);
}

/* Does this rank lack the last result of a slot?  -1: it stands where it cannot. */
static int lacks(struct fan_regroup *g, unsigned number)
{
	struct place p = place_of(g, number);
	uint64_t own = fan_worker_awaits(p.cn->w, p.slot);
	uint64_t furthest = (uint64_t)g->stands[1 + number];
	if (furthest == own)
		return 0;
	return furthest == own + p.window ? 1 : -1;
}

/* ---- the owners of results ---- */

/* This rank, if it has a slot's last result. */
static int32_t key_of(const struct fan_rank *r, unsigned number)
{
	struct place p = place_of(r->regroup, number);
	uint64_t own = fan_worker_awaits(p.cn->w, p.slot);
	struct fan_frag f;
	uint32_t bytes;
	const uint8_t *kept = fan_connection_kept(p.cn, p.slot, &bytes);
	if (!kept || own < p.window)
		return 0;
	fan_wire_head(&f, kept);
	if (f.frag != own - p.window)
		return 0;
	return (f.flags & FAN_F_EMPTY ? 0 : KEY_FULL) | (r->cfg.rank + 1);
}

static void ask_owners(struct fan_rank *r)
{
	struct fan_regroup *g = r->regroup;
	g->phase = FAN_REGROUP_OWNERS;
	for (unsigned x = 0; x < g->slots; x++) {
		int lack = lacks(g, x);
		if (lack < 0) {
			fail(r, "ranks do not agree on the results that they have");
			return;
		}
		g->owners[2 * x] = lack ? 0 : key_of(r, x);
		g->owners[2 * x + 1] = lack;
	}
	add_up(r, FAN_MAX, FAN_INT32, 2 * (size_t)g->slots, g->owners);
}

/* ---- giving ---- */

static void put_result(struct fan_regroup *g, unsigned number, uint8_t *to)
{
	struct place p = place_of(g, number);
	uint32_t bytes;
	const uint8_t *kept = fan_connection_kept(p.cn, p.slot, &bytes);
	memcpy(to, &bytes, sizeof bytes);
	memcpy(to + sizeof bytes, kept, bytes);
}

/* The next results that ranks lack, each from one owner, as a sum in which all others have zeros.
 * False: there are no more. */
static bool give(struct fan_rank *r)
{
	struct fan_regroup *g = r->regroup;
	g->given = 0;
	memset(g->results, 0, RESULTS * g->result_bytes);
	for (unsigned x = g->next; x < g->slots && g->given < RESULTS; x++) {
		if (!g->owners[2 * x + 1])
			continue;
		if (!g->owners[2 * x]) {
			fail(r, "a result that a rank lacks is lost with it");
			return true;
		}
		if ((g->owners[2 * x] & KEY_RANK) == r->cfg.rank + 1)
			put_result(g, x, g->results + g->given * g->result_bytes);
		g->given++;
	}
	if (!g->given)
		return false;
	g->phase = FAN_REGROUP_GIVES;
	add_up(r, FAN_SUM, FAN_INT32, g->given * g->result_bytes / sizeof(int32_t), g->results);
	return true;
}

static bool take_result(struct fan_regroup *g, unsigned number, const uint8_t *from,
			uint64_t now_ns)
{
	struct place p = place_of(g, number);
	uint32_t bytes;
	memcpy(&bytes, from, sizeof bytes);
	return bytes <= g->result_bytes - sizeof bytes &&
	       fan_worker_supply(p.cn->w, now_ns, from + sizeof bytes, bytes);
}

static void take_given(struct fan_rank *r, uint64_t now_ns)
{
	struct fan_regroup *g = r->regroup;
	for (unsigned n = 0; n < g->given; g->next++) {
		if (!g->owners[2 * g->next + 1])
			continue;
		const uint8_t *from = g->results + n++ * g->result_bytes;
		if (lacks(g, g->next) && !take_result(g, g->next, from, now_ns)) {
			fail(r, "a result that this rank lacks is lost with it");
			return;
		}
	}
}

/* ---- going on ---- */

/* Sum elements `first` to `end` of `part` of operation `whole` anew: at most one such run for every
 * second slot, and one for each operation on each connection. */
static bool sum_anew(struct fan_op_queue *q, struct fanin_op *whole, const struct fan_op *part,
		     uint64_t first, uint64_t end)
{
	const struct fan_op rest = fan_op_part(part, &(struct fan_cut){first, end, 0, 1});
	struct fanin_op *op = fan_op_new(&rest, FAN_OP_REST);
	if (!op)
		return false;
	op->whole = whole;
	whole->rests++;
	fan_op_queue_add(q, op);
	return true;
}

/* Collect the fragments without a result on old connection number `i`.  False: no memory. */
static bool rest_of(const struct fan_regroup *g, struct fan_op_queue *q, struct fanin_op *op,
		    const struct fan_split *shares, unsigned i)
{
	const struct fan_connection *cn = &g->old[i];
	struct fan_split_range r =
		fan_share_meter_range(shares, op, fan_worker_frag_elems(cn->w, &op->op), cn->part);
	const struct fan_cut cut = {r.first, r.end, cn->shard, g->shards[cn->part]};
	const struct fan_op part = fan_op_part(&op->op, &cut);
	struct fan_missing rest = {.block = 0};
	const unsigned was = g->was[i];
	if (was >= op->connections) /* not started, so there is no result */
		return !r.takes_part || sum_anew(q, op, &part, 0, part.count);
	while (op->id[was] != FAN_OP_NOWHERE && fan_worker_next_missing(cn->w, op->id[was], &rest))
		if (!sum_anew(q, op, &part, rest.first, rest.end))
			return false;
	return true;
}

/* Shares are learnt anew, and so are returned switches. */
static bool is_asked_anew(const struct fanin_op *op)
{
	return op->kind == FAN_OP_MEASUREMENT || op->kind == FAN_OP_OFFER;
}

/* Are the shares known by which each operation was cut that all ranks have started? */
static bool knows_shares(const struct fan_regroup *g, uint64_t all_ops)
{
	for (unsigned n = 0; n < g->op_count; n++)
		if (!is_asked_anew(g->op[n]) && g->op[n]->number < all_ops &&
		    !fan_split_history_at(&g->shares, g->op[n]->number))
			return false;
	return true;
}

/* An operation that was in progress: all ranks have started those below `all_ops`. */
static bool go_on_with(struct fan_rank *r, struct fan_op_queue *q, struct fanin_op *op,
		       uint64_t all_ops)
{
	bool ok = true;
	if (is_asked_anew(op)) {
		fan_rank_end_op(r, op, FAN_OK);
	} else if (op->number >= all_ops) {
		op->connections = op->connections_done = 0;
		op->is_counted = false;
		fan_op_queue_add(q, op);
	} else {
		const struct fan_split *s = fan_split_history_at(&r->regroup->shares, op->number);
		op->rests = 1; /* until all are known */
		for (unsigned i = 0; i < r->regroup->olds && ok; i++)
			ok = rest_of(r->regroup, q, op, s, i);
		if (!--op->rests)
			fan_rank_end_whole(r, op, ok ? FAN_OK : FAN_E_NOMEM);
	}
	return ok;
}

static void finish(struct fan_rank *r)
{
	struct fan_regroup *g = r->regroup;
	uint64_t all_ops = (uint64_t)-g->stands[0];
	struct fan_op_queue q = {0};
	unsigned count = g->op_count, done = 0;
	if (!knows_shares(g, all_ops)) {
		fail(r, "the shares by which an operation was cut are no longer known");
		return;
	}
	g->op_count = 0;
	while (done < count && go_on_with(r, &q, g->op[done], all_ops))
		done++;
	fan_op_queue_move(&q, &r->ops.waiting);
	r->ops.waiting = q;
	for (unsigned n = done + 1; n < count; n++)
		fan_op_queue_add(&r->ops.waiting, g->op[n]);
	g->phase = FAN_REGROUP_NONE;
	fan_regroup_forget(g);
	if (done < count)
		fail(r, fan_err_text(FAN_E_NOMEM));
}

bool fan_regroup_go_on(struct fan_rank *r)
{
	struct fan_regroup *g = r->regroup;
	if (!g || !g->arrived || atomic_load(&r->error))
		return false;
	g->arrived = false;
	if (g->phase == FAN_REGROUP_STANDS) {
		ask_owners(r);
		return true;
	}
	if (g->phase == FAN_REGROUP_OWNERS)
		g->next = 0;
	else
		take_given(r, fan_clock_ns());
	if (!atomic_load(&r->error) && !give(r))
		finish(r);
	return true;
}

/* ---- a switch that was lost is there again ---- */

/* Each rank asks the lost ones by ECHO, in turns.  After every so many operations, which are the
 * same on all ranks, an all-reduce of their own counts the ranks with a recent answer.  If all
 * have one, all begin a regroup that takes the part in again.  A part is vouched for no sooner than
 * FAN_REVIVAL_WAIT_NS after it was lost, and twice as long each time that it is lost soon again, so
 * that one that comes and goes costs little. */

uint64_t fan_revival_lost_with(const struct fan_regroup *g, unsigned number)
{
	const struct fan_regroup_part *p = &g->first[number];
	uint64_t with = UINT64_C(1) << number;
	assert(number < g->all);
	for (unsigned n = 0; p->inside >= 0 && n < g->all; n++)
		if (g->first[n].inside >= 0 && g->first[n].rail == p->rail)
			with |= UINT64_C(1) << n;
	return with;
}

void fan_revival_lost(struct fan_revival *h, unsigned number, uint64_t now_ns)
{
	assert(number < FAN_CAUSE_PARTS_MAX);
	struct fan_revival_part *p = &h->part[number];
	if (!p->back_ns || now_ns - p->back_ns > FAN_REVIVAL_CALM_NS)
		p->waits = 0;
	else if (p->waits < FAN_REVIVAL_WAITS)
		p->waits++;
	p->heard_ns = 0;
	p->from_ns = now_ns + (FAN_REVIVAL_WAIT_NS << p->waits);
	h->back &= ~(UINT64_C(1) << number);
	h->echo.due_ns = now_ns;
	h->ops = 0;
	h->bytes = 0;
}

void fan_revival_back(struct fan_revival *h, unsigned number, uint64_t now_ns)
{
	assert(number < FAN_CAUSE_PARTS_MAX);
	h->part[number].back_ns = now_ns;
	h->back = 0;
	h->ops = 0;
	h->bytes = 0;
}

/* Has lost part `number` answered this rank recently? */
static bool vouches(const struct fan_regroup *g, unsigned number, uint64_t now_ns)
{
	const struct fan_revival_part *p = &g->revival.part[number];
	const uint64_t fresh_ns = FAN_REVIVAL_FRESH_NS * (uint64_t)__builtin_popcountll(g->gone);
	return g->gone >> number & 1 && p->heard_ns && now_ns >= p->from_ns &&
	       now_ns - p->heard_ns <= fresh_ns;
}

bool fan_revival_offer(struct fan_rank *r)
{
	struct fan_regroup *g = r->regroup;
	const struct fanin_op *next = r->ops.waiting.head;
	if (!g || !g->gone || !fan_op_is_callers(next->kind) || next->is_counted ||
	    (g->revival.ops < FAN_REVIVAL_OPS && g->revival.bytes < FAN_REVIVAL_BYTES))
		return true;
	int32_t *words = calloc(g->all, sizeof *words);
	struct fanin_op *op =
		words ? fan_op_new_own(FAN_OP_OFFER, FAN_SUM, FAN_INT32, g->all, words) : NULL;
	if (!op) {
		free(words);
		return false;
	}
	const uint64_t now_ns = fan_clock_ns();
	for (unsigned n = 0; n < g->all; n++)
		words[n] = vouches(g, n, now_ns);
	op->set = words;
	op->free_set = free;
	g->revival.ops = 0;
	g->revival.bytes = 0;
	fan_op_queue_put_first(&r->ops.waiting, op);
	return true;
}

static void receive_echo(struct fan_revival *h, uint64_t now_ns)
{
	if (h->udp.fd >= 0)
		h->part[h->asked].heard_ns = fan_echo_receive(&h->echo, &h->udp) ? now_ns : 0;
	fan_udp_close(&h->udp);
}

/* The one behind the one that was asked last. */
static void ask(struct fan_regroup *g, uint64_t now_ns)
{
	struct fan_revival *h = &g->revival;
	assert(g->gone && g->all <= FAN_CAUSE_PARTS_MAX);
	do
		h->asked = (h->asked + 1) % g->all;
	while (!(g->gone >> h->asked & 1));
	const struct fan_udp_options o = {.connect = g->first[h->asked].part.at,
					  .buffer_bytes = BUFFER_BYTES};
	h->echo = (struct fan_echo_asker){.due_ns = now_ns + FAN_ECHO_MS * FAN_MS};
	if (fan_udp_open(&h->udp, &o))
		h->udp.fd = -1;
	else
		fan_echo_ask(&h->echo, &h->udp, NULL, FAN_ECHO_BYTES, now_ns);
}

int fan_revival_work(struct fan_rank *r, uint64_t now_ns)
{
	struct fan_regroup *g = r->regroup;
	struct fan_revival *h = &g->revival;
	assert(g->gone && g->phase == FAN_REGROUP_NONE);
	if (now_ns >= h->echo.due_ns) {
		receive_echo(h, now_ns);
		ask(g, now_ns);
	}
	for (unsigned n = 0; n < g->all; n++) {
		const uint64_t with = fan_revival_lost_with(g, n);
		if (h->back >> n & 1 && (h->back & with) == with)
			return (int)n;
	}
	return -1;
}
