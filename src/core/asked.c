/* SPDX-License-Identifier: Apache-2.0 */
#include "asked.h"

void fan_asked_prepare(uint8_t *body, const struct fan_echoed *who)
{
	static const char version[] = FAN_BUILD_VERSION;
	_Static_assert(sizeof version <= FAN_VERSION_MAX + 1, "too long for an ECHOED");
	struct fan_echoed m = *who;
	m.version_bytes = sizeof version - 1;
	memcpy(m.version, version, sizeof version);
	memset(body, 0, FAN_ECHO_MAX);
	fan_echoed_put(body, &m);
}

void fan_asked_put(const fan_peer *to, enum fan_type type, const struct fan_frag *question,
		   const uint8_t *body, size_t bytes, struct fan_out *out)
{
	struct fan_frag h = {
		.frag = question->frag,
		.sender = FAN_RANK_NONE,
		.type = (uint8_t)type,
	};
	struct fan_out_item *it = fan_out_add(out, FAN_TO_PEER);
	it->peer = *to;
	fan_ctl_finish(it, &h, body, bytes);
}

bool fan_asked_echo(const uint8_t *body, const fan_peer *from, const struct fan_frag *f,
		    struct fan_out *out)
{
	struct fan_echo m;
	if (fan_echo_get(&m, f) != FAN_OK)
		return false;
	fan_asked_put(from, FAN_TYPE_ECHOED, f, body,
		      m.answer_bytes ? m.answer_bytes : m.body_bytes, out);
	return true;
}

void fan_asked_foreign(const fan_peer *from, const uint8_t *pkt, size_t len, struct fan_out *out)
{
	if ((pkt[1] != FAN_TYPE_JOIN && pkt[1] != FAN_TYPE_ECHO) || !fan_wire_is_whole(pkt, len))
		return;
	const struct fan_frag question = {.frag = fan_get64(pkt + 16)};
	const struct fan_refuse no = {
		.err = FAN_E_VERSION,
		.rank = FAN_RANK_NONE,
		.have = FAN_WIRE_VERSION,
		.want = pkt[0],
	};
	uint8_t *body = fan_out_scratch(out, FAN_CTL_BYTES_MAX);
	fan_asked_put(from, FAN_TYPE_REFUSE, &question, body, fan_refuse_put(body, &no), out);
}
