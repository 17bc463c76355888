/* SPDX-License-Identifier: Apache-2.0 */
#include "unit/unit.h"

#include "core/base/policy_kind.h"
#include "core/wire/ctlmsg.h"

#define BODY_MAX (FAN_CTL_BYTES_MAX - FAN_HEAD_BYTES)

static uint8_t body[BODY_MAX + 8];

static struct fan_frag frag_of(size_t bytes)
{
	return (struct fan_frag){.payload = body, .payload_bytes = bytes};
}

static const struct fan_join join = {.ranks = 256,
				     .payload_bytes = 8832,
				     .window = 4096,
				     .options = 7,
				     .alive_ms = 600000,
				     .name_bytes = 5,
				     .name = "train",
				     .launch = UINT64_C(0x0123456789abcdef),
				     .claim = 0x89abcdef};
static const struct fan_welcome welcome = {.window = 4096,
					   .shards = 64,
					   .beat_ms = 1250,
					   .alive_ms = 10000,
					   .group_family = 6,
					   .group_port = 5001,
					   .group = {0xff, 0x15, [15] = 9}};
static const struct fan_refuse refusal = {
	.err = FAN_E_RANK_TAKEN, .rank = 7, .have = 1, .want = ~0u};
static const struct fan_beat beat = {.flags = 3};
static const struct fan_state fault = {.frag = UINT64_C(0xfedcba9876543210),
				       .state = FAN_JOB_FAILED,
				       .err = FAN_E_MISMATCH,
				       .multicast = 1,
				       .ranks = 256,
				       .rank_a = 3,
				       .rank_b = 255,
				       .desc_a = 0x01020304,
				       .desc_b = 0xf0e0d0c0,
				       .missing = {1, 2, 3, UINT64_C(1) << 63}};
static const struct fan_leave leave = {.err = FAN_E_STALLED, .blamed = {0, 5, 0, 9}};
static const struct fan_query query = {.index = 0xabcd, .first = 0x1234};
static const struct fan_report report = {.index = 1,
					 .jobs = 64,
					 .state = FAN_JOB_READY,
					 .ranks = 256,
					 .window = 4096,
					 .results = ~UINT64_C(0),
					 .replays = 5,
					 .oldest = 6,
					 .waiting = 7,
					 .missing = {1, 0, 0, 8},
					 .name_bytes = 3,
					 .name = "abc",
					 .operations = 9};

static const struct fan_slot_stats slot_stats = {.index = 2,
						 .jobs = 3,
						 .policy = FAN_POLICY_ESA,
						 .slots = 65536,
						 .slots_used = 65535,
						 .held = 4,
						 .quota = 5,
						 .hits = ~UINT64_C(0),
						 .taken = 6,
						 .collisions = 7,
						 .over_quota = 8,
						 .passed = 9,
						 .preemptions = 10,
						 .evictions = 11,
						 .flushes = 12,
						 .completions = 13,
						 .name_bytes = 2,
						 .name = "ab"};
static const struct fan_rank_stats rank_stats = {
	.index = 2,
	.jobs = 3,
	.ranks = 256,
	.ahead = 1,
	.front = ~UINT64_C(0),
	.first = 253,
	.count = 3,
	.rank = {{.flags = 255, .behind = 65535, .most = 65535, .lent = ~0u, .deferred = 1},
		 {.behind = 4, .most = 5, .lent = 6, .deferred = 7, .cache = {10, 8, 9}},
		 {.cache = {65535, 65535, 65535}}},
	.name_bytes = 2,
	.name = "ab"};
static const struct fan_helper_stats helper_stats = {.index = 2,
						     .jobs = 3,
						     .ranks = 256,
						     .first = FAN_HELPER_PAIR(1, 2),
						     .next = FAN_HELPER_PAIR(255, 255),
						     .count = 3,
						     .help = {{FAN_HELPER_PAIR(1, 2), 1},
							      {FAN_HELPER_PAIR(1, 255), ~0u},
							      {FAN_HELPER_PAIR(255, 0), 7}},
						     .name_bytes = 2,
						     .name = "ab"};
static const struct fan_echo echo = {.answer_bytes = 70, .body_bytes = 80};
static const struct fan_echoed echoed = {.payload_bytes = 8832,
					 .shards = 64,
					 .window = 4096,
					 .group_family = 6,
					 .version_bytes = FAN_VERSION_MAX,
					 .version = "0123456789.123456789-123456789+",
					 .behind_loses = 65535};

/* Encode `*m`, decode it into `*got`, and return what that says. */
static int again(enum fan_body kind, const void *m, void *got)
{
	struct fan_frag f = frag_of(fan_ctl_put_body(kind, body, m));
	return fan_ctl_get_body(kind, got, &f);
}

/* A message like `from` but for one field is refused. */
#define WRONG(type, from, field, value)                                                            \
	do {                                                                                       \
		struct fan_##type wrong = from, read;                                              \
		wrong.field = value;                                                               \
		assert_int_equal(again(FAN_BODY_OF(&read), &wrong, &read), FAN_E_FORMAT);          \
	} while (0)

#define ROW(m)                                                                                     \
	{                                                                                          \
		FAN_BODY_OF(&(m)), &(m)                                                            \
	}
static const struct {
	enum fan_body kind;
	const void *m;
} bodies[] = {
	ROW(join),  ROW(welcome), ROW(refusal),	   ROW(beat),	    ROW(fault),	       ROW(leave),
	ROW(query), ROW(report),  ROW(slot_stats), ROW(rank_stats), ROW(helper_stats), ROW(echoed),
};

TEST(ctlmsg__round_trip_and_every_truncation)
{
	for (unsigned i = 0; i < sizeof bodies / sizeof *bodies; i++) {
		const enum fan_body kind = bodies[i].kind;
		const size_t bytes = fan_ctl_put_body(kind, body, bodies[i].m);
		assert_in_range(bytes, 1, BODY_MAX);
		for (size_t n = 0; n <= bytes + 3; n++) { /* more is a later revision */
			uint8_t more[sizeof body];
			uint64_t m[64] = {0}; /* room for any */
			struct fan_frag f = frag_of(n);
			const int err = fan_ctl_get_body(kind, m, &f);
			const bool same = err == FAN_OK &&
					  fan_ctl_put_body(kind, more, m) == bytes &&
					  memcmp(more, body, bytes) == 0;
			/* of a REPORT age and operations may be absent */
			const size_t least = kind == FAN_BODY_REPORT ? bytes - 6 : bytes;
			assert_int_equal(err, n < least ? FAN_E_SHORT : FAN_OK);
			assert_int_equal(same, n >= bytes);
			if (kind == FAN_BODY_REPORT && err == FAN_OK && n < bytes - 2)
				assert_int_equal(((const struct fan_report *)m)->age_ms,
						 FAN_AGE_NOT_TOLD);
		}
	}
}

/* The workers of a tree: fields that are absent where they say nothing new. */
TEST(ctlmsg__workers)
{
	struct fan_join m = join;
	struct fan_state s = fault;
	for (uint32_t n = 0; n <= 2; n++) {
		m.workers = s.workers = n;
		struct fan_frag f = frag_of(fan_ctl_put(body, &m));
		assert_int_equal(f.payload_bytes, FAN_CTL_UP_MIN); /* filled up */
		assert_int_equal(fan_ctl_get(&m, &f), FAN_OK);
		assert_int_equal(m.workers, n);
		f = frag_of(fan_ctl_put(body, &s));
		assert_int_equal(f.payload_bytes, 57 + (n ? 4 : 0));
		assert_int_equal(fan_ctl_get(&s, &f), FAN_OK);
		assert_int_equal(s.workers, n);
	}
	m.workers = s.workers = FAN_WORKERS_MAX;
	struct fan_frag f = frag_of(fan_ctl_put(body, &m));
	assert_int_equal(fan_ctl_get(&m, &f), FAN_OK);
	m.workers++;
	assert_int_equal(again(FAN_BODY_JOIN, &m, &m), FAN_E_FORMAT);
	assert_int_equal(again(FAN_BODY_STATE, &s, &s), FAN_OK);
	WRONG(state, s, workers, FAN_WORKERS_MAX + 1);
}

TEST(ctlmsg__join_out_of_range)
{
	WRONG(join, join, ranks, 1);
	WRONG(join, join, ranks, 257);
	WRONG(join, join, payload_bytes, 56);
	WRONG(join, join, payload_bytes, 68);
	WRONG(join, join, payload_bytes, 8840);
	WRONG(join, join, alive_ms, 99);
	WRONG(join, join, alive_ms, 600001);
	WRONG(join, join, name_bytes, 0);
	WRONG(join, join, window, 1);
}

TEST(ctlmsg__names)
{
	struct fan_join m = join;
	m.name_bytes = FAN_NAME_MAX;
	memset(m.name, 'x', FAN_NAME_MAX);
	m.name[FAN_NAME_MAX] = '\0';
	size_t bytes = fan_ctl_put(body, &m);
	struct fan_frag f = frag_of(bytes);
	struct fan_join got;
	memset(&got, 0xee, sizeof got);
	assert_int_equal(fan_ctl_get(&got, &f), FAN_OK);
	assert_string_equal(got.name, m.name);
	body[11] = FAN_NAME_MAX + 1; /* the length byte; there are bytes enough */
	f = frag_of(bytes + 1);
	assert_int_not_equal(fan_ctl_get(&got, &f), FAN_OK);
	body[11] = 255;
	assert_int_not_equal(fan_ctl_get(&got, &f), FAN_OK);
}

/* A job whose ranks run ahead of each other may have a larger window. */
TEST(ctlmsg__welcome_with_a_burst)
{
	struct fan_welcome m = welcome, got;
	m.window = FAN_AHEAD_MAX;
	m.burst = 300;
	struct fan_frag f = frag_of(fan_ctl_put(body, &m));
	assert_int_equal(fan_ctl_get(&got, &f), FAN_OK);
	assert_int_equal(got.window, FAN_AHEAD_MAX);
	assert_int_equal(got.burst, 300);
	WRONG(welcome, m, burst, 0);
	WRONG(welcome, m, window, 299);
	WRONG(welcome, m, window, FAN_AHEAD_MAX + 1);
}

/* Of a window of one fragment the next could not open while the last may be asked for again; of no
 * patience a member would be lost at once, of too much it would hang. */
TEST(ctlmsg__welcome_with_too_small_a_window_or_no_patience)
{
	struct fan_welcome m = welcome;
	m.window = 2;
	assert_int_equal(again(FAN_BODY_WELCOME, &m, &m), FAN_OK);
	WRONG(welcome, welcome, window, 1);
	WRONG(welcome, welcome, alive_ms, 0);
	WRONG(welcome, welcome, alive_ms, 99);
	WRONG(welcome, welcome, alive_ms, 600001);
}

TEST(ctlmsg__welcome_with_flags)
{
	struct fan_welcome m = welcome, got;
	m.flags = FAN_WELCOME_NUMBERS;
	m.cookie = UINT64_C(0x1122334455667788);
	struct fan_frag f = frag_of(fan_ctl_put(body, &m));
	assert_int_equal(fan_ctl_get(&got, &f), FAN_OK);
	assert_int_equal(got.flags, FAN_WELCOME_NUMBERS);
	assert_int_equal(got.burst, 0);
	assert_true(got.cookie == m.cookie);
}

TEST(ctlmsg__welcome_out_of_range)
{
	WRONG(welcome, welcome, window, 0);
	WRONG(welcome, welcome, window, FAN_WINDOW_MAX + 1);
	WRONG(welcome, welcome, shards, 0);
	WRONG(welcome, welcome, shards, FAN_SHARDS_MAX + 1);
	WRONG(welcome, welcome, beat_ms, 0);
	WRONG(welcome, welcome, group_family, 5);
}

TEST(ctlmsg__states_that_contradict_themselves)
{
	WRONG(state, fault, err, FAN_OK);	   /* failed without a cause */
	WRONG(state, fault, state, FAN_JOB_READY); /* ready with an error */
	WRONG(state, fault, state, FAN_JOB_LEFT + 1);
	WRONG(leave, leave, err, 5);
	WRONG(refuse, refusal, err, FAN_OK);
}

TEST(ctlmsg__an_answer_is_no_larger_than_its_question)
{
	struct fan_report largest = report;
	largest.name_bytes = FAN_NAME_MAX;
	assert_true(fan_ctl_put(body, &largest) <= FAN_REPORT_BYTES);
	struct fan_slot_stats named = slot_stats;
	named.name_bytes = FAN_NAME_MAX;
	assert_true(fan_ctl_put(body, &named) <= FAN_REPORT_BYTES);
	struct fan_rank_stats many = rank_stats;
	many.count = FAN_STATS_RANKS;
	many.name_bytes = FAN_NAME_MAX;
	assert_true(fan_ctl_put(body, &many) <= FAN_REPORT_BYTES);
	struct fan_helper_stats most = helper_stats;
	most.count = FAN_STATS_PAIRS;
	most.name_bytes = FAN_NAME_MAX;
	assert_true(fan_ctl_put(body, &most) <= FAN_REPORT_BYTES);
	assert_int_equal(fan_ctl_put(body, &query), FAN_REPORT_BYTES);
}

TEST(ctlmsg__lags_out_of_range)
{
	struct fan_rank_stats m;
	WRONG(rank_stats, rank_stats, first, 254); /* and the two behind it: one too many */
	WRONG(rank_stats, rank_stats, ranks, 257);
	WRONG(rank_stats, rank_stats, ahead, 2);
	WRONG(rank_stats, rank_stats, rank[1].most, 3);
	WRONG(rank_stats, rank_stats, rank[1].cache.open, 10);
	struct fan_frag f = frag_of(fan_ctl_put(body, &rank_stats));
	body[17] = FAN_STATS_RANKS + 1;
	assert_int_equal(fan_ctl_get(&m, &f), FAN_E_FORMAT);
}

/* Pairs that rise and a `next` behind them end every asker's loop. */
TEST(ctlmsg__helps_out_of_range)
{
	struct fan_helper_stats m;
	WRONG(helper_stats, helper_stats, ranks, 257);
	WRONG(helper_stats, helper_stats, ranks, 255); /* and there is a rank 255 */
	WRONG(helper_stats, helper_stats, first, FAN_HELPER_PAIR(1, 3));
	WRONG(helper_stats, helper_stats, next, FAN_HELPER_PAIR(255, 0));
	WRONG(helper_stats, helper_stats, help[1].pair, FAN_HELPER_PAIR(1, 2));
	WRONG(helper_stats, helper_stats, help[1].parts, 0);
	m = helper_stats;
	m.next = 0;
	assert_int_equal(again(FAN_BODY_HELPER_STATS, &m, &m), FAN_OK);
	m.count = 0;
	m.next = m.first;
	assert_int_equal(again(FAN_BODY_HELPER_STATS, &m, &m), FAN_E_FORMAT);
	m.next++;
	assert_int_equal(again(FAN_BODY_HELPER_STATS, &m, &m), FAN_OK);
	struct fan_frag f = frag_of(fan_ctl_put(body, &helper_stats));
	body[10] = FAN_STATS_PAIRS + 1;
	assert_int_equal(fan_ctl_get(&m, &f), FAN_E_FORMAT);
}

/* What a BEAT says of a cache, and of the WELCOME. */
TEST(ctlmsg__cache_in_a_beat)
{
	struct fan_beat m = beat;
	m.cache = (struct fan_helper_cache_use){.frags = 100, .open = 7, .peak = 8};
	m.cookie = UINT64_C(0x1122334455667788);
	struct fan_frag f = frag_of(fan_ctl_put(body, &m));
	struct fan_beat got;
	assert_int_equal(f.payload_bytes, FAN_CTL_UP_MIN);
	assert_int_equal(fan_ctl_get(&got, &f), FAN_OK);
	assert_true(got.cookie == m.cookie && got.cache.frags == 100);
	assert_true(got.cache.open == 7 && got.cache.peak == 8);
	WRONG(beat, m, cache.peak, 101);
	WRONG(beat, m, cache.peak, 6);
}

static int echo_of(size_t bytes, uint16_t answer_bytes, struct fan_echo *m)
{
	static uint8_t large[FAN_ECHO_MAX + 1];
	fan_ctl_put(large, &(struct fan_echo){answer_bytes, FAN_ECHO_MAX});
	struct fan_frag f = {.payload = large, .payload_bytes = bytes};
	return fan_ctl_get(m, &f);
}

TEST(ctlmsg__echo)
{
	struct fan_echo m;
	struct fan_frag f = frag_of(fan_ctl_put(body, &echo));
	assert_int_equal(f.payload_bytes, 80);
	assert_int_equal(fan_ctl_get(&m, &f), FAN_OK);
	assert_int_equal(m.answer_bytes, 70);
	assert_int_equal(m.body_bytes, 80);
	assert_int_equal(echo_of(FAN_ECHO_MIN - 1, 0, &m), FAN_E_SHORT);
	assert_int_equal(echo_of(FAN_ECHO_MIN, 0, &m), FAN_OK);
	assert_int_equal(echo_of(FAN_ECHO_MAX, 0, &m), FAN_OK);
	assert_int_equal(m.body_bytes, FAN_ECHO_MAX);
	assert_int_equal(echo_of(FAN_ECHO_MAX + 1, 0, &m), FAN_E_FORMAT);
	assert_int_equal(echo_of(1000, 1000, &m), FAN_OK);
	assert_int_equal(echo_of(1000, 1001, &m), FAN_E_FORMAT); /* no amplifier */
	assert_int_equal(echo_of(1000, FAN_ECHO_MIN, &m), FAN_OK);
	assert_int_equal(echo_of(1000, FAN_ECHO_MIN - 1, &m), FAN_E_FORMAT);
}

TEST(ctlmsg__echoed_out_of_range)
{
	struct fan_echoed m;
	WRONG(echoed, echoed, payload_bytes, FAN_PAYLOAD_MIN - 1);
	WRONG(echoed, echoed, payload_bytes, FAN_PAYLOAD_MAX + 1);
	WRONG(echoed, echoed, shards, 0);
	WRONG(echoed, echoed, shards, FAN_SHARDS_MAX + 1);
	WRONG(echoed, echoed, window, 0);
	WRONG(echoed, echoed, window, FAN_WINDOW_MAX + 1);
	WRONG(echoed, echoed, group_family, 5);
	WRONG(echoed, echoed, version[3], '\033'); /* it is shown on terminals */
	WRONG(echoed, echoed, version[0], ' ');
	struct fan_frag f = frag_of(fan_ctl_put(body, &echoed));
	body[7] = FAN_VERSION_MAX + 1;
	body[8 + FAN_VERSION_MAX] = 'x';
	assert_int_equal(fan_ctl_get(&m, &f), FAN_E_FORMAT);
}

TEST(ctlmsg__description_of_a_fragment)
{
	struct fan_frag f = {.flags = FAN_F_LAST | FAN_F_REDUCE | FAN_F_ROOT,
			     .count = 65535,
			     .dtype = FAN_INT64,
			     .op = FAN_MAX};
	fan_desc d = fan_desc_of(&f);
	assert_int_equal(FAN_DESC_COUNT(d), 65535);
	assert_int_equal(FAN_DESC_DTYPE(d), FAN_INT64);
	assert_int_equal(FAN_DESC_OP(d), FAN_MAX);
	assert_int_equal(FAN_DESC_FIRST(d), 0);
	assert_int_equal(FAN_DESC_LAST(d), 1);
	assert_int_equal(FAN_DESC_REDUCE(d), 1);
	f.flags = FAN_F_FIRST | FAN_F_DIRECT;
	d = fan_desc_of(&f);
	assert_int_equal(FAN_DESC_FIRST(d), 1);
	assert_int_equal(FAN_DESC_LAST(d) | FAN_DESC_REDUCE(d), 0);
}

/* What is put into a fragment is what is read from it, and its other flags stay. */
TEST(ctlmsg__descriptions_come_back)
{
	struct fan_rng rng = test_rng();
	for (unsigned i = 0; i < 1000; i++) {
		uint16_t flags = (uint16_t)fan_rng_next(&rng);
		struct fan_frag f = {.count = (uint16_t)fan_rng_next(&rng),
				     .dtype = (uint8_t)fan_rng_below(&rng, FAN_DTYPE_COUNT),
				     .op = (uint8_t)fan_rng_below(&rng, FAN_REDOP_COUNT),
				     .flags = flags},
				g = {.flags = FAN_F_ECN};
		fan_desc_put(&g, fan_desc_of(&f));
		assert_int_equal(fan_desc_of(&g), fan_desc_of(&f));
		assert_true(g.count == f.count && g.dtype == f.dtype && g.op == f.op);
		assert_int_equal(g.flags,
				 FAN_F_ECN | (flags & (FAN_F_FIRST | FAN_F_LAST | FAN_F_REDUCE)));
	}
}

/* Two addresses, where there are any. */
TEST(ctlmsg__hosts)
{
	struct fan_refuse no = {.err = FAN_E_LAUNCHES, .hosts = {1, [31] = 2}}, got;
	struct fan_frag f = frag_of(fan_ctl_put(body, &no));
	assert_int_equal(f.payload_bytes, 11 + FAN_HOSTS_BYTES);
	assert_int_equal(fan_ctl_get(&got, &f), FAN_OK);
	assert_memory_equal(got.hosts, no.hosts, sizeof no.hosts);
	memset(no.hosts, 0, sizeof no.hosts);
	assert_int_equal(fan_ctl_put(body, &no), 11);
}

UNIT_MAIN
