/* SPDX-License-Identifier: Apache-2.0 */
/* Worker 1 of 3 keeps sums for the others. */
#include "unit/core/worker_rig.h"
#include "unit/unit.h"

static int32_t in[64 * 16], out[64 * 16];

static int open_helper(void **state)
{
	int err = rig_open(state);
	rig.cfg.cache_frags = 4;
	rig_ahead(32, 32);
	return err;
}

static void start(unsigned frags)
{
	uint64_t id;
	const struct fan_op op = rig_int_sum(in, out, frags * 16);
	assert_int_equal(fan_worker_start(rig.w, rig.now_ns, &op, &id), FAN_OK);
}

static enum fan_verdict lend(uint16_t rank, uint64_t frag, int32_t value)
{
	struct fan_frag f = rig_frag(FAN_TYPE_DATA, frag);
	f.sender = rank;
	f.payload = (const uint8_t *)&value;
	f.payload_bytes = 4;
	f.count = 1;
	f.helper = FAN_TAG(1);
	f.dtype = FAN_INT32;
	return rig_recv(&f, false);
}

/* The sum of `ranks` comes, as it left a slot. */
static enum fan_verdict lend_sum(uint64_t ranks, uint64_t frag, int32_t value)
{
	uint8_t payload[12];
	struct fan_frag f = rig_frag(FAN_TYPE_PARTIAL, frag);
	f.sender = 0;
	f.payload = payload;
	f.payload_bytes = sizeof payload;
	f.count = 1;
	f.helper = FAN_TAG(1);
	f.dtype = FAN_INT32;
	fan_put64(payload, ranks);
	fan_put32(payload + 8, (uint32_t)value);
	return rig_recv(&f, false);
}

static enum fan_verdict about(unsigned type, uint16_t rank, uint64_t frag)
{
	struct fan_frag f = rig_frag(type, frag);
	f.sender = rank;
	f.flags = type == FAN_TYPE_PROBE ? 0 : FAN_F_ASK;
	f.last = 77;
	f.helper = FAN_TAG(1);
	return rig_recv(&f, false);
}

static enum fan_verdict flush(uint64_t frag)
{
	struct fan_frag f = rig_frag(FAN_TYPE_FLUSH, frag);
	f.helper = FAN_TAG(1);
	return rig_recv(&f, false);
}

/* What was sent as number `i` is the sum of `ranks` for fragment `frag`. */
static void is_sum(unsigned i, uint64_t frag, uint64_t ranks, int32_t sum)
{
	assert_int_equal(rig.got[i].type, FAN_TYPE_PARTIAL);
	assert_int_equal(rig.got[i].frag, frag);
	assert_int_equal(rig.got[i].helper, FAN_TAG(1));
	assert_int_equal(fan_get64(rig.payload[i]), ranks);
	assert_int_equal(fan_get32(rig.payload[i] + 8), sum);
}

TEST_WITH(helper__completes_and_injects, open_helper, rig_close)
{
	assert_int_equal(lend(0, 5, 1), FAN_WAIT);
	assert_int_equal(lend(1, 5, 2), FAN_WAIT); /* its own, too, comes by way of the switch */
	assert_int_equal(rig_tick(), 0);
	assert_int_equal(lend(0, 5, 1), FAN_DROP);
	assert_int_equal(lend(2, 5, 4), FAN_DONE);
	assert_int_equal(fan_worker_deadline(rig.w), 0);
	assert_int_equal(rig_tick(), 1);
	is_sum(0, 5, 7, 7);
	assert_int_equal(flush(5), FAN_CTL); /* it was lost, and somebody asks */
	assert_int_equal(rig_tick(), 1);
	is_sum(0, 5, 7, 7);
	assert_int_equal(fan_worker_stats(rig.w)->cache.done, 1);
	assert_int_equal(fan_worker_stats(rig.w)->cache.open, 0);
}

/* However often somebody asks, a sum goes once; while there is room, it is known who was in it. */
TEST_WITH(helper__counts_nothing_twice, open_helper, rig_close)
{
	lend(0, 5, 1);
	for (unsigned n = 0; n < 10; n++)
		assert_int_equal(flush(5), FAN_CTL);
	assert_int_equal(rig_tick(), 1);
	is_sum(0, 5, 1, 1);
	assert_int_equal(rig_tick(), 0);
	assert_int_equal(lend(0, 6, 1), FAN_WAIT);
	assert_int_equal(lend(0, 5, 1), FAN_DROP);
	assert_int_equal(fan_worker_last_drop(rig.w), FAN_DROP_DUPLICATE);
	assert_int_equal(lend(1, 5, 2), FAN_WAIT);
	assert_int_equal(lend(2, 5, 4), FAN_DONE); /* the rest is all there is to come */
	assert_int_equal(rig_tick(), 1);
	is_sum(0, 5, 6, 6);
	assert_int_equal(fan_worker_stats(rig.w)->cache.early, 1);
	assert_int_equal(fan_worker_stats(rig.w)->cache.done, 1);
}

/* What a slot held comes as a sum. */
TEST_WITH(helper__keeps_sums, open_helper, rig_close)
{
	assert_int_equal(lend_sum(5, 5, 10), FAN_WAIT);
	assert_int_equal(lend_sum(4, 5, 10), FAN_DROP);
	assert_int_equal(fan_worker_last_drop(rig.w), FAN_DROP_DUPLICATE);
	assert_int_equal(lend(1, 5, 2), FAN_DONE);
	assert_int_equal(rig_tick(), 1);
	is_sum(0, 5, 7, 12);
}

/* Congestion that a contribution met on its way here is told with the sum. */
TEST_WITH(helper__marks_stick, open_helper, rig_close)
{
	lend(0, 5, 1);
	rig.marked = true;
	lend(1, 5, 2);
	rig.marked = false;
	assert_int_equal(lend(2, 5, 4), FAN_DONE);
	assert_int_equal(rig_tick(), 1);
	is_sum(0, 5, 7, 7);
	assert_true(rig.got[0].flags & FAN_F_ECN);
	lend(0, 6, 1);
	lend(1, 6, 2);
	assert_int_equal(lend(2, 6, 4), FAN_DONE);
	assert_int_equal(rig_tick(), 1);
	assert_false(rig.got[0].flags & FAN_F_ECN);
}

/* Before its own data, and forgotten with the result. */
TEST_WITH(helper__result_frees, open_helper, rig_close)
{
	start(2);
	lend(0, 0, 1);
	assert_int_equal(rig_tick(), 2);
	struct fan_frag r = rig.got[0];
	r.type = FAN_TYPE_RESULT;
	r.sender = FAN_RANK_NONE;
	r.flags &= FAN_F_FIRST | FAN_F_LAST;
	assert_int_equal(rig_recv(&r, false), FAN_DONE);
	assert_int_equal(fan_worker_stats(rig.w)->cache.open, 0);
	assert_int_equal(lend(2, 0, 1), FAN_DROP); /* over */
	assert_int_equal(fan_worker_stats(rig.w)->drops[FAN_DROP_STALE], 1);
	assert_int_equal(lend(2, 200, 1), FAN_DROP);
	assert_int_equal(fan_worker_stats(rig.w)->drops[FAN_DROP_AHEAD], 1);
}

TEST_WITH(helper__questions, open_helper, rig_close)
{
	lend(0, 5, 1);
	assert_int_equal(about(FAN_TYPE_PROBE, 0, 5), FAN_EARLY); /* it is here */
	assert_int_equal(rig_tick(), 0);
	assert_int_equal(about(FAN_TYPE_PROBE, 2, 5),
			 FAN_PASS); /* it is not: all that is goes first */
	assert_int_equal(rig_tick(), 2);
	is_sum(0, 5, 1, 1);
	assert_int_equal(rig.got[1].type, FAN_TYPE_PROBE);
	assert_int_equal(rig.got[1].sender, 2);
	assert_int_equal(rig.got[1].last, 77);
	assert_int_equal(rig.got[1].helper, FAN_TAG(1));
	assert_int_equal(about(FAN_TYPE_PROGRESS, 2, 5), FAN_PASS);
	assert_int_equal(rig_tick(), 1);
	assert_int_equal(rig.got[0].type, FAN_TYPE_PROGRESS);
	assert_int_equal(rig.got[0].sender, 2);
	assert_int_equal(rig.got[0].flags, 0);
	assert_int_equal(rig.got[0].helper, FAN_TAG(1));
	assert_int_equal(about(FAN_TYPE_PROBE, 3, 5), FAN_DROP);
	for (unsigned i = 0; i < FAN_HELPER_QUESTIONS; i++)
		assert_int_equal(about(FAN_TYPE_PROGRESS, 2, i), FAN_PASS);
	assert_int_equal(about(FAN_TYPE_PROGRESS, 2, 5), FAN_DROP);
	unsigned sent = 0;
	for (unsigned n = rig_tick(); n; n = rig_tick()) /* as far as there is room */
		sent += n;
	assert_int_equal(sent, FAN_HELPER_QUESTIONS);
}

/* Does it say so where it is asked? */
static bool is_full(void)
{
	assert_int_equal(about(FAN_TYPE_PROGRESS, 0, 0), FAN_PASS);
	assert_int_equal(rig_tick(), 1);
	return rig.got[0].flags & FAN_F_FULL;
}

/* Never more than M, and what finds no room is passed on and says so. */
TEST_WITH(helper__is_bounded, open_helper, rig_close)
{
	for (uint64_t n = 0; n < 3; n++) {
		assert_false(is_full());
		assert_int_equal(lend(0, n, 1), FAN_WAIT);
	}
	assert_true(is_full());
	assert_int_equal(lend(0, 3, 1), FAN_PASS);
	assert_int_equal(lend(0, 4, 1), FAN_DROP);
	assert_int_equal(fan_worker_last_drop(rig.w), FAN_DROP_FULL);
	assert_int_equal(rig_tick(), 1);
	is_sum(0, 3, 1, 1);
	assert_true(rig.got[0].flags & FAN_F_FULL);
	assert_int_equal(fan_worker_stats(rig.w)->cache.over, 1);
	assert_int_equal(lend(0, 5, 1), FAN_PASS); /* in place of 3, which has been sent */
	assert_int_equal(lend(1, 0, 1), FAN_WAIT);
	assert_int_equal(lend(2, 0, 1), FAN_DONE);
	assert_int_equal(rig_tick(), 2);
	is_sum(0, 5, 1, 1);
	is_sum(1, 0, 7, 3);
	assert_true(rig.got[0].flags & FAN_F_FULL);
	assert_false(rig.got[1].flags & FAN_F_FULL);
	assert_int_equal(lend(0, 6, 1), FAN_WAIT); /* there is room again */
	assert_int_equal(fan_worker_stats(rig.w)->cache.peak, 4);
	assert_int_equal(fan_worker_stats(rig.w)->cache.open, 3);
}

/* Waiting for a fragment itself, it sends what may be missing. */
TEST_WITH(helper__sends_the_lowest, open_helper, rig_close)
{
	start(2);
	rig_tick();
	lend(0, 0, 1);
	lend(0, 1, 1);
	bool gone = false;
	for (unsigned ms = 0; ms < 400 && !gone; ms++) {
		rig.now_ns += FAN_MS;
		for (unsigned n = rig_tick(); n; n--)
			gone |= rig.got[n - 1].type == FAN_TYPE_PARTIAL;
	}
	assert_true(gone);
	assert_int_equal(fan_worker_stats(rig.w)->cache.open, 1);
}

TEST_WITH(helper__of_one_and_of_none, open_helper, rig_close)
{
	rig_open(state);
	rig.cfg.cache_frags = 1;
	rig_ahead(32, 32);
	assert_int_equal(lend(0, 1, 1), FAN_WAIT);
	assert_int_equal(lend(0, 2, 1), FAN_DROP);
	lend(1, 1, 1);
	assert_int_equal(lend(2, 1, 1), FAN_DONE);
	assert_int_equal(rig_tick(), 1);
	is_sum(0, 1, 7, 3);
	assert_int_equal(lend(0, 2, 1), FAN_WAIT);
	rig_open(state);
	rig_ahead(32, 32);
	assert_int_equal(lend(0, 5, 1), FAN_DROP);
	assert_int_equal(about(FAN_TYPE_PROBE, 0, 5), FAN_DROP);
	assert_int_equal(about(FAN_TYPE_PROGRESS, 0, 5), FAN_DROP);
	assert_int_equal(flush(5), FAN_DROP);
	rig_open(state);
	rig.cfg.cache_frags = FAN_CACHE_MAX + 1;
	assert_int_equal(fan_worker_bytes(&rig.cfg), 0);
}

/* Its BEATs tell how its cache is used. */
TEST_WITH(helper__tells_of_its_cache, open_helper, rig_close)
{
	struct fan_beat m;
	lend(0, 5, 1);
	lend(0, 6, 1);
	lend(1, 6, 2);
	lend(2, 6, 4);
	for (unsigned i = 0; i < 100; i++) {
		rig.now_ns = fan_worker_deadline(rig.w) > rig.now_ns ? fan_worker_deadline(rig.w)
								     : rig.now_ns;
		if (rig_tick() && rig.got[0].type == FAN_TYPE_BEAT)
			break;
	}
	assert_int_equal(fan_ctl_get(&m, &rig.got[0]), FAN_OK);
	assert_int_equal(m.flags, FAN_BEAT_AHEAD | FAN_BEAT_HELPER);
	assert_int_equal(m.cache.frags, 4);
	assert_int_equal(m.cache.open, 1);
	assert_int_equal(m.cache.peak, 2);
}

UNIT_MAIN
