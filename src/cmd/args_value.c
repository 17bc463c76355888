/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <string.h>

#include "args.h"
#include "net/udp.h"

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
	const bool is_text = o->kind == ARGS_TEXT;
	const struct fan_option v = {.name = o->name,
				     .kind = (enum fan_option_kind)o->kind,
				     .at = o->at,
				     .min = o->min,
				     .max = is_text ? ARGS_TEXT_BYTES - 1 : o->max,
				     .words = o->words};
	char expected[ARGS_WHY_BYTES / 2];

	if (o->kind == ARGS_PEER)
		return set_peer((char *)values + o->at, text, why, bytes);
	if (fan_option_set(&v, values, text))
		return 0;
	fan_option_expected(&v, expected, sizeof expected);
	if (is_text)
		snprintf(why, bytes, "expected %s, got %zu", expected, strlen(text));
	else
		snprintf(why, bytes, "expected %s, got \"%s\"", expected, text);
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
