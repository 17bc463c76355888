/* SPDX-License-Identifier: Apache-2.0 */
#include "worker_priv.h"

#include <assert.h>

#include "core/base/awake.h"
#include "core/wire/route_table.h"

static bool config_is_sane(const struct fan_worker_config *c)
{
	uint16_t window_max = c->options & FAN_JOIN_AHEAD ? FAN_AHEAD_MAX : FAN_WINDOW_MAX;
	return c->ranks >= 2 && c->ranks <= FAN_RANKS_MAX && c->rank < c->ranks &&
	       c->payload_bytes >= FAN_PAYLOAD_MIN && c->payload_bytes <= FAN_PAYLOAD_MAX &&
	       c->payload_bytes % 8 == 0 && c->window_max >= 2 && c->window_max <= window_max &&
	       c->alive_ms >= FAN_ALIVE_MIN_MS && c->alive_ms <= FAN_ALIVE_MAX_MS &&
	       c->cache_frags <= FAN_CACHE_MAX && c->congestion < FAN_CONGESTION_COUNT &&
	       c->nonce != 0 && c->name[0] != '\0' && memchr(c->name, '\0', sizeof c->name) != NULL;
}

size_t fan_worker_uplink_bytes(uint16_t window_max)
{
	return fan_align_up(sizeof(struct fan_worker)) + fan_align_up(fan_window_bytes(window_max));
}

size_t fan_worker_bytes(const struct fan_worker_config *cfg)
{
	if (!config_is_sane(cfg))
		return 0;
	if (cfg->relayed)
		return fan_worker_uplink_bytes(cfg->window_max);
	return fan_worker_uplink_bytes(cfg->window_max) +
	       FAN_STREAM_GROUPS * fan_align_up(cfg->payload_bytes) +
	       (cfg->cache_frags ? fan_worker_helper.bytes(cfg->cache_frags, cfg->payload_bytes)
				 : 0);
}

struct fan_worker *fan_worker_init(void *mem, const struct fan_worker_config *cfg, uint64_t now_ns)
{
	struct fan_worker *w = mem;
	assert(config_is_sane(cfg) && (uintptr_t)mem % _Alignof(struct fan_worker) == 0);
	uint8_t *p = (uint8_t *)mem + fan_align_up(sizeof *w);
	memset(w, 0, sizeof *w);
	w->cfg = *cfg;
	w->source = cfg->relayed ? &fan_tree_source : &fan_op_source;
	w->start_ns = w->heard_ns = w->progress_ns = w->control_ns = w->turn_ns = now_ns;
	w->allowed = UINT32_MAX;
	fan_rtt_init(&w->rtt, w->cfg.rto_min_ms);
	fan_window_init(&w->window, p, cfg->window_max);
	p += fan_align_up(fan_window_bytes(cfg->window_max));
	for (unsigned i = 0; !cfg->relayed && i < FAN_STREAM_GROUPS;
	     i++, p += fan_align_up(cfg->payload_bytes))
		w->group[i].exponents = (int16_t *)p;
	if (cfg->cache_frags && !cfg->relayed)
		w->helper = fan_worker_helper.init(p, cfg->cache_frags, cfg->payload_bytes);
	return w;
}

void fan_worker_fail(struct fan_worker *w, const struct fan_fault *fault)
{
	if (w->phase >= FAN_W_FAILED)
		return;
	w->phase = FAN_W_FAILED;
	w->fault = *fault;
	w->control_ns = UINT64_MAX;
}

uint64_t fan_worker_interval_ns(const struct fan_worker *w)
{
	if (w->phase != FAN_W_READY)
		return FAN_JOIN_RETRY_NS;
	const uint32_t stall_ms = w->cfg.stall_ms / FAN_BEATS_PER_STALL;
	const uint32_t ms = w->welcome.beat_ms < stall_ms ? w->welcome.beat_ms : stall_ms;
	const uint64_t beat_ns = (ms ? ms : 1) * FAN_MS;
	const bool again = w->rejoins || w->unproved;
	if (!again && !(w->cfg.authentic && w->unanswered))
		return beat_ns;
	/* Only silence shows a restart where only members have keys: all tries are to
	 * fit in the time after which the rank itself is lost. */
	const uint64_t try_ns = beat_ns / FAN_TRIES_PER_BEAT;
	return w->cfg.authentic && try_ns < FAN_JOIN_RETRY_NS ? try_ns : FAN_JOIN_RETRY_NS;
}

static struct fan_frag control_head(const struct fan_worker *w, enum fan_type type)
{
	return (struct fan_frag){
		.nonce = w->cfg.nonce,
		.job = w->job,
		.epoch = w->epoch,
		.sender = w->cfg.rank,
		.type = (uint8_t)type,
	};
}

static size_t join_body(const struct fan_worker *w, uint8_t *body)
{
	struct fan_join m = {
		.ranks = w->cfg.ranks,
		.payload_bytes = w->cfg.payload_bytes,
		.window = w->cfg.window_max,
		.options = (uint8_t)(w->cfg.options | FAN_JOIN_NUMBERS),
		.alive_ms = w->cfg.alive_ms,
		.workers = w->cfg.workers,
		.launch = w->cfg.launch,
		.claim = w->cfg.claim,
	};
	memcpy(m.name, w->cfg.name, sizeof m.name);
	while (m.name_bytes < FAN_NAME_MAX && m.name[m.name_bytes])
		m.name_bytes++;
	assert(m.name_bytes > 0);
	return fan_ctl_put(body, &m);
}

static size_t leave_body(const struct fan_worker *w, uint8_t *body)
{
	struct fan_leave m = {.err = w->leave_err};
	memcpy(m.blamed, w->blamed, sizeof m.blamed);
	return fan_ctl_put(body, &m);
}

/* Is an operation, or an uplink's round, waiting for results?  Then for w->window.low first of all.
 */
static bool is_waiting(const struct fan_worker *w)
{
	return w->cfg.relayed ? w->window.in_flight > 0 : w->first_op < w->next_op;
}

static uint16_t clip(uint32_t v)
{
	return v > UINT16_MAX ? UINT16_MAX : (uint16_t)v;
}

/* Write what a BEAT asks about: the lowest fragment waited for, if any. */
static size_t beat_body(const struct fan_worker *w, uint8_t *body, uint64_t *frag)
{
	struct fan_beat m = {.cookie = w->welcome.cookie};
	*frag = 0;
	if (is_waiting(w)) {
		*frag = w->window.low;
		m.flags |= FAN_BEAT_WAITING;
	}
	if (w->heard_group)
		m.flags |= FAN_BEAT_HEARD;
	if (w->window.ahead)
		m.flags |= FAN_BEAT_AHEAD | (w->helper ? FAN_BEAT_HELPER : 0);
	if (m.flags & FAN_BEAT_HELPER) {
		const struct fan_helper_cache_stats *s = fan_worker_helper.stats(w->helper);
		m.cache =
			(struct fan_helper_cache_use){clip(s->frags), clip(s->open), clip(s->peak)};
	}
	return fan_ctl_put(body, &m);
}

/* The aggregator does not know this life of the rank, and reports that or, where only members have
 * keys, drops its packets. */
void fan_worker_join_again(struct fan_worker *w)
{
	assert(w->phase == FAN_W_FORMING);
	w->phase = FAN_W_JOINING;
	w->welcomed = w->heard_group = w->rejoins = false;
	w->unanswered = 0;
	w->path += w->cfg.authentic; /* so that no WELCOME of the past is taken for the next */
}

/* BEATs have had no answer for long.  Where only members have keys, the next hop may have begun
 * again without them: join there again, under the same nonce. */
static void count_unanswered(struct fan_worker *w)
{
	const bool counts =
		w->phase == FAN_W_FORMING || (w->phase == FAN_W_READY && w->cfg.authentic);
	if (!counts || (w->rejoins && !w->cfg.authentic) || w->unanswered == UINT8_MAX)
		return;
	if (w->unanswered++ != FAN_BEAT_TRIES || w->rejoins)
		return;
	if (w->phase == FAN_W_FORMING) {
		fan_worker_join_again(w);
		return;
	}
	w->path++;
	w->rejoins = true;
	w->unanswered = 0;
}

/* A worker JOINs where it is unknown.  A leaving worker sends LEAVE without a JOIN, unless the job
 * is sealed: nobody there could read it. */
static bool must_join(const struct fan_worker *w)
{
	if (!w->rejoins)
		return w->phase == FAN_W_JOINING;
	return w->phase < FAN_W_FAILED || (w->phase == FAN_W_LEAVING && w->cfg.authentic);
}

/* The control message that the phase asks for. */
static void put_control(struct fan_worker *w, struct fan_out *out)
{
	uint8_t *body = fan_out_scratch(out, FAN_CTL_BYTES_MAX);
	struct fan_out_item *it = fan_out_add(out, FAN_TO_PEER);
	struct fan_frag h;
	size_t bytes;
	if (must_join(w)) {
		h = control_head(w, FAN_TYPE_JOIN);
		h.job = (uint32_t)w->cfg.route << FAN_ROUTE_BITS;
		h.path = w->path;
		bytes = join_body(w, body);
	} else if (w->phase == FAN_W_LEAVING) {
		h = control_head(w, FAN_TYPE_LEAVE);
		if (w->rejoins)
			/* it is sent where this route is, and the aggregator knows the nonce */
			h.job = fan_job_id_on(w->job, w->cfg.route);
		bytes = leave_body(w, body);
	} else {
		h = control_head(w, FAN_TYPE_BEAT);
		bytes = beat_body(w, body, &h.frag);
	}
	fan_ctl_finish(it, &h, body, bytes);
}

static uint64_t stall_ns(const struct fan_worker *w)
{
	return w->progress_ns + w->cfg.stall_ms * FAN_MS;
}

static uint64_t silence_ns(const struct fan_worker *w)
{
	uint64_t alive_ms = w->welcomed ? w->welcome.alive_ms : w->cfg.alive_ms;
	return w->heard_ns + alive_ms * FAN_MS;
}

/* The job did not form in time: no answer came, or some ranks did not join. */
static void check_join(struct fan_worker *w, uint64_t now_ns)
{
	if (now_ns < w->start_ns + w->cfg.join_ms * FAN_MS)
		return;
	struct fan_fault fault = {.err = w->welcomed || w->missing_known ? FAN_E_TIMEOUT
									 : FAN_E_UNREACHABLE};
	if (w->missing_known)
		memcpy(fault.ranks, w->missing, sizeof fault.ranks);
	fan_worker_fail(w, &fault);
}

static void check_ready(struct fan_worker *w, uint64_t now_ns)
{
	struct fan_fault fault = {.err = FAN_OK};
	if (now_ns >= silence_ns(w)) {
		fault.err = FAN_E_UNREACHABLE;
	} else if (is_waiting(w) && now_ns >= stall_ns(w)) {
		fault.err = FAN_E_STALLED;
		fault.frag = w->window.low;
		if (w->missing_known && w->missing_frag == fault.frag)
			memcpy(fault.ranks, w->missing, sizeof fault.ranks);
	}
	if (fault.err)
		fan_worker_fail(w, &fault);
}

/* A control message that is late shows for how long this worker has not been awake. */
static void discount_sleep(struct fan_worker *w, uint64_t now_ns)
{
	const uint64_t late_ns = fan_awake_late_ns(w->control_ns, now_ns);
	if (!late_ns)
		return;
	w->start_ns = fan_awake_shift(w->start_ns, late_ns, now_ns);
	w->heard_ns = fan_awake_shift(w->heard_ns, late_ns, now_ns);
	w->progress_ns = fan_awake_shift(w->progress_ns, late_ns, now_ns);
	w->control_ns = now_ns;
}

static bool tick_control(struct fan_worker *w, uint64_t now_ns, struct fan_out *out)
{
	discount_sleep(w, now_ns);
	if (w->phase == FAN_W_JOINING || w->phase == FAN_W_FORMING)
		check_join(w, now_ns);
	else if (w->phase == FAN_W_READY)
		check_ready(w, now_ns);
	if (now_ns < w->control_ns)
		return false;
	if (w->phase == FAN_W_LEAVING && w->leave_tries++ == FAN_LEAVE_TRIES) {
		w->phase = FAN_W_LEFT;
		w->control_ns = UINT64_MAX;
		return false;
	}
	if (!fan_out_fits(out, 1, FAN_CTL_BYTES_MAX))
		return true;
	count_unanswered(w);
	put_control(w, out);
	w->control_ns = now_ns + fan_worker_interval_ns(w);
	return false;
}

/* Is a rank known to be behind?  Then silence does not show yet that something is lost. */
static bool waits_for_slow(const struct fan_worker *w)
{
	return w->window.ahead && w->window.next > w->slowest + FAN_GAP_RESULTS;
}

/* When the oldest transmission counts as lost; UINT64_MAX: none is in flight. */
static uint64_t timer_ns(struct fan_worker *w)
{
	uint32_t i = fan_window_oldest(&w->window);
	if (i == FAN_WSLOT_NONE)
		return UINT64_MAX;
	/* each result restarts the timer: the gap rule finds a late one among others */
	uint64_t sent_ns = w->window.slot[i].sent_ns;
	uint64_t from_ns = sent_ns > w->progress_ns ? sent_ns : w->progress_ns;
	if (w->expired_ns > from_ns)
		from_ns = w->expired_ns;
	uint64_t after_ns = fan_rtt_timeout(&w->rtt);
	if (waits_for_slow(w) && after_ns < w->rtt.min_ns)
		after_ns = w->rtt.min_ns;
	return from_ns + after_ns;
}

/* Something is lost.  Flush this worker's sum of the lowest fragment: others may miss it. */
static void expire(struct fan_worker *w, uint64_t now_ns)
{
	if (w->helper)
		fan_worker_helper.flush(w->helper, w->window.low);
	const unsigned timeouts = w->rtt.backoff;
	const bool few = timeouts ? timeouts >= FAN_TAIL_TIMEOUTS : w->rtt.first_ns != 0;
	fan_window_expire(&w->window, few ? FAN_TAIL_FEW : FAN_TAIL_PROBES);
	w->expired_ns = now_ns;
	fan_rtt_expired(&w->rtt);
}

void fan_worker_audit(const struct fan_worker *w)
{
	fan_worker_check(w);
	fan_window_audit(&w->window);
	if (w->helper)
		fan_worker_helper.audit(w->helper);
	uint64_t left = 0;
	for (uint64_t n = w->first_op; n < w->next_op; n++) {
		const struct fan_stream_op *op = &w->op[n % FAN_OPS_MAX];
		left += op->left;
		uint64_t end =
			n + 1 < w->next_op ? w->op[(n + 1) % FAN_OPS_MAX].first : w->next_frag;
		assert(op->id == n && op->left <= op->frags);
		assert(op->first + op->frags == end);
	}
	assert(w->cfg.relayed || left == fan_worker_left(w));
	assert(w->low_group <= w->next_group);
	for (unsigned i = 0; i < FAN_STREAM_GROUPS; i++) {
		const struct fan_stream_group *g = &w->group[i];
		assert(!g->used || (g->number >= w->low_group && g->number < w->next_group));
	}
}

bool fan_worker_tick(struct fan_worker *w, uint64_t now_ns, struct fan_out *out)
{
	fan_worker_check(w);
	if (tick_control(w, now_ns, out))
		return true;
	if (w->phase != FAN_W_READY)
		return false;
	if (now_ns >= timer_ns(w))
		expire(w, now_ns);
	if (w->helper && fan_worker_helper.send(w, out))
		return true;
	return fan_transfer_send(w, now_ns, out);
}

static uint64_t earlier(uint64_t a, uint64_t b)
{
	return a < b ? a : b;
}

/* The lines of `field`. */
#define PREFETCH(w, field)                                                                         \
	for (size_t i = 0; i < sizeof(w)->field; i += 64)                                          \
	__builtin_prefetch((const char *)&(w)->field + i)

void fan_worker_prefetch(const struct fan_worker *w)
{
	const char *first = (const char *)&w->phase, *times = (const char *)&w->missing;
	for (const char *at = first; at < times; at += 64)
		__builtin_prefetch(at);
	__builtin_prefetch(&w->missing_known);
	__builtin_prefetch(&w->blind_seq);
	PREFETCH(w, stats);
	PREFETCH(w, rtt);
	PREFETCH(w, congestion);
	PREFETCH(w, window);
	__builtin_prefetch(&w->first_op);
	__builtin_prefetch(&w->low_group);
	__builtin_prefetch(&w->helper);
}

uint64_t fan_worker_deadline(struct fan_worker *w)
{
	uint64_t at = w->control_ns;
	if (w->phase == FAN_W_JOINING || w->phase == FAN_W_FORMING)
		return earlier(at, w->start_ns + w->cfg.join_ms * FAN_MS);
	if (w->phase != FAN_W_READY)
		return at;
	at = earlier(at, silence_ns(w));
	bool keeps = w->helper && fan_worker_helper.is_due(w->helper);
	if (fan_window_may_send(&w->window, fan_worker_cwnd(w)) || keeps || w->asks)
		return 0; /* there is something to send */
	if (is_waiting(w))
		at = earlier(at, stall_ns(w));
	return earlier(at, timer_ns(w));
}

int fan_worker_start(struct fan_worker *w, uint64_t now_ns, const struct fan_op *op, uint64_t *id)
{
	if (w->phase == FAN_W_FAILED)
		return w->fault.err;
	if (w->phase > FAN_W_FAILED)
		return FAN_E_CLOSED;
	if (w->cfg.relayed || !fan_stream_op_is_sane(op, w->cfg.ranks))
		return FAN_E_INVALID;
	if (w->next_op - w->first_op == FAN_OPS_MAX)
		return FAN_E_BUSY;
	if (w->first_op == w->next_op) {
		w->progress_ns = now_ns;
		fan_op_source_turn(w, now_ns, &w->idle_ns);
	}
	struct fan_stream_op *s = &w->op[w->next_op % FAN_OPS_MAX];
	fan_stream_open(s, op, w->next_frag, w->next_group, w->cfg.payload_bytes,
			fan_join_width(w->cfg.options));
	s->id = *id = w->next_op++;
	w->next_frag += s->frags;
	w->next_group += s->groups;
	fan_transfer_opened(w);
	return FAN_OK;
}

enum fan_drop fan_worker_last_drop(const struct fan_worker *w)
{
	return w->last_drop;
}

bool fan_worker_hears(const struct fan_worker *w, const struct fan_frag *f)
{
	if (f->type == FAN_TYPE_WELCOME || f->type == FAN_TYPE_REFUSE)
		return f->nonce == w->cfg.nonce;
	return w->welcomed && fan_job_id_is(f->job, w->job) && f->epoch == w->epoch;
}

void fan_worker_offer(struct fan_worker *w, uint64_t now_ns, uint64_t frag)
{
	if (w->phase != FAN_W_READY)
		return;
	if (!is_waiting(w))
		w->progress_ns = now_ns;
	fan_transfer_offered(w, frag);
}

uint32_t fan_worker_workers(const struct fan_worker *w)
{
	return w->workers;
}

int fan_worker_test(const struct fan_worker *w, uint64_t id)
{
	if (id < w->first_op || (id < w->next_op && w->op[id % FAN_OPS_MAX].left == 0))
		return FAN_OK;
	if (w->phase == FAN_W_FAILED)
		return w->fault.err;
	return w->phase > FAN_W_FAILED ? FAN_E_CLOSED : FAN_E_PENDING;
}

void fan_worker_leave(struct fan_worker *w, uint64_t now_ns, int err, const uint64_t *blamed)
{
	if (w->phase >= FAN_W_LEAVING)
		return;
	/* One that was never let in has nothing to leave. */
	w->phase = w->welcomed ? FAN_W_LEAVING : FAN_W_LEFT;
	w->leave_err = (int8_t)err;
	memcpy(w->blamed, blamed ? blamed : w->fault.ranks, sizeof w->blamed);
	w->leave_tries = 0;
	w->control_ns = w->welcomed ? now_ns : UINT64_MAX;
}

uint64_t fan_worker_left(const struct fan_worker *w)
{
	return w->next_frag - w->stats.results;
}

void fan_worker_least_timeout(struct fan_worker *w, uint32_t min_ms)
{
	if (w->cfg.rto_min_ms == min_ms)
		return;
	w->cfg.rto_min_ms = min_ms;
	fan_rtt_least(&w->rtt, min_ms);
	w->rtt.first_ns = min_ms || !w->numbers || w->blind_seq ? 0 : FAN_RTO_FIRST_NS;
}

void fan_worker_allow(struct fan_worker *w, uint32_t in_flight)
{
	w->allowed = in_flight;
}

bool fan_worker_missing(const struct fan_worker *w, uint64_t missing[FAN_RANK_WORDS])
{
	if (w->phase != FAN_W_FORMING || !w->missing_known)
		return false;
	memcpy(missing, w->missing, sizeof w->missing);
	return true;
}

enum fan_worker_phase fan_worker_phase(const struct fan_worker *w)
{
	return w->phase;
}

const struct fan_fault *fan_worker_fault(const struct fan_worker *w)
{
	return &w->fault;
}

const struct fan_worker_stats *fan_worker_stats(struct fan_worker *w)
{
	w->stats.srtt_ns = w->rtt.srtt_ns;
	w->stats.cwnd = w->congestion.cwnd;
	w->stats.waiting = w->window.in_flight;
	w->stats.next = w->window.turns;
	w->stats.slowest = w->slowest;
	if (w->helper)
		w->stats.cache = *fan_worker_helper.stats(w->helper);
	return &w->stats;
}

const struct fan_rtt_histogram *fan_worker_trips(const struct fan_worker *w)
{
	return &w->rtt.seen;
}

const struct fan_welcome *fan_worker_welcome(const struct fan_worker *w)
{
	return w->welcomed ? &w->welcome : NULL;
}

uint32_t fan_worker_frag_elems(const struct fan_worker *w, const struct fan_op *op)
{
	return fan_stream_per_frag(op, w->cfg.payload_bytes, fan_join_width(w->cfg.options));
}

void fan_worker_reroute(struct fan_worker *w, uint64_t now_ns, uint16_t route)
{
	if (w->phase == FAN_W_FAILED || w->phase == FAN_W_LEFT ||
	    (w->phase == FAN_W_LEAVING && !route))
		return;
	if (route)
		w->cfg.route = route;
	w->leave_tries = 0; /* what went by the route before may be lost with it */
	w->path++;
	w->path_ends = false;
	w->unanswered = 0;
	w->rejoins = w->phase != FAN_W_JOINING; /* else it does so anyway */
	w->control_ns = now_ns;
}

bool fan_worker_path_ends(const struct fan_worker *w)
{
	return w->path_ends && w->phase < FAN_W_FAILED;
}

void fan_worker_lose_path(struct fan_worker *w)
{
	const struct fan_fault fault = {.err = FAN_E_STOPPED};
	fan_worker_fail(w, &fault);
}

uint16_t fan_worker_route(const struct fan_worker *w)
{
	return w->welcomed && !w->rejoins ? fan_route_number(w->job) : 0;
}

bool fan_worker_runs(const struct fan_worker *w)
{
	return w->welcomed && w->welcome.flags & FAN_WELCOME_RUNS && !w->path && w->numbers &&
	       !w->congestion.crowded;
}
