/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon.h"

#include <assert.h>
#include <errno.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "clock.h"
#include "netlink.h"
#include "shard.h"

#define ADDRESS_BYTES	80
#define IPV4_BYTES	28 /* headers of IP and UDP */
#define IPV6_BYTES	48
#define GOODBYE_LOOK_MS 50 /* between looks for packets */
#define GOODBYE_QUIET	3  /* looks in a row without any */
#define BITMAP_BYTES	8  /* bytes of the bitmap of a job of up to 64 ranks */

struct fan_daemon {
	struct fan_shard_log log;
	struct fan_node_config cfg;
	unsigned shards; /* made so far */
	struct fan_shard *shard[FAN_SHARDS_MAX];
};

void fan_daemon_defaults(struct fan_daemon_options *o)
{
	const struct sockaddr_in any = {.sin_family = AF_INET,
					.sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	memset(o, 0, sizeof *o);
	o->listen = fan_peer_from_sockaddr((const struct sockaddr *)&any, sizeof any);
	o->threads = 1;
	o->buffer_bytes = 4 << 20;
	o->core.slots = 4096;
	o->core.payload_bytes = FAN_PAYLOAD_1500;
	o->core.jobs_max = FAN_JOBS_MAX;
	o->core.members_max = FAN_MEMBERS_MAX;
	o->core.window_max = FAN_WINDOW_QUOTA;
	o->slots.policy = FAN_POLICY_ATP;
	o->slots.slots = 4096;
}

unsigned fan_daemon_aggregator_slots(unsigned ahead, unsigned threads)
{
	assert(threads > 0);
	unsigned slots = FAN_DAEMON_AGGREGATOR_SLOTS + 2 * ahead * threads;
	return slots < FAN_SLOTS_MAX ? slots : FAN_SLOTS_MAX;
}

/* Addresses of a shard: one for each job. */
static unsigned groups_of_shard(const struct fan_aggregator_config *c)
{
	return c->jobs_max > FAN_JOBS_MAX ? FAN_GROUPS_MAX : FAN_JOBS_MAX;
}

/* Groups that no other switch is likely to use: 239.192.0.0/14 is for one organisation's
 * own use (RFC 2365), ff15::/16 is transient and site-local (RFC 4291).  Each shard has its
 * addresses behind those of the shards before it. */
static void choose_groups(struct fan_aggregator_config *c, int family)
{
	uint64_t random = fan_clock_nonce();
	uint8_t *b = c->group_base;
	unsigned low, groups = groups_of_shard(c);
	memset(b, 0, sizeof c->group_base);
	if (family == AF_INET) {
		b[0] = 239;
		b[1] = (uint8_t)(192 + (random & 3));
		low = (unsigned)(random >> 8) % (65536 / groups - c->shards + 1u) * groups;
		b[2] = (uint8_t)(low >> 8);
		b[3] = (uint8_t)low;
	} else {
		b[0] = 0xff;
		b[1] = 0x15;
		b[9] = 0xfa;
		for (unsigned i = 10; i < 14; i++)
			b[i] = (uint8_t)(random >> 8 * (i - 8));
	}
	c->group_family = family == AF_INET ? 4 : 6;
	if (!c->group_port)
		c->group_port = FAN_DAEMON_GROUP_PORT;
}

static struct fan_node_config config_of_shard(const struct fan_daemon *d, unsigned index)
{
	assert(index < FAN_SHARDS_MAX);
	struct fan_node_config c = d->cfg;
	unsigned last = c.aggregator.group_family == 4 ? 3 : 15;
	uint8_t *base = c.aggregator.group_base;
	unsigned low = base[last - 1] * 256u + base[last] + index * groups_of_shard(&c.aggregator);
	base[last - 1] = (uint8_t)(low >> 8);
	base[last] = (uint8_t)low;
	for (unsigned i = 0; i < 2; i++)
		c.aggregator.secret.k[i] = fan_clock_nonce();
	c.aggregator.nonce = fan_clock_nonce();
	if (!fan_peer_is_none(&c.above))
		c.above.port += index;
	return c;
}

/* Report what went wrong with shard `index`, and the remedy. */
static int explain(int e, const struct fan_daemon_options *o, unsigned index, char *why,
		   size_t bytes)
{
	fan_peer p = o->listen;
	char at[ADDRESS_BYTES];
	p.port += index;
	fan_peer_text(&p, at, sizeof at);
	switch (-e) {
	case EADDRINUSE:
		snprintf(why, bytes,
			 "%s: the port is in use; `ss -ulpn sport = :%u` names the program; stop "
			 "it or listen on another port",
			 at, p.port);
		return FAN_E_SYSTEM;
	case EADDRNOTAVAIL:
		snprintf(why, bytes,
			 "%s: no interface of this machine has the address; `ip address` lists "
			 "them",
			 at);
		return FAN_E_SYSTEM;
	case EACCES:
		snprintf(why, bytes, "%s: not allowed; ports below 1024 need root", at);
		return FAN_E_SYSTEM;
	case EINVAL:
		snprintf(why, bytes, "slots, payload, jobs or window of the switch out of range");
		return FAN_E_INVALID;
	case EIO:
		snprintf(why, bytes,
			 "the kernel gives no random numbers, so jobs could be guessed");
		return FAN_E_SYSTEM;
	case ENOMEM:
		snprintf(why, bytes, "no memory for %u slots of 2 x %u bytes; ask for fewer",
			 o->core.slots, o->core.payload_bytes);
		return FAN_E_NOMEM;
	default: snprintf(why, bytes, "%s: %s", at, strerror(-e)); return FAN_E_SYSTEM;
	}
}

/* Can `to` be the next hop that the options name, and does the path to it take full fragments with
 * `more` bytes in front? */
static int check_above(const struct fan_daemon_options *o, const fan_peer *to, const char *what,
		       unsigned more, char *why, size_t bytes)
{
	unsigned packet = o->core.payload_bytes + FAN_HEAD_BYTES + more +
			  (fan_peer_family(to) == AF_INET ? IPV4_BYTES : IPV6_BYTES);
	char at[ADDRESS_BYTES];
	fan_peer_text(to, at, sizeof at);
	if (fan_peer_equal(to, &o->listen)) {
		snprintf(why, bytes, "%s: %s is this switch itself; expected another one", what,
			 at);
		return FAN_E_INVALID;
	}
	if (!to->port || to->port + o->threads - 1 > 65535) {
		snprintf(why, bytes,
			 "%s: %s: expected a port from 1 to %u: each of the %u threads talks to a "
			 "port of its own, counted from it",
			 what, at, 65536 - o->threads, o->threads);
		return FAN_E_INVALID;
	}
	struct fan_next_hop path;
	fan_next_hop_read(&path, to);
	if (path.mtu && (unsigned)path.mtu < packet) {
		snprintf(
			why, bytes,
			"%s: the interface to %s takes packets of %d bytes, and sums are up to %u; "
			"start with --mtu %d, and give the workers the same",
			what, at, path.mtu, packet, path.mtu);
		return FAN_E_MTU;
	}
	return FAN_OK;
}

static int check(const struct fan_daemon_options *o, char *why, size_t bytes)
{
	if (o->threads < 1 || o->threads > FAN_SHARDS_MAX) {
		snprintf(why, bytes, "threads: expected a number from 1 to %d, got %u",
			 FAN_SHARDS_MAX, o->threads);
		return FAN_E_INVALID;
	}
	if (o->threads > 1 && o->listen.port == 0) {
		snprintf(why, bytes, "threads: several need a port to count from, got port 0");
		return FAN_E_INVALID;
	}
	if (o->listen.port + o->threads - 1 > 65535) {
		snprintf(why, bytes, "threads: %u ports from %u on are more than there are",
			 o->threads, o->listen.port);
		return FAN_E_INVALID;
	}
	const unsigned tag = o->keys.count ? FAN_TAG_BYTES : 0;
	if (o->has_slots && !fan_peer_is_none(&o->server))
		return check_above(o, &o->server, "server", BITMAP_BYTES + tag, why, bytes);
	if (o->core.siblings)
		return check_above(o, &o->parent, "parent", tag, why, bytes);
	return FAN_OK;
}

/* Most sockets of a shard: a daemon's total stays within the default limit of open files. */
static unsigned sockets_of(const struct fan_daemon_options *o)
{
	assert(o->threads > 0);
	unsigned each = FAN_DAEMON_SOCKETS_MAX / o->threads;
	return each < FAN_SHARD_SOCKETS ? each : FAN_SHARD_SOCKETS;
}

static int make_shards(struct fan_daemon *d, const struct fan_daemon_options *o)
{
	const struct fan_seal_options seal = {o->keys, o->of_tenant};
	for (unsigned i = 0; i < o->threads; i++) {
		struct fan_udp_options u = {
			.bind = o->listen, .buffer_bytes = o->buffer_bytes, .inlets = o->inlets};
		struct fan_node_config c = config_of_shard(d, i);
		if (!c.aggregator.secret.k[0])
			return -EIO;
		u.bind.port += i;
		int e = fan_shard_new(&d->shard[i], i, &u, sockets_of(o), &c, &seal,
				      o->mark_percent, &d->log);
		if (e)
			return e;
		d->shards++;
	}
	return 0;
}

/* Settings common to all shards. */
static void configure(struct fan_node_config *c, const struct fan_daemon_options *o)
{
	bool away = o->has_slots && !fan_peer_is_none(&o->server);
	c->has_aggregator = !away && !(o->has_slots && o->routed);
	c->has_slots = o->has_slots;
	c->aggregator = o->core;
	c->aggregator.shards = (uint16_t)o->threads;
	c->aggregator.group_family = 0;
	if (!o->no_multicast && !o->has_slots)
		choose_groups(&c->aggregator, fan_peer_family(&o->listen));
	c->slots = o->slots;
	c->slots.payload_bytes = o->core.payload_bytes;
	c->slots.children_max = o->core.members_max;
	c->slots.shards = (uint16_t)o->threads;
	c->slots.spares = FAN_NODE_SPARES;
	c->above = away ? o->server : o->parent;
}

static int start_shards(struct fan_daemon *d, const struct fan_daemon_options *o, char *why,
			size_t bytes)
{
	for (unsigned i = 0; i < d->shards; i++) {
		int e = fan_shard_start(d->shard[i]);
		if (e)
			return explain(e, o, i, why, bytes);
	}
	return FAN_OK;
}

int fan_daemon_start(struct fan_daemon **out, const struct fan_daemon_options *o, char *why,
		     size_t bytes)
{
	int e = check(o, why, bytes);
	*out = NULL;
	if (e)
		return e;
	struct fan_daemon *d = calloc(1, sizeof *d);
	if (!d)
		return explain(-ENOMEM, o, 0, why, bytes);
	pthread_mutex_init(&d->log.lock, NULL);
	d->log.line = o->log;
	d->log.ctx = o->ctx;
	configure(&d->cfg, o);
	e = make_shards(d, o);
	if (e)
		e = explain(e, o, d->shards, why, bytes);
	if (!e)
		e = start_shards(d, o, why, bytes);
	if (e) {
		fan_daemon_stop(d);
		return e;
	}
	*out = d;
	return FAN_OK;
}

fan_peer fan_daemon_address(const struct fan_daemon *d)
{
	assert(d->shards > 0);
	return fan_udp_local(&d->shard[0]->udp[0]);
}

void fan_daemon_facts(const struct fan_daemon *d, struct fan_daemon_facts *facts)
{
	const struct fan_shard *s = d->shard[0];
	memset(facts, 0, sizeof *facts);
	facts->address = fan_daemon_address(d);
	if (d->cfg.aggregator.group_family)
		facts->group = fan_line_group(&s->cfg.aggregator, 0);
	facts->memory = d->shards * fan_node_bytes(&s->cfg);
	facts->shards = d->shards;
	facts->sockets = s->sockets;
	facts->sndbuf = s->udp[0].sndbuf;
	facts->rcvbuf = s->udp[0].rcvbuf;
	facts->segment = s->udp[0].segment;
	facts->gro = s->udp[0].gro;
}

void fan_daemon_ask(struct fan_daemon *d, struct fan_shard_request *r)
{
	for (unsigned i = 0; i < d->shards; i++)
		fan_shard_ask(d->shard[i], r);
}

int fan_daemon_route(struct fan_daemon *d, const struct fan_route_config *c)
{
	struct fan_route_entry entry[FAN_ROUTE_ENTRIES_MAX];
	struct fan_route_config moved = *c;
	struct fan_shard_request r = {
		.wish = FAN_SHARD_ROUTE, .route = &moved, .number = c->number};
	if (!c->entries || c->entries > FAN_ROUTE_ENTRIES_MAX)
		return FAN_E_INVALID;
	memcpy(entry, c->entry, c->entries * sizeof *entry);
	moved.entry = entry;
	moved.quota = c->quota / d->shards; /* all quotas together have room in each */
	if (c->quota && !moved.quota)
		moved.quota = 1;
	for (unsigned i = 0; i < d->shards; i++) {
		fan_shard_ask(d->shard[i], &r);
		if (r.err) { /* all shards have the same routes: it is the first, or no memory */
			int e = r.err;
			r.wish = FAN_SHARD_UNROUTE;
			if (e != FAN_E_BUSY)
				fan_daemon_ask(d, &r); /* also where it is not */
			return e;
		}
		for (unsigned k = 0; k < c->entries; k++) {
			entry[k].next.port++;
			entry[k].from.port += !fan_peer_is_none(&entry[k].from);
		}
	}
	return FAN_OK;
}

void fan_daemon_health(struct fan_daemon *d, unsigned shard, struct fan_shard_health *h)
{
	assert(shard < d->shards);
	struct fan_shard_request r = {.wish = FAN_SHARD_HEALTH, .health = h};
	fan_shard_ask(d->shard[shard], &r);
}

static bool is_drained(struct fan_shard *s, uint64_t by_ns)
{
	const struct timespec look = {.tv_nsec = (long)FAN_MS};
	while (sem_trywait(&s->empty)) { /* sem_clockwait is of glibc 2.30 */
		if (fan_clock_ns() >= by_ns)
			return false;
		nanosleep(&look, NULL);
	}
	return true;
}

bool fan_daemon_drain(struct fan_daemon *d, const struct fan_drain *of, int ms)
{
	uint64_t by_ns = fan_clock_ns() + (uint64_t)(ms > 0 ? ms : 0) * FAN_MS;
	bool empty = true;
	for (unsigned i = 0; i < d->shards; i++)
		fan_shard_drain(d->shard[i], of);
	for (unsigned i = 0; i < d->shards; i++)
		empty &= is_drained(d->shard[i], by_ns);
	return empty;
}

/* Packets that shards without aggregators have had. */
static uint64_t packets(struct fan_daemon *d)
{
	struct fan_shard_health h;
	uint64_t sum = 0;
	for (unsigned i = 0; i < d->shards; i++) {
		fan_daemon_health(d, i, &h);
		sum += h.packets;
	}
	return sum;
}

/* Slots alone have no members: who was there has gone when nothing comes any more. */
static void wait_for_quiet(struct fan_daemon *d)
{
	const struct timespec look = {.tv_nsec = (long)(GOODBYE_LOOK_MS * FAN_MS)};
	uint64_t before = packets(d);
	unsigned quiet = 0;
	for (unsigned i = 0;
	     before && i < FAN_DAEMON_GOODBYE_MS / GOODBYE_LOOK_MS && quiet < GOODBYE_QUIET; i++) {
		nanosleep(&look, NULL);
		uint64_t now = packets(d);
		quiet = now == before ? quiet + 1 : 0;
		before = now;
	}
}

void fan_daemon_goodbye(struct fan_daemon *d)
{
	const struct fan_drain all = {.goodbye = true};
	assert(d->shards > 0);
	fan_daemon_drain(d, &all, d->cfg.has_aggregator ? FAN_DAEMON_GOODBYE_MS : 0);
	if (!d->cfg.has_aggregator)
		wait_for_quiet(d);
	(void)packets(d); /* by then threads that had no time have reported it once */
}

void fan_daemon_linger(const struct fan_daemon *d, int quiet_ms, uint64_t by_ns)
{
	const struct timespec look = {.tv_nsec = (long)(GOODBYE_LOOK_MS * FAN_MS)};
	for (;;) {
		uint64_t heard_ns = 0, now_ns = fan_clock_ns();
		for (unsigned i = 0; i < d->shards; i++) {
			uint64_t at_ns =
				atomic_load_explicit(&d->shard[i]->heard_ns, memory_order_relaxed);
			heard_ns = at_ns > heard_ns ? at_ns : heard_ns;
		}
		if (!heard_ns || now_ns >= by_ns ||
		    now_ns >= heard_ns + (uint64_t)quiet_ms * FAN_MS)
			return;
		nanosleep(&look, NULL);
	}
}

int fan_daemon_rings(struct fan_daemon *d, unsigned shard, struct fan_ring_pair *h,
		     const fan_peer *local)
{
	struct fan_shard_request r = {.wish = FAN_SHARD_RINGS, .pair = h, .local = local};
	if (shard >= d->shards)
		return FAN_E_BUSY;
	fan_shard_ask(d->shard[shard], &r);
	return r.err;
}

void fan_daemon_abandon(struct fan_daemon *d)
{
	for (unsigned i = 0; i < d->shards; i++)
		d->shard[i]->running = false; /* the child does not have the thread */
	fan_daemon_stop(d);
}

void fan_daemon_stop(struct fan_daemon *d)
{
	for (unsigned i = 0; i < d->shards; i++)
		fan_shard_free(d->shard[i]);
	pthread_mutex_destroy(&d->log.lock);
	free(d);
}
