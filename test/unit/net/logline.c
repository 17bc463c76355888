/* SPDX-License-Identifier: Apache-2.0 */
/* What a switch tells: one line an event, whatever a job is called. */
#include "unit/unit.h"
#include <string.h>

#include "file/text.h"
#include "net/clock.h"
#include "net/logline.h"

static char line[FAN_LINE_BYTES];

static const struct fan_aggregator_config config = {
	.group_family = 4, .group_port = 23846, .group_base = {239, 192, 3, 250}};

static struct fan_event event(enum fan_event_kind kind, const char *name)
{
	struct fan_event ev = {.kind = kind,
			       .job = 5 << 8 | 7,
			       .epoch = 42,
			       .rank = FAN_RANK_NONE,
			       .ranks = 8,
			       .window = 512};

	strncpy(ev.name, name, sizeof ev.name - 1);
	return ev;
}

static void put_event(const struct fan_event *ev, unsigned shard)
{
	struct fan_text l = fan_text_in(line, sizeof line);
	fan_line_event(&l, ev, shard, &config);
}

static void put_report(const struct fan_report *r)
{
	struct fan_text l = fan_text_in(line, sizeof line);
	fan_line_report(&l, r, 0);
}

TEST(event__job_ready_names_the_group)
{
	struct fan_event ev = event(FAN_EV_JOB_READY, "train");

	ev.multicast = true;
	put_event(&ev, 3);
	assert_string_equal(line, "event=job_ready job=\"train\" id=1287 epoch=42 ranks=8 "
				  "window=512 results=multicast group=239.192.4.1:23846 shard=3");
	ev.multicast = false;
	put_event(&ev, 0);
	assert_string_equal(line, "event=job_ready job=\"train\" id=1287 epoch=42 ranks=8 "
				  "window=512 results=unicast shard=0");
}

TEST(event__job_failed_names_ranks)
{
	struct fan_event ev = event(FAN_EV_JOB_FAILED, "train");

	ev.err = FAN_E_RANK_LOST;
	fan_ranks_set(ev.blamed, 3);
	fan_ranks_set(ev.blamed, 5);
	fan_ranks_set(ev.blamed, 6);
	put_event(&ev, 0);
	assert_non_null(strstr(line, " cause=rank_lost text=\"a rank stopped answering\" "
				     "blamed=3,5-6 shard=0"));
}

TEST(event__hostile_name_stays_in_its_quotes)
{
	struct fan_event ev = event(FAN_EV_JOB_CREATED, "a\" x=\"\\\n\x1b\xff");

	put_event(&ev, 0);
	assert_non_null(strstr(line, " job=\"a\\\" x=\\\"\\\\\\x0a\\x1b\\xff\" id="));
	assert_null(strchr(line, '\n'));
}

/* The text of a set of ranks, as a job that failed has it. */
static const char *blamed(const uint64_t *set)
{
	struct fan_event ev = event(FAN_EV_JOB_FAILED, "train");
	memcpy(ev.blamed, set, sizeof ev.blamed);
	put_event(&ev, 0);
	char *text = strstr(line, " blamed=") + strlen(" blamed=");
	*strchr(text, ' ') = '\0';
	return text;
}

TEST(ranks__are_ranges)
{
	uint64_t set[FAN_RANK_WORDS] = {0};
	assert_string_equal(blamed(set), "none");
	fan_ranks_set(set, 0);
	assert_string_equal(blamed(set), "0");
	for (unsigned r = 63; r <= 65; r++)
		fan_ranks_set(set, r);
	fan_ranks_set(set, 255);
	assert_string_equal(blamed(set), "0,63-65,255");
	memset(set, 0xff, sizeof set);
	assert_string_equal(blamed(set), "0-255");
}

/* The longest of all texts fits. */
TEST(ranks__every_other)
{
	uint64_t set[FAN_RANK_WORDS];
	memset(set, 0xaa, sizeof set);
	const char *text = blamed(set);
	assert_memory_equal(text, "1,3,5,", 6);
	assert_string_equal(text + strlen(text) - 8, ",253,255");
}

TEST(report__tells_what_is_waited_for)
{
	struct fan_report r = {.state = FAN_JOB_READY,
			       .ranks = 4,
			       .window = 64,
			       .results = 10,
			       .oldest = 10,
			       .waiting = 2,
			       .name_bytes = 2,
			       .name = "ab"};

	fan_ranks_set(r.missing, 1);
	put_report(&r);
	assert_string_equal(line, "event=job job=\"ab\" state=ready ranks=4 window=64 results=10 "
				  "replays=0 by=unicast waiting=2 oldest=10 waits_for=1 shard=0");
	r.waiting = 0;
	put_report(&r);
	assert_null(strstr(line, "waits_for"));
	r.state = FAN_JOB_FORMING;
	put_report(&r);
	assert_non_null(strstr(line, "state=forming"));
	assert_non_null(strstr(line, "waits_for=1"));
}

TEST(clock__timeouts)
{
	assert_int_equal(fan_clock_timeout_ms(UINT64_MAX, -1), -1);
	assert_int_equal(fan_clock_timeout_ms(UINT64_MAX, 7), 7);
	assert_int_equal(fan_clock_timeout_ms(0, -1), 0);
	assert_int_equal(fan_clock_timeout_ms(fan_clock_ns(), 100), 0);
	assert_int_equal(fan_clock_timeout_ms(fan_clock_ns() + UINT64_C(3600) * 1000000000, 5), 5);
	assert_int_equal(fan_clock_timeout_ms(UINT64_MAX - 1, -1), 0x7fffffff);
}

TEST(clock__nonces_differ)
{
	uint64_t a = fan_clock_nonce(), b = fan_clock_nonce();

	assert_true(a && b && a != b);
}

TEST(text__is_cut_at_its_bound)
{
	char small[8], at[9] = "12345678";
	struct fan_text t = fan_text_in(small, sizeof small);

	for (unsigned i = 0; i < 9; i++)
		fan_text_add(&t, "%.0f/", 1e306);
	assert_string_equal(small, "1000000");
	assert_int_equal(t.used, 7);
	t = fan_text_in(at, 1);
	fan_text_add(&t, "more");
	fan_text_escaped(&t, "\n", 1);
	assert_string_equal(at, "");
	assert_string_equal(at + 1, "2345678");
}

TEST(text__is_escaped_for_a_terminal)
{
	char text[64];
	struct fan_text t = fan_text_in(text, sizeof text);

	fan_text_escaped(&t, "a\x1b[m\"\\\x7f\xc2\x9b", 9);
	assert_string_equal(text, "a\\x1b[m\\\"\\\\\\x7f\\xc2\\x9b");
}

UNIT_MAIN
