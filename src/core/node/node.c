/* SPDX-License-Identifier: Apache-2.0 */
#include "node.h"

#include <assert.h>

/* Addresses of aggregator and slots to each other, from which no datagram can come. */
static const fan_peer inner_aggregator = {.port = 1, .scope = UINT32_MAX};
static const fan_peer inner_slots = {.port = 2, .scope = UINT32_MAX};

static struct fan_switch_config slots_config(const struct fan_node_config *cfg)
{
	struct fan_switch_config c = cfg->slots;
	c.aggregator = cfg->has_aggregator ? inner_aggregator : cfg->above;
	return c;
}

/* The longest packet between the two: a partial sum, or a control message in its envelope. */
static size_t stride_of(const struct fan_node_config *cfg)
{
	size_t sum = FAN_HEAD_BYTES + FAN_BITMAP_MAX + (size_t)cfg->aggregator.payload_bytes;
	size_t control = FAN_HEAD_BYTES + FAN_CTL_BYTES_MAX;
	return fan_align_up(sum > control ? sum : control);
}

/* The memory of each part of a node, in this order. */
struct layout {
	size_t node, aggregator, slots, stage;
};

/* False: a field is out of its range. */
static bool lay_out(struct layout *l, const struct fan_node_config *cfg)
{
	struct fan_switch_config slots = slots_config(cfg);
	bool both = cfg->has_aggregator && cfg->has_slots;
	*l = (struct layout){.node = fan_align_up(sizeof(struct fan_node))};
	if (cfg->has_aggregator)
		l->aggregator = fan_align_up(fan_aggregator_bytes(&cfg->aggregator));
	if (cfg->has_slots)
		l->slots = fan_align_up(fan_switch_bytes(&slots));
	if (both)
		l->stage = FAN_NODE_STAGED_MAX * stride_of(cfg);
	return (cfg->has_aggregator || cfg->has_slots) && (!cfg->has_aggregator || l->aggregator) &&
	       (!cfg->has_slots || l->slots) && (!both || cfg->slots.spares >= FAN_NODE_OUT_MAX);
}

size_t fan_node_bytes(const struct fan_node_config *cfg)
{
	struct layout l;
	return lay_out(&l, cfg) ? l.node + l.aggregator + l.slots + l.stage : 0;
}

struct fan_node *fan_node_init(void *mem, const struct fan_node_config *cfg)
{
	struct fan_switch_config slots = slots_config(cfg);
	struct fan_node *n = mem;
	struct layout l;
	bool fits = lay_out(&l, cfg);
	uint8_t *p = mem;
	assert(fits);
	memset(n, 0, sizeof *n);
	n->above = cfg->above;
	n->has_parent = cfg->has_aggregator && cfg->aggregator.siblings;
	n->sorts = n->has_parent || (cfg->has_aggregator && cfg->has_slots);
	n->out_max = FAN_NODE_OUT_MAX;
	if (!cfg->has_slots)
		n->out_max = FAN_AGGREGATOR_OUT_MAX;
	else if (!cfg->has_aggregator)
		n->out_max = FAN_SWITCH_OUT_MAX;
	p += l.node;
	if (cfg->has_aggregator)
		n->aggregator = fan_aggregator_init(p, &cfg->aggregator);
	p += l.aggregator;
	if (!cfg->has_slots)
		return n;
	n->slots = fan_switch_init(p, &slots);
	n->spares = slots.spares;
	n->calls_max = cfg->has_aggregator ? FAN_NODE_OUT_MAX : 1;
	p += l.slots;
	if (cfg->has_aggregator) {
		n->stage = p;
		n->stride = stride_of(cfg);
	}
	return n;
}

unsigned fan_node_out_items(const struct fan_node_config *cfg)
{
	if (!cfg->has_slots)
		return FAN_AGGREGATOR_OUT_MAX;
	/* both: the items of a tick, and their answers */
	return cfg->has_aggregator ? FAN_NODE_TICK_MAX + FAN_NODE_OUT_MAX : FAN_SWITCH_OUT_MAX;
}

bool fan_node_fits(const struct fan_node *n, const struct fan_out *out)
{
	return fan_out_has(out, n->out_max) && n->calls + n->calls_max <= n->spares &&
	       n->staged + FAN_NODE_OUT_MAX <= FAN_NODE_STAGED_MAX;
}

void fan_node_sent(struct fan_node *n)
{
	n->calls = n->staged = n->handled = 0;
}

void fan_node_behind_loses(struct fan_node *n, uint16_t bytes)
{
	if (n->slots)
		fan_switch_behind_loses(n->slots, bytes);
	if (n->aggregator)
		fan_aggregator_behind_loses(n->aggregator, bytes);
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
	size_t bytes = fan_out_item_bytes(it);
	if (n->staged == FAN_NODE_STAGED_MAX || bytes > n->stride) {
		n->stats.lost++;
		return;
	}
	uint8_t *p = n->stage + n->staged * n->stride;
	fan_out_item_copy(it, p);
	n->stats.up_packets += up;
	n->stats.up_bytes += up ? bytes : 0;
	n->stats.down_packets += !up;
	n->stats.down_bytes += up ? 0 : bytes;
	n->packet[n->staged].bytes = bytes;
	n->packet[n->staged++].up = up;
}

/* Keep those items from `first` on that leave.  The aggregator or the slots have written them. */
static void sort_out(struct fan_node *n, unsigned first, bool by_aggregator, struct fan_out *out)
{
	unsigned kept = first;
	for (unsigned i = first; i < out->count; i++) {
		struct fan_out_item *it = &out->item[i];
		if (it->dest == FAN_TO_PARENT) {
			it->dest = FAN_TO_PEER;
			it->peer = n->above;
		}
		if (is_inner(n, it))
			stage(n, it, !by_aggregator);
		else if (kept++ < i)
			out->item[kept - 1] = *it;
	}
	out->count = kept;
}

static enum fan_verdict give_aggregator(struct fan_node *n, uint64_t now_ns, const fan_peer *from,
					const uint8_t *pkt, size_t len, bool marked,
					struct fan_out *out)
{
	unsigned first = out->count;
	enum fan_verdict v;
	unsigned room = out->room;

	if (n->slots && first + FAN_AGGREGATOR_OUT_MAX < room) /* what the slots answer, too */
		out->room = first + FAN_AGGREGATOR_OUT_MAX;
	if (n->has_parent && fan_peer_equal(from, &n->above))
		v = fan_aggregator_recv_up(n->aggregator, now_ns, pkt, len, marked, out);
	else
		v = fan_aggregator_recv(n->aggregator, now_ns, *from, pkt, len, marked, out);
	out->room = room;
	if (n->sorts)
		sort_out(n, first, true, out);
	return v;
}

static enum fan_verdict give_slots(struct fan_node *n, uint64_t now_ns, const fan_peer *from,
				   const uint8_t *pkt, size_t len, bool marked, struct fan_out *out)
{
	unsigned first = out->count;
	n->calls++;
	enum fan_verdict v = fan_switch_recv(n->slots, now_ns, *from, pkt, len, marked, out);
	if (n->sorts)
		sort_out(n, first, false, out);
	return v;
}

/* Carry packets between the two until none is left.  Each is answered by the other at most,
 * and no answer is answered again. */
static void carry(struct fan_node *n, uint64_t now_ns, struct fan_out *out)
{
	while (n->handled < n->staged) {
		const uint8_t *pkt = n->stage + n->handled * n->stride;
		size_t bytes = n->packet[n->handled].bytes;
		bool up = n->packet[n->handled++].up;
		if (!fan_out_has(out, FAN_AGGREGATOR_OUT_MAX) || (!up && n->calls == n->spares))
			n->stats.lost++;
		else if (up)
			give_aggregator(n, now_ns, &inner_slots, pkt, bytes, false, out);
		else
			give_slots(n, now_ns, &inner_aggregator, pkt, bytes, false, out);
	}
}

/* A question that the aggregator answers, though slots are in front of it. */
static bool is_for_aggregator(const uint8_t *pkt, size_t len)
{
	if (len < FAN_HEAD_BYTES)
		return false;
	if (pkt[0] != FAN_WIRE_VERSION)
		return true;
	unsigned topic = fan_wire_topic(pkt);
	return pkt[1] == FAN_TYPE_QUERY && (topic == FAN_TOPIC_JOB || topic == FAN_TOPIC_ECHO);
}

enum fan_verdict fan_node_recv(struct fan_node *n, uint64_t now_ns, fan_peer from,
			       const uint8_t *pkt, size_t len, bool marked, struct fan_out *out)
{
	enum fan_verdict v;
	assert(fan_node_fits(n, out));
	if (!n->slots || (n->has_parent && fan_peer_equal(&from, &n->above)) ||
	    (n->aggregator && is_for_aggregator(pkt, len)))
		v = give_aggregator(n, now_ns, &from, pkt, len, marked, out);
	else
		v = give_slots(n, now_ns, &from, pkt, len, marked, out);
	carry(n, now_ns, out);
	return v;
}

enum fan_verdict fan_node_take(struct fan_node *n, uint64_t now_ns, const fan_peer *from,
			       struct fan_frag *f, bool marked, struct fan_out *out)
{
	assert(!n->slots);
	unsigned first = out->count;
	bool down = n->has_parent && fan_peer_equal(from, &n->above);
	enum fan_verdict v =
		down ? fan_aggregator_take_up(n->aggregator, now_ns, f, marked, out)
		     : fan_aggregator_take(n->aggregator, now_ns, from, f, marked, out);
	if (n->sorts)
		sort_out(n, first, true, out);
	return v;
}

static void tick_aggregator(struct fan_node *n, uint64_t now_ns, struct fan_out *out)
{
	unsigned room = out->room;
	size_t bytes = out->scratch_bytes;
	if (n->slots) { /* what the slots answer needs room as well */
		out->room = FAN_NODE_TICK_MAX;
		out->scratch_bytes = FAN_NODE_TICK_MAX * FAN_ITEM_SCRATCH;
	}
	fan_aggregator_tick(n->aggregator, now_ns, out);
	out->room = room;
	out->scratch_bytes = bytes;
	if (n->sorts)
		sort_out(n, 0, true, out);
}

void fan_node_tick(struct fan_node *n, uint64_t now_ns, struct fan_out *out)
{
	assert(out->count == 0);
	if (n->slots)
		fan_switch_tick(n->slots, now_ns);
	if (n->aggregator)
		tick_aggregator(n, now_ns, out);
	else
		fan_switch_tell(n->slots, now_ns, out);
	carry(n, now_ns, out);
}

uint64_t fan_node_deadline(const struct fan_node *n)
{
	uint64_t aggregator = n->aggregator ? fan_aggregator_deadline(n->aggregator) : UINT64_MAX;
	uint64_t slots = n->slots ? fan_switch_deadline(n->slots) : UINT64_MAX;
	return aggregator < slots ? aggregator : slots;
}

unsigned fan_node_jobs(const struct fan_node *n)
{
	struct fan_report r = {.index = FAN_GROUPS_MAX}; /* the number of jobs, and none of them */
	struct fan_switch_report s;
	if (n->aggregator) {
		fan_aggregator_report(n->aggregator, &r);
		return r.jobs;
	}
	fan_switch_report(n->slots, &s);
	return s.jobs;
}

void fan_node_drain(struct fan_node *n, uint64_t now_ns, const struct fan_drain *of)
{
	if (n->aggregator)
		fan_aggregator_drain(n->aggregator, now_ns, of);
	else if (of->goodbye)
		fan_switch_goodbye(n->slots, now_ns);
}

unsigned fan_node_undrained(const struct fan_node *n)
{
	return n->aggregator ? fan_aggregator_undrained(n->aggregator) : fan_node_jobs(n);
}

void fan_node_audit(const struct fan_node *n)
{
	assert(n->aggregator || n->slots);
	assert(n->handled <= n->staged && n->staged <= FAN_NODE_STAGED_MAX);
	assert(n->calls <= n->spares);
	if (n->aggregator)
		fan_aggregator_audit(n->aggregator);
	if (n->slots)
		fan_switch_audit(n->slots);
}
