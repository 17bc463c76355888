/* SPDX-License-Identifier: Apache-2.0 */
/* daemon.h - what `fanin switch` and `fanin server` have in common: options, the log, and
 * running until a signal comes. */
#ifndef FAN_CMD_DAEMON_H
#define FAN_CMD_DAEMON_H

#include "args.h"
#include "net/daemon.h"

struct daemon_args {
	fan_peer listen;
	int slots, threads, mtu, jobs, window;
	int ahead; /* fragments; -1: a share of the slots */
	bool quiet;
	char key[ARGS_TEXT_BYTES]; /* file of the fabric's key; empty: jobs are open */
	fan_peer controller;
	char name[ARGS_TEXT_BYTES]; /* in the controller's topology */
	char controller_key[ARGS_TEXT_BYTES];
	struct fan_keys controller_keys; /* in it, after daemon_fill */
	fan_peer metrics;		 /* where they are served by HTTP; none: nowhere */
	fan_peer server, parent;
	char child[ARGS_TEXT_BYTES]; /* "I/N": which it is of those below the parent */
	int policy;		     /* -1: as it has to be */
	int quota;
	bool free_early;
};

/* Fill in `o` from what both have in common; `slots` are those of the aggregator.  0; or the exit
 * status, when something is wrong and has been reported. */
int daemon_fill(const char *name, struct fan_daemon_options *o, struct daemon_args *a,
		unsigned slots);

/* Run until SIGINT or SIGTERM.  `policy` and `above` are for the log.  The exit status. */
int daemon_run(const char *name, const struct fan_daemon_options *o, struct daemon_args *a,
	       const char *policy);

#endif
