/* SPDX-License-Identifier: Apache-2.0 */
/* doctor_job.c - what all ranks measure together: the rates of streams, who sums, and how long
 * all-reduces take. */
#include <assert.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "doctor.h"
#include "lib/comm/comm.h"
#include "lib/host/attach.h"
#include "net/clock.h"

/* ---- streams between all hosts, and to the named switches ----
 *
 * All hosts stream at the same time: each to the next one, then to the one before, then to the one
 * after the next.  So each link is full in both directions, and each host sees its own link's rate
 * in at least one.  Then all stream to one switch after the other, which sends everything back. */

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

static void measure_links(struct doctor *d)
{
	if (!d->group.wanted && d->named_count && !d->no_path && d->mtu &&
	    fan_clock_ns() < d->deadline_ns)
		measure_alone(d);
	if (d->group.met)
		measure_together(d);
}

/* ---- who sums ---- */

#define SUFFIX	     "#proof"
#define WARM_ELEMS   1024
#define SAMPLE_BYTES (256 << 10)     /* of the first all-reduce */
#define PROOF_NS     (3000 * FAN_MS) /* time of the all-reduces */
#define PROOF_MIN    3
#define PROOF_MAX    25
#define WRONG	     1e-4 /* relative error of a sum, in fixed point */
#define JUMBO_MTU    9000

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

/* List for each host whether it sums, by the job's parts. */
static json_t *sums_json(struct doctor *d)
{
	const struct fan_meeting *m = &d->group.meeting;
	struct fanin_part p = {.size = sizeof p};
	bool sums[FAN_MEETING_HOSTS_MAX] = {m->hosts == 1 && !d->named_count};
	json_t *all = json_array();
	for (uint32_t k = 0; !fanin_comm_part(d->job, k, &p); k++)
		if (p.rank >= 0 && m->hosts > 1)
			sums[m->host_of[p.rank]] = true;
	for (unsigned h = 0; h < m->hosts; h++)
		json_array_append_new(all, json_boolean(sums[h]));
	return all;
}

/* Print the job's counters and parts. */
static void print_summing(struct doctor *d)
{
	const struct fan_meeting *m = &d->group.meeting;
	struct fanin_stats s = {.size = sizeof s};
	fanin_comm_stats(d->job, &s);
	const bool memory = s.host_ranks > 0;
	const unsigned payload = s.packet_bytes > FAN_HEAD_BYTES ? s.packet_bytes - FAN_HEAD_BYTES
								 : d->cfg.payload_bytes;
	const double window_bytes = (double)s.window_frags / (s.parts ? s.parts : 1) * payload *
				    (memory ? fan_host_columns(m, d->named_count > 0) : 1);
	const int streams = memory ? (int)m->hosts : d->cfg.ranks;
	doctor_line("summing", json_pack("{s:b, s:i, s:i, s:f, s:o}", "shares_memory", memory,
					 "payload", (int)payload, "jumbo_payload",
					 fan_config_payload_bytes(JUMBO_MTU, streams),
					 "window_bytes", window_bytes, "sums", sums_json(d)));
}

static void print_failure(const char *check, const char *cause, const char *why)
{
	doctor_line("failure", json_pack("{s:s, s:s, s:o}", "check", check, "cause", cause, "why",
					 fan_json_text(why)));
}

static void measure_summing(struct doctor *d)
{
	char why[FAN_FAULT_TEXT_BYTES] = "";
	if (!d->group.met)
		return;
	int e = open_job(d, why, sizeof why);
	if (e) {
		print_failure("summing", fan_err_name(e), why);
	} else if (!d->cfg.rank) { /* others may have no column, and so no parts */
		print_summing(d);
	}
}

/* ---- all-reduces ---- */

static float element(unsigned rank, size_t i)
{
	return (float)(i % 1000 + rank); /* sums are exact */
}

/* Run one all-reduce.  Returns its time; 0: it failed, which is a finding. */
static uint64_t reduce(struct doctor *d, float *data, size_t count, uint32_t *wrong)
{
	const unsigned ranks = (unsigned)d->cfg.ranks;
	for (size_t i = 0; i < count; i++)
		data[i] = element((unsigned)d->cfg.rank, i);
	uint64_t begin_ns = fan_clock_ns();
	if (fanin_allreduce(d->job, data, data, count, FANIN_FLOAT32, FANIN_SUM)) {
		print_failure("allreduce", "", fanin_comm_error(d->job));
		return 0;
	}
	uint64_t took_ns = fan_clock_ns() - begin_ns;
	for (size_t i = 0; i < count; i++) {
		double sum = (double)(i % 1000) * ranks + ranks * (ranks - 1) / 2.0;
		*wrong += fabs(data[i] - sum) > WRONG * sum;
	}
	return took_ns ? took_ns : 1;
}

/* Count the all-reduces of `each_ns` that the time left permits. */
static int32_t rounds(const struct doctor *d, double each_ns)
{
	uint64_t now_ns = fan_clock_ns();
	double left_ns = d->deadline_ns > now_ns ? (double)(d->deadline_ns - now_ns) : 0;
	double most = fmin(fmin(PROOF_NS, left_ns / 2) / each_ns, PROOF_MAX);
	if (most < PROOF_MIN)
		return 2 * PROOF_MIN * each_ns < left_ns ? PROOF_MIN : 0;
	return (int32_t)most;
}

static void print_proof(const struct doctor *d, const uint64_t *took_ns, unsigned count,
			int32_t wrong)
{
	struct fanin_part p = {.size = sizeof p};
	bool moving = !fanin_comm_part(d->job, 1, &p) && !p.settled;
	json_t *took = json_array();
	for (unsigned i = 0; i < count; i++)
		json_array_append_new(took, json_integer((json_int_t)took_ns[i]));
	doctor_line("allreduce", json_pack("{s:i, s:b, s:o}", "wrong", (int)wrong, "settled",
					   !moving, "took_ns", took));
}

/* Run `count` all-reduces of the whole tensor.  Returns the time of the fastest; 0: one failed. */
static uint64_t reduce_often(struct doctor *d, float *data, int32_t count, uint64_t *took_ns,
			     uint32_t *wrong)
{
	uint64_t least_ns = UINT64_MAX;
	for (int32_t i = 0; i < count; i++) {
		took_ns[i] = reduce(d, data, d->args.bytes / sizeof *data, wrong);
		least_ns = took_ns[i] < least_ns ? took_ns[i] : least_ns;
		if (!least_ns)
			break;
	}
	return least_ns;
}

/* Time all-reduces.  A part of the tensor shows whether there is time for PROOF_MIN, and these for
 * how many more.  All ranks do as many as rank 0. */
static void prove(struct doctor *d, float *data)
{
	const uint64_t sample = d->args.bytes < SAMPLE_BYTES ? d->args.bytes : SAMPLE_BYTES;
	uint64_t took_ns[PROOF_MAX];
	uint32_t wrong = 0;
	const uint64_t part_ns = reduce(d, data, sample / sizeof *data, &wrong);
	const double each_ns = (double)part_ns * (double)d->args.bytes / (double)sample;
	int32_t word = part_ns && !d->cfg.rank && rounds(d, each_ns) > 0;
	if (!part_ns || !doctor_group_add(d, &word, 1))
		return;
	if (!word) {
		doctor_skip("allreduce", "time");
		return;
	}
	const uint64_t least_ns = reduce_often(d, data, PROOF_MIN, took_ns, &wrong);
	word = least_ns && !d->cfg.rank ? rounds(d, (double)least_ns) - PROOF_MIN : 0;
	if (!least_ns || !doctor_group_add(d, &word, 1))
		return;
	const int32_t more = word < 0 ? 0 : word > PROOF_MAX - PROOF_MIN ? 0 : word;
	if (!reduce_often(d, data, more, took_ns + PROOF_MIN, &wrong))
		return;
	word = wrong < INT32_MAX / FAN_RANKS_MAX ? (int32_t)wrong : INT32_MAX / FAN_RANKS_MAX;
	if (doctor_group_add(d, &word, 1))
		print_proof(d, took_ns, (unsigned)(PROOF_MIN + more), word);
}

static void measure_allreduce(struct doctor *d)
{
	float *data = NULL;
	int32_t ready; /* ranks with a job and enough memory */
	if (!d->group.met)
		return;
	if (d->job)
		data = malloc(d->args.bytes);
	ready = data != NULL;
	if (doctor_group_add(d, &ready, 1)) {
		if (ready == d->cfg.ranks && data)
			prove(d, data);
		else
			doctor_line("unready",
				    json_pack("{s:i}", "ranks", (int)(d->cfg.ranks - ready)));
	}
	free(data);
}

void doctor_measure_together(struct doctor *d)
{
	measure_links(d);
	measure_summing(d);
	measure_allreduce(d);
}
