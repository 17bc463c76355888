/* SPDX-License-Identifier: Apache-2.0 */
/* relay.c - control messages of a switch's children that go up, and what comes down for them. */
#include "child.h"
#include "routed.h"

void fan_relay_copy(struct fan_out_item *it, const struct fan_frag *f)
{
	memcpy(it->head, f->payload - FAN_HEAD_BYTES, FAN_HEAD_BYTES);
	it->payload = f->payload_bytes ? f->payload : NULL;
	it->payload_bytes = f->payload_bytes;
}

/* Unknown neighbours may be many, and none has proved its address: one WHO in a while to those of
 * each place of a table. */
static bool may_ask(struct fan_switch *sw, const fan_peer *to)
{
	uint64_t h = (to->addr[0] ^ to->addr[1] << 9 ^ to->port) * UINT64_C(0x9e3779b97f4a7c15);
	uint64_t *asked_ns = &sw->asked_ns[(h >> 32) % FAN_WHOS_MAX];
	if (*asked_ns && sw->now_ns - (*asked_ns - 1) < FAN_WHO_NS)
		return false;
	*asked_ns = sw->now_ns + 1;
	return true;
}

enum fan_verdict fan_relay_ask_who(struct fan_switch *sw, const fan_peer *to,
				   const struct fan_frag *f, unsigned depth, enum fan_drop why,
				   struct fan_out *out)
{
	if (!may_ask(sw, to))
		return fan_switch_drop(sw, why);
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

/* The job is over: its logs are free. */
static void sent_end(struct fan_switch *sw, struct fan_switch_job *j)
{
	for (unsigned n = 0; n < FAN_SENT_NEXTS && j->sent[n]; n++) {
		assert(sw->sent[j->sent[n] - 1].job == j);
		sw->sent[j->sent[n] - 1].job = NULL;
		j->sent[n] = 0;
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
	sent_end(sw, j);
	fan_run_ahead.end(sw, j);
}

/* Refuse the JOIN `join` of a child as the aggregator would. */
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
	fan_ctl_finish(it, &h, body, fan_ctl_put(body, no));
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

/* Refuse a rank whose route begins elsewhere. */
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

static const struct fan_refuse stopped = {.err = FAN_E_STOPPED, .rank = FAN_RANK_NONE};

void fan_switch_goodbye(struct fan_switch *sw, uint64_t now_ns)
{
	if (sw->tell_ns == UINT64_MAX)
		sw->tell_ns = now_ns;
}

/* A switch below passes it on, where the nonce is that of its child. */
static void send_failed(const struct fan_child *c, struct fan_out *out)
{
	const struct fan_state s = {
		.state = FAN_JOB_AWAY, .rank_a = FAN_RANK_NONE, .rank_b = FAN_RANK_NONE};
	struct fan_frag h = {
		.nonce = c->nonce,
		.job = c->job,
		.epoch = c->epoch,
		.sender = FAN_RANK_NONE,
		.type = FAN_TYPE_STATE,
	};
	struct fan_out_item *it = fan_out_add(out, FAN_TO_PEER);
	uint8_t *body = fan_out_scratch(out, FAN_CTL_BYTES_MAX);
	it->peer = fan_peer_hop(&c->peer);
	fan_ctl_finish(it, &h, body, fan_ctl_put(body, &s));
	const struct fan_envelope v = {.token = fan_peer_token(&c->peer)};
	if (v.token)
		fan_envelope_put(it, out, &v, h.job, h.epoch, it->head, it->payload,
				 it->payload_bytes);
}

void fan_switch_tell(struct fan_switch *sw, uint64_t now_ns, struct fan_out *out)
{
	if (now_ns < sw->tell_ns)
		return;
	while (sw->telling < sw->cfg.children_max && fan_out_fits(out, 1, 2 * FAN_CTL_BYTES_MAX)) {
		const uint16_t token = ++sw->telling;
		if (sw->marks[token - 1] && fan_child_is_sure(sw, token))
			send_failed(&sw->children[token - 1], out);
	}
	if (sw->telling < sw->cfg.children_max)
		return;
	sw->telling = 0;
	sw->tell_ns = now_ns + FAN_STOP_TELL_NS;
}

/* Does another child speak for this rank?  The same path may have a new token.  An authentic BEAT
 * is the rank's own: the aggregator knows its origin. */
static bool is_of_another(struct fan_switch *sw, const fan_peer *from, const struct fan_frag *f)
{
	if (sw->cfg.authentic)
		return false;
	const struct fan_switch_job *j = fan_switch_job_of(sw, f->job, f->epoch);
	if (f->type == FAN_TYPE_JOIN || !j || f->sender >= j->ranks || !j->child[f->sender])
		return false;
	fan_peer hop = fan_relay_hop(sw, j, f->sender);
	return !fan_peer_equal(&hop, from);
}

/* The entry of the control message `f` of a rank from `from`, in an envelope (`hops` > 0) or not;
 * NULL: `from` is off the route. */
static const struct fan_route_entry *routed_control(const struct fan_switch *sw,
						    const fan_peer *from, const struct fan_frag *f,
						    unsigned hops)
{
	int i = fan_switch_find_route(sw, f->job);
	if (i < 0)
		return NULL;
	const struct fan_route_entry *e = fan_route_up_one(&sw->route[i], from, f->sender);
	return e && (hops == 0) == fan_peer_is_none(&e->from) ? e : NULL;
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
	if (!inner.nonce)
		return fan_switch_drop(sw, FAN_DROP_FORMAT);
	if (v.hops == FAN_ENVELOPE_HOPS_MAX ||
	    inner.payload_bytes > FAN_CTL_BYTES_MAX - FAN_HEAD_BYTES)
		return fan_switch_drop(sw, FAN_DROP_LONG);
	const fan_peer *next = &sw->cfg.aggregator;
	const struct fan_route_entry *e = NULL;
	uint16_t below = v.token;
	if (fan_switch_find_route(sw, inner.job) >= 0) {
		e = routed_control(sw, from, &inner, v.hops);
		if (!e)
			return refuse_route(sw, from, below, &inner, out);
		next = &e->next;
	}
	if ((!e || fan_peer_is_none(&e->from)) && is_of_another(sw, from, &inner))
		return fan_switch_drop(sw, FAN_DROP_SENDER);
	fan_peer peer = fan_peer_behind(from, below);
	if (sw->tell_ns != UINT64_MAX && inner.type == FAN_TYPE_JOIN && !inner.path)
		return refuse(from, below, &inner, &stopped, out);
	v = (struct fan_envelope){.token = fan_child_hear(sw, now_ns, &peer, &inner),
				  .hops = v.hops + 1};
	if (!v.token)
		return inner.type == FAN_TYPE_JOIN ? refuse_child(sw, from, below, &inner, out)
						   : fan_switch_drop(sw, FAN_DROP_SENDER);
	struct fan_out_item *it = fan_out_add(out, FAN_TO_PEER);
	it->peer = *next;
	fan_envelope_put(it, out, &v, 0, 0, inner.payload - FAN_HEAD_BYTES, inner.payload,
			 inner.payload_bytes);
	return FAN_CTL;
}

/* Is the aggregator's answer in the envelope `f` meant for the child as it is now?  Before a
 * restart of ours, or of a switch on the path, the token may have meant another one; and tokens can
 * be guessed, but not nonces. */
static bool is_meant(const struct fan_child *c, const struct fan_frag *f,
		     const struct fan_envelope *v, const struct fan_frag *inner)
{
	if (inner->nonce != c->nonce)
		return false;
	if (!v->ranks || inner->type == FAN_TYPE_WELCOME)
		return !v->ranks || c->rank == v->rank;
	return c->rank == v->rank && c->job == f->job && c->epoch == f->epoch;
}

/* Where to store a report about the unknown job `id`: of the lives that a route has room for,
 * replace the one whose last report is oldest. */
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

/* Give a new job whose route has a quota so many slots in line of its own, for its whole life: none
 * that the job of another route has.  If there are not so many, it shares slots by hash. */
static void reserve(const struct fan_switch *sw, struct fan_switch_job *j)
{
	const uint32_t want = j->route->quota;
	uint64_t first = 0;
	for (unsigned i = 0; i < (unsigned)sw->cfg.routes * FAN_ROUTE_LIVES; i++) {
		const struct fan_switch_job *o = &sw->routed[i];
		uint64_t end = (uint64_t)o->own.first + o->own.count;
		if (!o->used || o->route == j->route || end <= first ||
		    o->own.first >= first + want)
			continue;
		first = end; /* never back: at most as many turns as there are jobs */
		i = UINT32_MAX;
	}
	if (want && first + want <= sw->slots.count)
		j->own = (struct fan_stretch){(uint32_t)first, want};
}

/* The aggregator has announced a job that child `v->token` has a rank in, and under what name it
 * has joined if it learns that just now. */
static void install(struct fan_switch *sw, const struct fan_frag *f, const struct fan_envelope *v,
		    const char *name)
{
	struct fan_switch_job *j = fan_switch_job_of(sw, f->job, f->epoch);
	int route = fan_switch_find_route(sw, f->job);
	if (!j) {
		j = find_place(sw, f->job);
		if (j->used)
			fan_relay_end_job(sw, j);
		struct fan_sa_atp *sa = j->sa;
		memset(sa, 0, fan_run_ahead.job_bytes);
		memset(j, 0, sizeof *j);
		j->sa = sa;
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
			fan_child_begin_anywhere(&j->gap[i]);
		j->route = route < 0 ? NULL : &sw->route[route];
		fan_child_find_below(sw, j);
		if (j->route)
			reserve(sw, j);
	}
	if (j->route && j->route->quota)
		j->quota = j->route->quota;
	if (name && !j->name[0])
		memcpy(j->name, name, sizeof j->name);
	j->heard_ns = sw->now_ns;
	const struct fan_child *c = &sw->children[v->token - 1];
	bool behind = fan_peer_token(&c->peer) != 0;
	if (c->job == j->id && c->epoch == j->epoch)
		fan_run_ahead.beat(sw, j, c);
	if (v->rank >= j->ranks || j->child[v->rank] == v->token || (j->route && behind))
		return;
	if (sw->cfg.authentic && name) /* another sender may have repeated the JOIN */
		return;
	fan_switch_job_check(j);
	fan_run_ahead.take(sw, j->child[v->rank], v->token);
	j->child[v->rank] = v->token;
	fan_child_find_below(sw, j);
}

/* Shard i here talks to shard i there, so there must be as many.  Else `*no` has the refusal. */
static bool has_as_many_shards(const struct fan_switch *sw, const struct fan_frag *welcome,
			       struct fan_refuse *no)
{
	struct fan_welcome m;
	if (!sw->cfg.shards || fan_ctl_get(&m, welcome) != FAN_OK || m.shards == sw->cfg.shards)
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
	return inner->type == FAN_TYPE_STATE && fan_ctl_get(&m, inner) == FAN_OK &&
	       m.state == FAN_JOB_LEFT;
}

/* Is `from` the next hop of child `c` on the route of `job`, so that it may send answers for `c`?
 * True without a route.  Otherwise tokens of earlier lives could form a circle. */
static bool is_back(const struct fan_switch *sw, const fan_peer *from, uint32_t job,
		    const struct fan_child *c)
{
	int i = fan_switch_find_route(sw, job);
	if (i < 0)
		return true;
	fan_peer hop = fan_peer_hop(&c->peer);
	const struct fan_route_entry *e = fan_route_up_one(&sw->route[i], &hop, c->rank);
	return e && fan_peer_equal(&e->next, from);
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
	if (v.token > sw->cfg.children_max || !sw->marks[v.token - 1])
		return fan_switch_drop(sw, FAN_DROP_SENDER);
	const struct fan_child *c = &sw->children[v.token - 1];
	if (!is_meant(c, f, &v, &inner) || !is_back(sw, from, inner.job, c))
		return fan_switch_drop(sw, FAN_DROP_SENDER);
	bool welcome = inner.type == FAN_TYPE_WELCOME;
	if (welcome && !has_as_many_shards(sw, &inner, &no)) {
		fan_peer hop = fan_peer_hop(&c->peer);
		return refuse(&hop, fan_peer_token(&c->peer), &inner, &no, out);
	}
	if (v.ranks)
		install(sw, f, &v, welcome ? c->name : NULL);
	if (v.ranks && inner.type == FAN_TYPE_STATE)
		fan_child_make_sure(sw, v.token);
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
		fan_child_forget(sw, child);
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

/* Send `f` on as it came, but for the congestion that it may have met just now. */
static enum fan_verdict send_on(struct fan_out_item *it, const struct fan_frag *f)
{
	fan_relay_copy(it, f);
	if (f->flags & FAN_F_ECN)
		fan_wire_put(it->head, f);
	return FAN_PASS;
}

static enum fan_verdict send_to(struct fan_switch *sw, fan_peer hop, const struct fan_frag *f,
				struct fan_out *out)
{
	if (fan_peer_is_none(&hop))
		return fan_switch_drop(sw, FAN_DROP_SENDER);
	struct fan_out_item *it = fan_out_add(out, FAN_TO_PEER);
	it->peer = hop;
	it->down = true;
	return send_on(it, f);
}

static enum fan_verdict send_to_group(const struct fan_group *group, const struct fan_frag *f,
				      struct fan_out *out)
{
	struct fan_out_item *it = fan_out_add(out, FAN_TO_GROUP);
	it->group = group;
	return send_on(it, f);
}

static enum fan_verdict routed_fragment(struct fan_switch *sw, const struct fan_switch_job *j,
					const fan_peer *from, const struct fan_frag *f,
					struct fan_out *out)
{
	const uint16_t rank = fan_relay_addressee(f);
	if (rank != FAN_RANK_NONE)
		return fan_route_down_one(j->route, from, rank)
			       ? send_to(sw, fan_routed_down(sw, j, from, rank), f, out)
			       : fan_switch_drop(sw, FAN_DROP_ROUTE);
	if (f->type != FAN_TYPE_RESULT)
		return fan_routed_to_all(sw, j, from, f, out);
	send_to_group(&j->group, f, out);
	return send_to_group(&j->route->below, f, out);
}

enum fan_verdict fan_relay_fragment(struct fan_switch *sw, struct fan_switch_job *j,
				    const fan_peer *from, const struct fan_frag *f,
				    struct fan_out *out)
{
	if (j->route)
		return routed_fragment(sw, j, from, f, out);
	const uint16_t rank = fan_relay_addressee(f);
	if (rank != FAN_RANK_NONE)
		return send_to(sw, fan_relay_hop(sw, j, rank), f, out);
	if (f->type == FAN_TYPE_FLUSH && !j->switches)
		return FAN_CTL;
	return send_to_group(&j->group, f, out);
}
