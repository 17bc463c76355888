/* SPDX-License-Identifier: Apache-2.0 */
/* worker_recv.c - messages to a worker about its rank and the state of its job.  Fragments go on to
 * transfer.c and the helper. */
#include "worker_priv.h"

/* Does the aggregator want what is sent to be numbered? */
static void choose_numbers(struct fan_worker *w, const struct fan_welcome *m)
{
	w->numbers = m->flags & FAN_WELCOME_NUMBERS;
	w->rtt.first_ns = w->numbers && !w->cfg.rto_min_ms ? FAN_RTO_FIRST_NS : 0;
	w->blind_seq = 0;
	fan_window_by_number(&w->window, w->numbers);
}

/* Return how many of `frags` granted this worker may have in flight. */
static uint32_t window_share(const struct fan_worker *w, uint32_t frags)
{
	const uint32_t least = frags < 4 ? frags : 4;
	uint32_t most = w->cfg.share ? frags * w->cfg.share >> 16 : frags;
	return most < least ? least : most;
}

static enum fan_verdict recv_welcome(struct fan_worker *w, uint64_t now_ns,
				     const struct fan_frag *f)
{
	struct fan_welcome m;
	if (f->nonce != w->cfg.nonce || w->phase != FAN_W_JOINING || f->path != w->path)
		return fan_worker_drop(w, FAN_DROP_STATE);
	if (fan_ctl_get(&m, f) != FAN_OK || m.window > w->cfg.window_max ||
	    (m.burst && !(w->cfg.options & FAN_JOIN_AHEAD)))
		return fan_worker_drop(w, FAN_DROP_FORMAT);
	if (w->cfg.options & FAN_JOIN_QUAD && !(m.flags & FAN_WELCOME_QUAD)) {
		/* of our version, but older: it would drop what is in BLOCK8 */
		const struct fan_fault fault = {.err = FAN_E_VERSION,
						.desc_a = FAN_WIRE_VERSION,
						.desc_b = FAN_WIRE_VERSION};
		fan_worker_fail(w, &fault);
		return FAN_CTL;
	}
	w->welcome = m;
	w->welcomed = true;
	w->job = f->job;
	w->epoch = f->epoch;
	w->phase = FAN_W_FORMING;
	w->control_ns = now_ns; /* the switch waits for a BEAT: it may be an old JOIN */
	w->stats.window = m.window;
	fan_window_open(&w->window, m.window);
	fan_seq_gap_init(&w->gap, UINT16_MAX,
			 false); /* before the first result, which is number 0 */
	w->asks = w->asked = 0;
	w->collided_seq = 0;
	choose_numbers(w, &m);
	uint32_t burst = m.burst;
	if (w->cfg.burst_max && burst > w->cfg.burst_max)
		burst = w->cfg.burst_max;
	if (burst)
		fan_window_run_ahead(&w->window, burst);
	fan_congestion_init(&w->congestion, w->cfg.congestion,
			    window_share(w, burst ? burst : m.window));
	if (burst)
		fan_run_ahead_begin(w);
	fan_transfer_begin(w);
	return FAN_CTL;
}

/* There is a path to the aggregator: what was sent before may be lost, and timers are long. */
static void ask_anew(struct fan_worker *w, uint64_t now_ns)
{
	fan_window_expire(&w->window, FAN_TAIL_PROBES);
	w->expired_ns = now_ns;
	fan_rtt_heard(&w->rtt);
}

/* On another path: does the aggregator know this life of the rank, and the job? */
static enum fan_verdict recv_answer(struct fan_worker *w, uint64_t now_ns, const struct fan_frag *f)
{
	const struct fan_fault fault = {.err = FAN_E_RESTARTED};
	bool knows = f->type == FAN_TYPE_WELCOME && fan_job_id_is(f->job, w->job) &&
		     f->epoch == w->epoch;
	if (f->type == FAN_TYPE_WELCOME && f->path != w->path)
		return fan_worker_drop(w, FAN_DROP_STATE); /* to a JOIN on another path */
	if (fan_route_number(f->job) != w->cfg.route)
		return fan_worker_drop(w, FAN_DROP_ROUTE);
	/* its JOIN may have been repeated at another aggregator, which has the key, too */
	if (!knows && w->cfg.authentic && w->phase == FAN_W_READY && w->unanswered < FAN_BEAT_TRIES)
		return fan_worker_drop(w, FAN_DROP_STATE);
	w->rejoins = false;
	w->unanswered = 0;
	w->control_ns = now_ns; /* a BEAT makes us known on the path */
	if (!knows && f->type == FAN_TYPE_WELCOME && w->phase == FAN_W_FORMING) {
		w->phase = FAN_W_JOINING; /* the job has taken another epoch meanwhile */
		return recv_welcome(w, now_ns, f);
	}
	if (!knows) {
		fan_worker_fail(w, &fault);
		return FAN_CTL;
	}
	struct fan_welcome m;
	if (fan_ctl_get(&m, f) == FAN_OK) {
		choose_numbers(w, &m);
		w->welcome.cookie = m.cookie;
		w->unproved = true;
	}
	w->job = f->job; /* on the route by which it came */
	if (w->phase == FAN_W_READY)
		ask_anew(w, now_ns);
	return FAN_CTL;
}

/* A worker that leaves a sealed job has moved meanwhile, and is known on the new path: leave by
 * that. */
static enum fan_verdict leave_there(struct fan_worker *w, uint64_t now_ns, const struct fan_frag *f)
{
	if (f->type != FAN_TYPE_WELCOME || f->path != w->path || !fan_job_id_is(f->job, w->job) ||
	    f->epoch != w->epoch)
		return fan_worker_drop(w, FAN_DROP_STATE);
	if (fan_route_number(f->job) != w->cfg.route)
		return fan_worker_drop(w, FAN_DROP_ROUTE);
	w->rejoins = false;
	w->job = f->job;
	w->leave_tries = 0;
	w->control_ns = now_ns;
	return FAN_CTL;
}

static enum fan_verdict recv_refuse(struct fan_worker *w, const struct fan_frag *f)
{
	struct fan_refuse m;
	if (f->nonce != w->cfg.nonce || w->phase != FAN_W_JOINING)
		return fan_worker_drop(w, FAN_DROP_STATE);
	if (fan_route_number(f->job) != w->cfg.route)
		return fan_worker_drop(w, FAN_DROP_ROUTE); /* to a JOIN by the route before */
	if (fan_ctl_get(&m, f) != FAN_OK)
		return fan_worker_drop(w, FAN_DROP_FORMAT);
	struct fan_fault fault = {
		.err = m.err,
		.rank_a = m.rank,
		.rank_b = FAN_RANK_NONE,
		.desc_a = m.have,
		.desc_b = m.want,
	};
	memcpy(fault.hosts, m.hosts, sizeof fault.hosts);
	fan_worker_fail(w, &fault);
	return FAN_CTL;
}

/* A switch of another version answers JOINs with a REFUSE in its own. */
static enum fan_verdict recv_other_version(struct fan_worker *w, const uint8_t *pkt, size_t len)
{
	if (w->phase == FAN_W_JOINING && pkt[1] == FAN_TYPE_REFUSE && fan_wire_is_whole(pkt, len) &&
	    fan_wire_nonce(pkt) == w->cfg.nonce) {
		const struct fan_fault fault = {
			.err = FAN_E_VERSION, .desc_a = pkt[0], .desc_b = FAN_WIRE_VERSION};
		fan_worker_fail(w, &fault);
	}
	return fan_worker_drop(w, FAN_DROP_VERSION);
}

static enum fan_verdict job_failed(struct fan_worker *w, const struct fan_state *m)
{
	struct fan_fault fault = {
		.err = m->err,
		.rank_a = m->rank_a,
		.rank_b = m->rank_b,
		.desc_a = m->desc_a,
		.desc_b = m->desc_b,
		.frag = FAN_FRAG_NONE, /* STATE does not name the one that another rank waited for
					*/
	};
	memcpy(fault.ranks, m->missing, sizeof fault.ranks);
	memcpy(fault.hosts, m->hosts, sizeof fault.hosts);
	fan_worker_fail(w, &fault);
	return FAN_CTL;
}

/* The switch does not know us.  While the job forms it may have taken an old JOIN for
 * ours, or ours for an old one: join again. */
static void not_known(struct fan_worker *w, uint64_t now_ns)
{
	if (w->phase == FAN_W_FORMING) {
		fan_worker_join_again(w);
		w->missing_known = false; /* others may be there now */
		w->control_ns = now_ns;
		return;
	}
	const struct fan_fault fault = {.err = FAN_E_RESTARTED};
	fan_worker_fail(w, &fault);
}

/* Note who is missing, unless the answer is late: about a fragment that is complete. */
static void note_missing(struct fan_worker *w, const struct fan_state *m)
{
	bool late = m->state == FAN_JOB_FORMING || m->frag < w->missing_frag;
	if (w->phase == FAN_W_READY && late)
		return;
	memcpy(w->missing, m->missing, sizeof w->missing);
	w->missing_frag = m->frag;
	w->missing_known = true;
}

/* The aggregator has noted that this rank leaves. */
static enum fan_verdict left(struct fan_worker *w, const struct fan_frag *f)
{
	if (w->phase != FAN_W_LEAVING || f->nonce != w->cfg.nonce)
		return fan_worker_drop(w, FAN_DROP_STATE);
	w->phase = FAN_W_LEFT;
	w->control_ns = UINT64_MAX;
	return FAN_CTL;
}

/* While the job forms, packets to the group test whether it arrives; a BEAT confirms it. */
static void confirm_group(struct fan_worker *w, uint64_t now_ns)
{
	if (w->heard_group || w->phase != FAN_W_FORMING)
		return;
	w->heard_group = true;
	w->control_ns = now_ns;
}

/* A node on the path does not know us, or a stranger sends what counts only as an answer: send a
 * BEAT. */
static enum fan_verdict beat_soon(struct fan_worker *w, uint64_t now_ns)
{
	if (now_ns - w->who_ns < FAN_WHO_NS)
		return FAN_CTL;
	w->who_ns = w->control_ns = now_ns;
	return FAN_CTL;
}

/* A BEAT is answered: the next one is due when it would have been. */
static void handle_answer(struct fan_worker *w, uint64_t now_ns)
{
	const bool tries = w->unanswered && w->cfg.authentic;
	if (w->rejoins && w->cfg.authentic)
		return; /* its JOINs are counted */
	w->unanswered = 0;
	if (tries && w->phase == FAN_W_READY)
		w->control_ns = now_ns + fan_worker_interval_ns(w);
}

/* A switch on the path is being stopped.  An uplink has no other path. */
static enum fan_verdict path_ends(struct fan_worker *w, const struct fan_frag *f)
{
	if ((w->phase != FAN_W_READY && w->phase != FAN_W_FORMING) || f->nonce != w->cfg.nonce)
		return fan_worker_drop(w, FAN_DROP_STATE);
	w->path_ends = !w->rejoins;
	if (w->cfg.relayed)
		fan_worker_lose_path(w);
	return FAN_CTL;
}

static enum fan_verdict recv_state(struct fan_worker *w, uint64_t now_ns, const struct fan_frag *f,
				   bool by_group)
{
	struct fan_state m;
	if (!w->welcomed)
		return fan_worker_drop(w, FAN_DROP_STATE);
	if (f->job != w->job && w->phase != FAN_W_LEAVING && !w->rejoins)
		return fan_worker_drop(
			w, FAN_DROP_ROUTE); /* an answer to what went by the route before */
	if (fan_ctl_get(&m, f) != FAN_OK)
		return fan_worker_drop(w, FAN_DROP_FORMAT);
	if (f->nonce && f->nonce != w->cfg.nonce) /* a switch on the path had its token before us */
		return fan_worker_drop(w, FAN_DROP_SENDER);
	if (m.state == FAN_JOB_LEFT)
		return left(w, f);
	if (m.state == FAN_JOB_AWAY)
		return path_ends(w, f);
	bool asked = f->nonce != 0;
	if (asked && !w->rejoins)
		w->unproved = false;
	if (asked)
		handle_answer(w, now_ns);
	if (asked && w->forgotten) { /* the switch knows us again; what it did not pass is lost */
		w->forgotten = false;
		if (w->rtt.backoff && now_ns >= w->anew_ns) {
			w->anew_ns = now_ns + FAN_JOIN_RETRY_NS; /* or WHO is forged */
			ask_anew(w, now_ns);
		}
	}
	const bool stops = m.state == FAN_JOB_FAILED && m.err == FAN_E_STOPPED;
	if (((m.state == FAN_JOB_NONE || stops) && !asked) ||
	    (m.state == FAN_JOB_FAILED && by_group))
		return fan_worker_drop(w, FAN_DROP_SENDER); /* no aggregator sends it like this */
	if (by_group && m.state == FAN_JOB_FORMING)
		confirm_group(w, now_ns);
	if (w->phase == FAN_W_FORMING && !asked) /* strangers may know the epoch so far */
		return m.state == FAN_JOB_FORMING ? FAN_CTL : beat_soon(w, now_ns);
	note_missing(w, &m);
	w->stats.multicast = m.multicast;
	switch (m.state) {
	case FAN_JOB_NONE: not_known(w, now_ns); break;
	case FAN_JOB_FAILED: return job_failed(w, &m);
	case FAN_JOB_READY:
		if (w->phase != FAN_W_FORMING)
			break;
		w->phase = FAN_W_READY;
		w->workers = m.workers ? m.workers : w->cfg.ranks;
		w->progress_ns = now_ns;
		w->control_ns = now_ns + fan_worker_interval_ns(w);
		break;
	default: break;
	}
	return FAN_CTL;
}

/* A switch on the path has forgotten us: what passes it makes us known again. */
static enum fan_verdict recv_who(struct fan_worker *w, uint64_t now_ns)
{
	if (w->phase != FAN_W_FORMING && w->phase != FAN_W_READY)
		return fan_worker_drop(w, FAN_DROP_STATE);
	w->forgotten = w->phase == FAN_W_READY;
	return beat_soon(w, now_ns);
}

/* Receive a sum that the switch gives to helpers. */
static enum fan_verdict kept(struct fan_worker *w, uint64_t now_ns, const struct fan_frag *f)
{
	return w->helper ? fan_worker_helper.recv(w, now_ns, f) : fan_worker_drop(w, FAN_DROP_TYPE);
}

enum fan_verdict fan_worker_take(struct fan_worker *w, uint64_t now_ns, struct fan_frag *f,
				 bool by_group, bool marked)
{
	fan_worker_check(w);
	if (f->type == FAN_TYPE_WELCOME || f->type == FAN_TYPE_REFUSE) {
		w->heard_ns = now_ns;
		if (w->rejoins && w->phase < FAN_W_FAILED && f->nonce == w->cfg.nonce)
			return recv_answer(w, now_ns, f);
		if (w->rejoins && w->phase == FAN_W_LEAVING && f->nonce == w->cfg.nonce &&
		    w->cfg.authentic)
			return leave_there(w, now_ns, f);
		return f->type == FAN_TYPE_WELCOME ? recv_welcome(w, now_ns, f) : recv_refuse(w, f);
	}
	if (!w->welcomed || !fan_job_id_is(f->job, w->job))
		return fan_worker_drop(w, FAN_DROP_JOB);
	if (f->epoch != w->epoch)
		return fan_worker_drop(w, FAN_DROP_EPOCH);
	bool others = f->type == FAN_TYPE_DATA || f->type == FAN_TYPE_PROBE ||
		      (f->type == FAN_TYPE_PROGRESS && f->flags & FAN_F_ASK);
	if (f->sender != FAN_RANK_NONE && !others)
		return fan_worker_drop(w, FAN_DROP_SENDER);
	w->heard_ns = now_ns;
	switch (f->type) {
	case FAN_TYPE_STATE: return recv_state(w, now_ns, f, by_group);
	case FAN_TYPE_WHO: return recv_who(w, now_ns);
	case FAN_TYPE_RESULT:
	case FAN_TYPE_PROGRESS:
	case FAN_TYPE_DATA:
	case FAN_TYPE_PARTIAL:
	case FAN_TYPE_PROBE:
	case FAN_TYPE_FLUSH:
	case FAN_TYPE_MISS:
	case FAN_TYPE_NEED: break;
	default: return fan_worker_drop(w, FAN_DROP_TYPE);
	}
	if (w->phase != FAN_W_READY)
		return fan_worker_drop(w, FAN_DROP_STATE);
	if (marked)
		f->flags |= FAN_F_ECN;
	switch (f->type) {
	case FAN_TYPE_RESULT: return fan_transfer_result(w, now_ns, f);
	case FAN_TYPE_NEED: return fan_transfer_need(w, now_ns, f);
	case FAN_TYPE_MISS: return fan_seq_missed(w, now_ns, f);
	case FAN_TYPE_PROGRESS:
		if (!(f->flags & FAN_F_ASK))
			return fan_run_ahead_progress(w, now_ns, f);
		return kept(w, now_ns, f);
	default: return kept(w, now_ns, f);
	}
}

/* Is it the result that was predicted?  Only a packet changes the job; a call may end it. */
static bool is_predicted(struct fan_worker *w, const uint8_t *pkt, size_t len, bool marked)
{
	return w->predicts && !marked && w->phase == FAN_W_READY &&
	       fan_wire_is_expected(&w->expected, pkt, len);
}

enum fan_verdict fan_worker_recv(struct fan_worker *w, uint64_t now_ns, const uint8_t *pkt,
				 size_t len, bool by_group, bool marked)
{
	struct fan_frag f;
	if (is_predicted(w, pkt, len, marked)) {
		w->heard_ns = now_ns;
		enum fan_verdict v = fan_transfer_result(w, now_ns, &w->expected.f);
		w->predicts = v == FAN_DONE;
		return v;
	}
	w->predicts = false;
	int why = fan_wire_get(&f, pkt, len);
	if (why < 0) {
		enum fan_verdict v = fan_worker_take(w, now_ns, &f, by_group, marked);
		w->predicts = v == FAN_DONE && !marked && f.type == FAN_TYPE_RESULT &&
			      fan_wire_expect(&w->expected, &f, pkt);
		return v;
	}
	if (why == FAN_DROP_VERSION)
		return recv_other_version(w, pkt, len);
	return fan_worker_drop(w, (unsigned)why);
}
