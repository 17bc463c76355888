/* SPDX-License-Identifier: Apache-2.0 */
#include "member.h"

#include <assert.h>

#define ID_SALT UINT64_C(0x6964) /* as prf.c has one */

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
	t->shares = cfg->shares;
	t->ahead_max = cfg->ahead_max;
	t->rx_bytes = cfg->rx_bytes;
	t->rx_queues = cfg->rx_queues ? cfg->rx_queues : 1;
	t->secret = cfg->secret;
	t->job = (struct fan_job *)p;
	memset(t->job, 0, t->max * sizeof *t->job);
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

/* A run of `want` free places among `max`, where job j holds [base, base + count).
 * First fit; jobs are few, so it looks behind the start and behind each job.
 * UINT32_MAX: there is none. */
static uint32_t find_run(const struct fan_jobs *t, uint32_t want, bool of_slots)
{
	uint32_t max = of_slots ? t->slots.units : t->members_max;
	uint32_t best = UINT32_MAX;
	for (unsigned i = 0; i <= t->max; i++) {
		uint32_t at = 0;
		if (i < t->max) {
			const struct fan_job *j = &t->job[i];
			at = of_slots ? j->pool.base + j->pool.units : j->member_base + j->ranks;
			if (j->state == FAN_JOB_NONE)
				continue;
		}
		bool fits = at <= max && max - at >= want;
		for (unsigned k = 0; k < t->max && fits; k++) {
			const struct fan_job *o = &t->job[k];
			uint32_t base = of_slots ? o->pool.base : o->member_base;
			uint32_t count = of_slots ? o->pool.units : o->ranks;
			bool holds = o->state != FAN_JOB_NONE && count > 0; /* failed: no slots */
			if (holds && at < base + count && base < at + want)
				fits = false;
		}
		if (fits && at < best)
			best = at;
	}
	return best;
}

/* Slots for a job: what was asked, at most the quota, so that all its packets in
 * flight fit the receive queue. */
static uint16_t within_quota(const struct fan_jobs *t, const struct fan_join *m)
{
	char name[FAN_NAME_MAX + 1] = {0};
	memcpy(name, m->name, m->name_bytes);
	uint16_t w = m->window ? m->window : FAN_WINDOW_MAX;
	uint32_t most = (uint32_t)t->window_max * fan_shares_weight(&t->shares, name);
	most = most < FAN_WINDOW_MAX ? most : FAN_WINDOW_MAX;
	return w > most ? (uint16_t)most : w;
}

/* How far its ranks may run ahead of each other: a matter of memory alone. */
static uint16_t ahead_for(const struct fan_jobs *t, const struct fan_join *m)
{
	uint16_t w = m->window ? m->window : t->ahead_max;
	return w > t->ahead_max ? t->ahead_max : w;
}

static uint16_t window_for(const struct fan_jobs *t, const struct fan_join *m)
{
	uint32_t w = within_quota(t, m);
	uint32_t queued = (m->ranks + t->rx_queues - 1u) / t->rx_queues; /* most ranks in one */
	uint32_t in_flight = queued * (m->payload_bytes + FAN_HEAD_BYTES);
	if (t->rx_bytes && w > t->rx_bytes / in_flight)
		w = t->rx_bytes / in_flight;
	return (uint16_t)(w < 2 ? 2 : w);
}

static enum fan_err refuse(struct fan_refuse *no, enum fan_err err, uint16_t rank, uint32_t have,
			   uint32_t want)
{
	no->err = (int8_t)err;
	no->rank = rank;
	no->have = have;
	no->want = want;
	return err;
}

/* Has this life of the rank joined `j` before? */
static bool knows(const struct fan_job *j, uint16_t rank, uint64_t nonce)
{
	return rank < j->ranks && j->members[rank].nonce == nonce &&
	       j->members[rank].flags & (FAN_MEMBER_IN | FAN_MEMBER_LEFT);
}

/* The job that a JOIN is for: the one that has let this life of the rank in before, be it
 * failed, or the open one of the name.  A job that a rank has left is open no more: its name is
 * free for the next. */
static struct fan_job *find_by_name(struct fan_jobs *t, const char *name, uint16_t rank,
				    uint64_t nonce)
{
	struct fan_job *open = NULL;
	for (unsigned i = 0; i < t->max; i++) {
		struct fan_job *j = &t->job[i];
		bool alive = j->state == FAN_JOB_FORMING || j->state == FAN_JOB_READY;
		if (j->state == FAN_JOB_NONE || memcmp(j->name, name, sizeof j->name) != 0)
			continue;
		if (knows(j, rank, nonce))
			return j;
		if (alive && j->left == 0)
			open = j;
	}
	return open;
}

static struct fan_job *find_free(struct fan_jobs *t)
{
	for (unsigned i = 0; i < t->max; i++)
		if (t->job[i].state == FAN_JOB_NONE)
			return &t->job[i];
	return NULL;
}

/* Name a life of the job at `place`: nobody can tell its id and epoch from those of others, and no
 * epoch comes twice. */
static void name_life(struct fan_jobs *t, struct fan_job *j, unsigned place, uint32_t route)
{
	const uint64_t m[] = {ID_SALT, ++t->lives};
	uint32_t salt = 1 + (uint32_t)(fan_prf(&t->secret, m, 2) % 255); /* 0 is no job's */
	j->id = route << FAN_ROUTE_BITS | salt << 8 | place;
	j->epoch = fan_prf_permute(&t->secret, t->lives);
}

static enum fan_err create(struct fan_jobs *t, const struct fan_join *m, uint16_t route,
			   struct fan_job **job, struct fan_refuse *no)
{
	struct fan_job *j = find_free(t);
	if (!j)
		return refuse(no, FAN_E_JOBS_FULL, FAN_RANK_NONE, t->max, t->max + 1u);
	if (m->payload_bytes > t->slots.unit_bytes)
		return refuse(no, FAN_E_PAYLOAD, FAN_RANK_NONE, t->slots.unit_bytes,
			      m->payload_bytes);
	unsigned width = m->options & FAN_JOIN_WIDE ? 2 : 1;
	uint16_t burst = window_for(t, m), window = burst;
	if (m->options & FAN_JOIN_AHEAD)
		window = ahead_for(t, m);
	uint32_t base = find_run(t, window * width, true);
	while (base == UINT32_MAX && window > 2) { /* take less rather than refuse */
		window = (uint16_t)(window / 2);
		base = find_run(t, window * width, true);
	}
	if (base == UINT32_MAX)
		return refuse(no, FAN_E_SLOTS_FULL, FAN_RANK_NONE, t->slots.units, window * width);
	uint32_t members = find_run(t, m->ranks, false);
	if (members == UINT32_MAX)
		return refuse(no, FAN_E_MEMBERS_FULL, FAN_RANK_NONE, t->members_max, m->ranks);
	memset(j, 0, sizeof *j);
	j->state = FAN_JOB_FORMING;
	name_life(t, j, (unsigned)(j - t->job), route);
	j->ranks = m->ranks;
	j->payload_bytes = m->payload_bytes;
	j->window = window;
	if (m->options & FAN_JOIN_AHEAD)
		j->burst = burst < window ? burst : window;
	j->options = m->options;
	j->asked = m->options & FAN_JOIN_AHEAD ? ahead_for(t, m) : within_quota(t, m);
	j->alive_ms = m->alive_ms;
	j->test_ns = UINT64_MAX;
	j->member_base = members;
	j->members = t->members + members;
	j->peers = t->peers + members;
	j->hops = t->hops + members;
	j->older_hops = t->older_hops + members;
	j->older_route = route;
	j->remind_ns = UINT64_MAX;
	memset(j->members, 0, m->ranks * sizeof *j->members);
	memset(j->peers, 0, m->ranks * sizeof *j->peers);
	memset(j->hops, 0, m->ranks * sizeof *j->hops);
	memset(j->older_hops, 0, m->ranks * sizeof *j->older_hops);
	fan_slots_lend(&t->slots, &j->pool, base, window, width);
	j->group.peers = j->hops;
	j->group.ranks = j->ranks;
	j->older.peers = j->older_hops;
	memcpy(j->name, m->name, sizeof j->name);
	*job = j;
	return FAN_OK;
}

static enum fan_err differ(struct fan_refuse *no, uint16_t rank, enum fan_refuse_about about,
			   uint32_t have, uint32_t want)
{
	uint32_t kind = (uint32_t)about << 24;
	return refuse(no, FAN_E_JOB_MISMATCH, rank, kind | have, kind | want);
}

/* Does the JOIN of `rank` ask for the job as it is? */
static enum fan_err fits(const struct fan_job *j, const struct fan_frag *head,
			 const struct fan_join *m, struct fan_refuse *no)
{
	const uint8_t shared = FAN_JOIN_SUMMED | FAN_JOIN_WIDE | FAN_JOIN_AHEAD;
	const uint16_t rank = head->sender;
	if (!fan_route_number(head->job) != !fan_route_number(j->id)) /* plans may change */
		return differ(no, rank, FAN_ABOUT_ROUTE, fan_route_number(j->id),
			      fan_route_number(head->job));
	if (m->ranks != j->ranks)
		return differ(no, rank, FAN_ABOUT_RANKS, j->ranks, m->ranks);
	if (m->payload_bytes != j->payload_bytes)
		return differ(no, rank, FAN_ABOUT_PAYLOAD, j->payload_bytes, m->payload_bytes);
	if ((m->options & shared) != (j->options & shared))
		return differ(no, rank, FAN_ABOUT_OPTIONS, j->options & shared,
			      m->options & shared);
	if (m->window && m->window < j->window)
		return differ(no, rank, FAN_ABOUT_WINDOW, j->window, m->window);
	bool taken = j->state == FAN_JOB_READY || j->members[rank].flags & FAN_MEMBER_SURE;
	if (taken && !knows(j, rank, head->nonce))
		return refuse(no, FAN_E_RANK_TAKEN, rank, 0, 0);
	return FAN_OK;
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
			hops[r] = fan_job_hop(j, r);
		any = true;
	}
	return any;
}

static void find_hops(struct fan_job *j)
{
	uint16_t newest = fan_route_number(j->id);
	j->behind = false;
	for (uint16_t r = 0; r < j->ranks; r++) {
		j->behind |= fan_peer_token(&j->peers[r]) != 0;
		find_neighbour(j, r);
	}
	find_hops_on(j, newest, j->hops);
	bool two = j->older_route != newest && find_hops_on(j, j->older_route, j->older_hops);
	j->older.ranks = two ? j->ranks : 0;
}

/* A member comes by `route`.  One that nobody has come by is the newest. */
static void take_route(struct fan_job *j, uint16_t route)
{
	uint16_t newest = fan_route_number(j->id);
	if (route == newest || (route == j->older_route && j->older.ranks))
		return;
	j->older_route = newest;
	j->id = fan_job_id_on(j->id, route);
}

/* Numbers tell neighbours of losses.  Those of a worker's life begin with 1, a switch's anywhere.
 */
static void begin_numbers(struct fan_job *j, uint16_t rank, bool moved)
{
	struct fan_seq_gap *gap = &j->members[rank].gap;
	if (!moved)
		fan_seq_gap_init(gap, 0, true);
	if (moved || fan_peer_token(&j->peers[rank]))
		fan_seq_gap_resume(gap);
}

static void admit(struct fan_job *j, uint64_t now_ns, const fan_peer *from,
		  const struct fan_frag *head, const struct fan_join *m)
{
	struct fan_member *member = &j->members[head->sender];
	member->heard_ns = now_ns;
	member->nonce = head->nonce;
	member->workers = m->workers;
	member->flags = FAN_MEMBER_IN;
	member->path = head->path;
	member->moved = false;
	member->route = fan_route_number(head->job);
	j->peers[head->sender] = *from;
	member->numbers = m->options & FAN_JOIN_NUMBERS;
	begin_numbers(j, head->sender, false);
	take_route(j, member->route);
	find_hops(j);
	assert(j->in + j->left < j->ranks);
	j->in++;
	if (!(m->options & FAN_JOIN_GROUP) || j->behind)
		j->options &= (uint8_t)~FAN_JOIN_GROUP; /* one that cannot: nobody does */
	if (m->alive_ms > j->alive_ms)
		j->alive_ms = m->alive_ms;
	if (j->in == 1)
		j->check_ns = now_ns + j->alive_ms * FAN_MS;
}

/* The life of a rank that is in may come by another path: a later number says that it is no
 * JOIN of the past. */
static void follow(struct fan_job *j, const fan_peer *from, const struct fan_frag *head)
{
	struct fan_member *m = &j->members[head->sender];
	if (!(m->flags & FAN_MEMBER_IN) || (int8_t)(head->path - m->path) <= 0)
		return;
	m->path = head->path;
	m->moved = true;
	m->route = fan_route_number(head->job);
	j->peers[head->sender] = *from;
	begin_numbers(j, head->sender, true);
	take_route(j, m->route);
	find_hops(j);
	j->group.multicast = false; /* nobody knows whether it still hears the group */
}

enum fan_err fan_jobs_join(struct fan_jobs *t, uint64_t now_ns, const fan_peer *from,
			   const struct fan_frag *head, const struct fan_join *m,
			   struct fan_job **job, bool *created, bool *again, struct fan_refuse *no)
{
	struct fan_join named = *m;
	memset(named.name + m->name_bytes, 0, sizeof named.name - m->name_bytes);
	if (!t->ahead_max)
		named.options &= (uint8_t)~FAN_JOIN_AHEAD;
	*created = *again = false;
	if (head->sender >= m->ranks)
		return refuse(no, FAN_E_INVALID, head->sender, m->ranks, head->sender);
	struct fan_job *j = find_by_name(t, named.name, head->sender, head->nonce);
	if (j &&
	    j->state == FAN_JOB_FAILED) { /* it comes by another path, and has not heard of it */
		*job = j;
		*again = true;
		follow(j, from, head);
		return FAN_OK;
	}
	if (j) {
		enum fan_err err = fits(j, head, &named, no);
		if (err)
			return err;
	} else {
		enum fan_err err = create(t, &named, fan_route_number(head->job), &j, no);
		if (err)
			return err;
		*created = true;
	}
	uint32_t others = fan_job_workers(j) - j->members[head->sender].workers;
	if (m->workers > FAN_WORKERS_MAX - others)
		return refuse(no, FAN_E_MEMBERS_FULL, FAN_RANK_NONE, FAN_WORKERS_MAX,
			      others + m->workers);
	*job = j;
	*again = knows(j, head->sender, head->nonce);
	if (*again && fan_job_is_member(j, head->sender, from) && fan_peer_token(from) &&
	    j->members[head->sender].route == fan_route_number(head->job))
		j->peers[head->sender] = *from; /* a switch on the way has begun anew */
	if (*again) {
		follow(j, from, head);
		return FAN_OK;
	}
	if (j->members[head->sender].flags & FAN_MEMBER_IN)
		fan_job_drop_member(j, head->sender, false);
	admit(j, now_ns, from, head, m);
	return FAN_OK;
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
	j->members[rank].flags = left ? FAN_MEMBER_LEFT : 0;
	j->members[rank].workers = 0;
	memset(&j->peers[rank], 0, sizeof j->peers[rank]);
	find_hops(j);
	j->in--;
	j->left = (uint16_t)(j->left + left);
}

void fan_job_free_slots(struct fan_job *j)
{
	j->pool.units = 0;
	j->pool.window = 0;
}

void fan_job_fail(struct fan_job *j, const struct fan_job_fault *fault)
{
	assert(j->state == FAN_JOB_FORMING || j->state == FAN_JOB_READY);
	assert(fault->err != FAN_OK);
	j->state = FAN_JOB_FAILED;
	j->fault = *fault;
	j->test_ns = j->remind_ns = UINT64_MAX;
	fan_job_free_slots(j);
	j->group.multicast = false;
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

bool fan_job_waits_for(const struct fan_job *j, uint16_t rank)
{
	for (unsigned i = 0; i < 2u * j->pool.window; i++) {
		const struct fan_round *round = &j->pool.rounds[i];
		if (round->state == FAN_ROUND_OPEN && !fan_ranks_has(round->seen, rank))
			return true;
	}
	return false;
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
	unsigned in = 0, left = 0;
	for (unsigned r = 0; r < j->ranks; r++) {
		bool is_in = j->members[r].flags & FAN_MEMBER_IN;
		assert(is_in == !fan_peer_is_none(&j->peers[r]));
		assert(!is_in || !(j->members[r].flags & FAN_MEMBER_LEFT));
		in += is_in;
		left += (j->members[r].flags & FAN_MEMBER_LEFT) != 0;
	}
	assert(in == j->in && left == j->left);
	assert(fan_job_workers(j) <= FAN_WORKERS_MAX);
}

void fan_jobs_audit(const struct fan_jobs *t)
{
	for (unsigned i = 0; i < t->max; i++) {
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
