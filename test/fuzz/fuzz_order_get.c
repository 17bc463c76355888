/* SPDX-License-Identifier: Apache-2.0 */
/* What a controller tells a daemon.  What is accepted can be installed or is refused by the
 * switch's core, and never breaks it. */
#include "fuzz.h"

#include "core/base/err.h"
#include "net/order.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static struct fan_order o;
	static struct fan_neighbours n;
	static struct fan_route r;
	char why[FAN_ORDER_WHY_BYTES];
	int err = fan_order_get(&o, (const char *)data, size, why);

	FUZZ_CHECK((err != FAN_OK) == (why[0] != '\0'));
	if (!err && o.kind == FAN_ORDER_NEIGHBOURS) {
		FUZZ_CHECK(o.list && o.neighbours <= FAN_NEIGHBOURS_MAX);
		for (unsigned i = 0; i < o.neighbours; i++)
			FUZZ_CHECK(o.neighbour[i].name[0] && o.neighbour[i].at.port);
		fan_neighbours_set(&n, o.list, o.neighbour, o.neighbours, 0);
	}
	if (err || o.kind != FAN_ORDER_INSTALL)
		return 0;
	FUZZ_CHECK(o.numbered && o.route && o.entries >= 1 && o.entries <= FAN_ROUTE_ENTRIES_MAX);
	const struct fan_route_config c = {
		.number = o.route, .quota = o.quota, .entry = o.entry, .entries = o.entries};
	if (fan_route_set(&r, &c) == FAN_OK)
		FUZZ_CHECK(fan_route_is(&r, &c));
	return 0;
}
