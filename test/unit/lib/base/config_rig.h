/* SPDX-License-Identifier: Apache-2.0 */
/* config_rig.h - a configuration that is read without the variables of whoever runs the test. */
#ifndef TEST_UNIT_LIB_BASE_CONFIG_RIG_H
#define TEST_UNIT_LIB_BASE_CONFIG_RIG_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "core/base/err.h"
#include "core/recovery/congestion.h"
#include "lib/base/config.h"

static const char *const variables[] = {
	"FANIN_SWITCH",
	"FANIN_PS",
	"FANIN_JOB",
	"FANIN_RANK",
	"FANIN_RANKS",
	"FANIN_MTU",
	"FANIN_WINDOW",
	"FANIN_TIMEOUT_MS",
	"FANIN_JOIN_MS",
	"FANIN_ALIVE_MS",
	"FANIN_MODE",
	"FANIN_WIRE",
	"FANIN_MULTICAST",
	"FANIN_AHEAD",
	"FANIN_CACHE",
	"FANIN_CONGESTION",
	"FANIN_RTO_MIN_MS",
	"FANIN_CONFIG",
	"FANIN_KEY_FILE",
	"FANIN_CONTROLLER_KEY_FILE",
	"FANIN_LOCAL",
	"FANIN_HOSTS",
	"FANIN_SPLIT",
	"FANIN_RAILS",
	"FANIN_LINK_MBPS",
	"RANK",
	"WORLD_SIZE",
	"OMPI_COMM_WORLD_RANK",
	"OMPI_COMM_WORLD_SIZE",
	"PMI_RANK",
	"PMI_SIZE",
	"SLURM_PROCID",
	"SLURM_NTASKS",
	"SLURM_STEP_ID",
	"SLURM_STEP_NUM_TASKS",
	"SLURM_PTY_PORT",
	"SLURM_JOB_NAME",
	"MPI_LOCALNRANKS",
	"MASTER_PORT",
	"SLURM_JOB_ID",
	"PMIX_NAMESPACE",
	"MASTER_ADDR",
	"TORCHELASTIC_RUN_ID",
};

static char why[FAN_CONFIG_WHY_BYTES];
static struct fan_config c;

static int clean(void **state)
{
	(void)state;
	for (size_t i = 0; i < sizeof variables / sizeof variables[0]; i++)
		unsetenv(variables[i]);
	return 0;
}

static int load(const struct fanin_options *o)
{
	return fan_config_load(&c, o, why, sizeof why);
}

/* A text that tells `place` and what was expected. */
static void assert_why(const char *place, const char *want)
{
	if (!strstr(why, place) || !strstr(why, want))
		fail_msg("\"%s\" does not tell \"%s\" and \"%s\"", why, place, want);
}

static void assert_refused(const struct fanin_options *o, const char *place, const char *want)
{
	assert_int_equal(load(o), FAN_E_CONFIG);
	assert_why(place, want);
}

static char file[] = "/tmp/fanin-config-XXXXXX";

static struct fanin_options complete(void)
{
	struct fanin_options o = FANIN_OPTIONS_INIT;
	o.switch_addr = "10.0.0.1:5000";
	o.rank = 1;
	o.ranks = 4;
	return o;
}

/* Let FANIN_CONFIG name a file with `text`. */
static void write_file(const char *text)
{
	int fd = open(file, O_WRONLY | O_CREAT | O_TRUNC, 0600);
	assert_true(fd >= 0);
	assert_int_equal(write(fd, text, strlen(text)), strlen(text));
	close(fd);
	setenv("FANIN_CONFIG", file, 1);
}

/* What fan_config_list says about one option. */
struct told {
	const char *name;
	char value[64], from[64];
	unsigned rows;
};

static void hear(void *ctx, const char *name, const char *value, const char *from)
{
	struct told *t = ctx;

	t->rows++;
	if (strcmp(name, t->name) != 0)
		return;
	snprintf(t->value, sizeof t->value, "%s", value);
	snprintf(t->from, sizeof t->from, "%s", from);
}

static struct told tell(const char *name)
{
	struct told t = {.name = name};

	fan_config_list(&c, hear, &t, why, sizeof why);
	return t;
}

#endif
