/* SPDX-License-Identifier: Apache-2.0 */
/* relay.c - a switch's children: their control messages on the way up, and what
 * comes down for them. */
#include "relay.h"

#include "core/base/awake.h"
#include "routed.h"
#include "switch_priv.h"

void fan_relay_copy(struct fan_out_item *it, const struct fan_frag *f)
{
	memcpy(it->head, f->payload - FAN_HEAD_BYTES, FAN_HEAD_BYTES);
	it->payload = f->payload_bytes ? f->payload : NULL;
	it->payload_bytes = f->payload_bytes;
}

enum fan_verdict fan_relay_ask_who(struct fan_switch *sw, const fan_peer *to,
				   const struct fan_frag *f, unsigned depth, enum fan_drop why,
				   struct fan_out *out)
{
	struct fan_out_item *it = fan_out_add(out, FAN_TO_PEER);
	struct fan_frag h = {
		.job = f->job,
		.epoch = f->epoch,
		.sender = FAN_RANK_NONE,
		.type = FAN_TYPE_WHO,
		.depth = (uint8_t)depth,
	};
	it->peer = *to;
	fan_ctl_finish(it, &h, NULL, 0);
	sw->stats.unknown++;
	return fan_switch_drop(sw, why);
}

/* Which ranks are below, and where to send once for several. */
static void find_below(struct fan_switch *sw, struct fan_switch_job *j)
{
	fan_ranks_none(j->below);
	memset(j->hops, 0, sizeof j->hops);
	j->children = 0;
	j->switches = false;
	if (j->route)
		fan_routed_install(sw, j);
	for (uint16_t r = 0; r < j->ranks && !j->route; r++) {
		if (!j->child[r])
			continue;
		const fan_peer *peer = &sw->children[j->child[r] - 1].peer;
		bool behind = fan_peer_token(peer) != 0;
		fan_ranks_set(j->below, r);
		j->children++;
		j->hops[r] = fan_peer_hop(peer);
		j->switches |= behind;
		struct fan_child *c = &sw->children[j->child[r] - 1];
		c->gap_of = j->child[r];
		for (uint16_t k = 0; k < r && behind && c->gap_of == j->child[r]; k++)
			if (fan_peer_equal(&j->hops[k], &j->hops[r])) {
				memset(&j->hops[r], 0, sizeof j->hops[r]);
				c->gap_of = j->child[k];
			}
	}
}

void fan_relay_end_job(struct fan_switch *sw, struct fan_switch_job *j)
{
	assert(j->used);
	for (uint32_t i = 0; j->held && i < sw->slots.count; i++) {
		struct fan_sslot *slot = &sw->slots.slot[i];
		if (!fan_switch_holds(j, slot))
			continue;
		slot->state = FAN_SSLOT_LOST; /* the job may come back, and would hold it unknown */
		j->held--;
	}
	assert(!j->held);
	j->used = false;
	fan_sent_end(sw, j);
	fan_sa_atp_end(sw, j);
}

/* Forget what child number `token` was of the job. */
static void leave_job(struct fan_switch *sw, struct fan_switch_job *j, uint16_t token)
{
	bool any = false;
	for (unsigned r = 0; r < j->ranks; r++) {
		if (j->child[r] == token) {
			j->child[r] = 0;
			any = true;
		}
	}
	const struct fan_child *c = &sw->children[token - 1];
	if (any || (j->id == c->job && j->epoch == c->epoch))
		fan_sa_atp_left(j, c);
	if (any)
		find_below(sw, j);
	if (!j->children && !j->route)
		fan_relay_end_job(sw, j);
}

/* Has any child spoken last of the job? */
static bool has_child(const struct fan_switch *sw, const struct fan_switch_job *j)
{
	for (unsigned i = 0; i < sw->cfg.children_max; i++) {
		const struct fan_child *c = &sw->children[i];
		if (c->used && c->job == j->id && c->epoch == j->epoch)
			return true;
	}
	return false;
}

static void forget(struct fan_switch *sw, uint16_t token)
{
	assert(token >= 1 && token <= sw->cfg.children_max);
	const struct fan_child *c = &sw->children[token - 1];

	sw->children[token - 1].used = false;
	for (unsigned i = 0; i < fan_switch_places(sw); i++)
		if (fan_switch_job_at(sw, i)->used)
			leave_job(sw, fan_switch_job_at(sw, i), token);
	struct fan_switch_job *j = fan_switch_job_of(sw, c->job, c->epoch);
	if (j && j->route && !has_child(sw, j)) /* its stretch of the slots is others' now */
		fan_relay_end_job(sw, j);
}

void fan_switch_tick(struct fan_switch *sw, uint64_t now_ns)
{
	if (now_ns < sw->deadline_ns)
		return;
	bool any = false;
	const uint64_t late_ns = fan_awake_late_ns(sw->deadline_ns, now_ns);
	for (unsigned i = 0; i < sw->cfg.children_max; i++) {
		struct fan_child *c = &sw->children[i];
		c->heard_ns = fan_awake_shift(c->heard_ns, late_ns, now_ns);
		if (c->used && now_ns - c->heard_ns >= FAN_CHILD_SILENT_NS)
			forget(sw, (uint16_t)(i + 1));
		any |= c->used;
	}
	for (unsigned i = FAN_JOBS_MAX; i < fan_switch_places(sw); i++) {
		struct fan_switch_job *j = fan_switch_job_at(sw, i);
		if (j->used)
			fan_switch_job_check(j);
		j->heard_ns = fan_awake_shift(j->heard_ns, late_ns, now_ns);
		if (j->used && now_ns - j->heard_ns >= FAN_CHILD_SILENT_NS)
			fan_relay_end_job(sw, j);
		any |= j->used;
	}
	sw->deadline_ns = any ? now_ns + FAN_CHILD_SILENT_NS / 4 : UINT64_MAX;
}

/* A neighbour whose numbers begin with whichever comes first. */
static void begin_anywhere(struct fan_seq_gap *g)
{
	fan_seq_gap_init(g, 0, true);
	fan_seq_gap_resume(g);
}

/* The token of the child at `peer`, which is made if need be; 0: the table is full. */
static uint16_t find_child(struct fan_switch *sw, uint64_t now_ns, const fan_peer *peer)
{
	uint16_t free = 0;
	for (unsigned i = 0; i < sw->cfg.children_max; i++) {
		const struct fan_child *c = &sw->children[i];
		if (c->used && fan_peer_equal(&c->peer, peer))
			return (uint16_t)(i + 1);
		if (!c->used && !free)
			free = (uint16_t)(i + 1);
	}
	if (!free)
		return 0;
	sw->children[free - 1] = (struct fan_child){.peer = *peer, .used = true};
	begin_anywhere(&sw->children[free - 1].gap);
	if (sw->deadline_ns == UINT64_MAX)
		sw->deadline_ns = now_ns + FAN_CHILD_SILENT_NS / 4;
	return free;
}

/* Tell a child that joins as `join` says why not: as the aggregator would. */
static enum fan_verdict refuse(const fan_peer *hop, uint16_t token, const struct fan_frag *join,
			       const struct fan_refuse *no, struct fan_out *out)
{
	struct fan_frag h = {
		.nonce = join->nonce,
		.job = join->job, /* its route */
		.sender = FAN_RANK_NONE,
		.type = FAN_TYPE_REFUSE,
	};
	struct fan_out_item *it = fan_out_add(out, FAN_TO_PEER);
	uint8_t *body = fan_out_scratch(out, FAN_CTL_BYTES_MAX);
	it->peer = *hop;
	fan_ctl_finish(it, &h, body, fan_refuse_put(body, no));
	const struct fan_envelope v = {.token = token};
	if (token)
		fan_envelope_put(it, out, &v, h.job, 0, it->head, it->payload, it->payload_bytes);
	return FAN_CTL;
}

static enum fan_verdict refuse_child(const struct fan_switch *sw, const fan_peer *hop,
				     uint16_t token, const struct fan_frag *join,
				     struct fan_out *out)
{
	const struct fan_refuse no = {
		.err = FAN_E_MEMBERS_FULL,
		.rank = FAN_RANK_NONE,
		.have = sw->cfg.children_max,
		.want = sw->cfg.children_max + 1u,
	};
	return refuse(hop, token, join, &no, out);
}

/* The rank is not to send here what it wants to: its route has it elsewhere. */
static enum fan_verdict refuse_route(struct fan_switch *sw, const fan_peer *hop, uint16_t token,
				     const struct fan_frag *f, struct fan_out *out)
{
	const struct fan_refuse no = {
		.err = FAN_E_ROUTE,
		.rank = f->sender,
		.have = fan_route_number(f->job),
	};
	if (f->type == FAN_TYPE_JOIN)
		refuse(hop, token, f, &no, out);
	return fan_switch_drop(sw, FAN_DROP_ROUTE);
}

/* Does another child speak for this rank?  The same path may have a new token. */
static bool is_of_another(struct fan_switch *sw, const fan_peer *from, const struct fan_frag *f)
{
	const struct fan_switch_job *j = fan_switch_job_of(sw, f->job, f->epoch);
	if (f->type == FAN_TYPE_JOIN || !j || f->sender >= j->ranks || !j->child[f->sender])
		return false;
	fan_peer hop = fan_relay_hop(sw, j, f->sender);
	return !fan_peer_equal(&hop, from);
}

/* The numbers of a worker's life begin with 1; one that comes another way now has begun elsewhere.
 * Those of a switch below are not a rank's. */
static void begin_numbers(struct fan_child *c, const struct fan_frag *join)
{
	if (fan_peer_token(&c->peer))
		return;
	begin_anywhere(&c->gap);
	if (!join->path)
		fan_seq_gap_init(&c->gap, 0, true);
}

static void note_name(struct fan_child *c, const struct fan_frag *join)
{
	struct fan_join m;
	memset(c->name, 0, sizeof c->name);
	if (fan_join_get(&m, join) == FAN_OK)
		memcpy(c->name, m.name, m.name_bytes);
}

/* A BEAT tells what its rank can do for others. */
static void note_beat(struct fan_switch *sw, struct fan_child *c, const struct fan_frag *beat)
{
	struct fan_beat m;
	if (fan_beat_get(&m, beat) != FAN_OK)
		return;
	c->cache = m.cache;
	c->beat = m.flags;
	struct fan_switch_job *j = fan_switch_job_of(sw, c->job, c->epoch);
	if (j)
		fan_sa_atp_beat(sw, j, c);
}

enum fan_verdict fan_relay_up(struct fan_switch *sw, uint64_t now_ns, const fan_peer *from,
			      const struct fan_frag *f, struct fan_out *out)
{
	struct fan_envelope v = {.inner = NULL};
	struct fan_frag inner = *f;
	if (f->type == FAN_TYPE_RELAY) {
		if (fan_envelope_get(&v, f) != FAN_OK)
			return fan_switch_drop(sw, FAN_DROP_FORMAT);
		int why = fan_wire_get(&inner, v.inner, v.inner_bytes);
		if (why >= 0)
			return fan_switch_drop(sw, (enum fan_drop)why);
	}
	if (inner.type != FAN_TYPE_JOIN && inner.type != FAN_TYPE_BEAT &&
	    inner.type != FAN_TYPE_LEAVE)
		return fan_switch_drop(sw, FAN_DROP_TYPE);
	if (v.hops == FAN_ENVELOPE_HOPS_MAX ||
	    inner.payload_bytes > FAN_CTL_BYTES_MAX - FAN_HEAD_BYTES)
		return fan_switch_drop(sw, FAN_DROP_LONG);
	const fan_peer *next = &sw->cfg.aggregator;
	const struct fan_route_entry *e = NULL;
	uint16_t below = v.token;
	if (fan_switch_find_route(sw, inner.job) >= 0) {
		e = fan_routed_control(sw, from, &inner, v.hops);
		if (!e)
			return refuse_route(sw, from, below, &inner, out);
		next = &e->next;
	}
	if ((!e || fan_peer_is_none(&e->from)) && is_of_another(sw, from, &inner))
		return fan_switch_drop(sw, FAN_DROP_SENDER);
	fan_peer peer = fan_peer_behind(from, below);
	v = (struct fan_envelope){.token = find_child(sw, now_ns, &peer), .hops = v.hops + 1};
	if (!v.token)
		return inner.type == FAN_TYPE_JOIN ? refuse_child(sw, from, below, &inner, out)
						   : fan_switch_drop(sw, FAN_DROP_SENDER);
	struct fan_child *c = &sw->children[v.token - 1];
	c->heard_ns = now_ns;
	c->rank = inner.sender;
	if (inner.type == FAN_TYPE_JOIN) {
		begin_numbers(c, &inner);
		c->nonce = inner.nonce;
		note_name(c, &inner);
	} else {
		c->job = inner.job;
		c->epoch = inner.epoch;
	}
	if (inner.type == FAN_TYPE_BEAT)
		note_beat(sw, c, &inner);
	struct fan_out_item *it = fan_out_add(out, FAN_TO_PEER);
	it->peer = *next;
	fan_envelope_put(it, out, &v, 0, 0, inner.payload - FAN_HEAD_BYTES, inner.payload,
			 inner.payload_bytes);
	return FAN_CTL;
}

/* Is what the aggregator says in the envelope `f` meant for the child as it is now?  Before a
 * restart of ours, or of a switch on the way, the token may have meant another one. */
static bool is_meant(const struct fan_child *c, const struct fan_frag *f,
		     const struct fan_envelope *v, const struct fan_frag *inner)
{
	if (!v->ranks) /* of no job: the worker knows by the nonce */
		return true;
	if (c->rank != v->rank)
		return false;
	if (inner->type == FAN_TYPE_WELCOME)
		return inner->nonce == c->nonce;
	return c->job == f->job && c->epoch == f->epoch;
}

/* Where to note what is told of job `id`, of which nothing is known: of the lives that a
 * route has place for, the one of which nothing was told for the longest time goes. */
static struct fan_switch_job *find_place(struct fan_switch *sw, uint32_t id)
{
	int route = fan_switch_find_route(sw, id);
	if (route < 0)
		return &sw->job[(id & 0xff) % FAN_JOBS_MAX];
	struct fan_switch_job *first = &sw->routed[(unsigned)route * FAN_ROUTE_LIVES], *j = first;
	for (unsigned i = 1; i < FAN_ROUTE_LIVES && j->used; i++)
		if (!first[i].used || first[i].heard_ns < j->heard_ns)
			j = &first[i];
	return j;
}

/* Child `now` is the rank that child `before` was, 0: that nobody was. */
static void take_row(struct fan_switch *sw, uint16_t before, uint16_t now)
{
	if (before)
		sw->kept[now - 1] = sw->kept[before - 1];
	else
		memset(&sw->kept[now - 1], 0, sizeof *sw->kept);
}

/* The aggregator has told of a job that child `v->token` has a rank in, and under what name it has
 * joined if it is told just now. */
static void install(struct fan_switch *sw, const struct fan_frag *f, const struct fan_envelope *v,
		    const char *name)
{
	struct fan_switch_job *j = fan_switch_job_of(sw, f->job, f->epoch);
	int route = fan_switch_find_route(sw, f->job);
	if (!j) {
		j = find_place(sw, f->job);
		if (j->used)
			fan_relay_end_job(sw, j);
		memset(j, 0, sizeof *j);
		j->used = true;
		j->policy = sw->policy;
		j->id = f->job;
		j->epoch = f->epoch;
		j->ranks = v->ranks;
		j->window = v->window;
		j->payload_bytes = v->payload_bytes;
		j->group.peers = j->hops;
		j->group.ranks = j->ranks;
		j->quota = sw->cfg.quota;
		j->up = sw->cfg.aggregator;
		for (unsigned i = 0; i < FAN_ROUTE_ENTRIES_MAX; i++)
			begin_anywhere(&j->gap[i]);
		j->route = route < 0 ? NULL : &sw->route[route];
		find_below(sw, j);
		if (j->route)
			fan_routed_reserve(sw, j);
	}
	if (j->route && j->route->quota)
		j->quota = j->route->quota;
	else if (name && !j->name[0])
		j->quota = sw->cfg.quota * fan_shares_weight(&sw->cfg.shares, name);
	if (name && !j->name[0])
		memcpy(j->name, name, sizeof j->name);
	j->heard_ns = sw->now_ns;
	const struct fan_child *c = &sw->children[v->token - 1];
	bool behind = fan_peer_token(&c->peer) != 0;
	if (c->job == j->id && c->epoch == j->epoch)
		fan_sa_atp_beat(sw, j, c);
	if (v->rank >= j->ranks || j->child[v->rank] == v->token || (j->route && behind))
		return;
	fan_switch_job_check(j);
	take_row(sw, j->child[v->rank], v->token);
	j->child[v->rank] = v->token;
	find_below(sw, j);
}

/* Shard i here talks to shard i there, so there must be as many.  Else `*no` says so. */
static bool has_as_many_shards(const struct fan_switch *sw, const struct fan_frag *welcome,
			       struct fan_refuse *no)
{
	struct fan_welcome m;
	if (!sw->cfg.shards || fan_welcome_get(&m, welcome) != FAN_OK || m.shards == sw->cfg.shards)
		return true;
	*no = (struct fan_refuse){
		.err = FAN_E_SHARDS,
		.rank = FAN_RANK_NONE,
		.have = sw->cfg.shards,
		.want = m.shards,
	};
	return false;
}

/* Does the message end the life of a rank? */
static bool is_left(const struct fan_frag *inner)
{
	struct fan_state m;
	return inner->type == FAN_TYPE_STATE && fan_state_get(&m, inner) == FAN_OK &&
	       m.state == FAN_JOB_LEFT;
}

static enum fan_verdict open_envelope(struct fan_switch *sw, const fan_peer *from,
				      const struct fan_frag *f, struct fan_out *out)
{
	struct fan_envelope v;
	struct fan_frag inner;
	struct fan_refuse no;
	if (fan_envelope_get(&v, f) != FAN_OK)
		return fan_switch_drop(sw, FAN_DROP_FORMAT);
	int why = fan_wire_get(&inner, v.inner, v.inner_bytes);
	if (why >= 0)
		return fan_switch_drop(sw, (enum fan_drop)why);
	if (v.token > sw->cfg.children_max || !sw->children[v.token - 1].used)
		return fan_switch_drop(sw, FAN_DROP_SENDER);
	const struct fan_child *c = &sw->children[v.token - 1];
	if (!is_meant(c, f, &v, &inner) || !fan_routed_is_back(sw, from, inner.job, c))
		return fan_switch_drop(sw, FAN_DROP_SENDER);
	bool welcome = inner.type == FAN_TYPE_WELCOME;
	if (welcome && !has_as_many_shards(sw, &inner, &no)) {
		fan_peer hop = fan_peer_hop(&c->peer);
		return refuse(&hop, fan_peer_token(&c->peer), &inner, &no, out);
	}
	if (v.ranks)
		install(sw, f, &v, welcome ? c->name : NULL);
	uint16_t child = v.token;
	struct fan_out_item *it = fan_out_add(out, FAN_TO_PEER);
	it->peer = fan_peer_hop(&c->peer);
	v.token = fan_peer_token(&c->peer);
	if (v.token)
		fan_envelope_put(it, out, &v, f->job, f->epoch, v.inner, inner.payload,
				 inner.payload_bytes);
	else
		fan_relay_copy(it, &inner);
	if (is_left(&inner))
		forget(sw, child);
	return FAN_CTL;
}

enum fan_verdict fan_relay_down(struct fan_switch *sw, const fan_peer *from,
				const struct fan_frag *f, struct fan_out *out)
{
	if (f->type == FAN_TYPE_RELAY)
		return open_envelope(sw, from, f, out);
	if (f->type != FAN_TYPE_STATE && f->type != FAN_TYPE_WHO)
		return fan_switch_drop(sw, FAN_DROP_TYPE);
	struct fan_switch_job *j = fan_switch_job_of(sw, f->job, f->epoch);
	if (!j)
		return fan_switch_drop(sw, FAN_DROP_JOB);
	if (j->route)
		return fan_routed_to_all(sw, j, from, f, out);
	struct fan_out_item *it = fan_out_add(out, FAN_TO_GROUP);
	it->group = &j->group;
	fan_relay_copy(it, f);
	return FAN_CTL;
}

uint16_t fan_relay_addressee(const struct fan_frag *f)
{
	return fan_tag_rank(f->to ? f->to : f->helper);
}

enum fan_verdict fan_relay_fragment(struct fan_switch *sw, struct fan_switch_job *j,
				    const fan_peer *from, const struct fan_frag *f,
				    struct fan_out *out)
{
	if (j->route)
		return fan_routed_fragment(sw, j, from, f, out);
	uint16_t rank = fan_relay_addressee(f);
	if (f->type == FAN_TYPE_FLUSH && !j->switches && rank == FAN_RANK_NONE)
		return FAN_CTL;
	struct fan_out_item *it;
	if (rank != FAN_RANK_NONE) {
		fan_peer hop = fan_relay_hop(sw, j, rank);
		if (fan_peer_is_none(&hop))
			return fan_switch_drop(sw, FAN_DROP_SENDER);
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
