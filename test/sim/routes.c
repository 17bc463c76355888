/* SPDX-License-Identifier: Apache-2.0 */
#include "routes.h"

#define SUMS_MAX   3  /* switches of a job that sum */
#define DETOUR_MAX 2  /* switches between two that must be passed */
#define TRIES	   40 /* then all go straight to the aggregator */

/* Which switches sum, and which way their sums go on. */
struct sums {
	unsigned count;
	uint8_t place[SUMS_MAX];
	struct routes_walk walk[SUMS_MAX]; /* from the next place on, to the aggregator */
};

static bool passes(const struct routes_walk *w, unsigned place)
{
	for (unsigned i = 0; i < w->steps; i++)
		if (w->at[i] == place)
			return true;
	return false;
}

static bool step(struct routes_walk *w, unsigned place, bool sums)
{
	if (w->steps > ROUTES_STEPS_MAX)
		return false;
	w->at[w->steps] = (uint8_t)place;
	w->sums[w->steps++] = sums;
	return true;
}

/* Go on, over a few switches, to `to`, which sums or is the aggregator. */
static bool go(struct routes_walk *w, struct fan_rng *rng, unsigned switches, unsigned to)
{
	struct routes_walk part = {.steps = 0};
	unsigned detours = (unsigned)fan_rng_below(rng, DETOUR_MAX + 1);
	if (w->steps)
		step(&part, w->at[w->steps - 1], false);
	for (unsigned i = 0; i < detours; i++) {
		unsigned over = (unsigned)fan_rng_below(rng, switches);
		if (over == to || passes(&part, over))
			continue;
		step(&part, over, false);
		if (!step(w, over, false))
			return false;
	}
	return step(w, to, to != ROUTES_AGGREGATOR);
}

static bool add(struct routes_walk *w, const struct routes_walk *rest)
{
	for (unsigned i = 0; i < rest->steps; i++)
		if (!step(w, rest->at[i], rest->sums[i]))
			return false;
	return true;
}

static bool draw_sums(struct sums *s, struct fan_rng *rng, unsigned switches)
{
	s->count = (unsigned)fan_rng_below(rng, SUMS_MAX + 1);
	if (s->count > switches)
		s->count = switches;
	for (unsigned i = 0; i < s->count; i++) {
		s->place[i] = (uint8_t)((i + switches / 2) % switches);
		unsigned to =
			(unsigned)fan_rng_below(rng, i + 1); /* an earlier one; i: the aggregator */
		struct routes_walk w = {.steps = 0};
		step(&w, s->place[i], true);
		if (!go(&w, rng, switches, to < i ? s->place[to] : ROUTES_AGGREGATOR) ||
		    (to < i && !add(&w, &s->walk[to])))
			return false;
		s->walk[i].steps = 0;
		for (unsigned k = 1; k < w.steps; k++)
			step(&s->walk[i], w.at[k], w.sums[k]);
	}
	return true;
}

static bool draw_walk(struct routes_walk *w, const struct sums *s, struct fan_rng *rng,
		      unsigned switches)
{
	unsigned from = (unsigned)fan_rng_below(rng, switches);
	unsigned to = (unsigned)fan_rng_below(
		rng, s->count + (s->count == 0 || fan_rng_below(rng, 3) == 0));
	w->steps = 0;
	if (to >= s->count)
		return step(w, from, false) && go(w, rng, switches, ROUTES_AGGREGATOR);
	if (from == s->place[to])
		return step(w, from, true) && add(w, &s->walk[to]);
	return step(w, from, false) && go(w, rng, switches, s->place[to]) && add(w, &s->walk[to]);
}

/* No step is taken twice: a switch could not tell. */
static bool is_plain(const struct routes_walk *w)
{
	for (unsigned i = 1; i < w->steps; i++) {
		if (w->at[i] == w->at[i - 1])
			return false;
		for (unsigned k = 1; k < i; k++)
			if (w->at[i] == w->at[k] && w->at[i - 1] == w->at[k - 1])
				return false;
	}
	return true;
}

/* Most ranks go as one before them went: routes have few entries. */
static bool draw_all(struct routes *r, const struct sums *s, struct fan_rng *rng, unsigned switches)
{
	for (unsigned rank = 0; rank < r->ranks; rank++) {
		if (rank >= 8) {
			r->walk[rank] = r->walk[fan_rng_below(rng, 8)];
			continue;
		}
		unsigned tries = 0;
		while (!draw_walk(&r->walk[rank], s, rng, switches) || !is_plain(&r->walk[rank]))
			if (++tries == TRIES)
				return false;
	}
	return true;
}

static bool can_be_told(const struct routes *r, unsigned switches)
{
	static struct fan_route_entry entry[FAN_ROUTE_ENTRIES_MAX];
	static struct fan_route route;
	fan_peer peer[ROUTES_AGGREGATOR + 1];
	memset(peer, 0, sizeof peer);
	for (unsigned i = 0; i <= ROUTES_AGGREGATOR; i++)
		peer[i].port = i + 1;
	for (unsigned place = 0; place < switches; place++) {
		struct fan_route_config c = {.number = r->number, .entry = entry};
		c.entries = routes_entries(r, place, peer, entry);
		if (c.entries && fan_route_set(&route, &c) != FAN_OK)
			return false;
	}
	return true;
}

void routes_draw(struct routes *r, struct fan_rng *rng, uint16_t number, unsigned ranks,
		 unsigned switches)
{
	struct sums s;
	r->number = number;
	r->ranks = ranks;
	for (unsigned i = 0; i < TRIES; i++)
		if (draw_sums(&s, rng, switches) && draw_all(r, &s, rng, switches) &&
		    can_be_told(r, switches))
			return;
	for (unsigned rank = 0; rank < ranks; rank++)
		r->walk[rank] = (struct routes_walk){
			.steps = 2, .at = {(uint8_t)(rank % switches), ROUTES_AGGREGATOR}};
}

void routes_levels(struct routes *r, uint16_t number, unsigned ranks, unsigned switches)
{
	r->number = number;
	r->ranks = ranks;
	for (unsigned rank = 0; rank < ranks; rank++)
		r->walk[rank] = (struct routes_walk){
			.steps = 3,
			.at = {(uint8_t)(1 + rank % (switches - 1)), 0, ROUTES_AGGREGATOR},
			.sums = {true, true},
		};
}

/* The entry like `like`, whatever its ranks; a new one if there is none. */
static struct fan_route_entry *entry_like(struct fan_route_entry *entry, unsigned *count,
					  const struct fan_route_entry *like)
{
	for (unsigned i = 0; i < *count; i++)
		if (fan_peer_equal(&entry[i].from, &like->from) &&
		    fan_peer_equal(&entry[i].next, &like->next) && entry[i].depth == like->depth &&
		    entry[i].sums == like->sums)
			return &entry[i];
	if (*count == FAN_ROUTE_ENTRIES_MAX)
		return NULL;
	entry[*count] = *like;
	return &entry[(*count)++];
}

unsigned routes_entries(const struct routes *r, unsigned place, const fan_peer *peer,
			struct fan_route_entry *entry)
{
	unsigned count = 0;
	for (unsigned rank = 0; rank < r->ranks; rank++) {
		const struct routes_walk *w = &r->walk[rank];
		for (unsigned i = 0; i + 1 < w->steps; i++) {
			if (w->at[i] != place)
				continue;
			struct fan_route_entry e = {
				.next = peer[w->at[i + 1]],
				.depth = (uint8_t)(w->steps - 1 - i),
				.sums = w->sums[i],
			};
			if (i)
				e.from = peer[w->at[i - 1]];
			struct fan_route_entry *into = entry_like(entry, &count, &e);
			if (into)
				fan_ranks_set(into->ranks, rank);
		}
	}
	return count;
}
