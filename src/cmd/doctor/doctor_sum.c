/* SPDX-License-Identifier: Apache-2.0 */
/* doctor_sum.c - the proof: a job of two ranks, both in this process, that sums a tensor.
 *
 * It also shows whether multicast results arrive here, which the switch tests for each job. */
#include <fanin.h>
#include <ifaddrs.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "doctor.h"
#include "lib/base/rendezvous.h"
#include "net/clock.h"
#include "net/rails.h"

#define RANKS	   2
#define COUNT	   65536 /* float32 elements */
#define WINDOW	   16	 /* slots of the switch that the job takes */
#define TIMEOUT_MS 3000
#define JOB_BYTES  48
#define WHY_BYTES  256

struct rank {
	struct fanin_options o;
	float *data; /* COUNT */
	unsigned wrong;
	int err;
	char why[WHY_BYTES];
	struct fanin_stats stats;
};

static float element(unsigned rank, unsigned i)
{
	return (float)(i % 1000 + rank); /* sums are exact */
}

static void *be_rank(void *arg)
{
	struct rank *r = arg;
	fanin_comm *comm = NULL;

	for (unsigned i = 0; i < COUNT; i++)
		r->data[i] = element((unsigned)r->o.rank, i);
	r->err = fanin_comm_create(&r->o, &comm);
	if (!r->err)
		r->err = fanin_allreduce(comm, r->data, r->data, COUNT, FANIN_FLOAT32, FANIN_SUM);
	for (unsigned i = 0; i < COUNT && !r->err; i++)
		r->wrong += r->data[i] != element(0, i) + element(1, i);
	if (r->err)
		snprintf(r->why, sizeof r->why, "%s",
			 comm && *fanin_comm_error(comm) ? fanin_comm_error(comm)
							 : fanin_strerror(r->err));
	r->stats.size = sizeof r->stats;
	if (comm)
		fanin_comm_stats(comm, &r->stats);
	fanin_comm_destroy(comm);
	return NULL;
}

/* Run both ranks.  False: no thread could be started. */
static bool run(struct rank *r)
{
	pthread_t other;

	if (pthread_create(&other, NULL, be_rank, &r[1]))
		return false;
	be_rank(&r[0]);
	pthread_join(other, NULL);
	return true;
}

static void set_options(const struct doctor *d, struct rank *r, const char *job, int left_ms)
{
	const struct fanin_options init = FANIN_OPTIONS_INIT;

	for (int i = 0; i < RANKS; i++) {
		r[i].data = malloc(COUNT * sizeof(float));
		r[i].o = init;
		r[i].o.switch_addr = d->at;
		r[i].o.job = job;
		r[i].o.rank = i;
		r[i].o.ranks = RANKS;
		r[i].o.mtu = d->mtu;
		r[i].o.window = WINDOW;
		r[i].o.timeout_ms = left_ms < TIMEOUT_MS ? left_ms : TIMEOUT_MS;
		r[i].o.mode = FANIN_MODE_NATIVE;
		r[i].o.wire = FANIN_FLOAT32;
	}
}

/* Is the switch in an interface's own network, without a router in between? */
static bool is_near(const struct doctor *d)
{
	struct ifaddrs *list = NULL;
	bool near = false;

	if (getifaddrs(&list))
		return true; /* not known: give no advice about routers */
	for (const struct ifaddrs *i = list; i && !near; i = i->ifa_next) {
		const fan_peer here = fan_peer_of_interface(i);
		near = !fan_peer_is_none(&here) &&
		       fan_rails_are_near(&here, &d->sw, fan_rails_prefix(i));
	}
	freeifaddrs(list);
	return near;
}

/* The switch offers a group, but none of its packets arrived here. */
static void advise_silent(const struct doctor *d, struct doctor_finding *f)
{
	const char *dev = d->device[0] ? d->device : "DEVICE";
	bool v4 = d->who.group_family == 4;

	if (!is_near(d))
		doctor_advise(
			f,
			"the switch is behind a router, which passes multicast only if configured "
			"to: run a switch in this machine's network");
	doctor_advise(
		f, "as root, here and on the switch's interface: ip link set dev %s multicast on",
		dev);
	doctor_advise(
		f, "let this machine's firewall pass multicast: nft add rule inet filter input %s",
		v4 ? "ip daddr 239.0.0.0/8 accept" : "ip6 daddr ff00::/8 accept");
	doctor_advise(
		f, "where a bridge snoops IGMP or MLD without a querier, as root: ip link set dev "
		   "BRIDGE type bridge mcast_querier 1");
}

static void report_multicast(struct doctor *d, const struct rank *r)
{
	bool both = r[0].stats.multicast && r[1].stats.multicast, offered = d->who.group_family;
	const char *found = "results arrive by multicast: once over the link for all ranks";

	if (!d->cfg.multicast) {
		doctor_find(
			d, "multicast", DOCTOR_OK,
			"not used, by FANIN_MULTICAST=0: each rank gets its own copy of results");
		return;
	}
	if (!both)
		found = offered ? "the switch offers a group, but its packets did not arrive: each "
				  "rank gets its own copy of results"
				: "the switch offers no group: each rank gets its own copy of "
				  "results";
	struct doctor_finding *f =
		doctor_find(d, "multicast", both ? DOCTOR_OK : DOCTOR_WARN, "%s", found);
	doctor_value(f, "offered", json_boolean(offered));
	doctor_value(f, "heard", json_boolean(both));
	if (!both && offered)
		advise_silent(d, f);
	else if (!both)
		doctor_advise(f, "start the switch without --no-multicast, on the address of an "
				 "interface that has it: ip link set dev DEVICE multicast on; "
				 "shared slots have no group");
}

/* The rank whose error has the cause; NULL: none failed.  A rank that only waited for the other
 * does not know it. */
static const struct rank *find_bad(const struct rank *r)
{
	const bool waited = r[0].err == FANIN_E_TIMEOUT && r[1].err;

	if (r[0].err && !waited)
		return &r[0];
	return r[1].err ? &r[1] : r[0].err ? &r[0] : NULL;
}

static void report_sum(struct doctor *d, const struct rank *r, const char *job)
{
	const struct rank *bad = find_bad(r);
	unsigned wrong = r[0].wrong + r[1].wrong;
	struct doctor_finding *f;

	if (bad) {
		f = doctor_find(d, "sum", DOCTOR_FAIL, "a job of 2 ranks did not work: %s",
				bad->why);
		doctor_value(f, "cause", json_string(fan_err_name(bad->err)));
		doctor_advise(f, "read the switch's log, and: fanin top --once --switch %s", d->at);
		return;
	}
	f = doctor_find(
		d, "sum", wrong ? DOCTOR_FAIL : DOCTOR_OK,
		"job %s of 2 ranks: %u KiB summed, %u elements wrong, %llu fragments sent again",
		job, (unsigned)(COUNT * sizeof(float) / 1024), wrong,
		(unsigned long long)(r[0].stats.retransmits + r[1].stats.retransmits));
	doctor_value(f, "wrong", json_integer(wrong));
	if (wrong)
		doctor_advise(
			f,
			"a node on the path changes packets: seal the job (FANIN_KEY_FILE on all ranks), "
			"and report it to the authors");
	report_multicast(d, r);
}

void doctor_check_sum(struct doctor *d)
{
	struct rank r[RANKS] = {{.err = 0}};
	char job[FAN_NAME_MAX + 1];

	if (d->group.wanted && d->group.met) /* the job of all ranks is the proof then */
		return;
	if (doctor_skips(d, "sum")) {
		doctor_find(d, "multicast", DOCTOR_SKIP, "%s", d->finding[d->count - 1].found);
		return;
	}
	if (d->args.no_join || !d->mtu) {
		const char *why = d->args.no_join ? "--no-join forbids a job" : "no MTU works";
		doctor_find(d, "sum", DOCTOR_SKIP, "%s", why);
		doctor_find(d, "multicast", DOCTOR_SKIP, "%s", why);
		return;
	}
	/* a job of its own, of the tenant whose key the ranks have */
	char suffix[JOB_BYTES];
	snprintf(suffix, sizeof suffix, "#doctor-%08x", (unsigned)fan_clock_nonce());
	fan_rendezvous_derive(job, d->cfg.job, suffix);
	int left_ms = fan_clock_timeout_ms(d->deadline_ns, TIMEOUT_MS);
	set_options(d, r, job, left_ms < 100 ? 100 : left_ms);
	bool ran = r[0].data && r[1].data && run(r);
	if (ran)
		report_sum(d, r, job);
	else
		doctor_find(d, "sum", DOCTOR_FAIL, "no memory or no thread for two ranks");
	for (unsigned i = 0; i < RANKS; i++)
		free(r[i].data);
}
