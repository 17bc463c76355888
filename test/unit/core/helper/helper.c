/* SPDX-License-Identifier: Apache-2.0 */
/* Worker 1 of 3 keeps sums for the others. */
#include "core/sum/contribution.h"
#include "core/worker/worker_priv.h"
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
	assert_int_equal(fan_worker_stats(rig.w)->cache.done, 1);
	assert_int_equal(fan_worker_stats(rig.w)->cache.open, 0);
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

static enum fan_verdict flush(uint64_t frag)
{
	struct fan_frag f = rig_frag(FAN_TYPE_FLUSH, frag);
	f.helper = FAN_TAG(1);
	return rig_recv(&f, false);
}

TEST_WITH(helper__flush_and_no_room, open_helper, rig_close)
{
	lend(0, 5, 1);
	assert_int_equal(flush(5), FAN_CTL);
	assert_int_equal(rig_tick(), 1);
	is_sum(0, 5, 1, 1);
	assert_int_equal(rig.got[0].flags & FAN_F_FULL, 0);
	for (uint64_t n = 6; n < 9; n++)
		assert_int_equal(lend(0, n, 1), FAN_WAIT);
	assert_int_equal(lend(0, 9, 1), FAN_PASS);
	about(FAN_TYPE_PROGRESS, 0, 9);
	assert_int_equal(rig_tick(), 2);
	is_sum(0, 9, 1, 1);
	assert_int_equal(rig.got[0].flags & FAN_F_FULL, FAN_F_FULL);
	assert_int_equal(fan_worker_stats(rig.w)->cache.peak, 4);
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

TEST_WITH(helper__none_without_a_cache, open_helper, rig_close)
{
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

/* ---- the cache, of a worker that does nothing else ---- */
#define RANKS  3
#define WINDOW 256 /* fragments that it may keep: twice as many */

static _Alignas(64) uint8_t memory[1 << 16];
static struct fan_worker alone;
static struct fan_wslot nothing_sent[WINDOW];

static void begin(uint32_t frags)
{
	assert_in_range(fan_worker_helper.bytes(frags, 64), 1, sizeof memory);
	memset(memory, 0xee, sizeof memory);
	memset(&alone, 0, sizeof alone);
	alone.cfg.rank = 2;
	alone.cfg.ranks = RANKS;
	alone.cfg.payload_bytes = 64;
	alone.window.ahead = true;
	alone.window.size = WINDOW;
	alone.window.slot = nothing_sent;
	alone.helper = fan_worker_helper.init(memory, frags, 64);
}

static int open_cache(void **state)
{
	(void)state;
	begin(4);
	return 0;
}

static const struct fan_helper_cache_stats *stats(void)
{
	return fan_worker_helper.stats(alone.helper);
}

static bool is_due(void)
{
	return fan_worker_helper.is_due(alone.helper);
}

static void flush_cache(uint64_t frag)
{
	fan_worker_helper.flush(alone.helper, frag);
}

static enum fan_verdict add(uint16_t rank, uint64_t frag, int32_t value, uint16_t flags)
{
	const struct fan_frag f = {
		.frag = frag,
		.job = 0x100,
		.epoch = 9,
		.sender = rank,
		.flags = (uint16_t)(FAN_F_FIRST | FAN_F_LAST | flags),
		.count = 1,
		.type = FAN_TYPE_DATA,
		.dtype = FAN_INT32,
		.op = FAN_SUM,
		.payload = (const uint8_t *)&value,
		.payload_bytes = sizeof value,
	};
	return fan_worker_helper.recv(&alone, 1, &f);
}

/* Send one item.  False: nothing is due. */
static bool next(struct fan_out_item *it)
{
	struct fan_out to;
	fan_out_init(&to, it, 1, NULL, 0);
	fan_worker_helper.send(&alone, &to);
	return to.count == 1;
}

/* The next that is due is the sum of `ranks`, for fragment `frag`; its flags. */
static uint16_t takes(uint64_t frag, uint64_t ranks, int32_t sum)
{
	struct fan_out_item it;
	struct fan_contribution p;
	struct fan_frag f;
	uint8_t packet[256];
	assert_true(next(&it));
	fan_out_item_copy(&it, packet);
	assert_int_equal(fan_wire_get(&f, packet, fan_out_item_bytes(&it)), -1);
	assert_int_equal(fan_contribution_get(&p, &f, RANKS), -1);
	assert_int_equal(f.frag, frag);
	assert_int_equal(f.type, FAN_TYPE_PARTIAL);
	assert_int_equal(f.helper, FAN_TAG(2));
	assert_int_equal(p.ranks[0], ranks);
	assert_int_equal(fan_get32(p.elements), sum);
	return f.flags;
}

/* Does it say so where it is asked? */
static bool is_full(void)
{
	const struct fan_frag f = {.sender = 0, .flags = FAN_F_ASK, .type = FAN_TYPE_PROGRESS};
	struct fan_out_item it;
	assert_int_equal(fan_worker_helper.recv(&alone, 1, &f), FAN_PASS);
	assert_true(next(&it));
	assert_int_equal(it.head[1], FAN_TYPE_PROGRESS);
	return fan_get16(it.head + 2) & FAN_F_FULL;
}

TEST_WITH(helper_cache__completes_what_it_keeps, open_cache, NULL)
{
	assert_int_equal(add(0, 7, 1, 0), FAN_WAIT);
	assert_int_equal(add(1, 7, 2, FAN_F_ECN), FAN_WAIT);
	assert_false(is_due());
	const struct fan_frag probe = {.frag = 7, .sender = 1, .type = FAN_TYPE_PROBE};
	assert_int_equal(fan_worker_helper.recv(&alone, 1, &probe), FAN_EARLY); /* it is here */
	assert_int_equal(add(2, 7, 4, 0), FAN_DONE);
	assert_true(takes(7, 7, 7) & FAN_F_ECN);
	assert_false(is_due());
	assert_int_equal(stats()->done, 1);
	flush_cache(7); /* it was lost, and somebody asks */
	takes(7, 7, 7);
	assert_int_equal(stats()->done, 1);
	fan_worker_helper.forget(alone.helper, 7);
	flush_cache(7);
	assert_false(is_due());
}

/* Nothing is counted twice, whatever comes twice. */
TEST_WITH(helper_cache__duplicates, open_cache, NULL)
{
	add(0, 7, 1, 0);
	assert_int_equal(add(0, 7, 1, 0), FAN_DROP);
	assert_int_equal(alone.last_drop, FAN_DROP_DUPLICATE);
	flush_cache(7);
	takes(7, 1, 1);
	assert_int_equal(add(0, 7, 1, 0), FAN_DROP); /* it has been here */
	assert_int_equal(add(1, 7, 2, 0), FAN_WAIT);
	assert_int_equal(add(2, 7, 4, 0), FAN_DONE); /* the rest is all there is to come */
	takes(7, 6, 6);
	assert_int_equal(stats()->early, 1);
	assert_int_equal(stats()->done, 1);
}

/* Never more than M, and what finds no room is passed on and says so. */
TEST_WITH(helper_cache__is_bounded, open_cache, NULL)
{
	for (uint64_t n = 0; n < 3; n++) {
		assert_false(is_full());
		assert_int_equal(add(0, n, 1, 0), FAN_WAIT);
	}
	assert_true(is_full());
	assert_int_equal(add(0, 3, 1, 0), FAN_PASS);
	assert_int_equal(add(0, 4, 1, 0), FAN_DROP);
	assert_int_equal(alone.last_drop, FAN_DROP_FULL);
	assert_true(takes(3, 1, 1) & FAN_F_FULL);
	assert_int_equal(stats()->over, 1);
	assert_int_equal(add(0, 5, 1, 0), FAN_PASS); /* in place of 3, which has been sent */
	assert_int_equal(add(1, 0, 1, 0), FAN_WAIT);
	assert_int_equal(add(2, 0, 1, 0), FAN_DONE);
	assert_true(takes(5, 1, 1) & FAN_F_FULL);
	assert_false(takes(0, 7, 3) & FAN_F_FULL);
	assert_int_equal(add(0, 6, 1, 0), FAN_WAIT); /* there is room again */
	assert_int_equal(stats()->peak, 4);
	assert_int_equal(stats()->open, 3);
}

/* While there is room, who was in a sum that has gone is known. */
TEST_WITH(helper_cache__remembers_while_there_is_room, open_cache, NULL)
{
	assert_int_equal(add(0, 7, 1, 0), FAN_WAIT);
	flush_cache(7);
	takes(7, 1, 1);
	assert_int_equal(add(0, 8, 1, 0), FAN_WAIT);
	assert_int_equal(add(0, 7, 1, 0), FAN_DROP);
	assert_int_equal(alone.last_drop, FAN_DROP_DUPLICATE);
	assert_int_equal(add(1, 7, 2, 0), FAN_WAIT);
}

/* However often somebody asks, a sum is due once. */
TEST_WITH(helper_cache__is_due_once, open_cache, NULL)
{
	add(0, 7, 1, 0);
	for (unsigned n = 0; n < 10; n++)
		flush_cache(7);
	fan_worker_helper.audit(alone.helper);
	takes(7, 1, 1);
	assert_false(is_due());
	fan_worker_helper.audit(alone.helper);
}

TEST_WITH(helper_cache__of_one_and_of_none, open_cache, NULL)
{
	begin(1);
	assert_int_equal(add(0, 1, 1, 0), FAN_WAIT);
	assert_int_equal(add(0, 2, 1, 0), FAN_DROP);
	add(1, 1, 1, 0);
	assert_int_equal(add(2, 1, 1, 0), FAN_DONE);
	takes(1, 7, 3);
	assert_int_equal(add(0, 2, 1, 0), FAN_WAIT);
	begin(0);
	assert_int_equal(add(0, 2, 1, 0), FAN_DROP);
	flush_cache(2);
	fan_worker_helper.forget(alone.helper, 2);
	assert_false(is_due());
}

UNIT_MAIN
