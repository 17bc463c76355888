/* SPDX-License-Identifier: Apache-2.0 */
/* path.h - candidate routes between two nodes: the shortest first, as different as can be. */
#ifndef FAN_PLAN_PATH_H
#define FAN_PLAN_PATH_H

#include "topo.h"

/* Arcs from one node to another; none if they are the same. */
struct fan_route {
	uint32_t hops;
	uint32_t arc[FAN_HOPS_MAX];
};

/* Memory for a search in one topology. */
struct fan_paths {
	const struct fan_topo *t;
	uint32_t *distance; /* to the target, by node */
	uint32_t *queue;
	uint8_t *on; /* is on the path that is tried */
	struct fan_route *found;
	uint32_t *used; /* by arc: chosen routes over it */
	uint32_t steps, found_max;
	uint32_t step;	 /* by which lengths of routes to it differ: 2 where no circle is odd */
	uint32_t target; /* that `distance` is to */
};

int fan_paths_open(struct fan_paths *p, const struct fan_topo *t);
void fan_paths_close(struct fan_paths *p);

/* Up to `max` <= FAN_PATHS_MAX simple routes over switches and links with free capacity,
 * shortest first; among many of one length those that share the fewest links.  How
 * many there are. */
uint32_t fan_paths_find(struct fan_paths *p, uint32_t from, uint32_t to, uint32_t max,
			struct fan_route *route);

#endif
