/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cmd/log.h"
#include "cmd/metrics/metrics_http.h"
#include "file/text.h"
#include "lib/base/config.h"
#include "net/daemon_client.h"
#include "net/logline.h"
#include "net/shard.h"
#include "net/udp.h"

#define ADDRESS_BYTES 80

/* Does --quiet let the line through?  Failures, and answers to SIGUSR1. */
static bool is_loud(const char *line)
{
	static const char *const loud[] = {"event=job_failed ", "event=job ", "event=counters ",
					   "event=warning "};

	for (unsigned i = 0; i < sizeof loud / sizeof loud[0]; i++)
		if (strncmp(line, loud[i], strlen(loud[i])) == 0)
			return true;
	return false;
}

static void print_line(void *ctx, const char *line)
{
	const struct daemon_args *a = ctx;

	if (!a->quiet || is_loud(line))
		cmd_log(line);
}

int daemon_fill(const char *name, struct fan_daemon_options *o, struct daemon_args *a,
		unsigned slots)
{
	char why[ARGS_WHY_BYTES];

	if (fan_peer_is_none(&a->listen))
		args_wrong(name,
			   "--listen: expected ADDR:PORT, for instance --listen 0.0.0.0:5000");
	if (slots < 2 * (unsigned)a->threads)
		args_wrong(name, "--slots: expected at least %d, 2 for each thread, got %u",
			   2 * a->threads, slots);
	if (fan_peer_is_none(&a->controller) != !a->name[0])
		args_wrong(name, "--controller and --name: expected both or none: NAME is this "
				 "node's name in the controller's topology");
	if (strlen(a->name) > FAN_NAME_MAX)
		args_wrong(name, "--name: expected at most 63 bytes");
	fan_daemon_defaults(o);
	o->inlets = a->name[0]; /* for the controller */
	o->listen = a->listen;
	o->threads = (unsigned)a->threads;
	o->core.slots = slots / o->threads;
	o->core.payload_bytes = fan_config_payload_bytes(a->mtu, 2);
	o->core.jobs_max = (uint16_t)a->jobs;
	o->core.window_max = (uint16_t)a->window;
	if (args_need_key(name, "key", a->key, "FANIN_KEY_FILE") ||
	    (a->name[0] &&
	     args_need_key(name, "controller-key", a->controller_key, "FANIN_CONTROLLER_KEY_FILE")))
		return 2;
	if (a->key[0] && fan_key_file_read(&o->keys, a->key, why, sizeof why)) {
		fprintf(stderr, "fanin %s: --key: %s\n", name, why);
		return 1;
	}
	if (a->controller_key[0] && !a->name[0])
		args_wrong(name, "--controller-key: expected with --controller");
	if (a->controller_key[0] &&
	    fan_key_file_read(&a->controller_keys, a->controller_key, why, sizeof why)) {
		fprintf(stderr, "fanin %s: --controller-key: %s\n", name, why);
		return 1;
	}
	o->log = print_line;
	o->ctx = a;
	return 0;
}

static void add_peer(struct fan_text *l, const char *key, const fan_peer *p)
{
	char text[ADDRESS_BYTES];

	if (!fan_peer_is_none(p))
		fan_text_add(l, " %s=%s", key, fan_peer_text(p, text, sizeof text));
}

static void log_start(const struct fan_daemon *d, const struct fan_daemon_options *o,
		      struct daemon_args *a, const char *policy)
{
	struct fan_daemon_facts f;
	struct fan_text l = FAN_LINE();
	unsigned slots = o->has_slots ? o->slots.slots : o->core.slots;

	fan_daemon_facts(d, &f);
	fan_text_add(&l, "event=start version=%s", FAN_BUILD_VERSION);
	add_peer(&l, "listen", &f.address);
	fan_text_add(&l, " policy=%s threads=%u slots=%u payload=%u memory_MiB=%.1f", policy,
		     o->threads, slots * o->threads, o->core.payload_bytes,
		     (double)f.memory / (1 << 20));
	fan_text_add(&l, " segment=%s gro=%s sndbuf=%d rcvbuf=%d sockets=%u",
		     f.segment ? "yes" : "no", f.gro ? "yes" : "no", f.sndbuf, f.rcvbuf, f.sockets);
	fan_text_add(&l, " sealed=%s", o->keys.count ? "yes" : "no");
	if (o->core.ahead_max)
		fan_text_add(&l, " ahead=%u", o->core.ahead_max);
	if (fan_peer_is_none(&f.group))
		fan_text_add(&l, " group=none");
	add_peer(&l, "group", &f.group);
	add_peer(&l, "server", &o->server);
	add_peer(&l, "parent", &o->parent);
	print_line(a, l.at);
	if (!f.segment || !f.gro)
		print_line(a, "event=warning text=\"this kernel lacks UDP_SEGMENT or UDP_GRO: "
			      "plain datagrams are several times slower; Linux 5.0 has both\"");
	if (!o->keys.count && fan_peer_is_public(&o->listen))
		print_line(a, "event=warning text=\"open jobs on a public address: anybody who "
			      "reaches it can take part, and anybody on the path can change sums; "
			      "--key FILE seals them (fanin key)\"");
	if (f.rcvbuf >= o->buffer_bytes && f.sndbuf >= o->buffer_bytes)
		return;
	l = FAN_LINE();
	fan_text_add(
		&l,
		"event=warning text=\"socket buffers are smaller than requested, so bursts may be "
		"lost; as root: sysctl -w net.core.rmem_max=%d net.core.wmem_max=%d\"",
		o->buffer_bytes, o->buffer_bytes);
	print_line(a, l.at);
}

/* Start the controller client, if a controller is given.  `has_slots`: this is a switch. */
static int start_client(struct fan_daemon_client **client, struct fan_daemon *d,
			const struct fan_daemon_options *o, struct daemon_args *a)
{
	struct fan_daemon_client_options g = {
		.daemon = d,
		.controller = a->controller,
		.is_switch = o->has_slots,
		.listen = fan_daemon_address(d),
		.above = o->parent,
		.index = o->core.index,
		.siblings = o->core.siblings,
		.shards = o->threads,
		.slots = (o->has_slots ? o->slots.slots : o->core.slots) * o->threads,
		.log = print_line,
		.ctx = a,
	};

	*client = NULL;
	if (!a->name[0])
		return 0;
	g.keys = a->controller_keys;
	snprintf(g.name, sizeof g.name, "%.*s", FAN_NAME_MAX, a->name);
	return fan_daemon_client_start(client, &g);
}

/* SIGHUP: read the key file again.  If it cannot be read, the keys stay. */
static void read_keys_again(struct fan_daemon *d, struct daemon_args *a)
{
	struct fan_keys keys;
	struct fan_shard_request new = {.wish = FAN_SHARD_KEYS, .keys = &keys};
	char why[ARGS_WHY_BYTES];
	struct fan_text l = FAN_LINE();

	if (fan_key_file_read(&keys, a->key, why, sizeof why)) {
		fan_text_add(&l, "event=warning text=\"keys are as before: %s\"", why);
	} else {
		fan_daemon_ask(d, &new);
		fan_text_add(&l, "event=keys count=%u", keys.count);
	}
	explicit_bzero(&keys, sizeof keys);
	print_line(a, l.at);
}

/* Run until a signal ends the daemon. */
static void serve(struct fan_daemon *d, struct daemon_args *a, const sigset_t *signals)
{
	struct fan_shard_request dump = {.wish = FAN_SHARD_DUMP};
	int signal = 0;

	for (;;) {
		if (sigwait(signals, &signal) != 0)
			continue;
		if (signal == SIGUSR1)
			fan_daemon_ask(d, &dump);
		else if (signal == SIGHUP)
			read_keys_again(d, a);
		else
			return;
	}
}

int daemon_run(const char *name, const struct fan_daemon_options *o, struct daemon_args *a,
	       const char *policy)
{
	struct fan_daemon *d;
	struct fan_daemon_client *client = NULL;
	struct metrics_http *http;
	char why[ARGS_WHY_BYTES];
	sigset_t signals;

	sigemptyset(&signals);
	sigaddset(&signals, SIGINT);
	sigaddset(&signals, SIGTERM);
	sigaddset(&signals, SIGUSR1);
	if (a->key[0]) /* without keys, SIGHUP ends the daemon, as a closed terminal does */
		sigaddset(&signals, SIGHUP);
	pthread_sigmask(SIG_BLOCK, &signals, NULL);
	int e = fan_daemon_start(&d, o, why, sizeof why);
	if (e) {
		fprintf(stderr, "fanin %s: %s\n", name, why);
		return e == FAN_E_INVALID ? 2 : 1;
	}
	log_start(d, o, a, policy);
	e = metrics_http_start(&http, &a->metrics, d, name, why, sizeof why);
	if (e)
		fprintf(stderr, "fanin %s: --metrics: %s\n", name, why);
	if (!e && (e = start_client(&client, d, o, a)))
		fprintf(stderr, "fanin %s: --controller: %s\n", name, strerror(-e));
	if (!e)
		serve(d, a, &signals);
	fan_daemon_client_stop(client); /* the controller mends paths at once */
	if (!e) {
		print_line(a, "event=stopping");
		fan_daemon_goodbye(d);
	}
	metrics_http_stop(http);
	fan_daemon_stop(d);
	if (e)
		return 1;
	print_line(a, "event=stop");
	return 0;
}
