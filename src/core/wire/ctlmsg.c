/* SPDX-License-Identifier: Apache-2.0 */
#include "ctlmsg.h"

#include <stddef.h>

#define WORKERS_BYTES 4 /* of JOIN and STATE; this field and those behind it may be absent */
#define LAUNCH_BYTES  8
#define CLAIM_BYTES   4

/* One field of a body, in the order of the wire: both its decoder and its encoder go by this. */
struct field {
	uint16_t at;   /* in the message's struct, bytes */
	uint8_t bytes; /* of a number: 1, 2, 4 or 8 */
	/* of numbers; 0: a text of up to FAN_NAME_MAX bytes, behind its length both in the struct
	 * and on the wire */
	uint8_t count;
};

#define MEMBER(message, member) (((struct fan_##message *)0)->member)
#define FIELD(message, member, bytes, count)                                                       \
	{                                                                                          \
		offsetof(struct fan_##message, member), bytes, count                               \
	}
#define NUM(message, member) FIELD(message, member, sizeof MEMBER(message, member), 1)
#define NUMS(message, member)                                                                      \
	FIELD(message, member, sizeof MEMBER(message, member)[0],                                  \
	      sizeof MEMBER(message, member) / sizeof MEMBER(message, member)[0])
#define TEXT(message, member) FIELD(message, member, 1, 0)

/* A cursor over a body that remembers whether it ran off the end. */
struct reader {
	const uint8_t *p;
	size_t left;
	bool ok;
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

static struct reader reader_of(const struct fan_frag *f)
{
	return (struct reader){f->payload, f->payload_bytes, true};
}

/* Begin to read a message that any stranger may send: one that is shorter than its answer gets
 * none. */
static struct reader reader_up(const struct fan_frag *f)
{
	struct reader r = reader_of(f);
	r.ok = r.left >= FAN_CTL_UP_MIN;
	return r;
}

static enum fan_err end(const struct reader *r, bool sane)
{
	if (!r->ok)
		return FAN_E_SHORT;
	return sane ? FAN_OK : FAN_E_FORMAT;
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

/* A text that does not fit is as if the body had ended before it. */
static void get_text(struct reader *r, char *text)
{
	unsigned bytes = *take(r, 1);
	if (bytes > FAN_NAME_MAX || bytes > r->left) {
		r->ok = false;
		r->left = bytes = 0;
	}
	for (unsigned i = 0; i < bytes; i++)
		text[i] = (char)*take(r, 1);
	text[bytes] = '\0';
	((uint8_t *)text)[-1] = (uint8_t)bytes;
}

static void get(struct reader *r, void *m, const struct field *f, size_t fields)
{
	for (; fields; fields--, f++) {
		uint8_t *v = (uint8_t *)m + f->at;
		if (f->count == 0)
			get_text(r, (char *)v);
		for (unsigned i = 0; i < f->count; i++)
			get_number(r, v + (size_t)i * f->bytes, f->bytes);
	}
}

/* Return where the next field goes. */
static uint8_t *put(uint8_t *p, const void *m, const struct field *f, size_t fields)
{
	for (; fields; fields--, f++) {
		const uint8_t *v = (const uint8_t *)m + f->at;
		if (f->count == 0) {
			memcpy(p, v - 1, v[-1] + (size_t)1);
			p += v[-1] + 1;
		}
		for (unsigned i = 0; i < f->count; i++)
			p = put_number(p, v + (size_t)i * f->bytes, f->bytes);
	}
	return p;
}

#define GET(r, m, table) get(r, m, table, sizeof(table) / sizeof *(table))
#define PUT(p, m, table) put(p, m, table, sizeof(table) / sizeof *(table))

/* The length of the body `b`, whose fields end at `p`, with zeros as far as it must go. */
static size_t fill_up(uint8_t *b, const uint8_t *p)
{
	size_t bytes = (size_t)(p - b);
	if (bytes >= FAN_CTL_UP_MIN)
		return bytes;
	memset(b + bytes, 0, FAN_CTL_UP_MIN - bytes);
	return FAN_CTL_UP_MIN;
}

/* A name that can stand in a log: UTF-8 or anything else, but no control characters. */
static bool is_printable(const struct fan_join *m)
{
	for (unsigned i = 0; i < m->name_bytes; i++)
		if ((unsigned char)m->name[i] < ' ' || m->name[i] == 0x7f)
			return false;
	return m->name_bytes > 0;
}

static const struct field join[] = {NUM(join, ranks),	NUM(join, payload_bytes), NUM(join, window),
				    NUM(join, options), NUM(join, alive_ms),	  TEXT(join, name)};

enum fan_err fan_join_get(struct fan_join *m, const struct fan_frag *f)
{
	struct reader r = reader_up(f);
	GET(&r, m, join);
	m->workers = r.left >= WORKERS_BYTES ? fan_get32(take(&r, WORKERS_BYTES)) : 0;
	m->workers += m->workers == 0;
	m->launch = r.left >= LAUNCH_BYTES ? fan_get64(take(&r, LAUNCH_BYTES)) : 0;
	m->claim = r.left >= CLAIM_BYTES ? fan_get32(take(&r, CLAIM_BYTES)) : 0;
	bool sane = m->ranks >= 2 && m->ranks <= FAN_RANKS_MAX && m->workers >= 1 &&
		    m->workers <= FAN_WORKERS_MAX && m->payload_bytes >= FAN_PAYLOAD_MIN &&
		    m->payload_bytes <= FAN_PAYLOAD_MAX && m->payload_bytes % 8 == 0 &&
		    m->alive_ms >= FAN_ALIVE_MIN_MS && m->alive_ms <= FAN_ALIVE_MAX_MS &&
		    m->window != 1 && is_printable(m);
	return end(&r, sane);
}

size_t fan_join_put(uint8_t *b, const struct fan_join *m)
{
	const uint32_t workers = m->workers > 1 ? m->workers : 0;
	uint8_t *p = PUT(b, m, join);
	if (workers || m->launch || m->claim)
		p = put_number(p, &workers, WORKERS_BYTES);
	if (m->launch || m->claim)
		p = put_number(p, &m->launch, LAUNCH_BYTES);
	if (m->claim)
		p = put_number(p, &m->claim, CLAIM_BYTES);
	return fill_up(b, p);
}

static const struct field welcome[] = {NUM(welcome, window),	   NUM(welcome, shards),
				       NUM(welcome, beat_ms),	   NUM(welcome, alive_ms),
				       NUM(welcome, group_family), NUM(welcome, group_port),
				       NUMS(welcome, group),	   NUM(welcome, burst),
				       NUM(welcome, flags),	   NUM(welcome, cookie)};

enum fan_err fan_welcome_get(struct fan_welcome *m, const struct fan_frag *f)
{
	struct reader r = reader_of(f);
	GET(&r, m, welcome);
	uint16_t most = m->burst ? FAN_AHEAD_MAX : FAN_WINDOW_MAX;
	bool sane = m->window >= FAN_WINDOW_MIN && m->window <= most && m->burst <= m->window &&
		    m->shards >= 1 && m->shards <= FAN_SHARDS_MAX && m->beat_ms >= 1 &&
		    m->beat_ms <= FAN_ALIVE_MAX_MS && m->alive_ms >= FAN_ALIVE_MIN_MS &&
		    m->alive_ms <= FAN_ALIVE_MAX_MS &&
		    (m->group_family == 0 || m->group_family == 4 || m->group_family == 6);
	return end(&r, sane);
}

size_t fan_welcome_put(uint8_t *b, const struct fan_welcome *m)
{
	return (size_t)(PUT(b, m, welcome) - b);
}

/* The last field of REFUSE and STATE, which only LAUNCHES has. */
static void get_hosts(struct reader *r, uint8_t hosts[FAN_HOSTS_BYTES])
{
	memset(hosts, 0, FAN_HOSTS_BYTES);
	if (r->left >= FAN_HOSTS_BYTES)
		memcpy(hosts, take(r, FAN_HOSTS_BYTES), FAN_HOSTS_BYTES);
}

static bool has_hosts(int err, const uint8_t hosts[FAN_HOSTS_BYTES])
{
	static const uint8_t none[FAN_HOSTS_BYTES];
	return err == FAN_E_LAUNCHES && memcmp(hosts, none, sizeof none) != 0;
}

static uint8_t *put_hosts(uint8_t *p, const uint8_t hosts[FAN_HOSTS_BYTES])
{
	memcpy(p, hosts, FAN_HOSTS_BYTES);
	return p + FAN_HOSTS_BYTES;
}

static const struct field refuse[] = {NUM(refuse, err), NUM(refuse, rank), NUM(refuse, have),
				      NUM(refuse, want)};

enum fan_err fan_refuse_get(struct fan_refuse *m, const struct fan_frag *f)
{
	struct reader r = reader_of(f);
	GET(&r, m, refuse);
	get_hosts(&r, m->hosts);
	return end(&r, m->err < 0);
}

size_t fan_refuse_put(uint8_t *b, const struct fan_refuse *m)
{
	uint8_t *p = PUT(b, m, refuse);
	if (has_hosts(m->err, m->hosts))
		p = put_hosts(p, m->hosts);
	return (size_t)(p - b);
}

static bool is_sane(const struct fan_helper_cache_use *u)
{
	return u->open <= u->peak && u->peak <= u->frags;
}

static const struct field beat[] = {NUM(beat, flags), NUM(beat, cookie), NUM(beat, cache.frags),
				    NUM(beat, cache.open), NUM(beat, cache.peak)};

enum fan_err fan_beat_get(struct fan_beat *m, const struct fan_frag *f)
{
	struct reader r = reader_up(f);
	GET(&r, m, beat);
	return end(&r, is_sane(&m->cache));
}

size_t fan_beat_put(uint8_t *b, const struct fan_beat *m)
{
	return fill_up(b, PUT(b, m, beat));
}

static const struct field state[] = {NUM(state, frag),	    NUM(state, state),	NUM(state, err),
				     NUM(state, multicast), NUM(state, ranks),	NUM(state, rank_a),
				     NUM(state, rank_b),    NUM(state, desc_a), NUM(state, desc_b),
				     NUMS(state, missing)};

enum fan_err fan_state_get(struct fan_state *m, const struct fan_frag *f)
{
	struct reader r = reader_of(f);
	GET(&r, m, state);
	m->workers = r.left >= WORKERS_BYTES ? fan_get32(take(&r, WORKERS_BYTES)) : 0;
	get_hosts(&r, m->hosts);
	bool failed = m->state == FAN_JOB_FAILED;
	return end(&r, m->state <= FAN_JOB_AWAY && m->workers <= FAN_WORKERS_MAX &&
			       (failed ? m->err < 0 : m->err == FAN_OK));
}

size_t fan_state_put(uint8_t *b, const struct fan_state *m)
{
	uint8_t *p = PUT(b, m, state);
	const bool hosts = has_hosts(m->err, m->hosts);
	if (m->workers || hosts)
		p = put_number(p, &m->workers, WORKERS_BYTES);
	if (hosts)
		p = put_hosts(p, m->hosts);
	return (size_t)(p - b);
}

static const struct field leave[] = {NUM(leave, err), NUMS(leave, blamed)};

enum fan_err fan_leave_get(struct fan_leave *m, const struct fan_frag *f)
{
	struct reader r = reader_up(f);
	GET(&r, m, leave);
	return end(&r, m->err <= 0);
}

size_t fan_leave_put(uint8_t *b, const struct fan_leave *m)
{
	return fill_up(b, PUT(b, m, leave));
}

static const struct field query[] = {NUM(query, index), NUM(query, first)};

enum fan_err fan_query_get(struct fan_query *m, const struct fan_frag *f)
{
	struct reader r = reader_of(f);
	GET(&r, m, query);
	return f->payload_bytes < FAN_REPORT_BYTES ? FAN_E_SHORT : end(&r, true);
}

size_t fan_query_put(uint8_t *b, const struct fan_query *m)
{
	memset(b, 0, FAN_REPORT_BYTES);
	PUT(b, m, query);
	return FAN_REPORT_BYTES;
}

static const struct field report[] = {
	NUM(report, index),	NUM(report, jobs),    NUM(report, state),  NUM(report, err),
	NUM(report, multicast), NUM(report, ranks),   NUM(report, window), NUM(report, shards),
	NUM(report, results),	NUM(report, replays), NUM(report, oldest), NUM(report, waiting),
	NUMS(report, missing),	TEXT(report, name)};
static const struct field report_age[] = {NUM(report, age_ms), NUM(report, operations)};
#define AGE_BYTES 6 /* may be absent */

enum fan_err fan_report_get(struct fan_report *m, const struct fan_frag *f)
{
	struct reader r = reader_of(f);
	GET(&r, m, report);
	m->age_ms = FAN_AGE_NOT_TOLD;
	m->operations = 0;
	if (r.left >= AGE_BYTES)
		GET(&r, m, report_age);
	return end(&r, m->state <= FAN_JOB_FAILED && m->ranks <= FAN_RANKS_MAX);
}

size_t fan_report_put(uint8_t *b, const struct fan_report *m)
{
	uint8_t *p = PUT(b, m, report);
	return (size_t)(PUT(p, m, report_age) - b);
}

static const struct field slot_stats[] = {
	NUM(slot_stats, index),	      NUM(slot_stats, jobs),	   NUM(slot_stats, policy),
	NUM(slot_stats, slots),	      NUM(slot_stats, slots_used), NUM(slot_stats, held),
	NUM(slot_stats, quota),	      NUM(slot_stats, hits),	   NUM(slot_stats, taken),
	NUM(slot_stats, collisions),  NUM(slot_stats, over_quota), NUM(slot_stats, passed),
	NUM(slot_stats, preemptions), NUM(slot_stats, evictions),  NUM(slot_stats, flushes),
	NUM(slot_stats, completions), TEXT(slot_stats, name)};

enum fan_err fan_slot_stats_get(struct fan_slot_stats *m, const struct fan_frag *f)
{
	struct reader r = reader_of(f);
	GET(&r, m, slot_stats);
	return end(&r, true);
}

size_t fan_slot_stats_put(uint8_t *b, const struct fan_slot_stats *m)
{
	return (size_t)(PUT(b, m, slot_stats) - b);
}

static const struct field rank_stats[] = {NUM(rank_stats, index), NUM(rank_stats, jobs),
					  NUM(rank_stats, ranks), NUM(rank_stats, ahead),
					  NUM(rank_stats, front), NUM(rank_stats, first),
					  NUM(rank_stats, count)};

static const struct field standing[] = {NUM(standing, flags),	   NUM(standing, behind),
					NUM(standing, most),	   NUM(standing, lent),
					NUM(standing, deferred),   NUM(standing, cache.frags),
					NUM(standing, cache.open), NUM(standing, cache.peak)};

static const struct field rank_stats_name[] = {TEXT(rank_stats, name)};

enum fan_err fan_rank_stats_get(struct fan_rank_stats *m, const struct fan_frag *f)
{
	struct reader r = reader_of(f);
	GET(&r, m, rank_stats);
	bool sane = m->ranks <= FAN_RANKS_MAX && m->ahead <= 1 && m->count <= FAN_STATS_RANKS &&
		    (m->count == 0 || m->first + m->count <= m->ranks);
	if (r.ok && !sane)
		return FAN_E_FORMAT;
	for (unsigned i = 0; r.ok && i < m->count; i++) {
		GET(&r, &m->rank[i], standing);
		sane &= m->rank[i].behind <= m->rank[i].most && is_sane(&m->rank[i].cache);
	}
	GET(&r, m, rank_stats_name);
	return end(&r, sane);
}

size_t fan_rank_stats_put(uint8_t *b, const struct fan_rank_stats *m)
{
	uint8_t *p = PUT(b, m, rank_stats);
	for (unsigned i = 0; i < m->count; i++)
		p = PUT(p, &m->rank[i], standing);
	return (size_t)(PUT(p, m, rank_stats_name) - b);
}

/* Pairs rise from `first` on, are of ranks that there are, and `next` is behind them. */
static bool pairs_are_sane(const struct fan_helper_stats *m)
{
	uint32_t least = m->first;
	bool sane = true;
	for (unsigned i = 0; i < m->count; i++) {
		const struct fan_helper_pair *h = &m->help[i];
		sane &= h->pair >= least && h->pair / FAN_RANKS_MAX < m->ranks &&
			h->pair % FAN_RANKS_MAX < m->ranks && h->parts > 0;
		least = h->pair + UINT32_C(1);
	}
	return sane && (m->next == 0 || (m->next >= least && m->next > m->first));
}

static const struct field helper_stats[] = {NUM(helper_stats, index), NUM(helper_stats, jobs),
					    NUM(helper_stats, ranks), NUM(helper_stats, first),
					    NUM(helper_stats, next),  NUM(helper_stats, count)};

static const struct field helper_pair[] = {NUM(helper_pair, pair), NUM(helper_pair, parts)};

static const struct field helper_stats_name[] = {TEXT(helper_stats, name)};

enum fan_err fan_helper_stats_get(struct fan_helper_stats *m, const struct fan_frag *f)
{
	struct reader r = reader_of(f);
	GET(&r, m, helper_stats);
	if (r.ok && (m->ranks > FAN_RANKS_MAX || m->count > FAN_STATS_PAIRS))
		return FAN_E_FORMAT;
	for (unsigned i = 0; r.ok && i < m->count; i++)
		GET(&r, &m->help[i], helper_pair);
	GET(&r, m, helper_stats_name);
	return end(&r, r.ok && pairs_are_sane(m));
}

size_t fan_helper_stats_put(uint8_t *b, const struct fan_helper_stats *m)
{
	uint8_t *p = PUT(b, m, helper_stats);
	for (unsigned i = 0; i < m->count; i++)
		p = PUT(p, &m->help[i], helper_pair);
	return (size_t)(PUT(p, m, helper_stats_name) - b);
}

enum fan_err fan_echo_get(struct fan_echo *m, const struct fan_frag *f)
{
	struct reader r = reader_of(f);
	get_number(&r, &m->answer_bytes, sizeof m->answer_bytes);
	if (f->payload_bytes < FAN_ECHO_MIN)
		return FAN_E_SHORT;
	m->body_bytes = (uint16_t)f->payload_bytes;
	bool fits = m->answer_bytes == 0 ||
		    (m->answer_bytes >= FAN_ECHO_MIN && m->answer_bytes <= m->body_bytes);
	return end(&r, f->payload_bytes <= FAN_ECHO_MAX && fits);
}

size_t fan_echo_put(uint8_t *b, const struct fan_echo *m)
{
	memset(b, 0, m->body_bytes);
	fan_put16(b, m->answer_bytes);
	return m->body_bytes;
}

/* A version is shown as it came: letters, digits and marks only. */
static bool is_plain(const char *text, unsigned bytes)
{
	for (unsigned i = 0; i < bytes; i++)
		if (text[i] <= ' ' || text[i] > '~')
			return false;
	return true;
}

static const struct field echoed[] = {NUM(echoed, payload_bytes), NUM(echoed, shards),
				      NUM(echoed, window), NUM(echoed, group_family),
				      NUM(echoed, version_bytes)};

enum fan_err fan_echoed_get(struct fan_echoed *m, const struct fan_frag *f)
{
	struct reader r = reader_of(f);
	GET(&r, m, echoed);
	if (!r.ok || f->payload_bytes < FAN_ECHO_MIN)
		return FAN_E_SHORT;
	if (m->version_bytes > FAN_VERSION_MAX)
		return FAN_E_FORMAT;
	memcpy(m->version, r.p, m->version_bytes);
	m->version[m->version_bytes] = '\0';
	m->behind_loses = fan_get16(r.p + m->version_bytes);
	bool sane = m->payload_bytes >= FAN_PAYLOAD_MIN && m->payload_bytes <= FAN_PAYLOAD_MAX &&
		    m->shards >= 1 && m->shards <= FAN_SHARDS_MAX && m->window >= 1 &&
		    m->window <= FAN_WINDOW_MAX &&
		    (m->group_family == 0 || m->group_family == 4 || m->group_family == 6) &&
		    is_plain(m->version, m->version_bytes);
	return end(&r, sane);
}

size_t fan_echoed_put(uint8_t *b, const struct fan_echoed *m)
{
	memset(b, 0, FAN_ECHO_MIN);
	uint8_t *p = PUT(b, m, echoed);
	memcpy(p, m->version, m->version_bytes);
	fan_put16(p + m->version_bytes, m->behind_loses);
	return FAN_ECHO_MIN;
}

void fan_ctl_finish(struct fan_out_item *it, struct fan_frag *h, const uint8_t *body, size_t bytes)
{
	h->payload = body;
	h->payload_bytes = bytes;
	it->payload = body;
	it->payload_bytes = bytes;
	fan_wire_put(it->head, h);
}
