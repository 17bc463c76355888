/* SPDX-License-Identifier: Apache-2.0 */
/* Nodes of all kinds between real workers of the core, in virtual time: whole all-reduces
 * with exact sums, through slots so few that contributions collide, with one packet of seven lost
 * if a case says so. */
#include "core/node/node.h"

#include <stdlib.h>

#include "core/base/rng.h"
#include "core/worker/worker.h"
#include "unit/unit.h"

#define NODES_MAX   3
#define RANKS	    4
#define ELEMENTS    2000
#define QUEUE_MAX   8192
#define ITEMS	    256
#define STEP_NS	    (FAN_MS / 10)
#define LIMIT_NS    (30000 * FAN_MS)
#define WORKER_AT   100 /* port of rank 0 */
#define LOSE_ONE_OF 7
#define SEED	    1

struct packet {
	unsigned from, to; /* ports */
	size_t len;
	uint8_t bytes[FAN_PACKET_MAX];
};

static struct net {
	struct fan_node *node[NODES_MAX];
	unsigned nodes;
	struct fan_worker *w[RANKS];
	unsigned at[RANKS]; /* the node of each rank */
	struct packet queue[QUEUE_MAX];
	unsigned head, tail, lose_one_of;
	struct fan_rng rng;
	uint64_t now_ns;
	struct fan_out_item item[ITEMS];
	uint8_t scratch[64 * 1024];
	struct fan_out out;
} net;

static fan_peer port(unsigned number)
{
	return (fan_peer){.addr = {0, 1}, .port = number};
}

static void post(unsigned from, unsigned to, const struct fan_out_item *it)
{
	struct packet *p = &net.queue[net.tail % QUEUE_MAX];
	/* drawn, not counted: what is sent again must not be lost again for ever */
	if (net.lose_one_of && fan_rng_below(&net.rng, net.lose_one_of) == 0)
		return;
	assert_true(net.tail - net.head < QUEUE_MAX);
	net.tail++;
	p->from = from;
	p->to = to;
	p->len = fan_out_item_bytes(it);
	fan_out_item_copy(it, p->bytes);
}

/* Send what is in net.out for node or rank at port `from`. */
static void send_all(unsigned from, unsigned to_connected)
{
	for (unsigned i = 0; i < net.out.count; i++) {
		const struct fan_out_item *it = &net.out.item[i];
		assert_int_not_equal(it->dest, FAN_TO_PARENT); /* the node has put an address */
		if (to_connected) {
			post(from, to_connected, it);
		} else if (it->dest == FAN_TO_PEER) {
			assert_int_equal(it->peer.scope, 0); /* nothing inner leaves */
			post(from, it->peer.port, it);
		} else {
			for (unsigned r = 0; r < it->group->ranks; r++)
				if (!fan_peer_is_none(&it->group->peers[r]))
					post(from, it->group->peers[r].port, it);
		}
	}
	fan_out_reset(&net.out);
}

static void deliver(const struct packet *p)
{
	if (p->to >= WORKER_AT) {
		fan_worker_recv(net.w[p->to - WORKER_AT], net.now_ns, p->bytes, p->len, false,
				false);
		return;
	}
	struct fan_node *n = net.node[p->to - 1];
	assert_true(fan_node_fits(n, &net.out));
	fan_node_recv(n, net.now_ns, port(p->from), p->bytes, p->len, false, &net.out);
	fan_node_audit(n);
	send_all(p->to, 0);
	fan_node_sent(n);
}

static void step(void)
{
	net.now_ns += STEP_NS;
	for (unsigned i = 0; i < net.nodes; i++) {
		struct fan_node *n = net.node[i];
		if (fan_node_deadline(n) <= net.now_ns)
			fan_node_tick(n, net.now_ns, &net.out);
		send_all(i + 1, 0);
		fan_node_sent(n);
	}
	for (unsigned r = 0; r < RANKS; r++) {
		fan_worker_tick(net.w[r], net.now_ns, &net.out);
		send_all(WORKER_AT + r, net.at[r] + 1);
	}
	for (unsigned end = net.tail; net.head != end; net.head++)
		deliver(&net.queue[net.head % QUEUE_MAX]);
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

/* Rank number `rank` of `ranks` of the job that node `at` knows. */
static void join(unsigned worker, uint16_t rank, uint16_t ranks, unsigned at)
{
	const struct fan_worker_config cfg = {.name = "job",
					      .rank = rank,
					      .ranks = ranks,
					      .payload_bytes = 64,
					      .window_max = 8,
					      .alive_ms = 60000,
					      .join_ms = 60000,
					      .stall_ms = 60000,
					      .nonce = 1000 + worker};
	void *mem = aligned_alloc(64, (fan_worker_bytes(&cfg) + 63) / 64 * 64);
	assert_non_null(mem);
	net.w[worker] = fan_worker_init(mem, &cfg, net.now_ns);
	net.at[worker] = at;
}

static void begin(unsigned lose_one_of)
{
	memset(&net, 0, sizeof net);
	net.now_ns = FAN_MS;
	net.lose_one_of = lose_one_of;
	net.rng = (struct fan_rng){SEED};
	fan_out_init(&net.out, net.item, ITEMS, net.scratch, sizeof net.scratch);
}

static void add_node(const struct fan_node_config *cfg)
{
	size_t bytes = fan_node_bytes(cfg);
	void *mem = aligned_alloc(64, bytes);
	assert_true(bytes > 0 && mem);
	memset(mem, 0xee, bytes);
	net.node[net.nodes++] = fan_node_init(mem, cfg);
}

static bool all_are(enum fan_worker_phase phase)
{
	for (unsigned r = 0; r < RANKS; r++)
		if (fan_worker_phase(net.w[r]) != phase)
			return false;
	return true;
}

/* All ranks sum a tensor, look at it, and leave. */
static void allreduce(void)
{
	static int32_t tensor[RANKS][ELEMENTS];
	uint64_t id = 0;
	while (!all_are(FAN_W_READY) && net.now_ns < LIMIT_NS)
		step();
	for (unsigned r = 0; r < RANKS; r++) {
		for (int32_t i = 0; i < ELEMENTS; i++)
			tensor[r][i] = i * 10 + (int32_t)r;
		const struct fan_op op = {.op = FAN_SUM,
					  .dtype = FAN_INT32,
					  .wire = FAN_INT32,
					  .count = ELEMENTS,
					  .in = tensor[r],
					  .out = tensor[r]};
		assert_int_equal(fan_worker_start(net.w[r], net.now_ns, &op, &id), FAN_OK);
	}
	for (unsigned r = 0; r < RANKS; r++) {
		while (fan_worker_test(net.w[r], id) == FAN_E_PENDING && net.now_ns < LIMIT_NS)
			step();
		assert_int_equal(fan_worker_test(net.w[r], id), FAN_OK);
		for (int32_t i = 0; i < ELEMENTS; i++)
			assert_int_equal(tensor[r][i], i * 40 + 6);
	}
	for (unsigned r = 0; r < RANKS; r++)
		fan_worker_leave(net.w[r], net.now_ns, FAN_OK, NULL);
	for (unsigned i = 0; i < 10000 && !all_are(FAN_W_LEFT); i++)
		step();
	for (unsigned i = 0; i < net.nodes; i++)
		assert_int_equal(fan_node_stats(net.node[i])->lost, 0);
}

static void end(void)
{
	for (unsigned i = 0; i < net.nodes; i++)
		free(net.node[i]);
	for (unsigned r = 0; r < RANKS; r++)
		free(net.w[r]);
}

static void slots_and_aggregator_in_one(enum fan_policy policy, unsigned lose_one_of)
{
	begin(lose_one_of);
	struct fan_node_config cfg = config(true, true);
	cfg.slots.policy = policy;
	add_node(&cfg);
	for (uint16_t r = 0; r < RANKS; r++)
		join(r, r, RANKS, 0);
	allreduce();
	const struct fan_switch_stats *st = fan_switch_stats(fan_node_slots(net.node[0]));
	assert_true(st->completions > 0 && st->collisions + st->preemptions > 0);
	assert_int_equal(fan_aggregator_stats(fan_node_aggregator(net.node[0]))->results,
			 ELEMENTS / 16);
	assert_int_equal(fan_node_jobs(net.node[0]), 0);
	const struct fan_node_stats *between = fan_node_stats(net.node[0]);
	assert_int_equal(between->up_packets,
			 fan_aggregator_stats(fan_node_aggregator(net.node[0]))->packets);
	assert_true(between->up_bytes >= between->up_packets * FAN_HEAD_BYTES);
	assert_true(between->down_packets >= ELEMENTS / 16);
	end();
}

TEST(node__slots_in_front_of_a_aggregator)
{
	slots_and_aggregator_in_one(FAN_POLICY_ATP, 0);
	slots_and_aggregator_in_one(FAN_POLICY_ESA, 0);
	slots_and_aggregator_in_one(FAN_POLICY_ATP, LOSE_ONE_OF);
	slots_and_aggregator_in_one(FAN_POLICY_ESA, LOSE_ONE_OF);
}

/* Node 1: the aggregator; node 2: slots before it; node 3: slots before those. */
static void in_a_row(unsigned lose_one_of)
{
	begin(lose_one_of);
	struct fan_node_config cfg = config(true, false);
	add_node(&cfg);
	cfg = config(false, true);
	cfg.above = port(1);
	add_node(&cfg);
	cfg.above = port(2);
	add_node(&cfg);
	for (uint16_t r = 0; r < RANKS; r++)
		join(r, r, RANKS, r < 2 ? 1 : 2);
	allreduce();
	assert_true(fan_switch_stats(fan_node_slots(net.node[2]))->completions > 0);
	assert_true(fan_aggregator_stats(fan_node_aggregator(net.node[0]))->partials > 0);
	end();
}

TEST(node__slots_in_a_row)
{
	in_a_row(0);
	in_a_row(LOSE_ONE_OF);
}

/* Two aggregators, each with two of the workers, and a third that sums their sums. */
static void tree(unsigned lose_one_of, bool slots)
{
	begin(lose_one_of);
	struct fan_node_config cfg = config(true, false);
	add_node(&cfg);
	cfg = config(true, slots);
	cfg.above = port(1);
	cfg.aggregator.siblings = 2;
	add_node(&cfg);
	cfg.aggregator.index = 1;
	add_node(&cfg);
	for (uint16_t r = 0; r < RANKS; r++)
		join(r, r % 2, 2, 1 + r / 2);
	allreduce();
	for (unsigned i = 1; slots && i < net.nodes; i++)
		assert_true(fan_switch_stats(fan_node_slots(net.node[i]))->completions > 0);
	end();
}

TEST(node__aggregators_in_a_tree)
{
	tree(0, false);
	tree(LOSE_ONE_OF, false);
}

/* The same, with slots in front of the two. */
TEST(node__slots_below_a_tree)
{
	tree(0, true);
	tree(LOSE_ONE_OF, true);
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

/* The one item of net.out answers a question about the topic from port 77. */
static void is_answer(unsigned topic)
{
	uint8_t packet[512];
	struct fan_frag f;
	assert_int_equal(net.out.count, 1);
	assert_int_equal(net.out.item[0].peer.port, 77);
	assert_true(fan_out_item_bytes(&net.out.item[0]) <= sizeof packet);
	fan_out_item_copy(&net.out.item[0], packet);
	assert_int_equal(fan_wire_get(&f, packet, fan_out_item_bytes(&net.out.item[0])), -1);
	assert_int_equal(f.type, FAN_TYPE_REPORT);
	assert_int_equal(f.topic, topic);
	assert_int_equal(f.nonce, 5);
}

/* Whatever is asked is answered, once, whoever knows it. */
TEST(node__questions)
{
	uint8_t packet[512], body[FAN_REPORT_BYTES] = {0};
	for (unsigned kind = 1; kind < 4; kind++) {
		begin(0);
		struct fan_node_config cfg = config(kind & 1, kind & 2);
		cfg.above = kind == 2 ? port(9) : (fan_peer){.port = 0};
		add_node(&cfg);
		for (unsigned topic = 0; topic < FAN_TOPIC_COUNT; topic++) {
			struct fan_frag f = question(topic, body, sizeof body);
			fan_wire_put(packet, &f);
			memcpy(packet + FAN_HEAD_BYTES, body, sizeof body);
			fan_node_recv(net.node[0], net.now_ns, port(77), packet,
				      FAN_HEAD_BYTES + sizeof body, false, &net.out);
			is_answer(topic);
			fan_out_reset(&net.out);
		}
		free(net.node[0]);
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
