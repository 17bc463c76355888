/* SPDX-License-Identifier: Apache-2.0 */
#include "ring.h"

#include <assert.h>
#include <stdlib.h>

#include "core/wire/wire.h"

#define BUCKET_AT 8  /* offset in a packet of the bucket's number */
#define STEP_AT	  16 /* offset in a packet of its step */

void fan_ring_free(struct fan_ring *r)
{
	free(r->note);
	free(r->came);
	r->note = NULL;
	r->came = NULL;
}

#define DOWN  UINT32_C(0x80000000) /* bit of a packet's step: a sum on its way down */
#define AMONG UINT32_C(0x40000000) /* bit of a step on two levels: the packet is among racks */

/* The bytes of the part that this worker sends in a step. */
static uint64_t part_bytes(const struct fan_ring *r, const struct fan_ring_seat *at, uint32_t step)
{
	assert(at->ranks && at->rank < at->ranks);
	uint64_t part = (at->rank + 2 * (uint64_t)at->ranks - step % at->ranks) % at->ranks;
	return (r->elems / at->ranks + (part < r->elems % at->ranks)) * r->elem_bytes;
}

static void send_to(struct fan_ring *r, uint32_t to, uint32_t step, uint16_t len)
{
	struct fan_out_item it = {.head = {FAN_WIRE_VERSION, FAN_TYPE_DATA}};
	fan_put64(it.head + BUCKET_AT, r->bucket);
	fan_put32(it.head + STEP_AT, step);
	struct fan_sim_packet p = {
		.from = r->actor,
		.to = to,
		.len = len,
		.flags = FAN_PACKET_SAFE,
		.body = fan_sim_body(r->sim, &it, false),
	};
	if (!p.body)
		return;
	fan_sim_send(r->sim, &p, true);
	fan_body_put(&r->sim->pool, p.body);
}

/* End the bucket if all of it is here. */
static void end_bucket(struct fan_ring *r)
{
	if (r->missing_bytes)
		return;
	r->busy = false;
	r->bucket++;
}

static void hand_down(struct fan_ring *r, uint32_t packet, uint16_t len)
{
	uint64_t bytes = len - FAN_HEAD_BYTES;
	assert(bytes <= r->missing_bytes);
	r->missing_bytes -= bytes;
	for (uint32_t i = 0; i < r->children; i++)
		send_to(r, r->down[i], packet | DOWN, len);
}

/* The parts of all ranks below are here: pass the sum on. */
static void go_up(struct fan_ring *r, uint32_t packet, uint16_t len)
{
	if (r->rank == 0)
		hand_down(r, packet, len);
	else
		send_to(r, r->up, packet, len);
}

/* A rank without children sends a window of packets, then one for each sum that arrives. */
static void send_next(struct fan_ring *r)
{
	uint64_t bytes = r->elems * r->elem_bytes, at = (uint64_t)r->sent * r->payload_bytes;
	if (r->children || at >= bytes)
		return;
	uint64_t left = bytes - at < r->payload_bytes ? bytes - at : r->payload_bytes;
	go_up(r, r->sent++, (uint16_t)(FAN_HEAD_BYTES + left));
}

static void handle_tree(struct fan_ring *r, uint32_t packet, uint16_t len)
{
	assert((packet & ~DOWN) * (uint64_t)r->payload_bytes < r->elems * r->elem_bytes);
	if (packet & DOWN) {
		hand_down(r, packet & ~DOWN, len);
		send_next(r);
	} else if (++r->came[packet] == r->children) {
		go_up(r, packet, len);
	}
	end_bucket(r);
}

static bool start_tree(struct fan_ring *r)
{
	uint64_t bytes = r->elems * r->elem_bytes;
	uint64_t packets = (bytes + r->payload_bytes - 1) / r->payload_bytes;
	free(r->came);
	r->came = packets < DOWN ? calloc(packets + 1, sizeof *r->came) : NULL;
	r->missing_bytes = bytes;
	if (!r->came)
		return false;
	for (r->sent = 0; r->children == 0 && r->sent < r->window && r->sent < packets;)
		send_next(r);
	end_bucket(r);
	return true;
}

/* Begin a ring: send its own part, in packets of `mark`.  Returns the bytes to come. */
static uint64_t begin_ring(struct fan_ring *r, const struct fan_ring_seat *at, uint32_t mark)
{
	uint64_t bytes = 0, mine = at->ranks > 1 ? part_bytes(r, at, 0) : 0;
	for (uint32_t step = 1; step < 2 * (at->ranks - 1) + 1; step++)
		bytes += part_bytes(r, at, step); /* arrives a step before it is sent */
	while (mine) {
		uint64_t some = mine < r->payload_bytes ? mine : r->payload_bytes;
		send_to(r, at->next, mark, (uint16_t)(FAN_HEAD_BYTES + some));
		mine -= some;
	}
	return bytes;
}

/* Count the packet as arrived, and pass it on unless all have had it. */
static void go_round(struct fan_ring *r, const struct fan_ring_seat *at, uint32_t packet,
		     uint16_t len, uint64_t *missing)
{
	uint64_t bytes = len - FAN_HEAD_BYTES;
	uint32_t step = packet & ~AMONG;
	*missing -= bytes < *missing ? bytes : *missing;
	if (step + 1 < 2 * (at->ranks - 1))
		send_to(r, at->next, packet + 1, len);
}

/* ---- two levels ---- */

/* If the rack's sum is complete, begin to sum it among the racks. */
static void go_among(struct fan_ring *r)
{
	if (r->raised || r->rack.rank || r->missing_bytes || !r->busy)
		return;
	r->raised = true;
	r->among_bytes = begin_ring(r, &r->among, AMONG);
}

static void end_levels(struct fan_ring *r)
{
	go_among(r);
	if (!r->among_bytes && !r->down_bytes && (r->rack.rank || r->raised))
		end_bucket(r);
}

static void start_levels(struct fan_ring *r)
{
	r->raised = false;
	r->among_bytes = 0;
	r->down_bytes = r->rack.rank && r->among.ranks > 1 ? r->elems * r->elem_bytes : 0;
	r->missing_bytes = begin_ring(r, &r->rack, 0);
	end_levels(r);
}

static void handle_levels(struct fan_ring *r, uint32_t packet, uint16_t len)
{
	if (packet & DOWN) {
		r->down_bytes -= len - FAN_HEAD_BYTES;
		if (r->rack.rank + 1 < r->rack.ranks)
			send_to(r, r->rack.next, DOWN, len);
	} else if (packet & AMONG) {
		go_round(r, &r->among, packet, len, &r->among_bytes);
		/* after so many steps a part is the sum over all racks */
		if ((packet & ~AMONG) + 2 >= r->among.ranks && r->rack.ranks > 1)
			send_to(r, r->rack.next, DOWN, len);
	} else {
		go_round(r, &r->rack, packet, len, &r->missing_bytes);
	}
	end_levels(r);
}

/* The switch to which a host is attached. */
static uint32_t rack_of(const struct fan_sim *s, uint32_t host)
{
	return s->link[s->out[s->node[host].first]].to;
}

bool fan_ring_seats(const struct fan_sim *s, const uint32_t *host, uint32_t ranks, uint32_t rank,
		    struct fan_ring_seat *rack, struct fan_ring_seat *among)
{
	assert(rank < ranks);
	uint32_t mine = rack_of(s, host[rank]), first = FAN_SIM_NONE, first_rack = FAN_SIM_NONE;
	bool *seen = calloc(s->nodes, sizeof *seen);
	*rack = *among = (struct fan_ring_seat){.next = FAN_SIM_NONE};
	for (uint32_t i = 0; seen && i < ranks; i++) {
		uint32_t its = rack_of(s, host[i]);
		if (its == mine) {
			first = first == FAN_SIM_NONE ? i : first;
			rack->rank += i < rank;
			rack->ranks++;
			if (i > rank && rack->next == FAN_SIM_NONE)
				rack->next = i;
		}
		if (seen[its])
			continue;
		seen[its] = true;
		first_rack = first_rack == FAN_SIM_NONE ? i : first_rack;
		among->rank += i < rank;
		among->ranks++;
		if (i > rank && among->next == FAN_SIM_NONE)
			among->next = i;
	}
	rack->next = rack->next == FAN_SIM_NONE ? first : rack->next;
	among->next = among->next == FAN_SIM_NONE ? first_rack : among->next;
	free(seen);
	return seen != NULL;
}

/* ---- all kinds ---- */

/* Handle a packet of the bucket in progress. */
static void handle(struct fan_ring *r, uint32_t packet, uint16_t len)
{
	const struct fan_ring_seat all = {r->rank, r->ranks, r->next};
	if (r->levels) {
		handle_levels(r, packet, len);
	} else if (r->tree) {
		handle_tree(r, packet, len);
	} else {
		go_round(r, &all, packet, len, &r->missing_bytes);
		end_bucket(r);
	}
}

static bool is_due(const struct fan_ring *r, const struct fan_ring_note *n)
{
	bool early = r->levels && n->step & AMONG && !(n->step & DOWN) && !r->raised;
	return r->busy && n->bucket == r->bucket && !early;
}

/* Handle the packets that came too early and are due now, in order of arrival. */
static void handle_notes(struct fan_ring *r)
{
	uint32_t kept = 0;
	for (uint32_t i = 0; i < r->notes; i++) {
		struct fan_ring_note n = r->note[i];
		if (is_due(r, &n))
			handle(r, n.step, n.len);
		else
			r->note[kept++] = n;
	}
	r->notes = kept;
}

void fan_ring_start(struct fan_ring *r, uint64_t elems)
{
	const struct fan_ring_seat all = {r->rank, r->ranks, r->next};
	bool ok = true;
	r->elems = elems;
	r->busy = true;
	if (r->levels) {
		start_levels(r);
	} else if (r->tree) {
		ok = start_tree(r);
	} else {
		r->missing_bytes = begin_ring(r, &all, 0);
		end_bucket(r);
	}
	if (ok)
		handle_notes(r);
	else
		r->sim->broke = true;
}

static void keep(struct fan_ring *r, const struct fan_ring_note *n)
{
	if (r->notes == r->notes_room) {
		uint32_t room = r->notes_room ? 2 * r->notes_room : 64;
		struct fan_ring_note *more = realloc(r->note, room * sizeof *more);
		if (!more) {
			r->sim->broke = true;
			return;
		}
		r->note = more;
		r->notes_room = room;
	}
	r->note[r->notes++] = *n;
}

void fan_ring_recv(struct fan_ring *r, const struct fan_sim_packet *p)
{
	const struct fan_ring_note n = {
		.bucket = fan_get64(p->body->bytes + BUCKET_AT),
		.step = fan_get32(p->body->bytes + STEP_AT),
		.len = p->len,
	};
	bool raised = r->raised;
	if (!is_due(r, &n)) {
		keep(r, &n);
		return;
	}
	handle(r, n.step, n.len);
	if (r->raised && !raised)
		handle_notes(r);
}
