/* SPDX-License-Identifier: Apache-2.0 */
#include <stdlib.h>
#include <string.h>

#include "host.h"

#define OUT_BYTES (FAN_SWITCH_OUT_MAX * 256)

static void to_group(struct host_switch *h, const struct fan_out_item *it, bool multicast)
{
	struct sim *s = h->sim;
	const struct fan_group *g = it->group;
	SIM_CHECK(s, g != NULL, "an item to a group without one");
	if (multicast) {
		for (int i = 1; i < s->nodes; i++)
			if (fan_peer_equal(&s->node[i].group, &g->addr))
				sim_send(s, h->node, i, it->head, it->payload, it->payload_bytes,
					 true);
		return;
	}
	for (unsigned r = 0; r < g->ranks; r++) {
		int to = sim_find(s, &g->peers[r]);
		if (to >= 0)
			sim_send(s, h->node, to, it->head, it->payload, it->payload_bytes, false);
	}
}

static void check_item(struct sim *s, const struct fan_out_item *it, size_t largest)
{
	static uint8_t packet[FAN_PACKET_MAX];
	SIM_CHECK(s, it->payload_bytes <= largest, "an item of %zu bytes", it->payload_bytes);
	SIM_CHECK(s, it->payload_bytes == 0 || it->payload, "an item without its payload");
	memcpy(packet, it->head, FAN_HEAD_BYTES);
	if (it->payload_bytes)
		memcpy(packet + FAN_HEAD_BYTES, it->payload, it->payload_bytes);
	struct fan_frag f;
	int why = fan_wire_get(&f, packet, FAN_HEAD_BYTES + it->payload_bytes);
	SIM_CHECK(s, why == -1, "the switch sends a malformed packet: %s",
		  fan_drop_text((unsigned)why));
	SIM_CHECK(s,
		  f.sender == FAN_RANK_NONE || f.type == FAN_TYPE_RESULT || f.type == FAN_TYPE_VIA,
		  "the switch sends as rank %u", f.sender);
}

static void send_all(struct host_switch *h, struct fan_out *out)
{
	struct sim *s = h->sim;
	size_t largest = h->cfg.payload_bytes < 192 ? 192 : h->cfg.payload_bytes;
	for (unsigned i = 0; i < out->count; i++) {
		const struct fan_out_item *it = &out->item[i];
		check_item(s, it, largest);
		if (it->dest != FAN_TO_PEER) {
			bool multicast = it->dest == FAN_TO_MCAST || it->group->multicast;
			to_group(h, it, multicast);
			continue;
		}
		int to = sim_find(s, &it->peer);
		SIM_CHECK(s, to > 0, "an item to nobody");
		sim_send(s, h->node, to, it->head, it->payload, it->payload_bytes, false);
	}
	fan_out_reset(out);
}

static void tick(void *self)
{
	struct host_switch *h = self;
	struct fan_out_item item[FAN_SWITCH_OUT_MAX];
	uint8_t scratch[OUT_BYTES];
	struct fan_out out;
	fan_out_init(&out, item, FAN_SWITCH_OUT_MAX, scratch, sizeof scratch);
	unsigned tries = 0;
	do {
		SIM_CHECK(h->sim, tries++ < 2 * FAN_JOBS_MAX, "the switch's deadline stays past");
		fan_switch_tick(h->core, h->sim->now_ns, &out);
		send_all(h, &out);
	} while (fan_switch_deadline(h->core) <= h->sim->now_ns);
}

static uint64_t deadline(void *self)
{
	struct host_switch *h = self;
	return fan_switch_deadline(h->core);
}

static void take_events(struct host_switch *h)
{
	struct fan_event ev;
	while (fan_switch_event(h->core, &ev))
		SIM_CHECK(h->sim, ev.kind <= FAN_EV_JOB_REMOVED, "an event of no kind");
}

static void check_counts(const struct host_switch *h)
{
	const struct fan_switch_stats *st = fan_switch_stats(h->core);
	uint64_t counted = 0;
	for (unsigned i = 0; i < FAN_DROP_COUNT; i++)
		counted += st->drops[i];
	SIM_CHECK(h->sim, counted == h->dropped, "%llu packets dropped, %llu counted",
		  (unsigned long long)h->dropped, (unsigned long long)counted);
}

static void recv_packet(void *self, const struct sim_packet *p)
{
	struct host_switch *h = self;
	if (h->sim->now_ns < h->down_until_ns)
		return;
	struct fan_out_item item[FAN_SWITCH_OUT_MAX];
	uint8_t scratch[OUT_BYTES];
	struct fan_out out;
	fan_out_init(&out, item, FAN_SWITCH_OUT_MAX, scratch, sizeof scratch);
	enum fan_verdict v = fan_switch_recv(h->core, h->sim->now_ns, h->sim->node[p->from].peer,
					     p->bytes, p->len, false, &out);
	h->dropped += v == FAN_DROP;
	send_all(h, &out);
	take_events(h);
	bool due = h->restart_at && fan_switch_stats(h->core)->results >= h->restart_at;
	if (due && !h->restarted && h->may_restart(h->may_restart_arg))
		host_switch_restart(h, fan_rng_below(&h->sim->rng, 50 * FAN_MS));
	if (fan_switch_deadline(h->core) <= h->sim->now_ns)
		tick(h);
}

static void begin_life(struct host_switch *h)
{
	size_t bytes = fan_switch_bytes(&h->cfg);
	SIM_CHECK(h->sim, bytes > 0, "the switch does not like its configuration");
	h->mem = aligned_alloc(64, (bytes + 63) / 64 * 64);
	memset(h->mem, 0xee, bytes);
	h->core = fan_switch_init(h->mem, &h->cfg);
	h->dropped = 0;
}

void host_switch_init(struct host_switch *h, struct sim *s, const struct fan_switch_config *cfg)
{
	memset(h, 0, sizeof *h);
	h->sim = s;
	h->cfg = *cfg;
	struct sim_link none = {0};
	h->node = sim_add_node(s, &none);
	struct sim_node *n = &s->node[h->node];
	n->self = h;
	n->recv = recv_packet;
	n->tick = tick;
	n->deadline = deadline;
	begin_life(h);
}

void host_switch_restart(struct host_switch *h, uint64_t down_ns)
{
	check_counts(h);
	free(h->mem);
	h->cfg.epoch += 1 + fan_rng_below(&h->sim->rng, 3);
	h->down_until_ns = h->sim->now_ns + down_ns;
	h->restarted = true;
	begin_life(h);
}

void host_switch_free(struct host_switch *h)
{
	check_counts(h);
	free(h->mem);
}
