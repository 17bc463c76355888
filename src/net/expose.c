/* SPDX-License-Identifier: Apache-2.0 */
#include "expose.h"

#include <assert.h>
#include <ctype.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "file/file.h"
#include "file/text.h"

#define ROOM_FIRST   16384
#define WHOLE_MAX    9007199254740992.0 /* 2^53: larger doubles are not exact */
#define VALUE_BYTES  32
#define LE_BYTES     24
#define ESCAPE_BYTES 5 /* of the longest character, escaped */

/* Room for `bytes` more and a zero. */
static bool grow(struct fan_expose *x, size_t bytes)
{
	size_t room = x->room ? x->room : ROOM_FIRST;
	while (room < x->used + bytes + 1)
		room *= 2;
	if (room == x->room)
		return true;
	char *text = room <= FAN_EXPOSE_BYTES_MAX ? realloc(x->text, room) : NULL;
	if (!text) {
		x->full = true;
		return false;
	}
	x->text = text;
	x->room = room;
	return true;
}

__attribute__((format(printf, 2, 3))) static void put(struct fan_expose *x, const char *format, ...)
{
	va_list args, again;
	if (x->full)
		return;
	va_start(args, format);
	va_copy(again, args);
	int n = vsnprintf(NULL, 0, format, args);
	if (n >= 0 && grow(x, (size_t)n))
		x->used += (size_t)vsnprintf(x->text + x->used, (size_t)n + 1, format, again);
	va_end(again);
	va_end(args);
}

void fan_expose_family(struct fan_expose *x, const char *name, enum fan_metric_type type,
		       const char *help)
{
	assert(type <= FAN_HISTOGRAM);
	static const char *const types[] = {"counter", "gauge", "histogram"};
	put(x, "# HELP %s %s\n# TYPE %s %s\n", name, help, name, types[type]);
}

static void put_labels(struct fan_expose *x, const char *name, const struct fan_labels *l)
{
	if (l && l->used)
		put(x, "%s{%s} ", name, l->text);
	else
		put(x, "%s ", name);
}

void fan_expose_count(struct fan_expose *x, const char *name, const struct fan_labels *labels,
		      uint64_t value)
{
	put_labels(x, name, labels);
	put(x, "%" PRIu64 "\n", value);
}

void fan_expose_value(struct fan_expose *x, const char *name, const struct fan_labels *labels,
		      double value)
{
	put_labels(x, name, labels);
	if (value > -WHOLE_MAX && value < WHOLE_MAX && (double)(int64_t)value == value)
		put(x, "%" PRId64 "\n", (int64_t)value);
	else
		put(x, "%.14g\n", value);
}

/* The bytes of the character of UTF-8 at `c`, of which `left` are there; 0: it is none, or a
 * control character. */
static size_t character(const unsigned char *c, size_t left)
{
	static const struct {
		unsigned char mask, lead;
		uint32_t least;
	} form[] = {
		{0x80, 0x00, ' '}, {0xe0, 0xc0, 0xa0}, {0xf0, 0xe0, 0x800}, {0xf8, 0xf0, 0x10000}};
	for (size_t n = 1; n <= 4 && n <= left; n++) {
		if ((c[0] & form[n - 1].mask) != form[n - 1].lead)
			continue;
		uint32_t point = c[0] & (unsigned char)~form[n - 1].mask;
		bool good = true;
		for (size_t i = 1; i < n; i++) {
			good &= (c[i] & 0xc0) == 0x80;
			point = point << 6 | (c[i] & 0x3f);
		}
		good &= point >= form[n - 1].least && point != 127 && point <= 0x10ffff &&
			(point < 0xd800 || point > 0xdfff);
		return good ? n : 0;
	}
	return 0;
}

/* Would it be read as an escape of ours? */
static bool looks_escaped(const unsigned char *c, size_t left)
{
	return left >= 4 && c[0] == '\\' && c[1] == 'x' && isxdigit(c[2]) && isxdigit(c[3]);
}

void fan_labels_add(struct fan_labels *l, const char *name, const char *value, size_t bytes)
{
	assert(l->used < sizeof l->text);
	char text[FAN_EXPOSE_LABELS_MAX];
	struct fan_text t = fan_text_in(text, sizeof text);
	const unsigned char *c = (const unsigned char *)value;
	fan_text_add(&t, "%s%s=\"", l->used ? "," : "", name);
	for (size_t i = 0, n; i < bytes && t.used + ESCAPE_BYTES + 2 < sizeof text;
	     i += n ? n : 1) {
		n = looks_escaped(c + i, bytes - i) ? 0 : character(c + i, bytes - i);
		if (!n)
			fan_text_add(&t, "\\\\x%02x", c[i]);
		else
			fan_text_add(&t, "%s%.*s", c[i] == '"' || c[i] == '\\' ? "\\" : "", (int)n,
				     value + i);
	}
	fan_text_add(&t, "\"");
	if (l->used + t.used >= sizeof l->text)
		return;
	memcpy(l->text + l->used, text, t.used + 1);
	l->used += t.used;
}

void fan_labels_number(struct fan_labels *l, const char *name, unsigned value)
{
	char text[VALUE_BYTES];
	int n = snprintf(text, sizeof text, "%u", value);
	fan_labels_add(l, name, text, (size_t)n);
}

/* A sample of `name` and `suffix`, with a label `le` unless that is NULL. */
static void put_bucket(struct fan_expose *x, const char *name, const struct fan_labels *labels,
		       const char *le, uint64_t value)
{
	struct fan_labels l = {.used = 0};
	char whole[FAN_EXPOSE_LABELS_MAX];
	if (labels)
		l = *labels;
	if (le)
		fan_labels_add(&l, "le", le, strlen(le));
	snprintf(whole, sizeof whole, "%s_%s", name, le ? "bucket" : "count");
	fan_expose_count(x, whole, &l, value);
}

void fan_expose_histogram(struct fan_expose *x, const char *name, const struct fan_labels *labels,
			  const double *bound_s, const uint64_t *count, unsigned bounds,
			  double sum_s)
{
	uint64_t total = 0;
	char le[LE_BYTES], sum[FAN_EXPOSE_LABELS_MAX];
	for (unsigned i = 0; i < bounds; i++) {
		total += count[i];
		snprintf(le, sizeof le, "%.6g", bound_s[i]);
		put_bucket(x, name, labels, le, total);
	}
	total += count[bounds];
	put_bucket(x, name, labels, "+Inf", total);
	snprintf(sum, sizeof sum, "%s_sum", name);
	fan_expose_value(x, sum, labels, sum_s);
	put_bucket(x, name, labels, NULL, total);
}

int fan_expose_write(const struct fan_expose *x, const char *path, char *why, size_t bytes)
{
	if (x->full || !x->text) {
		snprintf(why, bytes, "%.200s: too many metrics, or no memory for them", path);
		return -1;
	}
	FILE *f = fan_file_renew(path, why, bytes);
	if (!f)
		return -1;
	int bad = fwrite(x->text, 1, x->used, f) != x->used;
	return fan_file_renewed(f, path, bad, why, bytes);
}
