/* SPDX-License-Identifier: Apache-2.0 */
/* What fanin info says: what would sum (the choice of src/lib/comm/comm.c), and unknown variables.
 */
#include "unit/unit.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cmd/doctor/info.h"
#include "core/base/err.h"

static struct fan_config c;
static struct info_sums s;

static int clean(void **state)
{
	(void)state;
	static const char *const names[] = {"MASTER_ADDR",	    "MASTER_PORT",
					    "WORLD_SIZE",	    "LOCAL_WORLD_SIZE",
					    "OMPI_COMM_WORLD_SIZE", "SLURM_JOB_ID"};

	for (unsigned i = 0; i < sizeof names / sizeof names[0]; i++)
		unsetenv(names[i]);
	c = (struct fan_config){.local = -1, .hosts = -1, .split = -1};
	return 0;
}

static bool says(const char *text)
{
	for (unsigned i = 0; i < s.count; i++)
		if (strstr(s.text[i], text))
			return true;
	return false;
}

TEST_WITH(named__switch_hosts_and_streams, clean, NULL)
{
	strcpy(c.switch_addr, "10.0.0.1:5000");
	assert_int_equal(info_judge(&s, &c), 0);
	assert_true(says("The switch 10.0.0.1:5000"));
	assert_true(says("first rank of each host sums a share"));
	assert_true(says("those of each host sum in shared memory first"));
	c.hosts = 0;
	assert_int_equal(info_judge(&s, &c), 0);
	assert_true(says("Hosts sum nothing, because FANIN_HOSTS=0"));
	assert_true(says("a stream of its own, because FANIN_HOSTS=0"));
	c.local = 1;
	assert_int_equal(info_judge(&s, &c), 0);
	assert_true(says("Ranks of one host sum in shared memory first"));
	assert_false(says("a stream of its own"));
	c.local = 0;
	c.hosts = -1;
	assert_int_equal(info_judge(&s, &c), 0);
	assert_true(says("a stream of its own, because FANIN_LOCAL=0"));
}

TEST_WITH(named__several_are_counted, clean, NULL)
{
	strcpy(c.switch_addr, "a:1,b:2,c:3");
	assert_int_equal(info_judge(&s, &c), 0);
	assert_true(says("3 switches"));
}

TEST_WITH(named__server_and_run_ahead_leave_hosts_out, clean, NULL)
{
	strcpy(c.switch_addr, "10.0.0.1:5000");
	strcpy(c.server_addr, "10.0.0.2:5000");
	assert_int_equal(info_judge(&s, &c), 0);
	assert_true(says("continue through the server 10.0.0.2:5000"));
	assert_false(says("each host"));
	c.server_addr[0] = '\0';
	c.ahead = 64;
	assert_int_equal(info_judge(&s, &c), 0);
	assert_true(says("because ranks run ahead"));
}

TEST_WITH(controller__decides_alone, clean, NULL)
{
	strcpy(c.controller_addr, "10.0.0.9:7700");
	assert_int_equal(info_judge(&s, &c), 0);
	assert_true(says("controller 10.0.0.9:7700"));
	assert_int_equal(s.count, 1);
}

TEST_WITH(named__no_address, clean, NULL)
{
	strcpy(c.switch_addr, "10.0.0.1");
	assert_int_not_equal(info_judge(&s, &c), 0);
	assert_true(says("Nothing: switch: expected HOST:PORT"));
	assert_false(says("because it is named"));
}

TEST_WITH(none__where_no_rank_is_started, clean, NULL)
{
	c.rank = c.ranks = -1;
	assert_int_equal(info_judge(&s, &c), 0);
	assert_true(says("starts no rank here"));
	strcpy(c.switch_addr, "10.0.0.1:5000");
	assert_int_equal(info_judge(&s, &c), 0);
	assert_true(says("because it is named"));
}

TEST_WITH(none__launcher_says_where_ranks_meet, clean, NULL)
{
	assert_int_not_equal(info_judge(&s, &c), 0);
	assert_true(says("Nothing: no switch"));
	setenv("MASTER_ADDR", "10.0.0.7", 1);
	setenv("MASTER_PORT", "29500", 1);
	setenv("WORLD_SIZE", "8", 1);
	assert_int_equal(info_judge(&s, &c), 0);
	assert_true(says("first rank of each host"));
	assert_true(says("10.0.0.7:29500"));
	setenv("LOCAL_WORLD_SIZE", "8", 1);
	assert_int_equal(info_judge(&s, &c), 0);
	assert_true(says("An embedded switch in rank 0"));
}

static void list(void *ctx, const char *name, const char *value, const char *from)
{
	char *text = ctx;
	(void)from;
	snprintf(text + strlen(text), 256 - strlen(text), "%s>%s ", name, value);
}

static void shout(void *arg, const char *text)
{
	char *all = arg;
	snprintf(all + strlen(all), 256 - strlen(all), "%s\n", text);
}

/* Those of commands are known, and so is what stands for no option. */
TEST_WITH(unknown__with_the_one_that_was_meant, clean, NULL)
{
	char text[256] = "";
	struct fanin_options o = FANIN_OPTIONS_INIT;
	char why[FAN_CONFIG_WHY_BYTES];
	setenv("FANIN_SWICH", "s:1", 1);
	setenv("FANIN_TIMEOUTMS", "", 1);
	setenv("FANIN_SERVICE_HOST", "10.0.0.1", 1);
	setenv("FANIN_SWITCH_SLOTS", "1", 1);
	setenv("FANIN_METRICS", "m", 1);
	setenv("FANINSWITCH", "m", 1);
	fan_config_unknown(list, text);
	assert_non_null(strstr(text, "FANIN_SWICH>FANIN_SWITCH "));
	assert_non_null(strstr(text, "FANIN_TIMEOUTMS>FANIN_TIMEOUT_MS "));
	assert_non_null(strstr(text, "FANIN_SERVICE_HOST> "));
	assert_null(strstr(text, "FANIN_SWITCH_SLOTS"));
	assert_null(strstr(text, "FANIN_METRICS"));
	assert_null(strstr(text, "FANINSWITCH"));
	*text = '\0';
	o.waiting = shout;
	o.waiting_arg = text;
	o.mode = 7;
	assert_int_equal(fan_config_load(&c, &o, why, sizeof why), FAN_E_INVALID);
	assert_non_null(
		strstr(text, "FANIN_SWICH is no variable of fanin; did you mean FANIN_SWITCH?\n"));
	assert_null(strstr(text, "HOST is"));
	*text = '\0';
	assert_int_equal(fan_config_load(&c, &o, why, sizeof why), FAN_E_INVALID);
	assert_string_equal(text, ""); /* once a process */
	unsetenv("FANIN_SWICH");
	unsetenv("FANIN_TIMEOUTMS");
}

UNIT_MAIN
