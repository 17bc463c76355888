/* SPDX-License-Identifier: Apache-2.0 */
/* fuzz_small.c - targets that are one function: meson.build chooses one by its name, FUZZ_NAME. */
#include <stdio.h>

#include "fuzz.h"

#if defined FUZZ_key_file
/* The text of a key file.  What is taken has keys that are not zero, and reads the same when it is
 * written anew; what is not says so without what is in it. */
#include "seal/key_file.h"

#define WHY_MAX 120

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static const uint8_t zeros[FAN_KEY_BYTES];
	char why[WHY_MAX + 1], text[FAN_KEYS_MAX * (FAN_KEY_TEXT_BYTES + 1)];
	struct fan_keys k, again;
	size_t bytes = 0;
	memset(why, 'w', sizeof why);
	int e = fan_key_text_read(&k, (const char *)data, size, "keys", why, WHY_MAX);
	FUZZ_CHECK(why[WHY_MAX] == 'w');
	FUZZ_CHECK(e == 0 || e == -1);
	if (e) {
		FUZZ_CHECK(memchr(why, '\0', WHY_MAX));
		FUZZ_CHECK(!memcmp(why, "keys:", 5));
		return 0;
	}
	FUZZ_CHECK(k.count >= 1 && k.count <= FAN_KEYS_MAX);
	for (unsigned i = 0; i < FAN_KEYS_MAX && i < k.count; i++) { /* gcc 14 wants both */
		FUZZ_CHECK(memcmp(k.key[i], zeros, sizeof zeros) != 0);
		fan_key_text(text + bytes, k.key[i]);
		bytes += FAN_KEY_TEXT_BYTES;
		text[bytes - 1] = '\n';
	}
	FUZZ_CHECK(!fan_key_text_read(&again, text, bytes, "keys", why, WHY_MAX));
	FUZZ_CHECK(again.count == k.count && !memcmp(again.key, k.key, k.count * sizeof k.key[0]));
	return 0;
}

#elif defined FUZZ_neighbours
/* Datagrams to a daemon that asks its neighbours.  The first byte of the input chooses the length
 * of the first one, and so on; all come from the address of a neighbour, which is the worst case.
 * None but an answer to one of the last questions, whose nonces are not in the input's reach, may
 * count as a sign of life. */
#include "core/wire/ctlmsg.h"
#include "core/wire/wire.h"
#include "net/neighbours.h"

#define NONCE UINT64_C(0x9e3779b97f4a7c15)

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static struct fan_neighbours n;
	struct fan_out_item item[2];
	struct fan_neighbour of[2] = {{"X", {{0, 1}, 7, 0}}, {"Y", {{0, 2}, 7, 0}}};
	struct fan_out out;
	struct fan_frag f;

	memset(&n, 0, sizeof n);
	fan_neighbours_set(&n, 1, of, 2, 0);
	fan_neighbours_turn(&n, 0);
	fan_out_init(&out, item, 2, NULL, 0);
	for (unsigned i = 0; i < 2; i++) {
		fan_neighbours_ask(&n, i, &out);
		n.of[i].echo.nonce = NONCE + i; /* which a seed may know */
	}
	for (size_t at = 0; at < size;) {
		size_t bytes = data[at++];
		bytes = bytes < size - at ? bytes : size - at;
		bool good = fan_neighbours_take(&n, &of[0].at, data + at, bytes);
		FUZZ_CHECK(!good ||
			   (fan_wire_get(&f, data + at, bytes) < 0 && f.type == FAN_TYPE_REPORT &&
			    f.topic == FAN_TOPIC_ECHO && f.nonce == NONCE));
		FUZZ_CHECK(n.of[0].answered >= good && !n.of[1].answered);
		at += bytes;
	}
	return 0;
}

#elif defined FUZZ_order_get
/* What a controller tells a daemon.  What is accepted can be installed or is refused by the
 * switch's core, and never breaks it. */
#include "core/base/err.h"
#include "net/order.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static struct fan_order o;
	static struct fan_neighbours n;
	static struct fan_route r;
	char why[FAN_ORDER_WHY_BYTES];
	int err = fan_order_get(&o, (const char *)data, size, why);

	FUZZ_CHECK((err != FAN_OK) == (why[0] != '\0'));
	if (!err && o.kind == FAN_ORDER_NEIGHBOURS) {
		FUZZ_CHECK(o.list && o.neighbours <= FAN_NEIGHBOURS_MAX);
		for (unsigned i = 0; i < o.neighbours; i++)
			FUZZ_CHECK(o.neighbour[i].name[0] && o.neighbour[i].at.port);
		fan_neighbours_set(&n, o.list, o.neighbour, o.neighbours, 0);
	}
	if (err || o.kind != FAN_ORDER_INSTALL)
		return 0;
	FUZZ_CHECK(o.numbered && o.route && o.entries >= 1 && o.entries <= FAN_ROUTE_ENTRIES_MAX);
	const struct fan_route_config c = {
		.number = o.route, .quota = o.quota, .entry = o.entry, .entries = o.entries};
	if (fan_route_set(&r, &c) == FAN_OK)
		FUZZ_CHECK(fan_route_is(&r, &c));
	return 0;
}

#elif defined FUZZ_peer_parse
/* Addresses as text, and what is nearly one; names are not looked up (fuzz.h). */
#include "net/udp.h"

#define TEXT_MAX 400
#define WHY_MAX	 120

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static const char alphabet[] = "0123456789.:[]%-/ ";
	char text[TEXT_MAX + 1], why[WHY_MAX + 1];
	size_t n = size < TEXT_MAX ? size : TEXT_MAX;
	for (size_t i = 0; i < n; i++)
		text[i] = memchr(alphabet, data[i], sizeof alphabet - 1) ? (char)data[i]
									 : alphabet[data[i] % 18];
	text[n] = '\0';
	memset(why, 'w', sizeof why);
	fan_peer p;
	int err = fan_peer_parse(&p, text, why, WHY_MAX);
	FUZZ_CHECK(why[WHY_MAX] == 'w');
	if (err)
		FUZZ_CHECK(memchr(why, '\0', WHY_MAX));
	else
		FUZZ_CHECK(p.port <= 65535);
	return 0;
}

#elif defined FUZZ_plan_msg_get
/* What a controller tells a worker.  What is accepted is within its bounds, and the parts of a
 * job are the whole of each tensor, once. */
#include "core/base/err.h"
#include "lib/base/plan_msg.h"

static void check_job(const struct fan_plan_msg *o)
{
	uint64_t next = 0;
	FUZZ_CHECK(o->parts >= 1 && o->parts <= FAN_PARTS_MAX);
	for (unsigned k = 0; k < o->parts; k++) {
		const struct fan_job_part *p = &o->part[k];
		FUZZ_CHECK(p->route && *p->name && p->gbps >= 0 && p->at.port);
		FUZZ_CHECK(p->from == next && p->to >= p->from);
		next = p->to;
	}
	FUZZ_CHECK(next == FAN_CUT_WHOLE);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static struct fan_plan_msg o;
	char why[FAN_PLAN_MSG_WHY_BYTES];
	int err = fan_plan_msg_get(&o, (const char *)data, size, "j", why);

	FUZZ_CHECK((err != FAN_OK) == (why[0] != '\0'));
	if (err)
		return 0;
	if (o.kind == FAN_PLAN_MSG_JOB)
		check_job(&o);
	if (o.kind == FAN_PLAN_MSG_MOVE)
		FUZZ_CHECK(o.number < FAN_PARTS_MAX && o.route && o.at.port);
	return 0;
}

#endif
