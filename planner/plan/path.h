/* SPDX-License-Identifier: Apache-2.0 */
/* next_hop.h - candidate routes between two nodes: the shortest first, with few links in common. */
#ifndef FAN_PLAN_PATH_H
#define FAN_PLAN_PATH_H

#include "topo.h"

/* A route: the arcs from one node to another; none if both are the same. */
struct fan_route {
	uint32_t hops;
	uint32_t arc[FAN_HOPS_MAX];
};

/* Memory for a search in one topology. */
struct fan_paths {
	const struct fan_topo *t;
	uint32_t *distance; /* by node: links to the target */
	uint32_t *queue;
	uint8_t *on; /* by node: it is on the path being tried */
	struct fan_route *found;
	uint32_t *used; /* by arc: how many chosen routes use it */
	uint32_t steps, found_max;
	uint32_t step;	 /* step between lengths of routes: 2 if no cycle is odd, else 1 */
	uint32_t target; /* the node whose distances are in `distance` */
};

int fan_paths_open(struct fan_paths *p, const struct fan_topo *t);
void fan_paths_close(struct fan_paths *p);

/* Find up to `max` <= FAN_PATHS_MAX simple routes over switches and links with free capacity, the
 * shortest first; of one length, those that share the fewest links.  Returns their number. */
uint32_t fan_paths_find(struct fan_paths *p, uint32_t from, uint32_t to, uint32_t max,
			struct fan_route *route);

#endif
