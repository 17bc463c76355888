/* SPDX-License-Identifier: Apache-2.0 */
#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
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

static int add_text(const struct args_option *o, struct args_many *to, const char *text, char *why,
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

int args_set(const struct args_option *o, void *values, const char *text, char *why, size_t bytes)
{
	const bool is_text = o->kind == ARGS_TEXT || o->kind == ARGS_OPERAND;
	const struct fan_option v = {.name = o->name,
				     .kind = is_text ? FAN_OPTION_TEXT
						     : (enum fan_option_kind)o->kind,
				     .at = o->at,
				     .min = o->min,
				     .max = is_text ? ARGS_TEXT_BYTES - 1 : o->max,
				     .words = o->words};
	char expected[ARGS_WHY_BYTES / 2];

	if (o->kind == ARGS_PEER)
		return set_peer((char *)values + o->at, text, why, bytes);
	if (o->kind == ARGS_MANY)
		return add_text(o, (struct args_many *)((char *)values + o->at), text, why, bytes);
	if (fan_option_set(&v, values, text))
		return 0;
	fan_option_expected(&v, expected, sizeof expected);
	if (is_text)
		snprintf(why, bytes, "expected %s, got %zu", expected, strlen(text));
	else
		snprintf(why, bytes, "expected %s, got \"%s\"", expected, text);
	return -1;
}
