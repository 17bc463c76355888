/* SPDX-License-Identifier: Apache-2.0 */
/* config_flags.c - variables that stand for no option, and those that nothing reads. */
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>
#include <sys/auxv.h>
#include <unistd.h>

#include "config.h"
#include "core/base/err.h"
#include "file/file.h"
#include "file/option.h"
#include "file/text.h"
#include "net/link_rate.h"

#define PREFIX	    "FANIN_"
#define FROM_BYTES  200	 /* "FILE:LINE: key" */
#define NAMES_MAX   64	 /* variables that are read */
#define ENVIRON_MAX 8192 /* variables that are looked at */
#define EDITS_MAX   2	 /* of a name that is probably misspelt; of a short one 1 */
#define NAME_SHORT  5	 /* letters behind FANIN_: HOME, PATH and LIB are others' names */

static const char *const off_on[] = {"0", "1", NULL};

/* Each is read where it counts.  Those of OTHER are not checked here, and are not in the file. */
static const struct fan_option variables[] = {
	{"FANIN_LOCAL", FAN_OPTION_WORD, 0, 0, 1, off_on},
	{"FANIN_HOSTS", FAN_OPTION_WORD, 0, 0, 1, off_on},
	{"FANIN_SPLIT", FAN_OPTION_WORD, 0, 0, 1, off_on},
	{"FANIN_RAILS", FAN_OPTION_WORD, 0, 0, 1, off_on},
	{"FANIN_PS", FAN_OPTION_WORD, 0, 0, 1, off_on},
	{"FANIN_LINK_MBPS", FAN_OPTION_NUMBER, 0, 0, FAN_LINK_MBPS_MAX, NULL},
	{"FANIN_CONFIG", FAN_OPTION_OTHER, 0, 0, 0, NULL},
	{"FANIN_LIBRARY", FAN_OPTION_OTHER, 0, 0, 0, NULL},
	{"FANIN_METRICS", FAN_OPTION_OTHER, 0, 0, 0, NULL},
	{"FANIN_TRACE", FAN_OPTION_OTHER, 0, 0, 0, NULL},
	{"FANIN_MPI_USE", FAN_OPTION_OTHER, 0, 0, 0, NULL},
	{"FANIN_MPI_REPORT", FAN_OPTION_OTHER, 0, 0, 0, NULL},
};
#define VARIABLES (sizeof variables / sizeof variables[0])

/* Variables of commands begin with these: FANIN_SWITCH_MTU. */
static const char *const commands[] = {"SWITCH_", "SERVER_", "CONTROLLER_", "BENCH_",
				       "TOP_",	  "DOCTOR_", "PLAN_",	    "INFO_",
				       "KEY_",	  "SIM_",    "PS_",	    "LAB_"};

/* ---- flags ---- */

/* The flag that `key` of the INI file is; NULL: none. */
static const struct fan_option *flag_of(const char *key)
{
	for (size_t i = 0; i < VARIABLES; i++)
		if (variables[i].kind == FAN_OPTION_WORD &&
		    !strcasecmp(variables[i].name + strlen(PREFIX), key))
			return &variables[i];
	return NULL;
}

static int check(const struct fan_option *o, const char *text, const char *where, char *why,
		 size_t bytes)
{
	char want[128];
	int value;
	if (fan_option_set(o, &value, text))
		return FAN_OK;
	fan_option_expected(o, want, sizeof want);
	snprintf(why, bytes, "%s: \"%.64s\": expected %s", where, text, want);
	return FAN_E_CONFIG;
}

int fan_config_check_flags(char *why, size_t bytes)
{
	int e = FAN_OK;
	for (size_t i = 0; i < VARIABLES && !e; i++) {
		const struct fan_option *o = &variables[i];
		const char *text = fan_option_variable(o->name);
		if (text && o->kind != FAN_OPTION_OTHER)
			e = check(o, text, o->name, why, bytes);
	}
	return e;
}

int fan_config_take_flag(const char *key, const char *text, const char *where, char *why,
			 size_t bytes)
{
	const struct fan_option *o = flag_of(key);
	return o ? check(o, text, where, why, bytes) : FAN_CONFIG_NO_FLAG;
}

/* The key of a variable: "local" of FANIN_LOCAL. */
static void key_of(char *key, const char *name)
{
	size_t n = 0;
	for (const char *p = name + strlen(PREFIX); *p && n < FAN_CONFIG_NAME_BYTES - 1; p++)
		key[n++] = (char)(*p >= 'A' && *p <= 'Z' ? *p - 'A' + 'a' : *p);
	key[n] = '\0';
}

void fan_config_flag_names(char *text, size_t bytes)
{
	struct fan_text t = fan_text_in(text, bytes);
	char key[FAN_CONFIG_NAME_BYTES];
	size_t count = 0;
	while (count < VARIABLES && variables[count].kind == FAN_OPTION_WORD)
		count++;
	for (size_t i = 0; i < count; i++) {
		key_of(key, variables[i].name);
		fan_text_add(&t, "%s%s", i == 0 ? "" : i + 1 < count ? ", " : " or ", key);
	}
}

/* A flag of the INI file. */
struct flag {
	const char *name; /* of its variable */
	char value[2];	  /* "": not there */
	unsigned line;
};

static bool take_flag(void *arg, unsigned line, const char *section, const char *name,
		      const char *value)
{
	struct flag *f = arg;
	const struct fan_option *o = strcmp(section, "worker") ? NULL : flag_of(name);
	int on;
	if (o && !strcmp(o->name, f->name) && !*f->value && fan_option_set(o, &on, value)) {
		memcpy(f->value, value, sizeof f->value);
		f->line = line;
	}
	return true;
}

/* What is wrong in the file fan_config_load has said. */
static void read_flag(struct flag *f, const char *file)
{
	char why[FAN_CONFIG_WHY_BYTES];
	unsigned line;
	FILE *stream = file ? fan_file_stream(file, FAN_FILE_READ, why, sizeof why) : NULL;
	if (!stream)
		return;
	fan_option_read(stream, take_flag, f, &line, why, sizeof why);
	fclose(stream);
}

bool fan_config_flag(const char *name, bool unset)
{
	struct flag f = {.name = name};
	const char *on = fan_option_variable(name);
	if (!on) {
		read_flag(&f, fan_option_variable("FANIN_CONFIG"));
		on = f.value;
	}
	return *on ? !strcmp(on, "1") : unset;
}

void fan_config_tell_flags(fan_config_row *row, void *ctx)
{
	const char *file = fan_option_variable("FANIN_CONFIG");
	char key[FAN_CONFIG_NAME_BYTES], from[FROM_BYTES];
	for (size_t i = 0; i < VARIABLES; i++) {
		const struct fan_option *o = &variables[i];
		const char *text = fan_option_variable(o->name);
		struct flag f = {.name = o->name};
		key_of(key, o->name);
		if (!text && o->kind == FAN_OPTION_WORD)
			read_flag(&f, file);
		snprintf(from, sizeof from, "%s", text ? o->name : "");
		if (*f.value)
			snprintf(from, sizeof from, "%.120s:%u: %.32s", file, f.line, key);
		row(ctx, key, text ? text : f.value, from);
	}
}

/* ---- unknown variables ---- */

static bool is_commands(const char *name)
{
	for (size_t i = 0; i < sizeof commands / sizeof commands[0]; i++)
		if (!strncmp(name + strlen(PREFIX), commands[i], strlen(commands[i])))
			return true;
	return false;
}

void fan_config_unknown(fan_config_row *row, void *ctx)
{
	char option[NAMES_MAX][FAN_CONFIG_NAME_BYTES];
	const char *names[NAMES_MAX + VARIABLES + 1] = {NULL};
	unsigned count = 0;
	while (count < NAMES_MAX && fan_config_variable(count, option[count])) {
		names[count] = option[count];
		count++;
	}
	for (size_t i = 0; i < VARIABLES; i++)
		names[count + i] = variables[i].name;
	for (unsigned i = 0; i < ENVIRON_MAX && environ && environ[i]; i++) {
		char name[FAN_CONFIG_NAME_BYTES];
		const size_t bytes = strcspn(environ[i], "=");
		if (strncmp(environ[i], PREFIX, strlen(PREFIX)) || bytes >= sizeof name)
			continue;
		snprintf(name, sizeof name, "%.*s", (int)bytes, environ[i]);
		const bool is_short = bytes <= strlen(PREFIX) + NAME_SHORT;
		const char *near = fan_text_within(name, names, is_short ? 1 : EDITS_MAX);
		if ((!near || strcmp(near, name)) && !is_commands(name))
			row(ctx, name, near ? near : "", "");
	}
}

/* The caller's function. */
struct listener {
	void (*tell)(void *arg, const char *text);
	void *arg;
};

static void tell_misspelt(void *ctx, const char *name, const char *near, const char *from)
{
	const struct listener *l = ctx;
	char text[3 * FAN_CONFIG_NAME_BYTES];
	(void)from;
	if (!*near)
		return;
	snprintf(text, sizeof text, "%s is no variable of fanin; did you mean %s?", name, near);
	l->tell(l->arg, text);
}

void fan_config_misspelt(void (*tell)(void *arg, const char *text), void *arg)
{
	static atomic_flag told = ATOMIC_FLAG_INIT;
	struct listener l = {tell, arg};
	if (tell && !getauxval(AT_SECURE) && !atomic_flag_test_and_set(&told))
		fan_config_unknown(tell_misspelt, &l);
}
