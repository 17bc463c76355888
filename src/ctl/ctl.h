/* SPDX-License-Identifier: Apache-2.0 */
/* ctl.h - the controller of many switches and servers: what follows from what it is told.
 *
 * Daemons say that they are there and how they fare, workers that they want to join, people ask
 * and order; the controller plans on what is there, has routes installed, tells workers where
 * to go, and mends when something fails.  Events and time in, lines out: no socket, clock or
 * file in here.  doc/controller.md has the lines; adr 11 says why it is done so. */
#ifndef FAN_CTL_H
#define FAN_CTL_H

#include <jansson.h>

#include "plan/algorithm.h"
#include "plan/topo.h"

#define FAN_CTL_CONNS_MAX     1024   /* connections of daemons and workers */
#define FAN_CTL_ROUTES_MAX    4096   /* numbers in use at a time */
#define FAN_CTL_BESIDE_MAX    256    /* neighbours that a daemon is told to ask */
#define FAN_CTL_EVENTS_MAX    64     /* of the last ones, kept for status */
#define FAN_CTL_EVENT_BYTES   256    /* text of one */
#define FAN_CTL_SILENT_MS     1000   /* a daemon that says nothing for so long is gone */
#define FAN_CTL_BACK_MS	      400    /* a server whose line is cut may come back as it was */
#define FAN_CTL_NAMELESS_MS   10000  /* a connection has said by then whose it is */
#define FAN_CTL_SETTLE_MS     20     /* after something went, until the plan is mended */
#define FAN_CTL_COME_MS	      100    /* after something came */
#define FAN_CTL_LINGER_MS     3000   /* routes of an aggregator that was lost, for farewells */
#define FAN_CTL_ABSENT_MS     10000  /* a worker without a line keeps its old route for so long */
#define FAN_CTL_HOLD_MS	      2000   /* a link that is heard again is used after so long... */
#define FAN_CTL_HOLD_MAX_MS   64000  /* ...doubled each time that it goes down, up to this... */
#define FAN_CTL_CALM_MS	      300000 /* ...until it was up for so long */
#define FAN_CTL_BLAME_MS      2000   /* of a node that goes: its links went down because of it */
#define FAN_CTL_LOOK_MS	      3000   /* between two looks for better paths, as load changes */
#define FAN_CTL_OVERTAKEN_MAX 3	    /* plans made apart that come too late; then one is made here */
#define FAN_CTL_STRAY_MS      30000 /* routes of an earlier controller that no worker speaks for */

struct fan_ctl;

struct fan_ctl_options {
	const char *file; /* the topology's, for people; kept */
	const struct fan_algorithm *algorithm;
	struct fan_plan_options plan;
	const json_t *given; /* a plan to begin with, in place of the algorithm's; NULL: none */
	const json_t *state; /* what fan_ctl_state said before; NULL: it begins anew */
	uint32_t wait_ms;    /* for all daemons, before it plans with those that are there */
	bool (*is_address)(const char *text);

	/* Send a line; close a connection once all is sent: it is not heard of any more. */
	void (*send)(void *ctx, unsigned conn, const char *line, size_t bytes);
	void (*close)(void *ctx, unsigned conn);
	void (*tell)(void *ctx, const char *event); /* what has happened, for the log */

	/* Have a copy of the process, as it is now, ask fan_ctl_draft, and give its answer to
	 * fan_ctl_planned later; one at a time.  False: it cannot be.  Stop it: its answer is of no
	 * use any more, and not to be given.  NULL, both: plans are made within fan_ctl_tick. */
	bool (*apart)(void *ctx);
	void (*stop_apart)(void *ctx);
	void *ctx;
};

/* A controller of the topology `root`, as topo_json.h has it, at time `now_ns`.
 *
 * FAN_E_CONFIG  the topology or the given plan makes no sense, or jobs are too large for what
 *               can be installed; `why` says where
 * FAN_E_NOMEM */
int fan_ctl_new(struct fan_ctl **c, const json_t *root, const struct fan_ctl_options *o,
		uint64_t now_ns, struct fan_why *why);
void fan_ctl_free(struct fan_ctl *c);

/* Connection `conn` < FAN_CTL_CONNS_MAX is there; has sent a line; is gone. */
void fan_ctl_opened(struct fan_ctl *c, uint64_t now_ns, unsigned conn);
void fan_ctl_line(struct fan_ctl *c, uint64_t now_ns, unsigned conn, const char *text,
		  size_t bytes);
void fan_ctl_closed(struct fan_ctl *c, uint64_t now_ns, unsigned conn);

/* Do what time asks for, once all lines that have come are taken; when it wants to be called
 * next. */
void fan_ctl_tick(struct fan_ctl *c, uint64_t now_ns);
uint64_t fan_ctl_deadline(const struct fan_ctl *c);

/* A plan for what there is now, which may take long: a new reference, or NULL.  Changes nothing. */
json_t *fan_ctl_draft(struct fan_ctl *c);

/* That was made apart; NULL: nothing came of it. */
void fan_ctl_planned(struct fan_ctl *c, uint64_t now_ns, const json_t *answer);

/* What people ask, one line; the answer, which the caller frees; NULL: no memory. */
char *fan_ctl_ask(struct fan_ctl *c, uint64_t now_ns, const char *text, size_t bytes);

/* How it stands, as `status json` has it: a new reference. */
json_t *fan_ctl_status(const struct fan_ctl *c, uint64_t now_ns);

/* What the next controller must know so that running jobs stay in its care: a new reference. */
json_t *fan_ctl_state(const struct fan_ctl *c);

/* Grows with everything that happens. */
uint64_t fan_ctl_events(const struct fan_ctl *c);

#endif
