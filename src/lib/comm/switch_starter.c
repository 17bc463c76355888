/* SPDX-License-Identifier: Apache-2.0 */
#include "switch_starter.h"

#include <fanin.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>

#include "core/base/err.h"
#include "lib/base/config.h"
#include "lib/base/fork_guard.h"
#include "lib/base/sized.h"
#include "net/daemon.h"
#include "net/udp.h"

#define ADDRESS_BYTES 80
#define LISTEN	      "127.0.0.1:0" /* where nobody says */

struct fanin_switch {
	struct fan_daemon *d;
	unsigned fork_guard; /* fan_fork_guard() when started */
	char address[ADDRESS_BYTES];
};

_Static_assert(offsetof(struct fanin_switch_options, key_file) + sizeof(char *) ==
		       sizeof(struct fanin_switch_options),
	       "sized.h: no padding at the end");

/* A number that is left open or lies in its range. */
static bool fits(const char *name, int value, int min, int max, char *why)
{
	if (value == -1 || (value >= min && value <= max))
		return true;
	snprintf(why, FAN_CONFIG_WHY_BYTES, "options.%s: \"%d\": expected a number from %d to %d",
		 name, value, min, max);
	return false;
}

/* Fill in `d` from `o`, and from where the options of a communicator come from. */
static int configure(struct fan_daemon_options *d, const struct fanin_switch_options *o, char *why)
{
	struct fanin_options shared = FANIN_OPTIONS_INIT;
	struct fan_config cfg;
	char text[FAN_CONFIG_WHY_BYTES];

	if (!fits("slots", o->slots, 2, FAN_SLOTS_MAX, why) ||
	    !fits("threads", o->threads, 1, FAN_SHARDS_MAX, why))
		return FAN_E_INVALID;
	fan_daemon_defaults(d);
	if (fan_peer_parse(&d->listen, o->listen ? o->listen : LISTEN, text, sizeof text)) {
		snprintf(why, FAN_CONFIG_WHY_BYTES, "options.listen: %.400s", text);
		return FAN_E_INVALID;
	}
	/* A switch is no rank: what variables say of one is not for it, and the smallest job has
	 * the largest fragments. */
	shared.rank = 0;
	shared.ranks = 2;
	shared.mtu = o->mtu;
	shared.multicast = o->multicast;
	shared.key_file = o->key_file;
	int e = fan_config_load_part(&cfg, &shared, why, FAN_CONFIG_WHY_BYTES);
	if (e)
		return e;
	d->core.payload_bytes = cfg.payload_bytes;
	d->core.jobs_max = FAN_GROUPS_MAX;
	d->keys = cfg.keys;
	d->of_tenant = true;
	d->no_multicast = !cfg.multicast;
	if (o->slots != -1)
		d->core.slots = (uint32_t)o->slots;
	if (o->threads != -1)
		d->threads = (unsigned)o->threads;
	return FAN_OK;
}

static int start(const struct fanin_switch_options *given, struct fanin_switch **started, char *why)
{
	static const struct fan_sized kind = {.known = sizeof(struct fanin_switch_options),
					      .least = offsetof(struct fanin_switch_options, slots),
					      .init = "FANIN_SWITCH_OPTIONS_INIT"};
	struct fanin_switch_options o = FANIN_SWITCH_OPTIONS_INIT;
	struct fan_daemon_options d;

	int e = fan_sized_take(&o, &kind, given, why, FAN_CONFIG_WHY_BYTES);
	if (!e)
		e = configure(&d, &o, why);
	if (e)
		return e;
	struct fanin_switch *s = calloc(1, sizeof *s);
	if (!s) {
		snprintf(why, FAN_CONFIG_WHY_BYTES, "%s", fan_err_text(FAN_E_NOMEM));
		return FAN_E_NOMEM;
	}
	s->fork_guard = fan_fork_guard();
	e = fan_daemon_start(&s->d, &d, why, FAN_CONFIG_WHY_BYTES);
	if (e) {
		free(s);
		return e;
	}
	fan_peer at = fan_daemon_address(s->d);
	fan_peer_text(&at, s->address, sizeof s->address);
	*started = s;
	return FAN_OK;
}

int fan_switch_start(const struct fanin_switch_options *options, fanin_switch **started, char *why,
		     size_t why_bytes)
{
	char text[FAN_CONFIG_WHY_BYTES] = "";
	int e = FAN_E_INVALID;

	if (started)
		*started = NULL;
	if (options && started)
		e = start(options, started, text);
	else
		snprintf(text, sizeof text, "%s", fan_err_text(e));
	if (why && why_bytes)
		snprintf(why, why_bytes, "%s", text);
	return e;
}

const char *fan_switch_address(const fanin_switch *running)
{
	return running ? running->address : "";
}

struct fan_daemon *fan_switch_daemon(const fanin_switch *running)
{
	return running->d;
}

void fan_switch_stop(fanin_switch *running, const struct fan_drain *of, int linger_ms)
{
	const struct fan_drain all = {.count = 0};
	if (!running)
		return;
	if (running->fork_guard != fan_fork_guard()) { /* the threads are the parent's */
		fan_daemon_abandon(running->d);
	} else {
		if (linger_ms > 0)
			fan_daemon_drain(running->d, of ? of : &all, linger_ms);
		fan_daemon_stop(running->d);
	}
	free(running);
}
