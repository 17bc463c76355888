/* SPDX-License-Identifier: Apache-2.0 */
/* controller.h - what the files of `fanin controller` share: its sockets. */
#ifndef FAN_CMD_CONTROLLER_H
#define FAN_CMD_CONTROLLER_H

#include <signal.h>

#include "cmd/metrics/metrics_http.h"
#include "ctl/ctl.h"
#include "net/lines.h"

#define CONTROLLER_ASKERS_MAX 32			/* most people asking at a time */
#define CONTROLLER_FILES_MAX  (FAN_CTL_CONNS_MAX + 128) /* descriptors that it requests */
#define CONTROLLER_PLANNER    UINT32_MAX		/* tag in epoll of the planner's pipe */
#define CONTROLLER_METRICS    (UINT32_MAX - 1)
#define CONTROLLER_ASK_MS     2000 /* time for a question, or for reading some of its answer */

/* Bounds of connections that have not yet said which daemon or worker they are. */
#define CONTROLLER_NAMELESS_MAX	  64   /* connections of one host */
#define CONTROLLER_NAMELESS_BYTES 8192 /* bytes of the first line: all routes of a switch fit */
#define CONTROLLER_PAUSE_MS	  1000 /* pause of accepting when descriptors have run out */

#define CONTROLLER_AGAIN_MS 5000 /* between attempts to write a file after a failure */
#define CONTROLLER_JSON_MS  250	 /* least time between two writes of the status */

struct controller_sockets {
	struct fan_ctl *ctl;
	int epoll_fd, signal_fd;
	int listen_fd, unix_fd; /* unix_fd -1: none */
	uint64_t accept_ns;	/* accept no connection before; 0: no pause */
	struct controller_peer {
		struct fan_lines lines;
		bool open, broken, closing;
		short events; /* the events that epoll waits for */
		fan_peer from;
		uint64_t since_ns;
	} peer[FAN_CTL_CONNS_MAX];
	struct controller_asker {
		struct fan_lines lines;
		bool open, done;
		uint64_t since_ns;
	} asker[CONTROLLER_ASKERS_MAX];
	struct controller_planner {
		int fd; /* read end of a pipe; -1: no plan is being made apart */
		pid_t pid;
		char *text; /* the answer so far */
		size_t used, room;
	} planner;
	struct fan_keys keys;	      /* for signing lines; count 0: they are not signed */
	struct metrics_http *metrics; /* NULL: no metrics */
	/* Called after each round with an event, before lines about it are sent.  Returns in how
	 * many milliseconds to call it even without an event; 0: need not. */
	uint32_t (*changed)(void *ctx);
	uint64_t again_ns; /* when to call `changed` without an event; 0: never */
	bool told;	   /* lines wait to be sent */
	void *ctx;
};

/* Callbacks of struct fan_ctl_options; `ctx` is the struct controller_sockets. */
void controller_send(void *ctx, unsigned conn, const char *line, size_t bytes);
void controller_close(void *ctx, unsigned conn);

bool controller_is_from(void *ctx, unsigned conn, const char *host);
bool controller_is_beside(void *ctx, unsigned conn, unsigned other);

/* Callbacks of struct fan_ctl_options that make plans in another process. */
bool controller_apart(void *ctx);
void controller_stop_apart(void *ctx);

/* Read what the planner has written; when all is read, pass the answer to the controller. */
void controller_hear_planner(struct controller_sockets *s);

/* Listen on `at` and, unless empty, at Unix socket `path`. 0, or -errno; `*what`: what failed. */
int controller_open(struct controller_sockets *s, fan_peer *at, const char *path,
		    const char **what);

/* Serve metrics, too.  Returns 0, or -errno. */
int controller_watch_metrics(struct controller_sockets *s);

/* Serve until SIGINT or SIGTERM, which must be blocked.  Returns 0, or -errno. */
int controller_run(struct controller_sockets *s);
void controller_shut(struct controller_sockets *s, const char *path);

#endif
