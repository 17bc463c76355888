/* SPDX-License-Identifier: Apache-2.0 */
/* relay.c - a shared switch's children: their control messages on the way up, and what
 * comes down for them. */
#include "shared_priv.h"

void fan_relay_copy(struct fan_out_item *it, const struct fan_frag *f)
{
	memcpy(it->head, f->payload - FAN_HEAD_BYTES, FAN_HEAD_BYTES);
	it->payload = f->payload_bytes ? f->payload : NULL;
	it->payload_bytes = f->payload_bytes;
}

fan_peer fan_relay_hop(const struct fan_shared *sh, const struct fan_shared_job *j, uint16_t rank)
{
	const fan_peer none = {.port = 0};
	if (rank >= j->ranks || !j->child[rank])
		return none;
	return fan_peer_hop(&sh->children[j->child[rank] - 1].peer);
}

enum fan_verdict fan_relay_ask_who(struct fan_shared *sh, const fan_peer *to,
				   const struct fan_frag *f, enum fan_drop why, struct fan_out *out)
{
	struct fan_out_item *it = fan_out_add(out, FAN_TO_PEER);
	struct fan_frag h = {
		.job = f->job,
		.epoch = f->epoch,
		.sender = FAN_RANK_NONE,
		.type = FAN_TYPE_WHO,
	};
	it->peer = *to;
	fan_ctl_finish(it, &h, NULL, 0);
	sh->stats.unknown++;
	return fan_shared_drop(sh, why);
}

/* Which ranks are below, and where to send once for several. */
static void find_below(struct fan_shared *sh, struct fan_shared_job *j)
{
	bool ahead = j->lead.ahead;
	memset(j->below, 0, sizeof j->below);
	memset(j->hops, 0, sizeof j->hops);
	j->children = 0;
	j->switches = false;
	memset(j->lead.offers, 0, sizeof j->lead.offers);
	if (j->route)
		fan_routed_install(sh, j);
	for (uint16_t r = 0; r < j->ranks && !j->route; r++) {
		if (!j->child[r])
			continue;
		const struct fan_child *c = &sh->children[j->child[r] - 1];
		const fan_peer *peer = &c->peer;
		j->lead.ahead |= (c->beat & FAN_BEAT_AHEAD) != 0;
		if (c->beat & FAN_BEAT_LEADS)
			fan_ranks_set(j->lead.offers, r);
		bool behind = fan_peer_token(peer) != 0;
		fan_ranks_set(j->below, r);
		j->children++;
		j->hops[r] = fan_peer_hop(peer);
		j->switches |= behind;
		for (uint16_t k = 0; k < r && behind; k++)
			if (fan_peer_equal(&j->hops[k], &j->hops[r]))
				memset(&j->hops[r], 0, sizeof j->hops[r]);
	}
	if (j->lead.ahead != ahead)
		fan_lead_divide(sh);
}

/* Forget what child number `token` was of the job. */
static void leave_job(struct fan_shared *sh, struct fan_shared_job *j, uint16_t token)
{
	bool any = false;
	for (unsigned r = 0; r < j->ranks; r++) {
		if (j->child[r] == token) {
			j->child[r] = 0;
			any = true;
		}
	}
	if (any)
		find_below(sh, j);
	if (!j->children && !j->route) {
		j->used = false;
		fan_lead_divide(sh);
	}
}

static void forget(struct fan_shared *sh, uint16_t token)
{
	sh->children[token - 1].used = false;
	for (unsigned i = 0; i < fan_shared_places(sh); i++)
		if (fan_shared_job_at(sh, i)->used)
			leave_job(sh, fan_shared_job_at(sh, i), token);
}

void fan_shared_tick(struct fan_shared *sh, uint64_t now_ns)
{
	if (now_ns < sh->deadline_ns)
		return;
	bool any = false;
	for (unsigned i = 0; i < sh->cfg.children_max; i++) {
		const struct fan_child *c = &sh->children[i];
		if (c->used && now_ns - c->heard_ns >= FAN_CHILD_SILENT_NS)
			forget(sh, (uint16_t)(i + 1));
		any |= c->used;
	}
	sh->deadline_ns = any ? now_ns + FAN_CHILD_SILENT_NS / 4 : UINT64_MAX;
}

/* The token of the child at `peer`, which is made if need be; 0: the table is full. */
static uint16_t find_child(struct fan_shared *sh, uint64_t now_ns, const fan_peer *peer)
{
	uint16_t free = 0;
	for (unsigned i = 0; i < sh->cfg.children_max; i++) {
		const struct fan_child *c = &sh->children[i];
		if (c->used && fan_peer_equal(&c->peer, peer))
			return (uint16_t)(i + 1);
		if (!c->used && !free)
			free = (uint16_t)(i + 1);
	}
	if (!free)
		return 0;
	sh->children[free - 1] = (struct fan_child){.peer = *peer, .used = true};
	if (sh->deadline_ns == UINT64_MAX)
		sh->deadline_ns = now_ns + FAN_CHILD_SILENT_NS / 4;
	return free;
}

/* Tell a child that joins as `join` says why not: as the home would. */
static enum fan_verdict refuse(const fan_peer *hop, uint16_t token, const struct fan_frag *join,
			       const struct fan_refuse *no, struct fan_out *out)
{
	struct fan_frag h = {
		.frag = join->frag,
		.job = join->job, /* its route */
		.sender = FAN_RANK_NONE,
		.type = FAN_TYPE_REFUSE,
	};
	struct fan_out_item *it = fan_out_add(out, FAN_TO_PEER);
	uint8_t *body = fan_out_scratch(out, FAN_CTL_BYTES_MAX);
	it->peer = *hop;
	fan_ctl_finish(it, &h, body, fan_refuse_put(body, no));
	const struct fan_via v = {.token = token};
	if (token)
		fan_via_put(it, out, &v, h.job, 0, it->head, it->payload, it->payload_bytes);
	return FAN_CTL;
}

static enum fan_verdict refuse_child(const struct fan_shared *sh, const fan_peer *hop,
				     uint16_t token, const struct fan_frag *join,
				     struct fan_out *out)
{
	const struct fan_refuse no = {
		.err = FAN_E_MEMBERS_FULL,
		.rank = FAN_RANK_NONE,
		.have = sh->cfg.children_max,
		.want = sh->cfg.children_max + 1u,
	};
	return refuse(hop, token, join, &no, out);
}

/* The rank is not to send here what it wants to: its route has it elsewhere. */
static enum fan_verdict refuse_route(struct fan_shared *sh, const fan_peer *hop, uint16_t token,
				     const struct fan_frag *f, struct fan_out *out)
{
	const struct fan_refuse no = {
		.err = FAN_E_ROUTE,
		.rank = f->sender,
		.have = fan_route_number(f->job),
	};
	if (f->type == FAN_TYPE_JOIN)
		refuse(hop, token, f, &no, out);
	return fan_shared_drop(sh, FAN_DROP_ROUTE);
}

/* Does another child speak for this rank?  The same way in may have a new token. */
static bool is_of_another(struct fan_shared *sh, const fan_peer *from, const struct fan_frag *f)
{
	const struct fan_shared_job *j = fan_shared_job_of(sh, f->job, f->epoch);
	if (f->type == FAN_TYPE_JOIN || !j || f->sender >= j->ranks || !j->child[f->sender])
		return false;
	fan_peer hop = fan_relay_hop(sh, j, f->sender);
	return !fan_peer_equal(&hop, from);
}

static void note_name(struct fan_child *c, const struct fan_frag *join)
{
	struct fan_join m;
	memset(c->name, 0, sizeof c->name);
	if (fan_join_get(&m, join) == FAN_OK)
		memcpy(c->name, m.name, m.name_bytes);
}

/* A BEAT tells what its rank can do for others. */
static void note_beat(struct fan_shared *sh, struct fan_child *c, const struct fan_frag *beat)
{
	struct fan_beat m;
	if (fan_beat_get(&m, beat) != FAN_OK)
		return;
	c->cache = m.cache;
	if (m.flags == c->beat)
		return;
	c->beat = m.flags;
	struct fan_shared_job *j = fan_shared_job_of(sh, c->job, c->epoch);
	if (j)
		find_below(sh, j);
}

enum fan_verdict fan_relay_up(struct fan_shared *sh, uint64_t now_ns, const fan_peer *from,
			      const struct fan_frag *f, struct fan_out *out)
{
	struct fan_via v = {.inner = NULL};
	struct fan_frag inner = *f;
	if (f->type == FAN_TYPE_VIA) {
		if (fan_via_get(&v, f) != FAN_OK)
			return fan_shared_drop(sh, FAN_DROP_FORMAT);
		int why = fan_wire_get(&inner, v.inner, v.inner_bytes);
		if (why >= 0)
			return fan_shared_drop(sh, (enum fan_drop)why);
	}
	if (inner.type != FAN_TYPE_JOIN && inner.type != FAN_TYPE_BEAT &&
	    inner.type != FAN_TYPE_LEAVE)
		return fan_shared_drop(sh, FAN_DROP_TYPE);
	if (v.hops == FAN_VIA_HOPS_MAX || inner.payload_bytes > FAN_CTL_BYTES_MAX - FAN_HEAD_BYTES)
		return fan_shared_drop(sh, FAN_DROP_LONG);
	const fan_peer *next = &sh->cfg.home;
	const struct fan_route_entry *e = NULL;
	uint16_t below = v.token;
	if (fan_shared_find_route(sh, inner.job) >= 0) {
		e = fan_routed_control(sh, from, &inner, v.hops);
		if (!e)
			return refuse_route(sh, from, below, &inner, out);
		next = &e->next;
	}
	if ((!e || fan_peer_is_none(&e->from)) && is_of_another(sh, from, &inner))
		return fan_shared_drop(sh, FAN_DROP_SENDER);
	fan_peer peer = fan_peer_behind(from, below);
	v = (struct fan_via){.token = find_child(sh, now_ns, &peer), .hops = v.hops + 1};
	if (!v.token)
		return inner.type == FAN_TYPE_JOIN ? refuse_child(sh, from, below, &inner, out)
						   : fan_shared_drop(sh, FAN_DROP_SENDER);
	struct fan_child *c = &sh->children[v.token - 1];
	c->heard_ns = now_ns;
	c->rank = inner.sender;
	if (inner.type == FAN_TYPE_JOIN) {
		c->nonce = inner.frag;
		note_name(c, &inner);
	} else {
		c->job = inner.job;
		c->epoch = inner.epoch;
	}
	if (inner.type == FAN_TYPE_BEAT)
		note_beat(sh, c, &inner);
	struct fan_out_item *it = fan_out_add(out, FAN_TO_PEER);
	it->peer = *next;
	fan_via_put(it, out, &v, 0, 0, inner.payload - FAN_HEAD_BYTES, inner.payload,
		    inner.payload_bytes);
	return FAN_CTL;
}

/* Is what the home says in the envelope `f` meant for the child as it is now?  Before a
 * restart of ours, or of a switch on the way, the token may have meant another one. */
static bool is_meant(const struct fan_child *c, const struct fan_frag *f, const struct fan_via *v,
		     const struct fan_frag *inner)
{
	if (!v->ranks) /* of no job: the worker knows by the nonce */
		return true;
	if (c->rank != v->rank)
		return false;
	if (inner->type == FAN_TYPE_WELCOME)
		return inner->frag == c->nonce;
	return c->job == f->job && c->epoch == f->epoch;
}

/* Where to note what is told of job `id`, of which nothing is known: of the lives that a
 * route has place for, the one of which nothing was told for the longest time goes. */
static struct fan_shared_job *find_place(struct fan_shared *sh, uint32_t id)
{
	int route = fan_shared_find_route(sh, id);
	if (route < 0)
		return &sh->job[(id & 0xff) % FAN_JOBS_MAX];
	struct fan_shared_job *first = &sh->routed[(unsigned)route * FAN_ROUTE_LIVES], *j = first;
	for (unsigned i = 1; i < FAN_ROUTE_LIVES && j->used; i++)
		if (!first[i].used || first[i].heard_ns < j->heard_ns)
			j = &first[i];
	return j;
}

/* Child `now` is the rank that child `before` was, 0: that nobody was. */
static void take_row(struct fan_shared *sh, uint16_t before, uint16_t now)
{
	if (before)
		sh->helps[now - 1] = sh->helps[before - 1];
	else
		memset(&sh->helps[now - 1], 0, sizeof *sh->helps);
}

/* The home has told of a job that child `v->token` has a rank in, and under what name it has
 * joined if it is told just now. */
static void install(struct fan_shared *sh, const struct fan_frag *f, const struct fan_via *v,
		    const char *name)
{
	struct fan_shared_job *j = fan_shared_job_of(sh, f->job, f->epoch);
	int route = fan_shared_find_route(sh, f->job);
	if (!j) {
		j = find_place(sh, f->job);
		memset(j, 0, sizeof *j);
		j->used = true;
		j->id = f->job;
		j->epoch = f->epoch;
		j->ranks = v->ranks;
		j->window = v->window;
		j->payload_bytes = v->payload_bytes;
		j->group.peers = j->hops;
		j->group.ranks = j->ranks;
		j->quota = sh->cfg.quota;
		j->up = sh->cfg.home;
		j->route = route < 0 ? NULL : &sh->route[route];
		find_below(sh, j);
	}
	if (j->route && j->route->quota)
		j->quota = j->route->quota;
	else if (name && !j->name[0])
		j->quota = sh->cfg.quota * fan_shares_weight(&sh->cfg.shares, name);
	if (name && !j->name[0])
		memcpy(j->name, name, sizeof j->name);
	j->heard_ns = sh->now_ns;
	bool behind = fan_peer_token(&sh->children[v->token - 1].peer) != 0;
	if (v->rank >= j->ranks || j->child[v->rank] == v->token || (j->route && behind))
		return;
	take_row(sh, j->child[v->rank], v->token);
	j->child[v->rank] = v->token;
	find_below(sh, j);
}

/* Shard i here talks to shard i there, so there must be as many.  Else `*no` says so. */
static bool has_as_many_shards(const struct fan_shared *sh, const struct fan_frag *welcome,
			       struct fan_refuse *no)
{
	struct fan_welcome m;
	if (!sh->cfg.shards || fan_welcome_get(&m, welcome) != FAN_OK || m.shards == sh->cfg.shards)
		return true;
	*no = (struct fan_refuse){
		.err = FAN_E_SHARDS,
		.rank = FAN_RANK_NONE,
		.have = sh->cfg.shards,
		.want = m.shards,
	};
	return false;
}

static enum fan_verdict open_envelope(struct fan_shared *sh, const fan_peer *from,
				      const struct fan_frag *f, struct fan_out *out)
{
	struct fan_via v;
	struct fan_frag inner;
	struct fan_refuse no;
	if (fan_via_get(&v, f) != FAN_OK)
		return fan_shared_drop(sh, FAN_DROP_FORMAT);
	int why = fan_wire_get(&inner, v.inner, v.inner_bytes);
	if (why >= 0)
		return fan_shared_drop(sh, (enum fan_drop)why);
	if (v.token > sh->cfg.children_max || !sh->children[v.token - 1].used)
		return fan_shared_drop(sh, FAN_DROP_SENDER);
	const struct fan_child *c = &sh->children[v.token - 1];
	if (!is_meant(c, f, &v, &inner) || !fan_routed_is_back(sh, from, inner.job, c))
		return fan_shared_drop(sh, FAN_DROP_SENDER);
	bool welcome = inner.type == FAN_TYPE_WELCOME;
	if (welcome && !has_as_many_shards(sh, &inner, &no)) {
		fan_peer hop = fan_peer_hop(&c->peer);
		return refuse(&hop, fan_peer_token(&c->peer), &inner, &no, out);
	}
	if (v.ranks)
		install(sh, f, &v, welcome ? c->name : NULL);
	uint16_t child = v.token;
	struct fan_out_item *it = fan_out_add(out, FAN_TO_PEER);
	it->peer = fan_peer_hop(&c->peer);
	v.token = fan_peer_token(&c->peer);
	if (v.token)
		fan_via_put(it, out, &v, f->job, f->epoch, v.inner, inner.payload,
			    inner.payload_bytes);
	else
		fan_relay_copy(it, &inner);
	if (inner.type == FAN_TYPE_LEFT)
		forget(sh, child);
	return FAN_CTL;
}

enum fan_verdict fan_relay_down(struct fan_shared *sh, const fan_peer *from,
				const struct fan_frag *f, struct fan_out *out)
{
	if (f->type == FAN_TYPE_VIA)
		return open_envelope(sh, from, f, out);
	if (f->type != FAN_TYPE_STATE && f->type != FAN_TYPE_WHO)
		return fan_shared_drop(sh, FAN_DROP_TYPE);
	struct fan_shared_job *j = fan_shared_job_of(sh, f->job, f->epoch);
	if (!j)
		return fan_shared_drop(sh, FAN_DROP_JOB);
	if (j->route)
		return fan_routed_to_all(sh, j, from, f, out);
	struct fan_out_item *it = fan_out_add(out, FAN_TO_GROUP);
	it->group = &j->group;
	fan_relay_copy(it, f);
	return FAN_CTL;
}

bool fan_relay_is_for_one(const struct fan_frag *f)
{
	if (f->type == FAN_TYPE_NEED)
		return !(f->flags & FAN_F_PARTIAL);
	if (f->type == FAN_TYPE_FLUSH)
		return f->flags & FAN_F_LEAD;
	if (f->type != FAN_TYPE_RESULT)
		return true; /* PACE; DATA and PROBE for a leading worker */
	bool to_root = f->flags & FAN_F_REDUCE && !(f->flags & FAN_F_EMPTY);
	return f->type == FAN_TYPE_RESULT && (f->flags & FAN_F_RESEND || to_root);
}

enum fan_verdict fan_relay_fragment(struct fan_shared *sh, struct fan_shared_job *j,
				    const fan_peer *from, const struct fan_frag *f,
				    struct fan_out *out)
{
	if (j->route)
		return fan_routed_fragment(sh, j, from, f, out);
	if (f->type == FAN_TYPE_FLUSH && !j->switches && !fan_relay_is_for_one(f))
		return FAN_CTL;
	struct fan_out_item *it;
	if (fan_relay_is_for_one(f)) {
		fan_peer hop = fan_relay_hop(sh, j, f->priority);
		if (fan_peer_is_none(&hop))
			return fan_shared_drop(sh, FAN_DROP_SENDER);
		it = fan_out_add(out, FAN_TO_PEER);
		it->peer = hop;
	} else {
		it = fan_out_add(out, FAN_TO_GROUP);
		it->group = &j->group;
	}
	fan_relay_copy(it, f);
	if (f->flags & FAN_F_ECN) /* it may have met congestion just now */
		fan_wire_put(it->head, f);
	return FAN_PASS;
}
