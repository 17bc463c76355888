/* SPDX-License-Identifier: Apache-2.0 */
#include "envelope.h"

/* Is what a switch must know of a job in its range?  Nothing at all is. */
static bool is_sane(const struct fan_envelope *v)
{
	if (!v->ranks)
		return true;
	return v->ranks >= 2 && v->ranks <= FAN_RANKS_MAX && v->rank < v->ranks && v->window >= 1 &&
	       v->window <= FAN_AHEAD_MAX && v->payload_bytes >= FAN_PAYLOAD_MIN &&
	       v->payload_bytes <= FAN_PAYLOAD_MAX;
}

enum fan_err fan_envelope_get(struct fan_envelope *v, const struct fan_frag *f)
{
	v->token = f->relay.token;
	v->hops = f->relay.hops;
	v->rank = f->relay.rank;
	v->ranks = f->relay.ranks;
	v->window = f->relay.window;
	v->payload_bytes = f->relay.payload_bytes;
	v->inner = f->payload;
	v->inner_bytes = f->payload_bytes;
	if (v->inner_bytes < FAN_HEAD_BYTES)
		return FAN_E_SHORT;
	if (!v->token || v->inner_bytes > FAN_CTL_BYTES_MAX || v->hops > FAN_ENVELOPE_HOPS_MAX)
		return FAN_E_FORMAT;
	return is_sane(v) ? FAN_OK : FAN_E_FORMAT;
}

void fan_envelope_put(struct fan_out_item *it, struct fan_out *out, const struct fan_envelope *v,
		      uint32_t job, uint32_t epoch, const uint8_t *head, const uint8_t *body,
		      size_t body_bytes)
{
	uint8_t *inner = fan_out_scratch(out, FAN_HEAD_BYTES + body_bytes);
	memcpy(inner, head, FAN_HEAD_BYTES);
	if (body_bytes)
		memcpy(inner + FAN_HEAD_BYTES, body, body_bytes);
	struct fan_frag h = {
		.job = job,
		.epoch = epoch,
		.sender = FAN_RANK_NONE,
		.type = FAN_TYPE_RELAY,
		.relay = {.token = v->token, .hops = v->hops},
	};
	if (v->ranks) {
		h.relay.rank = (uint8_t)v->rank;
		h.relay.ranks = v->ranks;
		h.relay.window = v->window;
		h.relay.payload_bytes = v->payload_bytes;
	}
	fan_ctl_finish(it, &h, inner, FAN_HEAD_BYTES + body_bytes);
}
