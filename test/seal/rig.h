/* SPDX-License-Identifier: Apache-2.0 */
/* rig.h - a sealed job in virtual time: one aggregator behind its gate, some ranks, and a wire that
 * records every datagram and to which strangers may send. */
#ifndef TEST_SEAL_RIG_H
#define TEST_SEAL_RIG_H

#include "core/node/node.h"
#include "core/wire/wire.h"
#include "seal/gate.h"
#include "seal/ranks.h"
#include "toy.h"
#include "unit/unit.h"

#ifndef RIG_RANKS /* a test may want more */
#define RIG_RANKS   4
#define RIG_JOBS    8
#define RIG_MEMBERS 64
#define RIG_SLOTS   256
#define RIG_WINDOW  16
#endif
#define RIG_PAYLOAD 256
#define RIG_TAPE    20000 /* datagrams recorded */
#define RIG_BYTES   1024

struct rig_packet {
	bool up;
	unsigned rank; /* that sends or gets it */
	size_t len;
	uint8_t bytes[RIG_BYTES];
};

static struct rig {
	const struct fan_cipher *cipher;
	uint64_t now_ns, nonce;
	struct fan_node *node;
	struct fan_gate *gate; /* NULL: an open switch */
	void *mem;
	uint8_t fabric[FAN_KEY_BYTES];
	struct seal_rank rank[RIG_RANKS];
	struct rig_packet *tape;
	unsigned taped;
	unsigned lose; /* one datagram in so many; 0: none */
	struct fan_rng rng;
} rig;

static inline fan_peer rig_peer(unsigned rank)
{
	return (fan_peer){.addr = {1, rank + 1}, .port = 9};
}

static inline void rig_open(const struct fan_cipher *c, bool sealed)
{
	const struct fan_node_config cfg = {
		.has_aggregator = true,
		.aggregator = {.slots = RIG_SLOTS,
			       .payload_bytes = RIG_PAYLOAD,
			       .jobs_max = RIG_JOBS,
			       .members_max = RIG_MEMBERS,
			       .window_max = RIG_WINDOW,
			       .shards = 1,
			       .authentic = sealed,
			       .secret = {{7, 11}}},
	};
	struct rig_packet *tape = rig.tape ? rig.tape : calloc(RIG_TAPE, sizeof *tape);
	memset(&rig, 0, sizeof rig);
	toy_reset(1);
	rig.tape = tape;
	rig.cipher = c;
	rig.rng.state = 5;
	rig.now_ns = 1000 * FAN_MS;
	rig.nonce = 1000;
	memset(rig.fabric, 0x77, sizeof rig.fabric);
	rig.mem = aligned_alloc(64, (fan_node_bytes(&cfg) + 63) / 64 * 64);
	rig.node = fan_node_init(rig.mem, &cfg);
	struct fan_gate_config g = {
		.cipher = c, .keys = {.count = 1}, .payload_bytes = RIG_PAYLOAD, .items = 64};
	memcpy(g.keys.key[0], rig.fabric, FAN_KEY_BYTES);
	rig.gate = sealed ? fan_gate_new(&g) : NULL;
}

static inline void rig_close(void)
{
	for (unsigned r = 0; r < RIG_RANKS; r++)
		seal_rank_stop(&rig.rank[r]);
	fan_gate_free(rig.gate);
	free(rig.mem);
	free(rig.tape);
	memset(&rig, 0, sizeof rig);
}

/* Start a life of rank `rank` of `job` at place `r`; `tenant` is the name whose key it has, NULL:
 * none. */
static inline void rig_start_at(unsigned r, unsigned rank, unsigned ranks, const char *job,
				const char *tenant)
{
	struct fan_worker_config cfg = {.rank = (uint16_t)rank,
					.ranks = (uint16_t)ranks,
					.payload_bytes = RIG_PAYLOAD,
					.window_max = RIG_WINDOW,
					.alive_ms = 1000,
					.join_ms = 3000,
					.stall_ms = 3000,
					.nonce = ++rig.nonce};
	strcpy(cfg.name, job);
	seal_rank_start(&rig.rank[r], &cfg, rig.now_ns, rig.cipher, rig.fabric, tenant);
}

static inline void rig_tape(bool up, unsigned rank, const uint8_t *bytes, size_t len)
{
	assert_true(len <= RIG_BYTES);
	if (rig.taped == RIG_TAPE)
		return;
	struct rig_packet *p = &rig.tape[rig.taped++];
	p->up = up;
	p->rank = rank;
	p->len = len;
	memcpy(p->bytes, bytes, len);
}

static inline bool rig_is_lost(void)
{
	return rig.lose && fan_rng_below(&rig.rng, rig.lose) == 0;
}

/* The same at the place of its number. */
static inline void rig_start_rank(unsigned r, unsigned ranks, const char *job, const char *tenant)
{
	rig_start_at(r, r, ranks, job, tenant);
}

/* A datagram gets to rank `r`. */
static inline enum fan_verdict rig_to_rank(unsigned r, const uint8_t *bytes, size_t len,
					   bool by_group)
{
	struct seal_rank *k = &rig.rank[r];
	uint8_t copy[RIG_BYTES];
	if (!k->w)
		return FAN_DROP;
	memcpy(copy, bytes, len);
	if (k->sealed && !(len = fan_seal_rank_recv(&k->seal, rig.now_ns, copy, len)))
		return FAN_DROP;
	return fan_worker_recv(k->w, rig.now_ns, copy, len, by_group, false);
}

static inline void rig_deliver(unsigned r, const struct fan_out_item *it)
{
	uint8_t bytes[RIG_BYTES];
	size_t len = fan_out_item_copy(it, bytes);
	rig_tape(false, r, bytes, len);
	if (!rig_is_lost())
		rig_to_rank(r, bytes, len, false);
}

/* Sealed items lie in one piece, one behind the other. */
static inline void rig_are_laid(const struct fan_out *out)
{
	const uint8_t *end = NULL;
	for (unsigned i = 0; i < out->count; i++) {
		const struct fan_out_item *it = &out->item[i];
		const uint8_t *begin = it->payload - sizeof it->head;
		struct fan_seal_head h;
		assert_true(fan_seal_head(&h, it->head, sizeof it->head));
		assert_int_equal(it->whole, h.sealed);
		if (!it->whole)
			continue;
		assert_memory_equal(begin, it->head, sizeof it->head);
		assert_true(!end || begin == end);
		end = begin + fan_out_item_bytes(it);
	}
}

/* Send what the switch has written.  Returns how many datagrams, and their bytes. */
static inline unsigned rig_flush(struct fan_out *out, size_t *bytes)
{
	unsigned n = 0;
	if (rig.gate)
		fan_gate_send(rig.gate, rig.now_ns, out);
	rig_are_laid(out);
	for (unsigned i = 0; i < out->count; i++) {
		const struct fan_out_item *it = &out->item[i];
		for (unsigned r = 0; r < RIG_RANKS; r++) {
			const fan_peer at = rig_peer(r);
			bool to = it->dest == FAN_TO_PEER
					  ? fan_peer_equal(&it->peer, &at)
					  : r < it->group->ranks &&
						    fan_peer_equal(&it->group->peers[r], &at);
			if (to)
				rig_deliver(r, it);
		}
		if (bytes)
			*bytes += fan_out_item_bytes(it);
		n++;
	}
	fan_out_reset(out);
	fan_node_sent(rig.node);
	return n;
}

#define RIG_OUT(name)                                                                              \
	struct fan_out_item name##_item[64];                                                       \
	static uint8_t name##_scratch[64 * 512];                                                   \
	struct fan_out name;                                                                       \
	fan_out_init(&name, name##_item, 64, name##_scratch, sizeof name##_scratch)

/* A datagram gets to the switch.  Returns what it answers, datagrams and bytes (may be NULL). */
static inline unsigned rig_to_switch(fan_peer from, const uint8_t *bytes, size_t len,
				     size_t *answer)
{
	uint8_t copy[FAN_PACKET_MAX];
	RIG_OUT(out);
	memcpy(copy, bytes, len);
	if (rig.gate && !(len = fan_gate_recv(rig.gate, rig.now_ns, &from, copy, len, &out)))
		return rig_flush(&out, answer);
	fan_node_recv(rig.node, rig.now_ns, from, copy, len, false, &out);
	if (rig.gate && fan_gate_is_join(rig.gate))
		fan_gate_answer(rig.gate, &out);
	return rig_flush(&out, answer);
}

static inline void rig_tick_rank(unsigned r)
{
	struct seal_rank *k = &rig.rank[r];
	static uint8_t sealed[64 * RIG_BYTES];
	bool more = true;
	RIG_OUT(out);
	for (unsigned i = 0; k->w && more && i < 64; i++) {
		more = fan_worker_tick(k->w, rig.now_ns, &out);
		if (k->sealed) {
			fan_seal_rank_send(&k->seal, rig.now_ns, &out, sealed, RIG_BYTES);
			rig_are_laid(&out);
		}
		struct rig_packet burst[64];
		unsigned n = 0;
		for (; n < out.count; n++)
			burst[n].len = fan_out_item_copy(&out.item[n], burst[n].bytes);
		fan_out_reset(&out);
		for (unsigned b = 0; b < n; b++) {
			rig_tape(true, r, burst[b].bytes, burst[b].len);
			if (!rig_is_lost())
				rig_to_switch(rig_peer(r), burst[b].bytes, burst[b].len, NULL);
		}
	}
}

/* One millisecond. */
static inline void rig_step(void)
{
	RIG_OUT(out);
	for (unsigned r = 0; r < RIG_RANKS; r++)
		rig_tick_rank(r);
	for (unsigned i = 0; i < 16 && fan_node_deadline(rig.node) <= rig.now_ns; i++) {
		fan_node_tick(rig.node, rig.now_ns, &out);
		rig_flush(&out, NULL);
	}
	rig.now_ns += FAN_MS;
}

static inline bool rig_until(unsigned ranks, enum fan_worker_phase phase, unsigned ms)
{
	for (unsigned i = 0; i < ms && !seal_ranks_are(rig.rank, ranks, phase); i++)
		rig_step();
	return seal_ranks_are(rig.rank, ranks, phase);
}

/* A ready job of `ranks`. */
static inline void rig_form(const char *job, const char *tenant, unsigned ranks)
{
	for (unsigned r = 0; r < ranks; r++)
		rig_start_rank(r, ranks, job, tenant);
	assert_true(rig_until(ranks, FAN_W_READY, 500));
}

static inline void rig_begin_sum(unsigned ranks, unsigned seed)
{
	seal_ranks_begin_sum(rig.rank, ranks, seed, rig.now_ns);
}

/* It ends in time, and every element is right. */
static inline void rig_end_sum(unsigned ranks, unsigned seed)
{
	for (unsigned i = 0; i < 2000 && !seal_ranks_have_sum(rig.rank, ranks); i++)
		rig_step();
	seal_ranks_check_sum(rig.rank, ranks, seed);
}

static inline void rig_sum(unsigned ranks, unsigned seed)
{
	rig_begin_sum(ranks, seed);
	rig_end_sum(ranks, seed);
}

static inline void rig_leave(unsigned ranks)
{
	for (unsigned r = 0; r < ranks; r++)
		fan_worker_leave(rig.rank[r].w, rig.now_ns, FAN_OK, NULL);
	assert_true(rig_until(ranks, FAN_W_LEFT, 500));
}

static inline const struct fan_gate_stats *rig_gate(void)
{
	return fan_gate_stats(rig.gate);
}

#endif
