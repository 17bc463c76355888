/* SPDX-License-Identifier: Apache-2.0 */
/* control.c - the switch's control messages, group tests and health checks. */
#include "asked.h"
#include "switch_priv.h"

#define HEALTH_SPAN 1024 /* results between two looks at who misses them */

/* Something about a job's timers has changed: let tick have a look. */
static void touch(struct fan_switch *sw)
{
	sw->deadline_ns = 0;
}

/* Send control message `type` of `bytes` at `body`, in the out's scratch or the switch, about
 * the job that is called `id` where it goes.  Its header. */
static struct fan_frag put_ctl(struct fan_out_item *it, uint32_t id, uint32_t epoch,
			       enum fan_type type, uint64_t frag, const uint8_t *body, size_t bytes)
{
	struct fan_frag h = {
		.frag = frag,
		.job = id,
		.epoch = epoch,
		.sender = FAN_RANK_NONE,
		.type = (uint8_t)type,
	};
	fan_ctl_finish(it, &h, body, bytes);
	return h;
}

static struct fan_frag put_state(struct fan_out_item *it, struct fan_out *out,
				 const struct fan_job *j, uint32_t id, uint64_t frag, bool waiting)
{
	struct fan_state s = {
		.state = (uint8_t)j->state,
		.err = j->fault.err,
		.multicast = j->group.multicast,
		.ranks = j->ranks,
		.rank_a = j->fault.err == FAN_E_MISMATCH ? j->fault.rank_a : FAN_RANK_NONE,
		.rank_b = j->fault.err == FAN_E_MISMATCH ? j->fault.rank_b : FAN_RANK_NONE,
		.desc_a = j->fault.desc_a,
		.desc_b = j->fault.desc_b,
		.workers = j->workers == j->ranks ? 0 : j->workers,
	};
	fan_job_missing(j, frag, waiting, s.missing);
	uint8_t *body = fan_out_scratch(out, FAN_CTL_BYTES_MAX);
	return put_ctl(it, id, j->epoch, FAN_TYPE_STATE, frag, body, fan_state_put(body, &s));
}

/* Tell all members how the job stands. */
static void push_state(struct fan_job *j, struct fan_out *out)
{
	struct fan_out_item *it = fan_out_add(out, FAN_TO_GROUP);
	it->group = &j->group;
	const struct fan_frag h = put_state(it, out, j, j->id, 0, false);
	fan_switch_also(j, &h, out);
}

void fan_switch_fail(struct fan_switch *sw, struct fan_job *j, const struct fan_job_fault *fault,
		     struct fan_out *out)
{
	fan_job_fail(j, fault);
	fan_uplink_end(sw, j, fault->err);
	touch(sw);
	fan_switch_note(sw, FAN_EV_JOB_FAILED, j, FAN_RANK_NONE);
	push_state(j, out);
}

void fan_control_remove(struct fan_switch *sw, struct fan_job *j)
{
	if (fan_uplink_end(sw, j, j->fault.err)) {
		if (j->state == FAN_JOB_READY) /* else others may still come */
			fan_job_free_slots(j);
		return;
	}
	fan_switch_note(sw, FAN_EV_JOB_REMOVED, j, FAN_RANK_NONE);
	fan_job_free(j);
}

void fan_control_all_ready(struct fan_switch *sw, struct fan_job *j, bool multicast,
			   struct fan_out *out)
{
	j->test_ns = UINT64_MAX;
	j->group.multicast = multicast;
	if (sw->cfg.siblings)
		fan_uplink_begin(sw, j);
	else
		fan_control_become_ready(sw, j, out);
}

/* All are here: from now on fragments are summed. */
void fan_control_become_ready(struct fan_switch *sw, struct fan_job *j, struct fan_out *out)
{
	j->workers = j->up ? fan_worker_workers(j->up) : fan_job_workers(j);
	j->pool.workers = j->workers;
	j->pool.relayed = j->up != NULL;
	j->state = FAN_JOB_READY;
	push_state(j, out);
	fan_switch_note(sw, FAN_EV_JOB_READY, j, FAN_RANK_NONE);
}

/* The group of job number i is the configured address + i. */
static void group_address(const struct fan_switch *sw, const struct fan_job *j, uint8_t *addr)
{
	unsigned last = sw->cfg.group_family == 4 ? 3 : 15;
	memcpy(addr, sw->cfg.group_base, 16);
	unsigned sum = addr[last] + (j->id & 0xff);
	addr[last] = (uint8_t)sum;
	addr[last - 1] = (uint8_t)(addr[last - 1] + (sum >> 8));
}

static void set_group(const struct fan_switch *sw, struct fan_job *j, const fan_peer *via)
{
	uint8_t addr[16], mapped[16] = {[10] = 0xff, [11] = 0xff};
	group_address(sw, j, addr);
	if (sw->cfg.group_family == 4)
		memcpy(mapped + 12, addr, 4);
	memcpy(j->group.addr.addr, sw->cfg.group_family == 4 ? mapped : addr, 16);
	j->group.addr.port = sw->cfg.group_port;
	j->group.via = *via;
}

/* The answer to `join` has its number of the way, too. */
static void welcome(const struct fan_switch *sw, const struct fan_job *j, const fan_peer *to,
		    const struct fan_frag *join, struct fan_out *out)
{
	struct fan_welcome m = {
		.window = j->window,
		.shards = sw->cfg.shards,
		.beat_ms = j->alive_ms / FAN_BEATS_PER_ALIVE,
		.alive_ms = j->alive_ms,
		.group_family = sw->cfg.group_family,
		.group_port = sw->cfg.group_port,
		.burst = j->burst,
		.flags = j->members[join->sender].numbers ? FAN_WELCOME_NUMBERS : 0,
	};
	if (m.group_family)
		group_address(sw, j, m.group);
	struct fan_out_item *it = fan_out_add(out, FAN_TO_PEER);
	it->peer = *to;
	uint8_t *body = fan_out_scratch(out, FAN_CTL_BYTES_MAX);
	struct fan_frag h = {
		.frag = join->frag,
		.job = fan_job_id_on(j->id, fan_route_number(join->job)),
		.epoch = j->epoch,
		.sender = FAN_RANK_NONE,
		.type = FAN_TYPE_WELCOME,
		.priority = join->priority,
	};
	fan_ctl_finish(it, &h, body, fan_welcome_put(body, &m));
}

static enum fan_verdict refuse(struct fan_switch *sw, const fan_peer *to, const struct fan_frag *f,
			       const struct fan_join *m, const struct fan_refuse *no,
			       struct fan_out *out)
{
	struct fan_event *ev = fan_switch_note(sw, FAN_EV_RANK_REFUSED, NULL, f->sender);
	ev->err = no->err;
	ev->ranks = m->ranks;
	ev->peer = *to;
	memcpy(ev->name, m->name, sizeof ev->name);
	struct fan_out_item *it = fan_out_add(out, FAN_TO_PEER);
	it->peer = *to;
	uint8_t *body = fan_out_scratch(out, FAN_CTL_BYTES_MAX);
	/* its route, by which the answer goes back */
	put_ctl(it, f->job, 0, FAN_TYPE_REFUSE, f->frag, body, fan_refuse_put(body, no));
	return FAN_CTL;
}

/* A member that comes by another way learns why its job has ended. */
static void tell_failed(const struct fan_job *j, const fan_peer *to, const struct fan_frag *join,
			struct fan_out *out)
{
	struct fan_out_item *it = fan_out_add(out, FAN_TO_PEER);
	it->peer = *to;
	put_state(it, out, j, fan_job_id_on(j->id, fan_route_number(join->job)), 0, false);
}

static enum fan_verdict recv_join(struct fan_switch *sw, uint64_t now_ns, const fan_peer *from,
				  const struct fan_frag *f, struct fan_out *out)
{
	struct fan_join m;
	if (fan_join_get(&m, f) != FAN_OK || f->frag == 0)
		return fan_switch_drop(sw, FAN_DROP_FORMAT);
	struct fan_job *j = NULL;
	struct fan_refuse no;
	bool created, again;
	if (fan_jobs_join(&sw->jobs, now_ns, from, f, &m, &j, &created, &again, &no) != FAN_OK)
		return refuse(sw, from, f, &m, &no, out);
	if (j->state == FAN_JOB_FAILED)
		tell_failed(j, from, f, out);
	else
		welcome(sw, j, from, f, out);
	if (created)
		fan_switch_note(sw, FAN_EV_JOB_CREATED, j, FAN_RANK_NONE);
	struct fan_member *member = &j->members[f->sender];
	if (member->moved)
		fan_switch_note(sw, FAN_EV_RANK_MOVED, j, f->sender)->peer = *from;
	member->moved = false;
	if (again)
		return FAN_CTL;
	fan_switch_note(sw, FAN_EV_RANK_JOINED, j, f->sender)->peer = *from;
	touch(sw);
	return FAN_CTL;
}

/* All are here: test the group that they can listen to, or begin. */
static void all_here(struct fan_switch *sw, uint64_t now_ns, struct fan_job *j, struct fan_out *out)
{
	if (sw->cfg.group_family == 0 || !(j->options & FAN_JOIN_GROUP)) {
		fan_control_all_ready(sw, j, false, out);
		return;
	}
	set_group(sw, j, &j->peers[0]);
	j->tests_left = FAN_GROUP_TESTS;
	j->test_ns = now_ns;
	touch(sw);
}

/* The member that sent `f` with `nonce`, or a reason why there is none. */
static int find_member(struct fan_switch *sw, const fan_peer *from, const struct fan_frag *f,
		       uint64_t nonce, struct fan_job **job)
{
	struct fan_job *j = fan_jobs_get(&sw->jobs, f->job);
	*job = j;
	if (!j)
		return FAN_DROP_JOB;
	if (f->epoch != j->epoch)
		return FAN_DROP_EPOCH;
	if (!fan_job_is_member(j, f->sender, from) || j->members[f->sender].nonce != nonce)
		return FAN_DROP_SENDER;
	return -1;
}

/* Does `f` come from this life of a member by another route than it goes by here?  It was
 * overtaken by a JOIN, or its JOIN has not come. */
static bool has_moved(const struct fan_job *j, const struct fan_frag *f, uint64_t nonce)
{
	return j && f->epoch == j->epoch && f->sender < j->ranks &&
	       j->members[f->sender].flags & FAN_MEMBER_IN &&
	       j->members[f->sender].nonce == nonce &&
	       j->members[f->sender].route != fan_route_number(f->job);
}

/* Tell a worker that the job it believes in does not exist here. */
static void deny(const fan_peer *to, const struct fan_frag *f, struct fan_out *out)
{
	const struct fan_state s = {
		.state = FAN_JOB_NONE,
		.rank_a = FAN_RANK_NONE,
		.rank_b = FAN_RANK_NONE,
	};
	struct fan_out_item *it = fan_out_add(out, FAN_TO_PEER);
	it->peer = *to;
	uint8_t *body = fan_out_scratch(out, FAN_CTL_BYTES_MAX);
	put_ctl(it, f->job, f->epoch, FAN_TYPE_STATE, f->frag, body, fan_state_put(body, &s));
}

static enum fan_verdict recv_beat(struct fan_switch *sw, uint64_t now_ns, const fan_peer *from,
				  const struct fan_frag *f, struct fan_out *out)
{
	struct fan_beat m;
	struct fan_job *j;
	if (fan_beat_get(&m, f) != FAN_OK)
		return fan_switch_drop(sw, FAN_DROP_FORMAT);
	int why = find_member(sw, from, f, m.nonce, &j);
	if (why >= 0 && has_moved(j, f, m.nonce))
		return fan_switch_drop(sw, FAN_DROP_ROUTE);
	if (why >= 0) {
		deny(from, f, out);
		return fan_switch_drop(sw, (unsigned)why);
	}
	struct fan_member *member = &j->members[f->sender];
	bool sure = member->flags & FAN_MEMBER_SURE;
	member->heard_ns = now_ns;
	member->flags |= FAN_MEMBER_SURE;
	if (m.flags & FAN_BEAT_HEARD)
		member->flags |= FAN_MEMBER_HEARD;
	bool forming = j->state == FAN_JOB_FORMING;
	if (forming && !sure && fan_job_all_have(j, FAN_MEMBER_SURE))
		all_here(sw, now_ns, j, out);
	else if (forming && j->test_ns != UINT64_MAX && fan_job_all_have(j, FAN_MEMBER_HEARD))
		fan_control_all_ready(sw, j, true, out);
	if (forming && j->state == FAN_JOB_READY)
		return FAN_CTL; /* all have just been told, this one too */
	struct fan_out_item *it = fan_out_add(out, FAN_TO_PEER);
	it->peer = *from;
	put_state(it, out, j, fan_job_id_for(j, f->sender), f->frag, m.flags & FAN_BEAT_WAITING);
	return FAN_CTL;
}

/* A job that was about to be ready is not: somebody has gone. */
static void stop_forming(struct fan_switch *sw, struct fan_job *j)
{
	j->test_ns = UINT64_MAX;
	if (j->state != FAN_JOB_FORMING)
		return;
	j->group.multicast = false;
	fan_uplink_end(sw, j, FAN_OK);
}

/* A member goes.  Early, or with an error, it takes the job with it. */
static void let_go(struct fan_switch *sw, struct fan_job *j, uint16_t rank,
		   const struct fan_leave *m, struct fan_out *out)
{
	struct fan_event *ev = fan_switch_note(sw, FAN_EV_RANK_LEFT, j, rank);
	ev->err = m->err;
	bool ready = j->state == FAN_JOB_READY;
	bool early = ready && m->err == FAN_OK && fan_job_waits_for(j, rank);
	fan_job_drop_member(j, rank, ready);
	if (j->in == 0) {
		fan_control_remove(sw, j);
		return;
	}
	stop_forming(sw, j);
	if (!ready || (m->err == FAN_OK && !early))
		return;
	struct fan_job_fault fault = {
		.err = (int8_t)(early ? FAN_E_RANK_LEFT : m->err),
		.rank_a = FAN_RANK_NONE, /* what a MISMATCH elsewhere was about is not told here */
		.rank_b = FAN_RANK_NONE,
	};
	bool named = false;
	for (unsigned i = 0; i < FAN_RANK_WORDS; i++) {
		unsigned ranks = j->ranks > i * 64 ? j->ranks - i * 64 : 0;
		uint64_t real = ranks >= 64 ? UINT64_MAX : (UINT64_C(1) << ranks) - 1;
		fault.blamed[i] = early ? 0 : m->blamed[i] & real;
		named |= fault.blamed[i] != 0;
	}
	if (!named)
		fan_ranks_set(fault.blamed, rank);
	fan_switch_fail(sw, j, &fault, out);
}

static enum fan_verdict recv_leave(struct fan_switch *sw, const fan_peer *from,
				   const struct fan_frag *f, struct fan_out *out)
{
	struct fan_leave m;
	struct fan_job *j;
	if (fan_leave_get(&m, f) != FAN_OK)
		return fan_switch_drop(sw, FAN_DROP_FORMAT);
	int why = find_member(sw, from, f, m.nonce, &j);
	struct fan_out_item *it = fan_out_add(out, FAN_TO_PEER);
	it->peer = *from;
	put_ctl(it, f->job, f->epoch, FAN_TYPE_LEFT, m.nonce, NULL, 0);
	if (why >= 0 && !has_moved(j, f, m.nonce)) /* it has left before, and our answer was lost */
		return fan_switch_drop(sw, (unsigned)why);
	touch(sw);
	let_go(sw, j, f->sender, &m, out);
	return FAN_CTL;
}

static enum fan_verdict recv_query(struct fan_switch *sw, const fan_peer *from,
				   const struct fan_frag *f, struct fan_out *out)
{
	struct fan_query m;
	if (fan_query_get(&m, f) != FAN_OK)
		return fan_switch_drop(sw, FAN_DROP_FORMAT);
	struct fan_report r = {.index = m.index};
	fan_switch_report(sw, &r);
	struct fan_out_item *it = fan_out_add(out, FAN_TO_PEER);
	it->peer = *from;
	uint8_t *body = fan_out_scratch(out, FAN_CTL_BYTES_MAX);
	put_ctl(it, 0, 0, FAN_TYPE_REPORT, f->frag, body, fan_report_put(body, &r));
	return FAN_CTL;
}

static enum fan_verdict recv_tally(struct fan_switch *sw, const fan_peer *from,
				   const struct fan_frag *f, struct fan_out *out)
{
	struct fan_query m;
	if (fan_query_get(&m, f) != FAN_OK)
		return fan_switch_drop(sw, FAN_DROP_FORMAT);
	const struct fan_tallied none = {.index = m.index};
	uint8_t *body = fan_out_scratch(out, FAN_CTL_BYTES_MAX);
	fan_asked_put(from, FAN_TYPE_TALLIED, f, body, fan_tallied_put(body, &none), out);
	return FAN_CTL;
}

static enum fan_verdict recv_lag(struct fan_switch *sw, const fan_peer *from,
				 const struct fan_frag *f, struct fan_out *out)
{
	struct fan_query q;
	if (fan_query_get(&q, f) != FAN_OK)
		return fan_switch_drop(sw, FAN_DROP_FORMAT);
	struct fan_lags m = {.index = q.index, .first = q.first};
	fan_switch_lags(sw, &m);
	uint8_t *body = fan_out_scratch(out, FAN_CTL_BYTES_MAX);
	fan_asked_put(from, FAN_TYPE_LAGS, f, body, fan_lags_put(body, &m), out);
	return FAN_CTL;
}

/* No leading worker gets anything from here. */
static enum fan_verdict recv_help(struct fan_switch *sw, const fan_peer *from,
				  const struct fan_frag *f, struct fan_out *out)
{
	struct fan_query q;
	if (fan_query_get(&q, f) != FAN_OK)
		return fan_switch_drop(sw, FAN_DROP_FORMAT);
	const struct fan_helps none = {.index = q.index, .first = q.first};
	uint8_t *body = fan_out_scratch(out, FAN_CTL_BYTES_MAX);
	fan_asked_put(from, FAN_TYPE_HELPS, f, body, fan_helps_put(body, &none), out);
	return FAN_CTL;
}

void fan_control_prepare_echo(struct fan_switch *sw)
{
	const struct fan_echoed m = {
		.payload_bytes = sw->cfg.payload_bytes,
		.shards = sw->cfg.shards,
		.window = sw->cfg.window_max,
		.group_family = sw->cfg.group_family,
	};
	fan_asked_prepare(sw->echoed, &m);
}

static enum fan_verdict recv_echo(struct fan_switch *sw, const fan_peer *from,
				  const struct fan_frag *f, struct fan_out *out)
{
	return fan_asked_echo(sw->echoed, from, f, out) ? FAN_CTL
							: fan_switch_drop(sw, FAN_DROP_FORMAT);
}

enum fan_verdict fan_control_recv(struct fan_switch *sw, uint64_t now_ns, const fan_peer *from,
				  const struct fan_frag *f, struct fan_out *out)
{
	switch (f->type) {
	case FAN_TYPE_JOIN: return recv_join(sw, now_ns, from, f, out);
	case FAN_TYPE_BEAT: return recv_beat(sw, now_ns, from, f, out);
	case FAN_TYPE_LEAVE: return recv_leave(sw, from, f, out);
	case FAN_TYPE_QUERY: return recv_query(sw, from, f, out);
	case FAN_TYPE_VIA: return fan_server_via(sw, now_ns, from, f, out);
	case FAN_TYPE_TALLY: return recv_tally(sw, from, f, out);
	case FAN_TYPE_LAG: return recv_lag(sw, from, f, out);
	case FAN_TYPE_HELP: return recv_help(sw, from, f, out);
	case FAN_TYPE_ECHO: return recv_echo(sw, from, f, out);
	default: return fan_switch_drop(sw, FAN_DROP_TYPE);
	}
}

void fan_control_group_health(struct fan_switch *sw, struct fan_job *j, uint16_t rank)
{
	if (!j->group.multicast)
		return;
	if (rank != FAN_RANK_NONE) {
		struct fan_member *m = &j->members[rank];
		if (m->replays < HEALTH_SPAN)
			m->replays++;
		if (m->replays > HEALTH_SPAN / 2) {
			j->group.multicast = false;
			fan_switch_note(sw, FAN_EV_GROUP_OFF, j, rank);
		}
		return;
	}
	if (++j->span < HEALTH_SPAN)
		return;
	j->span = 0;
	for (unsigned r = 0; r < j->ranks; r++)
		j->members[r].replays = 0;
}

/* Look for members that have fallen silent. */
static void check_silence(struct fan_switch *sw, struct fan_job *j, uint64_t now_ns,
			  struct fan_out *out)
{
	uint64_t alive_ns = j->alive_ms * FAN_MS;
	struct fan_job_fault fault = {.err = FAN_E_RANK_LOST};
	unsigned lost = 0;
	/* who is to blame for a failure still gets time to hear of it */
	uint64_t patience_ns = j->state == FAN_JOB_FAILED ? 2 * alive_ns : alive_ns;
	for (uint16_t r = 0; r < j->ranks; r++) {
		const struct fan_member *m = &j->members[r];
		if (!(m->flags & FAN_MEMBER_IN) || now_ns - m->heard_ns <= patience_ns)
			continue;
		fan_ranks_set(fault.blamed, r);
		lost++;
		if (j->state != FAN_JOB_READY)
			fan_job_drop_member(j, r, false);
	}
	j->check_ns = now_ns + alive_ns / 4;
	if (lost && j->state == FAN_JOB_READY)
		fan_switch_fail(sw, j, &fault, out);
	else if (lost)
		stop_forming(sw, j);
	if (j->in == 0)
		fan_control_remove(sw, j);
}

/* Test the multicast group, or give it up. */
static void test_group(struct fan_switch *sw, struct fan_job *j, uint64_t now_ns,
		       struct fan_out *out)
{
	if (j->tests_left == 0) {
		fan_control_all_ready(sw, j, false, out);
		return;
	}
	j->tests_left--;
	j->test_ns = now_ns + FAN_GROUP_TEST_NS;
	struct fan_out_item *it = fan_out_add(out, FAN_TO_MCAST);
	it->group = &j->group;
	put_ctl(it, j->id, j->epoch, FAN_TYPE_GROUP_TEST, j->tests_left, NULL, 0);
}

void fan_switch_tick(struct fan_switch *sw, uint64_t now_ns, struct fan_out *out)
{
	if (now_ns < sw->deadline_ns)
		return;
	unsigned room = sw->cfg.siblings ? 2 + FAN_UPLINK_ITEMS : 4;
	uint64_t next = UINT64_MAX;
	sw->now_ns = now_ns;
	sw->deadline_ns = UINT64_MAX;
	for (unsigned i = 0; i < sw->jobs.max; i++) {
		struct fan_job *j = &sw->jobs.job[i];
		if (j->state == FAN_JOB_NONE)
			continue;
		if (!fan_out_fits(out, room, (size_t)room * 256)) {
			sw->deadline_ns = now_ns;
			return;
		}
		if (now_ns >= j->test_ns)
			test_group(sw, j, now_ns, out);
		if (now_ns >= j->check_ns)
			check_silence(sw, j, now_ns, out);
		if (now_ns >= j->remind_ns)
			fan_server_remind(sw, j, now_ns, out);
		if (now_ns >= fan_uplink_deadline(j))
			fan_uplink_step(sw, j, out);
		if (j->state == FAN_JOB_NONE)
			continue;
		next = j->remind_ns < next ? j->remind_ns : next;
		next = j->test_ns < next ? j->test_ns : next;
		next = j->check_ns < next ? j->check_ns : next;
		uint64_t up_ns = fan_uplink_deadline(j);
		next = up_ns < next ? up_ns : next;
	}
	sw->deadline_ns = next;
}
