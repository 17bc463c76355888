/* SPDX-License-Identifier: Apache-2.0 */
#include "sim.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/out.h"
#include "core/wire/wire.h"

void sim_fail(const struct sim *s, const char *format, ...)
{
	va_list args;
	va_start(args, format);
	fprintf(stderr, "seed %llu, %.6f s: ", (unsigned long long)s->seed,
		(double)s->now_ns / 1e9);
	vfprintf(stderr, format, args);
	fputc('\n', stderr);
	va_end(args);
	exit(1);
}

#define FILL_BYTE  0xee
#define FILL_BYTES ((size_t)2 << 20) /* at each end */

void *sim_memory(size_t bytes)
{
	uint8_t *mem = aligned_alloc(FAN_ALIGN, fan_align_up(bytes));
	if (!mem)
		abort();
	size_t first = bytes < FILL_BYTES ? bytes : FILL_BYTES;
	memset(mem, FILL_BYTE, first);
	size_t last = bytes - first < FILL_BYTES ? bytes - first : FILL_BYTES;
	memset(mem + bytes - last, FILL_BYTE, last);
	return mem;
}

/* Where a node lives in the world: nodes move when there are more of them. */
struct sim_seat {
	struct sim *sim;
	int node;
};

static struct sim_node *node_of(const struct sim_seat *seat)
{
	seat->sim->now_ns = seat->sim->world.now_ns + seat->sim->slept_ns;
	return &seat->sim->node[seat->node];
}

/* A copy of just the packet's size, so that a look beyond its end is noticed. */
static void world_recv(void *self, const struct fan_sim_packet *p)
{
	struct sim_node *n = node_of(self);
	struct sim *s = ((struct sim_seat *)self)->sim;
	struct sim_packet *copy = malloc(sizeof *copy + p->len);
	*copy = (struct sim_packet){.from = (int)p->from,
				    .to = (int)p->to,
				    .by_group = p->flags & FAN_PACKET_BY_GROUP,
				    .len = p->len};
	memcpy(copy->bytes, p->body->bytes, p->len);
	s->delivered++;
	n->recv(n->self, copy);
	free(copy);
}

static void world_tick(void *self)
{
	struct sim_node *n = node_of(self);
	n->tick(n->self);
}

/* A time of the nodes' as the world, which does not sleep, has it. */
static uint64_t in_world(const struct sim *s, uint64_t at_ns)
{
	if (at_ns == SIM_NEVER)
		return SIM_NEVER;
	return at_ns > s->slept_ns ? at_ns - s->slept_ns : 0;
}

static uint64_t world_deadline(void *self)
{
	struct sim_node *n = node_of(self);
	return in_world(((struct sim_seat *)self)->sim,
			n->deadline ? n->deadline(n->self) : SIM_NEVER);
}

static const struct fan_actor_ops world_ops = {world_recv, world_tick, world_deadline};

static bool world_filter(void *arg, uint32_t link, const struct fan_sim_packet *p,
			 uint64_t *late_ns)
{
	struct sim *s = arg;
	(void)link;
	(void)p;
	*late_ns = s->late_ns;
	if (s->lines) /* between two nodes that are not the first it passes here twice */
		s->late_ns = 0;
	return false;
}

void sim_init(struct sim *s, uint64_t seed)
{
	memset(s, 0, sizeof *s);
	s->seed = seed;
	s->rng.state = seed;
	fan_sim_init(&s->world, seed, FAN_PACKET_MAX);
	s->world.filter = world_filter;
	s->world.filter_arg = s;
}

void sim_free(struct sim *s)
{
	for (unsigned i = 0; i < SIM_CAPTURED; i++)
		free(s->captured[i]);
	for (int i = 0; i < s->nodes; i++)
		free(s->node[i].seat);
	free(s->node);
	fan_sim_free(&s->world);
}

int sim_add_node(struct sim *s, const struct sim_link *link)
{
	if (s->nodes == s->nodes_max) {
		s->nodes_max = s->nodes_max ? 2 * s->nodes_max : 16;
		s->node = realloc(s->node, (size_t)s->nodes_max * sizeof *s->node);
	}
	int i = s->nodes++;
	s->node[i] = (struct sim_node){.link = *link, .seat = malloc(sizeof(struct sim_seat))};
	s->node[i].peer = (fan_peer){.addr = {0, (uint64_t)i + 1}, .port = 4000};
	*s->node[i].seat = (struct sim_seat){s, i};
	const struct fan_link_config cable = {.bps = 0}; /* all delays are drawn here */
	uint32_t at = fan_sim_add_node(&s->world, i == SIM_SWITCH, 0, 0);
	if (i != SIM_SWITCH) {
		fan_sim_add_link(&s->world, at, SIM_SWITCH, &cable);
		fan_sim_add_link(&s->world, SIM_SWITCH, at, &cable);
	}
	bool ok = fan_sim_index(&s->world) &&
		  fan_sim_add_actor(&s->world, at, s->node[i].seat, &world_ops) == (uint32_t)i;
	SIM_CHECK(s, ok, "no room for node %d", i);
	return i;
}

int sim_find(const struct sim *s, const fan_peer *peer)
{
	uint64_t i = peer->addr[1] - 1;
	return i < (uint64_t)s->nodes && fan_peer_equal(peer, &s->node[i].peer) ? (int)i : -1;
}

/* Flip bits, cut or lengthen.  What UDP's checksum would notice does not arrive, but
 * damage to the header alone is let through, as is any where the packet's own
 * checksum or tag covers it all.  False if the packet is lost. */
static bool damage(struct sim *s, struct sim_packet *p)
{
	bool summed = p->bytes[1] > FAN_TYPE_RESULT ||
		      fan_get16(p->bytes + 2) & (FAN_F_SUMMED | FAN_F_SEALED);
	switch (fan_rng_below(&s->rng, 4)) {
	case 0: p->len = fan_rng_below(&s->rng, p->len); return true;
	case 1: p->len += rng_range(&s->rng, 1, 16); return true;
	case 2: return false;
	default: break;
	}
	size_t bytes = summed ? p->len : FAN_HEAD_BYTES;
	for (uint64_t n = rng_range(&s->rng, 1, 3); n; n--) {
		size_t at = fan_rng_below(&s->rng, bytes * 8);
		p->bytes[at / 8] ^= (uint8_t)(1u << at % 8);
	}
	return true;
}

/* Let the packet arrive after `delay_ns`. */
static void hand_over(struct sim *s, const struct sim_packet *p, uint64_t delay_ns)
{
	struct fan_sim_packet out = {.from = (uint32_t)p->from,
				     .to = (uint32_t)p->to,
				     .len = (uint16_t)p->len,
				     .flags = p->by_group ? FAN_PACKET_BY_GROUP : 0,
				     .body = fan_body_get(&s->world.pool, &s->world.pool.whole)};
	SIM_CHECK(s, out.body, "out of memory");
	memset(out.body->bytes, 0, FAN_HEAD_BYTES);
	memcpy(out.body->bytes, p->bytes, p->len);
	s->late_ns = delay_ns;
	fan_sim_send(&s->world, &out, true);
	fan_body_put(&s->world.pool, out.body);
}

#define OVERHEAD_BYTES 66 /* of lower layers, a packet */

/* How long the packet waits for those before it, and takes itself. */
static uint64_t line_ns(const struct sim *s, uint64_t bps, uint64_t *until_ns, size_t len)
{
	if (!bps)
		return 0;
	uint64_t from_ns = *until_ns > s->now_ns ? *until_ns : s->now_ns;
	*until_ns = from_ns + (len + OVERHEAD_BYTES) * 8 * UINT64_C(1000000000) / bps;
	return *until_ns - s->now_ns;
}

static void deliver(struct sim *s, struct sim_link *l, const struct sim_packet *p,
		    uint64_t later_ns)
{
	size_t room = sizeof *p + p->len + 16;
	struct sim_packet *copy = calloc(1, room);
	memcpy(copy, p, sizeof *p + p->len);
	uint64_t delay_ns = later_ns + l->delay_ns + fan_rng_below(&s->rng, l->jitter_ns + 1);
	if (rng_chance(&s->rng, l->late))
		delay_ns += fan_rng_below(&s->rng, 20 * l->delay_ns + 200 * SIM_US);
	if (rng_chance(&s->rng, l->stale))
		delay_ns += fan_rng_below(&s->rng, l->stale_ns + 1);
	bool lost = rng_chance(&s->rng, l->damage) && !damage(s, copy);
	lost = lost || (s->filter && s->filter(s->filter_arg, p, &delay_ns));
	if (!lost)
		hand_over(s, copy, delay_ns);
	free(copy);
}

static void keep(struct sim *s, const struct sim_packet *p)
{
	struct sim_packet **place = &s->captured[s->captured_next++ % SIM_CAPTURED];
	free(*place);
	*place = malloc(sizeof *p + p->len);
	memcpy(*place, p, sizeof *p + p->len);
}

static bool is_lost(struct sim *s, struct sim_link *l)
{
	if (l->cut || s->now_ns < l->burst_until_ns)
		return true;
	if (!rng_chance(&s->rng, l->loss))
		return false;
	if (rng_chance(&s->rng, l->burst))
		l->burst_until_ns = s->now_ns + fan_rng_below(&s->rng, 10 * l->delay_ns + 1);
	return true;
}

static struct sim_packet *packet_new(int from, int to, size_t len, bool by_group)
{
	struct sim_packet *p = malloc(sizeof *p + len);
	*p = (struct sim_packet){from, to, by_group, len};
	return p;
}

static void send_packet(struct sim *s, struct sim_packet *p)
{
	bool down = p->from == SIM_SWITCH || s->node[p->to].up == p->from;
	struct sim_link *l = &s->node[down ? p->to : p->from].link;
	if (s->capture)
		keep(s, p);
	uint64_t line = down ? line_ns(s, l->down_bps, &l->down_until_ns, p->len)
			     : line_ns(s, l->up_bps, &l->up_until_ns, p->len);
	if (!(p->by_group && l->deaf) && !is_lost(s, l)) {
		deliver(s, l, p, line);
		if (rng_chance(&s->rng, l->twice))
			deliver(s, l, p, line);
		if (l->ghost && p->bytes[1] == FAN_TYPE_JOIN && rng_chance(&s->rng, l->ghost))
			deliver(s, l, p, line + fan_rng_below(&s->rng, l->ghost_ns));
	}
	free(p);
}

void sim_send(struct sim *s, int from, int to, const struct fan_out_item *it, bool by_group)
{
	struct sim_packet *p = packet_new(from, to, fan_out_item_bytes(it), by_group);
	fan_out_item_copy(it, p->bytes);
	send_packet(s, p);
}

void sim_send_bytes(struct sim *s, int from, int to, const uint8_t *packet, size_t len,
		    bool by_group)
{
	struct sim_packet *p = packet_new(from, to, len, by_group);
	memcpy(p->bytes, packet, len);
	send_packet(s, p);
}

void sim_wake(struct sim *s, int node)
{
	fan_sim_wake(&s->world, (uint32_t)node);
}

void sim_sleep(struct sim *s, uint64_t ns)
{
	s->slept_ns += ns;
	s->now_ns += ns;
	for (int i = 0; i < s->nodes; i++)
		sim_wake(s, i);
}

bool sim_step(struct sim *s, uint64_t until_ns)
{
	bool any = fan_sim_step(&s->world, in_world(s, until_ns));
	SIM_CHECK(s, !s->world.broke, "the world is out of memory");
	s->now_ns = s->world.now_ns + s->slept_ns;
	return any;
}
