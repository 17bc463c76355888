/* SPDX-License-Identifier: Apache-2.0 */
/* progress.c - the thread of a communicator: the only one that runs the core.
 *
 * A round: sleep in epoll until a socket, a caller or the core's deadline; take in what
 * came; start what was queued; send what can be sent; tell who waits.  It never spins:
 * a round without sleep follows only on a round that left work. */
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <unistd.h>

#include "comm.h"
#include "net/clock.h"

/* Joining and leaving. */

/* The most fragments that a rank may have sent without their results; 0: no bound of ours. */
static uint16_t window_of(const struct fan_config *cfg)
{
	int frags = cfg->ahead ? cfg->ahead : cfg->window ? cfg->window : FAN_WINDOW_MAX;
	return (uint16_t)(frags < 2 ? 2 : frags);
}

/* Parts that the plan gives less share links with larger ones: so that none takes more than
 * planned while it lasts, their windows are as their rates.  Without a plan all parts leave by this
 * rank's link, whose queue must not get longer by their number.  In 1 / 65536; 0: all. */
static uint16_t window_share(const struct fanin_comm *c, const struct fan_job_part *part)
{
	double most = 0;
	if (!c->client.on)
		return (uint16_t)(c->parts < 2 ? 0 : 65536 / c->parts);
	for (unsigned k = 0; k < c->parts; k++)
		most = c->part[k].gbps > most ? c->part[k].gbps : most;
	double share = most > 0 ? part->gbps / most * 65536 : 65536;
	return (uint16_t)(share >= 65536 ? 0 : share < 1 ? 1 : share);
}

/* Results of one part queue behind contributions to others on the same links: asking for them
 * sooner than queues empty makes them longer.  So it is where ranks run ahead. */
static uint32_t rto_min_ms(const struct fanin_comm *c)
{
	bool queues = c->cfg.ahead || (c->parts > 1 && !c->client.on);
	if (c->cfg.rto_min_ms)
		return (uint32_t)c->cfg.rto_min_ms;
	return queues ? FAN_COMM_RTO_QUEUED_MS : FAN_RTO_MIN_NS / FAN_MS;
}

/* Of several switches on spare hosts each hears what the others multicast, unless the network knows
 * who is in a group, and many do not.  The links that are full are no shorter by it: an aggregator
 * gets as many bytes as it sends by unicast. */
static bool wants_group(const struct fanin_comm *c)
{
	return c->cfg.multicast < 0 ? c->parts < 2 || c->client.on : c->cfg.multicast;
}

static struct fan_worker_config worker_config(const struct fanin_comm *c,
					      const struct fan_job_part *part, uint64_t now_ns)
{
	const struct fan_config *cfg = &c->cfg;
	uint64_t left_ms = c->join_by_ns > now_ns ? (c->join_by_ns - now_ns) / FAN_MS : 0;
	struct fan_worker_config w = {
		.rank = (uint16_t)cfg->rank,
		.ranks = (uint16_t)cfg->ranks,
		.payload_bytes = cfg->payload_bytes,
		.window_max = window_of(cfg),
		.burst_max = (uint16_t)(cfg->ahead ? cfg->window : 0),
		.options = (uint8_t)((wants_group(c) ? FAN_JOIN_GROUP : 0) |
				     (cfg->checksum ? FAN_JOIN_SUMMED : 0) |
				     (cfg->narrow ? 0 : FAN_JOIN_WIDE) |
				     (cfg->ahead ? FAN_JOIN_AHEAD : 0)),
		.alive_ms = (uint32_t)cfg->alive_ms,
		.rto_min_ms = rto_min_ms(c),
		.join_ms = (uint32_t)left_ms + 1,
		.stall_ms = (uint32_t)cfg->timeout_ms,
		.route = part->route,
		.share = window_share(c, part),
		.nonce = fan_clock_nonce(),
		.priority = fan_priority_default,
		.cache_frags = (uint32_t)cfg->cache,
	};
	memcpy(w.name, part->name, sizeof w.name);
	return w;
}

void fan_comm_open_connection(struct fanin_comm *c, unsigned number, uint64_t now_ns)
{
	struct fan_connection *cn = &c->connection[number];
	const struct fan_job_part *part = &c->part[cn->part];
	struct fan_worker_config cfg = worker_config(c, part, now_ns);
	char why[FAN_CONNECTION_WHY_BYTES];
	fan_connection_close(cn);
	cn->number = number;
	cn->again_ns = 0;
	cn->behind = false;
	cn->epoll_fd = c->epoll_fd;
	cn->plain = c->cfg.plain_udp;
	cn->server_addr = c->server_addr;
	if (!fan_peer_is_none(&c->server_addr))
		cn->server_addr.port += cn->cut.shard;
	int e = fan_connection_open(cn, &cfg, &part->at, now_ns, why);
	if (e)
		fan_comm_fail(c, e, why);
}

/* One more connection: shard `shard` of part `k`. */
static void add_connection(struct fanin_comm *c, unsigned k, unsigned shard, uint64_t now_ns)
{
	struct fan_connection *cn = &c->connection[c->connections];
	cn->part = k;
	cn->cut = (struct fan_cut){c->part[k].from, c->part[k].to, shard, 1};
	fan_comm_open_connection(c, c->connections, now_ns);
	if (cn->w)
		c->connections++;
}

void fan_comm_open_parts(struct fanin_comm *c, uint64_t now_ns)
{
	for (unsigned k = 0; k < c->parts && !atomic_load(&c->error); k++)
		add_connection(c, k, 0, now_ns);
}

/* Each connection of a part has its share of the plan's rate. */
void fan_comm_set_rate_limit(struct fanin_comm *c, unsigned k)
{
	for (unsigned i = 0; i < c->connections && c->shards[k]; i++)
		if (c->connection[i].part == k)
			fan_connection_set_rate_limit(&c->connection[i], c->part[k].gbps *
										 c->cfg.pace / 100 /
										 c->shards[k]);
}

/* All connections of part `k` share what its cut has. */
static void share(struct fanin_comm *c, unsigned k, unsigned shards)
{
	for (unsigned i = 0; i < c->connections; i++)
		if (c->connection[i].part == k)
			c->connection[i].cut.shards = shards;
	c->shards[k] = shards;
	fan_comm_set_rate_limit(c, k);
}

/* Once a part's switch has answered its first connection, there is one connection for each of its
 * shards. */
static void open_shards(struct fanin_comm *c, unsigned k, uint64_t now_ns)
{
	const struct fan_welcome *m = fan_worker_welcome(c->connection[k].w);
	if (c->shards[k] || !m)
		return;
	unsigned shards = m->shards < FAN_SHARDS_MAX ? m->shards : FAN_SHARDS_MAX;
	if (c->connections + shards - 1 > FAN_SHARDS_MAX) {
		fan_comm_fail(c, FAN_E_SHARDS,
			      "the plan has more parts, times the threads of their switches, than "
			      "a rank can be in: at most 64");
		return;
	}
	for (unsigned i = 1; i < shards && !atomic_load(&c->error); i++)
		add_connection(c, k, i, now_ns);
	share(c, k, shards ? shards : 1);
}

static bool gone(const struct fan_connection *cn)
{
	enum fan_worker_phase phase = cn->w ? fan_worker_phase(cn->w) : FAN_W_LEFT;
	return phase == FAN_W_LEFT;
}

static bool all_gone(const struct fanin_comm *c)
{
	for (unsigned i = 0; i < c->connections; i++)
		if (!gone(&c->connection[i]))
			return false;
	return true; /* also without any */
}

/* What the aggregators of other parts are told when `error` ends the communicator. */
static int leave_error(const struct fanin_comm *c, int error)
{
	bool own = fan_ranks_has(c->blamed, (unsigned)c->cfg.rank);
	bool host = c->host_first; /* it is this host's switch; the column's rank may live */
	return error == FAN_E_UNREACHABLE && !own && !host ? FAN_E_RANK_LOST : error;
}

/* No connection touches a tensor after this. */
static void leave(struct fanin_comm *c, int error)
{
	uint64_t now_ns = fan_clock_ns();
	if (c->leaving)
		return;
	c->leaving = true;
	c->leave_by_ns = now_ns + FAN_COMM_LEAVE_NS;
	for (unsigned i = 0; i < c->connections; i++) {
		struct fan_connection *cn = &c->connection[i];
		if (!cn->w)
			continue;
		fan_worker_leave(cn->w, now_ns, leave_error(c, error), c->blamed);
		cn->news = true;
	}
}

/* Statistics. */

static void publish_stats(struct fanin_comm *c)
{
	struct fanin_stats stats = fan_comm_collect_stats(c);
	pthread_mutex_lock(&c->lock);
	c->stats = stats;
	pthread_mutex_unlock(&c->lock);
}

/* Ends. */

static void count_op(struct fanin_comm *c, const struct fanin_op *op)
{
	c->ops_done++;
	c->bytes_done += op->op.count * fan_dtype_bytes(op->op.dtype);
}

/* `op` is over: make room, then tell.  `op` may be gone afterwards. */
static void end_op(struct fanin_comm *c, struct fanin_op *op, int result)
{
	atomic_fetch_sub(&c->ops_open, 1);
	fan_op_end(op, result);
}

static void end_all(struct fanin_comm *c, int result)
{
	struct fanin_op *op;
	for (unsigned i = 0; i < c->running_count; i++)
		end_op(c, c->running[i], result);
	c->running_count = 0;
	while ((op = fan_op_queue_take(&c->waiting)))
		end_op(c, op, result);
}

void fan_comm_fail(struct fanin_comm *c, int error, const char *sentence)
{
	if (atomic_load(&c->error))
		return;
	pthread_mutex_lock(&c->lock);
	snprintf(c->sentence, sizeof c->sentence, "%s", sentence);
	atomic_store_explicit(&c->error, error, memory_order_release);
	fan_op_queue_move(&c->waiting, &c->queued);
	pthread_cond_broadcast(&c->changed);
	pthread_mutex_unlock(&c->lock);
	leave(c, error);
	end_all(c, error);
}

/* What fault `f` of connection `cn` is, in a sentence. */
static void fault_text(const struct fanin_comm *c, const struct fan_connection *cn,
		       const struct fan_fault *f, char *text, size_t bytes)
{
	char addr[80];
	struct fan_fault_about about = {
		.job = c->client.on ? c->part[cn->part].name : c->cfg.job,
		.switch_addr = fan_peer_text(&cn->switch_addr, addr, sizeof addr),
		.rank = (uint16_t)c->cfg.rank,
		.ranks = (uint16_t)c->cfg.ranks,
		.global = c->global,
		.host_first = c->inside[cn->part] >= 0 ? c->host_first : NULL,
		.payload_bytes = c->cfg.payload_bytes,
		.alive_ms = (uint32_t)c->cfg.alive_ms,
		.timeout_ms = (uint32_t)c->cfg.timeout_ms,
		.joined = fan_worker_welcome(cn->w) != NULL,
		.refused = cn->refused,
		.inside = c->inside[cn->part],
	};
	fan_fault_text(text, bytes, f, &about);
}

/* The aggregator of part `k` is silent.  Those of other parts tell the other ranks whose fault that
 * is: of the rank it is inside; otherwise this rank says that it has lost one. */
static void blame_for_silence(struct fanin_comm *c, unsigned k)
{
	int rank = c->inside[k]; /* of the job; in a column, its rank of that host */
	for (int i = 0; c->global && rank >= 0 && i < c->cfg.ranks; i++)
		if (c->host_first[i] == c->inside[k])
			rank = i;
	fan_ranks_set(c->blamed, (unsigned)(rank < 0 ? c->cfg.rank : rank));
}

/* Connection `cn` has failed: say why. */
static void fail_by_core(struct fanin_comm *c, const struct fan_connection *cn)
{
	char text[FAN_FAULT_TEXT_BYTES];
	const struct fan_fault *f = fan_worker_fault(cn->w);
	memcpy(c->blamed, f->ranks, sizeof c->blamed);
	if (f->err == FAN_E_UNREACHABLE && !fan_ranks_count(f->ranks))
		blame_for_silence(c, cn->part);
	fault_text(c, cn, f, text, sizeof text);
	fan_comm_fail(c, f->err, text);
}

static void fail_by_socket(struct fanin_comm *c, const struct fan_connection *cn)
{
	char text[FAN_FAULT_TEXT_BYTES], addr[80];
	int mtu;
	if (fan_connection_too_long(cn, &mtu)) {
		fan_connection_mtu_text(cn, mtu, text);
		fan_comm_fail(c, FAN_E_MTU, text);
	} else if (cn->io_errno) {
		snprintf(text, sizeof text, "the socket to the switch %s is broken: %s",
			 fan_peer_text(&cn->switch_addr, addr, sizeof addr),
			 strerror(cn->io_errno));
		fan_comm_fail(c, FAN_E_SYSTEM, text);
	}
}

/* Operations. */

/* Start `op` on the connections where it has not been.  False: one has no room yet. */
static bool start_op(struct fanin_comm *c, struct fanin_op *op, uint64_t now_ns)
{
	for (; op->connections < c->connections; op->connections++) {
		struct fan_connection *cn = &c->connection[op->connections];
		struct fan_op part = fan_op_part(&op->op, &cn->cut);
		int e = fan_worker_start(cn->w, now_ns, &part, &op->id);
		if (e == FAN_E_BUSY)
			return false;
		if (e) {
			if (fan_worker_phase(cn->w) == FAN_W_FAILED)
				fail_by_core(c, cn);
			else
				fan_comm_fail(c, e, fan_err_text(e));
			return false;
		}
		cn->news = true;
	}
	return true;
}

static void start_ops(struct fanin_comm *c, uint64_t now_ns)
{
	while (c->waiting.head && c->running_count < FAN_OPS_MAX) {
		if (!c->running_count)
			c->quiet_ns = now_ns;
		if (!start_op(c, c->waiting.head, now_ns))
			return;
		c->running[c->running_count++] = fan_op_queue_take(&c->waiting);
		c->progressed = true;
	}
}

/* Every connection gave it the same number, since every connection got every operation. */
static bool is_done(struct fanin_comm *c, struct fanin_op *op)
{
	while (op->connections_done < c->connections &&
	       fan_worker_test(c->connection[op->connections_done].w, op->id) == FAN_OK)
		op->connections_done++;
	return op->connections_done == c->connections;
}

static void end_done(struct fanin_comm *c)
{
	struct fanin_op *done[FAN_OPS_MAX];
	unsigned kept = 0, ended = 0;
	if (!c->progressed)
		return;
	c->progressed = false;
	for (unsigned i = 0; i < c->running_count; i++) {
		if (is_done(c, c->running[i]))
			done[ended++] = c->running[i];
		else
			c->running[kept++] = c->running[i];
	}
	c->running_count = kept;
	for (unsigned i = 0; i < ended; i++)
		count_op(c, done[i]);
	if (ended)
		publish_stats(c); /* who has waited for one finds it counted */
	for (unsigned i = 0; i < ended; i++)
		end_op(c, done[i], FAN_OK);
}

/* Rounds. */

static void receive(struct fanin_comm *c, const struct epoll_event *ev, int count)
{
	for (int i = 0; i < count; i++) {
		unsigned number = ev[i].data.u32;
		uint64_t wakes;
		if (number == FAN_COMM_CONTROLLER)
			c->client.news = true;
		else if (number != FAN_COMM_WAKE)
			c->heard |= fan_connection_recv(&c->connection[number / 2], c->io,
							number % 2 == 1);
		else if (read(c->wake_fd, &wakes, sizeof wakes) < 0)
			continue; /* it was read before */
	}
}

/* Note for how long no result has come, where one was waited for. */
static void note_gap(struct fanin_comm *c, uint64_t now_ns)
{
	if (c->running_count && now_ns - c->quiet_ns > c->gap_ns)
		c->gap_ns = now_ns - c->quiet_ns;
	if (!c->heard)
		return;
	c->quiet_ns = c->result_ns = now_ns;
	c->progressed = true;
	c->heard = false;
}

/* Publish that all ranks are here, once. */
static void check_ready(struct fanin_comm *c)
{
	for (unsigned k = 0; k < c->parts; k++)
		if (!c->shards[k])
			return;
	for (unsigned i = 0; i < c->connections; i++)
		if (fan_worker_phase(c->connection[i].w) != FAN_W_READY)
			return;
	if (!c->parts)
		return;
	pthread_mutex_lock(&c->lock);
	c->ready = true;
	pthread_cond_broadcast(&c->changed);
	pthread_mutex_unlock(&c->lock);
}

/* See how the connections stand, which may end the communicator. */
static void check_connections(struct fanin_comm *c, uint64_t now_ns)
{
	for (unsigned i = 0; i < c->connections && !atomic_load(&c->error); i++) {
		struct fan_connection *cn = &c->connection[i];
		if (fan_worker_phase(cn->w) != FAN_W_FAILED)
			fail_by_socket(c, cn);
		else if (c->ready || !fan_comm_client_forgives(c, cn, now_ns))
			fail_by_core(c, cn);
		if (!c->ready && cn->w)
			fan_connection_listen(cn);
	}
	if (c->ready || atomic_load(&c->error))
		return;
	for (unsigned k = 0; k < c->parts && !atomic_load(&c->error); k++)
		open_shards(c, k, now_ns);
	if (!atomic_load(&c->error))
		check_ready(c);
}

/* Connections proceed in step: one that has less left than another has less in flight.  Otherwise
 * the host whose link has the longest queue gets its part done early, since contributions to it are
 * most of what is in that queue, and delays the results of all other parts. */
static void keep_in_step(struct fanin_comm *c)
{
	uint64_t most = 0;
	if (c->parts < 2 || c->client.on)
		return;
	for (unsigned i = 0; i < c->connections; i++) {
		uint64_t left = c->connection[i].w ? fan_worker_left(c->connection[i].w) : 0;
		most = left > most ? left : most;
	}
	for (unsigned i = 0; i < c->connections; i++) {
		struct fan_worker *w = c->connection[i].w;
		uint64_t ahead = w ? most - fan_worker_left(w) : 0;
		if (w)
			fan_worker_allow(w, ahead < FAN_COMM_STEP ? FAN_COMM_STEP - (uint32_t)ahead
								  : 0);
	}
}

static void work(struct fanin_comm *c)
{
	uint64_t now_ns = fan_clock_ns();
	note_gap(c, now_ns);
	fan_comm_client_work(c, now_ns);
	if (!c->leaving) {
		check_connections(c, now_ns);
		start_ops(c, now_ns);
		end_done(c);
	}
	for (unsigned i = 0; i < c->connections; i++)
		if (c->connection[i].w)
			fan_failover_choose(&c->connection[i], c->io, now_ns);
	keep_in_step(c);
	for (unsigned i = 0; i < c->connections; i++)
		if (c->connection[i].w)
			fan_connection_send(&c->connection[i], c->io, now_ns);
}

static uint64_t connection_deadline(const struct fanin_comm *c, const struct fan_connection *cn)
{
	if (!cn->w || gone(cn))
		return UINT64_MAX;
	if (!c->leaving && fan_worker_phase(cn->w) == FAN_W_FAILED)
		return cn->again_ns; /* 0: the next round tells the callers */
	if (cn->news)
		return fan_connection_free_ns(cn);
	uint64_t failover_ns = fan_failover_deadline(cn), core_ns = fan_worker_deadline(cn->w);
	return failover_ns < core_ns ? failover_ns : core_ns;
}

/* What is waited for before the communicator is ready. */
static void wait_text(const struct fanin_comm *c, char *text, size_t bytes)
{
	const struct fan_connection *cn = NULL;
	if (!c->parts) {
		fan_comm_client_text(c, text, bytes);
		return;
	}
	for (unsigned i = 0; i < c->connections && !cn; i++)
		if (c->connection[i].w && fan_worker_phase(c->connection[i].w) == FAN_W_JOINING)
			cn = &c->connection[i];
	if (!cn) {
		snprintf(text, bytes, "not all ranks have joined job \"%s\" yet", c->cfg.job);
		return;
	}
	const struct fan_fault silent = {.err = FAN_E_UNREACHABLE};
	fault_text(c, cn, &silent, text, bytes);
}

/* Write it down for who waits in create, now and then. */
static void note_wait(struct fanin_comm *c)
{
	char text[FAN_FAULT_TEXT_BYTES];
	uint64_t now_ns = fan_clock_ns();
	if (c->ready || atomic_load(&c->error) || now_ns < c->note_ns)
		return;
	c->note_ns = now_ns + FAN_COMM_NOTE_FIRST_MS / 4 * FAN_MS;
	wait_text(c, text, sizeof text);
	pthread_mutex_lock(&c->lock);
	memcpy(c->wait_text, text, sizeof text);
	pthread_mutex_unlock(&c->lock);
}

/* Publish and decide how long to sleep, in milliseconds; -1: until woken. */
static int before_sleep(struct fanin_comm *c)
{
	struct fanin_stats stats = fan_comm_collect_stats(c);
	note_wait(c);
	uint64_t deadline_ns = fan_comm_client_deadline(c);
	if (!c->ready && !atomic_load(&c->error) && c->note_ns < deadline_ns)
		deadline_ns = c->note_ns;
	for (unsigned i = 0; i < c->connections; i++) {
		uint64_t d = connection_deadline(c, &c->connection[i]);
		deadline_ns = d < deadline_ns ? d : deadline_ns;
	}
	pthread_mutex_lock(&c->lock);
	if (c->closing && c->leave_by_ns < deadline_ns)
		deadline_ns = c->leave_by_ns;
	c->stats = stats;
	if (c->room_waiters)
		pthread_cond_broadcast(&c->changed);
	bool more = c->queued.head || (c->closing && (!c->leaving || all_gone(c))) ||
		    (c->waiting.head && c->running_count < FAN_OPS_MAX);
	c->awake = more;
	pthread_mutex_unlock(&c->lock);
	return more ? 0 : fan_clock_timeout_ms(deadline_ns, -1);
}

/* Take what callers have left.  Returns false when the thread shall end. */
static bool after_sleep(struct fanin_comm *c)
{
	pthread_mutex_lock(&c->lock);
	c->awake = true;
	bool closing = c->closing;
	fan_op_queue_move(&c->waiting, &c->queued);
	pthread_mutex_unlock(&c->lock);
	if (closing && !c->leaving) {
		bool busy = c->running_count || c->waiting.head;
		leave(c, busy ? FAN_E_RANK_LEFT : FAN_OK);
		end_all(c, FAN_E_CLOSED);
	}
	if (c->leaving && c->waiting.head)
		end_all(c, atomic_load(&c->error) ? atomic_load(&c->error) : FAN_E_CLOSED);
	return !closing || !(all_gone(c) || fan_clock_ns() >= c->leave_by_ns);
}

void *fan_progress(void *comm)
{
	struct fanin_comm *c = comm;
	struct epoll_event ev[FAN_COMM_EVENTS_MAX];
	uint64_t now_ns = fan_clock_ns();
	pthread_setname_np(pthread_self(), "fanin-worker");
	c->join_by_ns = now_ns + (uint64_t)c->cfg.timeout_ms * FAN_MS;
	fan_comm_open_parts(c, now_ns);
	while (after_sleep(c)) {
		work(c);
		int n = epoll_wait(c->epoll_fd, ev, FAN_COMM_EVENTS_MAX, before_sleep(c));
		receive(c, ev, n);
	}
	return NULL;
}
