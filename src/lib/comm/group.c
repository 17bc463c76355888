/* SPDX-License-Identifier: Apache-2.0 */
/* group.c - a communicator of some ranks of another one.
 *
 * A group is a job of its own at the aggregators that its ranks know already, so it needs no
 * meeting: ranks of one host exchange nothing but the segment that they share, and between hosts
 * there is one JOIN for each part, but for parts that its parent has lost.  Its window is small, so
 * that many groups fit a switch. */
#include <assert.h>
#include <stdio.h>
#include <string.h>

#include "comm.h"
#include "lib/host/attach.h"
#include "meeting.h"

#define NAME_BYTES   24
#define SUFFIX_BYTES (NAME_BYTES + 12)

/* The rank in the group of the communicator's rank `rank`; -1: it is not in the group. */
static int place_of(const int *ranks, int count, int rank)
{
	for (int i = 0; i < count; i++)
		if (ranks[i] == rank)
			return i;
	return -1;
}

static bool are_ranks(const struct fanin_comm *of, const int *ranks, int count)
{
	bool seen[FAN_RANKS_MAX] = {false};
	if (count < 2 || count > of->rank.cfg.ranks)
		return false;
	for (int i = 0; i < count; i++) {
		if (ranks[i] < 0 || ranks[i] >= of->rank.cfg.ranks || seen[ranks[i]])
			return false;
		seen[ranks[i]] = true;
	}
	return seen[of->rank.cfg.rank];
}

static bool is_name(const char *name)
{
	size_t n = strnlen(name, NAME_BYTES + 1);
	for (size_t i = 0; i < n; i++)
		if (name[i] <= ' ' || name[i] == '"' || name[i] > '~')
			return false;
	return n >= 1 && n <= NAME_BYTES;
}

/* Configure the group as `of` is, with a job and a window of its own.  Ranks that name different
 * members meet in different jobs. */
static void configure(struct fanin_comm *g, const struct fanin_comm *of,
		      const struct fan_comm_among *among)
{
	const int *ranks = among->ranks, count = among->count;
	char suffix[SUFFIX_BYTES];
	uint64_t h = fan_hash(FAN_HASH_START, ranks, (size_t)count * sizeof *ranks);
	g->rank.cfg = of->rank.cfg;
	g->rank.cfg.rank = place_of(ranks, count, of->rank.cfg.rank);
	assert(g->rank.cfg.rank >= 0);
	g->rank.cfg.ranks = count;
	g->rank.cfg.join_ms = among->join_ms < 0 ? 0 : among->join_ms;
	if (among->timeout_ms >= 0)
		g->rank.cfg.timeout_ms = among->timeout_ms;
	fan_config_set_payload(&g->rank.cfg);
	if (!g->rank.cfg.window && !g->rank.cfg.ahead)
		g->rank.cfg.window = FAN_COMM_GROUP_WINDOW;
	snprintf(suffix, sizeof suffix, "/%s~%08x", among->name, (unsigned)(h >> 32 ^ h));
	fan_rendezvous_derive(g->rank.cfg.job, of->rank.cfg.job, suffix);
}

/* The hosts of its ranks, in the order of its ranks. */
static void find_hosts(struct fan_meeting *m, const struct fan_meeting *of, const int *ranks,
		       int count, const char *job)
{
	unsigned at[FAN_MEETING_HOSTS_MAX] = {0};
	memset(m, 0, sizeof *m);
	for (int i = 0; i < count; i++) {
		unsigned old = of->host_of[ranks[i]], h = 0;
		while (h < m->hosts && at[h] != old)
			h++;
		m->host_of[i] = (uint16_t)(old < of->hosts ? h : FAN_MEETING_HOSTS_MAX);
		if (old >= of->hosts)
			continue;
		assert(h < FAN_MEETING_HOSTS_MAX);
		if (h == m->hosts) {
			at[m->hosts++] = old;
			m->host[h] = of->host[old];
			m->host[h].first = (uint16_t)i;
			m->host[h].ranks = 0;
			m->host[h].nonce ^= fan_hash(FAN_HASH_START, job, strlen(job));
		}
		m->host[h].ranks++;
	}
}

/* Parts at the named switches, and at the aggregators of the hosts on which it has ranks. */
static void find_parts(struct fanin_comm *g, const struct fan_comm_places *p, const int *ranks,
		       int count)
{
	const uint16_t *host_of = p->ranks.host_of;
	for (unsigned k = 0; k < p->count; k++) {
		struct fan_rank_part part = p->part[k];
		bool here = part.inside < 0;
		for (int i = 0; i < count && !here; i++)
			here = host_of[ranks[i]] == host_of[part.inside];
		if (!here && (g->rank.parts.count || k + 1 < p->count)) /* somebody sums */
			continue;
		if (part.inside >= 0)
			part.inside = place_of(ranks, count, part.inside);
		g->rank.parts.of[g->rank.parts.count] = (uint8_t)k;
		g->places.part[g->places.count++] = part;
		fan_rank_add_part(&g->rank, &part, "");
	}
}

/* At named switches a group shares memory only if all ranks have asked: columns take jobs of the
 * switch, which are left to the communicators that programs begin with. */
static bool shares_memory(const struct fanin_comm *g, const struct fanin_comm *of)
{
	const struct fan_meeting *m = &g->places.ranks;
	bool asked = of->places.ranks.ask_to_share == (unsigned)of->rank.cfg.ranks;
	bool needs_no_switch = m->hosts == 1 || !*g->rank.cfg.switch_addr;
	return of->rank.host && fan_host_sharing_pays(m) && (asked || needs_no_switch);
}

static int open_group(struct fanin_comm *g, const struct fanin_comm *of,
		      const struct fan_comm_places *places, const int *ranks, int count,
		      bool together)
{
	find_hosts(&g->places.ranks, &places->ranks, ranks, count, g->rank.cfg.job);
	find_parts(g, places, ranks, count);
	g->rank.server_addr = of->rank.server_addr;
	if (places == &of->places) /* else what is left of them */
		g->rank.parent = &of->rank;
	snprintf(g->switch_text, sizeof g->switch_text, "%s", of->switch_text);
	if (shares_memory(g, of))
		return fan_comm_share_memory(g, together);
	return FAN_OK;
}

int fan_comm_create_among(struct fanin_comm *of, const struct fan_comm_among *among,
			  struct fanin_comm **comm)
{
	struct fanin_comm *g = *comm = fan_comm_new();
	if (!g)
		return FAN_E_NOMEM;
	configure(g, of, among);
	g->embedded = fan_embedded_switch_share(among->embedded);
	g->rank.own = fan_embedded_switch_daemon(g->embedded);
	int e = open_group(g, of, among->places, among->ranks, among->count, among->together);
	if (!e)
		e = fan_rank_begin(&g->rank);
	if (!e)
		fan_comm_complete(g);
	return e;
}

static bool is_time(int ms)
{
	return ms < 0 || (ms >= FAN_CONFIG_WAIT_MIN_MS && ms <= FAN_CONFIG_WAIT_MAX_MS);
}

int fan_comm_create_group(struct fanin_comm *of, const char *name, const int *ranks, int count,
			  int timeout_ms, int join_ms, struct fanin_comm **comm)
{
	const struct fan_comm_among among = {.name = name,
					     .ranks = ranks,
					     .count = count,
					     .places = &of->places,
					     .embedded = of->embedded,
					     .timeout_ms = timeout_ms,
					     .join_ms = join_ms};
	if (fan_rank_is_forked(&of->rank))
		return FAN_E_CLOSED;
	if (!is_name(name) || !are_ranks(of, ranks, count) || !is_time(timeout_ms) ||
	    !is_time(join_ms))
		return FAN_E_INVALID;
	if (*of->rank.cfg.controller_addr) /* its plan names jobs, and not this one */
		return FAN_E_INVALID;
	return fan_comm_create_among(of, &among, comm);
}
