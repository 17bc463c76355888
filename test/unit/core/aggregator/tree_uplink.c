/* SPDX-License-Identifier: Apache-2.0 */
/* Trees of switches, as the core has them: every operation and type over two and three
 * levels, and how a job begins, fails and ends.  Trees in trouble: test/sim/faults --policy tree.
 *
 *             top
 *            /   \
 *           A     m          switches 0 top, 1 A, 2 m, 3 C, 4 D
 *         0 1 2  / \         workers 0 to 6
 *               C   D
 *              3 4 5 6
 */
#include <stdlib.h>

#include "core/aggregator/aggregator_priv.h"
#include "sim/tensor.h"
#include "unit/unit.h"

#define SWITCHES    5
#define WORKERS	    7
#define NODES	    (SWITCHES + WORKERS)
#define PACKETS_MAX 20000
#define OUT_ITEMS   8
#define OPS	    40
#define ELEMENTS    900
#define PAYLOAD	    64
#define END_NS	    (UINT64_C(20) * 1000 * FAN_MS)

static const int parent_of[NODES] = {-1, 0, 0, 2, 2, 1, 1, 1, 3, 3, 4, 4};
static const uint16_t index_of[NODES] = {0, 0, 1, 0, 1, 0, 1, 2, 0, 1, 0, 1};
static const uint16_t children_of[SWITCHES] = {2, 3, 2, 2, 2};

struct packet {
	uint64_t at_ns;
	int from, to;
	size_t len;
	uint8_t bytes[FAN_PACKET_MAX < 512 ? FAN_PACKET_MAX : 512];
};

static struct {
	uint64_t now_ns;
	struct fan_rng rng;
	struct fan_aggregator_config cfg[SWITCHES];
	void *mem[NODES];
	struct fan_aggregator *ag[SWITCHES];
	struct fan_worker *w[WORKERS];
	struct packet packet[PACKETS_MAX];
	unsigned packets;
	int cut; /* a node that nobody hears; -1: none */
} tree;

static fan_peer peer(int node)
{
	return (fan_peer){.addr = {0, (uint64_t)node + 1}, .port = 7};
}

static void post(int from, int to, const struct fan_out_item *it)
{
	if (from == tree.cut || to == tree.cut)
		return;
	assert_in_range(tree.packets, 0, PACKETS_MAX - 1);
	struct packet *p = &tree.packet[tree.packets++];
	p->at_ns = tree.now_ns + 5000;
	p->from = from;
	p->to = to;
	p->len = fan_out_item_bytes(it);
	assert_true(p->len <= sizeof p->bytes);
	fan_out_item_copy(it, p->bytes);
}

static void post_all(int node, const struct fan_out *out)
{
	for (unsigned i = 0; i < out->count; i++) {
		const struct fan_out_item *it = &out->item[i];
		if (node >= SWITCHES || it->dest == FAN_TO_PARENT)
			post(node, parent_of[node], it);
		else if (it->dest == FAN_TO_PEER)
			post(node, (int)it->peer.addr[1] - 1, it);
		for (unsigned r = 0; it->dest == FAN_TO_GROUP && r < it->group->ranks; r++)
			if (!fan_peer_is_none(&it->group->peers[r]))
				post(node, (int)it->group->peers[r].addr[1] - 1, it);
	}
}

static uint64_t deadline(int node)
{
	if (node < SWITCHES)
		return fan_aggregator_deadline(tree.ag[node]);
	return tree.w[node - SWITCHES] ? fan_worker_deadline(tree.w[node - SWITCHES]) : UINT64_MAX;
}

/* Hand `p` to its node, or, if NULL, let `node` do what time asks for. */
static void handle(int node, const struct packet *p)
{
	struct fan_out_item item[OUT_ITEMS];
	static _Alignas(64) uint8_t scratch[OUT_ITEMS * 256];
	struct fan_out out;
	bool is_switch = node < SWITCHES;
	/* a datagram may count on so many items, and not on more */
	fan_out_init(&out, item, is_switch ? FAN_AGGREGATOR_OUT_MAX : OUT_ITEMS, scratch,
		     is_switch ? FAN_AGGREGATOR_OUT_MAX * 256 : sizeof scratch);
	if (!is_switch && p && tree.w[node - SWITCHES])
		fan_worker_recv(tree.w[node - SWITCHES], tree.now_ns, p->bytes, p->len, false,
				false);
	else if (!is_switch && !p)
		fan_worker_tick(tree.w[node - SWITCHES], tree.now_ns, &out);
	else if (is_switch && !p)
		fan_aggregator_tick(tree.ag[node], tree.now_ns, &out);
	else if (is_switch && p->from == parent_of[node])
		fan_aggregator_recv_up(tree.ag[node], tree.now_ns, p->bytes, p->len, false, &out);
	else if (is_switch)
		fan_aggregator_recv(tree.ag[node], tree.now_ns, peer(p->from), p->bytes, p->len,
				    false, &out);
	if (is_switch)
		fan_aggregator_audit(tree.ag[node]);
	post_all(node, &out);
}

/* The next thing that happens, unless it is later than `until_ns`. */
static bool step(uint64_t until_ns)
{
	unsigned first = 0;
	uint64_t at_ns = UINT64_MAX;
	int node = -1;
	for (unsigned i = 0; i < tree.packets; i++)
		if (tree.packet[i].at_ns < tree.packet[first].at_ns)
			first = i;
	if (tree.packets)
		at_ns = tree.packet[first].at_ns;
	for (int n = 0; n < NODES; n++) {
		if (deadline(n) < at_ns) {
			at_ns = deadline(n);
			node = n;
		}
	}
	if (at_ns > until_ns)
		return false;
	tree.now_ns = at_ns > tree.now_ns ? at_ns : tree.now_ns;
	if (node >= 0) {
		handle(node, NULL);
		return true;
	}
	struct packet p = tree.packet[first];
	tree.packet[first] = tree.packet[--tree.packets];
	handle(p.to, &p);
	return true;
}

static void start_switch(int n)
{
	tree.cfg[n] = (struct fan_aggregator_config){
		.slots = n == 4 ? 8 : 64, /* D has less than its parent grants it */
		.payload_bytes = PAYLOAD,
		.jobs_max = 2,
		.members_max = 8,
		.window_max = 16,
		.shards = 1,
		.secret = {{100 * (uint64_t)n + 1, 0}},
		.siblings = parent_of[n] < 0 ? 0 : children_of[parent_of[n]],
		.index = index_of[n],
		.nonce = 1000 * (uint64_t)n,
	};
	size_t bytes = fan_aggregator_bytes(&tree.cfg[n]);
	assert_true(bytes > 0);
	free(tree.mem[n]);
	tree.mem[n] = aligned_alloc(64, (bytes + 63) / 64 * 64);
	memset(tree.mem[n], 0xee, bytes);
	tree.ag[n] = fan_aggregator_init(tree.mem[n], &tree.cfg[n]);
}

static void start_worker(int i, uint64_t life)
{
	int n = SWITCHES + i;
	struct fan_worker_config cfg = {
		.name = "job",
		.rank = index_of[n],
		.ranks = children_of[parent_of[n]],
		.payload_bytes = PAYLOAD,
		.window_max = 16,
		.alive_ms = 1000,
		.join_ms = 5000,
		.stall_ms = 10000,
		.nonce = life * 100 + (uint64_t)i + 1,
	};
	size_t bytes = fan_worker_bytes(&cfg);
	free(tree.mem[n]);
	tree.mem[n] = aligned_alloc(64, (bytes + 63) / 64 * 64);
	tree.w[i] = fan_worker_init(tree.mem[n], &cfg, tree.now_ns);
}

static int open_tree(void **state __attribute__((unused)))
{
	memset(&tree, 0, sizeof tree);
	tree.cut = -1;
	for (int n = 0; n < SWITCHES; n++)
		start_switch(n);
	return 0;
}

static int close_tree(void **state __attribute__((unused)))
{
	for (int n = 0; n < NODES; n++)
		free(tree.mem[n]);
	memset(tree.mem, 0, sizeof tree.mem);
	return 0;
}

static void start_workers(uint64_t life)
{
	for (int i = 0; i < WORKERS; i++)
		start_worker(i, life);
}

static bool all_in(enum fan_worker_phase phase)
{
	for (int i = 0; i < WORKERS; i++)
		if (fan_worker_phase(tree.w[i]) != phase)
			return false;
	return true;
}

static void run_until(enum fan_worker_phase phase)
{
	while (!all_in(phase))
		assert_true(step(END_NS));
}

static void leave_all(int err)
{
	for (int i = 0; i < WORKERS; i++)
		fan_worker_leave(tree.w[i], tree.now_ns, err, NULL);
}

/* Jobs of any state that a switch still has. */
static unsigned jobs_at(int n)
{
	struct fan_report r = {.index = 0};
	fan_aggregator_report(tree.ag[n], &r);
	return r.jobs;
}

static unsigned all_jobs(void)
{
	unsigned jobs = 0;
	for (int n = 0; n < SWITCHES; n++)
		jobs += jobs_at(n);
	return jobs;
}

static void run_empty(void)
{
	while (all_jobs())
		assert_true(step(END_NS));
}

/* Half sums are rounded once a level, and tensor.c rounds once. */
static bool is_rounded(const struct fan_op *op)
{
	bool half = op->wire == FAN_FLOAT16 || op->wire == FAN_BFLOAT16;
	return half && (op->op == FAN_SUM || op->op == FAN_AVG);
}

static void draw(struct tensor_op *o)
{
	const struct tensor_job job = {.ranks = WORKERS, .block = PAYLOAD / 4};
	do
		tensor_draw(o, &tree.rng, WORKERS, ELEMENTS);
	while (is_rounded(&o->op));
	tensor_expect(o, &job);
}

/* The operation as worker `i` sees it: its root is a rank of its own switch, or of none. */
static void start_op(int i, const struct tensor_op *o, struct tensor *t)
{
	struct fan_op op = o->op;
	uint64_t id;
	tensor_open(t, o, (uint16_t)i, &op);
	int root = SWITCHES + o->op.root;
	op.root = parent_of[root] == parent_of[SWITCHES + i] ? index_of[root] : FAN_RANK_NONE;
	assert_int_equal(fan_worker_start(tree.w[i], tree.now_ns, &op, &id), FAN_OK);
}

static bool all_done(unsigned ops)
{
	for (int i = 0; i < WORKERS; i++)
		for (unsigned k = 0; k < ops; k++)
			if (fan_worker_test(tree.w[i], k) != FAN_OK)
				return false;
	return true;
}

TEST_WITH(tree__all_operations, open_tree, close_tree)
{
	static struct tensor_op op[OPS];
	static struct tensor tensor[OPS][WORKERS];
	tree.rng = test_rng();
	start_workers(1);
	run_until(FAN_W_READY);
	for (unsigned k = 0; k < OPS; k++) {
		draw(&op[k]);
		for (int i = 0; i < WORKERS; i++)
			start_op(i, &op[k], &tensor[k][i]);
	}
	while (!all_done(OPS))
		if (!step(END_NS))
			fail_msg("does not end");
	for (unsigned k = 0; k < OPS; k++) {
		for (int i = 0; i < WORKERS; i++) {
			const char *wrong = tensor_check(&tensor[k][i], &op[k], (uint16_t)i, true);
			if (wrong)
				fail_msg("operation %u (%d, dtype %d), worker %d: %s", k,
					 op[k].op.op, op[k].op.dtype, i, wrong);
			tensor_close(&tensor[k][i]);
		}
		free(op[k].expect);
		free(op[k].near);
	}
	leave_all(FAN_OK);
	run_until(FAN_W_LEFT);
	run_empty();
}

TEST_WITH(tree__half_sums_are_rounded_at_each_level, open_tree, close_tree)
{
	/* 2048 + 1 is no float16: A's three ones get lost with it, C's and D's one by one */
	uint16_t in[WORKERS] = {0x6800, 0x3c00, 0x3c00, 0x3c00, 0x3c00, 0x3c00, 0x3c00};
	uint16_t out[WORKERS];
	uint64_t id;
	start_workers(1);
	run_until(FAN_W_READY);
	for (int i = 0; i < WORKERS; i++) {
		const struct fan_op op = {.dtype = FAN_FLOAT16,
					  .wire = FAN_FLOAT16,
					  .count = 1,
					  .in = &in[i],
					  .out = &out[i]};
		assert_int_equal(fan_worker_start(tree.w[i], tree.now_ns, &op, &id), FAN_OK);
	}
	while (!all_done(1))
		assert_true(step(END_NS));
	for (int i = 0; i < WORKERS; i++) /* A: 2050, m: 4, both exact: 2054 */
		assert_int_equal(out[i], 0x6803);
}

TEST_WITH(tree__workers_are_counted, open_tree, close_tree)
{
	start_workers(1);
	run_until(FAN_W_READY);
	for (int i = 0; i < WORKERS; i++)
		assert_int_equal(fan_worker_workers(tree.w[i]), WORKERS);
}

/* A lost worker: its own switch says who, the others say what. */
TEST_WITH(tree__a_lost_worker_fails_all, open_tree, close_tree)
{
	start_workers(1);
	run_until(FAN_W_READY);
	tree.cut = SWITCHES + 4; /* rank 1 of C */
	run_until(FAN_W_FAILED);
	for (int i = 0; i < WORKERS; i++) {
		const struct fan_fault *f = fan_worker_fault(tree.w[i]);
		if (i == 4)
			continue;
		assert_int_equal(f->err, FAN_E_RANK_LOST);
		assert_int_equal(f->ranks[0], i == 3 ? 2 : 0);
	}
	leave_all(FAN_E_CLOSED);
	run_until(FAN_W_LEFT);
	run_empty();
}

TEST_WITH(tree__a_refusal_above_fails_those_below, open_tree, close_tree)
{
	tree.cfg[0].payload_bytes = PAYLOAD;
	tree.cfg[0].members_max = 2;
	tree.cfg[0].jobs_max = 1;
	tree.ag[0] = fan_aggregator_init(tree.mem[0], &tree.cfg[0]);
	start_workers(1);
	/* another job has the top's only place */
	struct fan_job *j = &tree.ag[0]->jobs.job[tree.ag[0]->jobs.used++];
	memset(j, 0, sizeof *j);
	j->state = FAN_JOB_FAILED;
	j->fault.err = FAN_E_STALLED;
	j->check_ns = j->test_ns = j->remind_ns = UINT64_MAX;
	run_until(FAN_W_FAILED);
	for (int i = 0; i < WORKERS; i++)
		assert_int_equal(fan_worker_fault(tree.w[i])->err, FAN_E_JOBS_FULL);
}

TEST_WITH(tree__config, open_tree, close_tree)
{
	struct fan_aggregator_config cfg = tree.cfg[1];
	size_t with = fan_aggregator_bytes(&cfg);
	cfg.siblings = 0;
	assert_true(fan_aggregator_bytes(&cfg) > 0 && fan_aggregator_bytes(&cfg) < with);
	cfg.siblings = 1;
	cfg.index = 0;
	assert_int_equal(fan_aggregator_bytes(&cfg), 0);
	cfg.siblings = FAN_RANKS_MAX + 1;
	assert_int_equal(fan_aggregator_bytes(&cfg), 0);
	cfg.siblings = 2;
	cfg.index = 2;
	assert_int_equal(fan_aggregator_bytes(&cfg), 0);
}

UNIT_MAIN
