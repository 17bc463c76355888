/* SPDX-License-Identifier: Apache-2.0 */
#include <stdlib.h>
#include <string.h>

#include "gate_priv.h"

static void free_peer(struct fan_gate *g, struct fan_gate_epoch *l, unsigned rank)
{
	struct fan_gate_peer *p = l->peer[rank];
	if (!p)
		return;
	g->cfg.cipher->close(p->up);
	free(p);
	l->peer[rank] = NULL;
	l->ranks--;
	g->stats.ranks--;
}

static void free_life(struct fan_gate *g, struct fan_gate_epoch *l)
{
	if (!l->traffic.job)
		return;
	for (unsigned r = 0; r < FAN_RANKS_MAX; r++)
		free_peer(g, l, r);
	g->cfg.cipher->close(l->down);
	explicit_bzero(l, sizeof *l);
}

bool fan_gate_make_lives(struct fan_gate *g)
{
	g->lives = g->cfg.children ? FAN_GATE_WAYS : FAN_GATE_LIVES;
	g->life = calloc((size_t)FAN_GATE_PLACES * g->lives, sizeof *g->life);
	return g->life != NULL;
}

void fan_gate_free_lives(struct fan_gate *g)
{
	for (unsigned i = 0; g->life && i < FAN_GATE_PLACES * g->lives; i++)
		free_life(g, &g->life[i]);
	free(g->life);
}

void fan_gate_note_packet(const struct fan_gate *g, struct fan_gate_epoch *l)
{
	l->used_at = g->stats.opened;
	l->proved = true;
}

/* The row of the table that has the job's lives. */
static struct fan_gate_epoch *row_of(const struct fan_gate *g, uint32_t job, uint32_t epoch)
{
	const uint64_t all = (uint64_t)(job & 0xffff) << 32 | epoch;
	const uint64_t hash = all * UINT64_C(0x9e3779b97f4a7c15) >> 40;
	const unsigned place = (g->cfg.children ? (unsigned)hash : job) % FAN_GATE_PLACES;
	return &g->life[place * g->lives];
}

struct fan_gate_epoch *fan_gate_find_epoch(struct fan_gate *g, uint32_t job, uint32_t epoch)
{
	struct fan_gate_epoch *row = row_of(g, job, epoch);
	for (unsigned k = 0; k < g->lives; k++)
		if (row[k].traffic.job && row[k].traffic.job == (job & 0xffff) &&
		    row[k].traffic.epoch == epoch)
			return &row[k];
	return NULL;
}

/* Is life `l` to be replaced before `than`?  A life that another one has superseded is, else the
 * one that has been silent longer. */
static bool yields_before(const struct fan_gate_epoch *l, bool former,
			  const struct fan_gate_epoch *than, bool former_too)
{
	if (!than || former != former_too)
		return !than || former;
	return l->used_at < than->used_at;
}

/* A place of a switch's row for one more life: a free one, that of an unproved life, or that of the
 * life silent for longest. */
static struct fan_gate_epoch *free_one(struct fan_gate *g, struct fan_gate_epoch *row)
{
	struct fan_gate_epoch *first = &row[0];
	for (unsigned k = 1; k < g->lives && first->traffic.job; k++)
		if (!row[k].traffic.job ||
		    (row[k].proved == first->proved ? row[k].used_at < first->used_at
						    : !row[k].proved))
			first = &row[k];
	free_life(g, first);
	return first;
}

/* A place of an aggregator's row: the first; its life becomes the previous one. */
static struct fan_gate_epoch *follow(struct fan_gate *g, struct fan_gate_epoch *row)
{
	free_life(g, &row[FAN_GATE_LIVES - 1]);
	row[FAN_GATE_LIVES - 1] = row[0];
	return &row[0];
}

/* Free the keys of some life other than `keep`: of more than can live, one is dead.  A tenant with
 * half of all of them has only its own to give, so that it ends no idle job of another's. */
static void make_room(struct fan_gate *g, const struct fan_gate_epoch *keep)
{
	struct fan_gate_epoch *first = NULL;
	unsigned own = 0;
	bool former = false;
	const unsigned all = FAN_GATE_PLACES * g->lives;
	for (unsigned i = 0; i < all; i++)
		if (memcmp(g->life[i].tenant, keep->tenant, sizeof keep->tenant) == 0)
			own += g->life[i].ranks;
	const bool own_alone = own >= FAN_GATE_RANKS_MAX / 2;
	for (unsigned i = 0; i < all; i++) {
		struct fan_gate_epoch *l = &g->life[i];
		const bool is_former = !g->cfg.children && i % g->lives > 0;
		if (!l->ranks || l == keep ||
		    (own_alone && memcmp(l->tenant, keep->tenant, sizeof l->tenant) != 0))
			continue;
		if (yields_before(l, is_former, first, former)) {
			first = l;
			former = is_former;
		}
	}
	if (first)
		free_life(g, first);
}

/* Begin a life.  NULL: there is no room. */
static struct fan_gate_epoch *begin_life(struct fan_gate *g, uint32_t job, uint32_t epoch)
{
	struct fan_gate_epoch *row = row_of(g, job, epoch),
			      fresh = {.traffic = {job & 0xffff, epoch, {0}}};
	uint8_t key[FAN_CIPHER_KEY_BYTES];
	if (!g->cfg.cipher->random(fresh.traffic.salt, FAN_SEAL_SALT_BYTES))
		return NULL;
	memcpy(fresh.tenant, g->join.tenant, sizeof fresh.tenant);
	fan_traffic_down(g->cfg.cipher, key, fresh.tenant, &fresh.traffic);
	fresh.down = g->cfg.cipher->open(key);
	explicit_bzero(key, sizeof key);
	if (!fresh.down)
		return NULL;
	struct fan_gate_epoch *l = g->cfg.children ? free_one(g, row) : follow(g, row);
	*l = fresh;
	return l;
}

/* Make keys for the rank that is welcomed, unless this life of it has them. */
static bool admit(struct fan_gate *g, struct fan_gate_epoch *l)
{
	const struct fan_gate_join *j = &g->join;
	uint8_t key[FAN_CIPHER_KEY_BYTES];
	if (j->rank >= FAN_RANKS_MAX)
		return false;
	if (l->peer[j->rank] && l->peer[j->rank]->nonce == j->nonce)
		return true;
	free_peer(g, l, j->rank);
	if (g->stats.ranks >= FAN_GATE_RANKS_MAX)
		make_room(g, l);
	struct fan_gate_peer *p = calloc(1, sizeof *p);
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

struct fan_gate_epoch *fan_gate_answer_epoch(struct fan_gate *g, uint32_t job, uint32_t epoch,
					     const fan_peer *at)
{
	const struct fan_gate_join *j = &g->join;
	struct fan_gate_epoch *l = fan_gate_find_epoch(g, job, epoch);
	if (!l)
		l = begin_life(g, job, epoch);
	if (!l || memcmp(l->tenant, j->tenant, sizeof l->tenant) != 0)
		return NULL;
	if (j->relayed && !g->hops && !(g->hops = fan_hops_new(g->cfg.cipher)))
		return NULL;
	bool reported =
		j->relayed ? fan_hops_below(g->hops, at, l->tenant, &l->traffic, fan_get64(j->to))
			   : admit(g, l);
	if (!reported)
		return NULL;
	l->used_at = g->stats.opened;
	return l;
}
