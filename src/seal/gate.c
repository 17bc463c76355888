/* SPDX-License-Identifier: Apache-2.0 */
#include "gate_priv.h"

#include <stdlib.h>
#include <string.h>

#include "core/wire/envelope.h"

/* ---- tenants ---- */

static void extract(struct fan_gate *g)
{
	for (unsigned i = 0; i < g->cfg.keys.count; i++)
		fan_tenant_extract(g->cfg.cipher, g->extracted[i], g->cfg.keys.key[i]);
}

/* The key of the tenant of a JOIN's name, from key `of` of the fabric.  NULL: no name. */
static const struct fan_gate_tenant *tenant_of(struct fan_gate *g, const uint8_t *pkt, size_t len,
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

/* ---- towards a parent ---- */

/* The uplink whose JOIN had this nonce; NULL: none. */
static struct fan_gate_uplink *uplink_of_nonce(struct fan_gate *g, uint64_t nonce)
{
	for (unsigned i = 0; i < FAN_GATE_PLACES; i++)
		if (g->uplink[i].rank.cipher && g->uplink[i].rank.nonce == nonce)
			return &g->uplink[i];
	return NULL;
}

/* The uplink that a packet is from or for: by its nonce, if it has one.  By job and epoch only one
 * that has taken part in it: whose JOIN was repeated by somebody else may have got them, too.
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
	const struct fan_gate_tenant *t = tenant_of(g, pkt, fan_out_item_copy(join, pkt), 0, &made);
	for (unsigned i = 1; i < FAN_GATE_PLACES; i++)
		if (g->uplink[i].used_ns < u->used_ns)
			u = &g->uplink[i];
	if (!t)
		return NULL;
	fan_seal_rank_free(&u->rank);
	fan_seal_rank_init(&u->rank, g->cfg.cipher, t->key);
	return u;
}

static bool close_upwards(struct fan_gate *g, const struct fan_seal_head *h,
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

static size_t recv_from_parent(struct fan_gate *g, const struct fan_seal_head *h, uint8_t *pkt,
			       size_t len)
{
	struct fan_gate_uplink *u = len >= FAN_HEAD_BYTES ? find_uplink(g, h, pkt) : NULL;
	size_t opened = u ? fan_seal_rank_recv(&u->rank, g->now_ns, pkt, len) : 0;
	g->stats.opened += opened != 0;
	g->stats.drops[h->sealed ? FAN_SEAL_TAG : FAN_SEAL_CLEAR] += !opened;
	return opened;
}

#define STRIDE_STEP 64
#define RANKS_AT    18 /* of a RELAY: 0, it concerns no job */

/* Allocate what the gate needs for its shard's parent and next hop. */
static bool make_tables(struct fan_gate *g)
{
	const struct fan_gate_config *cfg = &g->cfg;
	if (!fan_peer_is_none(&cfg->parent) &&
	    !(g->uplink = calloc(FAN_GATE_PLACES, sizeof *g->uplink)))
		return false;
	if (!fan_gate_make_lives(g))
		return false;
	if (!cfg->children)
		return true;
	g->child = calloc(cfg->children, sizeof *g->child);
	g->hops = fan_hops_new(cfg->cipher);
	return g->child && g->hops;
}

struct fan_gate *fan_gate_new(const struct fan_gate_config *cfg)
{
	struct fan_gate *g = calloc(1, sizeof *g);
	size_t bytes =
		cfg->payload_bytes > FAN_CTL_BYTES_MAX ? cfg->payload_bytes : FAN_CTL_BYTES_MAX;
	uint8_t test;
	if (!g)
		return NULL;
	g->cfg = *cfg;
	extract(g);
	g->stride = (bytes + FAN_BITMAP_MAX + FAN_SEAL_ROOM + STRIDE_STEP - 1) / STRIDE_STEP *
		    STRIDE_STEP;
	g->space = malloc(cfg->items * g->stride);
	if (!make_tables(g) || !g->space || !cfg->cipher->random(&test, sizeof test)) {
		fan_gate_free(g);
		return NULL;
	}
	return g;
}

void fan_gate_free(struct fan_gate *g)
{
	if (!g)
		return;
	fan_gate_free_lives(g);
	for (unsigned i = 0; i < FAN_GATE_PLACES && g->uplink; i++)
		fan_seal_rank_free(&g->uplink[i].rank);
	free(g->uplink);
	fan_hops_free(g->hops);
	if (g->child)
		explicit_bzero(g->child, g->cfg.children * sizeof *g->child);
	free(g->child);
	free(g->space);
	explicit_bzero(g, sizeof *g);
	free(g);
}

void fan_gate_set_keys(struct fan_gate *g, const struct fan_keys *keys)
{
	g->cfg.keys = *keys;
	extract(g);
	explicit_bzero(g->tenant, sizeof g->tenant);
}

const struct fan_gate_stats *fan_gate_stats(const struct fan_gate *g)
{
	return &g->stats;
}

/* ---- JOINs, and their answers, in ---- */

/* A JOIN, or the RELAY with `in`, which is one. */
static enum fan_seal_verdict open_join(struct fan_gate *g, const struct fan_seal_inner *in,
				       bool relayed, uint8_t *pkt, size_t *len)
{
	const size_t more = relayed ? FAN_RELAY_MORE : 0;
	struct fan_gate_tenant made;
	if (*len < FAN_HEAD_BYTES + more + FAN_SEAL_MORE)
		return FAN_SEAL_TAG;
	for (unsigned i = 0; i < g->cfg.keys.count; i++) {
		const struct fan_gate_tenant *t = tenant_of(g, in->at, in->bytes, i, &made);
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

/* Open a JOIN, in a RELAY or not, or, at a switch, a RELAY that answers one, and keep it as
 * g->join. */
static enum fan_seal_verdict open_signed(struct fan_gate *g, const fan_peer *from,
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

/* ---- in ---- */

static bool is_parent(const struct fan_gate *g, const fan_peer *p)
{
	return g->uplink && fan_peer_equal(p, &g->cfg.parent);
}

bool fan_seal_refuse(const uint8_t *pkt, size_t len, const fan_peer *to, bool have,
		     struct fan_out *out)
{
	const struct fan_refuse no = {
		.err = FAN_E_SEALED, .rank = FAN_RANK_NONE, .have = have, .want = !have};
	const bool relayed = pkt[1] == FAN_TYPE_RELAY;
	const uint8_t *join = relayed ? pkt + FAN_HEAD_BYTES : pkt;
	const size_t bytes = relayed ? len - FAN_HEAD_BYTES : len;
	struct fan_seal_inner in = {.token = 0};
	if ((relayed && !fan_seal_inner_get(&in, pkt, join, bytes)) || join[1] != FAN_TYPE_JOIN ||
	    bytes < FAN_HEAD_BYTES + FAN_CTL_UP_MIN || (relayed && !in.token))
		return false;
	struct fan_out_item *it = fan_out_add(out, FAN_TO_PEER);
	uint8_t *body = fan_out_scratch(out, FAN_CTL_BYTES_MAX);
	struct fan_frag h = {
		.nonce = fan_wire_nonce(join),
		.job = fan_get32(join + 4),
		.sender = FAN_RANK_NONE,
		.type = FAN_TYPE_REFUSE,
	};
	const struct fan_envelope v = {.token = in.token};
	it->peer = *to;
	fan_ctl_finish(it, &h, body, fan_ctl_put(body, &no));
	if (relayed)
		fan_envelope_put(it, out, &v, h.job, 0, it->head, it->payload, it->payload_bytes);
	return true;
}

/* Does the next hop claim to have no key?  The receiving rank decides whether to believe it. */
static bool is_open_above(const struct fan_gate *g, const uint8_t *pkt, size_t len)
{
	struct fan_seal_inner in;
	if (!g->child || pkt[1] != FAN_TYPE_RELAY ||
	    !fan_seal_inner_get(&in, pkt, pkt + FAN_HEAD_BYTES, len - FAN_HEAD_BYTES))
		return false;
	return in.type == FAN_TYPE_REFUSE && in.token && in.token <= g->cfg.children &&
	       g->child[in.token - 1].fresh && !g->child[in.token - 1].answered &&
	       in.nonce == g->child[in.token - 1].join.nonce && !fan_get16(pkt + RANKS_AT) &&
	       in.bytes > FAN_HEAD_BYTES && (int8_t)in.at[FAN_HEAD_BYTES] == FAN_E_SEALED;
}

static void close_items(struct fan_gate *g, struct fan_out *out, bool answers);

/* Packets in clear: queries, which anybody may send, and JOINs, which are refused. */
static size_t recv_clear(struct fan_gate *g, const struct fan_seal_head *h, const fan_peer *from,
			 const uint8_t *pkt, size_t len, struct fan_out *out)
{
	if (h->type == FAN_TYPE_QUERY || is_open_above(g, pkt, len))
		return len;
	if ((h->type == FAN_TYPE_JOIN || h->type == FAN_TYPE_RELAY) &&
	    fan_wire_is_whole(pkt, len) && fan_seal_refuse(pkt, len, from, true, out)) {
		g->stats.refused++;
		return 0;
	}
	g->stats.drops[FAN_SEAL_CLEAR]++;
	return 0;
}

/* The life of the job in which that rank has keys; NULL: none. */
static struct fan_gate_epoch *epoch_of(struct fan_gate *g, const struct fan_seal_head *h)
{
	struct fan_gate_epoch *l = fan_gate_find_epoch(g, h->job, h->epoch);
	return l && h->sender < FAN_RANKS_MAX && l->peer[h->sender] ? l : NULL;
}

bool fan_gate_is_known(struct fan_gate *g, const uint8_t *pkt, size_t len)
{
	struct fan_seal_head h;
	if (!fan_seal_head(&h, pkt, len) || h.sealed || h.type != FAN_TYPE_DATA)
		return false;
	struct fan_gate_epoch *l = epoch_of(g, &h);
	if (l)
		fan_gate_note_packet(g, l);
	return l;
}

static enum fan_seal_verdict open_by_rank(struct fan_gate *g, const struct fan_seal_head *h,
					  uint8_t *pkt, size_t *len)
{
	struct fan_gate_epoch *l = epoch_of(g, h);
	if (!l)
		return FAN_SEAL_TAG;
	struct fan_gate_peer *p = l->peer[h->sender];
	enum fan_seal_verdict v =
		fan_seal_open(g->cfg.cipher, p->up, &p->heard, FAN_REPLAY_UP, pkt, len);
	if (v == FAN_SEAL_GOOD) {
		g->stats.opened++;
		fan_gate_note_packet(g, l);
	}
	return v;
}

/* Is an opened RELAY about the job that it was sealed for?  True of all other types.  The keys of
 * one job must not allow messages about others. */
static bool is_of_one_job(const struct fan_seal_head *h, const uint8_t *pkt, size_t len)
{
	struct fan_seal_inner in;
	if (h->type != FAN_TYPE_RELAY)
		return true;
	return fan_seal_inner_get(&in, pkt, pkt + FAN_HEAD_BYTES, len - FAN_HEAD_BYTES) &&
	       in.job == h->job && in.epoch == h->epoch && in.type != FAN_TYPE_JOIN &&
	       in.type != FAN_TYPE_WELCOME && in.type != FAN_TYPE_REFUSE;
}

static enum fan_seal_verdict open_sealed(struct fan_gate *g, const fan_peer *from,
					 const struct fan_seal_head *h, uint8_t *pkt, size_t *len)
{
	enum fan_seal_verdict v;
	if (!g->hops || !fan_hops_open(g->hops, from, h, pkt, len, &v))
		v = open_by_rank(g, h, pkt, len);
	else if (v == FAN_SEAL_GOOD) {
		struct fan_gate_epoch *l = fan_gate_find_epoch(g, h->job, h->epoch);
		g->stats.opened++;
		if (l)
			fan_gate_note_packet(g, l);
	}
	return v == FAN_SEAL_GOOD && !is_of_one_job(h, pkt, *len) ? FAN_SEAL_TAG : v;
}

size_t fan_gate_recv(struct fan_gate *g, uint64_t now_ns, const fan_peer *from, uint8_t *pkt,
		     size_t len, struct fan_out *out)
{
	struct fan_seal_head h;
	g->now_ns = now_ns;
	if (!fan_seal_head(&h, pkt, len)) /* another version: the core reports it */
		return len;
	if (is_parent(g, from) && h.type != FAN_TYPE_QUERY)
		return recv_from_parent(g, &h, pkt, len);
	if (!h.sealed)
		return recv_clear(g, &h, from, pkt, len, out);
	const bool is_signed = h.type == FAN_TYPE_JOIN || (h.type == FAN_TYPE_RELAY && h.is_signed);
	enum fan_seal_verdict v = is_signed ? open_signed(g, from, &h, pkt, &len)
					    : open_sealed(g, from, &h, pkt, &len);
	g->stats.drops[v] += v != FAN_SEAL_GOOD;
	if (g->join.is_open) { /* earlier items of `out` do not answer it */
		close_items(g, out, false);
		g->done = out->count;
	}
	return v == FAN_SEAL_GOOD ? len : 0;
}

bool fan_gate_is_join(const struct fan_gate *g)
{
	return g->join.is_open;
}

/* ---- JOINs, and their answers, out ---- */

/* Does the item, with inner message `in` if it is a RELAY, answer g->join? */
static bool is_answer(const struct fan_gate *g, const struct fan_seal_head *h,
		      const struct fan_out_item *it, const struct fan_seal_inner *in)
{
	const uint8_t type = in->at ? in->type : h->type;
	const bool answers =
		type == FAN_TYPE_WELCOME || type == FAN_TYPE_REFUSE || type == FAN_TYPE_STATE;
	return answers && it->dest == FAN_TO_PEER && g->join.relayed == (in->at != NULL) &&
	       (in->at ? in->nonce : fan_wire_nonce(it->head)) == g->join.nonce;
}

/* Sign such an item.  False: it must not be sent. */
static bool sign_answer(struct fan_gate *g, const struct fan_seal_head *h, struct fan_out_item *it,
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

/* Sign the RELAY with g->join for the next hop. */
static bool sign_join(struct fan_gate *g, struct fan_out_item *it, const struct fan_seal_inner *in,
		      uint8_t *to)
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

/* ---- out ---- */

static bool seal(struct fan_gate *g, const struct fan_seal_head *h, struct fan_out_item *it,
		 uint8_t *to)
{
	struct fan_gate_epoch *l = fan_gate_find_epoch(g, h->job, h->epoch);
	return l && fan_seal_item(g->cfg.cipher, l->down, ++l->sent, it, to);
}

/* Does the item, which is no RELAY, go up if it goes to a next hop?  On a route, a neighbour may be
 * below as well, and then gets items for below under that key: it may have lost its key as a next
 * hop in a restart, and no item that goes up would bring it another one. */
static bool goes_up(const struct fan_seal_head *h, const struct fan_out_item *it)
{
	switch (h->type) {
	case FAN_TYPE_DATA:
	case FAN_TYPE_PARTIAL:
	case FAN_TYPE_PROBE: return !it->down;
	case FAN_TYPE_MISS:
	case FAN_TYPE_PROGRESS: return !it->down && h->sender != FAN_RANK_NONE;
	default: return false;
	}
}

/* Seal an item to a switch, or to a switch's aggregator.  A RELAY up carries the job of its inner
 * message, so that its receiver finds the key. */
static bool seal_to_peer(struct fan_gate *g, struct fan_seal_head *h, struct fan_out_item *it,
			 const struct fan_seal_inner *in, uint8_t *to)
{
	const bool up = in->at && (in->type == FAN_TYPE_BEAT || in->type == FAN_TYPE_LEAVE);
	if (up) {
		h->job = in->job;
		h->epoch = in->epoch;
		fan_put32(it->head + 4, h->job);
		fan_put32(it->head + 8, h->epoch);
	}
	struct fan_hop *hop = up || (!in->at && goes_up(h, it))
				      ? fan_hops_find_above(g->hops, &it->peer, h->job, h->epoch)
				      : NULL;
	if (hop)
		return fan_hops_seal(g->hops, hop, it, to);
	return !up && seal(g, h, it, to);
}

/* One item.  False: remove it. */
static bool close_item(struct fan_gate *g, struct fan_out_item *it, uint8_t *to, bool answers)
{
	struct fan_seal_inner in = {.at = NULL};
	struct fan_seal_head h;
	if (!fan_seal_head(&h, it->head, FAN_HEAD_BYTES) || h.type == FAN_TYPE_REPORT ||
	    it->dest == FAN_TO_NOBODY)
		return true;
	if (h.type == FAN_TYPE_RELAY &&
	    !fan_seal_inner_get(&in, it->head, it->payload, it->payload_bytes))
		return false;
	if ((in.at ? in.type : h.type) == FAN_TYPE_REFUSE && !answers)
		return true; /* in clear, to or from a peer without a key */
	if (it->payload_bytes + FAN_SEAL_ROOM > g->stride)
		return false;
	if (it->dest == FAN_TO_PEER && is_parent(g, &it->peer))
		return close_upwards(g, &h, it, to);
	if (answers && is_answer(g, &h, it, &in))
		return sign_answer(g, &h, it, &in, to);
	if (in.at && in.type == FAN_TYPE_JOIN)
		return answers && g->child && sign_join(g, it, &in, to);
	if (it->dest == FAN_TO_PEER && g->hops)
		return seal_to_peer(g, &h, it, &in, to);
	return seal(g, &h, it, to);
}

/* Items from g->done on. */
static void close_items(struct fan_gate *g, struct fan_out *out, bool answers)
{
	unsigned kept = g->done;
	for (unsigned i = g->done; i < out->count; i++) {
		struct fan_out_item *it = &out->item[i];
		uint8_t *to = g->space + g->used + FAN_HEAD_BYTES;
		if (!close_item(g, it, to, answers)) {
			g->stats.unsent++;
			continue;
		}
		if (it->payload == to)
			g->used += fan_out_item_lay(it, to);
		if (kept < i)
			out->item[kept] = *it;
		kept++;
	}
	out->count = kept;
}

void fan_gate_answer(struct fan_gate *g, struct fan_out *out)
{
	close_items(g, out, true);
	g->done = out->count;
	g->join.is_open = false;
}

void fan_gate_send(struct fan_gate *g, uint64_t now_ns, struct fan_out *out)
{
	g->now_ns = now_ns;
	close_items(g, out, false);
	g->done = 0;
	g->used = 0;
}
