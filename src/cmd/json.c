/* SPDX-License-Identifier: Apache-2.0 */
/* json.c - JSON as the commands read and write it. */
#include <string.h>

#include "cmd.h"
#include "file/text.h"

int cmd_write_json(const char *command, const char *file, json_t *root, size_t flags)
{
	FILE *f = cmd_output(command, "json", file);
	int e = !f || !root || json_dumpf(root, f, flags | JSON_ENSURE_ASCII) ||
				fputc('\n', f) == EOF
			? -1
			: 0;

	if (f && cmd_output_done(f, command, "json", file))
		e = -1;
	json_decref(root);
	return e;
}

const char *cmd_text_of(const json_t *object, const char *key)
{
	const char *text = json_string_value(json_object_get(object, key));

	return text ? text : "";
}

double cmd_number_of(const json_t *object, const char *key)
{
	const json_t *v = json_object_get(object, key);
	const double x = json_is_true(v) ? 1 : json_number_value(v);

	return x >= CMD_NUMBER_MAX ? CMD_NUMBER_MAX : x > 0 ? x : 0;
}

static void bound_text(json_t *v, bool shown)
{
	const char *text = json_string_value(v);
	char cut[CMD_JSON_TEXT];
	struct fan_text t = fan_text_in(cut, sizeof cut);
	size_t bytes = strlen(text);

	if (shown) {
		fan_text_escaped(&t, text, bytes);
		json_string_set(v, cut);
		return;
	}
	if (bytes < CMD_JSON_TEXT)
		return;
	for (bytes = CMD_JSON_TEXT - 1; ((unsigned char)text[bytes] & 0xc0) == 0x80;)
		bytes--; /* not within a character */
	fan_text_add(&t, "%.*s", (int)bytes, text);
	json_string_set(v, cut);
}

/* Keep `*left` values. */
static void bound(json_t *v, bool shown, unsigned depth, unsigned *left)
{
	const char *key;
	json_t *in;
	void *next;

	if (json_is_string(v))
		bound_text(v, shown);
	while (json_array_size(v) > (depth ? *left : 0))
		json_array_remove(v, json_array_size(v) - 1);
	*left -= (unsigned)json_array_size(v);
	for (size_t i = 0; i < json_array_size(v); i++)
		bound(json_array_get(v, i), shown, depth - 1, left);
	json_object_foreach_safe(v, next, key, in)
	{
		if (!depth || !*left || strlen(key) >= CMD_JSON_TEXT) {
			json_object_del(v, key);
			continue;
		}
		--*left;
		bound(in, shown, depth - 1, left);
	}
}

void cmd_json_bound(json_t *v, unsigned values, bool shown)
{
	bound(v, shown, CMD_JSON_DEPTH, &values);
}
