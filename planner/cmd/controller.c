/* SPDX-License-Identifier: Apache-2.0 */
/* controller.c - `fanin controller`: puts plans to work on many switches and servers. */
#include "controller.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "cmd/args.h"
#include "cmd/ask.h"
#include "cmd/cmd.h"
#include "cmd/log.h"
#include "cmd/metrics/metrics.h"
#include "core/base/err.h"
#include "file/file.h"
#include "net/clock.h"
#include "net/neighbours.h"
#include "plan/topo_json.h"
#include "plan_load.h"

#define EXIT_BAD     2
#define BEST	     7 /* index in `algorithms` */
#define PATH_BYTES   (ARGS_TEXT_BYTES + 8)
#define WAIT_SECONDS 5

struct controller_args {
	fan_peer listen, metrics;
	int algorithm, seed, trees, sums_at, wait;
	char plan[ARGS_TEXT_BYTES], socket[ARGS_TEXT_BYTES], json[ARGS_TEXT_BYTES];
	char ask[ARGS_TEXT_BYTES], state[ARGS_TEXT_BYTES], key[ARGS_TEXT_BYTES];
	bool quiet;
};

static const char *const readings[] = {"nearest", "rack", "two-level", NULL}; /* fan_sums_at */
#define FAN_X(name, run, mend) #name,
static const char *const algorithms[] = {FAN_ALGORITHMS(FAN_X) NULL};
#undef FAN_X

#define AT(field) offsetof(struct controller_args, field)
static const struct fan_option options[] = {
	{"listen", 'l', ARGS_PEER, AT(listen), 0, 0, NULL, "ADDR:PORT",
	 "where daemons and workers find it: a TCP port of a management network"},
	{"algorithm", 'a', ARGS_WORD, AT(algorithm), 0, 0, algorithms, "NAME",
	 "geryon, lbmm, switchml, atp, grid, inart, exact or best (the default)"},
	{"seed", 0, ARGS_NUMBER, AT(seed), 0, INT32_MAX, NULL, "N", "of all that is random (1)"},
	{"trees", 0, ARGS_NUMBER, AT(trees), 1, FAN_TREES_MAX, NULL, "N",
	 "trees of a job on one server that best may use (4); each is a part of its own"},
	{"sums-at", 0, ARGS_WORD, AT(sums_at), 0, 0, readings, "READING",
	 "which switch sums for a host under switchml and atp: nearest (the default), rack or "
	 "two-level, by which all plans may sum twice"},
	{"plan", 0, ARGS_TEXT, AT(plan), 0, 0, NULL, "PLAN.json",
	 "begin with this plan, as fanin plan --json writes it, instead of making one"},
	{"wait", 0, ARGS_NUMBER, AT(wait), 0, 3600, NULL, "SECONDS",
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
};

static const struct args_command command = {
	"controller",
	"Plan jobs on the switches and servers of TOPOLOGY.json that are there, install the routes "
	"on them, assign parts to workers, and mend plans after failures.\v"
	"Daemons: fanin switch --controller ADDR:PORT --name NODE, and fanin server likewise.  "
	"Workers: FANIN_CONTROLLER=ADDR:PORT.  SIGINT, SIGTERM: stop; daemons and jobs go on.",
	options,
	sizeof options / sizeof options[0],
	NULL,
	NULL,
	NULL,
};

_Static_assert(FAN_CTL_BESIDE_MAX <= FAN_NEIGHBOURS_MAX, "a daemon takes no longer lists");

struct life {
	struct controller_sockets sockets;
	const struct controller_args *a;
	struct fan_topo t;
	json_t *root, *plan, *state;
	bool json_bad, state_bad; /* the last attempt to write the file failed */
	uint64_t json_ns;	  /* the status is not written before this time */
};

static void print_event(void *ctx, const char *event)
{
	const struct controller_sockets *s = ctx;
	const struct life *l = s->ctx;

	if (!l->a->quiet)
		cmd_log(event);
}

/* Write `value`, and free it, so that the file is complete at any time: if it cannot be written, it
 * stays as it was.  Logs the first failure and the recovery; `*bad`: the last attempt failed. */
static bool write_json(const char *option, const char *file, json_t *value, bool *bad)
{
	char why[ARGS_WHY_BYTES], line[2 * ARGS_WHY_BYTES];
	FILE *f = fan_file_renew(file, why, sizeof why);
	const bool failed =
		!f || fan_file_renewed(f, file, !value || json_dumpf(value, f, JSON_INDENT(1)), why,
				       sizeof why);

	json_decref(value);
	if (failed && !*bad)
		snprintf(line, sizeof line, "--%s: %s; it is tried again every %d s", option, why,
			 CONTROLLER_AGAIN_MS / 1000);
	else if (!failed && *bad)
		snprintf(line, sizeof line, "--%s: it is written again", option);
	if (failed != *bad)
		cmd_log(line);
	*bad = failed;
	return !failed;
}

/* Write the state, and the status at most every CONTROLLER_JSON_MS. */
static uint32_t write_files(void *ctx)
{
	struct life *l = ctx;
	const uint64_t now_ns = fan_clock_ns();
	bool whole = true;

	if (l->a->state[0])
		whole = write_json("state", l->a->state, fan_ctl_state(l->sockets.ctl),
				   &l->state_bad);
	if (l->a->json[0] && now_ns < l->json_ns)
		return (uint32_t)((l->json_ns - now_ns) / FAN_MS) + 1;
	if (l->a->json[0])
		whole &= write_json("json", l->a->json, fan_ctl_status(l->sockets.ctl),
				    &l->json_bad);
	l->json_ns = now_ns + CONTROLLER_JSON_MS * FAN_MS;
	return whole ? 0 : CONTROLLER_AGAIN_MS;
}

static void put_metrics(void *ctx, struct fan_expose *x)
{
	const struct life *l = ctx;
	json_t *status = fan_ctl_status(l->sockets.ctl);

	x->full |= !status;
	metrics_put_controller(x, status);
	json_decref(status);
}

/* Start metrics, which this thread serves between two rounds.  Returns 0, or -1 after a message. */
static int start_metrics(struct life *l)
{
	char why[ARGS_WHY_BYTES];

	if (fan_peer_is_none(&l->a->metrics))
		return 0;
	int e = metrics_http_start(&l->sockets.metrics, &l->a->metrics, false, put_metrics, l, why,
				   sizeof why);
	if (!e && controller_watch_metrics(&l->sockets)) {
		snprintf(why, sizeof why, "%s", strerror(errno));
		e = -1;
	}
	if (e)
		fprintf(stderr, "fanin controller: --metrics: %s\n", why);
	return e;
}

static bool is_address(const char *text)
{
	fan_peer p;

	return fan_peer_read(&p, text) && p.port && !fan_peer_is_any(&p);
}

/* Read JSON from a file; NULL after a message. */
static json_t *load_json(const char *file)
{
	struct fan_why why = {""};
	json_t *value = plan_read_json(file, &why);

	if (!value)
		fprintf(stderr, "%s: %s\n", file, why.text);
	return value;
}

static int load(struct life *l, const char *from)
{
	struct fan_why why = {""};
	int err = plan_load(&l->t, from, NULL, &why);

	if (err) {
		fprintf(stderr, "%s: %s\n", from, why.text[0] ? why.text : fan_err_text(err));
		return EXIT_BAD;
	}
	l->root = fan_topo_to_json(&l->t);
	fan_topo_free(&l->t);
	if (l->a->plan[0] && !(l->plan = load_json(l->a->plan)))
		return EXIT_BAD;
	if (l->a->state[0] && access(l->a->state, F_OK) == 0 &&
	    !(l->state = load_json(l->a->state)))
		return EXIT_BAD;
	return 0;
}

/* Load the key for lines, if there is one.  Returns 0, or the exit status after a message. */
static int load_key(struct life *l)
{
	char why[ARGS_WHY_BYTES];

	if (args_need_key("controller", "key", l->a->key, "FANIN_CONTROLLER_KEY_FILE"))
		return 2;
	if (!l->a->key[0] || fan_key_file_read(&l->sockets.keys, l->a->key, why, sizeof why) == 0)
		return 0;
	fprintf(stderr, "fanin controller: --key: %s\n", why);
	return 1;
}

static int make(struct life *l, const char *from)
{
	const struct controller_args *a = l->a;
	struct fan_ctl_options o = {
		.file = from,
		.algorithm = fan_algorithm_find(algorithms[a->algorithm]),
		.plan = fan_plan_defaults,
		.given = l->plan,
		.state = l->state,
		.wait_ms = (uint32_t)a->wait * 1000,
		.is_address = is_address,
		.is_from = controller_is_from,
		.is_beside = controller_is_beside,
		.send = controller_send,
		.close = controller_close,
		.log = print_event,
		.apart = controller_apart,
		.stop_apart = controller_stop_apart,
		.ctx = &l->sockets,
	};
	struct fan_why why;

	o.plan.seed = (uint64_t)a->seed;
	o.plan.trees = (uint32_t)a->trees;
	o.plan.sums_at = (enum fan_sums_at)a->sums_at;
	l->sockets.changed = write_files;
	l->sockets.ctx = l;
	int err = fan_ctl_new(&l->sockets.ctl, l->root, &o, fan_clock_ns(), &why);
	if (err)
		fprintf(stderr, "%s%s%s: %s\n", from, a->plan[0] || l->state ? ", " : "",
			l->plan	   ? a->plan
			: l->state ? a->state
				   : "",
			why.text[0] ? why.text : fan_err_text(err));
	return err ? EXIT_BAD : 0;
}

static int serve(struct life *l, const char *from)
{
	fan_peer at = l->a->listen;
	char text[80], line[300];
	const char *what;
	sigset_t signals;

	sigemptyset(&signals);
	sigaddset(&signals, SIGINT);
	sigaddset(&signals, SIGTERM);
	sigprocmask(SIG_BLOCK, &signals, NULL);
	signal(SIGPIPE, SIG_IGN);
	int e = controller_open(&l->sockets, &at, l->a->socket, &what);
	if (e) {
		fprintf(stderr, "fanin controller: %s: %s\n", what, strerror(-e));
	} else if (!(e = start_metrics(l))) {
		snprintf(line, sizeof line, "%.200s, listening on %s", from,
			 fan_peer_text(&at, text, sizeof text));
		if (!l->a->quiet)
			cmd_log(line);
		e = controller_run(&l->sockets);
	}
	l->json_ns = 0; /* the last status is written at once */
	write_files(l);
	metrics_http_stop(l->sockets.metrics);
	controller_shut(&l->sockets, l->a->socket);
	return e ? 1 : 0;
}

/* Do --ask: print the answer. */
static int ask(const struct controller_args *a)
{
	char why[ARGS_WHY_BYTES];
	char *text = controller_ask(a->socket, a->ask, why);

	if (!text) {
		fprintf(stderr, "fanin controller: --socket: %s\n", why);
		return 1;
	}
	bool wrong = strncmp(text, "error:", 6) == 0;
	fputs(text, wrong ? stderr : stdout);
	free(text);
	return wrong ? EXIT_BAD : 0;
}

static int wrong(const char *text)
{
	fprintf(stderr, "fanin controller: %s\nTry `fanin controller --help`.\n", text);
	return EXIT_BAD;
}

int cmd_controller(int argc, char **argv)
{
	static struct life l; /* too large for the stack, with all connections */
	static struct controller_args a = {
		.algorithm = BEST, .seed = 1, .trees = 4, .wait = WAIT_SECONDS};
	const char *from = plan_take_topology(&command, &argc, argv);

	args_parse(&command, &a, argc, argv);
	l.a = &a;
	if (a.ask[0])
		return a.socket[0] ? ask(&a) : wrong("--ask: expected with --socket PATH");
	if (!from)
		return wrong("expected TOPOLOGY.json, or a topology to make");
	if (fan_peer_is_none(&a.listen))
		return wrong("--listen: expected ADDR:PORT, for instance --listen 10.8.0.1:7700");
	int status = load_key(&l);
	if (!status)
		status = load(&l, from);
	if (!status)
		status = make(&l, from);
	if (!status)
		status = serve(&l, from);
	fan_ctl_free(l.sockets.ctl);
	json_decref(l.root);
	json_decref(l.plan);
	json_decref(l.state);
	return status;
}
