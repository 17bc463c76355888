/* SPDX-License-Identifier: Apache-2.0 */
/* topo_json.h - topologies to and from JSON, and from GraphML.
 *
 *     {"nodes": [{"name", "kind": "worker" | "switch" | "server", "gbps",
 *                 "background_gbps", "address"}],
 *      "links": [{"a", "b", "gbps", "delay_us", "background_gbps", "directed"}],
 *      "jobs":  [{"name", "workers": [NAME], "servers": [NAME], "weight", "demand_gbps"}]}
 *
 * "gbps" of a node is what a switch can sum (without it, the switch only forwards), what a server
 * takes in, and what a worker sends (without it, as much as their links carry).  Several links
 * between two nodes become one, with the sum of their rates.  "directed" ones are added up for each
 * direction, and the link has the lower of both sums.  Without "jobs" there is one job of all
 * workers and servers.  Other keys except "name" and "comment" are refused. */
#ifndef FAN_PLAN_TOPO_JSON_H
#define FAN_PLAN_TOPO_JSON_H

#include <jansson.h>

#include "topo.h"
#include "topo_make.h"

/* Parse JSON: a new reference, or NULL, and `why` has line, column and cause. */
json_t *fan_json_parse(const char *text, size_t bytes, struct fan_why *why);

/* Read and seal a topology.  On error `*t` is empty, and `why` has JSON path (or line) and cause.
 *
 * FAN_E_CONFIG  it is not as described above, or inconsistent
 * FAN_E_NOMEM */
int fan_topo_parse(struct fan_topo *t, const char *text, size_t bytes, struct fan_why *why);
int fan_topo_from_json(struct fan_topo *t, const json_t *root, struct fan_why *why);

/* As fan_topo_from_json, and add hosts.  Links without a rate have that of `a`, if it has one.
 * "jobs" is refused: there is one job of all hosts. */
int fan_topo_from_json_attach(struct fan_topo *t, const json_t *root, const struct fan_attach *a,
			      struct fan_why *why);

/* Read nodes and links only, and add hosts if `a` is not NULL.  Jobs are ignored, no server is
 * needed, and the topology is not sealed. */
int fan_topo_network(struct fan_topo *t, const json_t *root, const struct fan_attach *a,
		     struct fan_why *why);

/* A topology as JSON: a new reference, or NULL if memory is exhausted. */
json_t *fan_topo_to_json(const struct fan_topo *t);

/* ---- GraphML, as the Topology Zoo and graph editors write it ----
 *
 * Nodes become switches unless their attribute "kind" is worker or server.  Attributes of nodes and
 * edges with the names above are used (gbps, background_gbps, delay_us), and LinkSpeedRaw, in
 * bit/s, of an edge without gbps.  A node's name is its attribute "name", or else its id.  Edges
 * that are directed, by their own attribute or by edgedefault, become directed links; an edge from
 * a node to itself is ignored. */

/* Convert GraphML to JSON for the functions above, which check it: a new reference.  NULL: the text
 * is not XML or not GraphML, or this fanin was built without expat; `why` has line and cause. */
json_t *fan_graphml_to_json(const char *text, size_t bytes, struct fan_why *why);

/* Does the text look like XML rather than JSON? */
bool fan_graphml_is(const char *text, size_t bytes);

/* Parse a text that is GraphML or JSON: a new reference, or NULL with `why`. */
static inline json_t *fan_topo_text(const char *text, size_t bytes, struct fan_why *why)
{
	return fan_graphml_is(text, bytes) ? fan_graphml_to_json(text, bytes, why)
					   : fan_json_parse(text, bytes, why);
}

#endif
