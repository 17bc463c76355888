/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "gate_priv.h"

void fan_gate_extract(struct fan_gate *g)
{
	for (unsigned i = 0; i < g->cfg.keys.count; i++)
		fan_tenant_extract(g->cfg.cipher, g->extracted[i], g->cfg.keys.key[i]);
}

const struct fan_gate_tenant *fan_gate_tenant_of(struct fan_gate *g, const uint8_t *pkt, size_t len,
						 unsigned of, struct fan_gate_tenant *made)
{
	enum { NAME_BYTES_AT = FAN_HEAD_BYTES + 11, NAME_AT };
	size_t bytes = len > NAME_AT ? pkt[NAME_BYTES_AT] : 0;
	const char *name = (const char *)pkt + NAME_AT;
	if (!bytes || bytes > FAN_TENANT_MAX || len < NAME_AT + bytes)
		return NULL;
	bytes = fan_tenant_bytes(name, bytes);
	for (unsigned i = 0; i < FAN_GATE_TENANTS; i++) {
		const struct fan_gate_tenant *t = &g->tenant[i];
		if (bytes && t->bytes == bytes && t->of == of && !memcmp(t->name, name, bytes))
			return t;
	}
	made->bytes = bytes;
	made->of = of;
	memcpy(made->name, name, bytes);
	if (g->cfg.of_tenant)
		memcpy(made->key, g->cfg.keys.key[of], FAN_KEY_BYTES);
	else
		fan_tenant_expand(g->cfg.cipher, made->key, g->extracted[of], name, bytes);
	return made;
}

/* A JOIN, or the RELAY with `in`, which is one. */
static enum fan_seal_verdict open_join(struct fan_gate *g, const struct fan_seal_inner *in,
				       bool relayed, uint8_t *pkt, size_t *len)
{
	const size_t more = relayed ? FAN_RELAY_MORE : 0;
	struct fan_gate_tenant made;
	if (*len < FAN_HEAD_BYTES + more + FAN_SEAL_MORE)
		return FAN_SEAL_TAG;
	for (unsigned i = 0; i < g->cfg.keys.count; i++) {
		const struct fan_gate_tenant *t =
			fan_gate_tenant_of(g, in->at, in->bytes, i, &made);
		if (!t || !fan_signed_is_by(g->cfg.cipher, t->key, pkt, *len, NULL, 0))
			continue;
		g->join = (struct fan_gate_join){
			.is_open = true, .relayed = relayed, .nonce = in->nonce, .rank = in->rank};
		memcpy(g->join.tenant, t->key, sizeof g->join.tenant);
		memcpy(g->join.to, pkt + *len - FAN_SEAL_MORE - more, more);
		if (t == &made)
			g->tenant[g->next_tenant++ % FAN_GATE_TENANTS] = made;
		*len = fan_signed_open(pkt, *len, more);
		return FAN_SEAL_GOOD;
	}
	return FAN_SEAL_TAG;
}

/* The fresh bytes that `c` was forwarded with.  An answer to them is not a repeated one. */
static void put_question(const struct fan_gate *g, const struct fan_gate_child *c,
			 uint8_t to[FAN_RELAY_MORE])
{
	fan_put64(to, g->hops->instance);
	fan_put64(to + FAN_INSTANCE_BYTES, c->fresh);
}

/* The next hop's answer names a job.  False: it does not, or the job is another tenant's. */
static bool hear_welcome(struct fan_gate *g, const fan_peer *from, const struct fan_seal_inner *in,
			 const struct fan_gate_child *c, const uint8_t *salt)
{
	const struct fan_gate_epoch *l = fan_gate_find_epoch(g, in->job, in->epoch);
	struct fan_traffic t = {.job = in->job & 0xffff, .epoch = in->epoch};
	if (!t.job || (l && memcmp(l->tenant, c->join.tenant, sizeof l->tenant) != 0))
		return false;
	memcpy(t.salt, salt, sizeof t.salt);
	return fan_hops_above(g->hops, from, c->join.tenant, &t);
}

/* The answer to a JOIN that was forwarded. */
static enum fan_seal_verdict open_answer(struct fan_gate *g, const fan_peer *from,
					 const struct fan_seal_inner *in, uint8_t *pkt, size_t *len)
{
	const bool welcome = in->type == FAN_TYPE_WELCOME;
	const size_t more = welcome ? FAN_SEAL_SALT_BYTES : 0;
	uint8_t question[FAN_RELAY_MORE];
	if (!in->token || in->token > g->cfg.children ||
	    *len < 2 * FAN_HEAD_BYTES + more + FAN_SEAL_MORE)
		return FAN_SEAL_TAG;
	struct fan_gate_child *c = &g->child[in->token - 1];
	if (!c->fresh || c->join.nonce != in->nonce || !fan_peer_equal(&c->next, from))
		return FAN_SEAL_TAG;
	put_question(g, c, question);
	if (!fan_signed_is_by(g->cfg.cipher, c->join.tenant, pkt, *len, question,
			      sizeof question) ||
	    (welcome && !hear_welcome(g, from, in, c, pkt + *len - FAN_SEAL_MORE - more)))
		return FAN_SEAL_TAG;
	c->answered = true;
	g->join = c->join;
	*len = fan_signed_open(pkt, *len, more);
	return FAN_SEAL_GOOD;
}

enum fan_seal_verdict fan_gate_open_signed(struct fan_gate *g, const fan_peer *from,
					   const struct fan_seal_head *h, uint8_t *pkt, size_t *len)
{
	struct fan_seal_inner in = {.rank = h->sender, .nonce = 0};
	if (h->type == FAN_TYPE_JOIN) {
		in.nonce = fan_wire_nonce(pkt);
		in.at = pkt;
		in.bytes = *len;
		return open_join(g, &in, false, pkt, len);
	}
	if (!fan_seal_inner_get(&in, pkt, pkt + FAN_HEAD_BYTES, *len - FAN_HEAD_BYTES))
		return FAN_SEAL_TAG;
	switch (in.type) {
	case FAN_TYPE_JOIN: return open_join(g, &in, true, pkt, len);
	case FAN_TYPE_WELCOME:
	case FAN_TYPE_REFUSE:
	case FAN_TYPE_STATE: return open_answer(g, from, &in, pkt, len);
	default: return FAN_SEAL_TAG;
	}
}

bool fan_gate_is_answer(const struct fan_gate *g, const struct fan_seal_head *h,
			const struct fan_out_item *it, const struct fan_seal_inner *in)
{
	const uint8_t type = in->at ? in->type : h->type;
	const bool answers =
		type == FAN_TYPE_WELCOME || type == FAN_TYPE_REFUSE || type == FAN_TYPE_STATE;
	return answers && it->dest == FAN_TO_PEER && g->join.relayed == (in->at != NULL) &&
	       (in->at ? in->nonce : fan_wire_nonce(it->head)) == g->join.nonce;
}

bool fan_gate_sign(struct fan_gate *g, const struct fan_seal_head *h, struct fan_out_item *it,
		   const struct fan_seal_inner *in, uint8_t *to)
{
	struct fan_signed_with w = {.more = NULL};
	if ((in->at ? in->type : h->type) == FAN_TYPE_WELCOME) {
		const struct fan_gate_epoch *l =
			fan_gate_answer_epoch(g, h->job, h->epoch, &it->peer);
		if (!l)
			return false;
		w.more = l->traffic.salt;
		w.more_bytes = FAN_SEAL_SALT_BYTES;
	}
	if (g->join.relayed) {
		w.known = g->join.to;
		w.known_bytes = FAN_RELAY_MORE;
	}
	fan_sign_item(g->cfg.cipher, g->join.tenant, it, to, &w);
	return true;
}

bool fan_gate_sign_join(struct fan_gate *g, struct fan_out_item *it,
			const struct fan_seal_inner *in, uint8_t *to)
{
	uint8_t question[FAN_RELAY_MORE];
	const struct fan_signed_with w = {.more = question, .more_bytes = sizeof question};
	if (!g->join.is_open || in->nonce != g->join.nonce || !in->token ||
	    in->token > g->cfg.children)
		return false;
	struct fan_gate_child *c = &g->child[in->token - 1];
	if (!c->fresh || c->answered || c->join.nonce != in->nonce ||
	    !fan_peer_equal(&c->next, &it->peer)) {
		c->fresh = ++g->fresh;
		c->answered = false;
	}
	c->join = g->join;
	c->next = it->peer;
	put_question(g, c, question);
	fan_sign_item(g->cfg.cipher, g->join.tenant, it, to, &w);
	return true;
}
