/* SPDX-License-Identifier: Apache-2.0 */
#include "plan_msg.h"

#include <assert.h>
#include <jansson.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "core/base/err.h"
#include "file/text.h"
#include "net/udp.h"

#define ADDRESS_BYTES 80

/* The message that is being read, and the place for an error text. */
struct reader {
	struct fan_plan_msg *o;
	char *why;
};

__attribute__((format(printf, 2, 3))) static bool wrong(const struct reader *r, const char *format,
							...)
{
	va_list args;
	va_start(args, format);
	vsnprintf(r->why, FAN_PLAN_MSG_WHY_BYTES, format, args);
	va_end(args);
	fan_text_plain(r->why);
	return false;
}

/* A whole number from `min` to `max`. */
static bool get_number(const struct reader *r, const json_t *from, const char *name, uint64_t min,
		       uint64_t max, uint64_t *value)
{
	const json_t *j = json_object_get(from, name);
	json_int_t v = json_integer_value(j);
	if (!json_is_integer(j) || v < 0 || (uint64_t)v < min || (uint64_t)v > max)
		return wrong(r, "\"%s\": expected a whole number from %llu to %llu", name,
			     (unsigned long long)min, (unsigned long long)max);
	*value = (uint64_t)v;
	return true;
}

static bool is_printable(const char *text)
{
	for (; *text; text++)
		if ((unsigned char)*text < ' ' || *text == 127)
			return false;
	return true;
}

static bool get_text(const struct reader *r, const json_t *from, const char *name, char *text,
		     size_t bytes)
{
	const json_t *j = json_object_get(from, name);
	const char *given = json_string_value(j);
	if (!given || !*given || !is_printable(given) || json_string_length(j) >= bytes)
		return wrong(r, "\"%s\": expected 1 to %zu printable bytes", name, bytes - 1);
	memcpy(text, given, json_string_length(j) + 1);
	return true;
}

/* Words for people: cut and made printable rather than refused. */
static void get_why(const struct reader *r, const json_t *from)
{
	const char *given = json_string_value(from);
	snprintf(r->o->why, sizeof r->o->why, "%s", given ? given : "it gives no reason");
	for (char *p = r->o->why; *p; p++)
		if ((unsigned char)*p < ' ' || *p == 127)
			*p = ' ';
}

/* In numbers, since a name would be looked up, which may take long. */
static bool get_address(const struct reader *r, const json_t *from, const char *name, fan_peer *to)
{
	char text[ADDRESS_BYTES];
	if (!get_text(r, from, name, text, sizeof text))
		return false;
	if (!fan_peer_read(to, text) || !to->port || fan_peer_is_any(to))
		return wrong(r, "\"%s\": \"%s\": expected ADDR:PORT, in numbers", name, text);
	return true;
}

static bool get_cut(const struct reader *r, const json_t *from, struct fan_job_part *p,
		    uint64_t begin)
{
	const json_t *cut = json_object_get(from, "cut");
	const json_t *a = json_array_get(cut, 0), *b = json_array_get(cut, 1);
	json_int_t first = json_integer_value(a), end = json_integer_value(b);
	if (json_array_size(cut) != 2 || !json_is_integer(a) || !json_is_integer(b) ||
	    first != (json_int_t)begin || end < first || end > (json_int_t)FAN_CUT_WHOLE)
		return wrong(r, "\"cut\": expected [%llu, END], END at most 2^32",
			     (unsigned long long)begin);
	p->from = begin;
	p->to = (uint64_t)end;
	return true;
}

static bool get_gbps(const struct reader *r, const json_t *from, double *gbps)
{
	const json_t *value = json_object_get(from, "gbps");
	*gbps = json_number_value(value);
	if (value && (!json_is_number(value) || !(*gbps >= 0 && *gbps <= FAN_GBPS_MAX)))
		return wrong(r, "\"gbps\": expected a number from 0 to %g", FAN_GBPS_MAX);
	return true;
}

static bool get_part(const struct reader *r, const json_t *from, unsigned number)
{
	struct fan_job_part *p = &r->o->part[number];
	uint64_t route = 0, unused;
	if (!json_is_object(from))
		return wrong(r, "expected an object");
	if (!get_number(r, from, "number", number, number, &unused) ||
	    !get_text(r, from, "name", p->name, sizeof p->name) ||
	    !get_number(r, from, "route", 1, UINT16_MAX, &route) ||
	    !get_cut(r, from, p, number ? p[-1].to : 0) || !get_address(r, from, "at", &p->at))
		return false;
	p->route = (uint16_t)route;
	if (json_object_get(from, "aggregator") &&
	    !get_address(r, from, "aggregator", &p->aggregator))
		return false;
	return get_gbps(r, from, &p->gbps);
}

static bool get_parts(const struct reader *r, const json_t *parts)
{
	char inner[FAN_PLAN_MSG_WHY_BYTES];
	struct fan_plan_msg *o = r->o;
	struct reader within = {o, inner};
	size_t n = json_array_size(parts);
	if (n < 1 || n > FAN_PARTS_MAX)
		return wrong(r, "\"parts\": expected a list of 1 to %d", FAN_PARTS_MAX);
	for (o->parts = 0; o->parts < n; o->parts++)
		if (!get_part(&within, json_array_get(parts, o->parts), o->parts))
			return wrong(r, "part %u: %.280s", o->parts, inner);
	if (o->part[n - 1].to != FAN_CUT_WHOLE)
		return wrong(r,
			     "part %zu: \"cut\" ends at %llu: expected the last one to end at 2^32",
			     n - 1, (unsigned long long)o->part[n - 1].to);
	return true;
}

static bool get_job(const struct reader *r, const json_t *from, const char *job)
{
	char name[FAN_NAME_MAX + 1];
	uint64_t ranks = 0;
	if (!get_text(r, from, "name", name, sizeof name) ||
	    !get_number(r, from, "ranks", 2, FAN_RANKS_MAX, &ranks))
		return false;
	if (strcmp(name, job) != 0)
		return wrong(r, "it is about job \"%s\", not \"%s\"", name, job);
	r->o->ranks = (unsigned)ranks;
	return get_parts(r, json_object_get(from, "parts"));
}

static bool get_move(const struct reader *r, const json_t *from)
{
	uint64_t part = 0, route = 0;
	if (!get_number(r, from, "part", 0, FAN_PARTS_MAX - 1, &part) ||
	    !get_number(r, from, "route", 1, UINT16_MAX, &route) ||
	    !get_address(r, from, "at", &r->o->at) || !get_gbps(r, from, &r->o->gbps))
		return false;
	r->o->number = (unsigned)part;
	r->o->route = (uint16_t)route;
	return true;
}

static bool get_msg(const struct reader *r, const json_t *root, const char *job)
{
	const json_t *j;
	if ((j = json_object_get(root, "job"))) {
		r->o->kind = FAN_PLAN_MSG_JOB;
		return get_job(r, j, job);
	}
	if ((j = json_object_get(root, "move"))) {
		r->o->kind = FAN_PLAN_MSG_MOVE;
		return get_move(r, j);
	}
	if ((j = json_object_get(root, "again"))) {
		r->o->kind = FAN_PLAN_MSG_AGAIN;
		get_why(r, json_object_get(j, "why"));
		return true;
	}
	if ((j = json_object_get(root, "refused"))) {
		r->o->kind = FAN_PLAN_MSG_REFUSED;
		get_why(r, j);
		return true;
	}
	return wrong(r, "expected \"job\", \"move\", \"again\" or \"refused\"");
}

int fan_plan_msg_get(struct fan_plan_msg *o, const char *line, size_t bytes, const char *job,
		     char *why)
{
	struct reader r = {o, why};
	json_error_t e;
	memset(o, 0, sizeof *o);
	*why = '\0';
	json_t *root = json_loadb(line, bytes, JSON_REJECT_DUPLICATES, &e);
	bool good = root ? get_msg(&r, root, job) : wrong(&r, "no JSON: %s", e.text);
	json_decref(root);
	return good ? FAN_OK : FAN_E_FORMAT;
}

/* Write `line`, which is taken.  0: it does not fit. */
static size_t put(char *text, json_t *line)
{
	size_t n = line ? json_dumpb(line, text, FAN_PLAN_MSG_BYTES, JSON_COMPACT) : 0;
	json_decref(line);
	return n > FAN_PLAN_MSG_BYTES ? 0 : n;
}

size_t fan_plan_msg_put_join(char *text, const char *job, unsigned rank, unsigned ranks,
			     uint64_t launch, const struct fan_job_part *part, unsigned parts)
{
	char id[17];
	assert(rank < ranks && parts <= FAN_PARTS_MAX);
	snprintf(id, sizeof id, "%016llx", (unsigned long long)launch);
	json_t *line = json_pack("{s:{s:s, s:i, s:i, s:s*}}", "join", "job", job, "rank", (int)rank,
				 "ranks", (int)ranks, "launch", launch ? id : NULL);
	json_t *routes = parts ? json_array() : NULL;
	for (unsigned i = 0; i < parts; i++)
		json_array_append_new(routes, json_integer(part[i].route));
	if (routes)
		json_object_set_new(json_object_get(line, "join"), "routes", routes);
	return put(text, line);
}

size_t fan_plan_msg_put_moved(char *text, unsigned part, uint16_t route)
{
	assert(part < FAN_PARTS_MAX);
	return put(text,
		   json_pack("{s:{s:i, s:i}}", "moved", "part", (int)part, "route", (int)route));
}
