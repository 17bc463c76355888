/* SPDX-License-Identifier: Apache-2.0 */
#include "unit/core/switch_rig.h"

#include "core/switch/child.h"

static const fan_peer below = {.addr = {0, 77}, .port = 9};

static void grid(uint32_t slots, uint32_t quota)
{
	bed.cfg.policy = FAN_POLICY_GRID;
	bed.cfg.slots = slots;
	bed.cfg.quota = quota;
	bed_begin();
	bed_form(0);
	bed_form(1);
}

/* The only answer says `rank` of the job, which is reached by `hop`, to send fragment `frag` again.
 */
static void told(fan_peer hop, unsigned job, uint16_t rank, uint64_t frag)
{
	assert_int_equal(bed.gots, 1);
	const struct fan_frag *f = &bed.got[0].f;
	assert_true(fan_peer_equal(&bed.got[0].peer, &hop));
	assert_int_equal(f->type, FAN_TYPE_NEED);
	assert_int_equal(f->flags, FAN_F_COLLISION);
	assert_true(f->job == bed_job(job) && f->epoch == BED_EPOCH && f->frag == frag);
	assert_int_equal(f->to, FAN_TAG(rank));
	assert_int_equal(f->sender, FAN_RANK_NONE);
	assert_int_equal(f->words, 0);
}

TEST_WITH(policy_grid__a_collision_is_dropped_and_told, bed_open, NULL)
{
	grid(1, 0);
	assert_int_equal(bed_add(0, 0, 0, 1, 0, 0), FAN_WAIT);
	for (unsigned tries = 1; tries < 40; tries++) {
		assert_int_equal(bed_add(1, 2, 0, 77, 255, 0),
				 FAN_DROP); /* priorities are nothing */
		told(bed_worker(1, 2), 1, 2, 0);
		assert_int_equal(fan_switch_stats(bed.sw)->drops[FAN_DROP_COLLISION], tries);
		assert_int_equal(fan_switch_stats(bed.sw)->collisions, tries);
	}
	assert_int_equal(bed_from_aggregator(0, 0, FAN_TYPE_RESULT), FAN_PASS);
	assert_int_equal(bed_add(1, 2, 0, 77, 0, 0), FAN_WAIT); /* the slot is free */
	for (uint16_t r = 0; r < BED_RANKS; r++)
		bed_add(1, r, 0, 1, 0, 0);
	bed_is_partial(0, 1, 0, 0xf, 80); /* the drops left nothing behind */
}

TEST_WITH(policy_grid__direct_passes, bed_open, NULL)
{
	grid(1, 0);
	assert_int_equal(bed_add(0, 0, 0, 1, 0, 0), FAN_WAIT);
	assert_int_equal(bed_add(1, 2, 0, 77, 0, FAN_F_DIRECT), FAN_PASS);
	assert_true(fan_peer_equal(&bed.got[0].peer, &bed_aggregator));
	assert_int_equal(bed.got[0].f.type, FAN_TYPE_DATA);
}

TEST_WITH(policy_grid__quota, bed_open, NULL)
{
	grid(64, 1);
	assert_int_equal(bed_add(0, 0, 0, 1, 0, 0), FAN_WAIT);
	assert_int_equal(bed_add(0, 0, 1, 1, 0, 0), FAN_DROP);
	told(bed_worker(0, 0), 0, 0, 1);
	assert_int_equal(fan_switch_stats(bed.sw)->over_quota, 1);
}

/* Ranks 2 and 3 of job 1 are behind another switch.  Their sum goes on; what one of them has sent
 * alone is dropped, and the switch passes on what it is told. */
TEST_WITH(policy_grid__behind_another_switch, bed_open, NULL)
{
	bed.cfg.policy = FAN_POLICY_GRID;
	bed_begin();
	bed_form(0);
	for (uint16_t r = 0; r < 2; r++)
		bed_state(1, r, bed_beat(1, r));
	for (uint16_t r = 2; r < BED_RANKS; r++)
		bed_beat_below(1, r, below, (uint16_t)(40 + r));
	assert_int_equal(bed_add(0, 0, 0, 1, 0, 0), FAN_WAIT);
	int32_t value = 5;
	struct fan_frag alone = bed_head(1, 3, 0, FAN_TYPE_DATA);
	alone.dtype = FAN_INT32;
	alone.count = 1;
	alone.flags = FAN_F_FIRST | FAN_F_LAST;
	assert_int_equal(bed_give(below, &alone, &value, sizeof value), FAN_DROP);
	told(below, 1, 3, 0);

	uint8_t body[FAN_BITMAP_MAX + 4] = {[FAN_BITMAP_MAX] = 7};
	const uint64_t ranks[FAN_RANK_WORDS] = {0xc};
	struct fan_frag sum = bed_head(1, FAN_RANK_NONE, 0, FAN_TYPE_PARTIAL);
	sum.dtype = FAN_INT32;
	sum.count = 1;
	sum.flags = FAN_F_FIRST | FAN_F_LAST;
	fan_partial_put(&sum, ranks, BED_RANKS, FAN_RANK_NONE, body + FAN_BITMAP_MAX, 4);
	assert_int_equal(bed_give(below, &sum, sum.payload, sum.payload_bytes), FAN_PASS);
	bed_is_partial(0, 1, 0, 0xc, 7);
	assert_true(bed.got[0].f.flags & FAN_F_COLLISION);
}

/* A job whose ranks run ahead cannot send anything a second time in its turn. */
TEST_WITH(policy_grid__run_ahead_passes, bed_open, NULL)
{
	bed.beat = FAN_BEAT_AHEAD;
	grid(1, 0);
	assert_int_equal(bed_add(0, 0, 0, 1, 0, 0), FAN_WAIT);
	assert_int_equal(bed_add(1, 2, 0, 77, 0, 0), FAN_PASS);
	assert_true(bed.got[0].f.flags & FAN_F_COLLISION);
}

/* ---- child: child.c - whom a switch takes for its children, and what strangers can make of that.
 * ---- */

#define STRANGERS 5000

static const fan_peer elsewhere = {.addr = {66, 6}, .port = 6};

static enum fan_verdict beat_of(fan_peer from, uint16_t rank, uint64_t nonce, unsigned type)
{
	uint8_t body[256];
	const struct fan_beat m = {.flags = 0};
	const size_t bytes = fan_ctl_put(body, &m);
	struct fan_frag f = {.nonce = nonce,
			     .job = bed_job(7), /* none here */
			     .epoch = BED_EPOCH,
			     .sender = rank,
			     .type = (uint8_t)type};
	return bed_give(from, &f, body, bytes);
}

static uint32_t children(void)
{
	struct fan_switch_report r;
	fan_switch_report(bed.sw, &r);
	return r.children;
}

/* The token that was given in the last answer. */
static uint16_t token(void)
{
	struct fan_envelope v;
	assert_int_equal(bed.got[0].f.type, FAN_TYPE_RELAY);
	assert_int_equal(fan_envelope_get(&v, &bed.got[0].f), FAN_OK);
	return v.token;
}

/* With the address of a rank, but without its nonce: somebody else, who changes nothing of it. */
TEST_WITH(child__is_address_and_nonce, bed_open, NULL)
{
	const uint16_t own = bed_beat(0, 0);
	assert_int_equal(beat_of(bed_worker(0, 0), 0, 666, FAN_TYPE_BEAT), FAN_CTL);
	assert_int_not_equal(token(), own);
	assert_false(fan_child_is_sure(bed.sw, token()));
	assert_true(fan_child_is_sure(bed.sw, own));
	assert_int_equal(bed_beat(0, 0), own);
	assert_int_equal(beat_of(bed_worker(0, 0), 0, 0, FAN_TYPE_BEAT), FAN_DROP);
}

/* A forged LEAVE is answered as any; the rank's own child is still there. */
TEST_WITH(child__leave_of_a_stranger, bed_open, NULL)
{
	const uint32_t before = children();
	assert_int_equal(beat_of(bed_worker(0, 1), 1, 666, FAN_TYPE_LEAVE), FAN_CTL);
	const uint16_t of_stranger = token();
	uint8_t body[256];
	const struct fan_state m = {.state = FAN_JOB_LEFT};
	struct fan_frag left = {.nonce = 666, .sender = FAN_RANK_NONE, .type = FAN_TYPE_STATE};
	uint8_t inside[512];
	const size_t bytes = fan_ctl_put(body, &m);
	left.payload = body;
	left.payload_bytes = bytes;
	fan_wire_put(inside, &left);
	memcpy(inside + FAN_HEAD_BYTES, body, bytes);
	struct fan_frag f = {
		.sender = FAN_RANK_NONE, .type = FAN_TYPE_RELAY, .relay = {.token = of_stranger}};
	/* the same for each token there may be, as forged: only the one with the nonce is gone */
	for (uint16_t t = 1; t <= bed.cfg.children_max; t++) {
		f.relay.token = t;
		assert_int_equal(bed_give(bed_aggregator, &f, inside, FAN_HEAD_BYTES + bytes),
				 t == of_stranger ? FAN_CTL : FAN_DROP);
	}
	assert_int_equal(children(), before);
	for (uint16_t r = 0; r < BED_RANKS; r++)
		assert_int_equal(bed_add(0, r, 0, 1, 0, 0),
				 r + 1 < BED_RANKS ? FAN_WAIT : FAN_DONE);
}

/* However many come, and whatever they say: ranks stay, and a newcomer finds room. */
TEST_WITH(child__strangers_keep_nobody_out, bed_open, NULL)
{
	for (unsigned n = 0; n < STRANGERS; n++) {
		fan_peer from = elsewhere;
		from.addr[1] += n % 1000;
		assert_int_equal(beat_of(from, (uint16_t)(n % 7), 1000 + n,
					 n % 3 ? FAN_TYPE_BEAT : FAN_TYPE_LEAVE),
				 FAN_CTL);
		assert_true(children() <= bed.cfg.children_max);
	}
	assert_int_equal(children(), bed.cfg.children_max);
	const uint16_t t = bed_join(2, 0, "new");
	beat_of(elsewhere, 0, 1, FAN_TYPE_BEAT); /* it gives way to some, but not at once */
	assert_int_equal(bed_welcome(2, 0, t, 1), FAN_CTL);
	assert_int_equal(bed_beat(2, 0), t);
	assert_int_equal(bed_state(2, 0, t), FAN_CTL);
	assert_true(fan_child_is_sure(bed.sw, t));
	for (unsigned n = 0; n < STRANGERS; n++)
		beat_of(elsewhere, 0, 9000 + n, FAN_TYPE_BEAT);
	for (uint16_t r = 0; r < BED_RANKS; r++)
		assert_int_equal(bed_add(0, r, 0, 1, 0, 0),
				 r + 1 < BED_RANKS ? FAN_WAIT : FAN_DONE);
}

/* 64 a millisecond at most, and one to an address. */
TEST_WITH(child__who_is_limited, bed_open, NULL)
{
	unsigned asked = 0;
	for (unsigned n = 0; n < STRANGERS; n++) {
		struct fan_frag f = bed_head(7, 0, n, FAN_TYPE_PROBE);
		fan_peer from = elsewhere;
		from.addr[1] += n;
		assert_int_equal(bed_give(from, &f, NULL, 0), FAN_DROP);
		assert_true(bed.gots == 0 || bed.got[0].len <= FAN_HEAD_BYTES);
		asked += bed.gots;
		assert_int_equal(bed_give(from, &f, NULL, 0), FAN_DROP);
		assert_int_equal(bed.gots, 0);
	}
	assert_in_range(asked, FAN_WHOS_MAX / 2, FAN_WHOS_MAX);
	bed.now_ns += FAN_WHO_NS;
	struct fan_frag f = bed_head(7, 0, 0, FAN_TYPE_PROBE);
	assert_int_equal(bed_give(elsewhere, &f, NULL, 0), FAN_DROP);
	assert_int_equal(bed.gots, 1);
}

/* Sure or not. */
TEST_WITH(child__silent_ones_are_forgotten, bed_open, NULL)
{
	const uint32_t before = children();
	beat_of(elsewhere, 0, 1, FAN_TYPE_BEAT);
	assert_int_equal(children(), before + 1);
	const uint64_t until_ns = bed.now_ns + FAN_CHILD_SILENT_NS;
	while (fan_switch_deadline(bed.sw) < UINT64_MAX) {
		bed.now_ns = fan_switch_deadline(bed.sw);
		fan_switch_tick(bed.sw, bed.now_ns);
		assert_int_equal(children(), bed.now_ns < until_ns ? before + 1 : 0);
	}
	assert_int_equal(fan_switch_deadline(bed.sw), UINT64_MAX);
}

UNIT_MAIN
