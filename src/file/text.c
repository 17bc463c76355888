/* SPDX-License-Identifier: Apache-2.0 */
#include "text.h"

#include <assert.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

struct fan_text fan_text_in(char *at, size_t bytes)
{
	assert(bytes);
	*at = '\0';
	return (struct fan_text){at, bytes, 0};
}

void fan_text_vadd(struct fan_text *t, const char *format, va_list args)
{
	const size_t room = t->bytes - t->used;
	const int n = vsnprintf(t->at + t->used, room, format, args);

	if (n > 0)
		t->used += (size_t)n < room ? (size_t)n : room - 1;
}

void fan_text_add(struct fan_text *t, const char *format, ...)
{
	va_list args;

	va_start(args, format);
	fan_text_vadd(t, format, args);
	va_end(args);
}

void fan_text_escaped(struct fan_text *t, const char *value, size_t bytes)
{
	for (size_t i = 0; i < bytes && t->used + 1 < t->bytes; i++) {
		const unsigned char c = (unsigned char)value[i];
		if (c == '"' || c == '\\')
			fan_text_add(t, "\\%c", c);
		else
			fan_text_add(t, c < ' ' || c > '~' ? "\\x%02x" : "%c", c);
	}
}

void fan_text_quoted(struct fan_text *t, const char *key, const char *value, size_t bytes)
{
	fan_text_add(t, " %s=\"", key);
	fan_text_escaped(t, value, bytes);
	fan_text_add(t, "\"");
}

/* How many bytes follow `lead` in UTF-8; 4: it begins no sequence. */
static unsigned bytes_behind(unsigned char lead)
{
	if (lead < 0x80)
		return 0;
	if (lead < 0xc2 || lead > 0xf4)
		return 4;
	return lead < 0xe0 ? 1 : lead < 0xf0 ? 2 : 3;
}

void fan_text_plain(char *text)
{
	for (unsigned char *at = (unsigned char *)text; *at; at++) {
		const unsigned more = bytes_behind(*at);
		unsigned n = 0;
		while (n < more && more < 4 && (at[n + 1] & 0xc0) == 0x80)
			n++;
		const bool controls = *at < ' ' || *at == 0x7f || (*at == 0xc2 && at[1] < 0xa0);
		if (n < more || controls)
			*at = '?'; /* the bytes that follow are checked one by one */
		else
			at += more;
	}
}

/* How many letters have to change; SIZE_MAX: too many to count. */
static size_t edits(const char *a, const char *b)
{
	size_t row[3][FAN_TEXT_WORD_MAX + 1], n = strlen(a), m = strlen(b);

	if (n > FAN_TEXT_WORD_MAX || m > FAN_TEXT_WORD_MAX)
		return SIZE_MAX;
	for (size_t j = 0; j <= m; j++)
		row[0][j] = j;
	for (size_t i = 1; i <= n; i++) {
		size_t *now = row[i % 3], *last = row[(i - 1) % 3], *before = row[(i + 1) % 3];
		now[0] = i;
		for (size_t j = 1; j <= m; j++) {
			size_t least = last[j - 1] + (a[i - 1] != b[j - 1]);
			least = last[j] + 1 < least ? last[j] + 1 : least;
			least = now[j - 1] + 1 < least ? now[j - 1] + 1 : least;
			bool swapped =
				i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1];
			if (swapped && before[j - 2] + 1 < least)
				least = before[j - 2] + 1;
			now[j] = least;
		}
	}
	return row[n % 3][m];
}

const char *fan_text_within(const char *word, const char *const *words, size_t edits_max)
{
	const char *best = NULL;
	size_t least = edits_max + 1;

	for (; *words; words++) {
		size_t n = edits(word, *words);
		if (n < least) {
			least = n;
			best = *words;
		}
	}
	return best;
}

const char *fan_text_nearest(const char *word, const char *const *words)
{
	return fan_text_within(word, words, strlen(word) / 3 + 1);
}
