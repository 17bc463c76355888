/* SPDX-License-Identifier: Apache-2.0 */
/* doctor_line.c - the lines of JSON by which `fanin doctor` gets what is found and measured. */
#include <stdio.h>
#include <string.h>

#include "doctor.h"
#include "net/clock.h"
#include "net/logline.h"

const char *doctor_no_path(const struct doctor *d)
{
	return d->no_path ? "path" : fan_clock_ns() >= d->deadline_ns ? "time" : NULL;
}

void doctor_skip(const char *check, const char *why)
{
	doctor_line("skip", json_pack("{s:s, s:s}", "check", check, "why", why));
}

void doctor_no_socket(const char *check, int error)
{
	doctor_line("no_socket", json_pack("{s:s, s:i}", "check", check, "error", -error));
}

bool doctor_skips(const struct doctor *d, const char *check)
{
	const char *why = doctor_no_path(d);

	if (why)
		doctor_skip(check, why);
	return why != NULL;
}

void doctor_line(const char *kind, json_t *value)
{
	json_t *line = json_pack("{s:o}", kind, value);

	if (line)
		json_dumpf(line, stdout, JSON_COMPACT | JSON_ENSURE_ASCII);
	putchar('\n');
	fflush(stdout);
	json_decref(line);
}

json_t *doctor_text(const char *text)
{
	struct fan_text escaped = FAN_LINE();
	json_t *whole = json_string(text);

	if (whole)
		return whole;
	fan_text_escaped(&escaped, text, strlen(text));
	return json_string(escaped.at);
}
