/* SPDX-License-Identifier: Apache-2.0 */
/* failover.c - is the switch of a connection there, and the path past one that is silent.
 *
 * A switch's slots hold nothing that cannot be requested again, and the job lives at the server: so
 * a connection whose switch is silent moves to the server itself, under the same nonce, as it moves
 * to another route of a plan.  It returns when the switch answers an ECHO.
 *
 * ECHO also shows whether a switch that brings nothing for half of alive_ms is there: an aggregator
 * behind it may have died.  The sentence about the end blames it only if it does not answer.  The
 * same holds for one that does not answer a JOIN: it may have another key. */
#include "connection.h"
#include "core/base/awake.h"
#include "net/clock.h"

#define SILENT_BEATS 3		     /* heartbeats without an answer, until a path is given up */
#define STAY_NS	     (2000 * FAN_MS) /* at the server, though the switch answers */

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

void fan_failover_came(struct fan_connection *cn, uint64_t now_ns)
{
	struct fan_failover *f = &cn->failover;
	const struct fan_welcome *m = fan_worker_welcome(cn->w);
	const uint64_t wait_ns = (m ? m->alive_ms / 2 : FAN_FAILOVER_JOIN_MS) * FAN_MS;
	f->heard_ns = now_ns;
	f->answered = false;
	if (!f->at_server)
		f->echo = (struct fan_echo_asker){.due_ns = wait_ns ? now_ns + wait_ns : 0};
}

bool fan_failover_heard(struct fan_failover *f, const uint8_t *pkt, size_t len)
{
	bool heard = fan_echo_heard(&f->echo, pkt, len, NULL) >= 0;
	f->answered |= heard;
	return heard;
}

/* The socket to the switch is kept: a switch whose server is gone answers another one with WHO, as
 * if it could bring sums.  If there is no socket, try again after as much silence. */
static void take_path(struct fan_connection *cn, bool at_server, uint64_t now_ns)
{
	struct fan_failover *f = &cn->failover;
	f->heard_ns = now_ns;
	if (at_server && fan_connection_dial(&cn->server_addr, &f->aside)) {
		f->aside.fd = -1;
		return;
	}
	bool taken = !fan_connection_go_on_by(cn, &f->aside, 0, now_ns);
	if (taken != at_server) /* the one to the server */
		fan_udp_close(&f->aside);
	if (!taken)
		return;
	f->at_server = at_server;
	f->stay_ns = now_ns + STAY_NS;
	if (at_server)
		f->echo = (struct fan_echo_asker){.due_ns = now_ns};
}

static void ask(struct fan_connection *cn, uint64_t now_ns)
{
	struct fan_failover *f = &cn->failover;
	fan_echo_ask(&f->echo, f->at_server ? &f->aside : &cn->udp, NULL, FAN_ECHO_BYTES, now_ns);
}

/* When to ask the switch, which has not answered to join, or to nothing else for long. */
static uint64_t ask_ns(const struct fan_connection *cn)
{
	const enum fan_worker_phase phase = fan_worker_phase(cn->w);
	const bool asks =
		phase == FAN_W_READY || (phase == FAN_W_JOINING && !fan_worker_welcome(cn->w));
	return asks ? fan_echo_due(&cn->failover.echo) : UINT64_MAX;
}

void fan_failover_work(struct fan_connection *cn, uint64_t now_ns)
{
	struct fan_failover *f = &cn->failover;
	bool returns = false;
	if (now_ns >= ask_ns(cn)) {
		f->answered |= f->aside.fd >= 0 && fan_echo_receive(&f->echo, &f->aside);
		returns = f->at_server && f->answered && now_ns >= f->stay_ns;
		if (!returns)
			ask(cn, now_ns);
	}
	if (!has_choice(cn))
		return;
	if (!f->heard_ns)
		f->heard_ns = now_ns;
	discount_sleep(f, beat_ns(cn), now_ns);
	const bool ends = !f->at_server && fan_worker_path_ends(cn->w);
	if (returns || ends || now_ns >= silent_ns(cn))
		take_path(cn, !f->at_server, now_ns);
}

uint64_t fan_failover_deadline(const struct fan_connection *cn)
{
	const uint64_t asks_ns = ask_ns(cn),
		       choice_ns = has_choice(cn) ? silent_ns(cn) : UINT64_MAX;
	return asks_ns < choice_ns ? asks_ns : choice_ns;
}
