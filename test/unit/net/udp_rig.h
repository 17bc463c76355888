/* SPDX-License-Identifier: Apache-2.0 */
/* net_udp_rig.h - sockets on the loopback, numbered datagrams, and what of them arrives.
 * Loopback delivers before send returns unless the kernel has put its work off, as on a busy
 * machine: a receiver waits for as many as it is to get, at most PATIENT_MS. */
#ifndef TEST_UNIT_NET_UDP_RIG_H
#define TEST_UNIT_NET_UDP_RIG_H

#include "unit/unit.h"

#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "net/udp.h"

/* Closed where its block ends. */
#define UDP __attribute__((cleanup(fan_udp_close))) struct fan_udp

#define ITEMS	     200
#define PAYLOAD	     1408
#define MEMBERS	     4
#define BUFFER_BYTES (1 << 20)
#define PATIENT_MS   60000
#define GROUP_V4     group_of(AF_INET, 195)
#define GROUP_V6     group_of(AF_INET6, 195)

static struct fan_out_item item[ITEMS];
static uint8_t payload[ITEMS][9000];
static uint8_t buffer[FAN_UDP_RECV_BYTES];

/* Datagrams as they arrived, in order. */
struct got {
	unsigned count;
	size_t bytes[2 * ITEMS];
	unsigned number[2 * ITEMS]; /* of the item, from its header */
	bool whole[2 * ITEMS];	    /* header and payload as they were sent */
};
static struct got got;

/* A group that is this process's own: another test of sockets, or the same one under a sanitizer,
 * may run beside it on the one loopback.  The text lasts until the next call. */
static inline const char *group_of(int family, unsigned scope)
{
	static char text[80];
	unsigned id = (unsigned)getpid(), port = 20000 + id / 65536;

	if (family == AF_INET)
		snprintf(text, sizeof text, "239.%u.%u.%u:%u", scope, id / 256 % 256, id % 256,
			 port);
	else
		snprintf(text, sizeof text, "[ff15::%x:%x]:%u", scope, id % 65536, port);
	return text;
}

static inline fan_peer peer(const char *text)
{
	char why[256];
	fan_peer p;

	if (fan_peer_parse(&p, text, why, sizeof why))
		fail_msg("%s", why);
	return p;
}

static inline void open_at(struct fan_udp *u, const char *at, bool plain)
{
	struct fan_udp_options o = {.bind = peer(at), .buffer_bytes = BUFFER_BYTES, .plain = plain};
	int e = fan_udp_open(u, &o);

	if (e)
		fail_msg("%s: %s", at, strerror(-e));
}

/* Item number i: its header says so, and its payload is made of it. */
static inline struct fan_out_item *add(struct fan_out *out, enum fan_dest dest, size_t bytes)
{
	unsigned i = out->count;
	struct fan_out_item *it = fan_out_add(out, dest);

	if (!it) { /* also tells the compiler that it is not used then */
		fail_msg("no room for item %u", i);
		return NULL;
	}
	memset(it->head, 0xa5, sizeof it->head);
	memcpy(it->head, &i, sizeof i);
	for (size_t b = 0; b < bytes; b++)
		payload[i][b] = (uint8_t)(i * 7 + b);
	it->payload = bytes ? payload[i] : NULL;
	it->payload_bytes = bytes;
	return it;
}

/* Lay the first `count` items one behind the other, with their headers, but every seventh. */
static inline void lay(struct fan_out *out, unsigned count)
{
	static uint8_t space[ITEMS * sizeof payload[0]];
	uint8_t *to = space + FAN_HEAD_BYTES;

	for (unsigned i = 0; i < count; i++) {
		struct fan_out_item *it = &out->item[i];
		if (i % 7 == 6)
			continue;
		memcpy(to, it->payload, it->payload_bytes);
		it->payload = to;
		to += fan_out_item_lay(it, to);
	}
}

static inline void note(const uint8_t *p, size_t bytes)
{
	unsigned i, n = got.count++;

	assert_true(n < 2 * ITEMS);
	assert_true(bytes >= FAN_HEAD_BYTES);
	memcpy(&i, p, sizeof i);
	assert_true(i < ITEMS);
	got.bytes[n] = bytes;
	got.number[n] = i;
	size_t head = fan_out_item_bytes(&item[i]) - item[i].payload_bytes;
	got.whole[n] = memcmp(p, item[i].head, head) == 0 &&
		       memcmp(p + head, payload[i], bytes - head) == 0;
}

/* What comes next: as fan_udp_recv(). */
static inline int recv_next(struct fan_udp *u, struct fan_udp_batch *b)
{
	poll(&(struct pollfd){.fd = u->fd, .events = POLLIN}, 1, PATIENT_MS);
	return fan_udp_recv(u, buffer, b);
}

/* The `count` datagrams that are to arrive at `u` and all that is there beside them; returns how
 * many receives it took. */
static inline unsigned drain(struct fan_udp *u, unsigned count)
{
	struct fan_udp_batch b;
	unsigned calls = 0;
	int n;

	memset(&got, 0, sizeof got);
	while ((n = got.count < count ? recv_next(u, &b) : fan_udp_recv(u, buffer, &b)) == 1) {
		calls++;
		for (size_t at = 0; at < b.bytes; at += fan_udp_datagram_bytes(&b, at))
			note(buffer + at, fan_udp_datagram_bytes(&b, at));
	}
	assert_int_equal(n, 0);
	return calls;
}

/* Items first .. first+count-1 arrived whole, in order, each once. */
static inline void assert_got(unsigned count, unsigned first, size_t bytes)
{
	assert_int_equal(got.count, count);
	for (unsigned i = 0; i < count; i++) {
		assert_int_equal(got.number[i], first + i);
		assert_int_equal(got.bytes[i], bytes);
		assert_true(got.whole[i]);
	}
}

static inline void start(struct fan_out *out)
{
	fan_out_init(out, item, ITEMS, NULL, 0);
}

#endif
