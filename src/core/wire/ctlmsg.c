/* SPDX-License-Identifier: Apache-2.0 */
#include "ctlmsg.h"

#include <stddef.h>

/* One field of a body, in the order of the wire: both the decoder and the encoder go by this. */
struct field {
	const struct field *item; /* ITEMS: the fields of each, `fields` of them */
	enum {
		NUMBERS,
		LATER,	 /* numbers that older bodies do not have: they end before them */
		TRIMMED, /* as LATER, and left out if they and all behind them are 0 */
		TEXT,	 /* behind its length, a byte, both in the struct and on the wire */
		ITEMS,	 /* behind their number, a byte */
	} kind;
	uint16_t at;	   /* in the message's struct, bytes */
	uint16_t items_at; /* ITEMS: of their number, in the message's struct */
	uint8_t bytes;	   /* of a number: 1, 2, 4 or 8; of an item in the struct */
	uint8_t count;	   /* of numbers; of a text's bytes and of items the most */
	uint8_t absent;	   /* each byte of LATER and TRIMMED numbers that the body does not have */
	uint8_t fields;
};

#define COUNT(array)	   (sizeof(array) / sizeof *(array))
#define MEMBER(of, member) (((struct fan_##of *)0)->member)
#define AT(of, member)	   .at = offsetof(struct fan_##of, member)
#define ONE(of, member, k)                                                                         \
	{                                                                                          \
		AT(of, member), .kind = k, .bytes = sizeof MEMBER(of, member), .count = 1          \
	}
#define MANY(of, member, k)                                                                        \
	{                                                                                          \
		AT(of, member), .kind = k, .bytes = sizeof MEMBER(of, member)[0],                  \
				.count = COUNT(MEMBER(of, member))                                 \
	}
#define NUM(of, member) ONE(of, member, NUMBERS)
#define STRING(of, member, most)                                                                   \
	{                                                                                          \
		AT(of, member), .kind = TEXT, .count = most                                        \
	}
#define LIST(of, member, number, table)                                                            \
	{                                                                                          \
		AT(of, member), .kind = ITEMS, .bytes = sizeof MEMBER(of, member)[0],              \
				.count = COUNT(MEMBER(of, member)),                                \
				.items_at = offsetof(struct fan_##of, number), .item = table,      \
				.fields = COUNT(table)                                             \
	}

/* A cursor over a body. */
struct reader {
	const uint8_t *p;
	size_t left;
	bool ok;   /* false: it ran off the end */
	bool sane; /* false: a text or a list is too long */
};

static const uint8_t *take(struct reader *r, size_t bytes)
{
	static const uint8_t zero[8];
	if (r->left < bytes) {
		r->ok = false;
		r->left = 0;
		return zero;
	}
	const uint8_t *p = r->p;
	r->p += bytes;
	r->left -= bytes;
	return p;
}

static void get_number(struct reader *r, void *v, unsigned bytes)
{
	const uint8_t *p = take(r, bytes);
	switch (bytes) {
	case 1: *(uint8_t *)v = *p; break;
	case 2: *(uint16_t *)v = fan_get16(p); break;
	case 4: *(uint32_t *)v = fan_get32(p); break;
	default: *(uint64_t *)v = fan_get64(p); break;
	}
}

static uint8_t *put_number(uint8_t *p, const void *v, unsigned bytes)
{
	switch (bytes) {
	case 1: *p = *(const uint8_t *)v; break;
	case 2: fan_put16(p, *(const uint16_t *)v); break;
	case 4: fan_put32(p, *(const uint32_t *)v); break;
	default: fan_put64(p, *(const uint64_t *)v); break;
	}
	return p + bytes;
}

/* Read the number of bytes or items that follow; 0 if there are more than `most`. */
static uint8_t get_count(struct reader *r, uint8_t most)
{
	const uint8_t count = *take(r, 1);
	if (count <= most)
		return count;
	r->sane = false;
	return 0;
}

static void get_text(struct reader *r, uint8_t *text, uint8_t most)
{
	const uint8_t bytes = get_count(r, most);
	for (unsigned i = 0; i < bytes; i++)
		text[i] = *take(r, 1);
	text[bytes] = '\0';
	text[-1] = bytes;
}

static void get(struct reader *r, uint8_t *m, const struct field *f, size_t fields)
{
	for (; fields; fields--, f++) {
		uint8_t *v = m + f->at, *count = m + f->items_at;
		const size_t bytes = (size_t)f->count * f->bytes;
		if (f->kind == TEXT) {
			get_text(r, v, f->count);
		} else if (f->kind == ITEMS) {
			*count = get_count(r, f->count);
			for (unsigned i = 0; i < *count; i++)
				get(r, v + (size_t)i * f->bytes, f->item, f->fields);
		} else if (f->kind != NUMBERS && r->left < bytes) {
			memset(v, f->absent, bytes);
			r->left = 0; /* nor has it those behind them */
		} else {
			for (size_t i = 0; i < bytes; i += f->bytes)
				get_number(r, v + i, f->bytes);
		}
	}
}

static bool is_zero(const uint8_t *p, size_t bytes)
{
	while (bytes && !*p++)
		bytes--;
	return !bytes;
}

/* Return where the next field goes. */
static uint8_t *put(uint8_t *p, const uint8_t *m, const struct field *f, size_t fields)
{
	while (fields && f[fields - 1].kind == TRIMMED &&
	       is_zero(m + f[fields - 1].at, (size_t)f[fields - 1].count * f[fields - 1].bytes))
		fields--;
	for (; fields; fields--, f++) {
		const uint8_t *v = m + f->at;
		if (f->kind == TEXT) {
			memcpy(p, v - 1, v[-1] + (size_t)1);
			p += v[-1] + 1;
		} else if (f->kind == ITEMS) {
			const uint8_t count = *p++ = m[f->items_at];
			for (unsigned i = 0; i < count; i++)
				p = put(p, v + (size_t)i * f->bytes, f->item, f->fields);
		} else {
			for (unsigned i = 0; i < f->count; i++)
				p = put_number(p, v + (size_t)i * f->bytes, f->bytes);
		}
	}
	return p;
}

/* ---- members ---- */

static bool is_alive_ms(uint32_t ms)
{
	return ms >= FAN_ALIVE_MIN_MS && ms <= FAN_ALIVE_MAX_MS;
}

static bool is_payload(unsigned bytes)
{
	return bytes >= FAN_PAYLOAD_MIN && bytes <= FAN_PAYLOAD_MAX;
}

static bool is_family(unsigned family)
{
	return family == 0 || family == 4 || family == 6;
}

/* A name that can stand in a log: UTF-8 or anything else, but no control characters. */
static bool is_printable(const struct fan_join *m)
{
	for (unsigned i = 0; i < m->name_bytes; i++)
		if ((unsigned char)m->name[i] < ' ' || m->name[i] == 0x7f)
			return false;
	return m->name_bytes > 0;
}

static const struct field join[] = {
	NUM(join, ranks),
	NUM(join, payload_bytes),
	NUM(join, window),
	NUM(join, options),
	NUM(join, alive_ms),
	STRING(join, name, FAN_NAME_MAX),
	ONE(join, workers, TRIMMED),
	ONE(join, launch, TRIMMED),
	ONE(join, claim, TRIMMED),
};

static bool check_join(const void *body)
{
	const struct fan_join *m = body;
	return m->ranks >= 2 && m->ranks <= FAN_RANKS_MAX && m->workers <= FAN_WORKERS_MAX &&
	       is_payload(m->payload_bytes) && m->payload_bytes % 8 == 0 &&
	       is_alive_ms(m->alive_ms) && m->window != 1 && is_printable(m);
}

static const struct field welcome[] = {NUM(welcome, window),	      NUM(welcome, shards),
				       NUM(welcome, beat_ms),	      NUM(welcome, alive_ms),
				       NUM(welcome, group_family),    NUM(welcome, group_port),
				       MANY(welcome, group, NUMBERS), NUM(welcome, burst),
				       NUM(welcome, flags),	      NUM(welcome, cookie)};

static bool check_welcome(const void *body)
{
	const struct fan_welcome *m = body;
	const uint16_t most = m->burst ? FAN_AHEAD_MAX : FAN_WINDOW_MAX;
	return m->window >= FAN_WINDOW_MIN && m->window <= most && m->burst <= m->window &&
	       m->shards >= 1 && m->shards <= FAN_SHARDS_MAX && m->beat_ms >= 1 &&
	       m->beat_ms <= FAN_ALIVE_MAX_MS && is_alive_ms(m->alive_ms) &&
	       is_family(m->group_family);
}

static const struct field refuse[] = {NUM(refuse, err), NUM(refuse, rank), NUM(refuse, have),
				      NUM(refuse, want), MANY(refuse, hosts, TRIMMED)};

static bool check_refuse(const void *body)
{
	return ((const struct fan_refuse *)body)->err < 0;
}

static bool is_sane(const struct fan_helper_cache_use *u)
{
	return u->open <= u->peak && u->peak <= u->frags;
}

static const struct field beat[] = {NUM(beat, flags), NUM(beat, cookie), NUM(beat, cache.frags),
				    NUM(beat, cache.open), NUM(beat, cache.peak)};

static bool check_beat(const void *body)
{
	return is_sane(&((const struct fan_beat *)body)->cache);
}

static const struct field state[] = {
	NUM(state, frag),
	NUM(state, state),
	NUM(state, err),
	NUM(state, multicast),
	NUM(state, ranks),
	NUM(state, rank_a),
	NUM(state, rank_b),
	NUM(state, desc_a),
	NUM(state, desc_b),
	MANY(state, missing, NUMBERS),
	ONE(state, workers, TRIMMED),
	MANY(state, hosts, TRIMMED),
};

static bool check_state(const void *body)
{
	const struct fan_state *m = body;
	return m->state <= FAN_JOB_AWAY && m->workers <= FAN_WORKERS_MAX &&
	       (m->state == FAN_JOB_FAILED ? m->err < 0 : m->err == FAN_OK);
}

static const struct field leave[] = {NUM(leave, err), MANY(leave, blamed, NUMBERS)};

static bool check_leave(const void *body)
{
	return ((const struct fan_leave *)body)->err <= 0;
}

/* ---- queries and reports ---- */

static const struct field query[] = {NUM(query, index), NUM(query, first)};

static const struct field report[] = {
	NUM(report, index),
	NUM(report, jobs),
	NUM(report, state),
	NUM(report, err),
	NUM(report, multicast),
	NUM(report, ranks),
	NUM(report, window),
	NUM(report, shards),
	NUM(report, results),
	NUM(report, replays),
	NUM(report, oldest),
	NUM(report, waiting),
	MANY(report, missing, NUMBERS),
	STRING(report, name, FAN_NAME_MAX),
	{AT(report, age_ms), .kind = LATER, .bytes = 4, .count = 1, .absent = 0xff},
	ONE(report, operations, LATER),
};
_Static_assert(FAN_AGE_NOT_TOLD == UINT32_MAX, "what an absent age is read as");

static bool check_report(const void *body)
{
	const struct fan_report *m = body;
	return m->state <= FAN_JOB_FAILED && m->ranks <= FAN_RANKS_MAX;
}

static const struct field slot_stats[] = {NUM(slot_stats, index),
					  NUM(slot_stats, jobs),
					  NUM(slot_stats, policy),
					  NUM(slot_stats, slots),
					  NUM(slot_stats, slots_used),
					  NUM(slot_stats, held),
					  NUM(slot_stats, quota),
					  NUM(slot_stats, hits),
					  NUM(slot_stats, taken),
					  NUM(slot_stats, collisions),
					  NUM(slot_stats, over_quota),
					  NUM(slot_stats, passed),
					  NUM(slot_stats, preemptions),
					  NUM(slot_stats, evictions),
					  NUM(slot_stats, flushes),
					  NUM(slot_stats, completions),
					  STRING(slot_stats, name, FAN_NAME_MAX)};

static const struct field standing[] = {NUM(standing, flags),	   NUM(standing, behind),
					NUM(standing, most),	   NUM(standing, lent),
					NUM(standing, deferred),   NUM(standing, cache.frags),
					NUM(standing, cache.open), NUM(standing, cache.peak)};

static const struct field rank_stats[] = {NUM(rank_stats, index),
					  NUM(rank_stats, jobs),
					  NUM(rank_stats, ranks),
					  NUM(rank_stats, ahead),
					  NUM(rank_stats, front),
					  NUM(rank_stats, first),
					  LIST(rank_stats, rank, count, standing),
					  STRING(rank_stats, name, FAN_NAME_MAX)};

static bool check_rank_stats(const void *body)
{
	const struct fan_rank_stats *m = body;
	bool sane = m->ranks <= FAN_RANKS_MAX && m->ahead <= 1 &&
		    (m->count == 0 || m->first + m->count <= m->ranks);
	for (unsigned i = 0; i < m->count; i++)
		sane &= m->rank[i].behind <= m->rank[i].most && is_sane(&m->rank[i].cache);
	return sane;
}

static const struct field helper_pair[] = {NUM(helper_pair, pair), NUM(helper_pair, parts)};

static const struct field helper_stats[] = {NUM(helper_stats, index),
					    NUM(helper_stats, jobs),
					    NUM(helper_stats, ranks),
					    NUM(helper_stats, first),
					    NUM(helper_stats, next),
					    LIST(helper_stats, help, count, helper_pair),
					    STRING(helper_stats, name, FAN_NAME_MAX)};

/* Pairs rise from `first` on, are of ranks that there are, and `next` is behind them. */
static bool check_helper_stats(const void *body)
{
	const struct fan_helper_stats *m = body;
	uint32_t least = m->first;
	bool sane = m->ranks <= FAN_RANKS_MAX;
	for (unsigned i = 0; i < m->count; i++) {
		const struct fan_helper_pair *h = &m->help[i];
		sane &= h->pair >= least && h->pair / FAN_RANKS_MAX < m->ranks &&
			h->pair % FAN_RANKS_MAX < m->ranks && h->parts > 0;
		least = h->pair + UINT32_C(1);
	}
	return sane && (m->next == 0 || (m->next >= least && m->next > m->first));
}

static const struct field echo[] = {NUM(echo, answer_bytes)};

static bool check_echo(const void *body)
{
	const struct fan_echo *m = body;
	return m->body_bytes <= FAN_ECHO_MAX &&
	       (m->answer_bytes == 0 ||
		(m->answer_bytes >= FAN_ECHO_MIN && m->answer_bytes <= m->body_bytes));
}

static const struct field echoed[] = {NUM(echoed, payload_bytes),
				      NUM(echoed, shards),
				      NUM(echoed, window),
				      NUM(echoed, group_family),
				      STRING(echoed, version, FAN_VERSION_MAX),
				      NUM(echoed, behind_loses)};

/* A version is shown as it came: letters, digits and marks only. */
static bool check_echoed(const void *body)
{
	const struct fan_echoed *m = body;
	for (unsigned i = 0; i < m->version_bytes; i++)
		if (m->version[i] <= ' ' || m->version[i] > '~')
			return false;
	return is_payload(m->payload_bytes) && m->shards >= 1 && m->shards <= FAN_SHARDS_MAX &&
	       m->window >= 1 && m->window <= FAN_WINDOW_MAX && is_family(m->group_family);
}

/* ---- every body ---- */

/* The least bytes of a body: a shorter one is refused, and what is written is filled up with zeros.
 * A stranger may send a JOIN, BEAT, LEAVE or QUERY: one that is shorter than its answer gets none.
 */
#define BODY(table, least)                                                                         \
	{                                                                                          \
		table, COUNT(table), least, check_##table                                          \
	}
static const struct {
	const struct field *field;
	uint8_t fields, least_bytes;
	bool (*check)(const void *body); /* NULL: all are right */
} bodies[] = {
	[FAN_BODY_JOIN] = BODY(join, FAN_CTL_UP_MIN),
	[FAN_BODY_WELCOME] = BODY(welcome, 0),
	[FAN_BODY_REFUSE] = BODY(refuse, 0),
	[FAN_BODY_BEAT] = BODY(beat, FAN_CTL_UP_MIN),
	[FAN_BODY_STATE] = BODY(state, 0),
	[FAN_BODY_LEAVE] = BODY(leave, FAN_CTL_UP_MIN),
	[FAN_BODY_QUERY] = {query, COUNT(query), FAN_REPORT_BYTES, NULL},
	[FAN_BODY_REPORT] = BODY(report, 0),
	[FAN_BODY_SLOT_STATS] = {slot_stats, COUNT(slot_stats), 0, NULL},
	[FAN_BODY_RANK_STATS] = BODY(rank_stats, 0),
	[FAN_BODY_HELPER_STATS] = BODY(helper_stats, 0),
	[FAN_BODY_ECHO] = BODY(echo, FAN_ECHO_MIN),
	[FAN_BODY_ECHOED] = BODY(echoed, FAN_ECHO_MIN),
};

enum fan_err fan_ctl_get_body(enum fan_body body, void *m, const struct fan_frag *f)
{
	struct reader r = {f->payload, f->payload_bytes,
			   f->payload_bytes >= bodies[body].least_bytes, true};
	get(&r, m, bodies[body].field, bodies[body].fields);
	if (!r.ok)
		return FAN_E_SHORT;
	if (body == FAN_BODY_ECHO)
		((struct fan_echo *)m)->body_bytes = (uint16_t)f->payload_bytes;
	return r.sane && (!bodies[body].check || bodies[body].check(m)) ? FAN_OK : FAN_E_FORMAT;
}

size_t fan_ctl_put_body(enum fan_body body, uint8_t *b, const void *m)
{
	const size_t bytes = (size_t)(put(b, m, bodies[body].field, bodies[body].fields) - b);
	size_t least = bodies[body].least_bytes;
	if (body == FAN_BODY_ECHO)
		least = ((const struct fan_echo *)m)->body_bytes;
	if (bytes >= least)
		return bytes;
	memset(b + bytes, 0, least - bytes);
	return least;
}

void fan_ctl_finish(struct fan_out_item *it, struct fan_frag *h, const uint8_t *body, size_t bytes)
{
	h->payload = body;
	h->payload_bytes = bytes;
	it->payload = body;
	it->payload_bytes = bytes;
	fan_wire_put(it->head, h);
}
