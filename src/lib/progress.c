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
 * planned while it lasts, their windows are as their rates.  In 1 / 65536; 0: all. */
static uint16_t window_share(const struct fanin_comm *c, const struct fan_job_part *part)
{
	double most = 0;
	for (unsigned k = 0; k < c->parts; k++)
		most = c->part[k].gbps > most ? c->part[k].gbps : most;
	double share = most > 0 ? part->gbps / most * 65536 : 65536;
	return (uint16_t)(share >= 65536 ? 0 : share < 1 ? 1 : share);
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
		.options = (uint8_t)((cfg->multicast ? FAN_JOIN_GROUP : 0) |
				     (cfg->checksum ? FAN_JOIN_SUMMED : 0) |
				     (cfg->narrow ? 0 : FAN_JOIN_WIDE) |
				     (cfg->ahead ? FAN_JOIN_AHEAD : 0)),
		.alive_ms = (uint32_t)cfg->alive_ms,
		.rto_min_ms = (uint32_t)cfg->rto_min_ms,
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

void fan_comm_open_lane(struct fanin_comm *c, unsigned number, uint64_t now_ns)
{
	struct fan_lane *l = &c->lane[number];
	const struct fan_job_part *part = &c->part[l->part];
	struct fan_worker_config cfg = worker_config(c, part, now_ns);
	char why[FAN_LANE_WHY_BYTES];
	fan_lane_close(l);
	l->number = number;
	l->again_ns = 0;
	l->behind = false;
	l->epoll_fd = c->epoll_fd;
	l->plain = c->cfg.plain_udp;
	l->server_addr = c->server_addr;
	if (!fan_peer_is_none(&c->server_addr))
		l->server_addr.port += l->cut.shard;
	int e = fan_lane_open(l, &cfg, &part->at, now_ns, why);
	if (e)
		fan_comm_fail(c, e, why);
}

/* One more lane: shard `shard` of part `k`. */
static void add_lane(struct fanin_comm *c, unsigned k, unsigned shard, uint64_t now_ns)
{
	struct fan_lane *l = &c->lane[c->lanes];
	l->part = k;
	l->cut = (struct fan_cut){c->part[k].from, c->part[k].to, shard, 1};
	fan_comm_open_lane(c, c->lanes, now_ns);
	if (l->w)
		c->lanes++;
}

void fan_comm_open_parts(struct fanin_comm *c, uint64_t now_ns)
{
	for (unsigned k = 0; k < c->parts && !atomic_load(&c->error); k++)
		add_lane(c, k, 0, now_ns);
}

/* Each lane of a part has its share of the plan's rate. */
void fan_comm_set_pace(struct fanin_comm *c, unsigned k)
{
	for (unsigned i = 0; i < c->lanes && c->shards[k]; i++)
		if (c->lane[i].part == k)
			fan_lane_set_pace(&c->lane[i],
					  c->part[k].gbps * c->cfg.pace / 100 / c->shards[k]);
}

/* All lanes of part `k` share what its cut has. */
static void share(struct fanin_comm *c, unsigned k, unsigned shards)
{
	for (unsigned i = 0; i < c->lanes; i++)
		if (c->lane[i].part == k)
			c->lane[i].cut.shards = shards;
	c->shards[k] = shards;
	fan_comm_set_pace(c, k);
}

/* Once a part's switch has answered its first lane, there is one lane for each of its shards. */
static void open_shards(struct fanin_comm *c, unsigned k, uint64_t now_ns)
{
	const struct fan_welcome *m = fan_worker_welcome(c->lane[k].w);
	if (c->shards[k] || !m)
		return;
	unsigned shards = m->shards < FAN_SHARDS_MAX ? m->shards : FAN_SHARDS_MAX;
	if (c->lanes + shards - 1 > FAN_SHARDS_MAX) {
		fan_comm_fail(c, FAN_E_SHARDS,
			      "the plan has more parts, times the threads of their switches, than "
			      "a rank can be in: at most 64");
		return;
	}
	for (unsigned i = 1; i < shards && !atomic_load(&c->error); i++)
		add_lane(c, k, i, now_ns);
	share(c, k, shards ? shards : 1);
}

static bool gone(const struct fan_lane *l)
{
	enum fan_worker_phase phase = l->w ? fan_worker_phase(l->w) : FAN_W_LEFT;
	return phase == FAN_W_LEFT;
}

static bool all_gone(const struct fanin_comm *c)
{
	for (unsigned i = 0; i < c->lanes; i++)
		if (!gone(&c->lane[i]))
			return false;
	return true; /* also without any */
}

/* No lane touches a tensor after this. */
static void leave(struct fanin_comm *c, int error)
{
	uint64_t now_ns = fan_clock_ns();
	if (c->leaving)
		return;
	c->leaving = true;
	c->leave_by_ns = now_ns + FAN_COMM_LEAVE_NS;
	for (unsigned i = 0; i < c->lanes; i++) {
		struct fan_lane *l = &c->lane[i];
		if (!l->w)
			continue;
		fan_worker_leave(l->w, now_ns, error, c->blamed);
		l->news = true;
	}
}

/* Statistics. */

/* How far it runs ahead of others, and what it keeps for them. */
static void add_run_ahead(struct fanin_stats *s, const struct fan_lane *l,
			  const struct fan_worker_stats *w)
{
	const struct fan_welcome *m = fan_worker_welcome(l->w);
	uint32_t burst = m ? m->burst : 0;
	s->window_frags += burst ? burst : w->window;
	if (!burst)
		return;
	s->ahead_frags += w->window;
	s->ahead_now_frags += w->next > w->slowest ? (uint32_t)(w->next - w->slowest) : 0;
	s->cache_frags += w->cache.frags;
	s->cache_open += w->cache.open;
	s->cache_peak += w->cache.peak;
	s->cache_parts += w->cache.parts;
	s->cache_done += w->cache.done;
	s->cache_early += w->cache.early;
	s->cache_over += w->cache.over;
}

static void add_stats(struct fanin_stats *s, const struct fan_lane *l)
{
	const struct fan_worker_stats *w = fan_worker_stats(l->w);
	s->fragments += w->results;
	s->sent += w->sent;
	s->retransmits += w->resent;
	s->probes += w->probes;
	s->replays += w->replays;
	s->marks += w->marks;
	s->collisions += w->collisions;
	s->cwnd_frags += w->cwnd;
	s->moves += l->way.moves;
	s->server |= l->way.at_server;
	for (unsigned i = 0; i < FAN_DROP_COUNT; i++)
		s->drops += w->drops[i];
	s->srtt_ns = s->srtt_ns > w->srtt_ns ? s->srtt_ns : w->srtt_ns;
	add_run_ahead(s, l, w);
	s->segment_offload &= l->udp.segment;
	s->receive_offload &= l->udp.gro;
	s->multicast &= l->by_group && w->multicast;
}

static struct fanin_stats collect_stats(const struct fanin_comm *c)
{
	struct fanin_stats s = {
		.size = sizeof s,
		.ops = c->ops_done,
		.bytes = c->bytes_done,
		.packet_bytes = FAN_HEAD_BYTES + c->cfg.payload_bytes,
		.shards = c->lanes,
		.parts = c->parts,
		.result_ns = c->result_ns,
		.gap_ns = c->gap_ns,
		.ahead_asked = (uint32_t)c->cfg.ahead,
		.multicast = 1,
		.segment_offload = 1,
		.receive_offload = 1,
	};
	for (unsigned i = 0; i < c->lanes; i++)
		if (c->lane[i].w)
			add_stats(&s, &c->lane[i]);
	return s;
}

static void publish_stats(struct fanin_comm *c)
{
	struct fanin_stats stats = collect_stats(c);
	pthread_mutex_lock(&c->lock);
	c->stats = stats;
	pthread_mutex_unlock(&c->lock);
}

/* Ends. */

static void count_op(struct fanin_comm *c, const struct fanin_op *op)
{
	c->ops_done++;
	c->bytes_done += op->whole.count * fan_dtype_bytes(op->whole.dtype);
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

/* What fault `f` of lane `l` is, in a sentence. */
static void fault_text(const struct fanin_comm *c, const struct fan_lane *l,
		       const struct fan_fault *f, char *text, size_t bytes)
{
	char addr[80];
	struct fan_fault_about about = {
		.job = c->part[l->part].name,
		.switch_addr = fan_peer_text(&l->switch_addr, addr, sizeof addr),
		.rank = (uint16_t)c->cfg.rank,
		.ranks = (uint16_t)c->cfg.ranks,
		.payload_bytes = c->cfg.payload_bytes,
		.alive_ms = (uint32_t)c->cfg.alive_ms,
		.timeout_ms = (uint32_t)c->cfg.timeout_ms,
		.joined = fan_worker_welcome(l->w) != NULL,
		.refused = l->refused,
		.inside = c->meets,
	};
	fan_fault_text(text, bytes, f, &about);
}

/* Lane `l` has failed: say why. */
static void fail_by_core(struct fanin_comm *c, const struct fan_lane *l)
{
	char text[FAN_FAULT_TEXT_BYTES];
	const struct fan_fault *f = fan_worker_fault(l->w);
	memcpy(c->blamed, f->ranks, sizeof c->blamed);
	fault_text(c, l, f, text, sizeof text);
	fan_comm_fail(c, f->err, text);
}

static void fail_by_socket(struct fanin_comm *c, const struct fan_lane *l)
{
	char text[FAN_FAULT_TEXT_BYTES], addr[80];
	int mtu;
	if (fan_lane_too_long(l, &mtu)) {
		fan_lane_mtu_text(l, mtu, text);
		fan_comm_fail(c, FAN_E_MTU, text);
	} else if (l->io_errno) {
		snprintf(text, sizeof text, "the socket to the switch %s is broken: %s",
			 fan_peer_text(&l->switch_addr, addr, sizeof addr), strerror(l->io_errno));
		fan_comm_fail(c, FAN_E_SYSTEM, text);
	}
}

/* Operations. */

/* Start `op` on the lanes where it has not been.  False: one has no room yet. */
static bool start_op(struct fanin_comm *c, struct fanin_op *op, uint64_t now_ns)
{
	for (; op->lanes < c->lanes; op->lanes++) {
		struct fan_lane *l = &c->lane[op->lanes];
		struct fan_op part = fan_op_part(&op->whole, &l->cut);
		int e = fan_worker_start(l->w, now_ns, &part, &op->id);
		if (e == FAN_E_BUSY)
			return false;
		if (e) {
			if (fan_worker_phase(l->w) == FAN_W_FAILED)
				fail_by_core(c, l);
			else
				fan_comm_fail(c, e, fan_err_text(e));
			return false;
		}
		l->news = true;
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

/* Every lane gave it the same number, since every lane got every operation. */
static bool is_done(struct fanin_comm *c, struct fanin_op *op)
{
	while (op->lanes_done < c->lanes &&
	       fan_worker_test(c->lane[op->lanes_done].w, op->id) == FAN_OK)
		op->lanes_done++;
	return op->lanes_done == c->lanes;
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
			c->follow.news = true;
		else if (number != FAN_COMM_WAKE)
			c->heard |= fan_lane_recv(&c->lane[number / 2], c->io, number % 2 == 1);
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
	for (unsigned i = 0; i < c->lanes; i++)
		if (fan_worker_phase(c->lane[i].w) != FAN_W_READY)
			return;
	if (!c->parts)
		return;
	pthread_mutex_lock(&c->lock);
	c->ready = true;
	pthread_cond_broadcast(&c->changed);
	pthread_mutex_unlock(&c->lock);
}

/* See how the lanes stand, which may end the communicator. */
static void check_lanes(struct fanin_comm *c, uint64_t now_ns)
{
	for (unsigned i = 0; i < c->lanes && !atomic_load(&c->error); i++) {
		struct fan_lane *l = &c->lane[i];
		if (fan_worker_phase(l->w) != FAN_W_FAILED)
			fail_by_socket(c, l);
		else if (c->ready || !fan_follow_forgives(c, l, now_ns))
			fail_by_core(c, l);
		if (!c->ready && l->w)
			fan_lane_listen(l);
	}
	if (c->ready || atomic_load(&c->error))
		return;
	for (unsigned k = 0; k < c->parts && !atomic_load(&c->error); k++)
		open_shards(c, k, now_ns);
	if (!atomic_load(&c->error))
		check_ready(c);
}

static void work(struct fanin_comm *c)
{
	uint64_t now_ns = fan_clock_ns();
	note_gap(c, now_ns);
	fan_follow_work(c, now_ns);
	if (!c->leaving) {
		check_lanes(c, now_ns);
		start_ops(c, now_ns);
		end_done(c);
	}
	for (unsigned i = 0; i < c->lanes; i++)
		if (c->lane[i].w)
			fan_way_choose(&c->lane[i], c->io, now_ns);
	for (unsigned i = 0; i < c->lanes; i++)
		if (c->lane[i].w)
			fan_lane_send(&c->lane[i], c->io, now_ns);
}

static uint64_t lane_deadline(const struct fanin_comm *c, const struct fan_lane *l)
{
	if (!l->w || gone(l))
		return UINT64_MAX;
	if (!c->leaving && fan_worker_phase(l->w) == FAN_W_FAILED)
		return l->again_ns; /* 0: the next round tells the callers */
	if (l->news)
		return fan_lane_free_ns(l);
	uint64_t way_ns = fan_way_deadline(l), core_ns = fan_worker_deadline(l->w);
	return way_ns < core_ns ? way_ns : core_ns;
}

/* What is waited for before the communicator is ready. */
static void wait_text(const struct fanin_comm *c, char *text, size_t bytes)
{
	const struct fan_lane *l = NULL;
	if (!c->parts) {
		fan_follow_text(c, text, bytes);
		return;
	}
	for (unsigned i = 0; i < c->lanes && !l; i++)
		if (c->lane[i].w && fan_worker_phase(c->lane[i].w) == FAN_W_JOINING)
			l = &c->lane[i];
	if (!l) {
		snprintf(text, bytes, "not all ranks have joined job \"%s\" yet", c->cfg.job);
		return;
	}
	const struct fan_fault silent = {.err = FAN_E_UNREACHABLE};
	fault_text(c, l, &silent, text, bytes);
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
	struct fanin_stats stats = collect_stats(c);
	note_wait(c);
	uint64_t deadline_ns = fan_follow_deadline(c);
	if (!c->ready && !atomic_load(&c->error) && c->note_ns < deadline_ns)
		deadline_ns = c->note_ns;
	for (unsigned i = 0; i < c->lanes; i++) {
		uint64_t d = lane_deadline(c, &c->lane[i]);
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
