/* SPDX-License-Identifier: Apache-2.0 */
/* loop.c - the thread of a communicator: the only one that runs the core.
 *
 * A round: sleep in epoll until a socket, a caller or the core's deadline; take in what
 * came; start queued operations; send what can be sent; wake callers.  It never spins:
 * a round without sleep follows only on a round that left work. */
#include <assert.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <unistd.h>

#include "net/clock.h"
#include "net/ring_pair.h"
#include "thread.h"

/* ---- faults ---- */

static bool gone(const struct fan_connection *cn)
{
	enum fan_worker_phase phase = cn->w ? fan_worker_phase(cn->w) : FAN_W_LEFT;
	return phase == FAN_W_LEFT;
}

static bool all_gone(const struct fan_rank *r)
{
	for (unsigned i = 0; i < r->connections; i++)
		if (!gone(&r->connection[i]))
			return false;
	return true; /* also without any */
}

/* ---- operations ---- */

/* The elements of connection `i` in operation `op`.  False: it takes no part in it. */
static bool cut_of(const struct fan_rank *rank, const struct fanin_op *op, unsigned i,
		   struct fan_cut *cut)
{
	assert(i < rank->connections);
	const struct fan_connection *cn = &rank->connection[i];
	struct fan_split_range r = fan_share_meter_range(
		&rank->meter.shares.now, op, fan_worker_frag_elems(cn->w, &op->op), cn->part);
	*cut = (struct fan_cut){r.first, r.end, cn->shard, rank->parts.shards[cn->part]};
	return r.takes_part;
}

/* Start `op` on the connections where it has not been.  False: one has no room yet. */
static bool start_op(struct fan_rank *r, struct fanin_op *op, uint64_t now_ns)
{
	assert(op->connections <= r->connections);
	if (!op->is_counted)
		fan_share_meter_started(r, op);
	for (; op->connections < r->connections; op->connections++) {
		struct fan_connection *cn = &r->connection[op->connections];
		uint64_t *id = &op->id[op->connections];
		struct fan_cut cut;
		*id = FAN_OP_NOWHERE;
		if (!cut_of(r, op, op->connections, &cut))
			continue;
		struct fan_op part = fan_op_part(&op->op, &cut);
		int e = fan_worker_start(cn->w, now_ns, &part, id);
		if (e == FAN_E_BUSY)
			return false;
		if (e) {
			if (fan_worker_phase(cn->w) == FAN_W_FAILED)
				fan_rank_fail_by_core(r, cn);
			else
				fan_rank_fail(r, e, fan_err_text(e));
			return false;
		}
		cn->news = true;
	}
	return true;
}

static bool is_on(const struct fan_rank *r)
{
	return r->regroup && r->regroup->phase != FAN_REGROUP_NONE;
}

/* Must operation `op` wait until all ranks have agreed, or it is known what is lost? */
static bool regroup_holds(const struct fan_rank *r, const struct fanin_op *op)
{
	return r->regroup && (r->regroup->waits || (is_on(r) && op->kind != FAN_OP_AGREEMENT));
}

static void start_ops(struct fan_rank *r, uint64_t now_ns)
{
	while (r->ops.waiting.head && r->ops.running_count < FAN_OPS_MAX) {
		if (regroup_holds(r, r->ops.waiting.head))
			return;
		if (!r->ops.running_count)
			r->when.quiet_ns = now_ns;
		if (!fan_revival_offer(r))
			fan_rank_fail(r, FAN_E_NOMEM, fan_err_text(FAN_E_NOMEM));
		if (!r->ops.waiting.head)
			return;
		const int permits = fan_share_meter_permits(r);
		if (permits < 0)
			fan_rank_fail(r, permits, fan_err_text(permits));
		if (permits <= 0 || !start_op(r, r->ops.waiting.head, now_ns))
			return;
		fan_rank_run_first(r, now_ns);
	}
}

static bool is_done_on(const struct fan_rank *r, const struct fanin_op *op, unsigned i)
{
	return op->id[i] == FAN_OP_NOWHERE ||
	       fan_worker_test(r->connection[i].w, op->id[i]) == FAN_OK;
}

static bool is_done(struct fan_rank *r, struct fanin_op *op)
{
	assert(op->connections == r->connections);
	while (op->connections_done < r->connections && is_done_on(r, op, op->connections_done))
		op->connections_done++;
	return op->connections_done == r->connections;
}

/* Parts that are done now. */
static void trace_parts(struct fan_rank *r, uint64_t now_ns)
{
	for (unsigned i = 0; i < r->ops.running_count; i++) {
		struct fanin_op *op = r->ops.running[i];
		for (unsigned k = 0; op->trace && k < op->connections; k++) {
			struct fan_trace_event e = {.kind = FAN_TRACE_PART,
						    .begin_ns = op->started_ns,
						    .end_ns = now_ns,
						    .id = op->trace_id,
						    .part = (uint16_t)r->connection[k].part,
						    .shard = (uint16_t)r->connection[k].shard};
			bool reported = op->traced[k / 64] >> k % 64 & 1;
			if (reported || op->id[k] == FAN_OP_NOWHERE || !is_done_on(r, op, k))
				continue;
			op->traced[k / 64] |= UINT64_C(1) << k % 64;
			fan_trace_add(r->trace, &e);
		}
	}
}

static void end_done(struct fan_rank *r)
{
	if (!r->ops.progressed)
		return;
	r->ops.progressed = false;
	if (r->trace)
		trace_parts(r, fan_clock_ns());
	fan_rank_end_done(r, is_done);
}

/* ---- rounds ---- */

/* Connections that a regroup leaves have numbers from FAN_SHARDS_MAX on. */
static struct fan_connection *connection_at(struct fan_rank *r, unsigned number)
{
	return number < FAN_SHARDS_MAX ? &r->connection[number]
				       : &r->regroup->old[number - FAN_SHARDS_MAX];
}

/* Connections past the kernel: are there any in which something waits? */
static bool may_sleep(const struct fan_rank *r)
{
	bool may = true;
	for (unsigned i = 0; i < r->connections; i++)
		if (r->connection[i].udp.pair[0])
			may &= fan_ring_pair_may_sleep(r->connection[i].udp.pair[0],
						       FAN_RING_PAIR_DOWN);
	for (unsigned i = 0; r->regroup && i < r->regroup->olds; i++)
		if (r->regroup->old[i].udp.pair[0])
			may &= fan_ring_pair_may_sleep(r->regroup->old[i].udp.pair[0],
						       FAN_RING_PAIR_DOWN);
	return may;
}

static void receive_rings(struct fan_rank *r)
{
	for (unsigned i = 0; i < r->connections; i++)
		if (r->connection[i].udp.pair[0])
			r->when.heard |= fan_connection_recv_rings(&r->connection[i]);
	for (unsigned i = 0; r->regroup && i < r->regroup->olds; i++)
		if (r->regroup->old[i].udp.pair[0])
			r->when.heard |= fan_connection_recv_rings(&r->regroup->old[i]);
}

static void receive(struct fan_rank *r, const struct epoll_event *ev, int count)
{
	for (int i = 0; i < count; i++) {
		unsigned number = ev[i].data.u32;
		uint64_t wakes;
		if (number == FAN_RANK_CONTROLLER)
			r->client.news = true;
		else if (number == FAN_CONNECTION_RING_PAIR)
			continue; /* each round looks there */
		else if (number != FAN_RANK_WAKE)
			r->when.heard |= fan_connection_recv(connection_at(r, number / 2), r->io,
							     number % 2 == 1);
		else if (read(r->thread.wake_fd, &wakes, sizeof wakes) < 0)
			continue; /* it was read before */
	}
}

static void trace_stall(struct fan_rank *r, uint64_t now_ns)
{
	struct fan_trace_event e = {.kind = FAN_TRACE_STALL,
				    .name = "no result",
				    .begin_ns = r->when.quiet_ns,
				    .end_ns = now_ns};
	fan_trace_add(r->trace, &e);
}

/* Note the longest time without a result that was waited for. */
static void note_gap(struct fan_rank *r, uint64_t now_ns)
{
	if (r->ops.running_count && now_ns - r->when.quiet_ns > r->when.gap_ns)
		r->when.gap_ns = now_ns - r->when.quiet_ns;
	if (!r->when.heard)
		return;
	if (r->trace && r->ops.running_count && now_ns - r->when.quiet_ns > FAN_TRACE_STALL_NS)
		trace_stall(r, now_ns);
	r->when.quiet_ns = r->when.result_ns = now_ns;
	r->ops.progressed = true;
	r->when.heard = false;
}

static void publish_ready(struct fan_rank *r)
{
	pthread_mutex_lock(&r->lock);
	r->ready = true;
	pthread_cond_broadcast(&r->changed);
	pthread_mutex_unlock(&r->lock);
}

/* Publish that all ranks are here, once. */
static void check_ready(struct fan_rank *r)
{
	for (unsigned k = 0; k < r->parts.count; k++)
		if (!r->parts.shards[k])
			return;
	for (unsigned i = 0; i < r->connections; i++)
		if (fan_worker_phase(r->connection[i].w) != FAN_W_READY)
			return;
	if (!r->parts.count)
		return;
	fan_rank_check_files(r);
	if (atomic_load(&r->error))
		return;
	publish_ready(r);
	fan_regroup_joined(r);
}

/* There is no room for the job that regroups: its former life may still have it. */
static bool lacks_room(const struct fan_rank *r, int err)
{
	return r->regroup &&
	       (err == FAN_E_JOBS_FULL || err == FAN_E_SLOTS_FULL || err == FAN_E_MEMBERS_FULL);
}

/* The switch of a plan's route may have been restarted, or the server be stopped in whose place the
 * controller has another. */
static bool lacks_route(const struct fan_rank *r, const struct fan_fault *f)
{
	return r->client.on &&
	       (f->err == FAN_E_ROUTE || f->err == FAN_E_RANK_TAKEN || f->err == FAN_E_RESTARTED ||
		f->err == FAN_E_STOPPED ||
		(f->err == FAN_E_JOB_MISMATCH && f->desc_a >> 24 == FAN_ABOUT_ROUTE));
}

/* The rank is taken, or the name by a rank that does not know its launch: perhaps by an earlier
 * life that was killed, which the switch notices within five quarters of alive_ms; this one asks
 * again for a little longer.  Refusals are counted, not time: while both are suspended, nobody's
 * silence grows. */
static bool may_be_own(const struct fan_rank *r, const struct fan_connection *cn)
{
	const uint64_t most = (uint64_t)r->cfg.alive_ms * 3 / 2 * FAN_MS / FAN_JOIN_RETRY_NS + 2;
	const struct fan_fault *f = fan_worker_fault(cn->w);
	const bool unknown = f->err == FAN_E_JOB_MISMATCH && f->desc_b & 1 &&
			     f->desc_b >> 24 == FAN_ABOUT_LAUNCH;
	return (f->err == FAN_E_RANK_TAKEN || unknown) && cn->refusals < most;
}

/* Connection `cn` was refused.  True: the cause may pass, and it joins again, at once the first
 * time, which claims the rank. */
static bool joins_again(struct fan_rank *r, struct fan_connection *cn, uint64_t now_ns)
{
	const struct fan_fault *f = fan_worker_fault(cn->w);
	const bool room = !lacks_room(r, f->err);
	const uint64_t pause_ns = room && !cn->refusals ? 0 : FAN_JOIN_RETRY_NS;
	if (r->ready || (room && !lacks_route(r, f) && !may_be_own(r, cn)) ||
	    now_ns + pause_ns >= r->when.join_by_ns)
		return false;
	if (!cn->again_ns)
		cn->again_ns = now_ns + pause_ns;
	if (now_ns >= cn->again_ns) {
		cn->refusals += room;
		fan_rank_open_connection(r, cn->number, now_ns);
	}
	return true;
}

/* The switch of a connection that has no other path is being stopped. */
static void lose_path(const struct fan_rank *r, struct fan_connection *cn)
{
	const bool fails_over =
		!fan_peer_is_none(&cn->server_addr) && fan_worker_phase(cn->w) == FAN_W_READY;
	if (fan_worker_path_ends(cn->w) && !fails_over && !r->client.on)
		fan_worker_lose_path(cn->w);
}

/* See how the connections stand, which may end the communicator. */
static void check_connections(struct fan_rank *r, uint64_t now_ns)
{
	for (unsigned i = 0; i < r->connections && !atomic_load(&r->error); i++) {
		struct fan_connection *cn = &r->connection[i];
		lose_path(r, cn);
		if (fan_worker_phase(cn->w) != FAN_W_FAILED)
			fan_rank_fail_by_socket(r, cn, now_ns);
		else if (!fan_regroup_forgives(r, cn, now_ns) && !joins_again(r, cn, now_ns))
			fan_rank_fail_by_core(r, cn);
		if (!r->ready && cn->w)
			fan_connection_listen(cn);
	}
	if (r->ready || atomic_load(&r->error))
		return;
	for (unsigned k = 0; k < r->parts.count && !atomic_load(&r->error); k++)
		fan_rank_open_shards(r, k, now_ns);
	if (!atomic_load(&r->error))
		check_ready(r);
}

/* The connection that sends last queues behind the others on this rank's link, and its datagrams
 * arrive in longer batches.  Where hosts alone sum, each rank sends to another one last. */
static void send_all(struct fan_rank *r, uint64_t now_ns)
{
	const bool named = *r->cfg.switch_addr || *r->cfg.controller_addr;
	const unsigned first = named ? 0 : (unsigned)r->cfg.rank + 1;
	for (unsigned i = 0; i < r->connections; i++) {
		struct fan_connection *cn = &r->connection[(first + i) % r->connections];
		if (cn->w)
			fan_connection_send(cn, r->io, now_ns);
	}
}

static void work(struct fan_rank *r)
{
	uint64_t now_ns = fan_clock_ns();
	note_gap(r, now_ns);
	if (!r->fate.leaving)
		end_done(r); /* first: the news of a failure may have come with the last result */
	fan_plan_client_work(r, now_ns);
	fan_regroup_work(r, now_ns);
	if (!r->fate.leaving) {
		check_connections(r, now_ns);
		start_ops(r, now_ns);
		end_done(r);
		if (fan_regroup_go_on(r) || fan_share_meter_waited(r))
			start_ops(r, now_ns);
	}
	for (unsigned i = 0; i < r->connections; i++)
		if (r->connection[i].w)
			fan_failover_work(&r->connection[i], now_ns);
	fan_share_meter_keep_in_step(r, now_ns);
	send_all(r, now_ns);
}

static uint64_t connection_deadline(const struct fan_rank *r, const struct fan_connection *cn)
{
	if (!cn->w || gone(cn))
		return UINT64_MAX;
	if (!r->fate.leaving && fan_worker_phase(cn->w) == FAN_W_FAILED)
		return cn->again_ns; /* 0: the next round wakes the callers */
	if (cn->news)
		return fan_connection_free_ns(cn);
	uint64_t failover_ns = fan_failover_deadline(cn), core_ns = fan_worker_deadline(cn->w);
	uint64_t test_ns = fan_mtu_probe_deadline(&cn->mtu_probe);
	core_ns = test_ns < core_ns ? test_ns : core_ns;
	return failover_ns < core_ns ? failover_ns : core_ns;
}

/* Now and then, note what the join waits for, for the caller who waits in create. */
static void note_wait(struct fan_rank *r)
{
	char text[FAN_FAULT_TEXT_BYTES];
	uint64_t now_ns = fan_clock_ns();
	if (r->ready || atomic_load(&r->error) || now_ns < r->when.note_ns)
		return;
	r->when.note_ns = now_ns + (uint64_t)fan_config_note_first_ms(&r->cfg) / 4 * FAN_MS;
	fan_wait_text(r, now_ns, text, sizeof text);
	pthread_mutex_lock(&r->lock);
	memcpy(r->shown.wait_text, text, sizeof text);
	pthread_mutex_unlock(&r->lock);
}

/* With the lock held: callers have left something that after_sleep takes.  It came while the thread
 * was awake, so no wake-up announces it. */
static bool has_news(const struct fan_rank *r)
{
	return r->asked.queued.head || r->asked.parts_to_add || (r->asked.complete && r->ready) ||
	       (r->ending.error && !atomic_load(&r->error)) ||
	       (r->asked.closing && (!r->fate.leaving || all_gone(r)));
}

/* Publish and decide how long to sleep, in milliseconds; -1: until woken. */
static int before_sleep(struct fan_rank *r)
{
	struct fanin_stats stats = fan_rank_collect_stats(r);
	note_wait(r);
	uint64_t deadline_ns = fan_plan_client_deadline(r), regroup_ns = fan_regroup_deadline(r);
	deadline_ns = regroup_ns < deadline_ns ? regroup_ns : deadline_ns;
	if (!r->ready && !atomic_load(&r->error) && r->when.note_ns < deadline_ns)
		deadline_ns = r->when.note_ns;
	for (unsigned i = 0; i < r->connections; i++) {
		uint64_t d = connection_deadline(r, &r->connection[i]);
		deadline_ns = d < deadline_ns ? d : deadline_ns;
	}
	pthread_mutex_lock(&r->lock);
	if (r->asked.closing && r->when.leave_by_ns < deadline_ns)
		deadline_ns = r->when.leave_by_ns;
	if (!r->asked.closing && r->asked.close_ns && r->asked.close_ns < deadline_ns)
		deadline_ns = r->asked.close_ns;
	r->shown.stats = stats;
	if (r->counts_trips)
		fan_rank_collect_trips(r, &r->shown.trips);
	fan_share_meter_show(r);
	if (r->shown.snapshot.asked)
		fan_rank_take_snapshot(r, fan_clock_ns());
	if (r->asked.room_waiters)
		pthread_cond_broadcast(&r->changed);
	bool more = has_news(r) ||
		    (r->ops.waiting.head && !r->meter.blocked && !r->meter.drains &&
		     r->ops.running_count < FAN_OPS_MAX && !regroup_holds(r, r->ops.waiting.head));
	r->asked.awake = more;
	r->shown.missing_known = !r->ready && r->connections && r->connection[0].w &&
				 fan_worker_missing(r->connection[0].w, r->shown.missing);
	pthread_mutex_unlock(&r->lock);
	return more || !may_sleep(r) ? 0 : fan_clock_timeout_ms(deadline_ns, -1);
}

/* Take what callers have left.  Returns false when the thread shall end. */
static bool after_sleep(struct fan_rank *r)
{
	pthread_mutex_lock(&r->lock);
	r->asked.awake = true;
	r->asked.closing |= r->asked.close_ns && fan_clock_ns() >= r->asked.close_ns;
	bool closing = r->asked.closing;
	unsigned more = r->asked.parts_to_add;
	if (more) /* else callers may read it */
		r->parts.count += more;
	r->asked.parts_to_add = 0;
	r->ready = r->ready && !more;
	int ending = r->ending.error;
	uint64_t blamed[FAN_RANK_WORDS];
	memcpy(blamed, r->ending.blamed, sizeof blamed); /* which another thread may set again */
	char why[FAN_FAULT_TEXT_BYTES];
	memcpy(why, r->ending.why, sizeof why);
	bool complete = r->asked.complete && r->ready;
	r->asked.complete &= !complete;
	fan_op_queue_move(&r->ops.waiting, &r->asked.queued);
	pthread_mutex_unlock(&r->lock);
	if (more)
		fan_rank_join_more_parts(r, more);
	if (complete)
		fan_regroup_enable(r);
	if (ending && !atomic_load(&r->error)) {
		r->ops.progressed |= r->when.heard;
		end_done(r);
		memcpy(r->fate.blamed, blamed, sizeof r->fate.blamed);
		r->fate.cause = ending;
		fan_rank_fail(r, ending, *why ? why : fan_err_text(ending));
	}
	if (closing && !r->fate.leaving) {
		bool busy = r->ops.running_count || r->ops.waiting.head ||
			    (r->regroup && r->regroup->op_count);
		fan_rank_leave(r, busy ? FAN_E_RANK_LEFT : FAN_OK);
		fan_rank_end_all(r, FAN_E_CLOSED);
	}
	if (r->fate.leaving && r->ops.waiting.head)
		fan_rank_end_all(r, atomic_load(&r->error) ? atomic_load(&r->error) : FAN_E_CLOSED);
	return !closing || !(all_gone(r) || fan_clock_ns() >= r->when.leave_by_ns);
}

void *fan_rank_loop(void *rank)
{
	struct fan_rank *r = rank;
	struct epoll_event ev[FAN_RANK_EVENTS_MAX];
	uint64_t now_ns = fan_clock_ns();
	pthread_setname_np(pthread_self(), "fanin-worker");
	r->when.join_by_ns = now_ns + (uint64_t)fan_config_join_ms(&r->cfg) * FAN_MS;
	fan_rank_open_parts(r, now_ns);
	while (after_sleep(r)) {
		work(r);
		int n = epoll_wait(r->thread.epoll_fd, ev, FAN_RANK_EVENTS_MAX, before_sleep(r));
		receive(r, ev, n);
		receive_rings(r);
	}
	return NULL;
}
