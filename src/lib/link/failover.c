/* SPDX-License-Identifier: Apache-2.0 */
#include "failover.h"

#include "connection.h"
#include "core/base/awake.h"
#include "echo_test.h"
#include "net/clock.h"

#define SILENT_BEATS 3 /* heartbeats without an answer, until a path is given up */
#define ASK_NS	     (1000 * FAN_MS)

static bool has_choice(const struct fan_connection *cn)
{
	return !fan_peer_is_none(&cn->server_addr) && fan_worker_phase(cn->w) == FAN_W_READY;
}

static uint64_t beat_ns(const struct fan_connection *cn)
{
	const struct fan_welcome *m = fan_worker_welcome(cn->w);
	return (m && m->beat_ms ? m->beat_ms : 1) * FAN_MS;
}

static uint64_t silent_ns(const struct fan_connection *cn)
{
	return cn->failover.heard_ns + SILENT_BEATS * beat_ns(cn);
}

/* There is a round of the thread for each BEAT at the latest: silence counts while it is awake. */
static void discount_sleep(struct fan_failover *f, uint64_t beat_ns, uint64_t now_ns)
{
	uint64_t late_ns = f->look_ns ? fan_awake_late_ns(f->look_ns, now_ns) : 0;
	f->heard_ns = fan_awake_shift(f->heard_ns, late_ns, now_ns);
	f->look_ns = now_ns + beat_ns;
}

/* Announce the path to the aggregator. */
static void take_path(struct fan_connection *cn, bool at_server, uint64_t now_ns)
{
	cn->failover.at_server = at_server;
	cn->failover.asked = false;
	cn->failover.heard_ns = now_ns;
	cn->failover.ask_ns = now_ns + ASK_NS;
	cn->failover.moves++;
	cn->refused = false;
	fan_path_test_result(&cn->path_test);
	fan_worker_reroute(cn->w, now_ns, 0);
	cn->news = true;
}

/* Keep the socket to the switch, to notice its return. */
static void go_to_server(struct fan_connection *cn, uint64_t now_ns)
{
	struct fan_udp_options o = {
		.connect = cn->server_addr,
		.buffer_bytes = FAN_CONNECTION_BUFFER_BYTES,
	};
	struct fan_udp u, to_switch = cn->udp;
	cn->failover.heard_ns = now_ns; /* if it fails: again after as long */
	if (fan_udp_open(&u, &o))
		return;
	cn->udp = u;
	if (fan_connection_watch(cn)) {
		cn->udp = to_switch;
		fan_udp_close(&u);
		return;
	}
	fan_connection_ignore(cn, &to_switch);
	cn->failover.aside = to_switch;
	take_path(cn, true, now_ns);
}

static void go_to_switch(struct fan_connection *cn, uint64_t now_ns)
{
	struct fan_udp to_server = cn->udp;
	cn->failover.heard_ns = now_ns;
	cn->udp = cn->failover.aside;
	if (fan_connection_watch(cn)) {
		cn->udp = to_server;
		return;
	}
	fan_udp_close(&to_server); /* epoll forgets it */
	cn->failover.aside.fd = -1;
	take_path(cn, false, now_ns);
}

/* Has the switch said anything since it was asked? */
static bool switch_answers(struct fan_connection *cn, struct fan_connection_io *io)
{
	struct fan_udp_batch b;
	bool any = false;
	for (int i = 0;
	     i < FAN_CONNECTION_BATCHES_MAX && fan_udp_recv(&cn->failover.aside, io->recv, &b) > 0;
	     i++)
		any = true;
	return any;
}

void fan_failover_choose(struct fan_connection *cn, struct fan_connection_io *io, uint64_t now_ns)
{
	if (!has_choice(cn))
		return;
	if (!cn->failover.heard_ns)
		cn->failover.heard_ns = now_ns;
	discount_sleep(&cn->failover, beat_ns(cn), now_ns);
	if (!cn->failover.at_server && fan_worker_path_ends(cn->w)) {
		go_to_server(cn, now_ns);
		return;
	}
	if (cn->failover.at_server && now_ns >= cn->failover.ask_ns) {
		if (switch_answers(cn, io) && cn->failover.asked) {
			go_to_switch(cn, now_ns);
			return;
		}
		cn->failover.asked = true;
		fan_echo_ask(&cn->failover.aside, fan_clock_nonce());
		cn->failover.ask_ns = now_ns + ASK_NS;
	}
	if (now_ns < silent_ns(cn))
		return;
	if (cn->failover.at_server)
		go_to_switch(cn, now_ns);
	else
		go_to_server(cn, now_ns);
}

uint64_t fan_failover_deadline(const struct fan_connection *cn)
{
	if (!has_choice(cn))
		return UINT64_MAX;
	uint64_t at_ns = silent_ns(cn);
	return cn->failover.at_server && cn->failover.ask_ns < at_ns ? cn->failover.ask_ns : at_ns;
}
