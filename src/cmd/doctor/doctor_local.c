/* SPDX-License-Identifier: Apache-2.0 */
/* doctor_local.c - what this machine gives a worker. */
#include <errno.h>
#include <poll.h>
#include <time.h>

#include "doctor.h"
#include "lib/host/attach.h"
#include "net/clock.h"

#define CLOCK_CALLS    10000
#define LOOP_DATAGRAMS 16
#define LOOP_WAIT_NS   (200 * FAN_MS)
#define WHY_BYTES      200

/* How long reading the clock takes, and the smallest step seen. */
static json_t *clock_json(void)
{
	struct timespec res = {0, 0};
	uint64_t begin = fan_clock_ns(), last = begin, now = begin, step_ns = UINT64_MAX;

	for (unsigned i = 0; i < CLOCK_CALLS; i++) {
		now = fan_clock_ns();
		if (now != last && now - last < step_ns)
			step_ns = now - last;
		last = now;
	}
	clock_getres(CLOCK_MONOTONIC, &res);
	return json_pack("{s:I, s:I, s:I}", "resolution_ns", (json_int_t)res.tv_nsec, "reading_ns",
			 (json_int_t)((now - begin) / CLOCK_CALLS), "step_ns",
			 (json_int_t)(step_ns < INT64_MAX ? step_ns : INT64_MAX));
}

/* Send a batch through two sockets of this machine.  Returns how many datagrams arrived; stores the
 * number of receives. */
static unsigned loop(struct fan_udp *from, struct fan_udp *to, unsigned *receives)
{
	static uint8_t buffer[FAN_UDP_RECV_BYTES], body[FAN_PAYLOAD_1500];
	struct fan_out_item item[LOOP_DATAGRAMS];
	struct fan_out out;
	struct fan_udp_batch b;
	unsigned came = 0;
	uint64_t end_ns = fan_clock_ns() + LOOP_WAIT_NS;

	fan_out_init(&out, item, LOOP_DATAGRAMS, NULL, 0);
	for (unsigned i = 0; i < LOOP_DATAGRAMS; i++) {
		struct fan_frag h = {.type = FAN_TYPE_QUERY, .topic = FAN_TOPIC_ECHO, .nonce = i};
		fan_ctl_finish(fan_out_add(&out, FAN_TO_PEER), &h, body, sizeof body);
	}
	fan_udp_send(from, &out, true);
	*receives = 0;
	while (came < LOOP_DATAGRAMS && fan_clock_ns() < end_ns) {
		struct pollfd p = {to->fd, POLLIN, 0};
		poll(&p, 1, fan_clock_timeout_ms(end_ns, -1));
		if (fan_udp_recv(to, buffer, &b) != 1)
			continue;
		++*receives;
		struct fan_frag f;
		for (size_t at = 0; at < b.bytes; at += fan_udp_datagram_bytes(&b, at))
			came += fan_wire_get(&f, buffer + at, fan_udp_datagram_bytes(&b, at)) < 0;
	}
	return came;
}

/* A batch over the loopback interface. */
static json_t *offload_json(void)
{
	struct fan_udp_options o = {.buffer_bytes = 1 << 20};
	struct fan_udp from, to;
	char why[ARGS_WHY_BYTES];
	unsigned receives;

	fan_peer_parse(&o.bind, "127.0.0.1:0", why, sizeof why);
	int e = fan_udp_open(&to, &o);
	if (!e) {
		o.bind = (fan_peer){{0, 0}, 0, 0};
		o.connect = fan_udp_local(&to);
		e = fan_udp_open(&from, &o);
		if (e)
			fan_udp_close(&to);
	}
	if (e)
		return json_pack("{s:i}", "error", -e);
	const unsigned came = loop(&from, &to, &receives);
	json_t *all = json_pack("{s:b, s:b, s:i, s:i, s:I, s:i}", "segment", from.segment, "gro",
				to.gro, "datagrams", LOOP_DATAGRAMS, "came", (int)came, "sends",
				(json_int_t)from.sends, "receives", (int)receives);
	fan_udp_close(&from);
	fan_udp_close(&to);
	return all;
}

void doctor_print_machine(void)
{
	char why[WHY_BYTES] = "";
	const bool shares = fan_host_can_attach(2, why, sizeof why);

	doctor_line("machine", json_pack("{s:s, s:i, s:o, s:o, s:o, s:o, s:b, s:o}", "version",
					 FAN_BUILD_VERSION, "protocol", FAN_WIRE_VERSION, "library",
					 doctor_library_json(), "clock", clock_json(), "socket",
					 doctor_socket_json(), "offload", offload_json(),
					 "shares_memory", shares, "no_memory", doctor_text(why)));
}
