/* SPDX-License-Identifier: Apache-2.0 */
/* Records of ranks sorted into hosts. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <string.h>

#include "lib/comm/meeting.h"
#include "net/link_rate.h"
#include "net/udp.h"

static int32_t record[FAN_RANKS_MAX][FAN_MEETING_RECORD];

/* Rank r is on host `host[r]`, a letter, and its address ends in its number. */
static struct fan_meeting sorted(const char *host)
{
	struct fan_meeting m;
	unsigned ranks = (unsigned)strlen(host);
	memset(record, 0, sizeof record);
	for (unsigned r = 0; r < ranks; r++) {
		record[r][3] = host[r];
		record[r][FAN_MEETING_RECORD - 1] = (int32_t)r + 1;
	}
	fan_meeting_sort(&m, record[0], ranks);
	return m;
}

static void meeting__hosts_by_their_lowest_rank(void **state)
{
	(void)state;
	struct fan_meeting m = sorted("bacbaacb");
	static const uint16_t first[] = {0, 1, 2}, ranks[] = {3, 3, 2};
	assert_int_equal(m.hosts, 3);
	for (unsigned h = 0; h < m.hosts; h++) {
		fan_peer expected = {0};
		int32_t words[4] = {0, 0, 0, first[h] + 1};
		memcpy(expected.addr, words, sizeof words);
		assert_int_equal(m.host[h].first, first[h]);
		assert_int_equal(m.host[h].ranks, ranks[h]);
		assert_true(fan_peer_equal(&m.host[h].aggregator, &expected));
	}
}

static void meeting__one_host(void **state)
{
	(void)state;
	struct fan_meeting m = sorted("aaaaaaaa");
	assert_int_equal(m.hosts, 1);
	assert_int_equal(m.host[0].ranks, 8);
}

static void meeting__any_word_of_the_id_tells_hosts_apart(void **state)
{
	(void)state;
	struct fan_meeting m;
	for (unsigned word = 0; word < 4; word++) {
		memset(record, 0, sizeof record);
		record[1][word] = 1;
		fan_meeting_sort(&m, record[0], 2);
		assert_int_equal(m.hosts, 2);
	}
	memset(record, 0, sizeof record);
	record[1][4] = 1; /* an address alone does not */
	fan_meeting_sort(&m, record[0], 2);
	assert_int_equal(m.hosts, 1);
}

static void meeting__more_hosts_than_aggregators(void **state)
{
	(void)state;
	struct fan_meeting m;
	memset(record, 0, sizeof record);
	for (int32_t r = 0; r < FAN_RANKS_MAX; r++)
		record[r][0] = r / 2;
	fan_meeting_sort(&m, record[0], FAN_RANKS_MAX);
	assert_int_equal(m.hosts, FAN_MEETING_HOSTS_MAX);
	for (unsigned h = 0; h < m.hosts; h++) {
		assert_int_equal(m.host[h].first, 2 * h);
		assert_int_equal(m.host[h].ranks, 2);
	}
}

static void meeting__record_of_this_process(void **state)
{
	(void)state;
	int32_t one[FAN_MEETING_RECORD], other[FAN_MEETING_RECORD];
	fan_peer at, local = {0};
	char why[256];
	assert_int_equal(fan_peer_parse(&at, "127.0.0.1:5000", why, sizeof why), 0);
	fan_meeting_record(one, &at);
	fan_meeting_record(other, &at);
	assert_memory_equal(one, other, sizeof one);
	memcpy(local.addr, one + 4, sizeof local.addr);
	local.port = at.port;
	assert_true(fan_peer_equal(&local, &at)); /* who asks for loopback is there */
}

/* Words of a meeting are whatever ranks have sent. */
static void meeting__rates_that_are_none(void **state)
{
	static const int32_t none[] = {0, -1, INT32_MIN, INT32_MAX, FAN_LINK_MBPS_MAX + 1};
	(void)state;
	for (size_t i = 0; i < sizeof none / sizeof *none; i++)
		assert_int_equal(fan_meeting_take_rate(none[i]), 0);
	assert_int_equal(fan_meeting_take_rate(1), 1);
	assert_int_equal(fan_meeting_take_rate(FAN_LINK_MBPS_MAX), FAN_LINK_MBPS_MAX);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(meeting__hosts_by_their_lowest_rank),
		cmocka_unit_test(meeting__one_host),
		cmocka_unit_test(meeting__any_word_of_the_id_tells_hosts_apart),
		cmocka_unit_test(meeting__more_hosts_than_aggregators),
		cmocka_unit_test(meeting__record_of_this_process),
		cmocka_unit_test(meeting__rates_that_are_none),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
