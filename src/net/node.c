/* SPDX-License-Identifier: Apache-2.0 */
#include "node.h"

#include <errno.h>
#include <stdlib.h>

#define ALIGN	     64u
#define ITEM_SCRATCH 256u /* bytes of scratch that an item may take */

/* As whom home and slots know each other: addresses that no datagram can come from. */
static const fan_peer inner_home = {.port = 1, .scope = UINT32_MAX};
static const fan_peer inner_slots = {.port = 2, .scope = UINT32_MAX};

static size_t align_up(size_t n)
{
	return (n + ALIGN - 1) / ALIGN * ALIGN;
}

static struct fan_shared_config slots_config(const struct fan_node_config *cfg)
{
	struct fan_shared_config c = cfg->slots;

	c.spares = FAN_NODE_SPARES;
	c.home = cfg->has_home ? inner_home : cfg->above;
	return c;
}

size_t fan_node_bytes(const struct fan_node_config *cfg)
{
	struct fan_shared_config slots = slots_config(cfg);

	return (cfg->has_home ? fan_switch_bytes(&cfg->home) : 0) +
	       (cfg->has_slots ? fan_shared_bytes(&slots) : 0);
}

/* The longest packet between the two: a partial sum, or a control message in its envelope. */
static size_t stride_of(const struct fan_node_config *cfg)
{
	size_t sum = FAN_HEAD_BYTES + FAN_BITMAP_MAX + (size_t)cfg->home.payload_bytes;
	size_t control = FAN_HEAD_BYTES + FAN_CTL_BYTES_MAX;

	return align_up(sum > control ? sum : control);
}

static int make_home(struct fan_node *n, const struct fan_node_config *cfg)
{
	size_t bytes = fan_switch_bytes(&cfg->home);
	void *mem = bytes ? aligned_alloc(ALIGN, align_up(bytes)) : NULL;

	if (!mem)
		return bytes ? -ENOMEM : -EINVAL;
	n->home = fan_switch_init(mem, &cfg->home);
	return 0;
}

static int make_slots(struct fan_node *n, const struct fan_node_config *cfg)
{
	struct fan_shared_config c = slots_config(cfg);
	size_t bytes = fan_shared_bytes(&c);
	void *mem = bytes ? aligned_alloc(ALIGN, align_up(bytes)) : NULL;

	if (!mem)
		return bytes ? -ENOMEM : -EINVAL;
	n->slots = fan_shared_init(mem, &c);
	if (!cfg->has_home)
		return 0;
	n->stride = stride_of(cfg);
	n->stage = aligned_alloc(ALIGN, FAN_NODE_STAGED_MAX * n->stride);
	return n->stage ? 0 : -ENOMEM;
}

int fan_node_init(struct fan_node *n, const struct fan_node_config *cfg)
{
	int e = cfg->has_home || cfg->has_slots ? 0 : -EINVAL;

	memset(n, 0, sizeof *n);
	n->above = cfg->above;
	if (!e && cfg->has_home)
		e = make_home(n, cfg);
	if (!e && cfg->has_slots)
		e = make_slots(n, cfg);
	if (e)
		fan_node_free(n);
	return e;
}

void fan_node_free(struct fan_node *n)
{
	free(n->home);
	free(n->slots);
	free(n->stage);
	memset(n, 0, sizeof *n);
}

bool fan_node_fits(const struct fan_node *n, const struct fan_out *out)
{
	return fan_out_fits(out, FAN_NODE_OUT_MAX, FAN_NODE_OUT_MAX * ITEM_SCRATCH) &&
	       n->calls + FAN_NODE_OUT_MAX <= FAN_NODE_SPARES &&
	       n->staged + FAN_NODE_OUT_MAX <= FAN_NODE_STAGED_MAX;
}

void fan_node_sent(struct fan_node *n)
{
	n->calls = n->staged = n->handled = 0;
}

/* Is the item for the other object of this node? */
static bool is_inner(const struct fan_node *n, const struct fan_out_item *it)
{
	if (!n->stage)
		return false;
	if (it->dest == FAN_TO_PEER)
		return it->peer.scope == UINT32_MAX;
	for (unsigned i = 0; i < it->group->ranks; i++)
		if (fan_peer_equal(&it->group->peers[i], &inner_slots))
			return true;
	return false;
}

static void stage(struct fan_node *n, const struct fan_out_item *it, bool up)
{
	size_t bytes = FAN_HEAD_BYTES + it->payload_bytes;

	if (n->staged == FAN_NODE_STAGED_MAX || bytes > n->stride) {
		n->lost++;
		return;
	}
	uint8_t *p = n->stage + n->staged * n->stride;
	memcpy(p, it->head, FAN_HEAD_BYTES);
	if (it->payload_bytes)
		memcpy(p + FAN_HEAD_BYTES, it->payload, it->payload_bytes);
	n->packet[n->staged].bytes = bytes;
	n->packet[n->staged++].up = up;
}

/* Of the items from `first` on, which the home or the slots have written, keep those that
 * leave. */
static void sort_out(struct fan_node *n, unsigned first, bool by_home, struct fan_out *out)
{
	unsigned kept = first;

	for (unsigned i = first; i < out->count; i++) {
		struct fan_out_item *it = &out->item[i];
		if (it->dest == FAN_TO_PARENT) {
			it->dest = FAN_TO_PEER;
			it->peer = n->above;
		}
		if (is_inner(n, it))
			stage(n, it, !by_home);
		else if (kept++ < i)
			out->item[kept - 1] = *it;
	}
	out->count = kept;
}

static void give_home(struct fan_node *n, uint64_t now_ns, const fan_peer *from, const uint8_t *pkt,
		      size_t len, bool marked, struct fan_out *out)
{
	unsigned first = out->count;

	if (!n->slots && fan_peer_equal(from, &n->above))
		fan_switch_recv_up(n->home, now_ns, pkt, len, marked, out);
	else
		fan_switch_recv(n->home, now_ns, *from, pkt, len, marked, out);
	sort_out(n, first, true, out);
}

static void give_slots(struct fan_node *n, uint64_t now_ns, const fan_peer *from,
		       const uint8_t *pkt, size_t len, bool marked, struct fan_out *out)
{
	unsigned first = out->count;

	n->calls++;
	fan_shared_recv(n->slots, now_ns, *from, pkt, len, marked, out);
	sort_out(n, first, false, out);
}

/* Carry packets between the two until none is left.  Each is answered by the other at most,
 * and no answer is answered again: core/shared.h. */
static void carry(struct fan_node *n, uint64_t now_ns, struct fan_out *out)
{
	while (n->handled < n->staged) {
		const uint8_t *pkt = n->stage + n->handled * n->stride;
		size_t bytes = n->packet[n->handled].bytes;
		bool up = n->packet[n->handled++].up;
		if (!fan_out_fits(out, FAN_SWITCH_OUT_MAX, FAN_SWITCH_OUT_MAX * ITEM_SCRATCH))
			n->lost++;
		else if (up)
			give_home(n, now_ns, &inner_slots, pkt, bytes, false, out);
		else
			give_slots(n, now_ns, &inner_home, pkt, bytes, false, out);
	}
}

/* A question that the home answers, though slots are in front of it. */
static bool is_for_home(const uint8_t *pkt, size_t len)
{
	if (len < FAN_HEAD_BYTES)
		return false;
	return pkt[0] != FAN_WIRE_VERSION || pkt[1] == FAN_TYPE_QUERY || pkt[1] == FAN_TYPE_ECHO;
}

void fan_node_recv(struct fan_node *n, uint64_t now_ns, fan_peer from, const uint8_t *pkt,
		   size_t len, bool marked, struct fan_out *out)
{
	if (!n->slots || (n->home && is_for_home(pkt, len)))
		give_home(n, now_ns, &from, pkt, len, marked, out);
	else
		give_slots(n, now_ns, &from, pkt, len, marked, out);
	carry(n, now_ns, out);
}

static void tick_home(struct fan_node *n, uint64_t now_ns, struct fan_out *out)
{
	unsigned room = out->room;
	size_t bytes = out->scratch_bytes;

	if (n->slots) { /* what the slots answer needs room as well */
		out->room = FAN_NODE_TICK_ITEMS;
		out->scratch_bytes = FAN_NODE_TICK_ITEMS * ITEM_SCRATCH;
	}
	fan_switch_tick(n->home, now_ns, out);
	out->room = room;
	out->scratch_bytes = bytes;
	sort_out(n, 0, true, out);
}

void fan_node_tick(struct fan_node *n, uint64_t now_ns, struct fan_out *out)
{
	if (n->slots)
		fan_shared_tick(n->slots, now_ns);
	if (n->home)
		tick_home(n, now_ns, out);
	carry(n, now_ns, out);
}

uint64_t fan_node_deadline(const struct fan_node *n)
{
	uint64_t home = n->home ? fan_switch_deadline(n->home) : UINT64_MAX;
	uint64_t slots = n->slots ? fan_shared_deadline(n->slots) : UINT64_MAX;

	return home < slots ? home : slots;
}

unsigned fan_node_jobs(const struct fan_node *n)
{
	struct fan_report r = {.index = FAN_JOBS_MAX}; /* the number of jobs, and none of them */
	struct fan_shared_report s;

	if (n->home) {
		fan_switch_report(n->home, &r);
		return r.jobs;
	}
	fan_shared_report(n->slots, &s);
	return s.jobs;
}
