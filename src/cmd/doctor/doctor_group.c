/* SPDX-License-Identifier: Apache-2.0 */
#include <netinet/in.h>
#include <stdio.h>
#include <string.h>

#include "doctor.h"
#include "file/text.h"
#include "lib/comm/comm.h"
#include "net/clock.h"

#define SUFFIX	   "#doctor"
#define LIST_BYTES 160

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

/* "2 each", or "2, 1, 4". */
static void list_ranks(const struct fan_meeting *m, char *text, size_t bytes)
{
	bool alike = true;
	struct fan_text t = fan_text_in(text, bytes);
	for (unsigned h = 0; h < m->hosts; h++)
		alike &= m->host[h].ranks == m->host[0].ranks;
	if (alike)
		fan_text_add(&t, "%u each", m->host[0].ranks);
	for (unsigned h = 0; h < m->hosts && !alike; h++)
		fan_text_add(&t, "%s%u", h ? ", " : "", m->host[h].ranks);
}

/* ", and send by 10.1.0.1, 10.2.0.1 as well"; "": they have no further rails.  Returns `text`. */
static const char *list_rails(const struct fan_meeting_host *host, unsigned rails, char *text,
			      size_t bytes)
{
	char at[DOCTOR_ADDRESS_BYTES];
	struct fan_text t = fan_text_in(text, bytes);
	for (unsigned j = 0; j < rails; j++)
		fan_text_add(&t, "%s%s", j ? ", " : ", and also send by ",
			     fan_peer_text(&host->rail[j].at, at, sizeof at));
	return text;
}

static void report_hosts(struct doctor *d, const fan_peer *at)
{
	const struct fan_meeting *m = &d->group.meeting;
	char list[LIST_BYTES], place[DOCTOR_ADDRESS_BYTES];
	char rails[LIST_BYTES];
	const struct fan_meeting_host *silent = NULL;
	list_ranks(m, list, sizeof list);
	for (unsigned h = 0; h < m->hosts && m->hosts > 1 && !d->cfg.rank; h++) /* reported once */
		if (!m->host[h].aggregator.port && !silent)
			silent = &m->host[h];
	struct doctor_finding *f =
		doctor_find(d, "hosts", silent ? DOCTOR_WARN : DOCTOR_OK,
			    "%d ranks on %u host%s, %s; they met at %s%s", d->cfg.ranks, m->hosts,
			    m->hosts > 1 ? "s" : "", list, fan_peer_text(at, place, sizeof place),
			    list_rails(&m->host[d->group.host], m->rails, rails, sizeof rails));
	doctor_value(f, "hosts", json_integer(m->hosts));
	doctor_value(f, "rails", json_integer(1 + m->rails));
	doctor_value(f, "ranks", json_integer(d->cfg.ranks));
	if (silent)
		doctor_advise(
			f,
			"the host of rank %u does not answer all others, so it sums nothing: as "
			"root there, with the others' network: nft add rule inet "
			"filter input ip saddr 10.0.0.0/8 udp dport 1024-65535 accept",
			silent->first);
}

static void report_nobody(struct doctor *d, int error, const char *why)
{
	if (d->resolved && error == FAN_E_UNREACHABLE)
		why = "the switch does not answer";
	struct doctor_finding *f =
		doctor_find(d, "hosts", DOCTOR_FAIL, "the ranks did not meet: %s", why);
	if (!d->resolved)
		d->no_path = "the ranks did not meet";
	doctor_advise(
		f, "run it as every rank of the job, at the same time and with the same variables: "
		   "torchrun ... --no-python fanin doctor");
	doctor_advise(f, "to check this machine alone: fanin doctor --no-join");
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
	if (!g->wanted || d->no_path)
		return;
	int e = open_group(d, &at, why, sizeof why);
	d->deadline_ns = fan_clock_ns() + (uint64_t)d->args.timeout_s * 1000 * FAN_MS;
	if (e) {
		report_nobody(d, e, why);
		return;
	}
	g->host = g->meeting.host_of[d->cfg.rank];
	if (g->meeting.hosts == FAN_MEETING_HOSTS_MAX) {
		doctor_find(d, "hosts", DOCTOR_SKIP,
			    "%u hosts or more: their links are not measured",
			    FAN_MEETING_HOSTS_MAX);
		return;
	}
	g->met = true;
	g->first = g->meeting.host[g->host].first == d->cfg.rank;
	report_hosts(d, &at);
	if (d->resolved || g->meeting.hosts < 2)
		return;
	/* the path to check is the one to the next host */
	d->sw = g->meeting.host[(g->host + 1) % g->meeting.hosts].aggregator;
	d->resolved = d->sw.port != 0;
	d->inside = true;
	fan_peer_text(&d->sw, d->at, sizeof d->at);
}

void doctor_group_line(const struct doctor *d)
{
	doctor_line("meeting",
		    json_pack("{s:b, s:b}", "met", d->group.met, "first", d->group.first));
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
	struct doctor_finding *f =
		doctor_find(d, "hosts", DOCTOR_FAIL, "the ranks have lost each other: %s", why);
	doctor_advise(f, "read that rank's doctor, and check that its host is up");
	g->met = false;
	doctor_group_line(d);
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
