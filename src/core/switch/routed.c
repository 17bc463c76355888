/* SPDX-License-Identifier: Apache-2.0 */
/* routed.c - the switch where jobs have routes: from where a packet came,
 * and where it goes next. */
#include "routed.h"

int fan_switch_route(struct fan_switch *sw, const struct fan_route_config *c)
{
	int i = fan_switch_find_route(sw, (uint32_t)c->number << FAN_ROUTE_BITS);
	if (i >= 0)
		return fan_route_is(&sw->route[i], c) ? FAN_OK : FAN_E_BUSY;
	for (unsigned n = 0; n < sw->cfg.routes; n++) {
		unsigned at = (c->number + n) % sw->cfg.routes;
		if (sw->number[at])
			continue;
		if (fan_route_set(&sw->route[at], c) != FAN_OK)
			return FAN_E_INVALID;
		sw->number[at] = c->number;
		return FAN_OK;
	}
	return FAN_E_SLOTS_FULL;
}

void fan_switch_unroute(struct fan_switch *sw, uint16_t number)
{
	int i = fan_switch_find_route(sw, (uint32_t)number << FAN_ROUTE_BITS);
	if (i < 0)
		return;
	sw->number[i] = 0;
	for (unsigned k = 0; k < FAN_ROUTE_LIVES; k++) { /* its slots are anybody's from now on */
		struct fan_switch_job *j = &sw->routed[(unsigned)i * FAN_ROUTE_LIVES + k];
		if (j->used)
			fan_relay_end_job(sw, j);
	}
}

enum direction { UP, DOWN, EITHER };

/* In which direction does a message travel?  Contributions and questions of ranks may be for a
 * helper below; an answer of a switch, or of the aggregator, is for no helper. */
static enum direction direction_of(uint8_t type, uint16_t sender)
{
	switch (type) {
	case FAN_TYPE_JOIN:
	case FAN_TYPE_BEAT:
	case FAN_TYPE_LEAVE: return UP;
	case FAN_TYPE_DATA:
	case FAN_TYPE_PARTIAL:
	case FAN_TYPE_PROBE: return EITHER;
	case FAN_TYPE_PROGRESS: return sender == FAN_RANK_NONE ? DOWN : EITHER;
	case FAN_TYPE_MISS: return sender == FAN_RANK_NONE ? DOWN : UP;
	default: return DOWN;
	}
}

int fan_routed_direction(const struct fan_switch *sw, const fan_peer *from,
			 const struct fan_frag *f, bool *above)
{
	uint32_t job = f->job;
	uint8_t type = f->type;
	if (type == FAN_TYPE_RELAY && f->payload_bytes >= FAN_HEAD_BYTES) {
		type = f->payload[1]; /* not checked yet; its reader does */
		job = fan_get32(f->payload + 4);
	}
	if (!fan_route_number(job))
		return fan_peer_is_none(&sw->cfg.aggregator) ? FAN_DROP_ROUTE : -1;
	int i = fan_switch_find_route(sw, job);
	if (i < 0)
		return FAN_DROP_ROUTE;
	const struct fan_route *r = &sw->route[i];
	enum direction goes = direction_of(type, f->sender);
	/* A helper sends no DATA for others, so DATA is for a helper.  Sums and questions of a
	 * neighbour that is both below and above are ambiguous: they go up, where sums are
	 * completed, too. */
	bool for_helper = goes == EITHER && f->helper && fan_route_leads_to(r, from) &&
			  (type == FAN_TYPE_DATA || fan_route_find(r, from) < 0);
	*above = goes == DOWN || for_helper;
	return *above && !fan_route_leads_to(r, from) ? FAN_DROP_ROUTE : -1;
}

int fan_routed_contribution(const struct fan_switch *sw, const struct fan_switch_job *j,
			    const fan_peer *from, struct fan_contribution *p)
{
	const struct fan_route_entry *e = fan_route_up(j->route, from, p->ranks);
	if (!e)
		return FAN_DROP_ROUTE;
	p->sums = e->sums;
	p->next = &e->next;
	if (!fan_peer_is_none(&e->from))
		return -1;
	fan_peer hop = fan_relay_hop(sw, j, p->first);
	if (p->is_sum) /* a worker sends its own contribution and no sums */
		return FAN_DROP_ROUTE;
	return fan_peer_equal(&hop, from) ? -1 : FAN_DROP_SENDER;
}

static int routed_rank(const struct fan_switch *sw, const struct fan_switch_job *j,
		       const fan_peer *from, uint16_t rank, struct fan_contribution *p)
{
	const struct fan_route_entry *e = fan_route_up_one(j->route, from, rank);
	if (!e)
		return FAN_DROP_ROUTE;
	p->sums = e->sums;
	p->next = &e->next;
	fan_peer hop = fan_relay_hop(sw, j, rank);
	bool here = fan_peer_is_none(&e->from);
	return !here || fan_peer_equal(&hop, from) ? -1 : FAN_DROP_SENDER;
}

fan_peer fan_routed_down(const struct fan_switch *sw, const struct fan_switch_job *j,
			 const fan_peer *from, uint16_t rank)
{
	const fan_peer none = {.port = 0};
	const struct fan_route_entry *e = fan_route_down_one(j->route, from, rank);
	if (!e)
		return none;
	return fan_peer_is_none(&e->from) ? fan_relay_hop(sw, j, rank) : e->from;
}

/* Send `f` to the members of a group, with the number of hops so far. */
static void send_down(struct fan_out *out, const struct fan_group *group, const struct fan_frag *f,
		      unsigned depth)
{
	struct fan_out_item *it = fan_out_add(out, FAN_TO_GROUP);
	struct fan_frag g = *f;
	it->group = group;
	fan_relay_copy(it, f);
	g.depth = (uint8_t)depth;
	fan_wire_put(it->head, &g);
}

/* The switch that knows the ranks of `f` may be several hops below: ask all on that path. */
enum fan_verdict fan_routed_ask_who(struct fan_switch *sw, const fan_peer *from,
				    const struct fan_frag *f, struct fan_out *out)
{
	int route = fan_switch_find_route(sw, f->job);
	assert(route >= 0);
	struct fan_route *r = &sw->route[route];
	struct fan_contribution p;
	/* how many ranks the job has is not known here */
	unsigned most = f->type == FAN_TYPE_PARTIAL ? f->words * 64u : FAN_RANKS_MAX;
	const struct fan_route_entry *e =
		fan_contribution_get(&p, f, most) < 0 ? fan_route_up(r, from, p.ranks) : NULL;
	if (!e)
		return fan_switch_drop(sw, FAN_DROP_ROUTE);
	if (fan_peer_is_none(&e->from))
		return fan_relay_ask_who(sw, from, f, 0, FAN_DROP_JOB, out);
	uint64_t *asked_ns = &r->asked_ns[e - r->entry];
	if (*asked_ns && sw->now_ns - (*asked_ns - 1) < FAN_WHO_NS)
		return fan_switch_drop(sw, FAN_DROP_JOB);
	*asked_ns = sw->now_ns + 1;
	return fan_relay_ask_who(sw, from, f, e->depth, FAN_DROP_JOB, out);
}

enum fan_verdict fan_routed_to_all(struct fan_switch *sw, const struct fan_switch_job *j,
				   const fan_peer *from, const struct fan_frag *f,
				   struct fan_out *out)
{
	const struct fan_route *r = j->route;
	const struct fan_route_entry *path = fan_route_path(r, from, f->depth);
	if (!path)
		return fan_switch_drop(sw, FAN_DROP_ROUTE);
	if (f->type != FAN_TYPE_FLUSH && fan_route_path_has_workers(r, path))
		send_down(out, &j->group, f, path->depth);
	send_down(out, &r->path[path - r->entry], f, path->depth);
	return f->type >= FAN_TYPE_CTL ? FAN_CTL : FAN_PASS;
}

/* ---- with a route or without ---- */

int fan_path_rank(const struct fan_switch *sw, const struct fan_switch_job *j, const fan_peer *from,
		  uint16_t rank, struct fan_contribution *p)
{
	if (rank >= j->ranks)
		return FAN_DROP_SENDER;
	if (j->route)
		return routed_rank(sw, j, from, rank, p);
	fan_peer hop = fan_relay_hop(sw, j, rank);
	p->sums = true;
	p->next = &j->up;
	return fan_peer_equal(&hop, from) ? -1 : FAN_DROP_SENDER;
}

fan_peer fan_path_down(const struct fan_switch *sw, const struct fan_switch_job *j, uint16_t rank)
{
	return j->route ? fan_routed_down(sw, j, &j->up, rank) : fan_relay_hop(sw, j, rank);
}

bool fan_path_has_all(const struct fan_switch_job *j)
{
	return fan_ranks_count(j->below) == j->ranks;
}
