/* SPDX-License-Identifier: Apache-2.0 */
/* doctor_sum.c - the proof: a job of two ranks, both in this process, that sums a tensor.
 *
 * It also shows whether multicast results arrive here, which the switch tests for each job. */
#include <fanin.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "doctor.h"
#include "lib/base/rendezvous.h"
#include "net/clock.h"

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

/* The rank whose error has the cause; NULL: none failed.  A rank that only waited for the other
 * does not know it. */
static const struct rank *find_bad(const struct rank *r)
{
	const bool waited = r[0].err == FANIN_E_TIMEOUT && r[1].err;

	if (r[0].err && !waited)
		return &r[0];
	return r[1].err ? &r[1] : r[0].err ? &r[0] : NULL;
}

static void print_sum(const struct rank *r, const char *job)
{
	const struct rank *bad = find_bad(r);

	doctor_line("sum", json_pack("{s:s, s:s, s:o, s:i, s:i, s:I, s:b}", "job", job, "cause",
				     bad ? fan_err_name(bad->err) : "", "why",
				     fan_json_text(bad ? bad->why : ""), "bytes",
				     (int)(COUNT * sizeof(float)), "wrong",
				     (int)(r[0].wrong + r[1].wrong), "retransmits",
				     (json_int_t)(r[0].stats.retransmits + r[1].stats.retransmits),
				     "multicast", r[0].stats.multicast && r[1].stats.multicast));
}

static void skip(const char *why)
{
	doctor_skip("sum", why);
	doctor_skip("multicast", why);
}

void doctor_check_sum(struct doctor *d)
{
	struct rank r[RANKS] = {{.err = 0}};
	char job[FAN_NAME_MAX + 1];

	if (d->group.wanted && d->group.met) /* the job of all ranks is the proof then */
		return;
	const char *why = doctor_no_path(d);
	if (!why && (d->args.no_join || !d->mtu))
		why = d->args.no_join ? "no-join" : "mtu";
	if (why) {
		skip(why);
		return;
	}
	/* a job of its own, of the tenant whose key the ranks have */
	char suffix[JOB_BYTES];
	snprintf(suffix, sizeof suffix, "#doctor-%08x", (unsigned)fan_clock_nonce());
	fan_rendezvous_derive(job, d->cfg.job, suffix);
	int left_ms = fan_clock_timeout_ms(d->deadline_ns, TIMEOUT_MS);
	set_options(d, r, job, left_ms < 100 ? 100 : left_ms);
	if (r[0].data && r[1].data && run(r))
		print_sum(r, job);
	else
		doctor_line("sum", json_object());
	for (unsigned i = 0; i < RANKS; i++)
		free(r[i].data);
}
