/* SPDX-License-Identifier: Apache-2.0 */
/* helper.c - a worker that keeps sums for slow ranks: what the switch gives it to keep, and
 * asks of it.  helper_cache.h; doc/protocol/run-ahead.md. */
#include "helper.h"

#include "worker_priv.h"

/* How does `frag` stand to what this worker has? */
static int out_of_turn(const struct fan_worker *w, uint64_t frag)
{
	const struct fan_window *win = &w->window;
	if (!w->cache.frags || !win->ahead)
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
	enum fan_verdict v = fan_helper_cache_add(&w->cache, now_ns, &p, w->cfg.ranks, &full);
	return v == FAN_DROP ? fan_worker_drop(w, full) : v;
}

/* Note a question of another rank, which is answered or goes on. */
static enum fan_verdict note(struct fan_worker *w, const struct fan_frag *f, enum fan_type type)
{
	if (w->questions == FAN_HELPER_QUESTIONS)
		return fan_worker_drop(w, FAN_DROP_FULL);
	w->question[w->questions++] = (struct fan_question){
		.frag = f->frag,
		.rank = f->sender,
		.place = f->place,
		.full = type == FAN_TYPE_PROGRESS && fan_helper_cache_is_full(&w->cache),
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
	if (fan_helper_cache_holds(&w->cache, f->frag, f->sender))
		return FAN_EARLY;
	fan_helper_cache_flush(&w->cache, f->frag); /* so that the answer is true */
	return note(w, f, FAN_TYPE_PROBE);
}

enum fan_verdict fan_helper_recv(struct fan_worker *w, uint64_t now_ns, const struct fan_frag *f)
{
	if (f->type == FAN_TYPE_PROGRESS) /* a question: what was before it has come */
		return w->cache.frags ? note(w, f, FAN_TYPE_PROGRESS)
				      : fan_worker_drop(w, FAN_DROP_TYPE);
	int why = out_of_turn(w, f->frag);
	if (why >= 0)
		return fan_worker_drop(w, (enum fan_drop)why);
	switch (f->type) {
	case FAN_TYPE_DATA:
	case FAN_TYPE_PARTIAL: return keep(w, now_ns, f);
	case FAN_TYPE_PROBE: return asked(w, f);
	default: fan_helper_cache_flush(&w->cache, f->frag); return FAN_CTL;
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

bool fan_helper_is_due(const struct fan_worker *w)
{
	return w->questions || fan_helper_cache_is_due(&w->cache);
}

bool fan_helper_send(struct fan_worker *w, struct fan_out *out)
{
	while (fan_helper_cache_is_due(&w->cache)) {
		if (!fan_out_fits(out, 1, 0))
			return true;
		struct fan_out_item *it = fan_out_add(out, FAN_TO_PEER);
		if (!fan_helper_cache_next(&w->cache, w->cfg.rank, it))
			out->count--;
	}
	for (unsigned i = 0; i < w->questions; i++) {
		if (!fan_out_fits(out, 1, 0)) {
			memmove(w->question, w->question + i,
				(w->questions - i) * sizeof *w->question);
			w->questions -= i;
			return true;
		}
		put_question(w, &w->question[i], fan_out_add(out, FAN_TO_PEER));
	}
	w->questions = 0;
	return false;
}
