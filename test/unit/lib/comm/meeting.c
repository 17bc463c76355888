/* SPDX-License-Identifier: Apache-2.0 */
/* Records of ranks sorted into hosts. */
#include "unit/unit.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lib/comm/meeting.c"
#include "lib/host/attach.h"
#include "net/rails.h"
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
	sort_records(&m, record[0], ranks);
	return m;
}

TEST(meeting__hosts_by_their_lowest_rank)
{
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

TEST(meeting__one_host)
{
	struct fan_meeting m = sorted("aaaaaaaa");
	assert_int_equal(m.hosts, 1);
	assert_int_equal(m.host[0].ranks, 8);
}

TEST(meeting__any_word_of_the_id_tells_hosts_apart)
{
	struct fan_meeting m;
	for (unsigned word = 0; word < 4; word++) {
		memset(record, 0, sizeof record);
		record[1][word] = 1;
		sort_records(&m, record[0], 2);
		assert_int_equal(m.hosts, 2);
	}
	memset(record, 0, sizeof record);
	record[1][4] = 1; /* an address alone does not */
	sort_records(&m, record[0], 2);
	assert_int_equal(m.hosts, 1);
}

TEST(meeting__more_hosts_than_aggregators)
{
	struct fan_meeting m;
	memset(record, 0, sizeof record);
	for (int32_t r = 0; r < FAN_RANKS_MAX; r++)
		record[r][0] = r / 2;
	sort_records(&m, record[0], FAN_RANKS_MAX);
	assert_int_equal(m.hosts, FAN_MEETING_HOSTS_MAX);
	for (unsigned h = 0; h < m.hosts; h++) {
		assert_int_equal(m.host[h].first, 2 * h);
		assert_int_equal(m.host[h].ranks, 2);
	}
}

TEST(meeting__record_of_this_process)
{
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
TEST(meeting__rates_that_are_none)
{
	static const int32_t none[] = {0, -1, INT32_MIN, INT32_MAX, FAN_LINK_MBPS_MAX + 1};
	for (size_t i = 0; i < sizeof none / sizeof *none; i++)
		assert_int_equal(take_rate(none[i]), 0);
	assert_int_equal(take_rate(1), 1);
	assert_int_equal(take_rate(FAN_LINK_MBPS_MAX), FAN_LINK_MBPS_MAX);
}

/* At named switches ranks that have not asked share memory only where hosts sum as well. */
TEST(meeting__ranks_share_memory_where_hosts_sum)
{
	struct fan_meeting m = {.hosts = 2, .may_share = 3, .sums = true};
	m.host[0].ranks = 2;
	m.host[1].ranks = 1;
	assert_true(fan_host_sharing_is_agreed(&m, 3, true));
	m.sums = false;
	assert_false(fan_host_sharing_is_agreed(&m, 3, true));
	assert_true(fan_host_sharing_is_agreed(&m, 3, false));
	m.ask_to_share = 3;
	assert_true(fan_host_sharing_is_agreed(&m, 3, true));
}

/* What hosts tell of their further networks: "10.1.0.1/24 10.2.0.1/24" of each. */
static struct fan_meeting paired(unsigned hosts, const char *const *told)
{
	struct fan_rail rails[4 * FAN_MEETING_RAILS_MAX] = {{.prefix_bits = 0}};
	unsigned count[4] = {0};
	struct fan_meeting m = {.hosts = hosts};
	for (unsigned h = 0; h < hosts; h++) {
		char text[128], at[40];
		snprintf(at, sizeof at, "10.0.0.%u:%u", h + 1, 7000 + h);
		assert_true(fan_peer_read(&m.host[h].aggregator, at));
		snprintf(text, sizeof text, "%s", told[h]);
		for (char *rest, *one = strtok_r(text, " ", &rest); one;
		     one = strtok_r(NULL, " ", &rest)) {
			struct fan_rail *r = &rails[h * FAN_MEETING_RAILS_MAX + count[h]++];
			char *bits = strchr(one, '/');
			*bits++ = '\0';
			r->prefix_bits = 96 + (unsigned)strtoul(bits, NULL, 10);
			snprintf(at, sizeof at, "%s:0", one);
			assert_true(fan_peer_read(&r->at, at));
		}
	}
	pair_all(&m, rails, count);
	return m;
}

static void assert_rail(const struct fan_meeting *m, unsigned h, unsigned j, const char *expected)
{
	char text[80];
	assert_string_equal(fan_peer_text(&m->host[h].rail[j].at, text, sizeof text), expected);
}

TEST(meeting__rails_are_paired_by_network)
{
	struct fan_meeting m =
		paired(2, (const char *[]){"10.1.0.1/24 10.2.0.1/24", "10.2.0.2/24 10.1.0.2/24"});
	assert_int_equal(m.rails, 2);
	assert_rail(&m, 0, 0, "10.1.0.1:7000");
	assert_rail(&m, 1, 0, "10.1.0.2:7001");
	assert_rail(&m, 0, 1, "10.2.0.1:7000");
	assert_rail(&m, 1, 1, "10.2.0.2:7001");
}

TEST(meeting__a_rail_that_one_host_lacks_is_none)
{
	struct fan_meeting m = paired(3, (const char *[]){"10.1.0.1/24 10.2.0.1/24", "10.2.0.2/24",
							  "10.1.0.3/24 10.2.0.3/24"});
	assert_int_equal(m.rails, 1);
	for (unsigned h = 0; h < m.hosts; h++) {
		char text[40];
		snprintf(text, sizeof text, "10.2.0.%u:%u", h + 1, 7000 + h);
		assert_rail(&m, h, 0, text);
	}
}

TEST(meeting__an_address_that_two_hosts_have_is_no_rail)
{
	assert_int_equal(paired(2, (const char *[]){"172.17.0.1/16", "172.17.0.1/16"}).rails, 0);
	assert_int_equal(paired(2, (const char *[]){"10.1.0.1/24", "10.1.0.2/24"}).rails, 1);
	assert_int_equal(paired(2, (const char *[]){"10.0.0.3/24", "10.0.0.1/24"}).rails, 0);
}

UNIT_MAIN
