/* SPDX-License-Identifier: Apache-2.0 */
#include "logline.h"

#include <assert.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "core/wire/envelope.h"
#include "file/text.h"
#include "udp.h"

#define ADDRESS_BYTES 80

void fan_line_add(struct fan_line *l, const char *format, ...)
{
	struct fan_text t = {l->text, sizeof l->text, l->used};
	va_list args;
	va_start(args, format);
	fan_text_vadd(&t, format, args);
	va_end(args);
	l->used = t.used;
}

void fan_line_escaped(struct fan_line *l, const char *value, size_t bytes)
{
	struct fan_text t = {l->text, sizeof l->text, l->used};
	fan_text_escaped(&t, value, bytes);
	l->used = t.used;
}

void fan_line_quoted(struct fan_line *l, const char *key, const char *value, size_t bytes)
{
	assert(l->used < sizeof l->text);
	fan_line_add(l, " %s=\"", key);
	fan_line_escaped(l, value, bytes);
	fan_line_add(l, "\"");
}

const char *fan_ranks_text(const uint64_t *set, char *text, size_t bytes)
{
	struct fan_text t = fan_text_in(text, bytes);
	for (unsigned r = 0; r < FAN_RANKS_MAX; r++) {
		unsigned first = r;
		if (!fan_ranks_has(set, r))
			continue;
		while (r + 1 < FAN_RANKS_MAX && fan_ranks_has(set, r + 1))
			r++;
		fan_text_add(&t, first == r ? "%s%u" : "%s%u-%u", t.used ? "," : "", first, r);
	}
	if (!t.used)
		fan_text_add(&t, "none");
	return text;
}

const char *fan_job_state_text(unsigned state)
{
	switch (state) {
	case FAN_JOB_NONE: return "none";
	case FAN_JOB_FORMING: return "forming";
	case FAN_JOB_READY: return "ready";
	case FAN_JOB_FAILED: return "failed";
	default: return "unknown";
	}
}

static const char *event_word(enum fan_event_kind kind)
{
	switch (kind) {
	case FAN_EV_JOB_CREATED: return "job_created";
	case FAN_EV_RANK_JOINED: return "rank_joined";
	case FAN_EV_RANK_MOVED: return "rank_moved";
	case FAN_EV_RANK_REFUSED: return "rank_refused";
	case FAN_EV_JOB_READY: return "job_ready";
	case FAN_EV_RANK_LEFT: return "rank_left";
	case FAN_EV_GROUP_OFF: return "group_off";
	case FAN_EV_JOB_FAILED: return "job_failed";
	case FAN_EV_JOB_REMOVED: return "job_removed";
	}
	return "unknown";
}

fan_peer fan_line_group(const struct fan_aggregator_config *cfg, uint32_t job)
{
	uint8_t b[16] = {[10] = 0xff, [11] = 0xff};
	bool v4 = cfg->group_family == 4;
	fan_peer p = {.port = cfg->group_port};
	memcpy(v4 ? b + 12 : b, cfg->group_base, v4 ? 4 : 16);
	unsigned low = b[14] * 256u + b[15] + (job & 0xff);
	b[14] = (uint8_t)(low >> 8);
	b[15] = (uint8_t)low;
	memcpy(p.addr, b, sizeof b);
	return p;
}

static void add_results_by(struct fan_line *l, const struct fan_event *ev,
			   const struct fan_aggregator_config *cfg)
{
	char text[ADDRESS_BYTES];
	fan_peer group = fan_line_group(cfg, ev->job);
	if (ev->multicast)
		fan_line_add(l, " results=multicast group=%s",
			     fan_peer_text(&group, text, sizeof text));
	else
		fan_line_add(l, " results=unicast");
}

static void add_cause(struct fan_line *l, int err)
{
	const char *text = fan_err_text(err);
	fan_line_add(l, " cause=%s", fan_err_name(err));
	if (err)
		fan_line_quoted(l, "text", text, strlen(text));
}

/* Where a rank is: itself, or the switch that it is behind. */
static void add_peer(struct fan_line *l, const fan_peer *p)
{
	char text[ADDRESS_BYTES];
	fan_peer hop = fan_peer_hop(p);
	if (hop.scope == UINT32_MAX) /* node.c */
		fan_line_add(l, " behind=slots");
	else
		fan_line_add(l, " %s=%s", fan_peer_token(p) ? "behind" : "peer",
			     fan_peer_text(&hop, text, sizeof text));
}

/* Add the details that only some kinds of events have. */
static void add_details(struct fan_line *l, const struct fan_event *ev,
			const struct fan_aggregator_config *cfg)
{
	char ranks[FAN_RANKS_BYTES];
	switch (ev->kind) {
	case FAN_EV_RANK_JOINED:
	case FAN_EV_RANK_MOVED: add_peer(l, &ev->peer); break;
	case FAN_EV_RANK_REFUSED:
		add_peer(l, &ev->peer);
		add_cause(l, ev->err);
		break;
	case FAN_EV_JOB_READY:
	case FAN_EV_GROUP_OFF: add_results_by(l, ev, cfg); break;
	case FAN_EV_RANK_LEFT: add_cause(l, ev->err); break;
	case FAN_EV_JOB_FAILED:
		add_cause(l, ev->err);
		fan_line_add(l, " blamed=%s", fan_ranks_text(ev->blamed, ranks, sizeof ranks));
		break;
	case FAN_EV_JOB_REMOVED:
		fan_line_add(l, " results=%" PRIu64 " replays=%" PRIu64, ev->results, ev->replays);
		break;
	case FAN_EV_JOB_CREATED: break;
	}
}

void fan_line_event(struct fan_line *l, const struct fan_event *ev, unsigned shard,
		    const struct fan_aggregator_config *cfg)
{
	l->used = 0;
	fan_line_add(l, "event=%s", event_word(ev->kind));
	fan_line_quoted(l, "job", ev->name, strnlen(ev->name, FAN_NAME_MAX));
	if (ev->kind != FAN_EV_RANK_REFUSED)
		fan_line_add(l, " id=%" PRIu32 " epoch=%" PRIu32, ev->job, ev->epoch);
	if (ev->rank != FAN_RANK_NONE)
		fan_line_add(l, " rank=%u", ev->rank);
	fan_line_add(l, " ranks=%u", ev->ranks);
	if (ev->window)
		fan_line_add(l, " window=%u", ev->window);
	add_details(l, ev, cfg);
	fan_line_add(l, " shard=%u", shard);
}

void fan_line_report(struct fan_line *l, const struct fan_report *r, unsigned shard)
{
	char ranks[FAN_RANKS_BYTES];
	l->used = 0;
	fan_line_add(l, "event=job");
	fan_line_quoted(l, "job", r->name, r->name_bytes);
	fan_line_add(l, " state=%s ranks=%u window=%u results=%" PRIu64 " replays=%" PRIu64,
		     fan_job_state_text(r->state), r->ranks, r->window, r->results, r->replays);
	fan_line_add(l, " by=%s", r->multicast ? "multicast" : "unicast");
	if (r->state == FAN_JOB_FAILED)
		fan_line_add(l, " cause=%s", fan_err_name(r->err));
	if (r->state == FAN_JOB_READY)
		fan_line_add(l, " waiting=%" PRIu32, r->waiting);
	if (r->state == FAN_JOB_READY && r->waiting)
		fan_line_add(l, " oldest=%" PRIu64, r->oldest);
	if (r->state != FAN_JOB_READY || r->waiting)
		fan_line_add(l, " %s=%s", r->state == FAN_JOB_FAILED ? "blamed" : "waits_for",
			     fan_ranks_text(r->missing, ranks, sizeof ranks));
	fan_line_add(l, " shard=%u", shard);
}

static void add_drops(struct fan_line *l, const uint64_t *drops)
{
	for (unsigned i = 0; i < FAN_DROP_COUNT; i++)
		if (drops[i])
			fan_line_add(l, " drop_%s=%" PRIu64, fan_drop_text(i), drops[i]);
}

void fan_line_stats(struct fan_line *l, const struct fan_aggregator_stats *s, unsigned shard)
{
	l->used = 0;
	fan_line_add(l, "event=counters shard=%u packets=%" PRIu64 " contributions=%" PRIu64, shard,
		     s->packets, s->contributions);
	fan_line_add(l, " results=%" PRIu64 " replays=%" PRIu64 " needs=%" PRIu64, s->results,
		     s->replays, s->needs);
	if (s->events_lost)
		fan_line_add(l, " events_lost=%" PRIu64, s->events_lost);
	if (s->partials)
		fan_line_add(l, " partials=%" PRIu64, s->partials);
	if (s->flushes)
		fan_line_add(l, " reminders=%" PRIu64, s->flushes);
	if (s->challenges)
		fan_line_add(l, " challenges=%" PRIu64, s->challenges);
	add_drops(l, s->drops);
}

void fan_line_slots(struct fan_line *l, const struct fan_switch_stats *s, unsigned shard)
{
	l->used = 0;
	fan_line_add(l,
		     "event=slots shard=%u packets=%" PRIu64 " hits=%" PRIu64 " taken=%" PRIu64
		     " completions=%" PRIu64,
		     shard, s->packets, s->hits, s->taken, s->completions);
	fan_line_add(l, " collisions=%" PRIu64 " over_quota=%" PRIu64 " passed=%" PRIu64,
		     s->collisions, s->over_quota, s->passed);
	fan_line_add(l, " preemptions=%" PRIu64 " evictions=%" PRIu64 " flushes=%" PRIu64,
		     s->preemptions, s->evictions, s->flushes);
	fan_line_add(l, " partials=%" PRIu64 " results=%" PRIu64 " unknown=%" PRIu64, s->partials,
		     s->results, s->unknown);
	if (s->progress_sent) /* with run-ahead */
		fan_line_add(l,
			     " progress=%" PRIu64 " yields=%" PRIu64 " lent=%" PRIu64
			     " late=%" PRIu64,
			     s->progress_sent, s->yields, s->lent, s->late);
	add_drops(l, s->drops);
}

void fan_line_slot_stats(struct fan_line *l, const struct fan_slot_stats *t, unsigned shard)
{
	l->used = 0;
	fan_line_add(l, "event=job_slots");
	fan_line_quoted(l, "job", t->name, t->name_bytes);
	fan_line_add(l, " held=%u quota=%u hits=%" PRIu64 " taken=%" PRIu64, t->held, t->quota,
		     t->hits, t->taken);
	fan_line_add(l, " completions=%" PRIu64 " collisions=%" PRIu64 " over_quota=%" PRIu64,
		     t->completions, t->collisions, t->over_quota);
	fan_line_add(l,
		     " passed=%" PRIu64 " preemptions=%" PRIu64 " evictions=%" PRIu64
		     " flushes=%" PRIu64,
		     t->passed, t->preemptions, t->evictions, t->flushes);
	fan_line_add(l, " shard=%u", shard);
}
