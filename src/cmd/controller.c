/* SPDX-License-Identifier: Apache-2.0 */
/* controller.c - `fanin controller`: its options.  Python does the rest:
 * python/fanin/operate/controller. */
#include "args.h"
#include "cmd.h"
#include "net/udp.h"

#define WAIT_MAX_S 3600
#define TREES_MAX  1024 /* of one plan */

struct controller_args {
	fan_peer listen, metrics;
	int sums_at, seed, trees, wait_s;
	char topology[ARGS_TEXT_BYTES], plan[ARGS_TEXT_BYTES], socket[ARGS_TEXT_BYTES];
	char ask[ARGS_TEXT_BYTES], state[ARGS_TEXT_BYTES], key[ARGS_TEXT_BYTES];
	char algorithm[ARGS_TEXT_BYTES], json[ARGS_TEXT_BYTES];
	bool quiet;
};

static const char *const readings[] = {"nearest", "rack", "two-level", NULL};

#define AT(field) offsetof(struct controller_args, field)
static const struct fan_option options[] = {
	{"listen", 'l', ARGS_PEER, AT(listen), 0, 0, NULL, "ADDR:PORT",
	 "where daemons and workers find it: a TCP port of a management network"},
	{"algorithm", 'a', ARGS_TEXT, AT(algorithm), 0, 0, NULL, "NAME",
	 "geryon, lbmm, switchml, atp, grid, inart, exact or best (the default)"},
	{"seed", 0, ARGS_NUMBER, AT(seed), 0, INT32_MAX, NULL, "N", "of all that is random (1)"},
	{"trees", 0, ARGS_NUMBER, AT(trees), 1, TREES_MAX, NULL, "N",
	 "trees of a job on one server that best may use (4); each is a part of its own"},
	{"sums-at", 0, ARGS_WORD, AT(sums_at), 0, 0, readings, "READING",
	 "which switch sums for a host under switchml and atp: nearest (the default), rack or "
	 "two-level, by which all plans may sum twice"},
	{"plan", 0, ARGS_TEXT, AT(plan), 0, 0, NULL, "PLAN.json",
	 "begin with this plan, as fanin plan --json writes it, instead of making one"},
	{"wait", 0, ARGS_NUMBER, AT(wait_s), 0, WAIT_MAX_S, NULL, "SECONDS",
	 "for all daemons, before it plans with those that are there (5)"},
	{"socket", 0, ARGS_TEXT, AT(socket), 0, 0, NULL, "PATH",
	 "a Unix socket that answers: status, status json, plan json, why JOB, replan, admit JSON, "
	 "end JOB, load JSON, install PLAN.json"},
	{"ask", 0, ARGS_TEXT, AT(ask), 0, 0, NULL, "LINE",
	 "ask the controller of --socket, and print its answer"},
	{"state", 0, ARGS_TEXT, AT(state), 0, 0, NULL, "FILE",
	 "keep there what the next controller must know so that running jobs stay in its care, and "
	 "read it at the start"},
	{"key", 'k', ARGS_TEXT, AT(key), 0, 0, NULL, "FILE",
	 "the key that lines of daemons and workers are signed with (none: they are not)"},
	{"metrics", 0, ARGS_PEER, AT(metrics), 0, 0, NULL, "ADDR:PORT",
	 "serve metrics there by HTTP, for Prometheus; a management network (nowhere)"},
	{"json", 0, ARGS_TEXT, AT(json), 0, 0, NULL, "FILE",
	 "write its status there when something has happened, four times a second at most"},
	{"quiet", 'q', ARGS_FLAG, AT(quiet), 0, 0, NULL, NULL, "do not log what happens"},
	{"topology", 0, ARGS_OPERAND, AT(topology), 0, 0, NULL, "TOPOLOGY.json",
	 "a network and its jobs, as fanin plan takes them"},
};

static const struct args_command command = {
	.name = "controller",
	.help = "Plan jobs on the switches and servers of TOPOLOGY.json that are there, install the "
		"routes on them, assign parts to workers, and mend plans after failures.\v"
		"Daemons: fanin switch --controller ADDR:PORT --name NODE, and fanin server "
		"likewise.  Workers: FANIN_CONTROLLER=ADDR:PORT.  SIGINT, SIGTERM: stop; daemons "
		"and jobs go on.",
	.options = options,
	.count = sizeof options / sizeof options[0],
};

int cmd_controller(int argc, char **argv)
{
	struct controller_args a = {.algorithm = "best", .seed = 1, .trees = 4, .wait_s = 5};

	args_parse(&command, &a, argc, argv);
	if (a.ask[0] && !a.socket[0])
		args_wrong(command.name, "--ask: expected with --socket PATH");
	if (a.ask[0])
		return cmd_python("operate", &command, &a);
	if (!a.topology[0])
		args_wrong(command.name, "expected TOPOLOGY.json, or a topology to make");
	if (fan_peer_is_none(&a.listen))
		args_wrong(command.name, "--listen: expected ADDR:PORT, for instance --listen "
					 "10.8.0.1:7700");
	if (args_need_key(command.name, "key", a.key, "FANIN_CONTROLLER_KEY_FILE"))
		return 2;
	return cmd_python("operate", &command, &a);
}
