/* SPDX-License-Identifier: Apache-2.0 */
/* Rates that interfaces tell: folders as sysfs has them; and what others than this process
 * receive by them. */
#include "unit/unit.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "net/netlink.h"
#include "net/rails.h"
#include "net/udp.h"

static char folder[] = "/tmp/fanin-link-XXXXXX";

/* The rate of an interface whose "speed" has `speed`, NULL: no such file. */
static int32_t rate_of(bool is_device, const char *speed)
{
	char device[64], path[64];
	snprintf(device, sizeof device, "%s/device", folder);
	snprintf(path, sizeof path, "%s/speed", folder);
	if (is_device)
		assert_int_equal(mkdir(device, 0700), 0);
	if (speed) {
		FILE *f = fopen(path, "w");
		assert_non_null(f);
		fputs(speed, f);
		fclose(f);
	}
	int32_t rate = fan_link_rate_of(folder);
	rmdir(device);
	unlink(path);
	return rate;
}

TEST(link_rate__cards_tell)
{
	assert_int_equal(rate_of(true, "1000\n"), 1000);
	assert_int_equal(rate_of(true, "400000\n"), 400000);
	assert_int_equal(rate_of(true, "-1\n"), 0); /* not known */
	assert_int_equal(rate_of(true, ""), 0);
	assert_int_equal(rate_of(true, "fast\n"), 0);
	assert_int_equal(rate_of(true, "4294967295\n"), 0); /* as old kernels say "not known" */
	assert_int_equal(rate_of(true, NULL), 0);
}

TEST(link_rate__what_is_no_card_does_not)
{
	assert_int_equal(rate_of(false, "10000\n"), 0);
	assert_int_equal(fan_link_rate_of("/sys/class/net/lo"), 0);
	assert_int_equal(fan_link_rate_of("/nowhere"), 0);
}

TEST(link_rate__the_declared_one_counts)
{
	fan_peer at;
	char why[256] = "";
	assert_int_equal(fan_peer_parse(&at, "127.0.0.1:5000", why, sizeof why), 0);
	assert_int_equal(fan_link_rate_to(&at), 0); /* the loopback's has none */
	setenv("FANIN_LINK_MBPS", "2500", 1);
	assert_int_equal(fan_link_rate_to(&at), 2500);
	setenv("FANIN_LINK_MBPS", "2.5G", 1);
	assert_int_equal(fan_link_rate_to(&at), 0);
	unsetenv("FANIN_LINK_MBPS");
}

TEST(link_rate__texts)
{
	assert_int_equal(fan_link_rate_parse(NULL), 0);
	assert_int_equal(fan_link_rate_parse(""), 0);
	assert_int_equal(fan_link_rate_parse("4000000"), FAN_LINK_MBPS_MAX);
	assert_int_equal(fan_link_rate_parse("4000001"), -1);
	assert_int_equal(fan_link_rate_parse("99999999999999999999"), -1);
	assert_int_equal(fan_link_rate_parse("-1"), -1);
	assert_int_equal(fan_link_rate_parse("10 Mb/s"), -1);
}

/* ---- what others receive ---- */

#define MS	UINT64_C(1000000)
#define SECOND	UINT64_C(1000000000)
#define GBPS(n) ((uint64_t)((n)*125e6))

static struct fan_cross_traffic others;
static struct fan_inlets own;
static uint64_t now_ns;

/* Turns each 250 ms, in which the interface has received so many bytes and the sockets so many. */
static void receive(unsigned turns, uint64_t bytes, uint64_t own_bytes, uint64_t overflows)
{
	for (unsigned i = 0; i < turns; i++) {
		const struct fan_inlets in = {
			.of = {{.index = 7, .bytes = own_bytes, .datagrams = 10}}};
		now_ns += 250 * MS;
		fan_inlets_join(&own, &in);
		others.of[0].received += bytes + own_bytes + UINT64_C(10) * 42;
		others.of[0].reported = true;
		fan_cross_traffic_end(&others, now_ns, &own, overflows);
	}
}

static void begin_others(void)
{
	memset(&others, 0, sizeof others);
	memset(&own, 0, sizeof own);
	now_ns = SECOND;
	others.count = 1;
	others.of[0].index = 7;
}

TEST(others__are_what_sockets_do_not_count)
{
	begin_others();
	receive(FAN_CROSS_TRAFFIC_KNOWN, GBPS(1) / 4, GBPS(5) / 4, 0);
	assert_true(fan_cross_traffic_gbps(&others, 7) < 0); /* not yet */
	receive(1, GBPS(1) / 4, GBPS(5) / 4, 0);
	assert_true(fabs(fan_cross_traffic_gbps(&others, 7) - 1) < 1e-6);
	receive(FAN_CROSS_TRAFFIC_SAMPLES, 0, GBPS(5) / 4, 0);
	assert_true(fan_cross_traffic_gbps(&others, 7) <= 0);
	receive(FAN_CROSS_TRAFFIC_SAMPLES / 2, GBPS(4) / 4, 0, 0);
	assert_true(fabs(fan_cross_traffic_gbps(&others, 7) - 2) <
		    1e-6); /* half of the mean's time */
	assert_true(fan_cross_traffic_gbps(&others, 8) < 0);
	fan_cross_traffic_end(&others, now_ns + MS, &own, 0); /* reports may be in a row */
	assert_true(fabs(fan_cross_traffic_gbps(&others, 7) - 2) < 1e-6);
}

/* It has come, and not yet to the sockets: not more than that. */
TEST(others__what_waits_is_none)
{
	begin_others();
	receive(9, 0, GBPS(1) / 4, 0);
	receive(1, 1 << 20, 0, 0);
	assert_true(fan_cross_traffic_gbps(&others, 7) < 0.005);
	receive(1, 0, 1 << 20, 0);
	others.of[0].received -= 1 << 20;
	receive(1, 0, 1 << 20, 0);
	assert_true(fan_cross_traffic_gbps(&others, 7) <= 0); /* never below 0 */
}

TEST(others__are_not_known)
{
	const unsigned none[1] = {0};
	begin_others();
	receive(6, GBPS(1) / 4, 0, 0);
	assert_true(fan_cross_traffic_gbps(&others, 7) > 0);
	receive(1, GBPS(1) / 4, 0, 1); /* sockets have lost something */
	assert_true(fan_cross_traffic_gbps(&others, 7) < 0);
	receive(5, GBPS(1) / 4, 0, 1);
	assert_true(fan_cross_traffic_gbps(&others, 7) > 0);
	own.full = true; /* some came by an interface that is not counted */
	receive(1, GBPS(1) / 4, 0, 1);
	assert_true(fan_cross_traffic_gbps(&others, 7) < 0);
	fan_cross_traffic_begin(&others, none, 1); /* no neighbour is there any more */
	assert_int_equal(others.count, 0);
}

TEST(others__interfaces_have_a_bound)
{
	const unsigned loopback[] = {1};
	unsigned index[FAN_INLETS_MAX + 2];
	begin_others();
	for (unsigned i = 0; i < FAN_INLETS_MAX + 2; i++)
		index[i] = 1000000 + i / 2 * 2; /* two neighbours on each */
	fan_cross_traffic_begin(&others, index, FAN_INLETS_MAX + 2);
	assert_int_equal(others.count, FAN_INLETS_MAX / 2 + 1);
	for (unsigned i = 0; i < FAN_INLETS_MAX + 2; i++)
		index[i] = 1000000 + i;
	fan_cross_traffic_begin(&others, index, FAN_INLETS_MAX + 2);
	assert_int_equal(others.count, FAN_INLETS_MAX);
	assert_false(others.of[0].reported); /* there is none */
	fan_cross_traffic_begin(&others, loopback, 1);
	assert_false(others.of[0].reported);
	for (unsigned i = 1; i < FAN_INLETS_MAX + 2; i++)
		fan_inlets_join(&own, &(struct fan_inlets){.of = {{.index = i, .bytes = i}}});
	assert_int_equal(own.of[FAN_INLETS_MAX - 1].bytes, FAN_INLETS_MAX);
	assert_true(own.full);
}

/* ---- clock.h ---- */

int main(void)
{
	unsetenv("FANIN_LINK_MBPS");
	if (!mkdtemp(folder))
		return 1;
	int failed = unit_run();
	rmdir(folder);
	return failed;
}
