/* SPDX-License-Identifier: Apache-2.0 */
#include "parts.h"

#include <assert.h>
#include <string.h>

#include "ends.h"
#include "net/clock.h"
#include "rank.h"
#include "roster.h"
#include "share_meter.h"

/* The most fragments that a rank may have sent without their results; 0: no bound of ours. */
static uint16_t window_of(const struct fan_config *cfg)
{
	int frags = cfg->ahead ? cfg->ahead : cfg->window ? cfg->window : FAN_WINDOW_MAX;
	return (uint16_t)(frags < 2 ? 2 : frags);
}

/* Under a plan, parts of different rates share links: windows in proportion to the rates keep each
 * to its plan.  Without a plan all parts leave by this rank's link, whose queue must not grow with
 * their number.  In 1 / 65536; 0: all. */
static uint16_t window_share(const struct fan_rank *c, const struct fan_job_part *part)
{
	double most = 0;
	if (!c->client.on)
		return 0;
	for (unsigned k = 0; k < c->parts.count; k++)
		most = c->parts.job[k].gbps > most ? c->parts.job[k].gbps : most;
	double share = most > 0 ? part->gbps / most * 65536 : 65536;
	return (uint16_t)(share >= 65536 ? 0 : share < 1 ? 1 : share);
}

/* With several switches on spare hosts, each hears what the others multicast, unless the network
 * tracks who is in a group, and many do not.  Multicast would not relieve the links that are full:
 * an aggregator gets as many bytes as it sends by unicast. */
static bool wants_group(const struct fan_rank *c)
{
	return c->cfg.multicast < 0 ? c->parts.count < 2 || c->client.on : c->cfg.multicast;
}

static struct fan_worker_config worker_config(const struct fan_rank *c,
					      const struct fan_job_part *part, uint64_t now_ns)
{
	const struct fan_config *cfg = &c->cfg;
	uint64_t left_ms = c->when.join_by_ns > now_ns ? (c->when.join_by_ns - now_ns) / FAN_MS : 0;
	struct fan_worker_config w = {
		.rank = (uint16_t)cfg->rank,
		.ranks = (uint16_t)cfg->ranks,
		.payload_bytes = cfg->payload_bytes,
		.window_max = window_of(cfg),
		.burst_max = (uint16_t)(cfg->ahead ? cfg->window : 0),
		.options = (uint8_t)((wants_group(c) ? FAN_JOIN_GROUP : 0) | FAN_JOIN_WIDE |
				     (cfg->wire == FANIN_WIRE_INT8 ? FAN_JOIN_QUAD : 0) |
				     (cfg->ahead ? FAN_JOIN_AHEAD : 0) |
				     (cfg->keys.count ? 0 : FAN_JOIN_RUNS)),
		.congestion = (uint8_t)cfg->congestion,
		.alive_ms = (uint32_t)cfg->alive_ms,
		.rto_min_ms = fan_share_meter_rto_min_ms(c, c->parts.count, false),
		.join_ms = (uint32_t)left_ms + 1,
		.stall_ms = (uint32_t)cfg->timeout_ms,
		.authentic = cfg->keys.count > 0,
		.route = part->route,
		.share = window_share(c, part),
		.nonce = fan_clock_nonce(),
		.launch = cfg->launch,
		.priority = fan_priority_default,
		.cache_frags = (uint32_t)cfg->cache,
	};
	memcpy(w.name, part->name, sizeof w.name);
	return w;
}

void fan_rank_open_connection(struct fan_rank *c, unsigned number, uint64_t now_ns)
{
	assert(number < FAN_SHARDS_MAX);
	struct fan_connection *cn = &c->connection[number];
	assert(cn->part < c->parts.count);
	const struct fan_job_part *part = &c->parts.job[cn->part];
	struct fan_worker_config cfg = worker_config(c, part, now_ns);
	char why[FAN_CONNECTION_WHY_BYTES];
	if (cn->w && fan_worker_fault(cn->w)->err == FAN_E_RANK_TAKEN && !fan_roster_has_rank_of(c))
		cfg.claim = fan_worker_fault(cn->w)->desc_a;
	fan_connection_close(cn);
	cn->number = number;
	cn->again_ns = 0;
	cn->behind = false;
	cn->epoll_fd = c->thread.epoll_fd;
	cn->server_addr = c->server_addr;
	if (!fan_peer_is_none(&c->server_addr))
		cn->server_addr.port += cn->shard;
	const uint8_t *key = c->cfg.keys.count ? c->cfg.keys.key[0] : NULL;
	int e = fan_connection_open(cn, &cfg, &part->at, key, now_ns, why);
	if (e)
		fan_rank_fail(c, e, why);
	else if (c->own)
		fan_connection_shorten(cn, c->own);
}

static void fail_for_shards(struct fan_rank *c)
{
	fan_rank_fail(
		c, FAN_E_SHARDS,
		"the job has more parts, times the threads of their switches, than a rank can be "
		"in: at most 64");
}

/* One more connection: shard `shard` of part `k`. */
static void add_connection(struct fan_rank *c, unsigned k, unsigned shard, uint64_t now_ns)
{
	assert(k < c->parts.count && c->connections < FAN_SHARDS_MAX);
	struct fan_connection *cn = &c->connection[c->connections];
	cn->part = k;
	cn->shard = shard;
	cn->refusals = 0;
	fan_rank_open_connection(c, c->connections, now_ns);
	if (cn->w)
		c->connections++;
}

void fan_rank_open_parts(struct fan_rank *c, uint64_t now_ns)
{
	fan_share_meter_init(c);
	for (unsigned k = 0; k < c->parts.count && !atomic_load(&c->error); k++)
		add_connection(c, k, 0, now_ns);
}

void fan_rank_join_more_parts(struct fan_rank *c, unsigned count)
{
	uint64_t now_ns = fan_clock_ns();
	assert(count <= c->parts.count && !c->ops.running_count);
	if (c->connections + count > FAN_SHARDS_MAX) {
		fail_for_shards(c);
		return;
	}
	c->when.join_by_ns = now_ns + (uint64_t)fan_config_join_ms(&c->cfg) * FAN_MS;
	fan_share_meter_init(c);
	for (unsigned k = c->parts.count - count; k < c->parts.count && !atomic_load(&c->error);
	     k++)
		add_connection(c, k, 0, now_ns);
}

/* Each connection of a part has its share of the plan's rate. */
void fan_rank_set_rate_limit(struct fan_rank *c, unsigned k)
{
	assert(k < c->parts.count);
	for (unsigned i = 0; i < c->connections && c->parts.shards[k]; i++)
		if (c->connection[i].part == k)
			fan_connection_set_rate_limit(&c->connection[i],
						      c->parts.job[k].gbps * c->cfg.pace / 100 /
							      c->parts.shards[k]);
}

void fan_rank_set_shards(struct fan_rank *c, unsigned k, unsigned shards)
{
	c->parts.shards[k] = shards;
	fan_rank_set_rate_limit(c, k);
}

void fan_rank_open_shards(struct fan_rank *c, unsigned k, uint64_t now_ns)
{
	unsigned first = 0;
	assert(k < c->parts.count);
	if (c->parts.shards[k])
		return;
	while (c->connection[first].part != k || c->connection[first].shard)
		first++; /* ends: each part has one to its first shard */
	assert(first < c->connections);
	const struct fan_welcome *m = fan_worker_welcome(c->connection[first].w);
	if (!m)
		return;
	unsigned shards = m->shards < FAN_SHARDS_MAX ? m->shards : FAN_SHARDS_MAX;
	if (c->connections + shards - 1 > FAN_SHARDS_MAX) {
		fail_for_shards(c);
		return;
	}
	for (unsigned i = 1; i < shards && !atomic_load(&c->error); i++)
		add_connection(c, k, i, now_ns);
	fan_rank_set_shards(c, k, shards ? shards : 1);
}
