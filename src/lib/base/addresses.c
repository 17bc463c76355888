/* SPDX-License-Identifier: Apache-2.0 */
#include "addresses.h"

#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "core/base/err.h"
#include "fault_text.h"
#include "net/clock.h"
#include "net/udp.h"
#include "plan_msg.h"

#define ONE_BYTES 300 /* longer ones are no addresses */
#define PAUSE_MS  250

static int check_one(const char *what, const char *text, char *why, size_t bytes)
{
	char wrong[FAN_CONFIG_WHY_BYTES];
	if (!fan_peer_check(text, wrong, sizeof wrong))
		return FAN_OK;
	snprintf(why, bytes, "%s: %.400s", what, wrong);
	return FAN_E_CONFIG;
}

/* Is `one` of `length` bytes in `list`, which ends before it? */
static bool is_there(const char *list, const char *one, size_t length)
{
	while (list < one) {
		size_t n = strcspn(list, ",");
		if (n == length && !memcmp(list, one, n))
			return true;
		list += n + 1;
	}
	return false;
}

static int check_switches(const char *list, char *why, size_t bytes)
{
	unsigned count = 0;
	const char *one = list;
	for (bool more = *list; more;) {
		char text[ONE_BYTES];
		size_t n = strcspn(one, ",");
		snprintf(text, sizeof text, "%.*s", (int)n, one);
		int e = check_one("switch", text, why, bytes);
		if (!e && count++ == FAN_PARTS_MAX) {
			snprintf(why, bytes, "switch %.100s: expected at most %d switches", text,
				 FAN_PARTS_MAX);
			e = FAN_E_CONFIG;
		} else if (!e && is_there(list, one, n)) {
			snprintf(why, bytes, "switch %.100s: named twice: expected different ones",
				 text);
			e = FAN_E_CONFIG;
		}
		if (e)
			return e;
		more = one[n];
		one += n + 1;
	}
	return FAN_OK;
}

int fan_switch_list_check(const struct fan_config *c, char *why, size_t bytes)
{
	int e = check_switches(c->switch_addr, why, bytes);
	if (!e && *c->server_addr)
		e = check_one("server", c->server_addr, why, bytes);
	if (!e && *c->controller_addr)
		e = check_one("controller", c->controller_addr, why, bytes);
	if (e || !*c->server_addr || !strchr(c->switch_addr, ','))
		return e;
	snprintf(why, bytes,
		 "server with several switches: expected one switch, or no server: each switch "
		 "knows its own");
	return FAN_E_CONFIG;
}

static void report_address(const struct fan_config *cfg, const char *name, uint64_t left_ns)
{
	char text[FAN_FAULT_TEXT_BYTES];
	snprintf(text, sizeof text,
		 "waits for the address of \"%.300s\": no such name so far; gives up in %" PRIu64
		 " s",
		 name, left_ns / (1000 * FAN_MS) + 1);
	cfg->waiting(cfg->waiting_arg, text);
}

int fan_resolve_all(fan_peer *to, unsigned max, unsigned *count, const char *text,
		    const struct fan_config *cfg, char *why, size_t bytes)
{
	const uint64_t begin_ns = fan_clock_ns();
	const uint64_t until_ns = begin_ns + (uint64_t)fan_config_join_ms(cfg) * FAN_MS;
	uint64_t tell_ns = begin_ns + (uint64_t)fan_config_note_first_ms(cfg) * FAN_MS;
	int e;
	while ((e = fan_peer_parse_all(to, max, count, text, why, bytes)) == FAN_PEER_UNKNOWN) {
		const uint64_t now_ns = fan_clock_ns();
		if (now_ns + PAUSE_MS * FAN_MS >= until_ns)
			break;
		if (cfg->waiting && now_ns >= tell_ns) {
			report_address(cfg, text, until_ns - now_ns);
			tell_ns = fan_clock_ns() + FAN_CONFIG_NOTE_MS * FAN_MS;
		}
		nanosleep(&(struct timespec){.tv_nsec = PAUSE_MS * FAN_MS}, NULL);
	}
	return e ? FAN_E_CONFIG : FAN_OK;
}
