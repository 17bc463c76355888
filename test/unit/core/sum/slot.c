/* SPDX-License-Identifier: Apache-2.0 */
/* Slots as the switch uses them: rounds, versions, replays. */
#include "unit/core/aggregator_rig.h"

#include "core/sum/contribution.h"

TEST(slot__memory_is_laid_out_without_overlap)
{
	static _Alignas(64) uint8_t mem[1 << 16];
	struct fan_slots s;
	assert_true(fan_slots_bytes(16, 100) <= sizeof mem);
	fan_slots_init(&s, mem, 16, 100);
	assert_int_equal(s.unit_bytes, 128);
	struct fan_pool a, b;
	fan_slots_lend(&s, &a, 0, 4, 2);
	fan_slots_lend(&s, &b, 8, 8, 1);
	const uint8_t *low = fan_pool_acc(&a, a.rounds), *high = mem;
	for (unsigned i = 0; i < 8; i++) {
		assert_ptr_equal(fan_pool_acc(&a, a.rounds + i), low + i * 256);
		high = fan_pool_acc(&a, a.rounds + i) + 256;
	}
	assert_true((const uint8_t *)(b.rounds + 16) <= low && a.rounds + 8 <= b.rounds);
	assert_true(high <= fan_pool_acc(&b, b.rounds));
	assert_true(fan_pool_acc(&b, b.rounds + 15) + 128 <= mem + fan_slots_bytes(16, 100));
}

TEST(slot__versions_alternate)
{
	struct fan_round rounds[6];
	struct fan_pool p = {.rounds = rounds, .window = 3};
	for (uint64_t n = 0; n < 30; n++) {
		assert_ptr_equal(fan_pool_round(&p, n), rounds + n % 3 * 2 + n / 3 % 2);
		assert_ptr_equal(fan_pool_shadow(&p, fan_pool_round(&p, n)),
				 fan_pool_round(&p, n + 3));
		assert_ptr_equal(fan_pool_round(&p, n), fan_pool_round(&p, n + 6));
		assert_ptr_equal(fan_pool_next(&p, fan_pool_round(&p, n)),
				 fan_pool_round(&p, n + 1));
	}
}

TEST_WITH(slot__result_goes_to_all, rig_open, rig_close)
{
	rig_form("a", 3, 0);
	assert_int_equal(rig_add(0, 0, 1), FAN_WAIT);
	assert_int_equal(rig_add(2, 0, 4), FAN_WAIT);
	assert_int_equal(rig.gots, 0);
	assert_int_equal(rig_add(1, 0, 2), FAN_DONE);
	assert_int_equal(rig_value(0), 7);
	assert_int_equal(rig.got[0].dest, FAN_TO_GROUP);
}

TEST_WITH(slot__duplicate_while_open, rig_open, rig_close)
{
	rig_form("a", 2, 0);
	assert_int_equal(rig_add(0, 0, 1), FAN_WAIT);
	assert_int_equal(rig_add(0, 0, 100), FAN_DROP);
	assert_int_equal(rig.ag->last_drop, FAN_DROP_DUPLICATE);
	assert_int_equal(rig_add(1, 0, 2), FAN_DONE);
	assert_int_equal(rig_value(0), 3);
}

TEST_WITH(slot__duplicate_after_done, rig_open, rig_close)
{
	rig_form("a", 2, 0);
	rig_add(0, 0, 1);
	rig_add(1, 0, 2);
	assert_int_equal(rig_add(0, 0, 100), FAN_REPLAY);
	assert_int_equal(rig_value(0), 3);
	assert_int_equal(rig.got[0].dest, FAN_TO_PEER);
	fan_peer to = rig_peer(0);
	assert_true(fan_peer_equal(&rig.got[0].peer, &to));
	assert_true(rig.got[0].f.flags & FAN_F_REPLAY);
}

/* The last round's result stays while the next one is summed. */
TEST_WITH(slot__replay_from_the_shadow, rig_open, rig_close)
{
	rig_form("a", 2, 0);
	rig_add(0, 1, 1);
	rig_add(1, 1, 2);
	assert_int_equal(rig_add(0, 1u + rig.window, 10), FAN_WAIT);
	assert_int_equal(rig_probe(1, 1), FAN_REPLAY);
	assert_int_equal(rig_value(0), 3);
	assert_int_equal(rig_add(1, 1u + rig.window, 20), FAN_DONE);
	assert_int_equal(rig_value(0), 30);
	assert_int_equal(rig_probe(0, 1), FAN_REPLAY); /* still */
	assert_int_equal(rig_value(0), 3);
}

TEST_WITH(slot__stale_after_two_rounds, rig_open, rig_close)
{
	rig_form("a", 2, 0);
	for (uint64_t n = 0; n < 3u * rig.window; n += rig.window) {
		rig_add(0, n, 1);
		rig_add(1, n, 2);
	}
	assert_int_equal(rig_add(0, 0, 100), FAN_DROP);
	assert_int_equal(rig.ag->last_drop, FAN_DROP_STALE);
	assert_int_equal(rig_probe(0, 0), FAN_DROP);
	assert_int_equal(rig_drops(FAN_DROP_STALE), 2);
	assert_int_equal(rig_probe(0, 2u * rig.window), FAN_REPLAY);
	assert_int_equal(rig_value(0), 3);
}

/* Nobody begins a round before the one before it is done. */
TEST_WITH(slot__ahead, rig_open, rig_close)
{
	rig_form("a", 2, 0);
	assert_int_equal(rig_add(0, rig.window, 1), FAN_DROP);
	assert_int_equal(rig.ag->last_drop, FAN_DROP_AHEAD);
	rig_add(0, 0, 1);
	assert_int_equal(rig_add(1, rig.window, 1), FAN_DROP); /* one contribution is missing */
	rig_add(1, 0, 1);
	assert_int_equal(rig_add(1, 2u * rig.window, 1), FAN_DROP); /* one round too far */
	assert_int_equal(rig_add(1, rig.window, 1), FAN_WAIT);
	assert_int_equal(rig_add(0, UINT64_MAX, 1), FAN_DROP);
	assert_int_equal(rig_drops(FAN_DROP_AHEAD), 4);
}

/* ---- contribution ---- */

#define RANKS 100 /* two words of bitmap */

static uint8_t body[FAN_BITMAP_MAX + 64];
static struct fan_contribution p;

static struct fan_frag data(unsigned dtype, unsigned op, unsigned flags, uint16_t count)
{
	struct fan_frag f = {.type = FAN_TYPE_DATA,
			     .dtype = (uint8_t)dtype,
			     .op = (uint8_t)op,
			     .flags = (uint16_t)flags,
			     .count = count,
			     .payload = body + FAN_BITMAP_MAX};
	f.payload_bytes = flags & FAN_F_EMPTY ? 0 : (size_t)count * fan_dtype_bytes(f.dtype);
	return f;
}

/* The sum of `a` and `b`, of which `root` is the root; `flags` without ROOT. */
static struct fan_frag sum(unsigned dtype, unsigned op, unsigned flags, uint16_t a, uint16_t b,
			   uint16_t root)
{
	struct fan_frag f = data(dtype, op, flags, 2);
	f.type = FAN_TYPE_PARTIAL;
	uint64_t set[FAN_RANK_WORDS] = {0};
	fan_ranks_set(set, a);
	fan_ranks_set(set, b);
	fan_partial_put(&f, set, RANKS, root, body + FAN_BITMAP_MAX,
			flags & FAN_F_EMPTY ? 0 : fan_partial_acc_bytes(&f));
	return f;
}

TEST(contribution__of_one_rank)
{
	struct fan_frag f = data(FAN_FLOAT16, FAN_SUM, FAN_F_REDUCE, 3);
	f.sender = 70;
	memset(&p, 0xee, sizeof p);
	assert_int_equal(fan_contribution_get(&p, &f, RANKS), -1);
	assert_true(p.f == &f && p.elements == f.payload && p.bytes == 6 && !p.is_sum);
	assert_true(p.first == 70 && p.root == FAN_RANK_NONE);
	assert_int_equal(fan_ranks_count(p.ranks), 1);
	assert_true(fan_ranks_has(p.ranks, 70));
	f.flags |= FAN_F_ROOT;
	assert_int_equal(fan_contribution_get(&p, &f, RANKS), -1);
	assert_int_equal(p.root, 70);
	f.sender = RANKS;
	assert_int_equal(fan_contribution_get(&p, &f, RANKS), FAN_DROP_SENDER);
	f.sender = FAN_RANK_NONE;
	assert_int_equal(fan_contribution_get(&p, &f, FAN_RANKS_MAX), FAN_DROP_SENDER);
}

TEST(contribution__of_several)
{
	struct fan_frag f = sum(FAN_FLOAT16, FAN_SUM, FAN_F_REDUCE, 99, 7, 99);
	memset(&p, 0xee, sizeof p);
	assert_int_equal(fan_contribution_get(&p, &f, RANKS), -1);
	assert_true(p.f == &f && p.elements == body + FAN_BITMAP_MAX && p.bytes == 8 && p.is_sum);
	assert_true(p.first == 7 && p.root == 99);
	assert_int_equal(fan_ranks_count(p.ranks), 2);
	assert_true(fan_ranks_has(p.ranks, 7) && fan_ranks_has(p.ranks, 99));
	assert_int_equal(fan_contribution_get(&p, &f, 99), FAN_DROP_FORMAT); /* a rank too many */
	f = sum(FAN_INT32, FAN_SUM, FAN_F_REDUCE, 1, 2, 2);
	f.root = FAN_TAG(3); /* a root that is not in */
	assert_int_equal(fan_contribution_get(&p, &f, RANKS), FAN_DROP_FORMAT);
	f = sum(FAN_INT32, FAN_SUM, 0, 1, 2, FAN_RANK_NONE);
	assert_int_equal(fan_contribution_get(&p, &f, RANKS), -1);
	assert_int_equal(p.root, FAN_RANK_NONE);
	memset(body, 0, sizeof body); /* nobody's */
	assert_int_equal(fan_contribution_get(&p, &f, RANKS), FAN_DROP_FORMAT);
}

/* Every operation with every flag that says something of its elements: which go together. */
TEST(contribution__fit_is_what_the_protocol_says)
{
	static const uint16_t flag[] = {FAN_F_EMPTY, FAN_F_ROOT, FAN_F_REDUCE};
	for (unsigned op = 0; op < FAN_REDOP_COUNT; op++)
		for (unsigned i = 0; i < 8; i++) {
			bool empty = i & 1, root = i & 2, reduce = i & 4, fit = !empty && !root;
			unsigned flags = 0;
			for (unsigned k = 0; k < 3; k++)
				flags |= i >> k & 1 ? flag[k] : 0;
			if (op <= FAN_MAX)
				fit = !empty && (reduce || !root);
			else if (op == FAN_BCAST)
				fit = !reduce && empty != root;
			else
				fit = i == 0;
			struct fan_frag f = data(FAN_FLOAT32, op, flags, 0);
			assert_int_equal(fan_contribution_get(&p, &f, RANKS), -1);
			assert_int_equal(fan_contribution_unfit(&p, 64, 64, false),
					 fit ? -1 : FAN_DROP_FORMAT);
			f = sum(FAN_FLOAT32, op, flags & ~(unsigned)FAN_F_ROOT, 1, 2,
				root ? 2 : FAN_RANK_NONE);
			assert_int_equal(fan_contribution_get(&p, &f, RANKS), -1);
			assert_int_equal(fan_contribution_unfit(&p, 64, 64, false),
					 fit ? -1 : FAN_DROP_FORMAT);
		}
}

TEST(contribution__room_and_checksum)
{
	struct fan_frag f = data(FAN_FLOAT16, FAN_SUM, 0, 4);
	fan_contribution_get(&p, &f, RANKS);
	assert_int_equal(fan_contribution_unfit(&p, 8, 16, false), -1);
	assert_int_equal(fan_contribution_unfit(&p, 7, 16, false), FAN_DROP_LONG);
	assert_int_equal(fan_contribution_unfit(&p, 8, 15, false), FAN_DROP_LONG); /* it grows */
	assert_int_equal(fan_contribution_unfit(&p, 8, 16, true), FAN_DROP_CHECK);
	f.flags |= FAN_F_SUMMED;
	assert_int_equal(fan_contribution_unfit(&p, 8, 16, true), -1);
	f = data(FAN_FLOAT16, FAN_BCAST, FAN_F_ROOT, 4);
	fan_contribution_get(&p, &f, RANKS);
	assert_int_equal(fan_contribution_unfit(&p, 8, 8, false), -1); /* it does not */
	f = sum(FAN_FLOAT16, FAN_SUM, 0, 1, 2, FAN_RANK_NONE);
	fan_contribution_get(&p, &f, RANKS);
	assert_int_equal(fan_contribution_unfit(&p, 8, 8, false), -1);
	assert_int_equal(fan_contribution_unfit(&p, 7, 8, false), FAN_DROP_LONG); /* it has grown */
}

TEST(contribution__meets_and_joins)
{
	uint64_t set[FAN_RANK_WORDS] = {0};
	struct fan_frag one = data(FAN_INT32, FAN_SUM, 0, 1),
			two = sum(FAN_INT32, FAN_SUM, 0, 5, 80, FAN_RANK_NONE);
	struct fan_contribution q;
	one.sender = 80;
	fan_contribution_get(&p, &one, RANKS);
	fan_contribution_get(&q, &two, RANKS);
	assert_false(fan_contribution_meets(&p, set) || fan_contribution_meets(&q, set));
	assert_int_equal(fan_contribution_join(&p, set), 1);
	assert_true(fan_contribution_meets(&p, set) && fan_contribution_meets(&q, set));
	assert_int_equal(fan_contribution_join(&q, set), 2);
	assert_int_equal(fan_ranks_count(set), 2);
	fan_ranks_clear(set, 80);
	assert_true(!fan_contribution_meets(&p, set) && fan_contribution_meets(&q, set));
}

/* Add `f`, whose elements are in the body already, to what is in `acc`. */
static void add(const struct fan_frag *f, void *acc, bool first)
{
	assert_int_equal(fan_contribution_get(&p, f, RANKS), -1);
	assert_int_equal(fan_contribution_unfit(&p, 64, 64, false), -1);
	fan_contribution_add(&p, acc, first);
}

/* Of halves, one rank's contribution is as narrow as it came and a sum is wide. */
TEST(contribution__halves_are_summed_wide)
{
	static const uint16_t ones[2] = {0x3f80, 0x3f80}; /* of bfloat16 */
	static const float sums[2] = {2.0009765625f, -8};
	float acc[2] = {99, 99};
	struct fan_frag f = data(FAN_BFLOAT16, FAN_SUM, 0, 2);
	memcpy(body + FAN_BITMAP_MAX, ones, sizeof ones);
	add(&f, acc, true);
	assert_true(acc[0] == 1 && acc[1] == 1);
	f = sum(FAN_BFLOAT16, FAN_SUM, 0, 1, 2, FAN_RANK_NONE);
	memcpy(body + FAN_BITMAP_MAX, sums, sizeof sums);
	add(&f, acc, false);
	assert_true(acc[0] == 3.0009765625f && acc[1] == -7);
	add(&f, acc, true);
	assert_memory_equal(acc, sums, sizeof sums);
}

/* The first contribution stays bit by bit, and a NaN that comes second stays a NaN. */
TEST(contribution__first_is_kept_as_it_came)
{
	static const uint32_t odd[2] = {0x7fc12345, 0x80000000}, more[2] = {0x3f800000, 0};
	uint32_t acc[2] = {1, 1};
	struct fan_frag f = data(FAN_FLOAT32, FAN_SUM, 0, 2);
	memcpy(body + FAN_BITMAP_MAX, odd, sizeof odd);
	add(&f, acc, true);
	assert_memory_equal(acc, odd, sizeof odd);
	memcpy(body + FAN_BITMAP_MAX, more, sizeof more);
	add(&f, acc, false);
	assert_int_equal(acc[0], odd[0]);
	assert_int_equal(acc[1], 0); /* -0 + 0 */
}

TEST(contribution__without_elements)
{
	static const uint8_t root[2] = {7, 9};
	uint8_t acc[8], same[8];
	memset(acc, 0x55, sizeof acc);
	memset(same, 0x55, sizeof same);
	struct fan_frag f = data(FAN_UINT8, FAN_BARRIER, 0, 0);
	add(&f, acc, true);
	f = data(FAN_INT32, FAN_SUM, 0, 0);
	add(&f, acc, true);
	f = data(FAN_UINT8, FAN_BCAST, FAN_F_EMPTY, 2);
	add(&f, acc, true);
	f = sum(FAN_UINT8, FAN_BCAST, FAN_F_EMPTY, 1, 2, FAN_RANK_NONE);
	add(&f, acc, false);
	assert_memory_equal(acc, same, sizeof acc);
	f = data(FAN_UINT8, FAN_BCAST, FAN_F_ROOT, 2);
	memcpy(body + FAN_BITMAP_MAX, root, sizeof root);
	add(&f, acc, false);
	assert_memory_equal(acc, root, sizeof root);
	assert_int_equal(acc[2], 0x55);
}

UNIT_MAIN
