/* SPDX-License-Identifier: Apache-2.0 */
/* topo_json.h - a topology from its JSON text, and back.
 *
 *     {"nodes": [{"name", "kind": "worker" | "switch" | "server", "gbps",
 *                 "background_gbps", "address"}],
 *      "links": [{"a", "b", "gbps", "delay_us", "background_gbps", "directed"}],
 *      "jobs":  [{"name", "workers": [NAME], "servers": [NAME], "weight", "demand_gbps"}]}
 *
 * "gbps" of a node is what a switch can sum (left out: it only forwards), what a server
 * takes in and what a worker sends (left out: as much as its links carry).  Several links between
 * two nodes are one, with the sum of their rates; of those that are "directed", each direction has
 * a sum of its own, and the link the lower one.  Without "jobs" there is one job of all workers and
 * servers.  Other keys are refused, but for "name" and "comment". */
#ifndef FAN_PLAN_TOPO_JSON_H
#define FAN_PLAN_TOPO_JSON_H

#include <jansson.h>

#include "topo.h"
#include "topo_make.h"

/* The JSON that a text is: a new reference, or NULL with line, column and cause. */
json_t *fan_json_parse(const char *text, size_t bytes, struct fan_why *why);

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

/* Nodes and links alone, with hosts added if `a` is not NULL: jobs in it are not looked at, there
 * need be no server, and nothing is sealed. */
int fan_topo_network(struct fan_topo *t, const json_t *root, const struct fan_attach *a,
		     struct fan_why *why);

/* A new reference, or NULL without memory. */
json_t *fan_topo_to_json(const struct fan_topo *t);

/* ---- GraphML, as the Topology Zoo and graph editors write it ----
 *
 * Nodes become switches unless their attribute "kind" says worker or server; attributes of nodes
 * and edges by the names above count (gbps, background_gbps, delay_us), and LinkSpeedRaw, in bit/s,
 * for an edge without gbps.  A node's name is its attribute "name", or else its id.  Edges that are
 * directed, by themselves or by edgedefault, are links that are; one that ends where it begins is
 * none. */

/* Convert GraphML to JSON for the functions above, which check it: a new reference.  NULL: not XML,
 * no GraphML, or this fanin was built without expat, and `why` has line and cause. */
json_t *fan_graphml_to_json(const char *text, size_t bytes, struct fan_why *why);

/* Does it look like XML and not like JSON? */
bool fan_graphml_is(const char *text, size_t bytes);

/* The JSON of a text that is GraphML or JSON: a new reference, or NULL with `why`. */
static inline json_t *fan_topo_text(const char *text, size_t bytes, struct fan_why *why)
{
	return fan_graphml_is(text, bytes) ? fan_graphml_to_json(text, bytes, why)
					   : fan_json_parse(text, bytes, why);
}

#endif
