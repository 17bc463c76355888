/* SPDX-License-Identifier: Apache-2.0 */
#include "sim.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/wire.h"

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

void sim_init(struct sim *s, uint64_t seed)
{
	memset(s, 0, sizeof *s);
	s->seed = seed;
	s->rng.state = seed;
}

void sim_free(struct sim *s)
{
	for (size_t i = 0; i < s->events; i++)
		free(s->heap[i].packet);
	for (unsigned i = 0; i < SIM_CAPTURED; i++)
		free(s->captured[i]);
	free(s->heap);
	free(s->node);
}

int sim_add_node(struct sim *s, const struct sim_link *link)
{
	if (s->nodes == s->nodes_max) {
		s->nodes_max = s->nodes_max ? 2 * s->nodes_max : 16;
		s->node = realloc(s->node, (size_t)s->nodes_max * sizeof *s->node);
	}
	int i = s->nodes++;
	s->node[i] = (struct sim_node){.wake_ns = SIM_NEVER, .link = *link};
	s->node[i].peer = (fan_peer){.addr = {0, (uint64_t)i + 1}, .port = 4000};
	return i;
}

int sim_find(const struct sim *s, const fan_peer *peer)
{
	uint64_t i = peer->addr[1] - 1;
	return i < (uint64_t)s->nodes && fan_peer_equal(peer, &s->node[i].peer) ? (int)i : -1;
}

static bool before(const struct sim_event *a, const struct sim_event *b)
{
	return a->at_ns < b->at_ns || (a->at_ns == b->at_ns && a->order < b->order);
}

static void heap_push(struct sim *s, struct sim_event e)
{
	if (s->events == s->events_max) {
		s->events_max = s->events_max ? 2 * s->events_max : 1024;
		s->heap = realloc(s->heap, s->events_max * sizeof *s->heap);
	}
	e.order = s->order++;
	size_t i = s->events++;
	for (; i && before(&e, &s->heap[(i - 1) / 2]); i = (i - 1) / 2)
		s->heap[i] = s->heap[(i - 1) / 2];
	s->heap[i] = e;
}

static struct sim_event heap_pop(struct sim *s)
{
	struct sim_event first = s->heap[0];
	struct sim_event last = s->heap[--s->events];
	size_t i = 0;
	for (size_t c = 1; c < s->events; c = 2 * i + 1) {
		if (c + 1 < s->events && before(&s->heap[c + 1], &s->heap[c]))
			c++;
		if (!before(&s->heap[c], &last))
			break;
		s->heap[i] = s->heap[c];
		i = c;
	}
	s->heap[i] = last;
	return first;
}

/* Flip bits, cut or lengthen.  What UDP's checksum would notice does not arrive, but
 * damage to the header alone is let through, as is any where the packet's own
 * checksum covers it all.  False if the packet is lost. */
static bool damage(struct sim *s, struct sim_packet *p)
{
	bool summed = fan_get16(p->bytes + 2) & FAN_F_SUMMED;
	switch (rng_below(&s->rng, 4)) {
	case 0: p->len = rng_below(&s->rng, p->len); return true;
	case 1: p->len += rng_range(&s->rng, 1, 16); return true;
	case 2: return false;
	default: break;
	}
	size_t bytes = summed ? p->len : FAN_HEAD_BYTES;
	for (uint64_t n = rng_range(&s->rng, 1, 3); n; n--) {
		size_t at = rng_below(&s->rng, bytes * 8);
		p->bytes[at / 8] ^= (uint8_t)(1u << at % 8);
	}
	return true;
}

static void deliver(struct sim *s, struct sim_link *l, const struct sim_packet *p,
		    uint64_t later_ns)
{
	size_t room = sizeof *p + p->len + 16;
	struct sim_packet *copy = calloc(1, room);
	memcpy(copy, p, sizeof *p + p->len);
	uint64_t delay_ns = later_ns + l->delay_ns + rng_below(&s->rng, l->jitter_ns + 1);
	if (rng_chance(&s->rng, l->late))
		delay_ns += rng_below(&s->rng, 20 * l->delay_ns + 200 * SIM_US);
	if (rng_chance(&s->rng, l->stale))
		delay_ns += rng_below(&s->rng, l->stale_ns + 1);
	bool lost = rng_chance(&s->rng, l->damage) && !damage(s, copy);
	if (lost || (s->filter && s->filter(s->filter_arg, p, &delay_ns))) {
		free(copy);
		return;
	}
	s->packets_in_flight++;
	heap_push(s, (struct sim_event){s->now_ns + delay_ns, 0, p->to, copy});
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
		l->burst_until_ns = s->now_ns + rng_below(&s->rng, 10 * l->delay_ns + 1);
	return true;
}

void sim_send(struct sim *s, int from, int to, const uint8_t *head, const uint8_t *payload,
	      size_t payload_bytes, bool by_group)
{
	struct sim_link *l = &s->node[from == SIM_SWITCH ? to : from].link;
	struct sim_packet *p = malloc(sizeof *p + FAN_HEAD_BYTES + payload_bytes);
	*p = (struct sim_packet){from, to, by_group, FAN_HEAD_BYTES + payload_bytes};
	memcpy(p->bytes, head, FAN_HEAD_BYTES);
	if (payload_bytes)
		memcpy(p->bytes + FAN_HEAD_BYTES, payload, payload_bytes);
	if (s->capture)
		keep(s, p);
	if (!(by_group && l->deaf) && !is_lost(s, l)) {
		deliver(s, l, p, 0);
		if (rng_chance(&s->rng, l->twice))
			deliver(s, l, p, 0);
		if (l->ghost && head[1] == FAN_TYPE_JOIN && rng_chance(&s->rng, l->ghost))
			deliver(s, l, p, rng_below(&s->rng, l->ghost_ns));
	}
	free(p);
}

void sim_wake(struct sim *s, int node)
{
	struct sim_node *n = &s->node[node];
	uint64_t at = n->deadline ? n->deadline(n->self) : SIM_NEVER;
	if (at < s->now_ns)
		at = s->now_ns;
	if (at >= n->wake_ns)
		return;
	n->wake_ns = at;
	heap_push(s, (struct sim_event){at, 0, node, NULL});
}

bool sim_step(struct sim *s, uint64_t until_ns)
{
	if (s->events == 0 || s->heap[0].at_ns > until_ns)
		return false;
	struct sim_event e = heap_pop(s);
	struct sim_node *n = &s->node[e.node];
	s->now_ns = e.at_ns;
	if (e.packet) {
		s->packets_in_flight--;
		s->delivered++;
		n->recv(n->self, e.packet);
		free(e.packet);
	} else if (n->wake_ns == e.at_ns) {
		n->wake_ns = SIM_NEVER;
		if (n->deadline(n->self) <= s->now_ns)
			n->tick(n->self);
	}
	sim_wake(s, e.node);
	return true;
}
