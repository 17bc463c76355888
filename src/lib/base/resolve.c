/* SPDX-License-Identifier: Apache-2.0 */
#include "resolve.h"

#include <stdio.h>
#include <time.h>

#include "core/base/err.h"
#include "fault_text.h"
#include "net/clock.h"
#include "net/udp.h"

#define PAUSE_MS 250

static void tell(const struct fan_config *cfg, const char *name, uint64_t left_ns)
{
	char text[FAN_FAULT_TEXT_BYTES];
	snprintf(text, sizeof text,
		 "waits for the address of \"%.300s\": no such name so far; gives up in %.0f s",
		 name, (double)left_ns / (1000.0 * FAN_MS));
	cfg->waiting(cfg->waiting_arg, text);
}

int fan_resolve(fan_peer *to, const char *text, const struct fan_config *cfg, char *why,
		size_t bytes)
{
	const uint64_t begin_ns = fan_clock_ns();
	const uint64_t until_ns = begin_ns + (uint64_t)fan_config_join_ms(cfg) * FAN_MS;
	uint64_t tell_ns = begin_ns + FAN_CONFIG_NOTE_FIRST_MS * FAN_MS;
	int e;
	while ((e = fan_peer_parse(to, text, why, bytes)) == FAN_PEER_UNKNOWN) {
		const uint64_t now_ns = fan_clock_ns();
		if (now_ns + PAUSE_MS * FAN_MS >= until_ns)
			break;
		if (cfg->waiting && now_ns >= tell_ns) {
			tell(cfg, text, until_ns - now_ns);
			tell_ns = fan_clock_ns() + FAN_CONFIG_NOTE_MS * FAN_MS;
		}
		nanosleep(&(struct timespec){.tv_nsec = PAUSE_MS * FAN_MS}, NULL);
	}
	return e ? FAN_E_CONFIG : FAN_OK;
}
