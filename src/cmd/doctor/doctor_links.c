/* SPDX-License-Identifier: Apache-2.0 */
/* doctor_links.c - the rates of streams between all hosts, and to the named switches.
 *
 * All hosts stream at the same time: each to the next one, then to the one before, then to the one
 * after the next.  So each link is full in both directions, and each host sees its own link's rate
 * in at least one.  Then all stream to one switch after the other, which sends everything back. */
#include <assert.h>
#include <string.h>

#include "doctor.h"
#include "doctor_echo.h"
#include "net/clock.h"

#define STREAM_NS    (200 * FAN_MS)
#define STREAM_TRIES 3
#define WINDOW	     64
#define WINDOWS_ALL  256 /* of all hosts together, at a switch */
#define WINDOW_MIN   8
#define HEADERS	     (FAN_HEAD_BYTES + 8 + 20 + 14) /* of a frame: UDP, IPv4, Ethernet */

static json_t *words_json(const int32_t *words, unsigned count)
{
	json_t *all = json_array();
	for (unsigned i = 0; i < count; i++)
		json_array_append_new(all, json_integer(words[i]));
	return all;
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

/* Add to `rails` the rates of streams between hosts by network `rail`. */
static bool measure_hosts(struct doctor *d, unsigned rail, json_t *rails)
{
	const struct fan_meeting *m = &d->group.meeting;
	const unsigned n = m->hosts, shift[] = {1, n - 1, 2};
	int32_t per_s[FAN_MEETING_HOSTS_MAX];
	json_t *all = json_array();
	json_array_append_new(rails, all);
	for (unsigned i = 0; i < sizeof shift / sizeof *shift && n > 1; i++) {
		const struct fan_meeting_host *to = &m->host[(d->group.host + shift[i]) % n];
		if ((i == 1 && n == 2) || (i == 2 && n < 4)) /* known */
			continue;
		if (!stream(d, rail ? &to->rail[rail - 1].at : &to->aggregator, WINDOW,
			    FAN_ECHO_MIN, per_s))
			return false;
		json_array_append_new(all, json_pack("{s:i, s:o}", "shift", (int)shift[i], "per_s",
						     words_json(per_s, n)));
	}
	return true;
}

/* By which of its networks this host reaches named switch `k`; 0: by the first one. */
static unsigned rail_to(const struct doctor *d, unsigned k)
{
	const struct fan_meeting *m = &d->group.meeting;
	const unsigned by = fan_udp_interface_to(&d->named[k], NULL);
	for (unsigned j = 0; j < m->rails && by; j++)
		if (by == fan_udp_interface_to(&m->host[d->group.host].rail[j].at, NULL))
			return j + 1;
	return 0;
}

/* Add the rates of streams to named switch `k`, whose link all hosts share. */
static bool measure_switch(struct doctor *d, unsigned k, json_t *switches)
{
	const unsigned n = d->group.meeting.hosts;
	int32_t per_s[FAN_MEETING_HOSTS_MAX];
	char at[DOCTOR_ADDRESS_BYTES];
	assert(n > 0);
	const unsigned share = WINDOWS_ALL / n;
	if (!stream(d, &d->named[k], share < WINDOW_MIN ? WINDOW_MIN : share, 0, per_s))
		return false;
	json_array_append_new(switches,
			      json_pack("{s:s, s:i, s:o}", "at",
					fan_peer_text(&d->named[k], at, sizeof at), "rail",
					(int)rail_to(d, k), "per_s", words_json(per_s, n)));
	return true;
}

/* Store the idle network's round trip in microseconds as each host knows it, then the MTU of each
 * one's path. */
static bool exchange_paths(struct doctor *d, int32_t *words)
{
	const unsigned n = d->group.meeting.hosts;
	memset(words, 0, 2 * n * sizeof *words);
	if (d->group.first) {
		words[d->group.host] = (int32_t)(d->rtt_ns / 1000);
		words[n + d->group.host] = d->path_mtu;
	}
	return doctor_group_add(d, words, 2 * n);
}

/* Measure, without other ranks, the rates to the named switches and back. */
static void measure_alone(struct doctor *d)
{
	const uint16_t bytes = fan_config_payload_bytes(d->mtu, 2);
	char at[DOCTOR_ADDRESS_BYTES];
	json_t *switches = json_array();
	for (unsigned k = 0; k < d->named_count; k++) {
		double per_s = 0; /* a busy switch may not run for as long as a stream takes */
		for (unsigned i = 0; i < STREAM_TRIES && per_s <= 0; i++)
			per_s = doctor_stream(&d->named[k], WINDOW, STREAM_NS, bytes, 0);
		json_array_append_new(switches,
				      json_pack("{s:s, s:f}", "at",
						fan_peer_text(&d->named[k], at, sizeof at), "per_s",
						per_s));
	}
	doctor_line("alone", json_pack("{s:i, s:i, s:o}", "payload", bytes, "headers", HEADERS,
				       "switches", switches));
}

static void measure_together(struct doctor *d)
{
	const struct fan_meeting *m = &d->group.meeting;
	int32_t words[2 * FAN_MEETING_HOSTS_MAX];
	json_t *hosts = json_array(), *rails = json_array(), *switches = json_array();
	bool whole = exchange_paths(d, words);
	for (unsigned h = 0; h < m->hosts; h++)
		json_array_append_new(hosts, json_pack("{s:i, s:i}", "first", m->host[h].first,
						       "ranks", m->host[h].ranks));
	for (unsigned j = 0; whole && j <= m->rails; j++)
		whole = measure_hosts(d, j, rails);
	for (unsigned k = 0; whole && k < d->named_count; k++)
		whole = measure_switch(d, k, switches);
	json_t *all = json_pack("{s:i, s:i, s:i, s:o, s:o, s:o, s:o, s:o}", "payload",
				d->cfg.payload_bytes, "answer", FAN_ECHO_MIN, "headers", HEADERS,
				"rtt_us", words_json(words, m->hosts), "mtu",
				words_json(words + m->hosts, m->hosts), "hosts", hosts, "rails",
				rails, "switches", switches);
	if (whole)
		doctor_line("links", all);
	else
		json_decref(all);
}

void doctor_measure_links(struct doctor *d)
{
	if (!d->group.wanted && d->named_count && !d->no_path && d->mtu &&
	    fan_clock_ns() < d->deadline_ns)
		measure_alone(d);
	if (d->group.met)
		measure_together(d);
}
