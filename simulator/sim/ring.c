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
	r->note = NULL;
}

/* Bytes of the part that this worker sends in a step. */
static uint64_t part_bytes(const struct fan_ring *r, uint32_t step)
{
	assert(r->rank < r->ranks);
	uint64_t part = (r->rank + 2 * (uint64_t)r->ranks - step % r->ranks) % r->ranks;
	return (r->elems / r->ranks + (part < r->elems % r->ranks)) * sizeof(float);
}

static void pass_on(struct fan_ring *r, uint32_t step, uint16_t len)
{
	struct fan_out_item it = {.head = {FAN_WIRE_VERSION, FAN_TYPE_DATA}};
	fan_put64(it.head + BUCKET_AT, r->bucket);
	fan_put32(it.head + STEP_AT, step);
	struct fan_sim_packet p = {
		.from = r->actor,
		.to = r->next,
		.len = len,
		.flags = FAN_PACKET_SAFE,
		.body = fan_sim_body(r->sim, &it),
	};
	if (!p.body)
		return;
	fan_sim_send(r->sim, &p, true);
	fan_body_put(&r->sim->pool, p.body);
}

/* A packet of the bucket in work: keep it, and pass it on unless all have had it. */
static void handle(struct fan_ring *r, uint32_t step, uint16_t len)
{
	uint64_t bytes = len - FAN_HEAD_BYTES;
	r->missing_bytes -= bytes < r->missing_bytes ? bytes : r->missing_bytes;
	if (step + 1 < 2 * (r->ranks - 1u))
		pass_on(r, step + 1, len);
	if (r->missing_bytes)
		return;
	r->busy = false;
	r->bucket++;
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
	for (uint32_t step = 1; step < 2 * (r->ranks - 1u) + 1; step++)
		r->missing_bytes += part_bytes(r, step); /* comes a step before it is sent */
	uint64_t mine = part_bytes(r, 0);
	while (mine) {
		uint64_t bytes = mine < r->payload_bytes ? mine : r->payload_bytes;
		pass_on(r, 0, (uint16_t)(FAN_HEAD_BYTES + bytes));
		mine -= bytes;
	}
	if (!r->missing_bytes) {
		r->busy = false;
		r->bucket++;
	}
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
