/* SPDX-License-Identifier: Apache-2.0 */
/* order.h - decoding of a controller's lines to a daemon.
 *
 *     {"id":7,"install":{"route":3,"quota":0,"entries":[
 *             {"from":"10.0.0.2:7000" or null,"ranks":"0-3,7","next":"10.0.0.5:7000",
 *              "depth":2,"sums":true}]}}
 *     {"id":8,"remove":3}
 *     {"neighbours":{"number":5,"of":[{"name":"S2","at":"10.0.0.5:7000"}]}}
 *     {"refused":"text"}
 *
 * Pure: no socket, no clock.  Addresses are numbers, never names to be looked up. */
#ifndef FAN_ORDER_H
#define FAN_ORDER_H

#include <stddef.h>

#include "core/wire/route_table.h"
#include "neighbours.h"

#define FAN_ORDER_WHY_BYTES 256 /* of any error text */

enum fan_order_kind {
	FAN_ORDER_INSTALL,
	FAN_ORDER_REMOVE,
	FAN_ORDER_NEIGHBOURS,
	FAN_ORDER_REFUSED,
	FAN_ORDER_OTHER, /* unknown: ignored */
};

struct fan_order {
	enum fan_order_kind kind;
	int64_t id;    /* of INSTALL and REMOVE, for the answer */
	bool numbered; /* `id` is set, even on error */
	uint16_t route;
	uint32_t quota;
	unsigned entries;
	struct fan_route_entry entry[FAN_ROUTE_ENTRIES_MAX]; /* for shard 0 */
	uint32_t list; /* NEIGHBOURS: the number of the list */
	unsigned neighbours;
	struct fan_neighbour neighbour[FAN_NEIGHBOURS_MAX];
	char refused[FAN_ORDER_WHY_BYTES];
};

/* Decode the line of `bytes` bytes at `text`.  FAN_OK; or FAN_E_CONFIG and the error in `why`,
 * FAN_ORDER_WHY_BYTES. */
int fan_order_get(struct fan_order *o, const char *text, size_t bytes, char *why);

#endif
