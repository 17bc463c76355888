/* SPDX-License-Identifier: Apache-2.0 */
#include "via.h"

/* What a switch must know of a job, in the header's fragment number. */
static uint64_t pack(const struct fan_via *v)
{
	if (!v->ranks)
		return 0;
	return (uint64_t)(v->rank & 0xff) | (uint64_t)((v->ranks - 1) & 0xff) << 8 |
	       (uint64_t)v->window << 16 | (uint64_t)v->payload_bytes << 32;
}

static bool unpack(struct fan_via *v, uint64_t packed)
{
	v->rank = packed & 0xff;
	v->ranks = (uint16_t)(packed ? (packed >> 8 & 0xff) + 1 : 0);
	v->window = (uint16_t)(packed >> 16);
	v->payload_bytes = (uint16_t)(packed >> 32);
	if (!packed)
		return true;
	return packed >> 48 == 0 && v->ranks >= 2 && v->rank < v->ranks && v->window >= 1 &&
	       v->window <= FAN_AHEAD_MAX && v->payload_bytes >= FAN_PAYLOAD_MIN &&
	       v->payload_bytes <= FAN_PAYLOAD_MAX;
}

enum fan_err fan_via_get(struct fan_via *v, const struct fan_frag *f)
{
	v->token = f->sender;
	v->hops = f->priority;
	v->inner = f->payload;
	v->inner_bytes = f->payload_bytes;
	if (v->inner_bytes < FAN_HEAD_BYTES)
		return FAN_E_SHORT;
	if (!v->token || v->inner_bytes > FAN_CTL_BYTES_MAX || v->hops > FAN_VIA_HOPS_MAX)
		return FAN_E_FORMAT;
	return unpack(v, f->frag) ? FAN_OK : FAN_E_FORMAT;
}

bool fan_via_put(struct fan_out_item *it, struct fan_out *out, const struct fan_via *v,
		 uint32_t job, uint32_t epoch, const uint8_t *head, const uint8_t *body,
		 size_t body_bytes)
{
	uint8_t *inner = fan_out_scratch(out, FAN_HEAD_BYTES + body_bytes);
	if (!inner)
		return false;
	memcpy(inner, head, FAN_HEAD_BYTES);
	if (body_bytes)
		memcpy(inner + FAN_HEAD_BYTES, body, body_bytes);
	struct fan_frag h = {
		.frag = pack(v),
		.job = job,
		.epoch = epoch,
		.sender = v->token,
		.type = FAN_TYPE_VIA,
		.priority = v->hops,
	};
	fan_ctl_finish(it, &h, inner, FAN_HEAD_BYTES + body_bytes);
	return true;
}
