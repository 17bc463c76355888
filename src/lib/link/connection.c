/* SPDX-License-Identifier: Apache-2.0 */
#include "connection.h"

#include <assert.h>
#include <errno.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>

#include "core/wire/run.h"
#include "lib/base/config.h"
#include "lib/base/rank_file.h"
#include "net/clock.h"
#include "net/daemon.h"
#include "net/netlink.h"
#include "seal/cipher.h"

#define ALIGN 64

static size_t round_up(size_t bytes)
{
	return (bytes + ALIGN - 1) / ALIGN * ALIGN;
}

struct fan_connection_io *fan_connection_io_new(uint16_t payload_bytes, bool sealed)
{
	assert(payload_bytes > 0);
	struct fan_connection_io *io = aligned_alloc(ALIGN, round_up(sizeof *io));
	if (!io)
		return NULL;
	size_t all = FAN_CONNECTION_OUT_MAX * round_up(payload_bytes);
	io->scratch_bytes = all < FAN_CONNECTION_SCRATCH_MAX ? all : FAN_CONNECTION_SCRATCH_MAX;
	io->scratch = aligned_alloc(ALIGN, io->scratch_bytes);
	size_t most = payload_bytes > FAN_CTL_BYTES_MAX ? payload_bytes : FAN_CTL_BYTES_MAX;
	io->stride = sealed ? round_up(most + FAN_BITMAP_MAX + FAN_SEAL_ROOM) : 0;
	io->sealed = sealed ? aligned_alloc(ALIGN, FAN_CONNECTION_OUT_MAX * io->stride) : NULL;
	if (!io->scratch || (sealed && !io->sealed)) {
		fan_connection_io_free(io);
		return NULL;
	}
	fan_out_init(&io->out, io->item, FAN_CONNECTION_OUT_MAX, io->scratch, io->scratch_bytes);
	return io;
}

void fan_connection_io_free(struct fan_connection_io *io)
{
	if (io) {
		free(io->scratch);
		free(io->sealed);
	}
	free(io);
}

uint32_t fan_connection_ip_bytes(const struct fan_connection *cn)
{
	return cn->packet_bytes + (cn->udp.family == AF_INET ? 28 : 48);
}

static int watch(const struct fan_connection *cn, int fd, unsigned number)
{
	struct epoll_event ev = {.events = EPOLLIN, .data.u32 = number};
	return epoll_ctl(cn->epoll_fd, EPOLL_CTL_ADD, fd, &ev) ? -errno : 0;
}

int fan_connection_dial(const fan_peer *to, struct fan_udp *u)
{
	const struct fan_udp_options o = {
		.connect = *to,
		.buffer_bytes = FAN_CONNECTION_BUFFER_BYTES,
	};
	return fan_udp_open(u, &o);
}

static int open_socket(struct fan_connection *cn, char *why)
{
	char addr[80], cause[160];
	int e = fan_connection_dial(&cn->switch_addr, &cn->udp);
	if (!e) {
		e = watch(cn, cn->udp.fd, 2 * cn->number);
		if (e)
			fan_udp_close(&cn->udp);
	}
	if (!e)
		return FAN_OK;
	fan_peer_text(&cn->switch_addr, addr, sizeof addr);
	snprintf(why, FAN_CONNECTION_WHY_BYTES, "cannot open a socket to the switch %s: %s", addr,
		 fan_files_strerror(-e, cause, sizeof cause));
	return e == -ENETUNREACH || e == -EHOSTUNREACH ? FAN_E_UNREACHABLE : FAN_E_SYSTEM;
}

int fan_connection_open(struct fan_connection *cn, const struct fan_worker_config *cfg,
			const fan_peer *addr, const uint8_t *key, uint64_t now_ns, char *why)
{
	assert(!cn->w && cn->shard < FAN_SHARDS_MAX);
	cn->switch_addr = *addr;
	cn->switch_addr.port += cn->shard;
	cn->stall_ms = cfg->stall_ms;
	cn->mtu_probe = (struct fan_mtu_probe){.next_ns = 0};
	cn->packet_bytes = FAN_HEAD_BYTES + cfg->payload_bytes + (key ? FAN_SEAL_MORE : 0);
	cn->failover = (struct fan_failover){.aside.fd = -1, .moves = cn->failover.moves};
	cn->group.fd = -1;
	cn->bytes = fan_worker_bytes(cfg);
	if (!cn->bytes) {
		snprintf(why, FAN_CONNECTION_WHY_BYTES, "%s", fan_err_text(FAN_E_INVALID));
		return FAN_E_INVALID;
	}
	int e = open_socket(cn, why);
	if (e)
		return e;
	struct fan_next_hop path;
	fan_next_hop_read(&path, &cn->switch_addr);
	cn->company_ns = 0;
	cn->short_mtu = path.mtu && (uint32_t)path.mtu < fan_connection_ip_bytes(cn) ? path.mtu : 0;
	void *mem = aligned_alloc(ALIGN, round_up(cn->bytes));
	cn->seal = key ? malloc(sizeof *cn->seal) : NULL;
	if (!mem || (key && !cn->seal)) {
		free(mem);
		free(cn->seal);
		cn->seal = NULL;
		snprintf(why, FAN_CONNECTION_WHY_BYTES, "%s", fan_err_text(FAN_E_NOMEM));
		fan_udp_close(&cn->udp);
		return FAN_E_NOMEM;
	}
	if (key)
		fan_seal_rank_init(cn->seal, fan_cipher_gcrypt(), key);
	cn->w = fan_worker_init(mem, cfg, now_ns);
	fan_failover_came(cn, now_ns);
	cn->news = true;
	return FAN_OK;
}

int fan_connection_go_on_by(struct fan_connection *cn, struct fan_udp *u, uint16_t route,
			    uint64_t now_ns)
{
	const struct fan_udp former = cn->udp;
	assert(cn->w);
	if (watch(cn, u->fd, 2 * cn->number))
		return FAN_E_SYSTEM;
	epoll_ctl(cn->epoll_fd, EPOLL_CTL_DEL, former.fd, NULL);
	cn->udp = *u;
	*u = former;
	fan_worker_reroute(cn->w, now_ns, route);
	cn->failover.heard_ns = now_ns;
	cn->failover.moves++;
	cn->refused = false;
	fan_mtu_probe_result(&cn->mtu_probe);
	cn->news = true;
	return FAN_OK;
}

int fan_connection_move(struct fan_connection *cn, const fan_peer *to, uint16_t route,
			uint64_t now_ns)
{
	struct fan_udp u;
	if (fan_connection_dial(to, &u))
		return FAN_E_SYSTEM;
	int e = fan_connection_go_on_by(cn, &u, route, now_ns);
	fan_udp_close(&u); /* the former one, unless `e` */
	return e;
}

void fan_connection_close(struct fan_connection *cn)
{
	if (!cn->w)
		return;
	fan_udp_close(&cn->group);
	fan_udp_close(&cn->failover.aside);
	fan_udp_close(&cn->udp);
	free(cn->w);
	free(cn->kept);
	if (cn->seal)
		fan_seal_rank_free(cn->seal);
	free(cn->seal);
	cn->seal = NULL;
	cn->w = NULL;
	cn->kept = NULL;
}

void fan_connection_keep(struct fan_connection *cn)
{
	const struct fan_welcome *m = fan_worker_welcome(cn->w);
	if (cn->kept || !m)
		return;
	cn->kept_bytes = sizeof(uint32_t) + cn->packet_bytes;
	cn->kept = calloc(m->window, cn->kept_bytes); /* pages that are not used cost nothing */
}

const uint8_t *fan_connection_kept(const struct fan_connection *cn, uint32_t slot, uint32_t *bytes)
{
	if (!cn->kept)
		return NULL;
	assert(slot < fan_worker_welcome(cn->w)->window);
	const uint8_t *at = cn->kept + slot * cn->kept_bytes;
	memcpy(bytes, at, sizeof *bytes);
	return *bytes ? at + sizeof *bytes : NULL;
}

/* `pkt` is the result of the fragment in its slot. */
static void keep(struct fan_connection *cn, const uint8_t *pkt, size_t len)
{
	struct fan_frag f;
	fan_wire_head(&f, pkt);
	uint8_t *at = cn->kept + f.frag % fan_worker_welcome(cn->w)->window * cn->kept_bytes;
	uint32_t bytes = len + sizeof bytes > cn->kept_bytes ? 0 : (uint32_t)len;
	memcpy(at, &bytes, sizeof bytes);
	memcpy(at + sizeof bytes, pkt, bytes);
}

void fan_connection_renumber(struct fan_connection *cn, unsigned number)
{
	assert(cn->w && number != cn->number);
	fan_udp_close(&cn->group);
	epoll_ctl(cn->epoll_fd, EPOLL_CTL_DEL, cn->udp.fd, NULL);
	cn->number = number;
	if (watch(cn, cn->udp.fd, 2 * cn->number))
		cn->io_errno = errno;
}

/* The group as an address to bind to. */
static fan_peer group_peer(const struct fan_welcome *m, unsigned interface)
{
	struct sockaddr_in v4 = {.sin_family = AF_INET, .sin_port = htons(m->group_port)};
	struct sockaddr_in6 v6 = {.sin6_family = AF_INET6,
				  .sin6_port = htons(m->group_port),
				  .sin6_scope_id = interface};
	memcpy(&v4.sin_addr, m->group, sizeof v4.sin_addr);
	memcpy(&v6.sin6_addr, m->group, sizeof v6.sin6_addr);
	if (m->group_family == 4)
		return fan_peer_from_sockaddr((struct sockaddr *)&v4, sizeof v4);
	return fan_peer_from_sockaddr((struct sockaddr *)&v6, sizeof v6);
}

void fan_connection_listen(struct fan_connection *cn)
{
	const struct fan_welcome *m = fan_worker_welcome(cn->w);
	if (!m || (m->group_family != 4 && m->group_family != 6))
		return;
	const fan_peer at = group_peer(m, 0);
	if (fan_peer_equal(&at, &cn->group_at))
		return;
	fan_udp_close(&cn->group);
	cn->group_at = at;
	struct fan_udp_options o = {
		.buffer_bytes = FAN_CONNECTION_BUFFER_BYTES,
		.freebind_group = true,
		.interface = fan_udp_interface_to(&cn->switch_addr, NULL),
	};
	o.bind = group_peer(m, o.interface);
	if (fan_udp_open(&cn->group, &o))
		cn->group.fd = -1;
	else if (watch(cn, cn->group.fd, 2 * cn->number + 1))
		fan_udp_close(&cn->group);
}

/* A packet that came by the group is the switch's only if its header proves that: anybody may send
 * there. */
static bool from_switch(const struct fan_connection *cn, const fan_peer *from)
{
	return from->addr[0] == cn->switch_addr.addr[0] &&
	       from->addr[1] == cn->switch_addr.addr[1] && from->port == cn->switch_addr.port;
}

static bool is_refusal(int e)
{
	return e == -ECONNREFUSED || e == -EHOSTUNREACH || e == -ENETUNREACH;
}

/* An error that the socket reported once and that does not concern the next packet. */
static bool passes(int e)
{
	return fan_udp_is_told(-e) || e == -ENOBUFS || e == -ENOMEM || e == -ENETDOWN ||
	       e == -EPERM;
}

static void note_error(struct fan_connection *cn, int e)
{
	if (is_refusal(e))
		cn->refused = true;
	else if (!passes(e))
		cn->io_errno = -e;
}

/* Give a datagram to the worker.  True if a fragment has finished. */
static bool take_one(struct fan_connection *cn, uint64_t now_ns, const uint8_t *pkt, size_t len,
		     bool by_group, bool marked)
{
	if (fan_worker_recv(cn->w, now_ns, pkt, len, by_group, marked) != FAN_DONE)
		return false;
	if (cn->kept)
		keep(cn, pkt, len);
	return true;
}

static bool take_run(struct fan_connection *cn, uint64_t now_ns, const uint8_t *pkt, unsigned frags,
		     bool by_group, bool marked)
{
	uint8_t head[FAN_HEAD_BYTES];
	bool finished = false;
	for (unsigned n = 0; n < frags; n++) {
		fan_run_take(head, pkt, n);
		finished |= take_one(cn, now_ns, head, sizeof head, by_group, marked);
	}
	return finished;
}

/* Give the worker a datagram that no key protects, or that has been opened.  True if a fragment has
 * finished. */
static bool take_opened(struct fan_connection *cn, uint64_t now_ns, const uint8_t *pkt, size_t len,
			bool by_group, bool marked)
{
	cn->refused = false;
	fan_failover_came(cn, now_ns);
	unsigned frags = cn->seal ? 1 : fan_run_frags(pkt, len);
	return frags > 1 ? take_run(cn, now_ns, pkt, frags, by_group, marked)
			 : take_one(cn, now_ns, pkt, len, by_group, marked);
}

/* Look at a datagram, and give it to the worker.  True if a fragment has finished. */
static bool take_datagram(struct fan_connection *cn, uint64_t now_ns, uint8_t *pkt, size_t len,
			  bool by_group, bool marked)
{
	if (!by_group && fan_failover_heard(&cn->failover, pkt, len)) {
		cn->refused = false;
		return false;
	}
	if (!by_group && fan_mtu_probe_heard(&cn->mtu_probe, pkt, len, now_ns))
		return false;
	if (cn->seal && !(len = fan_seal_rank_recv(cn->seal, now_ns, pkt, len)))
		return false;
	return take_opened(cn, now_ns, pkt, len, by_group, marked);
}

/* Take in a batch.  True if a fragment has finished. */
static bool take(struct fan_connection *cn, struct fan_connection_io *io,
		 const struct fan_udp_batch *b, bool by_group)
{
	uint64_t now_ns = fan_clock_ns();
	bool finished = false;
	for (size_t at = 0; at < b->bytes; at += b->segment)
		finished |= take_datagram(cn, now_ns, io->recv + at, fan_udp_datagram_bytes(b, at),
					  by_group, b->marked);
	if (finished)
		fan_mtu_probe_result(&cn->mtu_probe);
	return finished;
}

bool fan_connection_recv(struct fan_connection *cn, struct fan_connection_io *io, bool by_group)
{
	struct fan_udp *u = by_group ? &cn->group : &cn->udp;
	bool done = false;
	struct fan_udp_batch b;
	for (int i = 0; i < FAN_CONNECTION_BATCHES_MAX; i++) {
		int got = fan_udp_recv(u, io->recv, &b);
		if (got < 0)
			note_error(cn, got);
		if (got <= 0)
			break;
		cn->news = true;
		if (by_group && !from_switch(cn, &b.from))
			continue;
		bool finished = take(cn, io, &b, by_group);
		cn->by_group |= finished && by_group;
		done |= finished;
	}
	return done;
}

/* ---- past the kernel ---- */

void fan_connection_shorten(struct fan_connection *cn, struct fan_daemon *d)
{
	struct epoll_event ev = {.events = EPOLLIN | EPOLLET, .data.u32 = FAN_CONNECTION_RING_PAIR};
	const fan_peer from = fan_udp_local(&cn->udp), at = fan_daemon_address(d);
	assert(cn->w && !cn->udp.pair[0]);
	if (cn->switch_addr.port != at.port + cn->shard ||
	    !fan_peer_same_host(&from, &cn->switch_addr) ||
	    !(fan_peer_is_any(&at) || fan_peer_same_host(&at, &cn->switch_addr)))
		return;
	const size_t most =
		cn->packet_bytes > FAN_CTL_BYTES_MAX ? cn->packet_bytes : FAN_CTL_BYTES_MAX;
	struct fan_ring_pair *h = fan_ring_pair_new(&from, most + FAN_BITMAP_MAX);
	if (!h)
		return;
	if (epoll_ctl(cn->epoll_fd, EPOLL_CTL_ADD, fan_ring_pair_fd(h, FAN_RING_PAIR_DOWN), &ev) ||
	    fan_daemon_rings(d, cn->shard, h, &cn->switch_addr))
		fan_ring_pair_close(h); /* for the daemon */
	cn->udp.pair[0] = h;
}

/* Take what the aggregator of this process has put into the ring: a result may be in clear. */
static bool take_inside(struct fan_connection *cn, uint64_t now_ns, uint8_t *pkt, size_t len)
{
	return cn->seal && fan_seal_rank_is_known(cn->seal, pkt, len)
		       ? take_opened(cn, now_ns, pkt, len, false, false)
		       : take_datagram(cn, now_ns, pkt, len, false, false);
}

bool fan_connection_recv_rings(struct fan_connection *cn)
{
	struct fan_ring_pair *h = cn->udp.pair[0];
	const bool closed = fan_ring_pair_is_closed(h);
	const uint64_t now_ns = fan_clock_ns();
	bool finished = false;
	size_t bytes;
	uint8_t *pkt;
	unsigned i = 0;
	fan_ring_pair_awake(h, FAN_RING_PAIR_DOWN);
	for (;
	     i < FAN_RING_PAIR_PLACES && (pkt = fan_ring_pair_next(h, FAN_RING_PAIR_DOWN, &bytes));
	     i++) {
		finished |= take_inside(cn, now_ns, pkt, bytes);
		cn->udp.bytes_in += bytes;
	}
	cn->udp.datagrams_in += i;
	cn->news |= i > 0;
	if (i)
		fan_ring_pair_release(h, FAN_RING_PAIR_DOWN);
	if (finished)
		fan_mtu_probe_result(&cn->mtu_probe);
	if (closed && i < FAN_RING_PAIR_PLACES) {
		fan_ring_pair_close(h);
		cn->udp.pair[0] = NULL;
	}
	return finished;
}

/* ---- pace ---- */

uint64_t fan_connection_free_ns(const struct fan_connection *cn)
{
	return cn->rate_limit.ns_per_byte > 0 ? cn->rate_limit.free_ns : 0;
}

/* Datagrams that one tick may make: no more than the rate limit permits at once. */
static unsigned tick_room(const struct fan_connection *cn)
{
	double all = FAN_CONNECTION_CREDIT_NS /
		     (cn->rate_limit.ns_per_byte * fan_connection_ip_bytes(cn));
	if (cn->rate_limit.ns_per_byte <= 0 || all > FAN_CONNECTION_OUT_MAX)
		return FAN_CONNECTION_OUT_MAX;
	return all < 1 ? 1 : (unsigned)all;
}

/* `out` is about to go. */
static void note_sent(struct fan_connection *cn, const struct fan_out *out, uint64_t now_ns)
{
	size_t most = 0;
	for (unsigned i = 0; i < out->count; i++)
		if (out->item[i].dest != FAN_TO_NOBODY && fan_out_item_bytes(&out->item[i]) > most)
			most = fan_out_item_bytes(&out->item[i]);
	fan_mtu_probe_sent(&cn->mtu_probe, (uint32_t)most, now_ns, cn->stall_ms);
}

/* `out` is about to go.  False: that is all for now. */
static bool use_rate_limit(struct fan_connection *cn, const struct fan_out *out, uint64_t now_ns)
{
	uint32_t lower =
		fan_connection_ip_bytes(cn) - cn->packet_bytes + FAN_CONNECTION_FRAME_BYTES;
	uint64_t since_ns =
		now_ns > FAN_CONNECTION_CREDIT_NS ? now_ns - FAN_CONNECTION_CREDIT_NS : 0;
	size_t bytes = 0;
	if (cn->rate_limit.ns_per_byte <= 0)
		return true;
	for (unsigned i = 0; i < out->count; i++)
		if (out->item[i].dest != FAN_TO_NOBODY)
			bytes += lower + fan_out_item_bytes(&out->item[i]);
	if (cn->rate_limit.free_ns < since_ns)
		cn->rate_limit.free_ns = since_ns;
	cn->rate_limit.free_ns += (uint64_t)((double)bytes * cn->rate_limit.ns_per_byte);
	if (cn->rate_limit.free_ns > now_ns + FAN_CONNECTION_HOLD_NS) /* BEATs wait as well */
		cn->rate_limit.free_ns = now_ns + FAN_CONNECTION_HOLD_NS;
	return cn->rate_limit.free_ns <= now_ns;
}

/* Hand contributions to the aggregator in this process as they are, and seal all others. */
static void seal(struct fan_connection *cn, struct fan_connection_io *io, uint64_t now_ns)
{
	for (unsigned i = 0; i < io->out.count && cn->udp.pair[0]; i++) {
		struct fan_out_item *it = &io->out.item[i];
		if (it->head[1] == FAN_TYPE_DATA && it->dest != FAN_TO_NOBODY &&
		    fan_seal_rank_is_in(cn->seal, fan_get32(it->head + 4), fan_get32(it->head + 8)))
			fan_udp_put_inside(&cn->udp, it, true);
	}
	fan_seal_rank_send(cn->seal, now_ns, &io->out, io->sealed, io->stride);
}

void fan_connection_send(struct fan_connection *cn, struct fan_connection_io *io, uint64_t now_ns)
{
	bool more = true, on = fan_connection_free_ns(cn) <= now_ns;
	if (!cn->news && fan_worker_deadline(cn->w) > now_ns)
		return;
	io->out.room = tick_room(cn);
	for (unsigned i = 0; on && more && i < FAN_WINDOW_MAX; i++) {
		more = fan_worker_tick(cn->w, now_ns, &io->out);
		if (!io->out.count)
			break;
		if (fan_worker_runs(cn->w))
			fan_run_pack(&io->out, true);
		if (cn->seal)
			seal(cn, io, now_ns);
		note_sent(cn, &io->out, now_ns);
		on = use_rate_limit(cn, &io->out, now_ns);
		fan_udp_send(&cn->udp, &io->out, true);
	}
	io->out.room = FAN_CONNECTION_OUT_MAX;
	cn->news = !on && more;
}
