/* SPDX-License-Identifier: Apache-2.0 */
/* config_rig.h - a configuration that is read without the variables of whoever runs the test. */
#ifndef TEST_UNIT_LIB_BASE_CONFIG_RIG_H
#define TEST_UNIT_LIB_BASE_CONFIG_RIG_H

#include "unit/unit.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "core/base/err.h"
#include "core/recovery/congestion.h"
#include "lib/base/config.h"

static char why[FAN_CONFIG_WHY_BYTES];
static struct fan_config c;

static int clean(void **state __attribute__((unused)))
{
	return clearenv();
}

/* Variables as pairs of name and value. */
#define SET(...) set((const char *const[][2]){__VA_ARGS__, {NULL, NULL}})

static void set(const char *const pairs[][2])
{
	for (; pairs[0][0]; pairs++)
		setenv(pairs[0][0], pairs[0][1], 1);
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

/* Loads as rank `rank` of `ranks`. */
static void assert_is(const struct fanin_options *o, int rank, int ranks)
{
	assert_int_equal(load(o), FAN_OK);
	assert_int_equal(c.rank, rank);
	assert_int_equal(c.ranks, ranks);
}

/* A field of `struct fanin_options` that is wrong. */
static void assert_invalid(const struct fanin_options *o, const char *place, const char *want)
{
	assert_int_equal(load(o), FAN_E_INVALID);
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

static int list(struct told *t)
{
	return fan_config_list(&c, hear, t, why, sizeof why);
}

static void assert_list_refused(const char *place, const char *want)
{
	assert_int_equal(list(&(struct told){.name = "switch"}), FAN_E_CONFIG);
	assert_why(place, want);
}

static struct told tell(const char *name)
{
	struct told t = {.name = name};

	list(&t);
	return t;
}

#endif
