/* SPDX-License-Identifier: Apache-2.0 */
/* What a worker lacks that hears no more from its aggregator, and results that others give it. */
#include "unit/core/worker_rig.h"

/* The result of contribution `i` of the last tick: its own elements. */
static struct fan_frag result_of(unsigned i)
{
	struct fan_frag r = rig.got[i];
	r.type = FAN_TYPE_RESULT;
	r.sender = FAN_RANK_NONE;
	r.flags &= (uint16_t) ~(FAN_F_ROOT | FAN_F_DIRECT);
	return r;
}

static void answer(unsigned i)
{
	struct fan_frag r = result_of(i);
	assert_int_equal(rig_recv(&r, false), FAN_DONE);
}

static bool supply(const struct fan_frag *f)
{
	uint8_t packet[FAN_PACKET_MAX];
	fan_wire_put(packet, f);
	if (f->payload_bytes)
		memcpy(packet + FAN_HEAD_BYTES, f->payload, f->payload_bytes);
	return fan_worker_supply(rig.w, rig.now_ns, packet, FAN_HEAD_BYTES + f->payload_bytes);
}

static void expect_rest(uint64_t id, struct fan_missing *r, uint64_t first, uint64_t end)
{
	assert_true(fan_worker_next_missing(rig.w, id, r));
	assert_int_equal(r->first, first);
	assert_int_equal(r->end, end);
}

static void fail_job(void)
{
	rig_state(FAN_JOB_FAILED, FAN_E_RANK_LOST, 1);
	assert_int_equal(fan_worker_phase(rig.w), FAN_W_FAILED);
}

TEST_WITH(missing__runs_without_results, rig_open, rig_close)
{
	int32_t in[150], out[150];
	memset(in, 1, sizeof in);
	rig_ready();
	struct fan_op op = rig_int_sum(in, out, 100); /* 7 fragments of 16 in 4 slots */
	struct fan_op next = rig_int_sum(in + 100, out + 100, 50);
	uint64_t id = rig_start(&op), after = rig_start(&next);
	assert_int_equal(rig_tick(), 4);
	answer(0);
	answer(2);
	assert_int_equal(rig_tick(), 2); /* 4 and 6 */
	answer(1);
	fail_job();
	const uint64_t awaits[4] = {4, 1, 10, 3};
	for (uint32_t i = 0; i < 4; i++)
		assert_int_equal(fan_worker_awaits(rig.w, i), awaits[i]);
	struct fan_missing r = {.block = 0};
	expect_rest(id, &r, 16, 32);
	expect_rest(id, &r, 48, 96);
	assert_false(fan_worker_next_missing(rig.w, id, &r));
	r = (struct fan_missing){.block = 0};
	expect_rest(after, &r, 0, 50);
	assert_false(fan_worker_next_missing(rig.w, after, &r));
	r = (struct fan_missing){.block = 0};
	assert_false(fan_worker_next_missing(rig.w, after + 1, &r));
}

/* The last fragment is shorter. */
TEST_WITH(missing__ends_with_the_operation, rig_open, rig_close)
{
	int32_t in[20] = {0}, out[20];
	rig_ready();
	struct fan_op op = rig_int_sum(in, out, 20);
	uint64_t id = rig_start(&op);
	rig_tick();
	answer(0);
	struct fan_missing r = {.block = 0};
	expect_rest(id, &r, 16, 20);
	answer(1);
	r = (struct fan_missing){.block = 0};
	assert_false(fan_worker_next_missing(rig.w, id, &r));
}

TEST_WITH(missing__of_nothing, rig_open, rig_close)
{
	rig_ready();
	struct fan_op op = {.op = FAN_BARRIER};
	uint64_t id = rig_start(&op);
	struct fan_missing r = {.block = 0};
	expect_rest(id, &r, 0, 0);
	assert_false(fan_worker_next_missing(rig.w, id, &r));
}

/* Exponents are no elements: a block without its result is summed with exponents of its own. */
TEST_WITH(missing__in_fixed_point, rig_open, rig_close)
{
	enum { GROUP = 32 * 16, COUNT = 2 * GROUP }; /* 32 blocks of 16 elements in each group */
	static float in[COUNT], out[COUNT];
	rig_ready();
	struct fan_op op = rig_fixed_sum(in, out, COUNT);
	uint64_t id = rig_start(&op);
	struct fan_missing r = {.block = 0};
	expect_rest(id, &r, 0, COUNT);
	assert_int_equal(rig_tick(), 2); /* the exponents of both groups */
	answer(0);
	assert_int_equal(rig_tick(), 3); /* blocks 0, 1 and 2 */
	for (unsigned i = 0; i < 3; i++)
		if (rig.got[i].frag == 3) /* block 1 */
			answer(i);
	r = (struct fan_missing){.block = 0};
	expect_rest(id, &r, 0, 16);
	expect_rest(id, &r, 32, COUNT);
}

TEST_WITH(supply__after_the_end, rig_open, rig_close)
{
	int32_t in[32], out[32] = {0};
	memset(in, 1, sizeof in);
	rig_ready();
	struct fan_op op = rig_int_sum(in, out, 32);
	uint64_t id = rig_start(&op);
	assert_int_equal(rig_tick(), 2);
	struct fan_frag first = result_of(0), second = result_of(1), other = first;
	fail_job();
	other.epoch++;
	assert_false(supply(&other));
	other = first;
	other.frag = 4; /* not started */
	assert_false(supply(&other));
	other = first;
	other.type = FAN_TYPE_DATA;
	assert_false(supply(&other));
	assert_int_equal(out[0], 0);
	assert_true(supply(&second));
	assert_true(supply(&first));
	assert_false(supply(&first));
	assert_int_equal(fan_worker_test(rig.w, id), FAN_OK);
	assert_memory_equal(in, out, sizeof in);
}

/* Only the root has the elements of a reduce: others take their results without, and it cannot. */
TEST_WITH(supply__of_a_reduce, rig_open, rig_close)
{
	for (uint16_t root = 1; root < 3; root++) { /* this rank is 1 */
		int32_t in[16] = {7}, out[16] = {0};
		rig_open(NULL);
		rig_ready();
		struct fan_op op = rig_int_sum(in, out, 16);
		op.reduce = true;
		op.root = root;
		rig_start(&op);
		assert_int_equal(rig_tick(), 1);
		struct fan_frag full = result_of(0), empty = full;
		empty.flags |= FAN_F_EMPTY;
		empty.payload_bytes = 0;
		fail_job();
		assert_int_equal(supply(&empty), root != 1);
		assert_int_equal(supply(&full), root == 1);
		assert_int_equal(out[0], root == 1 ? 7 : 0);
	}
}

/* ---- awake: A worker whose machine was suspended. ---- */

/* The machine was suspended: the switch could not be heard, nor results come.  Silence after that
 * is as long as ever. */
TEST_WITH(awake__silence_counts_while_awake, rig_open, rig_close)
{
	struct fan_op op = rig_barrier();
	uint64_t id;
	rig_ready();
	assert_int_equal(fan_worker_start(rig.w, rig.now_ns, &op, &id), FAN_OK);
	rig_pass(600 * FAN_MS);
	rig.now_ns += 12000 * FAN_MS; /* stall_ms is 2000 */
	rig_tick();
	assert_int_equal(fan_worker_phase(rig.w), FAN_W_READY);
	rig_pass(250 * FAN_MS);
	assert_int_equal(fan_worker_phase(rig.w), FAN_W_READY);
	rig_pass(300 * FAN_MS);
	assert_int_equal(fan_worker_fault(rig.w)->err, FAN_E_UNREACHABLE);
}

/* The same while ranks are waited for. */
TEST_WITH(awake__ranks_are_waited_for_while_awake, rig_open, rig_close)
{
	rig_tick();
	rig_welcome(rig.cfg.nonce, 4);
	rig_state(FAN_JOB_FORMING, 0, 4);
	rig_pass(rig.cfg.join_ms * FAN_MS / 2);
	rig.now_ns += 2 * rig.cfg.join_ms * FAN_MS;
	rig_tick();
	assert_true(fan_worker_phase(rig.w) <= FAN_W_FORMING);
	rig_pass(rig.cfg.join_ms * FAN_MS);
	assert_int_equal(fan_worker_fault(rig.w)->err, FAN_E_TIMEOUT);
}

UNIT_MAIN
