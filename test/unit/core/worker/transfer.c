/* SPDX-License-Identifier: Apache-2.0 */
/* Fragments out of the tensor and back into it. */
#include "unit/core/worker_rig.h"

#include "core/sum/quant.h"

/* The result of contribution `f`, whose payload is `payload`. */
static struct fan_frag result_of(const struct fan_frag *f, const void *payload, size_t bytes)
{
	struct fan_frag r = *f;
	r.type = FAN_TYPE_RESULT;
	r.sender = FAN_RANK_NONE;
	r.flags &= (uint16_t) ~(FAN_F_ROOT | FAN_F_EMPTY | FAN_F_DIRECT);
	r.payload = payload;
	r.payload_bytes = bytes;
	return r;
}

/* Answer contribution `i` of the last tick with three times what was sent. */
static void triple(unsigned i, const int32_t *in)
{
	const struct fan_frag *f = &rig.got[i];
	int32_t sum[16];
	for (unsigned k = 0; k < f->count; k++)
		sum[k] = 3 * in[16 * f->frag + k];
	assert_memory_equal(f->payload, in + 16 * f->frag, 4u * f->count);
	struct fan_frag r = result_of(f, sum, 4u * f->count);
	assert_int_equal(rig_recv(&r, true), FAN_DONE);
	assert_int_equal(rig_recv(&r, true), FAN_DROP);
}

/* Who has fewer in flight than the window allows sends no more, but for the lowest. */
TEST_WITH(transfer__no_more_than_allowed, rig_open, rig_close)
{
	int32_t in[100] = {0}, out[100];
	rig_ready();
	struct fan_op op = rig_int_sum(in, out, 100); /* 7 fragments of 16 */
	assert_int_equal(fan_worker_left(rig.w), 0);
	rig_start(&op);
	assert_int_equal(fan_worker_left(rig.w), 7);
	fan_worker_allow(rig.w, 2);
	assert_int_equal(rig_tick(), 2);
	triple(1, in); /* fragment 1 is done, 0 is not */
	assert_int_equal(fan_worker_left(rig.w), 6);
	fan_worker_allow(rig.w, 1);
	assert_int_equal(rig_tick(), 0);
	fan_worker_allow(rig.w, 0);
	assert_true(fan_worker_deadline(rig.w) > rig.now_ns);
	fan_worker_allow(rig.w, UINT32_MAX);
	assert_int_equal(fan_worker_deadline(rig.w), 0);
	assert_int_equal(rig_tick(), 3); /* 2, 3, and 5 in the slot of 1 */
}

/* What does not belong to what was sent is not taken. */
TEST_WITH(transfer__results_that_do_not_fit, rig_open, rig_close)
{
	int32_t in[16] = {1}, out[16] = {0}, sum[17] = {9};
	rig_ready();
	struct fan_op op = rig_int_sum(in, out, 16);
	rig_start(&op);
	assert_int_equal(rig_tick(), 1);
	const struct fan_frag fine = result_of(&rig.got[0], sum, 64);
	struct fan_frag bad[6] = {fine, fine, fine, fine, fine, fine};
	bad[0].count = 15;
	bad[0].payload_bytes = 60;
	bad[1].dtype = FAN_FLOAT32;
	bad[2].op = FAN_MAX;
	bad[3].flags &= (uint16_t)~FAN_F_LAST;
	bad[4].flags |= FAN_F_EMPTY;
	bad[4].payload_bytes = 0;
	bad[5].frag = 4;
	for (unsigned i = 0; i < 6; i++) {
		assert_int_equal(rig_recv(&bad[i], false), FAN_DROP);
		assert_int_equal(out[0], 0);
	}
	assert_int_equal(fan_worker_stats(rig.w)->drops[FAN_DROP_MISMATCH], 5);
	assert_int_equal(fan_worker_stats(rig.w)->drops[FAN_DROP_AHEAD], 1);
	assert_int_equal(rig_recv(&fine, false), FAN_DONE);
	assert_int_equal(out[0], 9);
}

/* Where the job wants checksums over payloads, a result without one is not taken. */
TEST_WITH(transfer__result_without_its_checksum, rig_open, rig_close)
{
	int32_t in[16] = {1}, out[16] = {0}, sum[16] = {3};
	rig.cfg.options = FAN_JOIN_SUMMED;
	rig.w = fan_worker_init(rig.mem, &rig.cfg, rig.now_ns);
	rig_ready();
	struct fan_op op = rig_int_sum(in, out, 16);
	rig_start(&op);
	rig_tick();
	assert_true(rig.got[0].flags & FAN_F_SUMMED);
	struct fan_frag r = result_of(&rig.got[0], sum, 64);
	r.flags &= (uint16_t)~FAN_F_SUMMED;
	assert_int_equal(rig_recv(&r, false), FAN_DROP);
	assert_int_equal(fan_worker_stats(rig.w)->drops[FAN_DROP_CHECK], 1);
	r.flags |= FAN_F_SUMMED;
	assert_int_equal(rig_recv(&r, false), FAN_DONE);
	assert_int_equal(out[0], 3);
}

TEST_WITH(transfer__need, rig_open, rig_close)
{
	int32_t in[16] = {1}, out[16] = {0};
	rig_ready();
	struct fan_op op = rig_int_sum(in, out, 16);
	rig_start(&op);
	rig_tick();
	struct fan_frag need = rig_frag(FAN_TYPE_NEED, 0);
	need.to = FAN_TAG(1);
	rig.now_ns += FAN_MS;
	assert_int_equal(rig_recv(&need, false), FAN_ASK);
	assert_int_equal(rig_recv(&need, false), FAN_DROP); /* is being sent anyway */
	rig_sends(FAN_TYPE_DATA);
	assert_true(rig.got[0].flags & FAN_F_DIRECT);
	assert_int_equal(rig.got[0].payload_bytes, 64);
	need.frag = 1; /* belongs to no operation yet */
	assert_int_equal(rig_recv(&need, false), FAN_DROP);
	assert_int_equal(rig.w->rtt.least_ns, 0); /* it answered nothing */
	rig.now_ns += FAN_RTO_MAX_NS;
	rig_sends(FAN_TYPE_PROBE);
	rig.now_ns += 7 * FAN_MS;
	need.frag = 0;
	assert_int_equal(rig_recv(&need, false), FAN_ASK);
	assert_int_equal(rig.w->rtt.least_ns, 7 * FAN_MS);
}

/* The result of a contribution that was sent twice tells nothing of the round trip. */
static uint8_t count_left(const void *arg, const struct fan_priority_view *v)
{
	assert_ptr_equal(arg, &rig);
	return (uint8_t)(100 + v->left_frags);
}

/* the place of n + W follows from the result of n, and so does the probe's */
TEST_WITH(transfer__places_and_priorities, rig_open, rig_close)
{
	static int32_t in[128], out[128];
	rig.cfg.priority = count_left;
	rig.cfg.priority_arg = &rig;
	rig.w = fan_worker_init(rig.mem, &rig.cfg, rig.now_ns);
	rig_ready();
	struct fan_op op = rig_int_sum(in, out, 128); /* 8 fragments */
	rig_start(&op);
	assert_int_equal(rig_tick(), 4);
	for (unsigned i = 0; i < 4; i++) {
		assert_int_equal(rig.got[i].place, 0);
		assert_int_equal(rig.got[i].priority, 108);
	}
	struct fan_frag r = rig.got[1];
	r.type = FAN_TYPE_RESULT;
	r.sender = FAN_RANK_NONE;
	r.flags |= FAN_F_COLLISION;
	assert_int_equal(rig_recv(&r, false), FAN_DONE);
	assert_int_equal(rig_tick(), 1);
	assert_int_equal(rig.got[0].frag, 5);
	assert_int_equal(rig.got[0].place, 1);
	assert_int_equal(rig.got[0].priority, 107);
	r = rig.got[0];
	r.type = FAN_TYPE_RESULT;
	r.sender = FAN_RANK_NONE;
	assert_int_equal(rig_recv(&r, false), FAN_DONE); /* all ranks in one slot: stay */
	assert_int_equal(fan_worker_stats(rig.w)->collisions, 1);
	rig_start(&op);
	unsigned last = rig_tick(); /* maybe a probe, and fragment 9, in the same place */
	assert_int_equal(rig.got[last - 1].frag, 9);
	assert_int_equal(rig.got[last - 1].place, 1);
	rig.now_ns += 50 * FAN_MS;
	unsigned probes = 0;
	for (unsigned i = rig_tick(); i > 0; i--) {
		if (rig.got[i - 1].type != FAN_TYPE_PROBE)
			continue;
		assert_int_equal(rig.got[i - 1].place, rig.got[i - 1].frag == 9);
		probes++;
	}
	assert_int_equal(probes, 4);
}

TEST_WITH(transfer__own_priority_of_an_operation, rig_open, rig_close)
{
	int32_t in[16] = {1}, out[16] = {0};
	rig_ready();
	struct fan_op op = rig_int_sum(in, out, 16);
	op.priority = 77;
	rig_start(&op);
	rig_tick();
	assert_int_equal(rig.got[0].priority, 77);
}

TEST_WITH(transfer__mark_halves_the_window, rig_open, rig_close)
{
	int32_t in[16] = {1}, out[16] = {0};
	rig_ready();
	struct fan_op op = rig_int_sum(in, out, 16);
	rig_start(&op);
	rig_tick();
	struct fan_frag r = rig.got[0];
	r.type = FAN_TYPE_RESULT;
	r.sender = FAN_RANK_NONE;
	r.flags |= FAN_F_ECN;
	assert_int_equal(rig_recv(&r, false), FAN_DONE);
	assert_int_equal(fan_worker_stats(rig.w)->cwnd, 2);
	assert_int_equal(fan_worker_stats(rig.w)->marks, 1);
}

/* one NEED for several ranks: each heeds its own bit */
TEST_WITH(transfer__need_with_bitmap, rig_open, rig_close)
{
	int32_t in[16] = {1}, out[16] = {0};
	static const uint64_t sets[] = {5, 8, 0, 6}; /* others, none of the job, nobody, this one */
	rig_ready();
	struct fan_op op = rig_int_sum(in, out, 16);
	rig_start(&op);
	rig_tick();
	for (unsigned i = 0; i < 4; i++) {
		uint8_t bitmap[8];
		fan_put64(bitmap, sets[i]);
		struct fan_frag need = rig_frag(FAN_TYPE_NEED, 0);
		need.words = 1;
		need.payload = bitmap;
		need.payload_bytes = 8;
		assert_int_equal(rig_recv(&need, false), i == 3 ? FAN_ASK : FAN_DROP);
	}
}

TEST_WITH(transfer__no_sample_of_what_was_sent_twice, rig_open, rig_close)
{
	int32_t in[16] = {1}, out[16] = {0}, sum[16] = {3};
	enum { ONCE, TWICE, REPLAY, KINDS };
	for (unsigned again = ONCE; again < KINDS; again++) {
		rig_open(NULL);
		rig_ready();
		struct fan_op op = rig_int_sum(in, out, 16);
		rig_start(&op);
		rig_tick();
		struct fan_frag r = result_of(&rig.got[0], sum, 64);
		rig.now_ns += 3 * FAN_MS;
		r.flags |= again == REPLAY ? FAN_F_REPLAY : 0;
		if (again == TWICE) {
			struct fan_frag need = rig_frag(FAN_TYPE_NEED, 0);
			need.to = FAN_TAG(1);
			assert_int_equal(rig_recv(&need, false), FAN_ASK);
			rig_tick();
		}
		assert_int_equal(rig_recv(&r, false), FAN_DONE);
		assert_int_equal(fan_worker_stats(rig.w)->srtt_ns, again ? 0 : 3 * FAN_MS);
		rig_close(NULL);
	}
	rig_open(NULL);
}

/* Of a fragment that waits to be sent, and of one that belongs to no operation. */
TEST_WITH(transfer__result_before_its_contribution, rig_open, rig_close)
{
	int32_t in[16] = {1}, out[16] = {0}, sum[16] = {3};
	rig_ready();
	struct fan_op op = rig_int_sum(in, out, 16);
	uint64_t id = rig_start(&op);
	struct fan_frag r = rig_frag(FAN_TYPE_RESULT, 0);
	r.dtype = FAN_INT32;
	r.count = 16;
	r.flags = FAN_F_FIRST | FAN_F_LAST;
	r.payload = (const uint8_t *)sum;
	r.payload_bytes = 64;
	assert_int_equal(rig_recv(&r, false), FAN_DROP);
	r.frag = 1;
	assert_int_equal(rig_recv(&r, false), FAN_DROP);
	assert_int_equal(fan_worker_stats(rig.w)->drops[FAN_DROP_AHEAD], 2);
	assert_int_equal(out[0], 0);
	assert_int_equal(fan_worker_test(rig.w, id), FAN_E_PENDING);
}

/* Groups whose exponents are kept are bounded: the next ones wait for the lowest. */
TEST_WITH(transfer__groups_are_bounded, rig_open, rig_close)
{
	enum { GROUP = 32 * 16, COUNT = 40 * GROUP }; /* 32 blocks of 16 elements each */
	static float in[COUNT], out[COUNT];
	static const int16_t agreed[32];
	rig.cfg.window_max = 4096;
	free(rig.mem);
	size_t bytes = fan_worker_bytes(&rig.cfg);
	rig.mem = aligned_alloc(64, (bytes + 63) / 64 * 64);
	rig.w = fan_worker_init(rig.mem, &rig.cfg, rig.now_ns);
	rig_tick();
	assert_int_equal(rig_welcome(rig.cfg.nonce, 4096), FAN_CTL);
	rig_tick();
	rig_state(FAN_JOB_READY, 0, 0);
	struct fan_op op = rig_fixed_sum(in, out, COUNT);
	rig_start(&op);
	unsigned groups = 0;
	for (unsigned n; (n = rig_tick()) > 0;) { /* answer exponents, never elements */
		struct fan_frag got[RIG_OUT];
		memcpy(got, rig.got, sizeof got);
		for (unsigned i = 0; i < n; i++) {
			if (got[i].type != FAN_TYPE_DATA || got[i].dtype != FAN_EXP16)
				continue;
			struct fan_frag r = result_of(&got[i], agreed, 64);
			assert_int_equal(rig_recv(&r, false), FAN_DONE);
			groups++;
		}
	}
	assert_int_equal(groups, 16);
}

/* No elements, but exponents of none and a block of none all the same. */
TEST_WITH(transfer__fixed_mode_of_nothing, rig_open, rig_close)
{
	rig_ready();
	struct fan_op op = {
		.op = FAN_AVG, .dtype = FAN_FLOAT32, .wire = FAN_FLOAT32, .mode = FAN_FIXED};
	uint64_t id = rig_start(&op);
	assert_int_equal(rig_tick(), 1);
	struct fan_frag r = result_of(&rig.got[0], rig.payload[0], 2);
	assert_int_equal(rig_recv(&r, false), FAN_DONE);
	assert_int_equal(rig_tick(), 1);
	assert_int_equal(rig.got[0].exponent, FAN_EXP_ZERO);
	r = result_of(&rig.got[0], NULL, 0);
	assert_int_equal(rig_recv(&r, false), FAN_DONE);
	assert_int_equal(fan_worker_test(rig.w, id), FAN_OK);
}

/* Hostile exponents are brought into range before they scale anything. */
TEST_WITH(transfer__exponents_are_clamped, rig_open, rig_close)
{
	float in[16] = {1}, out[16];
	rig_ready();
	struct fan_op op = rig_fixed_sum(in, out, 16);
	rig_start(&op);
	rig_tick();
	const int16_t huge = INT16_MAX;
	struct fan_frag r = result_of(&rig.got[0], &huge, 2);
	assert_int_equal(rig_recv(&r, false), FAN_DONE);
	assert_int_equal(rig_tick(), 1);
	assert_int_equal(rig.got[0].exponent, FAN_EXP_MAX);
}

TEST_WITH(transfer__reduce, rig_open, rig_close)
{
	int32_t in[16] = {1}, out[16] = {7}, sum[16] = {9};
	for (unsigned root = 0; root < 2; root++) { /* this is rank 1 */
		rig_open(NULL);
		rig_ready();
		struct fan_op op = rig_int_sum(in, out, 16);
		op.reduce = true;
		op.root = (uint16_t)root;
		rig_start(&op);
		rig_tick();
		assert_int_equal(!!(rig.got[0].flags & FAN_F_ROOT), root);
		struct fan_frag full = result_of(&rig.got[0], sum, 64), empty = full;
		empty.flags |= FAN_F_EMPTY;
		empty.payload_bytes = 0;
		const uint16_t heard = rig.w->gap.last;
		empty.seq = (uint16_t)(heard + 1);
		assert_int_equal(rig_recv(root ? &empty : &full, true), FAN_DROP);
		assert_int_equal(out[0], 7);
		if (root) /* what it waits for is still to come */
			assert_int_equal(rig.w->gap.last, heard);
		assert_int_equal(rig_recv(root ? &full : &empty, true), FAN_DONE);
		assert_int_equal(out[0], root ? 9 : 7);
		rig_close(NULL);
	}
	rig_open(NULL);
}

/* A full out loses nothing. */
TEST_WITH(transfer__no_room, rig_open, rig_close)
{
	float in[16] = {1}, out[16];
	rig_ready();
	struct fan_op op = {.op = FAN_SUM,
			    .dtype = FAN_FLOAT32,
			    .wire = FAN_BFLOAT16,
			    .count = 16,
			    .in = in,
			    .out = out};
	rig_start(&op);
	struct fan_out_item item[1];
	_Alignas(64) uint8_t scratch[64];
	struct fan_out o;
	fan_out_init(&o, item, 0, scratch, sizeof scratch);
	assert_true(fan_worker_tick(rig.w, rig.now_ns, &o));
	fan_out_init(&o, item, 1, scratch, 0); /* the conversion needs scratch */
	assert_true(fan_worker_tick(rig.w, rig.now_ns, &o));
	assert_int_equal(o.count, 0);
	assert_int_equal(fan_worker_deadline(rig.w), 0);
	fan_out_init(&o, item, 1, scratch, sizeof scratch);
	assert_false(fan_worker_tick(rig.w, rig.now_ns, &o));
	assert_int_equal(o.count, 1);
	assert_int_equal(fan_worker_stats(rig.w)->sent, 1);
}

/* Send the result of contribution `i` of the last tick: 16 times its fragment, which is its number
 * as well. */
static enum fan_verdict result(unsigned i)
{
	int32_t sum[16];
	for (unsigned k = 0; k < 16; k++)
		sum[k] = (int32_t)rig.got[i].frag;
	struct fan_frag r = result_of(&rig.got[i], sum, sizeof sum);
	r.seq = (uint16_t)r.frag;
	rig.now_ns++;
	return rig_recv(&r, false);
}

/* Results in their order have headers that can be predicted. */
TEST_WITH(transfer__predicted_results, rig_open, rig_close)
{
	int32_t in[128] = {0}, out[128] = {0};
	rig_ready();
	struct fan_op op = rig_int_sum(in, out, 128);
	rig_start(&op);
	assert_int_equal(rig_tick(), 4);
	assert_int_equal(result(0), FAN_DONE); /* the next is no first one of an operation */
	assert_int_equal(result(1), FAN_DONE);
	const struct fan_expected was = rig.w->expected;
	assert_int_equal(result(2), FAN_DONE);
	assert_true(rig.w->predicts && rig.w->expected.f.frag == was.f.frag + 1);
	assert_true(rig.w->heard_ns == rig.now_ns);
	assert_int_equal(result(3), FAN_DONE);
	assert_int_equal(rig_tick(), 4);
	assert_int_equal(result(0), FAN_DONE); /* of the next four */
	rig.marked = true;		       /* which no header shows */
	assert_int_equal(result(1), FAN_DONE);
	assert_int_equal(rig.w->stats.marks, 1);
	assert_false(rig.w->predicts);
	for (unsigned i = 0; i < 96; i++)
		assert_int_equal(out[i], i / 16);
	rig_state(FAN_JOB_FAILED, FAN_E_RANK_LOST, 1);
	assert_int_equal(result(2), FAN_DROP);
	assert_int_equal(out[96], 0);
}

/* One that would be predicted, but that the job has failed, and nothing came in between. */
TEST_WITH(transfer__nothing_predicted_after_the_end, rig_open, rig_close)
{
	int32_t in[128] = {0}, out[128] = {0};
	rig_ready();
	struct fan_op op = rig_int_sum(in, out, 128);
	rig_start(&op);
	assert_int_equal(rig_tick(), 4);
	assert_int_equal(result(0), FAN_DONE);
	assert_int_equal(result(1), FAN_DONE);
	assert_true(rig.w->predicts);
	fan_worker_leave(rig.w, rig.now_ns, FAN_OK, NULL);
	assert_int_equal(result(2), FAN_DROP);
	assert_int_equal(out[32], 0);
}

UNIT_MAIN
