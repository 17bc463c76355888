/* SPDX-License-Identifier: Apache-2.0 */
/* share.h - weights of jobs, by name: a job of weight w may hold w times the quota of slots.
 *
 * Jobs that are not in the table have weight 1.  The table belongs to the caller and must
 * outlive its users. */
#ifndef FAN_BASE_SHARE_H
#define FAN_BASE_SHARE_H

#include <assert.h>
#include <stdint.h>
#include <string.h>

#include "limits.h"

struct fan_share {
	char name[FAN_NAME_MAX + 1]; /* of the job, padded with zeros */
	uint16_t weight;	     /* 1 .. FAN_WEIGHT_MAX */
};

struct fan_shares {
	const struct fan_share *share; /* `count` entries */
	uint16_t count;		       /* at most FAN_SHARES_MAX */
};

/* The weight of job `name`, padded with zeros; 1 if the table does not have it. */
static inline uint16_t fan_shares_weight(const struct fan_shares *s, const char *name)
{
	assert(s->count <= FAN_SHARES_MAX);
	for (uint16_t i = 0; i < s->count; i++)
		if (memcmp(s->share[i].name, name, FAN_NAME_MAX + 1) == 0)
			return s->share[i].weight;
	return 1;
}

#endif
