/* SPDX-License-Identifier: Apache-2.0 */
/* A communicator's measurements: what is measured, and what waits for it; and what it
 * makes of them where a link is slow or fast. */
#include "unit/unit.h"

#include <stdio.h>
#include <string.h>

#include "core/base/limits.h"
#include "core/worker/worker_priv.h"
#include "lib/rank/rank.h"
#include "lib/rank/share_meter.c"
#include "lib/rank/shares.h"
#include "lib/rank/thread.h"

#define PERIOD	 FAN_SHARE_METER_BYTES
#define OP_BYTES (2 * PERIOD)
#define USUAL	 1000 /* cost of a tensor */
#define RTT_US	 100
#define SECOND	 (1000 * FAN_MS)

/* A rank of two that has no thread and learns the shares of two parts, where nobody listens. */
struct rig {
	struct fan_rank *c;
	struct fan_meeting meeting;
};

static fan_peer nowhere(unsigned k)
{
	char text[32], why[128];
	fan_peer at;
	snprintf(text, sizeof text, "127.0.0.1:%u", 9 + k);
	assert_int_equal(fan_peer_parse(&at, text, why, sizeof why), 0);
	return at;
}

static void set_part(struct rig *r, unsigned k, int inside)
{
	const struct fan_rank_part part = {.at = nowhere(k), .inside = inside};
	fan_rank_set_part(r->c, k, &part, "");
}

static void rig_init(struct rig *r, unsigned columns)
{
	struct fanin_options options = FANIN_OPTIONS_INIT;
	char why[256];
	memset(r, 0, sizeof *r);
	r->c = calloc(1, sizeof *r->c);
	assert_non_null(r->c);
	fan_rank_init(r->c, &fan_rank_by_sockets, &r->meeting);
	options.switch_addr = "127.0.0.1:9";
	options.rank = 0;
	options.ranks = 2;
	assert_int_equal(fan_config_load(&r->c->cfg, &options, why, sizeof why), 0);
	r->c->column = (struct fan_rank_column){.columns = columns};
	for (unsigned k = 0; k < 2; k++) {
		const struct fan_rank_part part = {.at = nowhere(k), .inside = -1};
		fan_rank_add_part(r->c, &part, "");
	}
	fan_share_meter_init(r->c);
}

/* Operations that are left end. */
static void rig_end(struct rig *r)
{
	struct fanin_op *op;
	for (unsigned i = 0; i < r->c->ops.running_count; i++) {
		fan_op_end(r->c->ops.running[i], FAN_OK);
		fanin_op_free(r->c->ops.running[i]);
	}
	while ((op = fan_op_queue_take(&r->c->ops.waiting))) {
		fan_op_end(op, FAN_OK);
		fanin_op_free(op);
	}
	r->c->kind->release(r->c);
	free(r->c);
}

/* One more operation waits. */
static struct fanin_op *rig_adds(struct rig *r, uint64_t bytes, enum fan_op_kind kind,
				 unsigned root)
{
	const struct fan_op what = {.dtype = FAN_UINT8, .count = bytes, .root = (uint16_t)root};
	struct fanin_op *op = fan_op_new(&what, kind);
	assert_non_null(op);
	fan_op_queue_add(&r->c->ops.waiting, op);
	return op;
}

/* Start what waits first, and take `ns` for it. */
static void rig_starts(struct rig *r, uint64_t ns)
{
	fan_share_meter_started(r->c, r->c->ops.waiting.head);
	fan_rank_run_first(r->c, 0);
	note_spent(r->c, ns);
}

static bool is_any(struct fan_rank *c, struct fanin_op *op)
{
	return c && op;
}

/* All that are under way. */
static void rig_ends(struct rig *r, uint64_t ns)
{
	struct fanin_op *done[FAN_OPS_MAX];
	note_spent(r->c, ns);
	const unsigned count = r->c->ops.running_count;
	assert_in_range(count, 1, 2);
	memcpy(done, r->c->ops.running, count * sizeof *done);
	fan_rank_end_done(r->c, is_any);
	assert_int_equal(r->c->ops.running_count, 0);
	for (unsigned i = 0; i < count; i++)
		fanin_op_free(done[i]);
}

/* Does a measurement wait?  It is gone then, and has brought the sum of one rank. */
static bool measures(struct rig *r)
{
	if (!r->c->ops.waiting.head || r->c->ops.waiting.head->kind != FAN_OP_MEASUREMENT)
		return false;
	struct fanin_op *m = fan_op_queue_take(&r->c->ops.waiting);
	fan_op_end(m, FAN_OK);
	fanin_op_free(m);
	r->c->meter.arrived = true;
	return true;
}

/* What this rank has told in it, in ns for each MiB. */
static uint64_t told(const struct rig *r)
{
	return (uint64_t)r->c->meter.words[r->c->parts.count] * 16;
}

/* Nothing changes for the better, until the shares stay. */
static void rig_settles(struct rig *r)
{
	const uint32_t rtt_us[FAN_PARTS_MAX] = {RTT_US, RTT_US};
	for (int i = 0; i < 100 && r->c->meter.learner.phase != FAN_SPLIT_SETTLED; i++)
		fan_split_learn(&r->c->meter.learner, rtt_us, USUAL);
	assert_int_equal(r->c->meter.learner.phase, FAN_SPLIT_SETTLED);
}

/* While shares are learnt, an operation that is started behind a large one waits for its end, and
 * the measurement is of all of that one. */
TEST(share_meter__a_measurement_is_of_operations_that_have_ended)
{
	struct rig r;
	rig_init(&r, 0);
	rig_adds(&r, OP_BYTES, FAN_OP_CALLERS, 0);
	struct fanin_op *next = rig_adds(&r, OP_BYTES, FAN_OP_CALLERS, 0);
	assert_int_equal(1, fan_share_meter_permits(r.c));
	rig_starts(&r, 1000);
	assert_int_equal(0, fan_share_meter_permits(r.c));
	assert_true(r.c->meter.blocked || r.c->meter.drains);
	assert_false(fan_share_meter_waited(r.c));
	assert_ptr_equal(r.c->ops.waiting.head, next);
	rig_ends(&r, 800000000);
	assert_true(fan_share_meter_waited(r.c));
	assert_int_equal(1, fan_share_meter_permits(r.c));
	assert_true(measures(&r));
	assert_in_range(told(&r), 100000000, 100001000); /* 8 MiB */
	rig_end(&r);
}

/* Once they stay nothing waits: what was done so far may tell nothing, and then what follows tells
 * of both. */
TEST(share_meter__a_measurement_of_too_little_tells_nothing)
{
	struct rig r;
	rig_init(&r, 0);
	rig_settles(&r);
	rig_adds(&r, OP_BYTES, FAN_OP_CALLERS, 0);
	rig_adds(&r, OP_BYTES, FAN_OP_CALLERS, 0);
	rig_starts(&r, 1000);
	assert_int_equal(1, fan_share_meter_permits(r.c));
	assert_true(measures(&r));
	assert_int_equal(told(&r), 0);
	rig_ends(&r, 400000000);
	rig_starts(&r, 0);
	rig_ends(&r, 400000000);
	rig_adds(&r, OP_BYTES, FAN_OP_CALLERS, 0);
	assert_int_equal(1, fan_share_meter_permits(r.c));
	assert_true(measures(&r));
	assert_in_range(told(&r), 50000000, 50001000); /* 16 MiB */
	rig_end(&r);
}

/* While a measurement is under way, tensors of FAN_SHARE_METER_AHEAD bytes go on; the next one
 * waits for it if shares are learnt. */
TEST(share_meter__small_operations_go_on_during_a_measurement)
{
	const unsigned ahead = 8, each = FAN_SHARE_METER_AHEAD / ahead;
	struct rig r;
	rig_init(&r, 0);
	rig_adds(&r, OP_BYTES, FAN_OP_CALLERS, 0);
	rig_starts(&r, 1000);
	rig_ends(&r, 400000000);
	rig_adds(&r, each, FAN_OP_CALLERS, 0);
	assert_int_equal(1, fan_share_meter_permits(r.c));
	struct fanin_op *m = fan_op_queue_take(&r.c->ops.waiting);
	assert_int_equal(m->kind, FAN_OP_MEASUREMENT);
	for (unsigned i = 0; i < ahead; i++) {
		assert_int_equal(1, fan_share_meter_permits(r.c));
		rig_starts(&r, 1000);
		rig_ends(&r, 1000);
		rig_adds(&r, each, FAN_OP_CALLERS, 0);
	}
	assert_int_equal(0, fan_share_meter_permits(r.c));
	assert_true(r.c->meter.blocked || r.c->meter.drains);
	assert_false(fan_share_meter_waited(r.c));
	fan_op_end(m, FAN_OK);
	fanin_op_free(m);
	r.c->meter.arrived = true;
	assert_true(fan_share_meter_waited(r.c));
	assert_int_equal(1, fan_share_meter_permits(r.c));
	rig_end(&r);
}

/* What found no room on its first connection is tried again, and nothing comes before it any more:
 * other ranks may have started it. */
TEST(share_meter__an_operation_is_counted_once)
{
	struct rig r;
	rig_init(&r, 0);
	struct fanin_op *op = rig_adds(&r, OP_BYTES, FAN_OP_CALLERS, 0);
	fan_share_meter_started(r.c, op);
	assert_int_equal(r.c->meter.ops, 1);
	assert_int_equal(1, fan_share_meter_permits(r.c));
	assert_ptr_equal(r.c->ops.waiting.head, op);
	assert_false(r.c->meter.measures);
	rig_end(&r);
}

/* Two hosts, each with an aggregator. */
static void rig_is_of_hosts(struct rig *r)
{
	struct fan_meeting *m = &r->meeting;
	m->hosts = 2;
	for (unsigned i = 0; i < 2; i++) {
		m->host_of[i] = (uint16_t)i;
		set_part(r, i, (int)i);
	}
}

/* Each is larger than a period, and they go side by side all the same. */
TEST(share_meter__a_set_is_not_measured)
{
	struct rig r;
	rig_init(&r, 0);
	rig_is_of_hosts(&r);
	for (unsigned i = 0; i < 2; i++) {
		struct fanin_op *op = rig_adds(&r, OP_BYTES, FAN_OP_MEMBER, i);
		assert_int_equal(1, fan_share_meter_permits(r.c));
		assert_ptr_equal(r.c->ops.waiting.head, op);
		rig_starts(&r, 1000);
		assert_true(op->is_whole);
	}
	rig_ends(&r, 400000000);
	assert_int_equal(r.c->meter.bytes, 0);
	assert_int_equal(r.c->meter.done_bytes, 0);
	rig_end(&r);
}

/* What is under way of other operations holds none of a set. */
TEST(share_meter__a_set_waits_for_no_measurement)
{
	struct rig r;
	rig_init(&r, 0);
	rig_is_of_hosts(&r);
	rig_adds(&r, OP_BYTES, FAN_OP_CALLERS, 0);
	struct fanin_op *member = rig_adds(&r, OP_BYTES, FAN_OP_MEMBER, 1);
	rig_adds(&r, OP_BYTES, FAN_OP_CALLERS, 0);
	assert_int_equal(1, fan_share_meter_permits(r.c));
	rig_starts(&r, 1000);
	assert_int_equal(1, fan_share_meter_permits(r.c));
	assert_ptr_equal(r.c->ops.waiting.head, member);
	rig_starts(&r, 1000);
	assert_int_equal(0, fan_share_meter_permits(r.c));
	rig_end(&r);
}

/* A column has only its share of each tensor. */
TEST(share_meter__columns_measure_as_often_as_one_stream)
{
	struct rig r;
	for (unsigned columns = 0; columns <= 4; columns += 2) {
		rig_init(&r, columns);
		rig_adds(&r, PERIOD / (columns ? columns : 1) - 4, FAN_OP_CALLERS, 0);
		rig_adds(&r, 4, FAN_OP_CALLERS, 0);
		rig_starts(&r, 1000);
		rig_ends(&r, 1000);
		assert_int_equal(1, fan_share_meter_permits(r.c));
		assert_false(measures(&r));
		rig_starts(&r, 1000);
		rig_ends(&r, 1000);
		rig_adds(&r, 4, FAN_OP_CALLERS, 0);
		fan_share_meter_permits(r.c);
		assert_true(measures(&r));
		rig_end(&r);
	}
}

/* Connections of two parts, one of each. */
static void rig_opens(struct rig *r)
{
	assert_int_equal(r->c->kind->open(r->c), FAN_OK);
	fan_rank_open_parts(r->c, 1);
	assert_int_equal(r->c->connections, 2);
	for (unsigned k = 0; k < 2; k++)
		r->c->parts.shards[k] = 1;
	r->c->ready = true;
}

/* A named switch is the only part when ranks join it; hosts come later. */
TEST(share_meter__results_are_asked_for_later_beside_other_parts)
{
	const struct fan_split_learner first_has_all = {.parts = 2, .share = {FAN_SPLIT_WHOLE, 0}};
	struct rig r;
	rig_init(&r, 0);
	rig_opens(&r);
	const uint64_t *least_ns = &r.c->connection[0].w->rtt.min_ns;
	for (unsigned i = 0; i < 2; i++)
		r.c->connection[i].w->stats.window = 512;
	r.c->connection[1].w->next_frag = FAN_IN_STEP_FRAGS + 1;
	fan_share_meter_keep_in_step(r.c, FAN_MS);
	assert_int_equal(*least_ns, FAN_IN_STEP_RTO_MS * FAN_MS);
	r.c->connection[1].w->next_frag = FAN_IN_STEP_FRAGS; /* the end: nothing is sent after it */
	fan_share_meter_keep_in_step(r.c, 2 * FAN_MS);
	assert_int_equal(*least_ns, FAN_IN_STEP_END_MS * FAN_MS);
	r.c->connection[0].w->next_frag = FAN_IN_STEP_FRAGS + 1;
	fan_share_meter_keep_in_step(r.c, 3 * FAN_MS);
	assert_int_equal(*least_ns, FAN_IN_STEP_RTO_MS * FAN_MS);
	fan_split_from_shares(&r.c->meter.shares.now, &first_has_all);
	fan_share_meter_keep_in_step(r.c, 4 * FAN_MS);
	assert_int_equal(*least_ns, FAN_RTO_MIN_NS);
	rig_end(&r);
}

/* ---- slow links: shares and fragments in flight, from measured figures ---- */

#define HOSTS	   4
#define SLOW_USUAL 4120000 /* of a tensor */
#define ROUNDS	   10	   /* until equal links' shares stay, at most */

/* Four hosts of which host 1 has a quarter of the rate (bench/placement's row, in microseconds):
 * contributions of that host are what every round trip waits for. */
static const uint32_t before_us[HOSTS] = {6000, 6000, 7900, 8400};
static const uint32_t slow_us[HOSTS] = {15390, 36003, 22591, 30096};

static void settle(struct fan_split_learner *l)
{
	const bool is_host[HOSTS] = {true, true, true, true};
	fan_split_learner_init(l, HOSTS, is_host, NULL);
	for (int i = 0; i < ROUNDS && l->phase != FAN_SPLIT_SETTLED; i++)
		fan_split_learn(l, before_us, SLOW_USUAL);
	assert_int_equal(l->phase, FAN_SPLIT_SETTLED);
	for (unsigned k = 0; k < HOSTS; k++)
		assert_int_equal(l->share[k], FAN_SPLIT_WHOLE / HOSTS);
}

static void measure(struct fan_split_learner *l, const uint32_t *rtt_us, uint64_t cost)
{
	for (int i = 0; i < FAN_SPLIT_WORSE; i++)
		if (fan_split_learn(l, rtt_us, cost) || l->phase != FAN_SPLIT_SETTLED)
			return;
	fail_msg("nobody has noticed");
}

TEST(split_slow__a_host_whose_link_drops_sums_nothing_at_once)
{
	struct fan_split_learner l;
	settle(&l);
	measure(&l, slow_us, 4 * SLOW_USUAL);
	assert_int_equal(l.share[1], 0);
	for (unsigned k = 0; k < HOSTS; k++)
		assert_true(k == 1 || l.share[k] >= FAN_SPLIT_WHOLE / HOSTS);
}

/* Then round trips have to be twice as long as others'. */
TEST(split_slow__a_host_keeps_its_share_where_tensors_take_a_little_longer)
{
	struct fan_split_learner l;
	settle(&l);
	measure(&l, slow_us, 2 * SLOW_USUAL);
	assert_int_equal(l.share[1], FAN_SPLIT_WHOLE / HOSTS);
}

TEST(split_slow__which_host_it_is_must_be_clear)
{
	const uint32_t all_us[HOSTS] = {15390, 33000, 22591, 30096};
	struct fan_split_learner l;
	settle(&l);
	measure(&l, all_us, 4 * SLOW_USUAL);
	assert_int_equal(l.share[1], FAN_SPLIT_WHOLE / HOSTS);
}

TEST(split_slow__a_slow_link_has_no_longer_queue_for_more_connections)
{
	assert_true(count_of(0, 3) == 3);
	assert_true(count_of(0, 5) == 5); /* four hosts, one spare: as without it */
	assert_true(count_of(0, 8) == FAN_SHARE_METER_COUNTED);
	assert_true(count_of(FAN_IN_STEP_FRAGS * 6, 8) == 6);
	assert_true(count_of(FAN_IN_STEP_FRAGS * 60, 8) == 8);
}

TEST(split_slow__parts_may_be_further_apart_only_on_a_fast_link)
{
	const double slow = FAN_IN_STEP_FRAGS * HOSTS, fast = FAN_SHARE_METER_FAST_GBPS;
	assert_true(step_of(HOSTS, 0, false) == slow);
	assert_true(step_of(HOSTS, fast, false) == slow);
	assert_true(step_of(HOSTS, 2 * fast, false) == 4 * slow);
	assert_true(step_of(HOSTS, fast, true) == FAN_SHARE_METER_SET_STEP * HOSTS);
}

/* Results of 1,250 bytes, 100 in each 10 ms: 0.1 Gb/s. */
TEST(split_slow__a_link_carries_what_all_ranks_of_its_host_take_in)
{
	assert_float_equal(gbps_of(100, 1250, 1, 0), 0.1, 1e-9);
	assert_float_equal(gbps_of(100, 1250, 4, 0), 0.4, 1e-9);
	assert_float_equal(gbps_of(100, 1250, 1, 2), 0.1, 1e-9);
	assert_float_equal(gbps_of(100, 1250, 2, 4), 0.3, 1e-9);
}

static uint32_t allowed(struct rig *r, double fill, uint64_t left)
{
	for (unsigned i = 0; i < 2; i++) {
		struct fan_worker *w = r->c->connection[i].w;
		w->stats.window = 512;
		w->stats.results = 100;
		w->stats.waiting = w->window.in_flight = 1;
		w->next_frag = w->stats.results + left;
	}
	r->c->meter.fill = fill;
	fan_share_meter_keep_in_step(r->c, 0);
	for (unsigned i = 0; i < 2; i++) /* which the worker would find wanting */
		r->c->connection[i].w->window.in_flight = 0;
	return r->c->connection[0].w->allowed;
}

TEST(split_slow__columns_share_the_queue_of_a_slow_link)
{
	const double all = FAN_SHARE_METER_COLUMNS_WINDOW, fast = FAN_SHARE_METER_FAST_GBPS;
	struct rig r;
	assert_true(column_window(1000, 2, 0) == all / 2);
	assert_true(column_window(1000, 2, fast) == all / 2);
	assert_true(column_window(1000, 2, 2 * fast) == 2 * all);
	assert_true(column_window(1000, 2, 20 * fast) == 1000);
	assert_true(column_window(20, 2, 0) == 20);
	assert_true(column_window(1000, 64, 0) == FAN_SHARE_METER_COLUMN_LEAST);
	rig_init(&r, 64);
	rig_opens(&r);
	assert_int_equal(allowed(&r, 1, 10000),
			 FAN_SHARE_METER_COLUMN_LEAST / 2); /* of two parts */
	rig_end(&r);
}

TEST(split_slow__a_long_stream_on_a_fast_link_goes_in_blocks)
{
	struct rig r;
	assert_int_equal(block_of(1444), 45);
	assert_int_equal(block_of(8996), 7);
	assert_int_equal(block_of(100), FAN_UDP_BURST_MAX);
	rig_init(&r, 0);
	rig_opens(&r);
	const double fill = FAN_SHARE_METER_FAST_GBPS * 1e7 / 8 / r.c->cfg.payload_bytes;
	const uint32_t block = block_of(r.c->connection[0].packet_bytes);
	assert_in_range(block, FAN_IN_STEP_FRAGS + 1, FAN_UDP_BURST_MAX);
	assert_int_equal(allowed(&r, fill * 0.9, 10000), FAN_IN_STEP_FRAGS);
	assert_int_equal((100 + allowed(&r, fill * 1.1, 10000)) % block, 0);
	assert_int_equal(allowed(&r, fill * 1.1, 20), 29); /* 24, by the square of 1.1 */
	rig_end(&r);
}

/* What the program does between two operations is no time of theirs. */
TEST(share_meter__time_without_operations_does_not_count)
{
	struct rig r;
	rig_init(&r, 0);
	r.c->ready = true;
	fan_share_meter_keep_in_step(r.c, SECOND);
	rig_adds(&r, 1000, FAN_OP_CALLERS, 0);
	rig_starts(&r, 0);
	fan_share_meter_keep_in_step(r.c, 9 * SECOND);
	assert_int_equal(r.c->meter.busy_ns, 0);
	fan_share_meter_keep_in_step(r.c, 10 * SECOND);
	assert_int_equal(r.c->meter.busy_ns, SECOND);
	rig_end(&r);
}

/* Two hosts, two rails: the links of the first one and of the second one have these rates. */
static void set_rails(struct rig *r, const uint32_t *mbps)
{
	for (unsigned k = 0; k < 4; k++) {
		const struct fan_rank_part part = {.at = nowhere(k),
						   .inside = (int)k % 2,
						   .mbps = mbps[k],
						   .rail = (uint8_t)(k / 2)};
		fan_rank_set_part(r->c, k, &part, "");
	}
	r->c->parts.count = 4;
	fan_share_meter_init(r->c);
}

TEST(share_meter__a_rail_is_as_wide_as_its_narrowest_link)
{
	struct rig r;
	rig_init(&r, 1);
	const uint32_t *share = r.c->meter.learner.share;
	set_rails(&r, (uint32_t[]){10000, 3000, 1000, 1000});
	for (unsigned k = 0; k < 4; k++)
		assert_int_equal(share[k], FAN_SPLIT_WHOLE * (k < 2 ? 3 : 1) / 8);
	set_rails(&r, (uint32_t[]){10000, 3000, 1000, 0}); /* one tells none */
	for (unsigned k = 0; k < 4; k++)
		assert_int_equal(share[k], FAN_SPLIT_WHOLE / 4);
	rig_end(&r);
}

UNIT_MAIN
