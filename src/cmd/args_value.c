/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "args.h"
#include "net/udp.h"

#define SIZE_BYTES 24 /* text of a size */

int args_size(uint64_t *bytes, const char *text)
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

static int set_number(const struct args_option *o, void *to, const char *text, char *why,
		      size_t bytes)
{
	char *end;

	errno = 0;
	long long v = strtoll(text, &end, 10);
	if (errno || end == text || *end || v < o->min || v > o->max) {
		snprintf(why, bytes,
			 "expected a number from %" PRId64 " to %" PRId64 ", got \"%s\"", o->min,
			 o->max, text);
		return -1;
	}
	*(int *)to = (int)v;
	return 0;
}

static int set_size(const struct args_option *o, void *to, const char *text, char *why,
		    size_t bytes)
{
	char min[SIZE_BYTES], max[SIZE_BYTES];
	uint64_t v;

	if (args_size(&v, text) || v < (uint64_t)o->min || v > (uint64_t)o->max) {
		snprintf(why, bytes,
			 "expected a number of bytes from %s to %s, such as 4096, 64K or 16M, "
			 "got \"%s\"",
			 size_text((uint64_t)o->min, min), size_text((uint64_t)o->max, max), text);
		return -1;
	}
	memcpy(to, &v, sizeof v);
	return 0;
}

/* "a, b or c" */
static void list_words(const char *const *words, char *text, size_t bytes)
{
	size_t used = 0;

	text[0] = '\0';
	for (unsigned i = 0; i < ARGS_OPTIONS_MAX && words[i] && used < bytes; i++) {
		const char *before = i == 0 ? "" : words[i + 1] ? ", " : " or ";
		int n = snprintf(text + used, bytes - used, "%s%s", before, words[i]);
		used += n > 0 ? (size_t)n : 0;
	}
}

static int set_word(const struct args_option *o, void *to, const char *text, char *why,
		    size_t bytes)
{
	char list[ARGS_WHY_BYTES / 2];

	for (int i = 0; o->words[i]; i++) {
		if (strcmp(o->words[i], text) == 0) {
			*(int *)to = i;
			return 0;
		}
	}
	list_words(o->words, list, sizeof list);
	snprintf(why, bytes, "expected %s, got \"%s\"", list, text);
	return -1;
}

static int set_flag(void *to, const char *text, char *why, size_t bytes)
{
	static const char *const yes[] = {"yes", "true", "on", "1"};
	static const char *const no[] = {"no", "false", "off", "0"};

	for (unsigned i = 0; text && i < sizeof yes / sizeof yes[0]; i++) {
		if (strcmp(text, no[i]) == 0) {
			*(bool *)to = false;
			return 0;
		}
		if (strcmp(text, yes[i]) == 0)
			text = NULL;
	}
	if (text) {
		snprintf(why, bytes, "expected yes or no, got \"%s\"", text);
		return -1;
	}
	*(bool *)to = true;
	return 0;
}

static int set_text(void *to, const char *text, char *why, size_t bytes)
{
	size_t len = strlen(text);

	if (len == 0 || len >= ARGS_TEXT_BYTES) {
		snprintf(why, bytes, "expected 1 to %d characters, got %zu", ARGS_TEXT_BYTES - 1,
			 len);
		return -1;
	}
	memcpy(to, text, len + 1);
	return 0;
}

static int set_peer(void *to, const char *text, char *why, size_t bytes)
{
	fan_peer p;

	if (fan_peer_parse(&p, text, why, bytes))
		return -1;
	memcpy(to, &p, sizeof p);
	return 0;
}

int args_set(const struct args_option *o, void *values, const char *text, char *why, size_t bytes)
{
	void *to = (char *)values + o->at;

	switch (o->kind) {
	case ARGS_FLAG: return set_flag(to, text, why, bytes);
	case ARGS_NUMBER: return set_number(o, to, text, why, bytes);
	case ARGS_SIZE: return set_size(o, to, text, why, bytes);
	case ARGS_TEXT: return set_text(to, text, why, bytes);
	case ARGS_PEER: return set_peer(to, text, why, bytes);
	case ARGS_WORD: return set_word(o, to, text, why, bytes);
	}
	return -1;
}

/* Levenshtein's distance: the letters to change to turn `a` into `b`. */
static unsigned distance(const char *a, const char *b)
{
	unsigned row[ARGS_NAME_MAX + 2], n = (unsigned)strlen(b);

	if (strlen(a) > ARGS_NAME_MAX || n > ARGS_NAME_MAX)
		return ARGS_NAME_MAX + 1;
	for (unsigned j = 0; j <= n; j++)
		row[j] = j;
	for (unsigned i = 0; a[i]; i++) {
		unsigned corner = row[0];
		row[0] = i + 1;
		for (unsigned j = 0; j < n; j++) {
			unsigned best = corner + (a[i] != b[j]);
			corner = row[j + 1];
			best = best < row[j] + 1 ? best : row[j] + 1;
			row[j + 1] = best < corner + 1 ? best : corner + 1;
		}
	}
	return row[n];
}

const char *args_nearest(const char *word, const char *const *words)
{
	unsigned best = (unsigned)strlen(word) / 3 + 2; /* a larger distance is another word */
	const char *found = NULL;

	for (unsigned i = 0; words[i]; i++) {
		unsigned d = distance(word, words[i]);
		if (d < best) {
			best = d;
			found = words[i];
		}
	}
	return found;
}
