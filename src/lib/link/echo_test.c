/* SPDX-License-Identifier: Apache-2.0 */
#include "echo_test.h"

#include <assert.h>
#include <errno.h>
#include <poll.h>
#include <string.h>

#include "core/wire/ctlmsg.h"
#include "net/clock.h"
#include "net/path_test.h"
#include "net/udp.h"

#define BUFFER_BYTES 65536
#define STRAYS_MAX   16 /* batches read from one socket at a time */

void fan_echo_ask(struct fan_udp *u, uint64_t nonce)
{
	fan_path_ask(u, NULL, nonce, FAN_HEAD_BYTES + FAN_ECHO_MIN);
}

bool fan_echo_heard(struct fan_udp *u, uint64_t nonce)
{
	uint8_t buffer[FAN_UDP_RECV_BYTES];
	struct fan_udp_batch b;
	struct fan_frag f;
	for (int i = 0; i < STRAYS_MAX && fan_udp_recv(u, buffer, &b) > 0; i++)
		for (size_t at = 0; at < b.bytes; at += fan_udp_datagram_bytes(&b, at))
			if (fan_wire_get(&f, buffer + at, fan_udp_datagram_bytes(&b, at)) < 0 &&
			    f.nonce == nonce && f.type == FAN_TYPE_REPORT &&
			    f.topic == FAN_TOPIC_ECHO)
				return true;
	return false;
}

/* Until all have answered, or the time is over. */
static void listen_for(struct fan_udp *u, unsigned count, uint64_t nonce, bool *answers)
{
	uint64_t until_ns = fan_clock_ns() + FAN_ECHO_TEST_MS * FAN_MS;
	for (;;) {
		struct pollfd p[FAN_ECHO_TEST_MAX];
		bool all = true;
		for (unsigned i = 0; i < count; i++) {
			p[i] = (struct pollfd){.fd = answers[i] ? -1 : u[i].fd, .events = POLLIN};
			all &= p[i].fd < 0;
		}
		uint64_t now_ns = fan_clock_ns();
		if (all || now_ns >= until_ns ||
		    (poll(p, count, fan_clock_timeout_ms(until_ns, -1)) < 0 && errno != EINTR))
			return;
		for (unsigned i = 0; i < count; i++)
			if (p[i].fd >= 0 && p[i].revents)
				answers[i] = fan_echo_heard(&u[i], nonce);
	}
}

void fan_echo_test(const fan_peer *at, unsigned count, bool *answers)
{
	struct fan_udp u[FAN_ECHO_TEST_MAX];
	uint64_t nonce = fan_clock_nonce();
	assert(count <= FAN_ECHO_TEST_MAX);
	for (unsigned i = 0; i < count; i++) {
		struct fan_udp_options o = {.connect = at[i], .buffer_bytes = BUFFER_BYTES};
		answers[i] = false;
		if (!at[i].port || fan_udp_open(&u[i], &o))
			u[i].fd = -1;
	}
	for (int try = 0; try < FAN_ECHO_TEST_TRIES; try++) {
		for (unsigned i = 0; i < count; i++)
			if (u[i].fd >= 0 && !answers[i])
				fan_echo_ask(&u[i], nonce);
		listen_for(u, count, nonce, answers);
	}
	for (unsigned i = 0; i < count; i++)
		if (u[i].fd >= 0)
			fan_udp_close(&u[i]);
}
