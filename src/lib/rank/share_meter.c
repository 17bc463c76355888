/* SPDX-License-Identifier: Apache-2.0 */
/* share_meter.c - a communicator's measurements, by which it learns the shares of its parts.
 *
 * After every FAN_SHARE_METER_BYTES of tensors each rank adds what it has measured to the stream of
 * operations, as an all-reduce of its own; since all ranks start the same operations in the same
 * order, all get the same sums at the same place, and from there on cut alike.  The operations
 * that follow wait for it while shares are learnt, but for FAN_SHARE_METER_AHEAD, so that a stream
 * of small ones goes on meanwhile; and not once they stay.
 *
 * Operations of sets that one part has whole are not measured and wait for no measurement: shares
 * do not concern them, and they go fast only side by side. */
#include <assert.h>
#include <string.h>

#include "core/worker/in_step.h"
#include "net/clock.h"
#include "thread.h"

/* The rules of measuring and of keeping in step: what for, what sets the threshold, the threshold.
 * B is a row of bench/README.md, A a figure of doc/adr, C the case of
 * test/unit/lib/rank/share_meter.c. */

/* Bytes of tensors from one measurement to the next; once the shares stay, QUIET times as many,
 * which no figure sets.  B: a host's link drops, 0.997 of the best time 20 operations later. */
#define FAN_SHARE_METER_BYTES (4 << 20)
#define FAN_SHARE_METER_QUIET 2
/* Bytes of tensors that do not wait for a measurement, so that the operations of columns, of 64 KiB
 * each, go on (ADR 18).  C: small_operations_go_on_during_a_measurement. */
#define FAN_SHARE_METER_AHEAD (512 << 10)
/* FAN_IN_STEP_FRAGS count for as many connections as bring their results in FILL_MS, for COUNTED at
 * least.  A: for each of eight, 1.18 of the best time (ADR 22);
 * C: a_slow_link_has_no_longer_queue_for_more_connections. */
#define FAN_SHARE_METER_COUNTED 5
#define FAN_SHARE_METER_FILL_MS 10
/* The rate of a host's link up to which parts stay close together.  A: 4 x 1 at 1 Gb/s, processor
 * time by Gloo's, 1.35 from 1.0 on, 1.05 from here (ADR 40);
 * C: parts_may_be_further_apart_only_on_a_fast_link. */
#define FAN_SHARE_METER_FAST_GBPS 0.5
/* Fragments in flight of all columns of a host on a slow link, and of one at least: results arrive
 * before FAN_IN_STEP_RTO_MS.  B: 4 x 4 hosts x ranks, 1.01 of the time that links allow; with
 * 256, 1.06.
 */
#define FAN_SHARE_METER_COLUMNS_WINDOW 128
/* In place of FAN_IN_STEP_FRAGS while sets are in progress.  B: reduce-scatter, 1.52
 * of Gloo's speed. */
#define FAN_SHARE_METER_SET_STEP 64
/* A bound: the round trips of 256 ranks, added, are less than 2^31. */
#define FAN_SHARE_METER_RTT_MAX_US (1 << 22)

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
	s->learns = r->parts.count > 1;
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
	if (r->regroup) {
		r->regroup->revival.ops++;
		r->regroup->revival.bytes += bytes;
	}
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

/* Is the aggregator of part `k` on this rank's host?  Then its round trips show nothing. */
static bool is_here(const struct fan_rank *r, unsigned k)
{
	int first = r->column.host_first ? r->column.host_first[r->cfg.rank] : r->cfg.rank;
	return r->parts.inside[k] == first;
}

/* A period with new shares begins: forget the former measurements. */
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
	struct fanin_op *op = fan_op_new_own(FAN_OP_MEASUREMENT, FAN_SUM, FAN_INT32,
					     r->parts.count + (unsigned)r->cfg.ranks, s->words);
	if (!op)
		return false;
	fill(r);
	s->measures = true;
	s->arrived = false;
	fan_op_queue_put_first(&r->ops.waiting, op);
	return true;
}

/* The least cost of a rank, which has not waited for others; 0: none has reported one. */
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

/* Before a measurement of learnt shares, and before a try of others, let started operations end,
 * so that the measurement covers exactly them. */
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

bool fan_share_meter_waited(const struct fan_rank *r)
{
	const struct fan_share_meter *s = &r->meter;
	return (s->blocked && s->arrived) ||
	       (s->drains && !(r->ops.running_count && is_much_open(r)));
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

/* Operations in progress of sets, which the parts on hosts have alone, whatever their shares. */
static unsigned count_whole(const struct fan_rank *r)
{
	unsigned whole = 0;
	for (unsigned i = 0; i < r->ops.running_count; i++)
		whole += r->ops.running[i]->is_whole;
	return whole;
}

static double share_of(const struct fan_rank *r, const struct fan_connection *cn, unsigned whole)
{
	const struct fan_split *s = &r->meter.shares.now;
	double share =
		(double)(s->begin[cn->part + 1] - s->begin[cn->part]) / (double)FAN_CUT_WHOLE;
	if (whole && r->parts.inside[cn->part] >= 0 &&
	    (share < 1.0 / r->parts.count || whole == r->ops.running_count))
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

/* Operations were in progress for `spent_ns`, with the present round trips. */
static void note_spent(struct fan_rank *r, uint64_t spent_ns)
{
	struct fan_share_meter *s = &r->meter;
	s->busy_ns += spent_ns;
	for (unsigned i = 0; i < r->connections; i++)
		s->rtt_ns[i] +=
			(double)spent_ns * (double)fan_worker_stats(r->connection[i].w)->srtt_ns;
}

/* Time since the last look counts if something was in progress then: not that in which the program
 * computes before it starts the next operation.  Round trips count not while only sets are in
 * progress, which show nothing of shares. */
static void note_round_trips(struct fan_rank *r, uint64_t now_ns, unsigned whole)
{
	struct fan_share_meter *s = &r->meter;
	uint64_t spent_ns = s->busy ? now_ns - s->looked_ns : 0;
	s->looked_ns = now_ns;
	s->busy = r->ops.running_count > 0;
	note_fill(r, spent_ns);
	if (s->learns && whole < r->ops.running_count && !s->blocked)
		note_spent(r, spent_ns);
}

uint32_t fan_share_meter_rto_min_ms(const struct fan_rank *r, unsigned parts, bool ends)
{
	if (r->cfg.rto_min_ms)
		return (uint32_t)r->cfg.rto_min_ms;
	if (r->cfg.ahead || r->column.global)
		return fan_in_step_rto_ms(false);
	return parts > 1 && !r->client.on ? fan_in_step_rto_ms(ends) : FAN_RTO_MIN_NS / FAN_MS;
}

/* Count those of `used` connections with a share, to named switches and to hosts, that matter for
 * what may be in flight: all leave by this rank's link, whose queue must not get longer by their
 * number, but a link that is fast, by which `fill` results come in FAN_SHARE_METER_FILL_MS, takes
 * more. */
static double count_of(double fill, unsigned used)
{
	double count = at_least(fill / FAN_IN_STEP_FRAGS, FAN_SHARE_METER_COUNTED);
	return count < used ? count : used;
}

/* The rate of this host's link, in Gb/s, in the direction that has more, while each of `columns`
 * ranks of it takes in `fill` results of `bytes` each in FAN_SHARE_METER_FILL_MS.  `hosts` hosts
 * alone sum; 0: switches do. */
static double gbps_of(double fill, unsigned bytes, unsigned columns, unsigned hosts)
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

/* Fragments of the whole tensor by which a part may be ahead of the last one, if `count`
 * connections count: FAN_IN_STEP_FRAGS each, or of sets FAN_SHARE_METER_SET_STEP.  Beyond
 * FAN_SHARE_METER_FAST_GBPS it grows by the square of the rate: long batches take processors
 * less time. */
static double step_of(double count, double gbps, bool sets)
{
	return (sets ? FAN_SHARE_METER_SET_STEP : FAN_IN_STEP_FRAGS) * count * by_rate(gbps);
}

/* Return how many of `window` fragments one of `columns` ranks of a host may have in flight, all
 * parts together: they share the queue of its link.  That of a fast one takes more. */
static double column_window(double window, unsigned columns, double gbps)
{
	const double slow = at_least((double)FAN_SHARE_METER_COLUMNS_WINDOW / columns,
				     FAN_SHARE_METER_COLUMN_LEAST);
	const double most = slow * by_rate(gbps);
	return window < most ? window : most;
}

/* Fragments, each in a packet of so many bytes, that leave in one system call: beyond
 * FAN_SHARE_METER_FAST_GBPS ranks send blocks of so many (fan_in_step_block). */
static uint32_t block_of(unsigned packet_bytes)
{
	const uint32_t block = FAN_UDP_SEND_BYTES / packet_bytes;
	return block < 1 ? 1 : block > FAN_UDP_BURST_MAX ? FAN_UDP_BURST_MAX : block;
}

/* Return how much a connection may have in flight: on a fast link whole blocks, while there is more
 * to send than that. */
static uint32_t in_blocks(const struct fan_connection *cn, const struct fan_in_step_part *p,
			  double gbps)
{
	const uint32_t block = block_of(cn->packet_bytes);
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
	const unsigned whole = count_whole(r);
	if (r->parts.count < 2 || r->client.on || !r->ready)
		return;
	note_round_trips(r, now_ns, whole);
	for (unsigned i = 0; i < connections; i++) {
		const struct fan_connection *cn = &r->connection[i];
		double share = share_of(r, cn, whole);
		lane[i] = (struct fan_in_step_part){
			.share = share,
			.left = (double)fan_worker_left(cn->w),
			.window = fan_worker_stats(cn->w)->window,
		};
		used += share > 0;
		parts += share > 0 && !cn->shard;
		hosts += share > 0 && r->parts.inside[cn->part] >= 0;
	}
	const bool mixed = hosts && hosts < used && !whole;
	const double count = mixed ? count_of(r->meter.fill, used) : used;
	const double gbps =
		gbps_of(r->meter.fill, r->cfg.payload_bytes,
			r->column.columns ? r->column.columns : 1, hosts == used ? parts : 0);
	for (unsigned i = 0; r->column.columns && i < connections; i++)
		lane[i].window = (uint32_t)column_window(lane[i].window, r->column.columns, gbps);
	const bool ends = fan_in_step_bound(lane, connections, step_of(count, gbps, whole > 0));
	for (unsigned i = 0; i < connections; i++) {
		struct fan_worker *w = r->connection[i].w;
		fan_worker_least_timeout(w, fan_share_meter_rto_min_ms(r, parts, ends));
		fan_worker_allow(w, in_blocks(&r->connection[i], &lane[i], gbps));
	}
}
