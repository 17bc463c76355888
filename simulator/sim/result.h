/* SPDX-License-Identifier: Apache-2.0 */
/* result.h - JSON helpers that result.c (jobs, links) and result_switch.c share. */
#ifndef FAN_SIM_RESULT_H
#define FAN_SIM_RESULT_H

#include <jansson.h>

#include "experiment.h"

#define FAN_NS_PER_S 1e9

static inline double fan_seconds(uint64_t ns)
{
	return (double)ns / FAN_NS_PER_S;
}

static inline void fan_put_text(json_t *o, const char *key, const char *text)
{
	json_object_set_new(o, key, text ? json_string(text) : json_null());
}

static inline void fan_put_count(json_t *o, const char *key, uint64_t n)
{
	json_object_set_new(o, key, json_integer((json_int_t)n));
}

static inline void fan_put_real(json_t *o, const char *key, double v)
{
	json_object_set_new(o, key, json_real(v));
}

/* The switches that sum, and the servers, which may be on a switch. */
json_t *fan_result_switches(const struct fan_experiment *e);
json_t *fan_result_servers(const struct fan_experiment *e);

#endif
