/* SPDX-License-Identifier: Apache-2.0 */
#include "route_table.h"

#include <assert.h>

static bool has(const struct fan_route_entry *e, unsigned rank)
{
	return rank < FAN_RANKS_MAX && fan_ranks_has(e->ranks, rank);
}

static bool is_sane(const struct fan_route_entry *e)
{
	return !fan_peer_is_none(&e->next) && !fan_ranks_is_empty(e->ranks) && e->depth >= 1 &&
	       e->depth <= FAN_ROUTE_HOPS_MAX;
}

static bool have_one_path(const struct fan_route_entry *a, const struct fan_route_entry *b)
{
	return a->depth == b->depth && fan_peer_equal(&a->next, &b->next);
}

/* Can both be, in one switch?  A packet belongs to one of them as it goes up, and as it goes down,
 * and there is one sum. */
static bool go_together(const struct fan_route_entry *a, const struct fan_route_entry *b)
{
	if (a->sums && b->sums && !have_one_path(a, b))
		return false;
	bool same = fan_peer_equal(&a->from, &b->from) || fan_peer_equal(&a->next, &b->next);
	return !same || !fan_ranks_meet(a->ranks, b->ranks);
}

static bool config_is_sane(const struct fan_route_config *c)
{
	if (!c->number || !c->entries || c->entries > FAN_ROUTE_ENTRIES_MAX)
		return false;
	for (unsigned i = 0; i < c->entries; i++) {
		if (!is_sane(&c->entry[i]))
			return false;
		for (unsigned k = 0; k < i; k++)
			if (!go_together(&c->entry[i], &c->entry[k]))
				return false;
	}
	return true;
}

/* Copy the entries, those of a path in a row. */
static void sort(struct fan_route *r, const struct fan_route_config *c)
{
	bool taken[FAN_ROUTE_ENTRIES_MAX] = {false};
	for (unsigned i = 0; i < c->entries; i++) {
		for (unsigned k = i; k < c->entries && !taken[i]; k++)
			if (k != i && !taken[k] && have_one_path(&c->entry[i], &c->entry[k])) {
				taken[k] = true;
				r->entry[r->entries++] = c->entry[k];
			}
		if (!taken[i])
			r->entry[r->entries++] = c->entry[i];
		taken[i] = true;
	}
}

/* Put `hop` into `list` of `count` if it is somebody who is not there yet. */
static bool add_hop(fan_peer *list, unsigned count, const fan_peer *hop)
{
	for (unsigned i = 0; i < count; i++)
		if (fan_peer_equal(&list[i], hop))
			return false;
	assert(count < FAN_ROUTE_ENTRIES_MAX);
	list[count] = *hop;
	return !fan_peer_is_none(hop);
}

static void find_hops(struct fan_route *r)
{
	unsigned first = 0;
	for (unsigned i = 0; i < r->entries; i++) {
		const struct fan_route_entry *e = &r->entry[i];
		if (!have_one_path(&r->entry[first], e))
			first = i;
		if (!add_hop(&r->hop[first], i - first, &e->from))
			memset(&r->hop[i], 0, sizeof r->hop[i]);
		r->path[first].peers = &r->hop[first];
		r->path[first].ranks = (uint16_t)(i - first + 1);
		r->below.ranks =
			(uint16_t)(r->below.ranks + add_hop(r->all, r->below.ranks, &e->from));
		if (!e->sums)
			continue;
		fan_ranks_join(r->sums, e->ranks);
		r->up = e->next;
	}
	r->below.peers = r->all;
}

int fan_route_set(struct fan_route *r, const struct fan_route_config *c)
{
	if (!config_is_sane(c))
		return FAN_E_INVALID;
	memset(r, 0, sizeof *r);
	r->number = c->number;
	r->quota = c->quota;
	sort(r, c);
	find_hops(r);
	return FAN_OK;
}

static bool is_same(const struct fan_route_entry *a, const struct fan_route_entry *b)
{
	return fan_peer_equal(&a->from, &b->from) && have_one_path(a, b) && a->sums == b->sums &&
	       fan_ranks_equal(a->ranks, b->ranks);
}

bool fan_route_is(const struct fan_route *r, const struct fan_route_config *c)
{
	if (r->number != c->number || r->entries != c->entries || r->quota != c->quota)
		return false;
	for (unsigned i = 0; i < c->entries; i++) { /* no two of them are the same */
		bool found = false;
		for (unsigned k = 0; k < r->entries && !found; k++)
			found = is_same(&c->entry[i], &r->entry[k]);
		if (!found)
			return false;
	}
	return true;
}

int fan_route_find(const struct fan_route *r, const fan_peer *from)
{
	for (unsigned i = 0; i < r->below.ranks; i++)
		if (fan_peer_equal(&r->all[i], from))
			return (int)i;
	return -1;
}

/* Does the entry take datagrams of `from`, a switch of the route or not? */
static bool is_from(const struct fan_route_entry *e, const fan_peer *from, bool is_a_switch)
{
	return is_a_switch ? fan_peer_equal(&e->from, from) : fan_peer_is_none(&e->from);
}

const struct fan_route_entry *fan_route_up(const struct fan_route *r, const fan_peer *from,
					   const uint64_t *ranks)
{
	bool is_a_switch = fan_route_find(r, from) >= 0;
	for (unsigned i = 0; i < r->entries; i++)
		if (fan_ranks_within(ranks, r->entry[i].ranks) &&
		    is_from(&r->entry[i], from, is_a_switch))
			return &r->entry[i];
	return NULL;
}

const struct fan_route_entry *fan_route_up_one(const struct fan_route *r, const fan_peer *from,
					       unsigned rank)
{
	bool is_a_switch = fan_route_find(r, from) >= 0;
	for (unsigned i = 0; i < r->entries; i++)
		if (has(&r->entry[i], rank) && is_from(&r->entry[i], from, is_a_switch))
			return &r->entry[i];
	return NULL;
}

bool fan_route_leads_to(const struct fan_route *r, const fan_peer *from)
{
	for (unsigned i = 0; i < r->entries; i++)
		if (fan_peer_equal(&r->entry[i].next, from))
			return true;
	return false;
}

const struct fan_route_entry *fan_route_down_one(const struct fan_route *r, const fan_peer *from,
						 unsigned rank)
{
	const struct fan_route_entry *other = NULL;
	for (unsigned i = 0; i < r->entries; i++) {
		const struct fan_route_entry *e = &r->entry[i];
		if (!has(e, rank))
			continue;
		if (fan_peer_is_none(
			    &e->from)) /* the worker is here, whatever path is still to come */
			return e;
		if (fan_peer_equal(&e->next, from))
			other = e;
	}
	return other;
}

const struct fan_route_entry *fan_route_path(const struct fan_route *r, const fan_peer *from,
					     unsigned depth)
{
	for (unsigned i = 0; i < r->entries; i++)
		if (r->entry[i].depth == depth + 1 && fan_peer_equal(&r->entry[i].next, from))
			return &r->entry[i];
	return NULL;
}

bool fan_route_path_has_workers(const struct fan_route *r, const struct fan_route_entry *path)
{
	assert(path >= r->entry && path < r->entry + r->entries);
	unsigned first = (unsigned)(path - r->entry);
	for (unsigned i = 0; i < r->path[first].ranks; i++)
		if (fan_peer_is_none(&r->entry[first + i].from))
			return true;
	return false;
}

bool fan_route_passes(struct fan_route *r, unsigned life, uint32_t epoch, uint64_t frag)
{
	assert(life < FAN_ROUTE_LIVES);
	uint32_t *last = &r->passed[life][frag % FAN_WINDOW_MAX];
	uint32_t now = epoch * UINT32_C(0x9e3779b1) + (uint32_t)(frag / FAN_WINDOW_MAX) + 1;
	bool first = *last != now;
	*last = now;
	return first;
}
