/* SPDX-License-Identifier: Apache-2.0 */
#include "child.h"

#include "core/base/awake.h"
#include "routed.h"

/* A mark for each place of the table, so that a look for a child does not read all of them: 0, it
 * is free; otherwise bits of a hash, USED, and SURE. */
#define USED UINT32_C(1)
#define SURE UINT32_C(2)

static uint32_t mark_of(const fan_peer *peer, uint64_t nonce)
{
	uint64_t h = nonce ^ peer->addr[0] ^ peer->addr[1] << 7 ^ (uint64_t)peer->scope << 32;
	h = (h ^ peer->port) * UINT64_C(0x9e3779b97f4a7c15);
	return ((uint32_t)(h >> 32) & ~(USED | SURE)) | USED;
}

size_t fan_child_bytes(unsigned max)
{
	return fan_align_up(max * sizeof(struct fan_child)) + fan_align_up(max * sizeof(uint32_t));
}

uint8_t *fan_child_init(struct fan_switch *sw, uint8_t *p)
{
	const size_t bytes = fan_child_bytes(sw->cfg.children_max);
	memset(p, 0, bytes);
	sw->children = (struct fan_child *)p;
	sw->marks = (uint32_t *)(p + fan_align_up(sw->cfg.children_max * sizeof *sw->children));
	return p + bytes;
}

void fan_child_begin_anywhere(struct fan_seq_gap *g)
{
	fan_seq_gap_init(g, 0, true);
	fan_seq_gap_resume(g);
}

/* Set the fields of the job that follow from its route. */
static void install(const struct fan_switch *sw, struct fan_switch_job *j)
{
	const struct fan_route *r = j->route;
	j->up = r->up;
	j->switches = r->below.ranks > 0;
	uint64_t all[FAN_RANK_WORDS];
	fan_ranks_all(all, j->ranks);
	fan_ranks_both(j->below, r->sums, all);
	for (uint16_t rank = 0; rank < j->ranks; rank++) {
		if (!j->child[rank])
			continue;
		j->children++;
		j->hops[rank] = fan_relay_hop(sw, j, rank);
	}
}

void fan_child_find_below(struct fan_switch *sw, struct fan_switch_job *j)
{
	fan_ranks_none(j->below);
	memset(j->hops, 0, sizeof j->hops);
	j->children = 0;
	j->switches = false;
	if (j->route)
		install(sw, j);
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
		fan_run_ahead.left(j, c);
	if (any)
		fan_child_find_below(sw, j);
	if (!j->children && !j->route)
		fan_relay_end_job(sw, j);
}

/* Has any child spoken last of the job? */
static bool has_child(const struct fan_switch *sw, const struct fan_switch_job *j)
{
	for (unsigned i = 0; i < sw->cfg.children_max; i++) {
		const struct fan_child *c = &sw->children[i];
		if (sw->marks[i] && c->job == j->id && c->epoch == j->epoch)
			return true;
	}
	return false;
}

void fan_child_forget(struct fan_switch *sw, uint16_t token)
{
	assert(token >= 1 && token <= sw->cfg.children_max && sw->marks[token - 1]);
	const struct fan_child *c = &sw->children[token - 1];
	sw->marks[token - 1] = 0;
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
		if (sw->marks[i])
			c->heard_ns = fan_awake_shift(c->heard_ns, late_ns, now_ns);
		if (sw->marks[i] && now_ns - c->heard_ns >= FAN_CHILD_SILENT_NS)
			fan_child_forget(sw, (uint16_t)(i + 1));
		any |= sw->marks[i] != 0;
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

/* A place for one more: a free one, or that of an unsure child, in turns.  UINT32_MAX: none. */
static uint32_t find_place(struct fan_switch *sw)
{
	const uint32_t max = sw->cfg.children_max;
	for (uint32_t i = 0; i < max; i++)
		if (!sw->marks[i])
			return i;
	for (uint32_t n = 0; n < max; n++) {
		uint32_t i = (sw->unsure_next + n) % max;
		if (sw->marks[i] & SURE)
			continue;
		sw->unsure_next = (i + 1) % max;
		fan_child_forget(sw, (uint16_t)(i + 1));
		return i;
	}
	return UINT32_MAX;
}

/* The token of the child, which is made if need be; 0: there is no room. */
static uint16_t find(struct fan_switch *sw, uint64_t now_ns, const fan_peer *peer, uint64_t nonce)
{
	const uint32_t mark = mark_of(peer, nonce);
	for (uint32_t i = 0; i < sw->cfg.children_max; i++) {
		const struct fan_child *c = &sw->children[i];
		if ((sw->marks[i] & ~SURE) == mark && c->nonce == nonce &&
		    fan_peer_equal(&c->peer, peer))
			return (uint16_t)(i + 1);
	}
	const uint32_t i = find_place(sw);
	if (i == UINT32_MAX)
		return 0;
	sw->marks[i] = mark;
	sw->children[i] = (struct fan_child){.peer = *peer, .nonce = nonce};
	fan_child_begin_anywhere(&sw->children[i].gap);
	if (sw->deadline_ns == UINT64_MAX)
		sw->deadline_ns = now_ns + FAN_CHILD_SILENT_NS / 4;
	return (uint16_t)(i + 1);
}

void fan_child_make_sure(struct fan_switch *sw, uint16_t token)
{
	assert(token >= 1 && token <= sw->cfg.children_max && sw->marks[token - 1]);
	sw->marks[token - 1] |= SURE;
}

bool fan_child_is_sure(const struct fan_switch *sw, uint16_t token)
{
	assert(token >= 1 && token <= sw->cfg.children_max);
	return sw->marks[token - 1] & SURE;
}

/* The numbers of a worker's life begin with 1; one that arrives by another path now has begun
 * elsewhere.  Numbers of a switch below are not a rank's. */
static void begin_numbers(struct fan_child *c, const struct fan_frag *join)
{
	if (fan_peer_token(&c->peer))
		return;
	fan_child_begin_anywhere(&c->gap);
	if (!join->path)
		fan_seq_gap_init(&c->gap, 0, true);
}

static void note_name(struct fan_child *c, const struct fan_frag *join)
{
	struct fan_join m;
	memset(c->name, 0, sizeof c->name);
	if (fan_ctl_get(&m, join) == FAN_OK)
		memcpy(c->name, m.name, m.name_bytes);
}

/* A BEAT has its rank's capacity as a helper. */
static void note_beat(struct fan_switch *sw, struct fan_child *c, const struct fan_frag *beat)
{
	struct fan_beat m;
	if (fan_ctl_get(&m, beat) != FAN_OK)
		return;
	c->cache = m.cache;
	c->beat = m.flags;
	struct fan_switch_job *j = fan_switch_job_of(sw, c->job, c->epoch);
	if (j)
		fan_run_ahead.beat(sw, j, c);
}

uint16_t fan_child_hear(struct fan_switch *sw, uint64_t now_ns, const fan_peer *peer,
			const struct fan_frag *f)
{
	const uint16_t token = find(sw, now_ns, peer, f->nonce);
	if (!token)
		return 0;
	struct fan_child *c = &sw->children[token - 1];
	c->heard_ns = now_ns;
	c->rank = f->sender;
	if (f->type == FAN_TYPE_JOIN) {
		begin_numbers(c, f);
		note_name(c, f);
	} else {
		c->job = f->job;
		c->epoch = f->epoch;
	}
	if (f->type == FAN_TYPE_BEAT)
		note_beat(sw, c, f);
	return token;
}

void fan_child_audit(const struct fan_switch *sw)
{
	assert(sw->unsure_next < sw->cfg.children_max);
	for (unsigned i = 0; i < sw->cfg.children_max; i++) {
		const struct fan_child *c = &sw->children[i];
		assert(!sw->marks[i] || (sw->marks[i] & ~SURE) == mark_of(&c->peer, c->nonce));
	}
}

/* Some of what a neighbour below has sent has not come, though later ones: ask for it.  `to`: its
 * rank, if it is a worker. */
static void ask_numbers(const struct fan_switch_job *j, const struct fan_peer *from, uint16_t to,
			const struct fan_seq_gap *gap, uint64_t missing, struct fan_out *out)
{
	struct fan_out_item *it = fan_out_add(out, FAN_TO_PEER);
	const struct fan_frag h = {
		.job = j->id,
		.epoch = j->epoch,
		.sender = FAN_RANK_NONE,
		.to = FAN_TAG(to),
		.missing = missing,
		.last = gap->last,
		.type = FAN_TYPE_MISS,
	};
	it->peer = *from;
	fan_wire_put(it->head, &h);
}

void fan_arrival_note(struct fan_switch *sw, struct fan_switch_job *j, const fan_peer *from,
		      const struct fan_frag *f, uint16_t rank, struct fan_out *out)
{
	int below = j->route ? fan_route_find(j->route, from) : -1;
	struct fan_seq_gap *gap = below < 0 ? NULL : &j->gap[below];
	uint16_t to = FAN_RANK_NONE;
	if (!gap && !j->child[rank])
		return;
	if (!gap) {
		struct fan_child *c = &sw->children[j->child[rank] - 1];
		bool is_worker = !fan_peer_token(&c->peer);
		if (is_worker && (f->helper || f->type == FAN_TYPE_PARTIAL))
			return; /* these have no numbers */
		to = is_worker ? rank : FAN_RANK_NONE;
		gap = is_worker ? &c->gap : &sw->children[c->gap_of - 1].gap;
	}
	uint64_t missing = fan_seq_gap_heard(gap, f->seq);
	if (!missing)
		return;
	ask_numbers(j, from, to, gap, missing, out);
	sw->stats.misses++;
}
