/* SPDX-License-Identifier: Apache-2.0 */
/* args.c - the places that options come from: an INI file, variables, flags. */
#include "args.h"

#include <argp.h>
#include <assert.h>
#include <ctype.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cmd.h"
#include "file/file.h"
#include "file/text.h"

#define KEY_FIRST      0x1000 /* argp's key of the first row that has no letter */
#define KEY_CONFIG     0x0fff
#define EXPECTED_BYTES 400
#define USAGE_STATUS   2
#define SAID_MAX       256 /* flags of a command line */

/* Sections that a file may have; [worker] is the library's. */
static const char *const sections[] = {"switch", "server", "controller", "bench",
				       "top",	 "doctor", "info",	 "plan",
				       "key",	 "sim",	   "worker",	 NULL};

/* The command line's values, until the weaker sources have been read. */
struct flags {
	const struct args_command *c;
	const char *config;
	unsigned count;
	struct {
		unsigned row;
		const char *text;
	} said[SAID_MAX]; /* in their order */
};

/* A file that is being read. */
struct file {
	const struct args_command *c;
	void *values;
	const char *path;
	char *why; /* ARGS_WHY_BYTES */
};

static int key_of(const struct args_command *c, unsigned i)
{
	if (c->options[i].kind == ARGS_OPERAND)
		return ARGP_KEY_ARG;
	return c->options[i].letter ? c->options[i].letter : KEY_FIRST + (int)i;
}

static error_t take_flag(int key, char *text, struct argp_state *state)
{
	struct flags *f = state->input;

	if (key == KEY_CONFIG) {
		f->config = text;
		return 0;
	}
	unsigned i = 0;
	while (i < f->c->count && key_of(f->c, i) != key)
		i++;
	if (i == f->c->count && key != ARGP_KEY_ARG)
		return ARGP_ERR_UNKNOWN;
	for (unsigned k = 0; k < f->count && i < f->c->count; k++)
		if (f->said[k].row == i && f->c->options[i].kind == ARGS_OPERAND)
			i = f->c->count; /* a second one */
	if (i == f->c->count)
		argp_error(state, "unexpected argument \"%s\"", text);
	else if (f->count == SAID_MAX)
		argp_error(state, "more than %d options", SAID_MAX);
	else {
		f->said[f->count].row = i;
		f->said[f->count++].text = text;
	}
	return 0;
}

enum { GROUP_NEEDED = 1, GROUP_TUNING, GROUP_EXPERIMENTS, GROUPS };

static bool is_among(const char *name, const char *const *names)
{
	while (*names && strcmp(*names, name) != 0)
		names++;
	return *names;
}

static int group_of(const struct args_command *c, const char *name)
{
	if (!c->needed)
		return 0;
	if (is_among(name, c->needed))
		return GROUP_NEEDED;
	return is_among(name, c->experiments) ? GROUP_EXPERIMENTS : GROUP_TUNING;
}

/* The groups' heads, behind `count` options. */
static void put_heads(const struct args_command *c, struct argp_option *o)
{
	static const char *const head[GROUPS] = {
		[GROUP_NEEDED] = "Needed:",
		[GROUP_TUNING] = "Tuning:",
		[GROUP_EXPERIMENTS] = "Experiments:",
	};

	for (int i = GROUP_NEEDED; c->needed && i < GROUPS; i++)
		*o++ = (struct argp_option){.doc = head[i], .group = i};
}

static void read_flags(struct flags *f, int argc, char **argv)
{
	struct argp_option o[ARGS_OPTIONS_MAX + 1 + GROUPS] = {{0}};
	struct argp_option *next = o;
	struct argp argp = {.options = o, .parser = take_flag, .doc = f->c->help};

	assert(f->c->count <= ARGS_OPTIONS_MAX);

	for (unsigned i = 0; i < f->c->count; i++) {
		const struct args_option *row = &f->c->options[i];
		if (row->kind == ARGS_OPERAND)
			argp.args_doc = row->what;
		else
			*next++ = (struct argp_option){.name = row->name,
						       .key = key_of(f->c, i),
						       .arg = row->what,
						       .doc = row->help,
						       .group = group_of(f->c, row->name)};
	}
	*next++ = (struct argp_option){.name = "config",
				       .key = KEY_CONFIG,
				       .arg = "FILE",
				       .doc = ARGS_CONFIG_HELP,
				       .group = group_of(f->c, "config")};
	put_heads(f->c, next);
	argp_err_exit_status = USAGE_STATUS;
	argp_parse(&argp, argc, argv, 0, NULL, f);
}

/* Names of flags, those of argp too. */
#define FLAGS_MAX (ARGS_OPTIONS_MAX + 3)

static void flag_names(const struct args_command *c, const char **names)
{
	unsigned n = 0;

	for (unsigned i = 0; i < c->count; i++)
		if (c->options[i].kind != ARGS_OPERAND)
			names[n++] = c->options[i].name;
	names[n++] = "config";
	names[n++] = "help";
	names[n++] = "usage";
	names[n] = NULL;
}

/* Is the next argument that of `name`, the first flag that begins so?  -1: none does. */
static int takes_next(const struct args_command *c, const char *const *names, const char *name,
		      size_t bytes)
{
	while (*names && strncmp(*names, name, bytes) != 0)
		names++;
	if (!*names)
		return -1;
	for (unsigned i = 0; i < c->count; i++)
		if (!strcmp(c->options[i].name, *names))
			return c->options[i].what && !name[bytes];
	return !strcmp(*names, "config") && !name[bytes];
}

/* As takes_next, for letters: "-q", "-s" or "-s4". */
static bool letters_take_next(const struct args_command *c, const char *letters)
{
	for (; *letters; letters++)
		for (unsigned i = 0; i < c->count; i++)
			if (c->options[i].letter == *letters && c->options[i].what)
				return !letters[1];
	return false;
}

int args_takes_next(const struct args_command *c, const char *arg)
{
	const char *names[FLAGS_MAX + 1];

	if (arg[0] != '-' || arg[1] != '-')
		return arg[0] == '-' && letters_take_next(c, arg + 1);
	flag_names(c, names);
	return takes_next(c, names, arg + 2, strcspn(arg + 2, "="));
}

/* A flag that there is not: -1 and the nearest one.  argp would name none. */
static int refuse_unknown(const struct args_command *c, int argc, char **argv, char *why)
{
	const char *names[FLAGS_MAX + 1];
	char word[ARGS_NAME_MAX + 1];

	for (int i = 1; i < argc && strcmp(argv[i], "--"); i++) {
		int takes = args_takes_next(c, argv[i]);
		if (takes >= 0) {
			i += takes;
			continue;
		}
		flag_names(c, names);
		snprintf(word, sizeof word, "%.*s", (int)strcspn(argv[i] + 2, "="), argv[i] + 2);
		const char *near = fan_text_nearest(word, names);
		snprintf(why, ARGS_WHY_BYTES, "fanin %s: unknown option --%s%s%s", c->name, word,
			 near ? "; nearest: --" : "", near ? near : "");
		return -1;
	}
	return 0;
}

static const struct args_option *find(const struct args_command *c, const char *name)
{
	for (unsigned i = 0; i < c->count; i++)
		if (strcmp(c->options[i].name, name) == 0)
			return &c->options[i];
	return NULL;
}

static bool file_error(const struct file *f, unsigned line, const char *text)
{
	snprintf(f->why, ARGS_WHY_BYTES, "%s:%u: %s", f->path, line, text);
	fan_text_plain(f->why);
	return false;
}

static bool unknown(const struct file *f, unsigned line, const char *what, const char *word,
		    const char *const *words)
{
	char text[EXPECTED_BYTES];
	const char *near = fan_text_nearest(word, words);

	if (near)
		snprintf(text, sizeof text, "unknown %s \"%s\"; did you mean \"%s\"?", what, word,
			 near);
	else
		snprintf(text, sizeof text, "unknown %s \"%s\"", what, word);
	return file_error(f, line, text);
}

static bool unknown_key(const struct file *f, unsigned line, const char *name)
{
	const char *names[ARGS_OPTIONS_MAX + 1] = {NULL};
	char what[ARGS_NAME_MAX + 16];

	for (unsigned i = 0; i < f->c->count; i++)
		names[i] = f->c->options[i].name;
	snprintf(what, sizeof what, "key of [%s]", f->c->name);
	return unknown(f, line, what, name, names);
}

static bool take_key(void *arg, unsigned line, const char *section, const char *name,
		     const char *value)
{
	const struct file *f = arg;
	char expected[EXPECTED_BYTES], text[EXPECTED_BYTES + ARGS_NAME_MAX];

	if (strcmp(section, f->c->name) != 0) {
		for (unsigned i = 0; sections[i]; i++)
			if (strcmp(section, sections[i]) == 0)
				return true;
		return *section ? unknown(f, line, "section", section, sections)
				: file_error(f, line, "expected a [section] before the first key");
	}
	const struct args_option *o = find(f->c, name);
	if (!o)
		return unknown_key(f, line, name);
	if (args_set(o, f->values, value, expected, sizeof expected) == 0)
		return true;
	snprintf(text, sizeof text, "%s: %s", name, expected);
	return file_error(f, line, text);
}

static int read_file(const struct args_command *c, void *values, const char *path, char *why)
{
	struct file f = {.c = c, .values = values, .path = path, .why = why};
	char wrong[EXPECTED_BYTES];
	unsigned line;

	FILE *stream = fan_file_stream(path, FAN_FILE_READ, why, ARGS_WHY_BYTES);
	if (!stream)
		return -1;
	int e = fan_option_read(stream, take_key, &f, &line, wrong, sizeof wrong);
	fclose(stream);
	if (e < 0)
		file_error(&f, line, wrong);
	return e ? -1 : 0;
}

/* "FANIN_SWITCH_NO_MULTICAST" */
static void variable(const struct args_command *c, const struct args_option *o, char *name,
		     size_t bytes)
{
	snprintf(name, bytes, "FANIN_%s_%s", c->name, o->name);
	for (char *p = name; *p; p++)
		*p = *p == '-' ? '_' : (char)toupper((unsigned char)*p);
}

static int read_variables(const struct args_command *c, void *values, char *why)
{
	char name[ARGS_NAME_MAX + 16], expected[EXPECTED_BYTES];

	for (unsigned i = 0; i < c->count; i++) {
		variable(c, &c->options[i], name, sizeof name);
		const char *text = getenv(name);
		if (text && args_set(&c->options[i], values, text, expected, sizeof expected)) {
			snprintf(why, ARGS_WHY_BYTES, "%s: %s", name, expected);
			return -1;
		}
	}
	return 0;
}

static int apply_flags(const struct flags *f, void *values, char *why)
{
	char expected[EXPECTED_BYTES];

	for (unsigned i = 0; i < f->count; i++) {
		const struct args_option *o = &f->c->options[f->said[i].row];
		const char *dashes = o->kind == ARGS_OPERAND ? "" : "--";
		if (args_set(o, values, f->said[i].text, expected, sizeof expected)) {
			snprintf(why, ARGS_WHY_BYTES, "fanin %s: %s%s: %s", f->c->name, dashes,
				 o->name, expected);
			return -1;
		}
	}
	return 0;
}

int args_read(const struct args_command *c, void *values, int argc, char **argv, char *why)
{
	struct flags f = {.c = c};

	assert(c->count <= ARGS_OPTIONS_MAX);
	if (refuse_unknown(c, argc, argv, why))
		return -1;
	read_flags(&f, argc, argv);
	if (f.config) /* the library asks for [worker] in the same file */
		setenv("FANIN_CONFIG", f.config, 1);
	const char *path = getenv("FANIN_CONFIG");
	if (path && *path && read_file(c, values, path, why))
		return -1;
	if (read_variables(c, values, why))
		return -1;
	return apply_flags(&f, values, why);
}

/* ---- options as lines that a shell's completion reads: `fanin COMMAND --list-options` ----
 *
 * A line has five fields, separated by tabs: "--name", "-l" or "-", the name of the argument or
 * "-", the words that it may be, separated by commas, or "-", and the help.  Completion asks the
 * program itself, so what it offers is what the program takes. */

static void put(const char *name, int letter, const char *what, const char *const *words,
		const char *help)
{
	printf("--%s\t", name);
	if (letter)
		printf("-%c", letter);
	else
		putchar('-');
	printf("\t%s\t", what ? what : "-");
	for (unsigned i = 0; words && words[i]; i++)
		printf("%s%s", i ? "," : "", words[i]);
	printf("%s\t%s\n", words ? "" : "-", help);
}

/* Print the table, to standard output. */
static void list(const struct args_command *c)
{
	for (unsigned i = 0; i < c->count; i++) {
		const struct args_option *o = &c->options[i];
		if (o->kind != ARGS_OPERAND)
			put(o->name, o->letter, o->what, o->words, o->help);
	}
	put("config", 0, "FILE", NULL, ARGS_CONFIG_HELP);
	put("help", '?', NULL, NULL, "list the options");
}

int args_need_key(const char *command, const char *option, const char *given, const char *variable)
{
	const char *file = getenv(variable);

	if (*given || !file || !*file)
		return 0;
	fprintf(stderr,
		"fanin %s: %s is set, which only ranks read, so no job may be open; expected --%s "
		"FILE, or %s unset\n",
		command, variable, option, variable);
	return 2;
}

void args_parse(const struct args_command *c, void *values, int argc, char **argv)
{
	char why[ARGS_WHY_BYTES];

	if (argc == 2 && strcmp(argv[1], "--list-options") == 0) {
		list(c);
		exit(cmd_end(0));
	}
	if (args_read(c, values, argc, argv, why) == 0)
		return;
	fprintf(stderr, "%s\nTry `fanin %s --help`.\n", why, c->name);
	exit(USAGE_STATUS);
}

void args_wrong(const char *command, const char *format, ...)
{
	va_list args;

	fprintf(stderr, "fanin %s: ", command);
	va_start(args, format);
	vfprintf(stderr, format, args);
	va_end(args);
	fprintf(stderr, "\nTry `fanin %s --help`.\n", command);
	exit(USAGE_STATUS);
}
