/* SPDX-License-Identifier: Apache-2.0 */
/* json.c - JSON as the commands read and write it. */
#include "cmd.h"

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
