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

#elif defined FUZZ_topo
/* Topologies as JSON.  What is accepted can be planned without aggregation. */

#include "core/base/err.h"
#include "plan/algorithm.h"
#include "plan/eval.h"
#include "plan/topo.h"

#define NODES_PLANNED 64

static void plan(const struct fan_topo *t)
{
	struct fan_planned how = {0};
	struct fan_plan p;
	struct fan_eval e;
	struct fan_why why;

	if (t->nodes > NODES_PLANNED || t->jobs > NODES_PLANNED)
		return;
	if (fan_atp(t, &fan_plan_defaults, &p, &how))
		return;
	FUZZ_CHECK(fan_eval(&e, t, &p, &why) == FAN_OK);
	FUZZ_CHECK(e.gbps > 0);
	fan_eval_free(&e);
	fan_plan_free(&p);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct fan_topo t;
	struct fan_why why;
	json_t *root = json_loadb((const char *)data, size, JSON_REJECT_DUPLICATES, NULL);

	memset(why.text, 'w', sizeof why.text);
	int err = fan_topo_from_json(&t, root, &why);
	json_decref(root);
	if (err) {
		FUZZ_CHECK(t.nodes == 0 && !t.node && memchr(why.text, '\0', sizeof why.text));
		FUZZ_CHECK(why.text[0]);
		return 0;
	}
	plan(&t);
	fan_topo_free(&t);
	return 0;
}

#elif defined FUZZ_ctlmsg
/* Bodies of control messages: the first byte chooses the kind.  What is accepted encodes
 * to the same bytes, as far as this revision knows them, and to a message that reads the same. */
#include "core/wire/ctlmsg.h"

#define REPORT_AGE_BYTES 6u  /* age and operations, which may be absent */
#define MESSAGE_MAX	 512 /* of any struct, bytes */

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static const enum fan_body bodies[] = {
		FAN_BODY_JOIN,	      FAN_BODY_WELCOME, FAN_BODY_REFUSE,     FAN_BODY_BEAT,
		FAN_BODY_STATE,	      FAN_BODY_LEAVE,	FAN_BODY_REPORT,     FAN_BODY_QUERY,
		FAN_BODY_ECHO,	      FAN_BODY_ECHOED,	FAN_BODY_SLOT_STATS, FAN_BODY_RANK_STATS,
		FAN_BODY_HELPER_STATS};
	if (size == 0)
		return 0;
	const enum fan_body body = bodies[data[0] < 240	  ? data[0] % 8
					  : data[0] < 252 ? 8 + data[0] % 3
					  : data[0] < 254 ? 11
							  : 12];
	struct fan_frag f = {.payload = data + 1, .payload_bytes = size - 1};
	uint64_t m[MESSAGE_MAX / 8] = {0}, n[MESSAGE_MAX / 8] = {0};
	uint8_t again[FAN_ECHO_MAX];
	if (fan_ctl_get_body(body, m, &f) != FAN_OK)
		return 0;
	size_t bytes = fan_ctl_put_body(body, again, m);
	const struct fan_frag g = {.payload = again, .payload_bytes = bytes};
	FUZZ_CHECK(fan_ctl_get_body(body, n, &g) == FAN_OK && memcmp(m, n, sizeof m) == 0);
	if (body == FAN_BODY_REPORT && bytes > f.payload_bytes) /* of an older aggregator */
		bytes -= REPORT_AGE_BYTES;
	while (bytes && again[bytes - 1] == 0) /* what fills them up is not looked at */
		bytes--;
	FUZZ_CHECK(bytes <= f.payload_bytes && memcmp(again, f.payload, bytes) == 0);
	return 0;
}

#elif defined FUZZ_wire_get
/* Any datagram: what is accepted promises what it carries, and encodes to itself. */
#include "core/sum/contribution.h"
#include "core/wire/envelope.h"
#include "core/wire/run.h"

#define COMMON_BYTES 16u

static void check_bitmap(const struct fan_frag *f)
{
	struct fan_contribution p;
	uint64_t set[FAN_RANK_WORDS];
	const unsigned ranks = 2 + (unsigned)(f->frag % (FAN_RANKS_MAX - 1));
	FUZZ_CHECK(f->words >= 1 && f->words <= FAN_RANK_WORDS);
	bool named = fan_partial_ranks(set, f, ranks);
	FUZZ_CHECK(!named || (fan_ranks_first(set) < ranks && fan_ranks_count(set) >= 1));
	if (f->type == FAN_TYPE_NEED || fan_contribution_get(&p, f, ranks) >= 0)
		return;
	FUZZ_CHECK(named && fan_ranks_equal(p.ranks, set) && p.first == fan_ranks_first(set));
	FUZZ_CHECK(p.elements + p.bytes == f->payload + f->payload_bytes);
	FUZZ_CHECK(p.bytes == (f->flags & FAN_F_EMPTY ? 0 : fan_partial_acc_bytes(f)));
}

static void check_relay(const struct fan_frag *f)
{
	struct fan_envelope v;
	struct fan_frag inner;
	if (fan_envelope_get(&v, f) == FAN_OK)
		fan_wire_get(&inner, v.inner, v.inner_bytes);
}

/* What `f` says is in the header again.  Where its type has no field, zeros are written, and
 * whatever came is not looked at. */
static void check_again(const struct fan_frag *f, const uint8_t *p, size_t len)
{
	static uint8_t packet[FAN_PACKET_MAX];
	uint8_t again[FAN_HEAD_BYTES];
	struct fan_frag g;
	if (len > sizeof packet)
		return;
	memcpy(packet, p, len);
	fan_wire_put(packet, f);
	FUZZ_CHECK(memcmp(packet, p, COMMON_BYTES) == 0);
	for (size_t i = COMMON_BYTES; i < FAN_HEAD_BYTES - 4; i++)
		FUZZ_CHECK(packet[i] == p[i] || packet[i] == 0);
	FUZZ_CHECK(fan_wire_get(&g, packet, len) == -1);
	fan_wire_put(again, &g);
	FUZZ_CHECK(memcmp(again, packet, sizeof again) == 0);
}

static void check(const uint8_t *p, size_t len)
{
	struct fan_frag f;
	int why = fan_wire_get(&f, p, len);
	FUZZ_CHECK(why >= -1 && why < FAN_DROP_COUNT);
	if (why >= 0)
		return;
	FUZZ_CHECK(f.payload == p + FAN_HEAD_BYTES && f.payload_bytes == len - FAN_HEAD_BYTES);
	FUZZ_CHECK(f.type > FAN_TYPE_RESULT || fan_dtype_bytes(f.dtype) > 0);
	FUZZ_CHECK(f.to <= FAN_RANKS_MAX && f.helper <= FAN_RANKS_MAX && f.root <= FAN_RANKS_MAX);
	if (f.type == FAN_TYPE_PARTIAL || (f.type == FAN_TYPE_NEED && f.words))
		check_bitmap(&f);
	if (f.type == FAN_TYPE_RELAY)
		check_relay(&f);
	check_again(&f, p, len);
}

/* Whatever claims to be a run has a length within bounds, and what is taken out is no run. */
static void check_run(const uint8_t *p, size_t len)
{
	uint8_t head[FAN_HEAD_BYTES];
	unsigned frags = fan_run_frags(p, len);
	FUZZ_CHECK(frags >= 1 && frags <= FAN_RUN_MAX);
	for (unsigned n = 0; frags > 1 && n < frags; n++) {
		fan_run_take(head, p, n);
		FUZZ_CHECK(fan_run_frags(head, sizeof head) == 1);
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	uint8_t packet[FAN_PACKET_MAX];
	check(data, size);
	if (size > sizeof packet)
		return 0;
	memcpy(packet, data, size);
	fuzz_fix(packet, size);
	check(packet, size);
	fan_wire_is_whole(data, size);
	check_run(packet, size);
	return 0;
}

#endif
