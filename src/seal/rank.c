/* SPDX-License-Identifier: Apache-2.0 */
#include "rank.h"

#include <string.h>

#include "core/wire/wire.h"

#define PATH_AT 24 /* of JOIN and WELCOME */

void fan_seal_rank_init(struct fan_seal_rank *s, const struct fan_cipher *c,
			const uint8_t tenant[FAN_KEY_BYTES])
{
	memset(s, 0, sizeof *s);
	s->cipher = c;
	memcpy(s->tenant, tenant, sizeof s->tenant);
}

static void forget_keys(struct fan_seal_rank *s)
{
	s->cipher->close(s->up);
	s->cipher->close(s->down);
	s->up = s->down = NULL;
	s->at.job = 0;
}

void fan_seal_rank_free(struct fan_seal_rank *s)
{
	if (!s->cipher)
		return;
	forget_keys(s);
	explicit_bzero(s, sizeof *s);
}

/* A job's number without its route, by which a path may differ. */
static uint32_t number_of(uint32_t job)
{
	return job & 0xffff;
}

static bool is_same(const struct fan_traffic *a, const struct fan_traffic *b)
{
	return a->job == b->job && a->epoch == b->epoch &&
	       !memcmp(a->salt, b->salt, sizeof a->salt);
}

/* Keep the window of the present key *down*, and restore that of `next`, if there is one. */
static void change_window(struct fan_seal_rank *s, const struct fan_traffic *next)
{
	struct fan_seal_former *f = s->former;
	struct fan_replay heard = {.highest = 0};
	unsigned i = 0;
	while (i < FAN_SEAL_FORMER && !(f[i].of.job && is_same(&f[i].of, next)))
		i++;
	if (i < FAN_SEAL_FORMER) {
		heard = f[i].heard;
		f[i].of.job = 0;
	}
	if (s->at.job)
		f[s->next_former++ % FAN_SEAL_FORMER] = (struct fan_seal_former){s->at, s->heard};
	s->heard = heard;
}

/* Derive the keys that the last WELCOME has offered. */
static bool take_offer(struct fan_seal_rank *s)
{
	uint8_t key[FAN_CIPHER_KEY_BYTES];
	change_window(s, &s->offered);
	forget_keys(s);
	fan_traffic_up(s->cipher, key, s->tenant, &s->offered, s->rank, s->nonce);
	s->up = s->cipher->open(key);
	fan_traffic_down(s->cipher, key, s->tenant, &s->offered);
	s->down = s->cipher->open(key);
	explicit_bzero(key, sizeof key);
	if (!s->up || !s->down) {
		forget_keys(s);
		return false;
	}
	s->at = s->offered;
	s->at_path = s->offered_path;
	return true;
}

static bool is_named(const struct fan_traffic *t, uint32_t job, uint32_t epoch)
{
	return t->job && t->job == number_of(job) && t->epoch == epoch;
}

static bool is_of(const struct fan_traffic *t, const struct fan_seal_head *h)
{
	return is_named(t, h->job, h->epoch);
}

bool fan_seal_rank_is_in(const struct fan_seal_rank *s, uint32_t job, uint32_t epoch)
{
	return is_named(&s->at, job, epoch);
}

bool fan_seal_rank_is_known(const struct fan_seal_rank *s, const uint8_t *pkt, size_t len)
{
	struct fan_seal_head h;
	return fan_seal_head(&h, pkt, len) && !h.sealed && h.type == FAN_TYPE_RESULT &&
	       is_of(&s->at, &h);
}

/* Is a signed REFUSE from this rank's aggregator?  An attacker can repeat the JOIN at another one
 * with that key and obtain a REFUSE, but cannot prevent the WELCOME of the rank's own. */
static enum fan_seal_verdict weigh_refuse(struct fan_seal_rank *s)
{
	if (!s->refused)
		s->refused = 1;
	return s->refused > FAN_SEAL_REFUSED_JOINS ? FAN_SEAL_GOOD : FAN_SEAL_REPLAY;
}

/* A WELCOME to the last JOIN.  For the present job it may be from a restarted next hop, or from
 * another one, with another salt.  Such a WELCOME counts only in answer to a JOIN by a later path
 * than the previous one, so that a repeated one cannot bring back past keys. */
static void take_welcome(struct fan_seal_rank *s, const struct fan_traffic *t, uint8_t path)
{
	const bool again = is_named(&s->at, t->job, t->epoch);
	if (again && (int8_t)(path - s->at_path) <= 0)
		return;
	s->offered = *t;
	s->offered_path = path;
	if (again && !memcmp(s->at.salt, t->salt, sizeof t->salt))
		s->at_path = path;
	else if (again)
		take_offer(s);
}

static enum fan_seal_verdict open_signed(struct fan_seal_rank *s, const struct fan_seal_head *h,
					 uint8_t *pkt, size_t *len)
{
	if (!s->nonce || *len < FAN_HEAD_BYTES || fan_wire_nonce(pkt) != s->nonce ||
	    !fan_signed_is_by(s->cipher, s->tenant, pkt, *len, NULL, 0))
		return FAN_SEAL_TAG;
	*len = fan_signed_open(pkt, *len, 0);
	if (h->type == FAN_TYPE_REFUSE)
		return weigh_refuse(s);
	if (h->type != FAN_TYPE_WELCOME)
		return FAN_SEAL_GOOD;
	if (*len < FAN_HEAD_BYTES + FAN_SEAL_SALT_BYTES)
		return FAN_SEAL_TAG;
	if (pkt[PATH_AT] != s->path)
		return FAN_SEAL_REPLAY;
	struct fan_traffic t = {.job = number_of(h->job), .epoch = h->epoch};
	memcpy(t.salt, pkt + *len - FAN_SEAL_SALT_BYTES, FAN_SEAL_SALT_BYTES);
	s->refused = 0;
	take_welcome(s, &t, pkt[PATH_AT]);
	return FAN_SEAL_GOOD;
}

/* The switch claims, without proof, that it has no key.  A switch with the key would have
 * answered. */
static bool is_believed(const struct fan_seal_rank *s, uint64_t now_ns,
			const struct fan_seal_head *h, const uint8_t *pkt, size_t len)
{
	return h->type == FAN_TYPE_REFUSE && len > FAN_HEAD_BYTES &&
	       (int8_t)pkt[FAN_HEAD_BYTES] == FAN_E_SEALED && s->nonce && !s->offered.job &&
	       fan_wire_nonce(pkt) == s->nonce && now_ns - s->join_ns >= FAN_SEAL_BELIEVE_NS;
}

static enum fan_seal_verdict open_packet(struct fan_seal_rank *s, uint64_t now_ns, uint8_t *pkt,
					 size_t *len)
{
	struct fan_seal_head h;
	if (!fan_seal_head(&h, pkt, *len))
		return FAN_SEAL_CLEAR;
	if (!h.sealed)
		return is_believed(s, now_ns, &h, pkt, *len) ? FAN_SEAL_GOOD : FAN_SEAL_CLEAR;
	if (h.type == FAN_TYPE_WELCOME || h.type == FAN_TYPE_REFUSE)
		return open_signed(s, &h, pkt, len);
	/* in answer to a JOIN, of a job that has failed meanwhile: this one, too */
	if (h.type == FAN_TYPE_STATE && (h.is_signed || !is_of(&s->at, &h)))
		return open_signed(s, &h, pkt, len);
	return is_of(&s->at, &h)
		       ? fan_seal_open(s->cipher, s->down, &s->heard, FAN_REPLAY_DOWN, pkt, len)
		       : FAN_SEAL_TAG;
}

size_t fan_seal_rank_recv(struct fan_seal_rank *s, uint64_t now_ns, uint8_t *pkt, size_t len)
{
	enum fan_seal_verdict v = open_packet(s, now_ns, pkt, &len);
	s->drops[v] += v != FAN_SEAL_GOOD;
	return v == FAN_SEAL_GOOD ? len : 0;
}

static void sign_join(struct fan_seal_rank *s, uint64_t now_ns, struct fan_out_item *it,
		      uint8_t *to, const struct fan_seal_head *h)
{
	if (!s->nonce)
		s->join_ns = now_ns;
	s->nonce = fan_wire_nonce(it->head);
	s->rank = h->sender;
	s->path = it->head[PATH_AT];
	s->refused += s->refused != 0;
	fan_sign_item(s->cipher, s->tenant, it, to, &(struct fan_signed_with){.more = NULL});
}

bool fan_seal_rank_item(struct fan_seal_rank *s, uint64_t now_ns, struct fan_out_item *it,
			uint8_t *to)
{
	struct fan_seal_head h;
	if (!fan_seal_head(&h, it->head, FAN_HEAD_BYTES))
		return false;
	if (h.type == FAN_TYPE_JOIN) {
		sign_join(s, now_ns, it, to, &h);
		return true;
	}
	if (!is_of(&s->at, &h) && (!is_of(&s->offered, &h) || !take_offer(s)))
		return false;
	return fan_seal_item(s->cipher, s->up, ++s->sent, it, to);
}

void fan_seal_rank_send(struct fan_seal_rank *s, uint64_t now_ns, struct fan_out *out, uint8_t *to,
			size_t stride)
{
	unsigned kept = 0;
	to += FAN_HEAD_BYTES;
	for (unsigned i = 0; i < out->count; i++) {
		struct fan_out_item *it = &out->item[i];
		if (it->dest == FAN_TO_NOBODY || it->payload_bytes + FAN_SEAL_ROOM > stride ||
		    !fan_seal_rank_item(s, now_ns, it, to))
			continue;
		to += fan_out_item_lay(it, to);
		if (kept < i)
			out->item[kept] = *it;
		kept++;
	}
	out->count = kept;
}
