/* SPDX-License-Identifier: Apache-2.0 */
/* way.c - past a switch that is silent to the server behind it, and back.
 *
 * The switch's slots hold nothing that cannot be asked for again, and the job lives at the
 * server: so a lane whose switch says nothing goes on with the server itself, under the same
 * nonce.  Meanwhile it asks the switch every second, and returns when that answers. */
#include "lane.h"
#include "net/clock.h"

#define SILENT_BEATS 3 /* heartbeats without an answer, until a way is given up */
#define ASK_NS	     (1000 * FAN_MS)

static bool has_choice(const struct fan_lane *l)
{
	return !fan_peer_is_none(&l->server_addr) && fan_worker_phase(l->w) == FAN_W_READY;
}

static uint64_t silent_ns(const struct fan_lane *l)
{
	const struct fan_welcome *m = fan_worker_welcome(l->w);
	uint32_t beat_ms = m && m->beat_ms ? m->beat_ms : 1;
	return l->way.heard_ns + SILENT_BEATS * beat_ms * FAN_MS;
}

/* Tell the aggregator by which way packets come now. */
static void take_way(struct fan_lane *l, bool at_server, uint64_t now_ns)
{
	l->way.at_server = at_server;
	l->way.heard_ns = now_ns;
	l->way.ask_ns = now_ns + ASK_NS;
	l->way.moves++;
	l->refused = false;
	fan_worker_reroute(l->w, now_ns, 0);
	l->news = true;
}

/* The socket to the switch is kept, so that it is heard of when it is back. */
static void go_to_server(struct fan_lane *l, uint64_t now_ns)
{
	struct fan_udp_options o = {
		.connect = l->server_addr,
		.buffer_bytes = FAN_LANE_BUFFER_BYTES,
		.plain = l->plain,
	};
	struct fan_udp u, to_switch = l->udp;
	l->way.heard_ns = now_ns; /* if it fails: again after as long */
	if (fan_udp_open(&u, &o))
		return;
	l->udp = u;
	if (fan_lane_watch(l)) {
		l->udp = to_switch;
		fan_udp_close(&u);
		return;
	}
	fan_lane_ignore(l, &to_switch);
	l->way.aside = to_switch;
	take_way(l, true, now_ns);
}

static void go_to_switch(struct fan_lane *l, uint64_t now_ns)
{
	struct fan_udp to_server = l->udp;
	l->way.heard_ns = now_ns;
	l->udp = l->way.aside;
	if (fan_lane_watch(l)) {
		l->udp = to_server;
		return;
	}
	fan_udp_close(&to_server); /* epoll forgets it */
	l->way.aside.fd = -1;
	take_way(l, false, now_ns);
}

/* Has the switch said anything since it was asked? */
static bool switch_answers(struct fan_lane *l, struct fan_lane_io *io)
{
	struct fan_udp_batch b;
	bool any = false;
	for (int i = 0; i < FAN_LANE_BATCHES_MAX && fan_udp_recv(&l->way.aside, io->recv, &b) > 0;
	     i++)
		any = true;
	return any;
}

static void ask_switch(struct fan_lane *l, struct fan_lane_io *io)
{
	static const struct fan_echo m = {.body_bytes = FAN_ECHO_MIN};
	struct fan_frag h = {
		.nonce = fan_clock_nonce(),
		.sender = FAN_RANK_NONE,
		.type = FAN_TYPE_QUERY,
		.topic = FAN_TOPIC_ECHO,
	};
	uint8_t body[FAN_ECHO_MIN];
	struct fan_out_item *it = fan_out_add(&io->out, FAN_TO_PEER);
	fan_ctl_finish(it, &h, body, fan_echo_put(body, &m));
	fan_udp_send(&l->way.aside, &io->out, true);
}

void fan_way_choose(struct fan_lane *l, struct fan_lane_io *io, uint64_t now_ns)
{
	if (!has_choice(l))
		return;
	if (!l->way.heard_ns)
		l->way.heard_ns = now_ns;
	if (l->way.at_server && now_ns >= l->way.ask_ns) {
		if (switch_answers(l, io)) {
			go_to_switch(l, now_ns);
			return;
		}
		ask_switch(l, io);
		l->way.ask_ns = now_ns + ASK_NS;
	}
	if (now_ns < silent_ns(l))
		return;
	if (l->way.at_server)
		go_to_switch(l, now_ns);
	else
		go_to_server(l, now_ns);
}

uint64_t fan_way_deadline(const struct fan_lane *l)
{
	if (!has_choice(l))
		return UINT64_MAX;
	uint64_t at_ns = silent_ns(l);
	return l->way.at_server && l->way.ask_ns < at_ns ? l->way.ask_ns : at_ns;
}
