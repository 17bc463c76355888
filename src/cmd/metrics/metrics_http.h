/* SPDX-License-Identifier: Apache-2.0 */
/* metrics_http.h - metrics of a daemon over HTTP, by libmicrohttpd: /metrics, and a page at /,
 * which begins with the last two minutes of jobs from /history.
 *
 * Connections, their memory and their time are bounded, and a new client is always accepted: it
 * replaces the one of its host, or of the host that has most, that has waited longest.  Anyone who
 * reaches the port can read the metrics; nobody can change anything. */
#ifndef FAN_CMD_METRICS_HTTP_H
#define FAN_CMD_METRICS_HTTP_H

#include "net/daemon.h"
#include "net/expose.h"

#define METRICS_CONNECTIONS_MAX 64
#define METRICS_HOST_MAX	4     /* of one host; of an IPv6 network of 64 bits */
#define METRICS_SPARE		16    /* connections kept free for new clients */
#define METRICS_TIMEOUT_S	10    /* for a request and its answer, and for idling */
#define METRICS_MEMORY_BYTES	16384 /* of a connection */
#define METRICS_POINT_NS	UINT64_C(2000000000) /* from one point of the history to the next */
#define METRICS_POINTS_MAX	61		     /* of the history */
#define METRICS_POINT_BYTES	(2u << 20)	     /* of all of them: then the oldest goes */

struct metrics_http;

/* Serve those of `d`, whose role is the label `role`, on `at`, by a thread that blocks the signals
 * that the caller blocks.  0 and `*http`, NULL if `at` is none; or -1 with a text in `why`. */
int metrics_http_start(struct metrics_http **http, const fan_peer *at, struct fan_daemon *d,
		       const char *role, char *why, size_t bytes);

/* NULL is allowed. */
void metrics_http_stop(struct metrics_http *http);

/* Everything about a running daemon: its build, its process, shards and jobs (metrics_daemon.c). */
void metrics_put_daemon(struct fan_expose *x, struct fan_daemon *d, const char *role);

#endif
