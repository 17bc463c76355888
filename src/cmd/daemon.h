/* SPDX-License-Identifier: Apache-2.0 */
/* daemon.h - what `fanin switch` and `fanin server` have in common: options, the log, and
 * running until a signal comes. */
#ifndef FAN_CMD_DAEMON_H
#define FAN_CMD_DAEMON_H

#include "args.h"
#include "net/daemon.h"

/* How datagrams are received: by sockets alone; by AF_XDP as well; by AF_XDP if it can be. */
enum daemon_plane { DAEMON_SOCKETS, DAEMON_XDP, DAEMON_AUTO };
extern const char *const daemon_planes[];

struct daemon_args {
	fan_peer listen;
	int slots, threads, payload, mtu, jobs, window, group_port;
	int mark;  /* percent; -1: as the role has it */
	int ahead; /* fragments; -1: a share of the slots */
	uint64_t buffer;
	bool no_multicast, plain, quiet, no_reminders;
	int plane;			 /* enum daemon_plane */
	char interface[ARGS_TEXT_BYTES]; /* of the plane */
	char weights[ARGS_TEXT_BYTES];
	char key[ARGS_TEXT_BYTES]; /* file of the fabric's key; empty: jobs are open */
	fan_peer controller;
	char name[ARGS_TEXT_BYTES]; /* in the controller's topology */
	char controller_key[ARGS_TEXT_BYTES];
	struct fan_keys controller_keys; /* in it, after daemon_fill */
	fan_peer metrics;		 /* where they are served by HTTP; none: nowhere */
	/* Of a switch alone. */
	fan_peer server, parent;
	int policy; /* -1: as it has to be */
	int quota, aggregator_slots, siblings, index, routes;
	bool free_early, no_preemption, no_ageing, no_priorities;
	bool drain; /* stop another one, and start nothing */
};

/* Rows that both have; `slots_help` says what slots are for. */
#define DAEMON_AT(field) offsetof(struct daemon_args, field)
#define DAEMON_OPTIONS(slots_help)                                                                 \
	{"listen",                                                                                 \
	 'l',                                                                                      \
	 ARGS_PEER,                                                                                \
	 DAEMON_AT(listen),                                                                        \
	 0,                                                                                        \
	 0,                                                                                        \
	 NULL,                                                                                     \
	 "ADDR:PORT",                                                                              \
	 "where to listen; 0.0.0.0 or [::]: on every interface"},                                  \
		{"slots",	's',  ARGS_NUMBER, DAEMON_AT(slots), 1,                            \
		 FAN_SLOTS_MAX, NULL, "N",	   slots_help},                                    \
		{"threads",                                                                        \
		 't',                                                                              \
		 ARGS_NUMBER,                                                                      \
		 DAEMON_AT(threads),                                                               \
		 1,                                                                                \
		 FAN_SHARDS_MAX,                                                                   \
		 NULL,                                                                             \
		 "T",                                                                              \
		 "shards; number i listens on PORT + i (1)"},                                      \
		{"mtu",		 'm',	  ARGS_NUMBER,                                             \
		 DAEMON_AT(mtu), 576,	  9000,                                                    \
		 NULL,		 "BYTES", "the path MTU that slots are made for (1500)"},          \
		{"payload",                                                                        \
		 0,                                                                                \
		 ARGS_NUMBER,                                                                      \
		 DAEMON_AT(payload),                                                               \
		 FAN_PAYLOAD_MIN,                                                                  \
		 FAN_PAYLOAD_MAX,                                                                  \
		 NULL,                                                                             \
		 "BYTES",                                                                          \
		 "bytes of a slot, instead of --mtu (1408)"},                                      \
		{"jobs",       'j',  ARGS_NUMBER, DAEMON_AT(jobs),	1,                         \
		 FAN_JOBS_MAX, NULL, "N",	  "jobs at a time (64)"},                          \
		{"window",                                                                         \
		 'w',                                                                              \
		 ARGS_NUMBER,                                                                      \
		 DAEMON_AT(window),                                                                \
		 2,                                                                                \
		 FAN_WINDOW_MAX,                                                                   \
		 NULL,                                                                             \
		 "N",                                                                              \
		 "the most fragments in flight that a job gets from each thread (512)"},           \
		{"ahead",                                                                          \
		 0,                                                                                \
		 ARGS_NUMBER,                                                                      \
		 DAEMON_AT(ahead),                                                                 \
		 0,                                                                                \
		 FAN_AHEAD_MAX,                                                                    \
		 NULL,                                                                             \
		 "N",                                                                              \
		 "where a job is completed: fragments by which its ranks may run ahead of the "    \
		 "slowest, on each thread, if they want to (an eighth of the slots; "              \
		 "switchml: 0); 0: never"},                                                        \
		{"weights",                                                                        \
		 0,                                                                                \
		 ARGS_TEXT,                                                                        \
		 DAEMON_AT(weights),                                                               \
		 0,                                                                                \
		 0,                                                                                \
		 NULL,                                                                             \
		 "JOB=W,...",                                                                      \
		 "these jobs may have W times --window, and W times --quota"},                     \
		{"key",                                                                            \
		 'k',                                                                              \
		 ARGS_TEXT,                                                                        \
		 DAEMON_AT(key),                                                                   \
		 0,                                                                                \
		 0,                                                                                \
		 NULL,                                                                             \
		 "FILE",                                                                           \
		 "the key of the fabric (fanin key new): only sealed jobs run here (none: only "   \
		 "open ones)"},                                                                    \
		{"mark",                                                                           \
		 0,                                                                                \
		 ARGS_NUMBER,                                                                      \
		 DAEMON_AT(mark),                                                                  \
		 0,                                                                                \
		 100,                                                                              \
		 NULL,                                                                             \
		 "PERCENT",                                                                        \
		 "mark packets as congested when a receive queue is fuller than this; 0: never "   \
		 "(50; switchml, none: 0)"},                                                       \
		{"controller",                                                                     \
		 0,                                                                                \
		 ARGS_PEER,                                                                        \
		 DAEMON_AT(controller),                                                            \
		 0,                                                                                \
		 0,                                                                                \
		 NULL,                                                                             \
		 "ADDR:PORT",                                                                      \
		 "the fanin controller that installs the routes of parts"},                        \
		{"name",                                                                           \
		 0,                                                                                \
		 ARGS_TEXT,                                                                        \
		 DAEMON_AT(name),                                                                  \
		 0,                                                                                \
		 0,                                                                                \
		 NULL,                                                                             \
		 "NODE",                                                                           \
		 "with --controller: this node's name in its topology"},                           \
		{"controller-key",                                                                 \
		 0,                                                                                \
		 ARGS_TEXT,                                                                        \
		 DAEMON_AT(controller_key),                                                        \
		 0,                                                                                \
		 0,                                                                                \
		 NULL,                                                                             \
		 "FILE",                                                                           \
		 "with --controller: the key of its lines (none: they are not signed)"},           \
		{"metrics",                                                                        \
		 0,                                                                                \
		 ARGS_PEER,                                                                        \
		 DAEMON_AT(metrics),                                                               \
		 0,                                                                                \
		 0,                                                                                \
		 NULL,                                                                             \
		 "ADDR:PORT",                                                                      \
		 "serve metrics there by HTTP, for Prometheus; a management network (nowhere)"},   \
		{"no-reminders",                                                                   \
		 0,                                                                                \
		 ARGS_FLAG,                                                                        \
		 DAEMON_AT(no_reminders),                                                          \
		 0,                                                                                \
		 0,                                                                                \
		 NULL,                                                                             \
		 NULL,                                                                             \
		 "send switches no reminders of partial sums, for experiments"},                   \
		{"buffer",                                                                         \
		 0,                                                                                \
		 ARGS_SIZE,                                                                        \
		 DAEMON_AT(buffer),                                                                \
		 65536,                                                                            \
		 1 << 30,                                                                          \
		 NULL,                                                                             \
		 "BYTES",                                                                          \
		 "size of socket buffers, as far as the system grants it (4M)"},                   \
		{"no-multicast",                                                                   \
		 0,                                                                                \
		 ARGS_FLAG,                                                                        \
		 DAEMON_AT(no_multicast),                                                          \
		 0,                                                                                \
		 0,                                                                                \
		 NULL,                                                                             \
		 NULL,                                                                             \
		 "send each worker its own results, even where all could hear a group"},           \
		{"group-port",                                                                     \
		 0,                                                                                \
		 ARGS_NUMBER,                                                                      \
		 DAEMON_AT(group_port),                                                            \
		 1,                                                                                \
		 65535,                                                                            \
		 NULL,                                                                             \
		 "PORT",                                                                           \
		 "UDP port of multicast results (23846)"},                                         \
		{"plane",                                                                          \
		 0,                                                                                \
		 ARGS_WORD,                                                                        \
		 DAEMON_AT(plane),                                                                 \
		 0,                                                                                \
		 0,                                                                                \
		 daemon_planes,                                                                    \
		 "NAME",                                                                           \
		 "how datagrams are received: sockets; xdp, which takes them at --interface "      \
		 "before the kernel's network layers; auto, xdp where possible (sockets)"},        \
		{"interface",                                                                      \
		 0,                                                                                \
		 ARGS_TEXT,                                                                        \
		 DAEMON_AT(interface),                                                             \
		 0,                                                                                \
		 0,                                                                                \
		 NULL,                                                                             \
		 "IF,...",                                                                         \
		 "with --plane xdp or auto: the interfaces towards the workers"},                  \
		{"plain",                                                                          \
		 0,                                                                                \
		 ARGS_FLAG,                                                                        \
		 DAEMON_AT(plain),                                                                 \
		 0,                                                                                \
		 0,                                                                                \
		 NULL,                                                                             \
		 NULL,                                                                             \
		 "no UDP_SEGMENT, no UDP_GRO"},                                                    \
	{                                                                                          \
		"quiet", 'q', ARGS_FLAG, DAEMON_AT(quiet), 0, 0, NULL, NULL,                       \
			"log failures and warnings only"                                           \
	}

/* Options of daemons that complete jobs and may be below another switch. */
#define DAEMON_PARENT_OPTIONS                                                                      \
	{"parent",                                                                                 \
	 0,                                                                                        \
	 ARGS_PEER,                                                                                \
	 DAEMON_AT(parent),                                                                        \
	 0,                                                                                        \
	 0,                                                                                        \
	 NULL,                                                                                     \
	 "ADDR:PORT",                                                                              \
	 "the switch that sums the sums of this one and its siblings, under any policy"},          \
		{"siblings",                                                                       \
		 0,                                                                                \
		 ARGS_NUMBER,                                                                      \
		 DAEMON_AT(siblings),                                                              \
		 2,                                                                                \
		 FAN_RANKS_MAX,                                                                    \
		 NULL,                                                                             \
		 "N",                                                                              \
		 "with --parent: switches below it, this one included"},                           \
	{                                                                                          \
		"index", 0, ARGS_NUMBER, DAEMON_AT(index), 0, FAN_RANKS_MAX - 1, NULL, "I",        \
			"with --parent: which of them this one is"                                 \
	}

/* Values before any option is read. */
#define DAEMON_DEFAULTS                                                                            \
	{                                                                                          \
		.threads = 1, .mtu = 1500, .jobs = FAN_JOBS_MAX, .window = FAN_WINDOW_QUOTA,       \
		.buffer = 4 << 20, .mark = -1, .index = -1, .ahead = -1, .policy = -1              \
	}

/* Send SIGTERM to the daemon of this host that listens at `at`, and wait for its end.  The exit
 * status, with a line to stderr if that is not 0. */
int daemon_drain(const fan_peer *at);

/* Print the error in the options of `name`; returns the exit status, 2. */
int daemon_wrong(const char *name, const char *text);

/* Fill in `o` from what both have in common; `slots` are those of the aggregator.  0; or the exit
 * status, when something is wrong and has been said. */
int daemon_fill(const char *name, struct fan_daemon_options *o, struct daemon_args *a,
		unsigned slots);

/* Default slots of an aggregator: more slots let ranks run further ahead. */
unsigned daemon_aggregator_slots(const struct daemon_args *a);

/* After daemon_fill: let ranks run ahead of each other.  Returns likewise. */
int daemon_run_ahead(const char *name, struct fan_daemon_options *o, const struct daemon_args *a);

/* What is wrong with the options about a parent, or NULL; and after daemon_fill: heed them. */
const char *daemon_check_parent(const struct daemon_args *a);
void daemon_set_parent(struct fan_daemon_options *o, const struct daemon_args *a);

/* Run until SIGINT or SIGTERM.  `policy` and `above` are for the log.  The exit status. */
int daemon_run(const char *name, const struct fan_daemon_options *o, struct daemon_args *a,
	       const char *policy);

#endif
