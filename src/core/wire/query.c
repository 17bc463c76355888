/* SPDX-License-Identifier: Apache-2.0 */
#include "query.h"

#include <string.h>

#define FOREIGN_BYTES (FAN_HEAD_BYTES + 11u) /* of the REFUSE that answers another version */

void fan_query_prepare(uint8_t *body, const struct fan_echoed *who)
{
	static const char version[] = FAN_BUILD_VERSION;
	_Static_assert(sizeof version <= FAN_VERSION_MAX + 1, "too long for the answer to an echo");
	struct fan_echoed m = *who;
	m.version_bytes = sizeof version - 1;
	memcpy(m.version, version, sizeof version);
	memset(body, 0, FAN_ECHO_MAX);
	fan_ctl_put(body, &m);
}

static void answer(const fan_peer *to, enum fan_type type, const struct fan_frag *question,
		   const uint8_t *body, size_t bytes, struct fan_out *out)
{
	struct fan_frag h = {
		.nonce = question->nonce,
		.sender = FAN_RANK_NONE,
		.type = (uint8_t)type,
		.topic = question->topic,
	};
	struct fan_out_item *it = fan_out_add(out, FAN_TO_PEER);
	it->peer = *to;
	fan_ctl_finish(it, &h, body, bytes);
}

static bool echo(const uint8_t *body, const fan_peer *from, const struct fan_frag *f,
		 struct fan_out *out)
{
	struct fan_echo m;
	if (fan_ctl_get(&m, f) != FAN_OK)
		return false;
	size_t bytes = m.answer_bytes ? m.answer_bytes : m.body_bytes;
	answer(from, FAN_TYPE_REPORT, f, body, bytes, out);
	return true;
}

/* Is it 127.0.0.0/8 or ::1?  Such packets come from this machine alone. */
static bool is_loopback(const fan_peer *p)
{
	static const uint8_t v4[13] = {[10] = 0xff, [11] = 0xff, [12] = 127}, v6[16] = {[15] = 1};
	return memcmp(p->addr, v4, sizeof v4) == 0 || memcmp(p->addr, v6, sizeof v6) == 0;
}

static void blur(uint64_t *count)
{
	*count -= *count % FAN_QUERY_STEP;
}

static void blur_slots(struct fan_slot_stats *m)
{
	uint64_t *const all[] = {&m->hits,	 &m->taken,   &m->collisions,
				 &m->over_quota, &m->passed,  &m->preemptions,
				 &m->evictions,	 &m->flushes, &m->completions};
	for (unsigned i = 0; i < sizeof all / sizeof all[0]; i++)
		blur(all[i]);
}

/* Write the answer about the topic into `body`.  Return its length. */
static size_t write_topic(const struct fan_query_source *s, const void *self, unsigned topic,
			  const struct fan_query *q, bool stranger, uint8_t *body)
{
	struct fan_report job = {.index = q->index};
	struct fan_slot_stats slots = {.index = q->index};
	struct fan_rank_stats ranks = {.index = q->index, .first = q->first};
	struct fan_helper_stats helpers = {.index = q->index, .first = q->first};
	switch (topic) {
	case FAN_TOPIC_JOB:
		s->job(self, &job);
		if (stranger) {
			blur(&job.results);
			job.oldest = UINT64_MAX;
			job.operations = 0;
		}
		return fan_ctl_put(body, &job);
	case FAN_TOPIC_SLOTS:
		if (s->slots)
			s->slots(self, &slots);
		if (stranger)
			blur_slots(&slots);
		return fan_ctl_put(body, &slots);
	case FAN_TOPIC_RANKS:
		s->ranks(self, &ranks);
		if (stranger)
			blur(&ranks.front);
		return fan_ctl_put(body, &ranks);
	default:
		if (s->helpers)
			s->helpers(self, &helpers);
		return fan_ctl_put(body, &helpers);
	}
}

bool fan_query_recv(const struct fan_query_source *s, const void *self, const uint8_t *echoed,
		    const fan_peer *from, const struct fan_frag *f, struct fan_out *out)
{
	struct fan_query q;
	if (f->topic == FAN_TOPIC_ECHO)
		return echo(echoed, from, f, out);
	if (f->topic >= FAN_TOPIC_COUNT || fan_ctl_get(&q, f) != FAN_OK)
		return false;
	bool stranger = !is_loopback(from) && !s->knows(self, q.index, from);
	uint8_t *body = fan_out_scratch(out, FAN_CTL_BYTES_MAX);
	answer(from, FAN_TYPE_REPORT, f, body, write_topic(s, self, f->topic, &q, stranger, body),
	       out);
	return true;
}

void fan_query_foreign(const fan_peer *from, const uint8_t *pkt, size_t len, struct fan_out *out)
{
	if ((pkt[1] != FAN_TYPE_JOIN && pkt[1] != FAN_TYPE_QUERY) || len < FOREIGN_BYTES ||
	    !fan_wire_is_whole(pkt, len))
		return;
	const struct fan_frag question = {.nonce = fan_wire_nonce(pkt)};
	const struct fan_refuse no = {
		.err = FAN_E_VERSION,
		.rank = FAN_RANK_NONE,
		.have = FAN_WIRE_VERSION,
		.want = pkt[0],
	};
	uint8_t *body = fan_out_scratch(out, FAN_CTL_BYTES_MAX);
	answer(from, FAN_TYPE_REFUSE, &question, body, fan_ctl_put(body, &no), out);
}
