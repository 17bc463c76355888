/* SPDX-License-Identifier: Apache-2.0 */
/* switch.c - `fanin switch`: the daemon around src/net/switchd. */
#include <errno.h>
#include <inttypes.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "args.h"
#include "cmd.h"
#include "lib/config.h"
#include "net/switchd.h"
#include "net/udp.h"

#define ADDRESS_BYTES 80
#define STAMP_BYTES   32

struct switch_args {
	fan_peer listen, server;
	int policy, slots, threads, payload, mtu, jobs, window, group_port;
	uint64_t buffer;
	bool no_multicast, plain, quiet;
};

static const char *const policies[] = {"switchml", "atp", "esa", "none", NULL};

#define AT(field) offsetof(struct switch_args, field)
static const struct args_option options[] = {
	{"listen", 'l', ARGS_PEER, AT(listen), 0, 0, NULL, "ADDR:PORT",
	 "where workers find the switch; 0.0.0.0 or [::] for every interface"},
	{"policy", 'p', ARGS_WORD, AT(policy), 0, 0, policies, "NAME",
	 "how slots are shared: switchml"},
	{"slots", 's', ARGS_NUMBER, AT(slots), 2, FAN_SLOTS_MAX, NULL, "N",
	 "fragments that can be summed at a time, over all threads (4096)"},
	{"threads", 't', ARGS_NUMBER, AT(threads), 1, FAN_SHARDS_MAX, NULL, "T",
	 "shards; number i listens on PORT + i (1)"},
	{"mtu", 'm', ARGS_NUMBER, AT(mtu), 576, 9000, NULL, "BYTES",
	 "the path MTU that slots are made for (1500)"},
	{"payload", 0, ARGS_NUMBER, AT(payload), FAN_PAYLOAD_MIN, FAN_PAYLOAD_MAX, NULL, "BYTES",
	 "bytes of a slot, instead of --mtu (1408)"},
	{"jobs", 'j', ARGS_NUMBER, AT(jobs), 1, FAN_JOBS_MAX, NULL, "N", "jobs at a time (64)"},
	{"window", 'w', ARGS_NUMBER, AT(window), 2, FAN_WINDOW_MAX, NULL, "N",
	 "the most slots that one job gets from each thread (512)"},
	{"buffer", 0, ARGS_SIZE, AT(buffer), 65536, 1 << 30, NULL, "BYTES",
	 "socket buffers, as far as the system grants them (4M)"},
	{"no-multicast", 0, ARGS_FLAG, AT(no_multicast), 0, 0, NULL, NULL,
	 "send results to each worker, even where all could hear a group"},
	{"group-port", 0, ARGS_NUMBER, AT(group_port), 1, 65535, NULL, "PORT",
	 "UDP port of multicast results (23846)"},
	{"plain", 0, ARGS_FLAG, AT(plain), 0, 0, NULL, NULL, "no UDP_SEGMENT, no UDP_GRO"},
	{"server", 0, ARGS_PEER, AT(server), 0, 0, NULL, "ADDR:PORT",
	 "parameter server; not yet served by this version"},
	{"quiet", 'q', ARGS_FLAG, AT(quiet), 0, 0, NULL, NULL, "log failures and warnings only"},
};

static const struct args_command command = {
	"switch",
	"Sum the fragments that workers send and send them the sums.\v"
	"Logs to stderr, one line an event.  SIGUSR1: what each job waits for, and the counters.  "
	"SIGINT, SIGTERM: stop.",
	options,
	sizeof options / sizeof options[0],
};

/* What --quiet lets through: failures, and answers to SIGUSR1. */
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
	const struct switch_args *a = ctx;
	struct timespec now;
	struct tm tm;
	char stamp[STAMP_BYTES];

	if (a->quiet && !is_loud(line))
		return;
	clock_gettime(CLOCK_REALTIME, &now);
	gmtime_r(&now.tv_sec, &tm);
	strftime(stamp, sizeof stamp, "%Y-%m-%dT%H:%M:%S", &tm);
	fprintf(stderr, "%s.%03ldZ %s\n", stamp, now.tv_nsec / 1000000, line);
}

static int wrong(const char *text)
{
	fprintf(stderr, "fanin switch: %s\nTry `fanin switch --help`.\n", text);
	return 2;
}

/* What one option cannot say about another. */
static int check(const struct switch_args *a)
{
	char text[ARGS_WHY_BYTES];

	if (fan_peer_is_none(&a->listen))
		return wrong("--listen: expected ADDR:PORT, for instance --listen 0.0.0.0:5000");
	if (a->policy != FAN_POLICY_SWITCHML) {
		snprintf(text, sizeof text,
			 "--policy: expected switchml, got \"%s\", which is not yet served by this "
			 "version",
			 policies[a->policy]);
		return wrong(text);
	}
	if (!fan_peer_is_none(&a->server))
		return wrong("--server: not yet served by this version; leave it out");
	if (a->slots < 2 * a->threads) {
		snprintf(text, sizeof text,
			 "--slots: expected at least %d, 2 for each thread, got %d", 2 * a->threads,
			 a->slots);
		return wrong(text);
	}
	return 0;
}

static void fill(struct fan_switchd_options *o, struct switch_args *a)
{
	fan_switchd_defaults(o);
	o->listen = a->listen;
	o->threads = (unsigned)a->threads;
	o->no_multicast = a->no_multicast;
	o->plain = a->plain;
	o->buffer_bytes = (int)a->buffer;
	o->core.slots = (uint32_t)(a->slots / a->threads);
	o->core.payload_bytes =
		a->payload ? (uint16_t)(a->payload / 8 * 8) : fan_config_payload_bytes(a->mtu);
	o->core.jobs_max = (uint16_t)a->jobs;
	o->core.window_max = (uint16_t)a->window;
	o->core.group_port = (uint16_t)a->group_port;
	o->log = print_line;
	o->ctx = a;
}

static void tell_start(const struct fan_switchd *d, const struct fan_switchd_options *o,
		       struct switch_args *a)
{
	struct fan_switchd_facts f;
	char at[ADDRESS_BYTES], group[ADDRESS_BYTES] = "none", line[ARGS_WHY_BYTES];

	fan_switchd_facts(d, &f);
	if (!fan_peer_is_none(&f.group))
		fan_peer_text(&f.group, group, sizeof group);
	snprintf(line, sizeof line,
		 "event=start version=%s listen=%s policy=%s threads=%u slots=%u payload=%u "
		 "memory_MiB=%.1f segment=%s gro=%s sndbuf=%d rcvbuf=%d group=%s",
		 FAN_BUILD_VERSION, fan_peer_text(&f.address, at, sizeof at), policies[a->policy],
		 o->threads, o->core.slots * o->threads, o->core.payload_bytes,
		 (double)f.memory / (1 << 20), f.segment ? "yes" : "no", f.gro ? "yes" : "no",
		 f.sndbuf, f.rcvbuf, group);
	print_line(a, line);
	if (!o->plain && (!f.segment || !f.gro))
		print_line(a, "event=warning text=\"this kernel has no UDP_SEGMENT or no UDP_GRO: "
			      "plain datagrams, several times slower; Linux 5.0 has both\"");
	if (f.rcvbuf >= o->buffer_bytes && f.sndbuf >= o->buffer_bytes)
		return;
	snprintf(line, sizeof line,
		 "event=warning text=\"socket buffers are smaller than asked for, so bursts may be "
		 "lost; as root: sysctl -w net.core.rmem_max=%d net.core.wmem_max=%d\"",
		 o->buffer_bytes, o->buffer_bytes);
	print_line(a, line);
}

/* Until a signal ends it. */
static void serve(struct fan_switchd *d, const sigset_t *signals)
{
	int signal = 0;

	for (;;) {
		if (sigwait(signals, &signal) == 0 && signal != SIGUSR1)
			return;
		fan_switchd_dump(d);
	}
}

int cmd_switch(int argc, char **argv)
{
	struct switch_args a = {.slots = 4096,
				.threads = 1,
				.mtu = 1500,
				.jobs = FAN_JOBS_MAX,
				.window = FAN_WINDOW_QUOTA,
				.buffer = 4 << 20};
	struct fan_switchd_options o;
	struct fan_switchd *d;
	char why[ARGS_WHY_BYTES];
	sigset_t signals;

	args_parse(&command, &a, argc, argv);
	int e = check(&a);
	if (e)
		return e;
	fill(&o, &a);
	sigemptyset(&signals);
	sigaddset(&signals, SIGINT);
	sigaddset(&signals, SIGTERM);
	sigaddset(&signals, SIGUSR1);
	pthread_sigmask(SIG_BLOCK, &signals, NULL);
	if (fan_switchd_start(&d, &o, why, sizeof why)) {
		fprintf(stderr, "fanin switch: %s\n", why);
		return 1;
	}
	tell_start(d, &o, &a);
	serve(d, &signals);
	fan_switchd_stop(d);
	print_line(&a, "event=stop");
	return 0;
}
