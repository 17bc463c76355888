/* SPDX-License-Identifier: Apache-2.0 */
/* What is wrong with the addresses that a rank is given, before anybody is asked; and names that
 * are not known, or not yet.  One that comes in time: ns-torchrun. */
#include "unit/unit.h"

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/err.h"
#include "file/option.h"
#include "lib/base/plan_msg.h"
#include "lib/base/rank_file.h"
#include "lib/base/rendezvous.h"
#include "net/udp.h"

static struct fan_config c;
static char why[FAN_CONFIG_WHY_BYTES];

static void refused(const char *switches, const char *words)
{
	snprintf(c.switch_addr, sizeof c.switch_addr, "%s", switches);
	assert_int_equal(fan_switch_list_check(&c, why, sizeof why), FAN_E_CONFIG);
	if (!strstr(why, words))
		fail_msg("\"%s\": \"%s\" has no \"%s\"", switches, why, words);
}

static void taken(const char *switches)
{
	snprintf(c.switch_addr, sizeof c.switch_addr, "%s", switches);
	if (fan_switch_list_check(&c, why, sizeof why))
		fail_msg("\"%s\": %s", switches, why);
}

TEST(list__addresses)
{
	memset(&c, 0, sizeof c);
	taken("");
	taken("10.0.0.1:5000");
	taken("a:1,b:1,a:2");
	taken("[fd00::1]:5000,name.that.nobody.has:5000"); /* it may be known later */
	taken("a:1,aa:1");
	refused("10.0.0.1", "expected HOST:PORT");
	refused("10.0.0.1:", "expected a port from 1 to 65535");
	refused("10.0.0.1:0", "expected a port from 1 to 65535");
	refused("10.0.0.1:65536", "expected a port from 1 to 65535");
	refused("a:1,b", "got \"b\"");
	refused("a:1,,b:1", "got \"\"");
	refused("a:1,", "got \"\"");
	refused("fd00::1:5000", "brackets");
	refused("a:1,b:1,a:1", "switch a:1: named twice");
}

TEST(list__as_many_as_there_are_parts)
{
	char text[16 * (FAN_PARTS_MAX + 1)] = "";
	memset(&c, 0, sizeof c);
	for (int i = 1; i <= FAN_PARTS_MAX + 1; i++)
		snprintf(text + strlen(text), 16, "%sa:%d", i > 1 ? "," : "", i);
	refused(text, "expected at most 64 switches");
	*strrchr(text, ',') = '\0';
	taken(text);
}

TEST(list__server_and_controller)
{
	memset(&c, 0, sizeof c);
	strcpy(c.server_addr, "s:2");
	taken("a:1");
	refused("a:1,b:1", "server with several switches");
	strcpy(c.server_addr, "s");
	refused("a:1", "server: expected HOST:PORT");
	memset(&c, 0, sizeof c);
	strcpy(c.controller_addr, "s");
	refused("", "controller: expected HOST:PORT");
}

/* ---- rank_file: where a rank writes its metrics and its trace. ---- */

static char path[FAN_RANK_FILE_BYTES];

TEST(path__rank_and_job)
{
	assert_true(fan_rank_file(path, sizeof path, "/run/%j.%r.prom", "a/b.c", 12));
	assert_string_equal(path, "/run/a_b_c.12.prom");
	assert_true(fan_rank_file(path, sizeof path, "x%%%q%r%", "j", 3));
	assert_string_equal(path, "x%%q3%");
}

TEST(path__without_rank_gets_one)
{
	assert_true(fan_rank_file(path, sizeof path, "/run/fanin.prom", "j", 3));
	assert_string_equal(path, "/run/fanin-3.prom");
	assert_true(fan_rank_file(path, sizeof path, "/run.d/fanin", "j", 0));
	assert_string_equal(path, "/run.d/fanin-0");
}

TEST(path__too_long_is_refused)
{
	assert_false(fan_rank_file(path, 8, "/run/fanin.prom", "j", 3));
	assert_true(fan_rank_file(path, 9, "a%j%r", "bcdef", 3));
	assert_false(fan_rank_file(path, 8, "a%j%r", "bcdef", 3));
}

TEST(pattern__only_with_a_file)
{
	unsetenv("FANIN_METRICS");
	assert_null(fan_option_variable("FANIN_METRICS"));
	setenv("FANIN_METRICS", "", 1);
	assert_null(fan_option_variable("FANIN_METRICS"));
	setenv("FANIN_METRICS", "x", 1);
	assert_string_equal(fan_option_variable("FANIN_METRICS"), "x");
}

/* ---- names ---- */

#define NOBODY "no such host:5000" /* no resolver asks anybody for a name with blanks */

static unsigned count;
static char told[256];

static void note(void *arg, const char *text)
{
	(void)arg;
	snprintf(told, sizeof told, "%s", text);
}

TEST(resolve__address)
{
	const struct fan_config cfg = {.timeout_ms = 3600000};
	fan_peer p;
	char text[80];
	assert_int_equal(fan_resolve_all(&p, 1, &count, "10.0.0.7:5000", &cfg, why, sizeof why),
			 FAN_OK);
	assert_string_equal(fan_peer_text(&p, text, sizeof text), "10.0.0.7:5000");
}

/* What can never be a name is not asked for again; an hour would be longer than the test may take.
 */
TEST(resolve__what_is_no_name)
{
	static const char *const wrong[] = {"10.0.0.256:5000", "10.0.0.1", "[fd00::g]:1", "a:x"};
	const struct fan_config cfg = {.timeout_ms = 3600000};
	fan_peer p;
	for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++)
		assert_int_equal(fan_resolve_all(&p, 1, &count, wrong[i], &cfg, why, sizeof why),
				 FAN_E_CONFIG);
}

TEST(resolve__a_name_is_asked_for_until_the_time_is_over)
{
	struct fan_config cfg = {.timeout_ms = 3600000, .join_ms = 5000, .waiting = note};
	fan_peer p;
	assert_int_equal(fan_resolve_all(&p, 1, &count, NOBODY, &cfg, why, sizeof why),
			 FAN_E_CONFIG);
	assert_non_null(strstr(why, "known host name"));
	assert_non_null(strstr(told, "waits for the address of \"" NOBODY "\""));
	assert_non_null(strstr(told, "gives up in "));
}

UNIT_MAIN
