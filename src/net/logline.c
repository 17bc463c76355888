/* SPDX-License-Identifier: Apache-2.0 */
#include "logline.h"

#include <inttypes.h>
#include <jansson.h>
#include <string.h>

#include "core/wire/envelope.h"
#include "udp.h"

#define ADDRESS_BYTES 80
#define RANKS_BYTES   (FAN_RANKS_MAX / 2 * 4 + 8) /* text of any set of ranks */

/* A set of ranks as "0,3,5-7"; "none" if it is empty.  Returns `text`, which is at
 * least RANKS_BYTES. */
static const char *ranks_text(const uint64_t *set, char *text, size_t bytes)
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

json_t *fan_json_text(const char *text)
{
	struct fan_text escaped = FAN_LINE();
	json_t *whole = json_string(text);
	if (whole)
		return whole;
	fan_text_escaped(&escaped, text, strlen(text));
	return json_string(escaped.at);
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

static void add_results_by(struct fan_text *l, const struct fan_event *ev,
			   const struct fan_aggregator_config *cfg)
{
	char text[ADDRESS_BYTES];
	fan_peer group = fan_line_group(cfg, ev->job);
	if (ev->multicast)
		fan_text_add(l, " results=multicast group=%s",
			     fan_peer_text(&group, text, sizeof text));
	else
		fan_text_add(l, " results=unicast");
}

static void add_cause(struct fan_text *l, int err)
{
	const char *text = fan_err_text(err);
	fan_text_add(l, " cause=%s", fan_err_name(err));
	if (err)
		fan_text_quoted(l, "text", text, strlen(text));
}

/* Where a rank is: itself, or the switch that it is behind. */
static void add_peer(struct fan_text *l, const fan_peer *p)
{
	char text[ADDRESS_BYTES];
	fan_peer hop = fan_peer_hop(p);
	if (hop.scope == UINT32_MAX) /* node.c */
		fan_text_add(l, " behind=slots");
	else
		fan_text_add(l, " %s=%s", fan_peer_token(p) ? "behind" : "peer",
			     fan_peer_text(&hop, text, sizeof text));
}

/* Add the details that only some kinds of events have. */
static void add_details(struct fan_text *l, const struct fan_event *ev,
			const struct fan_aggregator_config *cfg)
{
	char ranks[RANKS_BYTES];
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
		fan_text_add(l, " blamed=%s", ranks_text(ev->blamed, ranks, sizeof ranks));
		break;
	case FAN_EV_JOB_REMOVED:
		fan_text_add(l, " results=%" PRIu64 " replays=%" PRIu64, ev->results, ev->replays);
		break;
	case FAN_EV_JOB_CREATED: break;
	}
}

void fan_line_event(struct fan_text *l, const struct fan_event *ev, unsigned shard,
		    const struct fan_aggregator_config *cfg)
{
	fan_text_add(l, "event=%s", event_word(ev->kind));
	fan_text_quoted(l, "job", ev->name, strnlen(ev->name, FAN_NAME_MAX));
	if (ev->kind != FAN_EV_RANK_REFUSED)
		fan_text_add(l, " id=%" PRIu32 " epoch=%" PRIu32, ev->job, ev->epoch);
	if (ev->rank != FAN_RANK_NONE)
		fan_text_add(l, " rank=%u", ev->rank);
	fan_text_add(l, " ranks=%u", ev->ranks);
	if (ev->window)
		fan_text_add(l, " window=%u", ev->window);
	add_details(l, ev, cfg);
	fan_text_add(l, " shard=%u", shard);
}

void fan_line_report(struct fan_text *l, const struct fan_report *r, unsigned shard)
{
	char ranks[RANKS_BYTES];
	fan_text_add(l, "event=job");
	fan_text_quoted(l, "job", r->name, r->name_bytes);
	fan_text_add(l, " state=%s ranks=%u window=%u results=%" PRIu64 " replays=%" PRIu64,
		     fan_job_state_text(r->state), r->ranks, r->window, r->results, r->replays);
	fan_text_add(l, " by=%s", r->multicast ? "multicast" : "unicast");
	if (r->state == FAN_JOB_FAILED)
		fan_text_add(l, " cause=%s", fan_err_name(r->err));
	if (r->state == FAN_JOB_READY)
		fan_text_add(l, " waiting=%" PRIu32, r->waiting);
	if (r->state == FAN_JOB_READY && r->waiting)
		fan_text_add(l, " oldest=%" PRIu64, r->oldest);
	if (r->state != FAN_JOB_READY || r->waiting)
		fan_text_add(l, " %s=%s", r->state == FAN_JOB_FAILED ? "blamed" : "waits_for",
			     ranks_text(r->missing, ranks, sizeof ranks));
	fan_text_add(l, " shard=%u", shard);
}
