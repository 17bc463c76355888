/* SPDX-License-Identifier: Apache-2.0 */
/* Ranks 0 to 2 run ahead of rank 3. */
#include "unit/core/switch_rig.h"

#define WINDOW 240 /* blocks of 16 fragments */
#define SLOTS  16

static int open_ahead(void **state)
{
	int err = bed_open(state);
	bed.window = WINDOW;
	bed.beat = FAN_BEAT_AHEAD | FAN_BEAT_HELPER;
	bed.cfg.slots = SLOTS;
	bed_begin();
	bed_form(0);
	return err;
}

static void run_to(uint16_t rank, uint64_t from, uint64_t to)
{
	for (uint64_t n = from; n < to; n++)
		bed_add(0, rank, n, 1 << rank, 0, 0);
}

/* Where answer `i` went: the rank, or -1: up. */
static int goes_to(unsigned i)
{
	assert_true(i < bed.gots);
	for (uint16_t r = 0; r < BED_RANKS; r++) {
		fan_peer peer = bed_worker(0, r);
		if (fan_peer_equal(&bed.got[i].peer, &peer))
			return r;
	}
	assert_true(fan_peer_equal(&bed.got[i].peer, &bed_aggregator));
	return -1;
}

static struct fan_standing rank_of(uint16_t rank)
{
	struct fan_rank_stats m = {.first = rank};
	fan_run_ahead.rank_stats(bed.sw, &bed.sw->job[0], &m);
	assert_true(m.ahead && m.count);
	return m.rank[0];
}

static const uint32_t *kept_by(uint16_t rank)
{
	return fan_run_ahead.row(bed.sw, &bed.sw->job[0], rank);
}

/* All three far ahead of the fourth, in step. */
static void run_ahead(uint64_t from, uint64_t to)
{
	for (uint64_t n = from; n < to; n++)
		for (uint16_t r = 0; r < 3; r++)
			bed_add(0, r, n, 1 << r, 0, 0);
}

TEST_WITH(sa_atp__slots_give_way_to_who_is_far_ahead, open_ahead, NULL)
{
	run_ahead(0, SLOTS);
	assert_int_equal(fan_switch_stats(bed.sw)->yields, 0);
	/* rank 3 is not far behind yet: the slots are not left */
	assert_int_equal(bed_add(0, 0, SLOTS, 1, 0, 0), FAN_PASS);
	assert_int_equal(goes_to(0), -1);
	assert_true(bed.got[0].f.flags & FAN_F_COLLISION);
	run_to(1, SLOTS, SLOTS + 1);
	assert_int_equal(fan_switch_stats(bed.sw)->yields, 0);
	/* rank 1 will come here before rank 3 comes to what is in the slot */
	assert_int_equal(bed_add(0, 0, SLOTS + 1, 1, 0, 0), FAN_WAIT);
	assert_int_equal(fan_switch_stats(bed.sw)->yields, 1);
	bed_is_partial(0, 0, 1, 7, 7);
	run_to(0, SLOTS + 2, 2 * FAN_LAG_FRAGS);
	assert_int_equal(rank_of(3).flags, FAN_RANK_STRAGGLES | FAN_RANK_OFFERS);
	assert_int_equal(rank_of(3).behind, 2 * FAN_LAG_FRAGS);
	assert_false(rank_of(0).flags & FAN_RANK_STRAGGLES);
}

/* The sum of those ahead goes to a helper, and so does the late contribution. */
TEST_WITH(sa_atp__one_place_for_what_is_unaggregated, open_ahead, NULL)
{
	run_ahead(0, 300);
	assert_true(fan_switch_stats(bed.sw)->lent > 0);
	/* the slot of 299 - SLOTS is being left for 299 - SLOTS + SLOTS */
	assert_int_equal(bed_add(0, 0, 300, 1, 0, 0), FAN_WAIT);
	int helper = goes_to(0);
	assert_in_range(helper, 0, 2);
	uint64_t frag = bed.got[0].f.frag;
	assert_int_equal(frag, 300 - SLOTS);
	assert_int_equal(bed.got[0].f.type, FAN_TYPE_PARTIAL);
	assert_int_equal(bed.got[0].f.helper, FAN_TAG(helper));
	struct fan_contribution p;
	assert_int_equal(fan_contribution_get(&p, &bed.got[0].f, BED_RANKS), -1);
	assert_int_equal(p.ranks[0], 7);
	assert_int_equal(rank_of(3).deferred, 0);
	assert_int_equal(bed_add(0, 3, 200, 8, 0, 0), FAN_PASS);
	assert_in_range(goes_to(0), 0, 2);
	assert_int_equal(rank_of(3).deferred, 1);
	uint32_t lent = rank_of((uint16_t)helper).lent;
	assert_int_equal(bed_add(0, 3, frag, 8, 0, 0), FAN_PASS);
	assert_int_equal(goes_to(0), helper);
	assert_int_equal(bed.got[0].f.sender, 3);
	assert_int_equal(bed.got[0].f.helper, FAN_TAG(helper));
	assert_int_equal(rank_of((uint16_t)helper).lent, lent + 1);
	assert_int_equal(rank_of(3).deferred, 1); /* it has caught up */
	/* what its slot still has is completed there */
	assert_int_equal(bed_add(0, 3, 299, 8, 0, 0), FAN_DONE);
	assert_int_equal(goes_to(0), -1);
	bed_is_partial(0, 0, 299, 0xf, 15);
}

/* What the switch has sent on unaggregated while its ranks were stragglers, by who got it. */
static struct {
	uint32_t parts[BED_RANKS + 1][BED_RANKS]; /* the last row: the aggregator */
	uint64_t next[BED_RANKS], front;
} seen;

/* Rank `rank` sends its contribution to fragment `n`; what leaves is noted. */
static void send_noted(uint16_t rank, uint64_t n)
{
	seen.next[rank] = n + 1 > seen.next[rank] ? n + 1 : seen.next[rank];
	seen.front = n + 1 > seen.front ? n + 1 : seen.front;
	enum fan_verdict v = bed_add(0, rank, n, 1 << rank, 0, 0);
	for (unsigned i = 0; i < bed.gots && v != FAN_DONE; i++) {
		struct fan_contribution p;
		int to = goes_to(i);
		uint8_t type = bed.got[i].f.type;
		if (type != FAN_TYPE_DATA && type != FAN_TYPE_PARTIAL)
			continue;
		assert_int_equal(fan_contribution_get(&p, &bed.got[i].f, BED_RANKS), -1);
		for (unsigned r = 0; r < BED_RANKS; r++)
			if (fan_ranks_has(p.ranks, r) && seen.next[r] + FAN_LAG_FRAGS <= seen.front)
				seen.parts[to < 0 ? BED_RANKS : to][r]++;
	}
}

static void counts_are_as_seen(void)
{
	uint32_t deferred[BED_RANKS] = {0};
	for (unsigned to = 0; to <= BED_RANKS; to++)
		for (unsigned r = 0; r < BED_RANKS; r++)
			deferred[r] += seen.parts[to][r];
	for (uint16_t r = 0; r < BED_RANKS; r++) {
		assert_int_equal(rank_of(r).deferred, deferred[r]);
		assert_memory_equal(kept_by(r), seen.parts[r], sizeof seen.parts[r]);
	}
}

/* Who keeps for whom: nobody for ranks at the front; each unaggregated contribution of a straggler
 * counts where it goes, by itself or in a sum. */
TEST_WITH(sa_atp__who_helps_whom, open_ahead, NULL)
{
	memset(&seen, 0, sizeof seen);
	for (uint64_t n = 0; n < 300; n++)
		for (uint16_t r = 0; r < 2; r++)
			send_noted(r, n);
	assert_true(fan_switch_stats(bed.sw)->lent > 0);
	counts_are_as_seen();
	assert_int_equal(rank_of(2).deferred + rank_of(3).deferred, 0);
	for (uint64_t n = 0; n < 200; n++) {
		send_noted(2, n);
		if (n < 150)
			send_noted(3, n);
	}
	counts_are_as_seen();
	uint32_t kept = kept_by(0)[3] + kept_by(1)[3] + kept_by(2)[3] + kept_by(3)[3];
	assert_int_equal(rank_of(3).deferred, 150);
	assert_in_range(kept, 100, 149); /* of the first blocks some go up */
	assert_true(kept_by(0)[3] && kept_by(1)[3] && kept_by(0)[2]);
	assert_true(kept_by(3)[3] <= WINDOW / 16 + 1); /* before it was known to be slow */
	assert_true(rank_of(0).deferred == 0 && rank_of(1).deferred == 0);
	assert_int_equal(seen.parts[BED_RANKS][3], 150 - kept);
}

/* Nobody to keep it: the aggregator gets what is unaggregated. */
TEST_WITH(sa_atp__server_where_nobody_helps, open_ahead, NULL)
{
	bed.beat = FAN_BEAT_AHEAD;
	bed_begin();
	bed_form(0);
	run_ahead(0, 200);
	assert_int_equal(fan_switch_stats(bed.sw)->lent, 0);
	assert_true(fan_switch_stats(bed.sw)->yields > 0);
	assert_int_equal(bed_add(0, 3, 20, 8, 0, 0), FAN_PASS);
	assert_int_equal(goes_to(0), -1);
	assert_int_equal(fan_switch_stats(bed.sw)->late, 1);
}

/* A helper speaks for others, from its own place alone. */
TEST_WITH(sa_atp__sums_of_helpers_pass, open_ahead, NULL)
{
	run_ahead(0, 200);
	uint8_t body[16] = {0xf};
	fan_put32(body + 8, 15);
	struct fan_frag f = bed_head(0, FAN_RANK_NONE, 20, FAN_TYPE_PARTIAL);
	f.flags = FAN_F_FIRST | FAN_F_LAST;
	f.dtype = FAN_INT32;
	f.count = 1;
	f.helper = FAN_TAG(2);
	assert_int_equal(bed_give(bed_worker(0, 2), &f, body, 12), FAN_PASS);
	bed_is_partial(0, 0, 20, 0xf, 15);
	assert_int_equal(bed.got[0].f.helper, FAN_TAG(2));
	assert_int_equal(bed_give(bed_worker(0, 1), &f, body, 12), FAN_DROP);
	assert_false(rank_of(2).flags & FAN_RANK_FULL);
	f.flags |= FAN_F_FULL; /* it had no room */
	assert_int_equal(bed_give(bed_worker(0, 2), &f, body, 12), FAN_PASS);
	assert_true(rank_of(2).flags & FAN_RANK_FULL);
	uint32_t lent = rank_of(2).lent;
	run_ahead(200, 400);
	assert_true(rank_of(1).lent > lent + 30);
	assert_true(rank_of(2).lent < lent + 30);
	bed.now_ns += FAN_HELPER_FULL_NS;
	bed_add(0, 0, 401, 1, 0, 0);
	assert_false(rank_of(2).flags & FAN_RANK_FULL);
}

static enum fan_verdict ask(uint16_t rank, uint64_t frag, uint16_t flags)
{
	struct fan_frag f = bed_head(0, rank, frag, FAN_TYPE_PROBE);
	f.flags = flags;
	return bed_give(bed_worker(0, rank), &f, NULL, 0);
}

TEST_WITH(sa_atp__questions, open_ahead, NULL)
{
	run_ahead(0, 200);
	assert_int_equal(ask(1, 195, 0), FAN_EARLY); /* here, for rank 3 to come */
	assert_int_equal(bed.gots, 1);
	assert_int_equal(bed.got[0].f.type, FAN_TYPE_PROGRESS);
	assert_int_equal(goes_to(0), 1);
	assert_int_equal(bed.got[0].f.to, FAN_TAG(1));
	assert_int_equal(bed.got[0].f.behind, 196); /* rank 3 has sent nothing */
	assert_int_equal(ask(1, 195, FAN_F_INSIST), FAN_PASS);
	bed_is_partial(1, 0, 195, 7, 7);
	assert_int_equal(goes_to(2), -1);
	assert_int_equal(ask(1, 150, 0), FAN_PASS); /* who keeps it? */
	assert_in_range(goes_to(1), 0, 2);
	int helper = goes_to(1);
	assert_int_equal(bed.got[1].f.sender, 1);
	assert_int_equal(bed.got[1].f.helper, FAN_TAG(helper));
	assert_int_equal(ask(1, 150, FAN_F_INSIST), FAN_PASS);
	assert_int_equal(goes_to(1), -1);
	/* the helper passes it on */
	struct fan_frag f = bed_head(0, 1, 150, FAN_TYPE_PROBE);
	f.helper = FAN_TAG(helper);
	assert_int_equal(bed_give(bed_worker(0, (unsigned)helper), &f, NULL, 0), FAN_PASS);
	assert_int_equal(bed.gots, 1);
	assert_int_equal(goes_to(0), -1);
	assert_int_equal(bed_give(bed_worker(0, 3), &f, NULL, 0), FAN_DROP);
	assert_int_equal(bed_from_aggregator(0, 150, FAN_TYPE_FLUSH), FAN_CTL);
	assert_int_equal(goes_to(0), helper);
}

/* The answer to a contribution that asks comes from where the contribution ends. */
TEST_WITH(sa_atp__progress, open_ahead, NULL)
{
	run_ahead(0, 200);
	assert_int_equal(bed_add(0, 0, 210, 1, 0, FAN_F_ASK), FAN_WAIT);
	assert_int_equal(bed.got[0].f.type, FAN_TYPE_PARTIAL); /* the sum that had to go... */
	int helper = goes_to(0);
	assert_int_equal(bed.got[1].f.type, FAN_TYPE_PROGRESS); /* ...and the question after it */
	assert_int_equal(goes_to(1), helper);
	assert_int_equal(bed.got[1].f.helper, FAN_TAG(helper));
	assert_int_equal(bed.got[1].f.sender, 0);
	assert_int_equal(bed.got[1].f.frag, 210);
	struct fan_frag f = bed.got[1].f;
	f.flags = 0;
	assert_int_equal(bed_give(bed_worker(0, (unsigned)helper), &f, NULL, 0), FAN_CTL);
	assert_int_equal(goes_to(0), 0);
	assert_true(bed.got[0].f.flags & FAN_F_AWAY); /* it went further than this switch */
	assert_int_equal(bed.got[0].f.frag, 210);
	assert_int_equal(bed_give(bed_worker(0, 3), &f, NULL, 0), FAN_DROP);
	assert_int_equal(bed_add(0, 1, 210, 1, 0, FAN_F_ASK), FAN_WAIT);
	assert_int_equal(bed.gots, 1);
	assert_int_equal(bed.got[0].f.type, FAN_TYPE_PROGRESS);
	assert_int_equal(goes_to(0), 1);
	assert_int_equal(bed.got[0].f.flags, 0);
}

/* What took the slot of another job's sum is here, and so is the answer. */
TEST_WITH(sa_atp__no_question_after_the_sum_of_another_job, open_ahead, NULL)
{
	bed.cfg.slots = 1;
	bed_begin();
	bed_form(0);
	bed_form(1);
	run_to(0, 0, 2 * FAN_LAG_FRAGS);
	assert_int_equal(bed_add(1, 0, 7, 1, 0, FAN_F_ASK), FAN_WAIT);
	assert_int_equal(bed.gots, 2);
	assert_int_equal(bed.got[0].f.job, bed_job(0));
	assert_int_equal(bed.got[0].f.type, FAN_TYPE_PARTIAL);
	assert_int_equal(bed.got[1].f.job, bed_job(1));
	assert_int_equal(bed.got[1].f.type, FAN_TYPE_PROGRESS);
	fan_peer asker = bed_worker(1, 0);
	assert_true(fan_peer_equal(&bed.got[1].peer, &asker));
	assert_int_equal(bed.got[1].f.flags, 0);
}

/* The aggregator answers rank 0's question about `frag`. */
static void answer(uint64_t frag)
{
	struct fan_frag f = bed_head(0, FAN_RANK_NONE, frag, FAN_TYPE_PROGRESS);
	f.flags = FAN_F_AWAY;
	f.to = FAN_TAG(0);
	assert_int_equal(bed_give(bed_aggregator, &f, NULL, 0), FAN_PASS);
}

/* Rank 0 asks about fragments; helpers answer after `ns`, the aggregator at once.  Flags of the
 * last answer of a helper. */
static uint16_t helpers_take(uint64_t from, uint64_t to, uint64_t ns)
{
	uint16_t flags = 0;
	for (uint64_t n = from; n < to; n++) {
		assert_int_not_equal(bed_add(0, 0, n, 1, 0, FAN_F_ASK), FAN_DROP);
		assert_int_equal(bed.got[1].f.type, FAN_TYPE_PROGRESS);
		const int helper = goes_to(1);
		struct fan_frag f = bed.got[1].f;
		f.flags = 0;
		if (helper < 0) {
			answer(n);
		} else {
			bed.now_ns += ns;
			assert_int_equal(bed_give(bed_worker(0, (unsigned)helper), &f, NULL, 0),
					 FAN_CTL);
			flags = bed.got[0].f.flags;
		}
		run_to(1, n, n + 1);
		run_to(2, n, n + 1);
	}
	return flags;
}

/* Of 100 fragments, how many sums go to helpers. */
static uint64_t lent_of(uint64_t from)
{
	const uint64_t lent = fan_switch_stats(bed.sw)->lent;
	run_ahead(from, from + 100);
	return fan_switch_stats(bed.sw)->lent - lent;
}

/* Helpers get nearly all, but less while the aggregator's answers take less time than theirs; who
 * asks is told when theirs take long. */
TEST_WITH(sa_atp__share_of_helpers, open_ahead, NULL)
{
	run_ahead(0, 200);
	assert_int_equal(helpers_take(200, 230, 1000), FAN_F_AWAY);
	assert_true(lent_of(230) > 90);
	assert_int_equal(helpers_take(330, 860, 1000000), FAN_F_AWAY | FAN_F_ECN);
	assert_true(lent_of(860) < 60);
}

/* What goes past the slot by itself is not waited for in it. */
TEST_WITH(sa_atp__parts_that_go_by, open_ahead, NULL)
{
	run_ahead(0, 10);
	assert_int_equal(bed_add(0, 3, 5, 8, 0, FAN_F_DIRECT), FAN_PASS);
	bed_is_partial(0, 0, 5, 7, 7);
	assert_int_equal(bed.got[1].f.sender, 3);
	assert_int_equal(bed_add(0, 3, 5, 8, 0, 0), FAN_DROP);
}

static unsigned slot_of(unsigned job, uint64_t frag)
{
	const struct fan_switch_job *j = fan_switch_job_of(bed.sw, bed_job(job), BED_EPOCH);
	const struct fan_frag f = {.frag = frag};
	return (unsigned)(j->policy->place(bed.sw, j, &f) - bed.sw->slots.slot);
}

/* All ranks of the job send fragments, and have the results. */
static void all_run(unsigned job, uint64_t from, uint64_t to)
{
	for (uint64_t n = from; n < to; n++) {
		for (uint16_t r = 0; r < BED_RANKS; r++)
			assert_int_equal(bed_add(job, r, n, 1 << r, 0, 0),
					 r + 1 < BED_RANKS ? FAN_WAIT : FAN_DONE);
		bed_from_aggregator(job, n, FAN_TYPE_RESULT);
	}
}

/* Job 0 has all slots until job 1 comes, and again when it has gone.  What was begun stays. */
TEST_WITH(sa_atp__jobs_have_stretches_of_their_own, open_ahead, NULL)
{
	for (uint16_t r = 0; r < 3; r++)
		for (uint64_t n = 0; n < 12; n++)
			assert_int_equal(bed_add(0, r, n, 1 << r, 0, 0), FAN_WAIT);
	assert_int_equal(slot_of(0, 11), 11);
	assert_int_equal(slot_of(0, SLOTS + 1), 1);
	bed_form(1);
	all_run(1, 4, SLOTS / 2); /* the others are taken */
	assert_int_equal(slot_of(1, 0), SLOTS / 2);
	assert_int_equal(slot_of(1, SLOTS / 2), SLOTS / 2);
	for (uint64_t n = 0; n < 12; n++) {
		assert_int_equal(bed_add(0, 3, n, 8, 0, 0), FAN_DONE);
		bed_is_partial(0, 0, n, 0xf, 15);
		bed_from_aggregator(0, n, FAN_TYPE_RESULT);
	}
	all_run(0, 12, 12 + SLOTS);
	assert_int_equal(slot_of(0, 11), 11);
	assert_int_equal(slot_of(0, 12), 12 % (SLOTS / 2));
	assert_int_equal(slot_of(0, 12 + SLOTS), (12 + SLOTS) % (SLOTS / 2));
	for (unsigned i = 0; i < 3; i++) { /* job 1 is silent */
		bed_pass(FAN_CHILD_SILENT_NS / 2);
		for (uint16_t r = 0; r < BED_RANKS; r++)
			bed_beat(0, r);
	}
	assert_null(fan_switch_job_of(bed.sw, bed_job(1), BED_EPOCH));
	all_run(0, 12 + SLOTS, 13 + SLOTS);
	assert_int_equal(slot_of(0, 12 + SLOTS), 12);
}

/* What was begun in the stretch before the last is still there: a further change waits for it. */
TEST_WITH(sa_atp__one_change_at_a_time, open_ahead, NULL)
{
	for (uint16_t r = 0; r < 3; r++)
		for (uint64_t n = 0; n < 12; n++)
			assert_int_equal(bed_add(0, r, n, 1 << r, 0, 0), FAN_WAIT);
	bed_form(1);
	assert_int_equal(bed_add(0, 3, 0, 8, 0, 0), FAN_DONE);
	bed_form(2);
	assert_int_equal(bed_add(0, 3, 1, 8, 0, 0), FAN_DONE);
	assert_int_equal(slot_of(0, 11), 11);
	assert_int_equal(slot_of(0, 12), 12 % (SLOTS / 2));
	for (uint64_t n = 2; n < 12; n++)
		assert_int_equal(bed_add(0, 3, n, 8, 0, 0), FAN_DONE);
	for (uint64_t n = 0; n < 12; n++)
		bed_from_aggregator(0, n, FAN_TYPE_RESULT);
	all_run(0, 12, 13); /* all have come to where the last change began */
	assert_int_equal(slot_of(0, 12), 12 % (SLOTS / 3));
}

/* Less than a slot for each. */
TEST_WITH(sa_atp__more_jobs_than_slots, open_ahead, NULL)
{
	bed.cfg.slots = 1;
	bed_begin();
	bed_form(0);
	bed_form(1);
	all_run(0, 0, 1);
	assert_int_equal(slot_of(0, 0), 0);
	assert_int_equal(bed_add(1, 0, 7, 1, 0, 0), FAN_WAIT);
	assert_int_equal(slot_of(1, 7), 0);
}

UNIT_MAIN
