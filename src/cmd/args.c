/* SPDX-License-Identifier: Apache-2.0 */
/* args.c - the places that options come from: an INI file, variables, flags. */
#include "args.h"

#include <argp.h>
#include <assert.h>
#include <ctype.h>
#include <getopt.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cmd.h"
#include "file/file.h"
#include "file/text.h"
#include "net/udp.h"

#define KEY_FIRST      0x1000 /* getopt's key of the first row that has no letter */
#define EXPECTED_BYTES 400
#define USAGE_STATUS   2

/* Sections that a file may have; [worker] is the library's. */
static const char *const sections[] = {"switch", "server", "controller", "bench",
				       "top",	 "doctor", "info",	 "plan",
				       "key",	 "sim",	   "worker",	 NULL};

/* A flag of every command, behind its own. */
static const struct fan_option help_row = {
	.name = "help", .letter = '?', .help = "list the options"};

/* A file that is being read. */
struct file {
	const struct args_command *c;
	void *values;
	const char *path;
	char *why; /* ARGS_WHY_BYTES */
};

/* Row `i` of the flags and the operand; NULL: there are no more. */
static const struct fan_option *row(const struct args_command *c, unsigned i)
{
	if (i < c->count)
		return &c->options[i];
	return i == c->count ? &help_row : NULL;
}

/* ---- the values ---- */

static int set_peer(void *to, const char *text, char *why, size_t bytes)
{
	fan_peer p;

	if (fan_peer_parse(&p, text, why, bytes))
		return -1;
	memcpy(to, &p, sizeof p);
	return 0;
}

static int add_text(const struct fan_option *o, struct args_many *to, const char *text, char *why,
		    size_t bytes)
{
	assert(o->max >= 1 && o->max <= ARGS_MANY_MAX);
	if (to->count == o->max) {
		snprintf(why, bytes, "expected at most %d, got \"%s\"", (int)o->max, text);
		return -1;
	}
	char *copy = strdup(text);
	if (!copy) {
		snprintf(why, bytes, "out of memory");
		return -1;
	}
	to->text[to->count++] = copy;
	return 0;
}

/* Store `text` as option `o` of `values`; for a flag of the command line `text` is NULL.
 * 0; or -1 with "expected ..., got ..." in `why`, `bytes` bytes. */
static int set(const struct args_command *c, const struct fan_option *o, void *values,
	       const char *text, char *why, size_t bytes)
{
	char expected[ARGS_WHY_BYTES / 2];

	if (o->kind == FAN_OPTION_PEER)
		return set_peer((char *)values + o->at, text, why, bytes);
	if (o->kind == FAN_OPTION_MANY)
		return add_text(o, (struct args_many *)((char *)values + o->at), text, why, bytes);
	if (o->kind == FAN_OPTION_WORKER) {
		if (!c->worker(o->name, text, expected, sizeof expected))
			return 0;
	} else if (fan_option_set(o, values, text)) {
		return 0;
	} else {
		fan_option_expected(o, expected, sizeof expected);
	}
	if (o->kind == FAN_OPTION_TEXT || o->kind == FAN_OPTION_OPERAND)
		snprintf(why, bytes, "expected %s, got %zu", expected, strlen(text));
	else
		snprintf(why, bytes, "expected %s, got \"%s\"", expected, text);
	return -1;
}

/* ---- the command line ---- */

__attribute__((format(printf, 3, 4))) static int refuse(const struct args_command *c, char *why,
							const char *format, ...)
{
	struct fan_text t = fan_text_in(why, ARGS_WHY_BYTES);
	va_list args;

	fan_text_add(&t, "fanin %s: ", c->name);
	va_start(args, format);
	fan_text_vadd(&t, format, args);
	va_end(args);
	return -1;
}

/* Return getopt's value of row `i`; '?' counts as an error. */
static int key_of(const struct args_command *c, unsigned i)
{
	const int letter = row(c, i)->letter;
	return letter && letter != '?' ? letter : KEY_FIRST + (int)i;
}

static unsigned row_of(const struct args_command *c, int key)
{
	unsigned i = 0;

	while (row(c, i) && key_of(c, i) != key)
		i++;
	return i;
}

/* The first `count` rows' names, of flags, ended by NULL. */
static void flag_names(const struct args_command *c, unsigned count, const char **names)
{
	for (unsigned i = 0; i < count; i++)
		if (row(c, i)->kind != FAN_OPTION_OPERAND)
			*names++ = row(c, i)->name;
	*names = NULL;
}

/* Options that are gone, and what to use instead. */
static const struct {
	const char *command; /* NULL: any */
	const char *name, *use;
} gone[] = {
	{NULL, "siblings", "--child I/N"},
	{NULL, "index", "--child I/N"},
	{NULL, "no-multicast", "multicast = 0 in the ranks' FANIN_CONFIG"},
	{"top", "prometheus", "fanin switch --metrics"},
	{"doctor", "mtu", "FANIN_MTU=BYTES"},
	{"bench", "pace", "pace = PERCENT in FANIN_CONFIG"},
	{"bench", "workers", "--tree F/T"},
	{"bench", "first", "--tree F/T"},
};

/* What to use instead of `name`; NULL: nothing. */
static const char *instead_of(const char *command, const char *name)
{
	for (size_t i = 0; i < sizeof gone / sizeof gone[0]; i++)
		if (!strcmp(name, gone[i].name) &&
		    (!gone[i].command || !strcmp(command, gone[i].command)))
			return gone[i].use;
	return NULL;
}

/* getopt has read an error: "--slotz=3" or "-z", or what follows lacks or is too much. */
static int refuse_flag(const struct args_command *c, int key, const char *arg, char *why)
{
	const char *names[ARGS_OPTIONS_MAX + 2];
	char word[ARGS_NAME_MAX + 1];

	if (optopt && !row(c, row_of(c, optopt)))
		return refuse(c, why, "unknown option -%c", optopt);
	if (optopt)
		return refuse(c, why, "--%s %s", row(c, row_of(c, optopt))->name,
			      key == ':' ? "requires an argument" : "takes no argument");
	flag_names(c, c->count + 1, names);
	snprintf(word, sizeof word, "%.*s", (int)strcspn(arg + 2, "="), arg + 2);
	const char *use = instead_of(c->name, word), *near = fan_text_nearest(word, names);
	if (use)
		return refuse(c, why, "unknown option --%s; use %s", word, use);
	return refuse(c, why, "unknown option --%s%s%s", word, near ? "; nearest: --" : "",
		      near ? near : "");
}

/* Find the next flag's row and its text in `optarg`.  1; 0: there is none, and operands follow,
 * from `optind`; -1, and `why`. */
static int next_flag(const struct args_command *c, int argc, char **argv, unsigned *found,
		     char *why)
{
	struct option o[ARGS_OPTIONS_MAX + 2] = {{0}}, *to = o;
	char letters[2 * (ARGS_OPTIONS_MAX + 1) + 2] = ":", *letter = letters + 1;
	const struct fan_option *r;

	for (unsigned i = 0; (r = row(c, i)); i++) {
		if (r->kind == FAN_OPTION_OPERAND)
			continue;
		*to++ = (struct option){r->name, r->what ? required_argument : no_argument, NULL,
					key_of(c, i)};
		if (r->letter && r->letter != '?')
			*letter++ = (char)r->letter;
		if (r->letter && r->what)
			*letter++ = ':';
	}
	opterr = 0;
	int key = getopt_long(argc, argv, letters, o, NULL);
	if (key == -1)
		return 0;
	if (key == '?' && optopt == '?')
		key = key_of(c, c->count);
	if (key == '?' || key == ':')
		return refuse_flag(c, key, argv[optind - 1], why);
	*found = row_of(c, key);
	return 1;
}

/* ---- help ---- */

static bool is_among(const char *name, const char *const *names)
{
	while (*names && strcmp(*names, name) != 0)
		names++;
	return *names;
}

enum { GROUP_NEEDED = 1, GROUP_TUNING, GROUP_EXPERIMENTS, GROUPS };

static int group_of(const struct args_command *c, const char *name)
{
	if (!c->needed)
		return 0;
	if (is_among(name, c->needed))
		return GROUP_NEEDED;
	return is_among(name, c->experiments) ? GROUP_EXPERIMENTS : GROUP_TUNING;
}

/* Print it, by argp, and end the program. */
static void help(const struct args_command *c, char *program)
{
	static const char *const head[] = {"Needed:", "Tuning:", "Experiments:"};
	struct argp_option o[ARGS_OPTIONS_MAX + 1 + GROUPS] = {{0}}, *put = o;
	struct argp argp = {.options = o, .doc = c->help};
	const struct fan_option *r;

	for (unsigned i = 0; (r = row(c, i)); i++)
		if (r->kind == FAN_OPTION_OPERAND)
			argp.args_doc = r->what;
		else
			*put++ = (struct argp_option){
				.name = r->name,
				.key = r->letter ? r->letter : KEY_FIRST + (int)i,
				.arg = r->what,
				.doc = r->help,
				.group = r == &help_row ? -1 : group_of(c, r->name)};
	for (int i = GROUP_NEEDED; c->needed && i < GROUPS; i++)
		*put++ = (struct argp_option){.doc = head[i - 1], .group = i};
	argp_help(&argp, stdout, ARGP_HELP_STD_HELP & ~(unsigned)ARGP_HELP_EXIT_OK, program);
	exit(cmd_end(0));
}

/* ---- the other sources ---- */

static const struct fan_option *find(const struct args_command *c, const char *name)
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
	const char *names[ARGS_OPTIONS_MAX + 1];
	char what[ARGS_NAME_MAX + 16];

	flag_names(f->c, f->c->count, names);
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
	const struct fan_option *o = find(f->c, name);
	if (!o)
		return unknown_key(f, line, name);
	if (set(f->c, o, f->values, value, expected, sizeof expected) == 0)
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

/* "FANIN_SWITCH_FREE_EARLY" */
static void variable(const struct args_command *c, const struct fan_option *o, char *name,
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
		if (text && set(c, &c->options[i], values, text, expected, sizeof expected)) {
			snprintf(why, ARGS_WHY_BYTES, "%s: %s", name, expected);
			return -1;
		}
	}
	return 0;
}

/* Read the command line; `values`: NULL to look for --help and unknown flags alone. */
static int read_line(const struct args_command *c, void *values, int argc, char **argv, char *why)
{
	char expected[EXPECTED_BYTES];
	unsigned i = 0;
	int e;

	optind = 0; /* from the beginning */
	while ((e = next_flag(c, argc, argv, &i, why)) > 0) {
		if (i == c->count)
			help(c, argv[0]);
		if (values && set(c, row(c, i), values, optarg, expected, sizeof expected))
			return refuse(c, why, "--%s: %s", row(c, i)->name, expected);
	}
	for (i = 0; i < c->count && c->options[i].kind != FAN_OPTION_OPERAND;)
		i++;
	if (!e && argc - optind > (i < c->count))
		return refuse(c, why, "unexpected argument \"%s\"", argv[optind + (i < c->count)]);
	if (!e && values && optind < argc &&
	    set(c, row(c, i), values, argv[optind], expected, sizeof expected))
		return refuse(c, why, "%s: %s", row(c, i)->name, expected);
	return e;
}

/* 0; or -1 and the error in `why`, ARGS_WHY_BYTES bytes: where, what was expected and what was
 * found. */
static int read_all(const struct args_command *c, void *values, int argc, char **argv, char *why)
{
	assert(c->count <= ARGS_OPTIONS_MAX);
	if (read_line(c, NULL, argc, argv, why))
		return -1;
	const char *path = getenv("FANIN_CONFIG");
	if (path && *path && read_file(c, values, path, why))
		return -1;
	if (read_variables(c, values, why))
		return -1;
	return read_line(c, values, argc, argv, why);
}

/* ---- options as lines that a shell's completion reads: `fanin COMMAND --list-options` ----
 *
 * A line has five fields, separated by tabs: "--name", "-l" or "-", the name of the argument or
 * "-", the words that it may be, separated by commas, or "-", and the help.  Completion asks the
 * program itself, so it offers what the program takes. */

/* Print the table, to standard output. */
static void list(const struct args_command *c)
{
	const struct fan_option *o;

	for (unsigned i = 0; (o = row(c, i)); i++) {
		if (o->kind == FAN_OPTION_OPERAND)
			continue;
		printf("--%s\t%s%c\t%s\t", o->name, o->letter ? "-" : "",
		       o->letter ? o->letter : '-', o->what ? o->what : "-");
		for (unsigned k = 0; o->words && o->words[k]; k++)
			printf("%s%s", k ? "," : "", o->words[k]);
		printf("%s\t%s\n", o->words ? "" : "-", o->help);
	}
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
	if (read_all(c, values, argc, argv, why) == 0)
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
