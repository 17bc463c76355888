/* SPDX-License-Identifier: Apache-2.0 */
/* net.h - sealed jobs behind switches, in virtual time: an aggregator, switches below it, each
 * behind a gate of its own, ranks, and a wire that everybody sees. */
#ifndef TEST_SEAL_NET_H
#define TEST_SEAL_NET_H

#include "core/node/node.h"
#include "core/wire/ctlmsg.h"
#include "core/wire/envelope.h"
#include "seal/gate.h"
#include "seal/hop.h"
#include "seal/ranks.h"
#include "seal/toy.h"
#include "unit/unit.h"

#ifndef RANKS /* a test may want more */
#define RANKS	  4
#define JOBS_MOST 8
#define MEMBERS	  64
#define SLOTS	  256
#define WINDOW	  16
#endif
#define STATIONS 3 /* number 0 is the aggregator, 1 a switch below it, 2 one below that */
#define PAYLOAD	 256
#define BYTES	 1024
#define ITEMS	 64

/* A fuzz target that begins anew with each input has less. */
#ifdef NET_QUEUE
#define QUEUE NET_QUEUE
#define TAPE  NET_TAPE
#else
#define QUEUE 8192
#define TAPE  20000
#endif

struct packet {
	fan_peer from, to;
	size_t len;
	uint8_t bytes[BYTES];
};

struct station {
	struct fan_node *node;
	struct fan_gate *gate; /* NULL: it has no key */
	void *mem;
	unsigned above;
};

static const struct fan_cipher *net_cipher; /* of nets to come; NULL: the toy */

static struct net {
	uint64_t now_ns, nonce;
	struct station station[STATIONS];
	struct seal_rank rank[RANKS];
	struct packet *queue, *tape;
	unsigned head, queued, taped, lose;
	uint16_t routes; /* most that switches have; 0: none, they are above each other */
	uint16_t route;	 /* by which ranks join */
	uint32_t alive_ms, join_ms, stall_ms; /* of ranks */
	uint8_t fabric[FAN_KEY_BYTES];	      /* of which ranks' keys are */
	struct fan_rng rng;
} net;

static inline fan_peer station_at(unsigned i)
{
	return (fan_peer){.addr = {3, i + 1}, .port = 5};
}

static inline fan_peer rank_at(unsigned r)
{
	return (fan_peer){.addr = {1, r + 1}, .port = 9};
}

static inline void give_key(struct station *s, uint8_t key, bool is_switch)
{
	struct fan_gate_config g = {.cipher = net_cipher ? net_cipher : toy_cipher(),
				    .keys = {.count = 1},
				    .children = is_switch ? 16 : 0,
				    .payload_bytes = PAYLOAD,
				    .items = ITEMS};
	memset(g.keys.key[0], key, FAN_KEY_BYTES);
	s->gate = key ? fan_gate_new(&g) : NULL;
}

static inline void start_station(unsigned i, unsigned above, uint8_t key)
{
	struct station *s = &net.station[i];
	struct fan_node_config c = {
		.has_aggregator = i == 0,
		.has_slots = i > 0,
		.aggregator = {.slots = SLOTS,
			       .payload_bytes = PAYLOAD,
			       .jobs_max = JOBS_MOST,
			       .members_max = MEMBERS,
			       .window_max = WINDOW,
			       .shards = 1,
			       .authentic = key != 0,
			       .secret = {{7, ++net.nonce}}},
		.slots = {.policy = FAN_POLICY_ESA,
			  .slots = 64,
			  .payload_bytes = PAYLOAD,
			  .children_max = 16,
			  .authentic = key != 0,
			  .routes = net.routes,
			  .spares = FAN_NODE_OUT_MAX},
		.above = i && !net.routes ? station_at(above) : (fan_peer){.port = 0},
	};
	s->above = above;
	s->mem = aligned_alloc(64, (fan_node_bytes(&c) + 63) / 64 * 64);
	s->node = fan_node_init(s->mem, &c);
	give_key(s, key, i > 0);
}

static inline void stop_station(unsigned i)
{
	fan_gate_free(net.station[i].gate);
	free(net.station[i].mem);
	memset(&net.station[i], 0, sizeof net.station[i]);
}

/* `levels` switches above each other, or with up to `routes` routes; all have the key `key`, 0:
 * none.
 */
static inline void open_routed_net(unsigned levels, uint8_t key, uint16_t routes)
{
	memset(&net, 0, sizeof net);
	net.routes = routes;
	net.alive_ms = net.stall_ms = 10000;
	net.join_ms = 5000;
	memset(net.fabric, 0x77, sizeof net.fabric);
	toy_reset(3);
	net.queue = calloc(QUEUE, sizeof *net.queue);
	net.tape = calloc(TAPE, sizeof *net.tape);
	net.rng.state = 9;
	net.now_ns = 1000 * FAN_MS;
	net.nonce = 1000;
	for (unsigned i = 0; i <= levels; i++)
		start_station(i, i ? i - 1 : 0, key);
}

static inline void open_net(unsigned levels, uint8_t key)
{
	open_routed_net(levels, key, 0);
}

static inline void end_net(void)
{
	for (unsigned r = 0; r < RANKS; r++)
		seal_rank_stop(&net.rank[r]);
	for (unsigned i = 0; i < STATIONS; i++)
		stop_station(i);
	free(net.queue);
	free(net.tape);
	net_cipher = NULL;
}

static inline int close_net(void **state __attribute__((unused)))
{
	end_net();
	assert_int_equal(toy_repeats(), 0); /* drill 15 */
	assert_int_equal(toy_open_keys(), 0);
	return 0;
}

/* A life of rank `rank` of `job` at place `r`, which joins at station `at`; `tenant` is the name
 * whose key it has, NULL: none. */
static inline void start_rank_as(unsigned r, unsigned rank, unsigned ranks, const char *job,
				 const char *tenant, unsigned at)
{
	struct fan_worker_config cfg = {.rank = (uint16_t)rank,
					.ranks = (uint16_t)ranks,
					.payload_bytes = PAYLOAD,
					.window_max = WINDOW,
					.alive_ms = net.alive_ms,
					.join_ms = net.join_ms,
					.stall_ms = net.stall_ms,
					.authentic = tenant != NULL,
					.route = net.route,
					.nonce = ++net.nonce};
	strcpy(cfg.name, job);
	seal_rank_start(&net.rank[r], &cfg, net.now_ns, net_cipher ? net_cipher : toy_cipher(),
			net.fabric, tenant);
	net.rank[r].at = at;
}

static inline void start_rank(unsigned r, unsigned ranks, const char *job, const char *tenant,
			      unsigned at)
{
	start_rank_as(r, r, ranks, job, tenant, at);
}

static inline void put(const fan_peer *from, const fan_peer *to, const struct fan_out_item *it)
{
	struct packet *p = &net.queue[(net.head + net.queued) % QUEUE];
	assert_true(net.queued < QUEUE && fan_out_item_bytes(it) <= BYTES);
	p->from = *from;
	p->to = *to;
	p->len = fan_out_item_copy(it, p->bytes);
	if (net.taped < TAPE)
		net.tape[net.taped++] = *p;
	if (!net.lose || fan_rng_below(&net.rng, net.lose))
		net.queued++;
}

#define OUT(name)                                                                                  \
	struct fan_out_item name##_item[ITEMS];                                                    \
	static uint8_t name##_scratch[ITEMS * 512];                                                \
	struct fan_out name;                                                                       \
	fan_out_init(&name, name##_item, ITEMS, name##_scratch, sizeof name##_scratch)

/* Sealed items lie in one piece, one behind the other. */
static inline void are_laid(const struct fan_out *out)
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
		assert_true(!memcmp(begin, it->head, sizeof it->head));
		assert_true(!end || begin == end);
		end = begin + fan_out_item_bytes(it);
	}
}

/* Returns the datagrams that it sends. */
static inline unsigned flush(unsigned i, struct fan_out *out)
{
	struct station *s = &net.station[i];
	const fan_peer from = station_at(i);
	unsigned n = out->count;
	if (s->gate)
		fan_gate_send(s->gate, net.now_ns, out);
	are_laid(out);
	n = out->count;
	for (unsigned k = 0; k < out->count; k++) {
		const struct fan_out_item *it = &out->item[k];
		if (it->dest == FAN_TO_PEER)
			put(&from, &it->peer, it);
		for (unsigned r = 0; it->dest != FAN_TO_PEER && r < it->group->ranks; r++)
			if (!fan_peer_is_none(&it->group->peers[r]))
				put(&from, &it->group->peers[r], it);
	}
	fan_out_reset(out);
	fan_node_sent(s->node);
	return n;
}

/* As src/net/shard.c does. */
static inline unsigned to_station(unsigned i, const fan_peer *from, const uint8_t *bytes,
				  size_t len)
{
	struct station *s = &net.station[i];
	struct fan_seal_head h;
	uint8_t copy[FAN_PACKET_MAX];
	OUT(out);
	if (!s->node)
		return 0;
	memcpy(copy, bytes, len);
	if (s->gate && !(len = fan_gate_recv(s->gate, net.now_ns, from, copy, len, &out)))
		return flush(i, &out);
	enum fan_verdict v = fan_node_recv(s->node, net.now_ns, *from, copy, len, false, &out);
	if (s->gate && fan_gate_is_join(s->gate))
		fan_gate_answer(s->gate, &out);
	else if (!s->gate && v == FAN_DROP && fan_seal_head(&h, copy, len) && h.sealed)
		fan_seal_refuse(copy, len, from, false, &out);
	return flush(i, &out);
}

static inline enum fan_verdict to_rank(unsigned r, const uint8_t *bytes, size_t len, bool by_group)
{
	struct seal_rank *k = &net.rank[r];
	uint8_t copy[BYTES];
	if (!k->w)
		return FAN_DROP;
	memcpy(copy, bytes, len);
	if (k->sealed && !(len = fan_seal_rank_recv(&k->seal, net.now_ns, copy, len)))
		return FAN_DROP;
	return fan_worker_recv(k->w, net.now_ns, copy, len, by_group, false);
}

static inline void deliver(const struct packet *p)
{
	for (unsigned i = 0; i < STATIONS; i++) {
		const fan_peer at = station_at(i);
		if (fan_peer_equal(&p->to, &at))
			to_station(i, &p->from, p->bytes, p->len);
	}
	for (unsigned r = 0; r < RANKS; r++) {
		const fan_peer at = rank_at(r), next = station_at(net.rank[r].at);
		if (fan_peer_equal(&p->to, &at) && fan_peer_equal(&p->from, &next))
			to_rank(r, p->bytes, p->len, false);
	}
}

static inline void carry(void)
{
	while (net.queued) {
		const struct packet p = net.queue[net.head];
		net.head = (net.head + 1) % QUEUE;
		net.queued--;
		deliver(&p);
	}
}

/* A datagram gets to the aggregator, and its answers to ranks.  Returns how many these are, and
 * adds their bytes. */
static inline unsigned to_aggregator(fan_peer from, const uint8_t *bytes, size_t len,
				     size_t *answer)
{
	const unsigned n = to_station(0, &from, bytes, len);
	for (unsigned i = 0; i < net.queued; i++)
		*answer += net.queue[(net.head + i) % QUEUE].len;
	carry();
	return n;
}

static inline void tick_rank(unsigned r)
{
	struct seal_rank *k = &net.rank[r];
	static uint8_t sealed[ITEMS * BYTES];
	const fan_peer from = rank_at(r), to = station_at(k->at);
	bool more = k->w != NULL;
	OUT(out);
	for (unsigned i = 0; more && i < 64; i++) {
		more = fan_worker_tick(k->w, net.now_ns, &out);
		if (k->sealed)
			fan_seal_rank_send(&k->seal, net.now_ns, &out, sealed, BYTES);
		are_laid(&out);
		for (unsigned n = 0; n < out.count; n++)
			put(&from, &to, &out.item[n]);
		fan_out_reset(&out);
	}
}

/* One millisecond. */
static inline void step(void)
{
	OUT(out);
	for (unsigned r = 0; r < RANKS; r++)
		tick_rank(r);
	for (unsigned i = 0; i < STATIONS; i++)
		for (unsigned n = 0; net.station[i].node && n < 16 &&
				     fan_node_deadline(net.station[i].node) <= net.now_ns;
		     n++) {
			fan_node_tick(net.station[i].node, net.now_ns, &out);
			flush(i, &out);
		}
	carry();
	net.now_ns += FAN_MS;
}

static inline bool until(unsigned ranks, enum fan_worker_phase phase, unsigned ms)
{
	for (unsigned i = 0; i <= ms; i++) {
		if (seal_ranks_are(net.rank, ranks, phase))
			return true;
		step();
	}
	return false;
}

static inline void form_as(const char *job, const char *tenant, unsigned ranks, unsigned at)
{
	for (unsigned r = 0; r < ranks; r++)
		start_rank(r, ranks, job, tenant, at);
	assert_true(until(ranks, FAN_W_READY, 500));
}

static inline void form(const char *job, unsigned ranks, unsigned at)
{
	form_as(job, "alice", ranks, at);
}

static inline void begin_sum(unsigned ranks, unsigned seed)
{
	seal_ranks_begin_sum(net.rank, ranks, seed, net.now_ns);
}

/* It ends in time, and every element is right.  Returns the milliseconds. */
static inline unsigned end_sum(unsigned ranks, unsigned seed)
{
	unsigned ms = 0;
	do
		step();
	while (++ms < 9000 && !seal_ranks_have_sum(net.rank, ranks));
	seal_ranks_check_sum(net.rank, ranks, seed);
	return ms;
}

static inline void sum(unsigned ranks, unsigned seed)
{
	begin_sum(ranks, seed);
	end_sum(ranks, seed);
}

static inline void leave(unsigned ranks)
{
	for (unsigned r = 0; r < ranks; r++)
		fan_worker_leave(net.rank[r].w, net.now_ns, FAN_OK, NULL);
	assert_true(until(ranks, FAN_W_LEFT, 500));
}

static inline const struct fan_gate_stats *stats(unsigned i)
{
	return fan_gate_stats(net.station[i].gate);
}

static inline uint64_t tags(void)
{
	uint64_t n = 0;
	for (unsigned i = 0; i < STATIONS; i++)
		n += net.station[i].gate ? stats(i)->drops[FAN_SEAL_TAG] : 0;
	return n;
}

/* The last packet of `type` from `from` to `to`; of a RELAY, of `inner`, which is known of signed
 * ones alone; 0: a sealed one. */
static inline const struct packet *last_of(fan_peer from, fan_peer to, unsigned type,
					   unsigned inner)
{
	for (unsigned i = net.taped; i-- > 0;) {
		const struct packet *p = &net.tape[i];
		bool is_signed = !fan_get32(p->bytes + 32);
		bool right = type != FAN_TYPE_RELAY ||
			     (inner ? is_signed && p->bytes[37] == inner : !is_signed);
		if (p->bytes[1] == type && right && fan_peer_equal(&p->from, &from) &&
		    fan_peer_equal(&p->to, &to))
			return p;
	}
	fail_msg("no packet of type %u", type);
	return NULL;
}

#endif
