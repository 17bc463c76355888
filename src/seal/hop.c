/* SPDX-License-Identifier: Apache-2.0 */
#include "hop.h"

#include <stdlib.h>
#include <string.h>

#include "core/wire/wire.h"

#define TOKEN_AT 16
#define NUMBER	 UINT32_C(0xffff) /* of a job, without its route */

bool fan_seal_inner_get(struct fan_seal_inner *in, const uint8_t *head, const uint8_t *body,
			size_t body_bytes)
{
	struct fan_seal_head h;
	if (!fan_seal_head(&h, body, body_bytes) || h.sealed)
		return false;
	in->type = h.type;
	in->token = fan_get16(head + TOKEN_AT);
	in->rank = h.sender;
	in->job = h.job;
	in->epoch = h.epoch;
	in->nonce = fan_wire_nonce(body);
	in->at = body;
	in->bytes = body_bytes;
	return true;
}

struct fan_hops *fan_hops_new(const struct fan_cipher *c)
{
	struct fan_hops *t = calloc(1, sizeof *t);
	if (t)
		t->cipher = c;
	if (t && !c->random((uint8_t *)&t->instance, sizeof t->instance)) {
		free(t);
		return NULL;
	}
	return t;
}

static void forget(struct fan_hops *t, struct fan_hop *h)
{
	if (!h->theirs)
		return;
	t->cipher->close(h->theirs);
	t->cipher->close(h->ours);
	if (h->sent > t->base)
		t->base = h->sent;
	t->count--;
	explicit_bzero(h, sizeof *h);
}

void fan_hops_free(struct fan_hops *t)
{
	if (!t)
		return;
	for (unsigned i = 0; i < FAN_HOP_SETS; i++)
		for (unsigned k = 0; k < FAN_HOP_WAYS; k++)
			forget(t,
			       &t->hop[i][k]); /* so keys are gone, and the rest was never used */
	free(t);
}

static struct fan_hop *set_of(struct fan_hops *t, const fan_peer *at, uint32_t job, uint32_t epoch)
{
	uint64_t h = at->addr[0] ^ at->addr[1] << 7 ^ (uint64_t)at->scope << 32 ^ at->port;
	h = (h ^ (uint64_t)epoch << 24 ^ (uint64_t)(job & NUMBER) << 48) *
	    UINT64_C(0x9e3779b97f4a7c15);
	return t->hop[(h >> 40) % FAN_HOP_SETS];
}

static bool is_at(const struct fan_hop *h, const fan_peer *at, uint32_t job, uint32_t epoch)
{
	return h->theirs && h->epoch == epoch && h->job == (job & NUMBER) &&
	       fan_peer_equal(&h->at, at);
}

/* A place in the set for one more entry: a free one, that of an unproved one, or that of the one
 * silent for longest. */
static struct fan_hop *make_place(struct fan_hops *t, struct fan_hop *set)
{
	struct fan_hop *place = &set[0];
	for (unsigned k = 1; k < FAN_HOP_WAYS && place->theirs; k++) {
		struct fan_hop *h = &set[k];
		if (!h->theirs || (h->proved == place->proved ? h->used < place->used : !h->proved))
			place = h;
	}
	forget(t, place);
	return place;
}

/* Open a key; NULL: no memory. */
static void *open_key(const struct fan_hops *t, uint8_t key[FAN_CIPHER_KEY_BYTES])
{
	void *k = t->cipher->open(key);
	explicit_bzero(key, FAN_CIPHER_KEY_BYTES);
	return k;
}

static void begin(struct fan_hops *t, struct fan_hop *h, const fan_peer *at,
		  const struct fan_traffic *life)
{
	h->at = *at;
	h->job = life->job;
	h->epoch = life->epoch;
	h->used = ++t->turn;
	memcpy(h->salt, life->salt, sizeof h->salt);
	t->count++;
}

bool fan_hops_below(struct fan_hops *t, const fan_peer *at, const uint8_t tenant[FAN_KEY_BYTES],
		    const struct fan_traffic *life, uint64_t instance)
{
	struct fan_hop *set = set_of(t, at, life->job, life->epoch);
	uint8_t key[FAN_CIPHER_KEY_BYTES];
	for (unsigned k = 0; k < FAN_HOP_WAYS; k++)
		if (is_at(&set[k], at, life->job, life->epoch) && !set[k].ours &&
		    set[k].instance == instance &&
		    !memcmp(set[k].salt, life->salt, sizeof life->salt))
			return true;
	fan_traffic_hop(t->cipher, key, tenant, life, instance);
	void *theirs = open_key(t, key);
	if (!theirs)
		return false;
	struct fan_hop *h = make_place(t, set);
	begin(t, h, at, life);
	h->theirs = theirs;
	h->instance = instance;
	return true;
}

struct fan_hop *fan_hops_find_above(struct fan_hops *t, const fan_peer *at, uint32_t job,
				    uint32_t epoch)
{
	struct fan_hop *set = set_of(t, at, job, epoch);
	for (unsigned k = 0; k < FAN_HOP_WAYS; k++)
		if (set[k].ours && is_at(&set[k], at, job, epoch))
			return &set[k];
	return NULL;
}

bool fan_hops_above(struct fan_hops *t, const fan_peer *at, const uint8_t tenant[FAN_KEY_BYTES],
		    const struct fan_traffic *life)
{
	struct fan_hop *h = fan_hops_find_above(t, at, life->job, life->epoch);
	uint8_t key[FAN_CIPHER_KEY_BYTES];
	if (h && !memcmp(h->salt, life->salt, sizeof h->salt))
		return true;
	if (h)
		forget(t, h); /* it has begun again */
	fan_traffic_down(t->cipher, key, tenant, life);
	void *theirs = open_key(t, key);
	fan_traffic_hop(t->cipher, key, tenant, life, t->instance);
	void *ours = open_key(t, key);
	if (!theirs || !ours) {
		t->cipher->close(theirs);
		t->cipher->close(ours);
		return false;
	}
	h = make_place(t, set_of(t, at, life->job, life->epoch));
	begin(t, h, at, life);
	h->theirs = theirs;
	h->ours = ours;
	h->proved = true; /* what announced it was an answer */
	h->sent = t->base;
	return true;
}

/* The places of the set in the order in which their keys are tried: those proved first. */
static unsigned candidates(struct fan_hop *set, const fan_peer *from, const struct fan_seal_head *h,
			   struct fan_hop *found[FAN_HOP_WAYS])
{
	unsigned n = 0;
	for (unsigned proved = 2; proved--;)
		for (unsigned k = 0; k < FAN_HOP_WAYS; k++)
			if (is_at(&set[k], from, h->job, h->epoch) && set[k].proved == proved)
				found[n++] = &set[k];
	return n;
}

bool fan_hops_open(struct fan_hops *t, const fan_peer *from, const struct fan_seal_head *h,
		   uint8_t *pkt, size_t *len, enum fan_seal_verdict *v)
{
	struct fan_hop *found[FAN_HOP_WAYS];
	const unsigned n = candidates(set_of(t, from, h->job, h->epoch), from, h, found);
	uint8_t kept[FAN_PACKET_MAX + FAN_SEAL_MORE];
	const size_t bytes = *len;
	/* a wrong key overwrites the packet */
	const bool doubt = n > 1 || (n == 1 && !found[0]->proved);
	*v = FAN_SEAL_TAG;
	if (doubt && bytes > sizeof kept)
		return true;
	if (doubt)
		memcpy(kept, pkt, bytes);
	for (unsigned i = 0; i < n; i++) {
		enum fan_seal_verdict tried = fan_seal_open(
			t->cipher, found[i]->theirs, &found[i]->heard, FAN_REPLAY_DOWN, pkt, len);
		if (tried == FAN_SEAL_GOOD) {
			found[i]->proved = true;
			found[i]->used = ++t->turn;
			*v = tried;
			return true;
		}
		*v = tried == FAN_SEAL_REPLAY ? tried : *v;
		if (doubt)
			memcpy(pkt, kept, bytes);
	}
	return n > 0 && !doubt;
}

bool fan_hops_seal(struct fan_hops *t, struct fan_hop *to, struct fan_out_item *it, uint8_t *space)
{
	to->used = ++t->turn;
	return fan_seal_item(t->cipher, to->ours, ++to->sent, it, space);
}
