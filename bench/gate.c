/* SPDX-License-Identifier: Apache-2.0 */
/* gate.c - what a sealed job costs a switch's core, a packet, on one core, for bench/sealed.
 *
 *     build/bench/bench-gate      "NAME NANOSECONDS" a line; the least of 20 runs each
 *
 * Packets are of MTU 1500, made by a rank's end before the clock starts. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "core/wire/ctlmsg.h"
#include "seal/cipher.h"
#include "seal/gate.h"
#include "seal/rank.h"

#define RUNS	20
#define PACKETS 256
#define BATCH	32 /* results that leave at once */
#define PAYLOAD 1344
#define ROOM	1536

static uint8_t packet[PACKETS][ROOM], copy[PACKETS][ROOM], space[ROOM * 2];
static uint8_t payload[PAYLOAD], scratch[64 * 512];
static size_t length[PACKETS];
static struct fan_out_item item[64];
static struct fan_out out;
static struct fan_gate *gate;
static struct fan_seal_rank rank;
static const fan_peer peer = {.addr = {1, 2}, .port = 3};
static const uint32_t job = 0x100, epoch = 7;

static double now_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec * 1e9 + (double)t.tv_nsec;
}

static void put(struct fan_out_item *it, struct fan_frag *f, const uint8_t *body, size_t bytes)
{
	it->peer = peer;
	f->payload = it->payload = body;
	f->payload_bytes = it->payload_bytes = bytes;
	fan_wire_put(it->head, f);
}

static size_t make_join(uint8_t *to, struct fan_seal_rank *by, const char *name)
{
	uint8_t body[FAN_CTL_BYTES_MAX];
	struct fan_join m = {
		.ranks = 8, .payload_bytes = PAYLOAD, .alive_ms = 10000, .name_bytes = 5};
	struct fan_frag f = {.type = FAN_TYPE_JOIN, .sender = 1, .nonce = 99};

	memcpy(m.name, name, 5);
	put(&item[0], &f, body, fan_ctl_put(body, &m));
	fan_seal_rank_item(by, 0, &item[0], space);
	return fan_out_item_copy(&item[0], to);
}

/* What the node would answer. */
static void welcome(void)
{
	uint8_t body[FAN_CTL_BYTES_MAX], pkt[ROOM];
	const struct fan_welcome m = {.window = 64, .shards = 1, .beat_ms = 100, .alive_ms = 1000};
	struct fan_frag f = {.type = FAN_TYPE_WELCOME,
			     .job = job,
			     .epoch = epoch,
			     .sender = FAN_RANK_NONE,
			     .nonce = 99};

	fan_out_init(&out, item, 64, scratch, sizeof scratch);
	put(fan_out_add(&out, FAN_TO_PEER), &f, body, fan_ctl_put(body, &m));
	fan_gate_answer(gate, &out);
	size_t len = fan_out_item_copy(&item[0], pkt);
	if (!fan_seal_rank_recv(&rank, 0, pkt, len))
		abort();
	fan_gate_send(gate, 0, &out);
	fan_out_reset(&out);
}

static void make_data(unsigned i)
{
	struct fan_frag f = {.type = FAN_TYPE_DATA,
			     .job = job,
			     .epoch = epoch,
			     .sender = 1,
			     .frag = i,
			     .count = PAYLOAD / 4};

	put(&item[0], &f, payload, PAYLOAD);
	if (!fan_seal_rank_item(&rank, 0, &item[0], space))
		abort();
	length[i] = fan_out_item_copy(&item[0], packet[i]);
}

static void make_all(void)
{
	for (unsigned i = 0; i < PACKETS; i++)
		make_data(i);
}

static bool taken;

/* Nanoseconds that the gate takes for one of the packets. */
static double receive(void)
{
	memcpy(copy, packet, sizeof copy);
	double since = now_ns();
	for (unsigned i = 0; i < PACKETS; i++)
		taken &= fan_gate_recv(gate, 0, &peer, copy[i], length[i], &out) != 0;
	return (now_ns() - since) / PACKETS;
}

static double seal_result(void)
{
	struct fan_frag f = {.type = FAN_TYPE_RESULT,
			     .job = job,
			     .epoch = epoch,
			     .sender = FAN_RANK_NONE,
			     .count = PAYLOAD / 4};
	double spent = 0;

	for (unsigned i = 0; i < PACKETS / BATCH; i++) { /* to read the clock takes time, too */
		for (unsigned k = 0; k < BATCH; k++)
			put(fan_out_add(&out, FAN_TO_PEER), &f, payload, PAYLOAD);
		double since = now_ns();
		fan_gate_send(gate, 0, &out);
		spent += now_ns() - since;
		fan_out_reset(&out);
	}
	return spent / PACKETS;
}

static void tell(const char *name, double (*f)(void), void (*before)(void), bool expected)
{
	double best = 1e18;

	for (unsigned r = 0; r < RUNS; r++) {
		if (before)
			before();
		taken = true;
		double each = f();
		if (f == receive && taken != expected)
			abort();
		best = each < best ? each : best;
	}
	printf("%s %.0f\n", name, best);
}

static void forge(void)
{
	make_all();
	for (unsigned i = 0; i < PACKETS; i++)
		packet[i][60] ^= 1;
}

static void in_clear(void)
{
	make_all();
	for (unsigned i = 0; i < PACKETS; i++)
		fan_put16(packet[i] + 2, 0);
}

static void nobodys(void)
{
	make_all();
	for (unsigned i = 0; i < PACKETS; i++)
		packet[i][8] ^= 1; /* epoch */
}

static void forge_joins(const char *name)
{
	struct fan_seal_rank other;
	const uint8_t key[FAN_KEY_BYTES] = {13};

	fan_seal_rank_init(&other, fan_cipher_gcrypt(), key);
	for (unsigned i = 0; i < PACKETS; i++) {
		char own[8];
		if (name)
			snprintf(own, sizeof own, "%s", name);
		else
			snprintf(own, sizeof own, "m%04u", i % 10000);
		length[i] = make_join(packet[i], &other, own);
	}
}

/* Of a tenant whose key is at hand; of one whose key has to be made; each of another one. */
static void forged_joins(void)
{
	forge_joins("alice");
}

static void forged_joins_of_others(void)
{
	forge_joins("mallo");
}

static void forged_joins_of_many(void)
{
	forge_joins(NULL);
}

int main(void)
{
	struct fan_gate_config c = {.cipher = fan_cipher_gcrypt(),
				    .keys = {.count = 1, .key = {{1}}},
				    .payload_bytes = PAYLOAD,
				    .items = 64};
	uint8_t key[FAN_KEY_BYTES];

	gate = fan_gate_new(&c);
	fan_tenant_key(c.cipher, key, c.keys.key[0], "alice", 5);
	fan_seal_rank_init(&rank, c.cipher, key);
	fan_out_init(&out, item, 64, scratch, sizeof scratch);
	length[0] = make_join(packet[0], &rank, "alice");
	if (!fan_gate_recv(gate, 0, &peer, packet[0], length[0], &out))
		abort();
	welcome();
	tell("open", receive, make_all, true);
	tell("replayed", receive, NULL, false);
	tell("forged", receive, forge, false);
	tell("clear", receive, in_clear, false);
	tell("nobodys", receive, nobodys, false);
	tell("seal", seal_result, NULL, true);
	tell("forged_join", receive, forged_joins, false);
	tell("forged_join_of_another", receive, forged_joins_of_others, false);
	tell("forged_join_of_many", receive, forged_joins_of_many, false);
	fan_gate_free(gate);
	fan_seal_rank_free(&rank);
	return 0;
}
