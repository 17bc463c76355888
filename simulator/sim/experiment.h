/* SPDX-License-Identifier: Apache-2.0 */
/* experiment.h - a scenario, run: the world that it describes, and what came of it. */
#ifndef FAN_SIM_EXPERIMENT_H
#define FAN_SIM_EXPERIMENT_H

#include "daemon.h"
#include "observer.h"
#include "scenario.h"
#include "standing.h"
#include "traffic.h"
#include "trainer.h"
#include "weather.h"

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
