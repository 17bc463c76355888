/* SPDX-License-Identifier: Apache-2.0 */
#include "option.h"

#include <assert.h>
#include <errno.h>
#include <ini.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "text.h"

#define SIZE_BYTES 24 /* text of a size */

/* Parse "16M".  0, or -1. */
static int parse_size(uint64_t *bytes, const char *text)
{
	static const char units[] = "KMG";
	unsigned shift = 0;
	char *end;

	if (*text < '0' || *text > '9')
		return -1;
	errno = 0;
	uint64_t v = strtoull(text, &end, 10);
	if (errno)
		return -1;
	if (*end) {
		const char *u = strchr(units, *end & ~0x20);
		if (!u || !*u || end[1])
			return -1;
		shift = 10 * (unsigned)(u - units + 1);
	}
	if (v > UINT64_MAX >> shift)
		return -1;
	*bytes = v << shift;
	return 0;
}

/* As people write it: with the largest unit that divides it. */
static const char *size_text(uint64_t v, char *text)
{
	static const char *const units[] = {"", "K", "M", "G"};
	unsigned u = 0;

	while (u < 3 && v && v % 1024 == 0) {
		v /= 1024;
		u++;
	}
	snprintf(text, SIZE_BYTES, "%" PRIu64 "%s", v, units[u]);
	return text;
}

static bool set_number(const struct fan_option *o, void *to, const char *text)
{
	char *end;

	errno = 0;
	long long v = strtoll(text, &end, 10);
	if (errno || end == text || *end || v < o->min || v > o->max)
		return false;
	*(int *)to = (int)v;
	return true;
}

static bool set_size(const struct fan_option *o, void *to, const char *text)
{
	uint64_t v;

	if (parse_size(&v, text) || v < (uint64_t)o->min || v > (uint64_t)o->max)
		return false;
	memcpy(to, &v, sizeof v);
	return true;
}

/* The number of a word in the list; -1: none. */
static int find(const char *const *words, const char *text)
{
	for (int i = 0; i < FAN_OPTION_WORDS_MAX && words[i]; i++)
		if (strcmp(words[i], text) == 0)
			return i;
	return -1;
}

static bool set_word(const struct fan_option *o, void *to, const char *text)
{
	int i = find(o->words, text);

	if (i >= 0)
		*(int *)to = i;
	return i >= 0;
}

static bool set_flag(void *to, const char *text)
{
	static const char *const yes[] = {"yes", "true", "on", "1", NULL};
	static const char *const no[] = {"no", "false", "off", "0", NULL};
	bool is_yes = !text || find(yes, text) >= 0;

	if (!is_yes && find(no, text) < 0)
		return false;
	*(bool *)to = is_yes;
	return true;
}

static int64_t text_max(const struct fan_option *o)
{
	return o->max ? o->max : FAN_OPTION_TEXT_MAX;
}

static bool set_text(const struct fan_option *o, void *to, const char *text)
{
	size_t len = strlen(text);

	for (const char *p = text; o->kind == FAN_OPTION_PRINTABLE && *p; p++)
		if ((unsigned char)*p < ' ' || *p == '"' || *p == 127)
			return false;
	if (len == 0 || len > (uint64_t)text_max(o))
		return false;
	memcpy(to, text, len + 1);
	return true;
}

bool fan_option_set(const struct fan_option *o, void *values, const char *text)
{
	void *to = (char *)values + o->at;

	assert(text || o->kind == FAN_OPTION_FLAG);
	switch (o->kind) {
	case FAN_OPTION_FLAG: return set_flag(to, text);
	case FAN_OPTION_NUMBER: return set_number(o, to, text);
	case FAN_OPTION_SIZE: return set_size(o, to, text);
	case FAN_OPTION_TEXT:
	case FAN_OPTION_OPERAND:
	case FAN_OPTION_PRINTABLE: return set_text(o, to, text);
	case FAN_OPTION_WORD: return set_word(o, to, text);
	default: break;
	}
	return false;
}

/* "a, b or c" */
static void list_words(const char *const *words, char *text, size_t bytes)
{
	struct fan_text t = fan_text_in(text, bytes);

	for (unsigned i = 0; i < FAN_OPTION_WORDS_MAX && words[i]; i++)
		fan_text_add(&t, "%s%s", i == 0 ? "" : words[i + 1] ? ", " : " or ", words[i]);
}

void fan_option_expected(const struct fan_option *o, char *text, size_t bytes)
{
	char min[SIZE_BYTES], max[SIZE_BYTES];

	switch (o->kind) {
	case FAN_OPTION_FLAG: snprintf(text, bytes, "yes or no"); break;
	case FAN_OPTION_NUMBER:
		snprintf(text, bytes, "a number from %" PRId64 " to %" PRId64, o->min, o->max);
		break;
	case FAN_OPTION_SIZE:
		snprintf(text, bytes, "a number of bytes from %s to %s, such as 4096, 64K or 16M",
			 size_text((uint64_t)o->min, min), size_text((uint64_t)o->max, max));
		break;
	case FAN_OPTION_TEXT:
	case FAN_OPTION_OPERAND:
		snprintf(text, bytes, "1 to %" PRId64 " characters", text_max(o));
		break;
	case FAN_OPTION_PRINTABLE:
		snprintf(text, bytes, "1 to %" PRId64 " printable bytes", o->max);
		break;
	case FAN_OPTION_WORD: list_words(o->words, text, bytes); break;
	default: *text = '\0'; break;
	}
}

const char *fan_option_variable(const char *name)
{
	const char *text = secure_getenv(name);

	return text && *text ? text : NULL;
}

/* ---- files ---- */

/* A file that is being read. */
struct lines {
	FILE *file;
	fan_option_take *take;
	void *arg;
	unsigned line;
	bool refused, wrong;
	char *why;
	size_t bytes;
};

/* inih's callback for a key.  1: continue; 0: error. */
static int take_key(void *user, const char *section, const char *name, const char *value)
{
	struct lines *l = user;

	l->refused |= !l->wrong && !l->refused && !l->take(l->arg, l->line, section, name, value);
	return !l->refused;
}

/* fgets for inih that counts lines and refuses lines that are too long for inih. */
static char *next_line(char *line, int bytes, void *stream)
{
	struct lines *l = stream;

	if (l->refused || !fgets(line, bytes, l->file))
		return NULL;
	if (++l->line > FAN_OPTION_LINES_MAX) {
		snprintf(l->why, l->bytes, "the file has too many lines");
		l->wrong = true;
	} else if (!strchr(line, '\n') && !feof(l->file)) {
		snprintf(l->why, l->bytes, "expected a line of at most %d bytes", bytes - 2);
		l->wrong = true;
	}
	return l->wrong ? NULL : line;
}

int fan_option_read(FILE *file, fan_option_take *take, void *arg, unsigned *line, char *why,
		    size_t bytes)
{
	struct lines l = {.file = file, .take = take, .arg = arg, .why = why, .bytes = bytes};
	int first = ini_parse_stream(next_line, &l, take_key, &l);

	if (first > 0 && (!(l.refused || l.wrong) || (unsigned)first < l.line)) {
		l.wrong = true; /* inih's own error came first */
		l.line = (unsigned)first;
		snprintf(why, bytes, "expected \"[section]\" or \"key = value\"");
	}
	*line = l.line;
	return l.wrong ? -1 : l.refused;
}
