/* SPDX-License-Identifier: Apache-2.0 */
/* fanin_switch.c - the public functions about a switch inside the process of a library's user. */
#include <fanin.h>

#include "lib/comm/switch_starter.h"

int fanin_switch_start(const struct fanin_switch_options *options, fanin_switch **started,
		       char *why, size_t why_bytes)
{
	return fan_switch_start(options, started, why, why_bytes);
}

const char *fanin_switch_address(const fanin_switch *running)
{
	return fan_switch_address(running);
}

void fanin_switch_stop(fanin_switch *running, int linger_ms)
{
	fan_switch_stop(running, NULL, linger_ms);
}
