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
#include "lib/comm/comm.h"
#include "net/clock.h"

#define RESOLVE_SECONDS	  3 /* patience with name servers */
#define COUNT_DEFAULT	  300
#define TIMEOUT_DEFAULT_S 15
#define BYTES_DEFAULT	  (8 << 20)
#define BYTES_MAX	  (1 << 30)
#define NS_PER_S	  UINT64_C(1000000000)
#define SUFFIX		  "#doctor" /* of the job in which the ranks meet */

#define AT(field) offsetof(struct doctor_args, field)
static const struct fan_option options[] = {
	{"switch", 's', ARGS_TEXT, AT(sw), 0, 0, NULL, "ADDR:PORT",
	 "the switch that workers use (FANIN_SWITCH, or switch of [worker])"},
	{"count", 'c', ARGS_NUMBER, AT(count), 1, DOCTOR_COUNT_MAX, NULL, "N",
	 "packets of each size to time, one per millisecond (300)"},
	{"timeout", 't', ARGS_NUMBER, AT(timeout_s), 1, 600, NULL, "SECONDS",
	 "time for all checks after the ranks have met; checks beyond it are skipped (15)"},
	{"bytes", 'b', ARGS_SIZE, AT(bytes), 1024, BYTES_MAX, NULL, "BYTES",
	 "size of the float32 tensor of the forecast (8M)"},
	{"no-join", 'n', ARGS_FLAG, AT(no_join), 0, 0, NULL, NULL,
	 "run no job: neither one of two ranks, which takes 16 slots of the switch for a moment, "
	 "nor one of all ranks of this environment"},
	{"settings", 0, ARGS_FLAG, AT(settings), 0, 0, NULL, NULL,
	 "check nothing: show this build, the options that a rank here reads, and what would sum"},
	{"json", 0, ARGS_TEXT, AT(json), 0, 0, NULL, "FILE",
	 "write everything to FILE as JSON; -: to standard output, in place of the text"},
	{"all", 'a', ARGS_FLAG, AT(all), 0, 0, NULL, NULL,
	 "list the options at their defaults, too"},
};
#define ROWS	(sizeof options / sizeof options[0])
#define OF_INFO 2 /* the last rows; the first of them is of `doctor`, too */

static const struct args_command command = {
	.name = "doctor",
	.help = "Check from a worker's point of view whether and how well aggregation works, and say what "
		"to change.\vExit status: 0, with or without warnings; 1 if something FAILs; 2 if an "
		"option is wrong.  Nothing needs root.",
	.options = options,
	.count = ROWS - OF_INFO + 1,
};

static const struct args_command info = {
	.name = "info",
	.help = "Print this build, what the kernel gives it, the options of a rank as they are read here, "
		"and what would sum its tensors.\v"
		"Exit status 1: a rank with these options would fail.  Where the environment starts no "
		"rank, options are checked without one.",
	.options = &options[ROWS - OF_INFO],
	.count = OF_INFO,
};

static const struct args_command probe = {
	.name = "probe",
	.help = "Print what `fanin doctor` finds and measures here: lines of JSON.",
	.options = options,
	.count = ROWS - OF_INFO,
};

/* ---- lines of JSON ---- */

const char *doctor_no_path(const struct doctor *d)
{
	return d->no_path ? "path" : fan_clock_ns() >= d->deadline_ns ? "time" : NULL;
}

void doctor_skip(const char *check, const char *why)
{
	doctor_line("skip", json_pack("{s:s, s:s}", "check", check, "why", why));
}

bool doctor_skips(const struct doctor *d, const char *check)
{
	const char *why = doctor_no_path(d);

	if (why)
		doctor_skip(check, why);
	return why != NULL;
}

void doctor_line(const char *kind, json_t *value)
{
	json_t *line = json_pack("{s:o}", kind, value);

	if (line)
		json_dumpf(line, stdout, JSON_COMPACT | JSON_ENSURE_ASCII);
	putchar('\n');
	fflush(stdout);
	json_decref(line);
}

/* ---- the doctors of all ranks ---- */

static void note_wait(void *arg, const char *text)
{
	(void)arg;
	fprintf(stderr, "fanin doctor: %s\n", text);
}

/* Where the ranks meet: at the named switch, or at one that rank 0 starts. */
static int find_point(struct doctor *d, fan_peer *at, char *why, size_t bytes)
{
	struct fan_rendezvous r;
	*at = d->sw;
	if (d->resolved)
		return FAN_OK;
	int e = fan_rendezvous_find(&r, why, bytes);
	if (!e && !d->cfg.rank)
		e = fan_embedded_switch_get(&d->group.sw, &r, &d->cfg, why, bytes);
	if (!e && fan_peer_parse(at, r.addr, why, bytes))
		e = FAN_E_CONFIG;
	return e;
}

static int open_group(struct doctor *d, fan_peer *at, char *why, size_t bytes)
{
	struct doctor_group *g = &d->group;
	struct fan_config cfg = d->cfg;
	const int patience_ms = 2 * d->args.timeout_s * 1000; /* others may have more to check */
	int e = find_point(d, at, why, bytes);
	if (e)
		return e;
	cfg.timeout_ms = cfg.timeout_ms > patience_ms ? cfg.timeout_ms : patience_ms;
	cfg.waiting = note_wait;
	e = fan_comm_create_at(&cfg, at, SUFFIX, &g->comm);
	if (!e)
		e = fan_meeting_join(&g->meeting, g->comm, at, d->resolved, &g->sw);
	if (e)
		snprintf(why, bytes, "%s",
			 g->comm && *fanin_comm_error(g->comm) ? fanin_comm_error(g->comm)
							       : fan_err_text(e));
	return e;
}

/* Print the line "meeting"; `error` and `why`: the ranks did not meet. */
static void print_meeting(const struct doctor *d, const fan_peer *at, int error, const char *why)
{
	const struct fan_meeting *m = &d->group.meeting;
	char place[DOCTOR_ADDRESS_BYTES] = "";
	json_t *ranks = json_array(), *rails = json_array();
	int silent = -1;

	for (unsigned h = 0; at && !error && h < m->hosts; h++) {
		json_array_append_new(ranks, json_integer(m->host[h].ranks));
		if (m->hosts > 1 && !m->host[h].aggregator.port && silent < 0)
			silent = m->host[h].first;
	}
	for (unsigned j = 0; d->group.met && j < m->rails; j++)
		json_array_append_new(rails,
				      json_string(fan_peer_text(&m->host[d->group.host].rail[j].at,
								place, sizeof place)));
	doctor_line("meeting", json_pack("{s:b, s:b, s:b, s:o, s:s, s:o, s:o, s:i}", "met",
					 d->group.met, "first", d->group.first, "silent_switch",
					 d->resolved && error == FAN_E_UNREACHABLE, "error",
					 fan_json_text(why), "at",
					 at ? fan_peer_text(at, place, sizeof place) : "", "ranks",
					 ranks, "rails", rails, "silent", silent));
}

/* Do the configuration and the options say that there are other ranks? */
static void group_init(struct doctor *d)
{
	d->group.wanted = d->cfg.rank >= 0 && d->cfg.ranks > 1 && d->cfg.rank < d->cfg.ranks &&
			  !d->args.no_join && !*d->cfg.controller_addr;
	d->cfg.payload_bytes =
		fan_config_payload_bytes(d->cfg.mtu, d->cfg.ranks > 1 ? d->cfg.ranks : 2);
}

/* Wait for the other ranks, and print whether they have met. */
static void group_meet(struct doctor *d)
{
	struct doctor_group *g = &d->group;
	char why[FAN_FAULT_TEXT_BYTES] = "";
	fan_peer at;
	if (!g->wanted || d->no_path) {
		print_meeting(d, NULL, 0, "");
		return;
	}
	int e = open_group(d, &at, why, sizeof why);
	d->deadline_ns = fan_clock_ns() + (uint64_t)d->args.timeout_s * 1000 * FAN_MS;
	d->no_path = e && !d->resolved;
	g->met = !e && g->meeting.hosts < FAN_MEETING_HOSTS_MAX;
	if (g->met) {
		g->host = g->meeting.host_of[d->cfg.rank];
		g->first = g->meeting.host[g->host].first == d->cfg.rank;
	}
	print_meeting(d, &at, e, e ? why : "");
	if (!g->met || d->resolved || g->meeting.hosts < 2)
		return;
	/* the path to check is the one to the next host */
	d->sw = g->meeting.host[(g->host + 1) % g->meeting.hosts].aggregator;
	d->resolved = d->sw.port != 0;
	d->inside = true;
	fan_peer_text(&d->sw, d->at, sizeof d->at);
}

bool doctor_group_add(struct doctor *d, int32_t *words, unsigned count)
{
	struct doctor_group *g = &d->group;
	if (!g->met)
		return false;
	int e = fanin_allreduce(g->comm, words, words, count, FANIN_INT32, FANIN_SUM);
	if (!e)
		return true;
	const char *why = *fanin_comm_error(g->comm) ? fanin_comm_error(g->comm) : fan_err_text(e);
	g->met = false;
	doctor_line("lost", json_pack("{s:o}", "why", fan_json_text(why)));
	return false;
}

/* Wait for all ranks, then leave. */
static void group_leave(struct doctor *d)
{
	int32_t here = 1;
	if (d->group.met)
		doctor_group_add(d, &here, 1);
	fan_comm_destroy(d->group.comm);
	fan_embedded_switch_put(d->group.sw, d->cfg.alive_ms);
}

/* ---- the switches ---- */

/* The configuration, as a worker reads it: it may name the switch. */
static json_t *config_json(struct doctor *d)
{
	const struct fanin_options init = FANIN_OPTIONS_INIT;
	char why[FAN_CONFIG_WHY_BYTES] = "";
	const bool bad = fan_config_load_part(&d->cfg, &init, why, sizeof why);

	return json_pack("{s:o, s:i, s:i, s:b}", "error", fan_json_text(bad ? why : ""), "mtu",
			 d->cfg.mtu, "timeout_ms", d->cfg.timeout_ms, "multicast",
			 d->cfg.multicast != 0);
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

/* All named switches beyond the first.  Returns the text of one that has no address, or is one too
 * many; NULL: there is none. */
static const char *resolve_others(struct doctor *d)
{
	static char text[sizeof d->cfg.switch_addr];
	char *rest, why[ARGS_WHY_BYTES];

	d->named[d->named_count++] = d->sw;
	snprintf(text, sizeof text, "%s", d->cfg.switch_addr);
	for (char *one = strchr(text, ','); one; one = rest) {
		rest = strchr(++one, ',');
		if (rest)
			*rest = '\0';
		if (d->named_count == DOCTOR_SWITCHES_MAX ||
		    fan_peer_parse(&d->named[d->named_count], one, why, sizeof why))
			return one;
		d->named_count++;
	}
	return NULL;
}

/* Resolve the names of the switches. */
static void find_switches(struct doctor *d)
{
	const bool late = asked.text[0] && resolve_in_time();
	const char *lost = NULL;
	bool exposed = false; /* can strangers read and change packets? */

	if (asked.text[0] && !late && !asked.err) {
		d->sw = asked.peer;
		d->resolved = true;
		fan_peer_text(&d->sw, d->at, sizeof d->at);
		lost = resolve_others(d);
	}
	d->no_path = !d->resolved && (asked.text[0] || !d->group.wanted);
	for (unsigned i = 0; i < d->named_count; i++)
		exposed |= fan_peer_is_public(&d->named[i]);
	doctor_line("named",
		    json_pack("{s:o, s:s, s:b, s:o, s:o, s:b}", "text", fan_json_text(asked.text),
			      "at", d->at, "late", late, "lost", fan_json_text(lost ? lost : ""),
			      "key", fan_json_text(d->cfg.keys.count ? d->cfg.key_file : ""),
			      "exposed", exposed));
}

static void check_all(struct doctor *d)
{
	doctor_print_machine();
	find_switches(d);
	group_meet(d);
	if (!d->group.met || (d->group.first && d->resolved)) {
		doctor_check_path(d);
		doctor_check_sum(d);
	}
	doctor_measure_together(d);
}

/* Print lines of JSON for `fanin doctor`, which runs this. */
int cmd_probe(int argc, char **argv)
{
	static struct doctor d = {.args = {.count = COUNT_DEFAULT,
					   .timeout_s = TIMEOUT_DEFAULT_S,
					   .bytes = BYTES_DEFAULT}};

	args_parse(&probe, &d.args, argc, argv);
	prctl(PR_SET_PDEATHSIG, SIGTERM); /* nobody reads on */
	if (d.args.settings) {
		doctor_print_settings();
		doctor_line("end", json_object());
		return 0;
	}
	d.deadline_ns = fan_clock_ns() + (uint64_t)d.args.timeout_s * NS_PER_S;
	json_t *config = config_json(&d);
	int e = name_switch(&d);
	if (e)
		return e;
	group_init(&d);
	doctor_line("begin", json_pack("{s:i, s:i}", "rank", d.group.wanted ? d.cfg.rank : 0,
				       "ranks", d.group.wanted ? d.cfg.ranks : 1));
	doctor_line("config", config);
	check_all(&d);
	doctor_line("end", json_pack("{s:s}", "switch", d.resolved ? d.at : ""));
	fanin_comm_destroy(d.job);
	group_leave(&d);
	return 0;
}

int cmd_doctor(int argc, char **argv)
{
	const struct args_command *c = !strcmp(argv[0], "fanin info") ? &info : &command;
	struct doctor_args a = {
		.count = COUNT_DEFAULT, .timeout_s = TIMEOUT_DEFAULT_S, .bytes = BYTES_DEFAULT};

	args_parse(c, &a, argc, argv);
	return cmd_python("operate", c, &a);
}
