/* SPDX-License-Identifier: Apache-2.0 */
#include "ctlmsg.h"

#define WORKERS_BYTES 4 /* the last field of JOIN and STATE, which may be absent */

/* A cursor over a body that remembers whether it ran off the end. */
struct reader {
	const uint8_t *p;
	size_t left;
	bool ok;
};

static const uint8_t *take(struct reader *r, size_t bytes)
{
	static const uint8_t zero[16];
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

static uint8_t get8(struct reader *r)
{
	return *take(r, 1);
}

static uint16_t get16(struct reader *r)
{
	return fan_get16(take(r, 2));
}

static uint32_t get32(struct reader *r)
{
	return fan_get32(take(r, 4));
}

static uint64_t get64(struct reader *r)
{
	return fan_get64(take(r, 8));
}

static void get_ranks(struct reader *r, uint64_t *set)
{
	for (unsigned i = 0; i < FAN_RANK_WORDS; i++)
		set[i] = get64(r);
}

/* A name of 1..FAN_NAME_MAX bytes behind its length. */
static bool get_name(struct reader *r, uint8_t *bytes, char *name)
{
	*bytes = get8(r);
	if (*bytes > FAN_NAME_MAX || *bytes > r->left)
		return false;
	for (unsigned i = 0; i < *bytes; i++)
		name[i] = (char)get8(r);
	name[*bytes] = '\0';
	return true;
}

/* Of a message that any stranger may send: one that is shorter than its answer gets none. */
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

static uint8_t *put8(uint8_t *b, uint8_t v)
{
	*b = v;
	return b + 1;
}

static uint8_t *put16(uint8_t *b, uint16_t v)
{
	fan_put16(b, v);
	return b + 2;
}

static uint8_t *put32(uint8_t *b, uint32_t v)
{
	fan_put32(b, v);
	return b + 4;
}

static uint8_t *put64(uint8_t *b, uint64_t v)
{
	fan_put64(b, v);
	return b + 8;
}

static uint8_t *put_ranks(uint8_t *b, const uint64_t *set)
{
	for (unsigned i = 0; i < FAN_RANK_WORDS; i++)
		b = put64(b, set[i]);
	return b;
}

/* The length of the body `b`, whose fields end at `p`, with zeros as far as it must go. */
static size_t fill_up(uint8_t *b, const uint8_t *p)
{
	size_t bytes = (size_t)(p - b);
	if (bytes >= FAN_CTL_UP_MIN)
		return bytes;
	memset(b + bytes, 0, FAN_CTL_UP_MIN - bytes);
	return FAN_CTL_UP_MIN;
}

static uint8_t *put_name(uint8_t *b, uint8_t bytes, const char *name)
{
	b = put8(b, bytes);
	memcpy(b, name, bytes);
	return b + bytes;
}

/* A name that can stand in a log: UTF-8 or anything else, but no control characters. */
static bool is_printable(const struct fan_join *m)
{
	for (unsigned i = 0; i < m->name_bytes; i++)
		if ((unsigned char)m->name[i] < ' ' || m->name[i] == 0x7f)
			return false;
	return m->name_bytes > 0;
}

enum fan_err fan_join_get(struct fan_join *m, const struct fan_frag *f)
{
	struct reader r = reader_up(f);
	m->ranks = get16(&r);
	m->payload_bytes = get16(&r);
	m->window = get16(&r);
	m->options = get8(&r);
	m->alive_ms = get32(&r);
	bool named = get_name(&r, &m->name_bytes, m->name);
	if (r.ok && !named)
		return FAN_E_SHORT;
	m->workers = r.left >= WORKERS_BYTES ? get32(&r) : 0;
	m->workers += m->workers == 0;
	bool sane = m->ranks >= 2 && m->ranks <= FAN_RANKS_MAX && m->workers >= 1 &&
		    m->workers <= FAN_WORKERS_MAX && m->payload_bytes >= FAN_PAYLOAD_MIN &&
		    m->payload_bytes <= FAN_PAYLOAD_MAX && m->payload_bytes % 8 == 0 &&
		    m->alive_ms >= FAN_ALIVE_MIN_MS && m->alive_ms <= FAN_ALIVE_MAX_MS &&
		    m->window != 1 && is_printable(m);
	return end(&r, sane);
}

size_t fan_join_put(uint8_t *b, const struct fan_join *m)
{
	uint8_t *p = put16(b, m->ranks);
	p = put16(p, m->payload_bytes);
	p = put16(p, m->window);
	p = put8(p, m->options);
	p = put32(p, m->alive_ms);
	p = put_name(p, m->name_bytes, m->name);
	if (m->workers > 1)
		p = put32(p, m->workers);
	return fill_up(b, p);
}

enum fan_err fan_welcome_get(struct fan_welcome *m, const struct fan_frag *f)
{
	struct reader r = reader_of(f);
	m->window = get16(&r);
	m->shards = get16(&r);
	m->beat_ms = get32(&r);
	m->alive_ms = get32(&r);
	m->group_family = get8(&r);
	m->group_port = get16(&r);
	memcpy(m->group, take(&r, sizeof m->group), sizeof m->group);
	m->burst = get16(&r);
	m->flags = get8(&r);
	m->cookie = get64(&r);
	uint16_t most = m->burst ? FAN_AHEAD_MAX : FAN_WINDOW_MAX;
	bool sane = m->window >= 1 && m->window <= most && m->burst <= m->window &&
		    m->shards >= 1 && m->shards <= FAN_SHARDS_MAX && m->beat_ms >= 1 &&
		    m->beat_ms <= FAN_ALIVE_MAX_MS &&
		    (m->group_family == 0 || m->group_family == 4 || m->group_family == 6);
	return end(&r, sane);
}

size_t fan_welcome_put(uint8_t *b, const struct fan_welcome *m)
{
	uint8_t *p = put16(b, m->window);
	p = put16(p, m->shards);
	p = put32(p, m->beat_ms);
	p = put32(p, m->alive_ms);
	p = put8(p, m->group_family);
	p = put16(p, m->group_port);
	memcpy(p, m->group, sizeof m->group);
	p += sizeof m->group;
	p = put16(p, m->burst);
	p = put8(p, m->flags);
	p = put64(p, m->cookie);
	return (size_t)(p - b);
}

enum fan_err fan_refuse_get(struct fan_refuse *m, const struct fan_frag *f)
{
	struct reader r = reader_of(f);
	m->err = (int8_t)get8(&r);
	m->rank = get16(&r);
	m->have = get32(&r);
	m->want = get32(&r);
	return end(&r, m->err < 0);
}

size_t fan_refuse_put(uint8_t *b, const struct fan_refuse *m)
{
	uint8_t *p = put8(b, (uint8_t)m->err);
	p = put16(p, m->rank);
	p = put32(p, m->have);
	p = put32(p, m->want);
	return (size_t)(p - b);
}

static struct fan_helper_cache_use get_cache(struct reader *r)
{
	struct fan_helper_cache_use u = {.frags = get16(r)};
	u.open = get16(r);
	u.peak = get16(r);
	return u;
}

static uint8_t *put_cache(uint8_t *p, const struct fan_helper_cache_use *u)
{
	p = put16(p, u->frags);
	p = put16(p, u->open);
	return put16(p, u->peak);
}

static bool is_sane(const struct fan_helper_cache_use *u)
{
	return u->open <= u->peak && u->peak <= u->frags;
}

enum fan_err fan_beat_get(struct fan_beat *m, const struct fan_frag *f)
{
	struct reader r = reader_up(f);
	m->flags = get8(&r);
	m->cookie = get64(&r);
	m->cache = get_cache(&r);
	return end(&r, is_sane(&m->cache));
}

size_t fan_beat_put(uint8_t *b, const struct fan_beat *m)
{
	uint8_t *p = put8(b, m->flags);
	p = put64(p, m->cookie);
	return fill_up(b, put_cache(p, &m->cache));
}

enum fan_err fan_state_get(struct fan_state *m, const struct fan_frag *f)
{
	struct reader r = reader_of(f);
	m->frag = get64(&r);
	m->state = get8(&r);
	m->err = (int8_t)get8(&r);
	m->multicast = get8(&r);
	m->ranks = get16(&r);
	m->rank_a = get16(&r);
	m->rank_b = get16(&r);
	m->desc_a = get32(&r);
	m->desc_b = get32(&r);
	get_ranks(&r, m->missing);
	m->workers = r.left >= WORKERS_BYTES ? get32(&r) : 0;
	bool failed = m->state == FAN_JOB_FAILED;
	return end(&r, m->state <= FAN_JOB_LEFT && m->workers <= FAN_WORKERS_MAX &&
			       (failed ? m->err < 0 : m->err == FAN_OK));
}

size_t fan_state_put(uint8_t *b, const struct fan_state *m)
{
	uint8_t *p = put64(b, m->frag);
	p = put8(p, m->state);
	p = put8(p, (uint8_t)m->err);
	p = put8(p, m->multicast);
	p = put16(p, m->ranks);
	p = put16(p, m->rank_a);
	p = put16(p, m->rank_b);
	p = put32(p, m->desc_a);
	p = put32(p, m->desc_b);
	p = put_ranks(p, m->missing);
	if (m->workers)
		p = put32(p, m->workers);
	return (size_t)(p - b);
}

enum fan_err fan_leave_get(struct fan_leave *m, const struct fan_frag *f)
{
	struct reader r = reader_up(f);
	m->err = (int8_t)get8(&r);
	get_ranks(&r, m->blamed);
	return end(&r, m->err <= 0);
}

size_t fan_leave_put(uint8_t *b, const struct fan_leave *m)
{
	uint8_t *p = put8(b, (uint8_t)m->err);
	return fill_up(b, put_ranks(p, m->blamed));
}

enum fan_err fan_query_get(struct fan_query *m, const struct fan_frag *f)
{
	struct reader r = reader_of(f);
	m->index = get16(&r);
	m->first = get16(&r);
	return f->payload_bytes < FAN_REPORT_BYTES ? FAN_E_SHORT : end(&r, true);
}

size_t fan_query_put(uint8_t *b, const struct fan_query *m)
{
	memset(b, 0, FAN_REPORT_BYTES);
	put16(put16(b, m->index), m->first);
	return FAN_REPORT_BYTES;
}

enum fan_err fan_report_get(struct fan_report *m, const struct fan_frag *f)
{
	struct reader r = reader_of(f);
	m->index = get16(&r);
	m->jobs = get16(&r);
	m->state = get8(&r);
	m->err = (int8_t)get8(&r);
	m->multicast = get8(&r);
	m->ranks = get16(&r);
	m->window = get16(&r);
	m->shards = get16(&r);
	m->results = get64(&r);
	m->replays = get64(&r);
	m->oldest = get64(&r);
	m->waiting = get32(&r);
	get_ranks(&r, m->missing);
	bool named = get_name(&r, &m->name_bytes, m->name);
	if (r.ok && !named)
		return FAN_E_SHORT;
	return end(&r, m->state <= FAN_JOB_FAILED && m->ranks <= FAN_RANKS_MAX);
}

size_t fan_report_put(uint8_t *b, const struct fan_report *m)
{
	uint8_t *p = put16(b, m->index);
	p = put16(p, m->jobs);
	p = put8(p, m->state);
	p = put8(p, (uint8_t)m->err);
	p = put8(p, m->multicast);
	p = put16(p, m->ranks);
	p = put16(p, m->window);
	p = put16(p, m->shards);
	p = put64(p, m->results);
	p = put64(p, m->replays);
	p = put64(p, m->oldest);
	p = put32(p, m->waiting);
	p = put_ranks(p, m->missing);
	p = put_name(p, m->name_bytes, m->name);
	return (size_t)(p - b);
}

enum fan_err fan_slot_stats_get(struct fan_slot_stats *m, const struct fan_frag *f)
{
	struct reader r = reader_of(f);
	m->index = get16(&r);
	m->jobs = get16(&r);
	m->policy = get8(&r);
	m->slots = get32(&r);
	m->slots_used = get32(&r);
	m->held = get32(&r);
	m->quota = get32(&r);
	m->hits = get64(&r);
	m->taken = get64(&r);
	m->collisions = get64(&r);
	m->over_quota = get64(&r);
	m->passed = get64(&r);
	m->preemptions = get64(&r);
	m->evictions = get64(&r);
	m->flushes = get64(&r);
	m->completions = get64(&r);
	bool named = get_name(&r, &m->name_bytes, m->name);
	if (r.ok && !named)
		return FAN_E_SHORT;
	return end(&r, true);
}

size_t fan_slot_stats_put(uint8_t *b, const struct fan_slot_stats *m)
{
	uint8_t *p = put16(b, m->index);
	p = put16(p, m->jobs);
	p = put8(p, m->policy);
	p = put32(p, m->slots);
	p = put32(p, m->slots_used);
	p = put32(p, m->held);
	p = put32(p, m->quota);
	p = put64(p, m->hits);
	p = put64(p, m->taken);
	p = put64(p, m->collisions);
	p = put64(p, m->over_quota);
	p = put64(p, m->passed);
	p = put64(p, m->preemptions);
	p = put64(p, m->evictions);
	p = put64(p, m->flushes);
	p = put64(p, m->completions);
	p = put_name(p, m->name_bytes, m->name);
	return (size_t)(p - b);
}

static struct fan_standing get_standing(struct reader *r)
{
	struct fan_standing s = {.flags = get8(r)};
	s.behind = get16(r);
	s.most = get16(r);
	s.lent = get32(r);
	s.deferred = get32(r);
	s.cache = get_cache(r);
	return s;
}

enum fan_err fan_rank_stats_get(struct fan_rank_stats *m, const struct fan_frag *f)
{
	struct reader r = reader_of(f);
	m->index = get16(&r);
	m->jobs = get16(&r);
	m->ranks = get16(&r);
	m->ahead = get8(&r);
	m->front = get64(&r);
	m->first = get16(&r);
	m->count = get8(&r);
	bool sane = m->ranks <= FAN_RANKS_MAX && m->ahead <= 1 && m->count <= FAN_STATS_RANKS &&
		    (m->count == 0 || m->first + m->count <= m->ranks);
	if (r.ok && !sane)
		return FAN_E_FORMAT;
	for (unsigned i = 0; r.ok && i < m->count; i++) {
		m->rank[i] = get_standing(&r);
		sane &= m->rank[i].behind <= m->rank[i].most && is_sane(&m->rank[i].cache);
	}
	bool named = get_name(&r, &m->name_bytes, m->name);
	if (r.ok && !named)
		return FAN_E_SHORT;
	return end(&r, sane);
}

size_t fan_rank_stats_put(uint8_t *b, const struct fan_rank_stats *m)
{
	uint8_t *p = put16(b, m->index);
	p = put16(p, m->jobs);
	p = put16(p, m->ranks);
	p = put8(p, m->ahead);
	p = put64(p, m->front);
	p = put16(p, m->first);
	p = put8(p, m->count);
	for (unsigned i = 0; i < m->count; i++) {
		const struct fan_standing *s = &m->rank[i];
		p = put8(p, s->flags);
		p = put16(p, s->behind);
		p = put16(p, s->most);
		p = put32(p, s->lent);
		p = put32(p, s->deferred);
		p = put_cache(p, &s->cache);
	}
	p = put_name(p, m->name_bytes, m->name);
	return (size_t)(p - b);
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

enum fan_err fan_helper_stats_get(struct fan_helper_stats *m, const struct fan_frag *f)
{
	struct reader r = reader_of(f);
	m->index = get16(&r);
	m->jobs = get16(&r);
	m->ranks = get16(&r);
	m->first = get16(&r);
	m->next = get16(&r);
	m->count = get8(&r);
	if (r.ok && (m->ranks > FAN_RANKS_MAX || m->count > FAN_STATS_PAIRS))
		return FAN_E_FORMAT;
	for (unsigned i = 0; r.ok && i < m->count; i++) {
		m->help[i].pair = get16(&r);
		m->help[i].parts = get32(&r);
	}
	bool named = get_name(&r, &m->name_bytes, m->name);
	if (r.ok && !named)
		return FAN_E_SHORT;
	return end(&r, r.ok && pairs_are_sane(m));
}

size_t fan_helper_stats_put(uint8_t *b, const struct fan_helper_stats *m)
{
	uint8_t *p = put16(b, m->index);
	p = put16(p, m->jobs);
	p = put16(p, m->ranks);
	p = put16(p, m->first);
	p = put16(p, m->next);
	p = put8(p, m->count);
	for (unsigned i = 0; i < m->count; i++) {
		p = put16(p, m->help[i].pair);
		p = put32(p, m->help[i].parts);
	}
	p = put_name(p, m->name_bytes, m->name);
	return (size_t)(p - b);
}

enum fan_err fan_echo_get(struct fan_echo *m, const struct fan_frag *f)
{
	struct reader r = reader_of(f);
	m->answer_bytes = get16(&r);
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
	put16(b, m->answer_bytes);
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

enum fan_err fan_echoed_get(struct fan_echoed *m, const struct fan_frag *f)
{
	struct reader r = reader_of(f);
	m->payload_bytes = get16(&r);
	m->shards = get16(&r);
	m->window = get16(&r);
	m->group_family = get8(&r);
	m->version_bytes = get8(&r);
	if (!r.ok || f->payload_bytes < FAN_ECHO_MIN)
		return FAN_E_SHORT;
	if (m->version_bytes > FAN_VERSION_MAX)
		return FAN_E_FORMAT;
	memcpy(m->version, r.p, m->version_bytes);
	m->version[m->version_bytes] = '\0';
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
	uint8_t *p = put16(b, m->payload_bytes);
	p = put16(p, m->shards);
	p = put16(p, m->window);
	p = put8(p, m->group_family);
	put_name(p, m->version_bytes, m->version);
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
