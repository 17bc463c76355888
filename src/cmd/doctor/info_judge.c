/* SPDX-License-Identifier: Apache-2.0 */
/* info_judge.c - says in words what src/lib/comm/comm.c chooses. */
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "core/base/err.h"
#include "info.h"
#include "lib/base/rendezvous.h"
#include "lib/host/attach.h"

__attribute__((format(printf, 2, 3))) static void add(struct info_sums *s, const char *format, ...)
{
	va_list args;

	if (s->count == INFO_REASONS_MAX)
		return;
	va_start(args, format);
	vsnprintf(s->text[s->count++], INFO_REASON_BYTES, format, args);
	va_end(args);
}

static void judge_local(struct info_sums *s, const struct fan_config *c)
{
	bool asked = fan_host_sharing_is_asked_for(c), named = *c->switch_addr;

	if (named && !asked && !*c->server_addr && !c->hosts)
		add(s, "Each rank sends a stream of its own, because FANIN_HOSTS=0 "
		       "(FANIN_LOCAL=1: ranks of one host sum in shared memory first).");
	else if (fan_host_sharing_is_wanted(c))
		add(s, "%s sum in shared memory first (FANIN_LOCAL=0: they do not).",
		    named && !asked ? "Where ranks are on several hosts, those of each host"
				    : "Ranks of one host");
	else if (!c->local)
		add(s, "Each rank sends a stream of its own, because FANIN_LOCAL=0.");
}

static void judge_seal(struct info_sums *s, const struct fan_config *c)
{
	if (c->keys.count)
		add(s,
		    "Packets are sealed with the key in %.300s; named switches need the fabric's.  "
		    "What ranks share in a host's memory is not encrypted.",
		    c->key_file);
	else
		add(s, "The job is open: anybody on the path can read and change its packets "
		       "(FANIN_KEY_FILE seals it).");
}

static void judge_named(struct info_sums *s, const struct fan_config *c)
{
	unsigned switches = 1;

	for (const char *p = c->switch_addr; (p = strchr(p, ',')); p++)
		switches++;
	if (switches == 1)
		add(s, "The switch %.300s, because it is named.", c->switch_addr);
	else
		add(s, "%u switches, each a share of every tensor, because they are named: %.300s.",
		    switches, c->switch_addr);
	if (*c->server_addr)
		add(s, "If the switch falls silent, ranks continue through the server %.200s.",
		    c->server_addr);
	else if (c->ahead)
		add(s, "Hosts sum nothing, because ranks run ahead of each other.");
	else if (!c->hosts)
		add(s, "Hosts sum nothing, because FANIN_HOSTS=0.");
	else
		add(s,
		    "Where ranks are on several hosts, the first rank of each host sums a share as "
		    "well%s (FANIN_HOSTS=0: named switches sum everything).",
		    c->split ? "; shares follow what is measured"
			     : "; all shares are even, because FANIN_SPLIT=0");
}

static int judge_rendezvous(struct info_sums *s)
{
	struct fan_rendezvous r;
	char why[FAN_CONFIG_WHY_BYTES];
	int e = fan_rendezvous_find(&r, why, sizeof why);

	if (e)
		add(s, "Nothing: %s", why);
	else if (r.one_host)
		add(s,
		    "An embedded switch in rank 0 at %s, because none is named and all ranks are "
		    "on one host.",
		    r.addr);
	else
		add(s,
		    "An aggregator in the first rank of each host, each an even share of every "
		    "tensor, because no switch is named; ranks meet at %s.",
		    r.addr);
	return e;
}

int info_judge(struct info_sums *s, const struct fan_config *c)
{
	char why[FAN_CONFIG_WHY_BYTES];
	int e = 0;

	s->count = 0;
	if (fan_switch_list_check(c, why, sizeof why)) {
		add(s, "Nothing: %s", why);
		return FAN_E_CONFIG;
	}
	if (!*c->controller_addr && !*c->switch_addr && !fan_config_is_rank(c)) {
		add(s, "Nothing: the environment starts no rank here.");
		return 0;
	}
	if (*c->controller_addr)
		add(s, "What the controller %.200s assigns: parts, servers and routes of its plan.",
		    c->controller_addr);
	else if (*c->switch_addr)
		judge_named(s, c);
	else
		e = judge_rendezvous(s);
	if (!e && !*c->controller_addr)
		judge_local(s, c);
	if (!e && !*c->controller_addr)
		judge_seal(s, c);
	return e;
}
