/* SPDX-License-Identifier: Apache-2.0 */
#include "fields.h"

#include <assert.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "file/text.h"

#define FIELDS_MAX  48 /* keys of an object */
#define WORDS_BYTES 160
#define WHOLE_MAX   9007199254740992.0 /* 2^53: above it a double is not exact */

int fan_reader_fail(struct fan_reader *r, const char *key, const char *format, ...)
{
	const char *dot = r->path[0] && key && key[0] != '[' ? "." : "";
	int n = snprintf(r->why, sizeof r->why, "%s: %s%s%s: ", r->file, r->path, dot,
			 key ? key : "");
	if (!r->path[0] && !key)
		n = snprintf(r->why, sizeof r->why, "%s: ", r->file);
	if (n < 0 || (size_t)n >= sizeof r->why)
		return -1;
	va_list args;
	va_start(args, format);
	vsnprintf(r->why + n, sizeof r->why - (size_t)n, format, args);
	va_end(args);
	fan_text_plain(r->why);
	return -1;
}

size_t fan_reader_enter(struct fan_reader *r, const char *format, ...)
{
	size_t before = strlen(r->path), at = before;
	if (before && format[0] != '[' && before + 1 < sizeof r->path)
		r->path[at++] = '.';
	va_list args;
	va_start(args, format);
	vsnprintf(r->path + at, sizeof r->path - at, format, args);
	va_end(args);
	return before;
}

void fan_reader_leave(struct fan_reader *r, size_t length)
{
	r->path[length] = '\0';
}

static const char *nearest(const struct fan_field *fields, unsigned count, const char *key)
{
	const char *keys[FIELDS_MAX + 1] = {NULL};
	assert(count <= FIELDS_MAX);
	for (unsigned i = 0; i < count; i++)
		keys[i] = fields[i].key;
	return fan_text_nearest(key, keys);
}

static const char *type_name(const json_t *v)
{
	switch (json_typeof(v)) {
	case JSON_OBJECT: return "an object";
	case JSON_ARRAY: return "an array";
	case JSON_STRING: return "a text";
	case JSON_INTEGER:
	case JSON_REAL: return "a number";
	case JSON_TRUE:
	case JSON_FALSE: return "true or false";
	default: return "null";
	}
}

static int read_text(struct fan_reader *r, const json_t *v, const struct fan_field *f, char *to)
{
	const char *s = json_string_value(v);
	if (!s)
		return fan_reader_fail(r, f->key, "expected a name, got %s", type_name(v));
	size_t n = strlen(s);
	if (n == 0 || n >= FAN_FIELD_NAME)
		return fan_reader_fail(r, f->key, "expected a name of 1 to %d bytes",
				       FAN_FIELD_NAME - 1);
	size_t good = strspn(s, FAN_NAME_SET);
	bool star = f->kind == FAN_FIELD_NAMES && good + 1 == n && s[good] == '*';
	if (good != n && !star)
		return fan_reader_fail(r, f->key, "\"%s\": expected only " FAN_NAME_CHARS, s);
	memcpy(to, s, n + 1);
	return 0;
}

static int read_word(struct fan_reader *r, const json_t *v, const struct fan_field *f, int *to)
{
	const char *s = json_string_value(v);
	char all[WORDS_BYTES];
	struct fan_text t = fan_text_in(all, sizeof all);
	for (int i = 0; f->words[i]; i++) {
		if (s && strcmp(s, f->words[i]) == 0) {
			*to = i;
			return 0;
		}
		fan_text_add(&t, "%s%s", i ? ", " : "", f->words[i]);
	}
	if (!s)
		return fan_reader_fail(r, f->key, "expected one of %s, got %s", all, type_name(v));
	return fan_reader_fail(r, f->key, "\"%s\": expected one of %s", s, all);
}

static double unit(enum fan_field_kind kind)
{
	switch (kind) {
	case FAN_FIELD_GBPS:
	case FAN_FIELD_S: return 1e9;
	case FAN_FIELD_MS:
	case FAN_FIELD_TIMES:
	case FAN_FIELD_SHARE: return 1e6;
	case FAN_FIELD_US: return 1e3;
	default: return 1;
	}
}

/* The largest value that can be stored, in stored units. */
static double storage_max(enum fan_field_kind kind)
{
	switch (kind) {
	case FAN_FIELD_U16: return UINT16_MAX;
	case FAN_FIELD_TIMES:
	case FAN_FIELD_U32: return UINT32_MAX;
	case FAN_FIELD_SHARE: return 1e6;
	case FAN_FIELD_GBPS: return 1e14;
	default: return WHOLE_MAX;
	}
}

static void store(enum fan_field_kind kind, void *to, uint64_t n)
{
	if (kind == FAN_FIELD_U16) {
		uint16_t v = (uint16_t)n;
		memcpy(to, &v, sizeof v);
	} else if (kind == FAN_FIELD_U32 || kind == FAN_FIELD_SHARE || kind == FAN_FIELD_TIMES) {
		uint32_t v = (uint32_t)n;
		memcpy(to, &v, sizeof v);
	} else {
		memcpy(to, &n, sizeof n);
	}
}

static int read_number(struct fan_reader *r, const json_t *v, const struct fan_field *f, void *to)
{
	bool whole =
		f->kind == FAN_FIELD_U16 || f->kind == FAN_FIELD_U32 || f->kind == FAN_FIELD_U64;
	double per = unit(f->kind), max = storage_max(f->kind) / per;
	if (f->max > 0 && f->max < max)
		max = f->max;
	if (!json_is_number(v))
		return fan_reader_fail(r, f->key, "expected a number, got %s", type_name(v));
	double x = json_number_value(v);
	if (!(x >= f->min && x <= max))
		return fan_reader_fail(r, f->key, "%.15g: expected a %snumber from %.15g to %.15g",
				       x, whole ? "whole " : "", f->min, max);
	if (whole && floor(x) != x)
		return fan_reader_fail(r, f->key, "%.15g: expected a whole number", x);
	store(f->kind, to, (uint64_t)(x * per + 0.5));
	return 0;
}

static int read_field(struct fan_reader *r, const json_t *v, const struct fan_field *f, void *to)
{
	switch (f->kind) {
	case FAN_FIELD_NAMES:
	case FAN_FIELD_TEXT: return read_text(r, v, f, to);
	case FAN_FIELD_WORD: return read_word(r, v, f, to);
	case FAN_FIELD_OTHER: return 0;
	case FAN_FIELD_BOOL:
		if (!json_is_boolean(v))
			return fan_reader_fail(r, f->key, "expected true or false, got %s",
					       type_name(v));
		*(bool *)to = json_is_true(v);
		return 0;
	default: return read_number(r, v, f, to);
	}
}

int fan_fields_read(struct fan_reader *r, const json_t *object, const struct fan_field *fields,
		    unsigned count, void *to)
{
	const char *key;
	json_t *v;
	if (!json_is_object(object))
		return fan_reader_fail(r, NULL, "expected an object, got %s",
				       object ? type_name(object) : "nothing");
	json_object_foreach ((json_t *)object, key, v) {
		unsigned i = 0;
		while (i < count && strcmp(fields[i].key, key))
			i++;
		const char *near = i < count ? NULL : nearest(fields, count, key);
		if (i == count && near)
			return fan_reader_fail(r, key, "no such key; did you mean \"%s\"?", near);
		if (i == count)
			return fan_reader_fail(r, key, "no such key");
		if (read_field(r, v, &fields[i], (uint8_t *)to + fields[i].at))
			return -1;
	}
	return 0;
}
