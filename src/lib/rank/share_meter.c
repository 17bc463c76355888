/* SPDX-License-Identifier: Apache-2.0 */
#include "share_meter.h"

#include <assert.h>
#include <string.h>

#include "hello.h"
#include "net/clock.h"
#include "rank.h"

#define US_NS	1000
#define DRAINED 8  /* a period is not measured while more than 1 / DRAINED of it is in progress */
#define COST_NS 16 /* unit of the time of a MiB: up to 34 s */

static void take_plan(struct fan_split *s, const struct fan_rank *r)
{
	s->parts = r->parts.count;
	for (unsigned k = 0; k < r->parts.count; k++)
		s->begin[k] = r->parts.job[k].from;
	s->begin[r->parts.count] = FAN_CUT_WHOLE;
}

static bool has_rails(const struct fan_rank *r)
{
	bool has = false;
	for (unsigned k = 0; k < r->parts.count; k++)
		has |= r->parts.rail[k] != r->parts.rail[0];
	return has;
}

/* A rail is as wide as its narrowest link, which carries all its parts.  Where one is not known,
 * shares begin even. */
static void weigh_rails(struct fan_rank *r)
{
	uint32_t mbps[FAN_PARTS_MAX];
	uint64_t all_mbps = 0;
	for (unsigned k = 0; k < r->parts.count; k++) {
		mbps[k] = UINT32_MAX;
		for (unsigned i = 0; i < r->parts.count; i++)
			if (r->parts.rail[i] == r->parts.rail[k] && r->parts.mbps[i] < mbps[k])
				mbps[k] = r->parts.mbps[i];
		if (!mbps[k])
			return;
		all_mbps += mbps[k];
	}
	fan_split_learner_weigh(&r->meter.learner, mbps, all_mbps);
}

void fan_share_meter_init(struct fan_rank *r)
{
	struct fan_share_meter *s = &r->meter;
	bool is_host[FAN_PARTS_MAX];
	memset(s, 0, sizeof *s);
	s->news = true;
	if (r->client.on) {
		take_plan(&s->shares.now, r);
		return;
	}
	fan_split_even(&s->shares.now, r->parts.count);
	s->learns = r->parts.count > 1 && r->cfg.split;
	if (!s->learns)
		return;
	for (unsigned k = 0; k < r->parts.count; k++)
		is_host[k] = r->parts.inside[k] >= 0;
	const bool rails = has_rails(r);
	fan_split_learner_init(&s->learner, r->parts.count, is_host, rails ? NULL : r->parts.mbps);
	if (rails)
		weigh_rails(r);
	fan_split_from_shares(&s->shares.now, &s->learner);
}

/* The part on the host of `root`, a rank; -1: it has none. */
static int part_at(const struct fan_rank *r, unsigned root)
{
	const struct fan_meeting *m = r->hosts;
	for (unsigned k = 0; k < r->parts.count && r->parts.count > 1 && m && m->hosts > 1; k++)
		if (r->parts.inside[k] >= 0 && m->host_of[r->parts.inside[k]] == m->host_of[root])
			return (int)k;
	return -1;
}

/* The part that has all of an operation of a set; -1: it is cut as others are. */
static int home_of(const struct fan_rank *r, const struct fanin_op *op)
{
	return op->kind == FAN_OP_MEMBER ? part_at(r, op->op.root) : -1;
}

struct fan_split_range fan_share_meter_range(const struct fan_split *s, const struct fanin_op *op,
					     uint32_t per_frag, unsigned part)
{
	if (!op->is_whole)
		return fan_split_range(s, op->number, op->op.count, per_frag, part);
	assert(op->kind == FAN_OP_MEMBER && part < s->parts);
	return (struct fan_split_range){0, op->op.count, part == op->home};
}

bool fan_share_meter_cut(const struct fan_rank *rank, const struct fanin_op *op, unsigned i,
			 struct fan_cut *cut)
{
	assert(i < rank->connections);
	const struct fan_connection *cn = &rank->connection[i];
	struct fan_split_range r = fan_share_meter_range(
		&rank->meter.shares.now, op, fan_worker_frag_elems(cn->w, &op->op), cn->part);
	*cut = (struct fan_cut){r.first, r.end, cn->shard, rank->parts.shards[cn->part]};
	return r.takes_part;
}

void fan_share_meter_started(struct fan_rank *r, struct fanin_op *op)
{
	int home = home_of(r, op);
	assert(!op->is_counted);
	op->is_counted = true;
	op->number = r->meter.ops++;
	op->is_whole = home >= 0;
	op->home = (uint8_t)home;
	if (!fan_op_is_callers(op->kind))
		return;
	uint64_t bytes = op->op.count * fan_dtype_bytes(op->op.dtype);
	fan_hello_started(r, bytes);
	if (op->is_whole)
		return;
	r->meter.bytes += bytes;
	r->meter.open_bytes += bytes;
}

/* ---- measurements ---- */

static bool is_settled(const struct fan_share_meter *s)
{
	return s->learner.phase == FAN_SPLIT_SETTLED;
}

/* Is the aggregator of part `k` on this rank's host?  Then its round trips tell nothing. */
static bool is_here(const struct fan_rank *r, unsigned k)
{
	int first = r->column.host_first ? r->column.host_first[r->cfg.rank] : r->cfg.rank;
	return r->parts.inside[k] == first;
}

/* A period with new shares begins: what was before tells nothing about them. */
static void begin_period(struct fan_share_meter *s)
{
	memset(s->rtt_ns, 0, sizeof s->rtt_ns);
	s->busy_ns = s->bytes = s->done_bytes = 0;
}

static uint64_t period_of(const struct fan_rank *r)
{
	const struct fan_share_meter *s = &r->meter;
	uint64_t bytes = is_settled(s) ? FAN_SHARE_METER_BYTES * FAN_SHARE_METER_QUIET
				       : FAN_SHARE_METER_BYTES;
	return bytes / (r->column.columns ? r->column.columns : 1);
}

/* The time with operations in progress for each MiB that was done meanwhile; 0: there was too
 * little of it to tell. */
static int32_t cost_here(const struct fan_rank *r)
{
	const struct fan_share_meter *s = &r->meter;
	if (s->done_bytes < period_of(r) / 2)
		return 0;
	double cost = (double)s->busy_ns / COST_NS * (1 << 20) / (double)s->done_bytes;
	return cost < INT32_MAX ? (int32_t)cost + 1 : INT32_MAX;
}

/* The words of a measurement: the round trip of each part in microseconds; then, in this rank's
 * own place, the time of a MiB. */
static void fill(struct fan_rank *r)
{
	struct fan_share_meter *s = &r->meter;
	const double busy_ns = (double)s->busy_ns;
	memset(s->words, 0, sizeof s->words);
	for (unsigned i = 0; i < r->connections && s->busy_ns; i++) {
		unsigned k = r->connection[i].part;
		double us = s->rtt_ns[i] / busy_ns / US_NS / r->parts.shards[k];
		if (!is_here(r, k) && s->shares.now.begin[k] < s->shares.now.begin[k + 1])
			s->words[k] += us < FAN_SHARE_METER_RTT_MAX_US ? (int32_t)us
								       : FAN_SHARE_METER_RTT_MAX_US;
	}
	int32_t cost = cost_here(r);
	s->words[r->parts.count + (unsigned)r->cfg.rank] = cost;
	s->bytes = 0;
	if (cost)
		begin_period(s);
}

static bool add_measurement(struct fan_rank *r)
{
	struct fan_share_meter *s = &r->meter;
	struct fan_op what = {
		.op = FAN_SUM,
		.dtype = FAN_INT32,
		.wire = FAN_INT32,
		.mode = FAN_NATIVE,
		.mark = FAN_MARK_OWN,
		.count = r->parts.count + (unsigned)r->cfg.ranks,
		.in = s->words,
		.out = s->words,
	};
	struct fanin_op *op = fan_op_new(&what, FAN_OP_MEASUREMENT);
	if (!op)
		return false;
	fill(r);
	s->measures = true;
	s->arrived = false;
	fan_op_queue_put_first(&r->ops.waiting, op);
	return true;
}

/* The least cost of a rank, which has not waited for others; 0: none has told one. */
static uint64_t least_cost(const struct fan_rank *rank)
{
	const int32_t *cost = rank->meter.words + rank->parts.count;
	uint64_t least = 0;
	for (int r = 0; r < rank->cfg.ranks; r++)
		if (cost[r] > 0 && (!least || (uint64_t)cost[r] < least))
			least = (uint64_t)cost[r];
	return least;
}

static void take_measurement(struct fan_rank *r)
{
	struct fan_share_meter *s = &r->meter;
	for (unsigned k = 0; k < r->parts.count; k++) {
		int ranks = r->cfg.ranks - (r->parts.inside[k] >= 0);
		s->rtt_us[k] = s->words[k] > 0 ? (uint32_t)(s->words[k] / ranks) : 0;
	}
	uint64_t cost = least_cost(r);
	assert(s->learns && s->measures && s->arrived);
	if (cost && fan_split_learn(&s->learner, s->rtt_us, cost)) {
		fan_split_history_turn(&s->shares, s->ops);
		fan_split_from_shares(&s->shares.now, &s->learner);
	}
	s->measures = false;
	s->news = true;
}

static bool is_much_open(const struct fan_rank *r)
{
	return r->meter.open_bytes > period_of(r) / DRAINED;
}

/* Before a measurement of shares that are learnt, and before others are tried, what has been
 * started comes to its end, so that the measurement is of all of it and of nothing else. */
static bool drains(const struct fan_rank *r, bool due, bool needed)
{
	const struct fan_share_meter *s = &r->meter;
	bool ends = s->measures ? s->arrived && needed : due;
	return ends && !is_settled(s) && r->ops.running_count && is_much_open(r);
}

/* Which operations may be started before the measurement in progress has been taken follows from
 * their sizes alone, so that all ranks take it before the same one. */
int fan_share_meter_permits(struct fan_rank *r)
{
	struct fan_share_meter *s = &r->meter;
	const struct fanin_op *next = r->ops.waiting.head;
	if (!s->learns || next->kind == FAN_OP_MEASUREMENT || next->kind == FAN_OP_OFFER ||
	    next->is_counted || home_of(r, next) >= 0)
		return 1;
	uint64_t bytes = next->op.count * fan_dtype_bytes(next->op.dtype);
	bool due = s->bytes >= period_of(r);
	bool needed = due || (!is_settled(s) && s->bytes + bytes > FAN_SHARE_METER_AHEAD);
	s->drains = drains(r, due, needed);
	if (s->drains)
		return 0;
	if (s->measures && s->arrived && needed) {
		take_measurement(r);
		if (!due)
			begin_period(s);
	}
	s->blocked = s->measures && needed;
	if (!s->measures && due && !add_measurement(r))
		return FAN_E_NOMEM;
	return !s->blocked;
}

bool fan_share_meter_holds(const struct fan_rank *r)
{
	return r->meter.blocked || r->meter.drains;
}

bool fan_share_meter_waited(const struct fan_rank *r)
{
	const struct fan_share_meter *s = &r->meter;
	return (s->blocked && s->arrived) ||
	       (s->drains && !(r->ops.running_count && is_much_open(r)));
}

void fan_share_meter_done(struct fan_rank *r, const struct fanin_op *op)
{
	uint64_t bytes = op->op.count * fan_dtype_bytes(op->op.dtype);
	if (op->is_whole)
		return;
	r->meter.done_bytes += bytes;
	r->meter.open_bytes -= bytes < r->meter.open_bytes ? bytes : r->meter.open_bytes;
}

void fan_share_meter_arrived(struct fan_rank *r)
{
	r->meter.arrived = true;
}

void fan_share_meter_show(struct fan_rank *r)
{
	struct fan_share_meter *s = &r->meter;
	if (!s->news)
		return;
	s->news = false;
	r->shown.settled = !s->learns || is_settled(s);
	for (unsigned n = 0; r->regroup && n < r->regroup->all; n++)
		r->shown.part[n] = (struct fan_part_shown){
			.at = r->regroup->first[n].part.at,
			.inside = -1,
			.lost = true,
		};
	for (unsigned k = 0; k < r->parts.count; k++)
		r->shown.part[r->regroup ? r->regroup->number[k] : k] = (struct fan_part_shown){
			.at = r->parts.job[k].at,
			.inside = r->parts.inside[k],
			.share = s->shares.now.begin[k + 1] - s->shares.now.begin[k],
			.rtt_us = s->rtt_us[k],
		};
}

/* ---- in step ---- */

/* Operations in progress: those of sets, which the parts on hosts have alone, whatever their
 * shares; and others. */
struct in_progress {
	bool sets, others;
};

static struct in_progress what_is_in_progress(const struct fan_rank *r)
{
	struct in_progress is = {false, false};
	for (unsigned i = 0; i < r->ops.running_count; i++)
		if (r->ops.running[i]->is_whole)
			is.sets = true;
		else
			is.others = true;
	return is;
}

static double share_of(const struct fan_rank *r, const struct fan_connection *cn,
		       struct in_progress is)
{
	const struct fan_split *s = &r->meter.shares.now;
	double share =
		(double)(s->begin[cn->part + 1] - s->begin[cn->part]) / (double)FAN_CUT_WHOLE;
	if (is.sets && r->parts.inside[cn->part] >= 0 &&
	    (share < 1.0 / r->parts.count || !is.others))
		share = 1.0 / r->parts.count;
	return share / r->parts.shards[cn->part];
}

static double at_least(double value, double least)
{
	return value > least ? value : least;
}

/* The results that come in FAN_SHARE_METER_FILL_MS, smoothed. */
static void note_fill(struct fan_rank *r, uint64_t spent_ns)
{
	struct fan_share_meter *s = &r->meter;
	const uint64_t period_ns = FAN_SHARE_METER_FILL_MS * FAN_MS;
	uint64_t results = 0;
	s->fill_ns += spent_ns;
	if (s->fill_ns < period_ns)
		return;
	for (unsigned i = 0; i < r->connections; i++)
		results += fan_worker_stats(r->connection[i].w)->results;
	if (results > s->results) /* else connections are new */
		s->fill +=
			((double)(results - s->results) * (double)period_ns / (double)s->fill_ns -
			 s->fill) /
			2;
	s->results = results;
	s->fill_ns = 0;
}

void fan_share_meter_spent(struct fan_rank *r, uint64_t spent_ns)
{
	struct fan_share_meter *s = &r->meter;
	s->busy_ns += spent_ns;
	for (unsigned i = 0; i < r->connections; i++)
		s->rtt_ns[i] +=
			(double)spent_ns * (double)fan_worker_stats(r->connection[i].w)->srtt_ns;
}

/* Time since the last look counts if something was in progress then: not that in which the program
 * computes before it starts the next operation.  Round trips count not while only sets are in
 * progress, which tell nothing of shares. */
static void note_round_trips(struct fan_rank *r, uint64_t now_ns, struct in_progress is)
{
	struct fan_share_meter *s = &r->meter;
	uint64_t spent_ns = s->busy ? now_ns - s->looked_ns : 0;
	s->looked_ns = now_ns;
	s->busy = r->ops.running_count > 0;
	note_fill(r, spent_ns);
	if (s->learns && is.others && !s->blocked)
		fan_share_meter_spent(r, spent_ns);
}

uint32_t fan_share_meter_rto_min_ms(const struct fan_rank *r, unsigned parts, bool ends)
{
	if (r->cfg.rto_min_ms)
		return (uint32_t)r->cfg.rto_min_ms;
	if (r->cfg.ahead || r->column.global)
		return fan_in_step_rto_ms(false);
	return parts > 1 && !r->client.on ? fan_in_step_rto_ms(ends) : FAN_RTO_MIN_NS / FAN_MS;
}

double fan_share_meter_counted(double fill, unsigned used)
{
	double count = at_least(fill / FAN_IN_STEP_FRAGS, FAN_SHARE_METER_COUNTED);
	return count < used ? count : used;
}

double fan_share_meter_gbps(double fill, unsigned bytes, unsigned columns, unsigned hosts)
{
	const double times = hosts ? 2.0 * (hosts - 1) / hosts : 1;
	return fill * bytes * 8 / (FAN_SHARE_METER_FILL_MS * 1e6) * columns * times;
}

/* By how much a link of this rate takes more in flight than a slow one. */
static double by_rate(double gbps)
{
	const double fast = at_least(gbps / FAN_SHARE_METER_FAST_GBPS, 1);
	return fast * fast;
}

double fan_share_meter_step(double count, double gbps, bool sets)
{
	return (sets ? FAN_SHARE_METER_SET_STEP : FAN_IN_STEP_FRAGS) * count * by_rate(gbps);
}

double fan_share_meter_window(double window, unsigned columns, double gbps)
{
	const double slow = at_least((double)FAN_SHARE_METER_COLUMNS_WINDOW / columns,
				     FAN_SHARE_METER_COLUMN_LEAST);
	const double most = slow * by_rate(gbps);
	return window < most ? window : most;
}

uint32_t fan_share_meter_block(unsigned packet_bytes)
{
	const uint32_t block = FAN_UDP_SEND_BYTES / packet_bytes;
	return block < 1 ? 1 : block > FAN_UDP_BURST_MAX ? FAN_UDP_BURST_MAX : block;
}

/* Return how much a connection may have in flight: on a fast link whole blocks, while there is more
 * to send than that. */
static uint32_t in_blocks(const struct fan_connection *cn, const struct fan_in_step_part *p,
			  double gbps)
{
	const uint32_t block = fan_share_meter_block(cn->packet_bytes);
	const struct fan_worker_stats *s = fan_worker_stats(cn->w);
	if (gbps <= FAN_SHARE_METER_FAST_GBPS || p->left <= p->allow || p->left <= block)
		return p->allow;
	return fan_in_step_block(p->allow, block, s->results, s->waiting);
}

void fan_share_meter_keep_in_step(struct fan_rank *r, uint64_t now_ns)
{
	struct fan_in_step_part lane[FAN_SHARDS_MAX]; /* by connection */
	unsigned used = 0, hosts = 0;		      /* connections with a share; those to hosts */
	unsigned parts = 0;			      /* with a share */
	const unsigned connections = r->connections;
	const struct in_progress is = what_is_in_progress(r);
	if (r->parts.count < 2 || r->client.on || !r->ready)
		return;
	note_round_trips(r, now_ns, is);
	for (unsigned i = 0; i < connections; i++) {
		const struct fan_connection *cn = &r->connection[i];
		double share = share_of(r, cn, is);
		lane[i] = (struct fan_in_step_part){
			.share = share,
			.left = (double)fan_worker_left(cn->w),
			.window = fan_worker_stats(cn->w)->window,
		};
		used += share > 0;
		parts += share > 0 && !cn->shard;
		hosts += share > 0 && r->parts.inside[cn->part] >= 0;
	}
	const bool mixed = hosts && hosts < used && !is.sets;
	const double count = mixed ? fan_share_meter_counted(r->meter.fill, used) : used;
	const double gbps = fan_share_meter_gbps(r->meter.fill, r->cfg.payload_bytes,
						 r->column.columns ? r->column.columns : 1,
						 hosts == used ? parts : 0);
	for (unsigned i = 0; r->column.columns && i < connections; i++)
		lane[i].window =
			(uint32_t)fan_share_meter_window(lane[i].window, r->column.columns, gbps);
	const bool ends =
		fan_in_step_bound(lane, connections, fan_share_meter_step(count, gbps, is.sets));
	for (unsigned i = 0; i < connections; i++) {
		struct fan_worker *w = r->connection[i].w;
		fan_worker_least_timeout(w, fan_share_meter_rto_min_ms(r, parts, ends));
		fan_worker_allow(w, in_blocks(&r->connection[i], &lane[i], gbps));
	}
}
