/* SPDX-License-Identifier: Apache-2.0 */
#include "core/helper/policy_sa_atp.h"
#include "unit/core/switch_rig.h"

static fan_peer asker = {.addr = {0, UINT64_C(1) << 56}, .port = 9}; /* ::1 */

static enum fan_verdict ask_from(enum fan_topic topic, uint16_t index, uint16_t first)
{
	uint8_t body[FAN_REPORT_BYTES];
	const struct fan_query q = {.index = index, .first = first};
	size_t bytes = fan_ctl_put(body, &q);
	struct fan_frag f = {.nonce = 4711,
			     .sender = FAN_RANK_NONE,
			     .type = FAN_TYPE_QUERY,
			     .topic = (uint8_t)topic};
	return bed_give(asker, &f, body, bytes);
}

/* It was answered, about the same. */
static void is_answer(enum fan_topic topic)
{
	assert_int_equal(bed.gots, 1);
	assert_int_equal(bed.got[0].f.type, FAN_TYPE_REPORT);
	assert_int_equal(bed.got[0].f.topic, topic);
	assert_int_equal(bed.got[0].f.nonce, 4711);
}

static enum fan_verdict ask(enum fan_topic topic, uint16_t index)
{
	return ask_from(topic, index, 0);
}

static struct fan_rank_stats rank_stats_of(uint16_t index, uint16_t first)
{
	struct fan_rank_stats m;
	assert_int_equal(ask_from(FAN_TOPIC_RANKS, index, first), FAN_CTL);
	is_answer(FAN_TOPIC_RANKS);
	assert_int_equal(fan_ctl_get(&m, &bed.got[0].f), FAN_OK);
	assert_int_equal(m.index, index);
	assert_int_equal(m.first, first);
	return m;
}

static struct fan_helper_stats helper_stats_of(uint16_t index, uint16_t first)
{
	struct fan_helper_stats m;
	assert_int_equal(ask_from(FAN_TOPIC_HELPERS, index, first), FAN_CTL);
	is_answer(FAN_TOPIC_HELPERS);
	assert_int_equal(fan_ctl_get(&m, &bed.got[0].f), FAN_OK);
	assert_int_equal(m.index, index);
	assert_int_equal(m.first, first);
	return m;
}

static struct fan_slot_stats slot_stats_of(uint16_t index)
{
	struct fan_slot_stats m;
	assert_int_equal(ask(FAN_TOPIC_SLOTS, index), FAN_CTL);
	is_answer(FAN_TOPIC_SLOTS);
	assert_int_equal(fan_ctl_get(&m, &bed.got[0].f), FAN_OK);
	assert_int_equal(m.index, index);
	return m;
}

TEST_WITH(stats__counts_by_job, bed_open, NULL)
{
	for (uint16_t r = 0; r < BED_RANKS; r++)
		bed_add(0, r, 0, 1, 0, 0);
	bed_add(1, 0, 0, 1, 0, 0); /* the slot is job 0's until its result */
	struct fan_slot_stats m = slot_stats_of(0);
	assert_int_equal(m.jobs, 2);
	assert_int_equal(m.policy, FAN_POLICY_ATP);
	assert_int_equal(m.slots, 1);
	assert_int_equal(m.slots_used, 1);
	assert_int_equal(m.held, 1);
	assert_int_equal(m.taken, 1);
	assert_int_equal(m.hits, 3);
	assert_int_equal(m.completions, 1);
	assert_int_equal(m.collisions, 0);
	m = slot_stats_of(1);
	assert_int_equal(m.held, 0);
	assert_int_equal(m.collisions, 1);
	m = slot_stats_of(2);
	assert_int_equal(m.jobs, 2);
	assert_int_equal(m.slots_used, 1);
	assert_int_equal(m.taken, 0);
}

/* A stranger learns no counter from which the open fragment follows; the host of a rank does. */
TEST_WITH(stats__strangers_learn_no_fragment, bed_open, NULL)
{
	const fan_peer local = asker;
	for (uint64_t n = 0; n < 3; n++) {
		for (uint16_t r = 0; r < BED_RANKS; r++)
			bed_add(0, r, n, 1, 0, 0);
		bed_from_aggregator(0, n, FAN_TYPE_RESULT);
	}
	asker = (fan_peer){.addr = {66, 6}, .port = 6};
	assert_int_equal(slot_stats_of(0).completions, 0);
	asker = bed_worker(0, 1);
	asker.port++;
	assert_int_equal(slot_stats_of(0).completions, 3);
	asker = local;
}

/* Who takes a slot and who is driven out of it. */
TEST_WITH(stats__preemptions_and_evictions, bed_open, NULL)
{
	bed.cfg.policy = FAN_POLICY_ESA;
	bed_begin();
	bed_form(0);
	bed_form(1);
	bed_add(0, 0, 0, 1, 5, 0);
	bed_add(1, 0, 0, 1, 9, 0);
	struct fan_slot_stats m = slot_stats_of(0);
	assert_int_equal(m.evictions, 1);
	assert_int_equal(m.preemptions, 0);
	assert_int_equal(m.held, 0);
	m = slot_stats_of(1);
	assert_int_equal(m.evictions, 0);
	assert_int_equal(m.preemptions, 1);
	assert_int_equal(m.held, 1);
}

TEST_WITH(stats__report_and_echo, bed_open, NULL)
{
	struct fan_report r;
	struct fan_echoed e;
	uint8_t body[FAN_ECHO_MIN] = {0};
	bed.cfg.shards = 3;
	bed_begin();
	uint16_t token = bed_join(0, 0, "a");
	assert_int_equal(bed_welcome(0, 0, token, 3), FAN_CTL);
	assert_int_equal(ask(FAN_TOPIC_JOB, 0), FAN_CTL);
	is_answer(FAN_TOPIC_JOB);
	assert_int_equal(fan_ctl_get(&r, &bed.got[0].f), FAN_OK);
	assert_int_equal(r.jobs, 1);
	assert_int_equal(r.shards, 3);
	assert_int_equal(r.ranks, BED_RANKS);
	assert_int_equal(r.window, BED_WINDOW);
	assert_memory_equal(r.name, "a", 2);
	struct fan_frag f = {.nonce = 4711, .type = FAN_TYPE_QUERY, .topic = FAN_TOPIC_ECHO};
	assert_int_equal(bed_give(bed_worker(7, 7), &f, body, sizeof body), FAN_CTL);
	is_answer(FAN_TOPIC_ECHO);
	assert_int_equal(fan_ctl_get(&e, &bed.got[0].f), FAN_OK);
	assert_int_equal(e.payload_bytes, 64);
	assert_int_equal(e.shards, 3);
	assert_int_equal(bed_give(bed_worker(7, 7), &f, body, 4), FAN_DROP);
	f.topic = FAN_TOPIC_COUNT; /* nothing that there is */
	assert_int_equal(bed_give(bed_worker(7, 7), &f, body, sizeof body), FAN_DROP);
	assert_int_equal(bed.gots, 0);
}

/* Ranks 0 to 2 far ahead of rank 3, with caches; who keeps what, and for whom. */
TEST_WITH(stats__how_ranks_stand, bed_open, NULL)
{
	struct fan_rank_stats m = rank_stats_of(0, 0);
	assert_int_equal(m.jobs, 2);
	assert_int_equal(m.ranks, BED_RANKS);
	assert_int_equal(m.ahead, 0); /* they go in step: there is nothing to tell */
	assert_int_equal(m.count, 0);
	bed.window = 480;
	bed.beat = FAN_BEAT_AHEAD | FAN_BEAT_HELPER;
	bed.cache = (struct fan_helper_cache_use){.frags = 50, .open = 3, .peak = 4};
	bed.cfg.slots = 16;
	bed_begin();
	bed_form(0);
	bed_add(0, 3, 0, 8, 0, 0);
	for (uint64_t n = 0; n < 200; n++)
		for (uint16_t r = 0; r < 3; r++)
			bed_add(0, r, n, 1 << r, 0, 0);
	m = rank_stats_of(0, 0);
	assert_int_equal(m.jobs, 1);
	assert_int_equal(m.ahead, 1);
	assert_int_equal(m.front, 200);
	assert_int_equal(m.count, BED_RANKS);
	uint32_t lent = m.rank[3].lent;
	for (unsigned r = 0; r < 3; r++) {
		lent += m.rank[r].lent;
		assert_int_equal(m.rank[r].flags, FAN_RANK_OFFERS);
		assert_int_equal(m.rank[r].cache.frags, 50);
		assert_int_equal(m.rank[r].cache.open, 3);
		assert_int_equal(m.rank[r].cache.peak, 4);
	}
	assert_int_equal(lent, fan_switch_stats(bed.sw)->lent);
	assert_int_equal(m.rank[0].behind, 0);
	assert_int_equal(m.rank[3].behind, 199);
	assert_int_equal(m.rank[3].most, 199);
	assert_true(m.rank[3].flags & FAN_RANK_STRAGGLES);
	assert_int_equal(m.rank[3].deferred, 0);
	bed_add(0, 3, 100, 8, 0, 0); /* too late for its slot */
	m = rank_stats_of(0, 3);
	assert_int_equal(m.count, 1);
	assert_int_equal(m.rank[0].deferred, 1);
	assert_int_equal(m.rank[0].behind, 99);
	assert_int_equal(m.rank[0].most, 199);
	assert_int_equal(rank_stats_of(0, BED_RANKS).count, 0);
	assert_int_equal(rank_stats_of(0, UINT16_MAX).count, 0);
	assert_int_equal(rank_stats_of(7, 0).ranks, 0);
	bed.cache = (struct fan_helper_cache_use){.frags = 50, .open = 5, .peak = 9};
	bed_beat(0, 2);
	assert_int_equal(rank_stats_of(0, 0).rank[2].cache.open, 5);
	assert_int_equal(rank_stats_of(0, 0).rank[1].cache.open, 3);
}

/* All pairs, a few at a time, whatever it is asked from on. */
TEST_WITH(stats__who_helps_whom, bed_open, NULL)
{
	struct fan_helper_stats m = helper_stats_of(0, 0);
	assert_true(m.jobs == 2 && m.ranks == BED_RANKS && m.count == 0 && m.next == 0);
	assert_true(helper_stats_of(2, 0).jobs == 2 && helper_stats_of(2, 0).ranks == 0);
	uint32_t parts[BED_RANKS][BED_RANKS], got[BED_RANKS][BED_RANKS] = {{0}};
	for (unsigned i = 0; i < BED_RANKS * BED_RANKS; i++)
		parts[i / BED_RANKS][i % BED_RANKS] = i == 5 ? 0 : 1000 + i;
	for (unsigned r = 0; r < BED_RANKS; r++)
		memcpy(bed.sw->kept[bed.sw->job[0].child[r] - 1].parts, parts[r], sizeof *parts);
	unsigned asked = 0;
	uint16_t first = 0;
	do {
		m = helper_stats_of(0, first);
		for (unsigned i = 0; i < m.count; i++)
			got[m.help[i].pair / FAN_RANKS_MAX][m.help[i].pair % FAN_RANKS_MAX] +=
				m.help[i].parts;
		first = m.next;
	} while (first && ++asked < 100);
	assert_int_equal(asked, 1); /* 15 pairs, 14 in the first answer */
	assert_memory_equal(got, parts, sizeof got);
	m = helper_stats_of(0, FAN_HELPER_PAIR(1, 1));
	assert_int_equal(m.help[0].pair, FAN_HELPER_PAIR(1, 2));
	m = helper_stats_of(0, FAN_HELPER_PAIR(3, 3));
	assert_true(m.count == 1 && m.next == 0 && m.help[0].parts == 1015);
	m = helper_stats_of(0, FAN_HELPER_PAIR(3, 4));
	assert_true(m.count == 0 && m.next == 0);
	m = helper_stats_of(0, UINT16_MAX);
	assert_true(m.count == 0 && m.next == 0);
	assert_int_equal(helper_stats_of(1, 0).count, 0);
	/* another child is that rank: what it said before is another's */
	bed.sw->children[bed.sw->job[0].child[0] - 1].epoch++;
	assert_int_equal(helper_stats_of(0, 0).help[0].pair, FAN_HELPER_PAIR(1, 0));
}

/* One question looks at so much, however many ranks there are. */
TEST_WITH(stats__who_helps_whom_of_many, bed_open, NULL)
{
	struct fan_switch_job *j = &bed.sw->job[0];
	for (unsigned r = 0; r < FAN_RANKS_MAX; r++)
		j->child[r] = j->child[0];
	j->ranks = FAN_RANKS_MAX;
	struct fan_helper_stats m = helper_stats_of(0, 0);
	assert_true(m.count == 0 && m.next == FAN_STATS_SCAN);
	m = helper_stats_of(0, UINT16_MAX - FAN_STATS_SCAN);
	assert_true(m.count == 0 && m.next == UINT16_MAX);
	m = helper_stats_of(0, UINT16_MAX - FAN_STATS_SCAN + 1);
	assert_true(m.count == 0 && m.next == 0);
	bed.sw->kept[j->child[0] - 1].parts[255] = 9;
	m = helper_stats_of(0, UINT16_MAX);
	assert_true(m.count == 1 && m.next == 0 && m.help[0].pair == UINT16_MAX);
}

UNIT_MAIN
