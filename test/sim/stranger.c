/* SPDX-License-Identifier: Apache-2.0 */
#include "story.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/wire/envelope.h"

#define BODY_MAX   8900
#define TOKENS	   6 /* the first ones are in use */
#define CHECK_AT   (FAN_HEAD_BYTES - 4u)
#define NEAR	   3 /* epochs and ids beside those that it was told */
#define NAMES	   4
#define LONGEST_MS 600000

struct forged {
	struct fan_frag f;
	uint8_t body[BODY_MAX];
};

static uint64_t below(struct run *r, uint64_t n)
{
	return fan_rng_below(&r->rng, n);
}

static uint16_t some_rank(struct run *r)
{
	return (uint16_t)(below(r, 8) ? below(r, r->plan.job[0][0].cfg.ranks) : FAN_RANK_NONE);
}

/* What it has been told of a job that it has joined under its own address, or a number beside. */
static uint32_t near(struct run *r, uint32_t told)
{
	return below(r, 3) ? told : told + (uint32_t)below(r, 2 * NEAR + 1) - NEAR;
}

static uint32_t some_job(struct run *r, uint8_t type)
{
	const struct plan *p = &r->plan;
	uint32_t route = 0, id;
	if (p->routed && below(r, 4))
		route = (uint32_t)p->routes[below(r, p->jobs)].number << FAN_ROUTE_BITS;
	if (type == FAN_TYPE_JOIN)
		return route;
	switch (below(r, 3)) {
	case 0: id = 0x100u | (uint32_t)below(r, 4); break;
	case 1: id = near(r, r->told_job); break;
	default: id = (uint32_t)below(r, 1u << FAN_ROUTE_BITS);
	}
	return route | (id & 0xffff);
}

static uint32_t some_epoch(struct run *r)
{
	switch (below(r, 3)) {
	case 0: return (uint32_t)below(r, 8);
	case 1: return near(r, r->told_epoch);
	default: return (uint32_t)fan_rng_next(&r->rng);
	}
}

static size_t put_join(struct run *r, uint8_t *body)
{
	const struct fan_worker_config *c = &r->plan.job[below(r, r->plan.jobs)][0].cfg;
	struct fan_join m = {
		.ranks = below(r, 3) ? c->ranks : (uint16_t)(2 + below(r, 255)),
		.payload_bytes = below(r, 4) ? c->payload_bytes : FAN_PAYLOAD_MIN,
		.window = c->window_max,
		.options = below(r, 2) ? c->options : (uint8_t)below(r, 32),
		.alive_ms = (uint32_t)below(r, 2) ? LONGEST_MS : 1000,
		.workers = below(r, 4) ? 0 : (uint32_t)below(r, FAN_WORKERS_MAX) + 1,
	};
	if (below(r, 2))
		snprintf(m.name, sizeof m.name, "%s", c->name);
	else
		snprintf(m.name, sizeof m.name, "own-%u", (unsigned)below(r, NAMES));
	m.name_bytes = (uint8_t)strlen(m.name);
	return fan_ctl_put(body, &m);
}

static size_t put_state(struct run *r, uint8_t *body)
{
	static const uint8_t errors[] = {FAN_E_RANK_LOST & 0xff, FAN_E_MISMATCH & 0xff, 0};
	const struct fan_state m = {
		.state = (uint8_t)below(r, 5),
		.err = (int8_t)errors[below(r, 3)],
		.ranks = r->plan.job[0][0].cfg.ranks,
		.missing = {1},
	};
	return fan_ctl_put(body, &m);
}

static size_t put_body(struct run *r, uint8_t type, uint8_t *body)
{
	const struct fan_welcome w = {
		.window = 4, .shards = 1, .beat_ms = 10, .alive_ms = 1000, .flags = 1};
	const struct fan_refuse no = {.err = FAN_E_RANK_TAKEN, .rank = some_rank(r)};
	const struct fan_leave bye = {.err = FAN_E_STALLED, .blamed = {1}};
	const struct fan_beat beat = {.flags = (uint8_t)below(r, 16),
				      .cookie = fan_rng_next(&r->rng)};
	size_t bytes;
	switch (type) {
	case FAN_TYPE_JOIN: return put_join(r, body);
	case FAN_TYPE_WELCOME: return fan_ctl_put(body, &w);
	case FAN_TYPE_REFUSE: return fan_ctl_put(body, &no);
	case FAN_TYPE_BEAT: return fan_ctl_put(body, &beat);
	case FAN_TYPE_STATE: return put_state(r, body);
	case FAN_TYPE_LEAVE: return fan_ctl_put(body, &bye);
	case FAN_TYPE_WHO: return 0;
	default: break;
	}
	bytes = type <= FAN_TYPE_RESULT ? 4 * (1 + below(r, 300)) : below(r, 100);
	for (size_t i = 0; i < bytes; i++)
		body[i] = (uint8_t)fan_rng_next(&r->rng);
	return bytes;
}

/* A message of `type` that is well-formed, mostly, and about a job that there may be. */
static void forge(struct run *r, uint8_t type, struct forged *m)
{
	struct fan_frag *f = &m->f;
	memset(f, 0, sizeof *f);
	f->type = type;
	f->job = some_job(r, type);
	f->epoch = some_epoch(r);
	f->sender = some_rank(r);
	f->payload = m->body;
	f->payload_bytes = put_body(r, type, m->body);
	if (type >= FAN_TYPE_CTL) {
		f->nonce = below(r, 4) ? fan_rng_next(&r->rng) : below(r, 2);
		f->path = (uint8_t)(below(r, 2) ? 0 : below(r, 3));
		f->topic = (uint8_t)below(r, 12);
		return;
	}
	f->frag = below(r, 40);
	f->dtype = FAN_FLOAT32;
	f->count = (uint16_t)(f->payload_bytes / 4);
	f->seq = (uint16_t)below(r, 100);
	f->missing = fan_rng_next(&r->rng);
	f->last = (uint16_t)below(r, 100);
	f->flags = type <= FAN_TYPE_RESULT ? FAN_F_FIRST | FAN_F_LAST : 0;
	f->to = below(r, 2) ? FAN_TAG(some_rank(r)) : 0;
	if (type != FAN_TYPE_DATA && type != FAN_TYPE_PARTIAL && type != FAN_TYPE_RESULT)
		f->payload_bytes = 0;
}

/* Put what was forged into an envelope, as a switch or the aggregator would. */
static void wrap(struct run *r, struct forged *m)
{
	static uint8_t inside[FAN_CTL_BYTES_MAX];
	const struct plan *p = &r->plan;
	const size_t bytes = FAN_HEAD_BYTES + m->f.payload_bytes;
	const bool down = below(r, 2);
	if (bytes > sizeof inside)
		return;
	fan_wire_put(inside, &m->f);
	memcpy(inside + FAN_HEAD_BYTES, m->body, m->f.payload_bytes);
	struct fan_frag h = {
		.job = down ? m->f.job : 0,
		.epoch = down ? m->f.epoch : 0,
		.sender = FAN_RANK_NONE,
		.type = FAN_TYPE_RELAY,
		.relay = {.token = (uint16_t)(1 + below(r, TOKENS)), .hops = (uint8_t)!down},
		.payload = m->body,
		.payload_bytes = bytes,
	};
	if (down && below(r, 2)) {
		h.relay.ranks = p->job[0][0].cfg.ranks;
		h.relay.rank = (uint8_t)below(r, h.relay.ranks);
		h.relay.window = 8;
		h.relay.payload_bytes = p->job[0][0].cfg.payload_bytes;
	}
	memcpy(m->body, inside, bytes);
	m->f = h;
}

static int some_node(struct run *r)
{
	return (int)below(r, (uint64_t)r->sim.nodes);
}

/* Who sees nothing, and guesses. */
static void guess(struct run *r)
{
	static const uint8_t type[] = {1, 2, 3, 4, 5, 6, 7, 8, 16, 17, 18, 19, 20, 21, 22, 24, 25};
	static struct forged m;
	static uint8_t packet[FAN_HEAD_BYTES + BODY_MAX];
	forge(r, type[below(r, sizeof type)], &m);
	if (m.f.type >= FAN_TYPE_CTL && below(r, 3) == 0)
		wrap(r, &m);
	/* a JOIN from its own address is answered, and tells it of a job */
	const int from = m.f.type == FAN_TYPE_JOIN && below(r, 2) ? r->stranger : some_node(r);
	const int to = some_node(r);
	if (from == to || to == r->stranger)
		return;
	fan_wire_put(packet, &m.f);
	memcpy(packet + FAN_HEAD_BYTES, m.body, m.f.payload_bytes);
	sim_send_bytes(&r->sim, from, to, packet, FAN_HEAD_BYTES + m.f.payload_bytes, false);
}

/* A packet of now, or one of long ago. */
static const struct sim_packet *recall(struct run *r)
{
	const struct sim_packet *p = r->sim.captured[below(r, SIM_CAPTURED)];
	struct sim_packet **place = &r->hoard[below(r, STORY_HOARD)];
	if (p && (!*place || below(r, 8) == 0)) {
		free(*place);
		*place = malloc(sizeof *p + p->len);
		memcpy(*place, p, sizeof *p + p->len);
	}
	return below(r, 2) ? p : *place;
}

/* Change bits; and make the checksum of those before sealing right, if `mended`. */
static void change(struct run *r, uint8_t *packet, size_t len, bool mended)
{
	const size_t most = below(r, 2) ? FAN_HEAD_BYTES : len;
	for (uint64_t n = 1 + below(r, 4); n && most; n--)
		packet[below(r, most)] ^= (uint8_t)(1u << below(r, 8));
	if (mended && len >= FAN_HEAD_BYTES)
		fan_put32(packet + CHECK_AT,
			  fan_crc32c(fan_crc32c(0, packet, CHECK_AT), packet + FAN_HEAD_BYTES,
				     len - FAN_HEAD_BYTES));
}

/* Who sees all, and lacks the key. */
static void repeat(struct run *r)
{
	static uint8_t packet[FAN_PACKET_MAX + 128];
	const struct sim_packet *p = recall(r);
	if (!p || p->len < FAN_HEAD_BYTES || p->len > sizeof packet)
		return;
	int from = p->from, to = p->to;
	size_t len = p->len;
	memcpy(packet, p->bytes, len);
	switch (below(r, 6)) {
	case 0: break; /* once more */
	case 1: from = some_node(r); break;
	case 2: to = some_node(r); break;
	case 3: len = FAN_HEAD_BYTES + below(r, len - FAN_HEAD_BYTES + 1); break;
	default: change(r, packet, len, below(r, 2));
	}
	if (from == to || to == r->stranger)
		return;
	sim_send_bytes(&r->sim, from, to, packet, len, false);
}

void stranger_strike(struct run *r)
{
	if (!r->sim.sealed || below(r, 4) == 0)
		guess(r);
	else
		repeat(r);
}

void stranger_hear(struct run *r, const struct sim_packet *p)
{
	struct fan_frag f;
	if (fan_wire_get(&f, p->bytes, p->len) >= 0)
		return;
	if (f.type == FAN_TYPE_WELCOME) {
		r->told_job = f.job;
		r->told_epoch = f.epoch;
	}
}

void stranger_free(struct run *r)
{
	for (unsigned i = 0; i < STORY_HOARD; i++)
		free(r->hoard[i]);
}
