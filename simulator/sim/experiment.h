/* SPDX-License-Identifier: Apache-2.0 */
/* experiment.h - a run of a scenario: the world that it describes, and the results. */
#ifndef FAN_SIM_EXPERIMENT_H
#define FAN_SIM_EXPERIMENT_H

#include "core/switch/switch.h"
#include "daemon.h"
#include "scenario.h"
#include "trainer.h"

struct fan_experiment;
/* ---- observer.c: lags of ranks that run ahead of each other, and who keeps sums for whom ----
 *
 * Each rank's lag and what it keeps, over time in bounded memory. */

#define FAN_STANDING_MAX 128 /* samples: when there are more, each pair becomes one */

/* Of one rank at one time; in a sample, the sums over its looks. */
struct fan_standing_at {
	uint64_t behind; /* its lag, in fragments */
	uint64_t kept;	 /* sums in its helper cache */
};

/* What a switch has counted, as in struct fan_sa_atp, by rank. */
struct fan_standing_loans {
	uint32_t *lent, *deferred;
	uint32_t *kept; /* by helper and helped rank: helper x ranks + helped */
};

struct fan_standings {
	uint32_t ranks;
	/* Sample i covers the time from start_ns + i x interval_ns on. */
	uint64_t start_ns, interval_ns;
	uint32_t count;
	uint32_t weight[FAN_STANDING_MAX]; /* looks in each; 0: none */
	struct fan_standing_at *sum;	/* by rank and sample: rank x FAN_STANDING_MAX + sample */
	struct fan_standing_loans all;	/* in all lives of the switch */
	struct fan_standing_loans past; /* in its lives before the present one */
	uint64_t life[2];		/* the present one */
};

void fan_standings_free(struct fan_standings *s);

struct fan_observer {
	struct fan_experiment *experiment;
	uint64_t next_ns, interval_ns;
	uint32_t actor;
};

/* Begin, after the last job; does nothing if no job has "ahead".  False: out of memory. */
bool fan_observer_begin(struct fan_observer *o, struct fan_experiment *e, uint64_t interval_ns);

/* ---- traffic.c: background traffic: packets that fill links and are dropped at the end ---- */

struct fan_traffic {
	struct fan_sim *sim;
	uint32_t source, sink; /* actors */
	uint64_t gap_ps, next_ps, stop_ns;
	uint32_t jitter; /* millionths of the gap */
	uint16_t packet_bytes;
	struct fan_rng rng;
	uint64_t sent, arrived; /* packets */
};

/* Begin the traffic that `c` describes.  False: out of memory. */
bool fan_traffic_init(struct fan_traffic *t, struct fan_sim *s, const struct fan_scenario_flow *c,
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
	bool awaited; /* the run waits for it */
	/* The sender; transmissions are numbered from 0. */
	struct fan_tcp_sent *sent; /* the latest ones, by number */
	uint64_t first, next;	   /* the oldest neither acknowledged nor lost; the next one */
	uint64_t flying;	   /* how many are neither acknowledged nor lost */
	uint64_t owed, fresh;	   /* segments to send again, and for the first time */
	uint64_t done;		   /* segments that have arrived */
	uint64_t told;		   /* arrivals that have been acknowledged */
	uint64_t srtt_ns, rttvar_ns, rto_at_ns, resume_ns, end_ns;
	unsigned backoff;
	/* Its window, in units of 1/65536 segment. */
	uint64_t window, threshold;
	uint64_t recover; /* not cut for transmissions with lower numbers */
	bool limited;	  /* sending last waited for it, not for the sender's own link */
	uint64_t w_max, w_est, w_prior, k_us, epoch_ns; /* of CUBIC; epoch 0: none */
	uint32_t alpha;					/* of DCTCP, in units of 1 / 2^20 */
	uint64_t seen, seen_marked, seen_end;		/* of the window that is observed */
	uint64_t alpha_sum, alphas;
	uint64_t round_end, round_min_ns, last_min_ns, css_base_ns; /* HyStart++ */
	unsigned samples, css;
	/* The receiver. */
	struct fan_tcp_arrival *arrival; /* the latest ones, in order */
	uint64_t arrivals, await, ack_at_ns;
	unsigned untold;
	struct {
		uint64_t sent, resent, timeouts, cuts, marked;
	} stats;
};

/* Begin a flow as `c` describes, which must stay.  False: out of memory. */
bool fan_tcp_init(struct fan_tcp *t, struct fan_sim *s, const struct fan_scenario_tcp *c);
void fan_tcp_free(struct fan_tcp *t);

/* The flow's results, as doc/sim.md describes them. */
json_t *fan_tcp_result(const struct fan_tcp *t);

/* Hosts that send slowly for a while, by the "slow" of jobs.  A host sends at the lowest speed of
 * all its workers. */
struct fan_weather {
	struct fan_sim *sim;
	const struct fan_job_config **job;
	uint32_t jobs; /* that have slow hosts; 0: there is nothing to do */
	uint32_t actor;
	uint64_t next_ns; /* when a speed changes next */
	uint32_t *speed;  /* by node: millionths of its links' rates */
	uint64_t *bps;	  /* by link: its rate at full speed */
};

/* ---- the experiment ---- */

/* Applies the scenario's changes when they are due. */
struct fan_conductor {
	struct fan_sim *sim;
	const struct fan_scenario *scenario;
	struct fan_sim_daemon **daemon; /* by node */
	struct fan_weather *weather;
	uint32_t *order; /* numbers of the changes, by time */
	uint32_t next, actor;
};

struct fan_experiment_job {
	struct fan_job_config cfg; /* the scenario's, with the aggregator's actor */
	struct fan_trainer_shared shared;
	struct fan_trainer *trainer;	/* by rank */
	struct fan_standings standings; /* without ranks: they do not run ahead of each other */
};

struct fan_experiment {
	const struct fan_scenario *scenario;
	struct fan_sim sim;
	struct fan_sim_daemon **daemon; /* by node; NULL: nothing sums there */
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

/* Tells how far a run is: `done` of `all` iterations.  Returns false to end it. */
struct fan_experiment_progress {
	bool (*tell)(void *arg, uint64_t now_ns, uint64_t done, uint64_t all);
	void *arg;
};

/* Set everything up for `s`, which must stay.  False: out of memory. */
bool fan_experiment_begin(struct fan_experiment *e, const struct fan_scenario *s);

/* Run until all jobs have ended or the limit is reached.  False: out of memory, or told to end. */
bool fan_experiment_run(struct fan_experiment *e, const struct fan_experiment_progress *progress);

/* The results, as doc/sim.md describes them; NULL: out of memory. */
json_t *fan_experiment_result(const struct fan_experiment *e);

void fan_experiment_end(struct fan_experiment *e);

#endif
