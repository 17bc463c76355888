/* SPDX-License-Identifier: Apache-2.0 */
#include "ring.h"

#include <assert.h>
#include <stdlib.h>

#include "core/wire/wire.h"

#define BUCKET_AT 8  /* place in a packet of the bucket's number */
#define STEP_AT	  16 /* place in a packet of its step */

void fan_ring_free(struct fan_ring *r)
{
	free(r->note);
	free(r->came);
	r->note = NULL;
	r->came = NULL;
}

#define DOWN UINT32_C(0x80000000) /* in a tree's packet: it is a sum, on its way down */

/* Bytes of the part that this worker sends in a step. */
static uint64_t part_bytes(const struct fan_ring *r, uint32_t step)
{
	assert(r->rank < r->ranks);
	uint64_t part = (r->rank + 2 * (uint64_t)r->ranks - step % r->ranks) % r->ranks;
	return (r->elems / r->ranks + (part < r->elems % r->ranks)) * sizeof(float);
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
		.body = fan_sim_body(r->sim, &it),
	};
	if (!p.body)
		return;
	fan_sim_send(r->sim, &p, true);
	fan_body_put(&r->sim->pool, p.body);
}

static void pass_on(struct fan_ring *r, uint32_t step, uint16_t len)
{
	send_to(r, r->next, step, len);
}

/* All of the bucket is there, if it is. */
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

/* The parts of all below are there: on with the sum. */
static void go_up(struct fan_ring *r, uint32_t packet, uint16_t len)
{
	if (r->rank == 0)
		hand_down(r, packet, len);
	else
		send_to(r, r->up, packet, len);
}

/* A rank without children begins with so many packets as its window is large, and sends another one
 * for each sum that comes. */
static void send_next(struct fan_ring *r)
{
	uint64_t bytes = r->elems * sizeof(float), at = (uint64_t)r->sent * r->payload_bytes;
	if (r->children || at >= bytes)
		return;
	uint64_t left = bytes - at < r->payload_bytes ? bytes - at : r->payload_bytes;
	go_up(r, r->sent++, (uint16_t)(FAN_HEAD_BYTES + left));
}

static void handle_tree(struct fan_ring *r, uint32_t packet, uint16_t len)
{
	assert((packet & ~DOWN) * (uint64_t)r->payload_bytes < r->elems * sizeof(float));
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
	uint64_t bytes = r->elems * sizeof(float);
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

/* A packet of the bucket in work: keep it, and pass it on unless all have had it. */
static void handle(struct fan_ring *r, uint32_t step, uint16_t len)
{
	uint64_t bytes = len - FAN_HEAD_BYTES;
	if (r->tree) {
		handle_tree(r, step, len);
		return;
	}
	r->missing_bytes -= bytes < r->missing_bytes ? bytes : r->missing_bytes;
	if (step + 1 < 2 * (r->ranks - 1u))
		pass_on(r, step + 1, len);
	end_bucket(r);
}

/* What came too early and is due now, in the order in which it came. */
static void handle_notes(struct fan_ring *r)
{
	uint32_t kept = 0;
	uint64_t bucket = r->bucket;
	for (uint32_t i = 0; i < r->notes; i++) {
		struct fan_ring_note n = r->note[i];
		if (n.bucket == bucket && r->busy)
			handle(r, n.step, n.len);
		else
			r->note[kept++] = n;
	}
	r->notes = kept;
}

void fan_ring_start(struct fan_ring *r, uint64_t elems)
{
	r->elems = elems;
	r->busy = true;
	r->missing_bytes = 0;
	if (r->tree) {
		if (start_tree(r))
			handle_notes(r);
		else
			r->sim->broke = true;
		return;
	}
	for (uint32_t step = 1; step < 2 * (r->ranks - 1u) + 1; step++)
		r->missing_bytes += part_bytes(r, step); /* comes a step before it is sent */
	uint64_t mine = part_bytes(r, 0);
	while (mine) {
		uint64_t bytes = mine < r->payload_bytes ? mine : r->payload_bytes;
		pass_on(r, 0, (uint16_t)(FAN_HEAD_BYTES + bytes));
		mine -= bytes;
	}
	end_bucket(r);
	handle_notes(r);
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
	if (r->busy && n.bucket == r->bucket)
		handle(r, n.step, n.len);
	else
		keep(r, &n);
}
