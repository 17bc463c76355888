/* SPDX-License-Identifier: Apache-2.0 */
/* doctor_finding.c - findings, and the lines of JSON by which `fanin doctor` gets them. */
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "doctor.h"
#include "net/clock.h"
#include "net/logline.h"

struct doctor_finding *doctor_find(struct doctor *d, const char *name, enum doctor_status s,
				   const char *format, ...)
{
	/* a finding too many, a bug, overwrites the last */
	unsigned i = d->count < DOCTOR_FINDINGS_MAX ? d->count++ : DOCTOR_FINDINGS_MAX - 1;
	struct doctor_finding *f = &d->finding[i];
	va_list args;

	json_decref(f->values);
	memset(f, 0, sizeof *f);
	f->name = name;
	f->status = s;
	va_start(args, format);
	vsnprintf(f->found, sizeof f->found, format, args);
	va_end(args);
	return f;
}

void doctor_advise(struct doctor_finding *f, const char *format, ...)
{
	va_list args;

	if (f->advice_count == DOCTOR_ADVICE_MAX)
		return;
	va_start(args, format);
	vsnprintf(f->advice[f->advice_count++], sizeof f->advice[0], format, args);
	va_end(args);
}

void doctor_value(struct doctor_finding *f, const char *key, json_t *value)
{
	if (!f->values)
		f->values = json_object();
	json_object_set_new(f->values, key, value);
}

bool doctor_skips(struct doctor *d, const char *name)
{
	const char *why = d->no_path;

	if (!why && fan_clock_ns() >= d->deadline_ns)
		why = "no time left: raise --timeout";
	if (why)
		doctor_find(d, name, DOCTOR_SKIP, "%s", why);
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

/* Make JSON of a text, which may have the name of a file or a host in it: escaped if it is no
 * UTF-8. */
static json_t *text_json(const char *text)
{
	struct fan_line escaped = {.used = 0};
	json_t *whole = json_string(text);

	if (whole)
		return whole;
	fan_line_escaped(&escaped, text, strlen(text));
	return json_string(escaped.text);
}

void doctor_flush(struct doctor *d)
{
	static const char *const status[] = {"ok", "warn", "FAIL", "skip"};

	for (; d->sent < d->count; d->sent++) {
		struct doctor_finding *f = &d->finding[d->sent];
		json_t *advice = json_array();
		for (unsigned i = 0; i < f->advice_count; i++)
			json_array_append_new(advice, text_json(f->advice[i]));
		if (!f->values)
			f->values = json_object();
		doctor_line("finding",
			    json_pack("{s:s, s:s, s:o, s:o, s:O}", "name", f->name, "status",
				      status[f->status], "found", text_json(f->found), "advice",
				      advice, "values", f->values));
	}
}
