/* SPDX-License-Identifier: Apache-2.0 */
/* sim.h - `fanin sim`: scenarios in virtual time.
 *
 * sim.c        flags, and what is written
 * sim_sweep.c  one run for each combination of values, several at a time */
#ifndef FAN_CMD_SIM_SIM_H
#define FAN_CMD_SIM_SIM_H

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

#define SIM_SETS_MAX   64
#define SIM_SWEEPS_MAX 4    /* keys */
#define SIM_VALUES_MAX 64   /* of a key */
#define SIM_POINTS_MAX 1024 /* combinations */
#define SIM_JOBS_MAX   64   /* at a time */
#define SIM_WHY_BYTES  2048

struct sim_sweep_key {
	char *key; /* text of the argument, cut up */
	char *value[SIM_VALUES_MAX];
	unsigned values;
};

struct sim_args {
	const char *file;
	char *set[SIM_SETS_MAX]; /* key=value */
	unsigned sets;
	struct sim_sweep_key sweep[SIM_SWEEPS_MAX];
	unsigned sweeps;
	const char *seed;
	unsigned jobs;
	const char *plan; /* file that stands for the scenario's key */
	const char *json, *report, *trace, *pcap;
	const char *layers; /* print this model's table instead */
	bool quiet;
};

/* Run all that `a` asks for on the scenario `root`: the result as it is written, or NULL
 * with `why`.  `*wrong`: it was the input's fault, and nothing has been run. */
json_t *sim_sweep(const struct sim_args *a, const json_t *root, bool *wrong, char *why);

#endif
