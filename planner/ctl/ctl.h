/* SPDX-License-Identifier: Apache-2.0 */
/* ctl.h - the controller of many switches and servers, without its sockets.
 *
 * Daemons register and report their health, workers ask to join, and people send commands; the
 * controller plans jobs on the nodes that are up, installs routes in switches, assigns parts to
 * workers, and mends plans after failures.  It takes events with the time and sends lines, and uses
 * no socket, clock or file.  doc/controller.md describes the lines, adr 11 the reasons. */
#ifndef FAN_CTL_H
#define FAN_CTL_H

#include <jansson.h>

#include "plan/algorithm.h"
#include "plan/topo.h"

#define FAN_CTL_CONNS_MAX	4096   /* connections of daemons and workers */
#define FAN_CTL_ROUTES_MAX	4096   /* route numbers in use at a time */
#define FAN_CTL_BESIDE_MAX	256    /* neighbours of a daemon */
#define FAN_CTL_EVENTS_MAX	64     /* events kept for status */
#define FAN_CTL_EVENT_BYTES	256    /* text of an event */
#define FAN_CTL_SILENT_MS	1000   /* silence after which a daemon counts as lost */
#define FAN_CTL_AWAKE_MS	250    /* longest time between two ticks unless suspended */
#define FAN_CTL_BACK_MS		400    /* time for a server to reconnect before it is lost */
#define FAN_CTL_NAMELESS_MS	10000  /* time for a connection to send its first line */
#define FAN_CTL_SETTLE_MS	20     /* from a failure to mending the plan */
#define FAN_CTL_ARRIVAL_MS	100    /* from a node's arrival to planning */
#define FAN_CTL_LINGER_MS	3000   /* life of routes to a lost aggregator, for LEAVEs */
#define FAN_CTL_ABSENT_MS	10000  /* how long a disconnected worker keeps its routes */
#define FAN_CTL_HOLD_MS		2000   /* from a link's return to its use; doubles each time */
#define FAN_CTL_HOLD_MAX_MS	64000  /* bound of the doubled time */
#define FAN_CTL_CALM_MS		300000 /* time without failures that resets doublings */
#define FAN_CTL_BLAME_MS	2000   /* a node lost within it explains failed links */
#define FAN_CTL_LOOK_MS		3000   /* between searches for better paths by load */
#define FAN_CTL_OFFER_MS	10000  /* from a daemon's arrival to a search for paths over it */
#define FAN_CTL_OFFER_DOUBLINGS 6      /* most doublings of that, one for each recent loss */
#define FAN_CTL_OVERTAKEN_MAX	3      /* outdated plans in a row until one is made in-process */
#define FAN_CTL_STRAY_MS	30000  /* life of an earlier controller's unused routes */

/* Traffic of others on a link, as daemons measure it: shares are of the link's rate. */
#define FAN_CTL_OTHERS_STEP	 0.1   /* smaller changes are ignored */
#define FAN_CTL_OTHERS_MOST	 0.9   /* highest share that counts */
#define FAN_CTL_OTHERS_OLD_MS	 2000  /* how long a report counts */
#define FAN_CTL_OTHERS_RISE_MS	 1000  /* how long a rise must last before it counts */
#define FAN_CTL_OTHERS_FALL_MS	 10000 /* how long a fall must last; doubled for each recent rise */
#define FAN_CTL_OTHERS_DOUBLINGS 6     /* most doublings of FAN_CTL_OTHERS_FALL_MS */

struct fan_ctl;

struct fan_ctl_options {
	const char *file; /* name of the topology's file, for messages; must outlive this */
	const struct fan_algorithm *algorithm;
	struct fan_plan_options plan;
	const json_t *given; /* a first plan in place of the algorithm's; NULL: none */
	const json_t *state; /* from fan_ctl_state of an earlier controller; NULL: none */
	uint32_t wait_ms;    /* longest wait for all daemons before the first plan */
	bool (*is_address)(const char *text);

	/* Is a connection from the host of this address?  Are two from one host?  NULL: the answer
	 * is yes. */
	bool (*is_from)(void *ctx, unsigned conn, const char *host);
	bool (*is_beside)(void *ctx, unsigned conn, unsigned other);

	/* Send a line.  Close a connection once all is sent, without calling fan_ctl_closed. */
	void (*send)(void *ctx, unsigned conn, const char *line, size_t bytes);
	void (*close)(void *ctx, unsigned conn);
	void (*log)(void *ctx, const char *event); /* log an event */

	/* Call fan_ctl_draft in a copy of the process, and pass its answer to fan_ctl_planned
	 * later; one at a time.  False: it could not be started.  stop_apart: discard the answer.
	 * Both NULL: plans are made within fan_ctl_tick. */
	bool (*apart)(void *ctx);
	void (*stop_apart)(void *ctx);
	void *ctx;
};

/* Make a controller for the topology `root` (topo_json.h) at time `now_ns`.
 *
 * FAN_E_CONFIG  the topology, plan or state is wrong, or jobs exceed the bounds of
 *               installations; `why` has the error
 * FAN_E_NOMEM */
int fan_ctl_new(struct fan_ctl **c, const json_t *root, const struct fan_ctl_options *o,
		uint64_t now_ns, struct fan_why *why);
void fan_ctl_free(struct fan_ctl *c);

/* Report that connection `conn` < FAN_CTL_CONNS_MAX was opened, has sent a line, or was closed. */
void fan_ctl_opened(struct fan_ctl *c, uint64_t now_ns, unsigned conn);
void fan_ctl_line(struct fan_ctl *c, uint64_t now_ns, unsigned conn, const char *text,
		  size_t bytes);
void fan_ctl_closed(struct fan_ctl *c, uint64_t now_ns, unsigned conn);

/* Has the connection said which daemon or worker it is? */
bool fan_ctl_is_named(const struct fan_ctl *c, unsigned conn);

/* Run timers, after all received lines.  fan_ctl_deadline: the time of the next call. */
void fan_ctl_tick(struct fan_ctl *c, uint64_t now_ns);
uint64_t fan_ctl_deadline(const struct fan_ctl *c);

/* Make a plan for the present state, without changing it; this may take long.  Returns a new
 * reference, or NULL. */
json_t *fan_ctl_draft(struct fan_ctl *c);

/* Take a plan that `apart` has made; NULL: it failed. */
void fan_ctl_planned(struct fan_ctl *c, uint64_t now_ns, const json_t *answer);

/* Execute a command line.  Returns the answer, which the caller frees; NULL: out of memory. */
char *fan_ctl_ask(struct fan_ctl *c, uint64_t now_ns, const char *text, size_t bytes);

/* The answer to `status json`: a new reference. */
json_t *fan_ctl_status(const struct fan_ctl *c);

/* The state that the next controller needs to continue with running jobs: a new reference. */
json_t *fan_ctl_state(const struct fan_ctl *c);

/* Number of events so far. */
uint64_t fan_ctl_events(const struct fan_ctl *c);

#endif
