/* SPDX-License-Identifier: Apache-2.0 */
#include "echo.h"

#include <assert.h>
#include <errno.h>
#include <poll.h>

#include "clock.h"
#include "udp.h"

#define BUFFER_BYTES 65536
#define BATCHES_MAX  16 /* read from one socket at a time */

void fan_echo_put_question(struct fan_echo_asker *a, struct fan_out *out, const fan_peer *to,
			   const uint8_t *body, size_t bytes)
{
	struct fan_out_item *item = fan_out_add(out, FAN_TO_PEER);
	if (!item)
		return;
	if (!a->asked)
		a->nonce = fan_clock_nonce();
	struct fan_frag h = {.nonce = a->nonce + a->asked++,
			     .sender = FAN_RANK_NONE,
			     .type = FAN_TYPE_QUERY,
			     .topic = FAN_TOPIC_ECHO};
	if (to)
		item->peer = *to;
	fan_ctl_finish(item, &h, body, bytes);
}

void fan_echo_ask(struct fan_echo_asker *a, struct fan_udp *udp, const fan_peer *to, size_t bytes,
		  uint64_t now_ns)
{
	static const uint8_t zeros[FAN_ECHO_MAX]; /* an answer as long as the question */
	struct fan_out_item item;
	struct fan_out out;
	assert(bytes >= FAN_ECHO_BYTES && bytes <= FAN_HEAD_BYTES + sizeof zeros);
	fan_out_init(&out, &item, 1, NULL, 0);
	fan_echo_put_question(a, &out, to, zeros, bytes - FAN_HEAD_BYTES);
	fan_udp_send(udp, &out, !to);
	a->due_ns = now_ns + FAN_ECHO_MS * FAN_MS;
}

int64_t fan_echo_heard(const struct fan_echo_asker *a, const uint8_t *pkt, size_t len,
		       struct fan_echoed *who)
{
	struct fan_frag f;
	if (!a->asked || len < FAN_HEAD_BYTES || pkt[1] != FAN_TYPE_REPORT ||
	    fan_wire_nonce(pkt) - a->nonce >= a->asked || fan_wire_get(&f, pkt, len) >= 0 ||
	    f.topic != FAN_TOPIC_ECHO)
		return -1;
	struct fan_echoed any = {0};
	if (fan_ctl_get_body(FAN_BODY_ECHOED, who ? who : &any, &f) != FAN_OK)
		return -1;
	return (int64_t)(f.nonce - a->nonce);
}

bool fan_echo_receive(const struct fan_echo_asker *a, struct fan_udp *udp)
{
	uint8_t buffer[FAN_UDP_RECV_BYTES];
	struct fan_udp_batch b;
	bool heard = false;
	for (int i = 0; i < BATCHES_MAX && fan_udp_recv(udp, buffer, &b) > 0; i++)
		for (size_t at = 0; at < b.bytes; at += fan_udp_datagram_bytes(&b, at))
			heard |= fan_echo_heard(a, buffer + at, fan_udp_datagram_bytes(&b, at),
						NULL) >= 0;
	return heard;
}

/* Wait until all have answered, or the next question is due. */
static void receive_all(const struct fan_echo_asker *a, struct fan_udp *u, unsigned count,
			bool *answers, uint64_t until_ns)
{
	for (;;) {
		struct pollfd p[FAN_ECHO_PEERS_MAX];
		bool all = true;
		for (unsigned i = 0; i < count; i++) {
			p[i] = (struct pollfd){.fd = answers[i] ? -1 : u[i].fd, .events = POLLIN};
			all &= p[i].fd < 0;
		}
		if (all || fan_clock_ns() >= until_ns ||
		    (poll(p, count, fan_clock_timeout_ms(until_ns, -1)) < 0 && errno != EINTR))
			return;
		for (unsigned i = 0; i < count; i++)
			if (p[i].fd >= 0 && p[i].revents)
				answers[i] = fan_echo_receive(&a[i], &u[i]);
	}
}

void fan_echo_all(const fan_peer *at, unsigned count, bool *answers)
{
	struct fan_udp u[FAN_ECHO_PEERS_MAX];
	struct fan_echo_asker a[FAN_ECHO_PEERS_MAX] = {{0}};
	assert(count <= FAN_ECHO_PEERS_MAX);
	for (unsigned i = 0; i < count; i++) {
		struct fan_udp_options o = {.connect = at[i], .buffer_bytes = BUFFER_BYTES};
		answers[i] = false;
		if (!at[i].port || fan_udp_open(&u[i], &o))
			u[i].fd = -1;
	}
	for (int try = 0; try < FAN_ECHO_TRIES; try++) {
		const uint64_t now_ns = fan_clock_ns();
		for (unsigned i = 0; i < count; i++)
			if (u[i].fd >= 0 && !answers[i])
				fan_echo_ask(&a[i], &u[i], NULL, FAN_ECHO_BYTES, now_ns);
		receive_all(a, u, count, answers, now_ns + FAN_ECHO_MS * FAN_MS);
	}
	for (unsigned i = 0; i < count; i++)
		if (u[i].fd >= 0)
			fan_udp_close(&u[i]);
}
