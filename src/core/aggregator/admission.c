/* SPDX-License-Identifier: Apache-2.0 */
#include <assert.h>

#include "aggregator_priv.h"

#define ID_SALT UINT64_C(0x6964) /* as prf.c has one */

/* A run of `want` free places among `max`, where job j holds [base, base + count).
 * First fit; jobs are few, so it looks behind the start and behind each job.
 * UINT32_MAX: there is none. */
static uint32_t find_run(const struct fan_jobs *t, uint32_t want, bool of_slots)
{
	uint32_t max = of_slots ? t->slots.units : t->members_max;
	uint32_t best = UINT32_MAX;
	for (unsigned i = 0; i <= t->used; i++) {
		uint32_t at = 0;
		if (i < t->used) {
			const struct fan_job *j = &t->job[i];
			at = of_slots ? j->pool.base + j->pool.units : j->member_base + j->ranks;
			if (j->state == FAN_JOB_NONE)
				continue;
		}
		bool fits = at <= max && max - at >= want;
		for (unsigned k = 0; k < t->used && fits; k++) {
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

/* Return how much of the free slots one more job may take.  The more jobs there are, the less, so
 * that each later one finds some.  But run-ahead needs all that it asks for. */
static uint32_t units_for(const struct fan_jobs *t)
{
	uint32_t jobs = 0, free = t->slots.units;
	assert(t->max);
	for (unsigned i = 0; i < t->used; i++) {
		const struct fan_job *j = &t->job[i];
		jobs += j->state != FAN_JOB_NONE;
		free -= j->state != FAN_JOB_NONE ? j->pool.units : 0;
	}
	const uint32_t others = t->max > jobs + 1 ? t->max - jobs - 1 : 0;
	uint32_t least = t->slots.units / (2u * t->max);
	least = least < FAN_SLOTS_LEAST ? least : FAN_SLOTS_LEAST;
	if (t->greedy || !others || !least || free < least)
		return free;
	const uint32_t beyond = free > others * least ? free - others * least : 0;
	const uint32_t units = beyond / (2 + jobs / 2);
	return units > least ? units : least;
}

/* Slots for a job: what was asked, at most the quota, so that all its packets in
 * flight fit the receive queue. */
static uint16_t within_quota(const struct fan_jobs *t, const struct fan_join *m)
{
	return m->window && m->window < t->window_max ? m->window : t->window_max;
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

/* The next smaller window to try; a WELCOME grants at least two. */
static uint16_t halved(uint16_t window)
{
	return (uint16_t)(window / 2 < 2 ? 2 : window / 2);
}

static enum fan_err refuse(struct fan_refuse *no, enum fan_err err, uint16_t rank, uint32_t have,
			   uint32_t want)
{
	*no = (struct fan_refuse){.err = (int8_t)err, .rank = rank, .have = have, .want = want};
	return err;
}

/* Has this life of the rank joined `j` before? */
static bool knows(const struct fan_job *j, uint16_t rank, uint64_t nonce)
{
	return rank < j->ranks && j->members[rank].nonce == nonce &&
	       j->members[rank].flags & (FAN_MEMBER_IN | FAN_MEMBER_LEFT);
}

/* The job that a JOIN is for: the one that has admitted this life of the rank before, even if it
 * has failed, or the open one of the name and launch.  If there is none, `*other` is one of the
 * name that forms and has a launch where the JOIN has none, or the reverse.  A job that a rank has
 * left is no longer open: its name is free for the next. */
static struct fan_job *find_by_name(struct fan_jobs *t, const struct fan_join *named, uint16_t rank,
				    uint64_t nonce, struct fan_job **other)
{
	struct fan_job *open = NULL;
	*other = NULL;
	for (unsigned i = 0; i < t->used; i++) {
		struct fan_job *j = &t->job[i];
		bool alive = j->state == FAN_JOB_FORMING || j->state == FAN_JOB_READY;
		if (j->state == FAN_JOB_NONE || memcmp(j->name, named->name, sizeof j->name) != 0)
			continue;
		if (knows(j, rank, nonce))
			return j;
		if (alive && j->left == 0 && j->launch == named->launch)
			open = j;
		else if (j->state == FAN_JOB_FORMING && !j->launch != !named->launch)
			*other = j;
	}
	return open;
}

static struct fan_job *find_free(struct fan_jobs *t)
{
	for (unsigned i = 0; i < t->used; i++)
		if (t->job[i].state == FAN_JOB_NONE)
			return &t->job[i];
	return t->used < t->max ? &t->job[t->used] : NULL;
}

/* Name a life of the job at `place`: its id and epoch cannot be guessed from those of others, and
 * no epoch occurs twice. */
static void name_life(struct fan_jobs *t, struct fan_job *j, unsigned place, uint32_t route)
{
	const uint64_t m[] = {ID_SALT, ++t->lives};
	uint32_t salt = 1 + (uint32_t)(fan_prf(&t->secret, m, 2) % 255); /* 0 is never a job's */
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
	unsigned width = fan_join_width(m->options);
	uint16_t burst = window_for(t, m), window = burst;
	if (m->options & FAN_JOIN_AHEAD)
		window = ahead_for(t, m);
	const uint32_t units = m->options & FAN_JOIN_AHEAD ? t->slots.units : units_for(t);
	while (window > 2 && window * width > units)
		window = halved(window);
	uint32_t base = find_run(t, window * width, true);
	while (base == UINT32_MAX && window > 2) { /* take less rather than refuse */
		window = halved(window);
		base = find_run(t, window * width, true);
	}
	if (base == UINT32_MAX)
		return refuse(no, FAN_E_SLOTS_FULL, FAN_RANK_NONE, t->slots.units, window * width);
	uint32_t members = find_run(t, m->ranks, false);
	if (members == UINT32_MAX)
		return refuse(no, FAN_E_MEMBERS_FULL, FAN_RANK_NONE, t->members_max, m->ranks);
	memset(j, 0, sizeof *j);
	if (j == t->job + t->used)
		t->used++;
	j->state = FAN_JOB_FORMING;
	name_life(t, j, (unsigned)(j - t->job), route);
	j->ranks = m->ranks;
	j->payload_bytes = m->payload_bytes;
	j->window = window;
	if (m->options & FAN_JOIN_AHEAD)
		j->burst = burst < window ? burst : window;
	j->options = m->options;
	j->asked = m->options & FAN_JOIN_AHEAD ? ahead_for(t, m) : within_quota(t, m);
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
	j->launch = m->launch;
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
	const uint8_t shared = FAN_JOIN_SUMMED | FAN_JOIN_WIDE | FAN_JOIN_AHEAD | FAN_JOIN_QUAD;
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
	bool taken = j->state == FAN_JOB_READY || j->members[rank].flags & FAN_MEMBER_IN;
	if (taken && !knows(j, rank, head->nonce))
		return refuse(no, FAN_E_RANK_TAKEN, rank, 0, 0);
	return FAN_OK;
}

/* The life of a member may join again by another path: a higher path number shows that its JOIN is
 * not an old one.  The member has moved once a BEAT shows that the WELCOME has arrived; a member
 * that is not proved yet is wherever its JOIN claims. */
static void announce(struct fan_job *j, const fan_peer *from, const struct fan_frag *head)
{
	struct fan_member *m = &j->members[head->sender];
	if (!(m->flags & FAN_MEMBER_IN) || (int8_t)(head->path - m->next_path) <= 0)
		return;
	m->next_path = head->path;
	m->next_route = fan_route_number(head->job);
	if (!(m->flags & FAN_MEMBER_SURE))
		fan_job_move(j, head->sender, from);
}

/* Does the tree have room for the workers behind the rank? */
static enum fan_err has_workers(const struct fan_job *j, uint16_t rank, const struct fan_join *m,
				struct fan_refuse *no)
{
	const uint32_t all = fan_job_workers(j) - j->members[rank].workers +
			     (m->workers ? m->workers : 1); /* each at most FAN_WORKERS_MAX */
	if (all > FAN_WORKERS_MAX)
		return refuse(no, FAN_E_MEMBERS_FULL, FAN_RANK_NONE, FAN_WORKERS_MAX, all);
	return FAN_OK;
}

/* The JOIN, with zeros behind its name. */
static struct fan_join with_padded_name(const struct fan_join *m)
{
	struct fan_join named = *m;
	memset(named.name + m->name_bytes, 0, sizeof named.name - m->name_bytes);
	return named;
}

enum fan_err fan_jobs_join(struct fan_jobs *t, uint64_t now_ns, const fan_peer *from,
			   const struct fan_frag *head, const struct fan_join *m,
			   struct fan_admission *a)
{
	struct fan_join named = with_padded_name(m);
	struct fan_job *other;
	const uint16_t rank = head->sender;
	if (!t->ahead_max)
		named.options &= (uint8_t)~FAN_JOIN_AHEAD;
	memset(a, 0, sizeof *a);
	if (rank >= m->ranks)
		return refuse(&a->no, FAN_E_INVALID, rank, m->ranks, rank);
	struct fan_job *j = a->job = find_by_name(t, &named, rank, head->nonce, &other);
	if (!j && other) {
		a->job = other;
		return differ(&a->no, rank, FAN_ABOUT_LAUNCH, other->launch != 0,
			      named.launch != 0);
	}
	/* it comes by another path, and does not know of the failure */
	if (j && j->state == FAN_JOB_FAILED) {
		a->again = true;
		announce(j, from, head);
		return FAN_OK;
	}
	enum fan_err err = j ? fits(j, head, &named, &a->no) : FAN_OK;
	if (!j) {
		err = create(t, &named, fan_route_number(head->job), &j, &a->no);
		a->created = !err;
	}
	if (!err)
		err = has_workers(j, rank, m, &a->no);
	if (err)
		return err;
	a->job = j;
	if (a->created) {
		j->since_ns = now_ns;
		j->source = *from;
	}
	a->again = knows(j, rank, head->nonce);
	if (a->again && fan_job_is_member(j, rank, from) && fan_peer_token(from) &&
	    j->members[rank].route == fan_route_number(head->job))
		j->peers[rank] = *from; /* a switch on the path has begun anew */
	if (a->again)
		announce(j, from, head);
	else
		fan_job_admit(j, now_ns, from, head, m);
	return FAN_OK;
}

bool fan_jobs_knows(struct fan_jobs *t, const struct fan_frag *head, const struct fan_join *m)
{
	const struct fan_join named = with_padded_name(m);
	struct fan_job *other;
	const struct fan_job *j = find_by_name(t, &named, head->sender, head->nonce, &other);
	return j && head->sender < j->ranks && knows(j, head->sender, head->nonce);
}

bool fan_jobs_have(const struct fan_jobs *t, uint16_t rank, uint64_t nonce)
{
	for (unsigned i = 0; i < t->used; i++)
		if (t->job[i].state != FAN_JOB_NONE && knows(&t->job[i], rank, nonce))
			return true;
	return false;
}

void fan_jobs_rename(struct fan_jobs *t, struct fan_job *j)
{
	assert(j->state == FAN_JOB_FORMING);
	name_life(t, j, (unsigned)(j - t->job), fan_route_number(j->id));
	j->reported = false;
	for (unsigned r = 0; r < j->ranks; r++) {
		struct fan_member *m = &j->members[r];
		m->flags = (uint8_t)((m->flags | FAN_MEMBER_FIRM) &
				     ~(FAN_MEMBER_SURE | FAN_MEMBER_HEARD));
	}
}
