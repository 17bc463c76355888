/* SPDX-License-Identifier: Apache-2.0 */
#include "wait_text.h"

#include <stdio.h>
#include <string.h>

#include "lib/base/fault_text.h"
#include "net/clock.h"
#include "plan_client.h"
#include "rank.h"

#define LIST_BYTES 160

/* The first connection in `phase`; NULL: there is none. */
static const struct fan_connection *find(const struct fan_rank *c, enum fan_worker_phase phase)
{
	for (unsigned i = 0; i < c->connections; i++)
		if (c->connection[i].w && fan_worker_phase(c->connection[i].w) == phase)
			return &c->connection[i];
	return NULL;
}

static void for_switch(const struct fan_rank *c, const struct fan_connection *cn, char *text,
		       size_t bytes)
{
	char addr[80];
	const char *why = cn->short_mtu ? "no answer, and full packets do not fit the path to it"
			  : cn->refused ? "port unreachable"
					: "no answer";
	fan_peer_text(&cn->switch_addr, addr, sizeof addr);
	if (c->parts.inside[cn->part] < 0)
		snprintf(text, bytes, "waits for the switch %s: %s", addr, why);
	else
		snprintf(text, bytes, "waits for the switch inside rank %d at %s: %s",
			 c->parts.inside[cn->part], addr, why);
}

static void for_ranks(const struct fan_rank *c, char *text, size_t bytes)
{
	uint64_t missing[FAN_RANKS_MAX / 64];
	char list[LIST_BYTES] = "";
	const struct fan_connection *cn = find(c, FAN_W_FORMING);
	if (cn && !c->column.global && fan_worker_missing(cn->w, missing))
		fan_fault_ranks_text(list, sizeof list, missing);
	snprintf(text, bytes, "waits for %s of %d to join job \"%s\"", *list ? list : "other ranks",
		 c->cfg.ranks, c->cfg.job);
}

void fan_wait_text(const struct fan_rank *c, uint64_t now_ns, char *text, size_t bytes)
{
	char what[FAN_FAULT_TEXT_BYTES - 32];
	const struct fan_connection *cn = find(c, FAN_W_JOINING);
	uint64_t left_ns = c->when.join_by_ns > now_ns ? c->when.join_by_ns - now_ns : 0;
	if (!c->parts.count)
		fan_plan_client_text(c, what, sizeof what);
	else if (cn)
		for_switch(c, cn, what, sizeof what);
	else if (find(c, FAN_W_FAILED))
		snprintf(
			what, sizeof what,
			"waits for the place of rank %d of job \"%s\", which another process or an "
			"earlier run has",
			c->cfg.rank, c->cfg.job);
	else
		for_ranks(c, what, sizeof what);
	snprintf(text, bytes, "%s; gives up in %.0f s", what, (double)left_ns / (1000.0 * FAN_MS));
}
