/* SPDX-License-Identifier: Apache-2.0 */
#include "gate_priv.h"

/* The uplink whose JOIN had this nonce; NULL: none. */
static struct fan_gate_uplink *uplink_of_nonce(struct fan_gate *g, uint64_t nonce)
{
	for (unsigned i = 0; i < FAN_GATE_PLACES; i++)
		if (g->uplink[i].rank.cipher && g->uplink[i].rank.nonce == nonce)
			return &g->uplink[i];
	return NULL;
}

/* The uplink that a packet is from or for: by its nonce, if it has one.  By job and epoch only one
 * that has taken part in it: whose JOIN was repeated by somebody else may have been told them, too.
 */
static struct fan_gate_uplink *find_uplink(struct fan_gate *g, const struct fan_seal_head *h,
					   const uint8_t *pkt)
{
	if (h->type >= FAN_TYPE_CTL && fan_wire_nonce(pkt))
		return uplink_of_nonce(g, fan_wire_nonce(pkt));
	for (unsigned i = 0; i < FAN_GATE_PLACES; i++)
		if (fan_seal_rank_is_in(&g->uplink[i].rank, h->job, h->epoch))
			return &g->uplink[i];
	return NULL;
}

/* A JOIN of another life replaces the uplink that has been silent for longest: there are as many
 * uplinks as jobs at a time, and those of live jobs send BEATs. */
static struct fan_gate_uplink *begin_uplink(struct fan_gate *g, const struct fan_out_item *join)
{
	uint8_t pkt[FAN_HEAD_BYTES + FAN_CTL_BYTES_MAX];
	struct fan_gate_uplink *u = &g->uplink[0];
	struct fan_gate_tenant made;

	if (join->payload_bytes > FAN_CTL_BYTES_MAX)
		return NULL;
	const struct fan_gate_tenant *t =
		fan_gate_tenant_of(g, pkt, fan_out_item_copy(join, pkt), 0, &made);
	for (unsigned i = 1; i < FAN_GATE_PLACES; i++)
		if (g->uplink[i].used_ns < u->used_ns)
			u = &g->uplink[i];
	if (!t)
		return NULL;
	fan_seal_rank_free(&u->rank);
	fan_seal_rank_init(&u->rank, g->cfg.cipher, t->key);
	return u;
}

bool fan_gate_close_upwards(struct fan_gate *g, const struct fan_seal_head *h,
			    struct fan_out_item *it, uint8_t *to)
{
	struct fan_gate_uplink *u = find_uplink(g, h, it->head);

	if (!u && h->type == FAN_TYPE_JOIN)
		u = begin_uplink(g, it);
	if (!u)
		return false;
	u->used_ns = g->now_ns;
	return fan_seal_rank_item(&u->rank, g->now_ns, it, to);
}

size_t fan_gate_recv_from_parent(struct fan_gate *g, const struct fan_seal_head *h, uint8_t *pkt,
				 size_t len)
{
	struct fan_gate_uplink *u = len >= FAN_HEAD_BYTES ? find_uplink(g, h, pkt) : NULL;
	size_t opened = u ? fan_seal_rank_recv(&u->rank, g->now_ns, pkt, len) : 0;
	g->stats.opened += opened != 0;
	g->stats.drops[h->sealed ? FAN_SEAL_TAG : FAN_SEAL_CLEAR] += !opened;
	return opened;
}
