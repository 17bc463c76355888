/* SPDX-License-Identifier: Apache-2.0 */
/* controller.h - what the files of `fanin controller` share: its sockets. */
#ifndef FAN_CMD_CONTROLLER_H
#define FAN_CMD_CONTROLLER_H

#include <signal.h>

#include "cmd/metrics/metrics_http.h"
#include "ctl/ctl.h"
#include "net/lines.h"

#define CONTROLLER_ASKERS_MAX 32			/* people who ask at a time */
#define CONTROLLER_FILES_MAX  (FAN_CTL_CONNS_MAX + 128) /* descriptors that it asks for */
#define CONTROLLER_PLANNER    UINT32_MAX		/* its tag in epoll */
#define CONTROLLER_METRICS    (UINT32_MAX - 1)
#define CONTROLLER_ASK_MS     2000 /* in which a question comes, or some of its answer is read */

/* Of connections that have not said yet who they are. */
#define CONTROLLER_NAMELESS_MAX	  64   /* of one host */
#define CONTROLLER_NAMELESS_BYTES 8192 /* of their first line: all routes of a switch fit */
#define CONTROLLER_PAUSE_MS	  1000 /* without accepting, when descriptors have run out */

#define CONTROLLER_AGAIN_MS 5000 /* between tries to write a file, on a disk that is full, say */
#define CONTROLLER_JSON_MS  250	 /* at least between two writes of its status */

struct controller_sockets {
	struct fan_ctl *ctl;
	int epoll_fd, signal_fd;
	int listen_fd, unix_fd; /* unix -1: none */
	uint64_t accept_ns;	/* not before; 0: at once */
	struct controller_peer {
		struct fan_lines lines;
		bool open, broken, closing;
		short events; /* that epoll waits for */
		fan_peer from;
		uint64_t since_ns;
	} peer[FAN_CTL_CONNS_MAX];
	struct controller_asker {
		struct fan_lines lines;
		bool open, done;
		uint64_t since_ns;
	} asker[CONTROLLER_ASKERS_MAX];
	struct controller_planner {
		int fd; /* its end of a pipe; -1: no plan is being made apart */
		pid_t pid;
		char *text; /* what has come */
		size_t used, room;
	} planner;
	struct fan_keys keys;	      /* that lines are signed with; count 0: they are not */
	struct metrics_http *metrics; /* NULL: nobody wants them */
	/* After each round in which something has happened, before daemons and workers are told of
	 * it.  In how many milliseconds it is to be called even if nothing has; 0: it need not. */
	uint32_t (*changed)(void *ctx);
	uint64_t again_ns; /* 0: never */
	bool told;	   /* lines wait to be sent */
	void *ctx;
};

/* Callbacks of struct fan_ctl_options; ctx: the sockets. */
void controller_send(void *ctx, unsigned conn, const char *line, size_t bytes);
void controller_close(void *ctx, unsigned conn);

bool controller_is_from(void *ctx, unsigned conn, const char *host);
bool controller_is_beside(void *ctx, unsigned conn, unsigned other);

/* Callbacks of struct fan_ctl_options that make plans in another process. */
bool controller_apart(void *ctx);
void controller_stop_apart(void *ctx);

/* Something has come of it: when all has, the controller is told. */
void controller_hear_planner(struct controller_sockets *s);

/* Listen on `at` and, unless it is empty, on a Unix socket at `path`.  0, or -errno with what it
 * was about in `what`. */
int controller_open(struct controller_sockets *s, fan_peer *at, const char *path,
		    const char **what);

/* Wait for requests for metrics, too.  0, or -errno. */
int controller_watch_metrics(struct controller_sockets *s);

/* Until a signal of those that are blocked comes. */
int controller_run(struct controller_sockets *s);
void controller_shut(struct controller_sockets *s, const char *path);

#endif
