/* SPDX-License-Identifier: Apache-2.0 */
#include "metrics_http.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#ifdef FAN_HAS_MICROHTTPD
#include <microhttpd.h>

struct metrics_http {
	struct MHD_Daemon *daemon;
	metrics_source *source;
	void *ctx;
};

/* page.html, as tools/c-string.py turns it into a string. */
static const char index_page[] =
#include "cmd/metrics/page.inc"
	;

/* Nothing but the page's own script and style runs, and asks nobody but this daemon. */
static const char policy[] =
#include "cmd/metrics/policy.inc"
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

	h->source(h->ctx, &x);
	if (x.full || !x.text) {
		free(x.text);
		return reply_text(c, MHD_HTTP_INTERNAL_SERVER_ERROR, "text/plain",
				  "too many metrics, or no memory for them\n");
	}
	return reply(c, MHD_HTTP_OK, "text/plain; version=0.0.4; charset=utf-8",
		     MHD_create_response_from_buffer(x.used, x.text, MHD_RESPMEM_MUST_FREE));
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
	if (!*state) { /* the headers are there: answer when the request is whole */
		*state = &begun;
		return MHD_YES;
	}
	if (strcmp(url, "/metrics") == 0)
		return reply_metrics(ctx, c);
	if (strcmp(url, "/") == 0)
		return reply_text(c, MHD_HTTP_OK, "text/html; charset=utf-8", index_page);
	return reply_text(c, MHD_HTTP_NOT_FOUND, text, "there are / and /metrics\n");
}

int metrics_http_start(struct metrics_http **http, const fan_peer *at, bool threaded,
		       metrics_source *source, void *ctx, char *why, size_t bytes)
{
	struct sockaddr_storage ss;
	struct metrics_http *h = *http = calloc(1, sizeof *h);
	unsigned flags = threaded ? MHD_USE_EPOLL_INTERNAL_THREAD : MHD_USE_EPOLL;
	char text[80];

	fan_peer_text(at, text, sizeof text);
	if (!h) {
		snprintf(why, bytes, "no memory");
		return -1;
	}
	h->source = source;
	h->ctx = ctx;
	fan_peer_to_sockaddr(at, fan_peer_family(at), &ss);
	if (fan_peer_family(at) == AF_INET6)
		flags |= fan_peer_is_any(at) ? MHD_USE_DUAL_STACK : MHD_USE_IPv6;
	errno = 0;
	h->daemon = MHD_start_daemon(flags, (uint16_t)at->port, NULL, NULL, handle, h,
				     MHD_OPTION_SOCK_ADDR, (struct sockaddr *)&ss,
				     MHD_OPTION_CONNECTION_LIMIT, (unsigned)METRICS_CONNECTIONS_MAX,
				     MHD_OPTION_CONNECTION_TIMEOUT, (unsigned)METRICS_TIMEOUT_S,
				     MHD_OPTION_CONNECTION_MEMORY_LIMIT,
				     (size_t)METRICS_MEMORY_BYTES, MHD_OPTION_END);
	if (h->daemon)
		return 0;
	snprintf(why, bytes, "%s: %s", text,
		 errno ? strerror(errno) : "cannot listen there by TCP; is the port in use?");
	free(h);
	*http = NULL;
	return -1;
}

int metrics_http_fd(const struct metrics_http *http)
{
	const union MHD_DaemonInfo *i = MHD_get_daemon_info(http->daemon, MHD_DAEMON_INFO_EPOLL_FD);

	return i ? i->epoll_fd : -1;
}

void metrics_http_run(struct metrics_http *http)
{
	if (http)
		MHD_run(http->daemon);
}

void metrics_http_stop(struct metrics_http *http)
{
	if (!http)
		return;
	MHD_stop_daemon(http->daemon);
	free(http);
}

#else

int metrics_http_start(struct metrics_http **http, const fan_peer *at, bool threaded,
		       metrics_source *source, void *ctx, char *why, size_t bytes)
{
	(void)at;
	(void)threaded;
	(void)source;
	(void)ctx;
	*http = NULL;
	snprintf(why, bytes,
		 "this fanin was built without libmicrohttpd (Debian: libmicrohttpd-dev)");
	return -1;
}

int metrics_http_fd(const struct metrics_http *http)
{
	(void)http;
	return -1;
}

void metrics_http_run(struct metrics_http *http)
{
	(void)http;
}

void metrics_http_stop(struct metrics_http *http)
{
	(void)http;
}

#endif
