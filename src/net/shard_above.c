/* SPDX-License-Identifier: Apache-2.0 */
#include "clock.h"
#include "shard_priv.h"

#define LOOK_MS 100 /* between two looks for jobs */

bool fan_shard_above_heard(struct fan_shard *s, uint64_t now_ns, const fan_peer *from,
			   const uint8_t *pkt, size_t bytes)
{
	struct fan_mtu_probe *t = &s->above;

	if (!t->rounds || !fan_peer_equal(from, &s->cfg.above) ||
	    !fan_mtu_probe_heard(t, pkt, bytes, now_ns))
		return false;
	s->above_passed = !t->rounds;
	return true;
}

/* A packet of the largest size that goes to the next hop. */
static uint32_t longest(const struct fan_shard *s)
{
	unsigned payload = s->slots ? s->cfg.slots.payload_bytes : s->cfg.aggregator.payload_bytes;

	return FAN_HEAD_BYTES + payload + (s->gate ? FAN_SEAL_MORE : 0);
}

static void look_for_jobs(struct fan_shard *s, uint64_t now_ns)
{
	if (s->above.rounds || now_ns < s->above_look_ns)
		return;
	s->above_look_ns = now_ns + LOOK_MS * FAN_MS;
	if (!fan_node_jobs(s->node))
		fan_mtu_probe_result(&s->above);
	else if (!s->above.next_ns)
		s->above = (struct fan_mtu_probe){.next_ns = now_ns, .bytes = longest(s)};
}

static void set(struct fan_shard *s, bool loses)
{
	if (loses && !s->above_loses)
		fan_shard_log_above(s);
	if (loses != s->above_loses)
		fan_node_behind_loses(s->node, loses ? (uint16_t)s->above.bytes : 0);
	s->above_loses = loses;
	s->above_passed = false;
}

void fan_shard_above_turn(struct fan_shard *s)
{
	if (fan_peer_is_none(&s->cfg.above))
		return;
	uint64_t now = fan_clock_ns();
	look_for_jobs(s, now);
	if (s->above_passed)
		set(s, false);
	if (fan_mtu_probe_turn(&s->above, &s->udp[0], &s->cfg.above, false, 0, now)) {
		set(s, true);
		s->above.rounds = 0; /* and on: it may get better */
	}
}

uint64_t fan_shard_above_deadline(const struct fan_shard *s)
{
	uint64_t node_ns = fan_node_deadline(s->node), test_ns = fan_mtu_probe_deadline(&s->above);

	return test_ns < node_ns ? test_ns : node_ns;
}
