/* SPDX-License-Identifier: Apache-2.0 */
/* network.h - a network from what people have: "fat-tree:k=4,workers=16", GraphML, or JSON.
 *
 * One parser for planner and simulator.  This header has none of the planner's types, so that
 * whoever has a node or a link of its own can include it. */
#ifndef FAN_PLAN_NETWORK_H
#define FAN_PLAN_NETWORK_H

#include <jansson.h>
#include <stdbool.h>

/* Is it of the form that is made from numbers (topo_make.h), and no file's name? */
bool fan_network_is_made(const char *from);

/* The network that `from` says, or that the text of a file is (GraphML or JSON; then `from` is not
 * looked at): {"nodes", "links"} as in topo_json.h.  `attach`: hosts for it, as --attach has them,
 * or NULL.  What is made has a server only if that is asked for.  A new reference; NULL with
 * `why`. */
json_t *fan_network_json(const char *from, const char *text, size_t bytes, const char *attach,
			 char *why, size_t why_bytes);

#endif
