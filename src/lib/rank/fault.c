/* SPDX-License-Identifier: Apache-2.0 */
/* fault.c - the sentence about a communicator's end, and whom it blames. */
#include <assert.h>
#include <stdio.h>

#include "rank.h"

/* The aggregator behind the connection's switch, as far as it may be named for `err`; NULL. */
static const fan_peer *server_of(const struct fan_rank *r, const struct fan_connection *cn, int err)
{
	const fan_peer *planned = &r->parts.job[cn->part].aggregator;
	if (!fan_peer_is_none(&cn->server_addr))
		return &cn->server_addr;
	return r->client.on && (err == FAN_E_STOPPED || err == FAN_E_RESTARTED) &&
			       !fan_peer_is_none(planned)
		       ? planned
		       : NULL;
}

void fan_rank_fault_text(const struct fan_rank *r, const struct fan_connection *cn,
			 const struct fan_fault *f, char *text, size_t bytes)
{
	char addr[80], server[80];
	if (f->err == FAN_E_MTU && cn->mtu_probe.behind_bytes) { /* of all, not of who has told */
		char why[FAN_CONNECTION_WHY_BYTES];
		fan_connection_hole_text(cn, why);
		snprintf(text, bytes, "%s", why);
		return;
	}
	assert(cn->part < r->parts.count);
	const fan_peer *behind = server_of(r, cn, f->err);
	struct fan_fault_about about = {
		.job = r->client.on ? r->parts.job[cn->part].name : r->cfg.job,
		.switch_addr = fan_peer_text(&cn->switch_addr, addr, sizeof addr),
		.server_addr = behind ? fan_peer_text(behind, server, sizeof server) : NULL,
		.rank = (uint16_t)r->cfg.rank,
		.ranks = (uint16_t)r->cfg.ranks,
		.global = r->column.global,
		.rank_at = r->column.rank_at,
		.alive_ms = (uint32_t)r->cfg.alive_ms,
		.timeout_ms = (uint32_t)(f->err == FAN_E_TIMEOUT ? fan_config_join_ms(&r->cfg)
								 : r->cfg.timeout_ms),
		.joined = fan_worker_welcome(cn->w) != NULL,
		.sealed = cn->seal != NULL,
		.answers = cn->failover.answered,
		.refused = cn->refused,
		.system_errno = fan_udp_is_refused(cn->udp.last_errno) ? cn->udp.last_errno : 0,
		.only = r->parts.count == 1,
		.inside = r->parts.inside[cn->part],
		.files = fan_rank_files(r).count,
		.files_max = fan_files_limit(),
	};
	fan_fault_text(text, bytes, f, &about);
	if (f->err == FAN_E_UNREACHABLE && !fan_ranks_count(f->ranks))
		fan_connection_add_redirect(cn, text, bytes);
}

/* The aggregators of other parts tell the other ranks who is to blame. */
void fan_rank_blame_for_silence(struct fan_rank *r, unsigned k)
{
	assert(k < r->parts.count);
	int rank = r->parts.inside[k]; /* of the job; in a column, its rank of that host */
	for (int i = 0; r->column.global && rank >= 0 && i < r->cfg.ranks; i++)
		if (r->column.host_first[i] == r->parts.inside[k])
			rank = i;
	fan_ranks_set(r->fate.blamed, (unsigned)(rank < 0 ? r->cfg.rank : rank));
}
