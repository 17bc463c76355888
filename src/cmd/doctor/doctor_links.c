/* SPDX-License-Identifier: Apache-2.0 */
/* doctor_links.c - how wide are the links of all hosts, and of the named switches?
 *
 * All hosts stream at the same time: each to the next one, then to the one before, then to the one
 * after the next.  So each link is full in both directions, and each host sees its own link's rate
 * in at least one.  Then all stream to one switch after the other, which sends everything back. */
#include <assert.h>
#include <stdio.h>
#include <string.h>

#include "doctor.h"
#include "doctor_echo.h"
#include "file/text.h"
#include "net/clock.h"

_Static_assert(FAN_FORECAST_RAILS_MAX == FAN_MEETING_RAILS_MAX, "all of them count");

#define STREAM_NS   (200 * FAN_MS)
#define WINDOW	    64
#define WINDOWS_ALL 256 /* of all hosts together, at a switch */
#define WINDOW_MIN  8
#define WIDE	    0.9 /* part of what all hosts send; a switch that takes it is as wide */
#define LIST_BYTES  300
#define SHOWN_MAX   8 /* rates printed one by one */

static double mbps(double per_s, unsigned bytes)
{
	return per_s * (bytes + FAN_FORECAST_HEADERS) * 8e-6;
}

static void at_least(double *value, double least)
{
	*value = *value > least ? *value : least;
}

/* Store the answers per second to each host's stream to its `to`, with `window` ECHOs in flight.
 * False: a rank is lost. */
static bool stream(struct doctor *d, const fan_peer *to, unsigned window, uint16_t answer_bytes,
		   int32_t *per_s)
{
	struct doctor_group *g = &d->group;
	double rate = 0;
	memset(per_s, 0, g->meeting.hosts * sizeof *per_s);
	if (!doctor_group_add(d, per_s, 1)) /* all begin together */
		return false;
	if (g->first && to->port)
		rate = doctor_stream(to, window, STREAM_NS, d->cfg.payload_bytes, answer_bytes);
	*per_s = 0;
	per_s[g->host] = (int32_t)rate;
	return doctor_group_add(d, per_s, g->meeting.hosts);
}

/* Rates in both directions of streams to the host `shift` places on, by network `rail`. */
static bool stream_on(struct doctor *d, unsigned rail, unsigned shift, double *up, double *down)
{
	const struct fan_meeting *m = &d->group.meeting;
	const unsigned n = m->hosts;
	const struct fan_meeting_host *to = &m->host[(d->group.host + shift) % n];
	int32_t per_s[FAN_MEETING_HOSTS_MAX];
	if (!stream(d, rail ? &to->rail[rail - 1].at : &to->aggregator, WINDOW, FAN_ECHO_MIN,
		    per_s))
		return false;
	for (unsigned h = 0; h < n; h++) {
		double out = per_s[h], in = per_s[(h + n - shift) % n];
		if (out > 0)
			at_least(&up[h], mbps(out, d->cfg.payload_bytes) + mbps(in, FAN_ECHO_MIN));
		if (in > 0)
			at_least(&down[h],
				 mbps(in, d->cfg.payload_bytes) + mbps(out, FAN_ECHO_MIN));
	}
	return true;
}

static bool measure_hosts(struct doctor *d, unsigned rail, double *up, double *down)
{
	const unsigned n = d->group.meeting.hosts, shift[] = {1, n - 1, 2};
	for (unsigned i = 0; i < sizeof shift / sizeof *shift && n > 1; i++) {
		bool known = (i == 1 && n == 2) || (i == 2 && n < 4);
		if (!known && !stream_on(d, rail, shift[i], up, down))
			return false;
	}
	return true;
}

/* By which of its networks this host reaches named switch `k`; 0: by the first one. */
static uint8_t rail_to(const struct doctor *d, unsigned k)
{
	const struct fan_meeting *m = &d->group.meeting;
	const unsigned by = fan_udp_interface_to(&d->named[k], NULL);
	for (unsigned j = 0; j < m->rails && by; j++)
		if (by == fan_udp_interface_to(&m->host[d->group.host].rail[j].at, NULL))
			return (uint8_t)(j + 1);
	return 0;
}

/* The rate of named switch `k`, whose link all hosts share. */
static bool measure_switch(struct doctor *d, unsigned k, double *up, double *down)
{
	const unsigned n = d->group.meeting.hosts;
	int32_t per_s[FAN_MEETING_HOSTS_MAX];
	assert(n > 0);
	const unsigned share = WINDOWS_ALL / n;
	if (!stream(d, &d->named[k], share < WINDOW_MIN ? WINDOW_MIN : share, 0, per_s))
		return false;
	for (unsigned h = 0; h < n; h++) {
		double rate = mbps(per_s[h], d->cfg.payload_bytes);
		d->net.switch_mbps[k] += rate;
		at_least(&up[h], rate);
		at_least(&down[h], rate);
		if (rate > 0)
			continue;
		char at[DOCTOR_ADDRESS_BYTES];
		struct doctor_finding *f = doctor_find(
			d, "links", DOCTOR_FAIL, "switch %s does not answer the host of rank %u",
			fan_peer_text(&d->named[k], at, sizeof at), d->group.meeting.host[h].first);
		doctor_advise(f, "on that host: fanin doctor --no-join --switch %s", at);
		d->silent_switch = true;
	}
	return true;
}

/* The rates of all hosts as text, "200, 200, 50", or the least and the most. */
static void list_hosts(const struct fan_forecast_net *n, const double *host_mbps, char *text,
		       size_t bytes)
{
	double least = host_mbps[0], most = least;
	struct fan_text t = fan_text_in(text, bytes);
	for (unsigned h = 1; h < n->hosts; h++) {
		least = host_mbps[h] < least ? host_mbps[h] : least;
		most = host_mbps[h] > most ? host_mbps[h] : most;
	}
	if (n->hosts > SHOWN_MAX)
		fan_text_add(&t, "%.0f to %.0f", least, most);
	for (unsigned h = 0; h < n->hosts && n->hosts <= SHOWN_MAX; h++)
		fan_text_add(&t, "%s%.0f", h ? ", " : "", host_mbps[h]);
}

static json_t *rates_json(const double *rate, unsigned count)
{
	json_t *all = json_array();
	for (unsigned i = 0; i < count; i++)
		json_array_append_new(all, json_real(rate[i]));
	return all;
}

static void report_links(struct doctor *d)
{
	struct fan_forecast_net *n = &d->net;
	char hosts[LIST_BYTES], rails[LIST_BYTES], switches[LIST_BYTES];
	char at[DOCTOR_ADDRESS_BYTES];
	struct fan_text r = fan_text_in(rails, sizeof rails);
	struct fan_text s = fan_text_in(switches, sizeof switches);
	json_t *of_rails = json_array(), *of_switches = json_array();
	list_hosts(n, n->host_mbps, hosts, sizeof hosts);
	for (unsigned j = 0; j < n->rails; j++) {
		char more[LIST_BYTES / 2];
		list_hosts(n, n->rail_mbps[j], more, sizeof more);
		fan_text_add(&r, "%s%s", j ? "; " : "; by further networks: ", more);
		json_array_append_new(of_rails, rates_json(n->rail_mbps[j], n->hosts));
	}
	for (unsigned k = 0; k < n->switches; k++) {
		bool wide = n->switch_mbps[k] >= FAN_FORECAST_WIDE;
		json_array_append_new(of_switches,
				      wide ? json_null() : json_real(n->switch_mbps[k]));
		fan_peer_text(&d->named[k], at, sizeof at);
		if (wide)
			fan_text_add(&s, "; switch %s as much as all hosts", at);
		else
			fan_text_add(&s, "; switch %s %.0f", at, n->switch_mbps[k]);
	}
	struct doctor_finding *f = doctor_find(
		d, "links", DOCTOR_OK,
		"Mb/s in the narrower direction, hosts in the order of their ranks: %s%s%s", hosts,
		rails, switches);
	doctor_value(f, "host_mbps", rates_json(n->host_mbps, n->hosts));
	doctor_value(f, "rail_mbps", of_rails);
	doctor_value(f, "switch_mbps", of_switches);
}

/* Agree with the other hosts on the idle network's round trip and on the path's MTU. */
static bool exchange_paths(struct doctor *d)
{
	const unsigned n = d->group.meeting.hosts;
	int32_t words[2 * FAN_MEETING_HOSTS_MAX] = {0};
	if (d->group.first) {
		words[d->group.host] = (int32_t)(d->rtt_ns / 1000);
		words[n + d->group.host] = d->path_mtu;
	}
	if (!doctor_group_add(d, words, 2 * n))
		return false;
	d->least_mtu = words[n];
	for (unsigned h = 0; h < n; h++) {
		at_least(&d->net.rtt_ns, words[h] * 1e3);
		d->least_mtu = words[n + h] < d->least_mtu ? words[n + h] : d->least_mtu;
	}
	return true;
}

/* Of one network.  An unmeasured direction does not count, and a host without a measured one gets
 * the usual rate.  False: no host has one. */
static bool narrower(double *mbps, unsigned hosts, const double *up, const double *down)
{
	struct fan_forecast_net known = {.hosts = 0};
	for (unsigned h = 0; h < hosts; h++) {
		bool narrow_up = down[h] <= 0 || (up[h] > 0 && up[h] < down[h]);
		mbps[h] = narrow_up ? up[h] : down[h];
		if (mbps[h] > 0)
			known.host_mbps[known.hosts++] = mbps[h];
	}
	for (unsigned h = 0; h < hosts && known.hosts; h++)
		if (mbps[h] <= 0)
			mbps[h] = fan_forecast_usual_mbps(&known);
	return known.hosts > 0;
}

/* A switch that takes what all hosts send there counts as wide as they are. */
static void widen(struct fan_forecast_net *n)
{
	for (unsigned k = 0; k < n->switches; k++) {
		const unsigned rail = n->switch_rail[k];
		double all = 0;
		for (unsigned h = 0; h < n->hosts; h++)
			all += rail ? n->rail_mbps[rail - 1][h] : n->host_mbps[h];
		if (n->switch_mbps[k] >= WIDE * all)
			n->switch_mbps[k] = FAN_FORECAST_WIDE;
	}
}

/* Without other ranks, the rates to the named switches and back. */
static void check_alone(struct doctor *d)
{
	char text[LIST_BYTES], at[DOCTOR_ADDRESS_BYTES];
	json_t *rates = json_array();
	struct fan_text t = fan_text_in(text, sizeof text);
	for (unsigned k = 0; k < d->named_count; k++) {
		const uint16_t bytes = fan_config_payload_bytes(d->mtu, 2);
		const double per_s = doctor_stream(&d->named[k], WINDOW, STREAM_NS, bytes, 0);
		fan_peer_text(&d->named[k], at, sizeof at);
		if (per_s <= 0) {
			struct doctor_finding *f = doctor_find(d, "links", DOCTOR_FAIL,
							       "switch %s does not answer", at);
			doctor_advise(f, "find out why: fanin doctor --switch %s", at);
		}
		double rate = mbps(per_s, bytes);
		fan_text_add(&t, "%s%s %.0f", k ? ", " : "", at, rate);
		json_array_append_new(rates, json_real(rate));
	}
	struct doctor_finding *f =
		doctor_find(d, "links", DOCTOR_OK, "Mb/s to the switch and back: %s", text);
	doctor_value(f, "switch_mbps", rates);
	if (!d->args.no_join)
		doctor_advise(f, "for a forecast, run it as every rank of the job: torchrun ... "
				 "--no-python fanin doctor");
}

void doctor_check_links(struct doctor *d)
{
	const struct fan_meeting *m = &d->group.meeting;
	struct fan_forecast_net *n = &d->net;
	double up[1 + FAN_MEETING_RAILS_MAX][FAN_MEETING_HOSTS_MAX] = {{0}};
	double down[1 + FAN_MEETING_RAILS_MAX][FAN_MEETING_HOSTS_MAX] = {{0}};
	if (!d->group.wanted && d->named_count && !d->no_path && d->mtu &&
	    fan_clock_ns() < d->deadline_ns)
		check_alone(d);
	if (!d->group.met || !exchange_paths(d))
		return;
	n->hosts = m->hosts;
	n->switches = d->named_count;
	for (unsigned h = 0; h < m->hosts; h++)
		n->ranks[h] = m->host[h].ranks;
	for (unsigned j = 0; j <= m->rails; j++)
		if (!measure_hosts(d, j, up[j], down[j]))
			return;
	for (unsigned k = 0; k < n->switches; k++) {
		n->switch_rail[k] = rail_to(d, k);
		if (!measure_switch(d, k, up[n->switch_rail[k]], down[n->switch_rail[k]]))
			return;
	}
	bool known = narrower(n->host_mbps, m->hosts, up[0], down[0]);
	n->rails = m->rails;
	for (unsigned j = 0; j < n->rails; j++)
		known &= narrower(n->rail_mbps[j], m->hosts, up[j + 1], down[j + 1]);
	widen(n);
	d->links_known = known && !d->silent_switch;
	if (d->links_known)
		report_links(d);
	else if (m->hosts > 1 && !d->silent_switch)
		doctor_find(d, "links", DOCTOR_SKIP, "no host answers another");
}
