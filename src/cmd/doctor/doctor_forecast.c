/* SPDX-License-Identifier: Apache-2.0 */
/* doctor_forecast.c - what sums the tensors of this job, how long an all-reduce and a ring take,
 * what would make it faster; and the proof. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "doctor.h"
#include "lib/comm/comm.h"
#include "lib/host/rules.h"
#include "net/clock.h"

#define SUFFIX	   "#proof"
#define WARM_ELEMS 1024
#define PROOF_NS   (3000 * FAN_MS) /* forecast time of the all-reduces */
#define PROOF_MIN  3
#define PROOF_MAX  25
#define WRONG	   1e-4 /* relative error of a sum, in fixed point */
#define BUFFER	   4194304
#define JUMBO_MTU  9000
#define LIST_BYTES 256
#define SHOWN_MAX  8
#define MS(ns)	   ((ns)*1e-6)

/* Join the job of this environment and sum something, so that its counters are known. */
static int open_job(struct doctor *d, char *why, size_t bytes)
{
	const struct fanin_options init = FANIN_OPTIONS_INIT;
	struct fanin_options o = init;
	char job[FAN_NAME_MAX + 1];
	float warm[WARM_ELEMS] = {0};
	fan_rendezvous_derive(job, d->cfg.job, SUFFIX);
	o.job = job;
	o.switch_addr = d->args.sw[0] ? d->args.sw : NULL;
	o.mtu = d->args.mtu ? d->args.mtu : -1;
	o.wire = FANIN_FLOAT32;
	int e = fanin_comm_create(&o, &d->job);
	if (!e)
		e = fanin_allreduce(d->job, warm, warm, WARM_ELEMS, FANIN_FLOAT32, FANIN_SUM);
	if (e)
		snprintf(why, bytes, "%s",
			 d->job && *fanin_comm_error(d->job) ? fanin_comm_error(d->job)
							     : fanin_strerror(e));
	return e;
}

/* Fill in d->net from the job's counters and parts. */
static void note_net(struct doctor *d, const struct fanin_stats *s)
{
	const struct fan_meeting *m = &d->group.meeting;
	struct fan_forecast_net *n = &d->net;
	struct fanin_part p = {.size = sizeof p};
	n->shares_memory = s->host_ranks > 0;
	n->even_shares = !d->cfg.split;
	n->payload = s->packet_bytes > FAN_HEAD_BYTES ? s->packet_bytes - FAN_HEAD_BYTES
						      : d->cfg.payload_bytes;
	for (unsigned h = 0; h < m->hosts; h++)
		n->sums[h] = false;
	for (uint32_t k = 0; !fanin_comm_part(d->job, k, &p); k++)
		if (p.rank >= 0 && m->hosts > 1)
			n->sums[m->host_of[p.rank]] = true;
	if (m->hosts == 1 && !n->switches)
		n->sums[0] = true;
	n->window_bytes = (double)s->window_frags / (s->parts ? s->parts : 1) * n->payload *
			  (n->shares_memory ? fan_host_columns(m, n->switches > 0) : 1);
}

/* Say in words what sums. */
static void describe_summing(const struct doctor *d, char *text, size_t bytes)
{
	const struct fan_forecast_net *n = &d->net;
	const unsigned hosts = n->hosts > 1 ? fan_forecast_summing(n) : 0;
	const char *memory = n->shares_memory ? "ranks of a host share memory; " : "";
	char switches[LIST_BYTES] = "";
	if (n->switches)
		snprintf(switches, sizeof switches, "%u named switch%s", n->switches,
			 n->switches > 1 ? "es" : "");
	if (n->hosts == 1 && n->shares_memory)
		snprintf(text, bytes,
			 "all ranks are on this host and share memory: nothing is sent");
	else if (n->hosts == 1 && !n->switches)
		snprintf(text, bytes, "all ranks are on this host; rank 0 sums, over loopback");
	else if (n->switches && hosts)
		snprintf(text, bytes, "%s%s and %u hosts sum", memory, switches, hosts);
	else if (n->switches)
		snprintf(text, bytes, "%s%s sum%s", memory, switches, n->switches > 1 ? "" : "s");
	else
		snprintf(text, bytes, "%sno switch is named: %u of %u hosts sum", memory, hosts,
			 n->hosts);
}

void doctor_check_summing(struct doctor *d)
{
	char why[FAN_FAULT_TEXT_BYTES] = "", text[DOCTOR_TEXT_BYTES];
	struct fanin_stats s = {.size = sizeof s};
	if (!d->group.met)
		return;
	int e = open_job(d, why, sizeof why);
	if (e) {
		struct doctor_finding *f = doctor_find(
			d, "summing", DOCTOR_FAIL, "the job of all ranks did not work: %s", why);
		doctor_value(f, "cause", json_string(fan_err_name(e)));
		doctor_advise(f, "check one host alone: fanin doctor --no-join");
		return;
	}
	if (d->cfg.rank) /* it may have no column, and so no parts */
		return;
	fanin_comm_stats(d->job, &s);
	note_net(d, &s);
	describe_summing(d, text, sizeof text);
	struct doctor_finding *f = doctor_find(d, "summing", DOCTOR_OK, "%s", text);
	if (d->net.hosts == 1 && !d->net.shares_memory)
		doctor_advise(f, "ranks of one host are faster in shared memory: export "
				 "FANIN_LOCAL=1 on all ranks");
	doctor_value(f, "shares_memory", json_boolean(d->net.shares_memory));
	doctor_value(f, "hosts_sum",
		     json_integer(d->net.hosts > 1 ? fan_forecast_summing(&d->net) : 0));
	doctor_value(f, "switches", json_integer(d->net.switches));
	doctor_value(f, "window_bytes", json_real(d->net.window_bytes));
}

/* ---- the forecast ---- */

static const char *size_text(char *text, size_t bytes, uint64_t size)
{
	if (size >= 1 << 20)
		snprintf(text, bytes, "%.4g MiB", (double)size / (1 << 20));
	else
		snprintf(text, bytes, "%.4g KiB", (double)size / 1024);
	return text;
}

static void advise_gain(struct doctor *d, struct doctor_finding *f, const struct fan_gain *g,
			double now_ns)
{
	char what[LIST_BYTES], at[DOCTOR_ADDRESS_BYTES] = "";
	const struct fan_meeting *m = &d->group.meeting;
	const bool jumbo = d->least_mtu >= JUMBO_MTU;
	switch (g->kind) {
	case FAN_GAIN_MEMORY:
		snprintf(what, sizeof what,
			 "ranks of a host that share memory: export FANIN_LOCAL=1 on all ranks");
		break;
	case FAN_GAIN_HOSTS:
		snprintf(what, sizeof what, "hosts that sum with the switches: unset FANIN_HOSTS");
		break;
	case FAN_GAIN_SHARES:
		snprintf(what, sizeof what, "shares that follow the network: unset FANIN_SPLIT");
		break;
	case FAN_GAIN_WINDOW:
		snprintf(what, sizeof what,
			 "larger socket buffers on all hosts, as root: sysctl -w "
			 "net.core.rmem_max=%d net.core.wmem_max=%d",
			 BUFFER, BUFFER);
		break;
	case FAN_GAIN_FRAMES:
		snprintf(what, sizeof what, "jumbo frames: %sexport FANIN_MTU=%d on all ranks%s",
			 jumbo ? ""
			       : "as root, on all links, ip link set dev DEVICE mtu 9000; then ",
			 JUMBO_MTU, d->net.switches ? ", and fanin switch --mtu 9000" : "");
		break;
	case FAN_GAIN_NARROW_LINK:
		snprintf(
			what, sizeof what,
			"a link as wide as the others' at the host of rank %u, which has %.0f Mb/s",
			m->host[g->index].first, g->mbps);
		break;
	case FAN_GAIN_HOST_LINKS:
		snprintf(what, sizeof what, "links twice as wide at all hosts");
		break;
	case FAN_GAIN_SWITCH_LINK:
		snprintf(what, sizeof what, "a link of %.0f Mb/s at switch %s", g->mbps,
			 fan_peer_text(&d->named[g->index], at, sizeof at));
		break;
	case FAN_GAIN_SPARE:
		snprintf(what, sizeof what,
			 "one more spare machine, link %.0f Mb/s: fanin switch on it, and its "
			 "address in FANIN_SWITCH",
			 g->mbps);
		break;
	case FAN_GAIN_BOX:
		snprintf(what, sizeof what,
			 "%u spare machines with such links, or one whose link is %u times as wide",
			 d->net.hosts, d->net.hosts);
		break;
	case FAN_GAIN_KINDS: return;
	}
	doctor_advise(f, "%.2f times as fast, %.4g ms: %s", now_ns / g->ns, MS(g->ns), what);
}

static json_t *shares_json(const double *share, unsigned count)
{
	json_t *all = json_array();
	for (unsigned i = 0; i < count; i++)
		json_array_append_new(all, json_real(share[i]));
	return all;
}

static double sum_of(const double *share, unsigned count)
{
	double sum = 0;
	for (unsigned i = 0; i < count; i++)
		sum += share[i];
	return sum;
}

static void report_forecast(struct doctor *d, const struct fan_forecast *w)
{
	struct fan_gain gain[FAN_GAIN_KINDS];
	char size[32], shares[LIST_BYTES] = "";
	const struct fan_forecast_net *n = &d->net;
	if (n->switches && fan_forecast_summing(n))
		snprintf(shares, sizeof shares, "; hosts sum %.0f %% of it",
			 100 * sum_of(w->host_share, n->hosts));
	struct doctor_finding *f = doctor_find(
		d, "forecast", DOCTOR_OK,
		"%s float32: %.4g ms, a ring over %d ranks %.4g ms: %.2f times as fast%s%s",
		size_text(size, sizeof size, d->args.bytes), MS(w->ns), d->cfg.ranks,
		MS(w->ring_ns), w->ring_ns / w->ns, shares,
		w->by_window ? "; windows limit it, not links" : "");
	doctor_value(f, "bytes", json_integer((json_int_t)d->args.bytes));
	doctor_value(f, "ms", json_real(MS(w->ns)));
	doctor_value(f, "ring_ms", json_real(MS(w->ring_ns)));
	doctor_value(f, "by_ring", json_real(w->ring_ns / w->ns));
	doctor_value(f, "by_window", json_boolean(w->by_window));
	doctor_value(f, "host_shares", shares_json(w->host_share, n->hosts));
	doctor_value(f, "switch_shares", shares_json(w->switch_share, n->switches));
	unsigned count = fan_forecast_gains(gain, w, n, d->args.bytes);
	for (unsigned i = 0; i < count; i++)
		advise_gain(d, f, &gain[i], w->ns);
}

void doctor_check_forecast(struct doctor *d)
{
	if (!d->group.met || !d->job || d->cfg.rank || !d->links_known || d->net.hosts == 1)
		return; /* the ranks of one host have no link between them */
	fan_forecast(&d->forecast, &d->net, d->args.bytes);
	report_forecast(d, &d->forecast);
}

/* ---- the proof ---- */

static float element(unsigned rank, size_t i)
{
	return (float)(i % 1000 + rank); /* sums are exact */
}

/* How many all-reduces the time left permits, by rank 0's forecast. */
static int32_t rounds(const struct doctor *d)
{
	uint64_t now_ns = fan_clock_ns();
	double left_ns = d->deadline_ns > now_ns ? (double)(d->deadline_ns - now_ns) : 0;
	double each_ns = d->forecast.ns > 0 ? d->forecast.ns : (double)d->args.bytes;
	double most = fmin(fmin(PROOF_NS, left_ns / 2) / each_ns, PROOF_MAX);
	if (most < PROOF_MIN)
		return 2 * PROOF_MIN * each_ns < left_ns ? PROOF_MIN : 0;
	return (int32_t)most;
}

/* One all-reduce.  Returns its time; 0: it failed. */
static uint64_t reduce(struct doctor *d, float *data, size_t count, uint32_t *wrong)
{
	const unsigned ranks = (unsigned)d->cfg.ranks;
	for (size_t i = 0; i < count; i++)
		data[i] = element((unsigned)d->cfg.rank, i);
	uint64_t begin_ns = fan_clock_ns();
	if (fanin_allreduce(d->job, data, data, count, FANIN_FLOAT32, FANIN_SUM))
		return 0;
	uint64_t took_ns = fan_clock_ns() - begin_ns;
	for (size_t i = 0; i < count; i++) {
		double sum = (double)(i % 1000) * ranks + ranks * (ranks - 1) / 2.0;
		*wrong += fabs(data[i] - sum) > WRONG * sum;
	}
	return took_ns ? took_ns : 1;
}

static void report_proof(struct doctor *d, uint64_t *took_ns, unsigned count, uint32_t wrong)
{
	char size[32], by[64] = "";
	struct fanin_part p = {.size = sizeof p};
	unsigned last = count / 2; /* shares are learnt in the first half */
	qsort(took_ns + last, count - last, sizeof *took_ns, doctor_rising);
	double ms = MS((double)took_ns[last + (count - last) / 2]);
	if (d->forecast.ns > 0)
		snprintf(by, sizeof by, ", %.2f of the forecast", ms / MS(d->forecast.ns));
	bool moving = !fanin_comm_part(d->job, 1, &p) && !p.settled;
	enum doctor_status speed = doctor_judge_proof(ms, MS(d->forecast.ns));
	struct doctor_finding *f =
		doctor_find(d, "allreduce", wrong ? DOCTOR_FAIL : speed,
			    "%u of %s took %.4g ms%s, %u elements wrong%s", count,
			    size_text(size, sizeof size, d->args.bytes), ms, by, wrong,
			    moving ? "; shares were still being learnt" : "");
	doctor_value(f, "ms", json_real(ms));
	doctor_value(f, "count", json_integer(count));
	doctor_value(f, "wrong", json_integer(wrong));
	doctor_value(f, "settled", json_boolean(!moving));
	if (wrong)
		doctor_advise(
			f,
			"a node on the path changes packets: seal the job (FANIN_KEY_FILE on all ranks), "
			"and report it to the authors");
	else if (speed == DOCTOR_WARN && moving)
		doctor_advise(f,
			      "the links allow %.4g ms; once more, with more time to learn "
			      "shares: fanin doctor --timeout 60",
			      MS(d->forecast.ns));
	else if (speed == DOCTOR_WARN)
		doctor_advise(f,
			      "the links allow %.4g ms: see warnings of cores, buffers and burst "
			      "on all hosts, and who else uses links and processors (top, sar -n "
			      "DEV 1)",
			      MS(d->forecast.ns));
}

static void prove(struct doctor *d, float *data, unsigned count)
{
	const size_t elems = d->args.bytes / sizeof *data;
	uint64_t took_ns[PROOF_MAX];
	uint32_t wrong = 0;
	for (unsigned i = 0; i < count; i++) {
		took_ns[i] = reduce(d, data, elems, &wrong);
		if (took_ns[i])
			continue;
		struct doctor_finding *f =
			doctor_find(d, "allreduce", DOCTOR_FAIL, "%s", fanin_comm_error(d->job));
		doctor_advise(f, "check one host alone: fanin doctor --no-join");
		return;
	}
	int32_t all =
		wrong < INT32_MAX / FAN_RANKS_MAX ? (int32_t)wrong : INT32_MAX / FAN_RANKS_MAX;
	if (doctor_group_add(d, &all, 1))
		report_proof(d, took_ns, count, (uint32_t)all);
}

void doctor_check_allreduce(struct doctor *d)
{
	float *data = NULL;
	int32_t words[2]; /* all-reduces; ranks with a job and enough memory */
	if (!d->group.met)
		return;
	if (d->job)
		data = malloc(d->args.bytes);
	words[0] = d->cfg.rank ? 0 : rounds(d);
	words[1] = data != NULL;
	if (doctor_group_add(d, words, 2)) {
		if (words[1] < d->cfg.ranks)
			doctor_find(d, "allreduce", DOCTOR_SKIP,
				    "%d ranks have no job or no memory for the tensor",
				    d->cfg.ranks - words[1]);
		else if (words[0] && data)
			prove(d, data, (unsigned)words[0]);
		else
			doctor_find(d, "allreduce", DOCTOR_SKIP, "no time left: raise --timeout");
	}
	free(data);
}
