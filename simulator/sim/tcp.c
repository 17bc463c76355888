/* SPDX-License-Identifier: Apache-2.0 */
/* tcp.c - a flow that competes for links as TCP does: CUBIC of RFC 9438, DCTCP of RFC 8257.
 *
 * All segments have one size.  Each transmission has a number of its own, and an acknowledgement
 * says up to which of its arrivals, in order, the receiver has reported: this is what SACK and
 * accurate ECN feedback say together.  A transmission is lost when one that was sent three later
 * has arrived, or after a timeout (RFC 6298, at least 200 ms).  Its segment is then sent again
 * before new ones.  Slow start ends by HyStart++ (RFC 9406).  There is no handshake.
 *
 * Windows are in units of 1/65536 segment, and all arithmetic is in whole numbers, the same on
 * every machine. */
#include <assert.h>
#include <stdlib.h>

#include "experiment.h"

#define SEGMENT_BYTES 1448u /* payload of a segment */
#define DATA_LEN      1472u /* as a datagram; the IP packet has 28 bytes more, 1500 */
#define ACK_LEN	      24u   /* as a datagram; IP, TCP and timestamps take 52 */
#define RING	      (4 * FAN_TCP_WINDOW_MAX)
#define ONE	      UINT64_C(65536) /* one segment */
#define MS	      UINT64_C(1000000)
#define US	      UINT64_C(1000)
#define WINDOW_FIRST  (10 * ONE)
#define WINDOW_LEAST  (2 * ONE)
#define LOST_BEHIND   3u /* later transmissions that must overtake a lost one */
#define ACK_DELAY_NS  (40 * MS)
#define RTO_MIN_NS    (200 * MS)
#define RTO_FIRST_NS  (1000 * MS)
#define BACKOFF_MAX   8u
#define SOCKET_NS     MS /* its own link's longest queue: TCP small queues */
#define ALPHA_ONE     (UINT32_C(1) << 20)
#define ALPHA_SHIFT   4 /* the gain g is 1/16 */

/* HyStart++ */
#define ROUND_SAMPLES 8u
#define CSS_ROUNDS    5u
#define CSS_DIVISOR   4u

enum sent_state { SENT_NONE, SENT_FLYING, SENT_ARRIVED, SENT_OVER };

struct fan_tcp_sent {
	uint64_t number, at_ns;
	uint8_t state; /* enum sent_state */
	bool lost;     /* its segment is to be sent again, or has been */
};

struct fan_tcp_arrival {
	uint64_t number;
	bool marked;
};

static struct fan_tcp_sent *sent_at(struct fan_tcp *t, uint64_t number)
{
	return &t->sent[number % RING];
}

/* ---- CUBIC ---- */

static uint64_t cube_root(unsigned __int128 n)
{
	uint64_t r = 0;
	for (uint64_t bit = UINT64_C(1) << 34; bit; bit >>= 1) {
		unsigned __int128 next = r | bit;
		if (next * next * next <= n)
			r |= bit;
	}
	return r;
}

/* W_cubic, `us` microseconds into the epoch: 0.4 (t - K)^3 + W_max. */
static uint64_t cubic_at(const struct fan_tcp *t, uint64_t us)
{
	__int128 d = (__int128)us - t->k_us;
	const __int128 most = 1000 * (__int128)1000000;
	d = d > most ? most : d;
	__int128 w = d * d * d * (__int128)ONE * 4 / 10 / ((__int128)1000000 * 1000000 * 1000000);
	w += t->w_max;
	return w < (__int128)WINDOW_LEAST			  ? WINDOW_LEAST
	       : w > (__int128)FAN_TCP_WINDOW_MAX * (__int128)ONE ? FAN_TCP_WINDOW_MAX * ONE
								  : (uint64_t)w;
}

static void begin_epoch(struct fan_tcp *t)
{
	t->epoch_ns = t->sim->now_ns;
	t->w_est = t->window;
	if (t->w_max < t->window)
		t->w_max = t->window;
	t->k_us = cube_root((unsigned __int128)(t->w_max - t->window) * 10 / 4 * 1000000 * 1000000 *
			    1000000 / ONE);
}

static void grow_cubic(struct fan_tcp *t, uint64_t acked)
{
	if (!t->epoch_ns)
		begin_epoch(t);
	uint64_t us = (t->sim->now_ns - t->epoch_ns) / US;
	/* 3 (1 - 0.7) / (1 + 0.7) per round trip; as Reno once past where the window was cut */
	uint64_t share = t->w_est < t->w_prior ? ONE * 9 / 17 : ONE;
	t->w_est += acked * share * ONE / t->window;
	if (cubic_at(t, us) < t->w_est) {
		t->window = t->w_est > t->window ? t->w_est : t->window;
		return;
	}
	uint64_t target = cubic_at(t, us + t->srtt_ns / US);
	if (target > t->window * 3 / 2)
		target = t->window * 3 / 2;
	if (target > t->window)
		t->window += acked * (target - t->window) * ONE / t->window;
}

static void cut_cubic(struct fan_tcp *t)
{
	t->w_prior = t->window;
	t->w_max = t->window < t->w_max ? t->window * 85 / 100 : t->window;
	t->threshold = t->window * 7 / 10;
	t->epoch_ns = 0;
}

/* ---- DCTCP ---- */

/* A window of data has been acknowledged: update alpha by how much of it was marked. */
static void end_observed(struct fan_tcp *t)
{
	uint64_t share = t->seen_marked * ALPHA_ONE / (t->seen ? t->seen : 1);
	t->alpha = (uint32_t)(t->alpha - (t->alpha >> ALPHA_SHIFT) + (share >> ALPHA_SHIFT));
	t->alpha_sum += t->alpha;
	t->alphas++;
	t->seen = t->seen_marked = 0;
	t->seen_end = t->next;
}

/* ---- the window ---- */

/* Reduce the window: something was lost or marked that was sent after the last reduction. */
static void cut(struct fan_tcp *t, uint64_t number, bool marked)
{
	if (number < t->recover)
		return;
	t->recover = t->next;
	t->stats.cuts++;
	if (t->cfg->kind == FAN_TCP_CUBIC)
		cut_cubic(t);
	else if (marked)
		t->threshold = t->window - t->window * t->alpha / (2 * ALPHA_ONE);
	else
		t->threshold = t->window / 2;
	if (t->threshold < WINDOW_LEAST)
		t->threshold = WINDOW_LEAST;
	t->window = t->threshold;
}

/* End a round.  If delays rise in slow start, it goes on slowly for some rounds and then ends. */
static void end_round(struct fan_tcp *t)
{
	t->round_end = t->next;
	t->last_min_ns = t->round_min_ns;
	t->round_min_ns = FAN_SIM_NEVER;
	t->samples = 0;
	if (t->css && ++t->css > CSS_ROUNDS)
		t->threshold = t->window;
}

static void look_at_delay(struct fan_tcp *t, uint64_t rtt_ns)
{
	t->round_min_ns = rtt_ns < t->round_min_ns ? rtt_ns : t->round_min_ns;
	if (++t->samples < ROUND_SAMPLES || t->last_min_ns == FAN_SIM_NEVER)
		return;
	uint64_t more_ns = t->last_min_ns / 8;
	more_ns = more_ns < 4 * MS ? 4 * MS : more_ns > 16 * MS ? 16 * MS : more_ns;
	if (t->css && t->round_min_ns < t->css_base_ns) {
		t->css = 0;
	} else if (!t->css && t->round_min_ns >= t->last_min_ns + more_ns) {
		t->css = 1;
		t->css_base_ns = t->round_min_ns;
	}
}

/* Grow the window: `acked` segments have been acknowledged. */
static void grow(struct fan_tcp *t, uint64_t acked, uint64_t rtt_ns)
{
	if (t->window < t->threshold) {
		look_at_delay(t, rtt_ns);
		if (t->limited)
			t->window += acked * ONE / (t->css ? CSS_DIVISOR : 1);
		if (t->window > t->threshold)
			t->window = t->threshold;
	} else if (!t->limited) {
		t->epoch_ns = 0; /* the sender's own link is the limit */
	} else if (t->cfg->kind == FAN_TCP_CUBIC) {
		grow_cubic(t, acked);
	} else {
		t->window += acked * ONE * ONE / t->window;
	}
	if (t->window > FAN_TCP_WINDOW_MAX * ONE)
		t->window = FAN_TCP_WINDOW_MAX * ONE;
}

/* ---- the sender ---- */

static uint64_t rto_ns(const struct fan_tcp *t)
{
	uint64_t ns = t->srtt_ns ? t->srtt_ns + 4 * t->rttvar_ns : RTO_FIRST_NS;
	return (ns < RTO_MIN_NS ? RTO_MIN_NS : ns) << t->backoff;
}

static void transmit(struct fan_tcp *t)
{
	struct fan_sim *s = t->sim;
	const struct fan_sim_packet p = {
		.from = t->source, .to = t->sink, .len = DATA_LEN, .number = (uint32_t)t->next};
	*sent_at(t, t->next) = (struct fan_tcp_sent){t->next, s->now_ns, SENT_FLYING, false};
	t->next++;
	t->flying++;
	t->stats.sent++;
	if (t->owed) {
		t->owed--;
		t->stats.resent++;
	} else if (t->fresh != UINT64_MAX) {
		t->fresh--;
	}
	if (t->flying == 1)
		t->rto_at_ns = s->now_ns + rto_ns(t);
	fan_sim_send(s, &p, true);
}

/* The time that its own link needs for what waits before it. */
static uint64_t waits_ns(const struct fan_tcp *t)
{
	uint32_t link = fan_sim_hop(t->sim, t->sim->actor[t->source].node, t->source, t->sink);
	uint64_t now_ps = t->sim->now_ns * US;
	assert(link != FAN_SIM_NONE);
	const struct fan_sim_link *l = &t->sim->link[link];
	return l->busy_ps > now_ps ? (l->busy_ps - now_ps) / US : 0;
}

/* Send as much as the window and its own link's queue allow. */
static void send_more(struct fan_tcp *t)
{
	t->resume_ns = FAN_SIM_NEVER;
	while ((t->owed || t->fresh) && !t->over) {
		t->limited = (t->flying + 1) * ONE > t->window;
		if (t->limited || t->next - t->first >= RING / 2)
			break;
		uint64_t wait_ns = waits_ns(t);
		if (wait_ns > SOCKET_NS) {
			t->resume_ns = t->sim->now_ns + wait_ns - SOCKET_NS / 2;
			break;
		}
		transmit(t);
	}
}

static void end(struct fan_tcp *t)
{
	t->over = true;
	t->end_ns = t->sim->now_ns;
	t->sim->awaited -= t->awaited;
}

static void put_back(struct fan_tcp *t, struct fan_tcp_sent *x)
{
	x->lost = true;
	t->flying--;
	t->owed++;
	cut(t, x->number, false);
}

/* Take transmissions that enough others have overtaken for lost. */
static void find_lost(struct fan_tcp *t, uint64_t highest)
{
	for (; t->first + LOST_BEHIND <= highest; t->first++) {
		struct fan_tcp_sent *x = sent_at(t, t->first);
		if (x->state != SENT_OVER && !x->lost)
			put_back(t, x);
	}
	while (t->first < t->next && sent_at(t, t->first)->state == SENT_OVER)
		t->first++;
}

static void take_rtt(struct fan_tcp *t, uint64_t rtt)
{
	uint64_t off = rtt > t->srtt_ns ? rtt - t->srtt_ns : t->srtt_ns - rtt;
	if (!t->srtt_ns) {
		t->srtt_ns = rtt;
		t->rttvar_ns = rtt / 2;
		return;
	}
	t->rttvar_ns = (3 * t->rttvar_ns + off) / 4;
	t->srtt_ns = (7 * t->srtt_ns + rtt) / 8;
}

/* The receiver has reported one more arrival.  True: its segment was missing until then. */
static bool take_arrival(struct fan_tcp *t, const struct fan_tcp_arrival *a)
{
	struct fan_tcp_sent *x = sent_at(t, a->number);
	bool counts = !x->lost || t->owed;
	x->state = SENT_OVER;
	if (!x->lost)
		t->flying--;
	else if (t->owed)
		t->owed--; /* it was late, not lost */
	t->seen++;
	t->seen_marked += a->marked;
	t->stats.marked += a->marked;
	if (a->marked)
		cut(t, a->number, true);
	return counts;
}

static void source_recv(void *self, const struct fan_sim_packet *p)
{
	struct fan_tcp *t = self;
	uint32_t count = p->number - (uint32_t)t->told;
	uint64_t acked = 0, highest = 0, highest_ns = 0;
	if (count == 0 || count > t->arrivals - t->told || t->over)
		return; /* an older acknowledgement */
	uint64_t before = t->recover;
	for (; count; count--, t->told++) {
		const struct fan_tcp_arrival *a = &t->arrival[t->told % RING];
		if (a->number >= highest) {
			highest = a->number;
			highest_ns = sent_at(t, a->number)->at_ns;
		}
		acked += take_arrival(t, a);
	}
	uint64_t rtt_ns = t->sim->now_ns - highest_ns;
	take_rtt(t, rtt_ns);
	t->backoff = 0;
	t->done += acked;
	find_lost(t, highest);
	if (highest >= t->seen_end)
		end_observed(t);
	if (highest >= t->recover && t->recover == before)
		grow(t, acked, rtt_ns);
	if (highest >= t->round_end)
		end_round(t);
	t->rto_at_ns = t->flying ? t->sim->now_ns + rto_ns(t) : FAN_SIM_NEVER;
	if (t->fresh == 0 && t->owed == 0 && t->flying == 0)
		end(t);
	else
		send_more(t);
}

/* No acknowledgement came in time: all that was sent is lost. */
static void time_out(struct fan_tcp *t)
{
	t->stats.timeouts++;
	t->recover = 0;
	for (; t->first < t->next; t->first++) {
		struct fan_tcp_sent *x = sent_at(t, t->first);
		if (x->state != SENT_OVER && !x->lost)
			put_back(t, x);
	}
	t->window = ONE;
	t->backoff += t->backoff < BACKOFF_MAX;
	t->css = 0;
	t->rto_at_ns = FAN_SIM_NEVER;
}

static void source_tick(void *self)
{
	struct fan_tcp *t = self;
	uint64_t now_ns = t->sim->now_ns;
	if (now_ns >= t->cfg->stop_ns) {
		end(t);
		return;
	}
	if (now_ns >= t->rto_at_ns)
		time_out(t);
	t->begun = true;
	send_more(t);
}

static uint64_t source_deadline(void *self)
{
	const struct fan_tcp *t = self;
	if (t->over)
		return FAN_SIM_NEVER;
	uint64_t at_ns = t->begun ? t->rto_at_ns : t->cfg->start_ns;
	at_ns = t->resume_ns < at_ns ? t->resume_ns : at_ns;
	return t->cfg->stop_ns < at_ns ? t->cfg->stop_ns : at_ns;
}

/* ---- the receiver ---- */

static void acknowledge(struct fan_tcp *t)
{
	const struct fan_sim_packet p = {
		.from = t->sink, .to = t->source, .len = ACK_LEN, .number = (uint32_t)t->arrivals};
	t->untold = 0;
	t->ack_at_ns = FAN_SIM_NEVER;
	fan_sim_send(t->sim, &p, true);
}

static void sink_recv(void *self, const struct fan_sim_packet *p)
{
	struct fan_tcp *t = self;
	uint64_t number = t->next - (uint32_t)((uint32_t)t->next - p->number);
	struct fan_tcp_sent *x = sent_at(t, number);
	/* count each once, as links may duplicate, and none older than what is remembered */
	if (x->number != number || x->state != SENT_FLYING || t->arrivals - t->told >= RING)
		return;
	x->state = SENT_ARRIVED;
	bool in_order = number == t->await;
	t->await = number >= t->await ? number + 1 : t->await;
	t->arrival[t->arrivals++ % RING] =
		(struct fan_tcp_arrival){number, (p->flags & FAN_PACKET_ECN) != 0};
	if (++t->untold >= t->cfg->ack_segments || !in_order)
		acknowledge(t);
	else
		t->ack_at_ns = t->sim->now_ns + ACK_DELAY_NS;
}

static void sink_tick(void *self)
{
	acknowledge(self);
}

static uint64_t sink_deadline(void *self)
{
	return ((const struct fan_tcp *)self)->ack_at_ns;
}

static const struct fan_actor_ops source_ops = {source_recv, source_tick, source_deadline};
static const struct fan_actor_ops sink_ops = {sink_recv, sink_tick, sink_deadline};

bool fan_tcp_init(struct fan_tcp *t, struct fan_sim *s, const struct fan_scenario_tcp *c)
{
	*t = (struct fan_tcp){
		.sim = s,
		.cfg = c,
		.fresh = c->bytes ? (c->bytes + SEGMENT_BYTES - 1) / SEGMENT_BYTES : UINT64_MAX,
		.sent = calloc(RING, sizeof *t->sent),
		.arrival = calloc(RING, sizeof *t->arrival),
		.window = WINDOW_FIRST,
		.threshold = FAN_TCP_WINDOW_MAX * ONE,
		.alpha = ALPHA_ONE,
		.awaited = c->bytes || c->stop_ns != FAN_SIM_NEVER,
		.rto_at_ns = FAN_SIM_NEVER,
		.resume_ns = FAN_SIM_NEVER,
		.ack_at_ns = FAN_SIM_NEVER,
		.round_min_ns = FAN_SIM_NEVER,
		.last_min_ns = FAN_SIM_NEVER,
	};
	t->source = fan_sim_add_actor(s, c->from, t, &source_ops);
	t->sink = fan_sim_add_actor(s, c->to, t, &sink_ops);
	if (!t->sent || !t->arrival || t->source == FAN_SIM_NONE || t->sink == FAN_SIM_NONE)
		return false;
	s->awaited += t->awaited;
	fan_sim_wake(s, t->source);
	return true;
}

void fan_tcp_free(struct fan_tcp *t)
{
	free(t->sent);
	free(t->arrival);
}

json_t *fan_tcp_result(const struct fan_tcp *t)
{
	const struct fan_scenario_tcp *c = t->cfg;
	uint64_t bytes = t->done * SEGMENT_BYTES, now_ns = t->over ? t->end_ns : t->sim->now_ns;
	uint64_t took_ns = now_ns > c->start_ns ? now_ns - c->start_ns : 0;
	if (c->bytes && bytes > c->bytes)
		bytes = c->bytes;
	json_t *o = json_pack(
		"{s:s, s:s, s:s, s:f, s:o, s:I, s:f, s:I, s:I, s:I, s:I, s:I, s:f}", "from",
		c->from_name, "to", c->to_name, "kind", fan_tcp_kinds[c->kind], "start_s",
		(double)c->start_ns / 1e9, "end_s",
		t->over ? json_real((double)t->end_ns / 1e9) : json_null(), "bytes",
		(json_int_t)bytes, "gbps", took_ns ? (double)bytes * 8 / (double)took_ns : 0.0,
		"sent", (json_int_t)t->stats.sent, "retransmissions", (json_int_t)t->stats.resent,
		"timeouts", (json_int_t)t->stats.timeouts, "cuts", (json_int_t)t->stats.cuts,
		"ecn_marked", (json_int_t)t->stats.marked, "rtt_us", (double)t->srtt_ns / 1e3);
	if (c->kind == FAN_TCP_DCTCP)
		json_object_set_new(
			o, "alpha",
			json_real(t->alphas ? (double)t->alpha_sum / (double)t->alphas / ALPHA_ONE
					    : 1.0));
	return o;
}
