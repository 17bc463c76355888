/* SPDX-License-Identifier: Apache-2.0 */
/* network.h - a network from a description such as "fat-tree:k=4,workers=16", GraphML, or JSON.
 *
 * Planner and simulator share this parser.  The header uses none of the planner's types, so that
 * the simulator, which has its own, can include it. */
#ifndef FAN_PLAN_NETWORK_H
#define FAN_PLAN_NETWORK_H

#include <jansson.h>
#include <stdbool.h>

/* Does `from` describe a network made from numbers (topo_make.h), rather than name a file? */
bool fan_network_is_made(const char *from);

/* The network that `from` describes or, if `text` is not NULL, the one in that text of a file
 * (GraphML or JSON): {"nodes", "links"} as in topo_json.h.  `attach`: hosts to add, written as for
 * --attach, or NULL.  A network made from numbers has a server only if asked for.  Returns a new
 * reference, or NULL with `why`. */
json_t *fan_network_json(const char *from, const char *text, size_t bytes, const char *attach,
			 char *why, size_t why_bytes);

#endif
