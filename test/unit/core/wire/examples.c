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

/* Encode what `get` makes of a body. */
#define AGAIN(kind)                                                                                \
	{                                                                                          \
		struct fan_##kind m;                                                               \
		assert_int_equal(fan_##kind##_get(&m, f), FAN_OK);                                 \
		return fan_##kind##_put(body, &m);                                                 \
	}

static size_t query_again(const struct fan_frag *f, uint8_t *body)
{
	if (f->topic == FAN_TOPIC_ECHO)
		AGAIN(echo)
	else
		AGAIN(query)
}

static size_t report_again(const struct fan_frag *f, uint8_t *body)
{
	switch (f->topic) {
	case FAN_TOPIC_JOB: AGAIN(report)
	case FAN_TOPIC_SLOTS: AGAIN(slot_stats)
	case FAN_TOPIC_RANKS: AGAIN(rank_stats)
	case FAN_TOPIC_HELPERS: AGAIN(helper_stats)
	case FAN_TOPIC_ECHO: AGAIN(echoed)
	default: fail_msg("topic %u", f->topic); return 0;
	}
}

static size_t again(const struct fan_frag *f, uint8_t *body)
{
	switch (f->type) {
	case FAN_TYPE_JOIN: AGAIN(join)
	case FAN_TYPE_WELCOME: AGAIN(welcome)
	case FAN_TYPE_REFUSE: AGAIN(refuse)
	case FAN_TYPE_BEAT: AGAIN(beat)
	case FAN_TYPE_STATE: AGAIN(state)
	case FAN_TYPE_LEAVE: AGAIN(leave)
	case FAN_TYPE_QUERY: return query_again(f, body);
	case FAN_TYPE_REPORT: return report_again(f, body);
	default: return 0; /* WHO has none */
	}
}

static void check_body(const struct fan_frag *f)
{
	uint8_t body[BODY_MAX];
	size_t bytes = again(f, body);
	assert_int_equal(bytes, f->payload_bytes);
	if (bytes)
		assert_memory_equal(body, f->payload, bytes);
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
