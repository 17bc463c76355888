/* SPDX-License-Identifier: Apache-2.0 */
#include <netinet/in.h>
#include <stdio.h>

#include "doctor.h"
#include "lib/comm/comm.h"
#include "net/clock.h"

#define SUFFIX "#doctor"

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
	doctor_line("meeting",
		    json_pack("{s:b, s:b, s:b, s:o, s:s, s:o, s:o, s:i}", "met", d->group.met,
			      "first", d->group.first, "silent_switch",
			      d->resolved && error == FAN_E_UNREACHABLE, "error", doctor_text(why),
			      "at", at ? fan_peer_text(at, place, sizeof place) : "", "ranks",
			      ranks, "rails", rails, "silent", silent));
}

void doctor_group_init(struct doctor *d)
{
	d->group.wanted = d->cfg.rank >= 0 && d->cfg.ranks > 1 && d->cfg.rank < d->cfg.ranks &&
			  !d->args.no_join && !*d->cfg.controller_addr;
	if (d->args.mtu)
		d->cfg.mtu = d->args.mtu;
	d->cfg.payload_bytes =
		fan_config_payload_bytes(d->cfg.mtu, d->cfg.ranks > 1 ? d->cfg.ranks : 2);
}

void doctor_group_meet(struct doctor *d)
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
	doctor_line("lost", json_pack("{s:o}", "why", doctor_text(why)));
	return false;
}

void doctor_group_leave(struct doctor *d)
{
	int32_t here = 1;
	if (d->group.met)
		doctor_group_add(d, &here, 1);
	fan_comm_destroy(d->group.comm);
	fan_embedded_switch_put(d->group.sw, d->cfg.alive_ms);
}
