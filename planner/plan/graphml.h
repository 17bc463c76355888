/* SPDX-License-Identifier: Apache-2.0 */
/* graphml.h - a topology from GraphML, as the Topology Zoo and graph editors write it.
 *
 * Nodes become switches unless their attribute "kind" says worker or server; attributes of
 * nodes and edges by the names of topo_json.h count (gbps, background_gbps, delay_us),
 * and LinkSpeedRaw, in bit/s, for an edge without gbps.  A node's name is its attribute "name", or
 * else its id. */
#ifndef FAN_PLAN_GRAPHML_H
#define FAN_PLAN_GRAPHML_H

#include <jansson.h>

#include "topo.h"

/* Convert GraphML to JSON for fan_topo_from_json, which checks it: a new reference.  NULL: not XML,
 * or no GraphML, and `why` has line and cause. */
json_t *fan_graphml_to_json(const char *text, size_t bytes, struct fan_why *why);

/* Does it look like XML and not like JSON? */
bool fan_graphml_is(const char *text, size_t bytes);

#endif
