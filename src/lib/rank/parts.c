/* SPDX-License-Identifier: Apache-2.0 */
/* parts.c - the connections of a rank, to each shard of the aggregator of each part; and how
 * operations end, and a rank with connections. */
#include <assert.h>
#include <stdio.h>
#include <string.h>

#include "net/clock.h"
#include "registry.h"
#include "thread.h"

/* ---- leaving ---- */

/* Return the error that the aggregators of other parts get when `error` ends the
 * communicator. */
static int leave_error(const struct fan_rank *r, int error)
{
	bool own = fan_ranks_has(r->fate.blamed, (unsigned)r->cfg.rank);
	if (r->column.global) /* a column, whose own rank of a blamed host may live */
		return r->fate.cause ? r->fate.cause : error;
	if (error == FAN_E_STOPPED) /* these are not */
		error = FAN_E_UNREACHABLE;
	return error == FAN_E_UNREACHABLE && !own ? FAN_E_RANK_LOST : error;
}

void fan_rank_leave(struct fan_rank *r, int error)
{
	uint64_t now_ns = fan_clock_ns();
	if (r->fate.leaving)
		return;
	r->fate.leaving = true;
	r->when.leave_by_ns = now_ns + FAN_RANK_LEAVE_NS;
	for (unsigned i = 0; i < r->connections; i++) {
		struct fan_connection *cn = &r->connection[i];
		if (!cn->w)
			continue;
		fan_worker_leave(cn->w, now_ns, leave_error(r, error), r->fate.blamed);
		cn->news = true;
	}
}

/* ---- operations ---- */

static void publish_stats(struct fan_rank *r)
{
	struct fanin_stats stats = fan_rank_collect_stats(r);
	pthread_mutex_lock(&r->lock);
	r->shown.stats = stats;
	pthread_mutex_unlock(&r->lock);
}

static void note_done(struct fan_share_meter *s, const struct fanin_op *op)
{
	const uint64_t bytes = op->op.count * fan_dtype_bytes(op->op.dtype);
	if (op->is_whole)
		return;
	s->done_bytes += bytes;
	s->open_bytes -= bytes < s->open_bytes ? bytes : s->open_bytes;
}

/* `words` has the number of ranks that each lost part has answered. */
static void take_offers(struct fan_rank *r, const int32_t *words)
{
	struct fan_regroup *g = r->regroup;
	assert(g);
	for (unsigned n = 0; n < g->all; n++)
		if (g->gone >> n & 1 && words[n] == r->cfg.ranks)
			g->revival.back |= UINT64_C(1) << n;
}

/* `op` has its result: what follows from that, by its kind. */
static void ended(struct fan_rank *r, const struct fanin_op *op)
{
	switch (op->kind) {
	case FAN_OP_CALLERS:
	case FAN_OP_MEMBER:
		r->ops.done++;
		r->ops.bytes_done += op->op.count * fan_dtype_bytes(op->op.dtype);
		note_done(&r->meter, op);
		break;
	case FAN_OP_MEASUREMENT: r->meter.arrived = true; break;
	case FAN_OP_AGREEMENT:
		assert(r->regroup);
		r->regroup->arrived = true;
		break;
	case FAN_OP_OFFER: take_offers(r, op->op.out); break;
	case FAN_OP_OWN:
	case FAN_OP_REST: break;
	}
}

void fan_rank_end_op(struct fan_rank *r, struct fanin_op *op, int result)
{
	struct fanin_op *whole = op->whole;
	const bool is_threads = op->kind >= FAN_OP_MEASUREMENT;
	assert((op->kind == FAN_OP_REST) == (whole != NULL));
	assert(!op->rests);
	if (!is_threads)
		atomic_fetch_sub(&r->ops_open, 1);
	fan_op_end(op, result);
	if (is_threads)
		fanin_op_free(op);
	assert(!whole || whole->rests);
	if (whole && !--whole->rests)
		fan_rank_end_whole(r, whole, result);
}

void fan_rank_run_first(struct fan_rank *r, uint64_t now_ns)
{
	assert(r->ops.running_count < FAN_OPS_MAX);
	r->ops.waiting.head->started_ns = now_ns;
	r->ops.running[r->ops.running_count++] = fan_op_queue_take(&r->ops.waiting);
	r->ops.progressed = true;
}

/* Move finished operations into `ops`, which has room for FAN_OPS_MAX, and return their number. */
static unsigned take_done(struct fan_rank *r,
			  bool (*is_done)(struct fan_rank *r, struct fanin_op *op),
			  struct fanin_op **ops)
{
	unsigned kept = 0, taken = 0;
	bool measured = true;
	assert(r->ops.running_count <= FAN_OPS_MAX);
	for (unsigned i = 0; i < r->ops.running_count; i++) {
		struct fanin_op *op = r->ops.running[i];
		if (measured && is_done(r, op))
			ops[taken++] = op;
		else
			r->ops.running[kept++] = op;
		measured &= op->kind != FAN_OP_MEASUREMENT || is_done(r, op);
	}
	r->ops.running_count = kept;
	return taken;
}

/* Count them all, then end them, so that a waiting caller finds its own counted. */
static void end_done(struct fan_rank *r, struct fanin_op *const *ops, unsigned count)
{
	for (unsigned i = 0; i < count; i++)
		ended(r, ops[i]);
	if (count)
		publish_stats(r);
	for (unsigned i = 0; i < count; i++)
		fan_rank_end_op(r, ops[i], FAN_OK);
}

void fan_rank_end_done(struct fan_rank *r, bool (*is_done)(struct fan_rank *r, struct fanin_op *op))
{
	struct fanin_op *done[FAN_OPS_MAX];
	end_done(r, done, take_done(r, is_done, done));
}

void fan_rank_end_whole(struct fan_rank *r, struct fanin_op *whole, int result)
{
	if (result)
		fan_rank_end_op(r, whole, result);
	else
		end_done(r, &whole, 1);
}

void fan_rank_end_all(struct fan_rank *r, int result)
{
	struct fanin_op *op;
	for (unsigned i = 0; i < r->ops.running_count; i++)
		fan_rank_end_op(r, r->ops.running[i], result);
	r->ops.running_count = 0;
	for (unsigned i = 0; r->regroup && i < r->regroup->op_count; i++)
		fan_rank_end_op(r, r->regroup->op[i], result);
	if (r->regroup)
		r->regroup->op_count = 0;
	while ((op = fan_op_queue_take(&r->ops.waiting)))
		fan_rank_end_op(r, op, result);
}

/* ---- failure ---- */

void fan_rank_fail(struct fan_rank *r, int error, const char *sentence)
{
	assert(error != FAN_OK && error != FAN_E_PENDING);
	if (atomic_load(&r->error))
		return;
	pthread_mutex_lock(&r->lock);
	snprintf(r->sentence, sizeof r->sentence, "%s", sentence);
	atomic_store_explicit(&r->error, error, memory_order_release);
	fan_op_queue_move(&r->ops.waiting, &r->asked.queued);
	pthread_cond_broadcast(&r->changed);
	if (error == FAN_E_LAUNCHES && r->owner)
		r->owner->kind->end(r->owner, error, sentence);
	pthread_mutex_unlock(&r->lock);
	fan_rank_leave(r, error);
	fan_rank_end_all(r, error);
}

/* ---- connections ---- */

/* The most fragments that a rank may have sent without their results; 0: no bound of ours. */
static uint16_t window_of(const struct fan_config *cfg)
{
	int frags = cfg->ahead ? cfg->ahead : cfg->window ? cfg->window : FAN_WINDOW_MAX;
	return (uint16_t)(frags < 2 ? 2 : frags);
}

/* Under a plan, parts of different rates share links: windows in proportion to the rates keep each
 * to its plan.  Without a plan all parts leave by this rank's link, whose queue must not grow with
 * their number.  In 1 / 65536; 0: all. */
static uint16_t window_share(const struct fan_rank *r, const struct fan_job_part *part)
{
	double most = 0;
	if (!r->client.on)
		return 0;
	for (unsigned k = 0; k < r->parts.count; k++)
		most = r->parts.job[k].gbps > most ? r->parts.job[k].gbps : most;
	double share = most > 0 ? part->gbps / most * 65536 : 65536;
	return (uint16_t)(share >= 65536 ? 0 : share < 1 ? 1 : share);
}

/* With several switches on spare hosts, each receives the others' multicasts, unless the network
 * tracks the members of groups, and many do not.  Multicast would not relieve the links that are
 * full: an aggregator gets as many bytes as it sends by unicast. */
static bool wants_group(const struct fan_rank *r)
{
	return r->cfg.multicast < 0 ? r->parts.count < 2 || r->client.on : r->cfg.multicast;
}

static struct fan_worker_config worker_config(const struct fan_rank *r,
					      const struct fan_job_part *part, uint64_t now_ns)
{
	const struct fan_config *cfg = &r->cfg;
	uint64_t left_ms = r->when.join_by_ns > now_ns ? (r->when.join_by_ns - now_ns) / FAN_MS : 0;
	struct fan_worker_config w = {
		.rank = (uint16_t)cfg->rank,
		.ranks = (uint16_t)cfg->ranks,
		.payload_bytes = cfg->payload_bytes,
		.window_max = window_of(cfg),
		.burst_max = (uint16_t)(cfg->ahead ? cfg->window : 0),
		.options = (uint8_t)((wants_group(r) ? FAN_JOIN_GROUP : 0) | FAN_JOIN_WIDE |
				     (cfg->wire == FANIN_WIRE_INT8 ? FAN_JOIN_QUAD : 0) |
				     (cfg->ahead ? FAN_JOIN_AHEAD : 0) |
				     (cfg->keys.count ? 0 : FAN_JOIN_RUNS)),
		.congestion = (uint8_t)cfg->congestion,
		.alive_ms = (uint32_t)cfg->alive_ms,
		.rto_min_ms = fan_share_meter_rto_min_ms(r, r->parts.count, false),
		.join_ms = (uint32_t)left_ms + 1,
		.stall_ms = (uint32_t)cfg->timeout_ms,
		.authentic = cfg->keys.count > 0,
		.route = part->route,
		.share = window_share(r, part),
		.nonce = fan_clock_nonce(),
		.launch = cfg->launch,
		.priority = fan_priority_default,
		.cache_frags = (uint32_t)cfg->cache,
	};
	memcpy(w.name, part->name, sizeof w.name);
	return w;
}

void fan_rank_open_connection(struct fan_rank *r, unsigned number, uint64_t now_ns)
{
	assert(number < FAN_SHARDS_MAX);
	struct fan_connection *cn = &r->connection[number];
	assert(cn->part < r->parts.count);
	const struct fan_job_part *part = &r->parts.job[cn->part];
	struct fan_worker_config cfg = worker_config(r, part, now_ns);
	char why[FAN_CONNECTION_WHY_BYTES];
	if (cn->w && fan_worker_fault(cn->w)->err == FAN_E_RANK_TAKEN &&
	    !fan_registry_has_rank_of(r))
		cfg.claim = fan_worker_fault(cn->w)->desc_a;
	fan_connection_close(cn);
	cn->number = number;
	cn->again_ns = 0;
	cn->behind = false;
	cn->epoll_fd = r->thread.epoll_fd;
	cn->server_addr = r->server_addr;
	if (!fan_peer_is_none(&r->server_addr))
		cn->server_addr.port += cn->shard;
	const uint8_t *key = r->cfg.keys.count ? r->cfg.keys.key[0] : NULL;
	int e = fan_connection_open(cn, &cfg, &part->at, key, now_ns, why);
	if (e)
		fan_rank_fail(r, e, why);
	else if (r->own)
		fan_connection_shorten(cn, r->own);
}

static void fail_for_shards(struct fan_rank *r)
{
	fan_rank_fail(
		r, FAN_E_SHARDS,
		"the job has more parts, times the threads of their switches, than a rank can be "
		"in: at most 64");
}

/* One more connection: shard `shard` of part `k`. */
static void add_connection(struct fan_rank *r, unsigned k, unsigned shard, uint64_t now_ns)
{
	assert(k < r->parts.count && r->connections < FAN_SHARDS_MAX);
	struct fan_connection *cn = &r->connection[r->connections];
	cn->part = k;
	cn->shard = shard;
	cn->refusals = 0;
	fan_rank_open_connection(r, r->connections, now_ns);
	if (cn->w)
		r->connections++;
}

void fan_rank_open_parts(struct fan_rank *r, uint64_t now_ns)
{
	fan_share_meter_init(r);
	for (unsigned k = 0; k < r->parts.count && !atomic_load(&r->error); k++)
		add_connection(r, k, 0, now_ns);
}

void fan_rank_join_more_parts(struct fan_rank *r, unsigned count)
{
	uint64_t now_ns = fan_clock_ns();
	assert(count <= r->parts.count && !r->ops.running_count);
	if (r->connections + count > FAN_SHARDS_MAX) {
		fail_for_shards(r);
		return;
	}
	r->when.join_by_ns = now_ns + (uint64_t)fan_config_join_ms(&r->cfg) * FAN_MS;
	fan_share_meter_init(r);
	for (unsigned k = r->parts.count - count; k < r->parts.count && !atomic_load(&r->error);
	     k++)
		add_connection(r, k, 0, now_ns);
}

/* Each connection of a part has its share of the plan's rate. */
void fan_rank_set_rate_limit(struct fan_rank *r, unsigned k)
{
	assert(k < r->parts.count && r->parts.job[k].gbps >= 0);
	const double gbps = r->parts.job[k].gbps * r->cfg.pace / 100;
	for (unsigned i = 0; i < r->connections && r->parts.shards[k]; i++)
		if (r->connection[i].part == k)
			r->connection[i].rate_limit.ns_per_byte =
				gbps > 0 ? 8 * r->parts.shards[k] / gbps : 0;
}

/* The aggregator of part `k` has `shards` shards: its connections share what its cut has. */
static void set_shards(struct fan_rank *r, unsigned k, unsigned shards)
{
	r->parts.shards[k] = shards;
	fan_rank_set_rate_limit(r, k);
}

void fan_rank_open_shards(struct fan_rank *r, unsigned k, uint64_t now_ns)
{
	unsigned first = 0;
	assert(k < r->parts.count);
	if (r->parts.shards[k])
		return;
	while (r->connection[first].part != k || r->connection[first].shard)
		first++; /* ends: each part has one to its first shard */
	assert(first < r->connections);
	const struct fan_welcome *m = fan_worker_welcome(r->connection[first].w);
	if (!m)
		return;
	unsigned shards = m->shards < FAN_SHARDS_MAX ? m->shards : FAN_SHARDS_MAX;
	if (r->connections + shards - 1 > FAN_SHARDS_MAX) {
		fail_for_shards(r);
		return;
	}
	for (unsigned i = 1; i < shards && !atomic_load(&r->error); i++)
		add_connection(r, k, i, now_ns);
	set_shards(r, k, shards ? shards : 1);
}
