/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon_client.h"

#include <errno.h>
#include <jansson.h>
#include <poll.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <time.h>
#include <unistd.h>

#include "clock.h"
#include "lines.h"
#include "logline.h"
#include "neighbours.h"
#include "netlink.h"
#include "order.h"
#include "shard.h"

#define ADDRESS_BYTES	 80
#define ECHO_BUFFER	 (256 * 1024) /* of the socket: a turn's answers */
#define ECHOES_PER_ROUND 1024	      /* datagrams received before the line has its turn */
#define TURNS_PER_ROUTE	 8 /* until the interface towards a neighbour is looked up again */

/* Counters of one job, over all shards. */
struct sum {
	const char *name;
	uint64_t hits, passed, collisions, held, results, replays;
	unsigned ranks;
	const char *state;
};

struct fan_daemon_client {
	struct fan_daemon_client_options o;
	struct fan_lines lines;
	pthread_t thread;
	int stop_fd; /* written to: stop */
	bool said_hello;
	uint64_t started_ms; /* since 1970 */
	uint64_t retry_ns;   /* closed: when to dial; connecting: when to give up */
	uint64_t health_ns;  /* when the next report is due */
	bool told_lost;	     /* the controller's absence has been logged */
	unsigned routes;     /* installed */
	uint16_t route[FAN_ROUTES_MAX];
	struct fan_order order;
	struct fan_neighbours neighbours;
	struct fan_cross_traffic others; /* on the interfaces towards them */
	struct fan_udp udp;		 /* to them; fd -1: none */
	struct fan_out_item item[FAN_NEIGHBOURS_MAX];
	uint8_t in[FAN_UDP_RECV_BYTES];
	struct fan_shard_health health[FAN_SHARDS_MAX];
	struct sum sum[FAN_JOBS_MAX];
};

/* ---- saying ---- */

static void log_line(const struct fan_daemon_client *a, const struct fan_text *l)
{
	if (a->o.log)
		a->o.log(a->o.ctx, l->at);
}

/* Send `value`, which is given up.  -errno: the line is of no use. */
static int send_json(struct fan_daemon_client *a, json_t *value)
{
	char *text = value ? json_dumps(value, JSON_COMPACT) : NULL;
	int e = text ? fan_lines_put(&a->lines, text, strlen(text)) : -ENOMEM;
	free(text);
	json_decref(value);
	return e;
}

/* The address at which workers and switches find this daemon. */
static const char *address(const struct fan_daemon_client *a, char *text)
{
	fan_peer at = a->o.listen;
	struct sockaddr_storage ss;
	socklen_t bytes = sizeof ss;
	if (fan_peer_is_any(&at) && getsockname(a->lines.fd, (struct sockaddr *)&ss, &bytes) == 0) {
		at = fan_peer_from_sockaddr((const struct sockaddr *)&ss, bytes);
		at.port = a->o.listen.port;
	}
	return fan_peer_text(&at, text, ADDRESS_BYTES);
}

static int send_hello(struct fan_daemon_client *a)
{
	char text[ADDRESS_BYTES], above[ADDRESS_BYTES];
	json_t *routes = json_array();
	for (unsigned i = 0; i < a->routes; i++)
		json_array_append_new(routes, json_integer(a->route[i]));
	a->said_hello = true;
	a->health_ns = fan_clock_ns();
	json_t *hello = json_pack(
		"{ss ss ss si si sI so}", "hello", a->o.is_switch ? "switch" : "server", "name",
		a->o.name, "listen", address(a, text), "shards", (int)a->o.shards, "slots",
		(int)a->o.slots, "started", (json_int_t)a->started_ms, "routes", routes);
	if (hello && a->o.siblings)
		json_object_set_new(hello, "above",
				    json_pack("{ss si si}", "at",
					      fan_peer_text(&a->o.above, above, sizeof above),
					      "index", (int)a->o.index, "siblings",
					      (int)a->o.siblings));
	return send_json(a, hello);
}

static struct sum *sum_of(struct fan_daemon_client *a, unsigned *count, const char *name)
{
	for (unsigned i = 0; i < *count; i++)
		if (strcmp(a->sum[i].name, name) == 0)
			return &a->sum[i];
	if (*count == FAN_JOBS_MAX)
		return NULL;
	a->sum[*count] = (struct sum){.name = name};
	return &a->sum[(*count)++];
}

static void add_job(struct fan_daemon_client *a, unsigned *count, const struct fan_shard_health *h,
		    unsigned i)
{
	const struct fan_slot_stats *t = &h->slot_stats[i];
	const struct fan_report *r = &h->report[i];
	struct sum *s = sum_of(a, count, a->o.is_switch ? t->name : r->name);
	if (!s)
		return;
	s->hits += t->hits;
	s->passed += t->passed;
	s->collisions += t->collisions;
	s->held += t->held;
	s->results += r->results;
	s->replays += r->replays;
	s->ranks = r->ranks;
	s->state = a->o.is_switch ? NULL : fan_job_state_text(r->state);
}

static json_t *jobs_json(struct fan_daemon_client *a)
{
	json_t *list = json_array();
	unsigned count = 0;
	for (unsigned s = 0; s < a->o.shards; s++)
		for (unsigned i = 0;
		     i < (a->o.is_switch ? a->health[s].slot_jobs : a->health[s].jobs); i++)
			add_job(a, &count, &a->health[s], i);
	for (unsigned i = 0; i < count; i++) {
		const struct sum *s = &a->sum[i];
		json_array_append_new(
			list, a->o.is_switch ? json_pack("{ss sI sI sI sI}", "name", s->name,
							 "hits", (json_int_t)s->hits, "passed",
							 (json_int_t)s->passed, "collisions",
							 (json_int_t)s->collisions, "held",
							 (json_int_t)s->held)
					     : json_pack("{ss ss si sI sI}", "name", s->name,
							 "state", s->state, "ranks", (int)s->ranks,
							 "results", (json_int_t)s->results,
							 "replays", (json_int_t)s->replays));
	}
	return list;
}

static json_t *silent_json(const struct fan_daemon_client *a)
{
	json_t *list = json_array();
	for (unsigned i = 0; i < a->neighbours.count; i++)
		if (a->neighbours.of[i].silent)
			json_array_append_new(list, json_string(a->neighbours.of[i].who.name));
	return list;
}

/* Gb/s that others receive by the interfaces towards neighbours, of those where it is known. */
static json_t *others_json(const struct fan_daemon_client *a)
{
	json_t *all = json_object();
	for (unsigned i = 0; i < a->neighbours.count; i++) {
		const struct fan_arrival *h = &a->neighbours.of[i];
		double gbps = fan_cross_traffic_gbps(&a->others, h->interface);
		if (gbps >= 0)
			json_object_set_new(all, h->who.name, json_real(gbps));
	}
	return all;
}

static void begin_others(struct fan_daemon_client *a)
{
	unsigned index[FAN_NEIGHBOURS_MAX];
	for (unsigned i = 0; i < a->neighbours.count; i++)
		index[i] = a->neighbours.of[i].interface;
	fan_cross_traffic_begin(&a->others, index, a->neighbours.count);
}

static void end_others(struct fan_daemon_client *a)
{
	struct fan_inlets own = {.full = false};
	uint64_t overflows = 0;
	for (unsigned s = 0; s < a->o.shards; s++) {
		const struct fan_shard_traffic *t = &a->health[s].traffic;
		fan_inlets_join(&own, &t->inlets);
		overflows += t->overflows;
	}
	fan_cross_traffic_end(&a->others, fan_clock_ns(), &own, overflows);
}

/* Add the neighbours of the controller's list to the report. */
static void add_neighbours(const struct fan_daemon_client *a, json_t *health)
{
	if (!a->neighbours.number)
		return;
	json_object_set_new(health, "neighbours", json_integer(a->neighbours.number));
	json_object_set_new(health, "silent", silent_json(a));
	json_object_set_new(health, "others", others_json(a));
}

/* Packets dropped, for all reasons, and packets, of the object that packets reach first. */
static uint64_t drops_of(const struct fan_shard_health *h)
{
	const uint64_t *drops = h->has_slots ? h->slots.drops : h->aggregator.drops;
	uint64_t all = 0;
	for (unsigned i = 0; i < FAN_DROP_COUNT; i++)
		all += drops[i];
	return all;
}

static int send_health(struct fan_daemon_client *a)
{
	uint64_t packets = 0, hits = 0, passed = 0, collisions = 0, results = 0, drops = 0;
	begin_others(a);
	for (unsigned s = 0; s < a->o.shards; s++) {
		const struct fan_shard_health *h = &a->health[s];
		fan_daemon_health(a->o.daemon, s, &a->health[s]);
		packets += h->packets;
		hits += h->slots.hits;
		passed += h->slots.passed;
		collisions += h->slots.collisions;
		results += h->aggregator.results;
		drops += drops_of(h);
	}
	end_others(a);
	a->health_ns = fan_clock_ns() + FAN_DAEMON_CLIENT_HEALTH_MS * FAN_MS;
	json_t *health = json_pack("{sI sI sI sI sI sI so}", "packets", (json_int_t)packets, "hits",
				   (json_int_t)hits, "passed", (json_int_t)passed, "collisions",
				   (json_int_t)collisions, "results", (json_int_t)results, "drops",
				   (json_int_t)drops, "jobs", jobs_json(a));
	if (health)
		add_neighbours(a, health);
	return send_json(a, json_pack("{so}", "health", health));
}

/* ---- heeding ---- */

/* `count` routes if it is none of them. */
static unsigned place_of(const struct fan_daemon_client *a, uint16_t route)
{
	unsigned i = 0;
	while (i < a->routes && a->route[i] != route)
		i++;
	return i;
}

static const char *why_not(int err)
{
	switch (err) {
	case FAN_E_BUSY: return "the route's number has other entries here";
	case FAN_E_SLOTS_FULL: return "no room for a further route";
	default: return "entries that exclude each other, or a server, which has none";
	}
}

static int install(struct fan_daemon_client *a, char *why)
{
	const struct fan_order *o = &a->order;
	const struct fan_route_config c = {
		.number = o->route,
		.quota = o->quota,
		.entry = o->entry,
		.entries = o->entries,
	};
	unsigned place = place_of(a, o->route);
	int err = place < FAN_ROUTES_MAX ? fan_daemon_route(a->o.daemon, &c) : FAN_E_SLOTS_FULL;
	if (err)
		snprintf(why, FAN_ORDER_WHY_BYTES, "route %u: %s", o->route, why_not(err));
	else if (place == a->routes)
		a->route[a->routes++] = o->route;
	return err;
}

static void take_away(struct fan_daemon_client *a)
{
	struct fan_shard_request r = {.wish = FAN_SHARD_UNROUTE, .number = a->order.route};
	unsigned place = place_of(a, a->order.route);
	if (place == a->routes)
		return;
	fan_daemon_ask(a->o.daemon, &r);
	a->route[place] = a->route[--a->routes];
}

static void log_refused(struct fan_daemon_client *a)
{
	struct fan_text l = FAN_LINE();
	fan_text_add(&l, "event=warning");
	fan_text_quoted(&l, "text", a->order.refused, strlen(a->order.refused));
	log_line(a, &l);
}

/* ---- neighbours ---- */

/* From the daemon's own address, so that answers come on the path of contributions. */
static void open_udp(struct fan_daemon_client *a)
{
	struct fan_udp_options o = {
		.bind = a->o.listen, .buffer_bytes = ECHO_BUFFER, .plain = true};
	struct fan_text l = FAN_LINE();
	if (a->udp.fd >= 0)
		return;
	o.bind.port = 0;
	int e = fan_udp_open(&a->udp, &o);
	if (!e)
		return;
	a->udp.fd = -1;
	fan_text_add(&l, "event=warning text=\"neighbours cannot be asked: %s\"", strerror(-e));
	log_line(a, &l);
}

static void take_neighbours(struct fan_daemon_client *a)
{
	const struct fan_order *o = &a->order;
	open_udp(a);
	if (a->udp.fd >= 0)
		fan_neighbours_set(&a->neighbours, o->list, o->neighbour, o->neighbours,
				   fan_clock_ns());
}

static void receive_neighbours(struct fan_daemon_client *a)
{
	struct fan_udp_batch b;
	for (unsigned i = 0; i < ECHOES_PER_ROUND; i++) {
		int n = fan_udp_recv(&a->udp, a->in, &b);
		if (n == 0)
			return;
		for (size_t at = 0; n > 0 && at < b.bytes; at += fan_udp_datagram_bytes(&b, at))
			fan_neighbours_take(&a->neighbours, &b.from, a->in + at,
					    fan_udp_datagram_bytes(&b, at));
	}
}

static void report_silence(struct fan_daemon_client *a)
{
	for (unsigned i = 0; i < a->neighbours.count; i++) {
		const struct fan_arrival *h = &a->neighbours.of[i];
		struct fan_text l = FAN_LINE();
		char text[ADDRESS_BYTES];
		if (!h->changed)
			continue;
		fan_text_add(&l, "event=neighbour_%s", h->silent ? "silent" : "heard");
		fan_text_quoted(&l, "name", h->who.name, strlen(h->who.name));
		fan_text_add(&l, " address=%s", fan_peer_text(&h->who.at, text, sizeof text));
		log_line(a, &l);
	}
}

static unsigned interface_to(const fan_peer *at)
{
	struct fan_next_hop path;
	fan_next_hop_read(&path, at);
	return path.interface;
}

/* Judge, ask all again, and report changes to the controller at once. */
static void turn_neighbours(struct fan_daemon_client *a, uint64_t now_ns)
{
	struct fan_out out;
	if (fan_neighbours_turn(&a->neighbours, now_ns)) {
		report_silence(a);
		a->health_ns = now_ns;
	}
	fan_out_init(&out, a->item, FAN_NEIGHBOURS_MAX, NULL, 0);
	for (unsigned i = 0; i < a->neighbours.count; i++) {
		struct fan_arrival *h = &a->neighbours.of[i];
		if (!h->interface || (a->neighbours.turn + i) % TURNS_PER_ROUTE == 0)
			h->interface = interface_to(&h->who.at);
		fan_neighbours_ask(&a->neighbours, i, &out);
	}
	fan_udp_send(&a->udp, &out, false);
}

/* Read pending answers first, so that a late client does not find neighbours silent. */
static void see_neighbours(struct fan_daemon_client *a)
{
	if (a->udp.fd < 0)
		return;
	receive_neighbours(a);
	uint64_t now_ns = fan_clock_ns();
	if (a->neighbours.count && now_ns >= a->neighbours.due_ns)
		turn_neighbours(a, now_ns);
}

/* ---- orders ---- */

/* Obey the line.  -errno: the connection is of no use any more. */
static int handle_line(struct fan_daemon_client *a, const char *text, size_t bytes)
{
	char why[FAN_ORDER_WHY_BYTES];
	int err = fan_order_get(&a->order, text, bytes, why);
	if (err && !a->order.numbered)
		return 0; /* no answer is expected */
	if (!err && a->order.kind == FAN_ORDER_OTHER)
		return 0;
	if (!err && a->order.kind == FAN_ORDER_REFUSED) {
		log_refused(a);
		return -ECONNREFUSED;
	}
	if (!err && a->order.kind == FAN_ORDER_NEIGHBOURS) {
		take_neighbours(a);
		return 0;
	}
	if (!err && a->order.kind == FAN_ORDER_INSTALL)
		err = install(a, why);
	else if (!err)
		take_away(a);
	json_int_t id = (json_int_t)a->order.id;
	return send_json(a, err ? json_pack("{sI ss}", "error", id, "why", why)
				: json_pack("{sI}", "ok", id));
}

/* ---- the line ---- */

static void hang_up(struct fan_daemon_client *a, int e)
{
	const uint64_t spread = FAN_DAEMON_CLIENT_RETRY_MAX - FAN_DAEMON_CLIENT_RETRY_MS;
	uint64_t random = fan_clock_nonce();
	bool first =
		a->said_hello && e != -ECONNREFUSED; /* soon, since aggregators wait only briefly */
	char text[ADDRESS_BYTES];
	struct fan_text l = FAN_LINE();
	fan_lines_close(&a->lines);
	a->neighbours.number = 0;
	a->said_hello = false;
	a->retry_ns = fan_clock_ns() + (first ? random % FAN_DAEMON_CLIENT_FIRST_MS
					      : FAN_DAEMON_CLIENT_RETRY_MS + random % spread) *
					       FAN_MS;
	if (a->told_lost)
		return;
	a->told_lost = true;
	fan_text_add(&l, "event=controller_lost controller=%s cause=\"%s\"",
		     fan_peer_text(&a->o.controller, text, sizeof text), strerror(-e));
	log_line(a, &l);
}

static void dial(struct fan_daemon_client *a)
{
	int e = fan_lines_dial(&a->lines, &a->o.controller);
	if (!e)
		e = fan_lines_sign(&a->lines, &a->o.keys);
	a->said_hello = false;
	a->retry_ns = fan_clock_ns() + FAN_DAEMON_CLIENT_RETRY_MAX * FAN_MS;
	if (e)
		hang_up(a, e);
}

static void report_found(struct fan_daemon_client *a)
{
	char text[ADDRESS_BYTES];
	struct fan_text l = FAN_LINE();
	a->told_lost = false;
	fan_text_add(&l, "event=controller controller=%s name=%s routes=%u",
		     fan_peer_text(&a->o.controller, text, sizeof text), a->o.name, a->routes);
	log_line(a, &l);
}

static void turn(struct fan_daemon_client *a, short revents)
{
	size_t bytes;
	char *text;
	int err = 0, e = fan_lines_turn(&a->lines, revents);
	if (!e && a->lines.connecting)
		err = fan_clock_ns() < a->retry_ns ? 0 : -ETIMEDOUT;
	else if (!e && !a->said_hello) {
		report_found(a);
		err = send_hello(a);
	}
	while (!err && (text = fan_lines_next(&a->lines, &bytes)))
		err = handle_line(a, text, bytes);
	if (!err)
		err = fan_lines_trouble(&a->lines);
	if (!err && !e && a->said_hello && fan_clock_ns() >= a->health_ns)
		err = send_health(a);
	if (e || err)
		hang_up(a, e ? e : err);
}

static uint64_t deadline(const struct fan_daemon_client *a)
{
	uint64_t due = a->lines.fd >= 0 && a->said_hello ? a->health_ns : a->retry_ns;
	if (a->udp.fd >= 0 && a->neighbours.count && a->neighbours.due_ns < due)
		due = a->neighbours.due_ns;
	return due;
}

static void *run(void *arg)
{
	struct fan_daemon_client *a = arg;
	for (;;) {
		bool open = a->lines.fd >= 0; /* poll() passes over what is -1 */
		struct pollfd p[3] = {{.fd = a->stop_fd, .events = POLLIN},
				      {.fd = a->lines.fd, .events = fan_lines_events(&a->lines)},
				      {.fd = a->udp.fd, .events = POLLIN}};
		if (poll(p, 3, fan_clock_timeout_ms(deadline(a), -1)) < 0 && errno != EINTR)
			return NULL;
		if (p[0].revents) {
			if (open && a->said_hello)
				(void)send_json(a, json_pack("{sb}", "stopping", 1));
			return NULL;
		}
		see_neighbours(a);
		if (open)
			turn(a, p[1].revents);
		else if (fan_clock_ns() >= a->retry_ns)
			dial(a);
	}
}

int fan_daemon_client_start(struct fan_daemon_client **out,
			    const struct fan_daemon_client_options *o)
{
	struct fan_daemon_client *a = calloc(1, sizeof *a);
	struct timespec now;
	*out = NULL;
	if (!a)
		return -ENOMEM;
	a->o = *o;
	a->lines.fd = a->udp.fd = -1;
	clock_gettime(CLOCK_REALTIME, &now);
	a->started_ms = (uint64_t)now.tv_sec * 1000 + (uint64_t)now.tv_nsec / 1000000;
	a->stop_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	int e = a->stop_fd < 0 ? -errno : -pthread_create(&a->thread, NULL, run, a);
	if (e) {
		if (a->stop_fd >= 0)
			close(a->stop_fd);
		free(a);
		return e;
	}
	pthread_setname_np(a->thread, "fanin-client");
	*out = a;
	return 0;
}

void fan_daemon_client_stop(struct fan_daemon_client *a)
{
	const uint64_t one = 1;
	if (!a)
		return;
	if (write(a->stop_fd, &one, sizeof one) == sizeof one)
		pthread_join(a->thread, NULL);
	fan_lines_close(&a->lines);
	if (a->udp.fd >= 0)
		fan_udp_close(&a->udp);
	close(a->stop_fd);
	free(a);
}
