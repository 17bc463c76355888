/* SPDX-License-Identifier: Apache-2.0 */
#include "host_comm.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lib/rank/rank.h"
#include "net/clock.h"

#define IDLE_MS 60000 /* of sleep without operations */
/* Fragments in flight of a host's columns together, on each connection.
 * Where hosts sum, links that are slow have fewer (share_meter.c). */
#define WINDOW_HOSTS 1024
#define WINDOW_NAMED 256
#define NET_BYTES    FAN_FAULT_TEXT_BYTES

/* ---- the other hosts ---- */

static void ring_own(void *arg)
{
	struct fan_host_comm *l = arg;
	fan_host_ring(l->s, l->board.me, FAN_HOST_WORK);
}

/* The ranks of the job that have number `number` on these hosts. */
static void list_lost(const struct fan_host_comm *l, int number, const uint64_t *hosts,
		      uint64_t *lost)
{
	for (unsigned h = 0; h < l->board.with.hosts && number < FAN_HOST_RANKS_MAX; h++)
		if (fan_ranks_has(hosts, h))
			fan_ranks_set(lost, l->rank_at[h][number]);
}

int fan_host_net_failed(struct fan_host_comm *l, int error, uint64_t *blamed)
{
	const struct fan_rank *net = l->net;
	assert(net && error != FAN_OK);
	struct fan_host_blame blame = {.cause = atomic_load(&net->error) ? net->fate.cause : 0};
	uint64_t lost[FAN_RANK_WORDS] = {0};
	if (blame.cause == FAN_E_RANK_LOST || blame.cause == FAN_E_RANK_LEFT ||
	    blame.cause == FAN_E_TIMEOUT) /* of this column */
		blame.cause = FAN_CAUSE_LOST(l->board.me);
	if (error <= FAN_CAUSE_LOST(0))
		error = FAN_E_RANK_LOST;
	blame.hosts = blame.cause ? net->fate.blamed : NULL;
	if (blame.cause <= FAN_CAUSE_LOST(0)) {
		list_lost(l, FAN_CAUSE_LOST(0) - blame.cause, net->fate.blamed, lost);
		blame.lost = lost;
	}
	fan_host_fail(l->s, l->board.me, error, fan_rank_error(net), &blame);
	if (blamed)
		memcpy(blamed, lost, sizeof lost);
	return error;
}

static bool send_share(void *ctx, const struct fan_op *op)
{
	struct fan_host_comm *l = ctx;
	const struct fan_op_args args = {
		.op = op->op,
		.reduce = op->reduce,
		.in = op->in ? op->in : op->out,
		.out = op->out,
		.count = op->count,
		.dtype = (int)op->dtype,
		.root = op->root,
		.mark = op->mark,
		.blocks = op->wire == FAN_BLOCK8 ? 1 : -1,
		.error = op->error,
		.notify = ring_own,
		.notify_arg = l,
	};
	struct fanin_op *handle;
	int e = l->sent_next - l->sent_first == FAN_HOST_SENT_MAX
			? FAN_E_BUSY
			: fan_rank_submit(l->net, &args, 1, false, &handle);
	if (!e)
		l->sent[l->sent_next++ % FAN_HOST_SENT_MAX] = handle;
	else if (e != FAN_E_BUSY)
		fan_host_net_failed(l, e, NULL);
	return !e;
}

/* Take the shares that have come back, in the order in which they were started. */
static void take_shares(struct fan_host_comm *l)
{
	while (l->sent_first < l->sent_next) {
		struct fanin_op *oldest = l->sent[l->sent_first % FAN_HOST_SENT_MAX];
		int e = fanin_op_test(oldest);
		if (e == FAN_E_PENDING)
			return;
		if (e) {
			fan_host_work(&l->board); /* with those before it, which are whole */
			fan_host_net_failed(l, e, NULL);
		}
		fan_host_returned(&l->board, e);
		fanin_op_free(oldest);
		l->sent_first++;
	}
}

static void end_net(struct fan_host_comm *l)
{
	struct fan_host_end e;
	fan_host_read_end(l->s, &e);
	if (l->net && e.cause)
		fan_rank_end(l->net, e.cause, "", e.blamed);
}

/* Number `me` lives: show that to any rank that has asked. */
static void beat(struct fan_host_segment *s, unsigned me)
{
	struct fan_host_rank *r = &s->rank[me];
	if (atomic_exchange(&r->asked, 0))
		atomic_fetch_add(&r->beats, 1);
}

/* ---- opening ---- */

/* While this rank waits for its column it beats, and looks whether its host has failed. */
static void join_on(void *host)
{
	struct fan_host_comm *l = host;
	if (!l->s)
		return; /* it has given up (tell_column) */
	beat(l->s, l->board.me);
	if (fan_host_error(&l->board))
		end_net(l);
}

/* The numbers of all ranks within their hosts. */
static void number_ranks(struct fan_host_comm *l, const struct fan_meeting *m, unsigned ranks)
{
	uint16_t next[FAN_MEETING_HOSTS_MAX] = {0};
	for (unsigned r = 0; r < ranks; r++) {
		assert(m->host_of[r] < m->hosts && next[m->host_of[r]] < FAN_HOST_RANKS_MAX);
		l->host_of[r] = m->host_of[r];
		l->number_of[r] = next[m->host_of[r]]++;
		l->rank_at[l->host_of[r]][l->number_of[r]] = (uint16_t)r;
	}
}

/* Join this rank's column, if it has one, within `join_ms`; 0: within the usual time. */
static int open_net(struct fan_rank *r, const struct fan_meeting *m, unsigned columns, int join_ms)
{
	const unsigned window = (*r->cfg.switch_addr ? WINDOW_NAMED : WINDOW_HOSTS) / columns;
	struct fan_host_comm *l = r->host;
	unsigned me = l->number_of[r->cfg.rank], host = l->host_of[r->cfg.rank];
	struct fan_config cfg = r->cfg;
	if (m->hosts < 2 || me >= columns)
		return FAN_OK;
	for (unsigned h = 0; h < m->hosts; h++) {
		l->owner[h] = l->rank_at[h][me];
		l->first[h] = l->rank_at[h][0];
	}
	cfg.rank = (int)host;
	cfg.ranks = (int)m->hosts;
	cfg.join_ms = join_ms ? join_ms : cfg.join_ms;
	fan_config_set_payload(&cfg);
	if (!cfg.window)
		cfg.window = window < FAN_SHARE_METER_COLUMN_LEAST ? FAN_SHARE_METER_COLUMN_LEAST
								   : (int)window;
	const struct fan_rank_column column = {
		.columns = columns,
		.global = l->owner,
		.host_first = l->first,
		.rank_at = (const uint16_t(*)[FAN_HOST_RANKS_MAX])l->rank_at,
		.gone = l->s ? &l->s->rank[me].gone : NULL,
	};
	return fan_rank_create_column(r, &cfg, &column, me, &l->net);
}

/* Ranks of this host have not come, so this rank ends.  The others of its column, who would wait
 * for it, learn who is to blame. */
static void set_column(struct fan_rank *r, const struct fan_meeting *m, unsigned columns)
{
	struct fan_host_comm *l = r->host;
	uint64_t here[FAN_RANK_WORDS] = {0};
	int rank = 0;
	fan_ranks_set(here, l->host_of[r->cfg.rank]);
	while (rank < r->cfg.ranks && !fan_ranks_has(l->memory.missing, (unsigned)rank))
		rank++;
	if (rank < r->cfg.ranks && !open_net(r, m, columns, fan_config_join_ms(&r->cfg) / 2) &&
	    l->net)
		fan_rank_end(l->net, FAN_CAUSE_LOST(l->number_of[rank]), "", here);
}

static int attach(struct fan_rank *r, const struct fan_meeting *m, unsigned columns, bool together)
{
	struct fan_host_comm *l = r->host;
	unsigned host = l->host_of[r->cfg.rank];
	const struct fan_host_seat h = {
		.nonce = m->host[host].nonce,
		.me = l->number_of[r->cfg.rank],
		.ranks = m->host[host].ranks,
		.columns = columns,
		/* others still wait for word of a failure when this has passed */
		.timeout_ms = fan_config_join_ms(&r->cfg) / 2,
		.together = together,
		.of_job = l->rank_at[host],
		.host = host,
	};
	int e = fan_host_attach(&l->memory, &h, r->sentence, sizeof r->sentence);
	memcpy(r->fate.blamed, l->memory.missing, sizeof r->fate.blamed);
	if (e && !together)
		set_column(r, m, columns);
	if (e)
		return e;
	l->s = l->memory.s;
	fan_host_open(&l->board, l->s, h.me, (uint16_t)r->cfg.rank, (unsigned)r->cfg.ranks);
	l->board.ranks = h.ranks;
	l->board.columns = h.columns;
	atomic_store(&l->s->rank[h.me].joining, 1);
	atomic_store(&l->s->rank[h.me].beats, 1);
	l->board.with = (struct fan_host_net){
		.hosts = m->hosts,
		.host = host,
		.parts = *r->cfg.switch_addr || m->hosts < 2 ? 0 : m->hosts,
		.start = send_share,
		.ctx = l,
	};
	return FAN_OK;
}

static void take_end(struct fan_rank *r)
{
	struct fan_host_end e;
	fan_host_read_end(r->host->s, &e);
	snprintf(r->sentence, sizeof r->sentence, "%s", e.why);
	memcpy(r->fate.blamed, e.lost, sizeof r->fate.blamed);
}

/* This rank cannot join its column.  If another rank of this host has named a cause before, that
 * counts: what this rank saw may follow from the end of that one, and of the aggregator in it. */
static int net_not_open(struct fan_rank *r, int error)
{
	struct fan_host_comm *l = r->host;
	int reported = fan_host_error(&l->board);
	if (reported) {
		take_end(r);
		return reported;
	}
	snprintf(r->sentence, sizeof r->sentence, "%s",
		 l->net ? fan_rank_error(l->net) : fan_err_text(error));
	return l->net ? fan_host_net_failed(l, error, r->fate.blamed)
		      : error; /* others may wait for it */
}

/* Return the ranks that any column of this host has lost, this rank's or not. */
static uint64_t gone(const struct fan_rank *r)
{
	const struct fan_host_segment *s = r->host->s;
	uint64_t all = 0;
	for (unsigned i = 0; i < r->host->board.ranks; i++)
		all |= atomic_load(&s->rank[i].gone);
	return all;
}

static void release(struct fan_rank *r)
{
	struct fan_host_comm *l = r->host;
	if (!l)
		return;
	fan_rank_destroy(l->net);
	while (l->sent_first < l->sent_next)
		fanin_op_free(l->sent[l->sent_first++ % FAN_HOST_SENT_MAX]);
	fan_host_detach(&l->memory);
	pthread_mutex_destroy(&l->drive);
	free(l);
}

/* From any thread: have somebody look at the queue. */
static void wake(struct fan_rank *r)
{
	struct fan_host_comm *l = r->host;
	fan_host_ring(l->s, l->board.me, FAN_HOST_WORK);
	fan_host_ring(l->s, l->board.me, FAN_HOST_CALL);
}

/* ---- rounds ---- */

static void start_ops(struct fan_rank *r, uint64_t now_ns)
{
	struct fan_host_comm *l = r->host;
	while (r->ops.waiting.head) {
		struct fan_op op = r->ops.waiting.head->op;
		unsigned root_host = l->host_of[op.root];
		op.root = l->number_of[op.root];
		if (!fan_host_start(&l->board, &op, root_host))
			return;
		r->ops.waiting.head->started_ns = now_ns;
		l->running[(l->board.next_op - 1) % FAN_HOST_OPS_MAX] =
			fan_op_queue_take(&r->ops.waiting);
	}
}

static void end_ops(struct fan_rank *r)
{
	struct fan_host_comm *l = r->host;
	const uint64_t done = l->board.first_op;
	struct fanin_stats net = {.size = sizeof net};
	assert(done <= l->board.next_op);
	if (l->ended == done)
		return;
	if (l->net)
		fan_rank_read_stats(l->net, &net);
	for (uint64_t n = l->ended; n < done; n++) {
		const struct fan_op *op = &l->running[n % FAN_HOST_OPS_MAX]->op;
		r->ops.done++;
		r->ops.bytes_done += op->count * fan_dtype_bytes(op->dtype);
	}
	pthread_mutex_lock(&r->lock);
	r->shown.stats = net;
	r->shown.stats.ops = r->ops.done;
	r->shown.stats.bytes = r->ops.bytes_done;
	r->shown.stats.hosts = l->board.with.hosts;
	r->shown.stats.host_ranks = l->board.ranks;
	r->shown.stats.sealed = r->cfg.keys.count != 0;
	fan_meeting_count_idle(r->hosts, &r->shown.stats);
	if (r->asked.room_waiters)
		pthread_cond_broadcast(&r->changed);
	pthread_mutex_unlock(&r->lock);
	for (; l->ended < done; l->ended++) {
		atomic_fetch_sub(&r->ops_open, 1);
		fan_op_end(l->running[l->ended % FAN_HOST_OPS_MAX], FAN_OK);
	}
}

static void end_all(struct fan_rank *r, int result)
{
	struct fan_host_comm *l = r->host;
	struct fanin_op *op;
	for (; l->ended < l->board.next_op; l->ended++) {
		atomic_fetch_sub(&r->ops_open, 1);
		fan_op_end(l->running[l->ended % FAN_HOST_OPS_MAX], result);
	}
	while ((op = fan_op_queue_take(&r->ops.waiting))) {
		atomic_fetch_sub(&r->ops_open, 1);
		fan_op_end(op, result);
	}
}

/* Fail the rank: all operations end, and no tensor is touched any more. */
static void fail(struct fan_rank *r, int error)
{
	pthread_mutex_lock(&r->lock);
	if (!atomic_load(&r->error)) {
		take_end(r);
		atomic_store_explicit(&r->error, error, memory_order_release);
	}
	fan_op_queue_move(&r->ops.waiting, &r->asked.queued);
	pthread_cond_broadcast(&r->changed);
	pthread_mutex_unlock(&r->lock);
	end_net(r->host);
	end_all(r, error);
}

static void end_by_error(struct fan_rank *r)
{
	int e = fan_host_error(&r->host->board);
	if (e && !atomic_load(&r->error)) { /* else no tensor is touched any more */
		fan_host_finish(&r->host->board);
		end_ops(r);
	}
	if (e)
		fail(r, e);
}

/* Take what callers have left.  False: the communicator is being destroyed. */
static bool take_queue(struct fan_rank *r)
{
	pthread_mutex_lock(&r->lock);
	fan_op_queue_move(&r->ops.waiting, &r->asked.queued);
	bool closing = r->asked.closing;
	r->host->asked = r->shown.snapshot.asked;
	pthread_mutex_unlock(&r->lock);
	return !closing;
}

/* How long to wait: from `now_ns` until `until_ns`, which is later, but for `look_ms` at most. */
static int wait_ms_of(int look_ms, uint64_t now_ns, uint64_t until_ns)
{
	return until_ns - now_ns < (uint64_t)look_ms * FAN_MS
		       ? (int)((until_ns - now_ns + FAN_MS - 1) / FAN_MS)
		       : look_ms;
}

/* With l->drive held: this rank's work, until `op` has ended, or all operations where it is
 * NULL; or it is `until_ns`, or the communicator is being destroyed. */
static void work(struct fan_rank *r, struct fanin_op *op, uint64_t until_ns)
{
	struct fan_host_comm *l = r->host;
	int look_ms = op && r->idle.call ? FAN_RANK_IDLE_MS : FAN_HOST_LOOK_MS;
	uint64_t idle_ns = fan_clock_ns();
	for (;;) {
		uint32_t heard = fan_host_received(&l->board, FAN_HOST_WORK);
		uint64_t now_ns = fan_clock_ns();
		if (op && r->idle.call && now_ns > idle_ns + FAN_RANK_IDLE_MS * FAN_MS) {
			r->idle.call(r->idle.arg);
			idle_ns = now_ns;
		}
		if (!take_queue(r))
			return;
		beat(l->s, l->board.me);
		start_ops(r, now_ns);
		if (l->net)
			take_shares(l);
		fan_host_work(&l->board);
		end_ops(r);
		fan_host_watch(r, now_ns);
		if (l->asked)
			fan_host_take_snapshot(r, now_ns);
		end_by_error(r);
		if (op ? fanin_op_test(op) != FAN_E_PENDING : !atomic_load(&r->ops_open))
			return;
		if (r->ops.waiting.head && fan_host_has_room(&l->board))
			continue; /* there is room now, and no bell rings for that */
		if (now_ns >= until_ns)
			return;
		fan_host_wait(&l->wait, &l->board, heard, wait_ms_of(look_ms, now_ns, until_ns));
	}
}

static void attend(struct fan_rank *r, struct fanin_op *op, uint64_t until_ns)
{
	struct fan_host_comm *l = r->host;
	if (pthread_mutex_trylock(&l->drive)) {
		wake(r); /* who works may be about to stop: then the thread goes on */
		return;
	}
	work(r, op, until_ns); /* whoever started others has woken the thread for them */
	pthread_mutex_unlock(&l->drive);
	if (fanin_op_test(op) == FAN_E_PENDING)
		wake(r);
}

/* The rank that works takes it before the next sleep; nobody does where this gets the right to
 * work. */
static void look(struct fan_rank *r)
{
	struct fan_host_comm *l = r->host;
	if (!pthread_mutex_trylock(&l->drive)) {
		fan_host_take_snapshot(r, fan_clock_ns());
		pthread_mutex_unlock(&l->drive);
		return;
	}
	pthread_mutex_lock(&r->lock);
	r->shown.snapshot.asked = true;
	wake(r);
	pthread_mutex_unlock(&r->lock);
}

/* An operation that waits watches by itself. */
static void ask(struct fan_rank *r)
{
	struct fan_host_comm *l = r->host;
	if (pthread_mutex_trylock(&l->drive))
		return;
	if (!atomic_load(&r->error)) {
		fan_host_search(r, fan_clock_ns());
		end_by_error(r);
	}
	pthread_mutex_unlock(&l->drive);
}

/* The host's ranks fail, and their columns with them; it need not work for that. */
static void end(struct fan_rank *r, int error, const char *why)
{
	struct fan_host_comm *l = r->host;
	fan_host_fail(l->s, l->board.me, error, why, &(struct fan_host_blame){.cause = error});
	fan_host_ring(l->s, l->board.me, FAN_HOST_CALL);
}

/* There are operations, or an error that no caller has had yet. */
static bool has_work(struct fan_rank *r)
{
	return atomic_load(&r->ops_open) ||
	       (fan_host_error(&r->host->board) && !atomic_load(&r->error));
}

static bool begin_round(struct fan_rank *r)
{
	pthread_mutex_lock(&r->lock);
	if (!r->ready)
		pthread_cond_broadcast(&r->changed);
	r->ready = true;
	bool closing = r->asked.closing;
	pthread_mutex_unlock(&r->lock);
	return !closing;
}

static void *run(void *rank)
{
	struct fan_rank *r = rank;
	struct fan_host_comm *l = r->host;
	pthread_setname_np(pthread_self(), "fanin-local");
	for (;;) { /* the bell first: who closes, or starts something, rings it afterwards */
		uint32_t heard = fan_host_received(&l->board, FAN_HOST_CALL);
		if (!begin_round(r))
			break;
		beat(l->s, l->board.me);
		if (has_work(r)) {
			pthread_mutex_lock(&l->drive);
			work(r, NULL, UINT64_MAX);
			pthread_mutex_unlock(&l->drive);
		} else {
			fan_host_sleep(&l->board, FAN_HOST_CALL, heard, IDLE_MS);
		}
	}
	pthread_mutex_lock(&l->drive);
	take_queue(r);
	fan_host_abandon(r);
	end_all(r, FAN_E_CLOSED);
	pthread_mutex_unlock(&l->drive);
	fan_host_leave(&l->board);
	return NULL;
}

static const struct fan_rank_kind by_memory = {
	.run = run,
	.wake = wake,
	.attend = attend,
	.join_on = join_on,
	.look = look,
	.ask = ask,
	.end = end,
	.gone = gone,
	.release = release,
};

int fan_host_comm_open(struct fan_rank *r, const struct fan_meeting *m, bool together)
{
	struct fan_host_comm *l = calloc(1, sizeof *l);
	r->kind = &by_memory;
	r->host = l;
	int e = l ? FAN_OK : FAN_E_NOMEM;
	snprintf(r->sentence, sizeof r->sentence, "%s", fan_err_text(FAN_E_NOMEM));
	if (!e)
		pthread_mutex_init(&l->drive, NULL);
	const bool named = *r->cfg.switch_addr;
	const unsigned columns = fan_host_columns(m, named);
	if (!e) {
		number_ranks(l, m, (unsigned)r->cfg.ranks);
		e = attach(r, m, columns, together);
	}
	if (!e && (e = open_net(r, m, columns, 0)))
		e = net_not_open(r, e);
	if (e) {
		atomic_store(&r->error, e);
	} else {
		atomic_store(&l->s->rank[l->board.me].joining, 0);
		*r->sentence = '\0';
	}
	return e;
}
