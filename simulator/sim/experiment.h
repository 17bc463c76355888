/* SPDX-License-Identifier: Apache-2.0 */
/* experiment.h - a scenario, run: the world that it describes, and what came of it. */
#ifndef FAN_SIM_EXPERIMENT_H
#define FAN_SIM_EXPERIMENT_H

#include "daemon.h"
#include "scenario.h"
#include "standing.h"
#include "trainer.h"

struct fan_experiment;

/* ---- observer.c: looks at ranks that run ahead of each other: how far each is behind the furthest
 * of its job, and who keeps sums for whom ---- */

struct fan_observer {
	struct fan_experiment *experiment;
	uint64_t next_ns, interval_ns;
	uint32_t actor;
};

/* After the last job; does nothing if none has "ahead".  False: out of memory. */
bool fan_observer_begin(struct fan_observer *o, struct fan_experiment *e, uint64_t interval_ns);

/* ---- traffic.c: background traffic: packets that take room on links and are thrown away ---- */

struct fan_traffic {
	struct fan_sim *sim;
	uint32_t source, sink; /* actors */
	uint64_t gap_ps, next_ps, stop_ns;
	uint32_t jitter; /* millionths of the gap */
	uint16_t packet_bytes;
	struct fan_rng rng;
	uint64_t sent, arrived; /* packets */
};

struct fan_traffic_config {
	uint32_t from, to; /* nodes */
	uint64_t bps, start_ns, stop_ns;
	uint16_t packet_bytes;
	uint32_t jitter;
};

/* False: out of memory. */
bool fan_traffic_init(struct fan_traffic *t, struct fan_sim *s, const struct fan_traffic_config *c,
		      struct fan_rng rng);

/* ---- tcp.c: flows that compete for links as TCP's do ---- */

#define FAN_TCP_WINDOW_MAX UINT64_C(8192) /* segments */

struct fan_tcp_sent;
struct fan_tcp_arrival;

struct fan_tcp {
	struct fan_sim *sim;
	const struct fan_scenario_tcp *cfg;
	uint32_t source, sink; /* actors */
	bool begun, over;
	bool awaited; /* the run lasts for it */
	/* The sender: transmissions are numbered from 0 on. */
	struct fan_tcp_sent *sent; /* the last of them, by number */
	uint64_t first, next;	   /* the oldest that is neither told of nor lost; the next one */
	uint64_t flying;	   /* how many are neither */
	uint64_t owed, fresh;	   /* segments to send: again, and the first time */
	uint64_t done;		   /* segments that are there */
	uint64_t told;		   /* arrivals that it knows of */
	uint64_t srtt_ns, rttvar_ns, rto_at_ns, resume_ns, end_ns;
	unsigned backoff;
	/* Its window, in 1/65536 of a segment. */
	uint64_t window, threshold;
	uint64_t recover; /* it is not cut for what was sent before this one */
	bool limited;	  /* it, not the sender's own link, is what sending waited for last */
	uint64_t w_max, w_est, w_prior, k_us, epoch_ns; /* CUBIC's; epoch 0: none */
	uint32_t alpha;					/* DCTCP's, of 1 << 20 */
	uint64_t seen, seen_marked, seen_end;		/* of the window that it looks at */
	uint64_t alpha_sum, alphas;
	uint64_t round_end, round_min_ns, last_min_ns, css_base_ns; /* HyStart++ */
	unsigned samples, css;
	/* The receiver. */
	struct fan_tcp_arrival *arrival; /* the last ones, in their order */
	uint64_t arrivals, await, ack_at_ns;
	unsigned untold;
	struct {
		uint64_t sent, resent, timeouts, cuts, marked;
	} stats;
};

/* A flow as `c`, which stays, says.  False: out of memory. */
bool fan_tcp_init(struct fan_tcp *t, struct fan_sim *s, const struct fan_scenario_tcp *c);
void fan_tcp_free(struct fan_tcp *t);

/* What came of it, as doc/sim.md describes. */
json_t *fan_tcp_result(const struct fan_tcp *t);

/* ---- weather.c: hosts whose links are slow for a while: the "slow" of jobs, as far as it is about
 * sending.  A host sends at the lowest speed of all its workers ---- */

struct fan_weather {
	struct fan_sim *sim;
	const struct fan_job_config **job;
	uint32_t jobs; /* that have such causes; 0: there is nothing to do */
	uint32_t actor;
	uint64_t next_ns; /* when something changes */
	uint32_t *speed;  /* by node, millionths of what its links have */
	uint64_t *bps;	  /* what they have, by link */
};

/* Room for `jobs`; after the last link.  False: out of memory. */
bool fan_weather_init(struct fan_weather *w, struct fan_sim *s, uint32_t jobs);
void fan_weather_free(struct fan_weather *w);

/* The hosts of `c`, which stays, are slow as it says. */
void fan_weather_add(struct fan_weather *w, const struct fan_job_config *c);

/* After the last job.  False: out of memory. */
bool fan_weather_begin(struct fan_weather *w);

/* A link changes its rate: of a host that is slow now, by as much as that says. */
void fan_weather_set_rate(struct fan_weather *w, uint32_t link, uint64_t bps);

/* ---- flow.c: a scenario by flows in place of packets, for networks of thousands of hosts ----
 *
 * A job reduces bucket after bucket, at one rate on all links that its gradients pass: sums are
 * passed on as they come.  Rates are max-min fair: those of all jobs grow together until a link is
 * full or a window limits them, and what is left goes to the others.  A bucket takes its bytes by
 * the rate, and the latency of the longest path there and back.  Nothing is lost, and slots
 * suffice. */

/* Does the scenario ask for nothing that flows do not have?  0, or -1 with r->why. */
int fan_flow_check(const struct fan_scenario *s, struct fan_reader *r);

/* What came of it, by the keys of fan_experiment_result; NULL: out of memory. */
json_t *fan_flow_run(const struct fan_scenario *s);

/* ---- the experiment ---- */

/* Applies the scenario's changes when they are due. */
struct fan_conductor {
	struct fan_sim *sim;
	const struct fan_scenario *scenario;
	struct fan_sim_daemon **daemon; /* by node */
	struct fan_weather *weather;
	uint32_t *order; /* of the changes, by time */
	uint32_t next, actor;
};

struct fan_experiment_job {
	struct fan_job_config cfg; /* the scenario's, with the aggregator's address */
	struct fan_trainer_shared shared;
	struct fan_trainer *trainer;	/* by rank */
	struct fan_standings standings; /* no ranks: they do not run ahead of each other */
};

struct fan_experiment {
	const struct fan_scenario *scenario;
	struct fan_sim sim;
	struct fan_sim_daemon **daemon; /* by node; NULL: nobody sums there */
	struct fan_experiment_job *job;
	struct fan_tensor *tensor; /* `tensors` of them */
	uint32_t tensors;
	struct fan_traffic *traffic;
	struct fan_tcp *tcp;
	struct fan_weather weather;
	struct fan_observer observer;
	struct fan_conductor conductor;
	bool timed_out;
};

/* How far a run is; returns false to end it.  `done` of `all` iterations. */
struct fan_progress {
	bool (*tell)(void *arg, uint64_t now_ns, uint64_t done, uint64_t all);
	void *arg;
};

/* Set everything up.  False: out of memory.  The scenario stays. */
bool fan_experiment_begin(struct fan_experiment *e, const struct fan_scenario *s);

/* Until all jobs have ended or the limit is reached.  False: out of memory, or told to
 * end. */
bool fan_experiment_run(struct fan_experiment *e, const struct fan_progress *progress);

/* What came of it, as doc/sim.md describes; NULL: out of memory. */
json_t *fan_experiment_result(const struct fan_experiment *e);

void fan_experiment_end(struct fan_experiment *e);

/* Name of an actor for people: "vgg.3" for rank 3 of job vgg, "s0" for a switch. */
void fan_experiment_actor_name(const struct fan_experiment *e, uint32_t actor, char *name,
			       size_t bytes);

#endif
