/* SPDX-License-Identifier: Apache-2.0 */
#include "member.h"

#include <assert.h>

#define COOKIE_SALT UINT64_C(0x636f6f6b) /* as prf.c has one */

size_t fan_jobs_bytes(const struct fan_aggregator_config *cfg)
{
	return fan_align_up(cfg->jobs_max * sizeof(struct fan_job)) +
	       fan_align_up(cfg->members_max * sizeof(struct fan_member)) +
	       3 * fan_align_up(cfg->members_max * sizeof(fan_peer)) +
	       fan_slots_bytes(cfg->slots, cfg->payload_bytes);
}

void fan_jobs_init(struct fan_jobs *t, void *mem, const struct fan_aggregator_config *cfg)
{
	uint8_t *p = mem;
	memset(t, 0, sizeof *t);
	t->max = cfg->jobs_max;
	t->members_max = cfg->members_max;
	t->window_max = cfg->window_max;
	t->greedy = cfg->greedy;
	t->ahead_max = cfg->ahead_max;
	t->rx_bytes = cfg->rx_bytes;
	t->rx_queues = cfg->rx_queues ? cfg->rx_queues : 1;
	t->secret = cfg->secret;
	t->job = (struct fan_job *)p;
	p += fan_align_up(t->max * sizeof *t->job);
	t->members = (struct fan_member *)p;
	p += fan_align_up(t->members_max * sizeof *t->members);
	t->peers = (fan_peer *)p;
	p += fan_align_up(t->members_max * sizeof *t->peers);
	t->hops = (fan_peer *)p;
	p += fan_align_up(t->members_max * sizeof *t->hops);
	t->older_hops = (fan_peer *)p;
	p += fan_align_up(t->members_max * sizeof *t->older_hops);
	fan_slots_init(&t->slots, p, cfg->slots, cfg->payload_bytes);
}

/* The first of the members behind the same switch, on the same route, stands for all of them. */
static void find_neighbour(const struct fan_job *j, uint16_t rank)
{
	struct fan_member *m = &j->members[rank];
	m->next_to = m->numbers && !fan_peer_token(&j->peers[rank]);
	m->gap_of = fan_peer_token(&j->peers[rank]) ? 0 : rank;
	while (m->gap_of < rank && (!fan_peer_same_hop(&j->peers[m->gap_of], &j->peers[rank]) ||
				    j->members[m->gap_of].route != m->route))
		m->gap_of++;
}

bool fan_job_has_runs(const struct fan_job *j, uint16_t rank)
{
	const struct fan_member *m = &j->members[rank];
	return m->runs && m->next_to && !m->path && !j->burst;
}

/* The hops of those on a route.  True: somebody is on it. */
static bool find_hops_on(const struct fan_job *j, uint16_t route, fan_peer *hops)
{
	bool any = false;
	memset(hops, 0, j->ranks * sizeof *hops);
	for (uint16_t r = 0; r < j->ranks; r++) {
		const struct fan_member *m = &j->members[r];
		if (!(m->flags & FAN_MEMBER_IN) || m->route != route)
			continue;
		if (m->gap_of == r)
			hops[r] = fan_peer_hop(&j->peers[r]);
		any = true;
	}
	return any;
}

static void find_hops(struct fan_job *j)
{
	uint16_t newest = fan_route_number(j->id);
	j->behind = false;
	j->all_read_runs = true;
	for (uint16_t r = 0; r < j->ranks; r++) {
		j->behind |= fan_peer_token(&j->peers[r]) != 0;
		find_neighbour(j, r);
		if (j->members[r].flags & FAN_MEMBER_IN)
			j->all_read_runs &= fan_job_has_runs(j, r);
	}
	find_hops_on(j, newest, j->hops);
	bool two = j->older_route != newest && find_hops_on(j, j->older_route, j->older_hops);
	j->older.ranks = two ? j->ranks : 0;
}

/* A member joins by `route`.  A route without members is the newest. */
static void take_route(struct fan_job *j, uint16_t route)
{
	uint16_t newest = fan_route_number(j->id);
	if (route == newest || (route == j->older_route && j->older.ranks))
		return;
	j->older_route = newest;
	j->id = fan_job_id_on(j->id, route);
}

/* Numbers reveal losses to neighbours.  A worker's begin with 1 in each life, a switch's anywhere.
 */
static void begin_numbers(struct fan_job *j, uint16_t rank, bool moved)
{
	struct fan_seq_gap *gap = &j->members[rank].gap;
	if (!moved)
		fan_seq_gap_init(gap, 0, true);
	if (moved || fan_peer_token(&j->peers[rank]))
		fan_seq_gap_resume(gap);
}

uint64_t fan_jobs_cookie(const struct fan_jobs *t, const struct fan_job *j, uint16_t rank,
			 uint8_t path, const fan_peer *at)
{
	const fan_peer hop = fan_peer_hop(at);
	const uint64_t m[] = {
		COOKIE_SALT,
		(uint64_t)fan_job_id_on(j->id, 0) << 32 | j->epoch,
		j->members[rank].nonce,
		(uint64_t)rank << 8 | path,
		hop.addr[0],
		hop.addr[1],
		(uint64_t)hop.scope << 32 | hop.port,
	};
	return fan_prf(&t->secret, m, sizeof m / sizeof m[0]);
}

void fan_job_admit(struct fan_job *j, uint64_t now_ns, const fan_peer *from,
		   const struct fan_frag *head, const struct fan_join *m)
{
	struct fan_member *member = &j->members[head->sender];
	member->heard_ns = now_ns;
	member->nonce = head->nonce;
	member->workers = m->workers ? m->workers : 1;
	member->flags = FAN_MEMBER_IN;
	member->path = member->next_path = head->path;
	member->moved = false;
	member->claim_ns = 0;
	member->route = member->next_route = fan_route_number(head->job);
	member->alive_ms = m->alive_ms;
	j->peers[head->sender] = *from;
	member->numbers = m->options & FAN_JOIN_NUMBERS;
	member->runs = m->options & FAN_JOIN_RUNS;
	begin_numbers(j, head->sender, false);
	take_route(j, member->route);
	find_hops(j);
	assert(j->in + j->left < j->ranks);
	j->in++;
	if (!(m->options & FAN_JOIN_GROUP) || j->behind)
		j->options &= (uint8_t)~FAN_JOIN_GROUP; /* one that cannot: nobody does */
	if (j->in == 1)
		j->check_ns = now_ns;
}

void fan_job_move(struct fan_job *j, uint16_t rank, const fan_peer *from)
{
	struct fan_member *m = &j->members[rank];
	assert(m->flags & FAN_MEMBER_IN);
	m->path = m->next_path;
	m->route = m->next_route;
	m->moved = true;
	j->peers[rank] = *from;
	begin_numbers(j, rank, true);
	take_route(j, m->route);
	find_hops(j);
	j->group.multicast = false; /* it may no longer receive from the group */
}

/* Members that are not sure do not count: a stranger may ask for ten minutes. */
static void find_alive(struct fan_job *j)
{
	j->alive_ms = 0;
	for (unsigned r = 0; r < j->ranks; r++) {
		const struct fan_member *m = &j->members[r];
		if (fan_job_has_proved(j, (uint16_t)r) && m->alive_ms > j->alive_ms)
			j->alive_ms = m->alive_ms;
	}
}

void fan_job_make_sure(struct fan_job *j, uint16_t rank, enum fan_member_flag how)
{
	assert(how == FAN_MEMBER_SURE || how == FAN_MEMBER_FIRM);
	j->proved = (uint16_t)(j->proved + !fan_job_has_proved(j, rank));
	j->members[rank].flags |= (uint8_t)how;
	find_alive(j);
}

uint32_t fan_job_workers(const struct fan_job *j)
{
	uint32_t sum = 0; /* within FAN_WORKERS_MAX */
	for (unsigned r = 0; r < j->ranks; r++)
		sum += j->members[r].workers;
	return sum;
}

bool fan_job_all_have(const struct fan_job *j, uint8_t flag)
{
	for (unsigned r = 0; r < j->ranks; r++)
		if (!(j->members[r].flags & flag))
			return false;
	return true;
}

void fan_job_drop_member(struct fan_job *j, uint16_t rank, bool left)
{
	assert(rank < j->ranks && j->members[rank].flags & FAN_MEMBER_IN && j->in > 0);
	j->reported = true;
	j->proved = (uint16_t)(j->proved - fan_job_has_proved(j, rank));
	j->members[rank].flags = left ? FAN_MEMBER_LEFT : 0;
	j->members[rank].claim_ns = 0;
	j->members[rank].workers = 0;
	memset(&j->peers[rank], 0, sizeof j->peers[rank]);
	find_hops(j);
	if (j->state == FAN_JOB_FORMING)
		find_alive(j);
	j->in--;
	j->left = (uint16_t)(j->left + left);
}

void fan_job_free_slots(struct fan_job *j)
{
	j->pool.units = 0;
	j->pool.window = 0;
}

void fan_job_free(struct fan_job *j)
{
	assert(j->in == 0 && !j->up);
	j->state = FAN_JOB_NONE;
	j->pool.units = 0;
	j->group.ranks = j->older.ranks = 0;
}

void fan_job_missing(const struct fan_job *j, uint64_t frag, bool waiting, uint64_t *set)
{
	fan_ranks_none(set);
	if (j->state == FAN_JOB_FAILED) {
		fan_ranks_copy(set, j->fault.blamed);
		return;
	}
	const struct fan_round *round = NULL;
	if (j->state == FAN_JOB_READY) {
		if (!waiting)
			return;
		round = fan_pool_round(&j->pool, frag);
		if (round->state == FAN_ROUND_DONE && round->frag >= frag)
			return;
		if (round->state == FAN_ROUND_FREE || round->frag != frag)
			round = NULL; /* nobody's contribution is in: all are missing */
	}
	for (unsigned r = 0; r < j->ranks; r++) {
		bool there = j->state == FAN_JOB_FORMING ? j->members[r].flags & FAN_MEMBER_SURE
							 : round && fan_ranks_has(round->seen, r);
		if (!there)
			fan_ranks_set(set, r);
	}
}

uint32_t fan_job_open(const struct fan_job *j, uint64_t *oldest)
{
	uint32_t open = 0;
	*oldest = UINT64_MAX;
	for (unsigned i = 0; i < 2u * j->pool.window; i++) {
		const struct fan_round *round = &j->pool.rounds[i];
		if (round->state != FAN_ROUND_OPEN && round->state != FAN_ROUND_AWAITING)
			continue;
		open++;
		if (round->frag < *oldest)
			*oldest = round->frag;
	}
	return open;
}

void fan_job_check(const struct fan_job *j)
{
	bool alive = j->state == FAN_JOB_FORMING || j->state == FAN_JOB_READY;
	assert(j->in + j->left <= j->ranks && j->ranks <= FAN_RANKS_MAX);
	assert(j->state != FAN_JOB_READY || j->in > 0 || j->up);
	assert(!alive || j->pool.window == j->window || (!j->in && !j->pool.units));
	assert(j->state != FAN_JOB_FAILED || (!j->pool.units && j->fault.err != FAN_OK));
	assert(j->burst <= j->window);
	assert(j->group.ranks == j->ranks && (!j->older.ranks || j->older.ranks == j->ranks));
	assert(j->state != FAN_JOB_READY || j->pool.relayed == (j->up != NULL) || !j->pool.units);
}

static void audit_members(const struct fan_job *j)
{
	unsigned in = 0, left = 0, proved = 0;
	for (unsigned r = 0; r < j->ranks; r++) {
		bool is_in = j->members[r].flags & FAN_MEMBER_IN;
		assert(is_in == !fan_peer_is_none(&j->peers[r]));
		assert(!is_in || !(j->members[r].flags & FAN_MEMBER_LEFT));
		in += is_in;
		left += (j->members[r].flags & FAN_MEMBER_LEFT) != 0;
		proved += fan_job_has_proved(j, (uint16_t)r);
	}
	assert(in == j->in && left == j->left && proved == j->proved);
	assert(fan_job_workers(j) <= FAN_WORKERS_MAX);
}

void fan_jobs_audit(const struct fan_jobs *t)
{
	for (unsigned i = 0; i < t->used; i++) {
		const struct fan_job *j = &t->job[i];
		if (j->state == FAN_JOB_NONE)
			continue;
		fan_job_check(j);
		audit_members(j);
		if (j->pool.units)
			fan_pool_audit(&j->pool, j->ranks);
		assert(j->pool.base + j->pool.units <= t->slots.units);
		assert(j->member_base + j->ranks <= t->members_max);
		for (unsigned k = 0; k < i; k++) {
			const struct fan_job *o = &t->job[k];
			if (o->state == FAN_JOB_NONE)
				continue;
			assert(j->pool.base + j->pool.units <= o->pool.base ||
			       o->pool.base + o->pool.units <= j->pool.base || !j->pool.units ||
			       !o->pool.units);
			assert(j->member_base + j->ranks <= o->member_base ||
			       o->member_base + o->ranks <= j->member_base);
		}
	}
}
