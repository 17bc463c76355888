/* SPDX-License-Identifier: Apache-2.0 */
/* server.c - `fanin server`: the aggregator of jobs whose workers are behind switches. */
#include "cmd.h"
#include "daemon.h"

static const struct args_option options[] = {
	DAEMON_OPTIONS("fragments that can be completed at a time, over all threads (16384)"),
	DAEMON_PARENT_OPTIONS,
};

static const struct args_command command = {
	"server",
	"Complete the partial sums of switches (fanin switch --policy atp|esa|grid --server).\v"
	"Workers may also use it as their switch; then it sums everything itself.  Logs to stderr, "
	"one "
	"line an event.  SIGUSR1: what each job waits for, and the counters.  SIGINT, SIGTERM: "
	"stop.",
	options,
	sizeof options / sizeof options[0],
	NULL,
	NULL,
};

int cmd_server(int argc, char **argv)
{
	struct daemon_args a = DAEMON_DEFAULTS;
	struct fan_daemon_options o;

	args_parse(&command, &a, argc, argv);
	const char *why = daemon_check_parent(&a);
	if (why)
		return daemon_wrong("server", why);
	unsigned slots = a.slots ? (unsigned)a.slots : daemon_aggregator_slots(&a);
	int e = daemon_fill("server", &o, &a, slots);
	if (!e)
		e = daemon_run_ahead("server", &o, &a);
	if (e)
		return e;
	daemon_set_parent(&o, &a);
	o.mark_percent = a.mark >= 0 ? (unsigned)a.mark : FAN_DAEMON_MARK_PERCENT;
	return daemon_run("server", &o, &a, "none");
}
