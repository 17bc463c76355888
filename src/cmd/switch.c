/* SPDX-License-Identifier: Apache-2.0 */
/* switch.c - `fanin switch`, and `fanin server`, which is the switch of policy none: the daemon
 * around src/net/daemon. */
#include <stdio.h>
#include <string.h>

#include "cmd.h"
#include "daemon.h"
#include "net/udp.h"

static const char *const policies[] = {FAN_POLICY_NAMES, "none", NULL};
enum { POLICY_NONE = FAN_POLICY_COUNT };
#define ROUTES 64 /* at a time, each 60 KB a thread */

#define AT(field) offsetof(struct daemon_args, field)
static const struct fan_option options[] = {
	{"listen", 'l', ARGS_PEER, AT(listen), 0, 0, NULL, "ADDR:PORT",
	 "where to listen; 0.0.0.0 or [::]: on every interface"},
	{"slots", 's', ARGS_NUMBER, AT(slots), 1, FAN_SLOTS_MAX, NULL, "N",
	 "fragments that can be summed at a time, over all threads (server, none: 16384; "
	 "switchml: 8192; others: 4096)"},
	{"threads", 't', ARGS_NUMBER, AT(threads), 1, FAN_SHARDS_MAX, NULL, "T",
	 "shards; number i listens on PORT + i (1)"},
	{"mtu", 'm', ARGS_NUMBER, AT(mtu), 576, 9000, NULL, "BYTES",
	 "the path MTU that slots are made for (1500)"},
	{"jobs", 'j', ARGS_NUMBER, AT(jobs), 1, FAN_JOBS_MAX, NULL, "N", "jobs at a time (64)"},
	{"window", 'w', ARGS_NUMBER, AT(window), 2, FAN_WINDOW_MAX, NULL, "N",
	 "the most fragments in flight that a job gets from each thread (512)"},
	{"ahead", 0, ARGS_NUMBER, AT(ahead), 0, FAN_AHEAD_MAX, NULL, "N",
	 "where a job is completed: fragments by which its ranks may run ahead of the slowest, on "
	 "each thread, if they want to (an eighth of the slots; switchml: 0); 0: never"},
	{"key", 'k', ARGS_TEXT, AT(key), 0, 0, NULL, "FILE",
	 "the key of the fabric (fanin key new): only sealed jobs run here (none: only open ones)"},
	{"controller", 0, ARGS_PEER, AT(controller), 0, 0, NULL, "ADDR:PORT",
	 "the fanin controller that installs the routes of parts"},
	{"name", 0, ARGS_TEXT, AT(name), 0, 0, NULL, "NODE",
	 "with --controller: this node's name in its topology"},
	{"controller-key", 0, ARGS_TEXT, AT(controller_key), 0, 0, NULL, "FILE",
	 "with --controller: the key of its lines (none: they are not signed)"},
	{"metrics", 0, ARGS_PEER, AT(metrics), 0, 0, NULL, "ADDR:PORT",
	 "serve metrics there by HTTP, for Prometheus; a management network (nowhere)"},
	{"quiet", 'q', ARGS_FLAG, AT(quiet), 0, 0, NULL, NULL, "log failures and warnings only"},
	{"parent", 0, ARGS_PEER, AT(parent), 0, 0, NULL, "ADDR:PORT",
	 "the switch that sums the sums of this one and its siblings, under any policy"},
	{"child", 0, ARGS_TEXT, AT(child), 0, 0, NULL, "I/N",
	 "with --parent: this one is number I, from 0, of the N switches below it"},
	{"policy", 'p', ARGS_WORD, AT(policy), 0, 0, policies, "NAME",
	 "the slot policy: switchml, atp, esa, grid or none (switchml; with --controller: atp)"},
	{"server", 0, ARGS_PEER, AT(server), 0, 0, NULL, "ADDR:PORT",
	 "atp, esa, grid: where sums are completed, or the next switch on the path (this process)"},
	{"quota", 0, ARGS_NUMBER, AT(quota), 1, FAN_SLOTS_MAX, NULL, "N",
	 "atp, esa, grid: the most slots that one job holds, over all threads (all)"},
	{"free-early", 0, ARGS_FLAG, AT(free_early), 0, 0, NULL, NULL,
	 "atp, esa, grid: free a slot when its sum has left, not when the result arrives"},
};
static const char *const needed[] = {"listen", "policy",     "server", "parent",	 "child",
				     "key",    "controller", "name",   "controller-key", NULL};
static const char *const experiments[] = {"free-early", NULL};

static const struct args_command command = {
	"switch",
	"Sum the fragments of workers and return the sums.\v"
	"Workers use a server (none) as their switch, too.  Logs to stderr, one line an event.  "
	"SIGUSR1: what each job waits for, and the counters.  SIGINT, SIGTERM: stop.",
	options,
	sizeof options / sizeof options[0],
	needed,
	experiments,
	NULL,
};

/* Values before any option is read. */
static const struct daemon_args defaults = {
	.threads = 1,
	.mtu = 1500,
	.jobs = FAN_JOBS_MAX,
	.window = FAN_WINDOW_QUOTA,
	.ahead = -1,
	.policy = -1,
};

/* Refuse options that the policy does not use. */
static const char *check_policy(const struct daemon_args *a)
{
	bool has_slots = fan_policy_shares(a->policy);
	bool away = !fan_peer_is_none(&a->server);

	if (away && !has_slots)
		return "--server: expected with --policy atp, esa or grid; with none, give workers "
		       "the server's address";
	if ((a->quota || a->free_early) && !has_slots)
		return "--quota, --free-early: expected with --policy atp, esa or grid; with "
		       "others, --window is the quota";
	if (a->ahead >= 0 && away)
		return "--ahead: expected at the server, not with --server";
	if (away && !fan_peer_is_none(&a->parent))
		return "--parent: expected at the server, where jobs are completed, not with "
		       "--server";
	return NULL;
}

/* With routes, the aggregators are elsewhere. */
static const char *check_routes(const struct daemon_args *a)
{
	if (!a->name[0] || a->policy == POLICY_NONE)
		return NULL;
	if (!fan_policy_shares(a->policy))
		return "--controller: expected with --policy atp, esa, grid or none";
	if (a->ahead >= 0 || !fan_peer_is_none(&a->parent))
		return "--ahead, --parent: expected at the server, not with --controller";
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
	o->slots.routes = a->name[0] ? ROUTES : 0;
	o->slots.options = a->free_early ? FAN_SWITCH_FREE_EARLY : 0;
}

/* End the program, as args_wrong, if something is wrong; NULL: nothing is. */
static void check(const char *name, const char *wrong)
{
	if (wrong)
		args_wrong(name, "%s", wrong);
}

/* Default slots of an aggregator: more slots let ranks run further ahead. */
static unsigned aggregator_slots(const struct daemon_args *a)
{
	return fan_daemon_aggregator_slots(a->ahead > 0 ? (unsigned)a->ahead : 0,
					   (unsigned)a->threads);
}

/* After daemon_fill: let ranks run ahead of each other. */
static void run_ahead(const char *name, struct fan_daemon_options *o, const struct daemon_args *a)
{
	uint32_t ahead = a->ahead < 0 ? o->core.slots / FAN_DAEMON_AHEAD_SHARE : (uint32_t)a->ahead;

	if (ahead > o->core.slots)
		args_wrong(name,
			   "--ahead: expected at most %u, the slots of a thread where jobs are "
			   "completed, got %u; ask for more slots",
			   o->core.slots, ahead);
	o->core.ahead_max = (uint16_t)ahead;
}

/* Read --child, "I/N".  Return what is wrong with the options about a parent, or NULL. */
static const char *set_parent(struct fan_daemon_options *o, const struct daemon_args *a)
{
	unsigned index, siblings;
	char end;

	if (fan_peer_is_none(&a->parent) != !a->child[0])
		return "--parent ADDR:PORT and --child I/N: expected both or none";
	if (!a->child[0])
		return NULL;
	if (sscanf(a->child, "%3u/%3u%c", &index, &siblings, &end) != 2 || siblings < 2 ||
	    siblings > FAN_RANKS_MAX || index >= siblings)
		return "--child: expected I/N, with N from 2 to 256 and I from 0 to N - 1, as 0/2";
	o->parent = a->parent;
	o->core.siblings = (uint16_t)siblings;
	o->core.index = (uint16_t)index;
	return NULL;
}

static int run(const struct args_command *c, int policy, int argc, char **argv)
{
	struct daemon_args a = defaults;
	struct fan_daemon_options o;

	a.policy = policy;
	args_parse(c, &a, argc, argv);
	if (a.policy < 0)
		a.policy = a.name[0] ? (int)FAN_POLICY_ATP : (int)FAN_POLICY_SWITCHML;
	check(c->name, check_policy(&a));
	check(c->name, check_routes(&a));
	bool has_slots = fan_policy_shares(a.policy);
	bool away = has_slots && (!fan_peer_is_none(&a.server) || a.name[0]);
	bool is_alone = a.policy == POLICY_NONE || (a.policy == FAN_POLICY_SWITCHML && a.ahead > 0);
	if (!a.slots)
		a.slots = is_alone ? (int)aggregator_slots(&a) : has_slots ? 4096 : 8192;
	int e = daemon_fill(c->name, &o, &a, has_slots ? aggregator_slots(&a) : (unsigned)a.slots);
	if (e)
		return e;
	check(c->name, set_parent(&o, &a));
	if (!away && (a.policy != FAN_POLICY_SWITCHML || a.ahead > 0))
		run_ahead(c->name, &o, &a);
	if (has_slots)
		fill_slots(&o, &a);
	/* windows of switchml fit the queue */
	o.mark_percent = a.policy == FAN_POLICY_SWITCHML ? 0 : FAN_DAEMON_MARK_PERCENT;
	return daemon_run(c->name, &o, &a, policies[a.policy]);
}

int cmd_switch(int argc, char **argv)
{
	struct args_command server = command;

	server.name = "server";
	return !strcmp(argv[0], "fanin server") ? run(&server, POLICY_NONE, argc, argv)
						: run(&command, -1, argc, argv);
}
