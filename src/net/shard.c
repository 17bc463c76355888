/* SPDX-License-Identifier: Apache-2.0 */
#include "shard.h"

#include <assert.h>
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <time.h>
#include <unistd.h>

#include "clock.h"
#include "core/base/err.h"
#include "core/wire/run.h"
#include "seal/cipher.h"

#define ERROR_PAUSE_MS	1 /* after a receive that failed: an error that stays must not spin */
#define EPOLL_EVENTS	16
#define WAKE		UINT32_MAX	 /* number of `wake_fd` in epoll */
#define RING_PAIRS	(UINT32_MAX - 1) /* number of those in epoll: each round looks at all */
#define TICKS_PER_ROUND 4		 /* full outs that one round may send for ticks */

/* Hand results to the ranks of this process as they are: only what leaves it is sealed. */
static void put_inside(struct fan_shard *s)
{
	for (unsigned i = 0; i < s->out.count; i++)
		if (s->out.item[i].head[1] == FAN_TYPE_RESULT)
			fan_udp_put_inside(&s->udp[0], &s->out.item[i], false);
}

/* Send what the node has made. */
static void flush(struct fan_shard *s)
{
	fan_run_pack(&s->out, false);
	if (s->gate) {
		put_inside(s);
		fan_gate_send(s->gate, fan_clock_ns(), &s->out);
	}
	if (s->out.count)
		fan_udp_send(&s->udp[0], &s->out, false);
	fan_node_sent(s->node);
	fan_shard_log_too_long(s);
}

/* ---- does the path to the next hop take what must go there? ----
 *
 * Ranks cannot see that, and would blame each other.  The test runs while there are jobs, of a
 * shard whose sums go on elsewhere, and its verdict is in the answers to their ECHOs. */

#define LOOK_MS 100 /* between two looks for jobs */

/* Is it an answer of the next hop to the test, and nothing else? */
static bool above_heard(struct fan_shard *s, uint64_t now_ns, const fan_peer *from,
			const uint8_t *pkt, size_t bytes)
{
	struct fan_mtu_probe *t = &s->above;
	if (!t->rounds || !fan_peer_equal(from, &s->cfg.above) ||
	    !fan_mtu_probe_heard(t, pkt, bytes, now_ns))
		return false;
	s->above_passed = !t->rounds;
	return true;
}

/* A packet of the largest size that goes to the next hop. */
static uint32_t longest(const struct fan_shard *s)
{
	unsigned payload = s->slots ? s->cfg.slots.payload_bytes : s->cfg.aggregator.payload_bytes;
	return FAN_HEAD_BYTES + payload + (s->gate ? FAN_SEAL_MORE : 0);
}

static void look_for_jobs(struct fan_shard *s, uint64_t now_ns)
{
	if (s->above.rounds || now_ns < s->above_look_ns)
		return;
	s->above_look_ns = now_ns + LOOK_MS * FAN_MS;
	if (!fan_node_jobs(s->node))
		fan_mtu_probe_result(&s->above);
	else if (!s->above.next_ns)
		s->above = (struct fan_mtu_probe){.next_ns = now_ns, .bytes = longest(s)};
}

static void set_above(struct fan_shard *s, bool loses)
{
	if (loses && !s->above_loses)
		fan_shard_log_above(s);
	if (loses != s->above_loses)
		fan_node_behind_loses(s->node, loses ? (uint16_t)s->above.bytes : 0);
	s->above_loses = loses;
	s->above_passed = false;
}

/* Go on with the test; all items of the node have been sent. */
static void above_turn(struct fan_shard *s)
{
	if (fan_peer_is_none(&s->cfg.above))
		return;
	uint64_t now = fan_clock_ns();
	look_for_jobs(s, now);
	if (s->above_passed)
		set_above(s, false);
	if (fan_mtu_probe_turn(&s->above, &s->udp[0], &s->cfg.above, false, 0, now)) {
		set_above(s, true);
		s->above.rounds = 0; /* and on: it may get better */
	}
}

/* When the test or the node has something to do next. */
static uint64_t above_deadline(const struct fan_shard *s)
{
	uint64_t node_ns = fan_node_deadline(s->node), test_ns = fan_mtu_probe_deadline(&s->above);
	return test_ns < node_ns ? test_ns : node_ns;
}

/* A rank with a key, at a switch without one: it learns why it cannot join. */
static void refuse_sealed(struct fan_shard *s, const fan_peer *from, const uint8_t *pkt,
			  size_t bytes)
{
	struct fan_seal_head h;
	if (fan_seal_head(&h, pkt, bytes) && h.sealed &&
	    (h.type == FAN_TYPE_JOIN || h.type == FAN_TYPE_RELAY))
		fan_seal_refuse(pkt, bytes, from, false, &s->out);
}

static void give_run(struct fan_shard *s, uint64_t now_ns, const fan_peer *from, const uint8_t *pkt,
		     unsigned frags, bool marked)
{
	uint8_t head[FAN_HEAD_BYTES];
	for (unsigned n = 0; n < frags; n++) {
		if (!fan_node_fits(s->node, &s->out))
			flush(s);
		fan_run_take(head, pkt, n);
		fan_node_recv(s->node, now_ns, *from, head, sizeof head, marked, &s->out);
	}
}

/* Give a datagram to the node that no key protects, or that the gate has opened. */
static void give_opened(struct fan_shard *s, uint64_t now_ns, const fan_peer *from, uint8_t *pkt,
			size_t bytes, bool marked)
{
	/* slots keep their packets until these are sent, and receive no runs; nor do sealed jobs */
	unsigned frags = s->slots || s->gate ? 1 : fan_run_frags(pkt, bytes);
	if (frags > 1) {
		give_run(s, now_ns, from, pkt, frags, marked);
		return;
	}
	enum fan_verdict v = fan_node_recv(s->node, now_ns, *from, pkt, bytes, marked, &s->out);
	if (s->gate && fan_gate_is_join(s->gate))
		fan_gate_answer(s->gate, &s->out);
	else if (v == FAN_DROP && !s->gate)
		refuse_sealed(s, from, pkt, bytes);
}

/* Give a datagram, which may be changed, to the node. */
static void give(struct fan_shard *s, uint64_t now_ns, const fan_peer *from, uint8_t *pkt,
		 size_t bytes, bool marked)
{
	if (!fan_node_fits(s->node, &s->out))
		flush(s);
	if (above_heard(s, now_ns, from, pkt, bytes))
		return;
	if (!s->gate || (bytes = fan_gate_recv(s->gate, now_ns, from, pkt, bytes, &s->out)))
		give_opened(s, now_ns, from, pkt, bytes, marked);
}

/* Give every datagram of a batch from `u` to the node. */
static void take(struct fan_shard *s, const struct fan_udp *u, const struct fan_udp_batch *b,
		 uint8_t *in)
{
	uint64_t now = fan_clock_ns();
	size_t offset = 0;
	bool marked =
		b->marked || (s->mark_percent && fan_udp_backlog_percent(u) >= s->mark_percent);
	atomic_store_explicit(&s->heard_ns, now, memory_order_relaxed);
	do { /* an empty datagram is one, too: the core counts it */
		size_t bytes = fan_udp_datagram_bytes(b, offset);
		give(s, now, &b->from, in + offset, bytes, marked);
		s->marked += marked;
		offset += bytes;
	} while (offset < b->bytes);
}

/* ---- the ranks of its own process, which need no socket (ring_pair.h) ---- */

/* Give what a rank of this process has put into its ring: a contribution may be in clear. */
static void give_inside(struct fan_shard *s, uint64_t now_ns, const fan_peer *rank, uint8_t *pkt,
			size_t bytes)
{
	if (!s->gate || !fan_gate_is_known(s->gate, pkt, bytes)) {
		give(s, now_ns, rank, pkt, bytes, false);
		return;
	}
	if (!fan_node_fits(s->node, &s->out))
		flush(s);
	give_opened(s, now_ns, rank, pkt, bytes, false);
}

static void receive_ring(struct fan_shard *s, struct fan_ring_pair **pair)
{
	struct fan_ring_pair *h = *pair;
	const bool closed = fan_ring_pair_is_closed(h);
	const uint64_t now = fan_clock_ns();
	size_t bytes;
	uint8_t *pkt;
	unsigned i = 0;
	for (; i < FAN_RING_PAIR_PLACES && (pkt = fan_ring_pair_next(h, FAN_RING_PAIR_UP, &bytes));
	     i++) {
		give_inside(s, now, fan_ring_pair_rank(h), pkt, bytes);
		s->udp[0].bytes_in += bytes;
	}
	s->udp[0].datagrams_in += i;
	if (i)
		fan_ring_pair_release(h, FAN_RING_PAIR_UP);
	flush(s);
	if (closed && i < FAN_RING_PAIR_PLACES) { /* that was the last */
		fan_ring_pair_close(h);
		*pair = NULL;
	}
}

/* Handle what has come, and close the ring pairs that ranks have closed. */
static void receive_rings(struct fan_shard *s)
{
	for (unsigned i = 0; i < FAN_UDP_RING_PAIRS; i++) {
		if (!s->udp[0].pair[i])
			continue;
		fan_ring_pair_awake(s->udp[0].pair[i], FAN_RING_PAIR_UP);
		receive_ring(s, &s->udp[0].pair[i]);
	}
}

/* May the thread sleep?  Then the next datagram wakes it. */
static bool may_sleep(struct fan_shard *s)
{
	bool may = true;
	for (unsigned i = 0; i < FAN_UDP_RING_PAIRS; i++)
		if (s->udp[0].pair[i])
			may &= fan_ring_pair_may_sleep(s->udp[0].pair[i], FAN_RING_PAIR_UP);
	return may;
}

/* Take `h`, of a rank that sends to the shard's address `local`.  Slots keep their packets until
 * they are sent on, so there a rank uses its socket.  FAN_OK, FAN_E_BUSY or FAN_E_SYSTEM. */
static int take_rings(struct fan_shard *s, struct fan_ring_pair *h, const fan_peer *local)
{
	struct epoll_event ev = {.events = EPOLLIN | EPOLLET, .data.u32 = RING_PAIRS};
	unsigned i = 0;
	while (i < FAN_UDP_RING_PAIRS && s->udp[0].pair[i])
		i++;
	if (s->slots || i == FAN_UDP_RING_PAIRS)
		return FAN_E_BUSY;
	if (epoll_ctl(s->epoll_fd, EPOLL_CTL_ADD, fan_ring_pair_fd(h, FAN_RING_PAIR_UP), &ev))
		return FAN_E_SYSTEM;
	if (s->udp[0].locals) /* for datagrams without room in it */
		fan_locals_put(s->udp[0].locals, fan_ring_pair_rank(h), local->addr);
	s->udp[0].pair[i] = h;
	return FAN_OK;
}

static void receive(struct fan_shard *s, struct fan_udp *u)
{
	struct fan_udp_batch b;
	for (unsigned i = 0; i < FAN_SHARD_BATCHES; i++) {
		uint8_t *in = s->in[s->slots ? i : 0];
		int n = fan_udp_recv(u, in, &b);
		if (n < 0)
			poll(NULL, 0, ERROR_PAUSE_MS);
		if (n <= 0)
			break;
		take(s, u, &b, in);
	}
	flush(s);
}

static void tick(struct fan_shard *s)
{
	uint64_t now = fan_clock_ns();
	for (unsigned i = 0; i < TICKS_PER_ROUND && fan_node_deadline(s->node) <= now; i++) {
		fan_node_tick(s->node, now, &s->out);
		flush(s);
	}
}

/* All that was received has been sent: the node may be changed. */
static void answer(struct fan_shard *s, struct fan_shard_request *r)
{
	r->err = FAN_OK;
	if (r->wish == FAN_SHARD_KEYS && s->gate)
		fan_gate_set_keys(s->gate, r->keys);
	else if (r->wish == FAN_SHARD_DUMP)
		fan_shard_log_counters(s, true);
	else if (r->wish == FAN_SHARD_HEALTH)
		fan_shard_fill_health(s, r->health);
	else if (r->wish == FAN_SHARD_RINGS)
		r->err = take_rings(s, r->pair, r->local);
	else if (!s->slots)
		r->err = FAN_E_INVALID;
	else if (r->wish == FAN_SHARD_ROUTE)
		r->err = fan_switch_route(s->slots, r->route);
	else
		fan_switch_unroute(s->slots, r->number);
}

static void handle_requests(struct fan_shard *s)
{
	uint64_t count;
	if (read(s->wake_fd, &count, sizeof count) != sizeof count)
		return;
	struct fan_shard_request *r = atomic_exchange(&s->asked, NULL);
	if (r) {
		answer(s, r);
		sem_post(&s->answered);
	}
}

/* A thread waits for the end of jobs: admit no more, and post `empty` once none of them is left. */
static void post_empty(struct fan_shard *s)
{
	if (!atomic_load_explicit(&s->drain, memory_order_acquire)) /* then drain_of is there */
		return;
	if (!s->draining)
		fan_node_drain(s->node, fan_clock_ns(), &s->drain_of);
	s->draining = true;
	if (!fan_node_undrained(s->node) && atomic_exchange(&s->drain, false))
		sem_post(&s->empty);
}

static void *run(void *arg)
{
	struct fan_shard *s = arg;
	struct epoll_event ev[EPOLL_EVENTS];
	while (!atomic_load(&s->stop)) {
		uint64_t by_ns = above_deadline(s);
		int timeout = may_sleep(s) ? fan_clock_timeout_ms(by_ns, -1) : 0;
		int n = epoll_wait(s->epoll_fd, ev, EPOLL_EVENTS, timeout);
		receive_rings(s);
		for (int i = 0; i < n; i++)
			if (ev[i].data.u32 == WAKE)
				handle_requests(s);
			else if (ev[i].data.u32 < s->sockets)
				receive(s, &s->udp[ev[i].data.u32]);
		tick(s);
		above_turn(s);
		fan_shard_log_events(s);
		post_empty(s);
	}
	fan_shard_log_counters(s, false);
	return NULL;
}

static int watch(const struct fan_shard *s, int fd, uint32_t number)
{
	struct epoll_event ev = {.events = EPOLLIN, .data.u32 = number};
	return epoll_ctl(s->epoll_fd, EPOLL_CTL_ADD, fd, &ev) ? -errno : 0;
}

/* One more socket on the address of the first, whose table of local addresses it shares. */
static int add_socket(struct fan_shard *s, const struct fan_udp_options *o)
{
	assert(s->sockets > 0 && s->sockets < FAN_SHARD_SOCKETS);
	struct fan_udp_options beside = *o;
	struct fan_udp *u = &s->udp[s->sockets];
	beside.bind = fan_udp_local(&s->udp[0]);
	beside.beside = true;
	int e = fan_udp_open(u, &beside);
	if (e)
		return e;
	free(u->locals);
	u->locals = s->udp[0].locals;
	e = watch(s, u->fd, s->sockets);
	if (e) {
		u->locals = NULL;
		fan_udp_close(u);
		return e;
	}
	s->sockets++;
	return 0;
}

static void close_sockets(struct fan_shard *s, unsigned but)
{
	while (s->sockets > but) {
		struct fan_udp *u = &s->udp[--s->sockets];
		if (s->sockets)
			u->locals = NULL; /* the first one's */
		fan_udp_close(u);
	}
}

/* The sockets: as many as there may be, and fewer where the kernel refuses. */
static int open_sockets(struct fan_shard *s, const struct fan_udp_options *o, unsigned most)
{
	int e = fan_udp_open(&s->udp[0], o);
	if (e)
		return e;
	s->sockets = 1;
	e = watch(s, s->udp[0].fd, 0);
	if (e || s->udp[0].rcvbuf >= o->buffer_bytes || fan_udp_share(&s->udp[0]))
		return e;
	while (s->sockets < most && !add_socket(s, o))
		;
	if (s->sockets > 1 && fan_udp_spread(&s->udp[0], s->sockets))
		close_sockets(s, 1);
	return 0;
}

static int make_node(struct fan_shard *s)
{
	size_t bytes = fan_node_bytes(&s->cfg);
	void *mem = bytes ? aligned_alloc(FAN_ALIGN, bytes) : NULL;
	if (!mem)
		return bytes ? -ENOMEM : -EINVAL;
	s->node = fan_node_init(mem, &s->cfg);
	s->aggregator = s->node->aggregator;
	s->slots = s->node->slots;
	return 0;
}

static int make_gate(struct fan_shard *s, const struct fan_seal_options *seal)
{
	const struct fan_gate_config c = {
		.cipher = fan_cipher_gcrypt(),
		.keys = seal->keys,
		.of_tenant = seal->of_tenant,
		.parent = s->cfg.aggregator.siblings ? s->cfg.above : (fan_peer){.port = 0},
		.children = s->cfg.has_aggregator ? 0 : s->cfg.slots.children_max,
		.payload_bytes =
			s->cfg.has_aggregator ? s->cfg.aggregator.payload_bytes : FAN_PAYLOAD_MAX,
		.items = FAN_SHARD_ITEMS,
	};
	s->gate = fan_gate_new(&c);
	return s->gate ? 0 : -ENOMEM;
}

/* One without sockets, events and a node. */
static struct fan_shard *make(unsigned index, unsigned mark_percent, struct fan_shard_log *log)
{
	struct fan_shard *s = calloc(1, sizeof *s);
	if (!s)
		return NULL;
	s->index = index;
	s->mark_percent = mark_percent;
	s->log = log;
	s->epoll_fd = s->wake_fd = -1;
	sem_init(&s->empty, 0, 0);
	sem_init(&s->answered, 0, 0);
	pthread_mutex_init(&s->asking, NULL);
	fan_out_init(&s->out, s->item, FAN_SHARD_ITEMS, s->scratch, sizeof s->scratch);
	return s;
}

static int open_events(struct fan_shard *s)
{
	uint64_t one = 1;
	struct epoll_event ev;
	s->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
	if (s->epoll_fd >= 0)
		s->wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	int e = s->wake_fd < 0 ? -errno : watch(s, s->wake_fd, WAKE);
	if (e)
		return e;
	/* A filter of system calls may refuse those without which the thread would never wake. */
	return write(s->wake_fd, &one, sizeof one) == sizeof one &&
			       epoll_wait(s->epoll_fd, &ev, 1, 0) == 1 &&
			       read(s->wake_fd, &one, sizeof one) == sizeof one
		       ? 0
		       : -errno;
}

int fan_shard_new(struct fan_shard **shard, unsigned index, const struct fan_udp_options *o,
		  unsigned sockets, const struct fan_node_config *cfg,
		  const struct fan_seal_options *seal, unsigned mark_percent,
		  struct fan_shard_log *log)
{
	assert(sockets > 0 && sockets <= FAN_SHARD_SOCKETS);
	struct fan_shard *s = make(index, mark_percent, log);
	int e = s ? 0 : -ENOMEM;
	if (e)
		return e;
	s->cfg = *cfg;
	e = open_events(s);
	if (!e)
		e = open_sockets(s, o, sockets);
	s->cfg.aggregator.rx_bytes = (uint32_t)s->udp[0].rcvbuf;
	s->cfg.aggregator.rx_queues = (uint16_t)s->sockets;
	s->cfg.aggregator.authentic = s->cfg.slots.authentic = seal->keys.count > 0;
	if (!e)
		e = make_node(s);
	if (!e && seal->keys.count)
		e = make_gate(s, seal);
	if (e) {
		fan_shard_free(s);
		return e;
	}
	*shard = s;
	return 0;
}

int fan_shard_start(struct fan_shard *s)
{
	assert(!s->running);
	sigset_t all, old;
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &old);
	int e = pthread_create(&s->thread, NULL, run, s);
	pthread_sigmask(SIG_SETMASK, &old, NULL);
	if (e)
		return -e;
	pthread_setname_np(s->thread, "fanin-switch");
	s->running = true;
	return 0;
}

static void wake(const struct fan_shard *s)
{
	uint64_t one = 1;
	/* It fails only if the counter is full, and then the thread wakes as well. */
	if (write(s->wake_fd, &one, sizeof one) < 0)
		return;
}

void fan_shard_drain(struct fan_shard *s, const struct fan_drain *of)
{
	s->drain_of = *of;
	while (sem_trywait(&s->empty) == 0)
		; /* of an earlier wait that gave up */
	atomic_store(&s->drain, true);
	wake(s);
}

void fan_shard_ask(struct fan_shard *s, struct fan_shard_request *r)
{
	pthread_mutex_lock(&s->asking);
	atomic_store(&s->asked, r);
	wake(s);
	while (sem_wait(&s->answered) && errno == EINTR)
		;
	pthread_mutex_unlock(&s->asking);
}

void fan_shard_free(struct fan_shard *s)
{
	if (!s)
		return;
	if (s->running) {
		atomic_store(&s->stop, true);
		wake(s);
		pthread_join(s->thread, NULL);
	}
	close_sockets(s, 0);
	if (s->wake_fd >= 0)
		close(s->wake_fd);
	if (s->epoll_fd >= 0)
		close(s->epoll_fd);
	sem_destroy(&s->empty);
	sem_destroy(&s->answered);
	pthread_mutex_destroy(&s->asking);
	free(s->node);
	fan_gate_free(s->gate);
	free(s);
}
