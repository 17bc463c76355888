/* SPDX-License-Identifier: Apache-2.0 */
/* control.c - the switch's control messages, group tests and health checks. */
#include <assert.h>

#include "aggregator_priv.h"
#include "core/base/awake.h"

/* A job's timers have changed: run tick. */
static void touch(struct fan_aggregator *ag)
{
	ag->deadline_ns = 0;
}

/* The BEAT that a STATE answers. */
struct asked {
	uint64_t nonce; /* 0: none, the STATE goes to all */
	uint64_t frag;
	bool waiting; /* for that fragment */
	bool joins;   /* it is a JOIN, maybe a stranger's: the answer is not longer */
};

/* Write the STATE `s` about the job that is called `id` where it goes.  Its header. */
static struct fan_frag put_state(struct fan_out_item *it, struct fan_out *out, uint32_t id,
				 uint32_t epoch, uint64_t nonce, const struct fan_state *s)
{
	uint8_t *body = fan_out_scratch(out, FAN_CTL_BYTES_MAX);
	struct fan_frag h = {
		.nonce = nonce,
		.job = id,
		.epoch = epoch,
		.sender = FAN_RANK_NONE,
		.type = FAN_TYPE_STATE,
	};
	fan_ctl_finish(it, &h, body, fan_ctl_put(body, s));
	return h;
}

/* How the job stands. */
static struct fan_frag put_standing(struct fan_out_item *it, struct fan_out *out,
				    const struct fan_job *j, uint32_t id, const struct asked *q)
{
	struct fan_state s = {
		.frag = q->frag,
		.state = (uint8_t)j->state,
		.err = j->fault.err,
		.multicast = j->group.multicast,
		.ranks = j->ranks,
		.rank_a = j->fault.err == FAN_E_MISMATCH ? j->fault.rank_a : FAN_RANK_NONE,
		.rank_b = j->fault.err == FAN_E_MISMATCH ? j->fault.rank_b : FAN_RANK_NONE,
		.desc_a = j->fault.desc_a,
		.desc_b = j->fault.desc_b,
		.workers = j->state == FAN_JOB_READY && j->workers != j->ranks ? j->workers : 0,
	};
	if (!q->joins)
		memcpy(s.hosts, j->fault.hosts, sizeof s.hosts);
	fan_job_missing(j, q->frag, q->waiting, s.missing);
	return put_state(it, out, id, j->epoch, q->nonce, &s);
}

/* Tell one worker that there is no such job (FAN_JOB_NONE), or that it has left (FAN_JOB_LEFT). */
static void put_bare_state(const fan_peer *to, const struct fan_frag *f, enum fan_job_state state,
			   struct fan_out *out)
{
	const struct fan_state s = {
		.frag = f->frag,
		.state = (uint8_t)state,
		.rank_a = FAN_RANK_NONE,
		.rank_b = FAN_RANK_NONE,
	};
	struct fan_out_item *it = fan_out_add(out, FAN_TO_PEER);
	it->peer = *to;
	put_state(it, out, f->job, f->epoch, f->nonce, &s);
}

/* Tell all members how the job stands. */
static void push_state(struct fan_job *j, struct fan_out *out)
{
	struct fan_out_item *it = fan_out_add(out, FAN_TO_GROUP);
	it->group = &j->group;
	const struct asked all = {.nonce = 0};
	const struct fan_frag h = put_standing(it, out, j, j->id, &all);
	fan_aggregator_also(j, &h, out);
}

/* Set the job to FAILED. */
static void mark_failed(struct fan_job *j, const struct fan_job_fault *fault)
{
	assert(j->state == FAN_JOB_FORMING || j->state == FAN_JOB_READY);
	assert(fault->err != FAN_OK);
	j->state = FAN_JOB_FAILED;
	j->fault = *fault;
	j->test_ns = j->remind_ns = UINT64_MAX;
	fan_job_free_slots(j);
	j->group.multicast = false;
}

void fan_control_fail(struct fan_aggregator *ag, struct fan_job *j,
		      const struct fan_job_fault *fault, struct fan_out *out)
{
	ag->predicted.on = false;
	mark_failed(j, fault);
	fan_tree_uplink_end(ag, j, fault->err);
	touch(ag);
	fan_aggregator_note(ag, FAN_EV_JOB_FAILED, j, FAN_RANK_NONE);
	if (fault->err != FAN_E_STOPPED) {
		push_state(j, out);
		return;
	}
	j->answered = FAN_RANK_NONE;
	j->tell_ns = ag->now_ns;
	j->telling = j->ranks;
}

void fan_control_remove(struct fan_aggregator *ag, struct fan_job *j)
{
	if (fan_tree_uplink_end(ag, j, j->fault.err)) {
		if (j->state == FAN_JOB_READY) /* else others may still join */
			fan_job_free_slots(j);
		return;
	}
	fan_aggregator_note(ag, FAN_EV_JOB_REMOVED, j, FAN_RANK_NONE);
	fan_job_free(j);
}

/* Tell each member that the job is ready, or is being stopped, as an answer to its last BEAT: who
 * is no member may know the epoch of a job that forms, but not its nonce.  As many as there is room
 * for. */
static void send_each(struct fan_aggregator *ag, struct fan_job *j, struct fan_out *out)
{
	if (ag->now_ns >= j->tell_ns) {
		j->telling = 0;
		j->tell_ns = ag->now_ns + FAN_STOP_TELL_NS;
	}
	while (j->telling < j->ranks && fan_out_fits(out, 2, 2 * FAN_CTL_BYTES_MAX)) {
		const uint16_t rank = j->telling++;
		if (!(j->members[rank].flags & FAN_MEMBER_IN) || rank == j->answered)
			continue;
		const struct asked q = {.nonce = j->members[rank].nonce};
		struct fan_out_item *it = fan_out_add(out, FAN_TO_PEER);
		it->peer = j->peers[rank];
		put_standing(it, out, j, fan_job_id_for(j, rank), &q);
		if (fan_peer_token(&it->peer))
			fan_partials_wrap(ag, it, rank, out);
	}
}

/* All are here: from now on fragments are summed. */
void fan_control_become_ready(struct fan_aggregator *ag, struct fan_job *j)
{
	assert(j->state == FAN_JOB_FORMING && fan_job_all_have(j, FAN_MEMBER_SURE));
	j->workers = j->up ? fan_worker_workers(j->up) : fan_job_workers(j);
	j->pool.workers = j->workers;
	j->pool.relayed = j->up != NULL;
	j->state = FAN_JOB_READY;
	j->telling = 0;
	j->ready_ns = ag->now_ns;
	j->tell_ns = UINT64_MAX;
	j->answered = FAN_RANK_NONE;
	touch(ag); /* which informs them */
	fan_aggregator_note(ag, FAN_EV_JOB_READY, j, FAN_RANK_NONE);
}

/* All members are ready: make the job ready, with a parent when that permits. */
static void all_ready(struct fan_aggregator *ag, struct fan_job *j, bool multicast,
		      struct fan_out *out)
{
	if (fan_claim_fails(ag, j, out))
		return;
	j->test_ns = UINT64_MAX;
	j->group.multicast = multicast;
	if (ag->cfg.siblings)
		fan_tree_uplink_begin(ag, j);
	else
		fan_control_become_ready(ag, j);
}

void fan_control_send_failed(const struct fan_job *j, const fan_peer *to,
			     const struct fan_frag *join, struct fan_out *out)
{
	struct fan_out_item *it = fan_out_add(out, FAN_TO_PEER);
	it->peer = *to;
	const struct asked q = {.nonce = join->nonce, .joins = true};
	put_standing(it, out, j, fan_job_id_on(j->id, fan_route_number(join->job)), &q);
}

/* All are here: test the group that they can listen to, or begin. */
static void all_here(struct fan_aggregator *ag, uint64_t now_ns, struct fan_job *j,
		     struct fan_out *out)
{
	if (j->reported) { /* a stranger must not know its epoch: its next BEATs are denied */
		fan_jobs_rename(&ag->jobs, j);
		return;
	}
	if (ag->cfg.group_family == 0 || !(j->options & FAN_JOIN_GROUP)) {
		all_ready(ag, j, false, out);
		return;
	}
	fan_job_group_set(ag, j, &j->peers[0]);
	j->tests_left = FAN_GROUP_TESTS;
	j->test_ns = now_ns;
	touch(ag);
}

/* The member that sent `f`, or a reason why there is none. */
static int find_member(struct fan_aggregator *ag, const fan_peer *from, const struct fan_frag *f,
		       struct fan_job **job)
{
	struct fan_job *j = fan_jobs_get(&ag->jobs, f->job);
	*job = j;
	if (!j)
		return FAN_DROP_JOB;
	if (f->epoch != j->epoch)
		return FAN_DROP_EPOCH;
	if (!fan_job_is_member(j, f->sender, from) || j->members[f->sender].nonce != f->nonce)
		return FAN_DROP_SENDER;
	return -1;
}

/* Does `f`, which is not from where the member is, come from this life of it all the same? */
static bool is_its_life(const struct fan_job *j, const struct fan_frag *f)
{
	return j && f->epoch == j->epoch && f->sender < j->ranks &&
	       j->members[f->sender].flags & FAN_MEMBER_IN &&
	       j->members[f->sender].nonce == f->nonce;
}

/* Does it come by another path than the member is known to take? */
static bool is_moving(const struct fan_job *j, const struct fan_frag *f)
{
	const struct fan_member *m = &j->members[f->sender];
	return m->next_path != m->path || m->route != fan_route_number(f->job);
}

/* Does a BEAT show that the member is at `from`, where its last JOIN came from by another path? */
static bool has_moved(const struct fan_aggregator *ag, const struct fan_job *j,
		      const fan_peer *from, const struct fan_frag *f, const struct fan_beat *m)
{
	const struct fan_member *member = &j->members[f->sender];
	return member->next_path != member->path &&
	       fan_route_number(f->job) == member->next_route &&
	       m->cookie == fan_jobs_cookie(&ag->jobs, j, f->sender, member->next_path, from);
}

/* The job of the member that sends the BEAT; NULL: no member, which is answered if that is safe. */
static struct fan_job *find_beating(struct fan_aggregator *ag, const fan_peer *from,
				    const struct fan_frag *f, const struct fan_beat *m,
				    struct fan_out *out)
{
	struct fan_job *j;
	int why = find_member(ag, from, f, &j);
	bool known = is_its_life(j, f), proved = !j && fan_challenge_answer(ag, from, f, m->cookie);
	if (known && has_moved(ag, j, from, f, m)) {
		fan_job_move(j, f->sender, from);
		fan_aggregator_note(ag, FAN_EV_RANK_MOVED, j, f->sender)->peer = *from;
		j->members[f->sender].moved = false;
		return j;
	}
	if (why < 0)
		return j;
	if (known && j->members[f->sender].route != fan_route_number(f->job))
		why = FAN_DROP_ROUTE;
	else if (!known && (why != FAN_DROP_SENDER || !fan_job_is_member(j, f->sender, from)) &&
		 (proved || fan_strangers_may(ag, from, f)))
		put_bare_state(from, f, FAN_JOB_NONE, out);
	fan_aggregator_drop(ag, (unsigned)why);
	return NULL;
}

/* A member that is not sure yet gives its address.  False: another sender may have given it. */
static bool prove(struct fan_aggregator *ag, struct fan_job *j, const fan_peer *from,
		  const struct fan_frag *f, const struct fan_beat *m)
{
	const struct fan_member *member = &j->members[f->sender];
	if (m->cookie != fan_jobs_cookie(&ag->jobs, j, f->sender, member->path, from))
		return false;
	fan_job_make_sure(j, f->sender, FAN_MEMBER_SURE);
	return true;
}

static enum fan_verdict recv_beat(struct fan_aggregator *ag, uint64_t now_ns, const fan_peer *from,
				  const struct fan_frag *f, struct fan_out *out)
{
	struct fan_beat m;
	if (fan_ctl_get(&m, f) != FAN_OK || f->nonce == 0)
		return fan_aggregator_drop(ag, FAN_DROP_FORMAT);
	struct fan_job *j = find_beating(ag, from, f, &m, out);
	if (!j)
		return FAN_DROP;
	fan_job_check(j);
	struct fan_member *member = &j->members[f->sender];
	bool sure = member->flags & FAN_MEMBER_SURE;
	if (!sure && !prove(ag, j, from, f, &m))
		return fan_aggregator_drop(ag, FAN_DROP_SENDER);
	member->heard_ns = now_ns;
	if (m.flags & FAN_BEAT_HEARD)
		member->flags |= FAN_MEMBER_HEARD;
	bool forming = j->state == FAN_JOB_FORMING;
	if (forming && !sure && fan_job_all_have(j, FAN_MEMBER_SURE))
		all_here(ag, now_ns, j, out);
	else if (forming && j->test_ns != UINT64_MAX && fan_job_all_have(j, FAN_MEMBER_HEARD))
		all_ready(ag, j, true, out);
	if (f->epoch != j->epoch) {
		put_bare_state(from, f, FAN_JOB_NONE, out);
		return FAN_CTL;
	}
	if (forming && j->state == FAN_JOB_READY)
		j->answered = f->sender;
	struct fan_out_item *it = fan_out_add(out, FAN_TO_PEER);
	it->peer = *from;
	const struct asked q = {
		.nonce = f->nonce, .frag = f->frag, .waiting = m.flags & FAN_BEAT_WAITING};
	put_standing(it, out, j, fan_job_id_for(j, f->sender), &q);
	return FAN_CTL;
}

/* A job that was about to be ready is not: a member has left. */
static void stop_forming(struct fan_aggregator *ag, struct fan_job *j)
{
	j->test_ns = UINT64_MAX;
	if (j->state != FAN_JOB_FORMING)
		return;
	j->group.multicast = false;
	fan_tree_uplink_end(ag, j, FAN_OK);
}

/* Does the rank's LEAVE mean that it can never take part, whichever others join? */
static bool cannot_take_part(const struct fan_job *j, uint16_t rank, int err)
{
	return j->state == FAN_JOB_FORMING && j->members[rank].flags & FAN_MEMBER_SURE &&
	       (err == FAN_E_NOMEM || err == FAN_E_SYSTEM || err == FAN_E_MTU ||
		err == FAN_E_FILES);
}

/* Is a fragment open to which `rank` has not contributed? */
static bool waits_for(const struct fan_job *j, uint16_t rank)
{
	for (unsigned i = 0; i < 2u * j->pool.window; i++) {
		const struct fan_round *round = &j->pool.rounds[i];
		if (round->state == FAN_ROUND_OPEN && !fan_ranks_has(round->seen, rank))
			return true;
	}
	return false;
}

/* A member goes.  Early, or with an error, it takes the job with it. */
static void member_leaves(struct fan_aggregator *ag, struct fan_job *j, uint16_t rank,
			  const struct fan_leave *m, struct fan_out *out)
{
	struct fan_event *ev = fan_aggregator_note(ag, FAN_EV_RANK_LEFT, j, rank);
	ev->err = m->err;
	bool ready = j->state == FAN_JOB_READY;
	bool early = ready && m->err == FAN_OK && waits_for(j, rank);
	bool fatal = cannot_take_part(j, rank, m->err) || (ready && (m->err || early));
	fan_job_drop_member(j, rank, ready);
	if (j->in == 0) {
		fan_control_remove(ag, j);
		return;
	}
	if (!fatal) {
		stop_forming(ag, j);
		return;
	}
	struct fan_job_fault fault = {
		.err = (int8_t)(early ? FAN_E_RANK_LEFT : m->err),
		.rank_a = FAN_RANK_NONE, /* what a MISMATCH elsewhere was about is not known here */
		.rank_b = FAN_RANK_NONE,
	};
	uint64_t real[FAN_RANK_WORDS];
	fan_ranks_all(real, j->ranks);
	if (early || !fan_ranks_both(fault.blamed, m->blamed, real))
		fan_ranks_set(fault.blamed, rank);
	fan_control_fail(ag, j, &fault, out);
}

static enum fan_verdict recv_leave(struct fan_aggregator *ag, const fan_peer *from,
				   const struct fan_frag *f, struct fan_out *out)
{
	struct fan_leave m;
	struct fan_job *j;
	if (fan_ctl_get(&m, f) != FAN_OK || f->nonce == 0)
		return fan_aggregator_drop(ag, FAN_DROP_FORMAT);
	int why = find_member(ag, from, f, &j);
	if (why >= 0 && !fan_strangers_may(ag, from, f))
		return fan_aggregator_drop(ag, FAN_DROP_FULL);
	put_bare_state(from, f, FAN_JOB_LEFT, out);
	if (why >= 0 && !(is_its_life(j, f) && is_moving(j, f)))
		/* or it has left before, and our answer was lost */
		return fan_aggregator_drop(ag, (unsigned)why);
	fan_job_check(j);
	touch(ag);
	member_leaves(ag, j, f->sender, &m, out);
	return FAN_CTL;
}

enum fan_verdict fan_control_recv(struct fan_aggregator *ag, uint64_t now_ns, const fan_peer *from,
				  const struct fan_frag *f, struct fan_out *out)
{
	switch (f->type) {
	case FAN_TYPE_JOIN: return fan_join_recv(ag, from, f, out);
	case FAN_TYPE_BEAT: return recv_beat(ag, now_ns, from, f, out);
	case FAN_TYPE_LEAVE: return recv_leave(ag, from, f, out);
	case FAN_TYPE_QUERY: return fan_report_query(ag, from, f, out);
	case FAN_TYPE_RELAY: return fan_partials_envelope(ag, now_ns, from, f, out);
	default: return fan_aggregator_drop(ag, FAN_DROP_TYPE);
	}
}

/* Silence after which this member is lost. */
static uint64_t patience_of(const struct fan_job *j, uint16_t rank)
{
	const uint64_t alive_ns = j->alive_ms * FAN_MS;
	if (!fan_job_has_proved(j, rank))
		return FAN_UNSURE_NS;
	/* a rank that is to blame still gets time to hear of it */
	return j->state == FAN_JOB_FAILED ? 2 * alive_ns : alive_ns;
}

/* Find members that have fallen silent. */
static void check_silence(struct fan_aggregator *ag, struct fan_job *j, uint64_t now_ns,
			  struct fan_out *out)
{
	struct fan_job_fault fault = {.err = FAN_E_RANK_LOST};
	unsigned lost = 0;
	uint64_t least_ns = UINT64_MAX;
	const uint64_t late_ns = fan_awake_late_ns(j->check_ns, now_ns);
	for (uint16_t r = 0; r < j->ranks; r++) {
		struct fan_member *m = &j->members[r];
		if (!(m->flags & FAN_MEMBER_IN))
			continue;
		m->heard_ns = fan_awake_shift(m->heard_ns, late_ns, now_ns);
		if (m->claim_ns)
			m->claim_ns = fan_awake_shift(m->claim_ns, late_ns, now_ns);
		const uint64_t patience_ns = patience_of(j, r);
		least_ns = patience_ns < least_ns ? patience_ns : least_ns;
		if (now_ns - m->heard_ns <= patience_ns)
			continue;
		fan_ranks_set(fault.blamed, r);
		lost++;
		if (j->state != FAN_JOB_READY)
			fan_job_drop_member(j, r, false);
	}
	j->check_ns = now_ns + least_ns / 4;
	if (lost && j->state == FAN_JOB_READY)
		fan_control_fail(ag, j, &fault, out);
	else if (lost)
		stop_forming(ag, j);
	if (j->in == 0)
		fan_control_remove(ag, j);
}

/* Test the multicast group, or give it up. */
static void test_group(struct fan_aggregator *ag, struct fan_job *j, uint64_t now_ns,
		       struct fan_out *out)
{
	if (j->tests_left == 0) {
		all_ready(ag, j, false, out);
		return;
	}
	j->tests_left--;
	j->test_ns = now_ns + FAN_GROUP_TEST_NS;
	struct fan_out_item *it = fan_out_add(out, FAN_TO_MCAST);
	it->group = &j->group;
	const struct asked all = {.nonce = 0};
	put_standing(it, out, j, j->id, &all);
}

/* Ranks that have lost another aggregator just now are agreeing about that: a second loss meanwhile
 * would be their end. */
static bool is_young(const struct fan_job *j, uint64_t now_ns)
{
	return j->state == FAN_JOB_READY && now_ns < j->ready_ns + FAN_STOP_YOUNG_NS;
}

/* The highest open fragment; 0: none is open. */
static uint64_t last_open(const struct fan_job *j)
{
	uint64_t last = 0;
	for (unsigned i = 0; i < 2u * j->pool.window; i++) {
		const struct fan_round *round = &j->pool.rounds[i];
		const bool open =
			round->state == FAN_ROUND_OPEN || round->state == FAN_ROUND_AWAITING;
		if (open && round->frag > last)
			last = round->frag;
	}
	return last;
}

void fan_aggregator_stop(struct fan_aggregator *ag, uint64_t now_ns)
{
	if (ag->stop_ns)
		return;
	ag->predicted.on = false;
	ag->now_ns = now_ns;
	ag->stop_ns = now_ns + FAN_STOP_FINISH_NS;
	for (unsigned i = 0; i < ag->jobs.used; i++) {
		struct fan_job *j = &ag->jobs.job[i];
		if (j->state == FAN_JOB_READY)
			j->last_frag = is_young(j, now_ns) ? UINT64_MAX : last_open(j);
	}
	touch(ag);
}

/* The aggregator is being stopped, and nothing that the job has begun is left, or time is up. */
static void stop_job(struct fan_aggregator *ag, struct fan_job *j, struct fan_out *out)
{
	const struct fan_job_fault fault = {
		.err = FAN_E_STOPPED, .rank_a = FAN_RANK_NONE, .rank_b = FAN_RANK_NONE};
	uint64_t oldest;
	const bool finishes = j->state == FAN_JOB_READY && ag->now_ns < ag->stop_ns;
	if (j->state == FAN_JOB_FAILED || is_young(j, ag->now_ns) ||
	    (finishes && fan_job_open(j, &oldest)))
		return;
	fan_control_fail(ag, j, &fault, out);
}

/* When to look at the job again, whose members await something, or which is to end. */
static uint64_t failed_deadline(const struct fan_aggregator *ag, const struct fan_job *j)
{
	const bool reported = j->state == FAN_JOB_READY || j->fault.err == FAN_E_STOPPED;
	if (reported && j->telling < j->ranks)
		return ag->now_ns;
	if (ag->stop_ns && j->state == FAN_JOB_READY)
		return ag->now_ns + FAN_STOP_LOOK_NS;
	return reported ? j->tell_ns : UINT64_MAX;
}

void fan_aggregator_tick(struct fan_aggregator *ag, uint64_t now_ns, struct fan_out *out)
{
	if (now_ns < ag->deadline_ns)
		return;
	unsigned room = ag->cfg.siblings ? 2 + FAN_TREE_UPLINK_ITEMS : 4;
	uint64_t next = UINT64_MAX;
	assert(out->count || fan_out_has(out, FAN_AGGREGATOR_OUT_MAX)); /* or it would never end */
	ag->now_ns = now_ns;
	ag->deadline_ns = UINT64_MAX;
	for (unsigned i = 0; i < ag->jobs.used; i++) {
		struct fan_job *j = &ag->jobs.job[i];
		if (j->state == FAN_JOB_NONE)
			continue;
		fan_job_check(j);
		if (!fan_out_has(out, room)) {
			ag->deadline_ns = now_ns;
			return;
		}
		if (ag->stop_ns)
			stop_job(ag, j, out);
		if (now_ns >= j->test_ns)
			test_group(ag, j, now_ns, out);
		if (now_ns >= j->check_ns)
			check_silence(ag, j, now_ns, out);
		if (now_ns >= fan_tree_uplink_deadline(j))
			fan_tree_uplink_step(ag, j, out);
		if (j->state == FAN_JOB_READY || j->fault.err == FAN_E_STOPPED)
			send_each(ag, j, out);
		if (now_ns >= j->remind_ns) /* as much as there is room for: it comes last */
			fan_partials_remind(ag, j, now_ns, out);
		if (j->state == FAN_JOB_NONE)
			continue;
		const uint64_t tell_ns = failed_deadline(ag, j);
		next = tell_ns < next ? tell_ns : next;
		next = j->remind_ns < next ? j->remind_ns : next;
		next = j->test_ns < next ? j->test_ns : next;
		next = j->check_ns < next ? j->check_ns : next;
		uint64_t up_ns = fan_tree_uplink_deadline(j);
		next = up_ns < next ? up_ns : next;
	}
	ag->deadline_ns = next;
}
