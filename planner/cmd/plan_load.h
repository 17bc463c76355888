/* SPDX-License-Identifier: Apache-2.0 */
/* plan_load.h - topologies and plans from files, for `fanin plan` and `fanin controller`. */
#ifndef FAN_CMD_PLAN_LOAD_H
#define FAN_CMD_PLAN_LOAD_H

#include <jansson.h>

#include "cmd/args.h"
#include "plan/topo.h"
#include "plan/topo_make.h"

/* Remove the one argument that is not an option from argv and return it; NULL: there is none. */
const char *plan_take_topology(const struct args_command *c, int *argc, char **argv);

/* Read JSON from a file: a new reference, or NULL with `why`. */
json_t *plan_read_json(const char *path, struct fan_why *why);

/* Load the topology that `from` names: a file of JSON or GraphML, or one made from numbers.  Errors
 * are those of fan_topo_from_json_attach, or FAN_E_SYSTEM. */
int plan_load(struct fan_topo *t, const char *from, const struct fan_attach *attach,
	      struct fan_why *why);

#endif
