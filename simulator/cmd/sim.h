/* SPDX-License-Identifier: Apache-2.0 */
/* sim.h - `fanin sim`: scenarios in virtual time.
 *
 * sim.c           its flags and its output
 * sim_sweep.c     one run for each combination of values, several at a time
 * sim_variants.c  named settings from a file
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
#define SIM_JOBS_MAX   64   /* runs at a time */
#define SIM_WHY_BYTES  2048

struct sim_sweep_key {
	char *key; /* text of the argument, cut up in place */
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
	const char *plan;     /* file in place of the scenario's key "plan" */
	const char *variants; /* the file of named settings */
	json_t *variant;      /* the file's contents; NULL: there is none */
	const char *json, *report, *trace, *pcap, *chrome_trace;
	const char *pcap_node; /* the only node whose packets are captured; NULL: all */
	const char *beside;    /* a trace of real ranks with which chrome_trace begins */
	const char *layers;    /* print this model's table instead of running */
	const char *calibrate; /* print a scenario made from this trace of real ranks */
	bool quiet;
};

/* Run all that `a` asks for on the scenario `root`.  Returns the result as it is written, or NULL
 * with `why`.  `*wrong`: the input was at fault, and nothing has been run. */
json_t *sim_sweep(const struct sim_args *a, const json_t *root, bool *wrong, char *why);

/* Read a->variants into a->variant. 0, or -1 with `why`. */
int sim_variants_read(struct sim_args *a, char *why);

/* The name of variant `i`, which exists. */
const char *sim_variant_name(const struct sim_args *a, unsigned i);

/* Apply the settings of variant `i` to the scenario `root`. 0, or -1 with `why`. */
int sim_variant_apply(const struct sim_args *a, unsigned i, json_t *root, char *why);

/* A scenario that takes as long as the trace in `file`, or NULL with `why`. */
json_t *sim_calibrate(const char *file, char *why);

/* The JSON in `file`, or NULL with `why`. */
json_t *sim_load(const char *file, char *why);

#endif
