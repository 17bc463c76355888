/* SPDX-License-Identifier: Apache-2.0 */
/* switch.c - `fanin switch`, and `fanin server`, which is the switch of policy none: the daemon
 * around src/net/daemon. */
#include <assert.h>
#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <inttypes.h>
#include <netinet/in.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "cmd.h"
#include "daemon.h"
#include "file/text.h"
#include "net/udp.h"

static const char *const policies[] = {FAN_POLICY_NAMES, "none", NULL};
enum { POLICY_NONE = FAN_POLICY_COUNT };
#define ROUTES	      64 /* at a time, each 60 KB a thread */
#define ADDRESS_BYTES 80
#define DRAIN_MS      10000 /* many times what a goodbye takes */
#define DRAIN_LOOK_MS 10
#define PATH_ROOM     528  /* of two names in /proc */
#define SOCKETS_MAX   4096 /* lines that are read of a table of the kernel's */
#define PROCESS_NAME  "fanin"

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
	{"drain", 0, ARGS_FLAG, AT(drain), 0, 0, NULL, NULL,
	 "start nothing: stop the switch or server that listens at --listen on this host, as "
	 "SIGTERM does, and wait for its end"},
};
static const char *const needed[] = {"listen", "drain",		 "policy", "server",
				     "parent", "child",		 "key",	   "controller",
				     "name",   "controller-key", NULL};
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

/* Does the process have that socket? */
static bool has_socket(const char *pid, unsigned long inode)
{
	char path[PATH_ROOM], want[64], is[64];
	bool found = false;

	snprintf(want, sizeof want, "socket:[%lu]", inode);
	snprintf(path, sizeof path, "/proc/%s/fd", pid);
	DIR *d = opendir(path);
	for (struct dirent *e; d && !found && (e = readdir(d));) {
		snprintf(path, sizeof path, "/proc/%s/fd/%s", pid, e->d_name);
		ssize_t n = readlink(path, is, sizeof is - 1);
		is[n > 0 ? n : 0] = '\0';
		found = strcmp(is, want) == 0;
	}
	if (d)
		closedir(d);
	return found;
}

static bool is_fanin(const char *pid)
{
	char path[PATH_ROOM], name[32] = "";

	snprintf(path, sizeof path, "/proc/%s/comm", pid);
	FILE *f = fopen(path, "re");
	bool is = f && fgets(name, sizeof name, f) && strcmp(name, PROCESS_NAME "\n") == 0;
	if (f)
		fclose(f);
	return is;
}

/* ---- --drain ---- */

/* An address as tables of the kernel's have it: words as they lie in memory, in hexadecimal. */
static void table_text(const fan_peer *at, char *text, size_t bytes)
{
	struct sockaddr_storage ss;
	uint32_t word[4];
	struct fan_text t = fan_text_in(text, bytes);

	fan_peer_to_sockaddr(at, fan_peer_family(at), &ss);
	const bool v4 = ss.ss_family == AF_INET;
	if (v4)
		memcpy(word, &((struct sockaddr_in *)&ss)->sin_addr, sizeof *word);
	else
		memcpy(word, &((struct sockaddr_in6 *)&ss)->sin6_addr, sizeof word);
	for (unsigned i = 0; i < (v4 ? 1 : 4); i++)
		fan_text_add(&t, "%08" PRIX32, word[i]);
	fan_text_add(&t, ":%04X", at->port);
}

static int drain_wrong(const fan_peer *at, const char *what)
{
	char text[ADDRESS_BYTES];

	fprintf(stderr, "fanin switch: --drain: %s: %s\n", fan_peer_text(at, text, sizeof text),
		what);
	return 1;
}

/* The process of this program's that has the socket; 0: none that may be looked at. */
static pid_t process_of(unsigned long inode)
{
	DIR *d = opendir("/proc");
	pid_t pid = 0;

	for (struct dirent *e; d && !pid && (e = readdir(d));)
		if (isdigit((unsigned char)*e->d_name) && is_fanin(e->d_name) &&
		    has_socket(e->d_name, inode))
			pid = (pid_t)strtol(e->d_name, NULL, 10);
	if (d)
		closedir(d);
	return pid;
}

/* The number of the socket at `at`; 0: there is none. */
static unsigned long socket_at(const fan_peer *at)
{
	const bool v4 = fan_peer_family(at) == AF_INET;
	char want[64], local[64], line[512];
	unsigned long inode = 0, found = 0;
	FILE *f = fopen(v4 ? "/proc/net/udp" : "/proc/net/udp6", "re");

	table_text(at, want, sizeof want);
	for (unsigned i = 0; f && !found && i < SOCKETS_MAX && fgets(line, sizeof line, f); i++)
		if (sscanf(line, "%*s %63s %*s %*s %*s %*s %*s %*s %*s %lu", local, &inode) == 2 &&
		    strcmp(local, want) == 0)
			found = inode;
	if (f)
		fclose(f);
	return found;
}

/* Send SIGTERM to the daemon of this host that listens at `at`, and wait for its end.  The exit
 * status, with a line to stderr if that is not 0. */
static int drain(const fan_peer *at)
{
	const struct timespec look = {.tv_nsec = DRAIN_LOOK_MS * 1000000L};
	const unsigned long inode = socket_at(at);

	if (!inode)
		return drain_wrong(at, "nothing listens there on this host");
	const pid_t pid = process_of(inode);
	if (!pid)
		return drain_wrong(at,
				   "expected a switch or server of your own there, or to be root");
	if (kill(pid, SIGTERM))
		return drain_wrong(at, strerror(errno));
	for (unsigned ms = 0; ms < DRAIN_MS; ms += DRAIN_LOOK_MS) {
		if (socket_at(at) != inode) /* another one may have taken its place */
			return 0;
		nanosleep(&look, NULL);
	}
	return drain_wrong(at, "it was told to stop, and has not ended");
}

static int run(const struct args_command *c, int policy, int argc, char **argv)
{
	struct daemon_args a = defaults;
	struct fan_daemon_options o;

	a.policy = policy;
	args_parse(c, &a, argc, argv);
	if (a.drain && fan_peer_is_none(&a.listen))
		args_wrong(c->name, "--drain: expected with --listen ADDR:PORT");
	if (a.drain)
		return drain(&a.listen);
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
