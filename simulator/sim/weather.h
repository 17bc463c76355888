/* SPDX-License-Identifier: Apache-2.0 */
/* weather.h - hosts whose links are slow for a while: the "slow" of jobs, as far as it is
 * about sending.  A host sends at the lowest speed of all its workers. */
#ifndef FAN_SIM_WEATHER_H
#define FAN_SIM_WEATHER_H

#include "job.h"
#include "world.h"

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

#endif
