/* SPDX-License-Identifier: Apache-2.0 */
/* routed.c - the shared switch where jobs have routes: which way a packet came, and which
 * way it goes on. */
#include "shared_priv.h"

int fan_shared_route(struct fan_shared *sh, const struct fan_route_config *c)
{
	int i = fan_shared_find_route(sh, (uint32_t)c->number << FAN_ROUTE_BITS);
	if (i >= 0)
		return fan_route_is(&sh->route[i], c) ? FAN_OK : FAN_E_BUSY;
	for (unsigned n = 0; n < sh->cfg.routes; n++) {
		unsigned at = (c->number + n) % sh->cfg.routes;
		if (sh->number[at])
			continue;
		if (fan_route_set(&sh->route[at], c) != FAN_OK)
			return FAN_E_INVALID;
		sh->number[at] = c->number;
		return FAN_OK;
	}
	return FAN_E_SLOTS_FULL;
}

void fan_shared_unroute(struct fan_shared *sh, uint16_t number)
{
	int i = fan_shared_find_route(sh, (uint32_t)number << FAN_ROUTE_BITS);
	if (i < 0)
		return;
	sh->number[i] = 0;
	for (unsigned k = 0; k < FAN_ROUTE_LIVES; k++) /* its slots are anybody's from now on */
		sh->routed[(unsigned)i * FAN_ROUTE_LIVES + k].used = false;
}

static bool goes_up(uint8_t type)
{
	return type == FAN_TYPE_DATA || type == FAN_TYPE_PROBE || type == FAN_TYPE_JOIN ||
	       type == FAN_TYPE_BEAT || type == FAN_TYPE_LEAVE;
}

int fan_routed_direction(const struct fan_shared *sh, const fan_peer *from,
			 const struct fan_frag *f, bool *above)
{
	uint32_t job = f->job;
	uint8_t type = f->type;
	*above = fan_peer_equal(from, &sh->cfg.home);
	if (!sh->cfg.routes)
		return -1;
	if (type == FAN_TYPE_VIA && f->payload_bytes >= FAN_HEAD_BYTES) {
		type = f->payload[1]; /* not checked yet; whoever opens it does */
		job = fan_get32(f->payload + 4);
	}
	if (!fan_route_number(job))
		return fan_peer_is_none(&sh->cfg.home) ? FAN_DROP_ROUTE : -1;
	int i = fan_shared_find_route(sh, job);
	if (i < 0)
		return FAN_DROP_ROUTE;
	*above = !goes_up(type);
	return *above && !fan_route_leads_to(&sh->route[i], from) ? FAN_DROP_ROUTE : -1;
}

const struct fan_route_entry *fan_routed_control(const struct fan_shared *sh, const fan_peer *from,
						 const struct fan_frag *f, unsigned hops)
{
	int i = fan_shared_find_route(sh, f->job);
	if (i < 0)
		return NULL;
	const struct fan_route_entry *e = fan_route_up_one(&sh->route[i], from, f->sender);
	return e && (hops == 0) == fan_peer_is_none(&e->from) ? e : NULL;
}

bool fan_routed_is_back(const struct fan_shared *sh, const fan_peer *from, uint32_t job,
			const struct fan_child *c)
{
	int i = fan_shared_find_route(sh, job);
	if (i < 0)
		return true;
	fan_peer hop = fan_peer_hop(&c->peer);
	const struct fan_route_entry *e = fan_route_up_one(&sh->route[i], &hop, c->rank);
	return e && fan_peer_equal(&e->next, from);
}

int fan_routed_part(const struct fan_shared *sh, const struct fan_shared_job *j,
		    const fan_peer *from, struct fan_part *p)
{
	const struct fan_route_entry *e = fan_route_up(j->route, from, p->ranks);
	if (!e)
		return FAN_DROP_ROUTE;
	p->sums = e->sums;
	p->next = &e->next;
	if (!fan_peer_is_none(&e->from))
		return -1;
	fan_peer hop = fan_relay_hop(sh, j, p->first);
	if (p->wide) /* a worker sends its own part and no sums */
		return FAN_DROP_ROUTE;
	return fan_peer_equal(&hop, from) ? -1 : FAN_DROP_SENDER;
}

/* Send `f` to those of a group, and say how many hops it has come. */
static void send_down(struct fan_out *out, const struct fan_group *group, const struct fan_frag *f,
		      unsigned depth)
{
	struct fan_out_item *it = fan_out_add(out, FAN_TO_GROUP);
	struct fan_frag g = *f;
	it->group = group;
	fan_relay_copy(it, f);
	g.priority = (uint8_t)depth;
	fan_wire_put(it->head, &g);
}

/* Who knows the ranks of `f` may be several hops below: all of that way are asked. */
enum fan_verdict fan_routed_ask_who(struct fan_shared *sh, const fan_peer *from,
				    const struct fan_frag *f, struct fan_out *out)
{
	struct fan_routed *r = &sh->route[fan_shared_find_route(sh, f->job)];
	struct fan_partial several;
	const struct fan_route_entry *e;
	if (!(f->flags & FAN_F_PARTIAL))
		e = fan_route_up_one(r, from, f->sender);
	else
		e = fan_partial_get(&several, f, FAN_RANKS_MAX)
			    ? fan_route_up(r, from, several.ranks)
			    : NULL;
	if (!e)
		return fan_shared_drop(sh, FAN_DROP_ROUTE);
	if (fan_peer_is_none(&e->from))
		return fan_relay_ask_who(sh, from, f, FAN_DROP_JOB, out);
	uint64_t *asked_ns = &r->asked_ns[e - r->entry];
	if (*asked_ns && sh->now_ns - (*asked_ns - 1) < FAN_WHO_NS)
		return fan_shared_drop(sh, FAN_DROP_JOB);
	*asked_ns = sh->now_ns + 1;
	fan_relay_ask_who(sh, from, f, FAN_DROP_JOB, out);
	struct fan_out_item *it = &out->item[out->count - 1];
	struct fan_frag who;
	if (fan_wire_get(&who, it->head, FAN_HEAD_BYTES) < 0) {
		who.priority = e->depth;
		fan_wire_put(it->head, &who);
	}
	return FAN_DROP;
}

enum fan_verdict fan_routed_to_all(struct fan_shared *sh, const struct fan_shared_job *j,
				   const fan_peer *from, const struct fan_frag *f,
				   struct fan_out *out)
{
	const struct fan_routed *r = j->route;
	const struct fan_route_entry *way = fan_route_way(r, from, f->priority);
	if (!way)
		return fan_shared_drop(sh, FAN_DROP_ROUTE);
	if (f->type != FAN_TYPE_FLUSH && fan_route_way_has_workers(r, way))
		send_down(out, &j->group, f, way->depth);
	send_down(out, &r->way[way - r->entry], f, way->depth);
	return f->type >= FAN_TYPE_CTL ? FAN_CTL : FAN_PASS;
}

static enum fan_verdict to_one(struct fan_shared *sh, const struct fan_shared_job *j,
			       const fan_peer *from, const struct fan_frag *f, struct fan_out *out)
{
	const struct fan_route_entry *e = fan_route_down_one(j->route, from, f->priority);
	if (!e)
		return fan_shared_drop(sh, FAN_DROP_ROUTE);
	fan_peer hop = fan_peer_is_none(&e->from) ? fan_relay_hop(sh, j, f->priority) : e->from;
	if (fan_peer_is_none(&hop))
		return fan_shared_drop(sh, FAN_DROP_SENDER);
	struct fan_out_item *it = fan_out_add(out, FAN_TO_PEER);
	it->peer = hop;
	fan_relay_copy(it, f);
	return FAN_PASS;
}

enum fan_verdict fan_routed_fragment(struct fan_shared *sh, const struct fan_shared_job *j,
				     const fan_peer *from, const struct fan_frag *f,
				     struct fan_out *out)
{
	if (fan_relay_is_for_one(f))
		return to_one(sh, j, from, f, out);
	if (f->type != FAN_TYPE_RESULT)
		return fan_routed_to_all(sh, j, from, f, out);
	const struct fan_group *group[] = {&j->group, &j->route->below};
	for (unsigned i = 0; i < 2; i++) {
		struct fan_out_item *it = fan_out_add(out, FAN_TO_GROUP);
		it->group = group[i];
		fan_relay_copy(it, f);
		if (f->flags & FAN_F_ECN) /* it may have met congestion just now */
			fan_wire_put(it->head, f);
	}
	return FAN_PASS;
}

void fan_routed_install(const struct fan_shared *sh, struct fan_shared_job *j)
{
	const struct fan_routed *r = j->route;
	j->up = r->up;
	j->switches = r->below.ranks > 0;
	for (uint16_t rank = 0; rank < j->ranks; rank++) {
		if (fan_ranks_has(r->sums, rank))
			fan_ranks_set(j->below, rank);
		if (!j->child[rank])
			continue;
		j->children++;
		j->hops[rank] = fan_relay_hop(sh, j, rank);
	}
}
