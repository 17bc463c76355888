/* SPDX-License-Identifier: Apache-2.0 */
/* udp_send.c - from the core's items to as few system calls as possible.
 *
 * Items with one destination and one size form a run, also if a few with other destinations are
 * between: of a reduce, each fragment has a result for the group and one for the root.  A run is
 * gathered once, and leaves in one call for each receiver that it has.
 *
 * A socket with ranks in its process sends to other hosts first, then to other ranks of its own,
 * which share memory with those inside, and to these last: the process may end as soon as its rank
 * has the result, and with it whoever could send to the others. */
#include <assert.h>
#include <errno.h>
#include <netinet/in.h>
#include <netinet/udp.h>
#include <poll.h>
#include <string.h>

#include "udp.h"

#ifndef UDP_SEGMENT
#define UDP_SEGMENT 103
#endif

#define ASIDE 8 /* items of other destinations in a row that a run passes over */
#define LATER 8 /* of an item's `dest`: some receivers have it, and the others come last */

/* Items that leave together. */
struct run {
	unsigned count;			    /* items, at most FAN_UDP_BURST_MAX */
	size_t segment;			    /* bytes of each but the last, which may be shorter */
	unsigned vectors;		    /* of iov */
	uint16_t at[FAN_UDP_BURST_MAX];	    /* of each item, behind the first */
	uint8_t of_item[FAN_UDP_BURST_MAX]; /* vectors of each item */
	struct iovec iov[2 * FAN_UDP_BURST_MAX];
};

/* Where a run goes. */
struct target {
	struct sockaddr_storage ss;
	socklen_t len;	    /* 0: the connected peer */
	unsigned interface; /* multicast: the one to leave by; 0: by route */
	uint64_t from[2];   /* our address, which receivers check; zero: by route */
};

union control {
	char bytes[CMSG_SPACE(sizeof(struct in6_pktinfo)) + CMSG_SPACE(sizeof(uint16_t))];
	struct cmsghdr align;
};

static bool same_target(const struct fan_out_item *a, const struct fan_out_item *b)
{
	if (a->dest != b->dest || a->inside != b->inside)
		return false;
	if (a->dest == FAN_TO_PEER || a->dest == FAN_TO_PARENT)
		return fan_peer_equal(&a->peer, &b->peer);
	return a->group == b->group;
}

static void run_add(struct run *r, const struct fan_out_item *it)
{
	assert(r->count < FAN_UDP_BURST_MAX);
	if (it->whole) {
		r->of_item[r->count++] = 1;
		r->iov[r->vectors++] = (struct iovec){(void *)(it->payload - sizeof it->head),
						      fan_out_item_bytes(it)};
		return;
	}
	r->of_item[r->count++] = it->payload_bytes ? 2 : 1;
	r->iov[r->vectors++] = (struct iovec){(void *)it->head, sizeof it->head};
	if (it->payload_bytes)
		r->iov[r->vectors++] = (struct iovec){(void *)it->payload, it->payload_bytes};
}

/* Gather the run that begins at `it`, of at most `left` items.  Items of one destination keep
 * their order. */
static void run_gather(struct run *r, struct fan_out_item *it, unsigned left, bool connected)
{
	size_t bytes = fan_out_item_bytes(it);
	size_t most = bytes < FAN_UDP_SEND_BYTES ? FAN_UDP_SEND_BYTES / bytes : 1;
	if (most > FAN_UDP_BURST_MAX)
		most = FAN_UDP_BURST_MAX;
	r->segment = bytes;
	r->count = r->vectors = 0;
	for (unsigned i = 0, last = 0; i < left && i <= last + ASIDE + 1; i++) {
		if (it[i].dest == FAN_TO_NOBODY || it[i].dest & LATER) {
			last = i;
			continue;
		}
		if (i && !connected && !same_target(it, &it[i]))
			continue;
		bytes = fan_out_item_bytes(&it[i]);
		if (bytes > r->segment)
			break;
		r->at[r->count] = (uint16_t)i;
		run_add(r, &it[i]);
		last = i;
		if (i)
			it[i].dest = FAN_TO_NOBODY;
		if (r->count == most || bytes < r->segment)
			break;
	}
}

static void control_add(struct msghdr *m, int level, int type, const void *data, size_t bytes)
{
	struct cmsghdr *c = (struct cmsghdr *)((char *)m->msg_control + m->msg_controllen);
	c->cmsg_level = level;
	c->cmsg_type = type;
	c->cmsg_len = CMSG_LEN(bytes);
	memcpy(CMSG_DATA(c), data, bytes);
	m->msg_controllen += CMSG_SPACE(bytes);
}

/* The interface and the source address of `m`. */
static void leave_by(struct msghdr *m, const struct target *to)
{
	if (to->ss.ss_family == AF_INET) {
		struct in_pktinfo i = {.ipi_ifindex = (int)to->interface};
		memcpy(&i.ipi_spec_dst, (const uint8_t *)to->from + 12, 4);
		control_add(m, IPPROTO_IP, IP_PKTINFO, &i, sizeof i);
	} else {
		struct in6_pktinfo i = {.ipi6_ifindex = to->interface};
		memcpy(&i.ipi6_addr, to->from, sizeof i.ipi6_addr);
		control_add(m, IPPROTO_IPV6, IPV6_PKTINFO, &i, sizeof i);
	}
}

/* Fill in `m` but for what it carries.  `segment` 0: one datagram. */
static void address(struct msghdr *m, union control *space, const struct target *to, size_t segment)
{
	memset(m, 0, sizeof *m);
	memset(space, 0, sizeof *space);
	m->msg_control = space;
	if (to->len) {
		m->msg_name = (void *)&to->ss;
		m->msg_namelen = to->len;
	}
	if (to->interface || to->from[0] || to->from[1])
		leave_by(m, to);
	if (segment) {
		uint16_t s = (uint16_t)segment;
		control_add(m, IPPROTO_UDP, UDP_SEGMENT, &s, sizeof s);
	}
	if (!m->msg_controllen)
		m->msg_control = NULL;
}

static bool is_full(int e)
{
	return e == EAGAIN || e == ENOBUFS || e == EINTR;
}

/* Wait for room in the queue.  poll reports only a half-empty one, so wait for a short time and
 * try again; a device queue (ENOBUFS) reports nothing. */
static void wait_for_room(const struct fan_udp *u)
{
	struct pollfd p = {u->fd, POLLOUT, 0};
	poll(&p, u->last_errno == ENOBUFS ? 0 : 1, FAN_UDP_WAIT_MS);
}

/* As many of `count` messages as one call takes, or one where the call is refused, as filters of
 * system calls do.  How many, or -1. */
static int send_some(struct fan_udp *u, struct mmsghdr *m, unsigned count)
{
	const bool batch = u->batching != FAN_UDP_SINGLY;
	int n = batch ? sendmmsg(u->fd, m, count, 0) : -1;
	if (n > 0)
		u->batching = FAN_UDP_BATCHES;
	if (batch && (u->batching == FAN_UDP_BATCHES || !fan_udp_is_refused(errno)))
		return n;
	const ssize_t bytes = sendmsg(u->fd, &m->msg_hdr, 0);
	if (bytes >= 0)
		u->batching = FAN_UDP_SINGLY;
	m->msg_len = bytes < 0 ? 0 : (unsigned)bytes;
	return bytes < 0 ? -1 : 1;
}

/* Send `count` messages; returns how many left.  One that is refused is skipped, a
 * queue that stays full ends it. */
static unsigned send_messages(struct fan_udp *u, struct mmsghdr *m, unsigned count, unsigned *waits)
{
	unsigned done = 0, left = 0, reported = 0;
	while (done < count) {
		int n = send_some(u, m + done, count - done);
		u->sends++;
		for (int i = 0; i < n; i++)
			u->bytes_out += m[done + (unsigned)i].msg_len;
		if (n > 0) {
			done += (unsigned)n;
			left += (unsigned)n;
			reported = 0;
			continue;
		}
		/* mostly of an earlier datagram, or forged: this one was not tried */
		if (fan_udp_is_told(errno) && ++reported < FAN_UDP_TOLD_MAX)
			continue;
		u->last_errno = errno;
		if (!is_full(errno)) {
			done++;
			reported = 0;
		} else if (*waits) {
			--*waits;
			wait_for_room(u);
		} else {
			break;
		}
	}
	return left;
}

/* Join vectors that lie one behind the other: for the kernel one is cheaper than several.  Returns
 * how many are left. */
static unsigned join_vectors(struct iovec *to, const struct run *r)
{
	unsigned n = 0;
	for (unsigned i = 0; i < r->vectors; i++) {
		if (n && (uint8_t *)to[n - 1].iov_base + to[n - 1].iov_len == r->iov[i].iov_base)
			to[n - 1].iov_len += r->iov[i].iov_len;
		else
			to[n++] = r->iov[i];
	}
	return n;
}

static unsigned send_segmented(struct fan_udp *u, struct run *r, const struct target *to,
			       unsigned *waits)
{
	struct mmsghdr m;
	union control space;
	struct iovec iov[2 * FAN_UDP_BURST_MAX];
	address(&m.msg_hdr, &space, to, r->count > 1 ? r->segment : 0);
	m.msg_hdr.msg_iov = iov;
	m.msg_hdr.msg_iovlen = join_vectors(iov, r);
	return send_messages(u, &m, 1, waits) ? r->count : 0;
}

static unsigned send_plain(struct fan_udp *u, struct run *r, const struct target *to,
			   unsigned *waits)
{
	struct mmsghdr m[FAN_UDP_BURST_MAX];
	union control space;
	struct iovec *iov = r->iov;
	address(&m[0].msg_hdr, &space, to, 0);
	for (unsigned i = 0; i < r->count; i++) {
		m[i].msg_hdr = m[0].msg_hdr;
		m[i].msg_hdr.msg_iov = iov;
		m[i].msg_hdr.msg_iovlen = r->of_item[i];
		iov += m[i].msg_hdr.msg_iovlen;
	}
	return send_messages(u, m, r->count, waits);
}

/* A run to a rank, or an aggregator, of this process.  The rest stays in `r` if there is no room.
 */
static void hand_over(struct fan_udp *u, struct run *r, struct fan_ring_pair *h,
		      enum fan_ring_pair_way way)
{
	unsigned done = 0, at = 0;
	while (done < r->count && fan_ring_pair_put(h, way, &r->iov[at], r->of_item[done])) {
		for (unsigned i = 0; i < r->of_item[done]; i++)
			u->bytes_out += r->iov[at++].iov_len;
		done++;
	}
	u->datagrams_out += done;
	r->count -= done;
	r->vectors -= at;
	memmove(r->of_item, r->of_item + done, r->count * sizeof *r->of_item);
	memmove(r->iov, r->iov + at, r->vectors * sizeof *r->iov);
}

/* Send a run to one receiver. */
static void run_send(struct fan_udp *u, struct run *r, const struct target *to, unsigned *waits)
{
	unsigned sent;
	if (u->segment || r->count == 1) {
		sent = send_segmented(u, r, to, waits);
		int e = u->last_errno;
		if (!sent && r->count > 1 && (e == EIO || e == EINVAL)) {
			/* Also reported for a segment beyond the interface's MTU or of a bad
			 * address. Then plain datagrams fail as well, and segmenting is not to
			 * blame. */
			sent = send_plain(u, r, to, waits);
			u->segment = !sent;
		}
	} else {
		sent = send_plain(u, r, to, waits);
	}
	u->datagrams_out += sent;
	u->send_drops += r->count - sent;
}

/* The interface towards `via` and our address on it, looked up once. */
static const struct fan_udp_route *route_to(struct fan_udp *u, const fan_peer *via)
{
	for (unsigned i = 0; i < FAN_UDP_ROUTES_MAX; i++)
		if (u->route[i].index && fan_peer_equal(&u->route[i].via, via))
			return &u->route[i];
	struct fan_udp_route *r = &u->route[u->route_next++ % FAN_UDP_ROUTES_MAX];
	r->via = *via;
	r->index = fan_udp_interface_to(via, &r->local);
	return r;
}

/* Answer from the address that `p` has sent to, where the kernel might choose another. */
static void set_source(const struct fan_udp *u, struct target *to, const fan_peer *p)
{
	const uint64_t *local = u->locals ? fan_locals_get(u->locals, p) : NULL;
	if (local)
		memcpy(to->from, local, sizeof to->from);
}

static void send_multicast(struct fan_udp *u, struct run *r, const struct fan_group *g,
			   unsigned *waits)
{
	uint64_t drops = u->send_drops;
	const struct fan_udp_route *route = route_to(u, &g->via);
	struct target to = {.interface = g->addr.scope ? g->addr.scope : route->index};
	to.len = fan_peer_to_sockaddr(&g->addr, u->family, &to.ss);
	if (route->index)
		memcpy(to.from, route->local.addr, sizeof to.from);
	set_source(u, &to, &g->via);
	if (to.len && fan_peer_family(&g->via) == fan_peer_family(&g->addr))
		run_send(u, r, &to, waits);
	else /* members of the other family do not receive from the group */
		u->send_drops += r->count;
	if (u->send_drops != drops) /* the interface may have gone: look again */
		memset(u->route, 0, sizeof u->route);
}

static struct fan_ring_pair *rings_to(const struct fan_udp *u, const fan_peer *p)
{
	for (unsigned i = 0; i < FAN_UDP_RING_PAIRS; i++)
		if (u->pair[i] && fan_peer_equal(fan_ring_pair_rank(u->pair[i]), p))
			return u->pair[i];
	return NULL;
}

static void send_to(struct fan_udp *u, struct run *r, const fan_peer *p, unsigned *waits)
{
	struct target to = {.interface = 0};
	uint64_t drops = u->send_drops;
	to.len = u->dual ? fan_peer_to_mapped(p, &to.ss)
			 : fan_peer_to_sockaddr(p, u->family, &to.ss);
	set_source(u, &to, p);
	struct fan_ring_pair *h = rings_to(u, p);
	struct run left;
	if (h) {
		left = *r;
		r = &left;
		hand_over(u, r, h, FAN_RING_PAIR_DOWN);
	}
	if (!r->count)
		return;
	if (to.len)
		run_send(u, r, &to, waits);
	else
		u->send_drops += r->count;
	if (u->locals && u->send_drops != drops) /* the address may have gone */
		fan_locals_forget(u->locals, p);
}

/* ---- ranks of this host ---- */

/* Where receivers are, in the order in which they get a message to several. */
enum where { ELSEWHERE, HOST, INSIDE, ANYWHERE };

static bool has_ring_pair(const struct fan_udp *u)
{
	for (unsigned i = 0; i < FAN_UDP_RING_PAIRS; i++)
		if (u->pair[i])
			return true;
	return false;
}

/* A rank of this host sends from the address to which it sends. */
static enum where where_is(const struct fan_udp *u, const fan_peer *p)
{
	if (rings_to(u, p))
		return INSIDE;
	const uint64_t *local = u->locals ? fan_locals_get(u->locals, p) : u->bound.addr;
	return local && local[0] == p->addr[0] && local[1] == p->addr[1] ? HOST : ELSEWHERE;
}

static bool is_at(const struct fan_udp *u, const fan_peer *p, enum where where)
{
	return where == ANYWHERE || where_is(u, p) == where;
}

/* Would somebody get the run too early, if all got it now?  A ring pair shows its items at the end;
 * items without room leave by the socket. */
static bool is_early(const struct fan_udp *u, const struct run *r, const struct fan_out_item *it)
{
	const bool one = it->dest == FAN_TO_PEER || it->dest == FAN_TO_PARENT;
	const fan_peer *p = one ? &it->peer : it->group->peers;
	bool at[ANYWHERE] = {one}, no_room = false; /* others may be behind it */
	if (it->dest == FAN_TO_MCAST || (!one && it->group->multicast))
		return false; /* one call for all */
	for (unsigned n = 0; n < (one ? 1 : it->group->ranks); n++) {
		if (fan_peer_is_none(&p[n]))
			continue;
		const enum where where = where_is(u, &p[n]);
		if (it->inside && where == INSIDE)
			continue;
		at[where] = true;
		no_room |= where == INSIDE &&
			   !fan_ring_pair_fits(rings_to(u, &p[n]), FAN_RING_PAIR_DOWN, r->count);
	}
	return (at[HOST] && at[ELSEWHERE]) || (no_room && (at[HOST] || at[ELSEWHERE]));
}

/* Leave the items of a run for the next turn. */
static void run_leave(const struct run *r, struct fan_out_item *it)
{
	const enum fan_dest later = (enum fan_dest)(it->dest | LATER);
	for (unsigned i = 0; i < r->count; i++)
		it[r->at[i]].dest = later;
}

/* ---- before sealing ---- */

static bool put_item(struct fan_udp *u, struct fan_ring_pair *h, enum fan_ring_pair_way way,
		     struct fan_out_item *it)
{
	const struct iovec iov[] = {{it->head, sizeof it->head},
				    {(void *)it->payload, it->payload_bytes}};
	if (!fan_ring_pair_put(h, way, iov, it->payload_bytes ? 2 : 1))
		return false;
	u->datagrams_out++;
	u->bytes_out += fan_out_item_bytes(it);
	return true;
}

bool fan_udp_put_inside(struct fan_udp *u, struct fan_out_item *it, bool to_connected)
{
	struct fan_ring_pair *of[FAN_UDP_RING_PAIRS];
	unsigned count = 0;
	const bool one = it->dest == FAN_TO_PEER;
	if (to_connected) {
		it->inside = u->pair[0] && put_item(u, u->pair[0], FAN_RING_PAIR_UP, it);
	} else if (one || (it->dest == FAN_TO_GROUP && !it->group->multicast)) {
		const fan_peer *p = one ? &it->peer : it->group->peers;
		for (unsigned n = 0; n < (one ? 1 : it->group->ranks); n++) {
			struct fan_ring_pair *h =
				fan_peer_is_none(&p[n]) ? NULL : rings_to(u, &p[n]);
			if (h && !fan_ring_pair_fits(h, FAN_RING_PAIR_DOWN, 1))
				return false;
			if (h && count < FAN_UDP_RING_PAIRS)
				of[count++] = h;
		}
		for (unsigned i = 0; i < count; i++) /* one that has closed needs none */
			put_item(u, of[i], FAN_RING_PAIR_DOWN, it);
		it->inside = count > 0;
	}
	if (it->inside && it->dest != FAN_TO_GROUP)
		it->dest = FAN_TO_NOBODY;
	return it->inside;
}

/* ---- all items ---- */

/* `it->first` first: where each of several hosts sends to all others, no two begin with the same.
 */
static void send_to_members(struct fan_udp *u, struct run *r, const struct fan_out_item *it,
			    enum where where, unsigned *waits)
{
	const struct fan_group *g = it->group;
	for (unsigned n = 0; n < g->ranks; n++) {
		const fan_peer *p = &g->peers[(it->first + n) % g->ranks];
		if (!fan_peer_is_none(p) && is_at(u, p, where) && !(it->inside && rings_to(u, p)))
			send_to(u, r, p, waits);
	}
}

static void send_run(struct fan_udp *u, struct run *r, const struct fan_out_item *it,
		     enum where where, unsigned *waits)
{
	if (it->dest == FAN_TO_PEER || it->dest == FAN_TO_PARENT) {
		if (is_at(u, &it->peer, where))
			send_to(u, r, &it->peer, waits);
	} else if (it->dest == FAN_TO_MCAST || it->group->multicast) {
		send_multicast(u, r, it->group, waits);
	} else {
		send_to_members(u, r, it, where, waits);
	}
}

/* Send the items to receivers that are `where`; in the first turn, to all that may get them now.
 * True: some items are left for the next turn, LATER. */
static bool send_turn(struct fan_udp *u, struct fan_out *out, enum where where, unsigned *waits)
{
	bool more = false;
	struct run r;
	for (unsigned i = 0; i < out->count; i++) {
		struct fan_out_item *it = &out->item[i];
		if (it->dest == FAN_TO_NOBODY || it->dest & LATER)
			continue;
		run_gather(&r, it, out->count - i, false);
		const bool left = where == HOST || (where == ELSEWHERE && is_early(u, &r, it));
		send_run(u, &r, it, where == ELSEWHERE && !left ? ANYWHERE : where, waits);
		if (left)
			run_leave(&r, it);
		else
			it->dest = FAN_TO_NOBODY;
		more |= left;
	}
	for (unsigned i = 0; i < out->count && more; i++)
		out->item[i].dest = (enum fan_dest)(out->item[i].dest & ~LATER);
	return more;
}

static void send_all(struct fan_udp *u, struct fan_out *out)
{
	const bool inside = has_ring_pair(u);
	unsigned waits = inside ? FAN_UDP_WAITS_INSIDE_MAX : FAN_UDP_WAITS_MAX;
	enum where where = inside ? ELSEWHERE : ANYWHERE;
	while (send_turn(u, out, where, &waits))
		where++;
}

static void send_to_connected(struct fan_udp *u, struct fan_out *out)
{
	static const struct target connected;
	struct run r;
	unsigned waits = FAN_UDP_WAITS_MAX;
	for (unsigned i = 0; i < out->count; i++) {
		struct fan_out_item *it = &out->item[i];
		if (it->dest == FAN_TO_NOBODY)
			continue;
		run_gather(&r, it, out->count - i, true);
		if (u->pair[0])
			hand_over(u, &r, u->pair[0], FAN_RING_PAIR_UP);
		if (r.count)
			run_send(u, &r, &connected, &waits);
	}
}

void fan_udp_send(struct fan_udp *u, struct fan_out *out, bool to_connected)
{
	if (to_connected)
		send_to_connected(u, out);
	else
		send_all(u, out);
	for (unsigned i = 0; i < FAN_UDP_RING_PAIRS; i++)
		if (u->pair[i])
			fan_ring_pair_show(u->pair[i],
					   to_connected ? FAN_RING_PAIR_UP : FAN_RING_PAIR_DOWN);
	fan_out_reset(out);
}
