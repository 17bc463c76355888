/* SPDX-License-Identifier: Apache-2.0 */
/* What controllers say: understood as a whole, or refused with a sentence. */
#include "unit/unit.h"

#include <stdio.h>

#include "core/base/err.h"
#include "lib/base/plan_msg.h"
#include "net/udp.h"

static struct fan_plan_msg order;
static char why[FAN_PLAN_MSG_WHY_BYTES];

static int get(const char *line)
{
	return fan_plan_msg_get(&order, line, strlen(line), "j", why);
}

#define PART0                                                                                      \
	"{\"number\":0,\"name\":\"j/0\",\"route\":3,\"cut\":[0,1000],\"at\":\"10.0.0.9:7000\","    \
	"\"aggregator\":\"10.0.0.20:7000\",\"gbps\":3.5}"
#define PART1                                                                                      \
	"{\"number\":1,\"name\":\"j/1\",\"route\":65535,\"cut\":[1000,4294967296],"                \
	"\"at\":\"[fd00::1]:7000\"}"
#define JOB(parts) "{\"job\":{\"name\":\"j\",\"ranks\":8,\"parts\":[" parts "]}}"

TEST(plan_msg__a_job)
{
	char text[80];
	assert_int_equal(get(JOB(PART0 "," PART1)), FAN_OK);
	assert_int_equal(order.kind, FAN_PLAN_MSG_JOB);
	assert_int_equal(order.ranks, 8);
	assert_int_equal(order.parts, 2);
	const struct fan_job_part *p = order.part;
	assert_string_equal(p[0].name, "j/0");
	assert_int_equal(p[0].route, 3);
	assert_int_equal(p[0].from, 0);
	assert_int_equal(p[0].to, 1000);
	assert_string_equal(fan_peer_text(&p[0].at, text, sizeof text), "10.0.0.9:7000");
	assert_string_equal(fan_peer_text(&p[0].aggregator, text, sizeof text), "10.0.0.20:7000");
	assert_true(p[0].gbps > 3.4 && p[0].gbps < 3.6);
	assert_int_equal(p[1].route, 65535);
	assert_true(p[1].from == 1000 && p[1].to == FAN_CUT_WHOLE);
	assert_string_equal(fan_peer_text(&p[1].at, text, sizeof text), "[fd00::1]:7000");
	assert_true(fan_peer_is_none(&p[1].aggregator));
}

TEST(plan_msg__the_others)
{
	assert_int_equal(get("{\"move\":{\"part\":1,\"route\":9,\"at\":\"10.0.0.8:7000\"}}"), 0);
	assert_int_equal(order.kind, FAN_PLAN_MSG_MOVE);
	assert_int_equal(order.number, 1);
	assert_int_equal(order.route, 9);
	assert_int_equal(order.at.port, 7000);
	assert_true(order.gbps >= 0 && order.gbps <= 0);
	assert_int_equal(get("{\"move\":{\"part\":1,\"route\":9,\"at\":\"10.0.0.8:7000\","
			     "\"gbps\":2.5}}"),
			 0);
	assert_true(order.gbps >= 2.5 && order.gbps <= 2.5);
	assert_int_equal(get("{\"again\":{\"why\":\"server PS\\u0007 is gone\",\"parts\":7}}"), 0);
	assert_int_equal(order.kind, FAN_PLAN_MSG_AGAIN);
	assert_string_equal(order.why, "server PS  is gone");
	assert_int_equal(get("{\"refused\":\"no\"}"), 0);
	assert_int_equal(order.kind, FAN_PLAN_MSG_REFUSED);
	assert_string_equal(order.why, "no");
	assert_int_equal(get("{\"refused\":{}}"), 0);
	assert_string_equal(order.why, "it gives no reason");
}

/* One field of a good line, otherwise. */
static void expect_wrong(const char *good, const char *field, const char *otherwise,
			 const char *words)
{
	char line[2048];
	const char *at = strstr(good, field);
	assert_non_null(at);
	snprintf(line, sizeof line, "%.*s%s%s", (int)(at - good), good, otherwise,
		 at + strlen(field));
	assert_int_equal(get(line), FAN_E_FORMAT);
	if (!strstr(why, words))
		fail_msg("%s: \"%s\" has no \"%s\"", otherwise, why, words);
}

TEST(plan_msg__wrong_jobs)
{
	static const char *const wrong[][3] = {
		{"\"name\":\"j\"", "\"name\":\"k\"", "about job \"k\""},
		{"\"name\":\"j\"", "\"name\":7", "\"name\""},
		{"\"ranks\":8", "\"ranks\":257",
		 "\"ranks\": expected a whole number from 2 to 256"},
		{"\"ranks\":8", "\"ranks\":8.0", "\"ranks\""},
		{"\"route\":3", "\"route\":0", "part 0: \"route\""},
		{"\"route\":3", "\"route\":65536", "part 0: \"route\""},
		{"\"route\":3", "\"route\":-1", "part 0: \"route\""},
		{"\"number\":1", "\"number\":2", "part 1: \"number\""},
		{"[1000,4294967296]", "[999,4294967296]", "part 1: \"cut\": expected [1000, END]"},
		{"[1000,4294967296]", "[1000,4294967297]", "part 1: \"cut\""},
		{"[1000,4294967296]", "[1000,999]", "part 1: \"cut\""},
		{"[1000,4294967296]", "[1000,2000]", "expected the last one to end at 2^32"},
		{"[1000,4294967296]", "[1000,4294967296,1]", "part 1: \"cut\""},
		{"[1000,4294967296]", "{}", "part 1: \"cut\""},
		{"10.0.0.9:7000", "localhost:7000", "in numbers"},
		{"10.0.0.9:7000", "10.0.0.9", "\"at\""},
		{"10.0.0.9:7000", "10.0.0.999:7000", "\"at\""},
		{"10.0.0.9:7000", "10.0.0.9:0", "\"at\""},
		{"10.0.0.9:7000", "0.0.0.0:7000", "\"at\""},
		{"10.0.0.20:7000", "", "\"aggregator\""},
		{"[fd00::1]:7000", "[fd00::x]:7000", "\"at\""},
		{"3.5", "-1", "\"gbps\""},
		{"3.5", "1e300", "\"gbps\""},
		{"3.5", "\"3\"", "\"gbps\""},
		{"j/0", "", "part 0: \"name\""},
		{"j/0", "0123456789012345678901234567890123456789012345678901234567890123",
		 "part 0: \"name\": expected 1 to 63"},
		{PART1, "7", "part 1: expected an object"},
		{PART0 "," PART1, "", "\"parts\": expected a list of 1 to 64"},
	};
	for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++)
		expect_wrong(JOB(PART0 "," PART1), wrong[i][0], wrong[i][1], wrong[i][2]);
}

TEST(plan_msg__no_messages)
{
	static const char *const lines[] = {
		"",
		"{",
		"[]",
		"7",
		"null",
		"{}",
		"{\"hello\":1}",
		"{\"job\":{}}",
		"{\"move\":{}}",
		"{\"move\":{\"part\":64,\"route\":1,\"at\":\"10.0.0.1:1\"}}",
		"{\"move\":{\"part\":0,\"route\":1}}",
		"{\"move\":{\"part\":0,\"route\":1,\"at\":\"10.0.0.1:1\",\"gbps\":-1}}",
		"{\"move\":{\"part\":0,\"route\":1,\"at\":\"10.0.0.1:1\",\"gbps\":\"1\"}}",
		"\xff\xfe",
		"{\"again\":1} {\"again\":1}",
		"{\"refused\":\"a\",\"refused\":\"b\"}",
	};
	for (size_t i = 0; i < sizeof lines / sizeof lines[0]; i++) {
		assert_int_equal(get(lines[i]), FAN_E_FORMAT);
		assert_true(*why != '\0');
	}
	assert_int_equal(fan_plan_msg_get(&order, "{\"refused\":\"a\0b\"}", 17, "j", why),
			 FAN_E_FORMAT);
}

/* A good line with bytes changed, cut and doubled: refused or understood within its bounds. */
TEST(plan_msg__broken_lines)
{
	static const char good[] = JOB(PART0 "," PART1);
	struct fan_rng rng = test_rng();
	char line[sizeof good];
	for (int round = 0; round < 20000; round++) {
		memcpy(line, good, sizeof good);
		size_t bytes = sizeof good - 1;
		for (uint64_t n = fan_rng_below(&rng, 4); n; n--)
			line[fan_rng_below(&rng, bytes)] = (char)fan_rng_below(&rng, 256);
		if (!fan_rng_below(&rng, 4))
			bytes = fan_rng_below(&rng, bytes);
		if (fan_plan_msg_get(&order, line, bytes, "j", why) == FAN_OK &&
		    order.kind == FAN_PLAN_MSG_JOB) {
			assert_in_range(order.parts, 1, FAN_PARTS_MAX);
			assert_true(order.part[order.parts - 1].to == FAN_CUT_WHOLE);
		}
	}
}

TEST(plan_msg__what_workers_say)
{
	static const struct fan_job_part parts[] = {{.route = 7}, {.route = 9}};
	char text[FAN_PLAN_MSG_BYTES];
	size_t n = fan_plan_msg_put_join(text, "a \"b\"", 3, 8, 0, NULL, 0);
	text[n] = '\0';
	assert_string_equal(text, "{\"join\":{\"job\":\"a \\\"b\\\"\",\"rank\":3,\"ranks\":8}}");
	n = fan_plan_msg_put_join(text, "j", 3, 8, 26, parts, 2);
	text[n] = '\0';
	assert_string_equal(text, "{\"join\":{\"job\":\"j\",\"rank\":3,\"ranks\":8,"
				  "\"launch\":\"000000000000001a\",\"routes\":[7,9]}}");
	n = fan_plan_msg_put_moved(text, 1, 65535);
	text[n] = '\0';
	assert_string_equal(text, "{\"moved\":{\"part\":1,\"route\":65535}}");
	assert_int_equal(fan_plan_msg_put_join(text, "\xff", 0, 2, 0, NULL, 0), 0);
}

UNIT_MAIN
