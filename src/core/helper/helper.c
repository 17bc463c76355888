/* SPDX-License-Identifier: Apache-2.0 */
/* helper.c - a worker that keeps sums for slow ranks: what the switch gives it to keep, and
 * asks of it.  helper_cache.h; doc/protocol/run-ahead.md. */
#include "core/worker/worker_helper.h"
#include "core/worker/worker_priv.h"
#include "helper_cache.h"

/* A PROBE or a request for PROGRESS of another rank, for the aggregator. */
struct fan_question {
	uint64_t frag;
	uint16_t rank, last;
	uint8_t type; /* PROBE is sent on, PROGRESS is answered */
	uint8_t place;
	bool full; /* the cache had no room */
};

struct fan_worker_helper {
	struct fan_helper_cache cache;
	unsigned questions;
	struct fan_question question[FAN_HELPER_QUESTIONS];
};

/* How does `frag` stand to what this worker has? */
static int out_of_turn(const struct fan_worker *w, uint64_t frag)
{
	const struct fan_window *win = &w->window;
	if (!win->ahead)
		return FAN_DROP_TYPE;
	if (frag < win->low || win->slot[frag % win->size].frag > frag)
		return FAN_DROP_STALE;
	return frag - win->low < 2 * (uint64_t)win->size ? -1 : FAN_DROP_AHEAD;
}

static enum fan_verdict keep(struct fan_worker *w, uint64_t now_ns, const struct fan_frag *f)
{
	struct fan_contribution p;
	int why = fan_contribution_get(&p, f, w->cfg.ranks);
	if (why < 0)
		why = fan_contribution_unfit(&p, w->cfg.payload_bytes, w->cfg.payload_bytes, false);
	if (why >= 0)
		return fan_worker_drop(w, (enum fan_drop)why);
	enum fan_drop full = FAN_DROP_FULL;
	enum fan_verdict v =
		fan_helper_cache_add(&w->helper->cache, now_ns, &p, w->cfg.ranks, &full);
	return v == FAN_DROP ? fan_worker_drop(w, full) : v;
}

/* Note a question of another rank, which is answered or goes on. */
static enum fan_verdict note(struct fan_worker *w, const struct fan_frag *f, enum fan_type type)
{
	if (w->helper->questions == FAN_HELPER_QUESTIONS)
		return fan_worker_drop(w, FAN_DROP_FULL);
	w->helper->question[w->helper->questions++] = (struct fan_question){
		.frag = f->frag,
		.rank = f->sender,
		.place = f->place,
		.full = type == FAN_TYPE_PROGRESS && fan_helper_cache_is_full(&w->helper->cache),
		.last = f->last,
		.type = (uint8_t)type,
	};
	return FAN_PASS;
}

/* The PROBE of another rank: no answer if its contribution is here. */
static enum fan_verdict asked(struct fan_worker *w, const struct fan_frag *f)
{
	if (f->sender >= w->cfg.ranks)
		return fan_worker_drop(w, FAN_DROP_SENDER);
	if (fan_helper_cache_holds(&w->helper->cache, f->frag, f->sender))
		return FAN_EARLY;
	fan_helper_cache_flush(&w->helper->cache, f->frag); /* so that the answer is true */
	return note(w, f, FAN_TYPE_PROBE);
}

static enum fan_verdict recv(struct fan_worker *w, uint64_t now_ns, const struct fan_frag *f)
{
	fan_helper_cache_check(&w->helper->cache);
	assert(w->helper->questions <= FAN_HELPER_QUESTIONS);
	if (f->type == FAN_TYPE_PROGRESS) /* a question: what was before it has come */
		return note(w, f, FAN_TYPE_PROGRESS);
	int why = out_of_turn(w, f->frag);
	if (why >= 0)
		return fan_worker_drop(w, (enum fan_drop)why);
	switch (f->type) {
	case FAN_TYPE_DATA:
	case FAN_TYPE_PARTIAL: return keep(w, now_ns, f);
	case FAN_TYPE_PROBE: return asked(w, f);
	default: fan_helper_cache_flush(&w->helper->cache, f->frag); return FAN_CTL;
	}
}

static void put_question(struct fan_worker *w, const struct fan_question *q,
			 struct fan_out_item *it)
{
	const struct fan_frag f = {
		.frag = q->frag,
		.job = w->job,
		.epoch = w->epoch,
		.sender = q->rank,
		.flags = q->full ? FAN_F_FULL : 0,
		.last = q->last,
		.helper = FAN_TAG(w->cfg.rank),
		.place = q->place,
		.type = q->type,
	};
	fan_wire_put(it->head, &f);
}

static bool is_due(const struct fan_worker_helper *k)
{
	return k->questions || fan_helper_cache_is_due(&k->cache);
}

static bool send(struct fan_worker *w, struct fan_out *out)
{
	struct fan_worker_helper *k = w->helper;
	fan_helper_cache_check(&k->cache);
	while (fan_helper_cache_is_due(&k->cache)) {
		if (!fan_out_fits(out, 1, 0))
			return true;
		struct fan_out_item *it = fan_out_add(out, FAN_TO_PEER);
		if (!fan_helper_cache_next(&k->cache, w->cfg.rank, it))
			out->count--;
	}
	for (unsigned i = 0; i < k->questions; i++) {
		if (!fan_out_fits(out, 1, 0)) {
			memmove(k->question, k->question + i,
				(k->questions - i) * sizeof *k->question);
			k->questions -= i;
			return true;
		}
		put_question(w, &k->question[i], fan_out_add(out, FAN_TO_PEER));
	}
	k->questions = 0;
	return false;
}

static size_t bytes(uint32_t frags, uint32_t payload_bytes)
{
	return fan_align_up(sizeof(struct fan_worker_helper)) +
	       fan_helper_cache_bytes(frags, payload_bytes);
}

static struct fan_worker_helper *init(void *mem, uint32_t frags, uint32_t payload_bytes)
{
	struct fan_worker_helper *k = mem;
	k->questions = 0;
	fan_helper_cache_init(&k->cache, (uint8_t *)mem + fan_align_up(sizeof *k), frags,
			      payload_bytes);
	return k;
}

static void flush(struct fan_worker_helper *k, uint64_t frag)
{
	fan_helper_cache_flush(&k->cache, frag);
}

static void forget(struct fan_worker_helper *k, uint64_t frag)
{
	fan_helper_cache_forget(&k->cache, frag);
}

static const struct fan_helper_cache_stats *stats(const struct fan_worker_helper *k)
{
	return &k->cache.stats;
}

static void audit(const struct fan_worker_helper *k)
{
	assert(k->questions <= FAN_HELPER_QUESTIONS);
	fan_helper_cache_audit(&k->cache);
}

const struct fan_worker_helper_calls fan_worker_helper = {
	.bytes = bytes,
	.init = init,
	.recv = recv,
	.is_due = is_due,
	.send = send,
	.flush = flush,
	.forget = forget,
	.stats = stats,
	.audit = audit,
};
