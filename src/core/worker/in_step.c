/* SPDX-License-Identifier: Apache-2.0 */
#include "in_step.h"

#include <assert.h>

static double at_least(double value, double least)
{
	return value > least ? value : least;
}

/* In fragments of the whole tensor. */
static double left_of(const struct fan_in_step_part *p)
{
	return p->share > 0 ? p->left / p->share : 0;
}

bool fan_in_step_bound(struct fan_in_step_part *part, unsigned parts, double frags)
{
	double most = 0;
	unsigned used = 0; /* parts with a share */
	bool ends = true;
	for (unsigned i = 0; i < parts; i++) {
		most = at_least(left_of(&part[i]), most);
		used += part[i].share > 0;
	}
	for (unsigned i = 0; i < parts; i++) {
		struct fan_in_step_part *p = &part[i];
		double ahead = (most - left_of(p)) * p->share;
		double step = at_least(frags * p->share, FAN_IN_STEP_LEAST);
		double window = at_least(p->window * p->share, FAN_IN_STEP_LEAST);
		double room = at_least(step - ahead, 0);
		if (used < 2) /* there is nothing to be in step with */
			room = window;
		p->allow = (uint32_t)(room < window ? room : window);
		ends &= p->left <= p->allow;
	}
	return ends;
}

uint32_t fan_in_step_block(uint32_t allow, uint32_t block, uint64_t done, uint32_t waiting)
{
	assert(block > 0);
	uint64_t end = done + allow + block / 2;
	end -= end % block;
	if (end > done)
		return (uint32_t)(end - done);
	return waiting ? 0 : block - (uint32_t)(done % block);
}
