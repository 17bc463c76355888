/* SPDX-License-Identifier: Apache-2.0 */
/* doctor.c - `fanin doctor`: can a worker on this machine aggregate, and what must change? */
#include "doctor.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <time.h>

#include "cmd/cmd.h"
#include "doctor_echo.h"
#include "net/clock.h"

#define RESOLVE_SECONDS	  3 /* patience with name servers */
#define COUNT_DEFAULT	  300
#define TIMEOUT_DEFAULT_S 15
#define BYTES_DEFAULT	  (8 << 20)
#define BYTES_MAX	  (1 << 30)
#define NS_PER_S	  UINT64_C(1000000000)

#define AT(field) offsetof(struct doctor_args, field)
static const struct fan_option options[] = {
	{"switch", 's', ARGS_TEXT, AT(sw), 0, 0, NULL, "ADDR:PORT",
	 "the switch that workers use (FANIN_SWITCH, or switch of [worker])"},
	{"mtu", 'm', ARGS_NUMBER, AT(mtu), 576, 9000, NULL, "BYTES",
	 "the MTU to test (FANIN_MTU); the largest that passes is searched, too"},
	{"count", 'c', ARGS_NUMBER, AT(count), 1, DOCTOR_COUNT_MAX, NULL, "N",
	 "packets of each size to time, one per millisecond (300)"},
	{"timeout", 't', ARGS_NUMBER, AT(timeout_s), 1, 600, NULL, "SECONDS",
	 "time for all checks after the ranks have met; checks beyond it are skipped (15)"},
	{"bytes", 'b', ARGS_SIZE, AT(bytes), 1024, BYTES_MAX, NULL, "BYTES",
	 "size of the float32 tensor of the forecast (8M)"},
	{"no-join", 'n', ARGS_FLAG, AT(no_join), 0, 0, NULL, NULL,
	 "run no job: neither one of two ranks, which takes 16 slots of the switch for a moment, "
	 "nor one of all ranks of this environment"},
	{"json", 0, ARGS_TEXT, AT(json), 0, 0, NULL, "FILE",
	 "write the findings to FILE as JSON; -: to standard output, in place of the text"},
	{"settings", 0, ARGS_FLAG, AT(settings), 0, 0, NULL, NULL,
	 "check nothing: show this build, the options that a rank here reads, and what would sum"},
};

static const struct args_command command = {
	.name = "doctor",
	.help = "Check from a worker's point of view whether and how well aggregation works, and say what "
		"to change.\vExit status: 0, with or without warnings; 1 if something FAILs; 2 if an "
		"option is wrong.  Nothing needs root.",
	.options = options,
	.count = sizeof options / sizeof options[0],
};

static const struct args_command probe = {
	.name = "probe",
	.help = "Print what `fanin doctor` finds and measures here: lines of JSON.",
	.options = options,
	.count = sizeof options / sizeof options[0] - 2, /* without --json, --settings */
};

/* The configuration, as a worker reads it. */
static void check_config(struct doctor *d)
{
	const struct fanin_options init = FANIN_OPTIONS_INIT;
	char why[FAN_CONFIG_WHY_BYTES];

	if (fan_config_load_part(&d->cfg, &init, why, sizeof why)) {
		struct doctor_finding *f = doctor_find(d, "config", DOCTOR_FAIL, "%s", why);
		doctor_advise(f, "correct it: no worker starts with it");
		return;
	}
	struct doctor_finding *f = doctor_find(
		d, "config", DOCTOR_OK, "MTU %d, timeout %d ms, multicast %s; from FANIN_* and %s",
		d->cfg.mtu, d->cfg.timeout_ms, d->cfg.multicast ? "welcome" : "forbidden",
		getenv("FANIN_CONFIG") ? getenv("FANIN_CONFIG") : "no file (FANIN_CONFIG)");
	doctor_value(f, "mtu", json_integer(d->cfg.mtu));
	doctor_value(f, "timeout_ms", json_integer(d->cfg.timeout_ms));
	doctor_value(f, "multicast", json_boolean(d->cfg.multicast));
}

/* getaddrinfo may block, so it runs in a thread that is abandoned at the deadline. */
static struct {
	char text[FAN_CONFIG_SWITCHES_MAX + 1];
	fan_peer peer;
	int err;
	char why[ARGS_WHY_BYTES];
} asked;

static void *resolve(void *arg)
{
	(void)arg;
	asked.err = fan_peer_parse(&asked.peer, asked.text, asked.why, sizeof asked.why);
	return NULL;
}

/* 0: asked.err has the result; -1: no answer in time. */
static int resolve_in_time(void)
{
	pthread_t thread;
	struct timespec end;

	if (pthread_create(&thread, NULL, resolve, NULL)) {
		resolve(NULL);
		return 0;
	}
	clock_gettime(CLOCK_REALTIME, &end);
	end.tv_sec += RESOLVE_SECONDS;
	if (pthread_timedjoin_np(thread, NULL, &end) == 0)
		return 0;
	pthread_detach(thread);
	return -1;
}

/* Is the text an address but for its host, which may be a name? */
static bool is_well_formed(const char *text)
{
	const char *colon = strrchr(text, ':');
	char local[FAN_CONFIG_SWITCHES_MAX + 17], why[ARGS_WHY_BYTES];
	fan_peer p;

	snprintf(local, sizeof local, "%s", text);
	if (*text != '[' && colon && colon != text && strchr(text, ':') == colon)
		snprintf(local, sizeof local, "127.0.0.1%s", colon);
	return fan_peer_parse(&p, local, why, sizeof why) == 0 && p.port != 0;
}

/* Store the text that names the first switch in asked.text; empty: none is named.  2: wrong
 * usage. */
static int name_switch(struct doctor *d)
{
	const char *all = d->args.sw[0] ? d->args.sw : d->cfg.switch_addr;
	char text[sizeof d->cfg.switch_addr], *rest;

	snprintf(text, sizeof text, "%s", all);
	for (char *one = text; one && *text; one = rest) {
		rest = strchr(one, ',');
		if (rest)
			*rest++ = '\0';
		if (is_well_formed(one))
			continue;
		fprintf(stderr,
			"fanin doctor: %s: expected HOST:PORT or [IPV6]:PORT, for instance "
			"10.0.0.1:5000, got \"%s\"\nTry `fanin doctor --help`.\n",
			d->args.sw[0] ? "--switch" : "FANIN_SWITCH or [worker]", one);
		return 2;
	}
	snprintf(asked.text, sizeof asked.text, "%s", text);
	if (d->args.sw[0]) /* read as by a worker of this switch */
		snprintf(d->cfg.switch_addr, sizeof d->cfg.switch_addr, "%s", d->args.sw);
	return 0;
}

/* All named switches beyond the first. */
static void resolve_others(struct doctor *d)
{
	char text[sizeof d->cfg.switch_addr], *rest, why[ARGS_WHY_BYTES];

	d->named[d->named_count++] = d->sw;
	snprintf(text, sizeof text, "%s", d->cfg.switch_addr);
	for (char *one = strchr(text, ','); one; one = rest) {
		rest = strchr(++one, ',');
		if (rest)
			*rest = '\0';
		if (d->named_count < DOCTOR_SWITCHES_MAX &&
		    !fan_peer_parse(&d->named[d->named_count], one, why, sizeof why)) {
			d->named_count++;
			continue;
		}
		struct doctor_finding *f =
			doctor_find(d, "switch", DOCTOR_FAIL,
				    "switch %s cannot be resolved here, or more than %d are named",
				    one, DOCTOR_SWITCHES_MAX);
		doctor_advise(f, "ask the name servers: getent hosts %.*s", (int)strcspn(one, ":"),
			      one);
		return;
	}
}

/* Resolve the name.  An unknown name is a finding. */
static void check_name(struct doctor *d)
{
	int host = (int)strcspn(asked.text, ":");

	if (!asked.text[0] && d->group.wanted)
		return; /* ranks meet at rank 0 */
	if (!asked.text[0]) {
		d->no_path = "no switch given";
		doctor_find(
			d, "switch", DOCTOR_SKIP,
			"no switch given: expected --switch ADDR:PORT, FANIN_SWITCH, or switch of "
			"[worker]");
		return;
	}
	int late = resolve_in_time();
	if (!late && !asked.err) {
		d->sw = asked.peer;
		d->resolved = true;
		fan_peer_text(&d->sw, d->at, sizeof d->at);
		resolve_others(d);
		return;
	}
	d->no_path = "the switch's name has no address";
	struct doctor_finding *f =
		doctor_find(d, "switch", DOCTOR_FAIL, "switch has no address: \"%.*s\": %s", host,
			    asked.text, late ? "no name server answered in time" : "unknown here");
	doctor_advise(f, "ask the name servers: getent hosts %.*s", host, asked.text);
	doctor_advise(
		f,
		"give the address itself: --switch 10.0.0.1%s; or as root: echo '10.0.0.1 %.*s' "
		">> /etc/hosts",
		strrchr(asked.text, ':'), host, asked.text);
}

/* Can strangers read and change packets? */
static void check_seal(struct doctor *d)
{
	bool exposed = false;

	for (unsigned i = 0; i < d->named_count; i++)
		exposed |= fan_peer_is_public(&d->named[i]);
	if (d->cfg.keys.count) {
		doctor_find(d, "seal", DOCTOR_OK, "sealed with the key in %.200s", d->cfg.key_file);
		return;
	}
	struct doctor_finding *f =
		doctor_find(d, "seal", exposed ? DOCTOR_WARN : DOCTOR_OK,
			    "open%s: anybody on the path can read and change the job's packets",
			    exposed ? ", and a switch has a public address" : "");
	if (exposed)
		doctor_advise(f,
			      "seal it: fanin key new --out F; fanin switch --key F; fanin key job "
			      "TENANT --key F; FANIN_KEY_FILE at the ranks");
}

static void check_all(struct doctor *d)
{
	static void (*const here[])(struct doctor *) = {
		doctor_check_library, doctor_check_cores,  doctor_check_clock, doctor_check_buffers,
		doctor_check_offload, doctor_check_memory, check_name,	       check_seal,
	};
	static void (*const path[])(struct doctor *) = {
		doctor_check_switch, doctor_check_version, doctor_check_redirects,
		doctor_check_rtt,    doctor_check_mtu,	   doctor_check_fragments,
		doctor_check_burst,  doctor_check_shards,  doctor_check_sum,
	};
	static void (*const together[])(struct doctor *) = {
		doctor_measure_links,
		doctor_measure_summing,
		doctor_measure_allreduce,
	};

	for (unsigned i = 0; i < sizeof here / sizeof *here; i++) {
		here[i](d);
		doctor_flush(d);
	}
	doctor_group_meet(d);
	doctor_group_line(d);
	doctor_flush(d);
	for (unsigned i = 0; i < sizeof path / sizeof *path; i++) {
		if (!d->group.met || (d->group.first && d->resolved))
			path[i](d);
		doctor_flush(d);
	}
	for (unsigned i = 0; i < sizeof together / sizeof *together; i++) {
		together[i](d);
		doctor_flush(d);
	}
}

/* Print a line of JSON for each finding, and for what `fanin doctor`, which runs this, computes
 * with. */
int cmd_probe(int argc, char **argv)
{
	static struct doctor d = {.args = {.count = COUNT_DEFAULT,
					   .timeout_s = TIMEOUT_DEFAULT_S,
					   .bytes = BYTES_DEFAULT}};

	args_parse(&probe, &d.args, argc, argv);
	prctl(PR_SET_PDEATHSIG, SIGTERM); /* nobody reads on */
	d.deadline_ns = fan_clock_ns() + (uint64_t)d.args.timeout_s * NS_PER_S;
	check_config(&d); /* it may name the switch */
	int e = name_switch(&d);
	if (e)
		return e;
	doctor_group_init(&d);
	doctor_line("begin", json_pack("{s:i, s:i}", "rank", d.group.wanted ? d.cfg.rank : 0,
				       "ranks", d.group.wanted ? d.cfg.ranks : 1));
	check_all(&d);
	doctor_line("end", json_pack("{s:s}", "switch", d.resolved ? d.at : ""));
	fanin_comm_destroy(d.job);
	doctor_group_leave(&d);
	for (unsigned i = 0; i < d.count; i++)
		json_decref(d.finding[i].values);
	return 0;
}

int cmd_doctor(int argc, char **argv)
{
	struct doctor_args a = {
		.count = COUNT_DEFAULT, .timeout_s = TIMEOUT_DEFAULT_S, .bytes = BYTES_DEFAULT};

	args_parse(&command, &a, argc, argv);
	if (!a.settings)
		return cmd_python("operate", &command, &a);
	char info[] = "fanin info", flag[] = "--json";
	char *args[] = {info, flag, a.json, NULL};
	return cmd_info(a.json[0] ? 3 : 1, args);
}
