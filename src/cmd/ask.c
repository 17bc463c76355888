/* SPDX-License-Identifier: Apache-2.0 */
#include "ask.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>

#include "args.h"
#include "net/clock.h"

#define TRIES	     5 /* questions before a switch counts as silent */
#define ANSWER_MS    200
#define BUFFER_BYTES (256 * 1024)
#define STRAYS_MAX   64 /* datagrams without an answer, before the question is repeated */

static uint8_t buffer[FAN_UDP_RECV_BYTES];

int ask_open(struct ask_talk *t, const fan_peer *at, unsigned shard)
{
	struct fan_udp_options o = {.connect = *at, .buffer_bytes = BUFFER_BYTES};

	o.connect.port += shard;
	fan_peer_text(&o.connect, t->at, sizeof t->at);
	return fan_udp_open(&t->udp, &o);
}

static void put(struct ask_talk *t, const struct ask_question *w, uint64_t nonce)
{
	struct fan_out_item item;
	struct fan_out out;
	uint8_t scratch[FAN_CTL_BYTES_MAX + FAN_REPORT_BYTES];
	struct fan_query q = {.index = w->index, .first = w->first};
	struct fan_frag h = {.type = FAN_TYPE_QUERY,
			     .topic = (uint8_t)w->topic,
			     .sender = FAN_RANK_NONE,
			     .nonce = nonce};

	fan_out_init(&out, &item, 1, scratch, sizeof scratch);
	struct fan_out_item *it = fan_out_add(&out, FAN_TO_PEER);
	fan_ctl_finish(it, &h, scratch, fan_query_put(scratch, &q));
	fan_udp_send(&t->udp, &out, true);
}

static bool is_answer(const struct ask_question *w, const struct fan_frag *f)
{
	if (f->type != FAN_TYPE_REPORT || f->topic != w->topic)
		return false;
	if (w->job)
		return fan_report_get(w->job, f) == FAN_OK;
	if (w->ranks)
		return fan_rank_stats_get(w->ranks, f) == FAN_OK && w->ranks->index == w->index &&
		       w->ranks->first == w->first;
	if (w->helpers)
		return fan_helper_stats_get(w->helpers, f) == FAN_OK &&
		       w->helpers->index == w->index && w->helpers->first == w->first;
	return fan_slot_stats_get(w->slots, f) == FAN_OK;
}

/* Is one of the datagrams of the batch the answer to `nonce`? */
static bool answers(const struct fan_udp_batch *b, uint64_t nonce, const struct ask_question *w)
{
	struct fan_frag f;

	for (size_t at = 0; at < b->bytes; at += fan_udp_datagram_bytes(b, at))
		if (fan_wire_get(&f, buffer + at, fan_udp_datagram_bytes(b, at)) < 0 &&
		    f.nonce == nonce && is_answer(w, &f))
			return true;
	return false;
}

int ask_once(struct ask_talk *t, const struct ask_question *w)
{
	uint64_t nonce = fan_clock_nonce();
	struct pollfd p = {t->udp.fd, POLLIN, 0};
	struct fan_udp_batch b;
	uint64_t end = fan_clock_ns() + ANSWER_MS * FAN_MS;

	put(t, w, nonce);
	for (unsigned i = 0; i < STRAYS_MAX; i++) {
		int n = fan_udp_recv(&t->udp, buffer, &b);
		if (n == -ECONNREFUSED)
			return -1;
		if (n == 1 && answers(&b, nonce, w))
			return 1;
		int wait = fan_clock_timeout_ms(end, -1);
		if (wait == 0)
			return 0;
		if (n == 0)
			poll(&p, 1, wait);
	}
	return 0;
}

bool ask_times(struct ask_talk *t, const struct ask_question *w, unsigned tries)
{
	int n = 0;

	for (unsigned i = 0; i < tries && n != 1; i++)
		n = ask_once(t, w);
	return n == 1;
}

int ask_until(struct ask_talk *t, const struct ask_question *w, char *why)
{
	bool refused = false;

	for (unsigned i = 0; i < TRIES; i++) {
		int n = ask_once(t, w);
		if (n == 1)
			return 0;
		if (n < 0) {
			refused = true;
			poll(NULL, 0, ANSWER_MS);
		}
	}
	snprintf(why, ARGS_WHY_BYTES,
		 refused ? "%s: ICMP reports that nothing listens there; does `fanin switch` run, "
			   "and on this port?"
			 : "%s: no answer within %d ms; is it a switch, and does a firewall drop "
			   "UDP?",
		 t->at, TRIES * ANSWER_MS);
	return -1;
}
