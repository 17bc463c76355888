/* SPDX-License-Identifier: Apache-2.0 */
/* sim.h - `fanin sim`: scenarios in virtual time.
 *
 * sim.c           flags, and what is written
 * sim_sweep.c     one run for each combination of values, several at a time
 * sim_variants.c  settings by name, from a file
 * sim_calibrate.c a scenario from a trace of real ranks */
#ifndef FAN_CMD_SIM_H
#define FAN_CMD_SIM_H

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

#define SIM_SETS_MAX   64
#define SIM_SWEEPS_MAX 4    /* keys */
#define SIM_VALUES_MAX 64   /* of a key; variants */
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
	const char *plan;     /* file that stands for the scenario's key */
	const char *variants; /* file: settings by name */
	json_t *variant;      /* what it holds; NULL: there is none */
	const char *json, *report, *trace, *pcap, *chrome_trace;
	const char *pcap_node; /* whose packets alone; NULL: all */
	const char *beside;    /* a trace of real ranks, for chrome_trace */
	const char *layers;    /* print this model's table instead */
	const char *calibrate; /* print a scenario made of this trace of real ranks instead */
	bool quiet;
};

/* Run all that `a` asks for on the scenario `root`: the result as it is written, or NULL
 * with `why`.  `*wrong`: it was the input's fault, and nothing has been run. */
json_t *sim_sweep(const struct sim_args *a, const json_t *root, bool *wrong, char *why);

/* Read a->variants into a->variant. 0, or -1 with `why`. */
int sim_variants_read(struct sim_args *a, char *why);

/* The name of variant `i`, which exists. */
const char *sim_variant_name(const struct sim_args *a, unsigned i);

/* Apply the settings of variant `i` to the scenario `root`. 0, or -1 with `why`. */
int sim_variant_apply(const struct sim_args *a, unsigned i, json_t *root, char *why);

/* A scenario that takes as long as what is in the trace `file`, or NULL with `why`. */
json_t *sim_calibrate(const char *file, char *why);

/* The JSON that is in `file`, or NULL with `why`. */
json_t *sim_load(const char *file, char *why);

#endif
