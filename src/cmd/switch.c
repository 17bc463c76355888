/* SPDX-License-Identifier: Apache-2.0 */
/* switch.c - `fanin switch`: the daemon around src/net/daemon. */
#include <stdio.h>

#include "cmd.h"
#include "daemon.h"

static const char *const policies[] = {FAN_POLICY_NAMES, "none", NULL};
enum { POLICY_NONE = FAN_POLICY_COUNT };
#define ROUTES_DEFAULT 64

static const struct args_option options[] = {
	DAEMON_OPTIONS(
		"fragments that can be summed at a time, over all threads (8192; atp, esa, grid: "
		"4096; none: 16384)"),
	{"policy", 'p', ARGS_WORD, DAEMON_AT(policy), 0, 0, policies, "NAME",
	 "the slot policy: switchml, atp, esa, grid or none (switchml; with --controller: atp)"},
	{"routes", 0, ARGS_NUMBER, DAEMON_AT(routes), 1, FAN_ROUTES_MAX, NULL, "N",
	 "with --controller: the most routes through this switch at a time (64)"},
	{"server", 0, ARGS_PEER, DAEMON_AT(server), 0, 0, NULL, "ADDR:PORT",
	 "atp, esa, grid: where sums are completed, or the next switch on the path (this process)"},
	{"aggregator-slots", 0, ARGS_NUMBER, DAEMON_AT(aggregator_slots), 2, FAN_SLOTS_MAX, NULL,
	 "N", "atp, esa, grid: slots of this process's aggregator (16384)"},
	{"quota", 0, ARGS_NUMBER, DAEMON_AT(quota), 1, FAN_SLOTS_MAX, NULL, "N",
	 "atp, esa, grid: the most slots that one job holds, over all threads (all)"},
	{"free-early", 0, ARGS_FLAG, DAEMON_AT(free_early), 0, 0, NULL, NULL,
	 "atp, esa, grid: free a slot when its sum has left, not when the result arrives"},
	{"no-preemption", 0, ARGS_FLAG, DAEMON_AT(no_preemption), 0, 0, NULL, NULL,
	 "esa: higher priorities take no slots"},
	{"no-ageing", 0, ARGS_FLAG, DAEMON_AT(no_ageing), 0, 0, NULL, NULL,
	 "esa: slots keep their priority"},
	{"no-priorities", 0, ARGS_FLAG, DAEMON_AT(no_priorities), 0, 0, NULL, NULL,
	 "esa: all priorities are the same"},
	DAEMON_PARENT_OPTIONS,
	{"drain", 0, ARGS_FLAG, DAEMON_AT(drain), 0, 0, NULL, NULL,
	 "start nothing: stop the switch or server that listens at --listen on this host, as "
	 "SIGTERM does, and wait for its end"},
};

static const char *const needed[] = {"listen",	 "drain",	   "policy", "server",	   "parent",
				     "siblings", "index",	   "key",    "controller", "name",
				     "config",	 "controller-key", NULL};
static const char *const experiments[] = {
	"free-early", "no-preemption", "no-ageing", "no-priorities", "no-reminders", "no-multicast",
	"plain",      "plane",	       "interface", "group-port",    "mark",	     NULL};

static const struct args_command command = {
	"switch",
	"Sum the fragments of workers and return the sums.\v"
	"Logs to stderr, one line an event.  SIGUSR1: what each job waits for, and the counters.  "
	"SIGINT, SIGTERM: stop.",
	options,
	sizeof options / sizeof options[0],
	needed,
	experiments,
};

/* Refuse options that the policy does not use. */
static const char *check_policy(const struct daemon_args *a)
{
	bool has_slots = fan_policy_shares(a->policy);
	bool away = !fan_peer_is_none(&a->server);

	if (away && !has_slots)
		return "--server: expected with --policy atp, esa or grid; with none, give workers "
		       "the "
		       "server's address";
	if ((a->quota || a->free_early || a->aggregator_slots) && !has_slots)
		return "--quota, --free-early, --aggregator-slots: expected with --policy atp, "
		       "esa or grid; with others, --window is the quota";
	if ((a->aggregator_slots || a->no_reminders || a->ahead >= 0) && away)
		return "--aggregator-slots, --no-reminders, --ahead: expected at the server, not "
		       "with --server";
	if ((a->no_preemption || a->no_ageing || a->no_priorities) && a->policy != FAN_POLICY_ESA)
		return "--no-preemption, --no-ageing, --no-priorities: expected with --policy esa";
	if (away && !fan_peer_is_none(&a->parent))
		return "--parent: expected at the server, where jobs are completed, not with "
		       "--server";
	return NULL;
}

/* With routes, the aggregators are elsewhere. */
static const char *check_routes(const struct daemon_args *a)
{
	if (!a->name[0])
		return a->routes ? "--routes: expected with --controller" : NULL;
	if (!fan_policy_shares(a->policy))
		return "--controller: expected with --policy atp, esa or grid";
	if (a->aggregator_slots || a->no_reminders || a->ahead >= 0 ||
	    !fan_peer_is_none(&a->parent))
		return "--aggregator-slots, --no-reminders, --ahead, --parent: expected at the "
		       "server, not with --controller";
	return NULL;
}

/* A number for each thread, from one for all. */
static uint32_t each(int number, const struct daemon_args *a)
{
	return ((uint32_t)number + (uint32_t)a->threads - 1) / (uint32_t)a->threads;
}

static void fill_slots(struct fan_daemon_options *o, const struct daemon_args *a)
{
	o->has_slots = true;
	o->server = a->server;
	o->slots.policy = (enum fan_policy)a->policy;
	o->slots.slots = each(a->slots, a);
	o->slots.quota = each(a->quota, a);
	o->routed = a->name[0];
	o->slots.routes = (uint16_t)(!a->name[0] ? 0 : a->routes ? a->routes : ROUTES_DEFAULT);
	o->slots.options = (uint8_t)((a->free_early ? FAN_SWITCH_FREE_EARLY : 0) |
				     (a->no_preemption ? FAN_SWITCH_NO_PREEMPTION : 0) |
				     (a->no_ageing ? FAN_SWITCH_NO_AGEING : 0) |
				     (a->no_priorities ? FAN_SWITCH_NO_PRIORITIES : 0));
}

int cmd_switch(int argc, char **argv)
{
	struct daemon_args a = DAEMON_DEFAULTS;
	struct fan_daemon_options o;

	args_parse(&command, &a, argc, argv);
	if (a.drain && fan_peer_is_none(&a.listen))
		return daemon_wrong("switch", "--drain: expected with --listen ADDR:PORT");
	if (a.drain)
		return daemon_drain(&a.listen);
	if (a.policy < 0)
		a.policy = a.name[0] ? (int)FAN_POLICY_ATP : (int)FAN_POLICY_SWITCHML;
	const char *why = check_policy(&a);
	if (!why)
		why = check_routes(&a);
	if (!why)
		why = daemon_check_parent(&a);
	if (why)
		return daemon_wrong("switch", why);
	bool has_slots = fan_policy_shares(a.policy);
	bool here = fan_peer_is_none(&a.server) && !a.name[0]; /* jobs are completed */
	bool alone = a.policy == POLICY_NONE || (a.policy == FAN_POLICY_SWITCHML && a.ahead > 0);
	if (!a.slots)
		a.slots = alone ? (int)daemon_aggregator_slots(&a) : has_slots ? 4096 : 8192;
	if (!a.aggregator_slots)
		a.aggregator_slots = (int)daemon_aggregator_slots(&a);
	int e = daemon_fill("switch", &o, &a, (unsigned)(has_slots ? a.aggregator_slots : a.slots));
	if (!e && here && (a.policy != FAN_POLICY_SWITCHML || a.ahead > 0))
		e = daemon_run_ahead("switch", &o, &a);
	if (e)
		return e;
	if (has_slots)
		fill_slots(&o, &a);
	daemon_set_parent(&o, &a);
	o.mark_percent = a.mark >= 0 ? (unsigned)a.mark : has_slots ? FAN_DAEMON_MARK_PERCENT : 0;
	return daemon_run("switch", &o, &a, policies[a.policy]);
}
