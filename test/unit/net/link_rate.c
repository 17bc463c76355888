/* SPDX-License-Identifier: Apache-2.0 */
/* Rates that interfaces tell: folders as sysfs has them; and how idle processors are, as /proc
 * does. */
#include "unit/unit.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "net/clock.h"
#include "net/link_rate.h"
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

static void link_rate__cards_tell(void **state)
{
	(void)state;
	assert_int_equal(rate_of(true, "1000\n"), 1000);
	assert_int_equal(rate_of(true, "400000\n"), 400000);
	assert_int_equal(rate_of(true, "-1\n"), 0); /* not known */
	assert_int_equal(rate_of(true, ""), 0);
	assert_int_equal(rate_of(true, "fast\n"), 0);
	assert_int_equal(rate_of(true, "4294967295\n"), 0); /* as old kernels say "not known" */
	assert_int_equal(rate_of(true, NULL), 0);
}

static void link_rate__what_is_no_card_does_not(void **state)
{
	(void)state;
	assert_int_equal(rate_of(false, "10000\n"), 0);
	assert_int_equal(fan_link_rate_of("/sys/class/net/lo"), 0);
	assert_int_equal(fan_link_rate_of("/nowhere"), 0);
}

static void link_rate__the_declared_one_counts(void **state)
{
	fan_peer at;
	char why[256] = "";
	(void)state;
	assert_int_equal(fan_peer_parse(&at, "127.0.0.1:5000", why, sizeof why), 0);
	assert_int_equal(fan_link_rate_to(&at), 0); /* the loopback's has none */
	setenv("FANIN_LINK_MBPS", "2500", 1);
	assert_int_equal(fan_link_rate_to(&at), 2500);
	setenv("FANIN_LINK_MBPS", "2.5G", 1);
	assert_int_equal(fan_link_rate_to(&at), 0);
	unsetenv("FANIN_LINK_MBPS");
}

static void link_rate__texts(void **state)
{
	(void)state;
	assert_int_equal(fan_link_rate_parse(NULL), 0);
	assert_int_equal(fan_link_rate_parse(""), 0);
	assert_int_equal(fan_link_rate_parse("4000000"), FAN_LINK_MBPS_MAX);
	assert_int_equal(fan_link_rate_parse("4000001"), -1);
	assert_int_equal(fan_link_rate_parse("99999999999999999999"), -1);
	assert_int_equal(fan_link_rate_parse("-1"), -1);
	assert_int_equal(fan_link_rate_parse("10 Mb/s"), -1);
}

/* UINT64_MAX: `uptime` tells nothing. */
static uint64_t idle_of(const char *uptime)
{
	char path[64];
	uint64_t ns = 0;
	snprintf(path, sizeof path, "%s/uptime", folder);
	FILE *f = fopen(path, "w");
	assert_non_null(f);
	fputs(uptime, f);
	fclose(f);
	const bool told = fan_clock_idle_ns(path, &ns);
	unlink(path);
	return told ? ns : UINT64_MAX;
}

static void clock__idle_processors(void **state)
{
	uint64_t ns;
	(void)state;
	assert_int_equal(idle_of("68512.35 100.07\n"), UINT64_C(100070000000));
	assert_int_equal(idle_of("0.00 0.00\n"), 0);
	assert_int_equal(idle_of("68512.35\n"), UINT64_MAX);
	assert_int_equal(idle_of("68512.35 many\n"), UINT64_MAX);
	assert_int_equal(idle_of(""), UINT64_MAX);
	assert_false(fan_clock_idle_ns("/nowhere", &ns));
	assert_true(fan_clock_idle_ns(FAN_CLOCK_IDLE_FILE, &ns));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(link_rate__cards_tell),
		cmocka_unit_test(link_rate__what_is_no_card_does_not),
		cmocka_unit_test(link_rate__the_declared_one_counts),
		cmocka_unit_test(link_rate__texts),
		cmocka_unit_test(clock__idle_processors),
	};
	unsetenv("FANIN_LINK_MBPS");
	if (!mkdtemp(folder))
		return 1;
	int failed = RUN(tests);
	rmdir(folder);
	return failed;
}
