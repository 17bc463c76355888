/* SPDX-License-Identifier: Apache-2.0 */
/* A communicator's measurements: what is measured, and what waits for it. */
#include "unit/unit.h"

#include "core/worker/worker_priv.h"
#include "lib/rank/rank.h"
#include "lib/rank/share_meter.h"

/* A rank without connections that learns, of two. */
struct rig {
	struct fan_rank *c;
	struct fan_meeting meeting;
	struct fanin_op *op[2];
};

#define OP_ELEMS (2 << 20) /* of float32: two periods */

static void rig_init(struct rig *r, unsigned columns)
{
	memset(r, 0, sizeof *r);
	const struct fan_op what = {.dtype = FAN_FLOAT32, .count = OP_ELEMS};
	r->c = calloc(1, sizeof *r->c);
	assert_non_null(r->c);
	r->c->cfg.ranks = 2;
	r->c->parts.count = 2;
	r->c->column.columns = columns;
	r->c->parts.inside[0] = r->c->parts.inside[1] = -1;
	fan_share_meter_init(r->c);
	for (unsigned i = 0; i < 2; i++) {
		r->op[i] = fan_op_new(&what, FAN_OP_CALLERS);
		assert_non_null(r->op[i]);
		fan_op_queue_add(&r->c->ops.waiting, r->op[i]);
	}
}

static void rig_end(struct rig *r)
{
	for (unsigned i = 0; i < 2; i++) {
		fan_op_end(r->op[i], FAN_OK);
		fanin_op_free(r->op[i]);
	}
	free(r->c);
}

/* Start what waits first, and take `ns` for it. */
static void rig_starts(struct rig *r, uint64_t ns)
{
	fan_share_meter_started(r->c, fan_op_queue_take(&r->c->ops.waiting));
	r->c->ops.running_count++;
	r->c->meter.busy_ns += ns;
}

static void rig_ends(struct rig *r, uint64_t ns)
{
	r->c->meter.busy_ns += ns;
	r->c->ops.running_count--;
	fan_share_meter_done(r->c, r->op[0]);
}

/* What this rank would tell of it, in ns for each MiB; and the measurement is gone again. */
static uint64_t told(struct rig *r)
{
	struct fanin_op *m = fan_op_queue_take(&r->c->ops.waiting);
	assert_int_equal(m->kind, FAN_OP_MEASUREMENT);
	fan_op_end(m, FAN_OK);
	fanin_op_free(m);
	return (uint64_t)r->c->meter.words[r->c->parts.count] * 16;
}

/* While shares are learnt, an operation that is started behind a large one waits for its end, and
 * the measurement is of all of that one. */
static void share_meter__a_measurement_is_of_operations_that_have_ended(void **state)
{
	struct rig r;
	(void)state;
	rig_init(&r, 0);
	assert_int_equal(1, fan_share_meter_permits(r.c));
	rig_starts(&r, 1000);
	assert_int_equal(0, fan_share_meter_permits(r.c));
	assert_true(fan_share_meter_holds(r.c));
	assert_false(fan_share_meter_waited(r.c));
	assert_ptr_equal(r.c->ops.waiting.head, r.op[1]);
	rig_ends(&r, 800000000);
	assert_true(fan_share_meter_waited(r.c));
	assert_int_equal(1, fan_share_meter_permits(r.c));
	assert_in_range(told(&r), 100000000, 100001000); /* 8 MiB */
	rig_end(&r);
}

/* Once they stay nothing waits: what was done so far may tell nothing, and then what follows tells
 * of both. */
static void share_meter__a_measurement_of_too_little_tells_nothing(void **state)
{
	struct rig r;
	(void)state;
	rig_init(&r, 0);
	r.c->meter.learner.phase = FAN_SPLIT_SETTLED;
	rig_starts(&r, 1000);
	assert_int_equal(1, fan_share_meter_permits(r.c));
	assert_int_equal(told(&r), 0);
	r.c->meter.measures = false;
	rig_ends(&r, 400000000);
	rig_starts(&r, 0);
	rig_ends(&r, 400000000);
	r.op[0]->is_counted = false; /* as another one */
	fan_op_queue_add(&r.c->ops.waiting, r.op[0]);
	assert_int_equal(1, fan_share_meter_permits(r.c));
	assert_in_range(told(&r), 50000000, 50001000); /* 16 MiB */
	rig_end(&r);
}

/* What found no room on its first connection is tried again, and nothing comes before it any more:
 * other ranks may have started it. */
static void share_meter__an_operation_is_counted_once(void **state)
{
	struct rig r;
	(void)state;
	rig_init(&r, 0);
	fan_share_meter_started(r.c, r.c->ops.waiting.head);
	assert_int_equal(r.c->meter.ops, 1);
	assert_int_equal(1, fan_share_meter_permits(r.c));
	assert_ptr_equal(r.c->ops.waiting.head, r.op[0]);
	assert_false(r.c->meter.measures);
	rig_end(&r);
}

/* Two hosts, each with an aggregator; both operations are a set's. */
static void rig_is_of_sets(struct rig *r)
{
	struct fan_meeting *m = &r->meeting;
	r->c->hosts = m;
	m->hosts = 2;
	for (unsigned i = 0; i < 2; i++) {
		m->host_of[i] = (uint16_t)i;
		r->c->parts.inside[i] = (int)i;
		r->op[i]->kind = FAN_OP_MEMBER;
		r->op[i]->op.root = (uint16_t)i;
	}
}

/* Each is larger than a period, and they go side by side all the same. */
static void share_meter__a_set_is_not_measured(void **state)
{
	struct rig r;
	(void)state;
	rig_init(&r, 0);
	rig_is_of_sets(&r);
	for (unsigned i = 0; i < 2; i++) {
		assert_int_equal(1, fan_share_meter_permits(r.c));
		assert_ptr_equal(r.c->ops.waiting.head, r.op[i]);
		rig_starts(&r, 1000);
		assert_true(r.op[i]->is_whole);
	}
	rig_ends(&r, 400000000);
	assert_int_equal(r.c->meter.bytes, 0);
	assert_int_equal(r.c->meter.done_bytes, 0);
	rig_end(&r);
}

/* What is under way of other operations holds none of a set. */
static void share_meter__a_set_waits_for_no_measurement(void **state)
{
	struct rig r;
	(void)state;
	rig_init(&r, 0);
	rig_is_of_sets(&r);
	r.op[0]->kind = FAN_OP_CALLERS;
	assert_int_equal(1, fan_share_meter_permits(r.c));
	rig_starts(&r, 1000);
	assert_int_equal(1, fan_share_meter_permits(r.c));
	assert_ptr_equal(r.c->ops.waiting.head, r.op[1]);
	r.op[1]->kind = FAN_OP_CALLERS;
	assert_int_equal(0, fan_share_meter_permits(r.c));
	rig_end(&r);
}

/* A column has only its share of each tensor. */
static void share_meter__columns_measure_as_often_as_one_stream(void **state)
{
	struct rig r;
	(void)state;
	for (unsigned columns = 0; columns <= 4; columns += 2) {
		rig_init(&r, columns);
		r.c->meter.bytes = FAN_SHARE_METER_BYTES / (columns ? columns : 1) - 4;
		assert_int_equal(1, fan_share_meter_permits(r.c));
		assert_false(r.c->meter.measures);
		r.c->meter.bytes += 4;
		fan_share_meter_permits(r.c);
		assert_true(r.c->meter.measures);
		told(&r);
		rig_end(&r);
	}
}

/* A named switch is the only part when ranks join it; hosts come later. */
static void share_meter__results_are_asked_for_later_beside_other_parts(void **state)
{
	const struct fan_worker_config cfg = {.name = "j",
					      .rank = 0,
					      .ranks = 2,
					      .window_max = 64,
					      .payload_bytes = 1024,
					      .alive_ms = 1000,
					      .join_ms = 1000,
					      .stall_ms = 1000,
					      .rto_min_ms = 1,
					      .nonce = 1};
	struct rig r;
	(void)state;
	rig_init(&r, 0);
	r.c->ready = true;
	r.c->connections = 2;
	for (unsigned i = 0; i < 2; i++) {
		void *mem = aligned_alloc(64, (fan_worker_bytes(&cfg) + 63) / 64 * 64);
		r.c->connection[i] =
			(struct fan_connection){.w = fan_worker_init(mem, &cfg, 1), .part = i};
		r.c->parts.shards[i] = 1;
	}
	fan_share_meter_keep_in_step(r.c, FAN_MS);
	assert_int_equal(r.c->connection[0].w->rtt.min_ns, FAN_IN_STEP_RTO_MS * FAN_MS);
	r.c->meter.shares.now.begin[1] = FAN_CUT_WHOLE; /* one part has everything */
	fan_share_meter_keep_in_step(r.c, 2 * FAN_MS);
	assert_int_equal(r.c->connection[0].w->rtt.min_ns, FAN_RTO_MIN_NS);
	for (unsigned i = 0; i < 2; i++)
		free(r.c->connection[i].w);
	rig_end(&r);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(share_meter__a_measurement_is_of_operations_that_have_ended),
		cmocka_unit_test(share_meter__a_measurement_of_too_little_tells_nothing),
		cmocka_unit_test(share_meter__an_operation_is_counted_once),
		cmocka_unit_test(share_meter__a_set_is_not_measured),
		cmocka_unit_test(share_meter__a_set_waits_for_no_measurement),
		cmocka_unit_test(share_meter__columns_measure_as_often_as_one_stream),
		cmocka_unit_test(share_meter__results_are_asked_for_later_beside_other_parts),
	};
	return RUN(tests);
}
