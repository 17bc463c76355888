/* SPDX-License-Identifier: Apache-2.0 */
/* What nodes of each kind are asked, and what no node is; whole all-reduces through all of them are
 * test/sim/faults'. */
#include "core/node/node.h"

#include <stdlib.h>

#include "unit/unit.h"

static fan_peer port(unsigned number)
{
	return (fan_peer){.addr = {0, 1}, .port = number};
}

static struct fan_node_config config(bool aggregator, bool slots)
{
	return (struct fan_node_config){
		.has_aggregator = aggregator,
		.has_slots = slots,
		.aggregator = {.slots = 64,
			       .payload_bytes = 64,
			       .jobs_max = 4,
			       .members_max = 16,
			       .window_max = 8,
			       .shards = 1,
			       .secret = {{70, 0}},
			       .nonce = 99},
		.slots = {.policy = FAN_POLICY_ATP,
			  .slots = 3,
			  .payload_bytes = 64,
			  .children_max = 16,
			  .spares = FAN_NODE_SPARES,
			  .shards = 1},
	};
}

static struct fan_frag question(unsigned topic, uint8_t *body, size_t bytes)
{
	struct fan_frag f = {.nonce = 5,
			     .sender = FAN_RANK_NONE,
			     .type = FAN_TYPE_QUERY,
			     .topic = (uint8_t)topic,
			     .payload = body,
			     .payload_bytes = bytes};
	return f;
}

/* The one item answers a question about the topic from port 77. */
static void is_answer(const struct fan_out *out, unsigned topic)
{
	uint8_t packet[512];
	struct fan_frag f;
	assert_int_equal(out->count, 1);
	assert_int_equal(out->item[0].peer.port, 77);
	assert_true(fan_out_item_bytes(&out->item[0]) <= sizeof packet);
	fan_out_item_copy(&out->item[0], packet);
	assert_int_equal(fan_wire_get(&f, packet, fan_out_item_bytes(&out->item[0])), -1);
	assert_int_equal(f.type, FAN_TYPE_REPORT);
	assert_int_equal(f.topic, topic);
	assert_int_equal(f.nonce, 5);
}

/* Whatever is asked is answered, once, whoever knows it. */
TEST(node__questions)
{
	static uint8_t scratch[64 * 1024];
	uint8_t packet[512], body[FAN_REPORT_BYTES] = {0};
	struct fan_out_item item[256];
	struct fan_out out;
	fan_out_init(&out, item, 256, scratch, sizeof scratch);
	for (unsigned kind = 1; kind < 4; kind++) {
		struct fan_node_config cfg = config(kind & 1, kind & 2);
		cfg.above = kind == 2 ? port(9) : (fan_peer){.port = 0};
		void *mem = aligned_alloc(64, fan_node_bytes(&cfg));
		struct fan_node *n = fan_node_init(mem, &cfg);
		for (unsigned topic = 0; topic < FAN_TOPIC_COUNT; topic++) {
			struct fan_frag f = question(topic, body, sizeof body);
			fan_wire_put(packet, &f);
			memcpy(packet + FAN_HEAD_BYTES, body, sizeof body);
			fan_node_recv(n, FAN_MS, port(77), packet, FAN_HEAD_BYTES + sizeof body,
				      false, &out);
			is_answer(&out, topic);
			fan_out_reset(&out);
		}
		free(mem);
	}
}

TEST(node__config)
{
	struct fan_node_config cfg = config(false, false);
	assert_int_equal(fan_node_bytes(&cfg), 0);
	cfg = config(true, true);
	cfg.aggregator.slots = 1;
	assert_int_equal(fan_node_bytes(&cfg), 0);
	cfg = config(true, true);
	cfg.slots.slots = 0;
	assert_int_equal(fan_node_bytes(&cfg), 0);
	cfg = config(true, true);
	cfg.slots.spares = FAN_NODE_OUT_MAX - 1;
	assert_int_equal(fan_node_bytes(&cfg), 0);
	cfg.slots.spares = FAN_NODE_OUT_MAX;
	assert_int_not_equal(fan_node_bytes(&cfg), 0);
	cfg = config(false, true); /* nobody above */
	assert_int_equal(fan_node_bytes(&cfg), 0);
}

UNIT_MAIN
