/* SPDX-License-Identifier: Apache-2.0 */
#include "metrics_http.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#ifdef FAN_HAS_MICROHTTPD
#include <microhttpd.h>
#include <netinet/in.h>
#include <poll.h>
#include <pthread.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include "net/clock.h"
#include "net/udp.h"

#define NS_PER_S     1e9
#define SWEEP_MS     1000
#define TURNS_MAX    16 /* of libmicrohttpd at a time, while it has something to do */
#define IPV6_HOST_OF 8	/* bytes of an address: one host may own a whole /64 */

/* A connection. */
struct guest {
	bool is_there;
	bool is_leaving; /* its socket is shut down, unnoticed by libmicrohttpd */
	int fd;
	fan_peer at;	   /* of the client */
	uint64_t since_ns; /* it connected, or its last answer was complete */
};

/* The values of one moment, by job. */
struct point {
	uint64_t at_ns;
	char *text;
	size_t bytes;
};

struct metrics_http {
	struct MHD_Daemon *daemon;
	struct fan_daemon *of;
	const char *role;
	struct guest guest[METRICS_CONNECTIONS_MAX];
	struct point point[METRICS_POINTS_MAX]; /* the oldest first */
	unsigned points;
	size_t point_bytes;
	uint64_t next_ns; /* time of the next point */
	int stop_fd;	  /* of the thread */
	pthread_t thread;
};

/* page.html, as tools/page-text.py turns it into strings. */
static const char index_page[] =
#include "page.inc"
	;

/* Only the page's own script and style run, and they ask only this daemon. */
static const char policy[] =
#include "policy.inc"
	;

static enum MHD_Result reply(struct MHD_Connection *c, unsigned status, const char *type,
			     struct MHD_Response *r)
{
	if (!r)
		return MHD_NO;
	MHD_add_response_header(r, "Content-Type", type);
	MHD_add_response_header(r, "Cache-Control", "no-store");
	MHD_add_response_header(r, "Content-Security-Policy", policy);
	MHD_add_response_header(r, "X-Content-Type-Options", "nosniff");
	enum MHD_Result done = MHD_queue_response(c, status, r);
	MHD_destroy_response(r);
	return done;
}

static enum MHD_Result reply_text(struct MHD_Connection *c, unsigned status, const char *type,
				  const char *text)
{
	return reply(c, status, type,
		     MHD_create_response_from_buffer(strlen(text), (void *)text,
						     MHD_RESPMEM_PERSISTENT));
}

static enum MHD_Result reply_metrics(struct metrics_http *h, struct MHD_Connection *c)
{
	struct fan_expose x = {.text = NULL};

	metrics_put_daemon(&x, h->of, h->role);
	if (x.full || !x.text) {
		free(x.text);
		return reply_text(c, MHD_HTTP_INTERNAL_SERVER_ERROR, "text/plain",
				  "too many metrics, or no memory for them\n");
	}
	return reply(c, MHD_HTTP_OK, "text/plain; version=0.0.4; charset=utf-8",
		     MHD_create_response_from_buffer(x.used, x.text, MHD_RESPMEM_MUST_FREE));
}

/* ---- history ---- */

/* The metrics that the page draws over time. */
static const char *const kept[] = {
	"fanin_job_state",
	"fanin_job_ranks",
	"fanin_job_open_fragments",
	"fanin_job_missing_ranks",
	"fanin_job_waits_for_rank",
	"fanin_job_results_total",
	"fanin_job_operations_total",
	"fanin_job_operation_seconds_total",
	"fanin_job_tensor_bytes_total",
	"fanin_job_slots_held",
	"fanin_job_slot_completions_total",
};

static bool is_kept(const char *line)
{
	const size_t name = strcspn(line, "{ \n");

	for (unsigned i = 0; i < sizeof kept / sizeof kept[0]; i++)
		if (strlen(kept[i]) == name && strncmp(kept[i], line, name) == 0)
			return true;
	return false;
}

static void forget_oldest(struct metrics_http *h)
{
	h->point_bytes -= h->point[0].bytes;
	free(h->point[0].text);
	memmove(h->point, h->point + 1, --h->points * sizeof *h->point);
}

/* Keep the lines of `x`, whose text becomes the point's, that are drawn. */
static void keep_point(struct metrics_http *h, uint64_t now_ns, struct fan_expose *x)
{
	char *to = x->text;

	for (char *from = x->text, *next; *from; from = next) {
		const size_t bytes = strcspn(from, "\n");
		next = from + bytes + (from[bytes] == '\n');
		if (!is_kept(from))
			continue;
		memmove(to, from, (size_t)(next - from));
		to += next - from;
	}
	struct point p = {now_ns, x->text, (size_t)(to - x->text)};
	char *tight = realloc(p.text, p.bytes + 1);
	p.text = tight ? tight : p.text;
	while (h->points &&
	       (h->points == METRICS_POINTS_MAX || h->point_bytes + p.bytes > METRICS_POINT_BYTES))
		forget_oldest(h);
	if (p.bytes > METRICS_POINT_BYTES) {
		free(p.text);
		return;
	}
	h->point_bytes += p.bytes;
	h->point[h->points++] = p;
}

/* Add a point when it is time. */
static void note_point(struct metrics_http *h)
{
	const uint64_t now_ns = fan_clock_ns();
	struct fan_expose x = {.text = NULL};

	if (now_ns < h->next_ns)
		return;
	h->next_ns = now_ns + METRICS_POINT_NS;
	metrics_put_daemon(&x, h->of, h->role);
	if (x.full || !x.text)
		free(x.text);
	else
		keep_point(h, now_ns, &x);
}

/* All points, each behind "# ago SECONDS". */
static enum MHD_Result reply_history(struct metrics_http *h, struct MHD_Connection *c)
{
	const uint64_t now_ns = fan_clock_ns();
	char *text = NULL;
	size_t bytes = 0;
	FILE *f = open_memstream(&text, &bytes);

	for (unsigned i = 0; f && i < h->points; i++) {
		fprintf(f, "# ago %.3f\n", (double)(now_ns - h->point[i].at_ns) / NS_PER_S);
		fwrite(h->point[i].text, 1, h->point[i].bytes, f);
	}
	if (!f || fclose(f)) {
		free(text);
		return reply_text(c, MHD_HTTP_INTERNAL_SERVER_ERROR, "text/plain", "no memory\n");
	}
	return reply(c, MHD_HTTP_OK, "text/plain; charset=utf-8",
		     MHD_create_response_from_buffer(bytes, text, MHD_RESPMEM_MUST_FREE));
}

static enum MHD_Result handle(void *ctx, struct MHD_Connection *c, const char *url,
			      const char *method, const char *version, const char *body,
			      size_t *body_bytes, void **state)
{
	static const char text[] = "text/plain; charset=utf-8";
	static int begun;

	(void)version;
	(void)body;
	(void)body_bytes;
	if (strcmp(method, "GET") != 0 && strcmp(method, "HEAD") != 0)
		return reply_text(c, MHD_HTTP_METHOD_NOT_ALLOWED, text, "only GET and HEAD\n");
	if (!*state) { /* only headers so far: answer when the request is complete */
		*state = &begun;
		return MHD_YES;
	}
	if (strcmp(url, "/metrics") == 0)
		return reply_metrics(ctx, c);
	if (strcmp(url, "/history") == 0)
		return reply_history(ctx, c);
	if (strcmp(url, "/") == 0)
		return reply_text(c, MHD_HTTP_OK, "text/html; charset=utf-8", index_page);
	return reply_text(c, MHD_HTTP_NOT_FOUND, text, "there are /, /metrics and /history\n");
}

static bool same_host(const fan_peer *a, const fan_peer *b)
{
	bool is_v6 = fan_peer_family(a) == AF_INET6;

	return !memcmp(a->addr, b->addr, is_v6 ? IPV6_HOST_OF : sizeof a->addr);
}

/* How many clients there are of `host`, NULL for all, and the one that has waited longest. */
static unsigned count_of(struct metrics_http *h, const fan_peer *host, struct guest **longest)
{
	unsigned count = 0;

	*longest = NULL;
	for (unsigned i = 0; i < METRICS_CONNECTIONS_MAX; i++) {
		struct guest *g = &h->guest[i];
		if (!g->is_there || g->is_leaving || (host && !same_host(&g->at, host)))
			continue;
		count++;
		if (!*longest || g->since_ns < (*longest)->since_ns)
			*longest = g;
	}
	return count;
}

/* The client that makes room for others: of the host that has most, the one that has waited
 * longest. */
static struct guest *give_way(struct metrics_http *h)
{
	struct guest *longest, *of_most = NULL;
	unsigned most = 0;

	for (unsigned i = 0; i < METRICS_CONNECTIONS_MAX; i++) {
		const struct guest *g = &h->guest[i];
		if (!g->is_there || g->is_leaving)
			continue;
		const unsigned count = count_of(h, &g->at, &longest);
		if (!of_most || count > most ||
		    (count == most && longest->since_ns < of_most->since_ns))
			of_most = longest;
		most = count > most ? count : most;
	}
	return of_most;
}

static void close_client(struct guest *g)
{
	shutdown(g->fd, SHUT_RDWR);
	g->is_leaving = true;
}

static void admit(struct metrics_http *h, struct MHD_Connection *c, void **place)
{
	const union MHD_ConnectionInfo *info =
		MHD_get_connection_info(c, MHD_CONNECTION_INFO_CONNECTION_FD);
	int fd = info ? info->connect_fd : -1; /* the next question overwrites what `info` has */
	const union MHD_ConnectionInfo *client =
		MHD_get_connection_info(c, MHD_CONNECTION_INFO_CLIENT_ADDRESS);
	unsigned i = 0;

	while (i < METRICS_CONNECTIONS_MAX && h->guest[i].is_there)
		i++;
	if (i == METRICS_CONNECTIONS_MAX || fd < 0 || !client) /* its own bound is the same */
		return;
	struct guest *longest, *g = *place = &h->guest[i];
	const struct sockaddr *sa = client->client_addr;
	*g = (struct guest){.is_there = true,
			    .fd = fd,
			    .at = fan_peer_from_sockaddr(sa, sa->sa_family == AF_INET6
								     ? sizeof(struct sockaddr_in6)
								     : sizeof(struct sockaddr_in)),
			    .since_ns = fan_clock_ns()};
	if (count_of(h, &g->at, &longest) > METRICS_HOST_MAX)
		close_client(longest);
	if (count_of(h, NULL, &longest) > METRICS_CONNECTIONS_MAX - METRICS_SPARE)
		close_client(give_way(h));
}

static void note_connection(void *ctx, struct MHD_Connection *c, void **place,
			    enum MHD_ConnectionNotificationCode what)
{
	struct guest *g = *place;

	if (what == MHD_CONNECTION_NOTIFY_STARTED)
		admit(ctx, c, place);
	else if (g)
		g->is_there = false;
}

/* A request has been answered, or its connection has failed. */
static void answered(void *ctx, struct MHD_Connection *c, void **state,
		     enum MHD_RequestTerminationCode how)
{
	const union MHD_ConnectionInfo *place =
		MHD_get_connection_info(c, MHD_CONNECTION_INFO_SOCKET_CONTEXT);
	struct guest *g = place ? place->socket_context : NULL;

	(void)ctx;
	(void)state;
	if (g && how == MHD_REQUEST_TERMINATED_COMPLETED_OK)
		g->since_ns = fan_clock_ns();
}

/* Close connections whose time is over, however busy they are.  True: some remain. */
static bool sweep(struct metrics_http *h)
{
	const uint64_t second_ns = 1000000000;
	uint64_t now_ns = fan_clock_ns();
	bool some = false;

	for (unsigned i = 0; i < METRICS_CONNECTIONS_MAX; i++) {
		struct guest *g = &h->guest[i];
		some |= g->is_there;
		if (g->is_there && !g->is_leaving &&
		    now_ns - g->since_ns > METRICS_TIMEOUT_S * second_ns)
			close_client(g);
	}
	return some;
}

/* Milliseconds until the next time-out or point. */
static int patience_ms(struct metrics_http *h)
{
	MHD_UNSIGNED_LONG_LONG ms;
	const int point_ms = fan_clock_timeout_ms(h->next_ns, -1);

	if (!sweep(h))
		return point_ms;
	const int turn_ms =
		MHD_get_timeout(h->daemon, &ms) == MHD_YES && ms < SWEEP_MS ? (int)ms : SWEEP_MS;
	return turn_ms < point_ms ? turn_ms : point_ms;
}

static int readable_fd(const struct metrics_http *http)
{
	const union MHD_DaemonInfo *i = MHD_get_daemon_info(http->daemon, MHD_DAEMON_INFO_EPOLL_FD);

	return i ? i->epoll_fd : -1;
}

static void run(struct metrics_http *http)
{
	MHD_UNSIGNED_LONG_LONG ms = 0;

	sweep(http);
	note_point(http);
	for (unsigned i = 0; i < TURNS_MAX && !ms; i++) {
		MHD_run(http->daemon);
		if (MHD_get_timeout(http->daemon, &ms) != MHD_YES)
			break;
	}
}

static void *serve(void *arg)
{
	struct metrics_http *h = arg;
	struct pollfd wait[] = {{readable_fd(h), POLLIN, 0}, {h->stop_fd, POLLIN, 0}};

	while (!wait[1].revents) {
		if (poll(wait, 2, patience_ms(h)) >= 0 && !wait[1].revents)
			run(h);
	}
	return NULL;
}

static int start_thread(struct metrics_http *h)
{
	h->stop_fd = eventfd(0, EFD_CLOEXEC);
	if (h->stop_fd < 0)
		return errno;
	int e = pthread_create(&h->thread, NULL, serve, h);
	if (e) {
		close(h->stop_fd);
		h->stop_fd = -1;
	}
	return e;
}

int metrics_http_start(struct metrics_http **http, const fan_peer *at, struct fan_daemon *d,
		       const char *role, char *why, size_t bytes)
{
	struct sockaddr_storage ss;
	struct metrics_http *h = *http = fan_peer_is_none(at) ? NULL : calloc(1, sizeof *h);
	unsigned flags = MHD_USE_EPOLL;
	char text[80];

	if (fan_peer_is_none(at))
		return 0;
	fan_peer_text(at, text, sizeof text);
	if (!h) {
		snprintf(why, bytes, "no memory");
		return -1;
	}
	h->of = d;
	h->role = role;
	h->stop_fd = -1;
	fan_peer_to_sockaddr(at, fan_peer_family(at), &ss);
	if (fan_peer_family(at) == AF_INET6)
		flags |= fan_peer_is_any(at) ? MHD_USE_DUAL_STACK : MHD_USE_IPv6;
	errno = 0;
	h->daemon = MHD_start_daemon(
		flags, (uint16_t)at->port, NULL, NULL, handle, h, MHD_OPTION_SOCK_ADDR,
		(struct sockaddr *)&ss, MHD_OPTION_CONNECTION_LIMIT,
		(unsigned)METRICS_CONNECTIONS_MAX, MHD_OPTION_CONNECTION_TIMEOUT,
		(unsigned)METRICS_TIMEOUT_S, MHD_OPTION_CONNECTION_MEMORY_LIMIT,
		(size_t)METRICS_MEMORY_BYTES, MHD_OPTION_NOTIFY_CONNECTION, note_connection, h,
		MHD_OPTION_NOTIFY_COMPLETED, answered, h, MHD_OPTION_END);
	if (h->daemon && !(errno = start_thread(h)))
		return 0;
	if (h->daemon)
		MHD_stop_daemon(h->daemon);
	snprintf(why, bytes, "%s: %s", text,
		 errno ? strerror(errno) : "cannot listen there by TCP; is the port in use?");
	free(h);
	*http = NULL;
	return -1;
}

void metrics_http_stop(struct metrics_http *http)
{
	if (!http)
		return;
	eventfd_write(http->stop_fd, 1);
	pthread_join(http->thread, NULL);
	close(http->stop_fd);
	MHD_stop_daemon(http->daemon);
	while (http->points)
		forget_oldest(http);
	free(http);
}

#else

int metrics_http_start(struct metrics_http **http, const fan_peer *at, struct fan_daemon *d,
		       const char *role, char *why, size_t bytes)
{
	(void)d;
	(void)role;
	*http = NULL;
	if (fan_peer_is_none(at))
		return 0;
	snprintf(why, bytes,
		 "this fanin was built without libmicrohttpd (Debian: libmicrohttpd-dev); Debian's "
		 "package fanin has it");
	return -1;
}

void metrics_http_stop(struct metrics_http *http)
{
	(void)http;
}

#endif
