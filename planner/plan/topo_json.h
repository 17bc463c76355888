/* SPDX-License-Identifier: Apache-2.0 */
/* topo_json.h - the one JSON form of a network and jobs.
 *
 *     {"nodes": [{"name", "kind": "worker" | "switch" | "server", "gbps", "background_gbps"}],
 *      "links": [{"a", "b", "gbps", "background_gbps"}],
 *      "jobs":  [{"name", "workers": [NAME], "servers": [NAME], "weight", "demand_gbps",
 *                 "group": [NUMBER, OF HOW MANY], "spares": [NAME]}]}
 *
 * "gbps" of a node is what a switch can sum (without it, the switch only forwards), what a server
 * takes in, and what a worker sends (without it, as much as their links carry).  There is at most
 * one link between two nodes.  python/fanin/research/formats writes this form from what people
 * write; other keys are ignored. */
#ifndef FAN_PLAN_TOPO_JSON_H
#define FAN_PLAN_TOPO_JSON_H

#include <jansson.h>

#include "topo.h"

/* Read and seal a topology.  On error `*t` is empty, and `why` has JSON path and cause.
 *
 * FAN_E_CONFIG  it is not as described above, or inconsistent
 * FAN_E_NOMEM */
int fan_topo_from_json(struct fan_topo *t, const json_t *root, struct fan_why *why);

#endif
