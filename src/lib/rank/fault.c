/* SPDX-License-Identifier: Apache-2.0 */
/* fault.c - the sentence about a communicator's end, and whom it blames. */
#include <assert.h>
#include <stdio.h>

#include "rank.h"

/* The aggregator behind the connection's switch, as far as it may be named for `err`; NULL. */
static const fan_peer *server_of(const struct fan_rank *c, const struct fan_connection *cn, int err)
{
	const fan_peer *planned = &c->parts.job[cn->part].aggregator;
	if (!fan_peer_is_none(&cn->server_addr))
		return &cn->server_addr;
	return c->client.on && (err == FAN_E_STOPPED || err == FAN_E_RESTARTED) &&
			       !fan_peer_is_none(planned)
		       ? planned
		       : NULL;
}

void fan_rank_fault_text(const struct fan_rank *c, const struct fan_connection *cn,
			 const struct fan_fault *f, char *text, size_t bytes)
{
	char addr[80], server[80];
	if (f->err == FAN_E_MTU && cn->path_test.behind_bytes) { /* of all, not of who has told */
		char why[FAN_CONNECTION_WHY_BYTES];
		fan_connection_hole_text(cn, why);
		snprintf(text, bytes, "%s", why);
		return;
	}
	assert(cn->part < c->parts.count);
	const fan_peer *behind = server_of(c, cn, f->err);
	struct fan_fault_about about = {
		.job = c->client.on ? c->parts.job[cn->part].name : c->cfg.job,
		.switch_addr = fan_peer_text(&cn->switch_addr, addr, sizeof addr),
		.server_addr = behind ? fan_peer_text(behind, server, sizeof server) : NULL,
		.rank = (uint16_t)c->cfg.rank,
		.ranks = (uint16_t)c->cfg.ranks,
		.global = c->column.global,
		.rank_at = c->column.rank_at,
		.alive_ms = (uint32_t)c->cfg.alive_ms,
		.timeout_ms = (uint32_t)(f->err == FAN_E_TIMEOUT ? fan_config_join_ms(&c->cfg)
								 : c->cfg.timeout_ms),
		.joined = fan_worker_welcome(cn->w) != NULL,
		.sealed = cn->seal != NULL,
		.answers = cn->failover.answered,
		.refused = cn->refused,
		.system_errno = fan_udp_is_refused(cn->udp.last_errno) ? cn->udp.last_errno : 0,
		.only = c->parts.count == 1,
		.inside = c->parts.inside[cn->part],
		.files = fan_rank_files(c).count,
		.files_max = fan_files_limit(),
	};
	fan_fault_text(text, bytes, f, &about);
	if (f->err == FAN_E_UNREACHABLE && !fan_ranks_count(f->ranks))
		fan_connection_add_redirect(cn, text, bytes);
}

/* The aggregators of other parts tell the other ranks who is to blame. */
void fan_rank_blame_for_silence(struct fan_rank *c, unsigned k)
{
	assert(k < c->parts.count);
	int rank = c->parts.inside[k]; /* of the job; in a column, its rank of that host */
	for (int i = 0; c->column.global && rank >= 0 && i < c->cfg.ranks; i++)
		if (c->column.host_first[i] == c->parts.inside[k])
			rank = i;
	fan_ranks_set(c->fate.blamed, (unsigned)(rank < 0 ? c->cfg.rank : rank));
}
