/* SPDX-License-Identifier: Apache-2.0 */
/* examples.c - the datagrams of doc/protocol/examples.txt: each decodes to what it is said to be,
 * and its fields encode to the same bytes again. */
#include "unit/unit.h"

#include <stdio.h>

#include "core/sum/contribution.h"
#include "core/wire/ctlmsg.h"
#include "core/wire/envelope.h"

#define INDENT	  "    "
#define PAGES	  TEST_DATA "/../../doc/protocol/"
#define LINE_MAX_ 400 /* the longest table row, and more */
#define BODY_MAX  512

/*      NAME: what it is
 *      0000  02 10 00 ...
 *      0020  ...            */
struct example {
	char name[16]; /* empty: none has begun */
	uint8_t bytes[BODY_MAX];
	size_t len;
	const char *page;
	unsigned line;
};

static bool seen[256];
static unsigned examples;

static enum fan_body body_of(const struct fan_frag *f)
{
	static const enum fan_body types[] = {
		[FAN_TYPE_JOIN] = FAN_BODY_JOIN,     [FAN_TYPE_WELCOME] = FAN_BODY_WELCOME,
		[FAN_TYPE_REFUSE] = FAN_BODY_REFUSE, [FAN_TYPE_BEAT] = FAN_BODY_BEAT,
		[FAN_TYPE_STATE] = FAN_BODY_STATE,   [FAN_TYPE_LEAVE] = FAN_BODY_LEAVE,
	};
	static const enum fan_body reports[FAN_TOPIC_COUNT] = {
		FAN_BODY_REPORT, FAN_BODY_SLOT_STATS, FAN_BODY_RANK_STATS, FAN_BODY_HELPER_STATS,
		FAN_BODY_ECHOED};
	if (f->type == FAN_TYPE_QUERY)
		return f->topic == FAN_TOPIC_ECHO ? FAN_BODY_ECHO : FAN_BODY_QUERY;
	assert_true(f->topic < FAN_TOPIC_COUNT);
	return f->type == FAN_TYPE_REPORT ? reports[f->topic] : types[f->type];
}

static void check_body(const struct fan_frag *f)
{
	uint8_t body[BODY_MAX];
	uint64_t m[BODY_MAX / 8] = {0}; /* room for any */
	if (f->type == FAN_TYPE_WHO) {	/* has none */
		assert_int_equal(f->payload_bytes, 0);
		return;
	}
	assert_int_equal(fan_ctl_get_body(body_of(f), m, f), FAN_OK);
	assert_int_equal(fan_ctl_put_body(body_of(f), body, m), f->payload_bytes);
	assert_memory_equal(body, f->payload, f->payload_bytes);
}

/* The ranks of a PARTIAL or NEED must be of the 4 that the examples' job has. */
static void check_bitmap(const struct fan_frag *f)
{
	uint64_t set[FAN_RANK_WORDS];
	if (f->type == FAN_TYPE_PARTIAL || f->words)
		assert_true(fan_partial_ranks(set, f, 4));
}

static void check_packet(const uint8_t *p, size_t len, const char *name)
{
	struct fan_frag f;
	struct fan_envelope v;
	uint8_t head[FAN_HEAD_BYTES];
	assert_int_equal(fan_wire_get(&f, p, len), -1);
	if (name)
		assert_string_equal(fan_type_name(f.type), name);
	fan_wire_put(head, &f);
	assert_memory_equal(head, p, sizeof head);
	seen[f.type] = true;
	if (f.type == FAN_TYPE_RELAY) {
		assert_int_equal(fan_envelope_get(&v, &f), FAN_OK);
		check_packet(v.inner, v.inner_bytes, NULL);
	} else if (f.type >= FAN_TYPE_CTL) {
		check_body(&f);
	} else {
		check_bitmap(&f);
	}
}

static void finish(struct example *e)
{
	if (!e->name[0])
		return;
	print_message("%s:%u: %s, %zu bytes\n", e->page, e->line, e->name, e->len);
	check_packet(e->bytes, e->len, e->name);
	examples++;
	e->name[0] = '\0';
}

/* "    0020  01 ff ...": more bytes of the example, from there on. */
static bool take_bytes(struct example *e, const char *line)
{
	unsigned at, byte;
	int used;
	if (!e->name[0] || sscanf(line, "    %4x  %n", &at, &used) != 1 || used != 10)
		return false;
	assert_int_equal(at, e->len);
	for (line += used; sscanf(line, "%2x%n", &byte, &used) == 1; line += used) {
		assert_true(e->len < sizeof e->bytes);
		e->bytes[e->len++] = (uint8_t)byte;
	}
	assert_true(*line == '\n' || *line == '\0');
	return true;
}

static void take_line(struct example *e, const char *line, unsigned number)
{
	char name[sizeof e->name];
	if (take_bytes(e, line))
		return;
	finish(e);
	if (strncmp(line, INDENT, strlen(INDENT)) != 0)
		return;
	line += strlen(INDENT);
	if (sscanf(line, "%15[A-Z]", name) != 1 || line[strlen(name)] != ':')
		return;
	strcpy(e->name, name);
	e->len = 0;
	e->line = number;
}

static void check_page(const char *page)
{
	char path[1024], line[LINE_MAX_];
	struct example e = {.page = page};
	unsigned before = examples;
	snprintf(path, sizeof path, "%s%s", PAGES, page);
	FILE *f = fopen(path, "r");
	assert_non_null(f);
	for (unsigned n = 1; fgets(line, sizeof line, f); n++)
		take_line(&e, line, n);
	fclose(f);
	finish(&e);
	assert_true(examples > before);
}

TEST(examples__say_what_they_are)
{
	check_page("examples.txt");
}

TEST(examples__every_message_has_one)
{
#define X(name, number, has, may, text) assert_true(seen[number]);
	FAN_MESSAGES(X)
#undef X
}

UNIT_MAIN
