/* SPDX-License-Identifier: Apache-2.0 */
#include "window.h"

#include <assert.h>
#include <limits.h>
#include <string.h>

#define LOG_FACTOR 4u /* entries per slot */
#define GAPS_AHEAD 2u /* probes that one result draws where ranks run ahead of each other */
#define TAIL_AHEAD 8u /* of FAN_TAIL_PROBES, where contributions from long ago are in flight */

size_t fan_window_bytes(uint32_t max)
{
	return max * (sizeof(struct fan_wslot) + (LOG_FACTOR + 2) * sizeof(uint16_t));
}

void fan_window_init(struct fan_window *w, void *mem, uint32_t max)
{
	memset(w, 0, sizeof *w);
	w->slot = mem;
	w->log = (uint16_t *)(w->slot + max);
	w->ready.at = w->log + (size_t)max * LOG_FACTOR;
	w->urgent.at = w->ready.at + max;
}

void fan_window_open(struct fan_window *w, uint32_t size)
{
	w->ready.head = w->ready.count = w->urgent.head = w->urgent.count = 0;
	w->log_head = w->log_count = w->in_flight = 0;
	w->acked = w->low = w->search = 0;
	w->low_at = 0;
	w->turns = w->reached = w->asked = w->next = w->step_turn = 0;
	w->ahead = false;
	w->gap = FAN_GAP_RESULTS;
	w->limit = UINT64_MAX;
	w->size = w->ready.size = w->urgent.size = size;
	w->log_size = size * LOG_FACTOR;
	memset(w->slot, 0, size * sizeof *w->slot);
	for (uint32_t i = 0; i < size; i++)
		w->slot[i].frag = i;
	w->seq = 1;
}

void fan_window_run_ahead(struct fan_window *w, uint32_t burst)
{
	w->ahead = true;
	w->gap = 4 * burst > FAN_GAP_RESULTS ? 4 * burst : FAN_GAP_RESULTS;
}

void fan_window_arrived(struct fan_window *w, uint32_t i)
{
	if (w->slot[i].turn > w->reached)
		w->reached = w->slot[i].turn;
}

bool fan_window_asks(struct fan_window *w, uint32_t cwnd)
{
	if (!w->ahead)
		return false;
	uint32_t step = w->in_flight > cwnd ? cwnd / FAN_ASKS_WINDOW : cwnd;
	if (w->turns + 1 - w->asked < step)
		return false;
	w->asked = w->turns + 1;
	return true;
}

static void push(struct fan_wqueue *q, uint32_t i)
{
	assert(q->count < q->size);
	uint32_t at = q->head + q->count++;
	q->at[at >= q->size ? at - q->size : at] = (uint16_t)i;
}

static void push_front(struct fan_wqueue *q, uint32_t i)
{
	assert(q->count < q->size);
	q->head = q->head ? q->head - 1 : q->size - 1;
	q->at[q->head] = (uint16_t)i;
	q->count++;
}

static uint32_t pop(struct fan_wqueue *q)
{
	assert(q->count > 0);
	uint32_t i = q->at[q->head];
	q->head = q->head + 1 == q->size ? 0 : q->head + 1;
	q->count--;
	return i;
}

void fan_window_ready(struct fan_window *w, uint32_t i)
{
	struct fan_wslot *s = &w->slot[i];
	assert(s->state != FAN_WSLOT_SENT);
	s->state = FAN_WSLOT_READY;
	if (w->ahead)
		return;
	if (s->frag < w->search)
		w->search = s->frag;
	if (!(s->flags & FAN_WSLOT_QUEUED))
		push(&w->ready, i);
	s->flags |= FAN_WSLOT_QUEUED;
}

static void make_urgent(struct fan_window *w, uint32_t i, unsigned what)
{
	struct fan_wslot *s = &w->slot[i];
	if (!(s->flags & FAN_WSLOT_URGENT))
		push(&w->urgent, i);
	s->flags = (uint8_t)(s->flags | FAN_WSLOT_URGENT | what);
}

bool fan_window_need(struct fan_window *w, uint32_t i)
{
	if (w->slot[i].state != FAN_WSLOT_SENT || w->slot[i].flags & FAN_WSLOT_RESEND)
		return false;
	make_urgent(w, i, FAN_WSLOT_RESEND);
	return true;
}

bool fan_window_refused(struct fan_window *w, uint32_t i)
{
	struct fan_wslot *s = &w->slot[i];
	assert(!w->ahead);
	if (s->state != FAN_WSLOT_SENT || s->flags & (FAN_WSLOT_RESEND | FAN_WSLOT_DIRECT))
		return false;
	assert(w->in_flight > 0);
	s->flags &= (uint8_t)~FAN_WSLOT_PROBE;
	s->state = FAN_WSLOT_IDLE;
	s->refusals++;
	w->in_flight--;
	fan_window_ready(w, i);
	return true;
}

static bool lowest_is_ready(const struct fan_window *w)
{
	return w->size && w->slot[w->low_at].state == FAN_WSLOT_READY;
}

/* Where ranks run ahead of each other: the slot of the fragment that comes next, in order,
 * if both windows allow it or it is the lowest; else FAN_WSLOT_NONE.  In step, whatever waits for
 * its result counts as in flight. */
static uint32_t next_in_order(const struct fan_window *w, uint32_t cwnd)
{
	uint32_t i = (uint32_t)(w->next % w->size);
	if (w->slot[i].frag != w->next || w->slot[i].state != FAN_WSLOT_READY)
		return FAN_WSLOT_NONE;
	uint64_t waiting = w->turns < w->step_turn ? w->in_flight : w->turns - w->reached;
	bool allowed = waiting < cwnd && w->next < w->limit;
	return allowed || w->next == w->low ? i : FAN_WSLOT_NONE;
}

/* In the order in which they became ready: the order of results, which all ranks share. */
static uint32_t first_ready(struct fan_window *w, uint32_t cwnd)
{
	while (w->ready.count && w->in_flight < cwnd) {
		uint32_t i = pop(&w->ready);
		w->slot[i].flags &= (uint8_t)~FAN_WSLOT_QUEUED;
		if (w->slot[i].state == FAN_WSLOT_READY)
			return i;
	}
	return lowest_is_ready(w) ? w->low_at : FAN_WSLOT_NONE;
}

/* Under congestion, the lowest: ranks whose windows have shrunk must have the same
 * fragments in flight, or they wait for each other with all but the lowest.  Slots that
 * have run ahead of the others by a round come last. */
static uint32_t lowest_ready(struct fan_window *w, uint32_t cwnd)
{
	if (w->in_flight >= cwnd || w->ready.count == 0)
		return lowest_is_ready(w) ? w->low_at : FAN_WSLOT_NONE;
	if (w->search < w->low)
		w->search = w->low;
	for (; w->search < w->low + w->size; w->search++) {
		uint32_t i = (uint32_t)(w->search % w->size);
		if (w->slot[i].state == FAN_WSLOT_READY && w->slot[i].frag == w->search)
			return i;
	}
	return first_ready(w, cwnd);
}

uint32_t fan_window_next(struct fan_window *w, uint32_t cwnd, unsigned *what)
{
	while (w->urgent.count) {
		uint32_t i = pop(&w->urgent);
		struct fan_wslot *s = &w->slot[i];
		*what = s->flags & (FAN_WSLOT_PROBE | FAN_WSLOT_RESEND);
		s->flags &= (uint8_t) ~(FAN_WSLOT_URGENT | FAN_WSLOT_PROBE | FAN_WSLOT_RESEND);
		if (s->state != FAN_WSLOT_SENT || !*what)
			continue; /* its result came meanwhile */
		if (*what & FAN_WSLOT_RESEND)
			*what = FAN_WSLOT_RESEND; /* does all that a probe does */
		return i;
	}
	*what = 0;
	if (w->ahead)
		return next_in_order(w, cwnd);
	if (cwnd < w->size)
		return lowest_ready(w, cwnd);
	return first_ready(w, cwnd);
}

bool fan_window_may_send(const struct fan_window *w, uint32_t cwnd)
{
	if (w->ahead)
		return w->urgent.count || next_in_order(w, cwnd) != FAN_WSLOT_NONE;
	return w->urgent.count || (w->ready.count && w->in_flight < cwnd) || lowest_is_ready(w);
}

void fan_window_unget(struct fan_window *w, uint32_t i, unsigned what)
{
	if (!what && w->ahead)
		return;
	if (!what) {
		if (!(w->slot[i].flags & FAN_WSLOT_QUEUED))
			push_front(&w->ready, i);
		w->slot[i].flags |= FAN_WSLOT_QUEUED;
		return;
	}
	push_front(&w->urgent, i);
	w->slot[i].flags = (uint8_t)(w->slot[i].flags | FAN_WSLOT_URGENT | what);
}

void fan_window_by_number(struct fan_window *w, bool shows)
{
	if (w->ahead)
		return;
	w->gap = shows ? w->size + w->size / 2 + FAN_GAP_RESULTS : FAN_GAP_RESULTS;
}

static uint16_t *log_at(const struct fan_window *w, uint32_t n)
{
	uint32_t at = w->log_head + n;
	return &w->log[at >= w->log_size ? at - w->log_size : at];
}

/* The number of its first transmission. */
static uint64_t log_seq(const struct fan_window *w)
{
	return w->seq - w->log_count;
}

static void log_pop(struct fan_window *w)
{
	assert(w->log_count > 0);
	w->log_head = w->log_head + 1 == w->log_size ? 0 : w->log_head + 1;
	w->log_count--;
}

uint32_t fan_window_numbered(const struct fan_window *w, uint16_t low)
{
	uint64_t seq = w->seq - 1 - (uint16_t)(w->seq - 1 - low);
	uint64_t n = seq - log_seq(w);
	uint32_t i = n < w->log_count ? *log_at(w, (uint32_t)n) : FAN_WSLOT_NONE;
	bool out = i != FAN_WSLOT_NONE && w->slot[i].state == FAN_WSLOT_SENT;
	return out && w->slot[i].seq == seq ? i : FAN_WSLOT_NONE;
}

/* Drop finished entries from the front of the log.  Returns the slot of the first other one, or
 * FAN_WSLOT_NONE. */
uint32_t fan_window_oldest(struct fan_window *w)
{
	for (; w->log_count; log_pop(w)) {
		const struct fan_wslot *s = &w->slot[*log_at(w, 0)];
		if (s->state == FAN_WSLOT_SENT && s->seq == log_seq(w))
			return *log_at(w, 0);
	}
	return FAN_WSLOT_NONE;
}

/* The log is full: forget what is over, or else probe for the oldest, which gives it a
 * place at the end. */
static void make_room(struct fan_window *w)
{
	uint32_t i = fan_window_oldest(w);
	if (w->log_count < w->log_size)
		return;
	assert(i != FAN_WSLOT_NONE); /* the log has room for something */
	make_urgent(w, i, FAN_WSLOT_PROBE);
	log_pop(w);
}

void fan_window_sent(struct fan_window *w, uint32_t i, uint64_t now_ns, unsigned what)
{
	struct fan_wslot *s = &w->slot[i];
	if (what & FAN_WSLOT_RESEND)
		s->flags |= FAN_WSLOT_AGAIN;
	assert((s->state == FAN_WSLOT_SENT) == (what != 0));
	if (!what) {
		s->state = FAN_WSLOT_SENT;
		w->in_flight++;
		s->asked = 0;
		s->turn = ++w->turns;
		w->next = s->frag + 1;
	}
	s->seq = w->seq;
	if (what != FAN_WSLOT_PROBE) {
		s->data_seq = s->seq;
		s->data_ns = now_ns;
		s->probes = 0;
	} else if (s->probes < UINT8_MAX) {
		s->probes++;
	}
	s->sent_ns = now_ns;
	if (w->log_count == w->log_size)
		make_room(w);
	assert(w->log_count < w->log_size);
	*log_at(w, w->log_count++) = (uint16_t)i;
	w->seq++;
}

void fan_window_done(struct fan_window *w, uint32_t i)
{
	struct fan_wslot *s = &w->slot[i];
	assert(s->state == FAN_WSLOT_SENT && w->in_flight > 0);
	if (s->data_seq > w->acked)
		w->acked = s->data_seq;
	fan_window_arrived(w, i);
	s->state = FAN_WSLOT_IDLE;
	s->flags &= FAN_WSLOT_URGENT | FAN_WSLOT_QUEUED;
	s->refusals = 0;
	s->frag += w->size;
	w->in_flight--;
	for (; w->slot[w->low_at].frag > w->low; w->low++)
		w->low_at = w->low_at + 1 == w->size ? 0 : w->low_at + 1;
	unsigned most = w->ahead ? GAPS_AHEAD : UINT_MAX;
	for (uint32_t old; (old = fan_window_oldest(w)) != FAN_WSLOT_NONE; log_pop(w)) {
		if (log_seq(w) + w->gap > w->acked || !most--)
			break;
		make_urgent(w, old, FAN_WSLOT_PROBE);
	}
}

/* Probe for the slot's fragment, if it is out, and insist on an answer. */
static void insist(struct fan_window *w, uint32_t i)
{
	if (w->slot[i].state != FAN_WSLOT_SENT)
		return;
	w->slot[i].probes = UINT8_MAX;
	make_urgent(w, i, FAN_WSLOT_PROBE);
}

void fan_window_expire(struct fan_window *w, unsigned most)
{
	uint32_t newest = FAN_WSLOT_NONE;
	if (w->log_count)
		newest = *log_at(w, w->log_count - 1);
	for (unsigned n = 0; n < (w->ahead ? TAIL_AHEAD : most); n++) {
		uint32_t i = fan_window_oldest(w);
		if (i == FAN_WSLOT_NONE)
			break;
		make_urgent(w, i, FAN_WSLOT_PROBE);
		log_pop(w);
	}
	insist(w, w->low_at);
	if (newest != FAN_WSLOT_NONE)
		insist(w, newest);
}

void fan_window_audit(const struct fan_window *w)
{
	uint32_t sent = 0, ready = 0, urgent = 0;
	fan_window_check(w);
	assert(!w->size || w->low_at == w->low % w->size);
	for (uint32_t i = 0; i < w->size; i++) {
		const struct fan_wslot *s = &w->slot[i];
		assert(s->frag % w->size == i && s->frag >= w->low);
		assert(s->state != FAN_WSLOT_SENT || (s->data_seq <= s->seq && s->seq < w->seq));
		assert(s->turn <= w->turns);
		assert(s->state != FAN_WSLOT_READY || s->frag >= w->search || w->ahead);
		sent += s->state == FAN_WSLOT_SENT;
		ready += (s->flags & FAN_WSLOT_QUEUED) != 0;
		urgent += (s->flags & FAN_WSLOT_URGENT) != 0;
	}
	assert(sent == w->in_flight);
	assert(ready == w->ready.count);
	assert(urgent == w->urgent.count);
	for (uint32_t n = 0; n < w->log_count; n++)
		assert(*log_at(w, n) < w->size && w->slot[*log_at(w, n)].seq >= log_seq(w) + n);
}
