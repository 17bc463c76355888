/* SPDX-License-Identifier: Apache-2.0 */
/* topo_json.h - a topology from its JSON text, and back.
 *
 *     {"nodes": [{"name", "kind": "worker" | "switch" | "server", "gbps",
 *                 "background_gbps", "address"}],
 *      "links": [{"a", "b", "gbps", "delay_us", "background_gbps"}],
 *      "jobs":  [{"name", "workers": [NAME], "servers": [NAME], "weight", "demand_gbps"}]}
 *
 * "gbps" of a node is what a switch can sum (left out: it only forwards), what a server
 * takes in and what a worker sends (left out: as much as its links carry).  Without
 * "jobs" there is one job of all workers and servers. */
#ifndef FAN_PLAN_TOPO_JSON_H
#define FAN_PLAN_TOPO_JSON_H

#include <jansson.h>

#include "topo.h"
#include "topo_make.h"

/* Read and seal.  On error `*t` is empty, and `why` holds JSON path (or line) and cause.
 *
 * FAN_E_CONFIG  it is not what stands above, or makes no sense
 * FAN_E_NOMEM */
int fan_topo_parse(struct fan_topo *t, const char *text, size_t bytes, struct fan_why *why);
int fan_topo_from_json(struct fan_topo *t, const json_t *root, struct fan_why *why);

/* As fan_topo_from_json, with hosts that it has not.  Links without a rate have that of `a`, if it
 * has one; jobs cannot be in it, for there is one, of all hosts. */
int fan_topo_from_json_attach(struct fan_topo *t, const json_t *root, const struct fan_attach *a,
			      struct fan_why *why);

/* A new reference, or NULL without memory. */
json_t *fan_topo_to_json(const struct fan_topo *t);

#endif
