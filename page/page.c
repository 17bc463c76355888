/* SPDX-License-Identifier: Apache-2.0 */
#include "page.h"

#include <math.h>

#define DIGITS 6 /* of numbers: more cannot be seen */

/* share/report.css and share/report.js, as tools/c-string.py turns them into strings. */
static const char style[] =
#include "page/report_css.inc"
	;
static const char script[] =
#include "page/report_js.inc"
	;

json_t *fan_page_make(const char *by, const char *title, const char *sub)
{
	return json_pack("{ss ss ss s[]}", "by", by, "title", title, "sub", sub, "blocks");
}

void fan_page_add(json_t *page, json_t *block)
{
	if (block)
		json_array_append_new(json_object_get(page, "blocks"), block);
}

json_t *fan_page_real(double v)
{
	return isfinite(v) ? json_real(v) : json_null();
}

json_t *fan_page_column(const char *name, const char *unit)
{
	return json_pack("{ss ss*}", "name", name, "unit", unit);
}

static void put_text(FILE *f, const char *text)
{
	for (; text && *text; text++) {
		switch (*text) {
		case '<': fputs("&lt;", f); break;
		case '>': fputs("&gt;", f); break;
		case '&': fputs("&amp;", f); break;
		default: fputc(*text, f);
		}
	}
}

/* A name with "</script>" must not end the element: in JSON "<" stands in strings only. */
static int put_json(const char *text, size_t bytes, void *arg)
{
	for (size_t i = 0; i < bytes; i++) {
		if (text[i] == '<')
			fputs("\\u003c", arg);
		else
			fputc(text[i], arg);
	}
	return 0;
}

int fan_page_write(FILE *f, const json_t *page)
{
	fputs("<!doctype html>\n<html lang=en><head><meta charset=utf-8>"
	      "<meta name=viewport content=\"width=device-width\">\n<title>",
	      f);
	put_text(f, json_string_value(json_object_get(page, "title")));
	fputs(" – ", f);
	put_text(f, json_string_value(json_object_get(page, "by")));
	fprintf(f,
		"</title>\n<style>\n%s</style></head><body><main><p>JavaScript draws this page.</p>"
		"</main>\n<script type=\"application/json\" id=page>",
		style);
	int bad = json_dump_callback(page, put_json, f, JSON_COMPACT | JSON_REAL_PRECISION(DIGITS));
	fprintf(f, "</script>\n<script>\n%s</script></body></html>\n", script);
	return bad || fflush(f) || ferror(f) ? -1 : 0;
}
