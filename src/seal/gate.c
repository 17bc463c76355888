/* SPDX-License-Identifier: Apache-2.0 */
#include "gate.h"

#include <stdlib.h>
#include <string.h>

#include "core/wire/ctlmsg.h"
#include "rank.h"

#define PLACES	    FAN_GROUPS_MAX /* of jobs, the low byte of their number */
#define STRIDE_STEP 64

/* One life of a rank, whose key is not that of another. */
struct peer {
	uint64_t nonce;
	void *up;
	struct fan_replay heard;
};

/* One life of a job. */
struct life {
	struct fan_traffic traffic; /* job 0: none */
	uint8_t tenant[FAN_KEY_BYTES];
	void *down;
	uint64_t sent;	  /* counter of the last packet */
	uint64_t used_at; /* packet of the gate that was opened last for it */
	unsigned ranks;	  /* in `peer` */
	struct peer *peer[FAN_RANKS_MAX];
};

/* A JOIN that has been opened, until it is answered. */
struct join {
	bool is_open;
	uint64_t nonce;
	uint16_t rank;
	uint8_t tenant[FAN_KEY_BYTES];
};

struct tenant {
	size_t bytes; /* of the name; 0: none */
	char name[FAN_TENANT_MAX];
	unsigned of; /* the key of the fabric that it is made from */
	uint8_t key[FAN_KEY_BYTES];
};

struct uplink {
	struct fan_seal_rank rank;
	uint64_t used_ns;
};

struct fan_gate {
	struct fan_gate_config cfg;
	uint8_t extracted[FAN_KEYS_MAX][FAN_MAC_BYTES]; /* from cfg.keys, for those of tenants */
	struct fan_gate_stats stats;
	struct life life[PLACES][FAN_GATE_LIVES]; /* the later one first */
	struct join join;
	struct tenant tenant[FAN_GATE_TENANTS]; /* those whose JOINs were good, in a ring */
	unsigned next_tenant;
	struct uplink *uplink; /* PLACES of them; NULL: there is no parent */
	uint64_t now_ns;
	size_t stride;
	unsigned done;	/* items of `out` that are as they are sent */
	uint8_t *space; /* cfg.items places of `stride` bytes */
};

static void extract(struct fan_gate *g)
{
	for (unsigned i = 0; i < g->cfg.keys.count; i++)
		fan_tenant_extract(g->cfg.cipher, g->extracted[i], g->cfg.keys.key[i]);
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
	g->stride = (bytes + FAN_BITMAP_MAX + 2 * FAN_SEAL_MORE + STRIDE_STEP - 1) / STRIDE_STEP *
		    STRIDE_STEP;
	g->space = malloc(cfg->items * g->stride);
	if (!fan_peer_is_none(&cfg->parent))
		g->uplink = calloc(PLACES, sizeof *g->uplink);
	if (!g->space || (!g->uplink && !fan_peer_is_none(&cfg->parent)) ||
	    !cfg->cipher->random(&test, sizeof test)) {
		fan_gate_free(g);
		return NULL;
	}
	return g;
}

static void free_peer(struct fan_gate *g, struct life *l, unsigned rank)
{
	struct peer *p = l->peer[rank];

	if (!p)
		return;
	g->cfg.cipher->close(p->up);
	free(p);
	l->peer[rank] = NULL;
	l->ranks--;
	g->stats.ranks--;
}

static void free_life(struct fan_gate *g, struct life *l)
{
	if (!l->traffic.job)
		return;
	for (unsigned r = 0; r < FAN_RANKS_MAX; r++)
		free_peer(g, l, r);
	g->cfg.cipher->close(l->down);
	explicit_bzero(l, sizeof *l);
}

void fan_gate_free(struct fan_gate *g)
{
	if (!g)
		return;
	for (unsigned i = 0; i < PLACES; i++)
		for (unsigned k = 0; k < FAN_GATE_LIVES; k++)
			free_life(g, &g->life[i][k]);
	for (unsigned i = 0; i < PLACES && g->uplink; i++)
		fan_seal_rank_free(&g->uplink[i].rank);
	free(g->uplink);
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

/* The life that is called so; NULL: none, or no more. */
static struct life *find_life(struct fan_gate *g, uint32_t job, uint32_t epoch)
{
	unsigned place = job & 0xff;

	for (unsigned k = 0; k < FAN_GATE_LIVES && place < PLACES; k++) {
		struct life *l = &g->life[place][k];
		if (l->traffic.job && l->traffic.job == (job & 0xffff) && l->traffic.epoch == epoch)
			return l;
	}
	return NULL;
}

/* Keys of those who have not been heard for longest give way: of more than can live, one is dead.
 */
static void make_room(struct fan_gate *g)
{
	struct life *oldest = NULL;

	for (unsigned i = 0; i < PLACES; i++)
		for (unsigned k = 0; k < FAN_GATE_LIVES; k++) {
			struct life *l = &g->life[i][k];
			if (l->traffic.job && l->ranks && (!oldest || l->used_at < oldest->used_at))
				oldest = l;
		}
	if (oldest)
		free_life(g, oldest);
}

/* A life that begins, at the place of its number.  NULL: not now. */
static struct life *begin_life(struct fan_gate *g, uint32_t job, uint32_t epoch)
{
	unsigned place = job & 0xff;
	struct life *l = &g->life[place][0], fresh = {.traffic = {job & 0xffff, epoch, {0}}};
	uint8_t key[FAN_CIPHER_KEY_BYTES];

	if (place >= PLACES || !g->cfg.cipher->random(fresh.traffic.salt, FAN_SEAL_SALT_BYTES))
		return NULL;
	memcpy(fresh.tenant, g->join.tenant, sizeof fresh.tenant);
	fan_traffic_down(g->cfg.cipher, key, fresh.tenant, &fresh.traffic);
	fresh.down = g->cfg.cipher->open(key);
	explicit_bzero(key, sizeof key);
	if (!fresh.down)
		return NULL;
	free_life(g, &g->life[place][FAN_GATE_LIVES - 1]);
	g->life[place][FAN_GATE_LIVES - 1] = *l;
	*l = fresh;
	return l;
}

/* Keys for the rank that is welcome; those that it has already, if it is the same life of it. */
static bool admit(struct fan_gate *g, struct life *l)
{
	const struct join *j = &g->join;
	uint8_t key[FAN_CIPHER_KEY_BYTES];

	if (j->rank >= FAN_RANKS_MAX)
		return false;
	if (l->peer[j->rank] && l->peer[j->rank]->nonce == j->nonce)
		return true;
	free_peer(g, l, j->rank);
	struct peer *p = calloc(1, sizeof *p);
	if (!p)
		return false;
	fan_traffic_up(g->cfg.cipher, key, l->tenant, &l->traffic, j->rank, j->nonce);
	p->nonce = j->nonce;
	p->up = g->cfg.cipher->open(key);
	explicit_bzero(key, sizeof key);
	if (!p->up) {
		free(p);
		return false;
	}
	l->peer[j->rank] = p;
	l->ranks++;
	g->stats.ranks++;
	return true;
}

/* JOIN. */

/* The key of the tenant of a JOIN's name, from key `of` of the fabric.  NULL: no name. */
static const struct tenant *tenant_of(struct fan_gate *g, const uint8_t *pkt, size_t len,
				      unsigned of, struct tenant *made)
{
	enum { NAME_BYTES_AT = FAN_HEAD_BYTES + 11, NAME_AT };
	size_t bytes = len > NAME_AT ? pkt[NAME_BYTES_AT] : 0;
	const char *name = (const char *)pkt + NAME_AT;

	if (!bytes || bytes > FAN_TENANT_MAX || len < NAME_AT + bytes)
		return NULL;
	bytes = fan_tenant_bytes(name, bytes);
	for (unsigned i = 0; i < FAN_GATE_TENANTS; i++) {
		const struct tenant *t = &g->tenant[i];
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

static enum fan_seal_verdict open_join(struct fan_gate *g, const struct fan_seal_head *h,
				       uint8_t *pkt, size_t *len)
{
	struct tenant made;

	for (unsigned i = 0; i < g->cfg.keys.count; i++) {
		const struct tenant *t = tenant_of(g, pkt, *len, i, &made);
		if (!t || !fan_signed_is_by(g->cfg.cipher, t->key, pkt, *len))
			continue;
		g->join = (struct join){true, fan_wire_nonce(pkt), h->sender, {0}};
		memcpy(g->join.tenant, t->key, sizeof g->join.tenant);
		if (t == &made)
			g->tenant[g->next_tenant++ % FAN_GATE_TENANTS] = made;
		*len = fan_signed_open(pkt, *len);
		return FAN_SEAL_GOOD;
	}
	return FAN_SEAL_TAG;
}

void fan_seal_refuse(const uint8_t *join, const fan_peer *to, bool have, struct fan_out *out)
{
	const struct fan_refuse no = {FAN_E_SEALED, FAN_RANK_NONE, have, !have};
	struct fan_out_item *it = fan_out_add(out, FAN_TO_PEER);
	uint8_t *body = fan_out_scratch(out, FAN_CTL_BYTES_MAX);
	struct fan_frag h = {
		.nonce = fan_wire_nonce(join),
		.job = fan_get32(join + 4),
		.sender = FAN_RANK_NONE,
		.type = FAN_TYPE_REFUSE,
	};

	it->peer = *to;
	fan_ctl_finish(it, &h, body, fan_refuse_put(body, &no));
}

/* To and from a parent. */

/* The uplink whose JOIN had this nonce; NULL: none. */
static struct uplink *uplink_of_nonce(struct fan_gate *g, uint64_t nonce)
{
	for (unsigned i = 0; i < PLACES; i++)
		if (g->uplink[i].rank.cipher && g->uplink[i].rank.nonce == nonce)
			return &g->uplink[i];
	return NULL;
}

/* The uplink that a packet is from or for: by its nonce, if it has one.  By job and epoch only one
 * that has taken part in it: whose JOIN was repeated by somebody else may have been told them, too.
 */
static struct uplink *find_uplink(struct fan_gate *g, const struct fan_seal_head *h,
				  const uint8_t *pkt)
{
	if (h->type >= FAN_TYPE_CTL && fan_wire_nonce(pkt))
		return uplink_of_nonce(g, fan_wire_nonce(pkt));
	for (unsigned i = 0; i < PLACES; i++)
		if (fan_seal_rank_is_in(&g->uplink[i].rank, h->job, h->epoch))
			return &g->uplink[i];
	return NULL;
}

/* A JOIN of another life: in place of the uplink that is silent for longest, since there are as
 * many as jobs at a time, and those that live send BEATs. */
static struct uplink *begin_uplink(struct fan_gate *g, const struct fan_out_item *join)
{
	uint8_t pkt[FAN_HEAD_BYTES + FAN_CTL_BYTES_MAX];
	struct uplink *u = &g->uplink[0];
	struct tenant made;

	if (join->payload_bytes > FAN_CTL_BYTES_MAX)
		return NULL;
	const struct tenant *t = tenant_of(g, pkt, fan_out_item_copy(join, pkt), 0, &made);
	for (unsigned i = 1; i < PLACES; i++)
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
	struct uplink *u = find_uplink(g, h, it->head);

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
	struct uplink *u = len >= FAN_HEAD_BYTES ? find_uplink(g, h, pkt) : NULL;
	size_t opened = u ? fan_seal_rank_recv(&u->rank, g->now_ns, pkt, len) : 0;
	g->stats.opened += opened != 0;
	g->stats.drops[h->sealed ? FAN_SEAL_TAG : FAN_SEAL_CLEAR] += !opened;
	return opened;
}

static bool is_parent(const struct fan_gate *g, const fan_peer *p)
{
	return g->uplink && fan_peer_equal(p, &g->cfg.parent);
}

static void close_items(struct fan_gate *g, struct fan_out *out, bool answers);

/* What is not sealed: questions that anybody may ask, and JOINs, which are refused. */
static size_t recv_clear(struct fan_gate *g, const struct fan_seal_head *h, const fan_peer *from,
			 const uint8_t *pkt, size_t len, struct fan_out *out)
{
	if (h->type == FAN_TYPE_QUERY)
		return len;
	if (h->type == FAN_TYPE_JOIN && len >= FAN_HEAD_BYTES + FAN_CTL_UP_MIN &&
	    fan_wire_is_whole(pkt, len)) {
		fan_seal_refuse(pkt, from, true, out);
		g->stats.refused++;
		return 0;
	}
	g->stats.drops[FAN_SEAL_CLEAR]++;
	return 0;
}

static enum fan_seal_verdict open_sealed(struct fan_gate *g, const struct fan_seal_head *h,
					 uint8_t *pkt, size_t *len)
{
	struct life *l = find_life(g, h->job, h->epoch);

	if (!l || h->sender >= FAN_RANKS_MAX || !l->peer[h->sender])
		return FAN_SEAL_TAG;
	struct peer *p = l->peer[h->sender];
	enum fan_seal_verdict v =
		fan_seal_open(g->cfg.cipher, p->up, &p->heard, FAN_REPLAY_UP, pkt, len);
	if (v == FAN_SEAL_GOOD)
		l->used_at = ++g->stats.opened;
	return v;
}

size_t fan_gate_recv(struct fan_gate *g, uint64_t now_ns, const fan_peer *from, uint8_t *pkt,
		     size_t len, struct fan_out *out)
{
	struct fan_seal_head h;

	g->now_ns = now_ns;
	if (!fan_seal_head(&h, pkt, len)) /* another version: the core says so */
		return len;
	if (is_parent(g, from) && h.type != FAN_TYPE_QUERY)
		return recv_from_parent(g, &h, pkt, len);
	if (!h.sealed)
		return recv_clear(g, &h, from, pkt, len, out);
	enum fan_seal_verdict v = h.type == FAN_TYPE_JOIN ? open_join(g, &h, pkt, &len)
							  : open_sealed(g, &h, pkt, &len);
	g->stats.drops[v] += v != FAN_SEAL_GOOD;
	if (g->join.is_open) { /* what was written before it is no answer to it */
		close_items(g, out, false);
		g->done = out->count;
	}
	return v == FAN_SEAL_GOOD ? len : 0;
}

bool fan_gate_is_join(const struct fan_gate *g)
{
	return g->join.is_open;
}

/* Out. */

/* Sign what answers the JOIN.  False: it must not be sent. */
static bool sign(struct fan_gate *g, const struct fan_seal_head *h, struct fan_out_item *it,
		 uint8_t *to)
{
	const uint8_t *salt = NULL;

	if (h->type == FAN_TYPE_WELCOME) {
		if (g->stats.ranks >= FAN_GATE_RANKS_MAX)
			make_room(g);
		struct life *l = find_life(g, h->job, h->epoch);
		if (!l)
			l = begin_life(g, h->job, h->epoch);
		if (!l || memcmp(l->tenant, g->join.tenant, sizeof l->tenant) != 0 || !admit(g, l))
			return false;
		l->used_at = g->stats.opened;
		salt = l->traffic.salt;
	}
	fan_sign_item(g->cfg.cipher, g->join.tenant, it, to, salt, salt ? FAN_SEAL_SALT_BYTES : 0);
	return true;
}

static bool seal(struct fan_gate *g, const struct fan_seal_head *h, struct fan_out_item *it,
		 uint8_t *to)
{
	struct life *l = find_life(g, h->job, h->epoch);

	return l && fan_seal_item(g->cfg.cipher, l->down, ++l->sent, it, to);
}

/* One item.  False: remove it. */
static bool close_item(struct fan_gate *g, struct fan_out_item *it, uint8_t *to, bool answers)
{
	struct fan_seal_head h;

	if (!fan_seal_head(&h, it->head, FAN_HEAD_BYTES) || h.type == FAN_TYPE_REPORT)
		return true;
	if (h.type == FAN_TYPE_REFUSE && !answers) /* in clear, to who has no key */
		return true;
	if (it->payload_bytes + 2 * FAN_SEAL_MORE > g->stride)
		return false;
	if (it->dest == FAN_TO_PEER && is_parent(g, &it->peer))
		return close_upwards(g, &h, it, to);
	if (answers && it->dest == FAN_TO_PEER && fan_wire_nonce(it->head) == g->join.nonce &&
	    h.type >= FAN_TYPE_WELCOME && h.type <= FAN_TYPE_STATE && h.type != FAN_TYPE_BEAT)
		return sign(g, &h, it, to);
	return seal(g, &h, it, to);
}

/* Items from g->done on. */
static void close_items(struct fan_gate *g, struct fan_out *out, bool answers)
{
	unsigned kept = g->done;

	for (unsigned i = g->done; i < out->count; i++) {
		struct fan_out_item *it = &out->item[i];
		if (!close_item(g, it, g->space + kept * g->stride, answers)) {
			g->stats.unsent++;
			continue;
		}
		if (kept < i)
			out->item[kept] = *it;
		kept++;
	}
	g->stats.sealed += kept - g->done;
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
}
